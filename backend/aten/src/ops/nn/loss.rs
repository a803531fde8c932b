//! Losses that compare element by element, with gradients.

use stablehlo::Value;

use super::ex::{Ex, ex, select};
use super::util::{all_dims, count, loss_grad, number, opt_as, reduced};
use crate::loops::any;
use crate::{Cx, ElementType, ErrorKind, Lowered, OpDef, Result, promote};

/// Input and target in the type to compute in, at the same sizes.
fn pair(cx: &mut Cx<'_, '_>) -> Result<(Value, Value)> {
    let (x, t) = (cx.tensor("self")?, cx.tensor("target")?);
    let element = crate::compute_type(promote(cx.element(x)?, cx.element(t)?));
    let (x, t) = (cx.cast(x, element)?, cx.cast(t, element)?);
    cx.broadcast_pair(x, t)
}

/// Input, target and the gradient that reaches each element.
fn backward(cx: &mut Cx<'_, '_>) -> Result<(Value, Value, Value)> {
    let (x, t) = pair(cx)?;
    let n = count(&cx.dims(x)?, &all_dims(cx, x)?);
    let element = cx.element(x)?;
    Ok((x, t, loss_grad(cx, element, n)?))
}

fn finish(cx: &mut Cx<'_, '_>, loss: Ex) -> Lowered {
    let loss = loss.eval(cx)?;
    reduced(cx, loss)
}

fn mse_loss(cx: &mut Cx<'_, '_>) -> Lowered {
    let (x, t) = pair(cx)?;
    let d = (ex(x) - t).eval(cx)?;
    finish(cx, ex(d) * d)
}

fn mse_loss_backward(cx: &mut Cx<'_, '_>) -> Lowered {
    let (x, t, g) = backward(cx)?;
    Ok((2.0 * (ex(x) - t) * g).eval(cx)?.into())
}

fn smooth_l1_loss(cx: &mut Cx<'_, '_>) -> Lowered {
    let (x, t) = pair(cx)?;
    let beta = number(cx, "beta", x)?;
    let z = (ex(x) - t).abs().eval(cx)?;
    finish(
        cx,
        select(ex(z).lt(beta), 0.5 * ex(z) * z / beta, ex(z) - ex(beta) * 0.5),
    )
}

/// `inside` where the difference is within the limit, else `outside` with the difference's sign.
fn clipped(cx: &mut Cx<'_, '_>, d: Value, limit: Value, inside: Ex, outside: Value) -> Lowered {
    let above = select(ex(d).ge(limit), outside, inside);
    Ok(select(ex(d).le(-ex(limit)), -ex(outside), above).eval(cx)?.into())
}

fn smooth_l1_loss_backward(cx: &mut Cx<'_, '_>) -> Lowered {
    let (x, t, g) = backward(cx)?;
    let beta = number(cx, "beta", x)?;
    let d = (ex(x) - t).eval(cx)?;
    let dims = cx.dims(d)?;
    let g = cx.broadcast_to(g, &dims)?;
    clipped(cx, d, beta, ex(d) * g / beta, g)
}

fn huber_loss(cx: &mut Cx<'_, '_>) -> Lowered {
    let (x, t) = pair(cx)?;
    let delta = number(cx, "delta", x)?;
    let z = (ex(x) - t).abs().eval(cx)?;
    finish(
        cx,
        select(
            ex(z).lt(delta),
            0.5 * ex(z) * z,
            ex(delta) * (ex(z) - ex(delta) * 0.5),
        ),
    )
}

fn huber_loss_backward(cx: &mut Cx<'_, '_>) -> Lowered {
    let (x, t, g) = backward(cx)?;
    let delta = number(cx, "delta", x)?;
    let d = (ex(x) - t).eval(cx)?;
    let dims = cx.dims(d)?;
    let g = cx.broadcast_to(g, &dims)?;
    let outside = (ex(g) * delta).eval(cx)?;
    clipped(cx, d, delta, ex(d) * g, outside)
}

