//! Memory statistics, the limit, donation, and what does not count.

mod common;

use common::*;
use pjrt_ffi::*;

const KIB: usize = 256;

#[test]
fn statistics_follow_every_buffer() {
    on_each_plugin(
        "statistics_follow_every_buffer",
        &[("TORCH_TPU_SIM_TOPOLOGY", "v6e:1x2")],
        || {
            let client = Client::create().unwrap();
            let device = client.devices[0];
            assert_eq!(in_use(device), 0);
            let a = client.upload(0, &[1.0; KIB]).unwrap();
            let b = client.upload(0, &[2.0; 2 * KIB]).unwrap();
            let now = stats(device);
            assert_eq!(
                (now.bytes_in_use, now.peak_bytes_in_use, now.num_allocs),
                (3072, 3072, 2)
            );
            assert_eq!((now.largest_alloc_size, now.bytes_limit), (2048, 33_546_042_368));
            assert!(now.peak_bytes_in_use_is_set && now.bytes_limit_is_set && now.num_allocs_is_set);
            assert!(!now.pool_bytes_is_set);
            destroy(b);
            assert_eq!(
                (stats(device).bytes_in_use, stats(device).peak_bytes_in_use),
                (1024, 3072)
            );

            let mut clear = PJRT_Device_ClearMemoryStats_Args::new();
            clear.device = device;
            call(slot::PJRT_Device_ClearMemoryStats, &mut clear).unwrap();
            assert_eq!(stats(device).peak_bytes_in_use, 1024);

            let executable = client.compile(&add(KIB, "")).unwrap();
            let (sum, event) = execute(executable, &[a, a], true).unwrap();
            await_event(event).unwrap();
            assert_eq!(in_use(device), 2048);
            assert_eq!(download(sum, KIB).unwrap(), [2.0; KIB]);

            let mut copy = PJRT_Buffer_CopyToDevice_Args::new();
            copy.buffer = sum;
            copy.dst_device = client.devices[1];
            call(slot::PJRT_Buffer_CopyToDevice, &mut copy).unwrap();
            ready(copy.dst_buffer).unwrap();
            assert_eq!((in_use(device), in_use(client.devices[1])), (2048, 1024));
            destroy(copy.dst_buffer);
            assert_eq!(in_use(client.devices[1]), 0);

            let mut delete = PJRT_Buffer_Delete_Args::new();
            delete.buffer = sum;
            call(slot::PJRT_Buffer_Delete, &mut delete).unwrap();
            assert_eq!(in_use(device), 1024, "delete gives the memory back");
            destroy(sum);
            assert_eq!(in_use(device), 1024, "and destroy gives nothing back twice");
            destroy(a);
            assert_eq!(in_use(device), 0);
            destroy_executable(executable);
            client.destroy();
        },
    );
}

#[test]
fn host_memory_costs_nothing() {
    on_each_plugin("host_memory_costs_nothing", &[], || {
        let client = Client::create().unwrap();
        for kind in ["pinned_host", "unpinned_host"] {
            let memory = client.memory(0, kind);
            let buffer = client
                .upload_to(std::ptr::null_mut(), memory, &[1.0; KIB])
                .unwrap();
            assert_eq!(in_use(client.devices[0]), 0, "{kind}");
            let mut copy = PJRT_Buffer_CopyToMemory_Args::new();
            copy.buffer = buffer;
            copy.dst_memory = client.memory(0, "device");
            call(slot::PJRT_Buffer_CopyToMemory, &mut copy).unwrap();
            ready(copy.dst_buffer).unwrap();
            assert_eq!(in_use(client.devices[0]), 1024, "{kind} to device");
            destroy(copy.dst_buffer);
            destroy(buffer);
        }
        assert_eq!(in_use(client.devices[0]), 0);
        client.destroy();
    });
}

#[test]
fn donated_arguments_make_room() {
    let env = [("TORCH_TPU_SIM_HBM_BYTES", "4096")];
    on_each_plugin("donated_arguments_make_room", &env, || {
        let client = Client::create().unwrap();
        let device = client.devices[0];
        let n = KIB + KIB / 2;
        let (a, b) = (
            client.upload(0, &vec![1.0; n]).unwrap(),
            client.upload(0, &vec![2.0; n]).unwrap(),
        );
        assert_eq!(in_use(device), 3072);
        let plain = client.compile(&add(n, "")).unwrap();
        let error = execute(plain, &[a, b], false).unwrap_err();
        assert_eq!(error.code, RESOURCE_EXHAUSTED);
        for donation in [" {tf.aliasing_output = 0 : i32}", " {jax.buffer_donor = true}"] {
            let fresh = client.upload(0, &[0.0; 1]).unwrap();
            destroy(fresh);
            let donating = client.compile(&add(n, donation)).unwrap();
            let copy = match donation.contains("donor") {
                // The first round used `a` up.
                true => client.upload(0, &vec![1.0; n]).unwrap(),
                false => a,
            };
            let (sum, _) = execute(donating, &[copy, b], false).unwrap();
            assert_eq!(in_use(device), 3072, "{donation}");
            assert_eq!(download(sum, n).unwrap(), vec![3.0; n]);
            let error = execute(donating, &[copy, b], false).unwrap_err();
            assert!(
                error.message.contains("donated") || error.message.contains("deleted"),
                "{error:?}"
            );
            assert_eq!(in_use(device), 3072, "a failed run leaves the account as it was");
            destroy(sum);
            destroy(copy);
            destroy_executable(donating);
        }
        destroy(b);
        assert_eq!(in_use(device), 0);
        destroy_executable(plain);
        client.destroy();
    });
}

