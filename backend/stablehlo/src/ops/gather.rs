//! gather and the index bookkeeping that scatter shares.

use crate::attribute::{List, Props};
use crate::check::{Kinds, Operand, ensure};
use crate::{Dim, Dims, FunctionBuilder, Result, Value};

/// The dimension numbers of `gather`.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct GatherDimensions {
    /// Dimensions of the result that run over a slice.
    pub offset_dims: Vec<i64>,
    /// Dimensions of the operand dropped from the slice; the slice size there is 1.
    pub collapsed_slice_dims: Vec<i64>,
    /// Dimensions of the operand that go along with `start_indices_batching_dims`.
    pub operand_batching_dims: Vec<i64>,
    /// Dimensions of the indices that go along with `operand_batching_dims`.
    pub start_indices_batching_dims: Vec<i64>,
    /// Which dimension of the operand each number of an index vector is for.
    pub start_index_map: Vec<i64>,
    /// The dimension of the indices that holds an index vector; their rank when each index is one number.
    pub index_vector_dim: i64,
}

impl GatherDimensions {
    pub(crate) fn text(&self) -> String {
        format!(
            "#stablehlo.gather<offset_dims = {}, collapsed_slice_dims = {}, operand_batching_dims = {}, \
             start_indices_batching_dims = {}, start_index_map = {}, index_vector_dim = {}>",
            List(&self.offset_dims),
            List(&self.collapsed_slice_dims),
            List(&self.operand_batching_dims),
            List(&self.start_indices_batching_dims),
            List(&self.start_index_map),
            self.index_vector_dim
        )
    }
}

/// Refuses a list that is not ascending.
pub(crate) fn ascending(op: &str, what: &str, axes: &[i64]) -> Result<()> {
    ensure(op, axes.windows(2).all(|w| w[0] < w[1]), || {
        format!("{what} = {axes:?} must be ascending, each once")
    })
}

/// Checks what index operands of gather and scatter have in common; the dimensions of the indices without the index vector.
pub(crate) fn check_indices(
    operand: &Operand<'_>,
    indices: &Operand<'_>,
    map: (&str, &[i64]),
    index_vector_dim: i64,
    batching: [(&str, &[i64]); 2],
) -> Result<Dims> {
    indices.kinds(Kinds::INT)?;
    let rank = indices.rank() as i64;
    indices.require((0..=rank).contains(&index_vector_dim), || {
        format!("index_vector_dim = {index_vector_dim} must be from 0 to the rank")
    })?;
    let length = if index_vector_dim < rank {
        indices.dims[index_vector_dim as usize]
    } else {
        Dim::Static(1)
    };
    let given = Dim::Static(map.1.len() as i64);
    indices.require(length.merge(given).is_some(), || {
        format!(
            "{} has {} entries, must have as many as an index vector",
            map.0,
            map.1.len()
        )
    })?;
    let [(operand_name, operand_batching), (indices_name, indices_batching)] = batching;
    ascending(operand.op, operand_name, operand_batching)?;
    let batch_axes = operand.axes(operand_name, operand_batching)?;
    let index_axes = indices.axes(indices_name, indices_batching)?;
    indices.require(!indices_batching.contains(&index_vector_dim), || {
        format!("{indices_name} must not contain index_vector_dim")
    })?;
    ensure(operand.op, batch_axes.len() == index_axes.len(), || {
        format!("{operand_name} and {indices_name} must have the same length")
    })?;
    for (&a, &i) in batch_axes.iter().zip(&index_axes) {
        indices.require(operand.dims[a].merge(indices.dims[i]).is_some(), || {
            format!(
                "batching dimension {i} must equal dimension {a} of operand `{}` ({})",
                operand.name, operand.ty
            )
        })?;
    }
    let mut mapped = map.1.to_vec();
    mapped.extend_from_slice(operand_batching);
    operand.axes(&format!("{} and {operand_name}", map.0), &mapped)?;
    Ok(indices
        .dims
        .iter()
        .enumerate()
        .filter(|(i, _)| *i as i64 != index_vector_dim)
        .map(|(_, d)| *d)
        .collect())
}

