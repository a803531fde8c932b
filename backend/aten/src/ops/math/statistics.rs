//! var, std, norms, logsumexp: reductions made of several steps.

use stablehlo::Value;
use stablehlo::ops::Direction;

use super::common::{is_nan, replace};
use super::exponential::power_of;
use super::reduction::{Reducer, count, mean_of, reduce, reduced_dims};
use crate::{Cx, ElementType, Lowered, OpDef, Result, compute_type};

/// `v` without `dims` repeated along them to these sizes.
fn spread(cx: &mut Cx<'_, '_>, v: Value, sizes: &[i64], dims: &[i64]) -> Result<Value> {
    let kept: Vec<i64> = (0..sizes.len() as i64).filter(|d| !dims.contains(d)).collect();
    Ok(cx.f.broadcast_in_dim(v, sizes, &kept)?)
}

/// `|v|²`.
fn square_of(cx: &mut Cx<'_, '_>, v: Value) -> Result<Value> {
    if cx.element(v)?.is_complex() {
        let (re, im) = (cx.f.real(v)?, cx.f.imag(v)?);
        let (re, im) = (cx.f.multiply(re, re)?, cx.f.multiply(im, im)?);
        return Ok(cx.f.add(re, im)?);
    }
    Ok(cx.f.multiply(v, v)?)
}

/// Variance and mean in two passes, with the sizes of result 0.
fn variance(cx: &mut Cx<'_, '_>) -> Result<(Value, Value)> {
    let x = cx.tensor("self")?;
    let x = cx.up(x)?;
    let sizes = cx.dims(x)?;
    let dims = reduced_dims(cx, sizes.len())?;
    let n = count(cx, x, &dims)?;
    let mean = mean_of(cx, x, &dims)?;
    let around = spread(cx, mean, &sizes, &dims)?;
    let off = cx.f.subtract(x, around)?;
    let squares = square_of(cx, off)?;
    let sum = reduce(cx, squares, &dims, Reducer::Sum)?;
    let n = cx.full(&[], ElementType::F64, n as f64)?;
    let one = cx.full(&[], ElementType::F64, 1)?;
    let correction = cx.opt_scalar("correction", ElementType::F64)?.unwrap_or(one);
    let free = cx.f.subtract(n, correction)?;
    let zero = cx.full_like(free, 0)?;
    let free = cx.f.maximum(free, zero)?;
    let (element, dims) = (cx.element(sum)?, cx.dims(sum)?);
    let free = cx.cast(free, element)?;
    let free = cx.broadcast_to(free, &dims)?;
    let variance = cx.f.divide(sum, free)?;
    let out = cx.out(0)?.dims.clone();
    Ok((cx.reshape(variance, &out)?, cx.reshape(mean, &out)?))
}

fn var(cx: &mut Cx<'_, '_>) -> Lowered {
    Ok(variance(cx)?.0.into())
}

fn std(cx: &mut Cx<'_, '_>) -> Lowered {
    let (variance, _) = variance(cx)?;
    Ok(cx.f.sqrt(variance)?.into())
}

fn var_mean(cx: &mut Cx<'_, '_>) -> Lowered {
    Ok(variance(cx)?.into())
}

fn std_mean(cx: &mut Cx<'_, '_>) -> Lowered {
    let (variance, mean) = variance(cx)?;
    Ok((cx.f.sqrt(variance)?, mean).into())
}

/// The p-norm along dimensions that then disappear.
pub(crate) fn vector_norm(cx: &mut Cx<'_, '_>, x: Value, p: f64, dims: &[i64]) -> Result<Value> {
    if p == 2.0 && !dims.is_empty() {
        let squares = square_of(cx, x)?;
        let sum = reduce(cx, squares, dims, Reducer::Sum)?;
        return Ok(cx.f.sqrt(sum)?);
    }
    if p == 0.0 {
        let some = cx.truth(x)?;
        let element = cx.element(x)?.real();
        let some = cx.cast(some, element)?;
        return reduce(cx, some, dims, Reducer::Sum);
    }
    let sizes = cx.f.abs(x)?;
    if p == f64::INFINITY {
        // From zero: magnitudes are not negative, and an empty norm is zero.
        let zero = cx.full(&[], cx.element(sizes)?, 0)?;
        if dims.is_empty() {
            return Ok(sizes);
        }
        let done =
            cx.f.reduce(&[sizes], &[zero], dims, |f, e| Ok(vec![f.maximum(e[0], e[1])?]))?;
        return Ok(done[0]);
    }
    if p == f64::NEG_INFINITY {
        return reduce(cx, sizes, dims, Reducer::Min);
    }
    if p == 1.0 || dims.is_empty() {
        return reduce(cx, sizes, dims, Reducer::Sum);
    }
    let powers = power_of(cx, sizes, p)?;
    let sum = reduce(cx, powers, dims, Reducer::Sum)?;
    power_of(cx, sum, 1.0 / p)
}

