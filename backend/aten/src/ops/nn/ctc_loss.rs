//! Connectionist temporal classification: `_ctc_loss` and its gradient, both as loops over time on the device.

use stablehlo::ops::{Direction, GatherDimensions};
use stablehlo::{FunctionBuilder, Value};

use super::ex::{ex, select};
use super::util::{along, like, max_keep, sum_keep, up};
use crate::{Cx, ElementType, Error, Lowered, OpDef, Result};

/// What forward and backward share. Labels are the targets with blanks around each: (N, S), S = 2 * longest + 1.
struct Alignment {
    /// Time, batch, classes, labels.
    sizes: [i64; 4],
    /// Which class each label is.
    labels: Value,
    /// The probabilities of the labels: (T, N, S).
    at_labels: Value,
    /// One where a label may follow the one two before it, minus infinity elsewhere, added to logarithms: (N, S).
    skip: Value,
    input_lengths: Vec<i64>,
    target_lengths: Vec<i64>,
}

fn read(cx: &mut Cx<'_, '_>) -> Result<Alignment> {
    let (p, targets) = (up(cx, "log_probs")?, cx.tensor("targets")?);
    let (dims, element) = (cx.dims(p)?, cx.element(p)?);
    let [t, n, c] = [dims[0], dims[1], dims[2]];
    let (input_lengths, target_lengths) = (cx.ints("input_lengths")?, cx.ints("target_lengths")?);
    if input_lengths.len() as i64 != n || target_lengths.len() as i64 != n {
        return Err(Error::unsupported("lengths that are tensors"));
    }
    let longest = target_lengths.iter().copied().max().unwrap_or(0);
    let s = 2 * longest + 1;
    let blank = cx.int("blank")?;
    // Where in the flat targets each label is; -1 for a blank.
    let flat: i64 = cx.dims(targets)?.iter().product();
    let padded = cx.rank(targets)? == 2;
    let width = if padded { cx.dims(targets)?[1] } else { 0 };
    let mut places = Vec::new();
    let mut start = 0;
    for (i, &length) in target_lengths.iter().enumerate() {
        let base = if padded { i as i64 * width } else { start };
        places.extend((0..s).map(|k| {
            if k % 2 == 1 && k / 2 < length {
                base + k / 2
            } else {
                -1
            }
        }));
        start += length;
    }
    let blank = cx.full(&[n, s], ElementType::S64, blank)?;
    let labels = if flat == 0 {
        blank
    } else {
        let targets = cx.reshape(targets, &[flat])?;
        let targets = cx.cast(targets, ElementType::S64)?;
        let clamped: Vec<i64> = places.iter().map(|p| (*p).max(0)).collect();
        let taken = super::util::take(cx, targets, 0, &clamped, &[n, s])?;
        let is_label: Vec<bool> = places.iter().map(|p| *p >= 0).collect();
        let is_label = cx.f.constant(&[n, s], &is_label)?;
        select(is_label, taken, blank).eval(cx)?
    };
    let before = super::util::pad_dim(cx, labels, 1, 2, 0)?;
    let before = super::util::slice_dim(cx, before, 1, 0, s)?;
    let place = cx.f.iota(&[n, s], ElementType::S64, 1)?;
    let zero = cx.full(&[n, s], element, 0)?;
    let may = ex(labels)
        .ne(before)
        .and(ex(labels).ne(blank))
        .and(ex(place).ge(2.0));
    let skip = select(may, zero, f64::NEG_INFINITY).eval(cx)?;
    // (N, T, C) read at (N, S): (N, S, T), then (T, N, S).
    let by_sample = cx.f.transpose(p, &[1, 0, 2])?;
    let numbers = GatherDimensions {
        offset_dims: vec![2],
        collapsed_slice_dims: vec![2],
        operand_batching_dims: vec![0],
        start_indices_batching_dims: vec![0],
        start_index_map: vec![2],
        index_vector_dim: 2,
    };
    let at_labels = cx.f.gather(by_sample, labels, &numbers, &[1, t, 1], false)?;
    let at_labels = cx.f.transpose(at_labels, &[2, 0, 1])?;
    Ok(Alignment {
        sizes: [t, n, c, s],
        labels,
        at_labels,
        skip,
        input_lengths,
        target_lengths,
    })
}

/// `log(exp(a) + exp(b) + exp(c))`; `zero` is a zero of the same sizes.
fn log_add(f: &mut FunctionBuilder<'_>, parts: [Value; 3], zero: Value) -> stablehlo::Result<Value> {
    let [a, b, c] = parts;
    let max = f.maximum(a, b)?;
    let max = f.maximum(max, c)?;
    // Minus infinity minus itself would be NaN.
    let finite = f.is_finite(max)?;
    let base = f.select(finite, max, zero)?;
    let mut total = zero;
    for part in parts {
        let d = f.subtract(part, base)?;
        let e = f.exponential(d)?;
        total = f.add(total, e)?;
    }
    let log = f.log(total)?;
    f.add(log, base)
}

