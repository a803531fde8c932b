//! Fused optimizers: one program updates all parameters and their state.

use stablehlo::Value;
use stablehlo::ops::Direction;

use super::common::compare_to;
use crate::{Cx, ElementType, Lowered, OpDef, Result, compute_type};

/// What all fused optimizers have in common: numbers, and the gradient scaler's part.
struct Step {
    grad_scale: Option<Value>,
    /// The scaler found a gradient that is not finite: nothing changes.
    skip: Option<Value>,
    maximize: bool,
}

impl Step {
    fn new(cx: &mut Cx<'_, '_>) -> Result<Self> {
        let grad_scale = match cx.opt_tensor("grad_scale")? {
            Some(v) => Some(cx.reshape(v, &[])?),
            None => None,
        };
        let skip = match cx.opt_tensor("found_inf")? {
            Some(v) => {
                let v = cx.reshape(v, &[])?;
                Some(cx.truth(v)?)
            }
            None => None,
        };
        Ok(Self {
            grad_scale,
            skip,
            maximize: cx.bool("maximize")?,
        })
    }

    /// The new value, unless the step is skipped.
    fn unless_skipped(&self, cx: &mut Cx<'_, '_>, new: Value, old: Value) -> Result<Value> {
        let new = cx.cast(new, cx.element(old)?)?;
        Ok(match self.skip {
            Some(skip) => cx.f.select(skip, old, new)?,
            None => new,
        })
    }

    /// The gradient to work with, and the one to store.
    fn gradient(
        &self,
        cx: &mut Cx<'_, '_>,
        grad: Value,
        element: ElementType,
    ) -> Result<(Value, Option<Value>)> {
        let mut g = cx.cast(grad, element)?;
        let mut stored = None;
        if let Some(scale) = self.grad_scale {
            let scale = cx.cast(scale, element)?;
            let dims = cx.dims(g)?;
            let scale = cx.broadcast_to(scale, &dims)?;
            g = cx.f.divide(g, scale)?;
            stored = Some(self.unless_skipped(cx, g, grad)?);
        }
        if self.maximize {
            g = cx.f.negate(g)?;
        }
        Ok((g, stored))
    }
}

/// A scalar for a tensor: in its type, with its sizes.
fn spread(cx: &mut Cx<'_, '_>, scalar: Value, like: Value) -> Result<Value> {
    let (element, dims) = (cx.element(like)?, cx.dims(like)?);
    let v = cx.cast(scalar, element)?;
    cx.broadcast_to(v, &dims)
}

/// `v * scalar`.
fn times(cx: &mut Cx<'_, '_>, v: Value, scalar: Value) -> Result<Value> {
    let s = spread(cx, scalar, v)?;
    Ok(cx.f.multiply(v, s)?)
}

/// `1 - v` for a scalar.
fn one_minus(cx: &mut Cx<'_, '_>, v: Value) -> Result<Value> {
    let one = cx.full_like(v, 1)?;
    Ok(cx.f.subtract(one, v)?)
}

/// `old + weight * (new - old)`.
fn towards(cx: &mut Cx<'_, '_>, old: Value, new: Value, weight: Value) -> Result<Value> {
    let off = cx.f.subtract(new, old)?;
    let part = times(cx, off, weight)?;
    Ok(cx.f.add(old, part)?)
}

/// `grad + weight_decay * param`, or the gradient alone where there is no decay, whatever the parameter holds.
fn decayed(cx: &mut Cx<'_, '_>, grad: Value, param: Value, decay: Value) -> Result<Value> {
    let part = times(cx, param, decay)?;
    let sum = cx.f.add(grad, part)?;
    let none = compare_to(cx, decay, Direction::Eq, 0)?;
    Ok(cx.f.select(none, grad, sum)?)
}

/// Lists of results, one after the other.
#[derive(Default)]
struct Columns<const N: usize>(Vec<[Option<Value>; N]>);

impl<const N: usize> Columns<N> {
    fn finish(self) -> Vec<Option<Value>> {
        let rows = &self.0;
        (0..N)
            .flat_map(|column| rows.iter().map(move |row| row[column]))
            .collect()
    }
}

/// Where the weight decay goes.
#[derive(Copy, Clone, PartialEq, Eq)]
enum Decay {
    /// Into the gradient: Adam.
    Gradient,
    /// Straight to the parameter: AdamW.
    Parameter,
}

