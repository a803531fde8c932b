//! _linalg_svd: one-sided Jacobi rotations.

use dtype::ElementType;
use stablehlo::ops::Direction;
use stablehlo::{FunctionBuilder, Value};

use super::diagonals::diagonal_of;
use super::matrices::{adjoint, batched, decomposable, identities};
use super::orthogonal::{orthogonal, reflectors, upright};
use super::util::{Combine, count, head, reduce, slice_dim, zeros};
use crate::{Cx, Lowered, OpDef, Result};

/// Sweeps over all pairs of columns at most; ten are usual.
const SWEEPS: i64 = 40;

/// Sums of products along the rows of the upper part: `conj(a) b`, `[batch, pairs]`.
fn inner(
    f: &mut FunctionBuilder<'_>,
    a: Value,
    b: Value,
    rows: i64,
    element: ElementType,
) -> stablehlo::Result<Value> {
    let dims = f.tensor_ty(a)?.sizes().unwrap_or_default();
    let cut = |f: &mut FunctionBuilder<'_>, v| f.slice(v, &[0, 0, 0], &[dims[0], rows, dims[2]], &[1, 1, 1]);
    let (a, b) = (cut(f, a)?, cut(f, b)?);
    let a = if element.is_complex() {
        let (re, im) = (f.real(a)?, f.imag(a)?);
        let im = f.negate(im)?;
        f.complex(re, im)?
    } else {
        a
    };
    let products = f.multiply(a, b)?;
    let zero = f.full(&[0i64; 0], element, false)?;
    Ok(f.reduce(&[products], &[zero], &[1], |f, e| Ok(vec![f.add(e[0], e[1])?]))?[0])
}

/// Rotates each left column against its right one; the largest cosine between them before that.
fn rotate(
    f: &mut FunctionBuilder<'_>,
    left: Value,
    right: Value,
    rows: i64,
    element: ElementType,
    least: f64,
) -> stablehlo::Result<(Value, Value, Value)> {
    let part = element.real();
    let dims = f.tensor_ty(left)?.sizes().unwrap_or_default();
    let flat = [dims[0], dims[2]];
    let real = |f: &mut FunctionBuilder<'_>, v| {
        if element.is_complex() { f.real(v) } else { Ok(v) }
    };
    let number = |f: &mut FunctionBuilder<'_>, n: f64| f.full(&flat, part, n);
    let alpha = inner(f, left, left, rows, element)?;
    let alpha = real(f, alpha)?;
    let beta = inner(f, right, right, rows, element)?;
    let beta = real(f, beta)?;
    let gamma = inner(f, left, right, rows, element)?;
    let size = f.abs(gamma)?;
    let (ra, rb) = (f.sqrt(alpha)?, f.sqrt(beta)?);
    let both = f.multiply(ra, rb)?;
    let limit = number(f, least)?;
    let limit = f.multiply(both, limit)?;
    let apart = f.compare(size, limit, Direction::Gt)?;
    let (zero, one, two) = (number(f, 0.0)?, number(f, 1.0)?, number(f, 2.0)?);
    let safe = f.select(apart, size, one)?;
    let safe_both = f.select(apart, both, one)?;
    let cosine = f.divide(size, safe_both)?;
    let cosine = f.select(apart, cosine, zero)?;
    // The angle that makes them orthogonal.
    let gap = f.subtract(beta, alpha)?;
    let twice = f.multiply(two, safe)?;
    let zeta = f.divide(gap, twice)?;
    let square = f.multiply(zeta, zeta)?;
    let root = f.add(one, square)?;
    let root = f.sqrt(root)?;
    let reach = f.abs(zeta)?;
    let reach = f.add(reach, root)?;
    let tangent = f.divide(one, reach)?;
    let below = f.compare(zeta, zero, Direction::Lt)?;
    let minus = f.negate(tangent)?;
    let tangent = f.select(below, minus, tangent)?;
    let tangent = f.select(apart, tangent, zero)?;
    let square = f.multiply(tangent, tangent)?;
    let c = f.add(one, square)?;
    let c = f.rsqrt(c)?;
    let s = f.multiply(c, tangent)?;
    // The right column is turned so that the product with the left one is real and positive.
    let safe = f.convert(safe, element)?;
    let phase = f.divide(gamma, safe)?;
    let phase = if element.is_complex() {
        let (re, im) = (f.real(phase)?, f.imag(phase)?);
        let im = f.negate(im)?;
        f.complex(re, im)?
    } else {
        phase
    };
    let unit = f.full(&flat, element, true)?;
    let phase = f.select(apart, phase, unit)?;
    let wide = |f: &mut FunctionBuilder<'_>, v: Value| {
        let v = f.convert(v, element)?;
        f.broadcast_in_dim(v, dims.as_slice(), &[0, 2])
    };
    let phase = wide(f, phase)?;
    let turned = f.multiply(right, phase)?;
    let (c, s) = (wide(f, c)?, wide(f, s)?);
    let (cl, sr) = (f.multiply(c, left)?, f.multiply(s, turned)?);
    let (sl, cr) = (f.multiply(s, left)?, f.multiply(c, turned)?);
    let (left, right) = (f.subtract(cl, sr)?, f.add(sl, cr)?);
    let none = f.full(&[0i64; 0], part, 0.0)?;
    let worst = f.reduce(&[cosine], &[none], &[0, 1], |f, e| {
        Ok(vec![f.maximum(e[0], e[1])?])
    })?[0];
    Ok((left, right, worst))
}

