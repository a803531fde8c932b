//! index, index_put, take, put: indices of several dimensions at once, or of the flattened tensor.

use stablehlo::Value;
use stablehlo::ops::{GatherDimensions, ScatterDimensions};

use super::util::{Bounds, Combine, count, indices, take_flat, zeros};
use crate::cx::broadcast_dims;
use crate::{Cx, Dims, Error, ErrorKind, Lowered, OpDef, Result};

/// `self[indices]`, taken apart.
struct Indexed {
    /// The dimensions that have an index.
    dims: Vec<i64>,
    /// One position vector an element of the indices' common shape, which has the vector as last dimension.
    vectors: Value,
    /// Rank of the common shape.
    batch_rank: usize,
    /// Dimensions of the result that have no index.
    window: Vec<i64>,
    /// Sizes of the result.
    result: Dims,
}

impl Indexed {
    /// From the argument `indices`; `None` when nothing is indexed at all.
    fn of(cx: &mut Cx<'_, '_>, sizes: &[i64], checked: bool) -> Result<Option<Self>> {
        let given = cx.opt_tensors("indices")?;
        let named: Vec<(usize, Value)> = given
            .iter()
            .enumerate()
            .filter_map(|(d, t)| t.map(|t| (d, t)))
            .collect();
        if named.is_empty() {
            return Ok(None);
        }
        let mut shapes = Vec::with_capacity(named.len());
        for (_, t) in &named {
            shapes.push(cx.dims(*t)?);
        }
        let refs: Vec<&[i64]> = shapes.iter().map(|s| s.as_slice()).collect();
        let batch = broadcast_dims(&refs)?;
        let largest = named.iter().map(|(d, _)| sizes[*d]).max().unwrap_or(0);
        let mut vectors = Vec::with_capacity(named.len());
        for (k, (d, t)) in named.iter().enumerate() {
            if !cx.element(*t)?.is_integer() {
                return Err(Error::unsupported("an index that is no integer"));
            }
            if sizes[*d] == 0 && count(&batch) > 0 {
                return Err(Error::user(
                    ErrorKind::Index,
                    "index is out of bounds for dimension with size 0",
                ));
            }
            // torch counts the dimensions that have an index.
            let message = format!(
                "index {{}} is out of bounds for dimension {k} with size {}",
                sizes[*d]
            );
            let bounds = Bounds {
                size: sizes[*d],
                negative: true,
                kind: ErrorKind::Index,
                message: &message,
            };
            let at = if checked {
                indices(cx, *t, &bounds, largest)?
            } else {
                super::util::wrapped(cx, *t, sizes[*d], largest)?
            };
            let at = cx.broadcast_to(at, &batch)?;
            let mut column = batch.to_vec();
            column.push(1);
            vectors.push(cx.reshape(at, &column)?);
        }
        let vectors = match vectors.as_slice() {
            [one] => *one,
            many => cx.f.concatenate(many, batch.len() as i64)?,
        };
        let dims: Vec<i64> = named.iter().map(|(d, _)| *d as i64).collect();
        // Neighbours keep their place, scattered ones go to the front.
        let together = dims.windows(2).all(|w| w[1] == w[0] + 1);
        let place = if together { dims[0] as usize } else { 0 };
        let rest: Vec<i64> = (0..sizes.len() as i64).filter(|d| !dims.contains(d)).collect();
        let mut result: Dims = rest.iter().map(|d| sizes[*d as usize]).collect();
        for (i, d) in batch.iter().enumerate() {
            result.insert(place + i, *d);
        }
        let window = (0..rest.len())
            .map(|i| (if i < place { i } else { i + batch.len() }) as i64)
            .collect();
        Ok(Some(Self {
            dims,
            vectors,
            batch_rank: batch.len(),
            window,
            result,
        }))
    }

    fn gather(&self, cx: &mut Cx<'_, '_>, v: Value) -> Result<Value> {
        let sizes = cx.dims(v)?;
        if count(&self.result) == 0 {
            let element = cx.element(v)?;
            return zeros(cx, &self.result, element);
        }
        let numbers = GatherDimensions {
            offset_dims: self.window.clone(),
            collapsed_slice_dims: self.dims.clone(),
            start_index_map: self.dims.clone(),
            index_vector_dim: self.batch_rank as i64,
            ..Default::default()
        };
        let slices: Vec<i64> = (0..sizes.len())
            .map(|d| {
                if self.dims.contains(&(d as i64)) {
                    1
                } else {
                    sizes[d]
                }
            })
            .collect();
        Ok(cx.f.gather(v, self.vectors, &numbers, &slices, false)?)
    }

