//! Fractional maximum pooling: windows at places that random numbers choose.

use stablehlo::Value;
use stablehlo::ops::GatherDimensions;

use super::pool_max::{better, by_indices, planes, start};
use super::util::{like, window_list};
use crate::{Cx, ElementType, Lowered, OpDef, Result};

/// Where windows start, for each row of random numbers: `int((i + u) α) - int(u α)`, and the last one at the end.
fn starts(
    cx: &mut Cx<'_, '_>,
    samples: Value,
    (input, output, kernel): (i64, i64, i64),
    narrow: ElementType,
) -> Result<Value> {
    let (rows, element) = (cx.dims(samples)?[0], cx.element(samples)?);

    let last = cx.full(&[rows, 1], ElementType::S32, input - kernel)?;
    if output == 1 {
        return Ok(last);
    }
    let inner = [rows, output - 1];
    let (above, below) = (
        cx.full(&[], element, (input - kernel) as f64)?,
        cx.full(&[], element, (output - 1) as f64)?,
    );
    let alpha = cx.f.divide(above, below)?;
    let alpha = cx.rounded(alpha, narrow)?;
    let alpha = cx.broadcast_to(alpha, &inner)?;
    let u = cx.f.broadcast_in_dim(samples, &inner, &[0])?;
    let place = cx.f.iota(&inner, element, 1)?;
    let whole = |cx: &mut Cx<'_, '_>, v: Value| -> Result<Value> {
        let v = cx.f.multiply(v, alpha)?;
        let v = cx.rounded(v, narrow)?;
        Ok(cx.f.convert(v, ElementType::S32)?)
    };
    let moved = cx.f.add(place, u)?;
    let moved = cx.rounded(moved, narrow)?;
    let (at, from) = (whole(cx, moved)?, whole(cx, u)?);
    let at = cx.f.subtract(at, from)?;
    Ok(cx.f.concatenate(&[at, last], 1)?)
}

fn fractional_max_pool(cx: &mut Cx<'_, '_>, n: usize) -> Lowered {
    let x = cx.tensor("self")?;
    let samples = cx.tensor("random_samples")?;
    let element = cx.element(x)?;
    let out = &cx.out(0)?.dims;
    if out.contains(&0) {
        let (values, indices) = (cx.full(out, element, 0)?, cx.full(out, ElementType::S64, 0)?);
        return Ok((values, indices).into());
    }
    let sizes = planes(&cx.dims(x)?, n);
    let target = planes(out, n);
    let kernel = window_list(cx, "kernel_size", n, || vec![1; n])?;
    let rows = sizes[0];
    let narrow = cx.element(samples)?;
    let samples = cx.up(samples)?;
    // There may be some for more samples than the input has: one without a batch takes the first.
    let all: i64 = cx.dims(samples)?.iter().product();
    let samples = cx.reshape(samples, &[all / n as i64, n as i64])?;
    let samples = cx.f.slice(samples, &[0, 0], &[rows, n as i64], &[1, 1])?;
    // Rows, then for each dimension its outputs and the places of a window.
    let mut cube = vec![rows];
    for d in 0..n {
        cube.extend([target[d + 1], kernel[d]]);
    }
    let mut index = cx.full(&cube, ElementType::S32, 0)?;
    for d in 0..n {
        // In two dimensions the first number is for the width.
        let which = if n == 2 { n - 1 - d } else { d } as i64;
        let u = cx.f.slice(samples, &[0, which], &[rows, which + 1], &[1, 1])?;
        let u = cx.reshape(u, &[rows])?;
        let start = starts(cx, u, (sizes[d + 1], target[d + 1], kernel[d]), narrow)?;
        let at = 1 + 2 * d as i64;
        let start = cx.f.broadcast_in_dim(start, cube.as_slice(), &[0, at])?;
        let step = cx.f.iota(cube.as_slice(), ElementType::S32, at + 1)?;
        let place = cx.f.add(start, step)?;
        let width = cx.full_like(index, sizes[d + 1])?;
        index = cx.f.multiply(index, width)?;
        index = cx.f.add(index, place)?;
    }
    let flat: i64 = sizes[1..].iter().product();
    let x = cx.reshape(x, &[rows, flat])?;
    let rank = cube.len() as i64;
    let many: i64 = cube[1..].iter().product();
    let list = cx.reshape(index, &[rows, many])?;
    let numbers = GatherDimensions {
        collapsed_slice_dims: vec![1],
        operand_batching_dims: vec![0],
        start_indices_batching_dims: vec![0],
        start_index_map: vec![1],
        index_vector_dim: 2,
        ..GatherDimensions::default()
    };
    let values = cx.f.gather(x, list, &numbers, &[1, 1], false)?;
    let values = cx.reshape(values, &cube)?;
    let start = start(cx, element)?;
    let dims: Vec<i64> = (2..rank).step_by(2).collect();
    let float = element.is_float();
    let r =
        cx.f.reduce(&[values, index], &start, &dims, |f, e| better(f, e, float))?;
    let indices = cx.cast(r[1], ElementType::S64)?;
    Ok((cx.reshape(r[0], out)?, cx.reshape(indices, out)?).into())
}

pub(crate) const OPS: &[OpDef] = &[
    OpDef::new("fractional_max_pool2d", |cx| fractional_max_pool(cx, 2)),
    OpDef::new("fractional_max_pool3d", |cx| fractional_max_pool(cx, 3)),
    OpDef::new("fractional_max_pool2d_backward", |cx| by_indices(cx, 2)),
    OpDef::new("fractional_max_pool3d_backward", |cx| by_indices(cx, 3)).shape(|call| like(call, "self")),
];
