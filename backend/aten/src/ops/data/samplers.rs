//! _standard_gamma, _sample_dirichlet, poisson, binomial: samplers that reject, all elements at once, those done masked.
//!
//! Marsaglia and Tsang (2000) for gamma numbers; Hörmann's transformed rejection, PTRS and BTRS (1993), for large Poisson and
//! binomial means, products of uniform numbers and gaps between successes for small ones: torch's choice. A candidate is
//! judged by differences from the mean (Loader 2000), so that single precision does at large means too.

use dtype::ElementType;
use stablehlo::Value;

use super::random::{normal01, open01};
use super::util::{Combine, all_true, at_least_1d, reduce, zero};
use crate::cx::broadcast_dims;
use crate::ops::formula::{Formula, Term};
use crate::{
    Arg, Call, Cx, Dims, Error, ErrorKind, Lowered, OpDef, OutMeta, Result, TensorMeta, compute_type,
};

/// The mean from which on candidates are rejected.
const LARGE: f64 = 10.0;

/// The least number of a type that is not subnormal, and the largest below 1.
fn ends(element: ElementType) -> (f64, f64) {
    let (least, digits) = match element {
        ElementType::F64 => (f64::MIN_POSITIVE, 53),
        ElementType::F16 => (1.0 / 16_384.0, 11),
        ElementType::BF16 => (f64::from(f32::MIN_POSITIVE), 8),
        _ => (f64::from(f32::MIN_POSITIVE), 24),
    };
    (least, 1.0 - 0.5f64.powi(digits))
}

/// Gamma numbers as two factors, of which the second one's logarithm is given: it is below the least float for small
/// parameters. NaN where the parameter is negative or NaN.
fn gamma_factors(cx: &mut Cx<'_, '_>, alpha: Value) -> Result<(Value, Value)> {
    let (dims, element) = (cx.dims(alpha)?, cx.element(alpha)?);
    let u = open01(cx, &dims, element)?;
    let f = Formula::new(cx);
    let alpha = f.of(alpha);
    let small = alpha.lt(1.0);
    let d = small.pick(alpha + 1.0, alpha) - 1.0 / 3.0;
    let c = 1.0 / (9.0 * d).sqrt();
    let log_boost = small.pick(f.of(u).log() / alpha, alpha.number(0.0));
    let (pending, none) = (alpha.ge(0.0), alpha.number(f64::NAN));
    f.finish()?;
    let (d, c, log_boost, pending, none) = (d.v, c.v, log_boost.v, pending.v, none.v);
    drop(f);
    let done = cx.random_while(pending, &[none], |cx, state| {
        let x = normal01(cx, &dims, element)?;
        let u = open01(cx, &dims, element)?;
        let f = Formula::new(cx);
        let [x, u, d, c, pending, value] = [x, u, d, c, state[0], state[1]].map(|v| f.of(v));
        let t = c * x;
        let side = 1.0 + t;
        let square = x * x;
        let surely = u.lt(1.0 - 0.0331 * square * square);
        // 1 - v + log(v) for v = (1 + t)^3, without the ones that cancel.
        let rest = 3.0 * (t.log1p() - t) - t * t * (3.0 + t);
        let fine = u.log().lt(0.5 * square + d * rest);
        let taken = side.gt(0.0).and(surely.or(fine)).and(pending);
        let value = taken.pick(d * side * side * side, value);
        let pending = pending.and(taken.not());
        f.finish()?;
        Ok(vec![pending.v, value.v])
    })?;
    Ok((done[1], log_boost))
}

fn standard_gamma(cx: &mut Cx<'_, '_>) -> Lowered {
    let out = cx.out(0)?;
    let alpha = cx.operand("self", compute_type(out.element))?;
    let (value, log_boost) = gamma_factors(cx, alpha)?;
    let f = Formula::new(cx);
    let drawn = f.of(value) * f.of(log_boost).exp();
    let (least, _) = ends(out.element);
    let drawn = drawn.lt(least).pick(drawn.number(least), drawn);
    f.finish()?;
    Ok(drawn.v.into())
}

fn sample_dirichlet(cx: &mut Cx<'_, '_>) -> Lowered {
    let out = cx.out(0)?;
    let alpha = cx.operand("self", compute_type(out.element))?;
    let alpha = at_least_1d(cx, alpha)?;
    let (value, log_boost) = gamma_factors(cx, alpha)?;
    // Shares of the largest: small parameters give numbers whose logarithms alone are floats.
    let f = Formula::new(cx);
    let log = f.of(value).log() + f.of(log_boost);
    f.finish()?;
    let log = log.v;
    drop(f);
    let (dims, element) = (cx.dims(log)?, cx.element(log)?);
    let last = dims.len() as i64 - 1;
    let rows: Vec<i64> = (0..last).collect();
    let bottom = cx.full(&[], element, f64::NEG_INFINITY)?;
    let most = reduce(cx, log, bottom, &[last], Combine::Max)?;
    let most = cx.f.broadcast_in_dim(most, dims.as_slice(), &rows)?;
    let share = cx.f.subtract(log, most)?;
    let share = cx.f.exponential(share)?;
    let none = zero(cx, element)?;
    let total = reduce(cx, share, none, &[last], Combine::Add)?;
    let total = cx.f.broadcast_in_dim(total, dims.as_slice(), &rows)?;
    let f = Formula::new(cx);
    let share = f.of(share) / f.of(total);
    let (least, largest) = ends(out.element);
    let share = share.lt(least).pick(share.number(least), share);
    let share = share.gt(largest).pick(share.number(largest), share);
    f.finish()?;
    let share = share.v;
    drop(f);
    Ok(cx.reshape(share, &out.dims)?.into())
}

