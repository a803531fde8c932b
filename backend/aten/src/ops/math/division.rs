//! div, floor_divide, remainder, fmod: quotients and remainders, with torch's signs and errors.

use dtype::Class;
use stablehlo::Value;
use stablehlo::ops::Direction;

use super::common::{
    Binary, binary_float, common_type, compare, compare_to, float_type, operands, result_type, unary_float,
};
use super::rounding::{copy_sign, truncate};
use crate::{Arg, Cx, ElementType, ErrorKind, Lowered, OpDef, Result};

/// Raises torch's error when an integer divisor is zero.
fn check_divisor(cx: &mut Cx<'_, '_>, b: Value) -> Result<()> {
    let rank = cx.rank(b)? as i64;
    let fine = cx.truth(b)?;
    let yes = cx.full(&[], ElementType::Pred, true)?;
    let dims: Vec<i64> = (0..rank).collect();
    let ok =
        cx.f.reduce(&[fine], &[yes], &dims, |f, e| Ok(vec![f.and(e[0], e[1])?]))?[0];
    let shown = cx.full(&[], ElementType::S64, 0)?;
    cx.check(ok, shown, ErrorKind::Runtime, "ZeroDivisionError");
    Ok(())
}

/// The quotient of integers, rounded towards zero.
fn quotient_int(cx: &mut Cx<'_, '_>, a: Value, b: Value) -> Result<Value> {
    check_divisor(cx, b)?;
    Ok(cx.f.divide(a, b)?)
}

/// Where a remainder must move by the divisor to have its sign.
fn signs_differ(cx: &mut Cx<'_, '_>, modulus: Value, b: Value) -> Result<Value> {
    let nonzero = compare_to(cx, modulus, Direction::Ne, 0)?;
    let m = compare_to(cx, modulus, Direction::Lt, 0)?;
    let d = compare_to(cx, b, Direction::Lt, 0)?;
    let differ = cx.f.xor(m, d)?;
    Ok(cx.f.and(nonzero, differ)?)
}

/// `floor(a / b)`, by c10's `div_floor_floating` for floats.
pub(crate) fn floor_quotient(cx: &mut Cx<'_, '_>, a: Value, b: Value) -> Result<Value> {
    match cx.element(a)?.class() {
        Class::Float => {}
        Class::Signed => {
            let q = quotient_int(cx, a, b)?;
            let modulus = cx.f.remainder(a, b)?;
            let lower = signs_differ(cx, modulus, b)?;
            let one = cx.full_like(q, 1)?;
            let down = cx.f.subtract(q, one)?;
            return Ok(cx.f.select(lower, down, q)?);
        }
        _ => return quotient_int(cx, a, b),
    }
    let plain = cx.f.divide(a, b)?;
    let modulus = cx.f.remainder(a, b)?;
    let rest = cx.f.subtract(a, modulus)?;
    let q = cx.f.divide(rest, b)?;
    let lower = signs_differ(cx, modulus, b)?;
    let one = cx.full_like(q, 1)?;
    let down = cx.f.subtract(q, one)?;
    let q = cx.f.select(lower, down, q)?;
    let floor = cx.f.floor(q)?;
    let above = cx.f.subtract(q, floor)?;
    let up = compare_to(cx, above, Direction::Gt, 0.5)?;
    let next = cx.f.add(floor, one)?;
    let rounded = cx.f.select(up, next, floor)?;
    let zero = cx.full_like(q, 0)?;
    let signed_zero = copy_sign(cx, zero, plain)?;
    let nonzero = compare(cx, q, zero, Direction::Ne)?;
    let result = cx.f.select(nonzero, rounded, signed_zero)?;
    let by_zero = compare(cx, b, zero, Direction::Eq)?;
    Ok(cx.f.select(by_zero, plain, result)?)
}

fn trunc_quotient(cx: &mut Cx<'_, '_>, a: Value, b: Value) -> Result<Value> {
    if cx.element(a)?.is_float() {
        let q = cx.f.divide(a, b)?;
        truncate(cx, q)
    } else {
        quotient_int(cx, a, b)
    }
}

