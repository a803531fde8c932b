//! Activations, one formula each. Gradients are in `activation_grad.rs`.

use stablehlo::Value;

use super::ex::{ex, select};
use super::util::{number, slice_dim, up};
use crate::{Cx, ElementType, Lowered, OpDef, Result};

/// `sqrt(2 / pi)`, and the cubic term of the tanh approximation of gelu.
pub(super) const GELU_TANH: (f64, f64) = (
    std::f64::consts::FRAC_2_SQRT_PI * std::f64::consts::FRAC_1_SQRT_2,
    0.044715,
);

/// `x * Phi(x)`.
pub(super) fn gelu_exact(cx: &mut Cx<'_, '_>, x: Value) -> Result<Value> {
    (ex(x) * 0.5 * (1.0 + (ex(x) * std::f64::consts::FRAC_1_SQRT_2).erf())).eval(cx)
}

fn relu(cx: &mut Cx<'_, '_>) -> Lowered {
    let x = cx.tensor("self")?;
    Ok(ex(x).max(0.0).eval(cx)?.into())
}

fn gelu(cx: &mut Cx<'_, '_>) -> Lowered {
    let x = up(cx, "self")?;
    Ok(if cx.str("approximate")? == Some("tanh") {
        let (root, cubic) = GELU_TANH;
        let inner = root * (ex(x) + cubic * (ex(x) * x * x));
        (0.5 * ex(x) * (1.0 + inner.tanh())).eval(cx)?
    } else {
        gelu_exact(cx, x)?
    }
    .into())
}

fn silu(cx: &mut Cx<'_, '_>) -> Lowered {
    let x = up(cx, "self")?;
    Ok((ex(x) * ex(x).sigmoid()).eval(cx)?.into())
}

fn mish(cx: &mut Cx<'_, '_>) -> Lowered {
    let x = up(cx, "self")?;
    Ok((ex(x) * ex(x).exp().ln_1p().tanh()).eval(cx)?.into())
}

fn elu(cx: &mut Cx<'_, '_>) -> Lowered {
    let x = up(cx, "self")?;
    let alpha = number(cx, "alpha", x)?;
    let scale = number(cx, "scale", x)?;
    let input_scale = number(cx, "input_scale", x)?;
    let below = ex(alpha) * scale * (ex(x) * input_scale).expm1();
    Ok(select(ex(x).lt(0.0), below, ex(x) * scale).eval(cx)?.into())
}

fn celu(cx: &mut Cx<'_, '_>) -> Lowered {
    let x = up(cx, "self")?;
    let alpha = number(cx, "alpha", x)?;
    let below = ex(alpha) * (ex(x) / alpha).expm1();
    Ok(select(ex(x).lt(0.0), below, x).eval(cx)?.into())
}

fn leaky_relu(cx: &mut Cx<'_, '_>) -> Lowered {
    let x = up(cx, "self")?;
    let slope = number(cx, "negative_slope", x)?;
    Ok(select(ex(x).gt(0.0), x, ex(x) * slope).eval(cx)?.into())
}

fn hardtanh(cx: &mut Cx<'_, '_>) -> Lowered {
    let x = cx.tensor("self")?;
    let (low, high) = (number(cx, "min_val", x)?, number(cx, "max_val", x)?);
    Ok(ex(x).max(low).min(high).eval(cx)?.into())
}

fn hardswish(cx: &mut Cx<'_, '_>) -> Lowered {
    let x = up(cx, "self")?;
    let gate = (ex(x) + 3.0).max(0.0).min(6.0);
    Ok((ex(x) * gate / 6.0).eval(cx)?.into())
}

fn hardsigmoid(cx: &mut Cx<'_, '_>) -> Lowered {
    let x = up(cx, "self")?;
    Ok(((ex(x) + 3.0).max(0.0).min(6.0) / 6.0).eval(cx)?.into())
}

fn softplus(cx: &mut Cx<'_, '_>) -> Lowered {
    let x = up(cx, "self")?;
    let (beta, threshold) = (number(cx, "beta", x)?, number(cx, "threshold", x)?);
    let scaled = (ex(x) * beta).eval(cx)?;
    Ok(
        select(ex(scaled).gt(threshold), x, ex(scaled).exp().ln_1p() / beta)
            .eval(cx)?
            .into(),
    )
}

/// The threshold of a shrinking op: torch rounds it to the type of the input before it computes in a wider one.
pub(super) fn lambd(cx: &mut Cx<'_, '_>) -> Result<Value> {
    let x = cx.tensor("self")?;
    let rounded = number(cx, "lambd", x)?;
    cx.up(rounded)
}

