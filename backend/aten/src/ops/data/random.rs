//! uniform, normal, random, bernoulli, and what is a function of a uniform number: exponential, geometric, log_normal, cauchy.
//!
//! Uniform numbers are whole multiples of a power of two, so that they are the same bits on every target.

use dtype::ElementType;
use stablehlo::Value;
use stablehlo::ops::Direction;

use super::util::{all_true, compare_to, zero};
use crate::{Cx, ErrorKind, Lowered, OpDef, Result, compute_type};

/// Uniform numbers from [0, 1) with as many bits as this type's mantissa holds, in the type it is computed in.
pub(crate) fn uniform01(cx: &mut Cx<'_, '_>, dims: &[i64], element: ElementType) -> Result<Value> {
    let digits = match element {
        ElementType::F64 | ElementType::C128 => 53,
        ElementType::F16 => 11,
        ElementType::BF16 => 8,
        _ => 24,
    };
    fraction(cx, dims, digits, 0.0)
}

/// Uniform numbers from (0, 1), neither end.
pub(crate) fn open01(cx: &mut Cx<'_, '_>, dims: &[i64], element: ElementType) -> Result<Value> {
    let digits = if compute_type(element.real()) == ElementType::F64 {
        52
    } else {
        23
    };
    fraction(cx, dims, digits, 0.5)
}

/// `(bits + add) / 2^digits`.
fn fraction(cx: &mut Cx<'_, '_>, dims: &[i64], digits: u32, add: f64) -> Result<Value> {
    let (bits, ty) = if digits > 24 {
        (ElementType::U64, ElementType::F64)
    } else {
        (ElementType::U32, ElementType::F32)
    };
    let raw = cx.random_bits(dims, bits)?;
    let drop = cx.full_like(raw, i64::from(bits.bits() - digits))?;
    let kept = cx.f.shift_right_logical(raw, drop)?;
    let mut n = cx.f.convert(kept, ty)?;
    if add != 0.0 {
        let add = cx.full_like(n, add)?;
        n = cx.f.add(n, add)?;
    }
    let unit = cx.full_like(n, 0.5f64.powi(digits as i32))?;
    Ok(cx.f.multiply(n, unit)?)
}

/// Standard normal numbers in a float type.
pub(crate) fn normal01(cx: &mut Cx<'_, '_>, dims: &[i64], element: ElementType) -> Result<Value> {
    let u = open01(cx, dims, element)?;
    let two = cx.full_like(u, 2)?;
    let one = cx.full_like(u, 1)?;
    let doubled = cx.f.multiply(u, two)?;
    let centred = cx.f.subtract(doubled, one)?;
    let inverse = cx.f.chlo_erf_inv(centred)?;
    let root = cx.full_like(inverse, std::f64::consts::SQRT_2)?;
    Ok(cx.f.multiply(inverse, root)?)
}

/// A tensor or number, in this type and these sizes.
fn parameter(cx: &mut Cx<'_, '_>, name: &str, element: ElementType, dims: &[i64]) -> Result<Value> {
    let v = cx.operand(name, element)?;
    cx.broadcast_to(v, dims)
}

fn uniform(cx: &mut Cx<'_, '_>) -> Lowered {
    let out = cx.out(0)?;
    let u = uniform01(cx, &out.dims, out.element)?;
    let ty = cx.element(u)?;
    let (from, to) = (cx.operand("from", ty)?, cx.operand("to", ty)?);
    let ok = cx.f.compare(from, to, Direction::Le)?;
    let shown = zero(cx, ElementType::S64)?;
    cx.check(
        ok,
        shown,
        ErrorKind::Runtime,
        "uniform_ expects to return a [from, to) range, but found from > to",
    );
    let span = cx.f.subtract(to, from)?;
    let (span, from) = (
        cx.broadcast_to(span, &out.dims)?,
        cx.broadcast_to(from, &out.dims)?,
    );
    let scaled = cx.f.multiply(u, span)?;
    Ok(cx.f.add(scaled, from)?.into())
}

