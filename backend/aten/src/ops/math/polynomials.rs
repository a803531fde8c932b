//! Orthogonal polynomials of an order that each element chooses: by their recurrences.
//!
//! Chebyshev polynomials in double precision; the others in the type of the arguments, since they lose digits which the
//! CPU's kernels lose too.

use stablehlo::ops::Direction;
use stablehlo::{FunctionBuilder, Value};

use super::common::{compare_to, offset, operands, replace, scale};
use crate::loops::any;
use crate::{Cx, ElementType, Error, Lowered, OpDef, Result};

/// The polynomial after `q`, from it, the one before it, and its order `k`, all of the sizes of `x`.
type Next = fn(&mut FunctionBuilder<'_>, x: Value, k: Value, p: Value, q: Value) -> stablehlo::Result<Value>;

/// A kind of polynomials.
struct Family {
    /// Of order 1: this times `x`, plus that.
    first: (f64, f64),
    next: Next,
    /// Past this order there are no values; for float and double.
    limit: Option<(i64, i64)>,
}

/// `2 x q - p`.
fn chebyshev_next(
    f: &mut FunctionBuilder<'_>,
    x: Value,
    _k: Value,
    p: Value,
    q: Value,
) -> stablehlo::Result<Value> {
    let twice = f.add(x, x)?;
    let up = f.multiply(twice, q)?;
    f.subtract(up, p)
}

/// `2 x q - 2 k p`.
fn hermite_h_next(
    f: &mut FunctionBuilder<'_>,
    x: Value,
    k: Value,
    p: Value,
    q: Value,
) -> stablehlo::Result<Value> {
    let v = hermite_he_next(f, x, k, p, q)?;
    f.add(v, v)
}

/// `x q - k p`.
fn hermite_he_next(
    f: &mut FunctionBuilder<'_>,
    x: Value,
    k: Value,
    p: Value,
    q: Value,
) -> stablehlo::Result<Value> {
    let (a, b) = (f.multiply(x, q)?, f.multiply(k, p)?);
    f.subtract(a, b)
}

/// `((2 k + 1 - x) q - k p) / (k + 1)`.
fn laguerre_next(
    f: &mut FunctionBuilder<'_>,
    x: Value,
    k: Value,
    p: Value,
    q: Value,
) -> stablehlo::Result<Value> {
    let one = f.divide(k, k)?;
    let rest = f.subtract(one, x)?;
    weighted(f, rest, None, k, (p, q))
}

/// `((2 k + 1) x q - k p) / (k + 1)`.
fn legendre_next(
    f: &mut FunctionBuilder<'_>,
    x: Value,
    k: Value,
    p: Value,
    q: Value,
) -> stablehlo::Result<Value> {
    let one = f.divide(k, k)?;
    weighted(f, one, Some(x), k, (p, q))
}

/// `((2 k + add) by q - k p) / (k + 1)`.
fn weighted(
    f: &mut FunctionBuilder<'_>,
    add: Value,
    by: Option<Value>,
    k: Value,
    (p, q): (Value, Value),
) -> stablehlo::Result<Value> {
    let one = f.divide(k, k)?;
    let up = f.add(k, one)?;
    let twice = f.add(k, k)?;
    let mut weight = f.add(twice, add)?;
    if let Some(by) = by {
        weight = f.multiply(weight, by)?;
    }
    let (a, b) = (f.multiply(weight, q)?, f.multiply(k, p)?);
    let v = f.subtract(a, b)?;
    f.divide(v, up)
}

const HERMITE_H: Family = Family {
    first: (2.0, 0.0),
    next: hermite_h_next,
    limit: Some((128, 512)),
};
const HERMITE_HE: Family = Family {
    first: (1.0, 0.0),
    next: hermite_he_next,
    limit: Some((128, 512)),
};
const LAGUERRE: Family = Family {
    first: (-1.0, 1.0),
    next: laguerre_next,
    limit: None,
};
const LEGENDRE: Family = Family {
    first: (1.0, 0.0),
    next: legendre_next,
    limit: None,
};

/// `x` and the order as whole numbers; an order that is no number counts as negative.
fn arguments(cx: &mut Cx<'_, '_>, double: bool) -> Result<(Value, Value, ElementType)> {
    let element = super::common::float_type(cx, &["x", "n"])?;
    if element.is_complex() {
        return Err(Error::unsupported("polynomials of complex numbers"));
    }
    let [x, n] = operands(cx, ["x", "n"], element)?;
    let (x, n) = if double {
        (cx.cast(x, ElementType::F64)?, cx.cast(n, ElementType::F64)?)
    } else {
        (x, n)
    };
    let finite = cx.f.is_finite(n)?;
    let none = cx.full_like(n, -1)?;
    let n = cx.f.select(finite, n, none)?;
    let (up, down) = (cx.f.ceil(n)?, cx.f.floor(n)?);
    let negative = compare_to(cx, n, Direction::Lt, 0)?;
    let n = cx.f.select(negative, up, down)?;
    Ok((x, n, element))
}

/// Polynomials by the recurrence, up to the greatest order of any element; those at `skip` are left at order 1.
fn recur(cx: &mut Cx<'_, '_>, x: Value, n: Value, skip: Option<Value>, family: &Family) -> Result<Value> {
    let last = match skip {
        Some(skip) => replace(cx, skip, 1, n)?,
        None => n,
    };
    let dims = cx.dims(x)?;
    let first = scale(cx, x, family.first.0)?;
    let first = offset(cx, first, family.first.1)?;
    let one = cx.full_like(x, 1)?;
    let element = cx.element(x)?;
    let k = cx.full(&[], element, 1)?;
    let step = k;
    let next = family.next;
    let done = cx.f.while_(
        &[k, one, first],
        |f, v| {
            let k = f.broadcast_in_dim(v[0], dims.as_slice(), &[])?;
            let more = f.compare(k, last, Direction::Lt)?;
            let number = f.compare(v[2], v[2], Direction::Eq)?;
            let active = f.and(more, number)?;
            Ok(vec![any(f, active)?])
        },
        |f, v| {
            let k = f.broadcast_in_dim(v[0], dims.as_slice(), &[])?;
            let active = f.compare(k, last, Direction::Lt)?;
            let r = next(f, x, k, v[1], v[2])?;
            Ok(vec![
                f.add(v[0], step)?,
                f.select(active, v[2], v[1])?,
                f.select(active, r, v[2])?,
            ])
        },
    )?;
    let v = done[2];
    let zero = compare_to(cx, n, Direction::Eq, 0)?;
    let v = replace(cx, zero, 1, v)?;
    let negative = compare_to(cx, n, Direction::Lt, 0)?;
    replace(cx, negative, 0, v)
}

/// `1` for an even order, `-1` for an odd one.
fn alternating(cx: &mut Cx<'_, '_>, n: Value) -> Result<Value> {
    let two = cx.full_like(n, 2)?;
    let rest = cx.f.remainder(n, two)?;
    let twice = scale(cx, rest, -2.0)?;
    offset(cx, twice, 1.0)
}

/// Where neither the recurrence nor anything else is needed: these values where `at` holds and the order is not negative.
fn known(cx: &mut Cx<'_, '_>, n: Value, at: Value, values: Value, v: Value) -> Result<Value> {
    let some = compare_to(cx, n, Direction::Ge, 0)?;
    let at = cx.f.and(at, some)?;
    Ok(cx.f.select(at, values, v)?)
}

/// The four kinds of Chebyshev polynomials, of `x` or, shifted, of `2 x - 1`.
fn chebyshev(cx: &mut Cx<'_, '_>, kind: char, shifted: bool) -> Lowered {
    let (x, n, _) = arguments(cx, true)?;
    let y = if shifted {
        let twice = cx.f.add(x, x)?;
        offset(cx, twice, -1.0)?
    } else {
        x
    };
    let size = cx.f.abs(y)?;
    // At the ends: the sign alternates on one side, the value grows with the order on one.
    let sign = alternating(cx, n)?;
    let one = cx.full_like(n, 1)?;
    let double = scale(cx, n, 2.0)?;
    let double = offset(cx, double, 1.0)?;
    let (high, low) = match kind {
        't' => (one, one),
        'u' => {
            let up = offset(cx, n, 1.0)?;
            (up, up)
        }
        'v' => (one, double),
        _ => (double, one),
    };
    let low = cx.f.multiply(low, sign)?;
    let right = compare_to(cx, y, Direction::Gt, 0)?;
    let ends = cx.f.select(right, high, low)?;
    let at_end = compare_to(cx, size, Direction::Eq, 1)?;
    // Within: by angles, where the recurrence would be long.
    let inside = compare_to(cx, size, Direction::Lt, 1)?;
    let many = compare_to(cx, n, Direction::Gt, 6)?;
    let by_angle = cx.f.and(inside, many)?;
    let (less, more) = (cx.f.subtract(one, y)?, cx.f.add(one, y)?);
    let product = cx.f.multiply(less, more)?;
    let root = cx.f.sqrt(product)?;
    let angle = cx.f.atan2(root, y)?;
    let half = scale(cx, angle, 0.5)?;
    let turned = |cx: &mut Cx<'_, '_>, add: f64| -> Result<Value> {
        let by = offset(cx, n, add)?;
        Ok(cx.f.multiply(by, angle)?)
    };
    let waves = match kind {
        't' => {
            let a = turned(cx, 0.0)?;
            cx.f.cosine(a)?
        }
        'u' => {
            let a = turned(cx, 1.0)?;
            let (a, b) = (cx.f.sine(a)?, cx.f.sine(angle)?);
            cx.f.divide(a, b)?
        }
        'v' => {
            let a = turned(cx, 0.5)?;
            let (a, b) = (cx.f.cosine(a)?, cx.f.cosine(half)?);
            cx.f.divide(a, b)?
        }
        _ => {
            let a = turned(cx, 0.5)?;
            let (a, b) = (cx.f.sine(a)?, cx.f.sine(half)?);
            cx.f.divide(a, b)?
        }
    };
    let first = match kind {
        't' => (1.0, 0.0),
        'u' => (2.0, 0.0),
        'v' => (2.0, -1.0),
        _ => (2.0, 1.0),
    };
    let family = Family {
        first,
        next: chebyshev_next,
        limit: None,
    };
    let skip = cx.f.or(by_angle, at_end)?;
    let v = recur(cx, y, n, Some(skip), &family)?;
    let v = known(cx, n, by_angle, waves, v)?;
    Ok(known(cx, n, at_end, ends, v)?.into())
}

fn hermite(cx: &mut Cx<'_, '_>, family: &Family) -> Lowered {
    let (x, n, element) = arguments(cx, false)?;
    let Some((single, double)) = family.limit else {
        return Ok(recur(cx, x, n, None, family)?.into());
    };
    let limit = if element == ElementType::F64 {
        double
    } else {
        single
    };
    let beyond = compare_to(cx, n, Direction::Gt, limit)?;
    let v = recur(cx, x, n, Some(beyond), family)?;
    Ok(replace(cx, beyond, f64::NAN, v)?.into())
}

fn laguerre(cx: &mut Cx<'_, '_>) -> Lowered {
    let (x, n, _) = arguments(cx, false)?;
    let at_zero = compare_to(cx, x, Direction::Eq, 0)?;
    let v = recur(cx, x, n, Some(at_zero), &LAGUERRE)?;
    let one = cx.full_like(x, 1)?;
    Ok(known(cx, n, at_zero, one, v)?.into())
}

fn legendre(cx: &mut Cx<'_, '_>) -> Lowered {
    let (x, n, _) = arguments(cx, false)?;
    let size = cx.f.abs(x)?;
    let at_end = compare_to(cx, size, Direction::Eq, 1)?;
    let v = recur(cx, x, n, Some(at_end), &LEGENDRE)?;
    let sign = alternating(cx, n)?;
    let right = compare_to(cx, x, Direction::Gt, 0)?;
    let ends = replace(cx, right, 1, sign)?;
    Ok(known(cx, n, at_end, ends, v)?.into())
}

pub(crate) const OPS: &[OpDef] = &[
    OpDef::new("special_chebyshev_polynomial_t", |cx| chebyshev(cx, 't', false)),
    OpDef::new("special_chebyshev_polynomial_u", |cx| chebyshev(cx, 'u', false)),
    OpDef::new("special_chebyshev_polynomial_v", |cx| chebyshev(cx, 'v', false)),
    OpDef::new("special_chebyshev_polynomial_w", |cx| chebyshev(cx, 'w', false)),
    OpDef::new("special_shifted_chebyshev_polynomial_t", |cx| {
        chebyshev(cx, 't', true)
    }),
    OpDef::new("special_shifted_chebyshev_polynomial_u", |cx| {
        chebyshev(cx, 'u', true)
    }),
    OpDef::new("special_shifted_chebyshev_polynomial_v", |cx| {
        chebyshev(cx, 'v', true)
    }),
    OpDef::new("special_shifted_chebyshev_polynomial_w", |cx| {
        chebyshev(cx, 'w', true)
    }),
    OpDef::new("special_hermite_polynomial_h", |cx| hermite(cx, &HERMITE_H)),
    OpDef::new("special_hermite_polynomial_he", |cx| hermite(cx, &HERMITE_HE)),
    OpDef::new("special_laguerre_polynomial_l", laguerre),
    OpDef::new("special_legendre_polynomial_p", legendre),
];
