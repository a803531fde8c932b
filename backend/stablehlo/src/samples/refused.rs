//! What a compiler refuses, measured by compiling every sample: in its own words, shortened.

use super::Target::{Cpu106, Cpu115, V6e};
use super::{Refusal, Target};

/// Op, variant, who refuses it, why.
pub(super) type Row = (&'static str, &'static str, &'static [Target], Refusal);

/// In place of a variant: each of them.
pub(super) const EVERY: &str = "*";

/// Every row.
pub(super) fn rows() -> impl Iterator<Item = &'static Row> {
    REFUSED.iter().chain(super::refused_ops::REFUSED)
}

/// Op, variant, who refuses it, why.
const REFUSED: &[Row] = &[
    (
        "stablehlo.clamp",
        "i1",
        &[V6e],
        Refusal::Error(
            "Unimplemented: Hit an unimplemented case while compiling clamp as an elementwise vector operation. This operation is not implemented for these element types.",
        ),
    ),
    (
        "stablehlo.constant",
        "splat i2",
        &[V6e],
        Refusal::Error("InvalidArgument: INT2 is not supported for rank 1"),
    ),
    (
        "stablehlo.constant",
        "splat ui2",
        &[V6e],
        Refusal::Error("InvalidArgument: INT2 is not supported for rank 1"),
    ),
    (
        "stablehlo.convert",
        "f32 to i2",
        &[V6e],
        Refusal::Error("InvalidArgument: INT2 is not supported for rank 1"),
    ),
    (
        "stablehlo.convert",
        "i2 to f32",
        &[V6e],
        Refusal::Aborts(
            "windowing_util.cc: Check failed: dimension_to_pack < desc.base_bounds.size() (-1 vs. 1)",
        ),
    ),
    (
        "stablehlo.convert",
        "f32 to ui2",
        &[V6e],
        Refusal::Error("InvalidArgument: INT2 is not supported for rank 1"),
    ),
    (
        "stablehlo.convert",
        "ui2 to f32",
        &[V6e],
        Refusal::Aborts(
            "windowing_util.cc: Check failed: dimension_to_pack < desc.base_bounds.size() (-1 vs. 1)",
        ),
    ),
    (
        "stablehlo.reduce_precision",
        "f64",
        &[V6e],
        Refusal::Error(
            "Unimplemented: While rewriting computation to not contain X{64|128} element types, XLA encountered an HLO for which this rewriting is not implemented: %reduce-precision.1 = f64[4]{0} reduce-precision(%Arg_0.1), exponent_",
        ),
    ),
    (
        "stablehlo.uniform_quantize",
        "per tensor",
        &[Cpu106, Cpu115, V6e],
        Refusal::Error("Unknown: 'stablehlo.uniform_quantize' op can't be translated to XLA HLO"),
    ),
    (
        "stablehlo.uniform_quantize",
        "per tensor unsigned",
        &[Cpu106, Cpu115, V6e],
        Refusal::Error("Unknown: 'stablehlo.uniform_quantize' op can't be translated to XLA HLO"),
    ),
    (
        "stablehlo.uniform_quantize",
        "per axis",
        &[Cpu106, Cpu115, V6e],
        Refusal::Error("Unknown: 'stablehlo.uniform_quantize' op can't be translated to XLA HLO"),
    ),
    (
        "stablehlo.uniform_dequantize",
        "per tensor",
        &[Cpu106, Cpu115, V6e],
        Refusal::Error("Unknown: 'stablehlo.uniform_quantize' op can't be translated to XLA HLO"),
    ),
    (
        "stablehlo.set_dimension_size",
        "argument",
        &[Cpu106, Cpu115],
        Refusal::Error("Unimplemented: Custom call target PadToStatic is not implemented."),
    ),
    (
        "stablehlo.dynamic_broadcast_in_dim",
        "run-time shape",
        &[Cpu106, Cpu115, V6e],
        Refusal::Error("Unknown: 'stablehlo.dynamic_broadcast_in_dim' op can't be translated to XLA HLO"),
    ),
    (
        "stablehlo.dynamic_broadcast_in_dim",
        "bounded",
        &[Cpu106, Cpu115, V6e],
        Refusal::Error("Unknown: 'stablehlo.dynamic_broadcast_in_dim' op can't be translated to XLA HLO"),
    ),
    (
        "stablehlo.dynamic_conv",
        "constant padding",
        &[Cpu106, Cpu115, V6e],
        Refusal::Error("Unknown: 'stablehlo.dynamic_conv' op can't be translated to XLA HLO"),
    ),
    (
        "stablehlo.select_and_scatter",
        "f32",
        &[V6e],
        Refusal::Error(
            "Unimplemented: Encountered select-and-scatter with a window bound or window stride in one of the two minor-most dimensions that are not 1, which is not implemented for TPU.",
        ),
    ),
    (
        "stablehlo.select_and_scatter",
        "bf16",
        &[V6e],
        Refusal::Error(
            "Unimplemented: Encountered select-and-scatter with a window bound or window stride in one of the two minor-most dimensions that are not 1, which is not implemented for TPU.",
        ),
    ),
    (
        "stablehlo.dot_general",
        "algorithm f32",
        &[V6e],
        Refusal::Error("Unimplemented: Dot algorithm ALG_DOT_F32_F32_F32 is not supported."),
    ),
    (
        "stablehlo.dot_general",
        "algorithm tf32x3",
        &[V6e],
        Refusal::Error("Unimplemented: Dot algorithm ALG_DOT_TF32_TF32_F32_X3 is not supported."),
    ),
    (
        "stablehlo.dot_general",
        "algorithm bf16x9",
        &[V6e],
        Refusal::Error("Unimplemented: Dot algorithm ALG_DOT_BF16_BF16_F32_X9 is not supported."),
    ),
    (
        "stablehlo.dot_general",
        "algorithm tf32",
        &[V6e],
        Refusal::Error("Unimplemented: Dot algorithm ALG_DOT_TF32_TF32_F32 is not supported."),
    ),
    (
        "stablehlo.dot_general",
        "algorithm f8",
        &[V6e],
        Refusal::Error("Unimplemented: Dot algorithm ALG_DOT_ANY_F8_ANY_F8_F32_FAST_ACCUM is not supported."),
    ),
    (
        "stablehlo.dot_general",
        "algorithm f64",
        &[V6e],
        Refusal::Error("Unimplemented: Dot algorithm ALG_DOT_F64_F64_F64 is not supported."),
    ),
    (
        "stablehlo.fft",
        "RFFT of three dims, f64",
        &[V6e],
        Refusal::Error("InvalidArgument: Unexpected operand type for FFT: f64[4,6,7]{2,1,0}"),
    ),
    (
        "stablehlo.custom_call",
        "dictionary configuration",
        &[Cpu106, Cpu115],
        Refusal::Error(
            "NotFound: No FFI handler registered for torch_tpu_not_registered on a platform Host (canonical host)",
        ),
    ),
    (
        "stablehlo.custom_call",
        "dictionary configuration",
        &[V6e],
        Refusal::Error("InvalidArgument: Custom emitter for torch_tpu_not_registered not found"),
    ),
    (
        "stablehlo.custom_call",
        "called computation",
        &[Cpu106, Cpu115],
        Refusal::Error(
            "NotFound: No registered implementation for untyped custom call to torch_tpu_not_registered for Host",
        ),
    ),
    (
        "stablehlo.custom_call",
        "called computation",
        &[V6e],
        Refusal::Error("InvalidArgument: Custom emitter for torch_tpu_not_registered not found"),
    ),
    (
        "stablehlo.send",
        "to host",
        &[Cpu106, Cpu115],
        Refusal::Error("Unimplemented: HLO opcode `send` is not supported by XLA:CPU ThunkEmitter"),
    ),
    (
        "stablehlo.send",
        "to host",
        &[V6e],
        Refusal::Error("Internal: attrs.contains(kXlaHostTransferHandlerNameAttr)"),
    ),
    (
        "stablehlo.send",
        "to host, named handler",
        &[Cpu106, Cpu115],
        Refusal::Error("Unimplemented: HLO opcode `send` is not supported by XLA:CPU ThunkEmitter"),
    ),
    (
        "stablehlo.recv",
        "from host, named handler",
        &[Cpu106, Cpu115],
        Refusal::Error("Unimplemented: HLO opcode `recv` is not supported by XLA:CPU ThunkEmitter"),
    ),
    (
        "stablehlo.recv",
        "from host",
        &[Cpu106, Cpu115],
        Refusal::Error("Unimplemented: HLO opcode `recv` is not supported by XLA:CPU ThunkEmitter"),
    ),
    (
        "stablehlo.recv",
        "from host",
        &[V6e],
        Refusal::Error("Internal: attrs.contains(kXlaHostTransferHandlerNameAttr)"),
    ),
    (
        "stablehlo.collective_broadcast",
        "2 replicas",
        &[Cpu106, Cpu115],
        Refusal::Error(
            "Unimplemented: HLO opcode `collective-broadcast` is not supported by XLA:CPU ThunkEmitter",
        ),
    ),
    (
        "stablehlo.collective_broadcast",
        "2 replicas",
        &[V6e],
        Refusal::Error("Unimplemented: HLO collective-broadcast is not implemented on TPU."),
    ),
    (
        "stablehlo.collective_broadcast",
        "2 groups",
        &[Cpu106, Cpu115],
        Refusal::Error(
            "Unimplemented: HLO opcode `collective-broadcast` is not supported by XLA:CPU ThunkEmitter",
        ),
    ),
    (
        "stablehlo.collective_broadcast",
        "2 groups",
        &[V6e],
        Refusal::Error("Unimplemented: HLO collective-broadcast is not implemented on TPU."),
    ),
    (
        "stablehlo.partition_id",
        "2 partitions",
        &[Cpu106, Cpu115, V6e],
        Refusal::Error(
            "Unimplemented: PartitionId instruction is not supported for SPMD partitioning since the meaning is ambiguous",
        ),
    ),
    (
        "stablehlo.all_reduce",
        "uneven groups",
        &[V6e],
        Refusal::Aborts(
            "ring_sum_emitter.cc: Check failed: replica_group_size == group.replica_ids_size() (2 vs. 1)",
        ),
    ),
    (
        "stablehlo.send",
        "to device",
        &[Cpu106, Cpu115],
        Refusal::Error("Unimplemented: HLO opcode `send` is not supported by XLA:CPU ThunkEmitter"),
    ),
    (
        "stablehlo.send",
        "to device",
        &[V6e],
        Refusal::Aborts("send_recv_emitter.cc: Check failed: send_recv_instr->is_host_transfer()"),
    ),
    (
        "stablehlo.recv",
        "from device",
        &[Cpu106, Cpu115],
        Refusal::Error("Unimplemented: HLO opcode `recv` is not supported by XLA:CPU ThunkEmitter"),
    ),
    (
        "stablehlo.recv",
        "from device",
        &[V6e],
        Refusal::Aborts("send_recv_emitter.cc: Check failed: send_recv_instr->is_host_transfer()"),
    ),
];

/// The refusals of one sample.
pub(super) fn find(op: &str, variant: &str) -> Vec<(Target, Refusal)> {
    rows()
        .filter(|(o, v, _, _)| *o == op && (*v == variant || *v == EVERY))
        .flat_map(|(_, _, targets, why)| targets.iter().map(move |t| (*t, *why)))
        .collect()
}
