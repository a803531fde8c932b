//! floor, round and kin; signs, parts of floats, neighbours.

use dtype::Class;
use stablehlo::Value;
use stablehlo::ops::Direction;

use super::common::{
    binary_float, bits_type, common_type, compare_to, operands, replace, sign_bit, unary, unary_unless_int,
};
use crate::{Cx, ElementType, Lowered, OpDef, Result};

/// Rounds up.
pub(crate) fn round_up(cx: &mut Cx<'_, '_>, x: Value) -> Result<Value> {
    Ok(cx.f.ceil(x)?)
}

/// Rounds down.
pub(crate) fn round_down(cx: &mut Cx<'_, '_>, x: Value) -> Result<Value> {
    Ok(cx.f.floor(x)?)
}

/// Rounds to the nearest integer, ties to even.
pub(crate) fn round_nearest(cx: &mut Cx<'_, '_>, x: Value) -> Result<Value> {
    Ok(cx.f.round_nearest_even(x)?)
}

/// Rounds towards zero.
pub(crate) fn truncate(cx: &mut Cx<'_, '_>, x: Value) -> Result<Value> {
    let negative = compare_to(cx, x, Direction::Lt, 0)?;
    let (up, down) = (cx.f.ceil(x)?, cx.f.floor(x)?);
    Ok(cx.f.select(negative, up, down)?)
}

/// What truncation takes away.
pub(crate) fn fraction(cx: &mut Cx<'_, '_>, x: Value) -> Result<Value> {
    let whole = truncate(cx, x)?;
    Ok(cx.f.subtract(x, whole)?)
}

/// -1, 0 or 1; 0 for NaN as in torch.
pub(crate) fn sign_of(cx: &mut Cx<'_, '_>, x: Value) -> Result<Value> {
    match cx.element(x)?.class() {
        Class::Boolean => Ok(x),
        Class::Unsigned => {
            let some = cx.truth(x)?;
            let element = cx.element(x)?;
            cx.cast(some, element)
        }
        Class::Complex => {
            let size = cx.f.abs(x)?;
            let none = compare_to(cx, size, Direction::Eq, 0)?;
            let size = replace(cx, none, 1, size)?;
            let zero = cx.full_like(size, 0)?;
            let size = cx.f.complex(size, zero)?;
            Ok(cx.f.divide(x, size)?)
        }
        Class::Signed => Ok(cx.f.sign(x)?),
        Class::Float => {
            let element = cx.element(x)?;
            let above = compare_to(cx, x, Direction::Gt, 0)?;
            let below = compare_to(cx, x, Direction::Lt, 0)?;
            let (above, below) = (cx.f.convert(above, element)?, cx.f.convert(below, element)?);
            Ok(cx.f.subtract(above, below)?)
        }
    }
}

/// The magnitude of `a` with the sign of `b`, by bits.
pub(crate) fn copy_sign(cx: &mut Cx<'_, '_>, a: Value, b: Value) -> Result<Value> {
    let element = cx.element(a)?;
    let size = cx.f.abs(a)?;
    let minus = cx.f.negate(size)?;
    let b = cx.cast(b, element)?;
    let negative = sign_bit(cx, b)?;
    Ok(cx.f.select(negative, minus, size)?)
}

fn round(cx: &mut Cx<'_, '_>) -> Lowered {
    let decimals = cx.opt_int("decimals")?.unwrap_or(0);
    if decimals == 0 {
        return unary_unless_int(cx, round_nearest);
    }
    let x = cx.tensor("self")?;
    let x = cx.up(x)?;
    let ten = cx.full_like(x, 10f64.powi(decimals.unsigned_abs().min(400) as i32))?;
    Ok(if decimals > 0 {
        let scaled = cx.f.multiply(x, ten)?;
        let rounded = cx.f.round_nearest_even(scaled)?;
        cx.f.divide(rounded, ten)?
    } else {
        let scaled = cx.f.divide(x, ten)?;
        let rounded = cx.f.round_nearest_even(scaled)?;
        cx.f.multiply(rounded, ten)?
    }
    .into())
}

