//! linalg_ldl_factor_ex and linalg_ldl_solve: Bunch and Kaufman's pivots, as LAPACK's sytf2, hetf2 and sytrs choose them.

use dtype::ElementType;
use stablehlo::ops::Direction;
use stablehlo::{FunctionBuilder, Value};

use super::matrices::{batched, decomposable, lapack_size, with};
use super::orthogonal::hermitian;
use super::util::{count, zeros};
use crate::cx::broadcast_dims;
use crate::{Cx, Lowered, OpDef, Result};

type Built<T> = stablehlo::Result<T>;

const INT: ElementType = ElementType::S32;

/// A batch of matrices of `n` rows, and what is read and written of them row by row.
struct Shape {
    batch: i64,
    n: i64,
    element: ElementType,
    /// Conjugates where the matrix is its adjoint.
    hermitian: bool,
    at: Value,
}

impl Shape {
    fn of(cx: &mut Cx<'_, '_>, batch: i64, n: i64, element: ElementType, hermitian: bool) -> Result<Self> {
        Ok(Self {
            batch,
            n,
            element,
            hermitian: hermitian && element.is_complex(),
            at: cx.f.iota(&[batch, n], INT, 1)?,
        })
    }

    fn turned(&self, f: &mut FunctionBuilder<'_>, v: Value) -> Built<Value> {
        if !self.hermitian {
            return Ok(v);
        }
        let (re, im) = (f.real(v)?, f.imag(v)?);
        let im = f.negate(im)?;
        f.complex(re, im)
    }

    /// Which position is `k[batch]`.
    fn is(&self, f: &mut FunctionBuilder<'_>, k: Value, direction: Direction) -> Built<Value> {
        let k = f.broadcast_in_dim(k, &[self.batch, self.n], &[0])?;
        f.compare(self.at, k, direction)
    }

    fn only(&self, f: &mut FunctionBuilder<'_>, mask: Value, v: Value) -> Built<Value> {
        let (dims, element) = {
            let ty = f.tensor_ty(v)?;
            (ty.sizes().unwrap_or_default(), ty.element)
        };
        let none = f.full(dims.as_slice(), element, false)?;
        f.select(mask, v, none)
    }

    fn sum(&self, f: &mut FunctionBuilder<'_>, v: Value, dims: &[i64]) -> Built<Value> {
        let element = f.tensor_ty(v)?.element;
        let zero = f.full(&[0i64; 0], element, false)?;
        Ok(f.reduce(&[v], &[zero], dims, |f, e| Ok(vec![f.add(e[0], e[1])?]))?[0])
    }

    /// `v[:, k]` of rank 2.
    fn pick(&self, f: &mut FunctionBuilder<'_>, v: Value, mask: Value) -> Built<Value> {
        let kept = self.only(f, mask, v)?;
        self.sum(f, kept, &[1])
    }

    /// Row (`along` 1) or column (2) that the mask tells, of rank 3.
    fn line(&self, f: &mut FunctionBuilder<'_>, v: Value, mask: Value, along: i64) -> Built<Value> {
        let dims = f.tensor_ty(v)?.sizes().unwrap_or_default();
        let mask = f.broadcast_in_dim(mask, dims.as_slice(), &[0, along])?;
        let kept = self.only(f, mask, v)?;
        self.sum(f, kept, &[along])
    }

    /// The row or column replaced by `line`.
    fn put(
        &self,
        f: &mut FunctionBuilder<'_>,
        v: Value,
        mask: Value,
        line: Value,
        along: i64,
    ) -> Built<Value> {
        let dims = f.tensor_ty(v)?.sizes().unwrap_or_default();
        let mask = f.broadcast_in_dim(mask, dims.as_slice(), &[0, along])?;
        let line = f.broadcast_in_dim(line, dims.as_slice(), &[0, 3 - along])?;
        f.select(mask, line, v)
    }

    /// Rows or columns exchanged.
    fn swap(&self, f: &mut FunctionBuilder<'_>, v: Value, p: Value, q: Value, along: i64) -> Built<Value> {
        let (on_p, on_q) = (self.is(f, p, Direction::Eq)?, self.is(f, q, Direction::Eq)?);
        let (first, second) = (self.line(f, v, on_p, along)?, self.line(f, v, on_q, along)?);
        let v = self.put(f, v, on_p, second, along)?;
        self.put(f, v, on_q, first, along)
    }

