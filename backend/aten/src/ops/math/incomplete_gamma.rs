//! The regularized incomplete gamma functions, by torch's choice of series, continued fraction and Temme's expansion.

use stablehlo::Value;
use stablehlo::ops::Direction;

use super::common::{compare, compare_to, float_type, offset, operands, replace, scale};
use crate::{Cx, ElementType, Error, Lowered, OpDef, Result};

/// Coefficients of Temme's expansion: a row for each power of `1 / a`, a column for each of `eta`; as many of either as
/// double precision can tell where the expansion is used.
const TEMME: [[f64; 16]; 8] = [
    [
        -0.3333333333333333,
        0.08333333333333333,
        -0.014814814814814815,
        0.0011574074074074073,
        0.0003527336860670194,
        -0.0001787551440329218,
        3.919263178522438e-05,
        -2.1854485106799924e-06,
        -1.85406221071516e-06,
        8.296711340953087e-07,
        -1.7665952736826078e-07,
        6.707853543401498e-09,
        1.0261809784240309e-08,
        -4.382036018453353e-09,
        9.14769958223679e-10,
        -2.551419399494625e-11,
    ],
    [
        -0.001851851851851852,
        -0.003472222222222222,
        0.0026455026455026454,
        -0.0009902263374485596,
        0.00020576131687242798,
        -4.018775720164609e-07,
        -1.8098550334489977e-05,
        7.64916091608111e-06,
        -1.6120900894563446e-06,
        4.647127802807434e-09,
        1.378633446915721e-07,
        -5.752545603517705e-08,
        1.1951628599778148e-08,
        -1.7543241719747647e-11,
        -1.0091543710600413e-09,
        4.162792991842583e-10,
    ],
    [
        0.004133597883597883,
        -0.0026813271604938273,
        0.0007716049382716049,
        2.0093878600823047e-06,
        -0.00010736653226365161,
        5.2923448829120125e-05,
        -1.2760635188618728e-05,
        3.423578734096138e-08,
        1.3721957309062932e-06,
        -6.298992138380055e-07,
        1.4280614206064242e-07,
        -2.0477098421990866e-10,
        -1.409252991086752e-08,
        6.228974084922022e-09,
        -1.3670488396617112e-09,
        9.428356159014678e-13,
    ],
    [
        0.0006494341563786008,
        0.00022947209362139917,
        -0.0004691894943952557,
        0.00026772063206283885,
        -7.561801671883977e-05,
        -2.396505113867297e-07,
        1.1082654115347302e-05,
        -5.6749528269915965e-06,
        1.4230900732435883e-06,
        -2.7861080291528143e-11,
        -1.6958404091930278e-07,
        8.099464905388083e-08,
        -1.9111168485973655e-08,
        2.3928620439808118e-12,
        2.0620131815488797e-09,
        -9.460496661855133e-10,
    ],
    [
        -0.0008618882909167117,
        0.0007840392217200666,
        -0.0002990724803031902,
        -1.4638452578843418e-06,
        6.641498215465122e-05,
        -3.968365047179435e-05,
        1.1375726970678419e-05,
        2.507497226237533e-10,
        -1.6954149536558305e-06,
        8.907507532205309e-07,
        -2.292934834000805e-07,
        2.956794137544049e-11,
        2.8865829742708783e-08,
        -1.4189739437803219e-08,
        3.4463580499464896e-09,
        -2.3024517174528067e-13,
    ],
    [
        -0.00033679855336635813,
        -6.972813758365858e-05,
        0.0002772753244959392,
        -0.00019932570516188847,
        6.797780477937208e-05,
        1.419062920643967e-07,
        -1.3594048189768693e-05,
        8.018470256334202e-06,
        -2.291481176508095e-06,
        -3.252473551298454e-10,
        3.4652846491085265e-07,
        -1.8447187191171344e-07,
        4.8240967037894184e-08,
        -1.7989466721743514e-14,
        -6.306194500013523e-09,
        3.162417628774568e-09,
    ],
    [
        0.0005313079364639922,
        -0.0005921664373536939,
        0.0002708782096718045,
        7.902353232660328e-07,
        -8.153969367561969e-05,
        5.61168275310625e-05,
        -1.8329116582843375e-05,
        -3.0796134506033047e-09,
        3.465155368803609e-06,
        -2.0291327396058603e-06,
        5.788792863149004e-07,
        2.338630673826657e-13,
        -8.828600746330484e-08,
        4.7435958880408125e-08,
        -1.2545415020710382e-08,
        8.649648858010293e-14,
    ],
    [
        0.00034436760689237765,
        5.171790908260592e-05,
        -0.00033493161081142234,
        0.0002812695154763237,
        -0.00010976582244684731,
        -1.2741009095484485e-07,
        2.7744451511563645e-05,
        -1.8263488805711332e-05,
        5.7876949497350525e-06,
        4.93875893393627e-10,
        -1.0595367014026043e-06,
        6.166714376110408e-07,
        -1.7562973359060463e-07,
        -1.297447328701544e-12,
        2.695423606288966e-08,
        -1.4578352908731272e-08,
    ],
];

