//! index_select, index_add, index_copy, index_fill, index_reduce: whole slices at indices along one dimension.

use stablehlo::Value;
use stablehlo::ops::{GatherDimensions, ScatterDimensions};

use super::along::Along;
use super::gather_scatter::{identity_of, reduction};
use super::util::{Bounds, Combine, check_bounds, count, zeros};
use crate::{Cx, ElementType, ErrorKind, Lowered, OpDef, Result};

/// Slices of `v` along `dim` at indices of rank 1.
pub(crate) fn gather_rows(cx: &mut Cx<'_, '_>, v: Value, dim: usize, at: Value) -> Result<Value> {
    let mut sizes = cx.dims(v)?;
    let n = cx.dims(at)?[0];
    if count(&sizes) == 0 || n == 0 {
        sizes[dim] = n;
        let element = cx.element(v)?;
        return zeros(cx, &sizes, element);
    }
    sizes[dim] = 1;
    let numbers = GatherDimensions {
        offset_dims: (0..sizes.len() as i64).filter(|d| *d != dim as i64).collect(),
        collapsed_slice_dims: vec![dim as i64],
        start_index_map: vec![dim as i64],
        index_vector_dim: 1,
        ..Default::default()
    };
    Ok(cx.f.gather(v, at, &numbers, &sizes, false)?)
}

/// `base` with slices along `dim` at indices of rank 1 combined with those of `updates`.
pub(crate) fn scatter_rows(
    cx: &mut Cx<'_, '_>,
    base: Value,
    dim: usize,
    at: Value,
    updates: Value,
    how: Combine,
) -> Result<Value> {
    let rank = cx.rank(base)?;
    if count(&cx.dims(base)?) == 0 || count(&cx.dims(updates)?) == 0 {
        return Ok(base);
    }
    let numbers = ScatterDimensions {
        update_window_dims: (0..rank as i64).filter(|d| *d != dim as i64).collect(),
        inserted_window_dims: vec![dim as i64],
        scatter_dims_to_operand_dims: vec![dim as i64],
        index_vector_dim: 1,
        ..Default::default()
    };
    let out =
        cx.f.scatter(&[base], at, &[updates], &numbers, false, false, |f, e| {
            Ok(vec![how.body(f, e[0], e[1])?])
        })?;
    Ok(out[0])
}

impl Along {
    /// `source` as rank 1 or more, in this type.
    fn source(&self, cx: &mut Cx<'_, '_>, element: ElementType) -> Result<Value> {
        let source = cx.tensor("source")?;
        let source = cx.cast(source, element)?;
        let mut dims = self.sizes.clone();
        dims[self.dim] = cx.dims(self.index)?[0];
        cx.reshape(source, &dims)
    }
}

/// In the result's sizes, which may be of rank 0.
fn finish(cx: &mut Cx<'_, '_>, v: Value) -> Lowered {
    let out = cx.out(0)?;
    Ok(cx.reshape(v, &out.dims)?.into())
}

const OUT_OF_RANGE: &str = "index out of range in self";

fn index_select(cx: &mut Cx<'_, '_>) -> Lowered {
    let along = Along::of(cx)?;
    let inner = along.dim > 0 && along.sizes.len() > 1;
    let (kind, text) = if inner {
        let text = format!(
            "INDICES element is out of DATA bounds, id={{}} axis_dim={}",
            along.size()
        );
        (ErrorKind::Runtime, text)
    } else {
        (ErrorKind::Index, OUT_OF_RANGE.to_owned())
    };
    let at = along.checked(cx, false, kind, &text)?;
    let rows = gather_rows(cx, along.base, along.dim, at)?;
    finish(cx, rows)
}

fn index_add(cx: &mut Cx<'_, '_>) -> Lowered {
    let along = Along::of(cx)?;
    let base = cx.up(along.base)?;
    let element = cx.element(base)?;
    let source = along.source(cx, element)?;
    let source = match cx.opt_scalar("alpha", element)? {
        None => source,
        Some(alpha) => {
            let dims = cx.dims(source)?;
            let alpha = cx.broadcast_to(alpha, &dims)?;
            Combine::Multiply.body(cx.f, source, alpha)?
        }
    };
    let at = if along.sizes.len() > 1 {
        along.checked(cx, false, ErrorKind::Runtime, &along.out_of_bounds())?
    } else {
        along.checked(cx, false, ErrorKind::Index, OUT_OF_RANGE)?
    };
    let sum = scatter_rows(cx, base, along.dim, at, source, Combine::Add)?;
    finish(cx, sum)
}

fn index_copy(cx: &mut Cx<'_, '_>) -> Lowered {
    let along = Along::of(cx)?;
    let element = cx.element(along.base)?;
    let source = along.source(cx, element)?;
    let text = format!("index_copy_(): {}", along.out_of_bounds());
    let at = along.checked(cx, false, ErrorKind::Index, &text)?;
    let copied = scatter_rows(cx, along.base, along.dim, at, source, Combine::Set)?;
    finish(cx, copied)
}

fn index_fill(cx: &mut Cx<'_, '_>) -> Lowered {
    let along = Along::of(cx)?;
    let element = cx.element(along.base)?;
    let value = cx.scalar("value", element)?;
    let at = along.checked(cx, true, ErrorKind::Index, &along.out_of_bounds())?;
    let mut dims = along.sizes.clone();
    dims[along.dim] = cx.dims(at)?[0];
    let values = cx.broadcast_to(value, &dims)?;
    let filled = scatter_rows(cx, along.base, along.dim, at, values, Combine::Set)?;
    finish(cx, filled)
}

fn index_reduce(cx: &mut Cx<'_, '_>) -> Lowered {
    let along = Along::of(cx)?;
    let (how, mean) = reduction(cx)?;
    let base = super::gather_scatter::reducible(cx, along.base, how)?;
    let element = cx.element(base)?;
    let source = along.source(cx, element)?;
    let bounds = Bounds {
        size: along.size(),
        negative: false,
        kind: ErrorKind::Index,
        message: OUT_OF_RANGE,
    };
    check_bounds(cx, along.index, &bounds)?;
    let at = cx.cast(along.index, super::util::index_type(along.size()))?;
    let include = cx.call.arg("include_self").is_none() || cx.bool("include_self")?;
    let dims = cx.dims(base)?;
    let start = if include {
        base
    } else {
        let touched = cx.full(&dims, ElementType::Pred, false)?;
        let marks_dims = cx.dims(source)?;
        let marks = cx.full(&marks_dims, ElementType::Pred, true)?;
        let touched = scatter_rows(cx, touched, along.dim, at, marks, Combine::Set)?;
        let neutral = identity_of(cx, &dims, element, how)?;
        cx.f.select(touched, neutral, base)?
    };
    let mut reduced = scatter_rows(cx, start, along.dim, at, source, how)?;
    if mean {
        let ones_dims = cx.dims(source)?;
        let ones = cx.full(&ones_dims, ElementType::S32, 1)?;
        let counts = cx.full(&dims, ElementType::S32, i32::from(include))?;
        let counts = scatter_rows(cx, counts, along.dim, at, ones, Combine::Add)?;
        reduced = super::gather_scatter::divided(cx, reduced, counts)?;
    }
    finish(cx, reduced)
}

pub(crate) const OPS: &[OpDef] = &[
    OpDef::new("index_select", index_select),
    OpDef::new("index_add", index_add),
    OpDef::new("index_copy", index_copy),
    OpDef::new("index_fill", index_fill).fits(&["value"]),
    OpDef::new("index_reduce", index_reduce),
];
