//! Flops, transcendentals and bytes of a module, after XLA's `HloCostAnalysis`.
//!
//! What differs from XLA is on purpose: a loop's body counts as often as it runs, where that is known,
//! and once where it is not, in which case [`Cost::unknown_trip_counts`] says so.

mod bytes;
mod convolution;
mod flops;

pub(crate) use bytes::moves_nothing;

use std::collections::{BTreeMap, HashMap};

use pjrt_ffi::protos::xla::{HloInstructionProto, HloModuleProto};
use serde::{Deserialize, Serialize};

use crate::index::{Computation, Index, MAX_DEPTH};
use crate::loops::{self, Env};

/// What running a program once costs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// Arithmetic operations; a multiply-add counts as two.
    pub flops: f64,
    /// Exponentials, roots and the like, which are not in `flops`.
    pub transcendentals: f64,
    /// Bytes read and written by the instructions that really run: what a fusion keeps to itself is free.
    pub bytes_accessed: f64,
    /// Loops counted once because how often they run is not known.
    pub unknown_trip_counts: u64,
    /// Custom calls: their bytes count, what they compute cannot be told.
    pub custom_calls: u64,
    /// The same by opcode. Arithmetic goes to the opcode inside a fusion, bytes to `fusion` itself.
    pub by_opcode: BTreeMap<String, OpcodeCost>,
}

/// A part of [`Cost`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OpcodeCost {
    /// As in [`Cost::flops`].
    pub flops: f64,
    /// As in [`Cost::transcendentals`].
    pub transcendentals: f64,
    /// As in [`Cost::bytes_accessed`].
    pub bytes_accessed: f64,
}

impl Cost {
    fn add(&mut self, other: &Self, times: f64) {
        self.flops += other.flops * times;
        self.transcendentals += other.transcendentals * times;
        self.bytes_accessed += other.bytes_accessed * times;
        self.unknown_trip_counts += other.unknown_trip_counts;
        self.custom_calls += other.custom_calls;
        for (opcode, o) in &other.by_opcode {
            let c = self.by_opcode.entry(opcode.clone()).or_default();
            c.flops += o.flops * times;
            c.transcendentals += o.transcendentals * times;
            c.bytes_accessed += o.bytes_accessed * times;
        }
    }

    fn raise(&mut self, other: &Self) {
        self.flops = self.flops.max(other.flops);
        self.transcendentals = self.transcendentals.max(other.transcendentals);
        self.bytes_accessed = self.bytes_accessed.max(other.bytes_accessed);
        self.unknown_trip_counts = self.unknown_trip_counts.max(other.unknown_trip_counts);
        self.custom_calls = self.custom_calls.max(other.custom_calls);
        for (opcode, o) in &other.by_opcode {
            let c = self.by_opcode.entry(opcode.clone()).or_default();
            c.flops = c.flops.max(o.flops);
            c.transcendentals = c.transcendentals.max(o.transcendentals);
            c.bytes_accessed = c.bytes_accessed.max(o.bytes_accessed);
        }
    }

    fn count(&mut self, opcode: &str, work: Work, bytes: f64) {
        self.flops += work.flops;
        self.transcendentals += work.transcendentals;
        self.bytes_accessed += bytes;
        if work == Work::default() && bytes == 0.0 {
            return;
        }
        let c = self.by_opcode.entry(opcode.to_owned()).or_default();
        c.flops += work.flops;
        c.transcendentals += work.transcendentals;
        c.bytes_accessed += bytes;
    }
}

/// Arithmetic without memory.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
pub(crate) struct Work {
    pub(crate) flops: f64,
    pub(crate) transcendentals: f64,
}

impl Work {
    fn times(self, n: f64) -> Self {
        Self {
            flops: self.flops * n,
            transcendentals: self.transcendentals * n,
        }
    }
}

/// How often loop bodies count.
#[derive(Clone, Copy, PartialEq)]
enum Trips {
    Known,
    Once,
}

/// The cost of running the entry computation once, loops as often as they run.
pub fn analyze(module: &HloModuleProto) -> Cost {
    Analysis::run(module, Trips::Known)
}