fn adam(cx: &mut Cx<'_, '_>, decay: Decay) -> Lowered {
    const WIDE: ElementType = ElementType::F64;
    let step = Step::new(cx)?;
    let params = cx.tensors("self")?;
    let grads = cx.tensors("grads")?;
    let averages = cx.tensors("exp_avgs")?;
    let squares = cx.tensors("exp_avg_sqs")?;
    let greatest = cx.tensors("max_exp_avg_sqs")?;
    let steps = cx.tensors("state_steps")?;
    let amsgrad = cx.bool("amsgrad")?;
    let rate = cx.scalar("lr", WIDE)?;
    let (beta1, beta2) = (cx.scalar("beta1", WIDE)?, cx.scalar("beta2", WIDE)?);
    let (weight_decay, eps) = (cx.scalar("weight_decay", WIDE)?, cx.scalar("eps", WIDE)?);
    let (rest1, rest2) = (one_minus(cx, beta1)?, one_minus(cx, beta2)?);
    let mut rows = Columns::<5>::default();
    for (k, &param) in params.iter().enumerate() {
        let element = compute_type(cx.element(param)?);
        let (mut g, stored) = step.gradient(cx, grads[k], element)?;
        let p = cx.cast(param, element)?;
        let mut base = p;
        match decay {
            Decay::Gradient => g = decayed(cx, g, p, weight_decay)?,
            Decay::Parameter => {
                let part = cx.f.multiply(rate, weight_decay)?;
                let keep = one_minus(cx, part)?;
                base = times(cx, p, keep)?;
            }
        }
        let average = cx.cast(averages[k], element)?;
        let average = towards(cx, average, g, rest1)?;
        let square = cx.cast(squares[k], element)?;
        let square = times(cx, square, beta2)?;
        let gg = cx.f.multiply(g, g)?;
        let gg = times(cx, gg, rest2)?;
        let square = cx.f.add(square, gg)?;
        let mut best = None;
        let mut under_root = square;
        if amsgrad {
            let have = cx.cast(greatest[k], element)?;
            under_root = cx.f.maximum(have, square)?;
            best = Some(under_root);
        }
        let t = cx.cast(steps[k], WIDE)?;
        let t = cx.reshape(t, &[])?;
        let (power1, power2) = (cx.f.power(beta1, t)?, cx.f.power(beta2, t)?);
        let (correction1, correction2) = (one_minus(cx, power1)?, one_minus(cx, power2)?);
        let correction2 = cx.f.sqrt(correction2)?;
        let size = cx.f.divide(rate, correction1)?;
        let root = cx.f.sqrt(under_root)?;
        let by = spread(cx, correction2, root)?;
        let root = cx.f.divide(root, by)?;
        let eps = spread(cx, eps, root)?;
        let by = cx.f.add(root, eps)?;
        let move_ = times(cx, average, size)?;
        let move_ = cx.f.divide(move_, by)?;
        let new = cx.f.subtract(base, move_)?;
        let best = match best {
            Some(v) => Some(step.unless_skipped(cx, v, greatest[k])?),
            None => None,
        };
        rows.0.push([
            Some(step.unless_skipped(cx, new, param)?),
            stored,
            Some(step.unless_skipped(cx, average, averages[k])?),
            Some(step.unless_skipped(cx, square, squares[k])?),
            best,
        ]);
    }
    let mut results = rows.finish();
    // Without amsgrad the last list is usually empty.
    results.truncate(4 * params.len() + greatest.len());
    Ok(results.into())
}

fn fused_adam(cx: &mut Cx<'_, '_>) -> Lowered {
    adam(cx, Decay::Gradient)
}

fn fused_adamw(cx: &mut Cx<'_, '_>) -> Lowered {
    adam(cx, Decay::Parameter)
}

