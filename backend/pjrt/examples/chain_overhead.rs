//! What our layers cost: a dependent chain of small executions through the trait and the simulator, against a bare
//! loop over the CPU plugin's C table, in alternating child processes.
//!
//! `cargo run --release -p pjrt --example chain_overhead -- --cpu-plugin PATH --shim PATH [--rounds N]`
#![allow(clippy::print_stdout)]

use std::error::Error;
use std::process::Command;
use std::time::Instant;

use pjrt::plugin::{Plugin, PluginClient};
use pjrt::{Buffer, Client, CompileOptions, ElementType, ExecuteOptions, HostArray, Placement, Program};
use pjrt_ffi::*;

type Fallible<T> = Result<T, Box<dyn Error>>;

const PROGRAM: &str = "module @m { func.func @main(%a: tensor<256xf32>, %b: tensor<256xf32>) -> tensor<256xf32> { \
                       %0 = stablehlo.add %a, %b : tensor<256xf32>\n return %0 : tensor<256xf32> } }";
const LENGTH: usize = 20_000;
/// Chains in a child process, which gives the median: one takes 60 ms, as little as a scheduler's whim.
const CHAINS: usize = 9;

fn main() -> Fallible<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let value = |name: &str| {
        arguments
            .iter()
            .position(|a| a == name)
            .and_then(|i| arguments.get(i + 1))
    };
    match value("--child").map(String::as_str) {
        Some("bare") => return child(bare(value("--cpu-plugin").ok_or("--cpu-plugin is missing")?)?),
        Some("layers") => return child(layers(value("--shim").ok_or("--shim is missing")?)?),
        Some(other) => return Err(format!("unknown child {other}").into()),
        None => {}
    }
    let rounds: usize = value("--rounds").map_or(Ok(11), |r| r.parse())?;
    let run = |kind: &str| -> Fallible<f64> {
        let out = Command::new(std::env::current_exe()?)
            .args(&arguments[1..])
            .args(["--child", kind])
            .output()?;
        if !out.status.success() {
            return Err(format!("{kind}: {}", String::from_utf8_lossy(&out.stderr)).into());
        }
        Ok(String::from_utf8(out.stdout)?.trim().parse()?)
    };
    let (mut bare, mut layers) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        bare.push(run("bare")?);
        layers.push(run("layers")?);
    }
    let mut ratios: Vec<f64> = layers.iter().zip(&bare).map(|(l, b)| l / b).collect();
    let (b, l, paired) = (median(&mut bare), median(&mut layers), median(&mut ratios));
    println!("dependent chain of {LENGTH} adds of 256 f32, {rounds} rounds, medians:");
    println!(
        "  bare C table, CPU plugin   {b:.3} us/op  (fastest {:.3})",
        bare[0]
    );
    println!(
        "  trait over the simulator   {l:.3} us/op  (fastest {:.3})",
        layers[0]
    );
    println!(
        "  ratio {:.3}  (median of paired rounds {paired:.3}, of the fastest {:.3}; target 1.15)",
        l / b,
        layers[0] / bare[0]
    );
    Ok(())
}

fn child(micros: f64) -> Fallible<()> {
    println!("{micros}");
    Ok(())
}

/// Sorts, and gives the middle.
fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn layers(shim: &str) -> Fallible<f64> {
    let client = PluginClient::open(shim, &[])?;
    let add = client.compile(&Program::mlir(PROGRAM), &CompileOptions::default())?;
    let device = client.device(0)?;
    let zeros = [0u8; 1024];
    let start = client.buffer_from_host(
        &HostArray::new(ElementType::F32, &[256], &zeros),
        Placement::Device(&*device),
    )?;
    let options = ExecuteOptions::default();
    let mut micros = Vec::new();
    // The first warms up.
    for _ in 0..=CHAINS {
        let mut current = start.clone();
        let begin = Instant::now();
        for _ in 0..LENGTH {
            let arguments: [&dyn Buffer; 2] = [&*current, &*start];
            let mut out = add.execute(&[&arguments], &options)?.into_single();
            current = out.pop().ok_or("no result")?;
        }
        current.ready()?.wait()?;
        micros.push(begin.elapsed().as_secs_f64() * 1e6 / LENGTH as f64);
    }
    Ok(median(&mut micros[1..]))
}

