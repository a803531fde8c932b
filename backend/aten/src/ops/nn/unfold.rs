//! im2col and col2im: the windows of an image as columns, and their sum back into an image.

use stablehlo::Value;

use super::util::{sum, up, window_list};
use crate::{Cx, Lowered, OpDef, Result};

/// The windows' parameters, an entry for each of the two dimensions.
struct Windows {
    kernel: Vec<i64>,
    dilation: Vec<i64>,
    padding: Vec<i64>,
    stride: Vec<i64>,
}

impl Windows {
    fn read(cx: &Cx<'_, '_>) -> Result<Self> {
        let list = |name| window_list(cx, name, 2, || vec![1; 2]);
        Ok(Self {
            kernel: list("kernel_size")?,
            dilation: list("dilation")?,
            padding: list("padding")?,
            stride: list("stride")?,
        })
    }

    /// Positions of the window over an image dimension.
    fn positions(&self, d: usize, size: i64) -> i64 {
        (size + 2 * self.padding[d] - self.dilation[d] * (self.kernel[d] - 1) - 1) / self.stride[d] + 1
    }

    /// Each element of the kernel.
    fn elements(&self) -> impl Iterator<Item = [i64; 2]> + '_ {
        (0..self.kernel[0]).flat_map(|i| (0..self.kernel[1]).map(move |j| [i, j]))
    }
}

fn im2col(cx: &mut Cx<'_, '_>) -> Lowered {
    let x = cx.tensor("self")?;
    let out = &cx.out(0)?.dims;
    let (dims, element) = (cx.dims(x)?, cx.element(x)?);
    if out.contains(&0) {
        return Ok(cx.full(out, element, 0)?.into());
    }
    let w = Windows::read(cx)?;
    let [c, h, width] = [dims[dims.len() - 3], dims[dims.len() - 2], dims[dims.len() - 1]];
    let n = if dims.len() == 4 { dims[0] } else { 1 };
    let x = cx.reshape(x, &[n, c, h, width])?;
    let zero = cx.full(&[], element, 0)?;
    let pad = [0, 0, w.padding[0], w.padding[1]];
    let x = cx.f.pad(x, zero, &pad, &pad, &[0; 4])?;
    let steps = [w.positions(0, h), w.positions(1, width)];
    let mut parts = Vec::new();
    for at in w.elements() {
        let start: Vec<i64> = (0..2).map(|d| at[d] * w.dilation[d]).collect();
        let end: Vec<i64> = (0..2)
            .map(|d| start[d] + (steps[d] - 1) * w.stride[d] + 1)
            .collect();
        let part = cx.f.slice(
            x,
            &[0, 0, start[0], start[1]],
            &[n, c, end[0], end[1]],
            &[1, 1, w.stride[0], w.stride[1]],
        )?;
        parts.push(cx.reshape(part, &[n, c, 1, steps[0] * steps[1]])?);
    }
    let all = cx.f.concatenate(&parts, 2)?;
    Ok(cx.reshape(all, out)?.into())
}

fn col2im(cx: &mut Cx<'_, '_>) -> Lowered {
    let columns = up(cx, "self")?;
    let out = &cx.out(0)?.dims;
    let element = cx.element(columns)?;
    if out.contains(&0) {
        return Ok(cx.full(out, element, 0)?.into());
    }
    let w = Windows::read(cx)?;
    let size = window_list(cx, "output_size", 2, || vec![1; 2])?;
    let c = out[out.len() - 3];
    let n = if out.len() == 4 { out[0] } else { 1 };
    let steps = [w.positions(0, size[0]), w.positions(1, size[1])];
    let taps = w.kernel[0] * w.kernel[1];
    let columns = cx.reshape(columns, &[n, c, taps, steps[0], steps[1]])?;
    let zero = cx.full(&[], element, 0)?;
    let mut total: Option<Value> = None;
    for (k, at) in w.elements().enumerate() {
        let part = super::util::slice_dim(cx, columns, 2, k as i64, k as i64 + 1)?;
        let part = sum(cx, part, &[2])?;
        let low: Vec<i64> = (0..2).map(|d| at[d] * w.dilation[d] - w.padding[d]).collect();
        let high: Vec<i64> = (0..2)
            .map(|d| size[d] - low[d] - (steps[d] - 1) * w.stride[d] - 1)
            .collect();
        let part = cx.f.pad(
            part,
            zero,
            &[0, 0, low[0], low[1]],
            &[0, 0, high[0], high[1]],
            &[0, 0, w.stride[0] - 1, w.stride[1] - 1],
        )?;
        total = Some(match total {
            Some(sum) => cx.f.add(sum, part)?,
            None => part,
        });
    }
    let total = match total {
        Some(v) => v,
        None => cx.full(out, element, 0)?,
    };
    Ok(cx.reshape(total, out)?.into())
}

pub(crate) const OPS: &[OpDef] = &[OpDef::new("im2col", im2col), OpDef::new("col2im", col2im)];
