//! The Python face of the eager runtime.

use std::collections::BTreeMap;
use std::ffi::{CStr, c_char};
use std::path::PathBuf;

use glue_abi::{CoreTable, ErrorKind, GlueTable, LAYOUT, Status};
use pjrt::platform::{self, Platform};
use pyo3::exceptions::{
    PyImportError, PyIndexError, PyKeyboardInterrupt, PyNotImplementedError, PyRuntimeError, PyTypeError,
    PyValueError,
};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use runtime::{Config, Error, Result, runtime};

use crate::core_table::{CORE, glue, memory_of, reset_memory, set_glue};
use crate::locate::{cpu_plugin, libtpu, plugin_path, set};

/// A runtime error as the Python exception of its class.
pub(crate) fn raise(error: Error) -> PyErr {
    match error {
        Error::Raised { kind, message } => match kind {
            ErrorKind::Index => PyIndexError::new_err(message),
            ErrorKind::Value => PyValueError::new_err(message),
            ErrorKind::Type => PyTypeError::new_err(message),
            ErrorKind::NotImplemented => PyNotImplementedError::new_err(message),
            ErrorKind::OutOfMemory => out_of_memory(message),
            ErrorKind::Runtime | ErrorKind::Internal => PyRuntimeError::new_err(message),
        },
        other => PyRuntimeError::new_err(other.to_string()),
    }
}

/// torch's own class where torch is imported.
fn out_of_memory(message: String) -> PyErr {
    Python::attach(|py| {
        let class = py
            .import("torch")
            .and_then(|torch| torch.getattr("OutOfMemoryError"));
        match class.and_then(|class| class.call1((message.clone(),))) {
            Ok(value) => PyErr::from_value(value),
            Err(_) => PyRuntimeError::new_err(message),
        }
    })
}

/// The plugin for this process: TORCH_TPU_PJRT_PLUGIN, a TPU's library, or the simulator, saying so once.
fn find_plugin() -> Result<Config> {
    let choice = platform::current()?;
    let plugin: PyResult<PathBuf> = Python::attach(|py| match choice.platform {
        Platform::Sim => plugin_path(py),
        Platform::Tpu if set("TORCH_TPU_PJRT_PLUGIN").is_some() => plugin_path(py),
        Platform::Tpu => libtpu(py),
    });
    let plugin = plugin.map_err(|e| Error::runtime(e.to_string()))?;
    let asked = std::env::var_os("TORCH_TPU_PLATFORM").is_some_and(|v| !v.is_empty() && v != "auto");
    if choice.platform == Platform::Sim && !asked && set("TORCH_TPU_PJRT_PLUGIN").is_none() {
        // Said once, on stderr, and not an error: the contract of TORCH_TPU_PLATFORM=auto.
        #[allow(clippy::print_stderr)]
        {
            eprintln!(
                "torch_tpu: no TPU found, using the simulated v6e (TORCH_TPU_PLATFORM=sim silences this)"
            );
        }
    }
    let mut libraries = Vec::new();
    if choice.platform == Platform::Sim {
        // Where the simulator finds the plugin under it.
        libraries.extend(set("TORCH_TPU_CPU_PLUGIN"));
        libraries.extend(Python::attach(cpu_plugin));
    }
    Ok(Config { plugin, libraries })
}

/// Whether this process will run on the simulator; an error of the choice is the first use's to tell.
#[pyfunction]
pub(crate) fn simulates() -> bool {
    platform::current().is_ok_and(|choice| choice.platform == Platform::Sim)
}

/// How many devices the client will have, told without starting it; `None` where only the plugin knows.
pub(crate) fn expected_devices() -> Option<usize> {
    if set("TORCH_TPU_PJRT_PLUGIN").is_some() {
        return None;
    }
    match platform::current().ok()?.platform {
        Platform::Tpu => Some(platform::tpu_device_files(std::path::Path::new("/")).len()).filter(|n| *n > 0),
        Platform::Sim => {
            let topology = std::env::var("TORCH_TPU_SIM_TOPOLOGY")
                .ok()
                .filter(|t| !t.is_empty());
            let Some(topology) = topology else { return Some(1) };
            // A v6e has one device a chip; other kinds are the plugin's to count.
            let grid = topology.strip_prefix("v6e:")?;
            grid.split('x')
                .map(|n| n.parse::<usize>().ok())
                .product::<Option<usize>>()
                .filter(|n| *n > 0)
        }
    }
}

