//! Reflection and replication padding with gradients.

use stablehlo::Value;

use super::ex::ex;
use super::util::{pad_dim, slice_dim, sum_keep, up};
use crate::{Cx, Lowered, OpDef, Result};

/// What fills the padding.
#[derive(Copy, Clone, PartialEq)]
enum Mode {
    /// The other side of the edge, in reverse.
    Reflect,
    /// The edge.
    Replicate,
}

/// Padding before and after, for the last dimensions: torch lists the last one first.
fn paddings(cx: &Cx<'_, '_>, rank: usize) -> Result<Vec<(usize, i64, i64)>> {
    let list = cx.ints("padding")?;
    Ok(list
        .chunks(2)
        .enumerate()
        .filter_map(|(k, p)| Some((rank.checked_sub(k + 1)?, p[0], *p.get(1)?)))
        .collect())
}

/// The part of `v` that appears before its element 0 (or after its last), `n` elements.
fn border(cx: &mut Cx<'_, '_>, v: Value, dim: usize, n: i64, mode: Mode, before: bool) -> Result<Value> {
    let size = cx.dims(v)?[dim];
    if mode == Mode::Reflect {
        let start = if before { 1 } else { size - 1 - n };
        let part = slice_dim(cx, v, dim, start, start + n)?;
        return Ok(cx.f.reverse(part, &[dim as i64])?);
    }
    let at = if before { 0 } else { size - 1 };
    let edge = slice_dim(cx, v, dim, at, at + 1)?;
    let mut dims = cx.dims(v)?;
    dims[dim] = n;
    cx.broadcast_to(edge, &dims)
}

fn pad(cx: &mut Cx<'_, '_>, mode: Mode) -> Lowered {
    let mut v = cx.tensor("self")?;
    let out = &cx.out(0)?.dims;
    if out.contains(&0) {
        let element = cx.element(v)?;
        return Ok(cx.full(out, element, 0)?.into());
    }
    for (dim, low, high) in paddings(cx, out.len())? {
        let mut parts = Vec::new();
        if low > 0 {
            parts.push(border(cx, v, dim, low, mode, true)?);
        }
        parts.push(v);
        if high > 0 {
            parts.push(border(cx, v, dim, high, mode, false)?);
        }
        let whole = cx.f.concatenate(&parts, dim as i64)?;
        let size = cx.dims(whole)?[dim];
        v = slice_dim(cx, whole, dim, (-low).max(0), size - (-high).max(0))?;
    }
    Ok(v.into())
}

/// The border's gradient, laid over the elements it was copied from.
fn folded(
    cx: &mut Cx<'_, '_>,
    part: Value,
    dim: usize,
    size: i64,
    mode: Mode,
    before: bool,
) -> Result<Value> {
    let (part, n) = if mode == Mode::Reflect {
        (cx.f.reverse(part, &[dim as i64])?, cx.dims(part)?[dim])
    } else {
        (sum_keep(cx, part, &[dim as i64])?, 1)
    };
    let skip = i64::from(mode == Mode::Reflect);
    let start = if before { skip } else { size - skip - n };
    pad_dim(cx, part, dim, start, size - start - n)
}

fn pad_backward(cx: &mut Cx<'_, '_>, mode: Mode) -> Lowered {
    let mut g = up(cx, "grad_output")?;
    let x = cx.tensor("self")?;
    let input = cx.dims(x)?;
    if input.contains(&0) || cx.dims(g)?.contains(&0) {
        let element = cx.element(g)?;
        return Ok(cx.full(&input, element, 0)?.into());
    }
    for (dim, low, high) in paddings(cx, input.len())? {
        let size = input[dim];
        // What was cut off got no gradient.
        g = pad_dim(cx, g, dim, (-low).max(0), (-high).max(0))?;
        let (low, high) = (low.max(0), high.max(0));
        let mut total = ex(slice_dim(cx, g, dim, low, low + size)?);
        if low > 0 {
            let part = slice_dim(cx, g, dim, 0, low)?;
            total = total + folded(cx, part, dim, size, mode, true)?;
        }
        if high > 0 {
            let part = slice_dim(cx, g, dim, low + size, low + size + high)?;
            total = total + folded(cx, part, dim, size, mode, false)?;
        }
        g = total.eval(cx)?;
    }
    Ok(g.into())
}

macro_rules! pads {
    ($($mode:ident $($name:literal $backward:literal)*;)*) => {
        pub(crate) const OPS: &[OpDef] = &[$($(
            OpDef::new($name, |cx| pad(cx, Mode::$mode)).amend(crate::layout::channels_last_as_self),
            OpDef::new($backward, |cx| pad_backward(cx, Mode::$mode))
                .amend(crate::layout::channels_last_as_self),
        )*)*];
    };
}
pads! {
    Reflect "reflection_pad1d" "reflection_pad1d_backward" "reflection_pad2d" "reflection_pad2d_backward"
        "reflection_pad3d" "reflection_pad3d_backward";
    Replicate "replication_pad1d" "replication_pad1d_backward" "replication_pad2d" "replication_pad2d_backward"
        "replication_pad3d" "replication_pad3d_backward";
}
