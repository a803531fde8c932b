//! Bessel functions of the first and second kind, by the rational approximations that torch takes from Cephes.
//!
//! As torch's CPU kernels have them: the denominators lack the leading one of Cephes' `p1evl`, which is felt at 1e-6.

use stablehlo::Value;
use stablehlo::ops::Direction;

use super::bessel::{with_pole, with_sign_of};
use super::common::{compare_to, offset, scale};
use super::special::{in_double, quotient};
use crate::{Cx, OpDef, Result};

// Order 0: the even function that is left of J on [0, 5] when its first two zeros are taken out, the part of Y there
// that is no logarithm, and modulus and phase beyond.
const RP0: &[f64] = &[
    -4794432209.782018,
    1956174919465.5657,
    -249248344360967.72,
    9708622510473064.0,
];
const RQ0: &[f64] = &[
    499.563147152651,
    173785.4016763747,
    48440965.83399621,
    11185553704.535683,
    2112775201154.892,
    310518229857422.56,
    3.1812195594320496e+16,
    1.7108629408104315e+18,
];
const YP0: &[f64] = &[
    15592.436785523574,
    -14663929.59039716,
    5435264770.518765,
    -982136065717.9115,
    87590639439536.7,
    -3466283033847297.0,
    4.4273326857256984e+16,
    -1.8495080043698668e+16,
];
const YQ0: &[f64] = &[
    1041.2835366425984,
    626107.330137135,
    268919633.39381415,
    86400248710.3935,
    20297961275010.555,
    3171577528429750.5,
    2.5059625617265306e+17,
];
const PP0: &[f64] = &[
    0.0007969367292973471,
    0.08283523921074408,
    1.239533716464143,
    5.447250030587687,
    8.74716500199817,
    5.303240382353949,
    1.0,
];
const PQ0: &[f64] = &[
    0.0009244088105588637,
    0.08562884743544745,
    1.2535274390105895,
    5.470977403304171,
    8.761908832370695,
    5.306052882353947,
    1.0,
];
const QP0: &[f64] = &[
    -0.011366383889846916,
    -1.2825271867050931,
    -19.553954425773597,
    -93.20601521237683,
    -177.68116798048806,
    -147.07750515495118,
    -51.41053267665993,
    -6.050143506007285,
];
const QQ0: &[f64] = &[
    64.3178256118178,
    856.4300259769806,
    3882.4018360540163,
    7240.467741956525,
    5930.727011873169,
    2062.0933166032783,
    242.0057402402914,
];
// Order 1: the even function that is left of J on [0, 5] when its first two zeros are taken out, the part of Y there
// that is no logarithm, and modulus and phase beyond.
const RP1: &[f64] = &[
    -899971225.7055594,
    452228297998.19403,
    -72749424522181.83,
    3682957328638529.0,
];
const RQ1: &[f64] = &[
    620.8364781180543,
    256987.25675774884,
    83514679.14319493,
    22151159547.97925,
    4749141220799.914,
    784369607876235.9,
    8.952223361846274e+16,
    5.322786203326801e+18,
];
const YP1: &[f64] = &[
    1263204747.9017804,
    -647355876379.1603,
    114509511541823.73,
    -8127702555013251.0,
    2.024394757135949e+17,
    -7.788771962659501e+17,
];
const YQ1: &[f64] = &[
    594.3015923461282,
    235564.09294306856,
    73481194.44597217,
    18760131610.870617,
    3882312774962.3857,
    620557727146953.8,
    6.871410873553005e+16,
    3.9727060811656064e+18,
];
const PP1: &[f64] = &[
    0.0007621256162081731,
    0.07313970569409176,
    1.1271960812968493,
    5.112079511468076,
    8.424045901417724,
    5.214515986823615,
    1.0,
];
const PQ1: &[f64] = &[
    0.0005713231280725487,
    0.06884559087544954,
    1.105142326340617,
    5.073863861286015,
    8.399855543276042,
    5.209828486823619,
    1.0,
];
const QP1: &[f64] = &[
    0.05108625947501766,
    4.982138729512334,
    75.82382841325453,
    366.7796093601508,
    710.8563049989261,
    597.4896124006136,
    211.68875710057213,
    25.207020585802372,
];
const QQ1: &[f64] = &[
    74.23732770356752,
    1056.4488603826283,
    4986.410583376536,
    9562.318924047562,
    7997.041604473507,
    2826.1927851763908,
    336.0936078106983,
];

