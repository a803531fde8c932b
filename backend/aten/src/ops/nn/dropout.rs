//! native_dropout and its gradient, uniform numbers.

use stablehlo::Value;

use super::ex::{ex, select};
use super::util::up;
use crate::{Cx, ElementType, Lowered, OpDef, Result};

/// Uniform in [0, 1): 24 random bits for single precision, 53 for double.
pub(super) fn uniform(cx: &mut Cx<'_, '_>, dims: &[i64], element: ElementType) -> Result<Value> {
    let (bits, shift) = match element {
        ElementType::F64 => (ElementType::U64, 11),
        _ => (ElementType::U32, 8),
    };
    let drawn = cx.random_bits(dims, bits)?;
    let shift_by = cx.full_like(drawn, shift)?;
    let whole = cx.f.shift_right_logical(drawn, shift_by)?;
    let whole = cx.f.convert(whole, element)?;
    let unit = f64::exp2(f64::from(shift) - f64::from(bits.bits()));
    (ex(whole) * unit).eval(cx)
}

fn native_dropout(cx: &mut Cx<'_, '_>) -> Lowered {
    let x = up(cx, "input")?;
    let dims = cx.dims(x)?;
    if cx.has("train") && !cx.bool("train")? {
        let mask = cx.full(&dims, ElementType::Pred, true)?;
        return Ok((x, mask).into());
    }
    let p = cx.scalar("p", ElementType::F32)?;
    let keep = (1.0 - ex(p)).eval(cx)?;
    let u = uniform(cx, &dims, ElementType::F32)?;
    let mask = ex(u).lt(keep).eval(cx)?;
    let scale = select(ex(keep).eq(0.0), 0.0, 1.0 / ex(keep)).eval(cx)?;
    let element = cx.element(x)?;
    let y = (ex(x) * ex(mask).cast(element) * ex(scale).cast(element)).eval(cx)?;
    Ok((y, mask).into())
}

fn native_dropout_backward(cx: &mut Cx<'_, '_>) -> Lowered {
    let g = up(cx, "grad_output")?;
    // Of bools it is a float.
    let element = crate::compute_type(cx.out(0)?.element);
    let g = cx.cast(g, element)?;
    let (mask, scale) = (cx.tensor("mask")?, cx.scalar("scale", element)?);
    Ok((ex(g) * ex(mask).cast(element) * scale).eval(cx)?.into())
}

pub(crate) const OPS: &[OpDef] = &[
    OpDef::new("native_dropout", native_dropout).random(),
    OpDef::new("native_dropout_backward", native_dropout_backward),
];
