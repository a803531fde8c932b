//! sort, topk, kthvalue, median, mode: by one sort along a dimension.

use stablehlo::Value;
use stablehlo::ops::Direction;

use super::common::{at_least_1d, compare, is_nan, replace};
use super::reduction::{Reducer, first_index_of, reduce, require_elements};
use crate::{Cx, Dims, ElementType, Lowered, OpDef, Result};

/// Values and their former places, sorted along a dimension. NaN is greater than all, equal values keep their order.
pub(crate) fn sorted(cx: &mut Cx<'_, '_>, x: Value, dim: i64, descending: bool) -> Result<(Value, Value)> {
    let element = cx.element(x)?;
    // Compilers sort booleans and narrow floats less well than the types that hold them.
    let wide = match element {
        ElementType::Pred => ElementType::U8,
        _ => crate::compute_type(element),
    };
    let x = cx.cast(x, wide)?;
    let dims = cx.dims(x)?;
    let places = cx.f.iota(dims.as_slice(), ElementType::S32, dim)?;
    let float = wide.is_float();
    let done = cx.f.sort(&[x, places], dim, true, |f, e| {
        let (a, b) = if descending { (e[1], e[0]) } else { (e[0], e[1]) };
        let less = f.compare(a, b, Direction::Lt)?;
        if !float {
            return Ok(vec![less]);
        }
        let number = f.compare(a, a, Direction::Eq)?;
        let nan = f.compare(b, b, Direction::Ne)?;
        let before_nan = f.and(number, nan)?;
        Ok(vec![f.or(less, before_nan)?])
    })?;
    let values = if element == ElementType::Pred {
        cx.truth(done[0])?
    } else {
        done[0]
    };
    Ok((values, done[1]))
}

/// `self` with rank 0 seen as one dimension, its sizes, and `dim`.
fn subject(cx: &mut Cx<'_, '_>) -> Result<(Value, Dims, i64)> {
    let x = cx.tensor("self")?;
    let (x, dims) = at_least_1d(cx, x)?;
    let dim = match cx.opt_int("dim")? {
        Some(d) => crate::cx::wrap_dim(d, dims.len()),
        None => dims.len() as i64 - 1,
    };
    Ok((x, dims, dim))
}

/// Both with the sizes of the results.
fn shaped(cx: &mut Cx<'_, '_>, values: Value, places: Value) -> Lowered {
    let out = cx.out(0)?.dims.clone();
    Ok((cx.reshape(values, &out)?, cx.reshape(places, &out)?).into())
}

fn sort(cx: &mut Cx<'_, '_>) -> Lowered {
    let (x, _, dim) = subject(cx)?;
    let descending = cx.bool("descending")?;
    let (values, places) = sorted(cx, x, dim, descending)?;
    shaped(cx, values, places)
}

/// `length` elements from `start` along a dimension.
fn section(cx: &mut Cx<'_, '_>, v: Value, dim: i64, start: i64, length: i64) -> Result<Value> {
    let dims = cx.dims(v)?;
    let mut starts = vec![0; dims.len()];
    let mut limits = dims.to_vec();
    starts[dim as usize] = start;
    limits[dim as usize] = start + length;
    Ok(cx.f.slice(v, &starts, &limits, &vec![1; dims.len()])?)
}

fn topk(cx: &mut Cx<'_, '_>) -> Lowered {
    let (x, _, dim) = subject(cx)?;
    // Unlike other flags this one is true when absent.
    let largest = !cx.has("largest") || cx.bool("largest")?;
    let k = cx.int("k")?;
    let (values, places) = sorted(cx, x, dim, largest)?;
    let k = k.min(cx.dims(values)?[dim as usize]);
    let (values, places) = (section(cx, values, dim, 0, k)?, section(cx, places, dim, 0, k)?);
    shaped(cx, values, places)
}

fn kthvalue(cx: &mut Cx<'_, '_>) -> Lowered {
    let (x, _, dim) = subject(cx)?;
    let k = cx.int("k")?;
    let (values, places) = sorted(cx, x, dim, false)?;
    let (values, places) = (
        section(cx, values, dim, k - 1, 1)?,
        section(cx, places, dim, k - 1, 1)?,
    );
    shaped(cx, values, places)
}

/// The elements at a place along a dimension that differs from row to row; the dimension disappears.
fn take(cx: &mut Cx<'_, '_>, v: Value, at: Value, dim: i64) -> Result<Value> {
    let dims = cx.dims(v)?;
    let kept: Vec<i64> = (0..dims.len() as i64).filter(|&d| d != dim).collect();
    let at = cx.f.broadcast_in_dim(at, dims.as_slice(), &kept)?;
    let place = cx.f.iota(dims.as_slice(), ElementType::S32, dim)?;
    let other = cx.f.compare(place, at, Direction::Ne)?;
    let element = cx.element(v)?;
    if element == ElementType::Pred {
        let here = cx.f.not(other)?;
        let chosen = cx.f.and(here, v)?;
        return reduce(cx, chosen, &[dim], Reducer::Any);
    }
    let chosen = replace(cx, other, 0, v)?;
    reduce(cx, chosen, &[dim], Reducer::Sum)
}

