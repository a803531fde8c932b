//! The TPU compiler's own cycle estimates, collected over a module.

use pjrt_ffi::protos::xla::{HloInstructionProto, HloModuleProto};

use super::source::Sources;
use crate::cost::moves_nothing;
use crate::index::{Computation, Index, MAX_DEPTH};
use crate::loops::{self, Env};
use crate::shape::elements_of;

/// Computations that one walk enters at most. Far above any program; a damaged module must not run for ever.
const MAX_VISITS: usize = 1_000_000;

/// An instruction with an estimate.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) opcode: String,
    pub(crate) cycles: u64,
    /// Runs in one execution of the program; unknown loops count once.
    pub(crate) times: u64,
    /// No loop around it is of unknown length.
    pub(crate) known: bool,
    pub(crate) source: String,
}

impl Row {
    pub(crate) fn total(&self) -> u64 {
        self.cycles.saturating_mul(self.times)
    }
}

/// What a walk finds.
#[derive(Default)]
pub(crate) struct Cycles {
    pub(crate) rows: Vec<Row>,
    pub(crate) uncosted: u64,
    pub(crate) unknown_trip_counts: u64,
}

impl Cycles {
    pub(crate) fn total(&self) -> u64 {
        self.rows
            .iter()
            .fold(0, |sum, row| sum.saturating_add(row.total()))
    }
}

/// Estimates of every instruction that the entry computation runs.
pub(crate) fn collect(module: &HloModuleProto) -> Cycles {
    let index = Index::new(module);
    let mut found = Cycles::default();
    let mut walk = Walk {
        index: &index,
        sources: Sources::new(module),
        visits: 0,
    };
    if let Some(entry) = index.entry() {
        walk.computation(entry, &Env::new(), Place::default(), &mut found);
    }
    found
}

/// Where in the nest of loops the walk is.
#[derive(Clone, Copy)]
struct Place {
    times: u64,
    known: bool,
    depth: usize,
}

impl Default for Place {
    fn default() -> Self {
        Self {
            times: 1,
            known: true,
            depth: 0,
        }
    }
}

impl Place {
    fn deeper(self) -> Self {
        Self {
            depth: self.depth + 1,
            ..self
        }
    }
}

struct Walk<'i, 'a> {
    index: &'i Index<'a>,
    sources: Sources<'a>,
    visits: usize,
}

impl<'a> Walk<'_, 'a> {
    fn computation(&mut self, computation: &Computation<'a>, env: &Env, place: Place, found: &mut Cycles) {
        self.visits += 1;
        if place.depth > MAX_DEPTH || self.visits > MAX_VISITS {
            return;
        }
        for instruction in &computation.proto.instructions {
            self.instruction(computation, instruction, env, place, found);
        }
    }

    fn called(
        &mut self,
        instruction: &HloInstructionProto,
        n: usize,
        env: &Env,
        place: Place,
        found: &mut Cycles,
    ) {
        let index = self.index;
        if let Some(computation) = index.called(instruction, n) {
            self.computation(computation, env, place.deeper(), found);
        }
    }

    fn instruction(
        &mut self,
        computation: &Computation<'a>,
        instruction: &'a HloInstructionProto,
        env: &Env,
        place: Place,
        found: &mut Cycles,
    ) {
        let none = Env::new();
        match instruction.opcode.as_str() {
            "while" => {
                let l = loops::read(self.index, computation, instruction, env);
                found.unknown_trip_counts += u64::from(l.trips.is_none());
                let within = |runs: Option<u64>| Place {
                    times: place.times.saturating_mul(runs.unwrap_or(1)),
                    known: place.known && runs.is_some(),
                    ..place
                };
                self.called(instruction, 0, &l.env, within(l.trips), found);
                let checks = l.trips.map(|n| n.saturating_add(1));
                self.called(instruction, 1, &l.env, within(checks), found);
            }
            "conditional" => {
                let mut dearest = Cycles::default();
                for n in 0..instruction.called_computation_ids.len() {
                    let mut branch = Cycles::default();
                    self.called(instruction, n, &none, place, &mut branch);
                    if n == 0 || branch.total() > dearest.total() {
                        dearest = branch;
                    }
                }
                found.rows.append(&mut dearest.rows);
                found.uncosted += dearest.uncosted;
                found.unknown_trip_counts += dearest.unknown_trip_counts;
            }
            "call" | "async-start" => self.called(instruction, 0, &none, place, found),
            opcode => match estimate(instruction) {
                Some(cycles) => found.rows.push(Row {
                    name: instruction.name.clone(),
                    opcode: opcode.to_owned(),
                    cycles,
                    times: place.times,
                    known: place.known,
                    source: self.sources.of(self.index, instruction),
                }),
                None => found.uncosted += u64::from(works(computation, instruction)),
            },
        }
    }
}

/// Whether an instruction without an estimate leaves a gap in the total: not when it only renames values,
/// and not when it computes a scalar from scalars, which the scalar unit does beside everything else.
fn works(computation: &Computation<'_>, instruction: &HloInstructionProto) -> bool {
    let operands = instruction
        .operand_ids
        .iter()
        .filter_map(|&id| computation.get(id));
    let shapes = operands
        .map(|o| o.shape.as_ref())
        .chain([instruction.shape.as_ref()]);
    !moves_nothing(&instruction.opcode) && shapes.map(elements_of).any(|n| n > 1.0)
}

/// `estimated_cycles` of a backend config, `None` where the compiler gives none (or 2^64-1, which says the same).
fn estimate(instruction: &HloInstructionProto) -> Option<u64> {
    let config: serde_json::Value = serde_json::from_slice(&instruction.backend_config).ok()?;
    // Where libtpu has it, else wherever another version may have moved it.
    let value = config
        .pointer("/window_config/estimated_cycles")
        .or_else(|| find(&config))?;
    let cycles = value
        .as_u64()
        .or_else(|| value.as_str().and_then(|s| s.parse().ok()))?;
    (cycles != u64::MAX).then_some(cycles)
}

fn find(value: &serde_json::Value) -> Option<&serde_json::Value> {
    match value {
        serde_json::Value::Object(map) => map
            .get("estimated_cycles")
            .or_else(|| map.values().find_map(find)),
        serde_json::Value::Array(list) => list.iter().find_map(find),
        _ => None,
    }
}
