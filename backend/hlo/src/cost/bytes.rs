//! Bytes that one instruction reads and writes.

use pjrt_ffi::protos::xla::HloInstructionProto;

use crate::index::{Computation, Index, MAX_DEPTH};
use crate::shape::{bytes, bytes_of};

/// Opcodes that only name values, or whose cost is that of the computations they call.
pub(crate) fn moves_nothing(opcode: &str) -> bool {
    matches!(
        opcode,
        "parameter" | "constant" | "tuple" | "get-tuple-element" | "bitcast" | "after-all"
        | "add-dependency" | "opt-barrier" | "domain" | "partition-id" | "replica-id"
        | "while" | "conditional" | "call" | "async-start" | "async-update"
    )
        // Only the start moves data.
        || opcode.ends_with("-done")
}

/// Operand and result bytes, less what is only pointed at, sliced or updated in place.
pub(crate) fn of(index: &Index<'_>, computation: &Computation<'_>, instruction: &HloInstructionProto) -> f64 {
    let out = bytes_of(instruction.shape.as_ref());
    let operand = |n| bytes_of(computation.operand(instruction, n).and_then(|o| o.shape.as_ref()));
    let rest = |from: usize| (from..instruction.operand_ids.len()).map(operand).sum::<f64>();
    match instruction.opcode.as_str() {
        op if moves_nothing(op) => 0.0,
        // Its result also names the source, which is not a second copy.
        "copy-start" => 2.0 * operand(0),
        "slice" => 2.0 * out,
        "dynamic-slice" | "gather" => 2.0 * out + rest(1),
        "dynamic-update-slice" => 2.0 * operand(1) + rest(2),
        "scatter" => {
            // Reads and writes what the updates touch, reads updates and indices.
            let n = instruction.operand_ids.len() / 2;
            let updates = (n + 1..instruction.operand_ids.len()).map(operand).sum::<f64>();
            3.0 * updates + operand(n)
        }
        "fusion" => fusion(index, computation, instruction),
        _ => rest(0) + out,
    }
}

fn fusion(index: &Index<'_>, computation: &Computation<'_>, instruction: &HloInstructionProto) -> f64 {
    let out = bytes_of(instruction.shape.as_ref());
    let full = |n| bytes_of(computation.operand(instruction, n).and_then(|o| o.shape.as_ref()));
    let operands = 0..instruction.operand_ids.len();
    let Some(inner) = index.called(instruction, 0) else {
        return operands.map(full).sum::<f64>() + out;
    };
    let read: f64 = operands
        .map(|n| parameter(index, inner, n as i64, 0).map_or(0.0, |b| b.min(full(n))))
        .sum();
    read + inner.root().map_or(out, |r| written(index, inner, r, 0))
}

/// Bytes that a fused computation reads of its parameter `n`; `None` when it has no such parameter.
fn parameter(index: &Index<'_>, inner: &Computation<'_>, n: i64, depth: usize) -> Option<f64> {
    let p = inner
        .proto
        .instructions
        .iter()
        .find(|i| i.opcode == "parameter" && i.parameter_number == n)?;
    Some(read(index, inner, p, depth))
}

/// Bytes read of a value in a fused computation: all of it unless every use takes a slice or updates in place.
fn read(index: &Index<'_>, inner: &Computation<'_>, value: &HloInstructionProto, depth: usize) -> f64 {
    let full = bytes_of(value.shape.as_ref());
    if depth > MAX_DEPTH {
        return full;
    }
    let mut total = 0.0;
    for user in inner.users(value.id) {
        let places = user.operand_ids.iter().enumerate();
        for (at, _) in places.filter(|&(_, &id)| id == value.id) {
            total += match (user.opcode.as_str(), at) {
                ("slice" | "dynamic-slice" | "gather", 0) => bytes_of(user.shape.as_ref()),
                // Overwritten where it is; what the update covers is not read.
                ("dynamic-update-slice", 0) => 0.0,
                ("bitcast" | "get-tuple-element", _) => read(index, inner, user, depth + 1),
                ("fusion", _) => index
                    .called(user, 0)
                    .and_then(|c| parameter(index, c, at as i64, depth + 1))
                    .unwrap_or(full),
                ("tuple", _) if user.id == inner.proto.root_id => 0.0,
                _ => full,
            };
        }
        if total >= full {
            return full;
        }
    }
    total
}

/// Bytes written by a fused computation's root.
fn written(index: &Index<'_>, inner: &Computation<'_>, root: &HloInstructionProto, depth: usize) -> f64 {
    let full = bytes_of(root.shape.as_ref());
    if depth > MAX_DEPTH {
        return full;
    }
    match root.opcode.as_str() {
        "dynamic-update-slice" => inner
            .operand(root, 1)
            .and_then(|u| u.shape.as_ref())
            .map_or(full, bytes),
        "tuple" => root
            .operand_ids
            .iter()
            .filter_map(|&id| inner.get(id))
            .map(|part| written(index, inner, part, depth + 1))
            .sum(),
        "bitcast" => inner
            .operand(root, 0)
            .map_or(full, |o| written(index, inner, o, depth + 1)),
        "fusion" => index
            .called(root, 0)
            .and_then(|c| Some(written(index, c, c.root()?, depth + 1)))
            .unwrap_or(full),
        // Given back as it came.
        "parameter" => 0.0,
        _ => full,
    }
}
