//! select_backward, slice_backward, unfold_backward, select_scatter, slice_scatter.

use dtype::ElementType;
use stablehlo::Value;
use stablehlo::ops::{Direction, ScatterDimensions};

use super::util::{Combine, compare_to, count, move_dim, positions, zero, zeros};
use crate::{Cx, Lowered, OpDef, Result};

/// Elements `start`, `start + step`, ... of a dimension.
struct Range {
    dim: usize,
    start: i64,
    step: i64,
    length: i64,
}

impl Range {
    /// As torch reads `start:end:step` of a dimension of this size.
    fn of(dim: usize, size: i64, start: Option<i64>, end: Option<i64>, step: i64) -> Self {
        let clip = |n: i64| (if n < 0 { n.saturating_add(size) } else { n }).clamp(0, size);
        let start = clip(start.unwrap_or(0));
        let end = clip(end.unwrap_or(i64::MAX)).max(start);
        Self {
            dim,
            start,
            step,
            length: (end - start + step - 1) / step,
        }
    }

    /// `v` at these places of sizes `dims`, zeros elsewhere.
    fn spread(&self, cx: &mut Cx<'_, '_>, v: Value, dims: &[i64]) -> Result<Value> {
        let rank = dims.len();
        let element = cx.element(v)?;
        if self.length == 0 {
            return zeros(cx, dims, element);
        }
        let fill = zero(cx, element)?;
        let (mut low, mut high, mut between) = (vec![0; rank], vec![0; rank], vec![0; rank]);
        low[self.dim] = self.start;
        between[self.dim] = self.step - 1;
        high[self.dim] = dims[self.dim] - self.start - ((self.length - 1) * self.step + 1);
        Ok(cx.f.pad(v, fill, &low, &high, &between)?)
    }

    /// `base` with these places replaced.
    fn replace(&self, cx: &mut Cx<'_, '_>, base: Value, v: Value) -> Result<Value> {
        let dims = cx.dims(base)?;
        if self.length == 0 || count(&dims) == 0 {
            return Ok(base);
        }
        let spread = self.spread(cx, v, &dims)?;
        let size = dims[self.dim];
        let at = positions(cx, &[size], 0, ElementType::S64)?;
        let from = cx.full_like(at, self.start)?;
        let past = cx.f.subtract(at, from)?;
        let by = cx.full_like(at, self.step)?;
        let phase = cx.f.remainder(past, by)?;
        let on_step = compare_to(cx, phase, 0, Direction::Eq)?;
        let first = compare_to(cx, past, 0, Direction::Ge)?;
        let last = compare_to(cx, past, self.length * self.step, Direction::Lt)?;
        let on = cx.f.and(on_step, first)?;
        let on = cx.f.and(on, last)?;
        let on = cx.f.broadcast_in_dim(on, dims.as_slice(), &[self.dim as i64])?;
        Ok(cx.f.select(on, spread, base)?)
    }
}

/// The range of one element that `dim` and `index` name, and `v` with that dimension put in.
fn selected(cx: &mut Cx<'_, '_>, v: Value, dims: &[i64]) -> Result<(Range, Value)> {
    let dim = cx.dim("dim", dims.len())? as usize;
    let index = cx.int("index")?;
    let start = if index < 0 { index + dims[dim] } else { index };
    let mut sizes = dims.to_vec();
    sizes[dim] = 1;
    let range = Range {
        dim,
        start,
        step: 1,
        length: 1,
    };
    Ok((range, cx.reshape(v, &sizes)?))
}

fn select_backward(cx: &mut Cx<'_, '_>) -> Lowered {
    let dims = cx.ints("input_sizes")?;
    let grad = cx.tensor("grad_output")?;
    let (range, grad) = selected(cx, grad, &dims)?;
    Ok(range.spread(cx, grad, &dims)?.into())
}

fn slice_backward(cx: &mut Cx<'_, '_>) -> Lowered {
    let dims = cx.ints("input_sizes")?;
    let grad = cx.tensor("grad_output")?;
    let dim = cx.dim("dim", dims.len())? as usize;
    let range = Range::of(
        dim,
        dims[dim],
        cx.opt_int("start")?,
        cx.opt_int("end")?,
        cx.opt_int("step")?.unwrap_or(1),
    );
    Ok(range.spread(cx, grad, &dims)?.into())
}

