//! segment_reduce and its gradient.
//!
//! Every segment is compared with every place along the axis, in one fused loop without a scatter: quadratic in work, but
//! of no memory, and no order of additions is left to chance.

use stablehlo::Value;
use stablehlo::ops::Direction;

use super::common::{compare, compare_to, is_nan, replace, scale};
use super::reduction::{Reducer, extreme, reduce};
use super::scan::running;
use crate::{Cx, ElementType, Error, ErrorKind, Lowered, OpDef, Result};

/// The places of segments along an axis: `outer` rows of `n` places in `count` segments, of `inner` elements each.
struct Segments {
    outer: i64,
    n: i64,
    inner: i64,
    count: i64,
    /// Sizes of the segments, `(outer, count)`.
    lengths: Value,
    /// Which place belongs to which segment, `(outer, count, n)`.
    member: Value,
}

/// Parts of the last dimension of a matrix.
fn columns(cx: &mut Cx<'_, '_>, v: Value, from: i64, to: i64) -> Result<Value> {
    let rows = cx.dims(v)?[0];
    Ok(cx.f.slice(v, &[0, from], &[rows, to], &[1, 1])?)
}

fn segments(cx: &mut Cx<'_, '_>, sizes: &[i64]) -> Result<Segments> {
    let axis = cx.dim("axis", sizes.len())? as usize;
    let (outer, n) = (sizes[..axis].iter().product(), sizes[axis]);
    let inner = sizes[axis + 1..].iter().product();
    let (starts, ends, lengths) = if let Some(lengths) = cx.opt_tensor("lengths")? {
        let count = cx.dims(lengths)?.last().copied().unwrap_or(1);
        let lengths = cx.cast(lengths, ElementType::S64)?;
        let lengths = cx.reshape(lengths, &[outer, count])?;
        let ends = running(cx, &[lengths], 1, |cx, a, b| Ok(vec![cx.f.add(a[0], b[0])?]))?[0];
        (cx.f.subtract(ends, lengths)?, ends, lengths)
    } else if let Some(offsets) = cx.opt_tensor("offsets")? {
        let count = cx.dims(offsets)?.last().copied().unwrap_or(1);
        let offsets = cx.cast(offsets, ElementType::S64)?;
        let offsets = cx.reshape(offsets, &[outer, count])?;
        let (starts, ends) = (
            columns(cx, offsets, 0, count - 1)?,
            columns(cx, offsets, 1, count)?,
        );
        (starts, ends, cx.f.subtract(ends, starts)?)
    } else {
        return Err(Error::unsupported("segments given by indices"));
    };
    let count = cx.dims(lengths)?[1];
    let cube = [outer, count, n];
    let place = cx.f.iota(&cube, ElementType::S64, 2)?;
    let starts = cx.f.broadcast_in_dim(starts, &cube, &[0, 1])?;
    let ends = cx.f.broadcast_in_dim(ends, &cube, &[0, 1])?;
    let (after, before) = (
        compare(cx, place, starts, Direction::Ge)?,
        compare(cx, place, ends, Direction::Lt)?,
    );
    Ok(Segments {
        outer,
        n,
        inner,
        count,
        lengths,
        member: cx.f.and(after, before)?,
    })
}

impl Segments {
    fn flat(&self) -> [i64; 3] {
        [self.outer, self.n, self.inner]
    }

    fn reduced(&self) -> [i64; 3] {
        [self.outer, self.count, self.inner]
    }

    fn members(&self, cx: &mut Cx<'_, '_>) -> Result<Value> {
        let all = [self.outer, self.count, self.n, self.inner];
        Ok(cx.f.broadcast_in_dim(self.member, &all, &[0, 1, 2])?)
    }

    /// `(outer, n, inner)` reduced to `(outer, count, inner)`.
    fn gather(&self, cx: &mut Cx<'_, '_>, v: Value, by: Reducer) -> Result<Value> {
        let element = cx.element(v)?;
        let none = match by {
            Reducer::Max => extreme(element, false),
            Reducer::Min => extreme(element, true),
            Reducer::Product => stablehlo::Number::Int(1),
            _ => stablehlo::Number::Int(0),
        };
        let all = [self.outer, self.count, self.n, self.inner];
        let v = cx.f.broadcast_in_dim(v, &all, &[0, 2, 3])?;
        let members = self.members(cx)?;
        let others = cx.f.not(members)?;
        let v = replace(cx, others, none, v)?;
        reduce(cx, v, &[2], by)
    }

