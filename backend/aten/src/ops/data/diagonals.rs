//! tril, triu, trace, diag_embed, diagonal_copy, diagonal_scatter, diagonal_backward.

use dtype::ElementType;
use stablehlo::Value;
use stablehlo::ops::Direction;

use super::util::{count, index_type, move_dim, plus, slice_dim, zero, zeros};
use crate::cx::wrap_dim;
use crate::{Cx, Dims, Lowered, OpDef, Result};

/// Rows and columns of the last two dimensions.
fn coordinates(cx: &mut Cx<'_, '_>, dims: &[i64]) -> Result<(Value, Value)> {
    let rank = dims.len();
    let element = index_type(dims[rank - 1].max(dims[rank - 2]));
    let row = cx.f.iota(dims, element, rank as i64 - 2)?;
    let column = cx.f.iota(dims, element, rank as i64 - 1)?;
    Ok((row, column))
}

/// Whether column - row relates so to `diagonal`, in the last two dimensions.
fn relation(cx: &mut Cx<'_, '_>, dims: &[i64], diagonal: i64, direction: Direction) -> Result<Value> {
    let rank = dims.len();
    let reach = dims[rank - 1].max(dims[rank - 2]);
    let (row, column) = coordinates(cx, dims)?;
    let edge = plus(cx, row, diagonal.clamp(-reach - 1, reach + 1))?;
    Ok(cx.f.compare(column, edge, direction)?)
}

fn triangle(cx: &mut Cx<'_, '_>, direction: Direction) -> Lowered {
    let v = cx.tensor("self")?;
    let dims = cx.dims(v)?;
    let diagonal = cx.opt_int("diagonal")?.unwrap_or(0);
    let keep = relation(cx, &dims, diagonal, direction)?;
    let empty = cx.full_like(v, false)?;
    Ok(cx.f.select(keep, v, empty)?.into())
}

fn tril(cx: &mut Cx<'_, '_>) -> Lowered {
    triangle(cx, Direction::Le)
}

fn triu(cx: &mut Cx<'_, '_>) -> Lowered {
    triangle(cx, Direction::Ge)
}

/// A diagonal: its dimensions, where it starts, how long it is.
struct Diagonal {
    dims: [usize; 2],
    start: [i64; 2],
    length: i64,
}

impl Diagonal {
    fn of(sizes: &[i64], offset: i64, dim1: i64, dim2: i64) -> Self {
        let rank = sizes.len();
        let dims = [wrap_dim(dim1, rank) as usize, wrap_dim(dim2, rank) as usize];
        let start = [(-offset).max(0), offset.max(0)];
        let left = |i: usize| sizes[dims[i]] - start[i];
        Self {
            dims,
            start,
            length: left(0).min(left(1)).max(0),
        }
    }

    /// The order that puts the two dimensions last.
    fn order(&self, rank: usize) -> Vec<i64> {
        let [a, b] = self.dims;
        let mut order: Vec<i64> = (0..rank)
            .filter(|d| *d != a && *d != b)
            .map(|d| d as i64)
            .collect();
        order.extend([a as i64, b as i64]);
        order
    }
}

/// A diagonal as the last dimension.
pub(crate) fn diagonal_of(cx: &mut Cx<'_, '_>, v: Value, offset: i64, dim1: i64, dim2: i64) -> Result<Value> {
    let sizes = cx.dims(v)?;
    let d = Diagonal::of(&sizes, offset, dim1, dim2);
    let order = d.order(sizes.len());
    let last = cx.f.transpose(v, &order)?;
    let sizes = cx.dims(last)?;
    let batch = sizes.len() - 2;
    let mut flat: Dims = sizes[..batch].iter().copied().collect();
    if d.length == 0 {
        flat.push(0);
        let element = cx.element(v)?;
        return zeros(cx, &flat, element);
    }
    let (rows, columns) = (sizes[batch], sizes[batch + 1]);
    flat.push(rows * columns);
    let flat = cx.reshape(last, &flat)?;
    // In row-major order the next element of a diagonal is a row and a column on.
    let first = d.start[0] * columns + d.start[1];
    let limit = first + (d.length - 1) * (columns + 1) + 1;
    slice_dim(cx, flat, batch, first, limit, columns + 1)
}

/// The last dimension of `v` as a diagonal of a matrix of these last two sizes; what is beside it is unspecified.
fn spread(cx: &mut Cx<'_, '_>, v: Value, sizes: &[i64], start: [i64; 2]) -> Result<Value> {
    let rank = sizes.len();
    let batch = rank - 2;
    let length = cx.dims(v)?[batch];
    let element = cx.element(v)?;
    let fill = zero(cx, element)?;
    let (mut low, mut high) = (vec![0; batch + 1], vec![0; batch + 1]);
    low[batch] = start[0];
    high[batch] = sizes[batch] - start[0] - length;
    let by_row = cx.f.pad(v, fill, &low, &high, &vec![0; batch + 1])?;
    let at: Vec<i64> = (0..=batch as i64).collect();
    Ok(cx.f.broadcast_in_dim(by_row, sizes, &at)?)
}

