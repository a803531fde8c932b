//! linalg_lu_factor_ex, linalg_lu, lu_unpack, linalg_lu_solve, _linalg_solve_ex, linalg_inv_ex, _linalg_det, _linalg_slogdet.

use dtype::ElementType;
use stablehlo::Value;
use stablehlo::ops::{Direction, TransposeKind};

use super::diagonals::{diagonal_of, keep_triangle};
use super::matrices::{adjoint, batched, decomposable, identities, lapack_size, spread, transposed, with};
use super::triangular::{Triangle, multiplied};
use super::util::{Combine, count, plus, reduce, slice_dim, zeros};
use crate::cx::broadcast_dims;
use crate::{Cx, Dims, Lowered, OpDef, Result};

/// A batch of factored matrices, rank 3.
struct Lu {
    /// Both triangles.
    factors: Value,
    /// `[batch, min(m, n)]`: the row that was exchanged with each, from 0.
    pivots: Value,
    /// `[batch]`: the first zero pivot, from 1; 0 for none.
    info: Value,
}

impl Lu {
    /// Gaussian elimination by columns, with row exchanges when `pivot`.
    fn of(cx: &mut Cx<'_, '_>, a: Value, pivot: bool) -> Result<Self> {
        let dims = cx.dims(a)?;
        let (batch, m, n) = (dims[0], dims[1], dims[2]);
        let element = cx.element(a)?;
        let steps = m.min(n);
        let int = ElementType::S32;
        if count(&dims) == 0 {
            return Ok(Self {
                factors: a,
                pivots: zeros(cx, &[batch, steps], int)?,
                info: zeros(cx, &[batch], int)?,
            });
        }
        let rows = cx.f.iota(dims.as_slice(), int, 1)?;
        let columns = cx.f.iota(dims.as_slice(), int, 2)?;
        let row_of = cx.f.iota(&[batch, m], int, 1)?;
        let step_of = cx.f.iota(&[batch, steps], int, 1)?;
        let start = zeros(cx, &[], int)?;
        let end = cx.full(&[], int, steps)?;
        let pivots = zeros(cx, &[batch, steps], int)?;
        let info = zeros(cx, &[batch], int)?;
        let none = zeros(cx, &[batch], int)?;
        let zero = zeros(cx, &[], element)?;
        let nothing = zeros(cx, &dims, element)?;
        let empty_column = zeros(cx, &[batch, m], element)?;
        let no_pivot = zeros(cx, &[batch], element)?;
        let least = cx.full(&[], element.real(), -1.0)?;
        let lowest = cx.full(&[batch, m], element.real(), -1.0)?;
        let no_row = cx.full(&[], int, i64::from(i32::MAX))?;
        let dims: &[i64] = &dims;
        let done = cx.f.while_(
            &[start, a, pivots, info],
            |f, c| Ok(vec![f.compare(c[0], end, Direction::Lt)?]),
            |f, c| {
                let (j, mut a, mut pivots, info) = (c[0], c[1], c[2], c[3]);
                let sum = |f: &mut stablehlo::FunctionBuilder<'_>, v: Value, axis: i64| {
                    Ok::<_, stablehlo::Error>(
                        f.reduce(&[v], &[zero], &[axis], |f, e| Ok(vec![f.add(e[0], e[1])?]))?[0],
                    )
                };
                let zero_index = f.scalar(0i32)?;
                let at = f.broadcast_in_dim(j, dims, &[])?;
                let on_row = f.compare(rows, at, Direction::Eq)?;
                let chosen = if pivot {
                    let column = f.dynamic_slice(a, &[zero_index, zero_index, j], &[batch, m, 1])?;
                    let column = f.reshape(column, &[batch, m])?;
                    let size = lapack_size(f, column)?;
                    let at_row = f.broadcast_in_dim(j, &[batch, m], &[])?;
                    let left = f.compare(row_of, at_row, Direction::Ge)?;
                    let size = f.select(left, size, lowest)?;
                    // The largest, of equals the first; NaN is larger than all.
                    f.reduce(&[size, row_of], &[least, no_row], &[1], |f, e| {
                        let (a, i, b, k) = (e[0], e[1], e[2], e[3]);
                        let nan = f.compare(a, a, Direction::Ne)?;
                        let above = f.compare(a, b, Direction::Gt)?;
                        let same = f.compare(a, b, Direction::Eq)?;
                        let earlier = f.compare(i, k, Direction::Lt)?;
                        let tie = f.and(same, earlier)?;
                        let keep = f.or(above, tie)?;
                        let keep = f.or(keep, nan)?;
                        Ok(vec![f.select(keep, a, b)?, f.select(keep, i, k)?])
                    })?[1]
                } else {
                    f.broadcast_in_dim(j, &[batch], &[])?
                };
                let here = f.broadcast_in_dim(j, &[batch, steps], &[])?;
                let now = f.compare(step_of, here, Direction::Eq)?;
                let wide = f.broadcast_in_dim(chosen, &[batch, steps], &[0])?;
                pivots = f.select(now, wide, pivots)?;
                if pivot {
                    let wide = f.broadcast_in_dim(chosen, dims, &[0])?;
                    let on_pivot = f.compare(rows, wide, Direction::Eq)?;
                    let mine = f.select(on_row, a, nothing)?;
                    let mine = sum(f, mine, 1)?;
                    let theirs = f.select(on_pivot, a, nothing)?;
                    let theirs = sum(f, theirs, 1)?;
                    let mine = f.broadcast_in_dim(mine, dims, &[0, 2])?;
                    let theirs = f.broadcast_in_dim(theirs, dims, &[0, 2])?;
                    let swapped = f.select(on_pivot, mine, a)?;
                    a = f.select(on_row, theirs, swapped)?;
                }
                let row = f.dynamic_slice(a, &[zero_index, j, zero_index], &[batch, 1, n])?;
                let row = f.reshape(row, &[batch, n])?;
                let head = f.dynamic_slice(a, &[zero_index, j, j], &[batch, 1, 1])?;
                let head = f.reshape(head, &[batch])?;
                let singular = f.compare(head, no_pivot, Direction::Eq)?;
                let unset = f.compare(info, none, Direction::Eq)?;
                let first = f.and(singular, unset)?;
                let one = f.scalar(1i32)?;
                let next = f.add(j, one)?;
                let order = f.broadcast_in_dim(next, &[batch], &[])?;
                let info = f.select(first, order, info)?;
                let column = f.dynamic_slice(a, &[zero_index, zero_index, j], &[batch, m, 1])?;
                let column = f.reshape(column, &[batch, m])?;
                let pivot_value = f.broadcast_in_dim(head, &[batch, m], &[0])?;
                let quotient = f.divide(column, pivot_value)?;
                let skip = f.broadcast_in_dim(singular, &[batch, m], &[0])?;
                let quotient = f.select(skip, column, quotient)?;
                let at_row = f.broadcast_in_dim(j, &[batch, m], &[])?;
                let below = f.compare(row_of, at_row, Direction::Gt)?;
                let multipliers = f.select(below, quotient, empty_column)?;
                let on_column = f.compare(columns, at, Direction::Eq)?;
                let under = f.compare(rows, at, Direction::Gt)?;
                let right = f.compare(columns, at, Direction::Gt)?;
                let left = f.broadcast_in_dim(multipliers, dims, &[0, 1])?;
                let top = f.broadcast_in_dim(row, dims, &[0, 2])?;
                let outer = f.multiply(left, top)?;
                let inner = f.and(under, right)?;
                let outer = f.select(inner, outer, nothing)?;
                a = f.subtract(a, outer)?;
                let lower = f.and(under, on_column)?;
                a = f.select(lower, left, a)?;
                Ok(vec![next, a, pivots, info])
            },
        )?;
        Ok(Self {
            factors: done[1],
            pivots: done[2],
            info: done[3],
        })
    }
}