/// So many terms are enough, as for torch.
const MOST_TERMS: i64 = 2000;
const PRECISION: f64 = 1.110_223_024_625_156_5e-16;

fn all(cx: &mut Cx<'_, '_>, conditions: &[Value]) -> Result<Value> {
    let mut v = conditions[0];
    for c in &conditions[1..] {
        v = cx.f.and(v, *c)?;
    }
    Ok(v)
}

/// `x^a e^-x / Γ(a)`.
fn prefix(cx: &mut Cx<'_, '_>, a: Value, x: Value) -> Result<Value> {
    let log = cx.f.log(x)?;
    let power = cx.f.multiply(a, log)?;
    let gamma = cx.f.chlo_lgamma(a)?;
    let e = cx.f.subtract(power, x)?;
    let e = cx.f.subtract(e, gamma)?;
    Ok(cx.f.exponential(e)?)
}

/// A state after so many steps, each told its number. A loop, as compilers for the TPU unroll no double precision in
/// reasonable time: each operation on it is some twenty of theirs.
fn repeat<'a>(
    cx: &mut Cx<'_, 'a>,
    times: usize,
    state: &[Value],
    step: impl FnOnce(&mut stablehlo::FunctionBuilder<'a>, Value, &[Value]) -> stablehlo::Result<Vec<Value>>,
) -> Result<Vec<Value>> {
    let [count, one, most] = [0, 1, times as i64].map(|n| cx.full(&[], ElementType::S64, n));
    let (count, one, most) = (count?, one?, most?);
    let first = [&[count], state].concat();
    let mut done = cx.f.while_(
        &first,
        |f, v| Ok(vec![f.compare(v[0], most, Direction::Lt)?]),
        |f, v| {
            let mut next = step(f, v[0], &v[1..])?;
            next.insert(0, f.add(v[0], one)?);
            Ok(next)
        },
    )?;
    Ok(done.split_off(1))
}

/// The lower function by its power series (DLMF 8.11.4).
fn lower_series(cx: &mut Cx<'_, '_>, a: Value, x: Value, wanted: Value) -> Result<Value> {
    let one = cx.full_like(a, 1)?;
    let precision = cx.full_like(a, PRECISION)?;
    let done = cx.while_any(MOST_TERMS, &[wanted, a, one, one], |f, v| {
        let r = f.add(v[1], one)?;
        let ratio = f.divide(x, r)?;
        let c = f.multiply(v[2], ratio)?;
        let sum = f.add(v[3], c)?;
        let least = f.multiply(sum, precision)?;
        let more = f.compare(c, least, Direction::Gt)?;
        Ok(vec![f.and(v[0], more)?, r, c, f.select(v[0], sum, v[3])?])
    })?;
    let fac = prefix(cx, a, x)?;
    let v = cx.f.multiply(done[3], fac)?;
    Ok(cx.f.divide(v, a)?)
}

