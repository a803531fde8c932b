//! Gradients of activations.

use super::activation::{GELU_TANH, halves, lambd};
use super::ex::{ex, select};
use super::util::{like, number, up};
use crate::{Cx, Lowered, OpDef, Result};
use stablehlo::Value;

/// The gradient that arrives and what it is of.
fn grad_and(cx: &mut Cx<'_, '_>, name: &str) -> Result<(Value, Value)> {
    Ok((up(cx, "grad_output")?, up(cx, name)?))
}

fn gelu_backward(cx: &mut Cx<'_, '_>) -> Lowered {
    let (g, x) = grad_and(cx, "self")?;
    if cx.str("approximate")? == Some("tanh") {
        let (root, cubic) = GELU_TANH;
        let t = (root * (ex(x) + cubic * (ex(x) * x * x))).tanh().eval(cx)?;
        let slope = root * (1.0 + 3.0 * cubic * (ex(x) * x));
        let left = 0.5 * (1.0 + ex(t));
        let right = 0.5 * ex(x) * (1.0 - ex(t) * t) * slope;
        return Ok((ex(g) * (left + right)).eval(cx)?.into());
    }
    let cdf = 0.5 * (1.0 + (ex(x) * std::f64::consts::FRAC_1_SQRT_2).erf());
    let density = 0.5 * std::f64::consts::FRAC_2_SQRT_PI * std::f64::consts::FRAC_1_SQRT_2;
    let pdf = density * (ex(x) * x * -0.5).exp();
    Ok((ex(g) * (cdf + ex(x) * pdf)).eval(cx)?.into())
}

fn silu_backward(cx: &mut Cx<'_, '_>) -> Lowered {
    let (g, x) = grad_and(cx, "self")?;
    let s = ex(x).sigmoid().eval(cx)?;
    Ok((ex(g) * s * (1.0 + ex(x) * (1.0 - ex(s)))).eval(cx)?.into())
}

fn mish_backward(cx: &mut Cx<'_, '_>) -> Lowered {
    let (g, x) = grad_and(cx, "self")?;
    let s = ex(x).sigmoid().eval(cx)?;
    let t = ex(x).exp().ln_1p().tanh().eval(cx)?;
    Ok((ex(g) * (ex(t) + ex(x) * s * (1.0 - ex(t) * t))).eval(cx)?.into())
}

fn elu_backward(cx: &mut Cx<'_, '_>) -> Lowered {
    let (g, x) = grad_and(cx, "self_or_result")?;
    let alpha = number(cx, "alpha", x)?;
    let scale = number(cx, "scale", x)?;
    let input_scale = number(cx, "input_scale", x)?;
    let negative = if cx.bool("is_result")? {
        ex(g) * input_scale * (ex(x) + ex(alpha) * scale)
    } else {
        ex(g) * input_scale * alpha * scale * (ex(x) * input_scale).exp()
    };
    Ok(select(ex(x).le(0.0), negative, ex(g) * scale).eval(cx)?.into())
}

fn leaky_relu_backward(cx: &mut Cx<'_, '_>) -> Lowered {
    let (g, x) = grad_and(cx, "self")?;
    let slope = number(cx, "negative_slope", x)?;
    Ok(select(ex(x).gt(0.0), g, ex(g) * slope).eval(cx)?.into())
}

fn hardtanh_backward(cx: &mut Cx<'_, '_>) -> Lowered {
    let (g, x) = grad_and(cx, "self")?;
    let (low, high) = (number(cx, "min_val", x)?, number(cx, "max_val", x)?);
    let flat = ex(x).le(low).or(ex(x).ge(high));
    Ok(select(flat, 0.0, g).eval(cx)?.into())
}

fn hardswish_backward(cx: &mut Cx<'_, '_>) -> Lowered {
    let (g, x) = grad_and(cx, "self")?;
    let middle = select(ex(x).lt(3.0), ex(g) * (ex(x) / 3.0 + 0.5), g);
    Ok(select(ex(x).le(-3.0), 0.0, middle).eval(cx)?.into())
}

fn hardsigmoid_backward(cx: &mut Cx<'_, '_>) -> Lowered {
    let (g, x) = grad_and(cx, "self")?;
    let inside = ex(x).gt(-3.0).and(ex(x).lt(3.0));
    Ok(select(inside, ex(g) / 6.0, 0.0).eval(cx)?.into())
}