    /// `left[i] right[j]`, of any widths.
    fn outer(&self, f: &mut FunctionBuilder<'_>, left: Value, right: Value) -> Built<Value> {
        let rows = f.tensor_ty(left)?.sizes().unwrap_or_default()[1];
        let columns = f.tensor_ty(right)?.sizes().unwrap_or_default()[1];
        let left = f.broadcast_in_dim(left, &[self.batch, rows, columns], &[0, 1])?;
        let right = f.broadcast_in_dim(right, &[self.batch, rows, columns], &[0, 2])?;
        f.multiply(left, right)
    }

    /// The greatest and the first position that has it.
    fn greatest(&self, f: &mut FunctionBuilder<'_>, v: Value) -> Built<(Value, Value)> {
        let part = self.element.real();
        let least = f.full(&[0i64; 0], part, -1.0)?;
        let most = f.reduce(&[v], &[least], &[1], |f, e| Ok(vec![f.maximum(e[0], e[1])?]))?[0];
        let wide = f.broadcast_in_dim(most, &[self.batch, self.n], &[0])?;
        let is = f.compare(v, wide, Direction::Ge)?;
        let end = f.full(&[self.batch, self.n], INT, self.n - 1)?;
        let places = f.select(is, self.at, end)?;
        let last = f.full(&[0i64; 0], INT, self.n - 1)?;
        let first = f.reduce(&[places], &[last], &[1], |f, e| Ok(vec![f.minimum(e[0], e[1])?]))?[0];
        Ok((most, first))
    }

