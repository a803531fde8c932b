//! linalg_cholesky_ex, cholesky_solve, cholesky_inverse, linalg_solve_triangular, triangular_solve.

use dtype::ElementType;
use stablehlo::Value;
use stablehlo::ops::{Direction, TransposeKind};

use super::diagonals::{diagonal_of, keep_triangle};
use super::matrices::{adjoint, batched, decomposable, identities, with};
use super::util::{Combine, all_true, count, reduce, zeros};
use crate::cx::broadcast_dims;
use crate::{Cx, Lowered, OpDef, Result};

/// How a triangular system is read.
#[derive(Copy, Clone)]
pub(crate) struct Triangle {
    /// `A X = B`, else `X A = B`.
    pub(crate) left: bool,
    /// The lower triangle of A is used.
    pub(crate) lower: bool,
    /// Ones on the diagonal.
    pub(crate) unit: bool,
    /// Of A.
    pub(crate) transpose: TransposeKind,
}

impl Triangle {
    /// A lower or upper A on the left.
    pub(crate) fn left(lower: bool) -> Self {
        Self {
            left: true,
            lower,
            unit: false,
            transpose: TransposeKind::NoTranspose,
        }
    }

    /// Solves for batches that broadcast.
    pub(crate) fn solve(self, cx: &mut Cx<'_, '_>, a: Value, b: Value) -> Result<Value> {
        let (a_dims, b_dims) = (cx.dims(a)?, cx.dims(b)?);
        let (a_batch, b_batch) = (&a_dims[..a_dims.len() - 2], &b_dims[..b_dims.len() - 2]);
        let batch = broadcast_dims(&[a_batch, b_batch])?;
        let a_full = with(&batch, &a_dims[a_dims.len() - 2..]);
        let b_full = with(&batch, &b_dims[b_dims.len() - 2..]);
        let element = cx.element(b)?;
        if count(&b_full) == 0 {
            return zeros(cx, &b_full, element);
        }
        let a = cx.broadcast_to(a, &a_full)?;
        let b = cx.broadcast_to(b, &b_full)?;
        Ok(cx
            .f
            .triangular_solve(a, b, self.left, self.lower, self.unit, self.transpose)?)
    }
}

/// The order of the first leading minor that is not positive, 0 where all are; for rank 3.
fn failing_minor(cx: &mut Cx<'_, '_>, a: Value) -> Result<Value> {
    let dims = cx.dims(a)?;
    let (batch, n) = (dims[0], dims[1]);
    let element = cx.element(a)?;
    let part = element.real();
    let rows = cx.f.iota(dims.as_slice(), ElementType::S32, 1)?;
    let columns = cx.f.iota(dims.as_slice(), ElementType::S32, 2)?;
    let start = cx.full(&[], ElementType::S32, 0)?;
    let info = cx.full(&[batch], ElementType::S32, 0)?;
    let end = cx.full(&[], ElementType::S32, n)?;
    let zero_part = cx.full(&[], part, false)?;
    let zero = cx.full(&[], element, false)?;
    let none = cx.full(&[batch], ElementType::S32, 0)?;
    let least = cx.full(&[batch], part, false)?;
    let nothing = cx.full(&dims, element, false)?;
    let done = cx.f.while_(
        &[start, a, info],
        |f, c| Ok(vec![f.compare(c[0], end, Direction::Lt)?]),
        |f, c| {
            let (j, a, info) = (c[0], c[1], c[2]);
            let at = f.broadcast_in_dim(j, dims.as_slice(), &[])?;
            let on_row = f.compare(rows, at, Direction::Eq)?;
            let on_column = f.compare(columns, at, Direction::Eq)?;
            let here = f.and(on_row, on_column)?;
            // The pivot, the column below it.
            let parts = if element.is_complex() { f.real(a)? } else { a };
            let masked = f.broadcast_in_dim(zero_part, dims.as_slice(), &[])?;
            let pivot = f.select(here, parts, masked)?;
            let pivot = f.reduce(&[pivot], &[zero_part], &[1, 2], |f, e| {
                Ok(vec![f.add(e[0], e[1])?])
            })?[0];
            let positive = f.compare(pivot, least, Direction::Gt)?;
            let bad = f.not(positive)?;
            let unset = f.compare(info, none, Direction::Eq)?;
            let first = f.and(bad, unset)?;
            let one = f.scalar(1i32)?;
            let next = f.add(j, one)?;
            let order = f.broadcast_in_dim(next, &[batch], &[])?;
            let info = f.select(first, order, info)?;
            let below = f.compare(rows, at, Direction::Gt)?;
            let chosen = f.and(below, on_column)?;
            let column = f.select(chosen, a, nothing)?;
            let column = f.reduce(&[column], &[zero], &[2], |f, e| Ok(vec![f.add(e[0], e[1])?]))?[0];
            let left = f.broadcast_in_dim(column, dims.as_slice(), &[0, 1])?;
            let right = f.broadcast_in_dim(column, dims.as_slice(), &[0, 2])?;
            let right = if element.is_complex() {
                let (re, im) = (f.real(right)?, f.imag(right)?);
                let im = f.negate(im)?;
                f.complex(re, im)?
            } else {
                right
            };
            let outer = f.multiply(left, right)?;
            let pivot = f.convert(pivot, element)?;
            let pivot = f.broadcast_in_dim(pivot, dims.as_slice(), &[0])?;
            let outer = f.divide(outer, pivot)?;
            let a = f.subtract(a, outer)?;
            Ok(vec![next, a, info])
        },
    )?;
    Ok(done[2])
}