/// Opens the glue at `path` for the imported torch.
#[pyfunction]
pub(crate) fn open_glue(path: PathBuf) -> PyResult<()> {
    type Open = unsafe extern "C" fn(*const CoreTable, *const u32, *mut c_char, usize) -> *const GlueTable;
    if glue().is_some() {
        return Ok(());
    }
    runtime::configure(find_plugin);
    Python::attach(crate::line::start);
    runtime::set_line_source(crate::line::issued);
    let failed = |why: String| PyImportError::new_err(format!("cannot open {}: {why}", path.display()));
    // Everything is bound at once: a symbol that torch lacks is an error here and not an abort later.
    let flags = libloading::os::unix::RTLD_NOW | libloading::os::unix::RTLD_LOCAL;
    // SAFETY: the library is ours; its initializers only fill tables of torch.
    let library = unsafe { libloading::os::unix::Library::open(Some(&path), flags) }
        .map_err(|e| failed(e.to_string()))?;
    // SAFETY: the symbol has this type in every glue; versions and layouts are compared by it.
    let open = unsafe { library.get::<Open>(b"torch_tpu_glue_open\0") }.map_err(|e| failed(e.to_string()))?;
    let mut reason = [0 as c_char; 1024];
    // SAFETY: the core's table is a static; the reason has its capacity.
    let table = unsafe { open(&CORE, LAYOUT.as_ptr(), reason.as_mut_ptr(), reason.len()) };
    // SAFETY: the glue gives a static table or null.
    let table: Option<&'static GlueTable> = unsafe { table.as_ref() };
    let Some(table) = table else {
        // SAFETY: the glue ended the text by a zero.
        let text = unsafe { CStr::from_ptr(reason.as_ptr()) };
        return Err(failed(text.to_string_lossy().into_owned()));
    };
    set_glue(table);
    // torch keeps functions of it for the life of the process.
    std::mem::forget(library);
    Ok(())
}

/// Asks Python for a decomposition of an operator.
pub(crate) fn decompose(name: &str, overload: &str) -> Result<bool> {
    Python::attach(|py| {
        py.import("torch_tpu._decompose")
            .and_then(|module| module.call_method1("register", (name, overload)))
            .and_then(|answer| answer.extract())
            .map_err(|e| {
                if e.is_instance_of::<PyKeyboardInterrupt>(py) {
                    // The error crosses torch as a RuntimeError; Python raises the interrupt itself soon after.
                    // SAFETY: the interpreter's lock is held.
                    unsafe { pyo3::ffi::PyErr_SetInterrupt() };
                }
                Error::runtime(format!("cannot decompose {name}: {e}"))
            })
    })
}

/// Number of devices; starts the client.
#[pyfunction]
pub(crate) fn device_count(py: Python<'_>) -> PyResult<usize> {
    py.detach(|| runtime().map(|r| r.devices.len())).map_err(raise)
}

/// Whether the client was started in this process.
#[pyfunction]
pub(crate) fn is_initialized() -> bool {
    runtime::runtime_if_started().is_some()
}

/// Whether this process was forked from one that had started the client.
#[pyfunction]
pub(crate) fn is_in_bad_fork() -> bool {
    runtime::in_bad_fork()
}

fn the_glue() -> PyResult<&'static GlueTable> {
    glue().ok_or_else(|| PyRuntimeError::new_err("torch_tpu is not connected to torch: import torch first"))
}

fn thrown(status: u32) -> PyResult<()> {
    if status == Status::Ok as u32 {
        return Ok(());
    }
    let (mut text, mut len) = (std::ptr::null(), 0);
    let table = the_glue()?;
    // SAFETY: the glue gives a text that stays until its next failure on this thread.
    let message = unsafe {
        (table.thrown)(&mut text, &mut len);
        String::from_utf8_lossy(if len == 0 {
            &[]
        } else {
            std::slice::from_raw_parts(text, len)
        })
        .into_owned()
    };
    Err(PyRuntimeError::new_err(message))
}

/// The current device of this thread.
#[pyfunction]
pub(crate) fn current_device() -> PyResult<i32> {
    // SAFETY: no arguments.
    Ok(unsafe { (the_glue()?.current_device)() })
}

/// Sets the current device of this thread.
#[pyfunction]
pub(crate) fn set_device(device: i32) -> PyResult<()> {
    // SAFETY: no pointers.
    thrown(unsafe { (the_glue()?.set_current_device)(device) })
}

