//! Negative log likelihood, flat and in two dimensions, and the multi-class margin losses.

use dtype::Class;
use stablehlo::Value;
use stablehlo::ops::GatherDimensions;

use super::ex::{Ex, ex, select};
use super::util::{all_dims, along, check_range, count, like, mean_keep, opt_as, sum, take_at, up};
use crate::{Arg, Call, Cx, Dims, ElementType, Error, ErrorKind, KnownSum, Lowered, OpDef, OutMeta, Result};

/// The dimension of the classes.
fn class_dim(rank: usize) -> usize {
    usize::from(rank > 1)
}

/// True at the class that is each sample's target, in the sizes of the input.
fn is_target(cx: &mut Cx<'_, '_>, target: Value, sizes: &[i64]) -> Result<Value> {
    let dim = class_dim(sizes.len());
    // A TPU compares 64-bit numbers in halves. What wraps around is out of range, and told by the forward's condition.
    let element = match i32::try_from(sizes[dim]) {
        Ok(_) => ElementType::S32,
        Err(_) => ElementType::S64,
    };
    let target = cx.cast(target, element)?;
    let mut kept = sizes.to_vec();
    kept[dim] = 1;
    let classes = cx.f.iota(sizes, element, dim as i64)?;
    let target = cx.reshape(target, &kept)?;
    ex(classes).eq(target).eval(cx)
}

/// [`at_target`] of what may be a logarithm of a softmax: its parts are taken then, so that the whole need not be kept.
fn picked(cx: &mut Cx<'_, '_>, x: Value, target: Value) -> Result<Value> {
    let sizes = cx.dims(x)?;
    let Some(known) = cx.known_softmax(x, &[class_dim(sizes.len()) as i64], true) else {
        return at_target(cx, x, target);
    };
    let of = at_target(cx, known.input, target)?;
    let dims = cx.dims(of)?;
    let (max, total) = (cx.reshape(known.max, &dims)?, cx.reshape(known.total, &dims)?);
    ((ex(of) - max) - ex(total).ln()).eval(cx)
}

/// Each sample's element at its target.
fn at_target(cx: &mut Cx<'_, '_>, x: Value, target: Value) -> Result<Value> {
    let (sizes, dims) = (cx.dims(x)?, cx.dims(target)?);
    if sizes.len() > 2 {
        let hit = is_target(cx, target, &sizes)?;
        let v = select(hit, x, 0.0).eval(cx)?;
        return sum(cx, v, &[1]);
    }
    let n = dims.iter().product();
    if sizes.contains(&0) {
        let element = cx.element(x)?;
        return cx.full(&dims, element, 0);
    }
    // Of a widened value what it was widened from: that is in memory.
    let element = cx.element(x)?;
    let x = match cx.f.operand_of("stablehlo.convert", x) {
        Some(narrow) if cx.element(narrow)? == ElementType::BF16 => narrow,
        _ => x,
    };
    let x = cx.reshape(x, &[n, sizes.last().copied().unwrap_or(1)])?;
    let index = cx.reshape(target, &[n, 1])?;
    let numbers = GatherDimensions {
        collapsed_slice_dims: vec![1],
        operand_batching_dims: vec![0],
        start_indices_batching_dims: vec![0],
        start_index_map: vec![1],
        index_vector_dim: 1,
        ..GatherDimensions::default()
    };
    let v = cx.f.gather(x, index, &numbers, &[1, 1], false)?;
    let v = cx.cast(v, element)?;
    cx.reshape(v, &dims)
}

/// The weight of each sample: that of its target class, zero for an ignored one.
fn sample_weights(cx: &mut Cx<'_, '_>, target: Value, element: ElementType) -> Result<Value> {
    let kind = cx.element(target)?;
    let ignore = cx.int("ignore_index")?;
    let one = match opt_as(cx, "weight", element)? {
        Some(w) => {
            let sizes = cx.dims(w)?;
            take_at(cx, w, 0, target, &sizes)?
        }
        None => {
            let dims = cx.dims(target)?;
            cx.full(&dims, element, 1)?
        }
    };
    // uint8 targets cannot hold the usual -100.
    if kind.class() == Class::Unsigned && !(0..=255).contains(&ignore) {
        return Ok(one);
    }
    let ignore = cx.full(&[], kind, ignore)?;
    select(ex(target).eq(ignore), 0.0, one).eval(cx)
}

