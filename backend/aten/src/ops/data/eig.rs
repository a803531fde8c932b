//! linalg_eig, _linalg_eigvals: eigenvalues of matrices without symmetry, by shifted QR steps in complex double precision.

use dtype::ElementType;
use stablehlo::ops::Direction;
use stablehlo::{FunctionBuilder, Value};

use super::matrices::{batched, decomposable, identities, product};
use super::util::{Combine, all_true, count, reduce, zeros};
use crate::{Cx, ErrorKind, Lowered, OpDef, Result};

type Built<T> = stablehlo::Result<T>;

const INT: ElementType = ElementType::S32;
const WIDE: ElementType = ElementType::C128;
const PART: ElementType = ElementType::F64;
/// Steps at most for each eigenvalue; two or three are usual.
const STEPS: i64 = 40;
/// What counts as nothing beside the numbers around it.
const EPSILON: f64 = 2.3e-16;

fn conjugated(f: &mut FunctionBuilder<'_>, v: Value) -> Built<Value> {
    let (re, im) = (f.real(v)?, f.imag(v)?);
    let im = f.negate(im)?;
    f.complex(re, im)
}

/// Sums along one dimension.
fn summed(f: &mut FunctionBuilder<'_>, v: Value, dims: &[i64]) -> Built<Value> {
    let element = f.tensor_ty(v)?.element;
    let zero = f.full(&[0i64; 0], element, false)?;
    Ok(f.reduce(&[v], &[zero], dims, |f, e| Ok(vec![f.add(e[0], e[1])?]))?[0])
}

/// The greatest (or least) along one dimension of integers or floats without NaN.
fn extreme(f: &mut FunctionBuilder<'_>, v: Value, dims: &[i64], greatest: bool, start: i32) -> Built<Value> {
    let start = f.scalar(start)?;
    Ok(f.reduce(&[v], &[start], dims, |f, e| {
        Ok(vec![if greatest {
            f.maximum(e[0], e[1])?
        } else {
            f.minimum(e[0], e[1])?
        }])
    })?[0])
}

/// `on_true` where the mask holds, else zero.
fn only(f: &mut FunctionBuilder<'_>, mask: Value, v: Value) -> Built<Value> {
    let (dims, element) = {
        let ty = f.tensor_ty(v)?;
        (ty.sizes().unwrap_or_default(), ty.element)
    };
    let none = f.full(dims.as_slice(), element, false)?;
    f.select(mask, v, none)
}

/// A batch of square matrices under rotation.
struct Shape {
    batch: i64,
    n: i64,
    rows: Value,
    columns: Value,
    at: Value,
}

impl Shape {
    fn of(cx: &mut Cx<'_, '_>, batch: i64, n: i64) -> Result<Self> {
        Ok(Self {
            batch,
            n,
            rows: cx.f.iota(&[batch, n, n], INT, 1)?,
            columns: cx.f.iota(&[batch, n, n], INT, 2)?,
            at: cx.f.iota(&[batch, n], INT, 1)?,
        })
    }

    fn full(&self) -> [i64; 3] {
        [self.batch, self.n, self.n]
    }

    /// The elements `v[i + by, i]` as `[batch, n]`, by `i + by`, zero where there is none.
    fn diagonal(&self, f: &mut FunctionBuilder<'_>, v: Value, by: i64) -> Built<Value> {
        let by = f.full(&self.full(), INT, by)?;
        let column = f.add(self.columns, by)?;
        let on = f.compare(self.rows, column, Direction::Eq)?;
        let kept = only(f, on, v)?;
        summed(f, kept, &[2])
    }

    /// One element a matrix.
    fn element(&self, f: &mut FunctionBuilder<'_>, v: Value, row: Value, column: Value) -> Built<Value> {
        let row = f.broadcast_in_dim(row, self.full().as_slice(), &[0])?;
        let column = f.broadcast_in_dim(column, self.full().as_slice(), &[0])?;
        let on_row = f.compare(self.rows, row, Direction::Eq)?;
        let on_column = f.compare(self.columns, column, Direction::Eq)?;
        let on = f.and(on_row, on_column)?;
        let kept = only(f, on, v)?;
        summed(f, kept, &[1, 2])
    }

