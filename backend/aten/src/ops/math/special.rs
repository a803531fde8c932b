//! erf, lgamma, digamma and kin: special functions.

use stablehlo::Value;
use stablehlo::ops::Direction;

use super::common::{Unary, binary_float, compare_to, is_nan, offset, replace, scale, sign_bit, unary_float};
use crate::{Cx, Error, Lowered, OpDef, Result};

/// The error function.
pub(crate) fn error_function(cx: &mut Cx<'_, '_>, x: Value) -> Result<Value> {
    Ok(cx.f.chlo_erf(x)?)
}

/// One minus the error function.
pub(crate) fn error_function_complement(cx: &mut Cx<'_, '_>, x: Value) -> Result<Value> {
    Ok(cx.f.chlo_erfc(x)?)
}

fn erfinv(cx: &mut Cx<'_, '_>, x: Value) -> Result<Value> {
    let inner = cx.f.chlo_erf_inv(x)?;
    // Outside of [-1, 1] there is none.
    let size = cx.f.abs(x)?;
    let outside = compare_to(cx, size, Direction::Gt, 1)?;
    replace(cx, outside, f64::NAN, inner)
}

/// The logarithm of the magnitude of the gamma function.
pub(crate) fn log_gamma(cx: &mut Cx<'_, '_>, x: Value) -> Result<Value> {
    Ok(cx.f.chlo_lgamma(x)?)
}

/// The digamma function: infinite at zero, with the sign opposite to the zero's.
fn digamma(cx: &mut Cx<'_, '_>, x: Value) -> Result<Value> {
    let inner = cx.f.chlo_digamma(x)?;
    let zero = compare_to(cx, x, Direction::Eq, 0)?;
    let negative = sign_bit(cx, x)?;
    let (plus, minus) = (
        cx.full_like(x, f64::INFINITY)?,
        cx.full_like(x, f64::NEG_INFINITY)?,
    );
    let pole = cx.f.select(negative, plus, minus)?;
    Ok(cx.f.select(zero, pole, inner)?)
}

fn polygamma(cx: &mut Cx<'_, '_>) -> Lowered {
    let n = cx.int("n")?;
    unary_float_with(cx, |cx, x| match n {
        0 => digamma(cx, x),
        1 => super::zeta::trigamma(cx, x),
        _ => {
            // (-1)^(n+1) n! ζ(n+1, x)
            let order = cx.full_like(x, (n + 1) as f64)?;
            let zeta = super::zeta::hurwitz(cx, order, x)?;
            let factorial: f64 = (1..=n.min(200)).map(|k| k as f64).product();
            scale(cx, zeta, if n % 2 == 0 { -factorial } else { factorial })
        }
    })
}

/// [`unary_float`] with a closure.
fn unary_float_with(
    cx: &mut Cx<'_, '_>,
    kernel: impl Fn(&mut Cx<'_, '_>, Value) -> Result<Value>,
) -> Lowered {
    let element = super::common::float_type(cx, &["self"])?;
    let x = cx.tensor("self")?;
    let x = cx.cast(x, element)?;
    Ok(kernel(cx, x)?.into())
}

fn special_zeta(cx: &mut Cx<'_, '_>) -> Lowered {
    binary_float(cx, super::zeta::hurwitz)
}

/// The sum of `lgamma(x + (1 - j) / 2)` for j from 1 to p, and a constant.
fn mvlgamma(cx: &mut Cx<'_, '_>) -> Lowered {
    let p = cx.int("p")?;
    let x = cx.tensor("self")?;
    let element = super::common::float_type(cx, &["self"])?;
    let x = cx.cast(x, element)?;
    let least = cx.full_like(x, (p - 1) as f64 / 2.0)?;
    let fine = cx.f.compare(x, least, Direction::Gt)?;
    let rank = cx.rank(x)? as i64;
    let every: Vec<i64> = (0..rank).collect();
    let ok = super::reduction::reduce(cx, fine, &every, super::reduction::Reducer::All)?;
    let shown = cx.full(&[], crate::ElementType::S64, 0)?;
    cx.check(
        ok,
        shown,
        crate::ErrorKind::Runtime,
        "All elements must be greater than (p-1)/2",
    );
    let pi = (p * (p - 1)) as f64 / 4.0 * std::f64::consts::PI.ln();
    let mut sum = cx.full_like(x, pi)?;
    for j in 0..p {
        let moved = offset(cx, x, -(j as f64) / 2.0)?;
        let term = log_gamma(cx, moved)?;
        sum = cx.f.add(sum, term)?;
    }
    Ok(sum.into())
}

/// A polynomial by Horner's rule, the highest power first.
pub(crate) fn polynomial(cx: &mut Cx<'_, '_>, x: Value, coefficients: &[f64]) -> Result<Value> {
    let mut sum = cx.full_like(x, 0)?;
    for (i, &c) in coefficients.iter().enumerate() {
        if i > 0 {
            sum = cx.f.multiply(sum, x)?;
        }
        sum = offset(cx, sum, c)?;
    }
    Ok(sum)
}

