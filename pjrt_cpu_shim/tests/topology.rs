//! Slices: devices of a client, topologies by name, compiling without a client.

mod common;

use common::*;
use pjrt_ffi::*;

fn by_name(name: &str) -> Result<*mut PJRT_TopologyDescription, Failure> {
    let mut args = PJRT_TopologyDescription_Create_Args::new();
    args.topology_name = name.as_ptr().cast();
    args.topology_name_size = name.len();
    call(slot::PJRT_TopologyDescription_Create, &mut args).map(|()| args.topology)
}

fn destroy_topology(topology: *mut PJRT_TopologyDescription) {
    let mut args = PJRT_TopologyDescription_Destroy_Args::new();
    args.topology = topology;
    call(slot::PJRT_TopologyDescription_Destroy, &mut args).unwrap();
}

fn descriptions(topology: *mut PJRT_TopologyDescription) -> Vec<*mut PJRT_DeviceDescription> {
    let mut args = PJRT_TopologyDescription_GetDeviceDescriptions_Args::new();
    args.topology = topology;
    call(slot::PJRT_TopologyDescription_GetDeviceDescriptions, &mut args).unwrap();
    // SAFETY: the topology owns the list.
    unsafe { std::slice::from_raw_parts(args.descriptions, args.num_descriptions) }.to_vec()
}

fn kind(device: *mut PJRT_DeviceDescription) -> String {
    let mut args = PJRT_DeviceDescription_Kind_Args::new();
    args.device_description = device;
    call(slot::PJRT_DeviceDescription_Kind, &mut args).unwrap();
    text(args.device_kind, args.device_kind_size)
}

fn debug(device: *mut PJRT_DeviceDescription) -> (String, String) {
    let mut debug = PJRT_DeviceDescription_DebugString_Args::new();
    debug.device_description = device;
    call(slot::PJRT_DeviceDescription_DebugString, &mut debug).unwrap();
    let mut short = PJRT_DeviceDescription_ToString_Args::new();
    short.device_description = device;
    call(slot::PJRT_DeviceDescription_ToString, &mut short).unwrap();
    (
        text(debug.debug_string, debug.debug_string_size),
        text(short.to_string, short.to_string_size),
    )
}

/// Attributes as text, sorted by name.
fn attributes(device: *mut PJRT_DeviceDescription) -> Vec<String> {
    let mut args = PJRT_DeviceDescription_Attributes_Args::new();
    args.device_description = device;
    call(slot::PJRT_DeviceDescription_Attributes, &mut args).unwrap();
    // SAFETY: the description owns the list, and the type tells the union's field.
    let mut all: Vec<String> = unsafe { std::slice::from_raw_parts(args.attributes, args.num_attributes) }
        .iter()
        .map(|value| {
            let name = text(value.name, value.name_size);
            // SAFETY: as above.
            unsafe {
                match value.type_ {
                    1 => format!("{name}={}", value.__bindgen_anon_1.int64_value),
                    2 => {
                        let list = value.__bindgen_anon_1.int64_array_value;
                        format!("{name}={:?}", std::slice::from_raw_parts(list, value.value_size))
                    }
                    other => format!("{name} of type {other}"),
                }
            }
        })
        .collect();
    all.sort();
    all
}

fn of_device(device: *mut PJRT_Device) -> *mut PJRT_DeviceDescription {
    let mut args = PJRT_Device_GetDescription_Args::new();
    args.device = device;
    call(slot::PJRT_Device_GetDescription, &mut args).unwrap();
    args.device_description
}

#[test]
fn devices_look_like_a_v6e_slice() {
    on_each_plugin(
        "devices_look_like_a_v6e_slice",
        &[("TORCH_TPU_SIM_TOPOLOGY", "v6e:2x4")],
        || {
            let client = Client::create().unwrap();
            assert_eq!(client.devices.len(), 8);
            let device = of_device(client.devices[3]);
            assert_eq!(kind(device), "TPU v6 lite");
            assert_eq!(
                debug(device),
                (
                    "TPU_3(process=0,(1,1,0,0))".to_owned(),
                    "TpuDevice(id=3, process_index=0, coords=(1,1,0), core_on_chip=0)".to_owned()
                )
            );
            assert_eq!(
                attributes(device),
                [
                    "coords=[1, 1, 0]",
                    "core_on_chip=0",
                    "device_memory_bytes_limit=33546039296",
                    "num_cores=1",
                    "simulated=1"
                ]
            );
            let mut id = PJRT_DeviceDescription_Id_Args::new();
            id.device_description = device;
            call(slot::PJRT_DeviceDescription_Id, &mut id).unwrap();
            assert_eq!(id.id, 3);
            let mut version = PJRT_Client_PlatformVersion_Args::new();
            version.client = client.raw;
            call(slot::PJRT_Client_PlatformVersion, &mut version).unwrap();
            let version = text(version.platform_version, version.platform_version_size);
            assert!(
                version.contains("v6e:2x4") && version.contains("PJRT API 0.1"),
                "{version}"
            );
            client.destroy();
        },
    );
}

