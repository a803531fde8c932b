//! Recording, failing and delaying.

mod common;

use std::sync::Arc;
use std::time::{Duration, Instant};

use common::*;
use pjrt::decorate::{Delay, FailNth, Hook, Recorder, decorate};
use pjrt::{Client, Code, CompileOptions, ElementType, Error, ExecuteOptions, Program};

fn wrapped(hooks: Vec<Arc<dyn Hook>>) -> Arc<dyn Client> {
    decorate(SIM.clone(), hooks)
}

#[test]
fn a_recorder_sees_every_call_in_order() {
    let recorder = Arc::new(Recorder::default());
    let client = wrapped(vec![recorder.clone()]);
    let add = client
        .compile(
            &Program::mlir(&binary("add", "4xf32")),
            &CompileOptions::default(),
        )
        .unwrap();
    let x = put_on(&*client, 0, ElementType::F32, &[4], &bytes(&[1f32; 4]));
    let plain = put_f32(&[4], &[2.0; 4]);
    let out = run(&*add, &[&*x, &*plain]);
    assert_eq!(get_f32(&*out[0]), [3.0; 4], "decorated and plain buffers mix");
    out[0].ready().unwrap().wait().unwrap();
    let seen = recorder.calls();
    let want = [
        "Client::compile",
        "Client::buffer_from_host",
        "Executable::execute",
        "Buffer::copy_to_host",
        "Buffer::ready",
        "Event::wait",
    ];
    assert_eq!(seen, want);
    assert_eq!(recorder.count("Executable::execute"), 1);
}

#[test]
fn the_nth_call_fails_with_the_code_and_only_that_one() {
    for (call, code) in [
        ("Executable::execute", Code::ResourceExhausted),
        ("Event::wait", Code::Unavailable),
    ] {
        let client = wrapped(vec![Arc::new(FailNth::new(call, 2, code))]);
        let add = client
            .compile(
                &Program::mlir(&binary("add", "4xf32")),
                &CompileOptions::default(),
            )
            .unwrap();
        let x = put_on(&*client, 0, ElementType::F32, &[4], &bytes(&[1f32; 4]));
        let mut outcomes = Vec::new();
        for _ in 0..3 {
            let step = add.execute(&[&[&*x, &*x]], &ExecuteOptions::default());
            outcomes.push(step.and_then(|done| done.outputs[0][0].ready()?.wait()));
        }
        assert!(outcomes[0].is_ok() && outcomes[2].is_ok());
        let error = outcomes.remove(1).unwrap_err();
        assert!(
            matches!(&error, Error::Plugin { call: c, .. } if *c == call),
            "{error}"
        );
        assert_eq!(error.code(), code);
    }
}

#[test]
fn a_delay_delays() {
    let client = wrapped(vec![Arc::new(Delay::new(
        "Client::buffer_from_host",
        Duration::from_millis(30),
    ))]);
    let start = Instant::now();
    let x = put_on(&*client, 0, ElementType::F32, &[1], &bytes(&[1f32]));
    assert!(start.elapsed() >= Duration::from_millis(30));
    assert_eq!(get_f32(&*x), [1.0]);
}
