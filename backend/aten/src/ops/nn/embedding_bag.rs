//! `_embedding_bag` and its gradients: bags of embeddings summed, averaged, or their maximum.

use stablehlo::Value;
use stablehlo::ops::ScatterDimensions;

use super::embedding::frequencies;
use super::ex::{ex, select};
use super::scatter::add_rows;
use super::util::{along, check_range, opt_as, sum, take_at, up};
use crate::{Cx, ElementType, Error, ErrorKind, Lowered, OpDef, Result};

const SUM: i64 = 0;
const MEAN: i64 = 1;
const MAX: i64 = 2;

/// The bag of each of `n` positions: the last one that starts at or before it, found by halving.
fn bags(cx: &mut Cx<'_, '_>, offsets: Value, n: i64) -> Result<Value> {
    let count = cx.dims(offsets)?[0];
    let offsets = cx.cast(offsets, ElementType::S64)?;
    let place = cx.f.iota(&[n], ElementType::S64, 0)?;
    let mut low = cx.full(&[n], ElementType::S64, 0)?;
    let mut step = (count.max(1) as u64).next_power_of_two() as i64 / 2;
    // The first bag starts at 0, so `low` always holds.
    while step > 0 {
        let next = (ex(low) + step as f64).eval(cx)?;
        let inside = ex(next).lt(count as f64);
        let bounded = ex(next).min((count - 1) as f64).eval(cx)?;
        let start = take_at(cx, offsets, 0, bounded, &[count])?;
        low = select(inside.and(ex(start).le(place)), next, low).eval(cx)?;
        step /= 2;
    }
    Ok(low)
}

/// What the forward and backward ops share.
struct Bag {
    indices: Value,
    bag: Value,
    /// Positions that count: not of the padding index.
    counts: Option<Value>,
    mode: i64,
    n: i64,
}

fn read(cx: &mut Cx<'_, '_>, bag_count: i64) -> Result<Bag> {
    let (indices, offsets) = (cx.tensor("indices")?, cx.tensor("offsets")?);
    let n = cx.dims(indices)?.iter().product();
    let starts = cx.dims(offsets)?[0].min(bag_count);
    let offsets = super::util::slice_dim(cx, offsets, 0, 0, starts)?;
    let bag = bags(cx, offsets, n)?;
    let padding = cx.opt_int("padding_idx")?.unwrap_or(-1);
    let counts = match padding >= 0 {
        true => Some(ex(indices).ne(padding as f64).eval(cx)?),
        false => None,
    };
    Ok(Bag {
        indices,
        bag,
        counts,
        mode: cx.int("mode")?,
        n,
    })
}

/// Rows that do not count are zero.
fn silence(cx: &mut Cx<'_, '_>, rows: Value, bag: &Bag) -> Result<Value> {
    let Some(counts) = bag.counts else {
        return Ok(rows);
    };
    let rank = cx.rank(rows)?;
    let counts = along(cx, counts, 0, rank)?;
    select(counts, rows, 0.0).eval(cx)
}

/// How many positions of each bag count.
fn bag_sizes(cx: &mut Cx<'_, '_>, bag: &Bag, bag_count: i64) -> Result<Value> {
    let ones = cx.full(&[bag.n], ElementType::S64, 1)?;
    let ones = silence(cx, ones, bag)?;
    let zeros = cx.full(&[bag_count], ElementType::S64, 0)?;
    add_rows(cx, zeros, bag.bag, ones)
}

/// The values torch wants at this place, or zeros where it keeps nothing.
fn kept(cx: &mut Cx<'_, '_>, k: usize, v: Option<Value>) -> Result<Option<Value>> {
    if !cx.wants(k) {
        return Ok(None);
    }
    let out = cx.out(k)?;
    match v {
        Some(v) if cx.dims(v)? == out.dims => Ok(Some(v)),
        _ => Ok(Some(cx.full(&out.dims, out.element, 0)?)),
    }
}

