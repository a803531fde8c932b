//! eq, lt and kin; classes of numbers; choosing between values: where, clamp, maximum.

use dtype::Class;
use stablehlo::Value;
use stablehlo::ops::Direction;

use super::common::{
    Binary, binary, common_type, compare, compare_to, is_nan, operand_type, operands, result_type,
};
use crate::{Cx, ElementType, Lowered, OpDef, Result};

/// A comparison in the operands' common type.
fn comparison(cx: &mut Cx<'_, '_>, direction: Direction) -> Lowered {
    let element = operand_type(cx, &["self", "other"])?;
    let [a, b] = operands(cx, ["self", "other"], element)?;
    Ok(cx.f.compare(a, b, direction)?.into())
}

fn eq(cx: &mut Cx<'_, '_>) -> Lowered {
    comparison(cx, Direction::Eq)
}

fn ne(cx: &mut Cx<'_, '_>) -> Lowered {
    comparison(cx, Direction::Ne)
}

fn lt(cx: &mut Cx<'_, '_>) -> Lowered {
    comparison(cx, Direction::Lt)
}

fn le(cx: &mut Cx<'_, '_>) -> Lowered {
    comparison(cx, Direction::Le)
}

fn gt(cx: &mut Cx<'_, '_>) -> Lowered {
    comparison(cx, Direction::Gt)
}

fn ge(cx: &mut Cx<'_, '_>) -> Lowered {
    comparison(cx, Direction::Ge)
}

fn isnan(cx: &mut Cx<'_, '_>) -> Lowered {
    let x = cx.tensor("self")?;
    Ok(is_nan(cx, x)?.into())
}

fn equals_number(cx: &mut Cx<'_, '_>, x: Value, n: f64) -> Result<Value> {
    if cx.element(x)?.is_float() {
        compare_to(cx, x, Direction::Eq, n)
    } else {
        let dims = cx.dims(x)?;
        cx.full(&dims, ElementType::Pred, false)
    }
}

fn infinite(cx: &mut Cx<'_, '_>, x: Value) -> Result<Value> {
    if cx.element(x)?.is_complex() {
        let (re, im) = (cx.f.real(x)?, cx.f.imag(x)?);
        let (re, im) = (infinite(cx, re)?, infinite(cx, im)?);
        return Ok(cx.f.or(re, im)?);
    }
    let plus = equals_number(cx, x, f64::INFINITY)?;
    let minus = equals_number(cx, x, f64::NEG_INFINITY)?;
    Ok(cx.f.or(plus, minus)?)
}

fn isinf(cx: &mut Cx<'_, '_>) -> Lowered {
    let x = cx.tensor("self")?;
    Ok(infinite(cx, x)?.into())
}

fn isposinf(cx: &mut Cx<'_, '_>) -> Lowered {
    let x = cx.tensor("self")?;
    Ok(equals_number(cx, x, f64::INFINITY)?.into())
}

fn isneginf(cx: &mut Cx<'_, '_>) -> Lowered {
    let x = cx.tensor("self")?;
    Ok(equals_number(cx, x, f64::NEG_INFINITY)?.into())
}

/// Where a value is neither infinite nor NaN.
pub(crate) fn finite(cx: &mut Cx<'_, '_>, x: Value) -> Result<Value> {
    match cx.element(x)?.class() {
        Class::Float => Ok(cx.f.is_finite(x)?),
        Class::Complex => {
            let (re, im) = (cx.f.real(x)?, cx.f.imag(x)?);
            let (re, im) = (cx.f.is_finite(re)?, cx.f.is_finite(im)?);
            Ok(cx.f.and(re, im)?)
        }
        _ => {
            let dims = cx.dims(x)?;
            cx.full(&dims, ElementType::Pred, true)
        }
    }
}

fn isfinite(cx: &mut Cx<'_, '_>) -> Lowered {
    let x = cx.tensor("self")?;
    Ok(finite(cx, x)?.into())
}

/// The greater, NaN where either is.
pub(crate) fn greater(cx: &mut Cx<'_, '_>, a: Value, b: Value) -> Result<Value> {
    Ok(match cx.element(a)?.class() {
        Class::Boolean => cx.f.or(a, b)?,
        _ => cx.f.maximum(a, b)?,
    })
}

/// The lesser, NaN where either is.
pub(crate) fn lesser(cx: &mut Cx<'_, '_>, a: Value, b: Value) -> Result<Value> {
    Ok(match cx.element(a)?.class() {
        Class::Boolean => cx.f.and(a, b)?,
        _ => cx.f.minimum(a, b)?,
    })
}

/// The chosen of two numbers, the other one where one is NaN.
fn ignoring_nan(cx: &mut Cx<'_, '_>, a: Value, b: Value, kernel: Binary) -> Result<Value> {
    let chosen = kernel(cx, a, b)?;
    let (na, nb) = (is_nan(cx, a)?, is_nan(cx, b)?);
    let chosen = cx.f.select(nb, a, chosen)?;
    Ok(cx.f.select(na, b, chosen)?)
}

