//! sum, mean, prod, any, all, amax and kin: reductions to one value.

use dtype::Class;
use stablehlo::{Number, Value};

use super::common::is_nan;
use crate::{Cx, ElementType, Error, ErrorKind, Lowered, OpDef, Result, compute_type};

/// What a reduction combines elements by.
#[derive(Copy, Clone, PartialEq, Eq)]
pub(crate) enum Reducer {
    /// The sum.
    Sum,
    /// The product.
    Product,
    /// The greatest, NaN before all.
    Max,
    /// The least, NaN before all.
    Min,
    /// Logical or.
    Any,
    /// Logical and.
    All,
}

/// The greatest (or least) value of a type: infinite for floats.
pub(crate) fn extreme(element: ElementType, greatest: bool) -> Number {
    let bits = element.bits();
    match element.class() {
        Class::Boolean => Number::Bool(greatest),
        Class::Unsigned if greatest => Number::Int((1i128 << bits) - 1),
        Class::Unsigned => Number::Int(0),
        Class::Signed if greatest => Number::Int((1i128 << (bits - 1)) - 1),
        Class::Signed => Number::Int(-(1i128 << (bits - 1))),
        _ if greatest => Number::Float(f64::INFINITY),
        _ => Number::Float(f64::NEG_INFINITY),
    }
}

/// Reduces along these dimensions, which disappear.
pub(crate) fn reduce(cx: &mut Cx<'_, '_>, v: Value, dims: &[i64], by: Reducer) -> Result<Value> {
    let element = cx.element(v)?;
    let start = match by {
        Reducer::Sum => Number::Int(0),
        Reducer::Product => Number::Int(1),
        Reducer::Max => extreme(element, false),
        Reducer::Min => extreme(element, true),
        Reducer::Any => Number::Bool(false),
        Reducer::All => Number::Bool(true),
    };
    if dims.is_empty() {
        return Ok(v);
    }
    let start = cx.full(&[], element, start)?;
    let logical = element == ElementType::Pred;
    let done = cx.f.reduce(&[v], &[start], dims, |f, e| {
        Ok(vec![match by {
            Reducer::Sum => f.add(e[0], e[1])?,
            Reducer::Product => f.multiply(e[0], e[1])?,
            Reducer::Max if logical => f.or(e[0], e[1])?,
            Reducer::Min if logical => f.and(e[0], e[1])?,
            Reducer::Max => f.maximum(e[0], e[1])?,
            Reducer::Min => f.minimum(e[0], e[1])?,
            Reducer::Any => f.or(e[0], e[1])?,
            Reducer::All => f.and(e[0], e[1])?,
        }])
    })?;
    Ok(done[0])
}

/// The dimensions that `dim` asks for, non-negative; all when it is absent or empty.
pub(crate) fn reduced_dims(cx: &Cx<'_, '_>, rank: usize) -> Result<Vec<i64>> {
    let asked = cx.ints("dim")?;
    if rank == 0 {
        return Ok(Vec::new());
    }
    if asked.is_empty() {
        return Ok((0..rank as i64).collect());
    }
    Ok(asked.into_iter().map(|d| crate::cx::wrap_dim(d, rank)).collect())
}

/// How many elements go into each result.
pub(crate) fn count(cx: &Cx<'_, '_>, v: Value, dims: &[i64]) -> Result<i64> {
    let sizes = cx.dims(v)?;
    Ok(dims.iter().map(|&d| sizes[d as usize]).product())
}

/// Reduces `v` along `dim` and gives it the sizes of result `k`, which knows of `keepdim`.
pub(crate) fn reduce_to(cx: &mut Cx<'_, '_>, v: Value, by: Reducer, k: usize) -> Result<Value> {
    let rank = cx.rank(v)?;
    let dims = reduced_dims(cx, rank)?;
    let reduced = reduce(cx, v, &dims, by)?;
    let out = cx.out(k)?.dims.clone();
    cx.reshape(reduced, &out)
}

/// `self` in the type that the result is computed in.
fn subject(cx: &mut Cx<'_, '_>) -> Result<Value> {
    let element = compute_type(cx.out(0)?.element);
    let x = cx.tensor("self")?;
    cx.cast(x, element)
}

