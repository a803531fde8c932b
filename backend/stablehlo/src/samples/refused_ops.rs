//! What a compiler refuses, measured as in `refused.rs`: ops and attributes that not every plugin has yet, or has no more.

use super::Refusal;
use super::Target::{Cpu106, Cpu115, V6e};
use super::refused::{EVERY, Row};

/// libtpu compiles a program's parts in several threads, and each of them fails its own check on a scan in order.
const SCAN_IN_ORDER: &[&str] = &[
    "libtpu: Check failed: !data->ProducesVmreg() && !data->ProducesVreg() Unsupported conversion from vmreg/vreg to U64",
    "libtpu: Check failed: desc->window_bounds.size() == rank (0 vs. 1) base_bounds",
];

/// Op, variant, who refuses it, why.
pub(super) const REFUSED: &[Row] = &[
    (
        "stablehlo.exp2",
        EVERY,
        &[Cpu106, Cpu115],
        Refusal::Error("Unknown: unregistered operation 'stablehlo.exp2'"),
    ),
    (
        "stablehlo.log2",
        EVERY,
        &[Cpu106, Cpu115],
        Refusal::Error("Unknown: unregistered operation 'stablehlo.log2'"),
    ),
    (
        "stablehlo.fma",
        EVERY,
        &[Cpu106, Cpu115],
        Refusal::Error("Unknown: unregistered operation 'stablehlo.fma'"),
    ),
    (
        "chlo.mulhi",
        EVERY,
        &[Cpu106],
        Refusal::Error("Unknown: unregistered operation 'chlo.mulhi'"),
    ),
    (
        "stablehlo.collective_reduce",
        EVERY,
        &[Cpu106],
        Refusal::Error("Unknown: unregistered operation 'stablehlo.collective_reduce'"),
    ),
    (
        "stablehlo.collective_reduce",
        EVERY,
        &[Cpu115],
        Refusal::Error("Internal: Unexpected calling opcode: collective-reduce"),
    ),
    (
        "stablehlo.collective_reduce",
        "two operands",
        &[V6e],
        Refusal::Error("Unimplemented: HLO collective-reduce is not implemented on TPU."),
    ),
    (
        "stablehlo.collective_reduce",
        "root",
        &[V6e],
        Refusal::Error(
            "Internal: root_shape == ShapeUtil::MakeShape( S32, {static_cast<int64_t>(operand_shapes.size() - 1)})",
        ),
    ),
    (
        "stablehlo.unary_einsum",
        EVERY,
        &[Cpu106, Cpu115, V6e],
        Refusal::Error("Unknown: 'stablehlo.unary_einsum' op can't be translated to XLA HLO"),
    ),
    (
        "chlo.scan",
        EVERY,
        &[Cpu106],
        Refusal::Error("Unimplemented: HLO opcode `scan` is not supported by XLA:CPU ThunkEmitter"),
    ),
    (
        "chlo.scan",
        "sum of scalars, in order",
        &[V6e],
        Refusal::AbortsByAny(SCAN_IN_ORDER),
    ),
    (
        "chlo.scan",
        "sum, order not said",
        &[V6e],
        Refusal::AbortsByAny(SCAN_IN_ORDER),
    ),
    (
        "chlo.scan",
        "other output",
        &[V6e],
        Refusal::AbortsByAny(SCAN_IN_ORDER),
    ),
    (
        "chlo.scan",
        "no output",
        &[V6e],
        Refusal::AbortsByAny(SCAN_IN_ORDER),
    ),
    (
        "chlo.ragged_dot",
        EVERY,
        &[Cpu106],
        Refusal::Error("Unimplemented: HLO opcode `ragged-dot` is not supported by XLA:CPU ThunkEmitter"),
    ),
    (
        "chlo.ragged_dot",
        "rows",
        &[Cpu115],
        Refusal::Error("Unimplemented: HLO opcode `ragged-dot` is not supported by XLA:CPU ThunkEmitter"),
    ),
    (
        "chlo.ragged_dot",
        "rows, i64 sizes",
        &[Cpu115],
        Refusal::Error("Unimplemented: HLO opcode `ragged-dot` is not supported by XLA:CPU ThunkEmitter"),
    ),
    (
        "chlo.ragged_dot",
        "rows of a batch",
        &[Cpu115],
        Refusal::Error("Unimplemented: HLO opcode `ragged-dot` is not supported by XLA:CPU ThunkEmitter"),
    ),
    (
        "chlo.ragged_dot",
        "contracting",
        &[Cpu115],
        Refusal::Error("Unimplemented: HLO opcode `ragged-dot` is not supported by XLA:CPU ThunkEmitter"),
    ),
    (
        "chlo.ragged_dot",
        "contracting of a batch",
        &[Cpu115],
        Refusal::Error("Unimplemented: HLO opcode `ragged-dot` is not supported by XLA:CPU ThunkEmitter"),
    ),
    (
        "chlo.ragged_dot",
        "bf16 bf16 to f32",
        &[Cpu115],
        Refusal::Error("Unimplemented: HLO opcode `ragged-dot` is not supported by XLA:CPU ThunkEmitter"),
    ),
    (
        "chlo.ragged_dot",
        "bf16 f32 to f32",
        &[Cpu115],
        Refusal::Error("Unimplemented: HLO opcode `ragged-dot` is not supported by XLA:CPU ThunkEmitter"),
    ),
    (
        "chlo.ragged_dot",
        "i8 i8 to i32",
        &[Cpu115],
        Refusal::Error("Unimplemented: HLO opcode `ragged-dot` is not supported by XLA:CPU ThunkEmitter"),
    ),
    (
        "chlo.ragged_dot",
        "rows, i64 sizes",
        &[V6e],
        Refusal::Error(
            "Unimplemented: While rewriting computation to not contain X{64|128} element types, XLA encountered an HLO for which this rewriting is not implemented: %ragged-dot.1",
        ),
    ),
    (
        "chlo.ragged_dot",
        "rows of a batch",
        &[V6e],
        Refusal::Error(
            "InvalidArgument: Failed to create RaggedConvSpec from ragged_dot instruction %ragged-dot.1",
        ),
    ),
    (
        "chlo.ragged_dot",
        "contracting of a batch",
        &[V6e],
        Refusal::Error(
            "InvalidArgument: Failed to create RaggedConvSpec from ragged_dot instruction %ragged-dot.1",
        ),
    ),
    (
        "chlo.constant_like",
        "i2",
        &[V6e],
        Refusal::Error("InvalidArgument: INT2 is not supported for second minor size 2"),
    ),
    (
        "chlo.constant_like",
        "ui2",
        &[V6e],
        Refusal::Error("InvalidArgument: INT2 is not supported for second minor size 2"),
    ),
    (
        "stablehlo.fma",
        "f64",
        &[V6e],
        Refusal::Error(
            "Unimplemented: While rewriting computation to not contain X{64|128} element types, XLA encountered an HLO for which this rewriting is not implemented: %fma.1",
        ),
    ),
    (
        "stablehlo.cbrt",
        "highest accuracy",
        &[V6e],
        Refusal::Error(
            "Internal: !result_accuracy.has_value() Accuracy analysis for cbrt is not implemented yet.",
        ),
    ),
    (
        "stablehlo.cbrt",
        "wide tolerance",
        &[V6e],
        Refusal::Error(
            "Internal: !result_accuracy.has_value() Accuracy analysis for cbrt is not implemented yet.",
        ),
    ),
    (
        "stablehlo.exponential",
        "narrow tolerance",
        &[V6e],
        Refusal::Error("Internal: impl_type.ok() NOT_FOUND: No implementation found for requested accuracy"),
    ),
    (
        "stablehlo.async_start",
        "all_to_all",
        &[V6e],
        Refusal::Error(
            "FailedPrecondition: Asynchronous computation region_0.1 expected to contain only the root and parameter instructions.",
        ),
    ),
    (
        "stablehlo.async_start",
        "collective_broadcast",
        &[Cpu106, Cpu115],
        Refusal::Error(
            "Unimplemented: HLO opcode `collective-broadcast` is not supported by XLA:CPU ThunkEmitter",
        ),
    ),
    (
        "stablehlo.async_start",
        "collective_broadcast",
        &[V6e],
        Refusal::Error("Unimplemented: HLO collective-broadcast is not implemented on TPU."),
    ),
    (
        "stablehlo.async_start",
        "collective_reduce",
        &[Cpu106],
        Refusal::Error("Unknown: unregistered operation 'stablehlo.collective_reduce'"),
    ),
    (
        "stablehlo.async_start",
        "collective_reduce",
        &[Cpu115, V6e],
        Refusal::Error(
            "Unknown: 'stablehlo.async_start' op unsupported op in async_start: stablehlo.collective_reduce",
        ),
    ),
    (
        "stablehlo.async_start",
        "slice",
        &[Cpu106, Cpu115, V6e],
        Refusal::Error("Unknown: 'stablehlo.async_start' op unsupported op in async_start: stablehlo.slice"),
    ),
    (
        "stablehlo.async_start",
        "dynamic_slice",
        &[Cpu106, Cpu115, V6e],
        Refusal::Error(
            "Unknown: 'stablehlo.async_start' op async_start currently requires one argument; got 2",
        ),
    ),
    (
        "stablehlo.async_start",
        "dynamic_update_slice",
        &[Cpu106, Cpu115, V6e],
        Refusal::Error(
            "Unknown: 'stablehlo.async_start' op async_start currently requires one argument; got 3",
        ),
    ),
];
