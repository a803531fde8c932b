//! What a compiler refuses, measured by compiling every sample; `backend/pjrt/tests/stablehlo_samples.rs` fails on a row
//! that no longer holds. None is a fault of the text: each compiler parses it and then lacks the op, type or case.

use super::Target;

const ALL: &[Target] = &Target::ALL;
const CPU: &[Target] = &[Target::Cpu106, Target::Cpu115];
const V6E: &[Target] = &[Target::V6e];

/// Op, variant, who refuses it, and a part of the compiler's own words. `Check failed` ends the compiler's process.
#[rustfmt::skip]
pub(super) const REFUSED: &[(&str, &str, &[Target], &str)] = &[
    ("stablehlo.uniform_quantize", "per tensor", ALL, "'stablehlo.uniform_quantize' op can't be translated to XLA HLO"),
    ("stablehlo.uniform_quantize", "per tensor unsigned", ALL, "'stablehlo.uniform_quantize' op can't be translated to XLA HLO"),
    ("stablehlo.uniform_quantize", "per axis", ALL, "'stablehlo.uniform_quantize' op can't be translated to XLA HLO"),
    ("stablehlo.uniform_dequantize", "per tensor", ALL, "'stablehlo.uniform_quantize' op can't be translated to XLA HLO"),
    ("stablehlo.set_dimension_size", "argument", CPU, "Custom call target PadToStatic is not implemented."),
    ("stablehlo.dynamic_broadcast_in_dim", "run-time shape", ALL, "'stablehlo.dynamic_broadcast_in_dim' op can't be translated to XLA HLO"),
    ("stablehlo.dynamic_broadcast_in_dim", "bounded", ALL, "'stablehlo.dynamic_broadcast_in_dim' op can't be translated to XLA HLO"),
    ("stablehlo.dynamic_conv", "constant padding", ALL, "'stablehlo.dynamic_conv' op can't be translated to XLA HLO"),
    ("stablehlo.custom_call", "dictionary configuration", CPU, "No FFI handler registered for torch_tpu_not_registered on a platform Host (canonical host)"),
    ("stablehlo.custom_call", "dictionary configuration", V6E, "Custom emitter for torch_tpu_not_registered not found"),
    ("stablehlo.custom_call", "called computation", CPU, "No registered implementation for untyped custom call to torch_tpu_not_registered for Host"),
    ("stablehlo.custom_call", "called computation", V6E, "Custom emitter for torch_tpu_not_registered not found"),
    ("stablehlo.send", "to host", CPU, "HLO opcode `send` is not supported by XLA:CPU ThunkEmitter"),
    ("stablehlo.send", "to host", V6E, "attrs.contains(kXlaHostTransferHandlerNameAttr)"),
    ("stablehlo.recv", "from host", CPU, "HLO opcode `recv` is not supported by XLA:CPU ThunkEmitter"),
    ("stablehlo.recv", "from host", V6E, "attrs.contains(kXlaHostTransferHandlerNameAttr)"),
    ("stablehlo.collective_broadcast", "2 replicas", CPU, "HLO opcode `collective-broadcast` is not supported by XLA:CPU ThunkEmitter"),
    ("stablehlo.collective_broadcast", "2 replicas", V6E, "HLO collective-broadcast is not implemented on TPU."),
    ("stablehlo.collective_broadcast", "2 groups", CPU, "HLO opcode `collective-broadcast` is not supported by XLA:CPU ThunkEmitter"),
    ("stablehlo.collective_broadcast", "2 groups", V6E, "HLO collective-broadcast is not implemented on TPU."),
    ("stablehlo.partition_id", "2 partitions", ALL, "PartitionId instruction is not supported for SPMD partitioning"),
    ("stablehlo.send", "to device", CPU, "HLO opcode `send` is not supported by XLA:CPU ThunkEmitter"),
    ("stablehlo.send", "to device", V6E, "Check failed: send_recv_instr->is_host_transfer()"),
    ("stablehlo.recv", "from device", CPU, "HLO opcode `recv` is not supported by XLA:CPU ThunkEmitter"),
    ("stablehlo.recv", "from device", V6E, "Check failed: send_recv_instr->is_host_transfer()"),
    ("stablehlo.clamp", "i1", V6E, "Hit an unimplemented case while compiling clamp"),
    ("stablehlo.constant", "splat i2", V6E, "INT2 is not supported for rank 1"),
    ("stablehlo.constant", "splat ui2", V6E, "INT2 is not supported for rank 1"),
    ("stablehlo.convert", "f32 to i2", V6E, "INT2 is not supported for rank 1"),
    ("stablehlo.convert", "i2 to f32", V6E, "Check failed: dimension_to_pack < desc.base_bounds.size() (-1 vs. 1)"),
    ("stablehlo.convert", "f32 to ui2", V6E, "INT2 is not supported for rank 1"),
    ("stablehlo.convert", "ui2 to f32", V6E, "Check failed: dimension_to_pack < desc.base_bounds.size() (-1 vs. 1)"),
    ("stablehlo.reduce_precision", "f64", V6E, "XLA encountered an HLO for which this rewriting is not implemented"),
    ("stablehlo.select_and_scatter", "f32", V6E, "Encountered select-and-scatter with a window bound or window stride in one of the two minor-most dimensions"),
    ("stablehlo.select_and_scatter", "bf16", V6E, "Encountered select-and-scatter with a window bound or window stride in one of the two minor-most dimensions"),
    ("stablehlo.dot_general", "algorithm f32", V6E, "Dot algorithm ALG_DOT_F32_F32_F32 is not supported."),
    ("stablehlo.dot_general", "algorithm tf32x3", V6E, "Dot algorithm ALG_DOT_TF32_TF32_F32_X3 is not supported."),
    ("stablehlo.dot_general", "algorithm bf16x9", V6E, "Dot algorithm ALG_DOT_BF16_BF16_F32_X9 is not supported."),
    ("stablehlo.dot_general", "algorithm tf32", V6E, "Dot algorithm ALG_DOT_TF32_TF32_F32 is not supported."),
    ("stablehlo.dot_general", "algorithm f8", V6E, "Dot algorithm ALG_DOT_ANY_F8_ANY_F8_F32_FAST_ACCUM is not supported."),
    ("stablehlo.dot_general", "algorithm f64", V6E, "Dot algorithm ALG_DOT_F64_F64_F64 is not supported."),
    ("stablehlo.fft", "RFFT of three dims, f64", V6E, "Unexpected operand type for FFT"),
    ("stablehlo.all_reduce", "uneven groups", V6E, "Check failed: replica_group_size == group.replica_ids_size() (2 vs. 1)"),
];

/// The refusals of one sample.
pub(super) fn find(op: &str, variant: &str) -> Vec<(Target, &'static str)> {
    REFUSED
        .iter()
        .filter(|(o, v, _, _)| *o == op && *v == variant)
        .flat_map(|(_, _, targets, why)| targets.iter().map(move |t| (*t, *why)))
        .collect()
}
