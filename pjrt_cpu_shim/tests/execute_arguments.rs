//! Arguments of a run that are not what the program takes are refused by name, at the memory limit too.

mod common;

use common::*;
use pjrt_ffi::*;

const N: usize = 256;
const EXECUTE: &str = "PJRT_LoadedExecutable_Execute";

/// The outcome of a run that must not succeed.
fn run(executable: *mut PJRT_LoadedExecutable, arguments: &[*mut PJRT_Buffer]) -> Result<(), Failure> {
    execute(executable, arguments, false).map(|(result, _)| destroy(result))
}

fn wrong_arguments(client: &Client) {
    let device = client.devices[0];
    let zeros = [0_u8; 4 * N];
    let array = |element_type: u32, dims: &[i64]| {
        let data = zeros.as_ptr().cast();
        client
            .upload_as(device, std::ptr::null_mut(), data, element_type, dims)
            .unwrap()
    };
    let good = array(F32, &[N as i64]);
    let executable = client.compile(&add(N, "")).unwrap();
    run(executable, &[good, good]).unwrap();

    for (element_type, dims, given) in [
        (S32, &[N as i64][..], "is i32[256], the program takes f32[256]"),
        (F32, &[16, 16], "is f32[16,16], the program takes f32[256]"),
        (F32, &[1], "is f32[1], the program takes f32[256]"),
        (8, &[256], "is ui32[256], the program takes f32[256]"),
    ] {
        let wrong = array(element_type, dims);
        refused(
            run(executable, &[good, wrong]),
            EXECUTE,
            "argument 1 of device 0 for adder",
        );
        refused(
            run(executable, &[wrong, good]),
            EXECUTE,
            "argument 0 of device 0 for adder",
        );
        refused(run(executable, &[good, wrong]), EXECUTE, given);
        destroy(wrong);
        // A buffer outside HBM has no record and is asked.
        let data = zeros.as_ptr().cast();
        let wrong = client
            .upload_as(
                std::ptr::null_mut(),
                client.memory(0, "pinned_host"),
                data,
                element_type,
                dims,
            )
            .unwrap();
        refused(run(executable, &[good, wrong]), EXECUTE, given);
        destroy(wrong);
    }
    refused(
        run(executable, &[good]),
        EXECUTE,
        "takes 2 arguments, 1 were given",
    );
    refused(
        run(executable, &[good; 3]),
        EXECUTE,
        "takes 2 arguments, 3 were given",
    );
    refused(run(executable, &[]), EXECUTE, "takes 2 arguments, 0 were given");
    refused(
        run(executable, &[good, std::ptr::null_mut()]),
        EXECUTE,
        "argument 1 of device 0 for adder is null",
    );
    let gone = array(F32, &[N as i64]);
    delete(gone);
    refused(run(executable, &[gone, good]), EXECUTE, "was deleted or donated");
    destroy(gone);
    run(executable, &[good, good]).unwrap();
    destroy_executable(executable);
    destroy(good);
    assert_eq!(in_use(device), 0);
}

#[test]
fn wrong_arguments_are_named() {
    on_each_plugin("wrong_arguments_are_named", &[], || {
        let client = Client::create().unwrap();
        wrong_arguments(&client);
        client.destroy();
    });
}

#[test]
fn at_the_limit_a_wrong_call_is_still_wrong() {
    let env = [("TORCH_TPU_SIM_HBM_BYTES", "3072")];
    on_each_plugin("at_the_limit_a_wrong_call_is_still_wrong", &env, || {
        let client = Client::create().unwrap();
        let full = [1.0_f32; N];
        let (a, b, c) = (
            client.upload(0, &full).unwrap(),
            client.upload(0, &full).unwrap(),
            client.upload(0, &full[..N - 1]).unwrap(),
        );
        let executable = client.compile(&add(N, "")).unwrap();
        assert_eq!(run(executable, &[a, b]).unwrap_err().code, RESOURCE_EXHAUSTED);
        refused(
            run(executable, &[a, c]),
            EXECUTE,
            "is f32[255], the program takes f32[256]",
        );
        refused(run(executable, &[a]), EXECUTE, "1 were given");
        delete(b);
        refused(run(executable, &[a, b]), EXECUTE, "was deleted or donated");
        [a, b, c].into_iter().for_each(destroy);
        destroy_executable(executable);
        client.destroy();
    });
}

#[test]
fn an_argument_must_lie_on_the_device_that_runs() {
    let env = [("TORCH_TPU_SIM_TOPOLOGY", "v6e:2x2")];
    on_each_plugin("an_argument_must_lie_on_the_device_that_runs", &env, || {
        let client = Client::create().unwrap();
        let here = client.upload(0, &[1.0; N]).unwrap();
        let there = client.upload(1, &[1.0; N]).unwrap();
        let executable = client.compile(&add(N, "")).unwrap();
        refused(
            run(executable, &[here, there]),
            EXECUTE,
            "argument 1 of device 0 for adder lies on another device",
        );
        let mut args = PJRT_LoadedExecutable_Execute_Args::new();
        let mut options = padded(PJRT_ExecuteOptions::new());
        let arguments = [[here, here], [there, there]];
        let rows = [arguments[0].as_ptr(), arguments[1].as_ptr()];
        args.executable = executable;
        args.options = (&raw mut options).cast();
        args.argument_lists = rows.as_ptr();
        args.num_devices = 2;
        args.num_args = 2;
        let mut made = [std::ptr::null_mut(); 2];
        let outputs = [&raw mut made[0], &raw mut made[1]];
        args.output_lists = outputs.as_ptr();
        let result = call(slot::PJRT_LoadedExecutable_Execute, &mut args);
        refused(result, EXECUTE, "num_devices is 2, adder runs on 1");
        [here, there].into_iter().for_each(destroy);
        destroy_executable(executable);
        client.destroy();
    });
}