    /// Eliminates one or two columns of each matrix: `k`, what is left, the factors, pivots from 1, info.
    fn eliminate(&self, f: &mut FunctionBuilder<'_>, c: &[Value]) -> Built<Vec<Value>> {
        let (k, s, factors, pivots, info) = (c[0], c[1], c[2], c[3], c[4]);
        let (b, n, part) = (self.batch, self.n, self.element.real());
        let one = f.full(&[b], INT, 1)?;
        let alpha = f.full(&[b], part, (1.0 + 17f64.sqrt()) / 8.0)?;
        let none = f.full(&[b], part, 0.0)?;
        let end = f.full(&[b], INT, n)?;
        let going = f.compare(k, end, Direction::Lt)?;
        let on_k = self.is(f, k, Direction::Eq)?;
        let below = self.is(f, k, Direction::Gt)?;
        let column = self.line(f, s, on_k, 2)?;
        let sizes = lapack_size(f, column)?;
        let own = self.pick(f, sizes, on_k)?;
        let rest = self.only(f, below, sizes)?;
        let (column_most, other) = self.greatest(f, rest)?;
        // The row of the greatest, to the right of k and without its diagonal.
        let on_other = self.is(f, other, Direction::Eq)?;
        let not_other = self.is(f, other, Direction::Ne)?;
        let from_k = self.is(f, k, Direction::Ge)?;
        let row = self.line(f, s, on_other, 2)?;
        let row_sizes = lapack_size(f, row)?;
        let other_size = self.pick(f, row_sizes, on_other)?;
        let off = f.and(from_k, not_other)?;
        let off = self.only(f, off, row_sizes)?;
        let (row_most, _) = self.greatest(f, off)?;
        let largest = f.maximum(own, column_most)?;
        let singular = f.compare(largest, none, Direction::Eq)?;
        let scaled = f.multiply(alpha, column_most)?;
        let enough = f.compare(own, scaled, Direction::Ge)?;
        let squared = f.multiply(scaled, column_most)?;
        let against = f.multiply(own, row_most)?;
        let also = f.compare(against, squared, Direction::Ge)?;
        let stay = f.or(enough, also)?;
        let stay = f.or(stay, singular)?;
        let row_scaled = f.multiply(alpha, row_most)?;
        let diagonal = f.compare(other_size, row_scaled, Direction::Ge)?;
        let single = f.or(stay, diagonal)?;
        let pivot = f.select(stay, k, other)?;
        let next = f.add(k, one)?;
        let exchanged = f.select(single, k, next)?;
        let s = self.swap(f, s, exchanged, pivot, 1)?;
        let s = self.swap(f, s, exchanged, pivot, 2)?;
        // D, and the columns below it.
        let on_next = self.is(f, next, Direction::Eq)?;
        let beyond = self.is(f, next, Direction::Gt)?;
        let (first, second) = (self.line(f, s, on_k, 2)?, self.line(f, s, on_next, 2)?);
        let d11 = self.pick(f, first, on_k)?;
        let d21 = self.pick(f, first, on_next)?;
        let d22 = self.pick(f, second, on_next)?;
        let unit = f.full(&[b], self.element, true)?;
        let safe = f.select(singular, unit, d11)?;
        let wide = |f: &mut FunctionBuilder<'_>, v: Value| f.broadcast_in_dim(v, &[b, n], &[0]);
        let first_single = self.only(f, below, first)?;
        let divisor = wide(f, safe)?;
        let w_single = f.divide(first_single, divisor)?;
        let c1 = self.only(f, beyond, first)?;
        let c2 = self.only(f, beyond, second)?;
        let d12 = self.turned(f, d21)?;
        let (main, cross) = (f.multiply(d11, d22)?, f.multiply(d12, d21)?);
        let det = f.subtract(main, cross)?;
        let det = f.select(single, unit, det)?;
        let det = wide(f, det)?;
        let (e11, e21, e12, e22) = (wide(f, d11)?, wide(f, d21)?, wide(f, d12)?, wide(f, d22)?);
        let w1 = {
            let (x, y) = (f.multiply(c1, e22)?, f.multiply(c2, e21)?);
            let x = f.subtract(x, y)?;
            f.divide(x, det)?
        };
        let w2 = {
            let (x, y) = (f.multiply(c2, e11)?, f.multiply(c1, e12)?);
            let x = f.subtract(x, y)?;
            f.divide(x, det)?
        };
        let single_wide = wide(f, single)?;
        let nothing = f.full(&[b, n], self.element, false)?;
        let w1 = f.select(single_wide, w_single, w1)?;
        let w2 = f.select(single_wide, nothing, w2)?;
        let c1 = f.select(single_wide, first_single, c1)?;
        let (t1, t2) = (self.turned(f, c1)?, self.turned(f, c2)?);
        let (o1, o2) = (self.outer(f, w1, t1)?, self.outer(f, w2, t2)?);
        let gone = f.add(o1, o2)?;
        let left = f.subtract(s, gone)?;
        let column = {
            let diagonal = wide(f, d11)?;
            let line = f.select(on_k, diagonal, w1)?;
            let under = wide(f, d21)?;
            let pair = wide(f, single)?;
            let pair = f.not(pair)?;
            let at = f.and(pair, on_next)?;
            f.select(at, under, line)?
        };
        let next_column = {
            let diagonal = wide(f, d22)?;
            f.select(on_next, diagonal, w2)?
        };
        let written = self.put(f, factors, on_k, column, 2)?;
        let two = self.put(f, written, on_next, next_column, 2)?;
        let single_full = f.broadcast_in_dim(single, &[b, n, n], &[0])?;
        let written = f.select(single_full, written, two)?;
        let number = f.add(pivot, one)?;
        let negative = f.negate(number)?;
        let number = f.select(single, number, negative)?;
        let number = wide(f, number)?;
        let new_pivots = f.select(on_k, number, pivots)?;
        let both = f.select(on_next, number, new_pivots)?;
        let new_pivots = f.select(single_wide, new_pivots, both)?;
        let unset = {
            let zero = f.full(&[b], INT, 0)?;
            f.compare(info, zero, Direction::Eq)?
        };
        let found = f.and(unset, singular)?;
        let found = f.and(found, going)?;
        let info = f.select(found, next, info)?;
        let step = {
            let two = f.full(&[b], INT, 2)?;
            f.select(single, one, two)?
        };
        let k_next = f.add(k, step)?;
        let going_full = f.broadcast_in_dim(going, &[b, n, n], &[0])?;
        let going_wide = wide(f, going)?;
        Ok(vec![
            f.select(going, k_next, k)?,
            f.select(going_full, left, s)?,
            f.select(going_full, written, factors)?,
            f.select(going_wide, new_pivots, pivots)?,
            info,
        ])
    }
}