/// Every column meets every other: the first stays, the rest go round.
fn turn(f: &mut FunctionBuilder<'_>, left: Value, right: Value) -> stablehlo::Result<(Value, Value)> {
    let dims = f.tensor_ty(left)?.sizes().unwrap_or_default();
    let half = dims[2];
    if half == 1 {
        return Ok((left, right));
    }
    let part = |f: &mut FunctionBuilder<'_>, v, from: i64, to: i64| {
        f.slice(v, &[0, 0, from], &[dims[0], dims[1], to], &[1, 1, 1])
    };
    let first = part(f, left, 0, 1)?;
    let middle = part(f, left, 1, half - 1)?;
    let last = part(f, left, half - 1, half)?;
    let up = part(f, right, 0, 1)?;
    let rest = part(f, right, 1, half)?;
    let new_left = f.concatenate(&[first, up, middle], 2)?;
    let new_right = f.concatenate(&[rest, last], 2)?;
    Ok((new_left, new_right))
}

/// `[A V; V]` with the columns of A V orthogonal, for A of rank 3 with no fewer rows than columns.
fn orthogonalized(cx: &mut Cx<'_, '_>, a: Value) -> Result<Value> {
    let dims = cx.dims(a)?;
    let (batch, m, n) = (dims[0], dims[1], dims[2]);
    let element = cx.element(a)?;
    let part = element.real();
    let unit = identities(cx, batch, n, n, element)?;
    let both = cx.f.concatenate(&[a, unit], 1)?;
    let fill = zeros(cx, &[], element)?;
    // An even number of columns; one of zeros changes nothing.
    let both = cx.f.pad(both, fill, &[0; 3], &[0, 0, n % 2], &[0; 3])?;
    let width = n + n % 2;
    let half = width / 2;
    let left = slice_dim(cx, both, 2, 0, half, 1)?;
    let right = slice_dim(cx, both, 2, half, width, 1)?;
    let (least, enough) = if part == ElementType::F64 {
        (1e-17, 1e-15)
    } else {
        (1e-9, 2e-7)
    };
    let rounds = (width - 1).max(1);
    let int = ElementType::S32;
    let start = zeros(cx, &[], int)?;
    let end = cx.full(&[], int, rounds * SWEEPS)?;
    let none = cx.full(&[], part, 0)?;
    let enough = cx.full(&[], part, enough)?;
    let more = cx.full(&[], ElementType::Pred, true)?;
    let done = cx.f.while_(
        &[start, left, right, none, more],
        |f, c| {
            let within = f.compare(c[0], end, Direction::Lt)?;
            Ok(vec![f.and(within, c[4])?])
        },
        |f, c| {
            let (left, right, worst) = rotate(f, c[1], c[2], m, element, least)?;
            let (left, right) = turn(f, left, right)?;
            let worst = f.maximum(worst, c[3])?;
            let one = f.scalar(1i32)?;
            let next = f.add(c[0], one)?;
            let length = f.full(&[0i64; 0], int, rounds)?;
            let phase = f.remainder(next, length)?;
            let zero = f.scalar(0i32)?;
            let swept = f.compare(phase, zero, Direction::Eq)?;
            // After a whole sweep: is any pair still not orthogonal?
            let far = f.compare(worst, enough, Direction::Gt)?;
            let more = f.select(swept, far, c[4])?;
            let fresh = f.full(&[0i64; 0], part, 0.0)?;
            let worst = f.select(swept, fresh, worst)?;
            Ok(vec![next, left, right, worst, more])
        },
    )?;
    Ok(cx.f.concatenate(&[done[1], done[2]], 2)?)
}

/// Lengths of the columns in these rows, `[batch, columns]`.
fn lengths(cx: &mut Cx<'_, '_>, v: Value) -> Result<Value> {
    let sizes = cx.f.abs(v)?;
    let squares = cx.f.multiply(sizes, sizes)?;
    let element = cx.element(squares)?;
    let zero = zeros(cx, &[], element)?;
    let sum = reduce(cx, squares, zero, &[1], Combine::Add)?;
    Ok(cx.f.sqrt(sum)?)
}