#[test]
fn every_slice_can_be_named_without_a_client() {
    on_each_plugin("every_slice_can_be_named_without_a_client", &[], || {
        for (name, device_kind, count) in [
            ("v6e:1x1", "TPU v6 lite", 1),
            ("v6e:4x4", "TPU v6 lite", 16),
            ("v5e:2x2", "TPU v5 lite", 4),
            ("v5p:2x2x1", "TPU v5", 4),
            ("v4:2x2x1", "TPU v4", 8),
        ] {
            let topology = by_name(name).unwrap();
            let devices = descriptions(topology);
            assert_eq!(devices.len(), count, "{name}");
            assert!(
                devices.iter().all(|&device| kind(device) == device_kind),
                "{name}"
            );

            let mut serialized = PJRT_TopologyDescription_Serialize_Args::new();
            serialized.topology = topology;
            call(slot::PJRT_TopologyDescription_Serialize, &mut serialized).unwrap();
            let mut again = PJRT_TopologyDescription_Deserialize_Args::new();
            again.serialized_topology = serialized.serialized_bytes;
            again.serialized_topology_size = serialized.serialized_bytes_size;
            call(slot::PJRT_TopologyDescription_Deserialize, &mut again).unwrap();
            // SAFETY: once, on what the call returned.
            unsafe { serialized.serialized_topology_deleter.unwrap()(serialized.serialized_topology) };
            let fingerprint = |topology| {
                let mut args = PJRT_TopologyDescription_Fingerprint_Args::new();
                args.topology = topology;
                call(slot::PJRT_TopologyDescription_Fingerprint, &mut args).unwrap();
                args.fingerprint
            };
            assert_eq!(fingerprint(topology), fingerprint(again.topology), "{name}");
            assert_eq!(descriptions(again.topology).len(), count);
            destroy_topology(again.topology);
            destroy_topology(topology);
        }
        let error = by_name("v6e:3x3").unwrap_err();
        assert_eq!(error.code, INVALID_ARGUMENT);
        assert!(error.message.contains("v6e:3x3"), "{error:?}");
        let mut foreign = PJRT_TopologyDescription_Deserialize_Args::new();
        foreign.serialized_topology = c"\n\x03tpu".as_ptr();
        foreign.serialized_topology_size = 5;
        assert_eq!(
            call(slot::PJRT_TopologyDescription_Deserialize, &mut foreign)
                .unwrap_err()
                .code,
            INVALID_ARGUMENT
        );
    });
}

#[test]
fn a_program_compiled_without_a_client_loads_and_runs() {
    on_each_plugin("a_program_compiled_without_a_client_loads_and_runs", &[], || {
        let topology = by_name("v6e:1x1").unwrap();
        let compile_adder = |n: usize| {
            let source = add(n, "");
            let mut program = program(&source);
            let mut compile = PJRT_Compile_Args::new();
            compile.topology = topology;
            compile.program = &mut program;
            compile.compile_options = OPTIONS.as_ptr().cast();
            compile.compile_options_size = OPTIONS.len();
            call(slot::PJRT_Compile, &mut compile).map(|()| compile)
        };
        let compile = compile_adder(4).unwrap();
        // Three arrays of 16 GB do not fit a chip of 33.5 GB.
        let error = compile_adder(4_000_000_000).err().unwrap();
        assert_eq!(error.code, RESOURCE_EXHAUSTED, "{error:?}");
        assert!(
            error.message.contains("adder needs 48000000000 bytes"),
            "{error:?}"
        );
        destroy_topology(topology);

        let mut cost = PJRT_Executable_GetCostAnalysis_Args::new();
        cost.executable = compile.executable;
        call(slot::PJRT_Executable_GetCostAnalysis, &mut cost).unwrap();
        // SAFETY: the executable owns the properties.
        let properties = unsafe { std::slice::from_raw_parts(cost.properties, cost.num_properties) };
        let get = |wanted: &str| {
            let found = properties
                .iter()
                .find(|value| text(value.name, value.name_size) == wanted);
            // SAFETY: cost properties are floats.
            unsafe { found.expect(wanted).__bindgen_anon_1.float_value }
        };
        assert_eq!(
            (get("flops"), get("bytes accessed"), get("transcendentals")),
            (4.0, 48.0, 0.0)
        );

        let client = Client::create().unwrap();
        let mut load = PJRT_Client_Load_Args::new();
        load.client = client.raw;
        load.executable = compile.executable;
        call(slot::PJRT_Client_Load, &mut load).unwrap();
        let mut destroy_it = PJRT_Executable_Destroy_Args::new();
        destroy_it.executable = compile.executable;
        call(slot::PJRT_Executable_Destroy, &mut destroy_it).unwrap();
        let a = client.upload(0, &[1.0, 2.0, 3.0, 4.0]).unwrap();
        let (sum, _) = execute(load.loaded_executable, &[a, a], false).unwrap();
        assert_eq!(download(sum, 4).unwrap(), [2.0, 4.0, 6.0, 8.0]);
        destroy(sum);
        destroy(a);
        destroy_executable(load.loaded_executable);
        client.destroy();
    });
}