/// As [`analyze`], with every loop body counted once, as XLA and the plugins' own cost analysis do.
pub fn analyze_once(module: &HloModuleProto) -> Cost {
    Analysis::run(module, Trips::Once)
}

struct Analysis<'i, 'a> {
    index: &'i Index<'a>,
    trips: Trips,
    /// By computation and what is constant in it. An entry is there before it is filled, which ends a cycle.
    done: HashMap<(i64, Env), Cost>,
}

impl<'i, 'a> Analysis<'i, 'a> {
    fn run(module: &'a HloModuleProto, trips: Trips) -> Cost {
        let index = Index::new(module);
        let mut analysis = Analysis {
            index: &index,
            trips,
            done: HashMap::new(),
        };
        let entry = index.entry().map(|c| c.proto.id);
        entry.map_or_else(Cost::default, |id| analysis.computation(id, &Env::new(), 0))
    }

    fn computation(&mut self, id: i64, env: &Env, depth: usize) -> Cost {
        let key = (id, env.clone());
        if let Some(cost) = self.done.get(&key) {
            return cost.clone();
        }
        let index = self.index;
        let Some(computation) = index.get(id).filter(|_| depth < MAX_DEPTH) else {
            return Cost::default();
        };
        self.done.insert(key.clone(), Cost::default());
        let mut cost = Cost::default();
        for instruction in &computation.proto.instructions {
            self.instruction(computation, instruction, env, depth, &mut cost);
        }
        self.done.insert(key, cost.clone());
        cost
    }

    fn called(&mut self, instruction: &HloInstructionProto, n: usize, env: &Env, depth: usize) -> Cost {
        instruction
            .called_computation_ids
            .get(n)
            .map_or_else(Cost::default, |&id| self.computation(id, env, depth + 1))
    }

    fn instruction(
        &mut self,
        computation: &Computation<'a>,
        instruction: &'a HloInstructionProto,
        env: &Env,
        depth: usize,
        cost: &mut Cost,
    ) {
        let none = Env::new();
        match instruction.opcode.as_str() {
            "while" => {
                let l = loops::read(self.index, computation, instruction, env);
                let times = match (self.trips, l.trips) {
                    (Trips::Known, Some(n)) => n as f64,
                    (_, trips) => {
                        cost.unknown_trip_counts += u64::from(trips.is_none());
                        1.0
                    }
                };
                let body = self.called(instruction, 0, &l.env, depth);
                let condition = self.called(instruction, 1, &l.env, depth);
                cost.add(&body, times);
                // The condition runs once more than the body; XLA's once-only count leaves it at one.
                let checks = if self.trips == Trips::Known && l.trips.is_some() {
                    times + 1.0
                } else {
                    1.0
                };
                cost.add(&condition, checks);
            }
            "conditional" => {
                // As XLA: of each figure the greatest that a branch has.
                let mut most = Cost::default();
                for n in 0..instruction.called_computation_ids.len() {
                    most.raise(&self.called(instruction, n, &none, depth));
                }
                cost.add(&most, 1.0);
            }
            "call" | "async-start" => {
                let inner = self.called(instruction, 0, &none, depth);
                cost.add(&inner, 1.0);
            }
            "fusion" => {
                let mut inner = self.called(instruction, 0, &none, depth);
                inner.bytes_accessed = 0.0;
                inner.by_opcode.values_mut().for_each(|o| o.bytes_accessed = 0.0);
                cost.add(&inner, 1.0);
                let bytes = bytes::of(self.index, computation, instruction);
                cost.count("fusion", Work::default(), bytes);
            }
            opcode => {
                cost.custom_calls += u64::from(opcode == "custom-call");
                let mut applied = |i: &HloInstructionProto| {
                    let which = i.called_computation_ids.len().saturating_sub(1);
                    let inner = self.called(i, which, &none, depth);
                    Work {
                        flops: inner.flops,
                        transcendentals: inner.transcendentals,
                    }
                };
                let work = flops::of(computation, instruction, &mut applied);
                let bytes = bytes::of(self.index, computation, instruction);
                cost.count(opcode, work, bytes);
            }
        }
    }
}

#[cfg(test)]
mod tests;
