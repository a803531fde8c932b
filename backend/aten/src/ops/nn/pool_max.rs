//! Maximum pooling with indices, unpooling, gradients.

use stablehlo::Value;
use stablehlo::ops::{Direction, Window};

use super::scatter::{add_flat, set_flat};
use super::util::{check_range, lowest, pad_dim, take_ranges, window_list};
use crate::{Cx, ElementType, ErrorKind, Lowered, OpDef, Result};

/// Batch and channels as one dimension, then `n` spatial ones.
pub(super) fn planes(sizes: &[i64], n: usize) -> Vec<i64> {
    let at = sizes.len().saturating_sub(n);
    let mut dims = vec![sizes[..at].iter().product()];
    dims.extend_from_slice(&sizes[at..]);
    dims
}

/// The place of each element in its plane, for planes of these sizes.
fn places(cx: &mut Cx<'_, '_>, sizes: &[i64]) -> Result<Value> {
    let count: i64 = sizes[1..].iter().product();
    let flat = cx.f.iota(&[count], ElementType::S32, 0)?;
    let plane = cx.reshape(flat, &sizes[1..])?;
    cx.broadcast_to(plane, sizes)
}

/// Of two (value, index) pairs the one that a scan in order would keep: NaN before all, the greater, the earlier.
pub(super) fn better<'a>(
    f: &mut stablehlo::FunctionBuilder<'a>,
    e: &[Value],
    float: bool,
) -> stablehlo::Result<Vec<Value>> {
    let (a, i, b, j) = (e[0], e[1], e[2], e[3]);
    let mut first = f.compare(a, b, Direction::Gt)?;
    let mut same = f.compare(a, b, Direction::Eq)?;
    if float {
        let (a_nan, b_nan) = (f.compare(a, a, Direction::Ne)?, f.compare(b, b, Direction::Ne)?);
        let b_number = f.not(b_nan)?;
        let only_a = f.and(a_nan, b_number)?;
        first = f.or(first, only_a)?;
        let both = f.and(a_nan, b_nan)?;
        same = f.or(same, both)?;
    }
    let earlier = f.compare(i, j, Direction::Lt)?;
    let tie = f.and(same, earlier)?;
    let keep = f.or(first, tie)?;
    Ok(vec![f.select(keep, a, b)?, f.select(keep, i, j)?])
}

/// Where the scan starts: below every value, after every place.
pub(super) fn start(cx: &mut Cx<'_, '_>, element: ElementType) -> Result<[Value; 2]> {
    Ok([
        cx.full(&[], element, lowest(element))?,
        cx.full(&[], ElementType::S32, i64::from(i32::MAX))?,
    ])
}

/// The window that a pooling op's arguments describe over planes, its upper padding as the output's size wants it.
pub(super) fn pool_window(cx: &Cx<'_, '_>, n: usize, input: &[i64], output: &[i64]) -> Result<Window> {
    let kernel = window_list(cx, "kernel_size", n, || vec![1; n])?;
    let stride = window_list(cx, "stride", n, || kernel.clone())?;
    let padding = window_list(cx, "padding", n, || vec![0; n])?;
    let dilation = window_list(cx, "dilation", n, || vec![1; n])?;
    let mut window = Window::new(&[&[1], &kernel[..]].concat());
    for d in 0..n {
        let reach = (kernel[d] - 1) * dilation[d] + 1;
        let high = (output[d + 1] - 1) * stride[d] + reach - input[d + 1] - padding[d];
        window.strides[d + 1] = stride[d];
        window.window_dilations[d + 1] = dilation[d];
        window.padding[d + 1] = [padding[d], high];
    }
    Ok(window)
}

/// Cuts what negative padding would cut, so that the window's own padding is never negative.
pub(super) fn cut(cx: &mut Cx<'_, '_>, x: Value, window: &mut Window) -> Result<Value> {
    let mut x = x;
    for d in 0..window.padding.len() {
        let high = window.padding[d][1];
        if high < 0 {
            let size = cx.dims(x)?[d];
            x = super::util::slice_dim(cx, x, d, 0, size + high)?;
            window.padding[d][1] = 0;
        }
    }
    Ok(x)
}