/// Decisions depend on the last digits: computed in double precision they are those of exact arithmetic.
fn wide(element: ElementType) -> ElementType {
    if element.is_complex() {
        ElementType::C128
    } else {
        ElementType::F64
    }
}

/// The whole symmetric matrix that the lower triangle stands for.
fn mirrored(cx: &mut Cx<'_, '_>, a: Value, adjoint: bool) -> Result<Value> {
    if adjoint || !cx.element(a)?.is_complex() {
        return hermitian(cx, a, true);
    }
    let lower = super::diagonals::keep_triangle(cx, a, true, 0)?;
    let strict = super::diagonals::keep_triangle(cx, a, true, -1)?;
    let upper = super::matrices::transposed(cx, strict)?;
    Ok(cx.f.add(lower, upper)?)
}

fn linalg_ldl_factor_ex(cx: &mut Cx<'_, '_>) -> Lowered {
    let outs = [cx.out(0)?, cx.out(1)?, cx.out(2)?];
    let a = cx.tensor("self")?;
    let element = decomposable(cx, a)?;
    let (a, _) = batched(cx, a)?;
    let dims = cx.dims(a)?;
    if count(&dims) == 0 {
        let mut all = Vec::new();
        for out in outs {
            all.push(zeros(cx, &out.dims, out.element)?);
        }
        return Ok(all.into());
    }
    let (b, n) = (dims[0], dims[1]);
    let adjoint = cx.bool("hermitian")?;
    let a = cx.cast(a, wide(element))?;
    let s = mirrored(cx, a, adjoint)?;
    let shape = Shape::of(cx, b, n, wide(element), adjoint)?;
    let start = [
        zeros(cx, &[b], INT)?,
        s,
        zeros(cx, &dims, wide(element))?,
        zeros(cx, &[b, n], INT)?,
        zeros(cx, &[b], INT)?,
    ];
    let end = cx.full(&[], INT, n)?;
    let done = cx.f.while_(
        &start,
        |f, c| {
            let most = f.full(&[0i64; 0], INT, i64::from(i32::MAX))?;
            let least = f.reduce(&[c[0]], &[most], &[0], |f, e| Ok(vec![f.minimum(e[0], e[1])?]))?[0];
            Ok(vec![f.compare(least, end, Direction::Lt)?])
        },
        |f, c| shape.eliminate(f, c),
    )?;
    let mut all = Vec::new();
    for (v, out) in [done[2], done[3], done[4]].into_iter().zip(outs) {
        all.push(cx.reshape(v, &out.dims)?);
    }
    Ok(all.into())
}