fn signbit(cx: &mut Cx<'_, '_>) -> Lowered {
    let x = cx.tensor("self")?;
    Ok(match cx.element(x)?.class() {
        Class::Float => sign_bit(cx, x)?,
        Class::Signed => compare_to(cx, x, Direction::Lt, 0)?,
        _ => {
            let dims = cx.dims(x)?;
            cx.full(&dims, ElementType::Pred, false)?
        }
    }
    .into())
}

fn copysign(cx: &mut Cx<'_, '_>) -> Lowered {
    binary_float(cx, copy_sign)
}

/// Mantissa in [0.5, 1) and exponent, by bits: subnormal numbers count too.
fn frexp(cx: &mut Cx<'_, '_>) -> Lowered {
    let x = cx.tensor("self")?;
    let x = cx.up(x)?;
    let element = cx.element(x)?;
    let bits = bits_type(element)?;
    let (mantissa_bits, bias) = if element == ElementType::F64 {
        (52, 1022)
    } else {
        (23, 126)
    };
    let exponent_mask = if element == ElementType::F64 { 0x7FF } else { 0xFF };
    let raw = cx.f.bitcast_convert(x, bits)?;
    let sign_mask = cx.full_like(raw, 1u64 << (bits.bits() - 1))?;
    let sign = cx.f.and(raw, sign_mask)?;
    let body = cx.f.xor(raw, sign)?;
    let shift = cx.full_like(raw, mantissa_bits)?;
    let field = cx.f.shift_right_logical(body, shift)?;
    // A subnormal number's leading bit is moved to where a normal number's hidden bit is.
    let zeros = cx.f.count_leading_zeros(body)?;
    let top = cx.full_like(raw, bits.bits() as i32 - 1 - mantissa_bits)?;
    let lift = cx.f.subtract(zeros, top)?;
    let lifted = cx.f.shift_left(body, lift)?;
    let subnormal = compare_to(cx, field, Direction::Eq, 0)?;
    let body_ = cx.f.select(subnormal, lifted, body)?;
    let low = cx.full_like(raw, (1u64 << mantissa_bits) - 1)?;
    let fraction = cx.f.and(body_, low)?;
    let half = cx.full_like(raw, (bias as u64) << mantissa_bits)?;
    let scaled = cx.f.or(fraction, half)?;
    let scaled = cx.f.or(scaled, sign)?;
    let mantissa = cx.f.bitcast_convert(scaled, element)?;
    let field = cx.f.convert(field, ElementType::S32)?;
    let lift = cx.f.convert(lift, ElementType::S32)?;
    let one = cx.full_like(field, 1)?;
    let under = cx.f.subtract(one, lift)?;
    let subnormal_field = cx.f.select(subnormal, under, field)?;
    let bias = cx.full_like(field, bias)?;
    let exponent = cx.f.subtract(subnormal_field, bias)?;
    let zero = compare_to(cx, body, Direction::Eq, 0)?;
    let special = compare_to(cx, field, Direction::Eq, exponent_mask)?;
    let plain = cx.f.or(zero, special)?;
    let mantissa = cx.f.select(plain, x, mantissa)?;
    let exponent = replace(cx, plain, 0, exponent)?;
    Ok((mantissa, exponent).into())
}

/// The next float from `self` towards `other`, by bits.
fn nextafter(cx: &mut Cx<'_, '_>) -> Lowered {
    // In the operands' own type: the neighbours of a bfloat16 are bfloat16.
    let element = super::common::result_type(cx, &["self", "other"])?;
    let [a, b] = operands(cx, ["self", "other"], element)?;
    let bits = bits_type(element)?;
    let sign_mask = 1u64 << (bits.bits() - 1);
    let (ra, rb) = (cx.f.bitcast_convert(a, bits)?, cx.f.bitcast_convert(b, bits)?);
    let mask = cx.full_like(ra, sign_mask - 1)?;
    let (ma, mb) = (cx.f.and(ra, mask)?, cx.f.and(rb, mask)?);
    let (a_zero, b_zero) = (
        compare_to(cx, ma, Direction::Eq, 0)?,
        compare_to(cx, mb, Direction::Eq, 0)?,
    );
    let both_zero = cx.f.and(a_zero, b_zero)?;
    let same_bits = cx.f.compare(ra, rb, Direction::Eq)?;
    let same = cx.f.or(both_zero, same_bits)?;
    let (na, nb) = (super::common::is_nan(cx, a)?, super::common::is_nan(cx, b)?);
    // From zero: the smallest number of b's sign.
    let sign = cx.full_like(ra, sign_mask)?;
    let b_sign = cx.f.and(rb, sign)?;
    let one = cx.full_like(ra, 1)?;
    let smallest = cx.f.or(b_sign, one)?;
    let a_sign = cx.f.and(ra, sign)?;
    let signs_differ = cx.f.compare(a_sign, b_sign, Direction::Ne)?;
    let farther = cx.f.compare(ma, mb, Direction::Gt)?;
    let shrink = cx.f.or(signs_differ, farther)?;
    let (smaller, larger) = (cx.f.subtract(ra, one)?, cx.f.add(ra, one)?);
    let moved = cx.f.select(shrink, smaller, larger)?;
    let moved = cx.f.select(a_zero, smallest, moved)?;
    let moved = cx.f.select(same, rb, moved)?;
    let result = cx.f.bitcast_convert(moved, element)?;
    let result = cx.f.select(nb, b, result)?;
    Ok(cx.f.select(na, a, result)?.into())
}

