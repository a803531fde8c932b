//! The StableHLO builder against the real compilers: every op's samples on both CPU plugins and for v6e.
//!
//! A type that the builder infers and a compiler does not is a parse error here. What a compiler is known to refuse
//! stands in one table (`stablehlo::samples`); a row of it that no longer holds fails too.

mod common;

use std::sync::Arc;

use common::*;
use pjrt::aot::AotClient;
use pjrt::plugin::PluginClient;
use pjrt::{Client, CompileOptions, NamedValue, Program};
use stablehlo::samples::{Refusal, Sample, Target, samples};

/// The compiler's words, without the code or the source file before them.
fn words(why: Refusal) -> &'static str {
    let (Refusal::Error(text) | Refusal::Aborts(text)) = why;
    text.split_once(": ").map_or(text, |(_, words)| words)
}

/// Compiles every sample; the list of what went otherwise than the table says.
fn surprises(target: Target, mut client: impl FnMut(&Sample) -> Arc<dyn Client>) -> Vec<String> {
    let samples = samples().unwrap();
    assert!(
        samples.len() > 115,
        "{} samples cannot cover the op set",
        samples.len()
    );
    let mut found = Vec::new();
    for sample in &samples {
        let mut options = CompileOptions::new(sample.replicas.into(), sample.partitions.into());
        if sample.partitions > 1 {
            options = options.spmd(sample.program.contains("sdy."));
        }
        let compiled = client(sample).compile(&Program::mlir(&sample.program), &options);
        let name = format!("{} ({})", sample.op, sample.variant);
        match (compiled, sample.refusal(target)) {
            (Ok(_), None) => {}
            (Err(error), Some(why)) if error.to_string().contains(words(why)) => {}
            (Ok(_), Some(why)) => found.push(format!("{name} compiles, the table says: {why:?}")),
            (Err(error), why) => found.push(format!(
                "{name}: {error}; the table says: {why:?}\n{}",
                sample.program
            )),
        }
    }
    found
}

fn cpu(target: Target, plugin: &str) {
    let options = [("cpu_device_count".to_owned(), NamedValue::Int(4))];
    let client: Arc<dyn Client> = PluginClient::open(site_packages().join(plugin), &options).unwrap();
    let found = surprises(target, |_| client.clone());
    assert!(
        found.is_empty(),
        "{} surprises:\n{}",
        found.len(),
        found.join("\n")
    );
}

#[test]
fn samples_compile_on_the_first_cpu_plugin() {
    cpu(Target::Cpu106, "fastatomstruct_xla_cpu/libpjrt_cpu.so");
}

#[test]
fn samples_compile_on_the_second_cpu_plugin() {
    cpu(Target::Cpu115, "lammps_jax_pjrt_cpu/pjrt_c_api_cpu_plugin.so");
}

#[test]
fn samples_compile_for_v6e() {
    let slice: Arc<dyn Client> = AotClient::new(worker(), &libtpu(), "v6e:2x2").unwrap();
    let found = surprises(Target::V6e, |sample| {
        if sample.replicas * sample.partitions == 1 {
            V6E.clone()
        } else {
            slice.clone()
        }
    });
    assert!(
        found.is_empty(),
        "{} surprises:\n{}",
        found.len(),
        found.join("\n")
    );
}