/// Goes through the columns of L, forwards or back: exchanges rows of the right sides and eliminates them.
fn sweep(
    cx: &mut Cx<'_, '_>,
    shape: &Shape,
    (factors, pivots, firsts): (Value, Value, Value),
    x: Value,
    back: bool,
) -> Result<Value> {
    let (b, n) = (shape.batch, shape.n);
    let start = cx.full(&[], INT, if back { n - 1 } else { 0 })?;
    let end = cx.full(&[], INT, if back { -1 } else { n })?;
    let zero = cx.full(&[], INT, 0)?;
    let none = cx.full(&[b], INT, 0)?;
    let ones = cx.full(&[b], INT, 1)?;
    let done = cx.f.while_(
        &[start, x],
        |f, c| Ok(vec![f.compare(c[0], end, Direction::Ne)?]),
        |f, c| {
            let (at, x) = (c[0], c[1]);
            let k = f.broadcast_in_dim(at, &[b], &[])?;
            let one_of = |f: &mut FunctionBuilder<'_>, v: Value| -> Built<Value> {
                let v = f.dynamic_slice(v, &[zero, at], &[b, 1])?;
                f.reshape(v, &[b])
            };
            let (pivot, first) = (one_of(f, pivots)?, one_of(f, firsts)?);
            let negative = f.compare(pivot, none, Direction::Lt)?;
            let first = f.compare(first, none, Direction::Ne)?;
            let size = f.abs(pivot)?;
            let theirs = f.subtract(size, ones)?;
            let next = f.add(k, ones)?;
            // The second of a pair exchanges nothing; the first exchanges the row after it.
            let mine = f.select(first, next, k)?;
            let not_first = f.not(first)?;
            let second = f.and(negative, not_first)?;
            let theirs = f.select(second, mine, theirs)?;
            let from = f.select(first, next, k)?;
            let below = shape.is(f, from, Direction::Gt)?;
            let on = shape.is(f, k, Direction::Eq)?;
            let column = shape.line(f, factors, on, 2)?;
            let column = shape.only(f, below, column)?;
            let x = if back {
                let column = shape.turned(f, column)?;
                let dims = f.tensor_ty(x)?.sizes().unwrap_or_default();
                let wide = f.broadcast_in_dim(column, dims.as_slice(), &[0, 1])?;
                let terms = f.multiply(wide, x)?;
                let sum = shape.sum(f, terms, &[1])?;
                let own = shape.line(f, x, on, 1)?;
                let own = f.subtract(own, sum)?;
                let x = shape.put(f, x, on, own, 1)?;
                shape.swap(f, x, mine, theirs, 1)?
            } else {
                let x = shape.swap(f, x, mine, theirs, 1)?;
                let own = shape.line(f, x, on, 1)?;
                let gone = shape.outer(f, column, own)?;
                f.subtract(x, gone)?
            };
            let step = f.full(&[0i64; 0], INT, if back { -1 } else { 1 })?;
            Ok(vec![f.add(at, step)?, x])
        },
    )?;
    Ok(done[1])
}

/// 1 at the first position of each pair of pivots.
fn firsts_of_pairs(cx: &mut Cx<'_, '_>, shape: &Shape, pivots: Value) -> Result<Value> {
    let (b, n) = (shape.batch, shape.n);
    let start = zeros(cx, &[], INT)?;
    let end = cx.full(&[], INT, n)?;
    let none = zeros(cx, &[b], INT)?;
    let firsts = zeros(cx, &[b, n], INT)?;
    let done = cx.f.while_(
        &[start, none, firsts],
        |f, c| Ok(vec![f.compare(c[0], end, Direction::Lt)?]),
        |f, c| {
            let zero = f.scalar(0i32)?;
            let pivot = f.dynamic_slice(pivots, &[zero, c[0]], &[b, 1])?;
            let pivot = f.reshape(pivot, &[b])?;
            let negative = f.compare(pivot, none, Direction::Lt)?;
            let fresh = f.compare(c[1], none, Direction::Eq)?;
            let first = f.and(negative, fresh)?;
            let first = f.convert(first, INT)?;
            let line = f.reshape(first, &[b, 1])?;
            let firsts = f.dynamic_update_slice(c[2], line, &[zero, c[0]])?;
            let one = f.scalar(1i32)?;
            Ok(vec![f.add(c[0], one)?, first, firsts])
        },
    )?;
    Ok(done[2])
}

