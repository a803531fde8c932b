//! The Airy function, by the approximations that torch takes from Cephes (denominators without the leading one of `p1evl`).

use stablehlo::Value;
use stablehlo::ops::Direction;

use super::common::{compare_to, offset, replace, scale};
use super::special::{in_double, polynomial, quotient};
use crate::{Cx, OpDef, Result};

const AN: &[f64] = &[
    0.346538101525629,
    12.007595273964581,
    76.27960536152345,
    168.08922493463058,
    159.75639135016442,
    70.53609068404442,
    14.026469116338967,
    1.0,
];
const AD: &[f64] = &[
    0.5675945326387702,
    14.75625625848472,
    84.51389701414746,
    177.31808814540045,
    164.2346928715297,
    71.47784008255756,
    14.095913560783403,
    1.0,
];
const AFN: &[f64] = &[
    -0.1316963234183318,
    -0.6264565444319123,
    -0.6931580360369335,
    -0.2797799815451191,
    -0.04919001326095003,
    -0.004062659235948854,
    -0.0001592764962392621,
    -2.776491081552329e-06,
    -1.6778769848911465e-08,
];
const AFD: &[f64] = &[
    13.356042070655324,
    32.682503279522464,
    26.736704094149957,
    9.187074029072596,
    1.4752914677166642,
    0.11568717379518804,
    0.004402916416152112,
    7.547203482874142e-05,
    4.5185009297058035e-07,
];
const AGN: &[f64] = &[
    0.01973399320916857,
    0.39110302961568827,
    1.0657989759959559,
    0.9391692298166502,
    0.35146565610554764,
    0.06338889196289255,
    0.005858041130483885,
    0.000282851600836737,
    6.98793669997261e-06,
    8.117892395543892e-08,
    3.415517847659236e-10,
];
const AGD: &[f64] = &[
    9.30892908077442,
    19.835292871831214,
    15.564662893286462,
    5.476860694229755,
    0.9542936116189619,
    0.08645808263523921,
    0.004126565238242226,
    0.00010125908511650914,
    1.1716673321441352e-06,
    4.9183457006293e-09,
];

/// The power series about zero of the magnitude that [`airy_ai`] needs: `c1 f(x) - c2 g(x)`.
fn series(cx: &mut Cx<'_, '_>, x: Value) -> Result<Value> {
    // Terms until they are below the precision of double at |x| = 2.09.
    const TERMS: u32 = 16;
    let z = cx.f.multiply(x, x)?;
    let z = cx.f.multiply(z, x)?;
    let (mut f, mut g) = (Vec::new(), Vec::new());
    let (mut a, mut b) = (1.0, 1.0);
    for k in 0..TERMS {
        f.push(a);
        g.push(b);
        let three = f64::from(3 * k);
        a /= (three + 2.0) * (three + 3.0);
        b /= (three + 3.0) * (three + 4.0);
    }
    f.reverse();
    g.reverse();
    let f = polynomial(cx, z, &f)?;
    let f = scale(cx, f, 0.355_028_053_887_817_2)?;
    let g = polynomial(cx, z, &g)?;
    let g = cx.f.multiply(g, x)?;
    let g = scale(cx, g, 0.258_819_403_792_806_8)?;
    Ok(cx.f.subtract(f, g)?)
}

fn airy_ai(cx: &mut Cx<'_, '_>, x: Value) -> Result<Value> {
    const ROOT: f64 = 0.564_189_583_547_756_3;
    let size = cx.f.abs(x)?;
    let root = cx.f.sqrt(size)?;
    let zeta = cx.f.multiply(size, root)?;
    let zeta = scale(cx, zeta, 2.0 / 3.0)?;
    let one = cx.full_like(x, 1)?;
    let z = cx.f.divide(one, zeta)?;
    let quarter = cx.f.sqrt(root)?;
    // Waves on the left.
    let square = cx.f.multiply(z, z)?;
    let p = quotient(cx, square, AFN, AFD)?;
    let p = cx.f.multiply(p, square)?;
    let p = offset(cx, p, 1.0)?;
    let q = quotient(cx, square, AGN, AGD)?;
    let q = cx.f.multiply(q, z)?;
    let t = offset(cx, zeta, std::f64::consts::FRAC_PI_4)?;
    let (sine, cosine) = (cx.f.sine(t)?, cx.f.cosine(t)?);
    let a = cx.f.multiply(sine, p)?;
    let b = cx.f.multiply(cosine, q)?;
    let wave = cx.f.subtract(a, b)?;
    let wave = scale(cx, wave, ROOT)?;
    let left = cx.f.divide(wave, quarter)?;
    // Decay on the right.
    let ratio = quotient(cx, z, AN, AD)?;
    let ratio = scale(cx, ratio, ROOT / 2.0)?;
    let ratio = cx.f.divide(ratio, quarter)?;
    let minus = cx.f.negate(zeta)?;
    let e = cx.f.exponential(minus)?;
    let right = cx.f.multiply(ratio, e)?;
    let middle = series(cx, x)?;
    let on_left = compare_to(cx, x, Direction::Lt, -2.09)?;
    let on_right = compare_to(cx, x, Direction::Ge, 2.09)?;
    let v = cx.f.select(on_left, left, middle)?;
    let v = cx.f.select(on_right, right, v)?;
    let gone = compare_to(cx, x, Direction::Gt, 103.892)?;
    let v = replace(cx, gone, 0, v)?;
    // Torch gives nothing at either infinity.
    let infinite = compare_to(cx, size, Direction::Eq, f64::INFINITY)?;
    replace(cx, infinite, f64::NAN, v)
}

pub(crate) const OPS: &[OpDef] = &[OpDef::new("special_airy_ai", |cx| in_double(cx, airy_ai))];
