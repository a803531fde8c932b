//! exp, log, sqrt, pow and their kin.

use dtype::Class;
use stablehlo::Value;
use stablehlo::ops::Direction;

use super::common::{
    Unary, binary_float, common_type, compare, compare_to, float_type, is_nan, offset, operands, replace,
    scale, unary, unary_float,
};
use crate::{Cx, ElementType, Error, ErrorKind, Lowered, OpDef, Result};

/// `e^x`.
pub(crate) fn exponential(cx: &mut Cx<'_, '_>, x: Value) -> Result<Value> {
    Ok(cx.f.exponential(x)?)
}

/// `e^x - 1`.
pub(crate) fn exponential_minus_one(cx: &mut Cx<'_, '_>, x: Value) -> Result<Value> {
    Ok(cx.f.exponential_minus_one(x)?)
}

/// `2^x`, exact for whole x as `pow` is.
pub(crate) fn exponential_2(cx: &mut Cx<'_, '_>, x: Value) -> Result<Value> {
    if cx.element(x)?.is_complex() {
        let x = scale(cx, x, std::f64::consts::LN_2)?;
        return exponential(cx, x);
    }
    let two = cx.full_like(x, 2)?;
    Ok(cx.f.power(two, x)?)
}

/// The natural logarithm.
pub(crate) fn logarithm(cx: &mut Cx<'_, '_>, x: Value) -> Result<Value> {
    Ok(cx.f.log(x)?)
}

/// `log(1 + x)`.
pub(crate) fn logarithm_plus_one(cx: &mut Cx<'_, '_>, x: Value) -> Result<Value> {
    Ok(cx.f.log_plus_one(x)?)
}

/// `log(x) / log(base)`, divided so that powers of the base give whole numbers more often than a product does.
fn logarithm_to(cx: &mut Cx<'_, '_>, x: Value, base: f64) -> Result<Value> {
    let l = cx.f.log(x)?;
    let by = cx.full_like(l, base.ln())?;
    Ok(cx.f.divide(l, by)?)
}

/// The logarithm to base 2.
pub(crate) fn logarithm_2(cx: &mut Cx<'_, '_>, x: Value) -> Result<Value> {
    logarithm_to(cx, x, 2.0)
}

/// The logarithm to base 10.
pub(crate) fn logarithm_10(cx: &mut Cx<'_, '_>, x: Value) -> Result<Value> {
    logarithm_to(cx, x, 10.0)
}

/// The square root.
pub(crate) fn square_root(cx: &mut Cx<'_, '_>, x: Value) -> Result<Value> {
    Ok(cx.f.sqrt(x)?)
}

/// The reciprocal of the square root.
pub(crate) fn reciprocal_root(cx: &mut Cx<'_, '_>, x: Value) -> Result<Value> {
    Ok(cx.f.rsqrt(x)?)
}

/// `1 / (1 + e^-x)`.
pub(crate) fn logistic(cx: &mut Cx<'_, '_>, x: Value) -> Result<Value> {
    if cx.element(x)?.is_complex() {
        let minus = cx.f.negate(x)?;
        let e = cx.f.exponential(minus)?;
        let sum = offset(cx, e, 1.0)?;
        return super::division::inverse(cx, sum);
    }
    Ok(cx.f.logistic(x)?)
}

/// `log(x / (1 - x))`. Of halves, torch's kernel keeps each step in their type.
fn logit(cx: &mut Cx<'_, '_>) -> Lowered {
    let element = float_type(cx, &["self"])?;
    let own = cx.meta("self")?.element;
    let [x] = operands(cx, ["self"], element)?;
    let p = match cx.opt_scalar("eps", element)? {
        None => x,
        Some(eps) => {
            let dims = cx.dims(x)?;
            let eps = cx.rounded(eps, own)?;
            let low = cx.broadcast_to(eps, &dims)?;
            let one = cx.full_like(x, 1)?;
            let high = cx.f.subtract(one, low)?;
            let high = cx.rounded(high, own)?;
            let below = compare(cx, x, low, Direction::Lt)?;
            let above = compare(cx, x, high, Direction::Gt)?;
            let inner = cx.f.select(above, high, x)?;
            let clamped = cx.f.select(below, low, inner)?;
            // torch takes a negative eps for none.
            let none = compare_to(cx, low, Direction::Lt, 0)?;
            cx.f.select(none, x, clamped)?
        }
    };
    let one = cx.full_like(p, 1)?;
    let rest = cx.f.subtract(one, p)?;
    let rest = cx.rounded(rest, own)?;
    let odds = cx.f.divide(p, rest)?;
    let odds = cx.rounded(odds, own)?;
    Ok(cx.f.log(odds)?.into())
}