/// `D x = b` for blocks of one or two.
fn solve_blocks(
    cx: &mut Cx<'_, '_>,
    shape: &Shape,
    factors: Value,
    firsts: Value,
    x: Value,
) -> Result<Value> {
    let dims = cx.dims(x)?;
    let element = cx.element(x)?;
    let zero = zeros(cx, &[], element)?;
    let up = |cx: &mut Cx<'_, '_>, v: Value| -> Result<Value> {
        let rank = cx.rank(v)?;
        let (mut low, mut high) = (vec![0; rank], vec![0; rank]);
        (low[1], high[1]) = (-1, 1);
        Ok(cx.f.pad(v, zero, &low, &high, &vec![0; rank])?)
    };
    let down = |cx: &mut Cx<'_, '_>, v: Value| -> Result<Value> {
        let rank = cx.rank(v)?;
        let (mut low, mut high) = (vec![0; rank], vec![0; rank]);
        (low[1], high[1]) = (1, -1);
        let fill = if cx.element(v)? == INT {
            zeros(cx, &[], INT)?
        } else {
            zero
        };
        Ok(cx.f.pad(v, fill, &low, &high, &vec![0; rank])?)
    };
    let diagonal = super::diagonals::diagonal_of(cx, factors, 0, 1, 2)?;
    let under = if shape.n > 1 {
        let short = super::diagonals::diagonal_of(cx, factors, -1, 1, 2)?;
        cx.f.pad(short, zero, &[0, 0], &[0, 1], &[0, 0])?
    } else {
        zeros(cx, &[shape.batch, shape.n], element)?
    };
    // At the first of a pair: D = [[d, u*], [u, d']].
    let after = up(cx, diagonal)?;
    let over = shape.turned(cx.f, under)?;
    let main = cx.f.multiply(diagonal, after)?;
    let cross = cx.f.multiply(under, over)?;
    let det = cx.f.subtract(main, cross)?;
    let wide = |cx: &mut Cx<'_, '_>, v: Value| -> Result<Value> {
        Ok(cx.f.broadcast_in_dim(v, dims.as_slice(), &[0, 1])?)
    };
    let seconds = down(cx, firsts)?;
    let (first, second) = (cx.truth(firsts)?, cx.truth(seconds)?);
    let (first, second) = (wide(cx, first)?, wide(cx, second)?);
    let single = wide(cx, diagonal)?;
    let single = cx.f.divide(x, single)?;
    let next = up(cx, x)?;
    let (d, e, u, o, det) = (
        wide(cx, diagonal)?,
        wide(cx, after)?,
        wide(cx, under)?,
        wide(cx, over)?,
        wide(cx, det)?,
    );
    let (p, q) = (cx.f.multiply(e, x)?, cx.f.multiply(o, next)?);
    let of_first = cx.f.subtract(p, q)?;
    let of_first = cx.f.divide(of_first, det)?;
    let (p, q) = (cx.f.multiply(d, next)?, cx.f.multiply(u, x)?);
    let of_second = cx.f.subtract(p, q)?;
    let of_second = cx.f.divide(of_second, det)?;
    let of_second = down(cx, of_second)?;
    let v = cx.f.select(second, of_second, single)?;
    Ok(cx.f.select(first, of_first, v)?)
}

fn linalg_ldl_solve(cx: &mut Cx<'_, '_>) -> Lowered {
    let out = cx.out(0)?;
    let (factors, b) = (cx.tensor("LD")?, cx.tensor("B")?);
    let element = decomposable(cx, factors)?;
    if count(&out.dims) == 0 {
        return Ok(zeros(cx, &out.dims, element)?.into());
    }
    let (f_dims, b_dims) = (cx.dims(factors)?, cx.dims(b)?);
    let split = f_dims.len() - 2;
    let batch = broadcast_dims(&[&f_dims[..split], &b_dims[..b_dims.len() - 2]])?;
    let n = f_dims[split];
    let spread = |cx: &mut Cx<'_, '_>, v: Value| -> Result<Value> {
        let v = cx.cast(v, wide(element))?;
        let dims = cx.dims(v)?;
        let v = cx.broadcast_to(v, &with(&batch, &dims[dims.len() - 2..]))?;
        Ok(batched(cx, v)?.0)
    };
    let (factors, b) = (spread(cx, factors)?, spread(cx, b)?);
    let pivots = cx.operand("pivots", INT)?;
    let pivots = cx.broadcast_to(pivots, &with(&batch, &[n]))?;
    let pivots = cx.reshape(pivots, &[count(&batch), n])?;
    let adjoint = cx.bool("hermitian")?;
    let shape = Shape::of(cx, count(&batch), n, wide(element), adjoint)?;
    let firsts = firsts_of_pairs(cx, &shape, pivots)?;
    let parts = (factors, pivots, firsts);
    let x = sweep(cx, &shape, parts, b, false)?;
    let x = solve_blocks(cx, &shape, factors, firsts, x)?;
    let x = sweep(cx, &shape, parts, x, true)?;
    Ok(cx.reshape(x, &out.dims)?.into())
}

pub(crate) const OPS: &[OpDef] = &[
    OpDef::new("linalg_ldl_factor_ex", linalg_ldl_factor_ex),
    OpDef::new("linalg_ldl_solve", linalg_ldl_solve),
];