fn nll_loss_forward(cx: &mut Cx<'_, '_>) -> Lowered {
    let (x, target) = (up(cx, "self")?, cx.tensor("target")?);
    let (sizes, element) = (cx.dims(x)?, cx.element(x)?);
    let classes = sizes[class_dim(sizes.len())];
    let ignore = cx.int("ignore_index")?;
    check_range(
        cx,
        target,
        classes,
        Some(ignore),
        "Target {} is out of bounds.",
        ErrorKind::Index,
    )?;
    let w = sample_weights(cx, target, element)?;
    let picked = picked(cx, x, target)?;
    let ignored = ignored(cx, target)?;
    let loss = select(ignored, 0.0, -ex(picked) * w).eval(cx)?;
    let dims = all_dims(cx, w)?;
    let reduction = cx.int("reduction")?;
    let total = sum(cx, w, &dims)?;
    let zero = cx.full(&[], element, 0)?;
    Ok(match reduction {
        0 if sizes.len() > 1 => (loss, zero),
        1 => {
            let sum = sum(cx, loss, &dims)?;
            ((ex(sum) / total).eval(cx)?, total)
        }
        _ => (sum(cx, loss, &dims)?, total),
    }
    .into())
}

/// Where the target is the index to ignore.
fn ignored(cx: &mut Cx<'_, '_>, target: Value) -> Result<Value> {
    let wide = cx.cast(target, ElementType::S64)?;
    let ignore = cx.full(&[], ElementType::S64, cx.int("ignore_index")?)?;
    ex(wide).eq(ignore).eval(cx)
}

fn nll_loss_backward(cx: &mut Cx<'_, '_>) -> Lowered {
    let (g, x, target) = (up(cx, "grad_output")?, cx.tensor("self")?, cx.tensor("target")?);
    let (sizes, element) = (cx.dims(x)?, cx.element(g)?);
    let w = sample_weights(cx, target, element)?;
    let mut each = -ex(g) * w;
    if cx.int("reduction")? == 1 {
        let total = cx.tensor("total_weight")?;
        each = each / ex(total).cast(element);
    }
    let ignored = ignored(cx, target)?;
    let each = select(ignored, 0.0, each).eval(cx)?;
    let mut kept = sizes.to_vec();
    kept[class_dim(sizes.len())] = 1;
    let total = cx.reshape(each, &kept)?;
    let each = cx.broadcast_to(total, &sizes)?;
    let hit = is_target(cx, target, &sizes)?;
    let result = select(hit, each, 0.0).eval(cx)?;
    // What log_softmax's gradient wants next, as a pass over all classes would find it.
    cx.produced.facts.sums.push(KnownSum {
        of: result,
        dim: class_dim(sizes.len()) as i64,
        sum: total,
    });
    Ok(result.into())
}

/// For multi_margin_loss: samples by classes, targets, the margin violations of all but the target class, sample weights.
struct Margin {
    sizes: Vec<i64>,
    hit: Value,
    violation: Value,
    weight: Option<Value>,
}

fn margins(cx: &mut Cx<'_, '_>) -> Result<Margin> {
    let (x, target) = (up(cx, "self")?, cx.tensor("target")?);
    let dims = cx.dims(x)?;
    let classes = dims.last().copied().unwrap_or(1);
    let n = count(&cx.dims(target)?, &all_dims(cx, target)?);
    let element = cx.element(x)?;
    check_range(
        cx,
        target,
        classes,
        None,
        "target out of range",
        ErrorKind::Runtime,
    )?;
    let (x, target) = (cx.reshape(x, &[n, classes])?, cx.reshape(target, &[n])?);
    let picked = at_target(cx, x, target)?;
    let picked = cx.reshape(picked, &[n, 1])?;
    let margin = super::util::number(cx, "margin", x)?;
    let hit = is_target(cx, target, &[n, classes])?;
    let z = (ex(margin) - picked + x).eval(cx)?;
    let violation = select(ex(hit).or(ex(z).le(0.0)), 0.0, z).eval(cx)?;
    let weight = match opt_as(cx, "weight", element)? {
        Some(w) => {
            let size = cx.dims(w)?;
            let w = take_at(cx, w, 0, target, &size)?;
            Some(along(cx, w, 0, 2)?)
        }
        None => None,
    };
    Ok(Margin {
        sizes: vec![n, classes],
        hit,
        violation,
        weight,
    })
}