/// `x^n` by repeated squaring, wrapping for integers.
fn whole_power(cx: &mut Cx<'_, '_>, x: Value, n: u64) -> Result<Value> {
    let (mut base, mut left) = (x, n);
    let mut result: Option<Value> = None;
    while left > 0 {
        if left & 1 == 1 {
            result = Some(match result {
                None => base,
                Some(r) => super::arithmetic::multiply(cx, r, base)?,
            });
        }
        left >>= 1;
        if left > 0 {
            base = super::arithmetic::multiply(cx, base, base)?;
        }
    }
    result.map_or_else(|| cx.full_like(x, 1), Ok)
}

/// `a^b` for floats, complex numbers and integers.
pub(crate) fn power(cx: &mut Cx<'_, '_>, a: Value, b: Value) -> Result<Value> {
    let element = cx.element(a)?;
    match element.class() {
        Class::Float => Ok(cx.f.power(a, b)?),
        // Through logarithms and exponentials an error grows with the exponent: in double precision it stays small.
        Class::Complex if element != ElementType::C128 => {
            let (a, b) = (cx.cast(a, ElementType::C128)?, cx.cast(b, ElementType::C128)?);
            let result = power(cx, a, b)?;
            cx.cast(result, element)
        }
        Class::Complex => {
            let result = cx.f.power(a, b)?;
            // z^0 is 1 for all z; XLA gives NaN at zero.
            let none = compare_to(cx, b, Direction::Eq, 0)?;
            let result = replace(cx, none, 1, result)?;
            // Nor has zero to a power with a positive real part a logarithm to go through.
            let re = cx.f.real(b)?;
            let zero = compare_to(cx, a, Direction::Eq, 0)?;
            let up = compare_to(cx, re, Direction::Gt, 0)?;
            let vanishes = cx.f.and(zero, up)?;
            replace(cx, vanishes, 0, result)
        }
        Class::Boolean => {
            let not = cx.f.not(b)?;
            Ok(cx.f.or(a, not)?)
        }
        Class::Unsigned => Ok(cx.f.power(a, b)?),
        Class::Signed => {
            let negative = compare_to(cx, b, Direction::Lt, 0)?;
            let exponent = replace(cx, negative, 0, b)?;
            let whole = cx.f.power(a, exponent)?;
            // Of negative powers only those of 1 and -1 are whole numbers.
            let one = cx.full_like(a, 1)?;
            let odd = cx.f.and(b, one)?;
            let odd = cx.truth(odd)?;
            let minus = cx.f.negate(one)?;
            let of_minus = cx.f.select(odd, minus, one)?;
            let zero = cx.full_like(a, 0)?;
            let is_minus = compare(cx, a, minus, Direction::Eq)?;
            let is_one = compare(cx, a, one, Direction::Eq)?;
            let inverse = cx.f.select(is_minus, of_minus, zero)?;
            let inverse = cx.f.select(is_one, one, inverse)?;
            Ok(cx.f.select(negative, inverse, whole)?)
        }
    }
}

/// `x^n` for a known n: the cases that torch computes without `pow`, and small whole ones.
pub(crate) fn power_of(cx: &mut Cx<'_, '_>, x: Value, n: f64) -> Result<Value> {
    let class = cx.element(x)?.class();
    if !matches!(class, Class::Float | Class::Complex) {
        return whole_power(cx, x, n as u64);
    }
    Ok(if n == 0.5 && class == Class::Float {
        cx.f.sqrt(x)?
    } else if n == -0.5 && class == Class::Float {
        cx.f.rsqrt(x)?
    } else if n == 0.0 || n == 1.0 || n == 2.0 || n == 3.0 {
        whole_power(cx, x, n as u64)?
    } else if n == -1.0 || n == -2.0 {
        let p = whole_power(cx, x, -n as u64)?;
        super::division::inverse(cx, p)?
    } else {
        let n = cx.full_like(x, n)?;
        power(cx, x, n)?
    })
}