    /// Rotates rows `k` and `k + 1`, and the columns back, so that `(x, y)` would become `(r, 0)`; where `on` holds.
    fn rotate(
        &self,
        f: &mut FunctionBuilder<'_>,
        [h, z]: [Value; 2],
        k: Value,
        [x, y]: [Value; 2],
        on: Value,
    ) -> Built<[Value; 2]> {
        let (b, n) = (self.batch, self.n);
        let squares = {
            let (x, y) = (f.abs(x)?, f.abs(y)?);
            let (x, y) = (f.multiply(x, x)?, f.multiply(y, y)?);
            f.add(x, y)?
        };
        let length = f.sqrt(squares)?;
        let none = f.full(&[b], PART, 0.0)?;
        let some = f.compare(length, none, Direction::Gt)?;
        let on = f.and(on, some)?;
        let unit = f.full(&[b], PART, 1.0)?;
        let length = f.select(on, length, unit)?;
        let length = f.convert(length, WIDE)?;
        let (x, y) = (f.divide(x, length)?, f.divide(y, length)?);
        let one = f.full(&[b], WIDE, true)?;
        let x = f.select(on, x, one)?;
        let y = only(f, on, y)?;
        let (xc, yc) = (conjugated(f, x)?, conjugated(f, y)?);
        let minus_y = f.negate(y)?;
        let minus_yc = f.negate(yc)?;
        let zero = f.scalar(0i32)?;
        let mix = |f: &mut FunctionBuilder<'_>, a: Value, p: Value, q: Value, r: Value| -> Built<Value> {
            let (p, r) = (
                f.broadcast_in_dim(p, &[b, n], &[0])?,
                f.broadcast_in_dim(r, &[b, n], &[0])?,
            );
            let (left, right) = (f.multiply(a, p)?, f.multiply(q, r)?);
            f.add(left, right)
        };
        let lines = |f: &mut FunctionBuilder<'_>, v: Value, rows: bool| -> Built<[Value; 2]> {
            let sizes = if rows { [b, 2, n] } else { [b, n, 2] };
            let starts = if rows { [zero, k, zero] } else { [zero, zero, k] };
            let both = f.dynamic_slice(v, &starts, &sizes)?;
            let (first, second) = if rows {
                (
                    f.slice(both, &[0, 0, 0], &[b, 1, n], &[1, 1, 1])?,
                    f.slice(both, &[0, 1, 0], &[b, 2, n], &[1, 1, 1])?,
                )
            } else {
                (
                    f.slice(both, &[0, 0, 0], &[b, n, 1], &[1, 1, 1])?,
                    f.slice(both, &[0, 0, 1], &[b, n, 2], &[1, 1, 1])?,
                )
            };
            Ok([f.reshape(first, &[b, n])?, f.reshape(second, &[b, n])?])
        };
        let put = |f: &mut FunctionBuilder<'_>,
                   v: Value,
                   [first, second]: [Value; 2],
                   rows: bool|
         -> Built<Value> {
            let sizes = if rows { [b, 1, n] } else { [b, n, 1] };
            let starts = if rows { [zero, k, zero] } else { [zero, zero, k] };
            let (first, second) = (f.reshape(first, &sizes)?, f.reshape(second, &sizes)?);
            let both = f.concatenate(&[first, second], if rows { 1 } else { 2 })?;
            f.dynamic_update_slice(v, both, &starts)
        };
        let [first, second] = lines(f, h, true)?;
        let turned = [mix(f, first, xc, second, yc)?, mix(f, first, minus_y, second, x)?];
        let h = put(f, h, turned, true)?;
        let mut done = [h, z];
        for v in &mut done {
            let [first, second] = lines(f, *v, false)?;
            let turned = [mix(f, first, x, second, y)?, mix(f, first, minus_yc, second, xc)?];
            *v = put(f, *v, turned, false)?;
        }
        Ok(done)
    }

    /// Two elements below each other, `v[row, column]` and `v[row + 1, column]`, the same place in all matrices.
    fn pair(&self, f: &mut FunctionBuilder<'_>, v: Value, row: Value, column: Value) -> Built<[Value; 2]> {
        let zero = f.scalar(0i32)?;
        let both = f.dynamic_slice(v, &[zero, row, column], &[self.batch, 2, 1])?;
        let first = f.slice(both, &[0, 0, 0], &[self.batch, 1, 1], &[1, 1, 1])?;
        let second = f.slice(both, &[0, 1, 0], &[self.batch, 2, 1], &[1, 1, 1])?;
        Ok([
            f.reshape(first, &[self.batch])?,
            f.reshape(second, &[self.batch])?,
        ])
    }

    /// Zeros below the first subdiagonal.
    fn hessenberg(&self, cx: &mut Cx<'_, '_>, both: [Value; 2]) -> Result<[Value; 2]> {
        if self.n < 3 {
            return Ok(both);
        }
        let first = cx.full(&[], INT, 0)?;
        let bottom = cx.full(&[], INT, self.n - 1)?;
        let end = cx.full(&[], INT, self.n - 2)?;
        let on = cx.full(&[self.batch], ElementType::Pred, true)?;
        let done = cx.f.while_(
            &[first, bottom, both[0], both[1]],
            |f, c| Ok(vec![f.compare(c[0], end, Direction::Lt)?]),
            |f, c| {
                let (j, i) = (c[0], c[1]);
                let one = f.scalar(1i32)?;
                let k = f.subtract(i, one)?;
                let xy = self.pair(f, c[2], k, j)?;
                let [h, z] = self.rotate(f, [c[2], c[3]], k, xy, on)?;
                // The next row up, or the bottom of the next column.
                let next = f.add(j, one)?;
                let after = f.add(next, one)?;
                let more = f.compare(k, after, Direction::Ge)?;
                let j = f.select(more, j, next)?;
                let i = f.select(more, k, bottom)?;
                Ok(vec![j, i, h, z])
            },
        )?;
        Ok([done[2], done[3]])
    }

    /// One QR step of the active blocks; also how far each matrix is: `(last active row, steps since that moved)`.
    fn step(&self, f: &mut FunctionBuilder<'_>, c: &[Value]) -> Built<Vec<Value>> {
        let (hi, since, h, z) = (c[1], c[2], c[3], c[4]);
        let (b, n) = (self.batch, self.n);
        let one = f.full(&[b], INT, 1)?;
        let none = f.full(&[b], INT, 0)?;
        // Which subdiagonal elements are nothing beside their neighbours.
        let sub = self.diagonal(f, h, 1)?;
        let sizes = self.diagonal(f, h, 0)?;
        let sizes = f.abs(sizes)?;
        let zero_part = f.full(&[0i64; 0], PART, 0.0)?;
        let before = f.pad(sizes, zero_part, &[0, 1], &[0, -1], &[0, 0])?;
        let around = f.add(sizes, before)?;
        let least = f.full(&[b, n], PART, 1e-290)?;
        let around = f.maximum(around, least)?;
        let epsilon = f.full(&[b, n], PART, EPSILON)?;
        let limit = f.multiply(around, epsilon)?;
        let sub_size = f.abs(sub)?;
        let large = f.compare(sub_size, limit, Direction::Gt)?;
        let within = {
            let hi = f.broadcast_in_dim(hi, &[b, n], &[0])?;
            f.compare(self.at, hi, Direction::Le)?
        };
        let held = f.and(large, within)?;
        let places = only(f, held, self.at)?;
        let last = extreme(f, places, &[1], true, 0)?;
        let small = f.not(large)?;
        let until = {
            let last = f.broadcast_in_dim(last, &[b, n], &[0])?;
            f.compare(self.at, last, Direction::Lt)?
        };
        let breaks = f.and(small, until)?;
        let places = only(f, breaks, self.at)?;
        let low = extreme(f, places, &[1], true, 0)?;
        let active = f.compare(last, none, Direction::Gt)?;
        let still = f.compare(last, hi, Direction::Eq)?;
        let counted = f.add(since, one)?;
        let since = f.select(still, counted, none)?;
        // The shift: the eigenvalue of the last two rows' block that is nearer to its last element.
        let up = f.subtract(last, one)?;
        let up = f.maximum(up, none)?;
        let a = self.element(f, h, up, up)?;
        let upper = self.element(f, h, up, last)?;
        let lower = self.element(f, h, last, up)?;
        let d = self.element(f, h, last, last)?;
        let half = f.full(&[b], WIDE, 0.5)?;
        let gap = f.subtract(a, d)?;
        let delta = f.multiply(gap, half)?;
        let cross = f.multiply(upper, lower)?;
        let square = f.multiply(delta, delta)?;
        let square = f.add(square, cross)?;
        let root = f.sqrt(square)?;
        let (plus, minus) = (f.add(delta, root)?, f.subtract(delta, root)?);
        let (plus_size, minus_size) = (f.abs(plus)?, f.abs(minus)?);
        let larger = f.compare(plus_size, minus_size, Direction::Ge)?;
        let by = f.select(larger, plus, minus)?;
        let by_size = f.abs(by)?;
        let nothing = f.full(&[b], PART, 0.0)?;
        let some = f.compare(by_size, nothing, Direction::Gt)?;
        let unit = f.full(&[b], WIDE, true)?;
        let by = f.select(some, by, unit)?;
        let correction = f.divide(cross, by)?;
        let correction = only(f, some, correction)?;
        let shift = f.subtract(d, correction)?;
        // Now and then another one, for matrices that the usual ones turn in circles.
        let ten = f.full(&[b], INT, 10)?;
        let nine = f.full(&[b], INT, 9)?;
        let phase = f.remainder(since, ten)?;
        let odd = f.compare(phase, nine, Direction::Eq)?;
        let off = f.abs(lower)?;
        let off = f.convert(off, WIDE)?;
        let other = f.add(d, off)?;
        let shift = f.select(odd, other, shift)?;
        let first = self.element(f, h, low, low)?;
        let x0 = f.subtract(first, shift)?;
        let below = f.add(low, one)?;
        let y0 = self.element(f, h, below, low)?;
        let start = {
            let end = f.full(&[b], INT, n)?;
            let lows = f.select(active, low, end)?;
            extreme(f, lows, &[0], false, n as i32)?
        };
        let end = extreme(f, last, &[0], true, 0)?;
        let swept = f.while_(
            &[start, h, z],
            |f, c| Ok(vec![f.compare(c[0], end, Direction::Lt)?]),
            |f, c| {
                let k = c[0];
                let (zero, one) = (f.scalar(0i32)?, f.scalar(1i32)?);
                let before = f.subtract(k, one)?;
                let before = f.maximum(before, zero)?;
                let [x, y] = self.pair(f, c[1], k, before)?;
                let at = f.broadcast_in_dim(k, &[b], &[])?;
                let starts = f.compare(at, low, Direction::Eq)?;
                let (x, y) = (f.select(starts, x0, x)?, f.select(starts, y0, y)?);
                let inside = f.compare(at, low, Direction::Ge)?;
                let before_last = f.compare(at, last, Direction::Lt)?;
                let on = f.and(inside, before_last)?;
                let [h, z] = self.rotate(f, [c[1], c[2]], k, [x, y], on)?;
                Ok(vec![f.add(k, one)?, h, z])
            },
        )?;
        // What the rotations should have made zero.
        let shifted = {
            let one = f.full(&self.full(), INT, 1)?;
            f.add(self.columns, one)?
        };
        let kept = f.compare(self.rows, shifted, Direction::Le)?;
        let h = only(f, kept, swept[1])?;
        let one = f.scalar(1i32)?;
        Ok(vec![f.add(c[0], one)?, last, since, h, swept[2]])
    }

    /// The triangular factor and the unitary one: `a = z t z*`.
    fn schur(&self, cx: &mut Cx<'_, '_>, a: Value, z: Value) -> Result<[Value; 2]> {
        let [h, z] = self.hessenberg(cx, [a, z])?;
        let start = cx.full(&[], INT, 0)?;
        let most = cx.full(&[], INT, STEPS * self.n)?;
        let hi = cx.full(&[self.batch], INT, self.n - 1)?;
        let since = cx.full(&[self.batch], INT, 0)?;
        let done = cx.f.while_(
            &[start, hi, since, h, z],
            |f, c| {
                let rest = extreme(f, c[1], &[0], true, 0)?;
                let zero = f.scalar(0i32)?;
                let more = f.compare(rest, zero, Direction::Gt)?;
                let within = f.compare(c[0], most, Direction::Lt)?;
                Ok(vec![f.and(more, within)?])
            },
            |f, c| self.step(f, c),
        )?;
        Ok([done[3], done[4]])
    }

    /// Eigenvectors of a triangular matrix, in columns.
    fn substituted(&self, cx: &mut Cx<'_, '_>, t: Value, values: Value, least: Value) -> Result<Value> {
        let (b, n) = (self.batch, self.n);
        let full = self.full();
        let start = cx.full(&[], INT, n - 1)?;
        let x = zeros(cx, &full, WIDE)?;
        let done = cx.f.while_(
            &[start, x],
            |f, c| {
                let zero = f.scalar(0i32)?;
                Ok(vec![f.compare(c[0], zero, Direction::Ge)?])
            },
            |f, c| {
                let (i, x) = (c[0], c[1]);
                let zero = f.scalar(0i32)?;
                let row = f.dynamic_slice(t, &[zero, i, zero], &[b, 1, n])?;
                let row = f.reshape(row, &[b, n])?;
                let wide = f.broadcast_in_dim(row, full.as_slice(), &[0, 1])?;
                let terms = f.multiply(wide, x)?;
                let sum = summed(f, terms, &[1])?;
                let own = f.dynamic_slice(values, &[zero, i], &[b, 1])?;
                let own = f.broadcast_in_dim(own, &[b, n], &[0, 1])?;
                // Equal eigenvalues are taken apart by what rounding would.
                let gap = f.subtract(values, own)?;
                let size = f.abs(gap)?;
                let least_part = f.broadcast_in_dim(least, &[b, n], &[0])?;
                let far = f.compare(size, least_part, Direction::Gt)?;
                let near = f.convert(least_part, WIDE)?;
                let gap = f.select(far, gap, near)?;
                let solved = f.divide(sum, gap)?;
                let at = f.broadcast_in_dim(i, &[b, n], &[])?;
                let right = f.compare(self.at, at, Direction::Gt)?;
                let solved = only(f, right, solved)?;
                let here = f.compare(self.at, at, Direction::Eq)?;
                let unit = f.full(&[b, n], WIDE, true)?;
                let line = f.select(here, unit, solved)?;
                let line = f.reshape(line, &[b, 1, n])?;
                let x = f.dynamic_update_slice(x, line, &[zero, i, zero])?;
                let one = f.scalar(1i32)?;
                Ok(vec![f.subtract(i, one)?, x])
            },
        )?;
        Ok(done[1])
    }

    /// Columns of length 1 whose largest element is real, as LAPACK leaves them.
    fn normalized(&self, cx: &mut Cx<'_, '_>, v: Value) -> Result<Value> {
        let full = self.full();
        let sizes = cx.f.abs(v)?;
        let zero = zeros(cx, &[], PART)?;
        let largest = reduce(cx, sizes, zero, &[1], Combine::Max)?;
        let wide = cx.f.broadcast_in_dim(largest, full.as_slice(), &[0, 2])?;
        let is = cx.f.compare(sizes, wide, Direction::Ge)?;
        let last = cx.full(&full, INT, self.n)?;
        let places = cx.f.select(is, self.rows, last)?;
        let first = extreme(cx.f, places, &[1], false, self.n as i32)?;
        let first = cx.f.broadcast_in_dim(first, full.as_slice(), &[0, 2])?;
        let on = cx.f.compare(self.rows, first, Direction::Eq)?;
        let picked = only(cx.f, on, v)?;
        let picked = summed(cx.f, picked, &[1])?;
        let turn = conjugated(cx.f, picked)?;
        let turn = cx.f.broadcast_in_dim(turn, full.as_slice(), &[0, 2])?;
        let scaled = cx.f.convert(wide, WIDE)?;
        let v = cx.f.divide(v, scaled)?;
        let v = cx.f.multiply(v, turn)?;
        let sizes = cx.f.abs(v)?;
        let squares = cx.f.multiply(sizes, sizes)?;
        let total = reduce(cx, squares, zero, &[1], Combine::Add)?;
        let length = cx.f.sqrt(total)?;
        let length = cx.f.convert(length, WIDE)?;
        let length = cx.f.broadcast_in_dim(length, full.as_slice(), &[0, 2])?;
        Ok(cx.f.divide(v, length)?)
    }
}