/// U, the singular values and V*, of rank 3, 2 and 3, of matrices that are not empty; U and V* where they are wanted.
pub(crate) fn decomposed(
    cx: &mut Cx<'_, '_>,
    a: Value,
    full: bool,
    wants: bool,
) -> Result<(Option<Value>, Value, Option<Value>)> {
    let element = cx.element(a)?;
    let part = element.real();
    let sizes = cx.dims(a)?;
    let wide = sizes[1] < sizes[2];
    let a = upright(cx, a, wide)?;
    let dims = cx.dims(a)?;
    let (batch, m, n) = (dims[0], dims[1], dims[2]);
    // Squares of large and small numbers leave the range: compute with the largest at 1.
    let entries = cx.f.abs(a)?;
    let zero = zeros(cx, &[], part)?;
    let largest = reduce(cx, entries, zero, &[1, 2], Combine::Max)?;
    let none = cx.full(&[batch], part, 0)?;
    let one = cx.full(&[batch], part, 1)?;
    let some = cx.f.compare(largest, none, Direction::Ne)?;
    let scale = cx.f.select(some, largest, one)?;
    let by = cx.f.convert(scale, element)?;
    let by = cx.f.broadcast_in_dim(by, dims.as_slice(), &[0])?;
    let a = cx.f.divide(a, by)?;
    let both = orthogonalized(cx, a)?;
    // Longest first; the column of zeros, which has no part in V, last.
    let full_dims = cx.dims(both)?;
    let upper = head(cx, both, &[batch, m, full_dims[2]])?;
    let lower = slice_dim(cx, both, 1, m, m + n, 1)?;
    let (values, parts) = (lengths(cx, upper)?, lengths(cx, lower)?);
    let half = cx.full_like(parts, 0.5)?;
    let padding = cx.f.compare(parts, half, Direction::Lt)?;
    let below = cx.full_like(values, -1)?;
    let keys = cx.f.select(padding, below, values)?;
    let keys = cx.f.broadcast_in_dim(keys, full_dims.as_slice(), &[0, 2])?;
    let sorted = cx.f.sort(&[keys, both], 2, true, |f, e| {
        Ok(vec![f.compare(e[0], e[1], Direction::Gt)?])
    })?;
    let values = head(cx, sorted[0], &[batch, 1, n])?;
    let values = cx.reshape(values, &[batch, n])?;
    let by = cx.f.broadcast_in_dim(scale, &[batch, n], &[0])?;
    let values = cx.f.multiply(values, by)?;
    if !wants {
        return Ok((None, values, None));
    }
    let both = head(cx, sorted[1], &[batch, m + n, n])?;
    let upper = head(cx, both, &[batch, m, n])?;
    let v = slice_dim(cx, both, 1, m, m + n, 1)?;
    // The left vectors, completed where a singular value is 0: the orthogonal factor, up to the signs of R.
    let (packed, scales) = reflectors(cx, upper)?;
    let columns = if full { m } else { n };
    let q = orthogonal(cx, packed, scales, columns)?;
    let r = diagonal_of(cx, packed, 0, 1, 2)?;
    let size = cx.f.abs(r)?;
    let none = cx.full_like(size, 0)?;
    let some = cx.f.compare(size, none, Direction::Gt)?;
    let ones = cx.full_like(size, 1)?;
    let safe = cx.f.select(some, size, ones)?;
    let safe = cx.f.convert(safe, element)?;
    let sign = cx.f.divide(r, safe)?;
    let unit = cx.full_like(sign, true)?;
    let sign = cx.f.select(some, sign, unit)?;
    let fill = cx.full(&[], element, true)?;
    let sign = cx.f.pad(sign, fill, &[0, 0], &[0, columns - n], &[0, 0])?;
    let sign = cx.f.broadcast_in_dim(sign, &[batch, m, columns], &[0, 2])?;
    let u = cx.f.multiply(q, sign)?;
    let (u, vh) = if wide {
        (v, adjoint(cx, u)?)
    } else {
        (u, adjoint(cx, v)?)
    };
    Ok((Some(u), values, Some(vh)))
}

fn _linalg_svd(cx: &mut Cx<'_, '_>) -> Lowered {
    let (u_out, s_out, v_out) = (cx.out(0)?, cx.out(1)?, cx.out(2)?);
    let a = cx.tensor("A")?;
    let element = decomposable(cx, a)?;
    let part = element.real();
    let (a, _) = batched(cx, a)?;
    let sizes = cx.dims(a)?;
    let wants = cx.call.arg("compute_uv").is_none() || cx.bool("compute_uv")?;
    let full = cx.bool("full_matrices")?;
    if count(&sizes) == 0 {
        let side = |cx: &mut Cx<'_, '_>, dims: &[i64], n: i64| {
            if count(dims) == 0 || !wants {
                return zeros(cx, dims, element);
            }
            let unit = identities(cx, sizes[0], n, n, element)?;
            cx.reshape(unit, dims)
        };
        let u = side(cx, &u_out.dims, sizes[1])?;
        let v = side(cx, &v_out.dims, sizes[2])?;
        return Ok((u, zeros(cx, &s_out.dims, part)?, v).into());
    }
    let (u, values, vh) = decomposed(cx, a, full, wants)?;
    let values = cx.reshape(values, &s_out.dims)?;
    let (Some(u), Some(vh)) = (u, vh) else {
        let (u, v) = (zeros(cx, &u_out.dims, element)?, zeros(cx, &v_out.dims, element)?);
        return Ok((u, values, v).into());
    };
    Ok((cx.reshape(u, &u_out.dims)?, values, cx.reshape(vh, &v_out.dims)?).into())
}

pub(crate) const OPS: &[OpDef] = &[OpDef::new("_linalg_svd", _linalg_svd)];