fn sum(cx: &mut Cx<'_, '_>) -> Lowered {
    let matrix = cx.tensor("self")?;
    // The gradient of a bias: what the products take apart is not put in order for it either.
    if cx.rank(matrix)? == 2
        && reduced_dims(cx, 2)? == [0]
        && let Some((x, rows)) = crate::apart::rows_apart(cx, matrix)?
    {
        let out = cx.out(0)?.clone();
        let x = cx.cast(x, compute_type(out.element))?;
        let dims: Vec<i64> = (0..rows.len() as i64).collect();
        let sum = reduce(cx, x, &dims, Reducer::Sum)?;
        return Ok(cx.reshape(sum, &out.dims)?.into());
    }
    let x = subject(cx)?;
    Ok(reduce_to(cx, x, Reducer::Sum, 0)?.into())
}

fn nansum(cx: &mut Cx<'_, '_>) -> Lowered {
    let x = subject(cx)?;
    let nan = is_nan(cx, x)?;
    let x = super::common::replace(cx, nan, 0, x)?;
    Ok(reduce_to(cx, x, Reducer::Sum, 0)?.into())
}

fn prod(cx: &mut Cx<'_, '_>) -> Lowered {
    let x = subject(cx)?;
    Ok(reduce_to(cx, x, Reducer::Product, 0)?.into())
}

/// The mean along dimensions that then disappear.
pub(crate) fn mean_of(cx: &mut Cx<'_, '_>, x: Value, dims: &[i64]) -> Result<Value> {
    let n = count(cx, x, dims)?;
    let sum = reduce(cx, x, dims, Reducer::Sum)?;
    let n = cx.full_like(sum, n as f64)?;
    Ok(cx.f.divide(sum, n)?)
}

fn mean(cx: &mut Cx<'_, '_>) -> Lowered {
    let x = subject(cx)?;
    let rank = cx.rank(x)?;
    let dims = reduced_dims(cx, rank)?;
    let mean = mean_of(cx, x, &dims)?;
    let out = cx.out(0)?.dims.clone();
    Ok(cx.reshape(mean, &out)?.into())
}

fn logical(cx: &mut Cx<'_, '_>, by: Reducer) -> Lowered {
    let x = cx.tensor("self")?;
    let x = cx.truth(x)?;
    if cx.has("dim") && cx.ints("dim")?.is_empty() {
        // Unlike other reductions these take an empty list at its word.
        return Ok(x.into());
    }
    Ok(reduce_to(cx, x, by, 0)?.into())
}

fn any(cx: &mut Cx<'_, '_>) -> Lowered {
    logical(cx, Reducer::Any)
}

fn all(cx: &mut Cx<'_, '_>) -> Lowered {
    logical(cx, Reducer::All)
}

fn count_nonzero(cx: &mut Cx<'_, '_>) -> Lowered {
    let x = cx.tensor("self")?;
    let x = cx.truth(x)?;
    let x = cx.cast(x, ElementType::S64)?;
    Ok(reduce_to(cx, x, Reducer::Sum, 0)?.into())
}

fn amax(cx: &mut Cx<'_, '_>) -> Lowered {
    let x = cx.tensor("self")?;
    Ok(reduce_to(cx, x, Reducer::Max, 0)?.into())
}

fn amin(cx: &mut Cx<'_, '_>) -> Lowered {
    let x = cx.tensor("self")?;
    Ok(reduce_to(cx, x, Reducer::Min, 0)?.into())
}

fn aminmax(cx: &mut Cx<'_, '_>) -> Lowered {
    let x = cx.tensor("self")?;
    let low = reduce_to(cx, x, Reducer::Min, 0)?;
    let high = reduce_to(cx, x, Reducer::Max, 1)?;
    Ok((low, high).into())
}

/// The index of the first of the greatest (or least) along a dimension, which disappears; NaN counts as both.
pub(crate) fn first_index_of(cx: &mut Cx<'_, '_>, x: Value, best: Value, dim: i64) -> Result<Value> {
    let dims = cx.dims(x)?;
    let kept: Vec<i64> = (0..dims.len() as i64).filter(|&d| d != dim).collect();
    let best = cx.f.broadcast_in_dim(best, dims.as_slice(), &kept)?;
    let mut here = super::common::compare(cx, x, best, stablehlo::ops::Direction::Eq)?;
    if cx.element(x)?.is_float() {
        // The best is NaN where there is a NaN, so nothing else equals it then.
        let nan = is_nan(cx, x)?;
        here = cx.f.or(here, nan)?;
    }
    let place = cx.f.iota(dims.as_slice(), ElementType::S32, dim)?;
    let none = cx.full_like(place, i64::from(i32::MAX))?;
    let places = cx.f.select(here, place, none)?;
    reduce(cx, places, &[dim], Reducer::Min)
}