/// The order of rows after the exchanges of `pivots` (from 0), of `m` rows: `[batch, m]`.
fn permutation(cx: &mut Cx<'_, '_>, pivots: Value, m: i64) -> Result<Value> {
    let dims = cx.dims(pivots)?;
    let (batch, steps) = (dims[0], dims[1]);
    let int = ElementType::S32;
    let order = cx.f.iota(&[batch, m], int, 1)?;
    if steps == 0 || batch == 0 {
        return Ok(order);
    }
    let row_of = order;
    let start = zeros(cx, &[], int)?;
    let end = cx.full(&[], int, steps)?;
    let nothing = zeros(cx, &[batch, m], int)?;
    let done = cx.f.while_(
        &[start, order],
        |f, c| Ok(vec![f.compare(c[0], end, Direction::Lt)?]),
        |f, c| {
            let (j, order) = (c[0], c[1]);
            let zero = f.scalar(0i32)?;
            let pivot = f.dynamic_slice(pivots, &[zero, j], &[batch, 1])?;
            let pivot = f.broadcast_in_dim(pivot, &[batch, m], &[0, 1])?;
            let mine = f.dynamic_slice(order, &[zero, j], &[batch, 1])?;
            let mine = f.broadcast_in_dim(mine, &[batch, m], &[0, 1])?;
            let on_pivot = f.compare(row_of, pivot, Direction::Eq)?;
            let theirs = f.select(on_pivot, order, nothing)?;
            let theirs = f.reduce(&[theirs], &[zero], &[1], |f, e| Ok(vec![f.add(e[0], e[1])?]))?[0];
            let theirs = f.broadcast_in_dim(theirs, &[batch, m], &[0])?;
            let at = f.broadcast_in_dim(j, &[batch, m], &[])?;
            let here = f.compare(row_of, at, Direction::Eq)?;
            let swapped = f.select(on_pivot, mine, order)?;
            let order = f.select(here, theirs, swapped)?;
            let one = f.scalar(1i32)?;
            Ok(vec![f.add(j, one)?, order])
        },
    )?;
    Ok(done[1])
}