/// The lower median and its place along a dimension that then disappears.
fn median_along(cx: &mut Cx<'_, '_>, x: Value, dim: i64, ignore_nan: bool) -> Result<(Value, Value)> {
    let n = cx.dims(x)?[dim as usize];
    let (values, places) = sorted(cx, x, dim, false)?;
    let nan = is_nan(cx, values)?;
    let nan = cx.f.convert(nan, ElementType::S32)?;
    let nans = reduce(cx, nan, &[dim], Reducer::Sum)?;
    let size = cx.full_like(nans, n)?;
    let numbers = cx.f.subtract(size, nans)?;
    let one = cx.full_like(nans, 1)?;
    let at = if ignore_nan {
        let zero = cx.full_like(nans, 0)?;
        let last = cx.f.subtract(numbers, one)?;
        let last = cx.f.maximum(last, zero)?;
        cx.f.shift_right_logical(last, one)?
    } else {
        // The first NaN, if there is one, which is where the numbers end.
        let middle = cx.full_like(nans, (n - 1) / 2)?;
        let any = cx.truth(nans)?;
        cx.f.select(any, numbers, middle)?
    };
    Ok((take(cx, values, at, dim)?, take(cx, places, at, dim)?))
}

fn median_op(cx: &mut Cx<'_, '_>, ignore_nan: bool) -> Lowered {
    if cx.has("dim") {
        let (x, dims, dim) = subject(cx)?;
        // torch names both after the first.
        require_elements("median", &dims, dim)?;
        let (values, places) = median_along(cx, x, dim, ignore_nan)?;
        return shaped(cx, values, places);
    }
    let x = cx.tensor("self")?;
    let n: i64 = cx.dims(x)?.iter().product();
    if n == 0 {
        let element = cx.out(0)?.element;
        let none = if element.is_float() {
            stablehlo::Number::Float(f64::NAN)
        } else {
            super::reduction::extreme(element, false)
        };
        return Ok(cx.full(&[], element, none)?.into());
    }
    let x = cx.reshape(x, &[n])?;
    Ok(median_along(cx, x, 0, ignore_nan)?.0.into())
}

fn median(cx: &mut Cx<'_, '_>) -> Lowered {
    median_op(cx, false)
}

fn nanmedian(cx: &mut Cx<'_, '_>) -> Lowered {
    median_op(cx, true)
}

/// The most frequent value, the least of several, and its last place.
fn mode(cx: &mut Cx<'_, '_>) -> Lowered {
    let (x, dims, dim) = subject(cx)?;
    require_elements("mode", &dims, dim)?;
    let n = dims[dim as usize];
    let (values, places) = sorted(cx, x, dim, false)?;
    let place = cx.f.iota(dims.as_slice(), ElementType::S32, dim)?;
    // Where a run of equal values starts: everywhere that the value before differs.
    let starts = if n > 1 {
        let before = section(cx, values, dim, 0, n - 1)?;
        let after = section(cx, values, dim, 1, n - 1)?;
        let differ = compare(cx, before, after, Direction::Ne)?;
        let (na, nb) = (is_nan(cx, before)?, is_nan(cx, after)?);
        let both = cx.f.and(na, nb)?;
        let number = cx.f.not(both)?;
        let differ = cx.f.and(differ, number)?;
        let inner = section(cx, place, dim, 1, n - 1)?;
        let same = cx.f.not(differ)?;
        let inner = replace(cx, same, 0, inner)?;
        let first = section(cx, place, dim, 0, 1)?;
        let marks = cx.f.concatenate(&[first, inner], dim)?;
        super::scan::running(cx, &[marks], dim, |cx, a, b| Ok(vec![cx.f.maximum(a[0], b[0])?]))?[0]
    } else {
        place
    };
    let length = cx.f.subtract(place, starts)?;
    let longest = reduce(cx, length, &[dim], Reducer::Max)?;
    let at = first_index_of(cx, length, longest, dim)?;
    let (values, places) = (take(cx, values, at, dim)?, take(cx, places, at, dim)?);
    shaped(cx, values, places)
}

pub(crate) const OPS: &[OpDef] = &[
    OpDef::new("sort", sort),
    OpDef::new("topk", topk),
    OpDef::new("kthvalue", kthvalue),
    OpDef::new("median", median),
    OpDef::new("nanmedian", nanmedian),
    OpDef::new("mode", mode),
];