/// Raises torch's error for a reduction without identity along a dimension that has no elements.
pub(crate) fn require_elements(op: &str, dims: &[i64], dim: i64) -> Result<()> {
    if dims[dim as usize] != 0 {
        return Ok(());
    }
    Err(Error::user(
        ErrorKind::Index,
        format!("{op}(): Expected reduction dim {dim} to have non-zero size."),
    ))
}

fn extremum(cx: &mut Cx<'_, '_>, by: Reducer) -> Lowered {
    let x = cx.tensor("self")?;
    let name = if by == Reducer::Max { "max" } else { "min" };
    let dims = cx.dims(x)?;
    if cx.has("dim") && !dims.is_empty() {
        require_elements(name, &dims, cx.dim("dim", dims.len())?)?;
    } else if dims.contains(&0) {
        return Err(Error::user(
            ErrorKind::Runtime,
            format!(
                "{name}(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim \
                 with the 'dim' argument."
            ),
        ));
    }
    if !cx.has("dim") {
        return Ok(reduce_to(cx, x, by, 0)?.into());
    }
    let (values, places) = value_and_place(cx, x, by)?;
    let out = cx.out(0)?.dims.clone();
    Ok((cx.reshape(values, &out)?, cx.reshape(places, &out)?).into())
}

fn value_and_place(cx: &mut Cx<'_, '_>, x: Value, by: Reducer) -> Result<(Value, Value)> {
    let (x, dims) = super::common::at_least_1d(cx, x)?;
    let dim = cx.dim("dim", dims.len())?;
    let best = reduce(cx, x, &[dim], by)?;
    let places = first_index_of(cx, x, best, dim)?;
    Ok((best, places))
}

fn max(cx: &mut Cx<'_, '_>) -> Lowered {
    extremum(cx, Reducer::Max)
}

fn min(cx: &mut Cx<'_, '_>) -> Lowered {
    extremum(cx, Reducer::Min)
}

fn place_of_extremum(cx: &mut Cx<'_, '_>, by: Reducer) -> Lowered {
    let mut x = cx.tensor("self")?;
    let places = if cx.has("dim") {
        value_and_place(cx, x, by)?.1
    } else {
        let n: i64 = cx.dims(x)?.iter().product();
        x = cx.reshape(x, &[n])?;
        let best = reduce(cx, x, &[0], by)?;
        first_index_of(cx, x, best, 0)?
    };
    let out = cx.out(0)?.dims.clone();
    Ok(cx.reshape(places, &out)?.into())
}

fn argmax(cx: &mut Cx<'_, '_>) -> Lowered {
    place_of_extremum(cx, Reducer::Max)
}

fn argmin(cx: &mut Cx<'_, '_>) -> Lowered {
    place_of_extremum(cx, Reducer::Min)
}

/// The exclusive or of the bits: of doubles for floats, of 64-bit integers for the others.
fn hash_tensor(cx: &mut Cx<'_, '_>) -> Lowered {
    let x = cx.tensor("self")?;
    let bits = match cx.element(x)?.class() {
        Class::Float => {
            let x = cx.cast(x, ElementType::F64)?;
            cx.f.bitcast_convert(x, ElementType::U64)?
        }
        Class::Complex => return Err(Error::unsupported("hash_tensor of complex numbers")),
        _ => {
            let x = cx.cast(x, ElementType::S64)?;
            cx.f.bitcast_convert(x, ElementType::U64)?
        }
    };
    let rank = cx.rank(bits)?;
    let dims = reduced_dims(cx, rank)?;
    let out = cx.out(0)?.dims.clone();
    let hash = if dims.is_empty() {
        bits
    } else {
        let start = cx.full(&[], ElementType::U64, 0)?;
        cx.f.reduce(&[bits], &[start], &dims, |f, e| Ok(vec![f.xor(e[0], e[1])?]))?[0]
    };
    Ok(cx.reshape(hash, &out)?.into())
}

pub(crate) const OPS: &[OpDef] = &[
    OpDef::new("hash_tensor", hash_tensor),
    OpDef::new("sum", sum),
    OpDef::new("nansum", nansum),
    OpDef::new("prod", prod),
    OpDef::new("mean", mean),
    OpDef::new("any", any),
    OpDef::new("all", all),
    OpDef::new("_is_all_true", all),
    OpDef::new("_is_any_true", any),
    OpDef::new("count_nonzero", count_nonzero),
    OpDef::new("amax", amax),
    OpDef::new("amin", amin),
    OpDef::new("aminmax", aminmax),
    OpDef::new("_aminmax", aminmax),
    OpDef::new("max", max),
    OpDef::new("min", min),
    OpDef::new("argmax", argmax),
    OpDef::new("argmin", argmin),
];