/// Permutation matrices of rank 3: `P[i, j] = 1` where `order[j] = i`, so that A = P L U.
fn permutation_matrix(cx: &mut Cx<'_, '_>, order: Value, element: ElementType) -> Result<Value> {
    let dims = cx.dims(order)?;
    let full = [dims[0], dims[1], dims[1]];
    let rows = cx.f.iota(&full, ElementType::S32, 1)?;
    let order = spread(cx, order, &full, 2)?;
    let on = cx.f.compare(rows, order, Direction::Eq)?;
    Ok(cx.f.convert(on, element)?)
}

/// The pivots argument, from 0, rank 2.
fn given_pivots(cx: &mut Cx<'_, '_>, name: &str) -> Result<Value> {
    let pivots = cx.operand(name, ElementType::S32)?;
    let dims = cx.dims(pivots)?;
    let steps = dims[dims.len() - 1];
    let batch: i64 = dims[..dims.len() - 1].iter().product();
    let pivots = cx.reshape(pivots, &[batch, steps])?;
    plus(cx, pivots, -1)
}

/// The triangles of a factored matrix: `[.., m, k]` and `[.., k, n]`.
fn triangles(cx: &mut Cx<'_, '_>, factors: Value) -> Result<(Value, Value)> {
    let dims = cx.dims(factors)?;
    let (m, n) = (dims[1], dims[2]);
    let k = m.min(n);
    let element = cx.element(factors)?;
    let lower = slice_dim(cx, factors, 2, 0, k, 1)?;
    let lower = keep_triangle(cx, lower, true, -1)?;
    let unit = identities(cx, dims[0], m, k, element)?;
    let lower = cx.f.add(lower, unit)?;
    let upper = slice_dim(cx, factors, 1, 0, k, 1)?;
    Ok((lower, keep_triangle(cx, upper, false, 0)?))
}

/// Solves `A X = B` for factored A, or with the adjoint of A; rank 3.
fn solve_factored(
    cx: &mut Cx<'_, '_>,
    factors: Value,
    pivots: Value,
    b: Value,
    adjoint_a: bool,
) -> Result<Value> {
    let dims = cx.dims(b)?;
    if count(&dims) == 0 {
        return Ok(b);
    }
    let order = permutation(cx, pivots, dims[1])?;
    let element = cx.element(b)?;
    let matrix = permutation_matrix(cx, order, element)?;
    let mut lower = Triangle::left(true);
    lower.unit = true;
    let mut upper = Triangle::left(false);
    if adjoint_a {
        (lower.transpose, upper.transpose) = (TransposeKind::Adjoint, TransposeKind::Adjoint);
        let y = upper.solve(cx, factors, b)?;
        let x = lower.solve(cx, factors, y)?;
        return permuted(cx, x, matrix, false);
    }
    let b = permuted(cx, b, matrix, true)?;
    let y = lower.solve(cx, factors, b)?;
    upper.solve(cx, factors, y)
}

