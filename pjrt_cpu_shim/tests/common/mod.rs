//! A small raw PJRT client for the shim, linked into the test.
//!
//! The shim reads its environment once a process, so each test runs its body in child processes: one for each CPU
//! plugin at hand, with the environment it asks for.
#![allow(dead_code, unreachable_pub)]

pub mod raw;

use std::path::PathBuf;
use std::process::Command;

use pjrt_ffi::*;

/// Set in a child, which runs the test's body.
pub const CHILD: &str = "PJRT_CPU_SHIM_TEST_CHILD";

/// The CPU plugins to test on: `TORCH_TPU_CPU_PLUGIN`, else those of the workspace's `.venv`.
pub fn plugins() -> Vec<PathBuf> {
    if let Some(path) = std::env::var_os("TORCH_TPU_CPU_PLUGIN") {
        return vec![path.into()];
    }
    let lib = concat!(env!("CARGO_MANIFEST_DIR"), "/../.venv/lib");
    let mut found = Vec::new();
    for version in std::fs::read_dir(lib).into_iter().flatten().flatten() {
        for plugin in [
            "fastatomstruct_xla_cpu/libpjrt_cpu.so",
            "lammps_jax_pjrt_cpu/pjrt_c_api_cpu_plugin.so",
        ] {
            let path = version.path().join("site-packages").join(plugin);
            found.extend(path.is_file().then_some(path));
        }
    }
    assert!(
        !found.is_empty(),
        "no CPU plugin: run tools/dev setup, or set TORCH_TPU_CPU_PLUGIN"
    );
    found
}

/// Runs `body` in a child for every CPU plugin, with `env` set; `name` is the calling test's path.
pub fn on_each_plugin(name: &str, env: &[(&str, &str)], body: impl FnOnce()) {
    if std::env::var_os(CHILD).is_some() {
        return body();
    }
    for plugin in plugins() {
        let plugin = plugin.to_str().expect("a plugin path in UTF-8").to_owned();
        let mut all = vec![("TORCH_TPU_CPU_PLUGIN", plugin.as_str())];
        all.extend_from_slice(env);
        child(name, &all);
    }
}

/// Runs `body` in one child with exactly the shim variables of `env`.
pub fn in_child(name: &str, env: &[(&str, &str)], body: impl FnOnce()) {
    if std::env::var_os(CHILD).is_some() {
        return body();
    }
    child(name, env);
}

fn child(name: &str, env: &[(&str, &str)]) {
    let mut command = Command::new(std::env::current_exe().expect("the test's own path"));
    command
        .args([name, "--exact", "--nocapture", "--test-threads=1"])
        .env(CHILD, "1");
    for variable in [
        "TORCH_TPU_CPU_PLUGIN",
        "TORCH_TPU_SIM_TOPOLOGY",
        "TORCH_TPU_SIM_HBM_BYTES",
        "TORCH_TPU_SIM_FAULT",
    ] {
        command.env_remove(variable);
    }
    let output = command
        .envs(env.iter().copied())
        .output()
        .expect("the test starts again");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{name} with {env:?} failed: {}\n{text}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
}

/// A failed call.
#[derive(Debug, PartialEq)]
pub struct Failure {
    pub code: u32,
    pub message: String,
}

pub const INVALID_ARGUMENT: u32 = 3;
pub const NOT_FOUND: u32 = 5;
pub const RESOURCE_EXHAUSTED: u32 = 8;
pub const FAILED_PRECONDITION: u32 = 9;
pub const ABORTED: u32 = 10;
pub const INTERNAL: u32 = 13;
pub const UNAVAILABLE: u32 = 14;

/// Codes of `PJRT_Buffer_Type`.
pub const S32: u32 = 4;
pub const F32: u32 = 11;

/// Asserts that a call was refused as wrong, with these words.
#[track_caller]
pub fn refused(result: Result<(), Failure>, call: &str, part: &str) {
    let error = result.unwrap_err();
    assert_eq!(error.code, INVALID_ARGUMENT, "{error:?}");
    assert!(
        error.message.contains(call) && error.message.contains(part),
        "{error:?} has no {part:?}"
    );
}

/// An argument struct with zeros behind it, as newer plugins want.
#[repr(C)]
pub struct Padded<T> {
    pub args: T,
    padding: [usize; 32],
}

pub fn padded<T>(args: T) -> Padded<T> {
    let mut padded = Padded {
        args,
        padding: [0; 32],
    };
    // SAFETY: argument structs start with `struct_size`.
    unsafe { (&raw mut padded).cast::<usize>().write(size_of::<Padded<T>>()) };
    padded
}

/// Calls the table entry `slot`.
pub fn call<T>(slot: usize, args: &mut T) -> Result<(), Failure> {
    let api = std::ptr::NonNull::new(pjrt_cpu_shim::GetPjrtApi().cast_mut()).expect("a table");
    // SAFETY: the table is whole, and `slot` goes with `T` at every use in these tests.
    unsafe {
        let entry =
            api_fn_at(api, slot_offset(slot)).unwrap_or_else(|| panic!("{:?} is absent", slot_name(slot)));
        let entry: unsafe extern "C" fn(*mut T) -> *mut PJRT_Error = std::mem::transmute(entry);
        failure(entry(args))
    }
}

