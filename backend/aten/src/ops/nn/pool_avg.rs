//! Average pooling, fixed and adaptive, with gradients.

use stablehlo::Value;
use stablehlo::ops::Window;

use super::ex::ex;
use super::pool_max::{adaptive_ranges, cut, planes, pool_window};
use super::util::{constants_along, sum, take_ranges, up, window_list};
use crate::{Cx, ElementType, Error, Lowered, OpDef, Result, compute_type};

/// How many elements each window along one dimension counts.
fn window_counts(input: i64, output: i64, [kernel, stride, pad]: [i64; 3], include_pad: bool) -> Vec<f64> {
    let count = |o: i64| {
        let start = o * stride - pad;
        let end = (start + kernel).min(input + pad);
        if include_pad {
            end - start
        } else {
            end.min(input) - start.max(0)
        }
    };
    (0..output).map(|o| count(o) as f64).collect()
}

/// Divides by the count of each window, or by the divisor that was asked for.
fn divide(cx: &mut Cx<'_, '_>, v: Value, n: usize, input: &[i64], output: &[i64]) -> Result<Value> {
    if let Some(divisor) = cx.opt_int("divisor_override")? {
        return (ex(v) / divisor as f64).eval(cx);
    }
    let kernel = window_list(cx, "kernel_size", n, || vec![1; n])?;
    let stride = window_list(cx, "stride", n, || kernel.clone())?;
    let padding = window_list(cx, "padding", n, || vec![0; n])?;
    let include = cx.bool("count_include_pad")?;
    let counts: Vec<Vec<f64>> = (0..n)
        .map(|d| {
            window_counts(
                input[d + 1],
                output[d + 1],
                [kernel[d], stride[d], padding[d]],
                include,
            )
        })
        .collect();
    divide_by(cx, v, &counts)
}

/// Divides by the product of one count for each of the last dimensions.
fn divide_by(cx: &mut Cx<'_, '_>, v: Value, counts: &[Vec<f64>]) -> Result<Value> {
    let even = counts.iter().all(|c| c.windows(2).all(|w| w[0] == w[1]));
    if even {
        let product: f64 = counts.iter().filter_map(|c| c.first()).product();
        return (ex(v) / product).eval(cx);
    }
    let element = cx.element(v)?;
    let mut divisor = ex(1.0);
    for (d, c) in counts.iter().enumerate() {
        let c = constants_along(cx, c, element, d + 1, counts.len() + 1)?;
        divisor = ex(c) * divisor;
    }
    (ex(v) / divisor).eval(cx)
}

fn window_sum(cx: &mut Cx<'_, '_>, x: Value, window: &Window) -> Result<Value> {
    let element = cx.element(x)?;
    let zero = cx.full(&[], element, 0)?;
    let r =
        cx.f.reduce_window(&[x], &[zero], window, |f, e| Ok(vec![f.add(e[0], e[1])?]))?;
    Ok(r[0])
}

fn avg_pool(cx: &mut Cx<'_, '_>, n: usize) -> Lowered {
    let x = up(cx, "self")?;
    let element = cx.element(x)?;
    let out = &cx.out(0)?.dims;
    if out.contains(&0) {
        return Ok(cx.full(out, element, 0)?.into());
    }
    let (input, output) = (planes(&cx.dims(x)?, n), planes(out, n));
    let mut window = pool_window(cx, n, &input, &output)?;
    let x = cx.reshape(x, &input)?;
    let x = cut(cx, x, &mut window)?;
    let total = window_sum(cx, x, &window)?;
    let y = divide(cx, total, n, &input, &output)?;
    Ok(cx.reshape(y, out)?.into())
}

fn avg_pool2d(cx: &mut Cx<'_, '_>) -> Lowered {
    avg_pool(cx, 2)
}

fn avg_pool3d(cx: &mut Cx<'_, '_>) -> Lowered {
    avg_pool(cx, 3)
}

