//! Ahead-of-time compilation from Python.

use std::io;
use std::path::{Path, PathBuf};

use pjrt::aot::{AotClient, ModuleAttribute, WorkerCommand, module_attributes, report, uses_shardy, worker};
use pjrt::{Client, Code, CompileOptions, OptionValue, Program};
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

/// Why a compile failed, before it is an AotError: that is made where Python is held.
struct Failed {
    code: Code,
    message: String,
}

impl From<pjrt::Error> for Failed {
    fn from(error: pjrt::Error) -> Self {
        Self {
            code: error.code(),
            message: error.to_string(),
        }
    }
}

impl Failed {
    fn new(code: Code, message: impl ToString) -> Self {
        Self {
            code,
            message: message.to_string(),
        }
    }

    /// An AotError whose attribute `code` is the name of the status code.
    fn raise(self, py: Python<'_>) -> PyErr {
        let error = AotError::new_err(self.message);
        match error.value(py).setattr("code", self.code.name()) {
            Ok(()) => error,
            Err(other) => other,
        }
    }
}

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
    /// A folder of the disk cache that it is to be kept in; the user's own when empty. For one device, with no flags.
    keep: Option<PathBuf>,
}

/// A device count among the module's attributes: `mhlo.num_replicas = 4 : i32`.
fn device_count(attributes: &[ModuleAttribute<'_>], name: &str) -> Result<Option<i64>, Failed> {
    let Some(found) = attributes.iter().find(|attribute| attribute.name == name) else {
        return Ok(None);
    };
    match found.integer() {
        Some(count) if (1..=i64::from(i32::MAX)).contains(&count) => Ok(Some(count)),
        _ => Err(invalid(format!(
            "the module attribute {name} is {:?}; it must be a positive number",
            found.value
        ))),
    }
}

fn invalid(message: impl ToString) -> Failed {
    Failed::new(Code::InvalidArgument, message)
}

fn compile_options(text: &str, options: &Options) -> Result<CompileOptions, Failed> {
    let attributes = module_attributes(text);
    let count = |given: Option<i64>, name: &str| match given {
        Some(given) => Ok(given),
        None => device_count(&attributes, name).map(|found| found.unwrap_or(1)),
    };
    let replicas = count(options.replicas, "mhlo.num_replicas")?;
    let partitions = count(options.partitions, "mhlo.num_partitions")?;
    if replicas
        .checked_mul(partitions)
        .is_none_or(|n| n < 1 || n > i64::from(i32::MAX))
    {
        let what = format!("{replicas} replicas x {partitions} partitions is no number of devices");
        return Err(invalid(what));
    }
    let mut made = CompileOptions::new(replicas, partitions);
    if partitions > 1 {
        made = made.spmd(uses_shardy(text));
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
                return Err(invalid(format!(
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
/// with any of `replicas`, `partitions`, `flags` and `output`, or empty. Raises AotError, whose
/// attribute `code` names the status code.
#[pyfunction]
#[pyo3(signature = (text, topology, options_json = ""))]
pub(crate) fn aot_compile(
    py: Python<'_>,
    text: &str,
    topology: &str,
    options_json: &str,
) -> PyResult<String> {
    let (command, compiler) = (worker_command(py)?, libtpu(py)?);
    py.detach(|| compile(text, topology, options_json, command, &compiler))
        .map_err(|failed| failed.raise(py))
}

fn compile(
    text: &str,
    topology: &str,
    options_json: &str,
    command: WorkerCommand,
    compiler: &Path,
) -> Result<String, Failed> {
    let options: Options = match options_json {
        "" => Options::default(),
        json => serde_json::from_str(json).map_err(|e| invalid(format!("bad options: {e}")))?,
    };
    // Before the compiler sees it: libtpu answers a bad name with its internals, or with a crash.
    let shape: hlo::report::Topology = topology
        .parse()
        .map_err(|e: hlo::report::TopologyError| invalid(e))?;
    let compile = compile_options(text, &options)?;
    let (replicas, partitions) = compile.devices();
    if replicas * partitions > shape.devices as i64 {
        return Err(invalid(format!(
            "the program runs on {replicas} x {partitions} devices (replicas x partitions), {topology} has {}",
            shape.devices
        )));
    }
    let client = AotClient::new(command, compiler, topology)?;
    if client.platform_name() != "tpu" {
        let (path, name) = (compiler.display(), client.platform_name());
        return Err(invalid(format!("{path} compiles for {name}, not for a TPU")));
    }
    let compile = match options.keep {
        Some(_) if replicas * partitions > 1 || !options.flags.is_empty() => {
            return Err(invalid(
                "only a program for one device, compiled without flags, is looked for in the cache of programs",
            ));
        }
        Some(_) => runtime::compile_options(client.platform_name(), client.devices().len() > 1),
        None => compile,
    };
    let (executable, seconds) = client.compile_timed(&Program::mlir(text), &compile)?;
    if let Some(path) = &options.output {
        let bytes = executable.serialize()?;
        std::fs::write(path, bytes)
            .map_err(|e| Failed::new(Code::Unavailable, format!("cannot write {}: {e}", path.display())))?;
    }
    if let Some(folder) = &options.keep {
        let folder = (!folder.as_os_str().is_empty()).then_some(folder.as_path());
        let kept = runtime::keep(folder, &*client, &compile, text, &executable.serialize()?);
        kept.map_err(|e| Failed::new(Code::Unavailable, format!("cannot keep the program: {e}")))?;
    }
    let report = report(&client, &*executable, seconds)?;
    serde_json::to_string(&report).map_err(|e| Failed::new(Code::Internal, e))
}

/// Serves the ahead-of-time compiler on standard input and output; the child of `aot_compile` runs this.
#[pyfunction]
pub(crate) fn aot_worker(py: Python<'_>) -> PyResult<()> {
    py.detach(|| worker::serve(io::stdin(), &mut io::stdout().lock()))?;
    Ok(())
}