/// The value moved by `by` labels, minus infinity entering.
fn shifted(
    f: &mut FunctionBuilder<'_>,
    v: Value,
    by: i64,
    low: Value,
    s: i64,
    n: i64,
) -> stablehlo::Result<Value> {
    let (before, after) = (by.max(0), (-by).max(0));
    let padded = f.pad(v, low, &[0, before], &[0, after], &[0, 0])?;
    f.slice(padded, &[0, after], &[n, s + after], &[1, 1])
}

/// Sums over all ways to each label at each time, (T, N, S): a step adds the ways from the same label, the one before and
/// the one two before. `start` is the first step's; what is `fresh` (T, N) starts there instead of continuing.
fn ways(
    cx: &mut Cx<'_, '_>,
    a: &Alignment,
    at_labels: Value,
    skip: Value,
    start: Value,
    fresh: Value,
) -> Result<Value> {
    let [t, n, _, s] = a.sizes;
    let element = cx.element(at_labels)?;
    let low = cx.full(&[], element, f64::NEG_INFINITY)?;
    let zero = cx.full(&[n, s], element, 0)?;
    let all = cx.full(&[t, n, s], element, f64::NEG_INFINITY)?;
    let nothing = cx.full(&[n, s], element, f64::NEG_INFINITY)?;
    let step0 = cx.full(&[], ElementType::S32, 0)?;
    let end = cx.full(&[], ElementType::S32, t)?;
    let one = cx.full(&[], ElementType::S32, 1)?;
    let origin = step0;
    let r = cx.f.while_(
        &[step0, nothing, all],
        |f, v| Ok(vec![f.compare(v[0], end, Direction::Lt)?]),
        |f, v| {
            let [i, last, all] = [v[0], v[1], v[2]];
            let p = f.dynamic_slice(at_labels, &[i, origin, origin], &[1, n, s])?;
            let p = f.reshape(p, &[n, s])?;
            let one_before = shifted(f, last, 1, low, s, n)?;
            let two_before = shifted(f, last, 2, low, s, n)?;
            let two_before = f.add(two_before, skip)?;
            let came = log_add(f, [last, one_before, two_before], zero)?;
            let new = f.dynamic_slice(fresh, &[i, origin], &[1, n])?;
            let new = f.reshape(new, &[n])?;
            let new = f.broadcast_in_dim(new, &[n, s], &[0])?;
            let from = f.select(new, start, came)?;
            let next = f.add(from, p)?;
            let row = f.reshape(next, &[1, n, s])?;
            let all = f.dynamic_update_slice(all, row, &[i, origin, origin])?;
            Ok(vec![f.add(i, one)?, next, all])
        },
    )?;
    Ok(r[2])
}

/// A constant (N, S) of logarithms: zero where `open` says so, else minus infinity.
fn gate(
    cx: &mut Cx<'_, '_>,
    a: &Alignment,
    element: ElementType,
    open: impl Fn(i64, i64) -> bool,
) -> Result<Value> {
    let [_, n, _, s] = a.sizes;
    let numbers: Vec<f64> = (0..n)
        .flat_map(|i| (0..s).map(move |k| (i, k)))
        .map(|(i, k)| if open(i, k) { 0.0 } else { f64::NEG_INFINITY })
        .collect();
    let v = cx.f.constant(&[n, s], &numbers)?;
    cx.cast(v, element)
}

/// The (T, N) constant of a condition on time and sample.
fn when(cx: &mut Cx<'_, '_>, a: &Alignment, is: impl Fn(i64, i64) -> bool) -> Result<Value> {
    let [t, n, ..] = a.sizes;
    let flags: Vec<bool> = (0..t)
        .flat_map(|t| (0..n).map(move |i| (t, i)))
        .map(|(t, i)| is(t, i))
        .collect();
    Ok(cx.f.constant(&[t, n], &flags)?)
}