/// `log(k!) - (k log(k) - k)` for whole numbers.
fn stirling_rest(k: Term<'_>) -> Term<'_> {
    let by = 1.0 / k;
    let square = by * by;
    let series = by * square.polynomial(&[1.0 / 12.0, -1.0 / 360.0, 1.0 / 1260.0]);
    let mut rest = 0.5 * (std::f64::consts::TAU * k).log() + series;
    let mut factorial = 1.0;
    for small in 0..10 {
        let n = f64::from(small);
        if small > 0 {
            factorial *= n;
        }
        let exact = if small == 0 {
            0.0
        } else {
            f64::ln(factorial) - (n * n.ln() - n)
        };
        rest = k.floor().eq(n).pick(rest.number(exact), rest);
    }
    rest
}

/// `k log(k / mean) + mean - k`, for `off = k - mean`.
fn deviance<'s>(off: Term<'s>, mean: Term<'s>) -> Term<'s> {
    let t = off / mean;
    // (1 + t) log(1 + t) - t, near zero by its series.
    let mut series = [0.0; 14];
    for (j, c) in series.iter_mut().enumerate() {
        let n = j as f64;
        *c = if j % 2 == 0 { 1.0 } else { -1.0 } / ((n + 1.0) * (n + 2.0));
    }
    let near = t * t * t.polynomial(&series);
    let far = (1.0 + t) * t.log1p() - t;
    let curve = t.abs().lt(0.1).pick(near, far);
    mean * t.le(-1.0).pick(t.number(1.0), curve)
}

/// What is pending and drawn after a round: a large mean's candidate where it is taken, else one more while there is more.
fn after_round<'s>(
    (pending, value): (Term<'s>, Term<'s>),
    large: Term<'s>,
    (candidate, taken): (Term<'s>, Term<'s>),
    more: Term<'s>,
) -> (Term<'s>, Term<'s>) {
    let counted = more.pick(value + 1.0, value);
    let drawn = large.pick(taken.pick(candidate, value), counted);
    let go_on = large.pick(taken.not(), more);
    (pending.and(go_on), pending.pick(drawn, value))
}

fn poisson(cx: &mut Cx<'_, '_>) -> Lowered {
    let out = cx.out(0)?;
    let element = compute_type(out.element);
    let rate = cx.operand("self", element)?;
    let f = Formula::new(cx);
    let lambda = f.of(rate);
    let sane = lambda.ge(0.0);
    let pending = lambda.gt(0.0).and(lambda.finite());
    let start = lambda.finite().pick(lambda.number(0.0), lambda);
    let one = lambda.number(1.0);
    f.finish()?;
    let (sane, pending, start, one) = (sane.v, pending.v, start.v, one.v);
    drop(f);
    let ok = all_true(cx, sane)?;
    let shown = zero(cx, ElementType::S64)?;
    let text = "invalid Poisson rate, expected rate to be non-negative";
    cx.check(ok, shown, ErrorKind::Runtime, text);
    let dims = out.dims.clone();
    let done = cx.random_while(pending, &[start, one], |cx, state| {
        let u = open01(cx, &dims, element)?;
        let v = open01(cx, &dims, element)?;
        let f = Formula::new(cx);
        let [u, v, lambda, pending, value, product] =
            [u, v, rate, state[0], state[1], state[2]].map(|v| f.of(v));
        let large = lambda.ge(LARGE);

        let product = product * u;
        let more = product.gt((-lambda).exp());

        let root = lambda.sqrt();
        let b = 0.931 + 2.53 * root;
        let a = -0.059 + 0.02483 * b;
        let scale = 1.1239 + 1.1328 / (b - 3.4);
        let v_r = 0.9277 - 3.6224 / (b - 2.0);
        let u = u - 0.5;
        let edge = 0.5 - u.abs();
        let k = ((2.0 * a / edge + b) * u + lambda + 0.43).floor();
        let surely = edge.ge(0.07).and(v.le(v_r));
        let sane = k.ge(0.0).and(edge.lt(0.013).and(v.gt(edge)).not());
        let height = (v * scale / (a / (edge * edge) + b)).log();
        let log_mass = -(stirling_rest(k) + deviance(k - lambda, lambda));
        let taken = surely.or(sane.and(height.le(log_mass)));

        let (pending, value) = after_round((pending, value), large, (k, taken), more);
        f.finish()?;
        Ok(vec![pending.v, value.v, product.v])
    })?;
    let f = Formula::new(cx);
    let value = f.of(done[1]);
    let value = f.of(done[0]).pick(value.number(f64::NAN), value);
    f.finish()?;
    Ok(value.v.into())
}