/// Reads and destroys an error object.
pub fn failure(error: *mut PJRT_Error) -> Result<(), Failure> {
    if error.is_null() {
        return Ok(());
    }
    let mut message = PJRT_Error_Message_Args::new();
    message.error = error;
    let mut code = PJRT_Error_GetCode_Args::new();
    code.error = error;
    let mut destroy = PJRT_Error_Destroy_Args::new();
    destroy.error = error;
    // SAFETY: `error` is alive until destroyed.
    unsafe {
        let api = &*pjrt_cpu_shim::GetPjrtApi();
        api.PJRT_Error_Message.expect("an entry")(&mut message);
        let text = std::slice::from_raw_parts(message.message.cast::<u8>(), message.message_size).to_vec();
        api.PJRT_Error_GetCode.expect("an entry")(&mut code);
        api.PJRT_Error_Destroy.expect("an entry")(&mut destroy);
        Err(Failure {
            code: code.code,
            message: String::from_utf8(text).expect("UTF-8"),
        })
    }
}

pub struct Client {
    pub raw: *mut PJRT_Client,
    pub devices: Vec<*mut PJRT_Device>,
}

impl Client {
    pub fn create() -> Result<Self, Failure> {
        call(
            slot::PJRT_Plugin_Initialize,
            &mut PJRT_Plugin_Initialize_Args::new(),
        )?;
        Self::create_with(&[])
    }

    pub fn create_with(options: &[PJRT_NamedValue]) -> Result<Self, Failure> {
        let mut args = PJRT_Client_Create_Args::new();
        args.create_options = options.as_ptr();
        args.num_options = options.len();
        call(slot::PJRT_Client_Create, &mut args)?;
        let mut devices = PJRT_Client_AddressableDevices_Args::new();
        devices.client = args.client;
        call(slot::PJRT_Client_AddressableDevices, &mut devices)?;
        // SAFETY: the client owns the list.
        let list = unsafe {
            std::slice::from_raw_parts(devices.addressable_devices, devices.num_addressable_devices)
        };
        Ok(Self {
            raw: args.client,
            devices: list.to_vec(),
        })
    }

    pub fn destroy(self) {
        let mut args = PJRT_Client_Destroy_Args::new();
        args.client = self.raw;
        call(slot::PJRT_Client_Destroy, &mut args).unwrap();
    }

    /// The memory space of this kind on a device.
    pub fn memory(&self, device: usize, kind: &str) -> *mut PJRT_Memory {
        let mut args = PJRT_Device_AddressableMemories_Args::new();
        args.device = self.devices[device];
        call(slot::PJRT_Device_AddressableMemories, &mut args).unwrap();
        // SAFETY: the device owns the list.
        let list = unsafe { std::slice::from_raw_parts(args.memories, args.num_memories) };
        *list
            .iter()
            .find(|&&memory| memory_kind(memory) == kind)
            .expect("a memory of the kind")
    }

    pub fn upload(&self, device: usize, values: &[f32]) -> Result<*mut PJRT_Buffer, Failure> {
        self.upload_to(self.devices[device], std::ptr::null_mut(), values)
    }

    pub fn upload_to(
        &self,
        device: *mut PJRT_Device,
        memory: *mut PJRT_Memory,
        values: &[f32],
    ) -> Result<*mut PJRT_Buffer, Failure> {
        self.upload_as(
            device,
            memory,
            values.as_ptr().cast(),
            F32,
            &[values.len() as i64],
        )
    }

    /// An array of any type; `data` holds it densely.
    pub fn upload_as(
        &self,
        device: *mut PJRT_Device,
        memory: *mut PJRT_Memory,
        data: *const std::ffi::c_void,
        element_type: u32,
        dims: &[i64],
    ) -> Result<*mut PJRT_Buffer, Failure> {
        let mut args = PJRT_Client_BufferFromHostBuffer_Args::new();
        args.client = self.raw;
        args.data = data;
        args.type_ = element_type;
        args.dims = dims.as_ptr();
        args.num_dims = dims.len();
        args.device = device;
        args.memory = memory;
        call(slot::PJRT_Client_BufferFromHostBuffer, &mut args)?;
        await_event(args.done_with_host_buffer).unwrap();
        Ok(args.buffer)
    }

    pub fn compile(&self, text: &str) -> Result<*mut PJRT_LoadedExecutable, Failure> {
        let mut program = program(text);
        let mut args = PJRT_Client_Compile_Args::new();
        args.client = self.raw;
        args.program = &mut program;
        args.compile_options = OPTIONS.as_ptr().cast();
        args.compile_options_size = OPTIONS.len();
        call(slot::PJRT_Client_Compile, &mut args).map(|()| args.executable)
    }
}

/// One replica, one partition.
pub const OPTIONS: [u8; 6] = [0x1a, 4, 0x20, 1, 0x28, 1];

