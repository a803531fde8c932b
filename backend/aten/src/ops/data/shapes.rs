//! cat, stack, flip, roll, rot90, repeat, constant_pad_nd, narrow_copy, block_diag, unfold_copy.

use stablehlo::Value;

use super::util::{at_least_1d, count, positions, slice_dim, take_rows, zero, zeros};
use crate::cx::wrap_dim;
use crate::layout::{channels_last_as_self, is_channels_last, lies};
use crate::{Arg, Call, Cx, ElementType, Lowered, Made, OpDef, Result};

fn cat(cx: &mut Cx<'_, '_>) -> Lowered {
    let out = cx.out(0)?;
    let dim = cx.opt_int("dim")?.unwrap_or(0);
    let dim = wrap_dim(dim, out.dims.len()) as usize;
    let mut parts = Vec::new();
    for t in cx.tensors("tensors")? {
        // An empty vector joins anything, for old times' sake; what else is empty along `dim` adds nothing.
        let dims = cx.dims(t)?;
        if dims.len() != out.dims.len() || dims[dim] == 0 {
            continue;
        }
        parts.push(cx.cast(t, out.element)?);
    }
    if parts.is_empty() {
        return Ok(zeros(cx, &out.dims, out.element)?.into());
    }
    Ok(cx.f.concatenate(&parts, dim as i64)?.into())
}

fn stack(cx: &mut Cx<'_, '_>) -> Lowered {
    let out = cx.out(0)?;
    let dim = cx.opt_int("dim")?.unwrap_or(0);
    let dim = wrap_dim(dim, out.dims.len()) as usize;
    let mut parts = Vec::new();
    for t in cx.tensors("tensors")? {
        let t = cx.cast(t, out.element)?;
        let mut dims = cx.dims(t)?;
        dims.insert(dim, 1);
        parts.push(cx.reshape(t, &dims)?);
    }
    Ok(cx.f.concatenate(&parts, dim as i64)?.into())
}

fn flip(cx: &mut Cx<'_, '_>) -> Lowered {
    let v = cx.tensor("self")?;
    let rank = cx.rank(v)?;
    if rank == 0 {
        return Ok(v.into());
    }
    let dims: Vec<i64> = cx.ints("dims")?.iter().map(|d| wrap_dim(*d, rank)).collect();
    Ok(cx.f.reverse(v, &dims)?.into())
}

/// Shifts a dimension round.
fn roll_dim(cx: &mut Cx<'_, '_>, v: Value, dim: usize, shift: i64) -> Result<Value> {
    let size = cx.dims(v)?[dim];
    if size == 0 {
        return Ok(v);
    }
    let by = shift.rem_euclid(size);
    if by == 0 {
        return Ok(v);
    }
    let tail = slice_dim(cx, v, dim, size - by, size, 1)?;
    let front = slice_dim(cx, v, dim, 0, size - by, 1)?;
    Ok(cx.f.concatenate(&[tail, front], dim as i64)?)
}

fn roll(cx: &mut Cx<'_, '_>) -> Lowered {
    let v = cx.tensor("self")?;
    let (shifts, dims) = (cx.ints("shifts")?, cx.ints("dims")?);
    let sizes = cx.dims(v)?;
    if dims.is_empty() {
        let flat = cx.reshape(v, &[count(&sizes)])?;
        let rolled = roll_dim(cx, flat, 0, shifts.first().copied().unwrap_or(0))?;
        return Ok(cx.reshape(rolled, &sizes)?.into());
    }
    if sizes.is_empty() {
        return Ok(v.into());
    }
    let mut rolled = v;
    for (dim, shift) in dims.iter().zip(&shifts) {
        rolled = roll_dim(cx, rolled, wrap_dim(*dim, sizes.len()) as usize, *shift)?;
    }
    Ok(rolled.into())
}

/// CPU torch puts pieces together, which keeps channels last.
fn rolled(call: &Call, all: &[&[i64]], made: &mut [Option<Made>]) {
    if let Some((dims, strides)) = lies(call, all, "self")
        && is_channels_last(dims, strides)
        && !matches!(call.arg("dims"), Some(Arg::Ints(dims)) if dims.is_empty())
    {
        channels_last_as_self(call, all, made);
    }
}

fn rot90(cx: &mut Cx<'_, '_>) -> Lowered {
    let v = cx.tensor("self")?;
    let rank = cx.rank(v)?;
    let k = cx.opt_int("k")?.unwrap_or(1).rem_euclid(4);
    let dims = cx.ints("dims")?;
    let (a, b) = match dims.as_slice() {
        [a, b] => (wrap_dim(*a, rank), wrap_dim(*b, rank)),
        _ => (0, 1),
    };
    let mut order: Vec<i64> = (0..rank as i64).collect();
    order.swap(a as usize, b as usize);
    Ok(match k {
        1 => {
            let v = cx.f.reverse(v, &[b])?;
            cx.f.transpose(v, &order)?
        }
        2 => cx.f.reverse(v, &[a, b])?,
        3 => {
            let v = cx.f.reverse(v, &[a])?;
            cx.f.transpose(v, &order)?
        }
        _ => v,
    }
    .into())
}