fn select_scatter(cx: &mut Cx<'_, '_>) -> Lowered {
    let (base, src) = (cx.tensor("self")?, cx.tensor("src")?);
    let (dims, element) = (cx.dims(base)?, cx.element(base)?);
    let src = cx.cast(src, element)?;
    let (range, src) = selected(cx, src, &dims)?;
    Ok(range.replace(cx, base, src)?.into())
}

fn slice_scatter(cx: &mut Cx<'_, '_>) -> Lowered {
    let (base, src) = (cx.tensor("self")?, cx.tensor("src")?);
    let (dims, element) = (cx.dims(base)?, cx.element(base)?);
    let src = cx.cast(src, element)?;
    let dim = cx.opt_int("dim")?.unwrap_or(0);
    let dim = crate::cx::wrap_dim(dim, dims.len()) as usize;
    let range = Range::of(
        dim,
        dims[dim],
        cx.opt_int("start")?,
        cx.opt_int("end")?,
        cx.opt_int("step")?.unwrap_or(1),
    );
    let mut sizes = dims.to_vec();
    sizes[dim] = range.length;
    let src = cx.broadcast_to(src, &sizes)?;
    Ok(range.replace(cx, base, src)?.into())
}

fn unfold_backward(cx: &mut Cx<'_, '_>) -> Lowered {
    // Above this many elements a window, one scatter is smaller than as many sums.
    const MOST_SUMS: i64 = 32;
    let dims = cx.ints("input_sizes")?;
    let grad = cx.tensor("grad_in")?;
    let grad = cx.up(grad)?;
    let element = cx.element(grad)?;
    let (size, step) = (cx.int("size")?, cx.int("step")?);
    if dims.is_empty() {
        let init = zero(cx, element)?;
        let axes = super::util::all_axes(cx, grad)?;
        return Ok(super::util::reduce(cx, grad, init, &axes, Combine::Add)?.into());
    }
    let dim = cx.dim("dim", dims.len())? as usize;
    let (rank, windows) = (dims.len(), cx.dims(grad)?[dim]);
    // A gradient of one row stands for all rows: torch's decomposition of istft gives its window so.
    let mut sizes = dims.to_vec();
    sizes[dim] = windows;
    sizes.push(size);
    let grad = cx.broadcast_to(grad, &sizes)?;
    if count(&sizes) == 0 {
        return Ok(zeros(cx, &dims, element)?.into());
    }
    if size <= MOST_SUMS {
        let mut sum = None;
        for k in 0..size {
            let part = super::util::slice_dim(cx, grad, rank, k, k + 1, 1)?;
            let part = cx.reshape(part, &sizes[..rank])?;
            let range = Range {
                dim,
                start: k,
                step,
                length: windows,
            };
            let spread = range.spread(cx, part, &dims)?;
            sum = Some(match sum {
                None => spread,
                Some(sum) => cx.f.add(sum, spread)?,
            });
        }
        if let Some(sum) = sum {
            return Ok(sum.into());
        }
    }
    let at = positions(cx, &[windows, size], 0, ElementType::S32)?;
    let by = cx.full_like(at, step)?;
    let at = cx.f.multiply(at, by)?;
    let offset = positions(cx, &[windows, size], 1, ElementType::S32)?;
    let at = cx.f.add(at, offset)?;
    let at = cx.reshape(at, &[windows * size])?;
    let rows = move_dim(cx, grad, dim, 0)?;
    let rows = move_dim(cx, rows, rank, 1)?;
    let mut flat = cx.dims(rows)?;
    flat.remove(1);
    flat[0] = windows * size;
    let rows = cx.reshape(rows, &flat)?;
    flat[0] = dims[dim];
    let base = zeros(cx, &flat, element)?;
    let numbers = ScatterDimensions {
        update_window_dims: (1..rank as i64).collect(),
        inserted_window_dims: vec![0],
        scatter_dims_to_operand_dims: vec![0],
        index_vector_dim: 1,
        ..Default::default()
    };
    let sum =
        cx.f.scatter(&[base], at, &[rows], &numbers, false, false, |f, e| {
            Ok(vec![f.add(e[0], e[1])?])
        })?[0];
    Ok(move_dim(cx, sum, 0, dim)?.into())
}

pub(crate) const OPS: &[OpDef] = &[
    OpDef::new("select_backward", select_backward),
    OpDef::new("slice_backward", slice_backward),
    OpDef::new("select_scatter", select_scatter),
    OpDef::new("slice_scatter", slice_scatter),
    OpDef::new("unfold_backward", unfold_backward),
];