fn normal(cx: &mut Cx<'_, '_>) -> Lowered {
    let out = cx.out(0)?;
    let part = out.element.real();
    let ty = compute_type(part);
    if matches!(cx.call.arg("std"), Some(crate::Arg::Tensor(_))) {
        let std = cx.operand("std", ty)?;
        let least = zero(cx, ty)?;
        let dims = cx.dims(std)?;
        let least = cx.broadcast_to(least, &dims)?;
        let fine = cx.f.compare(std, least, Direction::Ge)?;
        let ok = all_true(cx, fine)?;
        let shown = zero(cx, ElementType::S64)?;
        cx.check(
            ok,
            shown,
            ErrorKind::Runtime,
            "normal expects all elements of std >= 0.0",
        );
    }
    let mut std = parameter(cx, "std", ty, &out.dims)?;
    let mean = parameter(cx, "mean", ty, &out.dims)?;
    if !out.element.is_complex() {
        let z = normal01(cx, &out.dims, part)?;
        let z = cx.f.multiply(z, std)?;
        return Ok(cx.f.add(z, mean)?.into());
    }
    // Half the variance for each part.
    let half = cx.full_like(std, std::f64::consts::FRAC_1_SQRT_2)?;
    std = cx.f.multiply(std, half)?;
    let re = normal01(cx, &out.dims, part)?;
    let im = normal01(cx, &out.dims, part)?;
    let (re, im) = (cx.f.multiply(re, std)?, cx.f.multiply(im, std)?);
    let re = cx.f.add(re, mean)?;
    Ok(cx.f.complex(re, im)?.into())
}

/// One more than the largest number that `random_()` gives for a type.
fn natural_range(element: ElementType) -> u128 {
    match element {
        ElementType::Pred => 2,
        ElementType::F64 => (1 << 53) + 1,
        ElementType::F16 => (1 << 11) + 1,
        ElementType::BF16 => (1 << 8) + 1,
        e if e.is_float() => (1 << 24) + 1,
        e => top(e) as u128 + 1,
    }
}

/// The largest integer of a type that is drawn from.
fn top(element: ElementType) -> i128 {
    match element {
        ElementType::Pred => 1,
        e if e.class() == dtype::Class::Unsigned => (1i128 << e.bits()) - 1,
        e if e.is_integer() => (1i128 << (e.bits() - 1)) - 1,
        ElementType::F64 => 1 << 53,
        ElementType::F16 => 1 << 11,
        ElementType::BF16 => 1 << 8,
        _ => 1 << 24,
    }
}

fn random(cx: &mut Cx<'_, '_>) -> Lowered {
    // Below this a remainder of 32 bits is fair enough, as in torch.
    const WIDE: u128 = 1 << 28;
    let out = cx.out(0)?;
    let to = cx.opt_int("to")?;
    let from = cx.opt_int("from")?;
    let (base, range) = match (from, to) {
        (None, None) => (0, natural_range(out.element)),
        (from, Some(to)) => {
            let from = from.unwrap_or(0);
            (from, (i128::from(to) - i128::from(from)).max(0) as u128)
        }
        (Some(from), None) => (from, (top(out.element) - i128::from(from) + 1).max(0) as u128),
    };
    if range == 0 {
        let text = format!(
            "random_ expects 'from' to be less than 'to', but got from={base} >= to={}",
            to.unwrap_or(base)
        );
        return Err(crate::Error::user(ErrorKind::Runtime, text));
    }
    let bits = if range < WIDE {
        ElementType::U32
    } else {
        ElementType::U64
    };
    let raw = cx.random_bits(&out.dims, bits)?;
    let below = if range >= 1 << 64 {
        raw
    } else {
        let range = cx.full_like(raw, stablehlo::Number::Int(range as i128))?;
        cx.f.remainder(raw, range)?
    };
    let signed = super::util::index_type(base.saturating_abs().saturating_add(range.min(1 << 62) as i64));
    let n = if cx.element(below)? == ElementType::U64 {
        cx.f.bitcast_convert(below, ElementType::S64)?
    } else {
        cx.f.convert(below, signed)?
    };
    Ok(super::util::plus(cx, n, base)?.into())
}

