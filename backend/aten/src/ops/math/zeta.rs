//! The Hurwitz zeta function and the trigamma function, as Cephes and torch compute them, poles and negative arguments included.

use stablehlo::Value;
use stablehlo::ops::Direction;

use super::common::{compare, compare_to, offset, replace, scale};
use crate::loops::any;
use crate::{Cx, ElementType, Result};

/// `(2k)! / B(2k)` of the Euler-Maclaurin sum.
const TERMS: [f64; 12] = [
    12.0,
    -720.0,
    30240.0,
    -1_209_600.0,
    47_900_160.0,
    -1_892_437_580.318_379_2,
    74_724_249_600.0,
    -2_950_130_727_918.164,
    116_467_828_143_500.7,
    -4_597_978_722_407_472.0,
    181_521_054_019_435_460.0,
    -7_166_165_256_175_667_000.0,
];

/// `ζ(x, q)`: the sum of `(q + k)^-x`.
pub(crate) fn hurwitz(cx: &mut Cx<'_, '_>, x: Value, q: Value) -> Result<Value> {
    let minus = cx.f.negate(x)?;
    let dims = cx.dims(x)?;
    let first = cx.f.power(q, minus)?;
    // Terms are added one by one up to nine of them and past nine: to there a formula does not reach.
    let count = cx.full(&[], ElementType::S32, 0)?;
    let nine = cx.full_like(q, 9)?;
    let (one, step) = (cx.full_like(q, 1)?, cx.full(&[], ElementType::S32, 1)?);
    let nine_terms = cx.full(&[], ElementType::S32, 9)?;
    let most = cx.full(&[], ElementType::S32, 1_000_000)?;
    let zero = cx.full_like(q, 0)?;
    let done = cx.f.while_(
        &[count, q, first, zero],
        |f, v| {
            let few = f.compare(v[0], nine_terms, Direction::Lt)?;
            let low = f.compare(v[1], nine, Direction::Le)?;
            let any = any(f, low)?;
            let go = f.or(few, any)?;
            // An argument far below zero would take for ever; its sum is long since whole.
            let bounded = f.compare(v[0], most, Direction::Lt)?;
            Ok(vec![f.and(go, bounded)?])
        },
        |f, v| {
            let few = f.compare(v[0], nine_terms, Direction::Lt)?;
            let low = f.compare(v[1], nine, Direction::Le)?;
            let few = f.broadcast_in_dim(few, dims.as_slice(), &[])?;
            let active = f.or(few, low)?;
            let next = f.add(v[1], one)?;
            let term = f.power(next, minus)?;
            let sum = f.add(v[2], term)?;
            Ok(vec![
                f.add(v[0], step)?,
                f.select(active, next, v[1])?,
                f.select(active, sum, v[2])?,
                f.select(active, term, v[3])?,
            ])
        },
    )?;
    let (w, mut sum, mut b) = (done[1], done[2], done[3]);
    let rest = offset(cx, x, -1.0)?;
    let area = cx.f.multiply(b, w)?;
    let area = cx.f.divide(area, rest)?;
    sum = cx.f.add(sum, area)?;
    let half = scale(cx, b, 0.5)?;
    sum = cx.f.subtract(sum, half)?;
    let mut a = one;
    for (i, term) in TERMS.into_iter().enumerate() {
        let k = 2.0 * i as f64;
        let up = offset(cx, x, k)?;
        a = cx.f.multiply(a, up)?;
        b = cx.f.divide(b, w)?;
        let part = cx.f.multiply(a, b)?;
        let part = scale(cx, part, 1.0 / term)?;
        let finite = cx.f.is_finite(part)?;
        let zero = cx.full_like(part, 0)?;
        // A product that overflows belongs to a term that is negligible.
        let part = cx.f.select(finite, part, zero)?;
        sum = cx.f.add(sum, part)?;
        let up = offset(cx, x, k + 1.0)?;
        a = cx.f.multiply(a, up)?;
        b = cx.f.divide(b, w)?;
    }
    domain(cx, x, q, sum)
}

/// Poles at `x = 1` and at whole `q` from zero down; nothing below one, nor between the poles for an `x` that is not whole.
fn domain(cx: &mut Cx<'_, '_>, x: Value, q: Value, sum: Value) -> Result<Value> {
    let low = compare_to(cx, q, Direction::Le, 0)?;
    let (x_floor, q_floor) = (cx.f.floor(x)?, cx.f.floor(q)?);
    let broken = compare(cx, x, x_floor, Direction::Ne)?;
    let no_value = cx.f.and(low, broken)?;
    let result = replace(cx, no_value, f64::NAN, sum)?;
    let whole = compare(cx, q, q_floor, Direction::Eq)?;
    let pole = cx.f.and(low, whole)?;
    let result = replace(cx, pole, f64::INFINITY, result)?;
    let below = compare_to(cx, x, Direction::Lt, 1)?;
    let result = replace(cx, below, f64::NAN, result)?;
    let one = compare_to(cx, x, Direction::Eq, 1)?;
    replace(cx, one, f64::INFINITY, result)
}

/// The derivative of the digamma function.
pub(crate) fn trigamma(cx: &mut Cx<'_, '_>, x: Value) -> Result<Value> {
    let reflect = compare_to(cx, x, Direction::Lt, 0.5)?;
    let one = cx.full_like(x, 1)?;
    let mirrored = cx.f.subtract(one, x)?;
    let mut at = cx.f.select(reflect, mirrored, x)?;
    let mut sum = cx.full_like(x, 0)?;
    for _ in 0..6 {
        let square = cx.f.multiply(at, at)?;
        let term = cx.f.divide(one, square)?;
        sum = cx.f.add(sum, term)?;
        at = cx.f.add(at, one)?;
    }
    let square = cx.f.multiply(at, at)?;
    let inverse = cx.f.divide(one, square)?;
    let series = super::special::polynomial(cx, inverse, &[1.0 / 42.0, -1.0 / 30.0, 1.0 / 6.0])?;
    let series = cx.f.multiply(series, inverse)?;
    let twice = scale(cx, at, 2.0)?;
    let half = cx.f.divide(one, twice)?;
    let tail = cx.f.add(one, half)?;
    let tail = cx.f.add(tail, series)?;
    let tail = cx.f.divide(tail, at)?;
    sum = cx.f.add(sum, tail)?;
    let angle = scale(cx, x, std::f64::consts::PI)?;
    let sine = cx.f.sine(angle)?;
    let square = cx.f.multiply(sine, sine)?;
    let pi = cx.full_like(x, std::f64::consts::PI * std::f64::consts::PI)?;
    let whole = cx.f.divide(pi, square)?;
    let reflected = cx.f.subtract(whole, sum)?;
    Ok(cx.f.select(reflect, reflected, sum)?)
}