/// Imaginary parts that are only rounding, of a real matrix's real eigenvalues and their vectors, are none.
fn without_noise(cx: &mut Cx<'_, '_>, v: Value, real: Value) -> Result<Value> {
    let (re, im) = (cx.f.real(v)?, cx.f.imag(v)?);
    let none = cx.full_like(im, 0)?;
    let im = cx.f.select(real, none, im)?;
    Ok(cx.f.complex(re, im)?)
}

/// Eigenvalues and, where wanted, vectors of rank 2 and 3.
fn decomposed(cx: &mut Cx<'_, '_>, name: &str, vectors: bool) -> Result<(Value, Option<Value>)> {
    let a = cx.tensor("self")?;
    let element = decomposable(cx, a)?;
    let finite = if element.is_complex() {
        let size = cx.f.abs(a)?;
        cx.f.is_finite(size)?
    } else {
        cx.f.is_finite(a)?
    };
    let ok = all_true(cx, finite)?;
    let shown = zeros(cx, &[], ElementType::S64)?;
    let text = format!("{name}: input tensor should not contain infs or NaNs.");
    cx.check(ok, shown, ErrorKind::Runtime, text);
    let (a, _) = batched(cx, a)?;
    let dims = cx.dims(a)?;
    let (b, n) = (dims[0], dims[1]);
    if count(&dims) == 0 {
        return Ok((zeros(cx, &[b, n], WIDE)?, Some(zeros(cx, &dims, WIDE)?)));
    }
    let a = cx.cast(a, WIDE)?;
    let sizes = cx.f.abs(a)?;
    let zero = zeros(cx, &[], PART)?;
    let norm = reduce(cx, sizes, zero, &[1, 2], Combine::Max)?;
    let shape = Shape::of(cx, b, n)?;
    let z = identities(cx, b, n, n, WIDE)?;
    let [t, z] = if n == 1 { [a, z] } else { shape.schur(cx, a, z)? };
    let values = shape.diagonal(cx.f, t, 0)?;
    let real = if element.is_complex() {
        None
    } else {
        let im = cx.f.imag(values)?;
        let im = cx.f.abs(im)?;
        let limit = cx.full(&[b], PART, 1e-14 * n as f64)?;
        let limit = cx.f.multiply(norm, limit)?;
        let limit = cx.f.broadcast_in_dim(limit, &[b, n], &[0])?;
        Some(cx.f.compare(im, limit, Direction::Le)?)
    };
    let found = match (vectors, real) {
        (false, _) => None,
        (true, real) => {
            let tiny = cx.full(&[b], PART, EPSILON)?;
            let least = cx.f.multiply(norm, tiny)?;
            let lowest = cx.full(&[b], PART, 1e-290)?;
            let least = cx.f.maximum(least, lowest)?;
            let x = shape.substituted(cx, t, values, least)?;
            let v = product(cx, z, x)?;
            let v = shape.normalized(cx, v)?;
            Some(match real {
                None => v,
                Some(real) => {
                    let real = cx.f.broadcast_in_dim(real, shape.full().as_slice(), &[0, 2])?;
                    without_noise(cx, v, real)?
                }
            })
        }
    };
    let values = match real {
        None => values,
        Some(real) => without_noise(cx, values, real)?,
    };
    Ok((values, found))
}