fn nan_to_num(cx: &mut Cx<'_, '_>) -> Lowered {
    let x = cx.tensor("self")?;
    let element = cx.element(x)?;
    match element.class() {
        Class::Float => Ok(finite_parts(cx, x)?.into()),
        Class::Complex => {
            let (re, im) = (cx.f.real(x)?, cx.f.imag(x)?);
            let (re, im) = (finite_parts(cx, re)?, finite_parts(cx, im)?);
            Ok(cx.f.complex(re, im)?.into())
        }
        _ => Ok(x.into()),
    }
}

fn finite_parts(cx: &mut Cx<'_, '_>, x: Value) -> Result<Value> {
    let element = cx.element(x)?;
    let largest = match element {
        ElementType::F64 => f64::MAX,
        ElementType::F32 => f64::from(f32::MAX),
        ElementType::BF16 => f64::from(f32::from_bits(0x7F7F_0000)),
        ElementType::F16 => 65504.0,
        other => {
            return Err(crate::Error::unsupported(format!("nan_to_num of {other}")));
        }
    };
    let dims = cx.dims(x)?;
    let is_nan = super::common::is_nan(cx, x)?;
    let over = compare_to(cx, x, Direction::Eq, f64::INFINITY)?;
    let under = compare_to(cx, x, Direction::Eq, f64::NEG_INFINITY)?;
    let mut result = x;
    for (name, at, default) in [
        ("nan", is_nan, 0.0),
        ("posinf", over, largest),
        ("neginf", under, -largest),
    ] {
        let with = match cx.opt_scalar(name, element)? {
            Some(v) => cx.broadcast_to(v, &dims)?,
            None => cx.full_like(x, default)?,
        };
        result = cx.f.select(at, with, result)?;
    }
    Ok(result)
}

fn heaviside(cx: &mut Cx<'_, '_>) -> Lowered {
    let element = common_type(cx, &["self", "values"])?;
    let [x, at_zero] = operands(cx, ["self", "values"], element)?;
    let some = cx.truth(x)?;
    let positive = match element.class() {
        Class::Boolean => some,
        _ => compare_to(cx, x, Direction::Gt, 0)?,
    };
    let step = cx.cast(positive, element)?;
    Ok(cx.f.select(some, step, at_zero)?.into())
}

pub(crate) const OPS: &[OpDef] = &[
    OpDef::new("ceil", |cx| unary_unless_int(cx, round_up)),
    OpDef::new("floor", |cx| unary_unless_int(cx, round_down)),
    OpDef::new("trunc", |cx| unary_unless_int(cx, truncate)),
    OpDef::new("frac", |cx| unary(cx, fraction)),
    OpDef::new("round", round),
    OpDef::new("sign", |cx| unary(cx, sign_of)),
    OpDef::new("sgn", |cx| unary(cx, sign_of)),
    OpDef::new("signbit", signbit),
    OpDef::new("copysign", copysign),
    OpDef::new("frexp", frexp),
    OpDef::new("nextafter", nextafter),
    OpDef::new("nan_to_num", nan_to_num),
    OpDef::new("heaviside", heaviside),
];