/// A Chebyshev series in `x / 2`, the highest order first, by Clenshaw's rule.
pub(crate) fn chebyshev(cx: &mut Cx<'_, '_>, x: Value, coefficients: &[f64]) -> Result<Value> {
    let zero = cx.full_like(x, 0)?;
    let (mut b0, mut b1, mut b2) = (zero, zero, zero);
    for &c in coefficients {
        (b2, b1) = (b1, b0);
        let next = cx.f.multiply(x, b1)?;
        let next = cx.f.subtract(next, b2)?;
        b0 = offset(cx, next, c)?;
    }
    let difference = cx.f.subtract(b0, b2)?;
    scale(cx, difference, 0.5)
}

/// `erfcx(x) / y` for `y = 4 / (4 + x)` in (0, 1].
const ERFCX: &[f64] = &[
    -5.3284358751088306e-18,
    4.5469287397393974e-18,
    1.4395249919908396e-16,
    -6.331393917552705e-17,
    -4.1173138093829955e-15,
    -2.11471149842057e-15,
    1.212767729272221e-13,
    2.6158086533892534e-13,
    -3.392130672030411e-12,
    -1.703489846229896e-11,
    6.872156429267776e-11,
    8.633411694637429e-10,
    9.479917565480596e-10,
    -3.02917677360052e-08,
    -2.1747767703449203e-07,
    -1.198871375841273e-07,
    9.728545951990177e-06,
    0.00010340451975756182,
    0.0006822541832838081,
    0.003443493262717524,
    0.014227107557117175,
    0.049571317930027586,
    0.14758035457222363,
    0.37635823567636745,
    0.8160489390982629,
];

/// `e^(x²) erfc(x)`.
fn scaled_complement(cx: &mut Cx<'_, '_>, x: Value) -> Result<Value> {
    let size = cx.f.abs(x)?;
    // Where y = 4 / (4 + |x|), the function divided by y is smooth down to y = 0.
    let by = offset(cx, size, 4.0)?;
    let four = cx.full_like(x, 4)?;
    let y = cx.f.divide(four, by)?;
    let at = scale(cx, y, 4.0)?;
    let at = offset(cx, at, -2.0)?;
    let series = chebyshev(cx, at, ERFCX)?;
    let right = cx.f.multiply(series, y)?;
    let square = cx.f.multiply(x, x)?;
    let e = cx.f.exponential(square)?;
    let twice = scale(cx, e, 2.0)?;
    let left = cx.f.subtract(twice, right)?;
    let negative = compare_to(cx, x, Direction::Lt, 0)?;
    Ok(cx.f.select(negative, left, right)?)
}

/// The logarithm of the normal distribution function.
fn log_ndtr(cx: &mut Cx<'_, '_>, x: Value) -> Result<Value> {
    let t = scale(cx, x, std::f64::consts::FRAC_1_SQRT_2)?;
    let minus = cx.f.negate(t)?;
    let tail = scaled_complement(cx, minus)?;
    let tail = scale(cx, tail, 0.5)?;
    let tail = cx.f.log(tail)?;
    let square = cx.f.multiply(t, t)?;
    let tail = cx.f.subtract(tail, square)?;
    let body = cx.f.chlo_erfc(t)?;
    let body = scale(cx, body, -0.5)?;
    let body = cx.f.log_plus_one(body)?;
    let far = compare_to(cx, x, Direction::Lt, -1)?;
    Ok(cx.f.select(far, tail, body)?)
}

// Cephes' rational approximations of the inverse of the normal distribution function.
const P0: &[f64] = &[
    -59.96335010141079,
    98.00107541859997,
    -56.67628574690703,
    13.931260938727968,
    -1.2391658386738125,
];
const Q0: &[f64] = &[
    1.0,
    1.9544885833814176,
    4.676279128988815,
    86.36024213908905,
    -225.46268785411937,
    200.26021238006066,
    -82.03722561683334,
    15.90562251262117,
    -1.1833162112133,
];
const P1: &[f64] = &[
    4.0554489230596245,
    31.525109459989388,
    57.16281922464213,
    44.08050738932008,
    14.684956192885803,
    2.1866330685079025,
    -0.1402560791713545,
    -0.03504246268278482,
    -0.0008574567851546854,
];
const Q1: &[f64] = &[
    1.0,
    15.779988325646675,
    45.39076351288792,
    41.3172038254672,
    15.04253856929075,
    2.504649462083094,
    -0.14218292285478779,
    -0.03808064076915783,
    -0.0009332594808954574,
];
const P2: &[f64] = &[
    3.2377489177694603,
    6.915228890689842,
    3.9388102529247444,
    1.3330346081580755,
    0.20148538954917908,
    0.012371663481782003,
    0.00030158155350823543,
    2.6580697468673755e-6,
    6.239745391849833e-9,
];
const Q2: &[f64] = &[
    1.0,
    6.02427039364742,
    3.6798356385616087,
    1.3770209948908132,
    0.21623699359449663,
    0.013420400608854318,
    0.00032801446468212774,
    2.8924786474538068e-6,
    6.790194080099813e-9,
];