pub fn program(text: &str) -> PJRT_Program {
    let mut program = PJRT_Program::new();
    program.code = text.as_ptr().cast_mut().cast();
    program.code_size = text.len();
    program.format = "mlir".as_ptr().cast();
    program.format_size = 4;
    program
}

/// `a + b` over `n` floats; `attributes` go to `a`.
pub fn add(n: usize, attributes: &str) -> String {
    format!(
        "module @adder {{ func.func @main(%a: tensor<{n}xf32>{attributes}, %b: tensor<{n}xf32>) -> tensor<{n}xf32> {{
           %0 = stablehlo.add %a, %b : tensor<{n}xf32>
           return %0 : tensor<{n}xf32> }} }}"
    )
}

/// Runs on one device with one output; also the completion event when `events`.
pub fn execute(
    executable: *mut PJRT_LoadedExecutable,
    arguments: &[*mut PJRT_Buffer],
    events: bool,
) -> Result<(*mut PJRT_Buffer, *mut PJRT_Event), Failure> {
    let mut options = padded(PJRT_ExecuteOptions::new());
    let mut output = [std::ptr::null_mut(); 1];
    let outputs = [output.as_mut_ptr()];
    let lists = [arguments.as_ptr()];
    let mut event = [std::ptr::null_mut(); 1];
    let mut args = PJRT_LoadedExecutable_Execute_Args::new();
    args.executable = executable;
    args.options = (&raw mut options).cast();
    args.argument_lists = lists.as_ptr();
    args.num_devices = 1;
    args.num_args = arguments.len();
    args.output_lists = outputs.as_ptr();
    if events {
        args.device_complete_events = event.as_mut_ptr();
    }
    call(slot::PJRT_LoadedExecutable_Execute, &mut args)?;
    Ok((output[0], event[0]))
}

pub fn await_event(event: *mut PJRT_Event) -> Result<(), Failure> {
    let mut wait = PJRT_Event_Await_Args::new();
    wait.event = event;
    let result = call(slot::PJRT_Event_Await, &mut wait);
    let mut destroy = PJRT_Event_Destroy_Args::new();
    destroy.event = event;
    call(slot::PJRT_Event_Destroy, &mut destroy).unwrap();
    result
}

pub fn ready(buffer: *mut PJRT_Buffer) -> Result<(), Failure> {
    let mut args = PJRT_Buffer_ReadyEvent_Args::new();
    args.buffer = buffer;
    call(slot::PJRT_Buffer_ReadyEvent, &mut args)?;
    await_event(args.event)
}

pub fn download(buffer: *mut PJRT_Buffer, count: usize) -> Result<Vec<f32>, Failure> {
    let mut values = vec![0_f32; count];
    let mut args = PJRT_Buffer_ToHostBuffer_Args::new();
    args.src = buffer;
    args.dst = values.as_mut_ptr().cast();
    args.dst_size = count * 4;
    call(slot::PJRT_Buffer_ToHostBuffer, &mut args)?;
    await_event(args.event)?;
    Ok(values)
}

pub fn destroy(buffer: *mut PJRT_Buffer) {
    let mut args = PJRT_Buffer_Destroy_Args::new();
    args.buffer = buffer;
    call(slot::PJRT_Buffer_Destroy, &mut args).unwrap();
}

pub fn delete(buffer: *mut PJRT_Buffer) {
    let mut args = PJRT_Buffer_Delete_Args::new();
    args.buffer = buffer;
    call(slot::PJRT_Buffer_Delete, &mut args).unwrap();
}

pub fn destroy_executable(executable: *mut PJRT_LoadedExecutable) {
    let mut args = PJRT_LoadedExecutable_Destroy_Args::new();
    args.executable = executable;
    call(slot::PJRT_LoadedExecutable_Destroy, &mut args).unwrap();
}

pub fn stats(device: *mut PJRT_Device) -> PJRT_Device_MemoryStats_Args {
    let mut args = PJRT_Device_MemoryStats_Args::new();
    args.device = device;
    call(slot::PJRT_Device_MemoryStats, &mut args).unwrap();
    args
}

pub fn in_use(device: *mut PJRT_Device) -> i64 {
    stats(device).bytes_in_use
}

fn memory_kind(memory: *mut PJRT_Memory) -> String {
    let mut args = PJRT_Memory_Kind_Args::new();
    args.memory = memory;
    call(slot::PJRT_Memory_Kind, &mut args).unwrap();
    text(args.kind, args.kind_size)
}

pub fn text(data: *const std::ffi::c_char, size: usize) -> String {
    // SAFETY: the plugin's string, alive while its owner is.
    String::from_utf8(unsafe { std::slice::from_raw_parts(data.cast(), size) }.to_vec()).expect("UTF-8")
}

pub fn int_option(name: &'static str, value: i64) -> PJRT_NamedValue {
    let mut option = PJRT_NamedValue::new();
    option.name = name.as_ptr().cast();
    option.name_size = name.len();
    option.type_ = PJRT_NamedValue_Type_PJRT_NamedValue_kInt64;
    option.__bindgen_anon_1.int64_value = value;
    option.value_size = 1;
    option
}
