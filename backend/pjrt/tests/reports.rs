//! The ahead-of-time report, over the real v6e compiler.

mod common;

use common::*;
use pjrt::aot::report;
use pjrt::{Client, CompileOptions, Program};

fn report_of(text: &str) -> hlo::report::Report {
    let (executable, seconds) = V6E
        .compile_timed(&Program::mlir(text), &CompileOptions::default())
        .unwrap();
    compile_on_sim(text);
    report(&V6E, &*executable, seconds).unwrap()
}

fn dot(n: usize) -> String {
    format!(
        "module @dot {{ func.func @main(%a: tensor<{n}x{n}xbf16>, %b: tensor<{n}x{n}xbf16>) -> tensor<{n}x{n}xbf16> {{\n\
         %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<{n}x{n}xbf16>, tensor<{n}x{n}xbf16>) \
         -> tensor<{n}x{n}xbf16>\n return %0 : tensor<{n}x{n}xbf16> }} }}"
    )
}

/// A loop of `trips` rounds over a matrix product.
fn looped(trips: usize) -> String {
    format!(
        "module @looped {{ func.func @main(%a: tensor<512x512xf32>) -> tensor<512x512xf32> {{\n\
         %i = stablehlo.constant dense<0> : tensor<i32>\n\
         %r:2 = stablehlo.while(%k = %i, %x = %a) : tensor<i32>, tensor<512x512xf32>\n\
         cond {{ %n = stablehlo.constant dense<{trips}> : tensor<i32>\n\
         %c = stablehlo.compare LT, %k, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>\n stablehlo.return %c : tensor<i1> }}\n\
         do {{ %one = stablehlo.constant dense<1> : tensor<i32>\n %k1 = stablehlo.add %k, %one : tensor<i32>\n\
         %d = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0] : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>\n\
         %t = stablehlo.tanh %d : tensor<512x512xf32>\n stablehlo.return %k1, %t : tensor<i32>, tensor<512x512xf32> }}\n\
         return %r#1 : tensor<512x512xf32> }} }}"
    )
}

#[test]
fn a_matrix_product_costs_what_it_should() {
    let r = report_of(&dot(2048));
    let flops = 2.0 * 2048f64.powi(3);
    assert!(
        (r.cost.flops / flops - 1.0).abs() < 0.02,
        "{} flops",
        r.cost.flops
    );
    assert_eq!(
        (r.chip.name.as_str(), r.memory.limit_bytes),
        ("TPU v6 lite", 33_546_042_880)
    );
    assert_eq!(r.memory.argument_bytes, 2 * 2048 * 2048 * 2);
    // No faster than the chip's peak, and within ten times of it.
    let best = flops / r.chip.peak_flops;
    assert!(
        r.cost.estimated_seconds > best && r.cost.estimated_seconds < 10.0 * best,
        "{:?}",
        r.cost
    );
    assert!(!r.top.is_empty() && r.top[0].share > 0.3, "{:?}", r.top);
}

#[test]
fn loop_bodies_count_as_often_as_they_run() {
    let (few, many) = (report_of(&looped(10)), report_of(&looped(100)));
    let ratio = many.cost.estimated_cycles as f64 / few.cost.estimated_cycles as f64;
    assert!(
        (8.0..=10.5).contains(&ratio),
        "{ratio}: {:?} {:?}",
        few.top,
        many.top
    );
    assert_eq!(many.top[0].trip_count, Some(100));
}

#[test]
fn a_slice_is_reported_for_one_chip() {
    let slice = pjrt::aot::AotClient::new(worker(), &libtpu(), "v6e:2x2").unwrap();
    assert_eq!(slice.devices().len(), 4);
    let text = binary("add", "1024x1024xf32");
    let (executable, seconds) = slice
        .compile_timed(&Program::mlir(&text), &CompileOptions::default())
        .unwrap();
    let r = report(&slice, &*executable, seconds).unwrap();
    assert_eq!(r.topology, "v6e:2x2");
    assert_eq!(r.memory.output_bytes, 4 << 20);
    assert_eq!(serde_json::to_value(&r).unwrap()["cost"]["bound"], "memory");
}

#[test]
fn a_worker_that_dies_says_its_last_words_and_the_next_call_starts_another() {
    use pjrt::aot::{AotClient, WorkerCommand};
    let dead = WorkerCommand {
        program: "/bin/sh".into(),
        arguments: vec!["-c".into(), "echo out of luck >&2; exit 3".into()],
    };
    let error = AotClient::new(dead, &libtpu(), "v6e:1x1")
        .unwrap_err()
        .to_string();
    assert!(error.contains("out of luck") && error.contains('3'), "{error}");
    let missing = WorkerCommand {
        program: "/nowhere/worker".into(),
        arguments: vec![],
    };
    let error = AotClient::new(missing, &libtpu(), "v6e:1x1")
        .unwrap_err()
        .to_string();
    assert!(error.contains("/nowhere/worker"), "{error}");
    let error = AotClient::new(worker(), &libtpu(), "v6e:9000x1").unwrap_err();
    assert!(error.call().is_some(), "{error}");
}
