//! Batch normalization in all its forms, with gradients.

use stablehlo::Value;

use super::ex::ex;
use super::util::{along, count, masked, mean_keep, number, opt_as, sum, sum_keep, up};
use crate::{Arg, Call, Cx, Dims, ElementType, Lowered, OpDef, OutMeta, Result};

/// All dimensions but that of the channels.
fn others(rank: usize) -> Vec<i64> {
    (0..rank as i64).filter(|d| *d != 1).collect()
}

/// What normalizing gives.
struct Normalized {
    output: Value,
    mean: Value,
    invstd: Value,
    /// New running statistics, where there are some and they change.
    running: [Option<Value>; 2],
}

/// Normalizes by the batch's statistics, or by the running ones.
fn normalize(cx: &mut Cx<'_, '_>, training: bool) -> Result<Normalized> {
    let x = up(cx, "input")?;
    let (sizes, element) = (cx.dims(x)?, cx.element(x)?);
    let (rank, channels) = (sizes.len(), sizes.get(1).copied().unwrap_or(1));
    let dims = others(rank);
    let running = [
        opt_as(cx, "running_mean", element)?,
        opt_as(cx, "running_var", element)?,
    ];
    let eps = number(cx, "eps", x)?;
    let mut next = [None, None];
    let (mean, variance) = if training {
        let mean = mean_keep(cx, x, &dims)?;
        let centered = (ex(x) - mean).eval(cx)?;
        let square = (ex(centered) * centered).eval(cx)?;
        let n = count(&sizes, &dims) as f64;
        let mut momentum = number(cx, "momentum", x)?;
        let total = sum_keep(cx, square, &dims)?;
        // CPU torch keeps bfloat16's sums, and what it makes of them, in bfloat16.
        let narrow = match cx.wants(1) {
            true => Some(cx.out(1)?.element).filter(|e| *e == ElementType::BF16),
            false => None,
        };
        let (variance, unbiased, batch_mean, rest) = if let Some(narrow) = narrow {
            let total = cx.rounded(total, narrow)?;
            let share = |cx: &mut Cx<'_, '_>, n: f64| -> Result<Value> {
                let n = cx.full_like(total, n)?;
                let n = cx.rounded(n, narrow)?;
                let share = cx.f.divide(total, n)?;
                cx.rounded(share, narrow)
            };
            momentum = cx.rounded(momentum, narrow)?;
            let rest = (1.0 - ex(momentum)).eval(cx)?;
            (
                share(cx, n)?,
                share(cx, n - 1.0)?,
                cx.rounded(mean, narrow)?,
                cx.rounded(rest, narrow)?,
            )
        } else {
            (
                (ex(total) / n).eval(cx)?,
                (ex(total) / (n - 1.0)).eval(cx)?,
                mean,
                (1.0 - ex(momentum)).eval(cx)?,
            )
        };
        for (k, batch) in [batch_mean, unbiased].into_iter().enumerate() {
            if let Some(old) = running[k] {
                let batch = cx.reshape(batch, &[channels])?;
                next[k] = Some((ex(momentum) * batch + ex(rest) * old).eval(cx)?);
            }
        }
        (mean, variance)
    } else {
        let [Some(mean), Some(variance)] = running else {
            return Err(crate::Error::unsupported("evaluation without running statistics"));
        };
        (along(cx, mean, 1, rank)?, along(cx, variance, 1, rank)?)
    };
    let mut invstd = (ex(variance) + eps).rsqrt().eval(cx)?;
    let mut mean = mean;
    if training && cx.wants(1) {
        // torch normalizes by the statistics that it saves, in the type in which it saves them.
        let save = cx.out(1)?.element;
        for v in [&mut mean, &mut invstd] {
            let rounded = cx.cast(*v, save)?;
            *v = cx.cast(rounded, element)?;
        }
    }
    let mut y = (ex(x) - mean) * invstd;
    for (name, add) in [("weight", false), ("bias", true)] {
        if let Some(p) = opt_as(cx, name, element)? {
            let p = along(cx, p, 1, rank)?;
            y = if add { y + p } else { y * p };
        }
    }
    Ok(Normalized {
        output: y.eval(cx)?,
        mean: cx.reshape(mean, &[channels])?,
        invstd: cx.reshape(invstd, &[channels])?,
        running: next,
    })
}

