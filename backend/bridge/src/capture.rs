//! Captured graphs, for `torch_tpu._compile`.

use std::ffi::c_void;

use pyo3::prelude::*;
use runtime::{Capture, Glue, Known, Ran};

use crate::core_table::glue;
use crate::eager::raise;

/// Addresses that Python passes: of storages that tensors of the caller hold.
fn pointers(list: &[usize]) -> Vec<*const c_void> {
    list.iter().map(|p| *p as *const c_void).collect()
}

/// A graph as one program.
#[pyclass(frozen)]
pub(crate) struct CapturedGraph(Capture);

#[pymethods]
impl CapturedGraph {
    /// Runs it on the storages of inputs, into those of outputs; False when the storages are not as they were when the
    /// graph was captured.
    fn run(&self, py: Python<'_>, inputs: Vec<usize>, outputs: Vec<usize>) -> PyResult<bool> {
        py.detach(|| {
            let glue = Glue {
                table: glue(),
                call: std::ptr::null_mut(),
            };
            // SAFETY: the package passes data pointers of tpu storages whose tensors it holds meanwhile.
            unsafe { self.0.run(&pointers(&inputs), &pointers(&outputs), glue) }
        })
        .map(|ran| ran == Ran::Done)
        .map_err(raise)
    }

    /// Whether nobody outside keeps what the ops made, but for the outputs.
    fn repeats(&self) -> bool {
        self.0.repeats()
    }

    /// For each of so many outputs whether a run makes it anew.
    fn makes(&self, outputs: usize) -> Vec<bool> {
        self.0.makes(outputs)
    }

    /// Whether another one is the same program with the same numbers and constants.
    fn same(&self, py: Python<'_>, other: &Self) -> PyResult<bool> {
        py.detach(|| self.0.same(&other.0)).map_err(raise)
    }
}

/// From here on ops of this thread are put off as one graph; of all threads where a step is captured.
#[pyfunction]
#[pyo3(signature = (step = false))]
pub(crate) fn begin_capture(py: Python<'_>, step: bool) -> PyResult<()> {
    py.detach(|| runtime::begin_capture(step)).map_err(raise)
}

/// Ends the capture of a step and runs the ops; `None` when they cannot be one program.
#[pyfunction]
pub(crate) fn end_step(
    py: Python<'_>,
    inputs: Vec<usize>,
    outputs: Vec<usize>,
    device: usize,
) -> PyResult<Option<CapturedGraph>> {
    // SAFETY: as for `CapturedGraph::run`.
    py.detach(|| unsafe { runtime::end_step(&pointers(&inputs), &pointers(&outputs), device) })
        .map(|made| made.map(CapturedGraph))
        .map_err(raise)
}

/// Ends the capture and runs the ops; `None` when they cannot be one program.
#[pyfunction]
pub(crate) fn end_capture(
    py: Python<'_>,
    inputs: Vec<usize>,
    outputs: Vec<usize>,
    device: usize,
) -> PyResult<Option<CapturedGraph>> {
    // SAFETY: as for `CapturedGraph::run`.
    py.detach(|| unsafe { runtime::end_capture(&pointers(&inputs), &pointers(&outputs), device) })
        .map(|made| made.map(CapturedGraph))
        .map_err(raise)
}

/// From here on ops of all threads are put off and never run: only their program is wanted.
#[pyfunction]
pub(crate) fn begin_dry(py: Python<'_>) -> PyResult<()> {
    py.detach(runtime::begin_dry).map_err(raise)
}

/// Ends that: the program, or `None` when there were no ops.
#[pyfunction]
pub(crate) fn end_dry(py: Python<'_>, device: usize) -> PyResult<Option<String>> {
    py.detach(|| runtime::end_dry(device)).map_err(raise)
}

/// Gives a capture up after an exception.
#[pyfunction]
pub(crate) fn abandon_capture() {
    runtime::abandon();
}

