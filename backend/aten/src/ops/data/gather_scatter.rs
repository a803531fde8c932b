//! gather, scatter, scatter_add, scatter_reduce: one index an element, along one dimension.

use dtype::{Class, ElementType};
use stablehlo::ops::{Direction, GatherDimensions, ScatterDimensions};
use stablehlo::{Number, Value};

use super::along::Along;
use super::util::{Combine, at_least_1d, compare_to, count, head, zero, zeros};
use crate::{Cx, Dims, Error, ErrorKind, Lowered, OpDef, Result};

impl Along {
    fn is_empty(&self) -> bool {
        count(&self.index_sizes) == 0
    }

    fn in_range(&self, cx: &mut Cx<'_, '_>) -> Result<Value> {
        self.checked(cx, false, ErrorKind::Runtime, &self.out_of_bounds())
    }

    /// The sizes of the part of `self` that indices reach.
    fn reached(&self) -> Dims {
        let mut dims = self.index_sizes.clone();
        dims[self.dim] = self.sizes[self.dim];
        dims
    }

    /// The dimensions that go along, and the index as position vectors of one number.
    fn batching(&self) -> Vec<i64> {
        (0..self.sizes.len() as i64)
            .filter(|d| *d != self.dim as i64)
            .collect()
    }

    /// `base` with the elements at `at` combined with `updates`, which have the indices' sizes.
    fn scatter(
        &self,
        cx: &mut Cx<'_, '_>,
        base: Value,
        at: Value,
        updates: Value,
        how: Combine,
    ) -> Result<Value> {
        if self.is_empty() || count(&self.sizes) == 0 {
            return Ok(base);
        }
        let reached = self.reached();
        let part = head(cx, base, &reached)?;
        let batching = self.batching();
        let numbers = ScatterDimensions {
            inserted_window_dims: vec![self.dim as i64],
            input_batching_dims: batching.clone(),
            scatter_indices_batching_dims: batching,
            scatter_dims_to_operand_dims: vec![self.dim as i64],
            index_vector_dim: self.index_sizes.len() as i64,
            ..Default::default()
        };
        let part =
            cx.f.scatter(&[part], at, &[updates], &numbers, false, false, |f, e| {
                Ok(vec![how.body(f, e[0], e[1])?])
            })?[0];
        if reached == self.sizes {
            return Ok(part);
        }
        let origin = zero(cx, ElementType::S32)?;
        Ok(cx
            .f
            .dynamic_update_slice(base, part, &vec![origin; self.sizes.len()])?)
    }

    /// `src` cut to the indices' sizes, or a number; in this type.
    fn updates(&self, cx: &mut Cx<'_, '_>, element: ElementType) -> Result<Value> {
        if cx.has("src") {
            let src = cx.tensor("src")?;
            let src = at_least_1d(cx, src)?;
            let src = cx.cast(src, element)?;
            return head(cx, src, &self.index_sizes);
        }
        let value = cx.scalar("value", element)?;
        cx.broadcast_to(value, &self.index_sizes)
    }
}

fn gather(cx: &mut Cx<'_, '_>) -> Lowered {
    let out = cx.out(0)?;
    let along = Along::of(cx)?;
    let element = cx.element(along.base)?;
    if along.is_empty() {
        return Ok(zeros(cx, &out.dims, element)?.into());
    }
    let at = along.in_range(cx)?;
    if along.sizes[along.dim] == 0 {
        return Ok(zeros(cx, &out.dims, element)?.into());
    }
    let base = head(cx, along.base, &along.reached())?;
    let batching = along.batching();
    let numbers = GatherDimensions {
        collapsed_slice_dims: vec![along.dim as i64],
        operand_batching_dims: batching.clone(),
        start_indices_batching_dims: batching,
        start_index_map: vec![along.dim as i64],
        index_vector_dim: along.index_sizes.len() as i64,
        ..Default::default()
    };
    let slices = vec![1; along.sizes.len()];
    let taken = cx.f.gather(base, at, &numbers, &slices, false)?;
    Ok(cx.reshape(taken, &out.dims)?.into())
}

/// What `reduce` asks for, and whether the sum is then divided by the count.
pub(crate) fn reduction(cx: &Cx<'_, '_>) -> Result<(Combine, bool)> {
    Ok(match cx.str("reduce")? {
        None => (Combine::Set, false),
        Some("add" | "sum") => (Combine::Add, false),
        Some("multiply" | "prod") => (Combine::Multiply, false),
        Some("mean") => (Combine::Add, true),
        Some("amax") => (Combine::Max, false),
        Some("amin") => (Combine::Min, false),
        Some(other) => return Err(Error::unsupported(format!("the reduction {other}"))),
    })
}

