//! Fourier transforms in double precision, as products with matrices: a TPU's compiler has no FFT of doubles.
//!
//! Values are `f64[batch, n, 2]`: batches of `n` points, each a real and an imaginary part. A length is split into factors
//! of at most [`LEAF`] points (Cooley and Tukey); one without such factors becomes a convolution of a length that has them
//! (Bluestein).

use smallvec::SmallVec;
use stablehlo::Value;
use stablehlo::ops::{Direction, DotDimensions, DotOptions, FftType, Precision};

use super::fft::scaled;
use super::util::{count, slice_dim};
use crate::{Cx, ElementType, Result};

/// Lengths up to this are one product with a matrix.
const LEAF: i64 = 64;
/// Lengths without factors up to [`LEAF`] are one product up to this.
const LEAF_WITHOUT_FACTORS: i64 = 512;
/// So many roots are written into the program; more are computed by it.
const TABLE: i64 = 4096;

/// What `fft` of the last dimension, of length `n` on its real side, gives.
pub(super) fn transform(cx: &mut Cx<'_, '_>, v: Value, kind: FftType, n: i64) -> Result<Value> {
    let dims = cx.dims(v)?;
    let Some((&last, outer)) = dims.split_last() else {
        return Ok(v);
    };
    let batch = count(outer);
    let v = cx.reshape(v, &[batch, last])?;
    let z = match kind {
        FftType::Rfft => {
            let zero = cx.full_like(v, 0.0)?;
            join(cx, v, zero)?
        }
        _ => {
            let (re, im) = (cx.f.real(v)?, cx.f.imag(v)?);
            join(cx, re, im)?
        }
    };
    let z = if matches!(kind, FftType::Irfft) {
        mirrored(cx, z, n)?
    } else {
        z
    };
    let inverse = matches!(kind, FftType::Ifft | FftType::Irfft);
    let mut z = dft(cx, z, n, inverse)?;
    if inverse {
        z = scaled(cx, z, 1.0 / n as f64)?;
    }
    if matches!(kind, FftType::Rfft) {
        z = slice_dim(cx, z, 1, 0, n / 2 + 1, 1)?;
    }
    let mut result = outer.to_vec();
    result.push(cx.dims(z)?[1]);
    let re = part(cx, z, 0, &result)?;
    if matches!(kind, FftType::Irfft) {
        return Ok(re);
    }
    let im = part(cx, z, 1, &result)?;
    Ok(cx.f.complex(re, im)?)
}

/// Parts `[batch, n]` side by side.
fn join(cx: &mut Cx<'_, '_>, re: Value, im: Value) -> Result<Value> {
    let mut dims = cx.dims(re)?.to_vec();
    dims.push(1);
    let (re, im) = (cx.reshape(re, &dims)?, cx.reshape(im, &dims)?);
    Ok(cx.f.concatenate(&[re, im], dims.len() as i64 - 1)?)
}

fn part(cx: &mut Cx<'_, '_>, z: Value, which: i64, dims: &[i64]) -> Result<Value> {
    let v = slice_dim(cx, z, 2, which, which + 1, 1)?;
    cx.reshape(v, dims)
}

/// The `n` points of which the first half is given, the others being their conjugates.
fn mirrored(cx: &mut Cx<'_, '_>, half: Value, n: i64) -> Result<Value> {
    let given = n / 2 + 1;
    if given == n {
        return Ok(half);
    }
    let high = slice_dim(cx, half, 1, 1, n - given + 1, 1)?;
    let high = cx.f.reverse(high, &[1])?;
    let sign = cx.f.constant(&[2i64], &[1.0f64, -1.0])?;
    let dims = cx.dims(high)?;
    let sign = cx.f.broadcast_in_dim(sign, dims.as_slice(), &[2])?;
    let high = cx.f.multiply(high, sign)?;
    Ok(cx.f.concatenate(&[half, high], 1)?)
}

/// The sums over `j` of `z[j] exp(-2 pi i j k / n)`, or with `+` for the inverse; nothing is divided by `n`.
fn dft(cx: &mut Cx<'_, '_>, z: Value, n: i64, inverse: bool) -> Result<Value> {
    if n <= 1 {
        return Ok(z);
    }
    if n <= LEAF {
        return leaf(cx, z, n, inverse);
    }
    match (2..=LEAF).rev().find(|d| n % d == 0) {
        Some(n1) => split(cx, z, (n1, n / n1), inverse),
        None if n <= LEAF_WITHOUT_FACTORS => leaf(cx, z, n, inverse),
        None => bluestein(cx, z, n, inverse),
    }
}

