//! What Google's TPU compiler says of a program that it compiled ahead of time.
//!
//! ```
//! use hlo::report::{Input, report};
//!
//! let module = hlo::Module::default();
//! let r = report(&Input { topology: "v6e:1x1".parse()?, ..Input::of(&module)? });
//! assert_eq!(r.chip.hbm_bandwidth, 1.64e12);
//! # Ok::<(), hlo::report::TopologyError>(())
//! ```

mod chip;
mod cycles;
mod source;
mod text;

use std::collections::BTreeMap;

use pjrt_ffi::protos::xla::HloModuleProto;
use serde::{Deserialize, Serialize};

pub use chip::{Chip, Topology, TopologyError};

/// How many instructions [`Report::top`] lists.
pub const TOP: usize = 10;

/// What a report is made from.
#[derive(Clone, Debug)]
pub struct Input<'a> {
    /// What it was compiled for.
    pub topology: Topology,
    /// The optimized program.
    pub module: &'a HloModuleProto,
    /// The plugin's cost analysis; what it lacks is counted from the module.
    pub properties: BTreeMap<String, f64>,
    /// The plugin's memory statistics.
    pub memory: MemoryStats,
    /// Memory of a device as the plugin's topology states it, where it does.
    pub hbm_bytes: Option<u64>,
    /// How long compiling took.
    pub compile_seconds: f64,
    /// Size of the serialized executable.
    pub serialized_bytes: u64,
}

impl<'a> Input<'a> {
    /// A module and nothing else, for one v6e chip.
    pub fn of(module: &'a HloModuleProto) -> Result<Self, TopologyError> {
        Ok(Self {
            topology: "v6e:1x1".parse()?,
            module,
            properties: BTreeMap::new(),
            memory: MemoryStats::default(),
            hbm_bytes: None,
            compile_seconds: 0.0,
            serialized_bytes: 0,
        })
    }
}

/// `PJRT_Executable_GetCompiledMemoryStats`, device memory only, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryStats {
    /// Parameters.
    pub argument: u64,
    /// Results.
    pub output: u64,
    /// Results that live in a parameter's buffer; part of `argument` and of `output`.
    pub alias: u64,
    /// Everything in between.
    pub temp: u64,
    /// The program itself.
    pub code: u64,
    /// The most in use at once; 0 where the plugin does not say.
    pub peak: u64,
}

/// The whole report. Serializes to exactly these fields.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// As asked for, `v6e:2x2`.
    pub topology: String,
    /// Each device of it.
    pub chip: Chip,
    /// What one execution costs on one device.
    pub cost: CostReport,
    /// What it needs on one device.
    pub memory: MemoryReport,
    /// The dearest instructions, dearest first.
    pub top: Vec<TopInstruction>,
    /// How long compiling took.
    pub compile_seconds: f64,
    /// Size of the serialized executable.
    pub serialized_bytes: u64,
}

/// Cost of one execution. Loops count as often as they run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CostReport {
    /// Operations; a multiply-add is two.
    pub flops: f64,
    /// Exponentials, roots and the like.
    pub transcendentals: f64,
    /// Bytes that instructions read and write.
    pub bytes_accessed: f64,
    /// The compiler's cycle estimates, summed.
    pub estimated_cycles: u64,
    /// Those cycles at the chip's clock.
    pub estimated_seconds: f64,
    /// Flops for each byte.
    pub arithmetic_intensity: f64,
    /// The intensity at which the chip's arithmetic and memory are equally busy.
    pub ridge_intensity: f64,
    /// Which of them the program waits for.
    pub bound: Bound,
    /// Instructions that the compiler gives no estimate for (collectives, copies): `estimated_cycles` lacks them.
    pub uncosted_instructions: u64,
    /// Loops that run a number of times nobody knows before they run. Everything in them counts once, so with
    /// any of them all figures here are lower bounds.
    pub unknown_trip_counts: u64,
}

/// What limits a program on the roofline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Bound {
    /// Left of the ridge.
    Memory,
    /// Right of it.
    Compute,
}

