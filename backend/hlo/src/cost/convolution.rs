//! Multiply-adds of a convolution, without those that fall into padding or dilation holes.
//!
//! The TPU compiler turns every dot into a convolution, batch dimensions into dilated spatial ones, so
//! counting padding would multiply a batched dot's flops by its batch size.

use pjrt_ffi::protos::xla::{HloInstructionProto, ShapeProto, WindowDimension};

/// Flops of a `convolution`; zero when dimension numbers and shapes do not fit together.
pub(crate) fn flops(
    instruction: &HloInstructionProto,
    lhs: Option<&ShapeProto>,
    rhs: Option<&ShapeProto>,
) -> f64 {
    count(instruction, lhs, rhs).unwrap_or(0.0)
}

fn dim(shape: &ShapeProto, at: i64) -> Option<i64> {
    let size = *shape.dimensions.get(usize::try_from(at).ok()?)?;
    (size >= 0).then_some(size)
}

fn count(
    instruction: &HloInstructionProto,
    lhs: Option<&ShapeProto>,
    rhs: Option<&ShapeProto>,
) -> Option<f64> {
    let (lhs, rhs, out) = (lhs?, rhs?, instruction.shape.as_ref()?);
    let n = instruction.convolution_dimension_numbers.as_ref()?;
    let window = instruction.window.as_ref().map_or(&[][..], |w| &w.dimensions);
    let mut positions = 1.0;
    for (i, window) in window.iter().enumerate() {
        positions *= valid(
            window,
            dim(lhs, *n.input_spatial_dimensions.get(i)?)?,
            dim(rhs, *n.kernel_spatial_dimensions.get(i)?)?,
            dim(out, *n.output_spatial_dimensions.get(i)?)?,
        );
    }
    let batch = dim(lhs, n.input_batch_dimension)? as f64;
    let groups = instruction.batch_group_count.max(1) as f64;
    // The kernel's input features are already those of one feature group.
    let inputs = dim(rhs, n.kernel_input_feature_dimension)? as f64;
    let outputs = dim(rhs, n.kernel_output_feature_dimension)? as f64;
    Some(2.0 * batch / groups * inputs * outputs * positions)
}

/// Pairs (output position, kernel position) of one spatial dimension that read an input element.
fn valid(window: &WindowDimension, input: i64, kernel: i64, output: i64) -> f64 {
    // Past any real kernel: not worth the loop, and a damaged module must not hang us.
    if kernel > 1 << 20 {
        return kernel as f64 * output as f64;
    }
    let stride = i128::from(window.stride.max(1));
    let dilation = i128::from(window.window_dilation.max(1));
    let base = i128::from(window.base_dilation.max(1));
    let last = (i128::from(input) - 1) * base;
    (0..i128::from(kernel))
        .map(|k| {
            // Output `o` reads the dilated input at `o * stride + offset`.
            let offset = k * dilation - i128::from(window.padding_low);
            let low = ceil_div(-offset, stride).max(0);
            let high = (last - offset).div_euclid(stride).min(i128::from(output) - 1);
            if input == 0 || high < low {
                return 0.0;
            }
            let Some((first, period)) = congruent(stride, -offset, base) else {
                return 0.0;
            };
            let start = low + (first - low).rem_euclid(period);
            if start > high {
                0.0
            } else {
                ((high - start) / period + 1) as f64
            }
        })
        .sum()
}

fn ceil_div(a: i128, b: i128) -> i128 {
    -(-a).div_euclid(b)
}

/// The solutions of `a * x = b (mod m)`: the least one and their distance.
fn congruent(a: i128, b: i128, m: i128) -> Option<(i128, i128)> {
    let (mut r, mut next_r) = (a.rem_euclid(m), m);
    let (mut s, mut next_s) = (1, 0);
    while next_r != 0 {
        let q = r / next_r;
        (r, next_r) = (next_r, r - q * next_r);
        (s, next_s) = (next_s, s - q * next_s);
    }
    let period = m / r;
    let b = b.rem_euclid(m);
    (b % r == 0).then(|| ((b / r * s).rem_euclid(period), period))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(stride: i64, low: i64, dilation: i64, base: i64) -> WindowDimension {
        WindowDimension {
            stride,
            padding_low: low,
            window_dilation: dilation,
            base_dilation: base,
            ..Default::default()
        }
    }

    /// By definition, one position at a time.
    fn slow(w: &WindowDimension, input: i64, kernel: i64, output: i64) -> f64 {
        let mut n = 0;
        for k in 0..kernel {
            for o in 0..output {
                let at = o * w.stride + k * w.window_dilation - w.padding_low;
                n += i64::from(at >= 0 && at % w.base_dilation == 0 && at / w.base_dilation < input);
            }
        }
        n as f64
    }

    #[test]
    fn agrees_with_the_definition() {
        for (stride, low, dilation, base) in [
            (1, 0, 1, 1),
            (1, 1, 1, 1),
            (2, 1, 1, 1),
            (1, 2, 2, 1),
            (1, 3, 1, 2),
            (3, 4, 2, 6),
            (7, 0, 1, 8),
            (4, 2, 3, 6),
        ] {
            let w = window(stride, low, dilation, base);
            for (input, kernel, output) in [(8, 3, 8), (1, 5, 9), (8, 8, 8), (0, 3, 4), (5, 1, 20)] {
                assert_eq!(
                    valid(&w, input, kernel, output),
                    slow(&w, input, kernel, output),
                    "{w:?} {input} {kernel} {output}"
                );
            }
        }
    }

    #[test]
    fn a_batch_dimension_in_disguise_counts_once() {
        // As the TPU compiler writes 8 batched dots: stride 7, base dilation 8, each pair meets once.
        assert_eq!(valid(&window(7, 0, 1, 8), 8, 8, 8), 8.0);
    }
}
