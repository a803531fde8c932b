//! Scatters that several families need: into rows, and into the planes of each row.

use stablehlo::Value;
use stablehlo::ops::ScatterDimensions;

use crate::{Cx, Result};

/// Adds rows of `updates` (M, ...) to `base` (N, ...) at `indices` (M); those out of range are dropped.
pub(super) fn add_rows(cx: &mut Cx<'_, '_>, base: Value, indices: Value, updates: Value) -> Result<Value> {
    let rank = cx.rank(base)? as i64;
    let numbers = ScatterDimensions {
        update_window_dims: (1..rank).collect(),
        inserted_window_dims: vec![0],
        scatter_dims_to_operand_dims: vec![0],
        index_vector_dim: 1,
        ..ScatterDimensions::default()
    };
    let r =
        cx.f.scatter(&[base], indices, &[updates], &numbers, false, false, |f, e| {
            Ok(vec![f.add(e[0], e[1])?])
        })?;
    Ok(r[0])
}

/// Numbers for scattering (R, K) updates into (R, P) by (R, K) indices into each row.
fn flat() -> ScatterDimensions {
    ScatterDimensions {
        inserted_window_dims: vec![1],
        input_batching_dims: vec![0],
        scatter_indices_batching_dims: vec![0],
        scatter_dims_to_operand_dims: vec![1],
        index_vector_dim: 2,
        ..ScatterDimensions::default()
    }
}

/// Sums `updates` (R, K) by `indices` (R, K) into rows of `size`.
pub(super) fn add_flat(cx: &mut Cx<'_, '_>, size: i64, indices: Value, updates: Value) -> Result<Value> {
    let (rows, element) = (cx.dims(updates)?[0], cx.element(updates)?);
    let base = cx.full(&[rows, size], element, 0)?;
    let r =
        cx.f.scatter(&[base], indices, &[updates], &flat(), false, false, |f, e| {
            Ok(vec![f.add(e[0], e[1])?])
        })?;
    Ok(r[0])
}

/// Puts `updates` (R, K) at `indices` (R, K) into rows of `size`, zero elsewhere.
pub(super) fn set_flat(cx: &mut Cx<'_, '_>, size: i64, indices: Value, updates: Value) -> Result<Value> {
    let (rows, element) = (cx.dims(updates)?[0], cx.element(updates)?);
    let base = cx.full(&[rows, size], element, 0)?;
    let r =
        cx.f.scatter(&[base], indices, &[updates], &flat(), false, false, |_, e| {
            Ok(vec![e[1]])
        })?;
    Ok(r[0])
}
