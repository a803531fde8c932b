//! Ahead-of-time compilation from Python.

use std::io;
use std::path::PathBuf;

use pjrt::aot::{AotClient, WorkerCommand, report, worker};
use pjrt::{Client, CompileOptions, OptionValue, Program};
use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use serde::Deserialize;

use crate::locate::{libtpu, package_dir};

create_exception!(
    torch_tpu._core,
    AotError,
    PyException,
    "The ahead-of-time compiler refused a program."
);

/// What may be set for a compile. All of it is optional.
#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
struct Options {
    /// Replicas; else the module's `mhlo.num_replicas`, else 1.
    replicas: Option<i64>,
    /// Partitions; else the module's `mhlo.num_partitions`, else 1.
    partitions: Option<i64>,
    /// XLA flags for this compile.
    flags: std::collections::BTreeMap<String, serde_json::Value>,
    /// Where to write the serialized program.
    output: Option<PathBuf>,
}

/// The text between `module` and its opening brace's body, comments left out: where module attributes stand.
fn module_header(text: &str) -> String {
    let lines = text
        .lines()
        .map(|line| line.split_once("//").map_or(line, |(code, _)| code));
    let mut header = String::new();
    for line in lines {
        header.push_str(line);
        header.push(' ');
        if line.contains("func.func") || line.contains("sdy.mesh") {
            break;
        }
    }
    header
}

/// A device count among the module's attributes: `mhlo.num_replicas = 4 : i32`.
fn module_attribute(header: &str, name: &str) -> PyResult<Option<i64>> {
    let Some((_, rest)) = header.split_once(name) else {
        return Ok(None);
    };
    let value = rest
        .trim_start()
        .strip_prefix('=')
        .map(str::trim_start)
        .unwrap_or_default();
    let value = &value[..value.find([' ', ',', '}', ':']).unwrap_or(value.len())];
    match value.parse::<i32>() {
        Ok(count) if count > 0 => Ok(Some(count.into())),
        _ => Err(AotError::new_err(format!(
            "the module attribute {name} is {value:?}; it must be a positive number"
        ))),
    }
}

fn compile_options(text: &str, options: &Options) -> PyResult<CompileOptions> {
    let header = module_header(text);
    let count = |given: Option<i64>, name: &str| match given {
        Some(given) => Ok(given),
        None => module_attribute(&header, name).map(|found| found.unwrap_or(1)),
    };
    let replicas = count(options.replicas, "mhlo.num_replicas")?;
    let partitions = count(options.partitions, "mhlo.num_partitions")?;
    if replicas
        .checked_mul(partitions)
        .is_none_or(|n| n < 1 || n > i64::from(i32::MAX))
    {
        let what = format!("{replicas} replicas x {partitions} partitions is no number of devices");
        return Err(AotError::new_err(what));
    }
    let mut made = CompileOptions::new(replicas, partitions);
    if partitions > 1 {
        made = made.spmd(text.contains("sdy."));
    }
    for (name, value) in &options.flags {
        let value = match value {
            serde_json::Value::Bool(b) => OptionValue::Bool(*b),
            serde_json::Value::String(s) => OptionValue::String(s.clone()),
            serde_json::Value::Number(n) => match n.as_i64() {
                Some(i) => OptionValue::Int(i),
                None => OptionValue::Double(n.as_f64().unwrap_or(f64::NAN)),
            },
            _ => {
                return Err(AotError::new_err(format!(
                    "the flag {name} is neither text, number nor true/false"
                )));
            }
        };
        made.overrides.insert(name.clone(), value);
    }
    Ok(made)
}

/// The child: this interpreter, importing nothing but this module.
fn worker_command(py: Python<'_>) -> PyResult<WorkerCommand> {
    let program: PathBuf = py.import("sys")?.getattr("executable")?.extract()?;
    let package = package_dir(py)?;
    let root = package.parent().unwrap_or(&package);
    let code = "import sys; sys.path.insert(0, sys.argv[1]); from torch_tpu import _core; _core.aot_worker()";
    Ok(WorkerCommand {
        program,
        arguments: vec!["-c".into(), code.into(), root.into()],
    })
}

/// Compiles StableHLO `text` for `topology` with no TPU and gives the report as JSON. `options_json` is a JSON object
/// with any of `replicas`, `partitions`, `flags` and `output`, or empty. Raises AotError with one line.
#[pyfunction]
#[pyo3(signature = (text, topology, options_json = ""))]
pub(crate) fn aot_compile(
    py: Python<'_>,
    text: &str,
    topology: &str,
    options_json: &str,
) -> PyResult<String> {
    let failed = |e: &dyn std::fmt::Display| AotError::new_err(e.to_string());
    let options: Options = match options_json {
        "" => Options::default(),
        json => serde_json::from_str(json).map_err(|e| failed(&format!("bad options: {e}")))?,
    };
    // Before the compiler sees it: libtpu answers a bad name with its internals, or with a crash.
    let shape: hlo::report::Topology = topology
        .parse()
        .map_err(|e: hlo::report::TopologyError| failed(&e))?;
    let compile = compile_options(text, &options)?;
    let (replicas, partitions) = compile.devices();
    if replicas * partitions > shape.devices as i64 {
        return Err(failed(&format!(
            "the program runs on {replicas} x {partitions} devices (replicas x partitions), {topology} has {}",
            shape.devices
        )));
    }
    let (command, compiler) = (worker_command(py)?, libtpu(py)?);
    py.detach(|| {
        let client = AotClient::new(command, &compiler, topology).map_err(|e| failed(&e))?;
        if client.platform_name() != "tpu" {
            let name = client.platform_name();
            return Err(failed(&format!(
                "{} compiles for {name}, not for a TPU",
                compiler.display()
            )));
        }
        let (executable, seconds) = client
            .compile_timed(&Program::mlir(text), &compile)
            .map_err(|e| failed(&e))?;
        if let Some(path) = &options.output {
            let bytes = executable.serialize().map_err(|e| failed(&e))?;
            std::fs::write(path, bytes)
                .map_err(|e| failed(&format!("cannot write {}: {e}", path.display())))?;
        }
        let report = report(&client, &*executable, seconds).map_err(|e| failed(&e))?;
        serde_json::to_string(&report).map_err(|e| failed(&e))
    })
}

/// Serves the ahead-of-time compiler on standard input and output; the child of `aot_compile` runs this.
#[pyfunction]
pub(crate) fn aot_worker(py: Python<'_>) -> PyResult<()> {
    py.detach(|| worker::serve(&mut io::stdin().lock(), &mut io::stdout().lock()))?;
    Ok(())
}