/// The upper function for small `x` (DLMF 8.7.3).
fn upper_series(cx: &mut Cx<'_, '_>, a: Value, x: Value) -> Result<Value> {
    // Used up to x = 1.1, where the 24th term is below the precision.
    const TERMS: usize = 24;
    let (zero, one) = (cx.full_like(a, 0)?, cx.full_like(a, 1)?);
    let minus = cx.f.negate(x)?;
    let done = repeat(cx, TERMS, &[one, one, zero], |f, _, v| {
        let by = f.divide(minus, v[0])?;
        let fac = f.multiply(v[1], by)?;
        let up = f.add(a, v[0])?;
        let term = f.divide(fac, up)?;
        Ok(vec![f.add(v[0], one)?, fac, f.add(v[2], term)?])
    })?;
    let sum = done[2];
    let log = cx.f.log(x)?;
    let power = cx.f.multiply(a, log)?;
    let up = offset(cx, a, 1.0)?;
    let gamma = cx.f.chlo_lgamma(up)?;
    let e = cx.f.subtract(power, gamma)?;
    let first = cx.f.exponential_minus_one(e)?;
    let gamma = cx.f.chlo_lgamma(a)?;
    let e = cx.f.subtract(power, gamma)?;
    let e = cx.f.exponential(e)?;
    let second = cx.f.multiply(e, sum)?;
    let both = cx.f.add(first, second)?;
    Ok(cx.f.negate(both)?)
}

/// The upper function by its continued fraction (DLMF 8.9.2).
fn upper_fraction(cx: &mut Cx<'_, '_>, a: Value, x: Value, wanted: Value) -> Result<Value> {
    const BIG: f64 = 4_503_599_627_370_496.0;
    let (zero, one, two) = (cx.full_like(a, 0)?, cx.full_like(a, 1)?, cx.full_like(a, 2)?);
    let precision = cx.full_like(a, PRECISION)?;
    let (big, small) = (cx.full_like(a, BIG)?, cx.full_like(a, 1.0 / BIG)?);
    let y = cx.f.subtract(one, a)?;
    let z = cx.f.add(x, y)?;
    let z = cx.f.add(z, one)?;
    let p1 = cx.f.add(x, one)?;
    let q1 = cx.f.multiply(z, x)?;
    let ans = cx.f.divide(p1, q1)?;
    let done = cx.while_any(MOST_TERMS, &[wanted, zero, y, z, one, x, p1, q1, ans], |f, v| {
        let (active, p2, q2, p1, q1, ans) = (v[0], v[4], v[5], v[6], v[7], v[8]);
        let c = f.add(v[1], one)?;
        let y = f.add(v[2], one)?;
        let z = f.add(v[3], two)?;
        let yc = f.multiply(y, c)?;
        let next = |f: &mut stablehlo::FunctionBuilder<'_>, k1: Value, k2: Value| {
            let (up, down) = (f.multiply(k1, z)?, f.multiply(k2, yc)?);
            f.subtract(up, down)
        };
        let (p, q) = (next(f, p1, p2)?, next(f, q1, q2)?);
        let some = f.compare(q, zero, Direction::Ne)?;
        let ratio = f.divide(p, q)?;
        let r = f.select(some, ratio, ans)?;
        let change = f.subtract(ans, r)?;
        let change = f.divide(change, r)?;
        let change = f.abs(change)?;
        let moves = f.compare(change, precision, Direction::Gt)?;
        let none = f.not(some)?;
        let moves = f.or(moves, none)?;
        let size = f.abs(p)?;
        let huge = f.compare(size, big, Direction::Gt)?;
        let by = f.select(huge, small, one)?;
        Ok(vec![
            f.and(active, moves)?,
            c,
            y,
            z,
            f.multiply(p1, by)?,
            f.multiply(q1, by)?,
            f.multiply(p, by)?,
            f.multiply(q, by)?,
            f.select(active, r, ans)?,
        ])
    })?;
    let fac = prefix(cx, a, x)?;
    Ok(cx.f.multiply(done[8], fac)?)
}

/// The double series of Temme's expansion, by Horner's rule in both.
fn temme_sum(cx: &mut Cx<'_, '_>, eta: Value, inverse: Value) -> Result<Value> {
    let (rows, columns) = (TEMME.len(), TEMME[0].len());
    let highest_first: Vec<f64> = TEMME.iter().flatten().rev().copied().collect();
    let table = cx.f.constant(&[rows as i64, columns as i64], &highest_first)?;
    let (zero, first) = (cx.full_like(eta, 0)?, cx.full(&[], ElementType::S64, 0)?);
    let dims = cx.dims(eta)?;
    let done = repeat(cx, rows, &[zero], |f, at, v| {
        let row = f.dynamic_slice(table, &[at, first], &[1, columns as i64])?;
        let mut c = zero;
        for k in 0..columns as i64 {
            let one = f.slice(row, &[0, k], &[1, k + 1], &[1, 1])?;
            let one = f.reshape(one, &[] as &[i64])?;
            let one = f.broadcast_in_dim(one, &dims[..], &[])?;
            c = f.multiply(c, eta)?;
            c = f.add(c, one)?;
        }
        let sum = f.multiply(v[0], inverse)?;
        Ok(vec![f.add(sum, c)?])
    })?;
    Ok(done[0])
}

