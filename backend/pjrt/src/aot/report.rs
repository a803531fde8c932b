//! The compiler's report on a program.

use hlo::report::{Measured, Report};

use crate::{Error, Executable, Result};

/// What `executable`, compiled for `topology` in `compile_seconds`, costs on its chip.
pub fn report(topology: &str, executable: &dyn Executable, compile_seconds: f64) -> Result<Report> {
    let call = "PJRT_Executable_OptimizedProgram";
    let bad = |e: hlo::Error| Error::Program {
        call,
        what: e.to_string(),
    };
    let program = executable.optimized_program()?;
    let module = hlo::module::parse(&program.code, &program.format).map_err(bad)?;
    let cost = executable.cost_analysis()?;
    // A negative figure is the plugin's mark for "unknown".
    let property = |name: &str| {
        let found = cost.iter().find(|(n, _)| n == name).and_then(|(_, v)| v.as_f64());
        found.filter(|v| *v >= 0.0)
    };
    let memory = executable.memory_stats()?;
    let measured = Measured {
        flops: property("flops"),
        transcendentals: property("transcendentals"),
        bytes_accessed: property("bytes accessed"),
        argument_bytes: memory.argument_bytes,
        output_bytes: memory.output_bytes,
        alias_bytes: memory.alias_bytes,
        temp_bytes: memory.temp_bytes,
        code_bytes: memory.code_bytes,
        peak_bytes: memory.peak_bytes,
        compile_seconds,
        serialized_bytes: executable.serialize()?.len(),
    };
    hlo::report::report(topology, &module, &measured).map_err(bad)
}
