//! Rows as they were before they were merged into one dimension.
//!
//! Torch makes a matrix of what linear layers get, `(batch, length, width)` as `(batch * length, width)`. Where that was
//! transposed before, as the heads of an attention are, a matrix has to be put in order in memory, which a TPU does in two
//! passes; taken apart it is used as it lies.

use stablehlo::Value;

use crate::{Cx, Result};

/// The most dimensions that rows are taken apart into.
const MOST: usize = 6;

/// A matrix in the dimensions that its rows had, and one of columns; nothing for what lies in order anyway.
pub(crate) fn rows_apart(cx: &mut Cx<'_, '_>, matrix: Value) -> Result<Option<(Value, Vec<i64>)>> {
    let sizes = cx.dims(matrix)?;
    let (Some(source), [row, column]) = (cx.f.operand_of("stablehlo.reshape", matrix), &sizes[..]) else {
        return Ok(None);
    };
    if !["stablehlo.transpose", "stablehlo.concatenate"].contains(&cx.f.op_of(source)) || row * column == 0 {
        return Ok(None);
    }
    let dims = cx.dims(source)?;
    let splits = |at: &usize| {
        dims[..*at].iter().product::<i64>() == *row && dims[*at..].iter().product::<i64>() == *column
    };
    let Some(at) = (2..=MOST.min(dims.len())).find(splits) else {
        return Ok(None);
    };
    let rows = dims[..at].to_vec();
    let wide: Vec<i64> = rows.iter().copied().chain([*column]).collect();
    Ok(Some((cx.reshape(source, &wide)?, rows)))
}