fn bernoulli(cx: &mut Cx<'_, '_>) -> Lowered {
    let out = cx.out(0)?;
    let name = if cx.has("p") { "p" } else { "self" };
    let wide = match cx.call.arg(name) {
        Some(crate::Arg::Tensor(_)) => cx.meta(name)?.element,
        _ => ElementType::F32,
    };
    let ty = if wide == ElementType::F64 {
        ElementType::F64
    } else {
        ElementType::F32
    };
    let p = cx.operand(name, ty)?;
    let (none, all) = (cx.full_like(p, 0)?, cx.full_like(p, 1)?);
    let above = cx.f.compare(p, none, Direction::Ge)?;
    let below = cx.f.compare(p, all, Direction::Le)?;
    let fine = cx.f.and(above, below)?;
    let ok = all_true(cx, fine)?;
    let shown = zero(cx, ElementType::S64)?;
    let text = if name == "p" {
        "bernoulli_ expects p to be in [0, 1]"
    } else {
        "Expected p_in >= 0 && p_in <= 1 to be true, but got false."
    };
    cx.check(ok, shown, ErrorKind::Runtime, text);
    let p = cx.broadcast_to(p, &out.dims)?;
    let u = uniform01(cx, &out.dims, ty)?;
    Ok(cx.f.compare(u, p, Direction::Lt)?.into())
}

fn exponential(cx: &mut Cx<'_, '_>) -> Lowered {
    let out = cx.out(0)?;
    let drawn = exponential01(cx, &out.dims, out.element)?;
    let ty = cx.element(drawn)?;
    let rate = parameter(cx, "lambd", ty, &out.dims)?;
    Ok(cx.f.divide(drawn, rate)?.into())
}

/// Exponential numbers of rate 1, never 0.
pub(crate) fn exponential01(cx: &mut Cx<'_, '_>, dims: &[i64], element: ElementType) -> Result<Value> {
    let u = open01(cx, dims, element)?;
    let log = cx.f.log(u)?;
    Ok(cx.f.negate(log)?)
}

fn geometric(cx: &mut Cx<'_, '_>) -> Lowered {
    let out = cx.out(0)?;
    let element = if out.element.is_float() {
        out.element
    } else {
        ElementType::F32
    };
    let u = open01(cx, &out.dims, element)?;
    let ty = cx.element(u)?;
    let p = parameter(cx, "p", ty, &out.dims)?;
    let minus = cx.f.negate(p)?;
    let fail = cx.f.log_plus_one(minus)?;
    let log = cx.f.log(u)?;
    let trials = cx.f.divide(log, fail)?;
    Ok(cx.f.ceil(trials)?.into())
}

fn log_normal(cx: &mut Cx<'_, '_>) -> Lowered {
    let out = cx.out(0)?;
    let z = normal01(cx, &out.dims, out.element)?;
    let ty = cx.element(z)?;
    let std = parameter(cx, "std", ty, &out.dims)?;
    let mean = parameter(cx, "mean", ty, &out.dims)?;
    let z = cx.f.multiply(z, std)?;
    let z = cx.f.add(z, mean)?;
    Ok(cx.f.exponential(z)?.into())
}

fn cauchy(cx: &mut Cx<'_, '_>) -> Lowered {
    let out = cx.out(0)?;
    let u = open01(cx, &out.dims, out.element)?;
    let ty = cx.element(u)?;
    let half = cx.full_like(u, 0.5)?;
    let centred = cx.f.subtract(u, half)?;
    let pi = cx.full_like(u, std::f64::consts::PI)?;
    let angle = cx.f.multiply(centred, pi)?;
    let tangent = cx.f.chlo_tan(angle)?;
    let sigma = parameter(cx, "sigma", ty, &out.dims)?;
    let median = parameter(cx, "median", ty, &out.dims)?;
    let scaled = cx.f.multiply(tangent, sigma)?;
    Ok(cx.f.add(scaled, median)?.into())
}

fn randperm(cx: &mut Cx<'_, '_>) -> Lowered {
    let out = cx.out(0)?;
    let n = out.dims[0];
    let at = cx.f.iota(&[n], super::util::index_type(n), 0)?;
    if n < 2 {
        return Ok(at.into());
    }
    // Equal keys would keep their order; with 64 bits there are none to speak of.
    let keys = cx.random_bits(&[n], ElementType::U64)?;
    let sorted = cx.f.sort(&[keys, at], 0, true, |f, e| {
        Ok(vec![f.compare(e[0], e[1], Direction::Lt)?])
    })?;
    Ok(sorted[1].into())
}

fn rand(cx: &mut Cx<'_, '_>) -> Lowered {
    let out = cx.out(0)?;
    Ok(uniform01(cx, &out.dims, out.element)?.into())
}

