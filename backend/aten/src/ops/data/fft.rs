//! _fft_r2c, _fft_c2r, _fft_c2c.

use stablehlo::Value;
use stablehlo::ops::FftType;

use super::dft;
use super::util::{count, move_dim, slice_dim, zeros};
use crate::cx::wrap_dim;
use crate::layout::{Made, lies};
use crate::{Arg, Call, Cx, ElementType, Lowered, OpDef, Result};

/// One dimension, transformed; `size` is that of the real side.
fn transform(cx: &mut Cx<'_, '_>, v: Value, dim: usize, kind: FftType, size: i64) -> Result<Value> {
    let last = cx.rank(v)? - 1;
    let v = move_dim(cx, v, dim, last)?;
    let v = if cx.element(v)?.real() == ElementType::F64 {
        dft::transform(cx, v, kind, size)?
    } else {
        cx.f.fft(v, kind, &[size])?
    };
    move_dim(cx, v, last, dim)
}

/// Times a real number.
pub(super) fn scaled(cx: &mut Cx<'_, '_>, v: Value, by: f64) -> Result<Value> {
    if by == 1.0 {
        return Ok(v);
    }
    let by = cx.full_like(v, by)?;
    Ok(cx.f.multiply(v, by)?)
}

/// What a sum over `n` points is multiplied by.
fn norm(cx: &Cx<'_, '_>, n: i64) -> Result<f64> {
    let n = n as f64;
    Ok(match cx.int("normalization")? {
        1 => 1.0 / n.sqrt(),
        2 => 1.0 / n,
        _ => 1.0,
    })
}

fn dims_of(cx: &Cx<'_, '_>, rank: usize) -> Result<Vec<usize>> {
    let dims = cx.ints("dim")?;
    Ok(dims.iter().map(|d| wrap_dim(*d, rank) as usize).collect())
}

fn _fft_r2c(cx: &mut Cx<'_, '_>) -> Lowered {
    let out = cx.out(0)?;
    let part = out.element.real();
    let v = cx.operand("self", part)?;
    let sizes = cx.dims(v)?;
    let dims = dims_of(cx, sizes.len())?;
    if count(&out.dims) == 0 {
        return Ok(zeros(cx, &out.dims, out.element)?.into());
    }
    let n = dims.iter().map(|d| sizes[*d]).product();
    let by = norm(cx, n)?;
    let Some((&last, others)) = dims.split_last() else {
        return Ok(cx.cast(v, out.element)?.into());
    };
    let mut v = if cx.bool("onesided")? {
        transform(cx, v, last, FftType::Rfft, sizes[last])?
    } else {
        let v = cx.cast(v, out.element)?;
        transform(cx, v, last, FftType::Fft, sizes[last])?
    };
    for &dim in others {
        v = transform(cx, v, dim, FftType::Fft, sizes[dim])?;
    }
    Ok(scaled(cx, v, by)?.into())
}

/// As MKL leaves its output: what is not transformed varies slowest, then what is, each by the input's strides, and last
/// the halved dimension, or the one made whole again.
fn transformed_last(call: &Call, strides: &[&[i64]], made: &mut [Option<Made>]) {
    let (Some((sizes, strides)), Some(Arg::Ints(dims))) = (lies(call, strides, "self"), call.arg("dim"))
    else {
        return;
    };
    let Some(Some(first)) = made.first_mut() else {
        return;
    };
    let rank = sizes.len();
    let dims: Vec<usize> = dims.iter().map(|d| wrap_dim(*d, rank) as usize).collect();
    let Some((&last, others)) = dims.split_last() else {
        return;
    };
    let by_stride = |mut list: Vec<usize>| {
        list.sort_by_key(|d| std::cmp::Reverse(strides.get(*d).copied().unwrap_or(0)));
        list
    };
    let batch = (0..rank).filter(|d| !dims.contains(d)).collect();
    let order = [by_stride(batch), by_stride(others.to_vec()), vec![last]].concat();
    first.lay(&order);
}

fn _fft_c2c(cx: &mut Cx<'_, '_>) -> Lowered {
    let out = cx.out(0)?;
    let mut v = cx.tensor("self")?;
    let sizes = cx.dims(v)?;
    if count(&out.dims) == 0 {
        return Ok(zeros(cx, &out.dims, out.element)?.into());
    }
    let dims = dims_of(cx, sizes.len())?;
    let forward = cx.bool("forward")?;
    let n: i64 = dims.iter().map(|d| sizes[*d]).product();
    // The inverse divides by the number of points by itself.
    let (kind, factor) = if forward {
        (FftType::Fft, 1.0)
    } else {
        (FftType::Ifft, n as f64)
    };
    let by = norm(cx, n)? * factor;
    for dim in dims {
        v = transform(cx, v, dim, kind, sizes[dim])?;
    }
    Ok(scaled(cx, v, by)?.into())
}

fn _fft_c2r(cx: &mut Cx<'_, '_>) -> Lowered {
    let out = cx.out(0)?;
    let mut v = cx.tensor("self")?;
    let sizes = cx.dims(v)?;
    if count(&out.dims) == 0 || count(&sizes) == 0 {
        return Ok(zeros(cx, &out.dims, out.element)?.into());
    }
    let dims = dims_of(cx, sizes.len())?;
    let size = cx.int("last_dim_size")?;
    let Some((&last, others)) = dims.split_last() else {
        return Ok(cx.cast(v, out.element)?.into());
    };
    let n: i64 = others.iter().map(|d| sizes[*d]).product::<i64>() * size;
    let by = norm(cx, n)? * n as f64;
    for &dim in others {
        v = transform(cx, v, dim, FftType::Ifft, sizes[dim])?;
    }
    let half = size / 2 + 1;
    v = if sizes[last] >= half {
        slice_dim(cx, v, last, 0, half, 1)?
    } else {
        let mut high = vec![0; sizes.len()];
        high[last] = half - sizes[last];
        let element: ElementType = cx.element(v)?;
        let fill = super::util::zero(cx, element)?;
        let none = vec![0; sizes.len()];
        cx.f.pad(v, fill, &none, &high, &none)?
    };
    let v = transform(cx, v, last, FftType::Irfft, size)?;
    Ok(scaled(cx, v, by)?.into())
}

pub(crate) const OPS: &[OpDef] = &[
    OpDef::new("_fft_r2c", _fft_r2c).amend(transformed_last),
    OpDef::new("_fft_c2c", _fft_c2c),
    OpDef::new("_fft_c2r", _fft_c2r).amend(transformed_last),
];