/// The value in a type that this can be computed in.
pub(crate) fn reducible(cx: &mut Cx<'_, '_>, v: Value, how: Combine) -> Result<Value> {
    match how {
        Combine::Set => Ok(v),
        Combine::Min | Combine::Max if cx.element(v)? == ElementType::Pred => cx.cast(v, ElementType::U8),
        _ => cx.up(v),
    }
}

/// What changes nothing under this reduction.
pub(crate) fn identity_of(
    cx: &mut Cx<'_, '_>,
    dims: &[i64],
    element: ElementType,
    how: Combine,
) -> Result<Value> {
    let bits = element.bits();
    let number = match (how, element.class()) {
        (Combine::Set | Combine::Add, _) => Number::Bool(false),
        (Combine::Multiply, _) => Number::Bool(true),
        (Combine::Max, Class::Float) => Number::Float(f64::NEG_INFINITY),
        (Combine::Min, Class::Float) => Number::Float(f64::INFINITY),
        (Combine::Max, Class::Signed) => Number::Int(-(1i128 << (bits - 1))),
        (Combine::Min, Class::Signed) => Number::Int((1i128 << (bits - 1)) - 1),
        (Combine::Max, _) => Number::Int(0),
        (Combine::Min, _) => Number::Int((1i128 << bits) - 1),
    };
    cx.full(dims, element, number)
}

/// Sums over counts, an untouched element over 1; integers round down.
pub(crate) fn divided(cx: &mut Cx<'_, '_>, sum: Value, counts: Value) -> Result<Value> {
    let element = cx.element(sum)?;
    let one = cx.full_like(counts, 1)?;
    let counts = cx.f.maximum(counts, one)?;
    let counts = cx.cast(counts, element)?;
    let quotient = cx.f.divide(sum, counts)?;
    if element.class() != Class::Signed {
        return Ok(quotient);
    }
    let rest = cx.f.remainder(sum, counts)?;
    let below = compare_to(cx, rest, 0, Direction::Lt)?;
    let less = cx.full_like(quotient, 1)?;
    let less = cx.f.subtract(quotient, less)?;
    Ok(cx.f.select(below, less, quotient)?)
}

fn scatter(cx: &mut Cx<'_, '_>) -> Lowered {
    let out = cx.out(0)?;
    let (how, _) = reduction(cx)?;
    scatter_with(cx, how, &out.dims)
}

fn scatter_add(cx: &mut Cx<'_, '_>) -> Lowered {
    let out = cx.out(0)?;
    scatter_with(cx, Combine::Add, &out.dims)
}

fn scatter_with(cx: &mut Cx<'_, '_>, how: Combine, dims: &[i64]) -> Lowered {
    let along = Along::of(cx)?;
    let base = reducible(cx, along.base, how)?;
    let element = cx.element(base)?;
    let at = along.in_range(cx)?;
    let result = if along.is_empty() {
        base
    } else {
        let updates = along.updates(cx, element)?;
        along.scatter(cx, base, at, updates, how)?
    };
    Ok(cx.reshape(result, dims)?.into())
}

fn scatter_reduce(cx: &mut Cx<'_, '_>) -> Lowered {
    let out = cx.out(0)?;
    let (how, mean) = reduction(cx)?;
    let along = Along::of(cx)?;
    let base = reducible(cx, along.base, how)?;
    let element = cx.element(base)?;
    let at = along.in_range(cx)?;
    if along.is_empty() {
        return Ok(cx.reshape(base, &out.dims)?.into());
    }
    let updates = along.updates(cx, element)?;
    let include = cx.call.arg("include_self").is_none() || cx.bool("include_self")?;
    let start = if include {
        base
    } else {
        let touched = cx.full(&along.sizes, ElementType::Pred, false)?;
        let marks = cx.full(&along.index_sizes, ElementType::Pred, true)?;
        let touched = along.scatter(cx, touched, at, marks, Combine::Set)?;
        let neutral = identity_of(cx, &along.sizes, element, how)?;
        cx.f.select(touched, neutral, base)?
    };
    let mut reduced = along.scatter(cx, start, at, updates, how)?;
    if mean {
        let counts = cx.full(&along.sizes, ElementType::S32, i32::from(include))?;
        let ones = cx.full(&along.index_sizes, ElementType::S32, 1)?;
        let counts = along.scatter(cx, counts, at, ones, Combine::Add)?;
        reduced = divided(cx, reduced, counts)?;
    }
    Ok(cx.reshape(reduced, &out.dims)?.into())
}

pub(crate) const OPS: &[OpDef] = &[
    OpDef::new("gather", gather),
    OpDef::new("scatter", scatter).fits(&["value"]),
    OpDef::new("scatter_add", scatter_add),
    OpDef::new("scatter_reduce", scatter_reduce),
];