fn embedding_bag(cx: &mut Cx<'_, '_>) -> Lowered {
    let w = up(cx, "weight")?;
    let (sizes, element) = (cx.dims(w)?, cx.element(w)?);
    let out = &cx.out(0)?.dims;
    let (bag_count, width) = (out[0], out[1]);
    let indices = cx.tensor("indices")?;
    if cx.rank(indices)? != 1 {
        return Err(Error::unsupported("indices of several dimensions"));
    }
    if cx.dims(indices)?[0] == 0 || out.contains(&0) || sizes[0] == 0 {
        let y = cx.full(out, element, 0)?;
        return Ok(vec![
            Some(y),
            kept(cx, 1, None)?,
            kept(cx, 2, None)?,
            kept(cx, 3, None)?,
        ]
        .into());
    }
    check_range(
        cx,
        indices,
        sizes[0],
        None,
        "embedding_bag: Expected idx >= 0 && idx < num_embeddings but found idx to be {}",
        ErrorKind::Runtime,
    )?;
    let bag = read(cx, bag_count)?;
    let size = bag_sizes(cx, &bag, bag_count)?;
    let mut rows = take_at(cx, w, 0, bag.indices, &sizes)?;
    if let Some(p) = opt_as(cx, "per_sample_weights", element)? {
        let p = along(cx, p, 0, 2)?;
        rows = (ex(rows) * p).eval(cx)?;
    }
    let (y, max_indices) = if bag.mode == MAX {
        max_of(cx, rows, &bag, out)?
    } else {
        let rows = silence(cx, rows, &bag)?;
        let zeros = cx.full(&[bag_count, width], element, 0)?;
        let y = add_rows(cx, zeros, bag.bag, rows)?;
        if bag.mode == MEAN {
            let n = ex(size).max(1.0).cast(element).eval(cx)?;
            let n = along(cx, n, 0, 2)?;
            ((ex(y) / n).eval(cx)?, None)
        } else {
            (y, None)
        }
    };
    Ok(vec![
        Some(y),
        kept(cx, 1, Some(bag.bag))?,
        kept(cx, 2, Some(size))?,
        kept(cx, 3, max_indices)?,
    ]
    .into())
}

/// The maximum of each bag, zero for an empty one, and which index it is from: the first that is as great.
fn max_of(cx: &mut Cx<'_, '_>, rows: Value, bag: &Bag, out: &[i64]) -> Result<(Value, Option<Value>)> {
    let element = cx.element(rows)?;
    let numbers = ScatterDimensions {
        update_window_dims: vec![1],
        inserted_window_dims: vec![0],
        scatter_dims_to_operand_dims: vec![0],
        index_vector_dim: 1,
        ..ScatterDimensions::default()
    };
    let rows = match bag.counts {
        Some(counts) => {
            let counts = along(cx, counts, 0, 2)?;
            select(counts, rows, f64::NEG_INFINITY).eval(cx)?
        }
        None => rows,
    };
    let low = cx.full(out, element, f64::NEG_INFINITY)?;
    let max =
        cx.f.scatter(&[low], bag.bag, &[rows], &numbers, false, false, |f, e| {
            Ok(vec![f.maximum(e[0], e[1])?])
        })?[0];
    let own = take_at(cx, max, 0, bag.bag, out)?;
    let dims = cx.dims(rows)?;
    let place = cx.f.iota(dims.as_slice(), ElementType::S64, 0)?;
    let hit = select(ex(rows).eq(own), place, bag.n as f64).eval(cx)?;
    let none = cx.full(out, ElementType::S64, bag.n)?;
    let first =
        cx.f.scatter(&[none], bag.bag, &[hit], &numbers, false, false, |f, e| {
            Ok(vec![f.minimum(e[0], e[1])?])
        })?[0];
    let found = ex(first).lt(bag.n as f64).eval(cx)?;
    let at = ex(first).min((bag.n - 1) as f64).eval(cx)?;
    let index = take_at(cx, bag.indices, 0, at, &[bag.n])?;
    let index = cx.cast(index, ElementType::S64)?;
    let index = select(found, index, 0.0).eval(cx)?;
    let y = select(found, max, 0.0).eval(cx)?;
    Ok((y, Some(index)))
}

fn embedding_bag_backward(cx: &mut Cx<'_, '_>) -> Lowered {
    if cx.bool("sparse")? {
        return Err(Error::unsupported("sparse gradients"));
    }
    let g = up(cx, "grad")?;
    let bag_count = cx.dims(g)?[0];
    let bag = match cx.has("offsets") {
        true => read(cx, bag_count)?,
        false => stored(cx)?,
    };
    dense_grad(cx, g, &bag)
}