fn maximum(cx: &mut Cx<'_, '_>) -> Lowered {
    binary(cx, greater)
}

fn minimum(cx: &mut Cx<'_, '_>) -> Lowered {
    binary(cx, lesser)
}

fn fmax(cx: &mut Cx<'_, '_>) -> Lowered {
    binary(cx, |cx, a, b| ignoring_nan(cx, a, b, greater))
}

fn fmin(cx: &mut Cx<'_, '_>) -> Lowered {
    binary(cx, |cx, a, b| ignoring_nan(cx, a, b, lesser))
}

fn clamp(cx: &mut Cx<'_, '_>) -> Lowered {
    let element = common_type(cx, &["self", "min", "max"])?;
    let [mut x] = operands(cx, ["self"], element)?;
    if cx.has("min") {
        let [low] = operands(cx, ["min"], element)?;
        x = greater(cx, x, low)?;
    }
    if cx.has("max") {
        let [high] = operands(cx, ["max"], element)?;
        x = lesser(cx, x, high)?;
    }
    Ok(x.into())
}

fn where_(cx: &mut Cx<'_, '_>) -> Lowered {
    let element = result_type(cx, &["self", "other"])?;
    let [a, b] = operands(cx, ["self", "other"], element)?;
    let condition = cx.tensor("condition")?;
    let condition = cx.truth(condition)?;
    let dims = cx.out(0)?.dims.clone();
    let condition = cx.broadcast_to(condition, &dims)?;
    Ok(cx.f.select(condition, a, b)?.into())
}

/// Whether each element is among the test elements: all pairs are compared, which fuses into one loop.
fn isin(cx: &mut Cx<'_, '_>) -> Lowered {
    let name = |cx: &Cx<'_, '_>, plural, singular| if cx.has(plural) { plural } else { singular };
    let elements = name(cx, "elements", "element");
    let tests = name(cx, "test_elements", "test_element");
    let ty = common_type(cx, &[elements, tests])?;
    let (x, among) = (cx.operand(elements, ty)?, cx.operand(tests, ty)?);
    let dims = cx.dims(x)?;
    let count: i64 = cx.dims(among)?.iter().product();
    let among = cx.reshape(among, &[count])?;
    let mut pairs = dims.to_vec();
    pairs.push(count);
    let rank = dims.len() as i64;
    let along: Vec<i64> = (0..rank).collect();
    let x = cx.f.broadcast_in_dim(x, pairs.as_slice(), &along)?;
    let among = cx.f.broadcast_in_dim(among, pairs.as_slice(), &[rank])?;
    let equal = compare(cx, x, among, Direction::Eq)?;
    let no = cx.full(&[], ElementType::Pred, false)?;
    let found =
        cx.f.reduce(&[equal], &[no], &[rank], |f, e| Ok(vec![f.or(e[0], e[1])?]))?[0];
    Ok(if cx.bool("invert")? {
        cx.f.not(found)?
    } else {
        found
    }
    .into())
}

/// Whether two tensors are the same in sizes and values.
fn equal(cx: &mut Cx<'_, '_>) -> Lowered {
    let (a, b) = (cx.tensor("self")?, cx.tensor("other")?);
    let dims = cx.dims(a)?;
    if dims != cx.dims(b)? {
        return Ok(cx.full(&[], ElementType::Pred, false)?.into());
    }
    let same = compare(cx, a, b, Direction::Eq)?;
    let yes = cx.full(&[], ElementType::Pred, true)?;
    let all: Vec<i64> = (0..dims.len() as i64).collect();
    Ok(cx
        .f
        .reduce(&[same], &[yes], &all, |f, e| Ok(vec![f.and(e[0], e[1])?]))?[0]
        .into())
}

pub(crate) const OPS: &[OpDef] = &[
    OpDef::new("eq", eq),
    OpDef::new("ne", ne),
    OpDef::new("lt", lt),
    OpDef::new("le", le),
    OpDef::new("gt", gt),
    OpDef::new("ge", ge),
    OpDef::new("isnan", isnan),
    OpDef::new("isinf", isinf),
    OpDef::new("isposinf", isposinf),
    OpDef::new("isneginf", isneginf),
    OpDef::new("isfinite", isfinite),
    OpDef::new("isin", isin),
    OpDef::new("maximum", maximum),
    OpDef::new("minimum", minimum),
    OpDef::new("fmax", fmax),
    OpDef::new("fmin", fmin),
    OpDef::new("clamp", clamp),
    OpDef::new("clamp_min", clamp),
    OpDef::new("clamp_max", clamp),
    OpDef::new("where", where_),
    OpDef::new("equal", equal),
];