/// Each input element is in the windows of a range of outputs, so the gradient is a sum over a window too.
fn avg_pool_backward(cx: &mut Cx<'_, '_>, n: usize) -> Lowered {
    let (g, x) = (up(cx, "grad_output")?, cx.tensor("self")?);
    let (sizes, element) = (cx.dims(x)?, cx.element(g)?);
    if sizes.contains(&0) || cx.dims(g)?.contains(&0) {
        return Ok(cx.full(&sizes, element, 0)?.into());
    }
    let (input, output) = (planes(&sizes, n), planes(&cx.dims(g)?, n));
    let g = cx.reshape(g, &output)?;
    let g = divide(cx, g, n, &input, &output)?;
    let kernel = window_list(cx, "kernel_size", n, || vec![1; n])?;
    let stride = window_list(cx, "stride", n, || kernel.clone())?;
    let padding = window_list(cx, "padding", n, || vec![0; n])?;
    let (mut low, mut high, mut between) = (vec![0; n + 1], vec![0; n + 1], vec![0; n + 1]);
    for d in 0..n {
        let dilated = (output[d + 1] - 1) * stride[d] + 1;
        low[d + 1] = kernel[d] - 1 - padding[d];
        high[d + 1] = input[d + 1] + kernel[d] - 1 - dilated - low[d + 1];
        between[d + 1] = stride[d] - 1;
    }
    let zero = cx.full(&[], element, 0)?;
    let spread = cx.f.pad(g, zero, &low, &high, &between)?;
    let window = Window::new(&[&[1], &kernel[..]].concat());
    let grad = window_sum(cx, spread, &window)?;
    Ok(cx.reshape(grad, &sizes)?.into())
}

fn avg_pool2d_backward(cx: &mut Cx<'_, '_>) -> Lowered {
    avg_pool_backward(cx, 2)
}

fn avg_pool3d_backward(cx: &mut Cx<'_, '_>) -> Lowered {
    avg_pool_backward(cx, 3)
}

/// Sums over a range along each of the last dimensions.
fn range_sums(cx: &mut Cx<'_, '_>, v: Value, ranges: &[Vec<(i64, i64)>]) -> Result<Value> {
    let mut v = v;
    for (d, r) in ranges.iter().enumerate() {
        let size = cx.dims(v)?[d + 1];
        let length = r.first().map_or(0, |r| r.1 - r.0);
        let tiles = r
            .iter()
            .enumerate()
            .all(|(i, x)| *x == (i as i64 * length, (i as i64 + 1) * length));
        let parts = if tiles && length * r.len() as i64 == size {
            let mut dims = cx.dims(v)?.to_vec();
            dims.splice(d + 1..d + 2, [r.len() as i64, length]);
            cx.reshape(v, &dims)?
        } else {
            take_ranges(cx, v, d + 1, r, stablehlo::Number::Int(0))?
        };
        v = sum(cx, parts, &[d as i64 + 2])?;
    }
    Ok(v)
}

/// Lengths of ranges.
fn lengths(ranges: &[Vec<(i64, i64)>]) -> Vec<Vec<f64>> {
    let one = |r: &Vec<(i64, i64)>| r.iter().map(|r| (r.1 - r.0) as f64).collect();
    ranges.iter().map(one).collect()
}

fn adaptive_avg_pool(cx: &mut Cx<'_, '_>, n: usize) -> Lowered {
    let x = up(cx, "self")?;
    let element = cx.element(x)?;
    let out = &cx.out(0)?.dims;
    let (input, output) = (planes(&cx.dims(x)?, n), planes(out, n));
    if out.contains(&0) {
        return Ok(cx.full(out, element, 0)?.into());
    }
    let ranges: Vec<_> = (1..=n).map(|d| adaptive_ranges(input[d], output[d])).collect();
    let x = cx.reshape(x, &input)?;
    let narrow = cx.out(0)?.element;
    let places: i64 = ranges.iter().map(|r| longest(r)).product();
    if n == 3 && compute_type(narrow) != narrow && places <= MOST_ROUNDED_STEPS {
        let y = rounded_means(cx, x, &ranges, narrow)?;
        return Ok(cx.reshape(y, out)?.into());
    }
    let total = range_sums(cx, x, &ranges)?;
    let y = divide_by(cx, total, &lengths(&ranges))?;
    Ok(cx.reshape(y, out)?.into())
}

/// Windows of more elements are summed in single precision: the errors of torch's sums are no measure there.
const MOST_ROUNDED_STEPS: i64 = 64;

fn longest(ranges: &[(i64, i64)]) -> i64 {
    ranges.iter().map(|r| r.1 - r.0).max().unwrap_or(0)
}