fn ctc_loss(cx: &mut Cx<'_, '_>) -> Lowered {
    let a = read(cx)?;
    let [t, n, _, s] = a.sizes;
    let element = cx.element(a.at_labels)?;
    let start = gate(cx, &a, element, |i, k| {
        k == 0 || (k == 1 && a.target_lengths[i as usize] > 0)
    })?;
    let fresh = when(cx, &a, |t, _| t == 0)?;
    let alpha = ways(cx, &a, a.at_labels, a.skip, start, fresh)?;
    // The two last labels at each sample's last time.
    let ends: Vec<f64> = (0..t * n * s)
        .map(|e| {
            let (step, i, k) = (e / (n * s), (e / s % n) as usize, e % s);
            let length = 2 * a.target_lengths[i];
            let last = step == a.input_lengths[i] - 1 && (k == length || k == length - 1);
            if last { 0.0 } else { f64::NEG_INFINITY }
        })
        .collect();
    let ends = cx.f.constant(&[t, n, s], &ends)?;
    let ends = cx.cast(ends, element)?;
    let at_end = (ex(alpha) + ends).eval(cx)?;
    let total = log_sum(cx, at_end, &[0, 2])?;
    let total = cx.reshape(total, &[n])?;
    // No time is enough for no labels only.
    let no_time: Vec<bool> = a.input_lengths.iter().map(|l| *l == 0).collect();
    let no_labels: Vec<f64> = a
        .target_lengths
        .iter()
        .map(|l| if *l == 0 { 0.0 } else { f64::INFINITY })
        .collect();
    let no_time = cx.f.constant(&[n], &no_time)?;
    let no_labels = cx.f.constant(&[n], &no_labels)?;
    let no_labels = cx.cast(no_labels, element)?;
    let loss = select(no_time, no_labels, -ex(total)).eval(cx)?;
    let alpha = cx.f.transpose(alpha, &[1, 0, 2])?;
    let alpha = match cx.out(1) {
        Ok(out) if out.dims != cx.dims(alpha)? => cx.full(&out.dims, element, 0)?,
        _ => alpha,
    };
    Ok((loss, alpha).into())
}

/// The logarithm of the sum of exponentials over dimensions, which stay with size 1.
fn log_sum(cx: &mut Cx<'_, '_>, v: Value, dims: &[i64]) -> Result<Value> {
    let max = max_keep(cx, v, dims)?;
    let base = select(ex(max).eq(f64::NEG_INFINITY), 0.0, max).eval(cx)?;
    let e = (ex(v) - base).exp().eval(cx)?;
    let total = sum_keep(cx, e, dims)?;
    (ex(total).ln() + base).eval(cx)
}

/// The ways from each label to the end are found like those from the start, with time and labels reversed.
fn ctc_loss_backward(cx: &mut Cx<'_, '_>) -> Lowered {
    let a = read(cx)?;
    let [t, n, c, s] = a.sizes;
    let p = up(cx, "log_probs")?;
    let element = cx.element(p)?;
    let reversed = cx.f.reverse(a.at_labels, &[0, 2])?;
    // A step back from a label two on is allowed where the step forward to it was.
    let skip = super::util::slice_dim(cx, a.skip, 1, 2.min(s), s)?;
    let low = cx.full(&[], element, f64::NEG_INFINITY)?;
    let skip = cx.f.pad(skip, low, &[0, 0], &[0, 2.min(s)], &[0, 0])?;
    let skip = cx.f.reverse(skip, &[1])?;
    let start = gate(cx, &a, element, |i, k| {
        let (k, length) = (s - 1 - k, 2 * a.target_lengths[i as usize]);
        k == length || k == length - 1
    })?;
    let fresh = when(cx, &a, |step, i| t - 1 - step == a.input_lengths[i as usize] - 1)?;
    let beta = ways(cx, &a, reversed, skip, start, fresh)?;
    let beta = cx.f.reverse(beta, &[0, 2])?;
    let alpha = up(cx, "log_alpha")?;
    let alpha = cx.f.transpose(alpha, &[1, 0, 2])?;
    let both = (ex(alpha) + beta).eval(cx)?;
    // Sums of the labels of each class: (T, N, S) against (N, S, C), scaled so that nothing overflows.
    let max = max_keep(cx, both, &[2])?;
    let base = select(ex(max).eq(f64::NEG_INFINITY), 0.0, max).eval(cx)?;
    let weights = (ex(both) - base).exp().eval(cx)?;
    let class = cx.f.iota(&[n, s, c], ElementType::S64, 2)?;
    let labels = cx.reshape(a.labels, &[n, s, 1])?;
    let one_hot = ex(class).eq(labels).cast(element).eval(cx)?;
    let by_class = super::dot::contract(cx, (weights, "tns"), (one_hot, "nsc"), "tnc")?;
    let ways = (ex(by_class).ln() + base).eval(cx)?;
    let (nll, g) = (up(cx, "neg_log_likelihood")?, up(cx, "grad")?);
    let (nll, g) = (along(cx, nll, 1, 3)?, along(cx, g, 1, 3)?);
    let share = (ex(ways) + nll - p).exp();
    let grad = ((ex(p).exp() - share) * g).eval(cx)?;
    let inside = when(cx, &a, |step, i| step < a.input_lengths[i as usize])?;
    let inside = cx.reshape(inside, &[t, n, 1])?;
    let mut keep = ex(inside);
    if cx.bool("zero_infinity")? {
        keep = keep.and(ex(nll).ne(f64::INFINITY));
    }
    let dims = cx.dims(grad)?;
    let keep = keep.eval(cx)?;
    let keep = cx.broadcast_to(keep, &dims)?;
    Ok(select(keep, grad, 0.0).eval(cx)?.into())
}

pub(crate) const OPS: &[OpDef] = &[
    OpDef::new("_ctc_loss", ctc_loss),
    OpDef::new("_ctc_loss_backward", ctc_loss_backward).shape(|call| like(call, "log_probs")),
];