/// Rows moved by a permutation matrix or its inverse. Moved, not multiplied, so that infinities stay where they are.
fn permuted(cx: &mut Cx<'_, '_>, v: Value, matrix: Value, inverse: bool) -> Result<Value> {
    let dims = cx.dims(v)?;
    let full = [dims[0], dims[1], dims[1], dims[2]];
    let on = cx.truth(matrix)?;
    let on = if inverse { transposed(cx, on)? } else { on };
    let on = cx.f.broadcast_in_dim(on, &full, &[0, 1, 2])?;
    let wide = cx.f.broadcast_in_dim(v, &full, &[0, 2, 3])?;
    let nothing = cx.full_like(wide, false)?;
    let chosen = cx.f.select(on, wide, nothing)?;
    let element = cx.element(v)?;
    let zero = zeros(cx, &[], element)?;
    reduce(cx, chosen, zero, &[2], Combine::Add)
}

/// The factors, pivots from 1 and info in the sizes of results `at`, `at + 1` and `at + 2`.
fn factor_results(cx: &mut Cx<'_, '_>, lu: &Lu, at: usize, info: bool) -> Result<Vec<Value>> {
    let pivots = plus(cx, lu.pivots, 1)?;
    let mut all = Vec::new();
    for (k, v) in [lu.factors, pivots, lu.info]
        .into_iter()
        .take(if info { 3 } else { 2 })
        .enumerate()
    {
        let out = cx.out(at + k)?;
        all.push(cx.reshape(v, &out.dims)?);
    }
    Ok(all)
}

fn linalg_lu_factor_ex(cx: &mut Cx<'_, '_>) -> Lowered {
    let a = cx.tensor("A")?;
    decomposable(cx, a)?;
    let (a, _) = batched(cx, a)?;
    let pivot = cx.call.arg("pivot").is_none() || cx.bool("pivot")?;
    let lu = Lu::of(cx, a, pivot)?;
    Ok(factor_results(cx, &lu, 0, true)?.into())
}

fn linalg_lu(cx: &mut Cx<'_, '_>) -> Lowered {
    let a = cx.tensor("A")?;
    let element = decomposable(cx, a)?;
    let (a, _) = batched(cx, a)?;
    let m = cx.dims(a)?[1];
    let pivot = cx.call.arg("pivot").is_none() || cx.bool("pivot")?;
    let lu = Lu::of(cx, a, pivot)?;
    let (lower, upper) = triangles(cx, lu.factors)?;
    let p = if pivot {
        let order = permutation(cx, lu.pivots, m)?;
        let p = permutation_matrix(cx, order, element)?;
        cx.reshape(p, &cx.out(0)?.dims)?
    } else {
        let out = cx.out(0)?;
        zeros(cx, &out.dims, element)?
    };
    let (l_out, u_out) = (cx.out(1)?, cx.out(2)?);
    Ok((
        p,
        cx.reshape(lower, &l_out.dims)?,
        cx.reshape(upper, &u_out.dims)?,
    )
        .into())
}

fn lu_unpack(cx: &mut Cx<'_, '_>) -> Lowered {
    let data = cx.tensor("LU_data")?;
    let element = cx.element(data)?;
    let (data, _) = batched(cx, data)?;
    let m = cx.dims(data)?[1];
    let outs = [cx.out(0)?, cx.out(1)?, cx.out(2)?];
    let wanted = |name: &str| cx.call.arg(name).is_none() || cx.bool(name).unwrap_or(true);
    let (want_data, want_pivots) = (wanted("unpack_data"), wanted("unpack_pivots"));
    let p = if want_pivots && count(&outs[0].dims) > 0 {
        let pivots = given_pivots(cx, "LU_pivots")?;
        let order = permutation(cx, pivots, m)?;
        let p = permutation_matrix(cx, order, element)?;
        cx.reshape(p, &outs[0].dims)?
    } else {
        zeros(cx, &outs[0].dims, element)?
    };
    let (l, u) = if want_data {
        let (l, u) = triangles(cx, data)?;
        (cx.reshape(l, &outs[1].dims)?, cx.reshape(u, &outs[2].dims)?)
    } else {
        (
            zeros(cx, &outs[1].dims, element)?,
            zeros(cx, &outs[2].dims, element)?,
        )
    };
    Ok((p, l, u).into())
}

