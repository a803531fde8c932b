//! Where the plugins are: beside this module, in the environment, in the wheels.

use std::env;
use std::path::PathBuf;

use pyo3::exceptions::{PyFileNotFoundError, PyRuntimeError};
use pyo3::prelude::*;

const SHIM: &str = "libpjrt_cpu_shim.so";

/// A path from the environment; an empty variable is as good as none.
pub(crate) fn set(variable: &str) -> Option<PathBuf> {
    env::var_os(variable)
        .filter(|value| !value.is_empty())
        .map(PathBuf::from)
}

/// The folder of the package, in which this module lies.
pub(crate) fn package_dir(py: Python<'_>) -> PyResult<PathBuf> {
    let file: PathBuf = py.import("torch_tpu._core")?.getattr("__file__")?.extract()?;
    let dir = file.parent().map(PathBuf::from);
    dir.ok_or_else(|| PyRuntimeError::new_err(format!("{} has no folder", file.display())))
}

/// Path of the simulator plugin, or of the one that TORCH_TPU_PJRT_PLUGIN names.
#[pyfunction]
pub(crate) fn plugin_path(py: Python<'_>) -> PyResult<PathBuf> {
    if let Some(path) = set("TORCH_TPU_PJRT_PLUGIN") {
        return Ok(path);
    }
    let path = package_dir(py)?.join(SHIM);
    if path.exists() {
        return Ok(path);
    }
    Err(PyFileNotFoundError::new_err(format!(
        "{} is missing: build it with `tools/dev build`, or name a plugin in TORCH_TPU_PJRT_PLUGIN",
        path.display()
    )))
}

/// The CPU plugin's wheel, which the simulator loads where nothing else is named.
pub(crate) fn cpu_plugin(py: Python<'_>) -> Option<PathBuf> {
    let spec = py.import("importlib.util").ok()?;
    let spec = spec.call_method1("find_spec", ("fastatomstruct_xla_cpu",)).ok()?;
    let folders: Vec<PathBuf> = spec.getattr("submodule_search_locations").ok()?.extract().ok()?;
    folders
        .iter()
        .map(|f| f.join("libpjrt_cpu.so"))
        .find(|p| p.exists())
}

/// Path of libtpu: TPU_LIBRARY_PATH, else the wheel's.
pub(crate) fn libtpu(py: Python<'_>) -> PyResult<PathBuf> {
    if let Some(path) = set("TPU_LIBRARY_PATH") {
        return Ok(path);
    }
    let missing = || PyFileNotFoundError::new_err("libtpu is not installed: pip install libtpu");
    let spec = py
        .import("importlib.util")?
        .call_method1("find_spec", ("libtpu",))?;
    if spec.is_none() {
        return Err(missing());
    }
    let folders: Vec<PathBuf> = spec.getattr("submodule_search_locations")?.extract()?;
    let found = folders.iter().map(|f| f.join("libtpu.so")).find(|p| p.exists());
    found.ok_or_else(missing)
}