/// Device memory by kind, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryReport {
    /// Parameters.
    pub argument_bytes: u64,
    /// Results.
    pub output_bytes: u64,
    /// Results that live in a parameter's buffer.
    pub alias_bytes: u64,
    /// Everything in between.
    pub temp_bytes: u64,
    /// The program itself.
    pub code_bytes: u64,
    /// The most in use at once.
    pub peak_hbm_bytes: u64,
    /// What a device has.
    pub limit_bytes: u64,
}

/// One dear instruction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TopInstruction {
    /// Its name in the optimized program.
    pub name: String,
    /// `fusion`, mostly.
    pub opcode: String,
    /// Cycles of one run.
    pub cycles: u64,
    /// How often it runs; nothing when a loop around it is of unknown length.
    pub trip_count: Option<u64>,
    /// Cycles of all its runs, of one run for each loop of unknown length.
    pub total_cycles: u64,
    /// Its part of `estimated_cycles`, 0 to 1.
    pub share: f64,
    /// `op_name file:line`, as far as known.
    pub source: String,
}

/// Makes the report.
pub fn report(input: &Input<'_>) -> Report {
    let chip = Chip {
        hbm_bytes: input.hbm_bytes.unwrap_or(input.topology.chip.hbm_bytes),
        ..input.topology.chip.clone()
    };
    let mut found = cycles::collect(input.module);
    let total = found.total();
    let cost = cost(input, &chip, &found, total);
    // Stable, so equal ones stay in program order.
    found.rows.sort_by_key(|r| std::cmp::Reverse(r.total()));
    let top = found.rows.into_iter().take(TOP).map(|r| TopInstruction {
        total_cycles: r.total(),
        share: ratio(r.total() as f64, total as f64),
        name: r.name,
        opcode: r.opcode,
        cycles: r.cycles,
        trip_count: r.known.then_some(r.times),
        source: r.source,
    });
    Report {
        topology: input.topology.name.clone(),
        cost,
        memory: memory(&input.memory, chip.hbm_bytes),
        top: top.collect(),
        compile_seconds: input.compile_seconds,
        serialized_bytes: input.serialized_bytes,
        chip,
    }
}

/// `a / b`, 0 where that is no number: JSON has none for infinity.
fn ratio(a: f64, b: f64) -> f64 {
    if b > 0.0 { a / b } else { 0.0 }
}

fn cost(input: &Input<'_>, chip: &Chip, found: &cycles::Cycles, total: u64) -> CostReport {
    let all = crate::cost::analyze(input.module);
    let once = crate::cost::analyze_once(input.module);
    // libtpu counts a loop's body once, whatever its trip count: add the other rounds. What it says of one
    // round is better than our count, as it knows layouts and padding.
    let pick = |name: &str, all: f64, once: f64| match input.properties.get(name) {
        Some(&said) if said.is_finite() && said >= 0.0 => said + (all - once),
        _ => all,
    };
    let flops = pick("flops", all.flops, once.flops);
    let bytes = pick("bytes accessed", all.bytes_accessed, once.bytes_accessed);
    let intensity = ratio(flops, bytes);
    let ridge = ratio(chip.peak_flops, chip.hbm_bandwidth);
    CostReport {
        flops,
        // Plugins leave it out when there are none.
        transcendentals: pick("transcendentals", all.transcendentals, once.transcendentals),
        bytes_accessed: bytes,
        estimated_cycles: total,
        estimated_seconds: ratio(total as f64, chip.clock_hz),
        arithmetic_intensity: intensity,
        ridge_intensity: ridge,
        bound: if intensity < ridge {
            Bound::Memory
        } else {
            Bound::Compute
        },
        uncosted_instructions: found.uncosted,
        unknown_trip_counts: found.unknown_trip_counts,
    }
}

fn memory(stats: &MemoryStats, limit: u64) -> MemoryReport {
    let held = (stats.argument)
        .saturating_add(stats.output.saturating_sub(stats.alias))
        .saturating_add(stats.temp);
    MemoryReport {
        argument_bytes: stats.argument,
        output_bytes: stats.output,
        alias_bytes: stats.alias,
        temp_bytes: stats.temp,
        code_bytes: stats.code,
        peak_hbm_bytes: if stats.peak > 0 { stats.peak } else { held },
        limit_bytes: limit,
    }
}

#[cfg(test)]
mod tests;