/// Temme's uniform expansion for a large `a` near `x` (DLMF 8.12.3 and 8.12.4).
fn temme(cx: &mut Cx<'_, '_>, a: Value, x: Value, lower: bool) -> Result<Value> {
    let sign = if lower { -1.0 } else { 1.0 };
    let off = cx.f.subtract(x, a)?;
    let sigma = cx.f.divide(off, a)?;
    let log = cx.f.log_plus_one(sigma)?;
    let distance = cx.f.subtract(log, sigma)?;
    let distance = scale(cx, distance, -2.0)?;
    let eta = cx.f.sqrt(distance)?;
    let below = compare_to(cx, sigma, Direction::Lt, 0)?;
    let minus = cx.f.negate(eta)?;
    let eta = cx.f.select(below, minus, eta)?;
    let half = scale(cx, a, 0.5)?;
    let root = cx.f.sqrt(half)?;
    let at = cx.f.multiply(eta, root)?;
    let at = scale(cx, at, sign)?;
    let body = cx.f.chlo_erfc(at)?;
    let body = scale(cx, body, 0.5)?;
    let one = cx.full_like(a, 1)?;
    let inverse = cx.f.divide(one, a)?;
    let sum = temme_sum(cx, eta, inverse)?;
    let square = cx.f.multiply(at, at)?;
    let square = cx.f.negate(square)?;
    let e = cx.f.exponential(square)?;
    let rest = cx.f.multiply(e, sum)?;
    let around = scale(cx, a, 2.0 * std::f64::consts::PI)?;
    let around = cx.f.sqrt(around)?;
    let rest = cx.f.divide(rest, around)?;
    let rest = scale(cx, rest, sign)?;
    Ok(cx.f.add(body, rest)?)
}

/// Where Temme's expansion is used.
fn near_and_large(cx: &mut Cx<'_, '_>, a: Value, x: Value) -> Result<Value> {
    let off = cx.f.subtract(x, a)?;
    let off = cx.f.abs(off)?;
    let off = cx.f.divide(off, a)?;
    let (over_20, over_200) = (
        compare_to(cx, a, Direction::Gt, 20)?,
        compare_to(cx, a, Direction::Gt, 200)?,
    );
    let under_200 = compare_to(cx, a, Direction::Lt, 200)?;
    let near = compare_to(cx, off, Direction::Lt, 0.3)?;
    let middle = all(cx, &[over_20, under_200, near])?;
    let root = cx.f.sqrt(a)?;
    let reach = cx.full_like(a, 4.5)?;
    let reach = cx.f.divide(reach, root)?;
    let near = compare(cx, off, reach, Direction::Lt)?;
    let large = cx.f.and(over_200, near)?;
    Ok(cx.f.or(middle, large)?)
}

/// Where the power series of the lower function is used.
fn by_lower_series(cx: &mut Cx<'_, '_>, a: Value, x: Value, lower: bool) -> Result<Value> {
    if lower {
        let (over_1, over_a) = (
            compare_to(cx, x, Direction::Gt, 1)?,
            compare(cx, x, a, Direction::Gt)?,
        );
        let upper = cx.f.and(over_1, over_a)?;
        return Ok(cx.f.not(upper)?);
    }
    let far = compare_to(cx, x, Direction::Gt, 1.1)?;
    let close = compare_to(cx, x, Direction::Le, 0.5)?;
    let below_a = compare(cx, x, a, Direction::Lt)?;
    let log = cx.f.log(x)?;
    let bound = cx.full_like(x, -0.4)?;
    let bound = cx.f.divide(bound, log)?;
    let by_log = compare(cx, bound, a, Direction::Lt)?;
    let more = scale(cx, x, 1.1)?;
    let well_below = compare(cx, more, a, Direction::Lt)?;
    let inner = cx.f.select(close, by_log, well_below)?;
    Ok(cx.f.select(far, below_a, inner)?)
}