/// Of halves torch's kernel truncates the quotient rounded to them, but by a single number in single precision.
fn trunc_of_rounded(cx: &mut Cx<'_, '_>, a: Value, b: Value) -> Result<Value> {
    let single = match cx.call.arg("other") {
        Some(Arg::Tensor(i)) => cx.call.tensors[*i as usize].dims.iter().product::<i64>() == 1,
        _ => true,
    };
    let own = result_type(cx, &["self", "other"])?;
    if single || !own.is_float() {
        return trunc_quotient(cx, a, b);
    }
    let q = cx.f.divide(a, b)?;
    let q = cx.rounded(q, own)?;
    truncate(cx, q)
}

/// The remainder with the sign of the divisor.
pub(crate) fn floor_remainder(cx: &mut Cx<'_, '_>, a: Value, b: Value) -> Result<Value> {
    let class = cx.element(a)?.class();
    if class != Class::Float {
        check_divisor(cx, b)?;
    }
    let modulus = cx.f.remainder(a, b)?;
    if matches!(class, Class::Boolean | Class::Unsigned) {
        return Ok(modulus);
    }
    let move_up = signs_differ(cx, modulus, b)?;
    let moved = cx.f.add(modulus, b)?;
    Ok(cx.f.select(move_up, moved, modulus)?)
}

/// The remainder with the sign of the dividend.
fn trunc_remainder(cx: &mut Cx<'_, '_>, a: Value, b: Value) -> Result<Value> {
    if !cx.element(a)?.is_float() {
        check_divisor(cx, b)?;
    }
    Ok(cx.f.remainder(a, b)?)
}

fn in_common_type(cx: &mut Cx<'_, '_>, kernel: Binary) -> Lowered {
    let mut element = common_type(cx, &["self", "other"])?;
    if element == ElementType::Pred {
        // Booleans are divided as numbers; the result's type says what becomes of it.
        element = ElementType::U8;
    }
    let [a, b] = operands(cx, ["self", "other"], element)?;
    Ok(kernel(cx, a, b)?.into())
}

fn div(cx: &mut Cx<'_, '_>) -> Lowered {
    match cx.str("rounding_mode")? {
        Some("floor") => in_common_type(cx, floor_quotient),
        Some("trunc") => in_common_type(cx, trunc_of_rounded),
        _ => binary_float(cx, super::arithmetic::divide),
    }
}

fn floor_divide(cx: &mut Cx<'_, '_>) -> Lowered {
    in_common_type(cx, floor_quotient)
}

fn remainder(cx: &mut Cx<'_, '_>) -> Lowered {
    in_common_type(cx, floor_remainder)
}

fn fmod(cx: &mut Cx<'_, '_>) -> Lowered {
    in_common_type(cx, trunc_remainder)
}

/// `1 / x`.
pub(crate) fn inverse(cx: &mut Cx<'_, '_>, x: Value) -> Result<Value> {
    let one = cx.full_like(x, 1)?;
    Ok(cx.f.divide(one, x)?)
}

fn reciprocal(cx: &mut Cx<'_, '_>) -> Lowered {
    unary_float(cx, inverse)
}

/// `self * 2^other`; the power has a type of its own, as it has in torch.
fn ldexp(cx: &mut Cx<'_, '_>) -> Lowered {
    let element = float_type(cx, &["self", "other"])?;
    let [a, b] = operands(cx, ["self", "other"], element)?;
    let two = cx.full_like(b, 2)?;
    let power = cx.f.power(two, b)?;
    let own = result_type(cx, &["other"])?;
    let power = cx.rounded(power, own)?;
    Ok(cx.f.multiply(a, power)?.into())
}

pub(crate) const OPS: &[OpDef] = &[
    OpDef::new("div", div),
    OpDef::new("floor_divide", floor_divide),
    OpDef::new("remainder", remainder),
    OpDef::new("fmod", fmod),
    OpDef::new("reciprocal", reciprocal),
    OpDef::new("ldexp", ldexp),
];
