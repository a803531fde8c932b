//! Faults by `TORCH_TPU_SIM_FAULT`.

mod common;

use std::time::{Duration, Instant};

use common::*;

#[test]
fn the_nth_call_fails_and_the_next_succeeds() {
    let env = [(
        "TORCH_TPU_SIM_FAULT",
        "LoadedExecutable_Execute@2=RESOURCE_EXHAUSTED;BufferFromHostBuffer@3+=UNAVAILABLE:gone",
    )];
    on_each_plugin("the_nth_call_fails_and_the_next_succeeds", &env, || {
        let client = Client::create().unwrap();
        let a = client.upload(0, &[1.0; 4]).unwrap();
        let executable = client.compile(&add(4, "")).unwrap();
        destroy(execute(executable, &[a, a], false).unwrap().0);
        let error = execute(executable, &[a, a], false).unwrap_err();
        assert_eq!(error.code, RESOURCE_EXHAUSTED);
        assert!(
            error
                .message
                .contains("PJRT_LoadedExecutable_Execute: injected fault at call 2"),
            "{error:?}"
        );
        assert_eq!(in_use(client.devices[0]), 16, "the failed call took nothing");
        destroy(execute(executable, &[a, a], false).unwrap().0);
        destroy(client.upload(0, &[1.0; 4]).unwrap());
        for _ in 0..2 {
            let error = client.upload(0, &[1.0; 4]).unwrap_err();
            assert_eq!(error.code, UNAVAILABLE);
            assert!(error.message.ends_with(": gone"), "{error:?}");
        }
        destroy(a);
        destroy_executable(executable);
        client.destroy();
    });
}

#[test]
fn a_delay_holds_the_call_back() {
    on_each_plugin(
        "a_delay_holds_the_call_back",
        &[("TORCH_TPU_SIM_FAULT", "Client_PlatformName@1=delay:80ms")],
        || {
            let client = Client::create().unwrap();
            let time = || {
                let mut args = pjrt_ffi::PJRT_Client_PlatformName_Args::new();
                args.client = client.raw;
                let start = Instant::now();
                call(pjrt_ffi::slot::PJRT_Client_PlatformName, &mut args).unwrap();
                assert_eq!(text(args.platform_name, args.platform_name_size), "tpu_sim");
                start.elapsed()
            };
            assert!(time() >= Duration::from_millis(80));
            assert!(time() < Duration::from_millis(80));
            client.destroy();
        },
    );
}

#[test]
fn an_asynchronous_fault_fails_the_results() {
    let env = [(
        "TORCH_TPU_SIM_FAULT",
        "Execute@1=async:ABORTED;BufferFromHostBuffer@2=async:INTERNAL;ToHostBuffer@1=async:UNAVAILABLE",
    )];
    on_each_plugin("an_asynchronous_fault_fails_the_results", &env, || {
        let client = Client::create().unwrap();
        let a = client.upload(0, &[1.0; 4]).unwrap();
        let executable = client.compile(&add(4, "")).unwrap();
        let (sum, event) = execute(executable, &[a, a], true).unwrap();
        let failed = await_event(event).unwrap_err();
        assert_eq!(failed.code, ABORTED);
        let failed = ready(sum).unwrap_err();
        assert_eq!(failed.code, ABORTED);
        assert!(failed.message.contains("injected fault at call 1"), "{failed:?}");
        assert_eq!(in_use(client.devices[0]), 16, "an error buffer holds no memory");
        destroy(sum);

        let broken = client.upload(0, &[1.0; 4]).unwrap();
        assert_eq!(ready(broken).unwrap_err().code, INTERNAL);
        // The error travels on through what is computed from it.
        if let Ok((next, _)) = execute(executable, &[broken, a], false) {
            assert!(ready(next).is_err());
            destroy(next);
        }
        destroy(broken);

        let (sum, _) = execute(executable, &[a, a], false).unwrap();
        assert_eq!(download(sum, 4).unwrap_err().code, UNAVAILABLE);
        assert_eq!(download(sum, 4).unwrap(), [2.0; 4]);
        destroy(sum);
        destroy(a);
        assert_eq!(in_use(client.devices[0]), 0);
        destroy_executable(executable);
        client.destroy();
    });
}

#[test]
fn bad_grammar_is_an_error_at_the_first_call() {
    let env = [("TORCH_TPU_SIM_FAULT", "Execute@1=INTERNAL;Nope=INTERNAL")];
    on_each_plugin("bad_grammar_is_an_error_at_the_first_call", &env, || {
        let error = Client::create().err().unwrap();
        assert_eq!(error.code, INVALID_ARGUMENT);
        let wanted = "TORCH_TPU_SIM_FAULT: rule 2 (\"Nope=INTERNAL\"): \"Nope\" is not a PJRT function";
        assert!(error.message.contains(wanted), "{error:?}");
        assert_eq!(Client::create_with(&[]).err().unwrap(), error);
    });
}
