//! Arithmetic of one instruction, counted as XLA's `HloCostAnalysis` counts it.

use pjrt_ffi::protos::xla::HloInstructionProto;

use super::Work;
use crate::index::Computation;
use crate::shape::elements_of;

/// A multiply and an add.
const FMA: f64 = 2.0;

/// What one call of a computation costs, for opcodes that apply one to each element.
pub(crate) type Applied<'s> = &'s mut dyn FnMut(&HloInstructionProto) -> Work;

/// Flops and transcendentals of an instruction that calls nothing but an element-wise function.
pub(crate) fn of(
    computation: &Computation<'_>,
    instruction: &HloInstructionProto,
    applied: Applied<'_>,
) -> Work {
    let out = elements_of(instruction.shape.as_ref());
    let operand = |n| computation.operand(instruction, n).and_then(|o| o.shape.as_ref());
    let flops = |flops| Work {
        flops,
        transcendentals: 0.0,
    };
    match instruction.opcode.as_str() {
        "abs"
        | "add"
        | "and"
        | "ceil"
        | "clamp"
        | "compare"
        | "complex"
        | "convert"
        | "count-leading-zeros"
        | "divide"
        | "floor"
        | "imag"
        | "is-finite"
        | "maximum"
        | "minimum"
        | "mulhi"
        | "multiply"
        | "negate"
        | "not"
        | "or"
        | "popcnt"
        | "real"
        | "reduce-precision"
        | "remainder"
        | "round-nearest-afz"
        | "round-nearest-even"
        | "select"
        | "shift-left"
        | "shift-right-arithmetic"
        | "shift-right-logical"
        | "sign"
        | "stochastic-convert"
        | "subtract"
        | "xor" => flops(out),
        "acos"
        | "acosh"
        | "asin"
        | "asinh"
        | "atan2"
        | "atanh"
        | "cbrt"
        | "cosine"
        | "cosh"
        | "erf"
        | "exponential"
        | "exponential-minus-one"
        | "log"
        | "log-plus-one"
        | "logistic"
        | "power"
        | "rng"
        | "rng-bit-generator"
        | "rsqrt"
        | "sine"
        | "sinh"
        | "sqrt"
        | "tan"
        | "tanh" => Work {
            flops: 0.0,
            transcendentals: out,
        },
        "dot" => flops(dot(instruction, operand(0).map(|s| &s.dimensions[..]), out)),
        "convolution" => flops(super::convolution::flops(instruction, operand(0), operand(1))),
        "reduce" => {
            let input = elements_of(operand(0));
            let first = instruction
                .shape
                .as_ref()
                .map(|s| s.tuple_shapes.first().unwrap_or(s));
            applied(instruction).times((input - elements_of(first)).max(0.0))
        }
        "reduce-window" => {
            let first = instruction
                .shape
                .as_ref()
                .map(|s| s.tuple_shapes.first().unwrap_or(s));
            applied(instruction).times(elements_of(first) * (window(instruction) - 1.0).max(0.0))
        }
        // Each source element selects within a window, then is scattered with one application.
        "select-and-scatter" => applied(instruction).times(elements_of(operand(1)) * window(instruction)),
        "map" => applied(instruction).times(out),
        "scatter" => {
            // Operands: n inputs, the indices, n updates.
            let n = instruction.operand_ids.len() / 2;
            applied(instruction).times(elements_of(operand(n + 1)))
        }
        "all-reduce" | "all-reduce-start" => flops(out),
        "reduce-scatter" => flops(elements_of(operand(0))),
        // As XLA: the whole array counts as one list, whatever dimension is sorted.
        "sort" => {
            let n = elements_of(operand(0));
            flops(if n > 1.0 { n * n.log2().ceil() } else { 0.0 })
        }
        "fft" => {
            let log: f64 = instruction
                .fft_length
                .iter()
                .map(|&n| (n.max(1) as f64).log2().floor().max(1.0))
                .product();
            // Four multiply-adds make a complex multiplication.
            let points = elements_of(operand(0)).max(out);
            flops(FMA * 4.0 * log * points)
        }
        "cholesky" => {
            let n = operand(0).and_then(|s| s.dimensions.last()).copied();
            flops(FMA * elements_of(operand(0)) * n.unwrap_or(0).max(0) as f64 / 3.0)
        }
        "triangular-solve" => {
            let n = operand(0).and_then(|s| s.dimensions.last()).copied();
            flops(FMA * out * n.unwrap_or(0).max(0) as f64)
        }
        _ => Work::default(),
    }
}

fn dim(dims: Option<&[i64]>, at: i64) -> Option<f64> {
    let size = *dims?.get(usize::try_from(at).ok()?)?;
    Some(size.max(0) as f64)
}

fn dot(instruction: &HloInstructionProto, lhs: Option<&[i64]>, out: f64) -> f64 {
    let numbers = instruction.dot_dimension_numbers.as_ref();
    let contracted: f64 = numbers
        .map_or(&[][..], |n| &n.lhs_contracting_dimensions)
        .iter()
        .filter_map(|&d| dim(lhs, d))
        .product();
    FMA * out * contracted
}

/// Elements of a window.
fn window(instruction: &HloInstructionProto) -> f64 {
    instruction.window.as_ref().map_or(1.0, |w| {
        w.dimensions.iter().map(|d| d.size.max(0) as f64).product()
    })
}
