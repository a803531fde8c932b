//! add, sub, mul and their kin: elementwise arithmetic with torch's promotion.

use dtype::Class;
use stablehlo::Value;

use super::common::{Binary, binary, by_way_of, common_type, operand_type, operands, result_type, unary};
use crate::{Arg, Cx, ElementType, Lowered, OpDef, Result, compute_type};

/// `or` for booleans, else the sum.
pub(crate) fn plus(cx: &mut Cx<'_, '_>, a: Value, b: Value) -> Result<Value> {
    Ok(if cx.element(a)? == ElementType::Pred {
        cx.f.or(a, b)?
    } else {
        cx.f.add(a, b)?
    })
}

/// The difference; booleans have none.
pub(crate) fn minus(cx: &mut Cx<'_, '_>, a: Value, b: Value) -> Result<Value> {
    Ok(cx.f.subtract(a, b)?)
}

/// `and` for booleans, else the product.
pub(crate) fn multiply(cx: &mut Cx<'_, '_>, a: Value, b: Value) -> Result<Value> {
    Ok(if cx.element(a)? == ElementType::Pred {
        cx.f.and(a, b)?
    } else {
        cx.f.multiply(a, b)?
    })
}

/// The quotient of floats.
pub(crate) fn divide(cx: &mut Cx<'_, '_>, a: Value, b: Value) -> Result<Value> {
    Ok(cx.f.divide(a, b)?)
}

/// The negative.
pub(crate) fn negate(cx: &mut Cx<'_, '_>, v: Value) -> Result<Value> {
    Ok(cx.f.negate(v)?)
}

/// The magnitude; of unsigned numbers and booleans themselves.
pub(crate) fn magnitude(cx: &mut Cx<'_, '_>, v: Value) -> Result<Value> {
    match cx.element(v)?.class() {
        Class::Boolean | Class::Unsigned => Ok(v),
        _ => Ok(cx.f.abs(v)?),
    }
}

/// `start + weight * (end - start)`, from the nearer end, as torch does for accuracy. The weight of an argument of that name
/// that is a number tells which end that is.
pub(crate) fn interpolate(cx: &mut Cx<'_, '_>, start: Value, end: Value, weight: Value) -> Result<Value> {
    let distance = cx.f.subtract(end, start)?;
    match cx.scalar_ref("weight").and_then(|number| number.small) {
        Some(true) => {
            let step = cx.f.multiply(weight, distance)?;
            return Ok(cx.f.add(start, step)?);
        }
        Some(false) => {
            let one = cx.full_like(weight, 1)?;
            let rest = cx.f.subtract(one, weight)?;
            let step = cx.f.multiply(distance, rest)?;
            return Ok(cx.f.subtract(end, step)?);
        }
        None => {}
    }
    let size = cx.f.abs(weight)?;
    let near = super::common::compare_to(cx, size, stablehlo::ops::Direction::Lt, 0.5)?;
    let step = cx.f.multiply(weight, distance)?;
    let from_start = cx.f.add(start, step)?;
    let one = cx.full_like(weight, 1)?;
    let rest = cx.f.subtract(one, weight)?;
    let step = cx.f.multiply(distance, rest)?;
    let from_end = cx.f.subtract(end, step)?;
    Ok(cx.f.select(near, from_start, from_end)?)
}

/// `self` and `other` of a sum, the one called `scaled` times alpha, and the type of the sum.
///
/// torch rounds the numbers among them to the type of the result before it computes in a wider type; those of products
/// it does not.
fn summands(cx: &mut Cx<'_, '_>, scaled: usize) -> Result<([Value; 2], ElementType)> {
    let result = result_type(cx, &["self", "other"])?;
    let element = compute_type(result);
    let mut both = operands(cx, ["self", "other"], result)?;
    for v in &mut both {
        *v = cx.cast(*v, element)?;
    }
    if let Some(alpha) = cx.opt_scalar("alpha", result)? {
        let alpha = cx.cast(alpha, element)?;
        let dims = cx.dims(both[scaled])?;
        let alpha = cx.broadcast_to(alpha, &dims)?;
        both[scaled] = multiply(cx, both[scaled], alpha)?;
        if !result.is_xla() {
            // torch has no wider type for the steps of complex halves here.
            both[scaled] = cx.rounded(both[scaled], result)?;
        }
    }
    Ok((both, result))
}

