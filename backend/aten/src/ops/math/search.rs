//! searchsorted and bucketize.

use stablehlo::Value;
use stablehlo::ops::{Direction, GatherDimensions};

use super::common::common_type;
use crate::{Cx, ElementType, Error, ErrorKind, Lowered, OpDef, Result};

/// Up to this many boundaries each value is compared with all of them, in one fused loop without a gather.
const COMPARE_ALL: i64 = 2048;

/// Elements of a flat tensor.
fn pick(cx: &mut Cx<'_, '_>, flat: Value, at: Value) -> Result<Value> {
    let rank = cx.rank(at)? as i64;
    let dimensions = GatherDimensions {
        collapsed_slice_dims: vec![0],
        start_index_map: vec![0],
        index_vector_dim: rank,
        ..GatherDimensions::default()
    };
    Ok(cx.f.gather(flat, at, &dimensions, &[1], false)?)
}

/// Places of `values` (rows, m) in the sorted rows of `sequence` (rows, n).
pub(crate) fn places(cx: &mut Cx<'_, '_>, sequence: Value, values: Value, right: bool) -> Result<Value> {
    // A value goes past all that are not at least (or, to the right, not more than) it; so NaN goes to the end.
    let direction = if right { Direction::Gt } else { Direction::Ge };
    let shape = cx.dims(sequence)?;
    let (rows, n) = (shape[0], shape[1]);
    let m = cx.dims(values)?[1];
    if n <= COMPARE_ALL {
        let cube = [rows, m, n];
        let s = cx.f.broadcast_in_dim(sequence, &cube, &[0, 2])?;
        let v = cx.f.broadcast_in_dim(values, &cube, &[0, 1])?;
        let stop = cx.f.compare(s, v, direction)?;
        let past = cx.f.not(stop)?;
        let past = cx.f.convert(past, ElementType::S32)?;
        return super::reduction::reduce(cx, past, &[2], super::reduction::Reducer::Sum);
    }
    let flat = cx.reshape(sequence, &[rows * n])?;
    let row = cx.f.iota(&[rows, m], ElementType::S64, 0)?;
    let width = cx.full_like(row, n)?;
    let base = cx.f.multiply(row, width)?;
    let (mut low, mut high) = (cx.full_like(row, 0)?, width);
    let one = cx.full_like(row, 1)?;
    for _ in 0..=n.ilog2() {
        let sum = cx.f.add(low, high)?;
        let middle = cx.f.shift_right_logical(sum, one)?;
        let at = cx.f.add(base, middle)?;
        let found = pick(cx, flat, at)?;
        let stop = cx.f.compare(found, values, direction)?;
        let open = cx.f.compare(low, high, Direction::Lt)?;
        let go = cx.f.not(stop)?;
        let up = cx.f.and(open, go)?;
        let down = cx.f.and(open, stop)?;
        let next = cx.f.add(middle, one)?;
        low = cx.f.select(up, next, low)?;
        high = cx.f.select(down, middle, high)?;
    }
    Ok(low)
}

/// How many of a row (1, n) C++'s `upper_bound` would step over for each value (1, m), also where the row is not sorted.
pub(crate) fn search_like_torch(cx: &mut Cx<'_, '_>, sequence: Value, values: Value) -> Result<Value> {
    let n = cx.dims(sequence)?[1];
    let flat = cx.reshape(sequence, &[n])?;
    let mut first = cx.f.iota(cx.dims(values)?.as_slice(), ElementType::S64, 0)?;
    let one = cx.full_like(first, 1)?;
    let last = cx.full_like(first, n - 1)?;
    let mut left = cx.full_like(first, n)?;
    for _ in 0..=n.ilog2() {
        let half = cx.f.shift_right_logical(left, one)?;
        let middle = cx.f.add(first, half)?;
        let at = cx.f.minimum(middle, last)?;
        let found = pick(cx, flat, at)?;
        let stop = cx.f.compare(values, found, Direction::Lt)?;
        let zero = cx.full_like(left, 0)?;
        let open = cx.f.compare(left, zero, Direction::Gt)?;
        let go = cx.f.not(stop)?;
        let up = cx.f.and(open, go)?;
        let next = cx.f.add(middle, one)?;
        first = cx.f.select(up, next, first)?;
        let rest = cx.f.subtract(left, half)?;
        let rest = cx.f.subtract(rest, one)?;
        let less = cx.f.select(stop, half, rest)?;
        left = cx.f.select(open, less, zero)?;
    }
    Ok(first)
}

fn search(cx: &mut Cx<'_, '_>, sequence_name: &str, values_name: &str) -> Lowered {
    let element = common_type(cx, &[sequence_name, values_name])?;
    let right = cx.bool("right")? || cx.str("side")? == Some("right");
    let mut sequence = cx.tensor(sequence_name)?;
    sequence = cx.cast(sequence, element)?;
    let values = cx.operand(values_name, element)?;
    let shape = cx.dims(sequence)?;
    let n = shape.last().copied().unwrap_or(1);
    let out = cx.out(0)?.dims.clone();
    let total: i64 = out.iter().product();
    if total == 0 {
        return Ok(cx.full(&out, ElementType::S32, 0)?.into());
    }
    let rows: i64 = shape.iter().rev().skip(1).product();
    if let Some(sorter) = cx.opt_tensor("sorter")? {
        let sorter = cx.reshape(sorter, &[rows, n])?;
        let row = cx.f.iota(&[rows, n], ElementType::S64, 0)?;
        let width = cx.full_like(row, n)?;
        let base = cx.f.multiply(row, width)?;
        let at = cx.f.add(base, sorter)?;
        let flat = cx.reshape(sequence, &[rows * n])?;
        sequence = pick(cx, flat, at)?;
    }
    let sequence = cx.reshape(sequence, &[rows, n])?;
    let values = cx.reshape(values, &[rows, total / rows])?;
    let found = places(cx, sequence, values, right)?;
    Ok(cx.reshape(found, &out)?.into())
}

fn searchsorted(cx: &mut Cx<'_, '_>) -> Lowered {
    search(cx, "sorted_sequence", "self")
}

fn bucketize(cx: &mut Cx<'_, '_>) -> Lowered {
    let rank = cx.meta("boundaries")?.dims.len();
    if rank != 1 {
        return Err(Error::user(
            ErrorKind::Runtime,
            format!("boundaries tensor must be 1 dimension, but got dim({rank})"),
        ));
    }
    search(cx, "boundaries", "self")
}

pub(crate) const OPS: &[OpDef] = &[
    OpDef::new("searchsorted", searchsorted),
    OpDef::new("bucketize", bucketize),
];
