//! Builds small modules by hand for the tests of this crate.

use dtype::ElementType;
use pjrt_ffi::protos::xla::{
    HloComputationProto, HloInstructionProto, HloModuleProto, LiteralProto, ProgramShapeProto, ShapeProto,
};

/// A `f32` array.
pub(crate) fn f32s(dims: &[i64]) -> ShapeProto {
    shape(11, dims)
}

/// An `i32` scalar.
pub(crate) fn i32() -> ShapeProto {
    shape(4, &[])
}

/// A `pred` scalar.
pub(crate) fn pred() -> ShapeProto {
    shape(1, &[])
}

/// An array of an `xla.PrimitiveType` code.
pub(crate) fn shape(code: i32, dims: &[i64]) -> ShapeProto {
    assert!(crate::shape::element_type(code).is_some_and(|t| ElementType::ALL.contains(&t)));
    ShapeProto {
        element_type: code,
        dimensions: dims.to_vec(),
        ..Default::default()
    }
}

/// A tuple.
pub(crate) fn tuple(parts: Vec<ShapeProto>) -> ShapeProto {
    ShapeProto {
        element_type: 13,
        tuple_shapes: parts,
        ..Default::default()
    }
}

/// Gathers computations.
pub(crate) struct Build {
    next: i64,
    computations: Vec<HloComputationProto>,
}

/// Gathers the instructions of one computation.
pub(crate) struct Body {
    next: i64,
    pub(crate) instructions: Vec<HloInstructionProto>,
}

impl Body {
    /// Adds an instruction; `change` completes it.
    pub(crate) fn with(
        &mut self,
        opcode: &str,
        shape: ShapeProto,
        operands: &[i64],
        change: impl FnOnce(&mut HloInstructionProto),
    ) -> i64 {
        let mut i = HloInstructionProto {
            id: self.next,
            name: format!("{opcode}.{}", self.next),
            opcode: opcode.to_owned(),
            shape: Some(shape),
            operand_ids: operands.to_vec(),
            ..Default::default()
        };
        change(&mut i);
        self.instructions.push(i);
        self.next += 1;
        self.next - 1
    }

    pub(crate) fn op(&mut self, opcode: &str, shape: ShapeProto, operands: &[i64]) -> i64 {
        self.with(opcode, shape, operands, |_| {})
    }

    pub(crate) fn parameter(&mut self, number: i64, shape: ShapeProto) -> i64 {
        self.with("parameter", shape, &[], |i| i.parameter_number = number)
    }

    pub(crate) fn gte(&mut self, tuple: i64, at: i64, shape: ShapeProto) -> i64 {
        self.with("get-tuple-element", shape, &[tuple], |i| i.tuple_index = at)
    }

    pub(crate) fn constant(&mut self, value: i32) -> i64 {
        self.with("constant", i32(), &[], |i| {
            i.literal = Some(LiteralProto {
                s32s: vec![value],
                ..Default::default()
            });
        })
    }

    pub(crate) fn fusion(&mut self, called: i64, shape: ShapeProto, operands: &[i64], config: &str) -> i64 {
        self.with("fusion", shape, operands, |i| {
            i.called_computation_ids = vec![called];
            i.backend_config = config.as_bytes().to_vec();
        })
    }
}

impl Build {
    pub(crate) fn new() -> Self {
        Self {
            next: 1,
            computations: Vec::new(),
        }
    }

    /// Adds a computation whose root is the id that `fill` gives.
    pub(crate) fn computation(&mut self, fill: impl FnOnce(&mut Body) -> i64) -> i64 {
        let id = self.next;
        self.next += 1;
        let mut body = Body {
            next: id << 32,
            instructions: Vec::new(),
        };
        let root_id = fill(&mut body);
        let mut parameters: Vec<_> = body
            .instructions
            .iter()
            .filter(|i| i.opcode == "parameter")
            .collect();
        parameters.sort_by_key(|i| i.parameter_number);
        let result = body.instructions.iter().find(|i| i.id == root_id);
        let program = ProgramShapeProto {
            parameters: parameters.into_iter().filter_map(|p| p.shape.clone()).collect(),
            result: result.and_then(|r| r.shape.clone()),
            ..Default::default()
        };
        self.computations.push(HloComputationProto {
            id,
            name: format!("computation.{id}"),
            root_id,
            program_shape: Some(program),
            instructions: body.instructions,
            ..Default::default()
        });
        id
    }

    /// A two-argument scalar function such as a reduction applies.
    pub(crate) fn scalar(&mut self, opcode: &str) -> i64 {
        self.computation(|c| {
            let (a, b) = (c.parameter(0, f32s(&[])), c.parameter(1, f32s(&[])));
            c.op(opcode, f32s(&[]), &[a, b])
        })
    }

    pub(crate) fn module(&self, entry: i64) -> HloModuleProto {
        let program = self.computations.iter().find(|c| c.id == entry);
        HloModuleProto {
            name: "test".to_owned(),
            entry_computation_id: entry,
            host_program_shape: program.and_then(|c| c.program_shape.clone()),
            computations: self.computations.clone(),
            ..Default::default()
        }
    }
}

/// A loop that counts an `i32` from `start` to below the limit and applies `body` to an array, as libtpu
/// writes it: the counter's limit in the condition, `body` given (body builder, array).
pub(crate) fn counted_loop(
    b: &mut Build,
    array: ShapeProto,
    limit: Option<i32>,
    body: impl FnOnce(&mut Body, i64) -> i64,
) -> (i64, i64) {
    let state = tuple(vec![i32(), array.clone(), i32()]);
    let condition = b.computation(|c| {
        let p = c.parameter(0, state.clone());
        let i = c.gte(p, 0, i32());
        let n = match limit {
            Some(n) => c.constant(n),
            None => c.gte(p, 2, i32()),
        };
        c.with("compare", pred(), &[i, n], |i| {
            i.comparison_direction = "LT".to_owned();
        })
    });
    let body = b.computation(|c| {
        let p = c.parameter(0, state.clone());
        let (i, one) = (c.gte(p, 0, i32()), c.constant(1));
        let next = c.op("add", i32(), &[i, one]);
        let x = c.gte(p, 1, array.clone());
        let y = body(c, x);
        let n = c.gte(p, 2, i32());
        c.op("tuple", state.clone(), &[next, y, n])
    });
    (body, condition)
}

/// Adds the `while` of a [`counted_loop`] over `x`.
pub(crate) fn run_loop(
    c: &mut Body,
    (body, condition): (i64, i64),
    array: ShapeProto,
    x: i64,
    limit: i64,
    config: &str,
) -> i64 {
    let zero = c.constant(0);
    let zero = c.op("copy", i32(), &[zero]);
    let state = tuple(vec![i32(), array.clone(), i32()]);
    let init = c.op("tuple", state.clone(), &[zero, x, limit]);
    let w = c.with("while", state, &[init], |i| {
        i.called_computation_ids = vec![body, condition];
        i.backend_config = config.as_bytes().to_vec();
    });
    c.gte(w, 1, array)
}
