//! Trigonometric and hyperbolic functions and their inverses; angles.

use dtype::Class;
use stablehlo::Value;
use stablehlo::ops::Direction;

use super::common::{binary_float, compare, compare_to, is_nan, replace, scale, unary_float};
use crate::{Cx, Lowered, OpDef, Result};

macro_rules! kernels {
    ($($(#[$doc:meta])* $name:ident = $op:ident;)*) => {$(
        $(#[$doc])*
        pub(crate) fn $name(cx: &mut Cx<'_, '_>, x: Value) -> Result<Value> {
            Ok(cx.f.$op(x)?)
        }
    )*};
}

kernels! {
    /// Sine.
    sine = sine;
    /// Cosine.
    cosine = cosine;
    /// Tangent.
    tangent = tan;
    /// Inverse sine.
    arc_sine = chlo_asin;
    /// Inverse cosine.
    arc_cosine = chlo_acos;
    /// Inverse tangent.
    arc_tangent = chlo_atan;
    /// Hyperbolic tangent.
    hyperbolic_tangent = tanh;
    /// Inverse hyperbolic sine.
    area_sine = chlo_asinh;
    /// Inverse hyperbolic cosine.
    area_cosine = chlo_acosh;
    /// Inverse hyperbolic tangent.
    area_tangent = chlo_atanh;
}

/// Hyperbolic sine.
pub(crate) fn hyperbolic_sine(cx: &mut Cx<'_, '_>, x: Value) -> Result<Value> {
    let near = cx.f.chlo_sinh(x)?;
    let Some((far, size)) = half_exponential(cx, x)? else {
        return Ok(near);
    };
    let below = compare_to(cx, x, Direction::Lt, 0)?;
    let minus = cx.f.negate(size)?;
    let size = cx.f.select(below, minus, size)?;
    Ok(cx.f.select(far, size, near)?)
}

/// Hyperbolic cosine.
pub(crate) fn hyperbolic_cosine(cx: &mut Cx<'_, '_>, x: Value) -> Result<Value> {
    let near = cx.f.chlo_cosh(x)?;
    Ok(match half_exponential(cx, x)? {
        Some((far, size)) => cx.f.select(far, size, near)?,
        None => near,
    })
}

/// Where `|x|` is large, and `e^|x| / 2` as a product: chlo adds the logarithm of a half to `x`, which rounds it.
fn half_exponential(cx: &mut Cx<'_, '_>, x: Value) -> Result<Option<(Value, Value)>> {
    if cx.element(x)?.is_complex() {
        return Ok(None);
    }
    let size = cx.f.abs(x)?;
    let far = compare_to(cx, size, Direction::Gt, 10)?;
    let root = scale(cx, size, 0.5)?;
    let root = cx.f.exponential(root)?;
    let half = scale(cx, root, 0.5)?;
    Ok(Some((far, cx.f.multiply(half, root)?)))
}

fn atan2(cx: &mut Cx<'_, '_>) -> Lowered {
    binary_float(cx, |cx, a, b| Ok(cx.f.atan2(a, b)?))
}

/// `sqrt(a² + b²)` without overflow on the way; infinite where either is, even beside NaN.
fn hypot(cx: &mut Cx<'_, '_>) -> Lowered {
    binary_float(cx, |cx, a, b| {
        let (a, b) = (cx.f.abs(a)?, cx.f.abs(b)?);
        let (high, low) = (cx.f.maximum(a, b)?, cx.f.minimum(a, b)?);
        let none = compare_to(cx, high, Direction::Eq, 0)?;
        let by = replace(cx, none, 1, high)?;
        let ratio = cx.f.divide(low, by)?;
        let square = cx.f.multiply(ratio, ratio)?;
        let sum = super::common::offset(cx, square, 1.0)?;
        let root = cx.f.sqrt(sum)?;
        let length = cx.f.multiply(high, root)?;
        let infinity = cx.full_like(a, f64::INFINITY)?;
        let a_infinite = compare(cx, a, infinity, Direction::Eq)?;
        let b_infinite = compare(cx, b, infinity, Direction::Eq)?;
        let infinite = cx.f.or(a_infinite, b_infinite)?;
        Ok(cx.f.select(infinite, infinity, length)?)
    })
}

fn deg2rad(cx: &mut Cx<'_, '_>) -> Lowered {
    unary_float(cx, |cx, x| scale(cx, x, std::f64::consts::PI / 180.0))
}

fn rad2deg(cx: &mut Cx<'_, '_>) -> Lowered {
    unary_float(cx, |cx, x| scale(cx, x, 180.0 / std::f64::consts::PI))
}

/// `sin(πx) / πx`, 1 at zero.
fn sinc(cx: &mut Cx<'_, '_>) -> Lowered {
    unary_float(cx, |cx, x| {
        let angle = scale(cx, x, std::f64::consts::PI)?;
        let zero = compare_to(cx, x, Direction::Eq, 0)?;
        let by = replace(cx, zero, 1, angle)?;
        let sine = cx.f.sine(angle)?;
        let ratio = cx.f.divide(sine, by)?;
        replace(cx, zero, 1, ratio)
    })
}

/// The argument of a complex number; 0 or π for real ones.
fn angle(cx: &mut Cx<'_, '_>) -> Lowered {
    unary_float(cx, |cx, x| {
        if cx.element(x)?.class() == Class::Complex {
            let (re, im) = (cx.f.real(x)?, cx.f.imag(x)?);
            return Ok(cx.f.atan2(im, re)?);
        }
        let negative = compare_to(cx, x, Direction::Lt, 0)?;
        let zero = cx.full_like(x, 0)?;
        let result = replace(cx, negative, std::f64::consts::PI, zero)?;
        let nan = is_nan(cx, x)?;
        Ok(cx.f.select(nan, x, result)?)
    })
}

/// The conjugate; real numbers are their own.
fn conj_physical(cx: &mut Cx<'_, '_>) -> Lowered {
    let x = cx.tensor("self")?;
    if !cx.element(x)?.is_complex() {
        return Ok(x.into());
    }
    let (re, im) = (cx.f.real(x)?, cx.f.imag(x)?);
    let im = cx.f.negate(im)?;
    Ok(cx.f.complex(re, im)?.into())
}

pub(crate) const OPS: &[OpDef] = &[
    OpDef::new("sin", |cx| unary_float(cx, sine)),
    OpDef::new("cos", |cx| unary_float(cx, cosine)),
    OpDef::new("tan", |cx| unary_float(cx, tangent)),
    OpDef::new("asin", |cx| unary_float(cx, arc_sine)),
    OpDef::new("acos", |cx| unary_float(cx, arc_cosine)),
    OpDef::new("atan", |cx| unary_float(cx, arc_tangent)),
    OpDef::new("sinh", |cx| unary_float(cx, hyperbolic_sine)),
    OpDef::new("cosh", |cx| unary_float(cx, hyperbolic_cosine)),
    OpDef::new("tanh", |cx| unary_float(cx, hyperbolic_tangent)),
    OpDef::new("asinh", |cx| unary_float(cx, area_sine)),
    OpDef::new("acosh", |cx| unary_float(cx, area_cosine)),
    OpDef::new("atanh", |cx| unary_float(cx, area_tangent)),
    OpDef::new("atan2", atan2),
    OpDef::new("hypot", hypot),
    OpDef::new("deg2rad", deg2rad),
    OpDef::new("rad2deg", rad2deg),
    OpDef::new("sinc", sinc),
    OpDef::new("angle", angle),
    OpDef::new("_conj_physical", conj_physical),
    OpDef::new("conj_physical", conj_physical),
];