/// One product with the matrix of all roots: `[batch, j, 2]` times `[j, 2, k, 2]`.
fn leaf(cx: &mut Cx<'_, '_>, z: Value, n: i64, inverse: bool) -> Result<Value> {
    let (cos, sin) = roots(cx, Power::Product([n, n]), n)?;
    let minus = cx.f.negate(sin)?;
    // A point times a root: (re c + im s, im c - re s), and for the inverse with the sign of s changed.
    let (plus, minus) = if inverse { (minus, sin) } else { (sin, minus) };
    let from_re = join(cx, cos, minus)?;
    let from_im = join(cx, plus, cos)?;
    let wide = [n, 1, n, 2];
    let (from_re, from_im) = (cx.reshape(from_re, &wide)?, cx.reshape(from_im, &wide)?);
    let matrix = cx.f.concatenate(&[from_re, from_im], 1)?;
    let numbers = DotDimensions {
        lhs_contracting: vec![1, 2],
        rhs_contracting: vec![0, 1],
        ..DotDimensions::default()
    };
    let options = DotOptions {
        precision: [Precision::Highest; 2],
        ..DotOptions::default()
    };
    Ok(cx.f.dot_general(z, matrix, &numbers, &options)?)
}

/// `n1` transforms of `n2` points after `n2` transforms of `n1` points.
fn split(cx: &mut Cx<'_, '_>, z: Value, (n1, n2): (i64, i64), inverse: bool) -> Result<Value> {
    let batch = cx.dims(z)?[0];
    let z = cx.reshape(z, &[batch, n1, n2, 2])?;
    let z = cx.f.transpose(z, &[0, 2, 1, 3])?;
    let z = cx.reshape(z, &[batch * n2, n1, 2])?;
    let z = dft(cx, z, n1, inverse)?;
    let z = cx.reshape(z, &[batch, n2, n1, 2])?;
    let turn = roots(cx, Power::Product([n2, n1]), n1 * n2)?;
    let z = turned(cx, z, turn, inverse)?;
    let z = cx.f.transpose(z, &[0, 2, 1, 3])?;
    let z = cx.reshape(z, &[batch * n1, n2, 2])?;
    let z = dft(cx, z, n2, inverse)?;
    let z = cx.reshape(z, &[batch, n1, n2, 2])?;
    let z = cx.f.transpose(z, &[0, 2, 1, 3])?;
    cx.reshape(z, &[batch, n1 * n2, 2])
}

/// `jk = (j^2 + k^2 - (j - k)^2) / 2`: the points times a chirp, convolved with the chirp turned the other way.
fn bluestein(cx: &mut Cx<'_, '_>, z: Value, n: i64, inverse: bool) -> Result<Value> {
    let m = (2 * n as u64 - 1).next_power_of_two() as i64;
    // The roots of 2n to the power of k^2, for k from either end; the points are fewer than half of them.
    let (cos, sin) = roots(cx, Power::Square(m), 2 * n)?;
    let chirp = (slice_dim(cx, cos, 0, 0, n, 1)?, slice_dim(cx, sin, 0, 0, n, 1)?);
    let a = turned(cx, z, chirp, inverse)?;
    let zero = cx.f.scalar(0.0f64)?;
    let a = cx.f.pad(a, zero, &[0, 0, 0], &[0, m - n, 0], &[0, 0, 0])?;

    let sin = if inverse { cx.f.negate(sin)? } else { sin };
    let b = join(cx, cos, sin)?;
    // Between the two ends lies what no point reaches.
    let near = slice_dim(cx, b, 0, 0, n, 1)?;
    let far = slice_dim(cx, b, 0, m - n + 1, m, 1)?;
    let between = cx.full(&[m - 2 * n + 1, 2], ElementType::F64, 0.0)?;
    let b = cx.f.concatenate(&[near, between, far], 0)?;
    let b = cx.reshape(b, &[1, m, 2])?;

    let (a, b) = (dft(cx, a, m, false)?, dft(cx, b, m, false)?);
    let parts = (part(cx, b, 0, &[m])?, part(cx, b, 1, &[m])?);
    // A root is written as its turn to the right, so a number's conjugate turns by the number.
    let product = turned(cx, a, parts, true)?;
    let sums = dft(cx, product, m, true)?;
    let sums = scaled(cx, sums, 1.0 / m as f64)?;
    let sums = slice_dim(cx, sums, 1, 0, n, 1)?;
    turned(cx, sums, chirp, inverse)
}

/// Points `z[..., 2]` times `cos - i sin`, or for the inverse `cos + i sin`, of the dimensions before the last.
fn turned(cx: &mut Cx<'_, '_>, z: Value, (cos, sin): (Value, Value), inverse: bool) -> Result<Value> {
    let dims = cx.dims(z)?;
    let rank = dims.len() as i64;
    let at: Vec<i64> = (rank - 1 - cx.rank(cos)? as i64..rank - 1).collect();
    let cos = cx.f.broadcast_in_dim(cos, dims.as_slice(), &at)?;
    let minus = cx.f.negate(sin)?;
    let sines = if inverse {
        join(cx, minus, sin)?
    } else {
        join(cx, sin, minus)?
    };
    let with_parts: Vec<i64> = at.iter().copied().chain([rank - 1]).collect();
    let sines = cx.f.broadcast_in_dim(sines, dims.as_slice(), &with_parts)?;
    let swapped = cx.f.reverse(z, &[rank - 1])?;
    let (a, b) = (cx.f.multiply(z, cos)?, cx.f.multiply(swapped, sines)?);
    Ok(cx.f.add(a, b)?)
}