/// Calls an entry of the table that must be there, and fails on an error.
macro_rules! call {
    ($api:expr, $name:ident, $args:expr) => {{
        let entry = $api.$name.ok_or(concat!(stringify!($name), " is missing"))?;
        // SAFETY: the arguments are built as the header says and outlive the call.
        if !unsafe { entry($args) }.is_null() {
            return Err(concat!(stringify!($name), " failed").into());
        }
    }};
}

fn await_event(api: &PJRT_Api, event: *mut PJRT_Event) -> Fallible<()> {
    let mut wait = PJRT_Event_Await_Args::new();
    wait.event = event;
    call!(api, PJRT_Event_Await, &mut wait);
    let mut destroy = PJRT_Event_Destroy_Args::new();
    destroy.event = event;
    call!(api, PJRT_Event_Destroy, &mut destroy);
    Ok(())
}

fn bare(cpu_plugin: &str) -> Fallible<f64> {
    let plugin = Plugin::load(cpu_plugin)?;
    // SAFETY: plugins stay loaded, and those in use are newer than the 0.54 header.
    let api = unsafe { &*plugin.api() };
    let mut option = PJRT_NamedValue::new();
    option.name = c"cpu_device_count".as_ptr();
    option.name_size = 16;
    option.type_ = PJRT_NamedValue_Type_PJRT_NamedValue_kInt64;
    option.__bindgen_anon_1.int64_value = 1;
    option.value_size = 1;
    let mut create = PJRT_Client_Create_Args_V114::new();
    create.create_options = &option;
    create.num_options = 1;
    call!(api, PJRT_Client_Create, (&raw mut create).cast());
    let mut devices = PJRT_Client_AddressableDevices_Args::new();
    devices.client = create.client;
    call!(api, PJRT_Client_AddressableDevices, &mut devices);

    let options = CompileOptions::default().encode();
    let mut program = PJRT_Program::new();
    program.code = PROGRAM.as_ptr().cast_mut().cast();
    program.code_size = PROGRAM.len();
    program.format = c"mlir".as_ptr();
    program.format_size = 4;
    let mut compile = PJRT_Client_Compile_Args::new();
    compile.client = create.client;
    compile.program = &mut program;
    compile.compile_options = options.as_ptr().cast();
    compile.compile_options_size = options.len();
    call!(api, PJRT_Client_Compile, &mut compile);

    let (zeros, dims) = ([0f32; 256], [256i64]);
    let mut put = PJRT_Client_BufferFromHostBuffer_Args::new();
    put.client = create.client;
    put.data = zeros.as_ptr().cast();
    put.type_ = ElementType::F32.to_pjrt();
    put.dims = dims.as_ptr();
    put.num_dims = 1;
    // SAFETY: the client has a device.
    put.device = unsafe { *devices.addressable_devices };
    call!(api, PJRT_Client_BufferFromHostBuffer, &mut put);
    await_event(api, put.done_with_host_buffer)?;

    let mut micros = Vec::new();
    for _ in 0..=CHAINS {
        let mut current = put.buffer;
        let begin = Instant::now();
        for _ in 0..LENGTH {
            let arguments = [current, put.buffer];
            let rows = [arguments.as_ptr()];
            let mut out = [std::ptr::null_mut()];
            let out_rows = [out.as_mut_ptr()];
            let mut how = PJRT_ExecuteOptions_V114::new();
            let mut execute = PJRT_LoadedExecutable_Execute_Args::new();
            execute.executable = compile.executable;
            execute.options = (&raw mut how).cast();
            execute.argument_lists = rows.as_ptr();
            execute.num_devices = 1;
            execute.num_args = 2;
            execute.output_lists = out_rows.as_ptr();
            call!(api, PJRT_LoadedExecutable_Execute, &mut execute);
            if current != put.buffer {
                let mut destroy = PJRT_Buffer_Destroy_Args::new();
                destroy.buffer = current;
                call!(api, PJRT_Buffer_Destroy, &mut destroy);
            }
            current = out[0];
        }
        let mut ready = PJRT_Buffer_ReadyEvent_Args::new();
        ready.buffer = current;
        call!(api, PJRT_Buffer_ReadyEvent, &mut ready);
        await_event(api, ready.event)?;
        micros.push(begin.elapsed().as_secs_f64() * 1e6 / LENGTH as f64);
    }
    Ok(median(&mut micros[1..]))
}