/// The bags as the forward op stored them.
fn stored(cx: &mut Cx<'_, '_>) -> Result<Bag> {
    let (indices, bag) = (cx.tensor("indices")?, cx.tensor("offset2bag")?);
    let padding = cx.opt_int("padding_idx")?.unwrap_or(-1);
    let counts = match padding >= 0 {
        true => Some(ex(indices).ne(padding as f64).eval(cx)?),
        false => None,
    };
    Ok(Bag {
        indices,
        bag,
        counts,
        mode: cx.int("mode")?,
        n: cx.dims(indices)?[0],
    })
}

fn dense_grad(cx: &mut Cx<'_, '_>, g: Value, bag: &Bag) -> Lowered {
    let (sizes, element) = (cx.dims(g)?, cx.element(g)?);
    let (bag_count, width) = (sizes[0], sizes[1]);
    let weights = cx.int("num_weights")?;
    let base = cx.full(&[weights, width], element, 0)?;
    if bag.n == 0 || sizes.contains(&0) || weights == 0 {
        return Ok(base.into());
    }
    if bag.mode == MAX {
        let chosen = cx.tensor("maximum_indices")?;
        // An element of an empty bag goes nowhere.
        let size = bag_sizes(cx, bag, bag_count)?;
        let size = along(cx, size, 0, 2)?;
        let g = select(ex(size).gt(0.0), g, 0.0).eval(cx)?;
        let (g, chosen) = (cx.f.transpose(g, &[1, 0])?, cx.f.transpose(chosen, &[1, 0])?);
        let grad = super::scatter::add_flat(cx, weights, chosen, g)?;
        return Ok(cx.f.transpose(grad, &[1, 0])?.into());
    }
    let mut g = g;
    if bag.mode == MEAN {
        let size = bag_sizes(cx, bag, bag_count)?;
        let size = ex(size).max(1.0).cast(element).eval(cx)?;
        let size = along(cx, size, 0, 2)?;
        g = (ex(g) / size).eval(cx)?;
    }
    let mut rows = take_at(cx, g, 0, bag.bag, &sizes)?;
    if let Some(p) = opt_as(cx, "per_sample_weights", element)? {
        let p = along(cx, p, 0, 2)?;
        rows = (ex(rows) * p).eval(cx)?;
    }
    if cx.bool("scale_grad_by_freq")? {
        let often = frequencies(cx, bag.indices, weights, element)?;
        let often = along(cx, often, 0, 2)?;
        rows = (ex(rows) / often).eval(cx)?;
    }
    let rows = silence(cx, rows, bag)?;
    Ok(add_rows(cx, base, bag.indices, rows)?.into())
}

fn per_sample_weights_backward(cx: &mut Cx<'_, '_>) -> Lowered {
    let (g, w) = (up(cx, "grad")?, up(cx, "weight")?);
    let (sizes, w_sizes) = (cx.dims(g)?, cx.dims(w)?);
    let element = cx.element(g)?;
    let indices = cx.tensor("indices")?;
    let n = cx.dims(indices)?[0];
    if cx.int("mode")? != SUM {
        return Err(Error::unsupported("per_sample_weights need mode='sum'"));
    }
    if n == 0 || sizes.contains(&0) {
        return Ok(cx.full(&[n], element, 0)?.into());
    }
    let bag = read(cx, sizes[0])?;
    let rows = take_at(cx, w, 0, bag.indices, &w_sizes)?;
    let own = take_at(cx, g, 0, bag.bag, &sizes)?;
    let products = (ex(rows) * own).eval(cx)?;
    let each = sum(cx, products, &[1])?;
    Ok(silence(cx, each, &bag)?.into())
}

pub(crate) const OPS: &[OpDef] = &[
    OpDef::new("_embedding_bag", embedding_bag),
    OpDef::new("_embedding_bag_forward_only", embedding_bag),
    OpDef::new("_embedding_bag_backward", embedding_bag_backward),
    OpDef::new("_embedding_bag_dense_backward", embedding_bag_backward),
    OpDef::new(
        "_embedding_bag_per_sample_weights_backward",
        per_sample_weights_backward,
    ),
];
