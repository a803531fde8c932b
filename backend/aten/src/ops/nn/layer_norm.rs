//! Layer, group and RMS normalization with their gradients.

use stablehlo::Value;

use super::ex::ex;
use super::util::{count, masked, mean_keep, number, opt_as, sum, sum_keep, up};
use crate::{Cx, ElementType, Lowered, OpDef, Result};

/// Mean and reciprocal standard deviation over dimensions, which stay with size 1.
fn moments(cx: &mut Cx<'_, '_>, x: Value, dims: &[i64]) -> Result<(Value, Value)> {
    let mean = mean_keep(cx, x, dims)?;
    let centered = (ex(x) - mean).eval(cx)?;
    let square = (ex(centered) * centered).eval(cx)?;
    let variance = mean_keep(cx, square, dims)?;
    let eps = number(cx, "eps", x)?;
    let rstd = (ex(variance) + eps).rsqrt().eval(cx)?;
    Ok((mean, rstd))
}

/// The last dimensions, as many as `normalized_shape` has, and those before.
fn split(cx: &Cx<'_, '_>, rank: usize) -> Result<(Vec<i64>, Vec<i64>)> {
    let first = (rank - cx.ints("normalized_shape")?.len().min(rank)) as i64;
    Ok(((first..rank as i64).collect(), (0..first).collect()))
}

fn native_layer_norm(cx: &mut Cx<'_, '_>) -> Lowered {
    let x = up(cx, "input")?;
    let (inner, _) = split(cx, cx.rank(x)?)?;
    let element = cx.element(x)?;
    let (mean, rstd) = moments(cx, x, &inner)?;
    let mut y = ex((ex(x) - mean).eval(cx)?) * rstd;
    if let Some(weight) = opt_as(cx, "weight", element)? {
        y = y * weight;
    }
    if let Some(bias) = opt_as(cx, "bias", element)? {
        y = y + bias;
    }
    Ok((y.eval(cx)?, mean, rstd).into())
}

/// The gradient of `(x - mean) * rstd` over `dims`, given that of the result.
fn normalized_grad(cx: &mut Cx<'_, '_>, g: Value, normal: Value, rstd: Value, dims: &[i64]) -> Result<Value> {
    let along = (ex(g) * normal).eval(cx)?;
    let (mean, along) = (mean_keep(cx, g, dims)?, mean_keep(cx, along, dims)?);
    ((ex(g) - mean - ex(normal) * along) * rstd).eval(cx)
}

/// Sums over the leading dimensions, in the sizes of `normalized_shape`.
fn parameter_grad(cx: &mut Cx<'_, '_>, v: Value, outer: &[i64]) -> Result<Value> {
    let v = sum(cx, v, outer)?;
    let shape = cx.ints("normalized_shape")?;
    cx.reshape(v, &shape)
}

fn native_layer_norm_backward(cx: &mut Cx<'_, '_>) -> Lowered {
    let mask = cx.bools("output_mask")?;
    let (g, x) = (up(cx, "grad_out")?, up(cx, "input")?);
    let (mean, rstd) = (up(cx, "mean")?, up(cx, "rstd")?);
    let element = cx.element(x)?;
    let (inner, outer) = split(cx, cx.rank(x)?)?;
    let normal = ((ex(x) - mean) * rstd).eval(cx)?;
    let weighted = match opt_as(cx, "weight", element)? {
        Some(w) => (ex(g) * w).eval(cx)?,
        None => g,
    };
    let dx = normalized_grad(cx, weighted, normal, rstd, &inner)?;
    let dw = (ex(g) * normal).eval(cx)?;
    let dw = parameter_grad(cx, dw, &outer)?;
    let db = parameter_grad(cx, g, &outer)?;
    Ok(masked(&mask, [Some(dx), Some(dw), Some(db)]))
}

/// N, groups, channels of a group, places.
fn groups(cx: &Cx<'_, '_>) -> Result<[i64; 4]> {
    let (n, c, places, group) = (cx.int("N")?, cx.int("C")?, cx.int("HxW")?, cx.int("group")?);
    Ok([n, group, c / group.max(1), places])
}

/// A parameter of each channel, to be multiplied with a value of sizes [`groups`].
fn channel(cx: &mut Cx<'_, '_>, name: &str, shape: [i64; 4], element: ElementType) -> Result<Option<Value>> {
    match opt_as(cx, name, element)? {
        Some(v) => Ok(Some(cx.reshape(v, &[1, shape[1], shape[2], 1])?)),
        None => Ok(None),
    }
}

