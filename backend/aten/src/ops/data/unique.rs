//! _unique, _unique2, unique_consecutive, unique_dim, unique_dim_consecutive.

use dtype::ElementType;
use stablehlo::Value;
use stablehlo::ops::Direction;

use super::dynamic_sizes::{meta_of, result, size_of};
use super::util::{
    Combine, count, count_true, head, index_type, move_dim, nan_mask, positions_of, prefix_sum, reduce,
    slice_dim, sort_key, take_rows, zeros,
};
use crate::cx::wrap_dim;
use crate::layout::Made;
use crate::{Arg, Call, Cx, Error, Lowered, OpDef, OutMeta, Result};

/// Rows that are to be told apart, put in order.
struct Rows {
    /// The rows as given: `[n, width]`.
    values: Value,
    /// Where in `values` each row of the order is from.
    from: Value,
    /// Whether a row of the order differs from the one before; the first does.
    starts: Value,
}

/// The dimension whose slices are compared; `None` for single elements.
fn compared_dim(call: &Call) -> Option<i64> {
    match call.arg("dim") {
        Some(Arg::Int(dim)) => Some(*dim),
        _ => None,
    }
}

/// `self` as rows.
fn rows(cx: &mut Cx<'_, '_>) -> Result<Value> {
    let v = cx.tensor("self")?;
    let dims = cx.dims(v)?;
    let Some(dim) = compared_dim(cx.call) else {
        return cx.reshape(v, &[count(&dims), 1]);
    };
    let v = super::util::at_least_1d(cx, v)?;
    let dims = cx.dims(v)?;
    let dim = wrap_dim(dim, dims.len()) as usize;
    let front = move_dim(cx, v, dim, 0)?;
    let n = dims[dim];
    let width = dims
        .iter()
        .enumerate()
        .filter(|(i, _)| *i != dim)
        .map(|(_, d)| d)
        .product();
    cx.reshape(front, &[n, width])
}

/// The order that sorts rows of keys, the first column first.
fn order_of(cx: &mut Cx<'_, '_>, keys: Value) -> Result<Value> {
    let dims = cx.dims(keys)?;
    let (n, width) = (dims[0], dims[1]);
    let element = index_type(n);
    let start = cx.f.iota(&[n], element, 0)?;
    let by_column = |cx: &mut Cx<'_, '_>, column: Value, order: Value| -> Result<Value> {
        let sorted = cx.f.sort(&[column, order], 0, true, |f, e| {
            Ok(vec![f.compare(e[0], e[1], Direction::Lt)?])
        })?;
        Ok(sorted[1])
    };
    if width == 1 {
        let column = cx.reshape(keys, &[n])?;
        return by_column(cx, column, start);
    }
    // Stable sorts from the last column to the first.
    let columns = cx.f.transpose(keys, &[1, 0])?;
    let last = cx.full(&[], ElementType::S32, width - 1)?;
    let numbers = stablehlo::ops::GatherDimensions {
        collapsed_slice_dims: vec![0],
        start_index_map: vec![0],
        index_vector_dim: 1,
        ..Default::default()
    };
    let done = cx.f.while_(
        &[last, start],
        |f, carried| {
            let zero = f.scalar(0i32)?;
            Ok(vec![f.compare(carried[0], zero, Direction::Ge)?])
        },
        |f, carried| {
            let (at, order) = (carried[0], carried[1]);
            let zero = f.scalar(0i32)?;
            let column = f.dynamic_slice(columns, &[at, zero], &[1, n])?;
            let column = f.reshape(column, &[n])?;
            let column = f.gather(column, order, &numbers, &[1], false)?;
            let sorted = f.sort(&[column, order], 0, true, |f, e| {
                Ok(vec![f.compare(e[0], e[1], Direction::Lt)?])
            })?;
            let one = f.scalar(1i32)?;
            Ok(vec![f.subtract(at, one)?, sorted[1]])
        },
    )?;
    Ok(done[1])
}

impl Rows {
    fn of(cx: &mut Cx<'_, '_>, sorted: bool) -> Result<Self> {
        let values = rows(cx)?;
        let dims = cx.dims(values)?;
        let n = dims[0];
        let nan = nan_mask(cx, values)?;
        let keys = if cx.element(values)?.is_complex() {
            if sorted {
                return Err(Error::unsupported("an order of complex numbers"));
            }
            values
        } else {
            sort_key(cx, values)?
        };
        let from = if sorted && count(&dims) > 0 {
            order_of(cx, keys)?
        } else {
            cx.f.iota(&[n], index_type(n), 0)?
        };
        let keys = if sorted { take_rows(cx, keys, from)? } else { keys };
        let before = slice_dim(cx, keys, 0, 0, n - 1, 1)?;
        let after = slice_dim(cx, keys, 0, 1, n, 1)?;
        let mut differs = cx.f.compare(before, after, Direction::Ne)?;
        if let Some(nan) = nan {
            // No NaN equals another.
            let nan = if sorted { take_rows(cx, nan, from)? } else { nan };
            let nan = slice_dim(cx, nan, 0, 1, n, 1)?;
            differs = cx.f.or(differs, nan)?;
        }
        let none = cx.full(&[], ElementType::Pred, false)?;
        let differs = reduce(cx, differs, none, &[1], Combine::Add)?;
        let first = cx.full(&[], ElementType::Pred, true)?;
        let starts = cx.f.pad(differs, first, &[1], &[0], &[0])?;
        Ok(Self { values, from, starts })
    }
}

/// Whether there is nothing to compare.
fn is_empty(call: &Call) -> Result<bool> {
    Ok(count(&meta_of(call, "self")?.dims) == 0)
}