#[test]
fn memory_descriptions_match_the_real_memory_spaces() {
    on_each_plugin("memory_descriptions_match_the_real_memory_spaces", &[], || {
        #[repr(C)]
        struct Describe {
            struct_size: usize,
            extension_start: usize,
            device: *mut PJRT_DeviceDescription,
            memories: *const *mut u8,
            count: usize,
            default: usize,
        }
        #[repr(C)]
        struct Kind {
            struct_size: usize,
            extension_start: usize,
            memory: *mut u8,
            kind: *const std::ffi::c_char,
            kind_size: usize,
            kind_id: i32,
        }
        #[repr(C)]
        struct Extension {
            base: PJRT_Extension_Base,
            describe: unsafe extern "C" fn(*mut Describe) -> *mut PJRT_Error,
            kind: unsafe extern "C" fn(*mut Kind) -> *mut PJRT_Error,
        }
        let client = Client::create().unwrap();
        // SAFETY: the extension structs are as the public header declares them.
        unsafe {
            let head = (*pjrt_cpu_shim::GetPjrtApi()).extension_start;
            let found =
                find_extension(head, extension_kind::MEMORY_DESCRIPTIONS).expect("MemoryDescriptions");
            let extension = found.cast::<Extension>().as_ref();
            let mut args: Describe = std::mem::zeroed();
            args.struct_size = size_of::<Describe>();
            args.device = of_device(client.devices[0]);
            failure((extension.describe)(&mut args)).unwrap();
            assert_eq!((args.count, args.default), (3, 0));
            for at in 0..args.count {
                let mut kind: Kind = std::mem::zeroed();
                kind.struct_size = size_of::<Kind>();
                kind.memory = *args.memories.add(at);
                failure((extension.kind)(&mut kind)).unwrap();
                let mut real = PJRT_Memory_Kind_Id_Args::new();
                real.memory = client.memory(0, &text(kind.kind, kind.kind_size));
                call(slot::PJRT_Memory_Kind_Id, &mut real).unwrap();
                assert_eq!(real.kind_id, kind.kind_id);
            }
            // Nothing that would hand our topologies to the CPU plugin is left in the chain.
            assert!(find_extension(head, extension_kind::PHASE_COMPILE).is_none());
        }
        client.destroy();
    });
}

#[test]
fn create_options_are_checked_by_name() {
    on_each_plugin(
        "create_options_are_checked_by_name",
        &[("TORCH_TPU_SIM_TOPOLOGY", "v6e:2x2")],
        || {
            call(
                slot::PJRT_Plugin_Initialize,
                &mut PJRT_Plugin_Initialize_Args::new(),
            )
            .unwrap();
            for options in [
                vec![int_option("cpu_device_count", 4)],
                vec![
                    int_option("cpu_device_count", 1),
                    int_option("max_inflight_computations", 8),
                ],
            ] {
                let client = Client::create_with(&options).unwrap();
                assert_eq!(client.devices.len(), 4);
                client.destroy();
            }
            for (options, part) in [
                (
                    [int_option("cpu_device_count", 5)],
                    "cpu_device_count=Int(5) does not fit v6e:2x2",
                ),
                (
                    [int_option("gpu_memory_fraction", 1)],
                    "\"gpu_memory_fraction\" is unknown",
                ),
            ] {
                let error = Client::create_with(&options).err().unwrap();
                assert_eq!(error.code, INVALID_ARGUMENT);
                assert!(error.message.contains(part), "{error:?}");
            }
        },
    );
}