/// Seed and next block of a device's default generator.
#[pyfunction]
pub(crate) fn rng_get(device: i32) -> PyResult<(u64, u64)> {
    let (mut seed, mut offset) = (0, 0);
    // SAFETY: two places to write to.
    thrown(unsafe { (the_glue()?.generator_get)(device, &mut seed, &mut offset) })?;
    Ok((seed, offset))
}

/// Sets them; for device -1 the seed of every device, which starts none.
#[pyfunction]
pub(crate) fn rng_set(device: i32, seed: u64, offset: u64) -> PyResult<()> {
    // SAFETY: no pointers.
    thrown(unsafe { (the_glue()?.generator_set)(device, seed, offset) })
}

/// Waits for a device, or for all.
#[pyfunction]
#[pyo3(signature = (device = None))]
pub(crate) fn synchronize(py: Python<'_>, device: Option<usize>) -> PyResult<()> {
    py.detach(|| match runtime::runtime_if_started() {
        Some(runtime) => runtime.synchronize(device),
        None => Ok(()),
    })
    .map_err(raise)
}

/// `strict`, `debug` or `fused`.
#[pyfunction]
pub(crate) fn eager_mode(py: Python<'_>) -> PyResult<&'static str> {
    let runtime = py.detach(runtime).map_err(raise)?;
    Ok(match (runtime.debug(), runtime.fused()) {
        (true, _) => "debug",
        (false, true) => "fused",
        (false, false) => "strict",
    })
}

/// Sets the mode.
#[pyfunction]
pub(crate) fn set_eager_mode(py: Python<'_>, mode: &str) -> PyResult<()> {
    let runtime = py.detach(runtime).map_err(raise)?;
    if !["strict", "debug", "fused"].contains(&mode) {
        return Err(PyValueError::new_err(format!(
            "{mode:?} is no eager mode: use \"strict\", \"debug\" or \"fused\""
        )));
    }
    runtime.set_debug(mode == "debug");
    py.detach(|| runtime.set_fused(mode == "fused")).map_err(raise)
}

/// Opens a scope whose ops become one program.
#[pyfunction]
pub(crate) fn open_scope() {
    runtime::open_scope();
}

/// Ends the scope and runs its ops.
#[pyfunction]
pub(crate) fn close_scope(py: Python<'_>) -> PyResult<()> {
    py.detach(runtime::close_scope).map_err(raise)
}

/// Counters of fused windows: programs ready, programs being compiled, windows that ran as one program.
#[pyfunction]
pub(crate) fn fused_stats<'py>(py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
    let stats = runtime::fused_stats();
    let out = PyDict::new(py);
    out.set_item("programs", stats.programs)?;
    out.set_item("compiling", stats.compiling)?;
    out.set_item("ran", stats.ran)?;
    Ok(out)
}

/// Compiles no more fused programs, for the end of the process.
#[pyfunction]
pub(crate) fn stop_fused(py: Python<'_>) {
    py.detach(|| {
        runtime::stop_fused();
        if runtime::runtime_if_started().is_some() {
            // Autograd's device threads may still be letting go of Python objects. An interpreter that finalizes ends
            // a thread that asks for its lock, in the midst of C++, which aborts: here they get the lock first.
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    });
}

/// Waits until no fused program is being compiled, or for so many seconds; whether none is.
#[pyfunction]
pub(crate) fn wait_for_fused(py: Python<'_>, seconds: f64) -> bool {
    py.detach(|| runtime::wait_for_fused(std::time::Duration::from_secs_f64(seconds.clamp(0.0, 1e6))))
}

/// Bytes and buffers held by tensors of a device (now, at most, ever made, ever freed), and what the device says.
#[pyfunction]
pub(crate) fn memory_stats<'py>(py: Python<'py>, device: usize) -> PyResult<Bound<'py, PyDict>> {
    let memory = py.detach(|| memory_of(device)).map_err(raise)?;
    let out = PyDict::new(py);
    out.set_item("bytes", memory.bytes)?;
    out.set_item("buffers", memory.buffers)?;
    out.set_item("in_use", memory.in_use)?;
    out.set_item("peak_in_use", memory.peak_in_use)?;
    out.set_item("limit", memory.limit)?;
    Ok(out)
}

/// Sets the peaks back to what is held.
#[pyfunction]
pub(crate) fn reset_peak_memory(py: Python<'_>, device: usize) -> PyResult<()> {
    py.detach(|| reset_memory(device, false)).map_err(raise)
}

/// Sets the sums of bytes and buffers back to zero.
#[pyfunction]
pub(crate) fn reset_accumulated_memory(py: Python<'_>, device: usize) -> PyResult<()> {
    py.detach(|| reset_memory(device, true)).map_err(raise)
}

