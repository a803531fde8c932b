//! nonzero, masked_select, bincount, repeat_interleave, nonzero_static: results as large as the data say.

use dtype::ElementType;
use smallvec::SmallVec;
use stablehlo::Value;
use stablehlo::ops::Direction;

use super::util::{
    Combine, all_axes, all_true, compare_to, count, count_true, index_type, positions_of, prefix_sum, reduce,
    take_flat, unravel, zero, zeros,
};
use crate::cx::broadcast_dims;
use crate::{Arg, Call, Cx, Error, ErrorKind, Lowered, OpDef, OutMeta, Result, TensorMeta};

/// Metadata of a tensor argument.
pub(crate) fn meta_of<'c>(call: &'c Call, name: &str) -> Result<&'c TensorMeta> {
    match call.arg(name) {
        Some(Arg::Tensor(i)) => Ok(&call.tensors[*i as usize]),
        _ => Err(Error::Internal(format!("{} has no tensor `{name}`", call.name))),
    }
}

/// A result of these sizes.
pub(crate) fn result(dims: &[i64], element: ElementType) -> Option<OutMeta> {
    Some(OutMeta {
        dims: SmallVec::from_slice(dims),
        element,
    })
}

/// The first size that the data gave.
pub(crate) fn size_of(call: &Call) -> Result<i64> {
    let first = call.sizes.first().copied();
    first.ok_or_else(|| Error::Internal(format!("{} wants its sizes", call.name)))
}

/// `self != 0`, flat.
fn flat_truth(cx: &mut Cx<'_, '_>) -> Result<Value> {
    let v = cx.operand("self", ElementType::Pred)?;
    let n = count(&cx.dims(v)?);
    cx.reshape(v, &[n])
}

fn nonzero_sizes(cx: &mut Cx<'_, '_>) -> Result<Vec<Value>> {
    let mask = flat_truth(cx)?;
    Ok(vec![count_true(cx, mask)?])
}

fn nonzero_shape(call: &Call) -> Result<Vec<Option<OutMeta>>> {
    let rank = meta_of(call, "self")?.dims.len() as i64;
    Ok(vec![result(&[size_of(call)?, rank], ElementType::S64)])
}

/// Coordinates, one row each, of flat positions.
fn coordinates(cx: &mut Cx<'_, '_>, flat: Value, dims: &[i64]) -> Result<Value> {
    let size = cx.dims(flat)?[0];
    let columns: Vec<Value> = unravel(cx, flat, dims)?
        .into_iter()
        .map(|c| cx.reshape(c, &[size, 1]))
        .collect::<Result<_>>()?;
    Ok(cx.f.concatenate(&columns, 1)?)
}

fn nonzero(cx: &mut Cx<'_, '_>) -> Lowered {
    let out = cx.out(0)?;
    if count(&out.dims) == 0 {
        return Ok(zeros(cx, &out.dims, ElementType::S64)?.into());
    }
    let dims = cx.meta("self")?.dims.clone();
    let mask = flat_truth(cx)?;
    let flat = positions_of(cx, mask, out.dims[0], count(&dims))?;
    Ok(coordinates(cx, flat, &dims)?.into())
}

/// Row by row, as on the CPU; the Meta kernel says otherwise.
fn nonzero_static_shape(call: &Call) -> Result<Vec<Option<OutMeta>>> {
    let rank = meta_of(call, "self")?.dims.len() as i64;
    let size = match call.arg("size") {
        Some(Arg::Int(size)) => *size,
        _ => return Err(Error::Internal("nonzero_static has no size".to_owned())),
    };
    Ok(vec![result(&[size, rank], ElementType::S64)])
}

fn nonzero_static(cx: &mut Cx<'_, '_>) -> Lowered {
    let out = cx.out(0)?;
    let fill = cx.opt_int("fill_value")?.unwrap_or(-1);
    let dims = cx.meta("self")?.dims.clone();
    let n = count(&dims);
    let missing = cx.full(&out.dims, ElementType::S64, fill)?;
    if count(&out.dims) == 0 || n == 0 {
        return Ok(missing.into());
    }
    let mask = flat_truth(cx)?;
    let flat = positions_of(cx, mask, out.dims[0], n)?;
    let found = compare_to(cx, flat, n, Direction::Lt)?;
    let found = cx.f.broadcast_in_dim(found, out.dims.as_slice(), &[0])?;
    let rows = coordinates(cx, flat, &dims)?;
    let rows = cx.cast(rows, ElementType::S64)?;
    Ok(cx.f.select(found, rows, missing)?.into())
}

/// `self` and `mask`, broadcast together and flat.
fn masked(cx: &mut Cx<'_, '_>) -> Result<(Value, Value)> {
    let v = cx.tensor("self")?;
    let mask = cx.operand("mask", ElementType::Pred)?;
    let dims = broadcast_dims(&[&cx.dims(v)?, &cx.dims(mask)?])?;
    let n = count(&dims);
    let (v, mask) = (cx.broadcast_to(v, &dims)?, cx.broadcast_to(mask, &dims)?);
    Ok((cx.reshape(v, &[n])?, cx.reshape(mask, &[n])?))
}

fn masked_select_sizes(cx: &mut Cx<'_, '_>) -> Result<Vec<Value>> {
    let (_, mask) = masked(cx)?;
    Ok(vec![count_true(cx, mask)?])
}

fn masked_select_shape(call: &Call) -> Result<Vec<Option<OutMeta>>> {
    Ok(vec![result(&[size_of(call)?], meta_of(call, "self")?.element)])
}