fn repeat(cx: &mut Cx<'_, '_>) -> Lowered {
    let out = cx.out(0)?;
    let v = cx.tensor("self")?;
    let dims = cx.dims(v)?;
    let repeats = cx.ints("repeats")?;
    let missing = repeats.len() - dims.len();
    // Each dimension as (repeats, size), then merged.
    let mut wide = Vec::new();
    let mut at = Vec::new();
    for (i, &r) in repeats.iter().enumerate() {
        wide.push(r);
        if i >= missing {
            at.push(wide.len() as i64);
            wide.push(dims[i - missing]);
        }
    }
    let spread = cx.f.broadcast_in_dim(v, wide.as_slice(), &at)?;
    Ok(cx.reshape(spread, &out.dims)?.into())
}

fn constant_pad_nd(cx: &mut Cx<'_, '_>) -> Lowered {
    let v = cx.tensor("self")?;
    let (rank, element) = (cx.rank(v)?, cx.element(v)?);
    let pad = cx.ints("pad")?;
    let value = match cx.opt_scalar("value", element)? {
        Some(value) => value,
        None => zero(cx, element)?,
    };
    let (mut low, mut high) = (vec![0; rank], vec![0; rank]);
    for (i, pair) in pad.chunks_exact(2).enumerate() {
        (low[rank - 1 - i], high[rank - 1 - i]) = (pair[0], pair[1]);
    }
    Ok(cx.f.pad(v, value, &low, &high, &vec![0; rank])?.into())
}

fn narrow_copy(cx: &mut Cx<'_, '_>) -> Lowered {
    let v = cx.tensor("self")?;
    let dims = cx.dims(v)?;
    let dim = cx.dim("dim", dims.len())? as usize;
    let start = cx.int("start")?;
    let start = if start < 0 { start + dims[dim] } else { start };
    let length = cx.int("length")?;
    Ok(slice_dim(cx, v, dim, start, start + length, 1)?.into())
}

fn block_diag(cx: &mut Cx<'_, '_>) -> Lowered {
    let out = cx.out(0)?;
    let width = out.dims[1];
    let fill = zero(cx, out.element)?;
    let mut rows = Vec::new();
    let mut before = 0;
    for t in cx.tensors("tensors")? {
        let t = cx.cast(t, out.element)?;
        let dims = cx.dims(t)?;
        let (r, c) = match dims.as_slice() {
            [] => (1, 1),
            [c] => (1, *c),
            [r, c, ..] => (*r, *c),
        };
        let block = cx.reshape(t, &[r, c])?;
        rows.push(cx.f.pad(block, fill, &[0, before], &[0, width - before - c], &[0, 0])?);
        before += c;
    }
    Ok(cx.f.concatenate(&rows, 0)?.into())
}

fn unfold_copy(cx: &mut Cx<'_, '_>) -> Lowered {
    let out = cx.out(0)?;
    let v = cx.tensor("self")?;
    let v = at_least_1d(cx, v)?;
    let rank = cx.rank(v)?;
    let dim = cx.dim("dimension", rank)? as usize;
    let (size, step) = (cx.int("size")?, cx.int("step")?);
    if count(&out.dims) == 0 {
        return Ok(zeros(cx, &out.dims, out.element)?.into());
    }
    let windows = out.dims[dim];
    // Rows at window * step + offset, with the dimension in front.
    let base = positions(cx, &[windows, size], 0, ElementType::S32)?;
    let by = cx.full_like(base, step)?;
    let base = cx.f.multiply(base, by)?;
    let offset = positions(cx, &[windows, size], 1, ElementType::S32)?;
    let at = cx.f.add(base, offset)?;
    let at = cx.reshape(at, &[windows * size])?;
    let front = super::util::move_dim(cx, v, dim, 0)?;
    let rows = take_rows(cx, front, at)?;
    let mut dims = cx.dims(rows)?;
    dims[0] = windows;
    dims.insert(1, size);
    let rows = cx.reshape(rows, &dims)?;
    let last = dims.len() - 1;
    let rows = super::util::move_dim(cx, rows, 1, last)?;
    let placed = super::util::move_dim(cx, rows, 0, dim)?;
    Ok(cx.reshape(placed, &out.dims)?.into())
}

pub(crate) const OPS: &[OpDef] = &[
    OpDef::new("cat", cat),
    OpDef::new("stack", stack),
    OpDef::new("_stack", stack),
    OpDef::new("flip", flip),
    OpDef::new("roll", roll).amend(rolled),
    OpDef::new("rot90", rot90),
    OpDef::new("repeat", repeat),
    OpDef::new("constant_pad_nd", constant_pad_nd).fits_computed(&["value"]),
    OpDef::new("narrow_copy", narrow_copy),
    OpDef::new("block_diag", block_diag),
    OpDef::new("unfold_copy", unfold_copy),
];