fn linalg_cholesky_ex(cx: &mut Cx<'_, '_>) -> Lowered {
    let (out, info_out) = (cx.out(0)?, cx.out(1)?);
    let a = cx.tensor("self")?;
    let element = decomposable(cx, a)?;
    if count(&out.dims) == 0 {
        let l = zeros(cx, &out.dims, element)?;
        return Ok((l, zeros(cx, &info_out.dims, ElementType::S32)?).into());
    }
    let upper = cx.bool("upper")?;
    let a = if upper { adjoint(cx, a)? } else { a };
    let (a, _) = batched(cx, a)?;
    let batch = cx.dims(a)?[0];
    let l = cx.f.cholesky(a, true)?;
    let l = keep_triangle(cx, l, true, 0)?;
    // A matrix that is not positive definite gives NaN: only then is it worth asking where.
    let parts = if element.is_complex() { cx.f.real(l)? } else { l };
    let diagonal = diagonal_of(cx, parts, 0, 1, 2)?;
    let fine = cx.f.compare(diagonal, diagonal, Direction::Eq)?;
    let fine = all_true(cx, fine)?;
    let none = cx.full(&[batch], ElementType::S32, 0)?;
    let lower = keep_triangle(cx, a, true, 0)?;
    let info = failing_minor(cx, lower)?;
    let info = cx.f.select(fine, none, info)?;
    let l = if upper { adjoint(cx, l)? } else { l };
    Ok((cx.reshape(l, &out.dims)?, cx.reshape(info, &info_out.dims)?).into())
}

/// Solves with the two triangles of a Cholesky factor.
fn factor_solve(cx: &mut Cx<'_, '_>, factor: Value, b: Value, upper: bool) -> Result<Value> {
    let (first, second) = if upper {
        (TransposeKind::Adjoint, TransposeKind::NoTranspose)
    } else {
        (TransposeKind::NoTranspose, TransposeKind::Adjoint)
    };
    let mut triangle = Triangle::left(!upper);
    triangle.transpose = first;
    let y = triangle.solve(cx, factor, b)?;
    triangle.transpose = second;
    triangle.solve(cx, factor, y)
}

fn cholesky_solve(cx: &mut Cx<'_, '_>) -> Lowered {
    let b = cx.tensor("self")?;
    let name = if cx.has("A") { "A" } else { "input2" };
    let factor = cx.tensor(name)?;
    decomposable(cx, b)?;
    let upper = cx.bool("upper")?;
    Ok(factor_solve(cx, factor, b, upper)?.into())
}

fn cholesky_inverse(cx: &mut Cx<'_, '_>) -> Lowered {
    let out = cx.out(0)?;
    let factor = cx.tensor("self")?;
    let element = decomposable(cx, factor)?;
    if count(&out.dims) == 0 {
        return Ok(zeros(cx, &out.dims, element)?.into());
    }
    let (factor, _) = batched(cx, factor)?;
    let dims = cx.dims(factor)?;
    let unit = identities(cx, dims[0], dims[1], dims[2], element)?;
    let upper = cx.bool("upper")?;
    let inverse = factor_solve(cx, factor, unit, upper)?;
    Ok(cx.reshape(inverse, &out.dims)?.into())
}

fn linalg_solve_triangular(cx: &mut Cx<'_, '_>) -> Lowered {
    let (a, b) = (cx.tensor("self")?, cx.tensor("B")?);
    decomposable(cx, a)?;
    let triangle = Triangle {
        left: cx.call.arg("left").is_none() || cx.bool("left")?,
        lower: !cx.bool("upper")?,
        unit: cx.bool("unitriangular")?,
        transpose: TransposeKind::NoTranspose,
    };
    Ok(triangle.solve(cx, a, b)?.into())
}

fn triangular_solve(cx: &mut Cx<'_, '_>) -> Lowered {
    let (b, a) = (cx.tensor("self")?, cx.tensor("A")?);
    decomposable(cx, a)?;
    let triangle = Triangle {
        left: true,
        lower: !cx.bool("upper")?,
        unit: cx.bool("unitriangular")?,
        transpose: if cx.bool("transpose")? {
            TransposeKind::Transpose
        } else {
            TransposeKind::NoTranspose
        },
    };
    let x = triangle.solve(cx, a, b)?;
    let cloned = cx.broadcast_to(a, &cx.out(1)?.dims)?;
    Ok((x, cloned).into())
}

/// Products of the last dimension.
pub(crate) fn multiplied(cx: &mut Cx<'_, '_>, v: Value) -> Result<Value> {
    let element = cx.element(v)?;
    let one = cx.full(&[], element, true)?;
    let last = cx.rank(v)? as i64 - 1;
    reduce(cx, v, one, &[last], Combine::Multiply)
}

pub(crate) const OPS: &[OpDef] = &[
    OpDef::new("linalg_cholesky_ex", linalg_cholesky_ex),
    OpDef::new("cholesky_solve", cholesky_solve),
    OpDef::new("_cholesky_solve_helper", cholesky_solve),
    OpDef::new("cholesky_inverse", cholesky_inverse),
    OpDef::new("linalg_solve_triangular", linalg_solve_triangular),
    OpDef::new("triangular_solve", triangular_solve),
];