/// `v` of rank 3 with this batch, which its own broadcasts to.
fn widened(cx: &mut Cx<'_, '_>, v: Value, batch: &[i64]) -> Result<Value> {
    let dims = cx.dims(v)?;
    let full = with(batch, &dims[dims.len() - 2..]);
    let v = cx.broadcast_to(v, &full)?;
    Ok(batched(cx, v)?.0)
}

fn linalg_lu_solve(cx: &mut Cx<'_, '_>) -> Lowered {
    let out = cx.out(0)?;
    let (data, b) = (cx.tensor("LU")?, cx.tensor("B")?);
    decomposable(cx, data)?;
    let batch: Dims = out.dims[..out.dims.len() - 2].iter().copied().collect();
    let pivots = cx.operand("pivots", ElementType::S32)?;
    let pivots = plus(cx, pivots, -1)?;
    let steps = cx.dims(pivots)?.last().copied().unwrap_or(0);
    let pivots = cx.broadcast_to(pivots, &with(&batch, &[steps]))?;
    let pivots = cx.reshape(pivots, &[count(&batch), steps])?;
    let (data, b) = (widened(cx, data, &batch)?, widened(cx, b, &batch)?);
    let left = cx.call.arg("left").is_none() || cx.bool("left")?;
    let flip = cx.bool("adjoint")?;
    let x = if left {
        solve_factored(cx, data, pivots, b, flip)?
    } else {
        // X A = B is A* X* = B*.
        let b = adjoint(cx, b)?;
        let x = solve_factored(cx, data, pivots, b, !flip)?;
        adjoint(cx, x)?
    };
    Ok(cx.reshape(x, &out.dims)?.into())
}

fn _linalg_solve_ex(cx: &mut Cx<'_, '_>) -> Lowered {
    let out = cx.out(0)?;
    let (a, b) = (cx.tensor("A")?, cx.tensor("B")?);
    decomposable(cx, a)?;
    let (a_dims, b_dims) = (cx.dims(a)?, cx.dims(b)?);
    let split = a_dims.len() - 2;
    let vector = b_dims.len() == 1 || b_dims.as_slice() == &a_dims[..=split];
    let b = if vector {
        let mut dims = b_dims.to_vec();
        dims.push(1);
        cx.reshape(b, &dims)?
    } else {
        b
    };
    let b_dims = cx.dims(b)?;
    let batch = broadcast_dims(&[&a_dims[..split], &b_dims[..b_dims.len() - 2]])?;
    let (flat, _) = batched(cx, a)?;
    let lu = Lu::of(cx, flat, true)?;
    let factors = cx.reshape(lu.factors, &a_dims)?;
    let factors = widened(cx, factors, &batch)?;
    let n = a_dims[split];
    let pivots = cx.reshape(lu.pivots, &with(&a_dims[..split], &[n]))?;
    let pivots = cx.broadcast_to(pivots, &with(&batch, &[n]))?;
    let pivots = cx.reshape(pivots, &[count(&batch), n])?;
    let b = widened(cx, b, &batch)?;
    let left = cx.call.arg("left").is_none() || cx.bool("left")? || vector;
    let x = if left {
        solve_factored(cx, factors, pivots, b, false)?
    } else {
        let b = adjoint(cx, b)?;
        let x = solve_factored(cx, factors, pivots, b, true)?;
        adjoint(cx, x)?
    };
    let mut all = vec![cx.reshape(x, &out.dims)?];
    all.extend(factor_results(cx, &lu, 1, true)?);
    Ok(all.into())
}