fn max_pool(cx: &mut Cx<'_, '_>, n: usize) -> Lowered {
    let x = cx.tensor("self")?;
    let out = &cx.out(0)?.dims;
    let element = cx.element(x)?;
    if out.contains(&0) {
        let (values, indices) = (cx.full(out, element, 0)?, cx.full(out, ElementType::S64, 0)?);
        return Ok((values, indices).into());
    }
    let sizes = planes(&cx.dims(x)?, n);
    let x = cx.reshape(x, &sizes)?;
    let index = places(cx, &sizes)?;
    let mut window = pool_window(cx, n, &sizes, &planes(out, n))?;
    let x = cut(cx, x, &mut window.clone())?;
    let index = cut(cx, index, &mut window)?;
    let start = start(cx, element)?;
    let float = element.is_float();
    let r = cx.f.reduce_window(&[x, index], &start, &window, |f, e| {
        better(f, &[e[0], e[1], e[2], e[3]], float)
    })?;
    finish(cx, r[0], r[1])
}

/// Values and indices in the sizes and types that torch wants.
fn finish(cx: &mut Cx<'_, '_>, values: Value, indices: Value) -> Lowered {
    let out = &cx.out(0)?.dims;
    let indices = cx.cast(indices, ElementType::S64)?;
    Ok((cx.reshape(values, out)?, cx.reshape(indices, out)?).into())
}

fn max_pool2d_with_indices(cx: &mut Cx<'_, '_>) -> Lowered {
    max_pool(cx, 2)
}

fn max_pool3d_with_indices(cx: &mut Cx<'_, '_>) -> Lowered {
    max_pool(cx, 3)
}

/// The gradient goes where the indices say, to the sum of all windows that chose a place.
pub(super) fn by_indices(cx: &mut Cx<'_, '_>, n: usize) -> Lowered {
    let (g, x, indices) = (
        cx.tensor("grad_output")?,
        cx.tensor("self")?,
        cx.tensor("indices")?,
    );
    let sizes = cx.dims(x)?;
    let flat = planes(&sizes, n);
    let (rows, plane) = (flat[0], flat[1..].iter().product::<i64>());
    let count: i64 = planes(&cx.dims(g)?, n)[1..].iter().product();
    let g = cx.up(g)?;
    let (g, indices) = (
        cx.reshape(g, &[rows, count])?,
        cx.reshape(indices, &[rows, count])?,
    );
    let grad = add_flat(cx, plane, indices, g)?;
    Ok(cx.reshape(grad, &sizes)?.into())
}

fn max_pool_backward(cx: &mut Cx<'_, '_>, n: usize) -> Lowered {
    let (g, x) = (cx.tensor("grad_output")?, cx.tensor("self")?);
    let (sizes, g_sizes) = (cx.dims(x)?, cx.dims(g)?);
    let dilation = window_list(cx, "dilation", n, || vec![1; n])?;
    // The TPU's compiler chooses no doubles again.
    let scattered = cx.element(x)? == ElementType::F64 || dilation.iter().any(|d| *d != 1);
    if scattered || sizes.contains(&0) || g_sizes.contains(&0) {
        return by_indices(cx, n);
    }
    // Chosen again rather than scattered to the indices: a TPU does this fast, a scatter slowly.
    let flat = planes(&sizes, n);
    let g_flat = planes(&g_sizes, n);
    let mut window = pool_window(cx, n, &flat, &g_flat)?;
    let (x, g) = (cx.up(x)?, cx.up(g)?);
    let (x, g) = (cx.reshape(x, &flat)?, cx.reshape(g, &g_flat)?);
    let x = cut(cx, x, &mut window)?;
    let seen = cx.dims(x)?;
    let element = cx.element(x)?;
    let zero = cx.full(&[], element, 0)?;
    let grad = cx.f.select_and_scatter(
        x,
        g,
        zero,
        &window,
        |f, e| {
            let greater = f.compare(e[0], e[1], Direction::Ge)?;
            let nan = f.compare(e[0], e[0], Direction::Ne)?;
            Ok(vec![f.or(greater, nan)?])
        },
        |f, e| Ok(vec![f.add(e[0], e[1])?]),
    )?;
    let mut grad = grad;
    for d in 1..=n {
        grad = pad_dim(cx, grad, d, 0, flat[d] - seen[d])?;
    }
    Ok(cx.reshape(grad, &sizes)?.into())
}

fn max_pool2d_with_indices_backward(cx: &mut Cx<'_, '_>) -> Lowered {
    max_pool_backward(cx, 2)
}

fn max_pool3d_with_indices_backward(cx: &mut Cx<'_, '_>) -> Lowered {
    max_pool_backward(cx, 3)
}

/// The input ranges of adaptive pooling: output `o` covers `floor(o * I / O) .. ceil((o + 1) * I / O)`.
pub(super) fn adaptive_ranges(input: i64, output: i64) -> Vec<(i64, i64)> {
    let ceil = |a: i64| (a + output - 1).div_euclid(output);
    (0..output)
        .map(|o| (o * input / output, ceil((o + 1) * input)))
        .collect()
}

