//! Modified Bessel functions of the second kind, by Cephes' Chebyshev series.

use stablehlo::Value;
use stablehlo::ops::Direction;

use super::bessel::{i0, i1, with_pole};
use super::common::{compare_to, offset, scale};
use super::special::{chebyshev, in_double};
use crate::{Cx, OpDef, Result};

/// What is left of the function on [0, 2] without its logarithm.
const K0_NEAR: &[f64] = &[
    1.374465435613523e-16,
    4.25981614279661e-14,
    1.0349695257633842e-11,
    1.904516377220209e-09,
    2.5347910790261494e-07,
    2.286212103119452e-05,
    0.001264615411446926,
    0.0359799365153615,
    0.3442898999246285,
    -0.5353273932339028,
];
/// `e^x √x` times the function on [2, ∞).
const K0_FAR: &[f64] = &[
    5.300433772686263e-18,
    -1.6475804301524212e-17,
    5.2103915050390274e-17,
    -1.678231096805412e-16,
    5.512055978524319e-16,
    -1.848593377343779e-15,
    6.3400764774050706e-15,
    -2.2275133269916698e-14,
    8.032890775363575e-14,
    -2.9800969231727303e-13,
    1.140340588208475e-12,
    -4.514597883373944e-12,
    1.8559491149547177e-11,
    -7.957489244477107e-11,
    3.577397281400301e-10,
    -1.69753450938906e-09,
    8.574034017414225e-09,
    -4.660489897687948e-08,
    2.766813639445015e-07,
    -1.8317555227191195e-06,
    1.39498137188765e-05,
    -0.00012849549581627802,
    0.0015698838857300533,
    -0.0314481013119645,
    2.4403030820659555,
];
/// The same of order 1, times `x`.
const K1_NEAR: &[f64] = &[
    -7.023863479386288e-18,
    -2.427449850519366e-15,
    -6.666901694199329e-13,
    -1.4114883926335278e-10,
    -2.213387630734726e-08,
    -2.4334061415659684e-06,
    -0.0001730288957513052,
    -0.006975723859639864,
    -0.12261118082265715,
    -0.3531559607765449,
    1.5253002273389478,
];
/// `e^x √x` times the function on [2, ∞).
const K1_FAR: &[f64] = &[
    -5.756744483665017e-18,
    1.7940508731475592e-17,
    -5.689462558442859e-17,
    1.838093544366639e-16,
    -6.057047248373319e-16,
    2.038703165624334e-15,
    -7.019837090418314e-15,
    2.4771544244813043e-14,
    -8.976705182324994e-14,
    3.3484196660784293e-13,
    -1.2891739609510289e-12,
    5.13963967348173e-12,
    -2.1299678384275683e-11,
    9.218315187605006e-11,
    -4.1903547593418965e-10,
    2.015049755197033e-09,
    -1.0345762465678097e-08,
    5.7410841254500495e-08,
    -3.5019606030878126e-07,
    2.406484947837217e-06,
    -1.936197974166083e-05,
    0.00019521551847135162,
    -0.002857816859622779,
    0.10392373657681724,
    2.7206261904844427,
];

/// The function, or with `scaled` `e^x` times it.
fn second_kind(cx: &mut Cx<'_, '_>, x: Value, order: usize, scaled: bool) -> Result<Value> {
    let (near, far) = if order == 0 {
        (K0_NEAR, K0_FAR)
    } else {
        (K1_NEAR, K1_FAR)
    };
    // Up to 2: a series and the logarithm times the function of the first kind.
    let square = cx.f.multiply(x, x)?;
    let at = offset(cx, square, -2.0)?;
    let series = chebyshev(cx, at, near)?;
    let half = scale(cx, x, 0.5)?;
    let log = cx.f.log(half)?;
    let inner = if order == 0 {
        let first = i0(cx, x)?;
        let part = cx.f.multiply(log, first)?;
        cx.f.subtract(series, part)?
    } else {
        let first = i1(cx, x)?;
        let part = cx.f.multiply(log, first)?;
        let pole = cx.f.divide(series, x)?;
        cx.f.add(part, pole)?
    };
    // Beyond.
    let eight = cx.full_like(x, 8)?;
    let at = cx.f.divide(eight, x)?;
    let at = offset(cx, at, -2.0)?;
    let series = chebyshev(cx, at, far)?;
    let root = cx.f.sqrt(x)?;
    let outer = cx.f.divide(series, root)?;
    let (inner, outer) = if scaled {
        let e = cx.f.exponential(x)?;
        (cx.f.multiply(inner, e)?, outer)
    } else {
        let minus = cx.f.negate(x)?;
        let e = cx.f.exponential(minus)?;
        (inner, cx.f.multiply(outer, e)?)
    };
    let is_near = compare_to(cx, x, Direction::Le, 2)?;
    let v = cx.f.select(is_near, inner, outer)?;
    with_pole(cx, v, x, f64::INFINITY)
}

pub(crate) const OPS: &[OpDef] = &[
    OpDef::new("special_modified_bessel_k0", |cx| {
        in_double(cx, |cx, x| second_kind(cx, x, 0, false))
    }),
    OpDef::new("special_modified_bessel_k1", |cx| {
        in_double(cx, |cx, x| second_kind(cx, x, 1, false))
    }),
    OpDef::new("special_scaled_modified_bessel_k0", |cx| {
        in_double(cx, |cx, x| second_kind(cx, x, 0, true))
    }),
    OpDef::new("special_scaled_modified_bessel_k1", |cx| {
        in_double(cx, |cx, x| second_kind(cx, x, 1, true))
    }),
];