/// Places `window` at the dimensions of `window_dims` and `batch` at the others.
pub(crate) fn interleave(
    op: &str,
    what: &str,
    window_dims: &[i64],
    window: &[Dim],
    batch: &[Dim],
) -> Result<Dims> {
    let rank = window.len() + batch.len();
    ascending(op, what, window_dims)?;
    ensure(op, window_dims.len() == window.len(), || {
        format!(
            "{what} has {} entries, the slice has {} dimensions left",
            window_dims.len(),
            window.len()
        )
    })?;
    ensure(
        op,
        window_dims.iter().all(|d| (0..rank as i64).contains(d)),
        || format!("{what} = {window_dims:?} must be dimensions of a tensor of rank {rank}"),
    )?;
    let (mut w, mut b) = (window.iter(), batch.iter());
    Ok((0..rank as i64)
        .filter_map(|i| {
            if window_dims.contains(&i) {
                w.next()
            } else {
                b.next()
            }
        })
        .copied()
        .collect())
}

/// The dimensions of `dims` that are in neither list.
pub(crate) fn without(dims: &[Dim], a: &[i64], b: &[i64]) -> Dims {
    dims.iter()
        .enumerate()
        .filter(|(i, _)| !a.contains(&(*i as i64)) && !b.contains(&(*i as i64)))
        .map(|(_, d)| *d)
        .collect()
}

/// The result's dimensions of a gather.
pub(crate) fn gather_dims(
    o: &Operand<'_>,
    indices: &Operand<'_>,
    d: &GatherDimensions,
    slice_sizes: &[Dim],
) -> Result<Dims> {
    let batch = check_indices(
        o,
        indices,
        ("start_index_map", &d.start_index_map),
        d.index_vector_dim,
        [
            ("operand_batching_dims", &d.operand_batching_dims),
            ("start_indices_batching_dims", &d.start_indices_batching_dims),
        ],
    )?;
    ascending(o.op, "collapsed_slice_dims", &d.collapsed_slice_dims)?;
    let mut dropped = d.collapsed_slice_dims.clone();
    dropped.extend_from_slice(&d.operand_batching_dims);
    for axis in o.axes("collapsed_slice_dims and operand_batching_dims", &dropped)? {
        o.require(slice_sizes[axis].size().is_none_or(|n| n <= 1), || {
            format!("the slice size of the dropped dimension {axis} must be at most 1")
        })?;
    }
    let window = without(slice_sizes, &dropped, &[]);
    interleave(o.op, "offset_dims", &d.offset_dims, &window, &batch)
}

impl FunctionBuilder<'_> {
    /// Collects slices of `operand` at the positions in `start_indices`, clamped into the operand.
    pub fn gather(
        &mut self,
        operand: Value,
        start_indices: Value,
        dimensions: &GatherDimensions,
        slice_sizes: &[i64],
        indices_are_sorted: bool,
    ) -> Result<Value> {
        const OP: &str = "stablehlo.gather";
        let o = self.operand(OP, 0, "operand", operand)?;
        let indices = self.operand(OP, 1, "start_indices", start_indices)?;
        o.per_dim("slice_sizes", slice_sizes)?;
        for (i, (&size, dim)) in slice_sizes.iter().zip(o.dims).enumerate() {
            o.require(size >= 0 && dim.limit().is_none_or(|n| size <= n), || {
                format!("dimension {i}: the slice size {size} must be at least 0 and at most the size")
            })?;
        }
        let sizes: Dims = slice_sizes.iter().map(|&n| Dim::Static(n)).collect();
        let dims = gather_dims(&o, &indices, dimensions, &sizes)?;
        let ty = self.result(&dims, o.element);
        let props = Props::new()
            .raw("dimension_numbers", dimensions.text())
            .i64s("slice_sizes", slice_sizes)
            .raw("indices_are_sorted", indices_are_sorted);
        self.emit(OP, &[operand, start_indices], &props, ty)
    }
}