/// Whether a step is being captured: loops can be recorded.
#[pyfunction]
pub(crate) fn in_step() -> bool {
    runtime::in_step()
}

/// Whether ops of this thread are being captured, as a graph or in a step.
#[pyfunction]
pub(crate) fn capturing() -> bool {
    runtime::capturing()
}

/// Pairs of addresses, as in [`pointers`].
fn pairs(list: &[(usize, usize)]) -> Vec<(*const c_void, *const c_void)> {
    list.iter()
        .map(|(a, b)| (*a as *const c_void, *b as *const c_void))
        .collect()
}

/// Starts a loop; its number. Pairs are of storages: what is given and its placeholder.
#[pyfunction]
pub(crate) fn begin_loop(
    device: usize,
    length: u32,
    reverse: bool,
    like: Option<u64>,
    carries: Vec<(usize, usize)>,
    taken: Vec<(usize, usize)>,
) -> PyResult<u64> {
    // SAFETY: as for `CapturedGraph::run`.
    unsafe { runtime::begin_loop(device, length, reverse, like, &pairs(&carries), &pairs(&taken)) }
        .map_err(raise)
}

/// Ends the calls of its condition, whose value a storage holds.
#[pyfunction]
pub(crate) fn end_condition(device: usize, storage: usize) -> PyResult<()> {
    // SAFETY: as for `CapturedGraph::run`.
    unsafe { runtime::end_condition(device, storage as *const c_void) }.map_err(raise)
}

/// Ends it; the blocks of random bits that turns after the first one use. Pairs are of storages: what the body leaves and
/// where that goes.
#[pyfunction]
pub(crate) fn end_loop(
    py: Python<'_>,
    device: usize,
    carries: Vec<(usize, usize)>,
    put: Vec<(usize, usize)>,
) -> PyResult<u64> {
    py.detach(|| {
        let glue = Glue {
            table: glue(),
            call: std::ptr::null_mut(),
        };
        // SAFETY: as for `CapturedGraph::run`.
        unsafe { runtime::end_loop(device, &pairs(&carries), &pairs(&put), glue) }
    })
    .map_err(raise)
}

/// What a storage is to the loop that is being recorded: "outside", "given" or "written".
#[pyfunction]
pub(crate) fn known_to_loop(device: usize, storage: usize) -> PyResult<&'static str> {
    // SAFETY: as for `CapturedGraph::run`.
    let known = unsafe { runtime::known_to_loop(device, storage as *const c_void) }.map_err(raise)?;
    Ok(match known {
        Known::Outside => "outside",
        Known::Given => "given",
        Known::Written => "written",
    })
}

/// Forgets the loop that was started and not ended.
#[pyfunction]
pub(crate) fn abandon_loop(device: usize) -> PyResult<()> {
    runtime::abandon_loop(device).map_err(raise)
}

/// Adds all to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<CapturedGraph>()?;
    module.add_function(wrap_pyfunction!(begin_capture, module)?)?;
    module.add_function(wrap_pyfunction!(end_capture, module)?)?;
    module.add_function(wrap_pyfunction!(end_step, module)?)?;
    module.add_function(wrap_pyfunction!(begin_dry, module)?)?;
    module.add_function(wrap_pyfunction!(end_dry, module)?)?;
    module.add_function(wrap_pyfunction!(in_step, module)?)?;
    module.add_function(wrap_pyfunction!(capturing, module)?)?;
    module.add_function(wrap_pyfunction!(begin_loop, module)?)?;
    module.add_function(wrap_pyfunction!(end_condition, module)?)?;
    module.add_function(wrap_pyfunction!(end_loop, module)?)?;
    module.add_function(wrap_pyfunction!(known_to_loop, module)?)?;
    module.add_function(wrap_pyfunction!(abandon_loop, module)?)?;
    module.add_function(wrap_pyfunction!(abandon_capture, module)?)
}