fn linalg_eig(cx: &mut Cx<'_, '_>) -> Lowered {
    let (values_out, vectors_out) = (cx.out(0)?, cx.out(1)?);
    let (values, vectors) = decomposed(cx, "torch.linalg.eig", true)?;
    let values = cx.reshape(values, &values_out.dims)?;
    let vectors = match vectors {
        Some(v) => cx.reshape(v, &vectors_out.dims)?,
        None => zeros(cx, &vectors_out.dims, WIDE)?,
    };
    Ok((values, vectors).into())
}

fn _linalg_eigvals(cx: &mut Cx<'_, '_>) -> Lowered {
    let out = cx.out(0)?;
    let (values, _) = decomposed(cx, "torch.linalg.eigvals", false)?;
    Ok(cx.reshape(values, &out.dims)?.into())
}

/// Vectors lie column by column.
fn vectors_by_column(call: &crate::Call, strides: &[&[i64]], made: &mut [Option<crate::Made>]) {
    if made.len() > 1 {
        crate::layout::column_by_column(call, strides, &mut made[1..]);
    }
}

pub(crate) const OPS: &[OpDef] = &[
    OpDef::new("linalg_eig", linalg_eig).amend(vectors_by_column),
    OpDef::new("_linalg_eigvals", _linalg_eigvals),
    OpDef::new("linalg_eigvals", _linalg_eigvals),
];
