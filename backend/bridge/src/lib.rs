//! The Python extension module `torch_tpu._core`: a thin face over the Rust crates. Only this crate knows Python.

mod aot;
mod capture;
mod core_table;
mod doctor;
mod eager;
mod line;
mod locate;

use pyo3::prelude::*;

/// The Rust core of torch_tpu.
#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("AotError", module.py().get_type::<aot::AotError>())?;
    module.add_function(wrap_pyfunction!(aot::aot_compile, module)?)?;
    module.add_function(wrap_pyfunction!(aot::aot_worker, module)?)?;
    module.add_function(wrap_pyfunction!(doctor::doctor, module)?)?;
    module.add_function(wrap_pyfunction!(locate::plugin_path, module)?)?;
    eager::register(module)?;
    capture::register(module)?;
    Ok(())
}
