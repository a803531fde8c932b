//! cumsum and kin: running reductions along a dimension.

use stablehlo::Value;
use stablehlo::ops::Direction;

use super::arithmetic::{multiply, plus};
use super::common::{at_least_1d, compare, is_nan};
use crate::{Cx, ElementType, Lowered, OpDef, Result, compute_type};

/// Combines what went before with what follows.
pub(crate) type Combine = fn(&mut Cx<'_, '_>, &[Value], &[Value]) -> Result<Vec<Value>>;

/// Every `step`-th element from `start` to `limit` along a dimension.
fn every(cx: &mut Cx<'_, '_>, v: Value, dim: i64, [start, limit, step]: [i64; 3]) -> Result<Value> {
    let dims = cx.dims(v)?;
    let mut starts = vec![0; dims.len()];
    let mut limits = dims.to_vec();
    let mut steps = vec![1; dims.len()];
    starts[dim as usize] = start;
    limits[dim as usize] = limit;
    steps[dim as usize] = step;
    Ok(cx.f.slice(v, &starts, &limits, &steps)?)
}

/// First of `a`, first of `b`, second of `a`, ...; `a` may have one element more.
fn interleave(cx: &mut Cx<'_, '_>, a: Value, b: Value, dim: i64) -> Result<Value> {
    let (na, nb) = (cx.dims(a)?[dim as usize], cx.dims(b)?[dim as usize]);
    let head = every(cx, a, dim, [0, nb, 1])?;
    let mut dims = cx.dims(b)?;
    let mut paired = dims.clone();
    paired.insert(dim as usize + 1, 1);
    let (x, y) = (cx.reshape(head, &paired)?, cx.reshape(b, &paired)?);
    let both = cx.f.concatenate(&[x, y], dim + 1)?;
    dims[dim as usize] = 2 * nb;
    let both = cx.reshape(both, &dims)?;
    if na == nb {
        return Ok(both);
    }
    let tail = every(cx, a, dim, [nb, na, 1])?;
    Ok(cx.f.concatenate(&[both, tail], dim)?)
}

/// Running values of an associative combination, in a number of steps that grows with the logarithm of the length.
pub(crate) fn running(
    cx: &mut Cx<'_, '_>,
    values: &[Value],
    dim: i64,
    combine: Combine,
) -> Result<Vec<Value>> {
    let Some(first) = values.first() else {
        return Ok(Vec::new());
    };
    let n = cx.dims(*first)?[dim as usize];
    if n < 2 || cx.dims(*first)?.contains(&0) {
        return Ok(values.to_vec());
    }
    let slices = |cx: &mut Cx<'_, '_>, all: &[Value], range: [i64; 3]| -> Result<Vec<Value>> {
        all.iter().map(|v| every(cx, *v, dim, range)).collect()
    };
    let half = n / 2;
    let left = slices(cx, values, [0, 2 * half, 2])?;
    let right = slices(cx, values, [1, 2 * half, 2])?;
    let pairs = combine(cx, &left, &right)?;
    // Running values at the odd places; the even ones add one element to the odd one before.
    let odd = running(cx, &pairs, dim, combine)?;
    let evens = (n + 1) / 2;
    let first = slices(cx, values, [0, 1, 1])?;
    let even = if evens == 1 {
        first
    } else {
        let before = slices(cx, &odd, [0, evens - 1, 1])?;
        let next = slices(cx, values, [2, n, 2])?;
        let later = combine(cx, &before, &next)?;
        let mut all = Vec::with_capacity(later.len());
        for (a, b) in first.into_iter().zip(later) {
            all.push(cx.f.concatenate(&[a, b], dim)?);
        }
        all
    };
    even.into_iter()
        .zip(odd)
        .map(|(a, b)| interleave(cx, a, b, dim))
        .collect()
}

/// A running reduction of `self` in this type.
fn running_op(cx: &mut Cx<'_, '_>, element: ElementType, combine: Combine) -> Lowered {
    let x = cx.tensor("self")?;
    let x = cx.cast(x, element)?;
    let (x, dims) = at_least_1d(cx, x)?;
    let dim = cx.dim("dim", dims.len())?;
    let done = running(cx, &[x], dim, combine)?;
    let out = cx.out(0)?.dims.clone();
    Ok(cx.reshape(done[0], &out)?.into())
}

fn cumsum(cx: &mut Cx<'_, '_>) -> Lowered {
    let element = compute_type(cx.out(0)?.element);
    running_op(cx, element, |cx, a, b| Ok(vec![plus(cx, a[0], b[0])?]))
}

fn cumprod(cx: &mut Cx<'_, '_>) -> Lowered {
    let element = compute_type(cx.out(0)?.element);
    running_op(cx, element, |cx, a, b| Ok(vec![multiply(cx, a[0], b[0])?]))
}

fn logcumsumexp(cx: &mut Cx<'_, '_>) -> Lowered {
    let element = compute_type(cx.out(0)?.element);
    running_op(cx, element, |cx, a, b| {
        Ok(vec![super::exponential::log_of_sum(cx, a[0], b[0], false)?])
    })
}

/// The later of a value and its place wins when it is as good, or NaN while the other is not.
fn better(cx: &mut Cx<'_, '_>, a: &[Value], b: &[Value], direction: Direction) -> Result<Vec<Value>> {
    let (na, nb) = (is_nan(cx, a[0])?, is_nan(cx, b[0])?);
    let wins = compare(cx, b[0], a[0], direction)?;
    let number = cx.f.not(na)?;
    let wins = cx.f.and(wins, number)?;
    let wins = cx.f.or(nb, wins)?;
    Ok(vec![
        cx.f.select(wins, b[0], a[0])?,
        cx.f.select(wins, b[1], a[1])?,
    ])
}

fn with_places(cx: &mut Cx<'_, '_>, combine: Combine) -> Lowered {
    let x = cx.tensor("self")?;
    let (x, dims) = at_least_1d(cx, x)?;
    let dim = cx.dim("dim", dims.len())?;
    let places = cx.f.iota(dims.as_slice(), ElementType::S32, dim)?;
    let done = running(cx, &[x, places], dim, combine)?;
    let out = cx.out(0)?.dims.clone();
    Ok((cx.reshape(done[0], &out)?, cx.reshape(done[1], &out)?).into())
}

fn cummax(cx: &mut Cx<'_, '_>) -> Lowered {
    with_places(cx, |cx, a, b| better(cx, a, b, Direction::Ge))
}

fn cummin(cx: &mut Cx<'_, '_>) -> Lowered {
    with_places(cx, |cx, a, b| better(cx, a, b, Direction::Le))
}

pub(crate) const OPS: &[OpDef] = &[
    OpDef::new("cumsum", cumsum),
    OpDef::new("cumprod", cumprod),
    OpDef::new("logcumsumexp", logcumsumexp),
    OpDef::new("_logcumsumexp", logcumsumexp),
    OpDef::new("cummax", cummax),
    OpDef::new("cummin", cummin),
    OpDef::new("_cummax_helper", cummax),
    OpDef::new("_cummin_helper", cummin),
];