fn softshrink(cx: &mut Cx<'_, '_>) -> Lowered {
    let (x, lambd) = (up(cx, "self")?, lambd(cx)?);
    // What is in between is multiplied by zero so that NaN stays.
    let middle = select(ex(x).lt(-ex(lambd)), ex(x) + lambd, ex(x) * 0.0);
    Ok(select(ex(x).gt(lambd), ex(x) - lambd, middle).eval(cx)?.into())
}

fn hardshrink(cx: &mut Cx<'_, '_>) -> Lowered {
    let (x, lambd) = (up(cx, "self")?, lambd(cx)?);
    let inside = ex(x).ge(-ex(lambd)).and(ex(x).le(lambd));
    Ok(select(inside, 0.0, x).eval(cx)?.into())
}

fn threshold(cx: &mut Cx<'_, '_>) -> Lowered {
    let x = cx.tensor("self")?;
    let (threshold, value) = (number(cx, "threshold", x)?, number(cx, "value", x)?);
    Ok(select(ex(x).le(threshold), value, x).eval(cx)?.into())
}

fn log_sigmoid_forward(cx: &mut Cx<'_, '_>) -> Lowered {
    let x = up(cx, "self")?;
    let buffer = (-ex(x).abs()).exp().eval(cx)?;
    let y = (ex(x).min(0.0) - ex(buffer).ln_1p()).eval(cx)?;
    let wanted = match cx.out(1) {
        Ok(out) if out.dims != cx.dims(buffer)? => cx.full(&out.dims, ElementType::F32, 0)?,
        _ => buffer,
    };
    Ok((y, wanted).into())
}

/// The two halves of a tensor along `dim`.
pub(super) fn halves(cx: &mut Cx<'_, '_>, x: Value) -> Result<(Value, Value, usize)> {
    let dims = cx.dims(x)?;
    let dim = cx.dim("dim", dims.len())? as usize;
    let half = dims[dim] / 2;
    Ok((
        slice_dim(cx, x, dim, 0, half)?,
        slice_dim(cx, x, dim, half, 2 * half)?,
        dim,
    ))
}

fn glu(cx: &mut Cx<'_, '_>) -> Lowered {
    let x = up(cx, "self")?;
    let (a, b, _) = halves(cx, x)?;
    Ok((ex(a) * ex(b).sigmoid()).eval(cx)?.into())
}

fn prelu_kernel(cx: &mut Cx<'_, '_>) -> Lowered {
    let (x, w) = (up(cx, "self")?, up(cx, "weight")?);
    Ok(select(ex(x).gt(0.0), x, ex(x) * w).eval(cx)?.into())
}

/// `rrelu_with_noise` writes the slopes it drew to `noise`; in evaluation the slope is the mean of the limits.
fn rrelu_with_noise(cx: &mut Cx<'_, '_>) -> Lowered {
    let x = up(cx, "self")?;
    let (dims, element) = (cx.dims(x)?, cx.element(x)?);
    let (lower, upper) = (number(cx, "lower", x)?, number(cx, "upper", x)?);
    if !cx.bool("training")? {
        let slope = (ex(lower) + upper) / 2.0;
        let y = select(ex(x).gt(0.0), x, ex(x) * slope).eval(cx)?;
        let noise = cx.tensor("noise")?;
        return Ok((y, noise).into());
    }
    let u = super::dropout::uniform(cx, &dims, element)?;
    let drawn = (ex(lower) + ex(u) * (ex(upper) - lower)).eval(cx)?;
    let negative = ex(x).le(0.0).eval(cx)?;
    let noise = select(negative, drawn, 1.0).eval(cx)?;
    let y = select(negative, ex(x) * drawn, x).eval(cx)?;
    Ok((y, noise).into())
}

pub(crate) const OPS: &[OpDef] = &[
    OpDef::new("relu", relu),
    OpDef::new("gelu", gelu),
    OpDef::new("silu", silu),
    OpDef::new("mish", mish),
    OpDef::new("elu", elu),
    OpDef::new("celu", celu),
    OpDef::new("leaky_relu", leaky_relu),
    OpDef::new("hardtanh", hardtanh),
    OpDef::new("hardswish", hardswish),
    OpDef::new("hardsigmoid", hardsigmoid),
    OpDef::new("softplus", softplus),
    OpDef::new("softshrink", softshrink),
    OpDef::new("hardshrink", hardshrink),
    OpDef::new("threshold", threshold),
    OpDef::new("log_sigmoid_forward", log_sigmoid_forward),
    OpDef::new("glu", glu),
    OpDef::new("_prelu_kernel", prelu_kernel),
    OpDef::new("rrelu_with_noise", rrelu_with_noise).random(),
    OpDef::new("rrelu_with_noise_functional", rrelu_with_noise).random(),
];