/// The exponent of multi_margin_loss.
fn squared(cx: &Cx<'_, '_>) -> Result<bool> {
    match cx.float("p")? {
        1.0 => Ok(false),
        2.0 => Ok(true),
        p => Err(Error::unsupported(format!("p = {p}"))),
    }
}

fn multi_margin_loss(cx: &mut Cx<'_, '_>) -> Lowered {
    let squared = squared(cx)?;
    let m = margins(cx)?;
    let mut v = if squared {
        ex(m.violation) * m.violation
    } else {
        ex(m.violation)
    };
    if let Some(w) = m.weight {
        v = v * w;
    }
    let v = v.eval(cx)?;
    let each = mean_keep(cx, v, &[1])?;
    let samples = cx.reshape(each, &m.sizes[..1])?;
    if cx.int("reduction")? == 0 {
        let out = &cx.out(0)?.dims;
        return Ok(cx.reshape(samples, out)?.into());
    }
    super::util::reduced(cx, samples)
}

/// torch's Meta kernel gives one element, its CPU kernel rank 0, for a target of rank 0.
fn multi_margin_shape(call: &Call) -> Result<Vec<Option<OutMeta>>> {
    let mut out = like(call, "self")?;
    let target = like(call, "target")?;
    let each = call.arg("reduction") == Some(&Arg::Int(0));
    if let (Some(Some(out)), Some(Some(target))) = (out.first_mut(), target.first()) {
        out.dims = if each { target.dims.clone() } else { Dims::new() };
    }
    Ok(out)
}

fn multi_margin_loss_backward(cx: &mut Cx<'_, '_>) -> Lowered {
    let squared = squared(cx)?;
    let m = margins(cx)?;
    let element = cx.element(m.violation)?;
    let mut step = if squared {
        2.0 * ex(m.violation)
    } else {
        ex(m.violation).gt(0.0).cast(element)
    };
    if let Some(w) = m.weight {
        step = step * w;
    }
    let step = (step / m.sizes[1] as f64).eval(cx)?;
    let total = super::util::sum_keep(cx, step, &[1])?;
    let g = super::util::loss_grad(cx, element, m.sizes[0])?;
    let g = if cx.rank(g)? == 1 { along(cx, g, 0, 2)? } else { g };
    let grad = (select(m.hit, -ex(total), step) * g).eval(cx)?;
    let x = cx.tensor("self")?;
    let dims = cx.dims(x)?;
    Ok(cx.reshape(grad, &dims)?.into())
}

/// For multilabel_margin_loss, as (samples, label places, classes): labels are those before the first -1.
struct Labels {
    sizes: Vec<i64>,
    /// One where the place's label is the class.
    one_hot: Value,
    /// Whether the class is a label, (N, C).
    is_target: Value,
    /// `max(0, 1 - x[label] + x[class])` for classes that are no labels.
    violation: Value,
}

fn labels(cx: &mut Cx<'_, '_>) -> Result<Labels> {
    let (x, target) = (up(cx, "self")?, cx.tensor("target")?);
    let dims = cx.dims(x)?;
    let c = dims.last().copied().unwrap_or(1);
    if c == 0 || dims.len() > 2 {
        let text =
            format!("Expected non-empty vector or matrix with optional 0-dim batch size, but got: {dims:?}");
        return Err(Error::user(ErrorKind::Runtime, text));
    }
    let n = if dims.len() > 1 { dims[0] } else { 1 };
    let element = cx.element(x)?;
    let (x, target) = (cx.reshape(x, &[n, c])?, cx.reshape(target, &[n, c])?);
    let target = cx.cast(target, ElementType::S64)?;
    let place = cx.f.iota(&[n, c], ElementType::S64, 1)?;
    let last = select(ex(target).lt(0.0), place, c as f64).eval(cx)?;
    let end = cx.full(&[], ElementType::S64, c)?;
    let end =
        cx.f.reduce(&[last], &[end], &[1], |f, e| Ok(vec![f.minimum(e[0], e[1])?]))?[0];
    let end = along(cx, end, 0, 2)?;
    let valid = ex(place).lt(end).eval(cx)?;
    let (valid, target) = (cx.reshape(valid, &[n, c, 1])?, cx.reshape(target, &[n, c, 1])?);
    let class = cx.f.iota(&[n, c, c], ElementType::S64, 2)?;
    let hit = ex(class).eq(target).and(valid).eval(cx)?;
    let one_hot = cx.cast(hit, element)?;
    let x3 = cx.reshape(x, &[n, 1, c])?;
    let own = select(hit, x3, 0.0).eval(cx)?;
    let own = super::util::sum_keep(cx, own, &[2])?;
    let is_target = super::util::max_keep(cx, hit, &[1])?;
    let z = (1.0 - ex(own) + x3).max(0.0);
    let counts = ex(valid).and(ex(is_target).not());
    let violation = select(counts, z, 0.0).eval(cx)?;
    Ok(Labels {
        sizes: vec![n, c],
        one_hot,
        is_target,
        violation,
    })
}

