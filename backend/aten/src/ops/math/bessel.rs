//! Bessel functions, by Cephes' Chebyshev series.

use stablehlo::Value;
use stablehlo::ops::Direction;

use super::common::{compare_to, offset, replace, scale};
use super::special::{chebyshev, real};
use crate::{Cx, OpDef, Result};

/// `e^-x I0(x)` on [0, 8].
const I0E_NEAR: &[f64] = &[
    -4.4153416464793395e-18,
    3.3307945188222384e-17,
    -2.431279846547955e-16,
    1.715391285555133e-15,
    -1.1685332877993451e-14,
    7.676185498604936e-14,
    -4.856446783111929e-13,
    2.95505266312964e-12,
    -1.726826291441556e-11,
    9.675809035373237e-11,
    -5.189795601635263e-10,
    2.6598237246823866e-09,
    -1.300025009986248e-08,
    6.046995022541919e-08,
    -2.670793853940612e-07,
    1.1173875391201037e-06,
    -4.4167383584587505e-06,
    1.6448448070728896e-05,
    -5.754195010082104e-05,
    0.00018850288509584165,
    -0.0005763755745385824,
    0.0016394756169413357,
    -0.004324309995050576,
    0.010546460394594998,
    -0.02373741480589947,
    0.04930528423967071,
    -0.09490109704804764,
    0.17162090152220877,
    -0.3046826723431984,
    0.6767952744094761,
];

/// `e^-x √x I0(x)` on [8, ∞).
const I0E_FAR: &[f64] = &[
    -7.233180487874754e-18,
    -4.830504485944182e-18,
    4.46562142029676e-17,
    3.461222867697461e-17,
    -2.8276239805165836e-16,
    -3.425485619677219e-16,
    1.7725601330565263e-15,
    3.8116806693526224e-15,
    -9.554846698828307e-15,
    -4.150569347287222e-14,
    1.54008621752141e-14,
    3.8527783827421426e-13,
    7.180124451383666e-13,
    -1.7941785315068062e-12,
    -1.3215811840447713e-11,
    -3.1499165279632416e-11,
    1.1889147107846439e-11,
    4.94060238822497e-10,
    3.3962320257083865e-09,
    2.266668990498178e-08,
    2.0489185894690638e-07,
    2.8913705208347567e-06,
    6.889758346916825e-05,
    0.0033691164782556943,
    0.8044904110141088,
];

/// `e^-x I1(x) / x` on [0, 8].
const I1E_NEAR: &[f64] = &[
    2.7779141127610464e-18,
    -2.111421214358166e-17,
    1.5536319577362005e-16,
    -1.1055969477353862e-15,
    7.600684294735408e-15,
    -5.042185504727912e-14,
    3.223793365945575e-13,
    -1.9839743977649436e-12,
    1.1736186298890901e-11,
    -6.663489723502027e-11,
    3.625590281552117e-10,
    -1.8872497517228294e-09,
    9.381537386495773e-09,
    -4.445059128796328e-08,
    2.0032947535521353e-07,
    -8.568720264695455e-07,
    3.4702513081376785e-06,
    -1.3273163656039436e-05,
    4.781565107550054e-05,
    -0.00016176081582589674,
    0.0005122859561685758,
    -0.0015135724506312532,
    0.004156422944312888,
    -0.010564084894626197,
    0.024726449030626516,
    -0.05294598120809499,
    0.1026436586898471,
    -0.17641651835783406,
    0.25258718644363365,
];

/// `e^-x √x I1(x)` on [8, ∞).
const I1E_FAR: &[f64] = &[
    7.517296310842105e-18,
    4.414348323071708e-18,
    -4.6503053684893586e-17,
    -3.209525921993424e-17,
    2.96262899764595e-16,
    3.3082023109209285e-16,
    -1.8803547755107825e-15,
    -3.8144030724370075e-15,
    1.0420276984128802e-14,
    4.272440016711951e-14,
    -2.1015418427726643e-14,
    -4.0835511110921974e-13,
    -7.198551776245908e-13,
    2.0356285441470896e-12,
    1.4125807436613782e-11,
    3.2526035830154884e-11,
    -1.8974958123505413e-11,
    -5.589743462196584e-10,
    -3.835380385964237e-09,
    -2.6314688468895196e-08,
    -2.512236237870209e-07,
    -3.882564808877691e-06,
    -0.00011058893876262371,
    -0.009761097491361469,
    0.7785762350182801,
];

