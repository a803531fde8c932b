//! Softmax, its logarithm, and their gradients.

use stablehlo::Value;

use super::ex::{ex, select};
use super::util::{like, max_keep, sum_keep, up};
use crate::{Cx, Lowered, OpDef, Result};

/// `x - max(x)` and the sum of its exponentials along a dimension; rank 0 counts as one element.
fn shifted(cx: &mut Cx<'_, '_>, x: Value, dims: &[i64]) -> Result<(Value, Value)> {
    let max = max_keep(cx, x, dims)?;
    let shifted = (ex(x) - max).eval(cx)?;
    let exp = ex(shifted).exp().eval(cx)?;
    let total = sum_keep(cx, exp, dims)?;
    Ok((shifted, total))
}

/// Softmax along dimensions.
pub(super) fn softmax_of(cx: &mut Cx<'_, '_>, x: Value, dims: &[i64]) -> Result<Value> {
    let (shifted, total) = shifted(cx, x, dims)?;
    (ex(shifted).exp() / total).eval(cx)
}

/// The dimension argument as a list, empty for rank 0.
fn dim_list(cx: &Cx<'_, '_>, v: Value) -> Result<Vec<i64>> {
    let rank = cx.rank(v)?;
    Ok(if rank == 0 {
        Vec::new()
    } else {
        vec![cx.dim("dim", rank)?]
    })
}

fn softmax(cx: &mut Cx<'_, '_>) -> Lowered {
    let x = up(cx, "self")?;
    let dims = dim_list(cx, x)?;
    Ok(softmax_of(cx, x, &dims)?.into())
}

/// Softmax, but zero where everything is minus infinity.
fn safe_softmax(cx: &mut Cx<'_, '_>) -> Lowered {
    let x = up(cx, "self")?;
    let dims = dim_list(cx, x)?;
    Ok(safe_softmax_of(cx, x, &dims)?.into())
}

/// [`softmax_of`], but zero where everything is minus infinity.
pub(super) fn safe_softmax_of(cx: &mut Cx<'_, '_>, x: Value, dims: &[i64]) -> Result<Value> {
    let max = max_keep(cx, x, dims)?;
    let y = softmax_of(cx, x, dims)?;
    let nothing = ex(max).eq(f64::NEG_INFINITY).eval(cx)?;
    let sizes = cx.dims(x)?;
    let nothing = cx.broadcast_to(nothing, &sizes)?;
    select(nothing, 0.0, y).eval(cx)
}

fn log_softmax(cx: &mut Cx<'_, '_>) -> Lowered {
    let x = up(cx, "self")?;
    let dims = dim_list(cx, x)?;
    let (shifted, total) = shifted(cx, x, &dims)?;
    Ok((ex(shifted) - ex(total).ln()).eval(cx)?.into())
}

fn softmax_backward_data(cx: &mut Cx<'_, '_>) -> Lowered {
    let (g, y) = (up(cx, "grad_output")?, up(cx, "output")?);
    let dims = dim_list(cx, y)?;
    let gy = (ex(g) * y).eval(cx)?;
    let total = sum_keep(cx, gy, &dims)?;
    Ok((ex(gy) - ex(y) * total).eval(cx)?.into())
}

fn log_softmax_backward_data(cx: &mut Cx<'_, '_>) -> Lowered {
    let (g, y) = (up(cx, "grad_output")?, up(cx, "output")?);
    let dims = dim_list(cx, y)?;
    let total = match cx.known_sum(g, &dims) {
        Some(known) => known,
        None => sum_keep(cx, g, &dims)?,
    };
    Ok((ex(g) - ex(y).exp() * total).eval(cx)?.into())
}

fn masked_softmax_backward(cx: &mut Cx<'_, '_>) -> Lowered {
    let (g, y) = (up(cx, "grad_output")?, up(cx, "output")?);
    let rank = cx.rank(y)?;
    let dim = match cx.opt_int("dim")? {
        Some(_) => cx.dim("dim", rank)?,
        None => rank as i64 - 1,
    };
    let mask = cx.tensor("mask")?;
    let gy = (ex(g) * y).eval(cx)?;
    let total = sum_keep(cx, gy, &[dim])?;
    Ok(select(mask, 0.0, ex(gy) - ex(y) * total).eval(cx)?.into())
}

pub(crate) const OPS: &[OpDef] = &[
    OpDef::new("_softmax", softmax),
    OpDef::new("_safe_softmax", safe_softmax),
    OpDef::new("_log_softmax", log_softmax),
    OpDef::new("_softmax_backward_data", softmax_backward_data),
    OpDef::new("_log_softmax_backward_data", log_softmax_backward_data),
    OpDef::new("_masked_softmax_backward", masked_softmax_backward).shape(|call| like(call, "output")),
];