fn pow(cx: &mut Cx<'_, '_>) -> Lowered {
    let element = common_type(cx, &["self", "exponent"])?;
    let static_exponent = match cx.call.arg("exponent") {
        Some(crate::Arg::Tensor(_)) | None => None,
        Some(_) => cx.opt_number("exponent")?,
    };
    let n = match static_exponent {
        None => {
            let [a, b] = operands(cx, ["self", "exponent"], element)?;
            return Ok(power(cx, a, b)?.into());
        }
        Some(stablehlo::Number::Complex(re, im)) if im != 0.0 => {
            let [a] = operands(cx, ["self"], element)?;
            let b = cx.full_like(a, stablehlo::Number::Complex(re, im))?;
            return Ok(power(cx, a, b)?.into());
        }
        Some(_) => cx.float("exponent")?,
    };
    if element.is_integer() && n < 0.0 {
        return Err(Error::user(
            ErrorKind::Runtime,
            "Integers to negative integer powers are not allowed.",
        ));
    }
    let [x] = operands(cx, ["self"], element)?;
    Ok(power_of(cx, x, n)?.into())
}

/// `log(e^a + e^b)` of complex numbers: as of reals, the one with the smaller real part against the other.
fn complex_log_of_sum(cx: &mut Cx<'_, '_>, a: Value, b: Value) -> Result<Value> {
    let (re_a, re_b) = (cx.f.real(a)?, cx.f.real(b)?);
    let less = compare(cx, re_a, re_b, Direction::Lt)?;
    let (high, low) = (cx.f.select(less, b, a)?, cx.f.select(less, a, b)?);
    let difference = cx.f.subtract(low, high)?;
    let e = cx.f.exponential(difference)?;
    let rest = cx.f.log_plus_one(e)?;
    let sum = cx.f.add(high, rest)?;
    // Of two infinities of the same sign the difference is no number: one of minus infinity is the sum, of plus infinity the
    // powers say in which direction.
    let (ea, eb) = (cx.f.exponential(a)?, cx.f.exponential(b)?);
    let powers = cx.f.add(ea, eb)?;
    let plain = cx.f.log(powers)?;
    let negative = compare_to(cx, re_a, Direction::Lt, 0)?;
    let infinite = cx.f.select(negative, high, plain)?;
    let equal = compare(cx, re_a, re_b, Direction::Eq)?;
    let finite = cx.f.is_finite(re_a)?;
    let unbounded = cx.f.not(finite)?;
    let both = cx.f.and(equal, unbounded)?;
    Ok(cx.f.select(both, infinite, sum)?)
}

/// `log(e^a + e^b)` or the like in base 2, exact where both are the same infinity.
pub(crate) fn log_of_sum(cx: &mut Cx<'_, '_>, a: Value, b: Value, base_2: bool) -> Result<Value> {
    if cx.element(a)?.is_complex() {
        if base_2 {
            return Err(Error::unsupported("logaddexp2 of complex numbers"));
        }
        return complex_log_of_sum(cx, a, b);
    }
    let high = cx.f.maximum(a, b)?;
    let difference = cx.f.subtract(a, b)?;
    let size = cx.f.abs(difference)?;
    let mut minus = cx.f.negate(size)?;
    if base_2 {
        minus = scale(cx, minus, std::f64::consts::LN_2)?;
    }
    let e = cx.f.exponential(minus)?;
    let mut rest = cx.f.log_plus_one(e)?;
    if base_2 {
        rest = scale(cx, rest, std::f64::consts::LOG2_E)?;
    }
    let sum = cx.f.add(high, rest)?;
    let equal = compare(cx, a, b, Direction::Eq)?;
    let finite = cx.f.is_finite(a)?;
    let infinite = cx.f.not(finite)?;
    let same = cx.f.and(equal, infinite)?;
    Ok(cx.f.select(same, a, sum)?)
}