/// The order of a norm, under whichever name; 2 unless given.
pub(crate) fn order(cx: &Cx<'_, '_>) -> Result<f64> {
    for name in ["p", "ord"] {
        if cx.has(name) {
            return cx.float(name);
        }
    }
    Ok(2.0)
}

/// A norm of `x` along `dim`, in the type of result 0 (its complex one for complex numbers).
fn norm_of(cx: &mut Cx<'_, '_>, x: Value) -> Lowered {
    let wide = compute_type(cx.out(0)?.element);
    let element = match (cx.element(x)?.is_complex(), wide) {
        (true, ElementType::F64) => ElementType::C128,
        (true, _) => ElementType::C64,
        (false, _) => wide,
    };
    let x = cx.cast(x, element)?;
    let rank = cx.rank(x)?;
    let dims = reduced_dims(cx, rank)?;
    let p = order(cx)?;
    let norm = vector_norm(cx, x, p, &dims)?;
    let out = cx.out(0)?.dims.clone();
    Ok(cx.reshape(norm, &out)?.into())
}

fn norm(cx: &mut Cx<'_, '_>) -> Lowered {
    let x = cx.tensor("self")?;
    norm_of(cx, x)
}

fn dist(cx: &mut Cx<'_, '_>) -> Lowered {
    let element = super::common::float_type(cx, &["self", "other"])?;
    let (a, b) = (cx.operand("self", element)?, cx.operand("other", element)?);
    let (a, b) = cx.broadcast_pair(a, b)?;
    let difference = cx.f.subtract(a, b)?;
    norm_of(cx, difference)
}

/// Scales down the slices along `dim` whose norm exceeds `maxnorm`.
fn renorm(cx: &mut Cx<'_, '_>) -> Lowered {
    let x = cx.tensor("self")?;
    let x = cx.up(x)?;
    let sizes = cx.dims(x)?;
    let dim = cx.dim("dim", sizes.len())?;
    let others: Vec<i64> = (0..sizes.len() as i64).filter(|&d| d != dim).collect();
    let p = order(cx)?;
    let norm = vector_norm(cx, x, p, &others)?;
    let most = cx.scalar("maxnorm", cx.element(norm)?)?;
    let most = cx.broadcast_to(most, &cx.dims(norm)?)?;
    let over = super::common::compare(cx, norm, most, Direction::Gt)?;
    let by = super::common::offset(cx, norm, 1e-7)?;
    let factor = cx.f.divide(most, by)?;
    let one = cx.full_like(norm, 1)?;
    let factor = cx.f.select(over, factor, one)?;
    let factor = cx.cast(factor, cx.element(x)?)?;
    let factor = cx.f.broadcast_in_dim(factor, sizes.as_slice(), &[dim])?;
    Ok(cx.f.multiply(x, factor)?.into())
}

/// `v` as it is after a round trip through a narrower type.
fn rounded(cx: &mut Cx<'_, '_>, v: Value, through: ElementType) -> Result<Value> {
    let element = cx.element(v)?;
    let narrow = cx.cast(v, through)?;
    cx.cast(narrow, element)
}

fn logsumexp(cx: &mut Cx<'_, '_>) -> Lowered {
    let element = super::common::float_type(cx, &["self"])?;
    let x = cx.tensor("self")?;
    let x = cx.cast(x, element)?;
    let sizes = cx.dims(x)?;
    let dims = reduced_dims(cx, sizes.len())?;
    // Of complex numbers only the real part makes the exponential large.
    let real = cx.cast(x, element.real())?;
    let high = reduce(cx, real, &dims, Reducer::Max)?;
    // Where the greatest is infinite, x - high would be NaN.
    let finite = cx.f.is_finite(high)?;
    let infinite = cx.f.not(finite)?;
    let nan = is_nan(cx, high)?;
    let number = cx.f.not(nan)?;
    let infinite = cx.f.and(infinite, number)?;
    let high = replace(cx, infinite, 0, high)?;
    let high = cx.cast(high, element)?;
    let around = spread(cx, high, &sizes, &dims)?;
    // torch makes this of several ops, each of which rounds to the tensor's type.
    let narrow = match cx.meta("self")?.element {
        given if given.is_float() => given,
        _ => element,
    };
    let off = cx.f.subtract(x, around)?;
    let off = rounded(cx, off, narrow)?;
    let e = cx.f.exponential(off)?;
    let e = rounded(cx, e, narrow)?;
    let sum = reduce(cx, e, &dims, Reducer::Sum)?;
    let sum = rounded(cx, sum, narrow)?;
    let log = cx.f.log(sum)?;
    let log = rounded(cx, log, narrow)?;
    let result = cx.f.add(log, high)?;
    let out = cx.out(0)?.dims.clone();
    Ok(cx.reshape(result, &out)?.into())
}