fn binomial(cx: &mut Cx<'_, '_>) -> Lowered {
    let out = cx.out(0)?;
    let (dims, element) = (out.dims.clone(), compute_type(out.element));
    let [count, p] = ["count", "prob"].map(|name| {
        let v = cx.operand(name, element)?;
        cx.broadcast_to(v, &dims)
    });
    let (count, p) = (count?, p?);
    let f = Formula::new(cx);
    let (n, prob) = (f.of(count), f.of(p));
    let (none, nan) = (n.number(0.0), n.number(f64::NAN));
    let empty = n.le(0.0).or(prob.le(0.0));
    let full = prob.ge(1.0);
    let pending = n.gt(0.0).and(n.finite()).and(prob.gt(0.0)).and(prob.lt(1.0));
    // What it is without a draw.
    let settled = empty.pick(none, full.pick(n, nan));
    // The rarer of the two outcomes is counted.
    let flipped = prob.gt(0.5);
    let q = flipped.pick(1.0 - prob, prob);
    f.finish()?;
    let (pending, settled, flipped, q, none) = (pending.v, settled.v, flipped.v, q.v, none.v);
    drop(f);
    let done = cx.random_while(pending, &[none, none], |cx, state| {
        let u = open01(cx, &dims, element)?;
        let v = open01(cx, &dims, element)?;
        let f = Formula::new(cx);
        let [u, v, n, q, pending, value, trials] =
            [u, v, count, q, state[0], state[1], state[2]].map(|v| f.of(v));
        let mean = n * q;
        let large = mean.ge(LARGE);

        let trials = trials + (u.log() / (-q).log1p()).ceil();
        let more = trials.le(n);

        let deviation = (mean * (1.0 - q)).sqrt();
        let b = 1.15 + 2.53 * deviation;
        let a = -0.0873 + 0.0248 * b + 0.01 * q;
        let v_r = 0.92 - 4.2 / b;
        let alpha = (2.83 + 5.1 / b) * deviation;
        let mode = ((n + 1.0) * q).floor();
        let u = u - 0.5;
        let edge = 0.5 - u.abs();
        let k = ((2.0 * a / edge + b) * u + mean + 0.5).floor();
        let sane = k.ge(0.0).and(k.le(n));
        let surely = edge.ge(0.07).and(v.le(v_r));
        let height = (v * alpha / (a / (edge * edge) + b)).log();
        let other = n * (1.0 - q);
        let log_mass = |k| {
            let off = k - mean;
            -(stirling_rest(k) + stirling_rest(n - k) + deviance(off, mean) + deviance(-off, other))
        };
        let taken = sane.and(surely.or(height.le(log_mass(k) - log_mass(mode))));

        let (pending, value) = after_round((pending, value), large, (k, taken), more);
        f.finish()?;
        Ok(vec![pending.v, value.v, trials.v])
    })?;
    let f = Formula::new(cx);
    let (n, value) = (f.of(count), f.of(done[1]));
    let value = f.of(flipped).pick(n - value, value);
    let value = f.of(done[0]).pick(value.number(f64::NAN), value);
    let value = f.of(pending).pick(value, f.of(settled));
    f.finish()?;
    Ok(value.v.into())
}

/// The tensor arguments' common sizes and their one type, which must be a float: torch has no Meta kernel for most of these
/// ops, and makes results contiguous.
pub(super) fn like_arguments<const N: usize>(call: &Call, names: [&str; N]) -> Result<Vec<Option<OutMeta>>> {
    let mut all: Vec<&TensorMeta> = Vec::with_capacity(N);
    for name in names {
        match call.arg(name) {
            Some(Arg::Tensor(i)) => all.push(&call.tensors[*i as usize]),
            other => {
                return Err(Error::Internal(format!(
                    "{} wants `{name}`, got {other:?}",
                    call.name
                )));
            }
        }
    }
    let refused = |why: &str| Error::Refused(format!("{}: {why}", call.name));
    let element = all[0].element;
    if !element.is_float() || element.bits() < 16 {
        return Err(refused("not implemented for this dtype"));
    }
    if all.iter().any(|t| t.element != element) {
        return Err(refused("the arguments' dtypes differ"));
    }
    let sizes: Vec<&[i64]> = all.iter().map(|t| t.dims.as_slice()).collect();
    let dims: Dims = broadcast_dims(&sizes).map_err(|_| refused("the arguments' sizes do not match"))?;
    Ok(vec![Some(OutMeta { dims, element })])
}

pub(crate) const OPS: &[OpDef] = &[
    OpDef::new("_standard_gamma", standard_gamma)
        .random()
        .shape(|call| like_arguments(call, ["self"])),
    OpDef::new("_sample_dirichlet", sample_dirichlet)
        .random()
        .shape(|call| like_arguments(call, ["self"])),
    OpDef::new("poisson", poisson)
        .random()
        .shape(|call| like_arguments(call, ["self"])),
    OpDef::new("binomial", binomial)
        .random()
        .shape(|call| like_arguments(call, ["count", "prob"])),
];