fn logaddexp(cx: &mut Cx<'_, '_>) -> Lowered {
    binary_log_of_sum(cx, false)
}

fn logaddexp2(cx: &mut Cx<'_, '_>) -> Lowered {
    binary_log_of_sum(cx, true)
}

fn binary_log_of_sum(cx: &mut Cx<'_, '_>, base_2: bool) -> Lowered {
    let element = float_type(cx, &["self", "other"])?;
    let [a, b] = operands(cx, ["self", "other"], element)?;
    Ok(log_of_sum(cx, a, b, base_2)?.into())
}

/// `x * log(y)`, zero where x is zero and y is a number.
fn times_log(cx: &mut Cx<'_, '_>, x: Value, y: Value, log: Unary) -> Result<Value> {
    let l = log(cx, y)?;
    let product = cx.f.multiply(x, l)?;
    let zero = compare_to(cx, x, Direction::Eq, 0)?;
    let result = replace(cx, zero, 0, product)?;
    let nan = is_nan(cx, y)?;
    Ok(cx.f.select(nan, y, result)?)
}

fn xlogy(cx: &mut Cx<'_, '_>) -> Lowered {
    binary_float(cx, |cx, x, y| times_log(cx, x, y, logarithm))
}

fn special_xlog1py(cx: &mut Cx<'_, '_>) -> Lowered {
    binary_float(cx, |cx, x, y| times_log(cx, x, y, logarithm_plus_one))
}

/// `-x log(x)`; zero at zero, minus infinity below.
fn special_entr(cx: &mut Cx<'_, '_>) -> Lowered {
    unary_float(cx, |cx, x| {
        let l = cx.f.log(x)?;
        let minus = cx.f.negate(x)?;
        let product = cx.f.multiply(minus, l)?;
        let zero = compare_to(cx, x, Direction::Eq, 0)?;
        let result = replace(cx, zero, 0, product)?;
        let negative = compare_to(cx, x, Direction::Lt, 0)?;
        replace(cx, negative, f64::NEG_INFINITY, result)
    })
}

fn square(cx: &mut Cx<'_, '_>) -> Lowered {
    unary(cx, |cx, x| super::arithmetic::multiply(cx, x, x))
}

fn float_power(cx: &mut Cx<'_, '_>) -> Lowered {
    let element = if float_type(cx, &["self", "exponent"])?.is_complex() {
        ElementType::C128
    } else {
        ElementType::F64
    };
    let [a, b] = operands(cx, ["self", "exponent"], element)?;
    Ok(power(cx, a, b)?.into())
}

pub(crate) const OPS: &[OpDef] = &[
    OpDef::new("exp", |cx| unary_float(cx, exponential)),
    OpDef::new("exp2", |cx| unary_float(cx, exponential_2)),
    OpDef::new("expm1", |cx| unary_float(cx, exponential_minus_one)),
    OpDef::new("log", |cx| unary_float(cx, logarithm)),
    OpDef::new("log2", |cx| unary_float(cx, logarithm_2)),
    OpDef::new("log10", |cx| unary_float(cx, logarithm_10)),
    OpDef::new("log1p", |cx| unary_float(cx, logarithm_plus_one)),
    OpDef::new("sqrt", |cx| unary_float(cx, square_root)),
    OpDef::new("rsqrt", |cx| unary_float(cx, reciprocal_root)),
    OpDef::new("sigmoid", |cx| unary_float(cx, logistic)),
    OpDef::new("logit", logit),
    // A known exponent makes a product or a root of what would be a general power.
    OpDef::new("pow", pow).statics(&["exponent"]),
    OpDef::new("float_power", float_power),
    OpDef::new("square", square),
    OpDef::new("logaddexp", logaddexp),
    OpDef::new("logaddexp2", logaddexp2),
    OpDef::new("xlogy", xlogy),
    OpDef::new("special_xlog1py", special_xlog1py),
    OpDef::new("special_entr", special_entr),
];