/// The inverse of the normal distribution function.
fn ndtri(cx: &mut Cx<'_, '_>, p: Value) -> Result<Value> {
    const TAIL: f64 = 0.135_335_283_236_612_7;
    let one = cx.full_like(p, 1)?;
    let upper = compare_to(cx, p, Direction::Gt, 1.0 - TAIL)?;
    let rest = cx.f.subtract(one, p)?;
    let y = cx.f.select(upper, rest, p)?;
    // The middle.
    let c = offset(cx, y, -0.5)?;
    let c2 = cx.f.multiply(c, c)?;
    let ratio = quotient(cx, c2, P0, Q0)?;
    let ratio = cx.f.multiply(c2, ratio)?;
    let ratio = cx.f.multiply(c, ratio)?;
    let middle = cx.f.add(c, ratio)?;
    let middle = scale(cx, middle, 2.506_628_274_631_000_7)?;
    // The tails.
    let log = cx.f.log(y)?;
    let square = scale(cx, log, -2.0)?;
    let x = cx.f.sqrt(square)?;
    let log = cx.f.log(x)?;
    let part = cx.f.divide(log, x)?;
    let x0 = cx.f.subtract(x, part)?;
    let z = cx.f.divide(one, x)?;
    let near = quotient(cx, z, P1, Q1)?;
    let far = quotient(cx, z, P2, Q2)?;
    let is_near = compare_to(cx, x, Direction::Lt, 8)?;
    let x1 = cx.f.select(is_near, near, far)?;
    let x1 = cx.f.multiply(z, x1)?;
    let tail = cx.f.subtract(x0, x1)?;
    let minus = cx.f.negate(tail)?;
    let tail = cx.f.select(upper, tail, minus)?;
    let inner = compare_to(cx, y, Direction::Gt, TAIL)?;
    let result = cx.f.select(inner, middle, tail)?;
    let at_zero = compare_to(cx, p, Direction::Eq, 0)?;
    let result = replace(cx, at_zero, f64::NEG_INFINITY, result)?;
    let at_one = compare_to(cx, p, Direction::Eq, 1)?;
    let result = replace(cx, at_one, f64::INFINITY, result)?;
    let below = compare_to(cx, p, Direction::Lt, 0)?;
    let above = compare_to(cx, p, Direction::Gt, 1)?;
    let outside = cx.f.or(below, above)?;
    let nan = is_nan(cx, p)?;
    let outside = cx.f.or(outside, nan)?;
    replace(cx, outside, f64::NAN, result)
}

/// A quotient of two polynomials, the highest power first.
pub(crate) fn quotient(cx: &mut Cx<'_, '_>, x: Value, above: &[f64], below: &[f64]) -> Result<Value> {
    let a = polynomial(cx, x, above)?;
    let b = polynomial(cx, x, below)?;
    Ok(cx.f.divide(a, b)?)
}

/// [`unary_float`] for functions of real numbers only.
pub(crate) fn real(cx: &mut Cx<'_, '_>, kernel: Unary) -> Lowered {
    let name = if cx.has("self") { "self" } else { "x" };
    if super::common::float_type(cx, &[name])?.is_complex() {
        return Err(Error::unsupported("this function of complex numbers"));
    }
    unary_float(cx, kernel)
}

/// [`real`] computed in double precision: for series that lose digits, where single precision would show it.
pub(crate) fn in_double(cx: &mut Cx<'_, '_>, kernel: Unary) -> Lowered {
    let name = if cx.has("self") { "self" } else { "x" };
    if super::common::float_type(cx, &[name])?.is_complex() {
        return Err(Error::unsupported("this function of complex numbers"));
    }
    let x = cx.tensor(name)?;
    let x = cx.cast(x, crate::ElementType::F64)?;
    Ok(kernel(cx, x)?.into())
}

pub(crate) const OPS: &[OpDef] = &[
    OpDef::new("erf", |cx| real(cx, error_function)),
    OpDef::new("erfc", |cx| real(cx, error_function_complement)),
    OpDef::new("erfinv", |cx| in_double(cx, erfinv)),
    OpDef::new("lgamma", |cx| real(cx, log_gamma)),
    OpDef::new("digamma", |cx| real(cx, digamma)),
    OpDef::new("polygamma", polygamma),
    OpDef::new("mvlgamma", mvlgamma),
    OpDef::new("special_zeta", special_zeta),
    OpDef::new("special_erfcx", |cx| real(cx, scaled_complement)),
    OpDef::new("special_log_ndtr", |cx| real(cx, log_ndtr)),
    OpDef::new("special_ndtri", |cx| real(cx, ndtri)),
];