#[test]
fn past_the_limit_the_error_says_who_holds_what() {
    let env = [("TORCH_TPU_SIM_HBM_BYTES", "10000")];
    on_each_plugin("past_the_limit_the_error_says_who_holds_what", &env, || {
        let client = Client::create().unwrap();
        let a = client.upload(0, &[1.0; KIB]).unwrap();
        let executable = client.compile(&add(KIB, "")).unwrap();
        let mut sums = Vec::new();
        let error = loop {
            match execute(executable, &[a, a], false) {
                Ok((sum, _)) => sums.push(sum),
                Err(error) => break error,
            }
        };
        assert_eq!(sums.len(), 8, "9 of 1024 bytes fit into 10000");
        assert_eq!(error.code, RESOURCE_EXHAUSTED);
        for part in [
            "to run adder (1024 bytes of outputs",
            "9216 bytes (9.00 KiB) of 10000 bytes (9.77 KiB) are in use",
            "8192 bytes (8.00 KiB) in 8 buffers f32[256] made by adder",
            "1024 bytes (1.00 KiB) in 1 buffer f32[256] from the host",
        ] {
            assert!(
                error.message.contains(part),
                "{part:?} is not in {}",
                error.message
            );
        }
        let error = client.upload(0, &[0.0; KIB]).unwrap_err();
        assert_eq!(error.code, RESOURCE_EXHAUSTED);
        assert!(
            error
                .message
                .contains("asked for 1024 bytes (1.00 KiB) for a buffer f32[256] from the host")
        );
        // What is freed can be used again.
        destroy(sums.pop().unwrap());
        destroy(client.upload(0, &[0.0; KIB]).unwrap());
        sums.into_iter().for_each(destroy);
        destroy(a);
        assert_eq!(in_use(client.devices[0]), 0);
        destroy_executable(executable);
        client.destroy();
    });
}

#[test]
fn a_short_argument_struct_is_filled_as_far_as_it_goes() {
    on_each_plugin("a_short_argument_struct_is_filled_as_far_as_it_goes", &[], || {
        let client = Client::create().unwrap();
        let mut args = PJRT_Device_MemoryStats_Args::new();
        args.device = client.devices[0];
        args.bytes_limit = -1;
        args.struct_size = std::mem::offset_of!(PJRT_Device_MemoryStats_Args, num_allocs);
        call(slot::PJRT_Device_MemoryStats, &mut args).unwrap();
        assert!(args.peak_bytes_in_use_is_set);
        assert_eq!(args.bytes_limit, -1, "past the caller's struct");
        args.struct_size = 24;
        let error = call(slot::PJRT_Device_MemoryStats, &mut args).unwrap_err();
        assert_eq!(error.code, INVALID_ARGUMENT);
        assert!(
            error.message.contains("struct_size must cover `bytes_in_use`"),
            "{error:?}"
        );
        client.destroy();
    });
}

#[test]
fn a_destroyed_client_leaves_no_memory_in_use() {
    on_each_plugin("a_destroyed_client_leaves_no_memory_in_use", &[], || {
        for _ in 0..3 {
            let client = Client::create().unwrap();
            assert_eq!(in_use(client.devices[0]), 0);
            let buffer = client.upload(0, &[1.0; KIB]).unwrap();
            assert_eq!(in_use(client.devices[0]), 1024);
            destroy(buffer);
            client.destroy();
        }
        let mut args = PJRT_Device_MemoryStats_Args::new();
        let error = call(slot::PJRT_Device_MemoryStats, &mut args).unwrap_err();
        assert_eq!(error.code, INVALID_ARGUMENT);
    });
}

#[repr(C)]
struct ShapeSpec {
    struct_size: usize,
    extension_start: usize,
    dims: *const i64,
    num_dims: usize,
    element_type: u32,
}