/// torch's Meta kernel gives one sample without a batch one dimension, the CPU none.
fn multilabel_margin_shape(call: &Call) -> Result<Vec<Option<OutMeta>>> {
    let (mut loss, mut is_target) = (like(call, "self")?, like(call, "self")?);
    let target = like(call, "target")?;
    let each = call.arg("reduction") == Some(&Arg::Int(0));
    if let (Some(Some(loss)), Some(Some(hit)), Some(Some(target))) =
        (loss.first_mut(), is_target.first_mut(), target.first())
    {
        let batch = loss.dims.len().saturating_sub(1);
        loss.dims.truncate(if each { batch } else { 0 });
        hit.dims = target.dims.clone();
    }
    loss.append(&mut is_target);
    Ok(loss)
}

fn multilabel_margin_loss_forward(cx: &mut Cx<'_, '_>) -> Lowered {
    let l = labels(cx)?;
    let each = sum(cx, l.violation, &[1, 2])?;
    let each = (ex(each) / l.sizes[1] as f64).eval(cx)?;
    let is_target = match cx.wants(1) {
        true => {
            let out = cx.out(1)?;
            let v = cx.cast(l.is_target, out.element)?;
            Some(cx.reshape(v, &out.dims)?)
        }
        false => None,
    };
    let loss = if cx.int("reduction")? == 0 {
        let out = &cx.out(0)?.dims;
        Some(cx.reshape(each, out)?)
    } else {
        super::util::reduced(cx, each)?.0.first().copied().flatten()
    };
    Ok(vec![loss, is_target].into())
}

fn multilabel_margin_loss_backward(cx: &mut Cx<'_, '_>) -> Lowered {
    let l = labels(cx)?;
    let element = cx.element(l.violation)?;
    let pushed = ex(l.violation).gt(0.0).cast(element).eval(cx)?;
    let up_classes = sum(cx, pushed, &[1])?;
    let by_label = super::util::sum_keep(cx, pushed, &[2])?;
    let down = (ex(l.one_hot) * by_label).eval(cx)?;
    let down = sum(cx, down, &[1])?;
    let g = super::util::loss_grad(cx, element, l.sizes[0])?;
    let g = if cx.rank(g)? == 1 { along(cx, g, 0, 2)? } else { g };
    let grad: Ex = (ex(up_classes) - down) / l.sizes[1] as f64 * g;
    let grad = grad.eval(cx)?;
    let x = cx.tensor("self")?;
    let dims = cx.dims(x)?;
    Ok(cx.reshape(grad, &dims)?.into())
}

pub(crate) const OPS: &[OpDef] = &[
    OpDef::new("nll_loss_forward", nll_loss_forward),
    OpDef::new("nll_loss_backward", nll_loss_backward),
    OpDef::new("nll_loss2d_forward", nll_loss_forward),
    OpDef::new("nll_loss2d_backward", nll_loss_backward),
    OpDef::new("multi_margin_loss", multi_margin_loss)
        .statics(&["p"])
        .shape(multi_margin_shape),
    OpDef::new("multi_margin_loss_backward", multi_margin_loss_backward)
        .statics(&["p"])
        .shape(|call| like(call, "self")),
    OpDef::new("multilabel_margin_loss_forward", multilabel_margin_loss_forward)
        .shape(multilabel_margin_shape),
    OpDef::new("multilabel_margin_loss_backward", multilabel_margin_loss_backward)
        .shape(|call| like(call, "self")),
];