/// The sum of the diagonal.
fn trace(cx: &mut Cx<'_, '_>) -> Lowered {
    let x = cx.tensor("self")?;
    let x = cx.cast(x, compute_type(cx.out(0)?.element))?;
    let sizes = cx.dims(x)?;
    let row = cx.f.iota(sizes.as_slice(), ElementType::S32, 0)?;
    let column = cx.f.iota(sizes.as_slice(), ElementType::S32, 1)?;
    let off = cx.f.compare(row, column, Direction::Ne)?;
    let kept = replace(cx, off, 0, x)?;
    Ok(reduce(cx, kept, &[0, 1], Reducer::Sum)?.into())
}

/// How many elements fall in each of equal bins between min and max.
fn histc(cx: &mut Cx<'_, '_>) -> Lowered {
    let x = cx.tensor("self")?;
    // The place of a half is found by steps that are halves.
    let narrow = cx.element(x)?;
    let x = cx.up(x)?;
    let element = cx.element(x)?;
    let bins = cx.int("bins")?;
    let n: i64 = cx.dims(x)?.iter().product();
    let x = cx.reshape(x, &[n])?;
    let (low, high) = (cx.scalar("min", element)?, cx.scalar("max", element)?);
    let (low, high) = (cx.rounded(low, narrow)?, cx.rounded(high, narrow)?);
    let unset = cx.f.compare(low, high, Direction::Eq)?;
    let (least, most) = (
        reduce(cx, x, &[0], Reducer::Min)?,
        reduce(cx, x, &[0], Reducer::Max)?,
    );
    let (low, high) = if n == 0 {
        (low, high)
    } else {
        (cx.f.select(unset, least, low)?, cx.f.select(unset, most, high)?)
    };
    let flat = cx.f.compare(low, high, Direction::Eq)?;
    let one = cx.full_like(low, 1)?;
    let (below, above) = (cx.f.subtract(low, one)?, cx.f.add(high, one)?);
    let (below, above) = (cx.rounded(below, narrow)?, cx.rounded(above, narrow)?);
    let (low, high) = (cx.f.select(flat, below, low)?, cx.f.select(flat, above, high)?);
    let width = cx.f.subtract(high, low)?;
    let width = cx.rounded(width, narrow)?;
    let (low_, high_, width) = (
        cx.broadcast_to(low, &[n])?,
        cx.broadcast_to(high, &[n])?,
        cx.broadcast_to(width, &[n])?,
    );
    let ge = cx.f.compare(x, low_, Direction::Ge)?;
    let le = cx.f.compare(x, high_, Direction::Le)?;
    let inside = cx.f.and(ge, le)?;
    let from = cx.f.subtract(x, low_)?;
    let from = cx.rounded(from, narrow)?;
    let many = cx.full_like(x, bins as f64)?;
    let many = cx.rounded(many, narrow)?;
    let scaled = cx.f.multiply(from, many)?;
    let scaled = cx.rounded(scaled, narrow)?;
    let place = cx.f.divide(scaled, width)?;
    let place = cx.rounded(place, narrow)?;
    let place = cx.f.convert(place, ElementType::S32)?;
    let last = cx.full_like(place, bins - 1)?;
    let place = cx.f.minimum(place, last)?;
    let pair = [bins, n];
    let place = cx.f.broadcast_in_dim(place, &pair, &[1])?;
    let inside = cx.f.broadcast_in_dim(inside, &pair, &[1])?;
    let bin = cx.f.iota(&pair, ElementType::S32, 0)?;
    let here = cx.f.compare(place, bin, Direction::Eq)?;
    let here = cx.f.and(here, inside)?;
    let ones = cx.cast(here, element)?;
    let counts = reduce(cx, ones, &[1], Reducer::Sum)?;
    // Not a range: torch refuses it.
    let fine = cx.f.is_finite(low)?;
    let fine_high = cx.f.is_finite(high)?;
    let ok = cx.f.and(fine, fine_high)?;
    let shown = cx.full(&[], ElementType::S64, 0)?;
    cx.check(
        ok,
        shown,
        crate::ErrorKind::Runtime,
        "torch.histc: range of [min, max] is not finite",
    );
    Ok(counts.into())
}

pub(crate) const OPS: &[OpDef] = &[
    OpDef::new("var", var),
    OpDef::new("std", std),
    OpDef::new("var_mean", var_mean),
    OpDef::new("std_mean", std_mean),
    OpDef::new("norm", norm).statics(&["p"]),
    OpDef::new("linalg_vector_norm", norm).statics(&["ord"]),
    OpDef::new("dist", dist).statics(&["p"]),
    OpDef::new("renorm", renorm).statics(&["p"]),
    OpDef::new("logsumexp", logsumexp),
    OpDef::new("trace", trace),
    OpDef::new("histc", histc),
];