/// Kind, coordinates, attributes, memory of a device.
#[pyfunction]
pub(crate) fn device_properties<'py>(py: Python<'py>, device: usize) -> PyResult<Bound<'py, PyDict>> {
    let runtime = py.detach(runtime).map_err(raise)?;
    let state = runtime.device(device).map_err(raise)?;
    let description = state.device.description();
    let out = PyDict::new(py);
    out.set_item("name", &description.kind)?;
    out.set_item("id", description.id)?;
    out.set_item("coords", description.coords())?;
    out.set_item("platform", runtime.client.platform_name())?;
    out.set_item("platform_version", runtime.client.platform_version())?;
    out.set_item("simulated", runtime.simulated)?;
    out.set_item(
        "total_memory",
        state.device.memory_stats().ok().and_then(|m| m.bytes_limit),
    )?;
    Ok(out)
}

/// Ops that ran on the CPU, and how often.
#[pyfunction]
pub(crate) fn fallbacks() -> BTreeMap<String, u64> {
    runtime::fallbacks()
}

/// Forgets them.
#[pyfunction]
pub(crate) fn reset_fallbacks() {
    runtime::reset_fallbacks();
}

/// Counters of the executable cache.
#[pyfunction]
pub(crate) fn cache_stats<'py>(py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
    let stats = runtime::cache_stats();
    let out = PyDict::new(py);
    out.set_item("hits", stats.hits)?;
    out.set_item("misses", stats.misses)?;
    out.set_item("entries", stats.entries)?;
    out.set_item("compile_seconds", stats.compile_seconds)?;
    out.set_item("disk_hits", stats.disk_hits)?;
    out.set_item("disk_writes", stats.disk_writes)?;
    Ok(out)
}

/// Op, line or None, seconds, whether there was a program of the op before, what changed.
type Recompile = (String, Option<String>, f64, bool, Vec<String>);

/// What was compiled.
#[pyfunction]
pub(crate) fn recompiles() -> Vec<Recompile> {
    let all = runtime::recompiles().into_iter();
    all.map(|one| {
        let line = match one.origin.issued {
            Some(runtime::Issued::At(line) | runtime::Issued::After(line)) => Some(line.to_string()),
            None => None,
        };
        (
            one.origin.op.to_string(),
            line,
            one.seconds,
            one.again,
            one.changed,
        )
    })
    .collect()
}

/// Forgets what `recompiles` tells.
#[pyfunction]
pub(crate) fn forget_recompiles() {
    runtime::forget_recompiles();
}

/// Forgets every program.
#[pyfunction]
pub(crate) fn clear_cache() {
    runtime::clear_cache();
}

/// Removes every program from disk.
#[pyfunction]
pub(crate) fn clear_disk(py: Python<'_>) {
    py.detach(runtime::clear_disk);
}

/// The folder for programs on disk; `None` when there is none.
#[pyfunction]
pub(crate) fn cache_folder() -> Option<PathBuf> {
    runtime::cache_folder()
}

/// Starts keeping the programs that run, or ends it.
#[pyfunction]
pub(crate) fn record_programs(on: bool) {
    runtime::record_programs(on);
}

/// StableHLO texts of the distinct programs that ran since the last call.
#[pyfunction]
pub(crate) fn take_programs() -> Vec<String> {
    runtime::take_programs().iter().map(ToString::to_string).collect()
}

/// Names of the ops that have a lowering.
#[pyfunction]
pub(crate) fn lowered_ops() -> Vec<&'static str> {
    aten::all().map(|op| op.name).collect()
}

/// Adds the functions to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    macro_rules! add {
        ($($name:ident),*) => { $( module.add_function(wrap_pyfunction!($name, module)?)?; )* };
    }
    add!(
        open_glue,
        device_count,
        is_initialized,
        is_in_bad_fork,
        current_device,
        set_device,
        rng_get,
        rng_set
    );
    add!(
        synchronize,
        eager_mode,
        set_eager_mode,
        memory_stats,
        reset_peak_memory,
        reset_accumulated_memory,
        device_properties
    );
    add!(
        fallbacks,
        reset_fallbacks,
        cache_stats,
        recompiles,
        forget_recompiles,
        clear_cache,
        clear_disk,
        cache_folder,
        record_programs,
        take_programs,
        lowered_ops
    );
    add!(
        simulates,
        open_scope,
        close_scope,
        fused_stats,
        wait_for_fused,
        stop_fused
    );
    Ok(())
}