fn softplus_backward(cx: &mut Cx<'_, '_>) -> Lowered {
    let (g, x) = grad_and(cx, "self")?;
    let (beta, threshold) = (number(cx, "beta", x)?, number(cx, "threshold", x)?);
    let scaled = (ex(x) * beta).eval(cx)?;
    Ok(select(ex(scaled).gt(threshold), g, ex(g) * ex(scaled).sigmoid())
        .eval(cx)?
        .into())
}

fn softshrink_backward(cx: &mut Cx<'_, '_>) -> Lowered {
    let (g, x) = grad_and(cx, "self")?;
    shrink_grad(cx, g, x)
}

fn hardshrink_backward(cx: &mut Cx<'_, '_>) -> Lowered {
    let (g, x) = (up(cx, "grad_out")?, up(cx, "self")?);
    shrink_grad(cx, g, x)
}

fn shrink_grad(cx: &mut Cx<'_, '_>, g: Value, x: Value) -> Lowered {
    let lambd = lambd(cx)?;
    let inside = ex(x).ge(-ex(lambd)).and(ex(x).le(lambd));
    Ok(select(inside, 0.0, g).eval(cx)?.into())
}

fn threshold_backward(cx: &mut Cx<'_, '_>) -> Lowered {
    let (g, x) = (cx.tensor("grad_output")?, cx.tensor("self")?);
    let (g, x) = cx.broadcast_pair(g, x)?;
    let threshold = number(cx, "threshold", x)?;
    Ok(select(ex(x).le(threshold), 0.0, g).eval(cx)?.into())
}

fn log_sigmoid_backward(cx: &mut Cx<'_, '_>) -> Lowered {
    let (g, x) = grad_and(cx, "self")?;
    // sigmoid(-x), from the exponential that cannot overflow.
    let z = (-ex(x).abs()).exp().eval(cx)?;
    let tail = (ex(z) / (1.0 + ex(z))).eval(cx)?;
    Ok(select(ex(x).lt(0.0), ex(g) * (1.0 - ex(tail)), ex(g) * tail)
        .eval(cx)?
        .into())
}

fn glu_backward(cx: &mut Cx<'_, '_>) -> Lowered {
    let (g, x) = grad_and(cx, "self")?;
    let (a, b, dim) = halves(cx, x)?;
    let s = ex(b).sigmoid().eval(cx)?;
    let da = (ex(g) * s).eval(cx)?;
    let db = (ex(g) * a * s * (1.0 - ex(s))).eval(cx)?;
    Ok(cx.f.concatenate(&[da, db], dim as i64)?.into())
}

/// The tangent of a `glu` whose argument moves by `dx`.
fn glu_jvp(cx: &mut Cx<'_, '_>) -> Lowered {
    let (y, x, dx) = (up(cx, "glu")?, up(cx, "x")?, up(cx, "dx")?);
    let ((_, b, _), (da, db, _)) = (halves(cx, x)?, halves(cx, dx)?);
    let s = ex(b).sigmoid().eval(cx)?;
    Ok((ex(da) * s + ex(y) * (1.0 - ex(s)) * db).eval(cx)?.into())
}

/// The tangent of its gradient, whose argument moves by `dx` and whose incoming gradient moves by `dgrad_glu`.
fn glu_backward_jvp(cx: &mut Cx<'_, '_>) -> Lowered {
    let (g, dg) = (up(cx, "grad_glu")?, up(cx, "dgrad_glu")?);
    let (x, dx) = (up(cx, "x")?, up(cx, "dx")?);
    let ((a, b, dim), (da, db, _)) = (halves(cx, x)?, halves(cx, dx)?);
    let s = ex(b).sigmoid().eval(cx)?;
    let slope = (ex(s) * (1.0 - ex(s))).eval(cx)?;
    let first = (ex(dg) * s + ex(g) * slope * db).eval(cx)?;
    let moved = ex(dg) * a + ex(g) * da + ex(g) * a * (1.0 - 2.0 * ex(s)) * db;
    let second = (ex(slope) * moved).eval(cx)?;
    Ok(cx.f.concatenate(&[first, second], dim as i64)?.into())
}