/// Times the weight, when there is one.
fn weighted(cx: &mut Cx<'_, '_>, v: Ex, element: ElementType) -> Result<Ex> {
    Ok(match opt_as(cx, "weight", element)? {
        Some(w) => v * w,
        None => v,
    })
}

fn binary_cross_entropy(cx: &mut Cx<'_, '_>) -> Lowered {
    let (x, t) = pair(cx)?;
    let outside = ex(x).ge(0.0).and(ex(x).le(1.0)).not().eval(cx)?;
    let any = any(cx.f, outside)?;
    let ok = cx.f.not(any)?;
    let shown = cx.full(&[], ElementType::S64, 0)?;
    cx.check(
        ok,
        shown,
        ErrorKind::Runtime,
        "all elements of input should be between 0 and 1",
    );
    // torch limits the logarithms, so that a wrong certainty costs 100.
    let no = (ex(t) - 1.0) * (-ex(x)).ln_1p().max(-100.0);
    let yes = ex(t) * ex(x).ln().max(-100.0);
    let element = cx.element(x)?;
    let loss = weighted(cx, no - yes, element)?;
    finish(cx, loss)
}

fn binary_cross_entropy_backward(cx: &mut Cx<'_, '_>) -> Lowered {
    let (x, t, g) = backward(cx)?;
    let spread = ((1.0 - ex(x)) * x).max(1e-12);
    let element = cx.element(x)?;
    Ok(weighted(cx, ex(g) * (ex(x) - t) / spread, element)?
        .eval(cx)?
        .into())
}

fn binary_cross_entropy_with_logits(cx: &mut Cx<'_, '_>) -> Lowered {
    let (x, t) = pair(cx)?;
    let element = cx.element(x)?;
    let softplus = ((-ex(x).abs()).exp().ln_1p() + (-ex(x)).max(0.0)).eval(cx)?;
    let mut loss = (1.0 - ex(t)) * x;
    loss = match opt_as(cx, "pos_weight", element)? {
        Some(w) => loss + (1.0 + (ex(w) - 1.0) * t) * softplus,
        None => loss + softplus,
    };
    let loss = weighted(cx, loss, element)?;
    finish(cx, loss)
}

fn soft_margin_loss(cx: &mut Cx<'_, '_>) -> Lowered {
    let (x, t) = pair(cx)?;
    let e = (-ex(t) * x).exp().eval(cx)?;
    // Torch keeps the exponential in the type of the arguments, where in half precision it may be infinite.
    let narrow = cx.meta("self")?.element;
    let e = cx.rounded(e, narrow)?;
    finish(cx, ex(e).ln_1p())
}

fn soft_margin_loss_backward(cx: &mut Cx<'_, '_>) -> Lowered {
    let (x, t, g) = backward(cx)?;
    let z = (-ex(t) * x).exp().eval(cx)?;
    Ok((-ex(g) * t * z / (ex(z) + 1.0)).eval(cx)?.into())
}

pub(crate) const OPS: &[OpDef] = &[
    OpDef::new("mse_loss", mse_loss),
    OpDef::new("mse_loss_backward", mse_loss_backward).amend(crate::layout::in_order),
    OpDef::new("smooth_l1_loss", smooth_l1_loss),
    OpDef::new("smooth_l1_loss_backward", smooth_l1_loss_backward).amend(crate::layout::in_order),
    OpDef::new("huber_loss", huber_loss),
    OpDef::new("huber_loss_backward", huber_loss_backward).amend(crate::layout::in_order),
    OpDef::new("binary_cross_entropy", binary_cross_entropy),
    OpDef::new("binary_cross_entropy_backward", binary_cross_entropy_backward),
    OpDef::new(
        "binary_cross_entropy_with_logits",
        binary_cross_entropy_with_logits,
    ),
    OpDef::new("soft_margin_loss", soft_margin_loss),
    OpDef::new("soft_margin_loss_backward", soft_margin_loss_backward),
];