fn native_group_norm(cx: &mut Cx<'_, '_>) -> Lowered {
    let x = up(cx, "input")?;
    let (sizes, element) = (cx.dims(x)?, cx.element(x)?);
    let shape = groups(cx)?;
    let x = cx.reshape(x, &shape)?;
    let (mean, rstd) = moments(cx, x, &[2, 3])?;
    let mut y = (ex(x) - mean) * rstd;
    if let Some(weight) = channel(cx, "weight", shape, element)? {
        y = y * weight;
    }
    if let Some(bias) = channel(cx, "bias", shape, element)? {
        y = y + bias;
    }
    let y = y.eval(cx)?;
    let small = [shape[0], shape[1]];
    Ok((
        cx.reshape(y, &sizes)?,
        cx.reshape(mean, &small)?,
        cx.reshape(rstd, &small)?,
    )
        .into())
}

fn native_group_norm_backward(cx: &mut Cx<'_, '_>) -> Lowered {
    let mask = cx.bools("output_mask")?;
    let (g, x) = (up(cx, "grad_out")?, up(cx, "input")?);
    let (mean, rstd) = (up(cx, "mean")?, up(cx, "rstd")?);
    let (sizes, element) = (cx.dims(x)?, cx.element(x)?);
    let shape = groups(cx)?;
    let small = [shape[0], shape[1], 1, 1];
    let (g, x) = (cx.reshape(g, &shape)?, cx.reshape(x, &shape)?);
    let (mean, rstd) = (cx.reshape(mean, &small)?, cx.reshape(rstd, &small)?);
    let normal = ((ex(x) - mean) * rstd).eval(cx)?;
    let weighted = match channel(cx, "weight", shape, element)? {
        Some(w) => (ex(g) * w).eval(cx)?,
        None => g,
    };
    let dx = normalized_grad(cx, weighted, normal, rstd, &[2, 3])?;
    let dx = cx.reshape(dx, &sizes)?;
    let dw = (ex(g) * normal).eval(cx)?;
    let channels = [count(&shape, &[1, 2])];
    let (dw, db) = (sum(cx, dw, &[0, 3])?, sum(cx, g, &[0, 3])?);
    let (dw, db) = (cx.reshape(dw, &channels)?, cx.reshape(db, &channels)?);
    Ok(masked(&mask, [Some(dx), Some(dw), Some(db)]))
}

fn fused_rms_norm(cx: &mut Cx<'_, '_>) -> Lowered {
    let x = up(cx, "input")?;
    let element = cx.element(x)?;
    let (inner, _) = split(cx, cx.rank(x)?)?;
    let square = (ex(x) * x).eval(cx)?;
    let mean = mean_keep(cx, square, &inner)?;
    let eps = match cx.opt_scalar("eps", element)? {
        Some(eps) => eps,
        // torch takes the input's own type here.
        None => {
            let eps = match cx.meta("input")?.element {
                ElementType::F64 => f64::EPSILON,
                ElementType::F16 => f64::exp2(-10.0),
                ElementType::BF16 => f64::exp2(-7.0),
                _ => f64::from(f32::EPSILON),
            };
            cx.full(&[], element, eps)?
        }
    };
    let rstd = (ex(mean) + eps).rsqrt().eval(cx)?;
    let mut y = ex(x) * rstd;
    if let Some(weight) = opt_as(cx, "weight", element)? {
        y = y * weight;
    }
    Ok((y.eval(cx)?, rstd).into())
}

fn fused_rms_norm_backward(cx: &mut Cx<'_, '_>) -> Lowered {
    let mask = cx.bools("output_mask")?;
    let (g, x, rstd) = (up(cx, "grad_out")?, up(cx, "input")?, up(cx, "rstd")?);
    let element = cx.element(x)?;
    let (inner, outer) = split(cx, cx.rank(x)?)?;
    let normal = (ex(x) * rstd).eval(cx)?;
    let weighted = match opt_as(cx, "weight", element)? {
        Some(w) => (ex(g) * w).eval(cx)?,
        None => g,
    };
    let n = count(&cx.dims(x)?, &inner) as f64;
    let along = (ex(weighted) * normal).eval(cx)?;
    let along = sum_keep(cx, along, &inner)?;
    let dx = ((ex(weighted) - ex(normal) * (ex(along) / n)) * rstd).eval(cx)?;
    let dw = (ex(g) * normal).eval(cx)?;
    let dw = parameter_grad(cx, dw, &outer)?;
    Ok(masked(&mask, [Some(dx), Some(dw)]))
}

pub(crate) const OPS: &[OpDef] = &[
    OpDef::new("native_layer_norm", native_layer_norm),
    OpDef::new("native_layer_norm_backward", native_layer_norm_backward),
    OpDef::new("native_group_norm", native_group_norm),
    OpDef::new("native_group_norm_backward", native_group_norm_backward),
    OpDef::new("_fused_rms_norm", fused_rms_norm),
    OpDef::new("_fused_rms_norm_backward", fused_rms_norm_backward),
];