fn adaptive_max_pool(cx: &mut Cx<'_, '_>, n: usize) -> Lowered {
    let x = cx.tensor("self")?;
    let out = &cx.out(0)?.dims;
    let element = cx.element(x)?;
    let sizes = planes(&cx.dims(x)?, n);
    let target = planes(out, n);
    if out.contains(&0) || sizes.contains(&0) {
        let (values, indices) = (cx.full(out, element, 0)?, cx.full(out, ElementType::S64, 0)?);
        return Ok((values, indices).into());
    }
    let x = cx.reshape(x, &sizes)?;
    let index = places(cx, &sizes)?;
    let (mut x, mut index) = (x, index);
    for d in 0..n {
        // Each dimension done so far has become two.
        let at = 1 + 2 * d;
        let ranges = adaptive_ranges(sizes[d + 1], target[d + 1]);
        x = take_ranges(cx, x, at, &ranges, lowest(element))?;
        index = take_ranges(
            cx,
            index,
            at,
            &ranges,
            stablehlo::Number::Int(i128::from(i32::MAX)),
        )?;
    }
    let start = start(cx, element)?;
    let dims: Vec<i64> = (0..n as i64).map(|d| 2 + 2 * d).collect();
    let float = element.is_float();
    let r =
        cx.f.reduce(&[x, index], &start, &dims, |f, e| better(f, e, float))?;
    finish(cx, r[0], r[1])
}

fn adaptive_max_pool2d(cx: &mut Cx<'_, '_>) -> Lowered {
    adaptive_max_pool(cx, 2)
}

fn adaptive_max_pool3d(cx: &mut Cx<'_, '_>) -> Lowered {
    adaptive_max_pool(cx, 3)
}

fn adaptive_max_pool2d_backward(cx: &mut Cx<'_, '_>) -> Lowered {
    by_indices(cx, 2)
}

fn adaptive_max_pool3d_backward(cx: &mut Cx<'_, '_>) -> Lowered {
    by_indices(cx, 3)
}

fn max_unpool(cx: &mut Cx<'_, '_>, n: usize) -> Lowered {
    let (x, indices) = (cx.tensor("self")?, cx.tensor("indices")?);
    let out = &cx.out(0)?.dims;
    let (from, to) = (planes(&cx.dims(x)?, n), planes(out, n));
    let (count, plane) = (from[1..].iter().product::<i64>(), to[1..].iter().product::<i64>());
    if from.contains(&0) || plane == 0 {
        let element = cx.element(x)?;
        return Ok(cx.full(out, element, 0)?.into());
    }
    let text = format!(
        "Found an invalid max index: {{}} (output volumes are of size {}",
        to[1..].iter().map(i64::to_string).collect::<Vec<_>>().join("x")
    );
    check_range(cx, indices, plane, None, &text, ErrorKind::Runtime)?;
    let (x, indices) = (
        cx.reshape(x, &[from[0], count])?,
        cx.reshape(indices, &[from[0], count])?,
    );
    let y = set_flat(cx, plane, indices, x)?;
    Ok(cx.reshape(y, out)?.into())
}

fn max_unpool2d(cx: &mut Cx<'_, '_>) -> Lowered {
    max_unpool(cx, 2)
}

fn max_unpool3d(cx: &mut Cx<'_, '_>) -> Lowered {
    max_unpool(cx, 3)
}

pub(crate) const OPS: &[OpDef] = &[
    OpDef::new("max_pool2d_with_indices", max_pool2d_with_indices),
    OpDef::new("max_pool3d_with_indices", max_pool3d_with_indices),
    OpDef::new(
        "max_pool2d_with_indices_backward",
        max_pool2d_with_indices_backward,
    ),
    OpDef::new(
        "max_pool3d_with_indices_backward",
        max_pool3d_with_indices_backward,
    ),
    OpDef::new("adaptive_max_pool2d", adaptive_max_pool2d),
    OpDef::new("adaptive_max_pool3d", adaptive_max_pool3d),
    OpDef::new("adaptive_max_pool2d_backward", adaptive_max_pool2d_backward),
    OpDef::new("adaptive_max_pool3d_backward", adaptive_max_pool3d_backward),
    OpDef::new("max_unpool2d", max_unpool2d).amend(crate::layout::channels_last_as_self),
    OpDef::new("max_unpool3d", max_unpool3d),
];
