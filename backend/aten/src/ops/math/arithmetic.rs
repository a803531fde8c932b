//! add, sub, rsub, mul: elementwise arithmetic with torch's promotion.

use stablehlo::Value;

use crate::{Cx, ElementType, Lowered, OpDef, Result, compute_type};

/// Both operands in the type that CPU kernels compute in, broadcast to the result's sizes.
pub(crate) fn operands(cx: &mut Cx<'_, '_>, names: [&str; 2]) -> Result<(Value, Value)> {
    let out = cx.out(0)?;
    let compute = compute_type(out.element);
    let (a, b) = (cx.operand(names[0], compute)?, cx.operand(names[1], compute)?);
    Ok((cx.broadcast_to(a, &out.dims)?, cx.broadcast_to(b, &out.dims)?))
}

/// `v * alpha`, unless alpha is absent.
fn times_alpha(cx: &mut Cx<'_, '_>, v: Value) -> Result<Value> {
    let element = cx.element(v)?;
    match cx.opt_scalar("alpha", element)? {
        None => Ok(v),
        Some(alpha) => {
            let dims = cx.dims(v)?;
            let alpha = cx.broadcast_to(alpha, &dims)?;
            multiply(cx, v, alpha)
        }
    }
}

/// `and` for booleans, else the product.
fn multiply(cx: &mut Cx<'_, '_>, a: Value, b: Value) -> Result<Value> {
    Ok(if cx.element(a)? == ElementType::Pred {
        cx.f.and(a, b)?
    } else {
        cx.f.multiply(a, b)?
    })
}

fn add(cx: &mut Cx<'_, '_>) -> Lowered {
    let (a, b) = operands(cx, ["self", "other"])?;
    let b = times_alpha(cx, b)?;
    Ok(if cx.element(a)? == ElementType::Pred {
        cx.f.or(a, b)?
    } else {
        cx.f.add(a, b)?
    }
    .into())
}

fn sub(cx: &mut Cx<'_, '_>) -> Lowered {
    let (a, b) = operands(cx, ["self", "other"])?;
    let b = times_alpha(cx, b)?;
    Ok(cx.f.subtract(a, b)?.into())
}

fn rsub(cx: &mut Cx<'_, '_>) -> Lowered {
    let (a, b) = operands(cx, ["self", "other"])?;
    let a = times_alpha(cx, a)?;
    Ok(cx.f.subtract(b, a)?.into())
}

fn mul(cx: &mut Cx<'_, '_>) -> Lowered {
    let (a, b) = operands(cx, ["self", "other"])?;
    Ok(multiply(cx, a, b)?.into())
}

pub(crate) const OPS: &[OpDef] = &[
    OpDef::new("add", add),
    OpDef::new("sub", sub),
    OpDef::new("rsub", rsub),
    OpDef::new("mul", mul),
];
