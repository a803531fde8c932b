//! The gradient scaler of mixed precision: checks and unscales gradients, updates the scale.

use super::reduction::{Reducer, reduce};
use crate::{Cx, ElementType, Lowered, OpDef, Outputs};

/// Scales gradients back and reports whether any was not finite.
fn amp_unscale(cx: &mut Cx<'_, '_>) -> Lowered {
    let all = cx.tensors("self")?;
    let inverse = cx.tensor("inv_scale")?;
    let inverse = cx.reshape(inverse, &[])?;
    let found = cx.tensor("found_inf")?;
    let shape = cx.dims(found)?;
    let mut bad = cx.reshape(found, &[])?;
    bad = cx.truth(bad)?;
    let mut results = Vec::with_capacity(all.len() + 1);
    for x in all {
        let x = cx.up(x)?;
        let dims = cx.dims(x)?;
        let fine = super::comparison::finite(cx, x)?;
        let every: Vec<i64> = (0..dims.len() as i64).collect();
        let fine = reduce(cx, fine, &every, Reducer::All)?;
        let wrong = cx.f.not(fine)?;
        bad = cx.f.or(bad, wrong)?;
        let by = cx.cast(inverse, cx.element(x)?)?;
        let by = cx.broadcast_to(by, &dims)?;
        results.push(cx.f.multiply(x, by)?);
    }
    let bad = cx.cast(bad, ElementType::F32)?;
    results.push(cx.reshape(bad, &shape)?);
    Ok(results.into())
}

/// Grows the scale after a number of good steps, shrinks it after a bad one.
fn amp_update_scale(cx: &mut Cx<'_, '_>) -> Lowered {
    let scale = cx.tensor("self")?;
    let shape = cx.dims(scale)?;
    let tracker = cx.tensor("growth_tracker")?;
    let tracker_shape = cx.dims(tracker)?;
    let found = cx.tensor("found_inf")?;
    let found = cx.reshape(found, &[])?;
    let (scale, tracker) = (cx.reshape(scale, &[])?, cx.reshape(tracker, &[])?);
    let bad = cx.truth(found)?;
    let element = cx.element(scale)?;
    let shrink = cx.scalar("scale_backoff_factor", element)?;
    let grow = cx.scalar("scale_growth_factor", element)?;
    let smaller = cx.f.multiply(scale, shrink)?;
    let larger = cx.f.multiply(scale, grow)?;
    let one = cx.full_like(tracker, 1)?;
    let next = cx.f.add(tracker, one)?;
    let interval = cx.full_like(tracker, cx.int("growth_interval")?)?;
    let due = cx.f.compare(next, interval, stablehlo::ops::Direction::Eq)?;
    // A scale that would overflow stays.
    let finite = cx.f.is_finite(larger)?;
    let grown = cx.f.and(due, finite)?;
    let good = cx.f.select(grown, larger, scale)?;
    let scale = cx.f.select(bad, smaller, good)?;
    let restart = cx.f.or(bad, due)?;
    let zero = cx.full_like(tracker, 0)?;
    let tracker = cx.f.select(restart, zero, next)?;
    let results = [cx.reshape(scale, &shape)?, cx.reshape(tracker, &tracker_shape)?];
    Ok(Outputs::from(results.to_vec()))
}

pub(crate) const OPS: &[OpDef] = &[
    OpDef::new("_amp_foreach_non_finite_check_and_unscale", amp_unscale),
    OpDef::new("_amp_update_scale", amp_update_scale),
];