/// `base` with a diagonal replaced by the last dimension of `v`.
fn put_diagonal(
    cx: &mut Cx<'_, '_>,
    base: Value,
    v: Value,
    offset: i64,
    dim1: i64,
    dim2: i64,
) -> Result<Value> {
    let sizes = cx.dims(base)?;
    if count(&sizes) == 0 {
        return Ok(base);
    }
    let d = Diagonal::of(&sizes, offset, dim1, dim2);
    if d.length == 0 {
        return Ok(base);
    }
    let order = d.order(sizes.len());
    let last = cx.f.transpose(base, &order)?;
    let sizes = cx.dims(last)?;
    let values = spread(cx, v, &sizes, d.start)?;
    let on = relation(cx, &sizes, offset, Direction::Eq)?;
    let merged = cx.f.select(on, values, last)?;
    let mut back = vec![0; order.len()];
    for (i, &d) in order.iter().enumerate() {
        back[d as usize] = i as i64;
    }
    Ok(cx.f.transpose(merged, &back)?)
}

fn diag_embed(cx: &mut Cx<'_, '_>) -> Lowered {
    let out = cx.out(0)?;
    let v = cx.tensor("self")?;
    let rank = out.dims.len();
    let offset = cx.opt_int("offset")?.unwrap_or(0);
    let dim1 = wrap_dim(cx.opt_int("dim1")?.unwrap_or(-2), rank);
    let dim2 = wrap_dim(cx.opt_int("dim2")?.unwrap_or(-1), rank);
    let base = zeros(cx, &out.dims, out.element)?;
    Ok(put_diagonal(cx, base, v, offset, dim1, dim2)?.into())
}

fn diagonal_copy(cx: &mut Cx<'_, '_>) -> Lowered {
    let v = cx.tensor("self")?;
    let (offset, dim1, dim2) = diagonal_arguments(cx)?;
    Ok(diagonal_of(cx, v, offset, dim1, dim2)?.into())
}

fn diagonal_arguments(cx: &Cx<'_, '_>) -> Result<(i64, i64, i64)> {
    Ok((
        cx.opt_int("offset")?.unwrap_or(0),
        cx.opt_int("dim1")?.unwrap_or(0),
        cx.opt_int("dim2")?.unwrap_or(1),
    ))
}

fn diagonal_scatter(cx: &mut Cx<'_, '_>) -> Lowered {
    let (base, src) = (cx.tensor("self")?, cx.tensor("src")?);
    let element = cx.element(base)?;
    let src = cx.cast(src, element)?;
    let (offset, dim1, dim2) = diagonal_arguments(cx)?;
    Ok(put_diagonal(cx, base, src, offset, dim1, dim2)?.into())
}

fn diagonal_backward(cx: &mut Cx<'_, '_>) -> Lowered {
    let out = cx.out(0)?;
    let grad = cx.tensor("grad_output")?;
    let base = zeros(cx, &out.dims, cx.element(grad)?)?;
    let (offset, dim1, dim2) = diagonal_arguments(cx)?;
    Ok(put_diagonal(cx, base, grad, offset, dim1, dim2)?.into())
}

/// linalg_cross: products of the other two coordinates.
fn linalg_cross(cx: &mut Cx<'_, '_>) -> Lowered {
    let out = cx.out(0)?;
    let ty = crate::compute_type(out.element);
    let (a, b) = (cx.operand("self", ty)?, cx.operand("other", ty)?);
    let (a, b) = (cx.broadcast_to(a, &out.dims)?, cx.broadcast_to(b, &out.dims)?);
    let rank = out.dims.len();
    let dim = wrap_dim(cx.opt_int("dim")?.unwrap_or(-1), rank) as usize;
    let (a, b) = (move_dim(cx, a, dim, 0)?, move_dim(cx, b, dim, 0)?);
    let turn = |cx: &mut Cx<'_, '_>, v: Value, by: i64| -> Result<Value> {
        let first = slice_dim(cx, v, 0, 0, by, 1)?;
        let rest = slice_dim(cx, v, 0, by, 3, 1)?;
        Ok(cx.f.concatenate(&[rest, first], 0)?)
    };
    let (a1, a2) = (turn(cx, a, 1)?, turn(cx, a, 2)?);
    let (b1, b2) = (turn(cx, b, 1)?, turn(cx, b, 2)?);
    let (left, right) = (cx.f.multiply(a1, b2)?, cx.f.multiply(a2, b1)?);
    let (left, right) = (cx.rounded(left, out.element)?, cx.rounded(right, out.element)?);
    let cross = cx.f.subtract(left, right)?;
    Ok(move_dim(cx, cross, 0, dim)?.into())
}

/// Zero outside the triangle.
pub(crate) fn keep_triangle(cx: &mut Cx<'_, '_>, v: Value, lower: bool, diagonal: i64) -> Result<Value> {
    let dims = cx.dims(v)?;
    let direction = if lower { Direction::Le } else { Direction::Ge };
    let keep = relation(cx, &dims, diagonal, direction)?;
    let empty = cx.full_like(v, false)?;
    Ok(cx.f.select(keep, v, empty)?)
}

/// Identity matrices in the last two dimensions.
pub(crate) fn identity(cx: &mut Cx<'_, '_>, dims: &[i64], element: ElementType) -> Result<Value> {
    let on = relation(cx, dims, 0, Direction::Eq)?;
    Ok(cx.f.convert(on, element)?)
}

pub(crate) const OPS: &[OpDef] = &[
    OpDef::new("tril", tril),
    OpDef::new("triu", triu),
    OpDef::new("diag_embed", diag_embed),
    OpDef::new("diagonal_copy", diagonal_copy),
    OpDef::new("diagonal_scatter", diagonal_scatter),
    OpDef::new("diagonal_backward", diagonal_backward),
    OpDef::new("linalg_cross", linalg_cross),
];
