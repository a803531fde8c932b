//! Look-up by id in a module.

use std::collections::HashMap;

use pjrt_ffi::protos::xla::{HloComputationProto, HloInstructionProto, HloModuleProto};

/// Calls nest no deeper than this in any module a compiler makes; a damaged one must not overflow the stack.
pub(crate) const MAX_DEPTH: usize = 200;

/// A computation and its instructions by id.
pub(crate) struct Computation<'a> {
    pub(crate) proto: &'a HloComputationProto,
    by_id: HashMap<i64, &'a HloInstructionProto>,
}

impl<'a> Computation<'a> {
    pub(crate) fn get(&self, id: i64) -> Option<&'a HloInstructionProto> {
        self.by_id.get(&id).copied()
    }

    pub(crate) fn root(&self) -> Option<&'a HloInstructionProto> {
        self.get(self.proto.root_id)
    }

    /// The `n`th operand, `None` when absent or dangling.
    pub(crate) fn operand(
        &self,
        instruction: &HloInstructionProto,
        n: usize,
    ) -> Option<&'a HloInstructionProto> {
        self.get(*instruction.operand_ids.get(n)?)
    }

    /// The instructions that read `id`.
    pub(crate) fn users(&self, id: i64) -> impl Iterator<Item = &'a HloInstructionProto> {
        self.proto
            .instructions
            .iter()
            .filter(move |i| i.operand_ids.contains(&id))
    }
}

/// The computations of a module by id.
pub(crate) struct Index<'a> {
    computations: HashMap<i64, Computation<'a>>,
    entry: Option<i64>,
}

impl<'a> Index<'a> {
    pub(crate) fn new(module: &'a HloModuleProto) -> Self {
        let computations: HashMap<_, _> = module
            .computations
            .iter()
            .map(|proto| {
                let by_id = proto.instructions.iter().map(|i| (i.id, i)).collect();
                (proto.id, Computation { proto, by_id })
            })
            .collect();
        // Old modules name their entry and leave its id at zero.
        let by_name = module
            .computations
            .iter()
            .find(|c| c.name == module.entry_computation_name)
            .map(|c| c.id);
        let entry = if computations.contains_key(&module.entry_computation_id) {
            Some(module.entry_computation_id)
        } else {
            by_name
        };
        Self { computations, entry }
    }

    pub(crate) fn entry(&self) -> Option<&Computation<'a>> {
        self.get(self.entry?)
    }

    pub(crate) fn get(&self, id: i64) -> Option<&Computation<'a>> {
        self.computations.get(&id)
    }

    /// The `n`th computation that an instruction calls.
    pub(crate) fn called(&self, instruction: &HloInstructionProto, n: usize) -> Option<&Computation<'a>> {
        self.get(*instruction.called_computation_ids.get(n)?)
    }
}