    /// `(outer, count, inner)` given to each place of its segment, zero to places in none.
    fn spread(&self, cx: &mut Cx<'_, '_>, v: Value) -> Result<Value> {
        let all = [self.outer, self.count, self.n, self.inner];
        let v = cx.f.broadcast_in_dim(v, &all, &[0, 1, 3])?;
        let members = self.members(cx)?;
        let others = cx.f.not(members)?;
        let v = replace(cx, others, 0, v)?;
        reduce(cx, v, &[1], Reducer::Sum)
    }

    /// Sizes of the segments as floats, `(outer, count, inner)`.
    fn sizes(&self, cx: &mut Cx<'_, '_>, element: ElementType) -> Result<Value> {
        let v = cx.cast(self.lengths, element)?;
        Ok(cx.f.broadcast_in_dim(v, &self.reduced(), &[0, 1])?)
    }

    /// Torch's conditions on lengths: none negative, and all places used unless the caller vouches.
    fn check(&self, cx: &mut Cx<'_, '_>) -> Result<()> {
        if !cx.has("lengths") {
            return Ok(());
        }
        let zero = cx.full(&[], ElementType::S64, 0)?;
        let fine = compare_to(cx, self.lengths, Direction::Ge, 0)?;
        let ok = reduce(cx, fine, &[0, 1], Reducer::All)?;
        cx.check(ok, zero, ErrorKind::Runtime, "lengths contains negative value!");
        if !cx.bool("unsafe")? {
            let sums = reduce(cx, self.lengths, &[1], Reducer::Sum)?;
            let fine = compare_to(cx, sums, Direction::Eq, self.n)?;
            let ok = reduce(cx, fine, &[0], Reducer::All)?;
            cx.check(
                ok,
                zero,
                ErrorKind::Runtime,
                "segment_reduce(): Expected all rows of lengths along axis to sum to data.size(lengths.dim()-1) when \
                 !unsafe.",
            );
        }
        Ok(())
    }
}

/// What a segment is reduced by; the mean is a sum that is divided later.
fn reducer(cx: &Cx<'_, '_>) -> Result<(Reducer, bool)> {
    Ok(match cx.str("reduce")? {
        Some("max") => (Reducer::Max, false),
        Some("min") => (Reducer::Min, false),
        Some("prod") => (Reducer::Product, false),
        Some("mean") => (Reducer::Sum, true),
        Some("sum") => (Reducer::Sum, false),
        other => return Err(Error::unsupported(format!("segment_reduce by {other:?}"))),
    })
}

fn segment_reduce(cx: &mut Cx<'_, '_>) -> Lowered {
    let out = cx.out(0)?.dims.clone();
    let data = cx.tensor("data")?;
    let data = cx.up(data)?;
    let (sizes, element) = (cx.dims(data)?, cx.element(data)?);
    let (by, mean) = reducer(cx)?;
    let s = segments(cx, &sizes)?;
    s.check(cx)?;
    let v = cx.reshape(data, &s.flat())?;
    let mut v = s.gather(cx, v, by)?;
    let initial = cx.opt_scalar("initial", element)?;
    if let Some(initial) = initial {
        let initial = cx.broadcast_to(initial, &s.reduced())?;
        v = match by {
            Reducer::Max => cx.f.maximum(v, initial)?,
            Reducer::Min => cx.f.minimum(v, initial)?,
            Reducer::Product => cx.f.multiply(v, initial)?,
            _ => cx.f.add(v, initial)?,
        };
    }
    if mean {
        // An empty segment keeps what it starts from.
        let n = s.sizes(cx, element)?;
        let empty = compare_to(cx, n, Direction::Eq, 0)?;
        let quotient = cx.f.divide(v, n)?;
        v = match initial {
            Some(_) => cx.f.select(empty, v, quotient)?,
            None => replace(cx, empty, f64::NAN, quotient)?,
        };
    }
    Ok(cx.reshape(v, &out)?.into())
}