fn fused_sgd(cx: &mut Cx<'_, '_>) -> Lowered {
    const WIDE: ElementType = ElementType::F64;
    let step = Step::new(cx)?;
    let params = cx.tensors("self")?;
    let grads = cx.tensors("grads")?;
    let buffers = cx.tensors("momentum_buffer_list")?;
    let rate = cx.scalar("lr", WIDE)?;
    let weight_decay = cx.scalar("weight_decay", WIDE)?;
    let momentum = cx.scalar("momentum", WIDE)?;
    let dampening = cx.scalar("dampening", WIDE)?;
    let keep = one_minus(cx, dampening)?;
    let (nesterov, first) = (cx.bool("nesterov")?, cx.bool("is_first_step")?);
    let mut rows = Columns::<3>::default();
    for (k, &param) in params.iter().enumerate() {
        let element = compute_type(cx.element(param)?);
        let (mut g, stored) = step.gradient(cx, grads[k], element)?;
        let p = cx.cast(param, element)?;
        g = decayed(cx, g, p, weight_decay)?;
        let mut buffer = None;
        if let Some(&old) = buffers.get(k) {
            let new = if first {
                g
            } else {
                let have = cx.cast(old, element)?;
                let have = times(cx, have, momentum)?;
                let part = times(cx, g, keep)?;
                cx.f.add(have, part)?
            };
            buffer = Some(step.unless_skipped(cx, new, old)?);
            g = if nesterov {
                let ahead = times(cx, new, momentum)?;
                cx.f.add(g, ahead)?
            } else {
                new
            };
        }
        let move_ = times(cx, g, rate)?;
        let new = cx.f.subtract(p, move_)?;
        rows.0
            .push([Some(step.unless_skipped(cx, new, param)?), stored, buffer]);
    }
    let mut results = rows.finish();
    results.truncate(2 * params.len() + buffers.len());
    Ok(results.into())
}

fn fused_adagrad(cx: &mut Cx<'_, '_>) -> Lowered {
    const WIDE: ElementType = ElementType::F64;
    let step = Step::new(cx)?;
    let params = cx.tensors("self")?;
    let grads = cx.tensors("grads")?;
    let sums = cx.tensors("state_sums")?;
    let steps = cx.tensors("state_steps")?;
    let (rate, rate_decay) = (cx.scalar("lr", WIDE)?, cx.scalar("lr_decay", WIDE)?);
    let (weight_decay, eps) = (cx.scalar("weight_decay", WIDE)?, cx.scalar("eps", WIDE)?);
    let mut rows = Columns::<4>::default();
    for (k, &param) in params.iter().enumerate() {
        let element = compute_type(cx.element(param)?);
        let (mut g, stored) = step.gradient(cx, grads[k], element)?;
        let p = cx.cast(param, element)?;
        g = decayed(cx, g, p, weight_decay)?;
        let t = cx.cast(steps[k], WIDE)?;
        let t = cx.reshape(t, &[])?;
        let one = cx.full_like(t, 1)?;
        let done = cx.f.subtract(t, one)?;
        let slower = cx.f.multiply(done, rate_decay)?;
        let slower = cx.f.add(one, slower)?;
        let size = cx.f.divide(rate, slower)?;
        let sum = cx.cast(sums[k], element)?;
        let gg = cx.f.multiply(g, g)?;
        let sum = cx.f.add(sum, gg)?;
        let root = cx.f.sqrt(sum)?;
        let eps = spread(cx, eps, root)?;
        let by = cx.f.add(root, eps)?;
        let ratio = cx.f.divide(g, by)?;
        let move_ = times(cx, ratio, size)?;
        let new = cx.f.subtract(p, move_)?;
        rows.0.push([
            Some(step.unless_skipped(cx, new, param)?),
            stored,
            Some(step.unless_skipped(cx, sum, sums[k])?),
            None,
        ]);
    }
    let mut results = rows.finish();
    // One overload declares that it writes the steps, the other one does not.
    results.truncate(cx.call.outs.len());
    Ok(results.into())
}

/// All results are arguments that have their sizes already. Most of these ops have no Meta kernel.
const fn in_place(name: &'static str, lower: fn(&mut Cx<'_, '_>) -> Lowered) -> OpDef {
    OpDef::new(name, lower).shape(|_| Ok(Vec::new()))
}

// In place only: torch makes the functional overloads of these.
pub(crate) const OPS: &[OpDef] = &[
    in_place("_fused_adam_", fused_adam),
    in_place("_fused_adamw_", fused_adamw),
    in_place("_fused_sgd_", fused_sgd),
    in_place("_fused_adagrad_", fused_adagrad),
];