fn add(cx: &mut Cx<'_, '_>) -> Lowered {
    let ([a, b], result) = summands(cx, 1)?;
    let v = plus(cx, a, b)?;
    Ok(by_way_of(cx, v, result)?.into())
}

fn sub(cx: &mut Cx<'_, '_>) -> Lowered {
    let ([a, b], result) = summands(cx, 1)?;
    let v = minus(cx, a, b)?;
    Ok(by_way_of(cx, v, result)?.into())
}

fn rsub(cx: &mut Cx<'_, '_>) -> Lowered {
    let ([a, b], result) = summands(cx, 0)?;
    let v = minus(cx, b, a)?;
    Ok(by_way_of(cx, v, result)?.into())
}

/// XLA makes of a product with a converted boolean a choice of the factor or zero: infinity times false would be zero.
fn mul(cx: &mut Cx<'_, '_>) -> Lowered {
    let boolean = |name: &str| match cx.call.arg(name) {
        Some(Arg::Tensor(i)) => cx.call.tensors[*i as usize].element == ElementType::Pred,
        _ => false,
    };
    let element = operand_type(cx, &["self", "other"])?;
    let names = match (boolean("self"), boolean("other")) {
        (true, false) => ["other", "self"],
        (false, true) => ["self", "other"],
        _ => return binary(cx, multiply),
    };
    if !matches!(element.class(), Class::Float | Class::Complex) {
        return binary(cx, multiply);
    }
    let [x] = operands(cx, [names[0]], element)?;
    let [mask] = operands(cx, [names[1]], ElementType::Pred)?;
    let zero = cx.full_like(x, 0)?;
    let hidden = multiply(cx, x, zero)?;
    Ok(cx.f.select(mask, x, hidden)?.into())
}

fn neg(cx: &mut Cx<'_, '_>) -> Lowered {
    unary(cx, negate)
}

fn abs(cx: &mut Cx<'_, '_>) -> Lowered {
    unary(cx, magnitude)
}

fn lerp(cx: &mut Cx<'_, '_>) -> Lowered {
    let element = common_type(cx, &["self", "end"])?;
    let [start, end, weight] = operands(cx, ["self", "end", "weight"], element)?;
    Ok(interpolate(cx, start, end, weight)?.into())
}

/// `self + value * kernel(tensor1, tensor2)`.
fn accumulate(cx: &mut Cx<'_, '_>, kernel: Binary) -> Lowered {
    let element = common_type(cx, &["self", "tensor1", "tensor2"])?;
    let [x, a, b] = operands(cx, ["self", "tensor1", "tensor2"], element)?;
    let [value] = operands(cx, ["value"], element)?;
    Ok(accumulate_kernel(cx, x, [a, b, value], kernel)?.into())
}

/// `x + value * kernel(a, b)`.
pub(crate) fn accumulate_kernel(
    cx: &mut Cx<'_, '_>,
    x: Value,
    [a, b, value]: [Value; 3],
    kernel: Binary,
) -> Result<Value> {
    // The scale goes to the first operand, as in torch, so that an overflow or a rounding falls alike.
    let a = multiply(cx, a, value)?;
    let term = kernel(cx, a, b)?;
    plus(cx, x, term)
}

fn addcmul(cx: &mut Cx<'_, '_>) -> Lowered {
    accumulate(cx, multiply)
}

fn addcdiv(cx: &mut Cx<'_, '_>) -> Lowered {
    accumulate(cx, divide)
}

pub(crate) const OPS: &[OpDef] = &[
    OpDef::new("add", add),
    OpDef::new("sub", sub),
    OpDef::new("rsub", rsub),
    OpDef::new("mul", mul),
    OpDef::new("neg", neg),
    OpDef::new("abs", abs),
    OpDef::new("lerp", lerp),
    OpDef::new("addcmul", addcmul),
    OpDef::new("addcdiv", addcdiv),
];