/// Which root of one stands at a place.
#[derive(Clone, Copy)]
enum Power {
    /// The product of the place's indices in `[rows, columns]`.
    Product([i64; 2]),
    /// The square of the distance to the nearer end, in so many places.
    Square(i64),
}

impl Power {
    fn dims(&self) -> SmallVec<[i64; 2]> {
        match *self {
            Self::Product(dims) => SmallVec::from(dims),
            Self::Square(places) => SmallVec::from_slice(&[places]),
        }
    }

    fn on_host(&self, place: i64) -> i64 {
        match *self {
            Self::Product([_, columns]) => (place / columns) * (place % columns),
            Self::Square(places) => place.min(places - place).pow(2),
        }
    }

    fn in_program(&self, cx: &mut Cx<'_, '_>) -> Result<Value> {
        match *self {
            Self::Product(dims) => {
                let rows = cx.f.iota(&dims, ElementType::S64, 0)?;
                let columns = cx.f.iota(&dims, ElementType::S64, 1)?;
                Ok(cx.f.multiply(rows, columns)?)
            }
            Self::Square(places) => {
                let place = cx.f.iota(&[places], ElementType::S64, 0)?;
                let length = cx.full_like(place, places)?;
                let back = cx.f.subtract(length, place)?;
                let distance = cx.f.minimum(place, back)?;
                Ok(cx.f.multiply(distance, distance)?)
            }
        }
    }
}

/// Cosine and sine of `2 pi k / n`. All is brought into an eighth of a turn in whole numbers, so that roots are as
/// symmetric as they should be, and multiples of a quarter exact.
fn roots(cx: &mut Cx<'_, '_>, power: Power, n: i64) -> Result<(Value, Value)> {
    let dims = power.dims();
    if count(&dims) <= TABLE {
        let all = (0..count(&dims)).map(|place| root(power.on_host(place), n));
        let (cos, sin): (Vec<f64>, Vec<f64>) = all.unzip();
        let dims = dims.as_slice();
        return Ok((cx.f.constant(dims, &cos)?, cx.f.constant(dims, &sin)?));
    }
    let k = power.in_program(cx)?;
    let whole = cx.full_like(k, n)?;
    let k = cx.f.remainder(k, whole)?;
    // In units of 1 / 4n of a turn.
    let four = cx.full_like(k, 4)?;
    let t = cx.f.multiply(k, four)?;
    let (t, below) = reflected(cx, t, 4 * n)?;
    let (t, left) = reflected(cx, t, 2 * n)?;
    let (t, steep) = reflected(cx, t, n)?;
    let t = cx.f.convert(t, ElementType::F64)?;
    let unit = cx.full_like(t, unit(n))?;
    let angle = cx.f.multiply(t, unit)?;
    let (cos, sin) = (cx.f.cosine(angle)?, cx.f.sine(angle)?);
    let (cos, sin) = (cx.f.select(steep, sin, cos)?, cx.f.select(steep, cos, sin)?);
    let minus = cx.f.negate(cos)?;
    let cos = cx.f.select(left, minus, cos)?;
    let minus = cx.f.negate(sin)?;
    let sin = cx.f.select(below, minus, sin)?;
    Ok((cos, sin))
}

/// [`roots`], of one.
fn root(k: i64, n: i64) -> (f64, f64) {
    let reflect = |t: i64, around: i64| {
        if t > around - t {
            (around - t, true)
        } else {
            (t, false)
        }
    };
    let (t, below) = reflect(k % n * 4, 4 * n);
    let (t, left) = reflect(t, 2 * n);
    let (t, steep) = reflect(t, n);
    let (sin, cos) = (t as f64 * unit(n)).sin_cos();
    let (cos, sin) = if steep { (sin, cos) } else { (cos, sin) };
    (if left { -cos } else { cos }, if below { -sin } else { sin })
}

/// The angle of 1 / 4n of a turn.
fn unit(n: i64) -> f64 {
    std::f64::consts::PI / (2.0 * n as f64)
}

/// `around - t` where `t` is more than half of `around`; and whether it was.
fn reflected(cx: &mut Cx<'_, '_>, t: Value, around: i64) -> Result<(Value, Value)> {
    let around = cx.full_like(t, around)?;
    let other = cx.f.subtract(around, t)?;
    let beyond = cx.f.compare(t, other, Direction::Gt)?;
    Ok((cx.f.select(beyond, other, t)?, beyond))
}