    fn scatter(&self, cx: &mut Cx<'_, '_>, base: Value, values: Value, how: Combine) -> Result<Value> {
        if count(&self.result) == 0 {
            return Ok(base);
        }
        let values = cx.broadcast_to(values, &self.result)?;
        let numbers = ScatterDimensions {
            update_window_dims: self.window.clone(),
            inserted_window_dims: self.dims.clone(),
            scatter_dims_to_operand_dims: self.dims.clone(),
            index_vector_dim: self.batch_rank as i64,
            ..Default::default()
        };
        let out = cx.f.scatter(
            &[base],
            self.vectors,
            &[values],
            &numbers,
            false,
            false,
            |f, e| Ok(vec![how.body(f, e[0], e[1])?]),
        )?;
        Ok(out[0])
    }
}

fn index_tensor(cx: &mut Cx<'_, '_>, checked: bool) -> Lowered {
    let v = cx.tensor("self")?;
    let sizes = cx.dims(v)?;
    Ok(match Indexed::of(cx, &sizes, checked)? {
        None => v,
        Some(at) => at.gather(cx, v)?,
    }
    .into())
}

fn index(cx: &mut Cx<'_, '_>) -> Lowered {
    index_tensor(cx, true)
}

fn _unsafe_index(cx: &mut Cx<'_, '_>) -> Lowered {
    index_tensor(cx, false)
}

/// Without leading dimensions of size 1 that the target does not have, as `values` may have them.
fn trimmed(cx: &mut Cx<'_, '_>, values: Value, rank: usize) -> Result<Value> {
    let dims = cx.dims(values)?;
    let extra = dims.len().saturating_sub(rank);
    if dims[..extra].iter().any(|d| *d != 1) {
        return Err(Error::unsupported(
            "values of more dimensions than what they are put in",
        ));
    }
    cx.reshape(values, &dims[extra..])
}

fn put_values(cx: &mut Cx<'_, '_>, checked: bool) -> Lowered {
    let base = cx.tensor("self")?;
    let how = if cx.bool("accumulate")? {
        Combine::Add
    } else {
        Combine::Set
    };
    let base = if how == Combine::Add { cx.up(base)? } else { base };
    let (sizes, element) = (cx.dims(base)?, cx.element(base)?);
    let values = cx.tensor("values")?;
    let values = cx.cast(values, element)?;
    Ok(match Indexed::of(cx, &sizes, checked)? {
        None => {
            let values = trimmed(cx, values, sizes.len())?;
            let values = cx.broadcast_to(values, &sizes)?;
            how.body(cx.f, base, values)?
        }
        Some(at) => {
            let values = trimmed(cx, values, at.result.len())?;
            at.scatter(cx, base, values, how)?
        }
    }
    .into())
}

fn index_put(cx: &mut Cx<'_, '_>) -> Lowered {
    let checked = !cx.bool("unsafe")?;
    put_values(cx, checked)
}

fn _unsafe_index_put(cx: &mut Cx<'_, '_>) -> Lowered {
    put_values(cx, false)
}

/// The argument `index` for a flattened tensor of this many elements, as rank 1.
fn flat_index(cx: &mut Cx<'_, '_>, size: i64) -> Result<Value> {
    let index = cx.tensor("index")?;
    let n = count(&cx.dims(index)?);
    let index = cx.reshape(index, &[n])?;
    let message = format!("out of range: tried to access index {{}} on a tensor of {size} elements.");
    let bounds = Bounds {
        size,
        negative: true,
        kind: ErrorKind::Index,
        message: &message,
    };
    indices(cx, index, &bounds, size)
}

fn take(cx: &mut Cx<'_, '_>) -> Lowered {
    let out = cx.out(0)?;
    let v = cx.tensor("self")?;
    let n = count(&cx.dims(v)?);
    let flat = cx.reshape(v, &[n])?;
    let at = flat_index(cx, n)?;
    let taken = take_flat(cx, flat, at)?;
    Ok(cx.reshape(taken, &out.dims)?.into())
}

fn put(cx: &mut Cx<'_, '_>) -> Lowered {
    let base = cx.tensor("self")?;
    let how = if cx.bool("accumulate")? {
        Combine::Add
    } else {
        Combine::Set
    };
    let base = if how == Combine::Add { cx.up(base)? } else { base };
    let (sizes, element) = (cx.dims(base)?, cx.element(base)?);
    let n = count(&sizes);
    let at = flat_index(cx, n)?;
    let many = cx.dims(at)?[0];
    if n == 0 || many == 0 {
        return Ok(base.into());
    }
    let flat = cx.reshape(base, &[n])?;
    let source = cx.tensor("source")?;
    let source = cx.cast(source, element)?;
    let source = cx.reshape(source, &[many])?;
    let put = super::along_dim::scatter_rows(cx, flat, 0, at, source, how)?;
    Ok(cx.reshape(put, &sizes)?.into())
}

pub(crate) const OPS: &[OpDef] = &[
    OpDef::new("index", index),
    OpDef::new("_unsafe_index", _unsafe_index),
    OpDef::new("index_put", index_put),
    OpDef::new("_index_put_impl", index_put),
    OpDef::new("_unsafe_index_put", _unsafe_index_put),
    OpDef::new("take", take),
    OpDef::new("put", put),
];