#[repr(C)]
struct StartTransfer {
    struct_size: usize,
    extension_start: usize,
    client: *mut PJRT_Client,
    specs: *const ShapeSpec,
    num_specs: usize,
    layouts: usize,
    num_layouts: usize,
    memory: *mut PJRT_Memory,
    manager: usize,
}

#[repr(C)]
struct Retrieve {
    struct_size: usize,
    extension_start: usize,
    manager: usize,
    index: i32,
    buffer: *mut PJRT_Buffer,
}

#[repr(C)]
struct EndTransfer {
    struct_size: usize,
    extension_start: usize,
    manager: usize,
}

#[repr(C)]
struct Uninitialized {
    struct_size: usize,
    extension_start: usize,
    client: *mut PJRT_Client,
    dims: *const i64,
    num_dims: usize,
    element_type: u32,
    layout: usize,
    device: *mut PJRT_Device,
    memory: *mut PJRT_Memory,
    buffer: *mut PJRT_Buffer,
}

#[test]
fn asynchronous_transfers_hold_memory_until_they_end() {
    let env = [("TORCH_TPU_SIM_HBM_BYTES", "4096")];
    on_each_plugin("asynchronous_transfers_hold_memory_until_they_end", &env, || {
        let client = Client::create().unwrap();
        let device = client.devices[0];
        let start = |dims: &[i64]| {
            let specs = dims
                .iter()
                .map(|dim| ShapeSpec {
                    struct_size: 36,
                    extension_start: 0,
                    dims: dim,
                    num_dims: 1,
                    element_type: 11,
                })
                .collect::<Vec<_>>();
            let mut args = padded(StartTransfer {
                struct_size: 0,
                extension_start: 0,
                client: client.raw,
                specs: specs.as_ptr(),
                num_specs: specs.len(),
                layouts: 0,
                num_layouts: 0,
                memory: client.memory(0, "device"),
                manager: 0,
            });
            call(slot::PJRT_Client_CreateBuffersForAsyncHostToDevice, &mut args).map(|()| args.args.manager)
        };
        let manager = start(&[256, 512]).unwrap();
        assert_eq!((in_use(device), stats(device).num_allocs), (3072, 2));
        let error = start(&[128, 256]).unwrap_err();
        assert_eq!(error.code, RESOURCE_EXHAUSTED);
        assert_eq!(
            in_use(device),
            3072,
            "a refused transfer takes nothing, not even for its buffers that fit"
        );

        let mut retrieve = padded(Retrieve {
            struct_size: 0,
            extension_start: 0,
            manager,
            index: 1,
            buffer: std::ptr::null_mut(),
        });
        call(
            slot::PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer,
            &mut retrieve,
        )
        .unwrap();
        let mut end = padded(EndTransfer {
            struct_size: 0,
            extension_start: 0,
            manager,
        });
        call(slot::PJRT_AsyncHostToDeviceTransferManager_Destroy, &mut end).unwrap();
        assert_eq!(in_use(device), 2048, "the buffer that nobody fetched is gone");
        destroy(retrieve.args.buffer);
        assert_eq!(in_use(device), 0);
        client.destroy();
    });
}

#[test]
fn uninitialized_buffers_count_and_views_do_not() {
    on_each_plugin("uninitialized_buffers_count_and_views_do_not", &[], || {
        let client = Client::create().unwrap();
        let device = client.devices[0];
        let dims = [16_i64, 16];
        let mut args = padded(Uninitialized {
            struct_size: 0,
            extension_start: 0,
            client: client.raw,
            dims: dims.as_ptr(),
            num_dims: 2,
            element_type: 11,
            layout: 0,
            device,
            memory: client.memory(0, "device"),
            buffer: std::ptr::null_mut(),
        });
        call(slot::PJRT_Client_CreateUninitializedBuffer, &mut args).unwrap();
        assert_eq!(in_use(device), 1024);

        let mut pointer = PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args::new();
        pointer.buffer = args.args.buffer;
        call(slot::PJRT_Buffer_OpaqueDeviceMemoryDataPointer, &mut pointer).unwrap();
        let mut view = padded(PJRT_Client_CreateViewOfDeviceBuffer_Args::new());
        view.args.client = client.raw;
        view.args.device_buffer_ptr = pointer.device_memory_ptr;
        view.args.dims = dims.as_ptr();
        view.args.num_dims = 2;
        view.args.element_type = 11;
        view.args.device = device;
        call(slot::PJRT_Client_CreateViewOfDeviceBuffer, &mut view).unwrap();
        assert_eq!(in_use(device), 1024);
        destroy(view.args.buffer);
        assert_eq!(in_use(device), 1024);
        destroy(args.args.buffer);
        assert_eq!(in_use(device), 0);
        client.destroy();
    });
}