/// The saved statistics as torch wants them, which may be: empty.
fn saved(cx: &mut Cx<'_, '_>, k: usize, v: Value) -> Result<Option<Value>> {
    if !cx.wants(k) {
        return Ok(None);
    }
    let out = cx.out(k)?;
    if out.dims == cx.dims(v)? {
        return Ok(Some(v));
    }
    Ok(Some(cx.full(&out.dims, out.element, 0)?))
}

/// Outputs in order: three or four results, then the running statistics.
fn outputs(cx: &mut Cx<'_, '_>, n: Normalized, reserve: bool, stats: bool) -> Lowered {
    let mut all = vec![Some(n.output), saved(cx, 1, n.mean)?, saved(cx, 2, n.invstd)?];
    if reserve {
        let empty = cx.full(&[0], ElementType::U8, 0)?;
        all.push(saved(cx, 3, empty)?);
    }
    if stats {
        all.extend(n.running);
    }
    Ok(all.into())
}

fn native_batch_norm(cx: &mut Cx<'_, '_>) -> Lowered {
    let training = cx.bool("training")?;
    let n = normalize(cx, training)?;
    outputs(cx, n, false, true)
}

fn no_stats(cx: &mut Cx<'_, '_>) -> Lowered {
    let n = normalize(cx, true)?;
    outputs(cx, n, false, false)
}

fn no_training(cx: &mut Cx<'_, '_>) -> Lowered {
    let n = normalize(cx, false)?;
    outputs(cx, n, false, false)
}

/// A functional form returns running statistics in any case.
fn functional(cx: &mut Cx<'_, '_>, training: bool, reserve: bool) -> Lowered {
    let mut n = normalize(cx, training)?;
    for (slot, name) in n.running.iter_mut().zip(["running_mean", "running_var"]) {
        if slot.is_none() {
            *slot = Some(cx.tensor(name)?);
        }
    }
    outputs(cx, n, reserve, true)
}

fn legit_functional(cx: &mut Cx<'_, '_>) -> Lowered {
    let training = cx.bool("training")?;
    functional(cx, training, false)
}

fn with_update(cx: &mut Cx<'_, '_>) -> Lowered {
    let n = normalize(cx, true)?;
    outputs(cx, n, true, true)
}

fn with_update_functional(cx: &mut Cx<'_, '_>) -> Lowered {
    functional(cx, true, true)
}

fn no_update(cx: &mut Cx<'_, '_>) -> Lowered {
    let n = normalize(cx, false)?;
    outputs(cx, n, true, false)
}

fn backward(cx: &mut Cx<'_, '_>, training: bool, saved: [&str; 2]) -> Lowered {
    let mask = cx.bools("output_mask")?;
    let (g, x) = (up(cx, "grad_out")?, up(cx, "input")?);
    let (sizes, element) = (cx.dims(x)?, cx.element(x)?);
    let rank = sizes.len();
    let dims = others(rank);
    let names = if training {
        saved
    } else {
        ["running_mean", "running_var"]
    };
    let (Some(mean), Some(spread)) = (opt_as(cx, names[0], element)?, opt_as(cx, names[1], element)?) else {
        return Err(crate::Error::unsupported("a gradient without statistics"));
    };
    let (mean, spread) = (along(cx, mean, 1, rank)?, along(cx, spread, 1, rank)?);
    let invstd = if training {
        spread
    } else {
        let eps = number(cx, "eps", x)?;
        (ex(spread) + eps).rsqrt().eval(cx)?
    };
    let normal = ((ex(x) - mean) * invstd).eval(cx)?;
    let gn = (ex(g) * normal).eval(cx)?;
    let (dw, db) = (sum(cx, gn, &dims)?, sum(cx, g, &dims)?);
    let mut dx = ex(g);
    if training {
        let n = count(&sizes, &dims) as f64;
        let (mean_g, mean_gn) = (along(cx, db, 1, rank)?, along(cx, dw, 1, rank)?);
        dx = dx - ex(mean_g) / n - ex(normal) * (ex(mean_gn) / n);
    }
    dx = dx * invstd;
    if let Some(w) = opt_as(cx, "weight", element)? {
        let w = along(cx, w, 1, rank)?;
        dx = dx * w;
    }
    let dx = dx.eval(cx)?;
    Ok(masked(&mask, [Some(dx), Some(dw), Some(db)]))
}

