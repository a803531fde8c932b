//! The compiler's report on a program.

use hlo::report::{Input, MemoryStats, Report, Topology};

use super::AotClient;
use crate::{Client, Error, Executable, NamedValue, Result};

/// What `executable`, compiled by `client` in `compile_seconds`, costs on a chip of its topology.
pub fn report(client: &AotClient, executable: &dyn Executable, compile_seconds: f64) -> Result<Report> {
    let call = "PJRT_Executable_OptimizedProgram";
    let program = executable.optimized_program()?;
    let bad = |what: String| Error::Program { call, what };
    let module = hlo::module::parse(&program.code, &program.format).map_err(|e| bad(e.to_string()))?;
    let topology: Topology = client
        .name()
        .parse()
        .map_err(|e: hlo::report::TopologyError| bad(e.to_string()))?;
    let limit = client
        .devices()
        .first()
        .and_then(|d| d.description().attribute("device_memory_bytes_limit").cloned());
    let cost = executable.cost_analysis()?;
    let memory = executable.memory_stats()?;
    // PJRT states sizes as signed numbers; a negative one is a plugin's mark for "unknown".
    let size = |bytes: i64| u64::try_from(bytes).unwrap_or(0);
    let live = memory.argument_bytes + memory.output_bytes - memory.alias_bytes
        + memory.temp_bytes
        + memory.code_bytes;
    Ok(hlo::report::report(&Input {
        topology,
        module: &module,
        properties: cost
            .into_iter()
            .filter_map(|(name, value)| Some((name, value.as_f64()?)))
            .collect(),
        memory: MemoryStats {
            argument: size(memory.argument_bytes),
            output: size(memory.output_bytes),
            alias: size(memory.alias_bytes),
            temp: size(memory.temp_bytes),
            code: size(memory.code_bytes),
            peak: size(memory.peak_bytes.unwrap_or(live)),
        },
        hbm_bytes: match limit {
            Some(NamedValue::Int(bytes)) => u64::try_from(bytes).ok(),
            _ => None,
        },
        compile_seconds,
        serialized_bytes: executable.serialize()?.len() as u64,
    }))
}