/// Means as torch's kernel for volumes finds them: each sum and each of the three quotients rounded to the narrow type.
fn rounded_means(
    cx: &mut Cx<'_, '_>,
    x: Value,
    ranges: &[Vec<(i64, i64)>],
    narrow: ElementType,
) -> Result<Value> {
    let mut total: Option<Value> = None;
    let steps: Vec<i64> = ranges.iter().map(|r| longest(r)).collect();
    for place in 0..steps.iter().product() {
        let offsets = [
            place / (steps[1] * steps[2]),
            place / steps[2] % steps[1],
            place % steps[2],
        ];
        let mut part = x;
        for (d, (r, k)) in ranges.iter().zip(offsets).enumerate() {
            // The one element of each range that this step adds, nothing past the range's end.
            let one: Vec<(i64, i64)> = r
                .iter()
                .map(|r| (r.0 + k, (r.0 + k + 1).min(r.1).max(r.0 + k)))
                .collect();
            let taken = take_ranges(cx, part, d + 1, &one, stablehlo::Number::Int(0))?;
            let mut dims = cx.dims(taken)?.to_vec();
            dims.remove(d + 2);
            part = cx.reshape(taken, &dims)?;
        }
        total = Some(match total {
            None => part,
            Some(sum) => {
                let sum = cx.f.add(sum, part)?;
                cx.rounded(sum, narrow)?
            }
        });
    }
    let mut mean = total.ok_or_else(|| Error::Internal("a window of no elements".into()))?;
    let (rank, element) = (cx.rank(mean)?, cx.element(mean)?);
    for (d, counts) in lengths(ranges).iter().enumerate() {
        let counts = constants_along(cx, counts, element, d + 1, rank)?;
        let dims = cx.dims(mean)?;
        let counts = cx.broadcast_to(counts, &dims)?;
        mean = cx.f.divide(mean, counts)?;
        mean = cx.rounded(mean, narrow)?;
    }
    Ok(mean)
}

/// The outputs whose range holds each input position.
fn covering(input: i64, output: i64) -> Vec<(i64, i64)> {
    let ranges = adaptive_ranges(input, output);
    (0..input)
        .map(|i| {
            let first = ranges.partition_point(|r| r.1 <= i) as i64;
            (first, ranges.partition_point(|r| r.0 <= i) as i64)
        })
        .collect()
}

fn adaptive_avg_pool_backward(cx: &mut Cx<'_, '_>, n: usize) -> Lowered {
    let (g, x) = (up(cx, "grad_output")?, cx.tensor("self")?);
    let (sizes, element) = (cx.dims(x)?, cx.element(g)?);
    let (input, output) = (planes(&sizes, n), planes(&cx.dims(g)?, n));
    if input.contains(&0) || output.contains(&0) {
        return Ok(cx.full(&sizes, element, 0)?.into());
    }
    let ranges: Vec<_> = (1..=n).map(|d| adaptive_ranges(input[d], output[d])).collect();
    let back: Vec<_> = (1..=n).map(|d| covering(input[d], output[d])).collect();
    let g = cx.reshape(g, &output)?;
    let g = divide_by(cx, g, &lengths(&ranges))?;
    let grad = range_sums(cx, g, &back)?;
    Ok(cx.reshape(grad, &sizes)?.into())
}

fn adaptive_avg_pool2d(cx: &mut Cx<'_, '_>) -> Lowered {
    adaptive_avg_pool(cx, 2)
}

fn adaptive_avg_pool3d(cx: &mut Cx<'_, '_>) -> Lowered {
    adaptive_avg_pool(cx, 3)
}

fn adaptive_avg_pool2d_backward(cx: &mut Cx<'_, '_>) -> Lowered {
    adaptive_avg_pool_backward(cx, 2)
}

fn adaptive_avg_pool3d_backward(cx: &mut Cx<'_, '_>) -> Lowered {
    adaptive_avg_pool_backward(cx, 3)
}

pub(crate) const OPS: &[OpDef] = &[
    OpDef::new("avg_pool2d", avg_pool2d),
    OpDef::new("avg_pool3d", avg_pool3d),
    OpDef::new("avg_pool2d_backward", avg_pool2d_backward),
    OpDef::new("avg_pool3d_backward", avg_pool3d_backward),
    OpDef::new("_adaptive_avg_pool2d", adaptive_avg_pool2d),
    OpDef::new("_adaptive_avg_pool3d", adaptive_avg_pool3d),
    OpDef::new("_adaptive_avg_pool2d_backward", adaptive_avg_pool2d_backward),
    OpDef::new("_adaptive_avg_pool3d_backward", adaptive_avg_pool3d_backward),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_input_is_covered_by_the_outputs_that_read_it() {
        for input in 1..9 {
            for output in 1..9 {
                let ranges = adaptive_ranges(input, output);
                for (i, (first, end)) in covering(input, output).into_iter().enumerate() {
                    for (o, r) in ranges.iter().enumerate() {
                        let reads = (r.0..r.1).contains(&(i as i64));
                        assert_eq!(
                            reads,
                            (first..end).contains(&(o as i64)),
                            "{input} {output} {i} {o}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn windows_past_the_padding_count_less() {
        // Five elements, windows of 2 by 2, ceil mode: the last window has one element.
        assert_eq!(window_counts(5, 3, [2, 2, 0], true), [2.0, 2.0, 1.0]);
        assert_eq!(window_counts(4, 3, [3, 2, 1], false), [2.0, 3.0, 1.0]);
    }
}