fn sizes(cx: &mut Cx<'_, '_>, sorted: bool) -> Result<Vec<Value>> {
    if is_empty(cx.call)? {
        return Ok(vec![zeros(cx, &[], ElementType::S64)?]);
    }
    let rows = Rows::of(cx, sorted)?;
    Ok(vec![count_true(cx, rows.starts)?])
}

fn sorted_sizes(cx: &mut Cx<'_, '_>) -> Result<Vec<Value>> {
    sizes(cx, true)
}

fn consecutive_sizes(cx: &mut Cx<'_, '_>) -> Result<Vec<Value>> {
    sizes(cx, false)
}

fn flag(call: &Call, name: &str) -> bool {
    matches!(call.arg(name), Some(Arg::Bool(true)))
}

/// Values, inverse and counts; torch gives an empty tensor for what was not asked for.
fn shape(call: &Call) -> Result<Vec<Option<OutMeta>>> {
    let meta = meta_of(call, "self")?;
    let k = size_of(call)?;
    let (values, inverse) = match compared_dim(call) {
        Some(dim) if !meta.dims.is_empty() => {
            let dim = wrap_dim(dim, meta.dims.len()) as usize;
            let mut dims = meta.dims.to_vec();
            let n = dims[dim];
            dims[dim] = k;
            (dims, vec![n])
        }
        Some(_) => (vec![k], vec![1]),
        None => (vec![k], meta.dims.to_vec()),
    };
    let index = |wanted: bool, dims: &[i64]| {
        let empty = [0];
        result(if wanted { dims } else { &empty }, ElementType::S64)
    };
    // The variants along a dimension always give all three.
    let whole = compared_dim(call).is_some();
    let mut all = vec![
        result(&values, meta.element),
        index(whole || flag(call, "return_inverse"), &inverse),
    ];
    if call.op.name != "_unique" {
        all.push(index(whole || flag(call, "return_counts"), &[k]));
    }
    Ok(all)
}

/// torch moves the compared dimension to the front and leaves the result so in memory.
fn dim_first(call: &Call, _: &[&[i64]], made: &mut [Option<Made>]) {
    let (Some(dim), Some(Some(values))) = (compared_dim(call), made.first_mut()) else {
        return;
    };
    let rank = values.dims.len();
    let dim = wrap_dim(dim, rank) as usize;
    let others = (0..rank).filter(|d| *d != dim);
    let order: Vec<usize> = std::iter::once(dim).chain(others).collect();
    values.lay(&order);
}

fn lower(cx: &mut Cx<'_, '_>, sorted: bool) -> Lowered {
    let out = cx.out(0)?;
    let count_outs = cx.call.outs.len();
    if is_empty(cx.call)? {
        let mut all = Vec::new();
        for k in 0..count_outs {
            let out = cx.out(k)?;
            all.push(zeros(cx, &out.dims, out.element)?);
        }
        return Ok(all.into());
    }
    let rows = Rows::of(cx, sorted)?;
    let n = cx.dims(rows.values)?[0];
    let k = size_of(cx.call)?;
    let starts = positions_of(cx, rows.starts, k, n)?;
    let at = super::util::take_flat(cx, rows.from, starts)?;
    let chosen = take_rows(cx, rows.values, at)?;
    let chosen = match compared_dim(cx.call) {
        None => cx.reshape(chosen, &out.dims)?,
        Some(dim) => {
            let dim = wrap_dim(dim, out.dims.len()) as usize;
            let mut front = out.dims.to_vec();
            let size = front.remove(dim);
            front.insert(0, size);
            let chosen = cx.reshape(chosen, &front)?;
            move_dim(cx, chosen, 0, dim)?
        }
    };
    let mut all = vec![chosen];
    let inverse = cx.out(1)?;
    all.push(if count(&inverse.dims) == 0 {
        zeros(cx, &inverse.dims, ElementType::S64)?
    } else {
        let element = index_type(n);
        let ones = cx.cast(rows.starts, element)?;
        let group = prefix_sum(cx, ones)?;
        let group = super::util::plus(cx, group, -1)?;
        let group = if sorted {
            // Back to the order that the rows came in.
            cx.f.sort(&[rows.from, group], 0, false, |f, e| {
                Ok(vec![f.compare(e[0], e[1], Direction::Lt)?])
            })?[1]
        } else {
            group
        };
        cx.reshape(group, &inverse.dims)?
    });
    if count_outs > 2 {
        let counts = cx.out(2)?;
        all.push(if counts.dims[0] == 0 {
            zeros(cx, &counts.dims, ElementType::S64)?
        } else {
            let end = cx.full(&[1], cx.element(starts)?, n)?;
            let ends = cx.f.concatenate(&[starts, end], 0)?;
            let ends = slice_dim(cx, ends, 0, 1, k + 1, 1)?;
            let begins = head(cx, starts, &[k])?;
            cx.f.subtract(ends, begins)?
        });
    }
    Ok(all.into())
}

fn unique(cx: &mut Cx<'_, '_>) -> Lowered {
    lower(cx, true)
}

fn consecutive(cx: &mut Cx<'_, '_>) -> Lowered {
    lower(cx, false)
}

pub(crate) const OPS: &[OpDef] = &[
    OpDef::new("_unique", unique).data_dependent(sorted_sizes, shape),
    OpDef::new("_unique2", unique).data_dependent(sorted_sizes, shape),
    OpDef::new("unique_dim", unique)
        .data_dependent(sorted_sizes, shape)
        .amend(dim_first),
    OpDef::new("unique_consecutive", consecutive)
        .data_dependent(consecutive_sizes, shape)
        .amend(dim_first),
    OpDef::new("unique_dim_consecutive", consecutive)
        .data_dependent(consecutive_sizes, shape)
        .amend(dim_first),
];