/// A series up to 8 and another one, divided by the root, beyond; of the magnitude of `x`.
fn scaled_series(cx: &mut Cx<'_, '_>, size: Value, near: &[f64], far: &[f64], odd: bool) -> Result<Value> {
    let half = scale(cx, size, 0.5)?;
    let at = offset(cx, half, -2.0)?;
    let mut inner = chebyshev(cx, at, near)?;
    if odd {
        inner = cx.f.multiply(inner, size)?;
    }
    let many = cx.full_like(size, 32)?;
    let at = cx.f.divide(many, size)?;
    let at = offset(cx, at, -2.0)?;
    let series = chebyshev(cx, at, far)?;
    let root = cx.f.sqrt(size)?;
    let outer = cx.f.divide(series, root)?;
    let is_near = compare_to(cx, size, Direction::Le, 8)?;
    Ok(cx.f.select(is_near, inner, outer)?)
}

fn even(cx: &mut Cx<'_, '_>, x: Value) -> Result<Value> {
    let size = cx.f.abs(x)?;
    scaled_series(cx, size, I0E_NEAR, I0E_FAR, false)
}

/// An odd function from its values for positive numbers.
pub(crate) fn with_sign_of(cx: &mut Cx<'_, '_>, v: Value, x: Value) -> Result<Value> {
    let negative = compare_to(cx, x, Direction::Lt, 0)?;
    let minus = cx.f.negate(v)?;
    Ok(cx.f.select(negative, minus, v)?)
}

/// A function of the second kind from its values for positive numbers: a pole at zero, nothing below.
pub(crate) fn with_pole(cx: &mut Cx<'_, '_>, v: Value, x: Value, at_zero: f64) -> Result<Value> {
    let zero = compare_to(cx, x, Direction::Eq, 0)?;
    let v = replace(cx, zero, at_zero, v)?;
    let negative = compare_to(cx, x, Direction::Lt, 0)?;
    replace(cx, negative, f64::NAN, v)
}

fn odd(cx: &mut Cx<'_, '_>, x: Value) -> Result<Value> {
    let size = cx.f.abs(x)?;
    let v = scaled_series(cx, size, I1E_NEAR, I1E_FAR, true)?;
    with_sign_of(cx, v, x)
}

/// `v e^|x|`.
fn unscale(cx: &mut Cx<'_, '_>, v: Value, x: Value) -> Result<Value> {
    let size = cx.f.abs(x)?;
    let e = cx.f.exponential(size)?;
    Ok(cx.f.multiply(v, e)?)
}

/// Order 0.
pub(crate) fn i0(cx: &mut Cx<'_, '_>, x: Value) -> Result<Value> {
    let v = even(cx, x)?;
    unscale(cx, v, x)
}

/// Order 1.
pub(crate) fn i1(cx: &mut Cx<'_, '_>, x: Value) -> Result<Value> {
    let v = odd(cx, x)?;
    unscale(cx, v, x)
}

/// `sin(x) / x`, by its series near zero.
fn spherical_j0(cx: &mut Cx<'_, '_>, x: Value) -> Result<Value> {
    let sine = cx.f.sine(x)?;
    let ratio = cx.f.divide(sine, x)?;
    let size = cx.f.abs(x)?;
    let infinite = compare_to(cx, size, Direction::Eq, f64::INFINITY)?;
    let ratio = replace(cx, infinite, 0, ratio)?;
    let square = cx.f.multiply(x, x)?;
    // 1 - x²/6 + x⁴/120 - x⁶/5040 + x⁸/362880 - x¹⁰/39916800 + x¹²/6227020800
    let series = super::special::polynomial(
        cx,
        square,
        &[
            1.0 / 6_227_020_800.0,
            -1.0 / 39_916_800.0,
            1.0 / 362_880.0,
            -1.0 / 5040.0,
            1.0 / 120.0,
            -1.0 / 6.0,
            1.0,
        ],
    )?;
    let near = compare_to(cx, size, Direction::Lt, 0.5)?;
    Ok(cx.f.select(near, series, ratio)?)
}

pub(crate) const OPS: &[OpDef] = &[
    OpDef::new("i0", |cx| real(cx, i0)),
    OpDef::new("special_i0e", |cx| real(cx, even)),
    OpDef::new("special_i1", |cx| real(cx, i1)),
    OpDef::new("special_i1e", |cx| real(cx, odd)),
    OpDef::new("special_modified_bessel_i0", |cx| real(cx, i0)),
    OpDef::new("special_modified_bessel_i1", |cx| real(cx, i1)),
    OpDef::new("special_spherical_bessel_j0", |cx| real(cx, spherical_j0)),
];