fn prelu_kernel_backward(cx: &mut Cx<'_, '_>) -> Lowered {
    let (g, x) = grad_and(cx, "self")?;
    let w = up(cx, "weight")?;
    let positive = ex(x).gt(0.0).eval(cx)?;
    let dx = select(positive, g, ex(g) * w).eval(cx)?;
    let dw = select(positive, 0.0, ex(g) * x).eval(cx)?;
    Ok((dx, dw).into())
}

fn rrelu_with_noise_backward(cx: &mut Cx<'_, '_>) -> Lowered {
    let (g, x) = grad_and(cx, "self")?;
    let (lower, upper) = (number(cx, "lower", x)?, number(cx, "upper", x)?);
    let slope = ((ex(lower) + upper) / 2.0).eval(cx)?;
    let eval = select(ex(x).gt(0.0), g, ex(g) * slope).eval(cx)?;
    if !cx.bool("training")? {
        return Ok(eval.into());
    }
    let noise = up(cx, "noise")?;
    let train = (ex(g) * noise).eval(cx)?;
    // Limits this close count as equal, so that the noise need not be kept.
    let far = (ex(upper) - lower).gt(1e-6);
    let dims = cx.dims(x)?;
    let far = far.eval(cx)?;
    let far = cx.broadcast_to(far, &dims)?;
    Ok(select(far, train, eval).eval(cx)?.into())
}

/// The conjugate of a complex value, any other value itself.
fn conj(cx: &mut Cx<'_, '_>, v: Value) -> Result<Value> {
    Ok(if cx.element(v)?.is_complex() {
        cx.f.chlo_conj(v)?
    } else {
        v
    })
}

fn sigmoid_backward(cx: &mut Cx<'_, '_>) -> Lowered {
    let (g, y) = grad_and(cx, "output")?;
    let slope = ((1.0 - ex(y)) * y).eval(cx)?;
    let slope = conj(cx, slope)?;
    Ok((ex(g) * slope).eval(cx)?.into())
}

fn tanh_backward(cx: &mut Cx<'_, '_>) -> Lowered {
    let (g, y) = grad_and(cx, "output")?;
    let slope = (1.0 - ex(y) * y).eval(cx)?;
    let slope = conj(cx, slope)?;
    Ok((ex(g) * slope).eval(cx)?.into())
}

fn logit_backward(cx: &mut Cx<'_, '_>) -> Lowered {
    let (g, x) = grad_and(cx, "self")?;
    let inner = (ex(g) / (ex(x) * (1.0 - ex(x)))).eval(cx)?;
    let element = cx.element(x)?;
    let (low, outside) = match cx.opt_scalar("eps", element)? {
        Some(eps) => (eps, 0.0),
        None => (cx.full(&[], element, 0)?, f64::NAN),
    };
    let out = ex(x).lt(low).or(ex(x).gt(1.0 - ex(low)));
    Ok(select(out, outside, inner).eval(cx)?.into())
}

pub(crate) const OPS: &[OpDef] = &[
    OpDef::new("gelu_backward", gelu_backward),
    OpDef::new("silu_backward", silu_backward),
    OpDef::new("mish_backward", mish_backward),
    OpDef::new("elu_backward", elu_backward),
    OpDef::new("leaky_relu_backward", leaky_relu_backward),
    OpDef::new("hardtanh_backward", hardtanh_backward),
    OpDef::new("hardswish_backward", hardswish_backward),
    OpDef::new("hardsigmoid_backward", hardsigmoid_backward),
    OpDef::new("softplus_backward", softplus_backward),
    OpDef::new("softshrink_backward", softshrink_backward),
    OpDef::new("hardshrink_backward", hardshrink_backward),
    OpDef::new("threshold_backward", threshold_backward),
    OpDef::new("log_sigmoid_backward", log_sigmoid_backward),
    OpDef::new("glu_backward", glu_backward).amend(crate::layout::in_order),
    OpDef::new("glu_jvp", glu_jvp).shape(|call| like(call, "glu")),
    OpDef::new("glu_backward_jvp", glu_backward_jvp).shape(|call| like(call, "x")),
    OpDef::new("_prelu_kernel_backward", prelu_kernel_backward),
    OpDef::new("rrelu_with_noise_backward", rrelu_with_noise_backward),
    OpDef::new("sigmoid_backward", sigmoid_backward),
    OpDef::new("tanh_backward", tanh_backward),
    OpDef::new("logit_backward", logit_backward),
];
