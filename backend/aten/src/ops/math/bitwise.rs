//! Bitwise and logical ops, shifts, gcd and lcm.

use dtype::Class;
use stablehlo::Value;
use stablehlo::ops::Direction;

use super::common::{Binary, binary, compare_to, operands, replace};
use crate::loops::any;
use crate::{Cx, Lowered, OpDef, Result};

fn bitwise_and(cx: &mut Cx<'_, '_>) -> Lowered {
    binary(cx, |cx, a, b| Ok(cx.f.and(a, b)?))
}

fn bitwise_or(cx: &mut Cx<'_, '_>) -> Lowered {
    binary(cx, |cx, a, b| Ok(cx.f.or(a, b)?))
}

fn bitwise_xor(cx: &mut Cx<'_, '_>) -> Lowered {
    binary(cx, |cx, a, b| Ok(cx.f.xor(a, b)?))
}

fn bitwise_not(cx: &mut Cx<'_, '_>) -> Lowered {
    let x = cx.tensor("self")?;
    Ok(cx.f.not(x)?.into())
}

/// Where a shift is by less than nothing or by all bits and more.
fn out_of_range(cx: &mut Cx<'_, '_>, by: Value) -> Result<Value> {
    let bits = cx.element(by)?.bits();
    let beyond = compare_to(cx, by, Direction::Ge, bits as i32)?;
    if cx.element(by)?.class() == Class::Signed {
        let negative = compare_to(cx, by, Direction::Lt, 0)?;
        Ok(cx.f.or(negative, beyond)?)
    } else {
        Ok(beyond)
    }
}

fn shift_left(cx: &mut Cx<'_, '_>) -> Lowered {
    binary(cx, |cx, a, b| {
        let wrong = out_of_range(cx, b)?;
        let by = replace(cx, wrong, 0, b)?;
        let shifted = cx.f.shift_left(a, by)?;
        replace(cx, wrong, 0, shifted)
    })
}

fn shift_right(cx: &mut Cx<'_, '_>) -> Lowered {
    binary(cx, |cx, a, b| {
        let wrong = out_of_range(cx, b)?;
        let element = cx.element(a)?;
        // A shift out of range leaves the sign alone, as a shift by one bit less than all.
        let most = element.bits() as i32 - 1;
        let by = replace(cx, wrong, most, b)?;
        if element.class() == Class::Signed {
            return Ok(cx.f.shift_right_arithmetic(a, by)?);
        }
        let shifted = cx.f.shift_right_logical(a, by)?;
        replace(cx, wrong, 0, shifted)
    })
}

fn logical(cx: &mut Cx<'_, '_>, kernel: Binary) -> Lowered {
    let (a, b) = (cx.tensor("self")?, cx.tensor("other")?);
    let (a, b) = (cx.truth(a)?, cx.truth(b)?);
    let dims = cx.out(0)?.dims.clone();
    let (a, b) = (cx.broadcast_to(a, &dims)?, cx.broadcast_to(b, &dims)?);
    Ok(kernel(cx, a, b)?.into())
}

fn logical_and(cx: &mut Cx<'_, '_>) -> Lowered {
    logical(cx, |cx, a, b| Ok(cx.f.and(a, b)?))
}

fn logical_or(cx: &mut Cx<'_, '_>) -> Lowered {
    logical(cx, |cx, a, b| Ok(cx.f.or(a, b)?))
}

fn logical_xor(cx: &mut Cx<'_, '_>) -> Lowered {
    logical(cx, |cx, a, b| Ok(cx.f.xor(a, b)?))
}

fn logical_not(cx: &mut Cx<'_, '_>) -> Lowered {
    let x = cx.tensor("self")?;
    let x = cx.truth(x)?;
    Ok(cx.f.not(x)?.into())
}

/// Euclid's algorithm on all elements at once.
fn greatest_common_divisor(cx: &mut Cx<'_, '_>, a: Value, b: Value) -> Result<Value> {
    let signed = cx.element(a)?.class() == Class::Signed;
    let (a, b) = if signed {
        (cx.f.abs(a)?, cx.f.abs(b)?)
    } else {
        (a, b)
    };
    let element = cx.element(a)?;
    let dims = cx.dims(a)?;
    let zero = cx.full(&dims, element, 0)?;
    let done = cx.f.while_(
        &[a, b],
        |f, v| {
            let left = f.compare(v[1], zero, Direction::Ne)?;
            Ok(vec![any(f, left)?])
        },
        |f, v| {
            let finished = f.compare(v[1], zero, Direction::Eq)?;
            let rest = f.remainder(v[0], v[1])?;
            Ok(vec![
                f.select(finished, v[0], v[1])?,
                f.select(finished, zero, rest)?,
            ])
        },
    )?;
    Ok(done[0])
}

fn gcd(cx: &mut Cx<'_, '_>) -> Lowered {
    binary(cx, greatest_common_divisor)
}

fn lcm(cx: &mut Cx<'_, '_>) -> Lowered {
    binary(cx, |cx, a, b| {
        let divisor = greatest_common_divisor(cx, a, b)?;
        let none = compare_to(cx, divisor, Direction::Eq, 0)?;
        let by = replace(cx, none, 1, divisor)?;
        let part = cx.f.divide(a, by)?;
        let product = cx.f.multiply(part, b)?;
        let product = super::arithmetic::magnitude(cx, product)?;
        replace(cx, none, 0, product)
    })
}

/// `__and__` and the like reach us with `self` and `other` in whatever overload.
fn shift_names(cx: &mut Cx<'_, '_>, left: bool) -> Lowered {
    let element = super::common::common_type(cx, &["self", "other"])?;
    if element.is_float() {
        // torch multiplies floats by a power of two.
        let [a, b] = operands(cx, ["self", "other"], element)?;
        let two = cx.full_like(b, 2)?;
        let power = cx.f.power(two, b)?;
        return Ok(if left {
            cx.f.multiply(a, power)?
        } else {
            cx.f.divide(a, power)?
        }
        .into());
    }
    if left { shift_left(cx) } else { shift_right(cx) }
}

fn left(cx: &mut Cx<'_, '_>) -> Lowered {
    shift_names(cx, true)
}

fn right(cx: &mut Cx<'_, '_>) -> Lowered {
    shift_names(cx, false)
}

pub(crate) const OPS: &[OpDef] = &[
    OpDef::new("bitwise_and", bitwise_and),
    OpDef::new("bitwise_or", bitwise_or),
    OpDef::new("bitwise_xor", bitwise_xor),
    OpDef::new("bitwise_not", bitwise_not),
    OpDef::new("bitwise_left_shift", left),
    OpDef::new("bitwise_right_shift", right),
    OpDef::new("__lshift__", left),
    OpDef::new("__rshift__", right),
    OpDef::new("__ilshift__", left),
    OpDef::new("__irshift__", right),
    OpDef::new("logical_and", logical_and),
    OpDef::new("logical_or", logical_or),
    OpDef::new("logical_xor", logical_xor),
    OpDef::new("logical_not", logical_not),
    OpDef::new("gcd", gcd),
    OpDef::new("lcm", lcm),
];