/// `P(a, x)`, or `Q(a, x)`.
fn regularized(cx: &mut Cx<'_, '_>, lower: bool) -> Lowered {
    if float_type(cx, &["self", "other"])?.is_complex() {
        return Err(Error::unsupported("the gamma functions of complex numbers"));
    }
    let [a, x] = operands(cx, ["self", "other"], ElementType::F64)?;
    let uniform = near_and_large(cx, a, x)?;
    let apart = cx.f.not(uniform)?;
    let (a_positive, x_positive) = (
        compare_to(cx, a, Direction::Gt, 0)?,
        compare_to(cx, x, Direction::Gt, 0)?,
    );
    let (a_finite, x_finite) = (cx.f.is_finite(a)?, cx.f.is_finite(x)?);
    let usual = all(cx, &[a_positive, x_positive, a_finite, x_finite])?;
    let series = by_lower_series(cx, a, x, lower)?;
    let wanted = all(cx, &[usual, apart, series])?;
    let p = lower_series(cx, a, x, wanted)?;
    let other = cx.f.not(series)?;
    let far = compare_to(cx, x, Direction::Gt, 1.1)?;
    let wanted = all(cx, &[usual, apart, other, far])?;
    let fraction = upper_fraction(cx, a, x, wanted)?;
    let small = upper_series(cx, a, x)?;
    let q = cx.f.select(far, fraction, small)?;
    let one = cx.full_like(a, 1)?;
    let v = if lower {
        let rest = cx.f.subtract(one, q)?;
        cx.f.select(series, p, rest)?
    } else {
        let rest = cx.f.subtract(one, p)?;
        cx.f.select(series, rest, q)?
    };
    let expansion = temme(cx, a, x, lower)?;
    let v = cx.f.select(uniform, expansion, v)?;
    let v = limits(cx, a, x, v, lower)?;
    Ok(v.into())
}

/// Values at zero and infinity, and none for negative arguments.
fn limits(cx: &mut Cx<'_, '_>, a: Value, x: Value, v: Value, lower: bool) -> Result<Value> {
    let (none, whole) = if lower { (0, 1) } else { (1, 0) };
    let infinite = |cx: &mut Cx<'_, '_>, v: Value| compare_to(cx, v, Direction::Eq, f64::INFINITY);
    let zero = |cx: &mut Cx<'_, '_>, v: Value| compare_to(cx, v, Direction::Eq, 0);
    let (a_infinite, x_infinite) = (infinite(cx, a)?, infinite(cx, x)?);
    let (a_zero, x_zero) = (zero(cx, a)?, zero(cx, x)?);
    // The last one that applies counts. As for torch, NaN does not where the other argument decides.
    let (a_nan, x_nan) = (super::common::is_nan(cx, a)?, super::common::is_nan(cx, x)?);
    let nan = cx.f.or(a_nan, x_nan)?;
    let v = replace(cx, nan, f64::NAN, v)?;
    let v = replace(cx, x_infinite, whole, v)?;
    let v = replace(cx, a_infinite, none, v)?;
    let both = cx.f.and(a_infinite, x_infinite)?;
    let v = replace(cx, both, f64::NAN, v)?;
    let v = replace(cx, x_zero, none, v)?;
    let v = replace(cx, a_zero, whole, v)?;
    let positive = compare_to(cx, x, Direction::Gt, 0)?;
    let other = cx.f.not(positive)?;
    let neither = cx.f.and(a_zero, other)?;
    let v = replace(cx, neither, f64::NAN, v)?;
    let (a_negative, x_negative) = (
        compare_to(cx, a, Direction::Lt, 0)?,
        compare_to(cx, x, Direction::Lt, 0)?,
    );
    let negative = cx.f.or(a_negative, x_negative)?;
    replace(cx, negative, f64::NAN, v)
}

pub(crate) const OPS: &[OpDef] = &[
    OpDef::new("igamma", |cx| regularized(cx, true)),
    OpDef::new("igammac", |cx| regularized(cx, false)),
];
