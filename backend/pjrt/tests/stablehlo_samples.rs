//! The StableHLO builder against the real compilers: every op's samples on both CPU plugins and for v6e.
//!
//! A type that the builder infers and a compiler does not is a parse error here. What a compiler is known to refuse
//! stands in one table (`stablehlo::samples`); a row of it that no longer holds fails too.

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::sync::Arc;

use common::*;
use pjrt::aot::AotClient;
use pjrt::plugin::PluginClient;
use pjrt::{Client, CompileOptions, NamedValue, Program};
use stablehlo::samples::{Refusal, Sample, Target, samples};

/// Whether an error is the refusal that the table says: in the compiler's words, without the code or the source file
/// before them.
fn says(error: &str, why: Refusal) -> bool {
    let words = |text: &&str| error.contains(text.split_once(": ").map_or(*text, |(_, words)| words));
    match why {
        Refusal::Error(text) | Refusal::Aborts(text) => words(&text),
        Refusal::AbortsByAny(texts) => texts.iter().any(words),
    }
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
            (Err(error), Some(why)) if says(&error.to_string(), why) => {}
            (Ok(_), Some(why)) => found.push(format!("{name} compiles, the table says: {why:?}")),
            (Err(error), why) => found.push(format!(
                "{name}: {error}; the table says: {why:?}\n{}",
                sample.program
            )),
        }
    }
    found
}

const CPU106: &str = "fastatomstruct_xla_cpu/libpjrt_cpu.so";
const CPU115: &str = "lammps_jax_pjrt_cpu/pjrt_c_api_cpu_plugin.so";

fn cpu_client(plugin: &str) -> Arc<dyn Client> {
    let options = [("cpu_device_count".to_owned(), NamedValue::Int(4))];
    PluginClient::open(site_packages().join(plugin), &options).unwrap()
}

fn cpu(target: Target, plugin: &str) {
    let client = cpu_client(plugin);
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
    cpu(Target::Cpu106, CPU106);
}

#[test]
fn samples_compile_on_the_second_cpu_plugin() {
    cpu(Target::Cpu115, CPU115);
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

/// The names of the two dialects among a library's strings: `stablehlo.add`, but also attributes and types.
fn dialect_names(library: &[u8]) -> BTreeSet<String> {
    let part_of_name = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'_' | b'-');
    let mut names = BTreeSet::new();
    for dot in (1..library.len()).filter(|&i| library[i] == b'.' && library[i - 1] == b'o') {
        let dialect = ["stablehlo", "chlo"]
            .into_iter()
            .find(|d| library[..dot].ends_with(d.as_bytes()));
        let Some(dialect) = dialect else { continue };
        // A name is a string of its own: nothing of a word or of a message before it, a zero after it.
        let before = library[dot - dialect.len() - 1];
        let end = dot
            + 1
            + library[dot + 1..]
                .iter()
                .take_while(|&&b| part_of_name(b))
                .count();
        let alone = !before.is_ascii_alphanumeric() && !b"_.'@#!".contains(&before);
        if alone && end > dot + 1 && library.get(end) == Some(&0) {
            let op = String::from_utf8_lossy(&library[dot + 1..end]);
            names.insert(format!("{dialect}.{op}"));
        }
    }
    names
}

/// The ops of the two dialects that a plugin knows and the builder does not: of the names in its strings, those that it
/// does not call unregistered.
fn unbuilt(library: &str, client: &dyn Client) -> Vec<String> {
    let names = dialect_names(&fs::read(site_packages().join(library)).unwrap());
    // The end of every region; no op to build.
    let mut built = BTreeSet::from(["stablehlo.return".to_owned()]);
    built.extend(samples().unwrap().into_iter().map(|s| s.op.to_owned()));
    let known = names.intersection(&built).count();
    assert!(
        known > 160,
        "only {known} ops of the builder are strings of {library}"
    );
    let is_op = |name: &String| {
        let text = format!("module {{ func.func public @main() {{ \"{name}\"() : () -> () func.return }} }}");
        let compiled = client.compile(&Program::mlir(&text), &CompileOptions::default());
        !compiled.is_err_and(|e| {
            e.to_string()
                .contains(&format!("unregistered operation '{name}'"))
        })
    };
    assert!(is_op(&"stablehlo.add".to_owned()) && !is_op(&"stablehlo.trace".to_owned()));
    names
        .difference(&built)
        .filter(|name| is_op(name))
        .cloned()
        .collect()
}

/// The builder's op set is the whole op set: a plugin that knows one more fails here.
#[test]
fn every_op_that_a_plugin_knows_is_built() {
    let none: Vec<String> = Vec::new();
    assert_eq!(unbuilt(CPU106, &*cpu_client(CPU106)), none);
    assert_eq!(unbuilt(CPU115, &*cpu_client(CPU115)), none);
    assert_eq!(unbuilt("libtpu/libtpu.so", &**V6E), none);
}