fn multinomial(cx: &mut Cx<'_, '_>) -> Lowered {
    let out = cx.out(0)?;
    let weights = cx.tensor("self")?;
    let weights = cx.up(weights)?;
    let (dims, element) = (cx.dims(weights)?, cx.element(weights)?);
    let last = dims.len() - 1;
    let (classes, samples) = (dims[last], cx.int("num_samples")?);
    check_weights(cx, weights, last as i64)?;
    if !cx.bool("replacement")? || samples == 1 {
        // The largest of weight / exponential is a draw, the next largest the next.
        let waits = exponential01(cx, &dims, element)?;
        let scores = cx.f.divide(weights, waits)?;
        let at =
            cx.f.iota(dims.as_slice(), super::util::index_type(classes), last as i64)?;
        let sorted = cx.f.sort(&[scores, at], last as i64, true, |f, e| {
            Ok(vec![f.compare(e[0], e[1], Direction::Gt)?])
        })?;
        return Ok(super::util::slice_dim(cx, sorted[1], last, 0, samples, 1)?.into());
    }
    // How many cumulative weights a uniform share of the total reaches.
    let start = zero(cx, element)?;
    let mut window = vec![1; dims.len()];
    window[last] = classes;
    let mut window = stablehlo::ops::Window::new(&window);
    window.padding[last] = [classes - 1, 0];
    let upto =
        cx.f.reduce_window(&[weights], &[start], &window, |f, e| Ok(vec![f.add(e[0], e[1])?]))?[0];
    let total = super::util::slice_dim(cx, upto, last, classes - 1, classes, 1)?;
    let u = uniform01(cx, &out.dims, element)?;
    let total = cx.broadcast_to(total, &out.dims)?;
    let share = cx.f.multiply(u, total)?;
    let mut wide = out.dims.to_vec();
    wide.push(classes);
    let rows: Vec<i64> = (0..last as i64).collect();
    let (mut by_class, mut by_sample) = (rows.clone(), rows);
    by_class.push(last as i64 + 1);
    by_sample.push(last as i64);
    let upto = cx.f.broadcast_in_dim(upto, wide.as_slice(), &by_class)?;
    let share = cx.f.broadcast_in_dim(share, wide.as_slice(), &by_sample)?;
    let reached = cx.f.compare(upto, share, Direction::Le)?;
    let ones = cx.f.convert(reached, ElementType::S32)?;
    let none = zero(cx, ElementType::S32)?;
    let class = super::util::reduce(cx, ones, none, &[last as i64 + 1], super::util::Combine::Add)?;
    let most = cx.full_like(class, classes - 1)?;
    Ok(cx.f.minimum(class, most)?.into())
}

/// Refuses weights that are no distribution, in torch's words.
fn check_weights(cx: &mut Cx<'_, '_>, weights: Value, last: i64) -> Result<()> {
    let shown = zero(cx, ElementType::S64)?;
    let finite = cx.f.is_finite(weights)?;
    let signs = compare_to(cx, weights, 0, Direction::Ge)?;
    let fine = cx.f.and(finite, signs)?;
    let ok = all_true(cx, fine)?;
    cx.check(
        ok,
        shown,
        ErrorKind::Runtime,
        "probability tensor contains either `inf`, `nan` or element < 0",
    );
    let element = cx.element(weights)?;
    let start = zero(cx, element)?;
    let sums = super::util::reduce(cx, weights, start, &[last], super::util::Combine::Add)?;
    let none = compare_to(cx, sums, 0, Direction::Le)?;
    let some = cx.f.not(none)?;
    let ok = all_true(cx, some)?;
    cx.check(
        ok,
        shown,
        ErrorKind::Runtime,
        "invalid multinomial distribution (sum of probabilities <= 0)",
    );
    Ok(())
}

pub(crate) const OPS: &[OpDef] = &[
    OpDef::new("uniform", uniform).random(),
    OpDef::new("normal", normal).random(),
    OpDef::new("normal_functional", normal).random(),
    OpDef::new("random", random).random(),
    OpDef::new("bernoulli", bernoulli).random(),
    OpDef::new("exponential", exponential).random(),
    OpDef::new("geometric", geometric).random(),
    OpDef::new("log_normal", log_normal).random(),
    OpDef::new("cauchy", cauchy).random(),
    OpDef::new("rand", rand).random(),
    OpDef::new("randperm", randperm).random(),
    OpDef::new("multinomial", multinomial).random(),
];