/// The sine and cosine series beyond 5: `√(2/πx) (P cos t - (5/x) Q sin t)`, or of the second kind `P sin t + (5/x) Q cos t`,
/// with `t = x - shift`.
fn far(cx: &mut Cx<'_, '_>, x: Value, order: usize, second: bool) -> Result<Value> {
    use std::f64::consts::{FRAC_PI_4, PI};
    let ([p_up, p_down, q_up, q_down], shift) = if order == 0 {
        ([PP0, PQ0, QP0, QQ0], FRAC_PI_4)
    } else {
        ([PP1, PQ1, QP1, QQ1], 3.0 * FRAC_PI_4)
    };
    let five = cx.full_like(x, 5)?;
    let by = cx.f.divide(five, x)?;
    let square = cx.f.multiply(by, by)?;
    let p = quotient(cx, square, p_up, p_down)?;
    let q = quotient(cx, square, q_up, q_down)?;
    let q = cx.f.multiply(by, q)?;
    let t = offset(cx, x, -shift)?;
    let (sine, cosine) = (cx.f.sine(t)?, cx.f.cosine(t)?);
    let sum = if second {
        let a = cx.f.multiply(p, sine)?;
        let b = cx.f.multiply(q, cosine)?;
        cx.f.add(a, b)?
    } else {
        let a = cx.f.multiply(p, cosine)?;
        let b = cx.f.multiply(q, sine)?;
        cx.f.subtract(a, b)?
    };
    let sum = scale(cx, sum, (2.0 / PI).sqrt())?;
    let root = cx.f.sqrt(x)?;
    Ok(cx.f.divide(sum, root)?)
}

/// `(z - a) (z - b) p(z) / q(z)`.
fn between_zeros(cx: &mut Cx<'_, '_>, z: Value, zeros: [f64; 2], up: &[f64], down: &[f64]) -> Result<Value> {
    let mut v = quotient(cx, z, up, down)?;
    for zero in zeros {
        let factor = offset(cx, z, -zero)?;
        v = cx.f.multiply(v, factor)?;
    }
    Ok(v)
}

/// J of order 0 for a magnitude up to 5.
fn j0_near(cx: &mut Cx<'_, '_>, x: Value) -> Result<Value> {
    let z = cx.f.multiply(x, x)?;
    between_zeros(cx, z, [5.783_185_962_946_784, 30.471_262_343_662_087], RP0, RQ0)
}

/// J of order 1 for a magnitude up to 5.
fn j1_near(cx: &mut Cx<'_, '_>, x: Value) -> Result<Value> {
    let z = cx.f.multiply(x, x)?;
    let v = between_zeros(cx, z, [14.681_970_642_123_893, 49.218_456_321_694_6], RP1, RQ1)?;
    Ok(cx.f.multiply(v, x)?)
}

fn j0(cx: &mut Cx<'_, '_>, x: Value) -> Result<Value> {
    let size = cx.f.abs(x)?;
    let near = j0_near(cx, size)?;
    let far = far(cx, size, 0, false)?;
    let is_near = compare_to(cx, size, Direction::Le, 5)?;
    Ok(cx.f.select(is_near, near, far)?)
}

fn j1(cx: &mut Cx<'_, '_>, x: Value) -> Result<Value> {
    let size = cx.f.abs(x)?;
    let near = j1_near(cx, size)?;
    let far = far(cx, size, 1, false)?;
    let is_near = compare_to(cx, size, Direction::Le, 5)?;
    let v = cx.f.select(is_near, near, far)?;
    with_sign_of(cx, v, x)
}

/// From the functions near zero and far from it: a pole at zero, nothing below.
fn second_kind(cx: &mut Cx<'_, '_>, x: Value, near: Value, far: Value) -> Result<Value> {
    let is_near = compare_to(cx, x, Direction::Le, 5)?;
    let v = cx.f.select(is_near, near, far)?;
    with_pole(cx, v, x, f64::NEG_INFINITY)
}

fn y0(cx: &mut Cx<'_, '_>, x: Value) -> Result<Value> {
    let z = cx.f.multiply(x, x)?;
    let ratio = quotient(cx, z, YP0, YQ0)?;
    let log = cx.f.log(x)?;
    let j = j0_near(cx, x)?;
    let part = cx.f.multiply(log, j)?;
    let part = scale(cx, part, std::f64::consts::FRAC_2_PI)?;
    let near = cx.f.add(ratio, part)?;
    let far = far(cx, x, 0, true)?;
    second_kind(cx, x, near, far)
}

fn y1(cx: &mut Cx<'_, '_>, x: Value) -> Result<Value> {
    let z = cx.f.multiply(x, x)?;
    let ratio = quotient(cx, z, YP1, YQ1)?;
    let ratio = cx.f.multiply(ratio, x)?;
    let log = cx.f.log(x)?;
    let j = j1_near(cx, x)?;
    let part = cx.f.multiply(log, j)?;
    let one = cx.full_like(x, 1)?;
    let pole = cx.f.divide(one, x)?;
    let part = cx.f.subtract(part, pole)?;
    let part = scale(cx, part, std::f64::consts::FRAC_2_PI)?;
    let near = cx.f.add(ratio, part)?;
    let far = far(cx, x, 1, true)?;
    second_kind(cx, x, near, far)
}

pub(crate) const OPS: &[OpDef] = &[
    OpDef::new("special_bessel_j0", |cx| in_double(cx, j0)),
    OpDef::new("special_bessel_j1", |cx| in_double(cx, j1)),
    OpDef::new("special_bessel_y0", |cx| in_double(cx, y0)),
    OpDef::new("special_bessel_y1", |cx| in_double(cx, y1)),
];
