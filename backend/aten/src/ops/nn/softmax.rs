//! Softmax, its logarithm, and their gradients.

use stablehlo::Value;

use super::ex::{ex, select};
use super::util::{like, max_keep, sum_keep, up};
use crate::{Cx, ElementType, KnownSoftmax, KnownSoftmaxGradient, Lowered, OpDef, Result};

/// What a softmax is made of.
struct Parts {
    max: Value,
    /// `x - max`.
    shifted: Value,
    /// Its exponential.
    exp: Value,
    /// The sum of that.
    total: Value,
}

/// The parts of a softmax along a dimension; rank 0 counts as one element.
fn parts(cx: &mut Cx<'_, '_>, x: Value, dims: &[i64]) -> Result<Parts> {
    let max = max_keep(cx, x, dims)?;
    let shifted = (ex(x) - max).eval(cx)?;
    let exp = ex(shifted).exp().eval(cx)?;
    let total = sum_keep(cx, exp, dims)?;
    Ok(Parts {
        max,
        shifted,
        exp,
        total,
    })
}

/// Softmax along dimensions.
pub(super) fn softmax_of(cx: &mut Cx<'_, '_>, x: Value, dims: &[i64]) -> Result<Value> {
    let parts = parts(cx, x, dims)?;
    (ex(parts.exp) / parts.total).eval(cx)
}

/// Has later ops of the program know what `of` was made of.
fn leave(cx: &mut Cx<'_, '_>, of: Value, dims: &[i64], log: bool, input: Value, parts: &Parts) {
    let [dim] = dims else { return };
    cx.produced.facts.softmaxes.push(KnownSoftmax {
        of,
        dim: *dim,
        log,
        input,
        max: parts.max,
        exp: parts.exp,
        total: parts.total,
    });
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
    let parts = parts(cx, x, &dims)?;
    let y = (ex(parts.exp) / parts.total).eval(cx)?;
    leave(cx, y, &dims, false, x, &parts);
    Ok(y.into())
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
    let parts = parts(cx, x, &dims)?;
    let y = (ex(parts.shifted) - ex(parts.total).ln()).eval(cx)?;
    leave(cx, y, &dims, true, x, &parts);
    Ok(y.into())
}

fn softmax_backward_data(cx: &mut Cx<'_, '_>) -> Lowered {
    let (g, y) = (up(cx, "grad_output")?, up(cx, "output")?);
    let dims = dim_list(cx, y)?;
    if let Some(known) = cx.known_softmax(y, &dims, false) {
        // The exponentials are what is kept then: what is divided by their sum is the gradient, which is new anyway.
        let each = (ex(g) / known.total).eval(cx)?;
        let products = (ex(each) * known.exp).eval(cx)?;
        let sum = sum_keep(cx, products, &dims)?;
        return Ok(((ex(each) - ex(sum) / known.total) * known.exp).eval(cx)?.into());
    }
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
    if let Some(known) = cx.known_softmax(y, &dims, true) {
        // Shorter by a subtraction an element, and nothing needs the logarithms.
        let share = (ex(total) / known.total).eval(cx)?;
        let result = (ex(g) - ex(known.exp) * share).eval(cx)?;
        cx.produced.facts.softmax_gradients.push(KnownSoftmaxGradient {
            of: result,
            input: known.input,
            max: known.max,
            share,
            gradient: g,
        });
        return Ok(result.into());
    }
    Ok((ex(g) - ex(y).exp() * total).eval(cx)?.into())
}

/// A rounded gradient of a softmax's logarithm once more, for one use of it alone; other values as they are.
///
/// The gradient of a language model's logits goes into two products. A TPU recomputes it in each while it waits for memory,
/// if nobody else has it: the whole is as large as the logits, and would be written and read for nothing else.
pub(super) fn once_more(cx: &mut Cx<'_, '_>, v: Value) -> Result<Value> {
    let element = cx.element(v)?;
    let wide = cx.f.operand_of("stablehlo.convert", v);
    let known = wide.and_then(|wide| cx.known_softmax_gradient(wide));
    let narrow = known.and_then(|known| cx.f.operand_of("stablehlo.convert", known.input));
    let (Some(known), Some(narrow)) = (known, narrow) else {
        return Ok(v);
    };
    let before = cx.use_alone(known.of);
    if before == 0 {
        return Ok(v);
    }
    // The compiler would find the same computation, or the same barrier.
    let number = cx.full(&[], ElementType::S32, before as i64)?;
    let narrow = cx.f.optimization_barrier(&[narrow, number])?;
    let input = cx.cast(narrow[0], cx.element(known.input)?)?;
    let exp = (ex(input) - known.max).exp();
    let again = (ex(known.gradient) - exp * known.share).eval(cx)?;
    cx.cast(again, element)
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