fn linalg_inv_ex(cx: &mut Cx<'_, '_>) -> Lowered {
    let (out, info_out) = (cx.out(0)?, cx.out(1)?);
    let a = cx.tensor("A")?;
    let element = decomposable(cx, a)?;
    let (a, _) = batched(cx, a)?;
    let dims = cx.dims(a)?;
    let lu = Lu::of(cx, a, true)?;
    let inverse = if count(&dims) == 0 {
        a
    } else {
        let unit = identities(cx, dims[0], dims[1], dims[2], element)?;
        solve_factored(cx, lu.factors, lu.pivots, unit, false)?
    };
    Ok((
        cx.reshape(inverse, &out.dims)?,
        cx.reshape(lu.info, &info_out.dims)?,
    )
        .into())
}

/// The matrix that torch factors for a determinant: a contiguous real one is transposed, as its gradient expects.
fn determinant_operand(cx: &mut Cx<'_, '_>) -> Result<Value> {
    let contiguous = cx.meta("A")?.contiguous;
    let a = cx.tensor("A")?;
    let element = decomposable(cx, a)?;
    let (a, _) = batched(cx, a)?;
    if contiguous && !element.is_complex() {
        return transposed(cx, a);
    }
    Ok(a)
}

/// The diagonal of U and the sign of the permutation, in this type.
fn diagonal_and_sign(cx: &mut Cx<'_, '_>, lu: &Lu, element: ElementType) -> Result<(Value, Value)> {
    let diagonal = diagonal_of(cx, lu.factors, 0, 1, 2)?;
    let dims = cx.dims(lu.pivots)?;
    let own = cx.f.iota(dims.as_slice(), ElementType::S32, 1)?;
    let moved = cx.f.compare(lu.pivots, own, Direction::Ne)?;
    let (plus_one, minus_one) = (cx.full(&dims, element, 1)?, cx.full(&dims, element, -1)?);
    let signs = cx.f.select(moved, minus_one, plus_one)?;
    Ok((diagonal, multiplied(cx, signs)?))
}

fn _linalg_det(cx: &mut Cx<'_, '_>) -> Lowered {
    let out = cx.out(0)?;
    let a = determinant_operand(cx)?;
    let element = cx.element(a)?;
    let lu = Lu::of(cx, a, true)?;
    let (diagonal, sign) = diagonal_and_sign(cx, &lu, element)?;
    let det = multiplied(cx, diagonal)?;
    let det = cx.f.multiply(det, sign)?;
    let mut all = vec![cx.reshape(det, &out.dims)?];
    all.extend(factor_results(cx, &lu, 1, false)?);
    Ok(all.into())
}

fn _linalg_slogdet(cx: &mut Cx<'_, '_>) -> Lowered {
    let (sign_out, log_out) = (cx.out(0)?, cx.out(1)?);
    let a = determinant_operand(cx)?;
    let element = cx.element(a)?;
    let lu = Lu::of(cx, a, true)?;
    let (diagonal, swaps) = diagonal_and_sign(cx, &lu, element)?;
    let signs = cx.f.sign(diagonal)?;
    let sign = multiplied(cx, signs)?;
    let sign = cx.f.multiply(sign, swaps)?;
    let sizes = cx.f.abs(diagonal)?;
    let logs = cx.f.log(sizes)?;
    let zero = zeros(cx, &[], element.real())?;
    let log = reduce(cx, logs, zero, &[1], Combine::Add)?;
    let mut all = vec![cx.reshape(sign, &sign_out.dims)?, cx.reshape(log, &log_out.dims)?];
    all.extend(factor_results(cx, &lu, 2, false)?);
    Ok(all.into())
}

pub(crate) const OPS: &[OpDef] = &[
    OpDef::new("linalg_lu_factor_ex", linalg_lu_factor_ex),
    OpDef::new("linalg_lu", linalg_lu),
    OpDef::new("lu_unpack", lu_unpack),
    OpDef::new("linalg_lu_solve", linalg_lu_solve),
    OpDef::new("_linalg_solve_ex", _linalg_solve_ex),
    OpDef::new("linalg_inv_ex", linalg_inv_ex),
    OpDef::new("_linalg_det", _linalg_det),
    OpDef::new("_linalg_slogdet", _linalg_slogdet),
];
