//! _standard_gamma_grad, _dirichlet_grad: how a draw moves with its parameter, `-(d/dα cdf) / pdf`, by torch's approximations.
//!
//! In double precision throughout, as on the CPU: the saddle point expansions are differences of nearly equal terms.

use dtype::ElementType;
use stablehlo::Value;

use super::samplers::like_arguments;
use crate::ops::formula::{Formula, Term};
use crate::{Cx, Lowered, OpDef, Result};

fn in_double<const N: usize>(cx: &mut Cx<'_, '_>, names: [&str; N]) -> Result<[Value; N]> {
    let dims = cx.out(0)?.dims.clone();
    let mut made = [None; N];
    for (slot, name) in made.iter_mut().zip(names) {
        let v = cx.operand(name, ElementType::F64)?;
        *slot = Some(cx.broadcast_to(v, &dims)?);
    }
    let missing = || crate::Error::Internal("an operand is missing".into());
    let mut out = [made[0].ok_or_else(missing)?; N];
    for (slot, v) in out.iter_mut().zip(made) {
        *slot = v.ok_or_else(missing)?;
    }
    Ok(out)
}

/// Zero where torch's series is no number.
fn or_zero(v: Term<'_>) -> Term<'_> {
    v.is_nan().pick(v.number(0.0), v)
}

/// `a^(-3/2)`
fn power_of_minus_three_halves(a: Term<'_>) -> Term<'_> {
    1.0 / (a * a.sqrt())
}

fn standard_gamma_grad(cx: &mut Cx<'_, '_>) -> Lowered {
    let [alpha, x] = in_double(cx, ["self", "output"])?;
    let f = Formula::new(cx);
    let (alpha, x) = (f.of(alpha), f.of(x));
    let grad = x.lt(0.8).pick(
        gamma_small(alpha, x),
        alpha.gt(8.0).pick(gamma_large(alpha, x), gamma_mid(alpha, x)),
    );
    f.finish()?;
    Ok(grad.v.into())
}

/// The Taylor series at zero, without the powers of `x` that numerator and denominator share.
fn gamma_small<'s>(alpha: Term<'s>, x: Term<'s>) -> Term<'s> {
    let mut numerator = x.number(1.0);
    let mut denominator = alpha;
    let mut first = numerator / denominator;
    let mut second = first / denominator;
    for i in 1..=5 {
        numerator = numerator * x / -f64::from(i);
        denominator = denominator + 1.0;
        let term = numerator / denominator;
        first = first + term;
        second = second + term / denominator;
    }
    let log = x.log();
    let grad = x * x.exp() * (second - (log - alpha.digamma()) * first);
    // Below this those powers are zero, and torch's quotient of them no number.
    const LEAST: f64 = -745.1;
    let gone = (alpha * log).lt(LEAST);
    or_zero(gone.pick(grad.number(0.0), grad))
}

/// Rice's saddle point expansion.
fn gamma_large<'s>(alpha: Term<'s>, x: Term<'s>) -> Term<'s> {
    let square = alpha * alpha;
    let first = 1.0 + 24.0 * alpha * (1.0 + 12.0 * alpha);
    let second =
        1440.0 * square + 6.0 * x * (53.0 - 120.0 * x) - 65.0 * x * x / alpha + alpha * (107.0 + 3600.0 * x);
    let near = first * second / (1_244_160.0 * square * square);
    let is_near = x.ge(0.9 * alpha).and(x.le(1.1 * alpha));

    let root = (8.0 * alpha).sqrt();
    let log = (x / alpha).log();
    let off = alpha - x;
    let pole = root / off;
    let power = power_of_minus_three_halves(x - alpha - alpha * log);
    let both = off.gt(0.0).pick(pole - power, pole + power);
    let term = log * both - (2.0 / alpha).sqrt() * (alpha + x) / (off * off);
    let stirling = 1.0 + 1.0 / (12.0 * alpha) * (1.0 + 1.0 / (24.0 * alpha));
    is_near.pick(near, -stirling * x * term / root)
}

/// A rational function of the logarithms of `x / alpha` and `alpha`.
fn gamma_mid<'s>(alpha: Term<'s>, x: Term<'s>) -> Term<'s> {
    /// By power of the first logarithm: of the numerator by power of the second one, then of the denominator.
    const C: [[f64; 8]; 3] = [
        [
            0.160_093_98,
            -0.094_634_809,
            0.025_146_376,
            -0.003_064_834_3,
            1.0,
            0.326_681_15,
            0.104_060_89,
            0.001_417_908_4,
        ],
        [
            0.534_878_93,
            0.129_807_1,
            0.065_735_949,
            -0.001_564_975_8,
            0.166_394_65,
            0.020_070_113,
            -0.003_593_891_5,
            -0.000_583_926_23,
        ],
        [
            0.040_121_004,
            -0.006_591_402_2,
            -0.002_628_604_7,
            -0.001_344_177_7,
            0.017_050_642,
            -0.002_130_932_6,
            0.000_850_923_67,
            -1.524_787_7e-07,
        ],
    ];
    let u = (x / alpha).log();
    let v = alpha.log();
    let by_u = |i: usize| u.polynomial(&[C[0][i], C[1][i], C[2][i]]);
    let half = |at: usize| by_u(at) + v * (by_u(at + 1) + v * (by_u(at + 2) + v * by_u(at + 3)));
    (half(0) / half(4)).exp()
}

/// A beta distribution's parameters and their sum, with the digamma functions that are needed.
#[derive(Copy, Clone)]
struct Parameters<'s> {
    alpha: Term<'s>,
    beta: Term<'s>,
    total: Term<'s>,
    psi_alpha: Term<'s>,
    psi_total: Term<'s>,
}

fn dirichlet_grad(cx: &mut Cx<'_, '_>) -> Lowered {
    let element = cx.out(0)?.element;
    let [x, alpha, total] = in_double(cx, ["x", "alpha", "total"])?;
    // Differences that torch takes in the arguments' type.
    let difference = cx.f.subtract(total, alpha)?;
    let rounded = cx.rounded(difference, element)?;
    let [psi_alpha, psi_total] = digammas(cx, [alpha, total])?;
    let f = Formula::new(cx);
    let [x, alpha, total, beta] = [x, alpha, total, rounded].map(|v| f.of(v));
    let [psi_alpha, psi_total] = [psi_alpha, psi_total].map(|v| f.of(v));
    let p = Parameters {
        alpha,
        beta,
        total,
        psi_alpha,
        psi_total,
    };
    let boundary = total * x * (1.0 - x);
    let at_zero = x.le(0.5).and(boundary.lt(2.5));
    let at_one = x.ge(0.5).and(boundary.lt(0.75));
    let large = alpha.gt(6.0).and(beta.gt(6.0));
    let inner = large.pick(beta_large(p, x), beta_mid(p, x));
    let grad = at_zero.pick(beta_at_zero(p, x), at_one.pick(beta_at_one(p, x), inner));
    f.finish()?;
    Ok(grad.v.into())
}

/// The digamma functions of two values, computed as one: it is the longest part of the program.
fn digammas(cx: &mut Cx<'_, '_>, values: [Value; 2]) -> Result<[Value; 2]> {
    let dims = cx.dims(values[0])?;
    let wide = [&[1], dims.as_slice()].concat();
    let mut parts = Vec::with_capacity(2);
    for v in values {
        parts.push(cx.reshape(v, &wide)?);
    }
    let all = cx.f.concatenate(&parts, 0)?;
    let psi = cx.f.chlo_digamma(all)?;
    let mut out = values;
    for (k, slot) in out.iter_mut().enumerate() {
        let k = k as i64;
        let part = super::util::slice_dim(cx, psi, 0, k, k + 1, 1)?;
        *slot = cx.reshape(part, &dims)?;
    }
    Ok(out)
}

/// `x` near 0, by a Taylor series.
fn beta_at_zero<'s>(p: Parameters<'s>, x: Term<'s>) -> Term<'s> {
    let factor = p.psi_alpha - p.psi_total - x.log();
    let mut numerator = x.number(1.0);
    let mut series = numerator / p.alpha * (factor + 1.0 / p.alpha);
    for i in 1..=10 {
        let i = f64::from(i);
        numerator = numerator * (i - p.beta) * x / i;
        let by = 1.0 / (p.alpha + i);
        series = series + numerator * by * (factor + by);
    }
    or_zero(x * (-p.beta * (-x).log1p()).exp() * series)
}

/// `x` near 1, by a Taylor series in `1 - x` with the parameters' places changed.
fn beta_at_one<'s>(p: Parameters<'s>, x: Term<'s>) -> Term<'s> {
    let x = 1.0 - x;
    let (alpha, beta) = (p.beta, p.alpha);
    let factor = p.psi_total - p.psi_alpha;
    let mut numerator = x.number(1.0);
    let mut products = numerator;
    let mut slopes = x.number(0.0);
    let mut series = factor / alpha;
    for i in 1..=8 {
        let i = f64::from(i);
        numerator = numerator * x / -i;
        slopes = slopes * (beta - i) + products;
        products = products * (beta - i);
        series = series + numerator / (alpha + i) * (slopes + factor * products);
    }
    or_zero(((1.0 - beta) * (-x).log1p()).exp() * series)
}

/// Both parameters large: Rice's saddle point expansion.
fn beta_large<'s>(p: Parameters<'s>, x: Term<'s>) -> Term<'s> {
    let Parameters {
        alpha, beta, total, ..
    } = p;
    let mean = alpha / total;
    let deviation = (alpha * beta / (total + 1.0)).sqrt() / total;
    let is_near = x.ge(mean - 0.1 * deviation).and(x.le(mean + 0.1 * deviation));
    let square = beta * beta;
    let polynomial = 47.0 * x * square * square
        + alpha
            * ((43.0 + 20.0 * (16.0 + 27.0 * beta) * x) * square * beta
                + alpha
                    * (3.0 * (59.0 + 180.0 * beta - 90.0 * x) * square
                        + alpha
                            * ((453.0 + 1620.0 * beta * (1.0 - x) - 455.0 * x) * beta
                                + alpha * (8.0 * (1.0 - x) * (135.0 * beta - 11.0)))));
    let above = (1.0 + 12.0 * alpha) * (1.0 + 12.0 * beta) / (total * total);
    let below = 12_960.0 * alpha * alpha * alpha * square * (1.0 + 12.0 * total);
    let near = above / (1.0 - x) * polynomial / below;

    let stirling = |a: Term<'s>| 1.0 + 1.0 / (12.0 * a) + 1.0 / (288.0 * a * a);
    let factor =
        -x / (2.0 * alpha * beta / total).sqrt() * stirling(alpha) * stirling(beta) / stirling(total);
    let off = alpha * (x - 1.0) + beta * x;
    let first = (2.0 * alpha * alpha * (x - 1.0) + alpha * beta * (x - 1.0) - x * square)
        / ((2.0 * alpha / beta).sqrt() * total * total.sqrt() * off * off);
    let log = (alpha / (total * x)).log();
    let pole = (8.0 * alpha * beta / total).sqrt() / off;
    let power = power_of_minus_three_halves(beta * (beta / (total * (1.0 - x))).log() + alpha * log);
    let power = x.lt(mean).pick(power, -power);
    is_near.pick(near, factor * (first + 0.5 * log * (pole + power)))
}

/// A rational correction to what differences of digamma functions give.
fn beta_mid<'s>(p: Parameters<'s>, x: Term<'s>) -> Term<'s> {
    /// Of numerator and denominator, by powers of `u`, `a` and `b`.
    const C: [[[[f64; 4]; 3]; 3]; 2] = [
        [
            [
                [
                    1.003_668_233,
                    -0.010_611_074_88,
                    -0.065_788_833_4,
                    0.012_016_428_63,
                ],
                [
                    0.633_683_599_1,
                    -0.355_743_259_9,
                    0.054_862_516_48,
                    -0.001_465_281_033,
                ],
                [
                    -0.032_762_319_06,
                    0.004_474_107_445,
                    0.002_429_354_597,
                    -0.000_155_756_901_3,
                ],
            ],
            [
                [
                    0.221_950_385,
                    -0.318_767_633_1,
                    0.017_999_157_43,
                    0.010_748_238_14,
                ],
                [
                    -0.295_124_964_3,
                    0.062_199_544_79,
                    0.015_355_565_98,
                    0.001_550_077_057,
                ],
                [
                    0.021_553_102_98,
                    0.004_170_831_599,
                    0.001_292_462_449,
                    6.976_601_077e-05,
                ],
            ],
            [
                [
                    -0.059_808_414_33,
                    0.008_441_916_499,
                    0.010_856_181_72,
                    0.002_319_392_565,
                ],
                [
                    0.029_114_135_04,
                    0.014_002_437_77,
                    -0.002_721_828_457,
                    0.000_751_041_181,
                ],
                [
                    0.005_900_514_878,
                    -0.001_936_558_688,
                    -9.495_446_725e-06,
                    5.385_558_597e-05,
                ],
            ],
        ],
        [
            [
                [1.0, -0.029_240_219_34, -0.044_383_426_61, 0.007_285_809_825],
                [
                    0.635_756_747_2,
                    -0.347_345_671_1,
                    0.054_546_564_94,
                    -0.002_407_477_521,
                ],
                [
                    -0.033_013_223_27,
                    0.004_845_219_414,
                    0.002_314_805_83,
                    -0.000_230_724_814_9,
                ],
            ],
            [
                [
                    0.592_532_057_7,
                    -0.175_767_813_5,
                    0.015_059_286_19,
                    0.000_564_515_273,
                ],
                [
                    0.101_481_585_8,
                    -0.065_891_867_03,
                    0.012_728_861_14,
                    -0.000_731_664_695_6,
                ],
                [
                    -0.007_258_481_865,
                    0.001_096_195_486,
                    0.000_393_499_422_3,
                    -4.127_019_25e-05,
                ],
            ],
            [
                [
                    0.064_696_493_21,
                    -0.023_670_143_7,
                    0.002_902_096_474,
                    -5.896_963_079e-05,
                ],
                [
                    0.001_925_008_108,
                    -0.002_869_809_258,
                    0.000_800_058_914_1,
                    -6.063_713_228e-05,
                ],
                [
                    -0.000_347_740_733_6,
                    6.959_756_487e-05,
                    1.097_287_507e-05,
                    -1.650_964_693e-06,
                ],
            ],
        ],
    ];
    let u = x.log();
    let a = p.alpha.log() - u;
    let b = p.total.log() - a;
    let part = |c: &[[[f64; 4]; 3]; 3]| {
        let [c0, c1, c2] = c.map(|by_a| {
            let [b0, b1, b2] = by_a.map(|by_b| b.polynomial(&by_b));
            b0 + a * (b1 + a * b2)
        });
        c0 + u * (c1 + u * c2)
    };
    part(&C[0]) / part(&C[1]) * x * (p.psi_total - p.psi_alpha) / p.beta
}

pub(crate) const OPS: &[OpDef] = &[
    OpDef::new("_standard_gamma_grad", standard_gamma_grad)
        .shape(|call| like_arguments(call, ["self", "output"])),
    OpDef::new("_dirichlet_grad", dirichlet_grad).shape(|call| like_arguments(call, ["x", "alpha", "total"])),
];