fn native_batch_norm_backward(cx: &mut Cx<'_, '_>) -> Lowered {
    let training = cx.bool("train")?;
    backward(cx, training, ["save_mean", "save_invstd"])
}

fn batch_norm_backward(cx: &mut Cx<'_, '_>) -> Lowered {
    let training = cx.bool("update")?;
    backward(cx, training, ["save_mean", "save_var"])
}

/// Results as CPU torch has them: saved statistics are of the parameters' type, and empty in evaluation.
fn shape(call: &Call) -> Result<Vec<Option<OutMeta>>> {
    let meta_of = |name: &str| match call.arg(name) {
        Some(Arg::Tensor(i)) => Some(&call.tensors[*i as usize]),
        _ => None,
    };
    let like = |name: &str| {
        meta_of(name).map(|m| OutMeta {
            dims: m.dims.clone(),
            element: m.element,
        })
    };
    let input = super::util::like(call, "input")?;
    let Some(Some(first)) = input.first() else {
        return Ok(input);
    };
    let parameters = ["weight", "bias", "running_mean", "running_var"];
    let mixed = parameters
        .iter()
        .filter_map(|n| meta_of(n))
        .any(|m| m.element != first.element);
    let training = match call.arg("training") {
        Some(Arg::Bool(training)) => *training,
        _ => !call.op.name.contains("_no_training") && !call.op.name.contains("_no_update"),
    };
    let channels = first.dims.get(1).copied().unwrap_or(1);
    let saved = Some(OutMeta {
        dims: Dims::from_slice(&[if training { channels } else { 0 }]),
        element: if mixed { ElementType::F32 } else { first.element },
    });
    let mut all = vec![Some(first.clone()), saved.clone(), saved];
    if call.op.name.starts_with("_batch_norm") {
        all.push(Some(OutMeta {
            dims: Dims::from_slice(&[0]),
            element: ElementType::U8,
        }));
    }
    all.extend([like("running_mean"), like("running_var")]);
    Ok(all)
}

pub(crate) const OPS: &[OpDef] = &[
    OpDef::new("native_batch_norm", native_batch_norm)
        .writes(&["running_mean", "running_var"])
        .shape(shape)
        .amend(crate::layout::channels_last_as_input),
    OpDef::new("_native_batch_norm_legit", native_batch_norm)
        .shape(shape)
        .amend(crate::layout::channels_last_as_input),
    OpDef::new("_native_batch_norm_legit.no_stats", no_stats)
        .shape(shape)
        .amend(crate::layout::channels_last_as_input),
    OpDef::new("_native_batch_norm_legit_functional", legit_functional)
        .shape(shape)
        .amend(crate::layout::channels_last_as_input),
    OpDef::new("_native_batch_norm_legit_no_training", no_training)
        .shape(shape)
        .amend(crate::layout::channels_last_as_input),
    OpDef::new("_batch_norm_with_update", with_update)
        .shape(shape)
        .amend(crate::layout::channels_last_as_input),
    OpDef::new("_batch_norm_with_update_functional", with_update_functional)
        .shape(shape)
        .amend(crate::layout::channels_last_as_input),
    OpDef::new("_batch_norm_no_update", no_update)
        .shape(shape)
        .amend(crate::layout::channels_last_as_input),
    OpDef::new("native_batch_norm_backward", native_batch_norm_backward)
        .amend(crate::layout::channels_last_as_input),
    OpDef::new("batch_norm_backward", batch_norm_backward).amend(crate::layout::channels_last_as_input),
];