fn segment_reduce_backward(cx: &mut Cx<'_, '_>) -> Lowered {
    let (data, output, grad) = (cx.tensor("data")?, cx.tensor("output")?, cx.tensor("grad")?);
    let (data, output, grad) = (cx.up(data)?, cx.up(output)?, cx.up(grad)?);
    let (sizes, element) = (cx.dims(data)?, cx.element(data)?);
    let (by, mean) = reducer(cx)?;
    let s = segments(cx, &sizes)?;
    let data = cx.reshape(data, &s.flat())?;
    let output = cx.reshape(output, &s.reduced())?;
    let grad = cx.reshape(grad, &s.reduced())?;
    let given = match by {
        Reducer::Max | Reducer::Min => chosen(cx, &s, data, output, grad)?,
        Reducer::Product => product(cx, &s, data, output, grad)?,
        _ if mean => {
            let n = s.sizes(cx, element)?;
            let part = cx.f.divide(grad, n)?;
            s.spread(cx, part)?
        }
        _ => s.spread(cx, grad)?,
    };
    Ok(cx.reshape(given, &sizes)?.into())
}

/// To the elements that are the extreme one, or NaN. As on the CPU they share a gradient only where it is positive.
fn chosen(cx: &mut Cx<'_, '_>, s: &Segments, data: Value, output: Value, grad: Value) -> Result<Value> {
    let element = cx.element(data)?;
    let here = s.spread(cx, output)?;
    let same = compare(cx, data, here, Direction::Eq)?;
    let nan = is_nan(cx, data)?;
    let taken = cx.f.or(same, nan)?;
    let ones = cx.cast(taken, element)?;
    let count = s.gather(cx, ones, Reducer::Sum)?;
    let shared = cx.f.divide(grad, count)?;
    let several = compare_to(cx, count, Direction::Gt, 1)?;
    let positive = compare_to(cx, grad, Direction::Gt, 0)?;
    let share = cx.f.and(several, positive)?;
    let given = cx.f.select(share, shared, grad)?;
    let given = s.spread(cx, given)?;
    let left = cx.f.not(taken)?;
    replace(cx, left, 0, given)
}

/// The product of the others: by division, or where an element is zero or NaN without it.
fn product(cx: &mut Cx<'_, '_>, s: &Segments, data: Value, output: Value, grad: Value) -> Result<Value> {
    let element = cx.element(data)?;
    let scaled = cx.f.multiply(grad, output)?;
    let scaled = s.spread(cx, scaled)?;
    let usual = cx.f.divide(scaled, data)?;
    let (zero, nan) = (compare_to(cx, data, Direction::Eq, 0)?, is_nan(cx, data)?);
    let special = cx.f.or(zero, nan)?;
    let rest = replace(cx, special, 1, data)?;
    let mut rest = s.gather(cx, rest, Reducer::Product)?;
    if let Some(initial) = cx.opt_scalar("initial", element)? {
        let initial = cx.broadcast_to(initial, &s.reduced())?;
        rest = cx.f.multiply(rest, initial)?;
    }
    let rest = cx.f.multiply(rest, grad)?;
    let mut rest = s.spread(cx, rest)?;
    for (mask, by) in [(zero, 0.0), (nan, f64::NAN)] {
        let own = cx.cast(mask, element)?;
        let all = s.gather(cx, own, Reducer::Sum)?;
        let all = s.spread(cx, all)?;
        let others = cx.f.subtract(all, own)?;
        let some = compare_to(cx, others, Direction::Gt, 0)?;
        let spoiled = scale(cx, rest, by)?;
        rest = cx.f.select(some, spoiled, rest)?;
    }
    Ok(cx.f.select(special, rest, usual)?)
}

pub(crate) const OPS: &[OpDef] = &[
    OpDef::new("segment_reduce", segment_reduce),
    OpDef::new("_segment_reduce_backward", segment_reduce_backward),
];