fn masked_select(cx: &mut Cx<'_, '_>) -> Lowered {
    let out = cx.out(0)?;
    let (v, mask) = masked(cx)?;
    if out.dims[0] == 0 {
        let element = cx.element(v)?;
        return Ok(zeros(cx, &out.dims, element)?.into());
    }
    let n = cx.dims(v)?[0];
    let at = positions_of(cx, mask, out.dims[0], n)?;
    Ok(take_flat(cx, v, at)?.into())
}

fn bincount_sizes(cx: &mut Cx<'_, '_>) -> Result<Vec<Value>> {
    let v = cx.operand("self", ElementType::S64)?;
    let axes = all_axes(cx, v)?;
    let none = cx.full(&[], ElementType::S64, -1)?;
    let most = reduce(cx, v, none, &axes, Combine::Max)?;
    let bins = super::util::plus(cx, most, 1)?;
    let least = cx.full(&[], ElementType::S64, cx.opt_int("minlength")?.unwrap_or(0))?;
    Ok(vec![cx.f.maximum(bins, least)?])
}

fn check_counted(cx: &mut Cx<'_, '_>) -> Result<()> {
    let v = cx.operand("self", ElementType::S64)?;
    let shown = zero(cx, ElementType::S64)?;
    let signs = compare_to(cx, v, 0, Direction::Ge)?;
    let ok = all_true(cx, signs)?;
    cx.check(
        ok,
        shown,
        ErrorKind::Runtime,
        "bincount only supports 1-d non-negative integral inputs.",
    );
    Ok(())
}

fn bincount_shape(call: &Call) -> Result<Vec<Option<OutMeta>>> {
    let empty = count(&meta_of(call, "self")?.dims) == 0;
    let element = match call.arg("weights") {
        Some(Arg::Tensor(i)) if !empty => match call.tensors[*i as usize].element {
            ElementType::F32 => ElementType::F32,
            _ => ElementType::F64,
        },
        _ => ElementType::S64,
    };
    Ok(vec![result(&[size_of(call)?], element)])
}

fn bincount(cx: &mut Cx<'_, '_>) -> Lowered {
    let out = cx.out(0)?;
    let index = cx.tensor("self")?;
    check_counted(cx)?;
    let n = cx.dims(index)?[0];
    let base = zeros(cx, &out.dims, out.element)?;
    if n == 0 || out.dims[0] == 0 {
        return Ok(base.into());
    }
    let at = cx.cast(index, index_type(out.dims[0]))?;
    let weights = if cx.has("weights") {
        cx.operand("weights", out.element)?
    } else {
        cx.full(&[n], out.element, 1)?
    };
    Ok(super::along_dim::scatter_rows(cx, base, 0, at, weights, Combine::Add)?.into())
}

fn repeat_interleave_sizes(cx: &mut Cx<'_, '_>) -> Result<Vec<Value>> {
    let repeats = cx.operand("repeats", ElementType::S64)?;
    let start = zero(cx, ElementType::S64)?;
    let sum = reduce(cx, repeats, start, &[0], Combine::Add)?;
    // Negative repeats are refused when the sizes are known.
    Ok(vec![cx.f.maximum(sum, start)?])
}

fn check_repeats(cx: &mut Cx<'_, '_>) -> Result<()> {
    let repeats = cx.operand("repeats", ElementType::S64)?;
    let start = zero(cx, ElementType::S64)?;
    let sum = reduce(cx, repeats, start, &[0], Combine::Add)?;
    let signs = compare_to(cx, repeats, 0, Direction::Ge)?;
    let ok = all_true(cx, signs)?;
    cx.check(ok, sum, ErrorKind::Runtime, "repeats can not be negative");
    if let Some(size) = cx.opt_int("output_size")? {
        let ok = compare_to(cx, sum, size, Direction::Eq)?;
        cx.check(
            ok,
            sum,
            ErrorKind::Runtime,
            "allocated size does not match required size",
        );
    }
    Ok(())
}

fn repeat_interleave_shape(call: &Call) -> Result<Vec<Option<OutMeta>>> {
    Ok(vec![result(&[size_of(call)?], meta_of(call, "repeats")?.element)])
}

fn repeat_interleave(cx: &mut Cx<'_, '_>) -> Lowered {
    let out = cx.out(0)?;
    let size = out.dims[0];
    check_repeats(cx)?;
    let repeats = cx.operand("repeats", index_type(size))?;
    let n = cx.dims(repeats)?[0];
    let element = cx.element(repeats)?;
    let base = zeros(cx, &[size], element)?;
    if size == 0 || n == 0 {
        return Ok(base.into());
    }
    // A step up where each run ends; the last end lies outside and is dropped.
    let ends = prefix_sum(cx, repeats)?;
    let ones = cx.full(&[n], element, 1)?;
    let steps = super::along_dim::scatter_rows(cx, base, 0, ends, ones, Combine::Add)?;
    Ok(prefix_sum(cx, steps)?.into())
}

pub(crate) const OPS: &[OpDef] = &[
    OpDef::new("nonzero", nonzero)
        .data_dependent(nonzero_sizes, nonzero_shape)
        .column_major(),
    OpDef::new("nonzero_static", nonzero_static).shape(nonzero_static_shape),
    OpDef::new("masked_select", masked_select).data_dependent(masked_select_sizes, masked_select_shape),
    OpDef::new("bincount", bincount).data_dependent(bincount_sizes, bincount_shape),
    OpDef::new("repeat_interleave.Tensor", repeat_interleave)
        .data_dependent(repeat_interleave_sizes, repeat_interleave_shape),
];
