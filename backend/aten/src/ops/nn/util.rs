//! What the families share: reductions, constant gathers, lists of window parameters.

use dtype::Class;
use stablehlo::ops::GatherDimensions;
use stablehlo::{Number, Value};

use super::ex::ex;
use crate::loops::any;
use crate::{Arg, Call, Cx, ElementType, Error, ErrorKind, Lowered, OutMeta, Outputs, Result, TensorMeta};

/// A tensor argument in the type to compute in.
pub(super) fn up(cx: &mut Cx<'_, '_>, name: &str) -> Result<Value> {
    let v = cx.tensor(name)?;
    cx.up(v)
}

/// [`up`] for `Tensor?`, in a type already chosen.
pub(super) fn opt_as(cx: &mut Cx<'_, '_>, name: &str, element: ElementType) -> Result<Option<Value>> {
    match cx.opt_tensor(name)? {
        Some(v) => Ok(Some(cx.cast(v, element)?)),
        None => Ok(None),
    }
}

/// A number as a rank-0 value of the type of `like`.
pub(super) fn number(cx: &mut Cx<'_, '_>, name: &str, like: Value) -> Result<Value> {
    let element = cx.element(like)?;
    cx.scalar(name, element)
}

/// Which dimension a value's own dimension `i` is, for all of them.
pub(super) fn all_dims(cx: &Cx<'_, '_>, v: Value) -> Result<Vec<i64>> {
    Ok((0..cx.rank(v)? as i64).collect())
}

/// The same sizes with 1 at `dims`.
pub(super) fn kept(sizes: &[i64], dims: &[i64]) -> Vec<i64> {
    let one = |i: usize| dims.contains(&(i as i64));
    sizes
        .iter()
        .enumerate()
        .map(|(i, &n)| if one(i) { 1 } else { n })
        .collect()
}

/// Sum over dimensions, which stay with size 1.
pub(super) fn sum_keep(cx: &mut Cx<'_, '_>, v: Value, dims: &[i64]) -> Result<Value> {
    let sizes = kept(&cx.dims(v)?, dims);
    let sum = sum(cx, v, dims)?;
    cx.reshape(sum, &sizes)
}

/// Sum over dimensions.
pub(super) fn sum(cx: &mut Cx<'_, '_>, v: Value, dims: &[i64]) -> Result<Value> {
    if dims.is_empty() {
        return Ok(v);
    }
    let element = cx.element(v)?;
    let zero = match element.class() {
        Class::Boolean => Number::Bool(false),
        _ => Number::Int(0),
    };
    let zero = cx.full(&[], element, zero)?;
    Ok(cx
        .f
        .reduce(&[v], &[zero], dims, |f, e| Ok(vec![f.add(e[0], e[1])?]))?[0])
}

/// The lowest value of a type: where a maximum starts.
pub(super) fn lowest(element: ElementType) -> Number {
    match element.class() {
        Class::Float => Number::Float(f64::NEG_INFINITY),
        Class::Signed => Number::Int(-(1i128 << (element.bits() - 1))),
        Class::Boolean => Number::Bool(false),
        _ => Number::Int(0),
    }
}

/// Maximum over dimensions, which stay with size 1.
pub(super) fn max_keep(cx: &mut Cx<'_, '_>, v: Value, dims: &[i64]) -> Result<Value> {
    if dims.is_empty() {
        return Ok(v);
    }
    let sizes = kept(&cx.dims(v)?, dims);
    let element = cx.element(v)?;
    let start = cx.full(&[], element, lowest(element))?;
    let max =
        cx.f.reduce(&[v], &[start], dims, |f, e| Ok(vec![f.maximum(e[0], e[1])?]))?;
    cx.reshape(max[0], &sizes)
}

/// Product of some of the sizes.
pub(super) fn count(sizes: &[i64], dims: &[i64]) -> i64 {
    dims.iter()
        .filter_map(|&d| sizes.get(usize::try_from(d).ok()?))
        .product()
}

/// Mean over dimensions, which stay with size 1. NaN when there is nothing.
pub(super) fn mean_keep(cx: &mut Cx<'_, '_>, v: Value, dims: &[i64]) -> Result<Value> {
    let n = count(&cx.dims(v)?, dims);
    let sum = sum_keep(cx, v, dims)?;
    (ex(sum) / n as f64).eval(cx)
}

/// A loss reduced as its `reduction` argument says: 0 none, 1 mean, 2 sum.
pub(super) fn reduced(cx: &mut Cx<'_, '_>, loss: Value) -> Lowered {
    let reduction = cx.opt_int("reduction")?.unwrap_or(1);
    let dims = all_dims(cx, loss)?;
    Ok(match reduction {
        0 => loss,
        1 => {
            let n = count(&cx.dims(loss)?, &dims);
            let total = sum(cx, loss, &dims)?;
            (ex(total) / n as f64).eval(cx)?
        }
        _ => sum(cx, loss, &dims)?,
    }
    .into())
}

/// The gradient that reaches each element of a loss: `grad_output`, divided by the count for a mean.
pub(super) fn loss_grad(cx: &mut Cx<'_, '_>, element: ElementType, elements: i64) -> Result<Value> {
    let grad = cx.tensor("grad_output")?;
    let grad = cx.cast(grad, element)?;
    match cx.opt_int("reduction")?.unwrap_or(1) {
        1 => (ex(grad) / elements as f64).eval(cx),
        _ => Ok(grad),
    }
}

/// A list of `n` window parameters: one is for all, none is `otherwise`.
pub(super) fn window_list(
    cx: &Cx<'_, '_>,
    name: &str,
    n: usize,
    otherwise: impl FnOnce() -> Vec<i64>,
) -> Result<Vec<i64>> {
    let list = cx.ints(name)?;
    match list.len() {
        0 => Ok(otherwise()),
        1 => Ok(vec![list[0]; n]),
        k if k == n => Ok(list),
        k => Err(Error::Internal(format!(
            "{}: `{name}` has {k} entries, wants {n}",
            cx.call.name
        ))),
    }
}

/// Elements along `dim` at constant positions: the dimension is replaced by those of `positions`, `sizes`.
///
/// Runs and repetitions are slices and broadcasts, which a TPU prefers to a gather.
pub(super) fn take(
    cx: &mut Cx<'_, '_>,
    v: Value,
    dim: usize,
    positions: &[i64],
    sizes: &[i64],
) -> Result<Value> {
    let dims = cx.dims(v)?;
    let mut result = dims.to_vec();
    result.splice(dim..=dim, sizes.iter().copied());
    let n = positions.len() as i64;
    let first = positions.first().copied().unwrap_or(0);
    if positions.windows(2).all(|w| w[1] == w[0] + 1) {
        let run = slice_dim(cx, v, dim, first, first + n)?;
        return cx.reshape(run, &result);
    }
    let times = if dims[dim] > 0 { n / dims[dim] } else { 0 };
    let repeats = |(i, p): (usize, &i64)| *p == i as i64 / times.max(1);
    if times > 0 && times * dims[dim] == n && positions.iter().enumerate().all(repeats) {
        let mut wide = dims.to_vec();
        wide.insert(dim + 1, times);
        let map: Vec<i64> = (0..wide.len() as i64).filter(|d| *d != dim as i64 + 1).collect();
        let wide = cx.f.broadcast_in_dim(v, wide.as_slice(), &map)?;
        return cx.reshape(wide, &result);
    }
    let indices: Vec<i32> = positions.iter().map(|&p| p as i32).collect();
    let indices = cx.f.constant(sizes, &indices)?;
    take_at(cx, v, dim, indices, &dims)
}

/// [`take`] at positions known at run time.
pub(super) fn take_at(
    cx: &mut Cx<'_, '_>,
    v: Value,
    dim: usize,
    indices: Value,
    dims: &[i64],
) -> Result<Value> {
    let k = cx.rank(indices)?;
    if dims.contains(&0) {
        let mut result = dims.to_vec();
        result.splice(dim..=dim, cx.dims(indices)?);
        let element = cx.element(v)?;
        return cx.full(&result, element, 0);
    }
    let mut slice = dims.to_vec();
    slice[dim] = 1;
    let offset_dims = (0..dim).chain(dim + k..dims.len() - 1 + k).map(|d| d as i64);
    let numbers = GatherDimensions {
        offset_dims: offset_dims.collect(),
        collapsed_slice_dims: vec![dim as i64],
        start_index_map: vec![dim as i64],
        index_vector_dim: k as i64,
        ..GatherDimensions::default()
    };
    Ok(cx.f.gather(v, indices, &numbers, &slice, false)?)
}

/// For each range of positions along `dim` the elements in it: `dim` becomes two, ranges and places; elements past a range's end are `fill`.
pub(super) fn take_ranges(
    cx: &mut Cx<'_, '_>,
    v: Value,
    dim: usize,
    ranges: &[(i64, i64)],
    fill: Number,
) -> Result<Value> {
    let longest = ranges.iter().map(|r| r.1 - r.0).max().unwrap_or(0).max(1);
    let last = cx.dims(v)?[dim] - 1;
    let places = || {
        ranges
            .iter()
            .flat_map(|r| (0..longest).map(move |k| (r.0 + k, r.1)))
    };
    let positions: Vec<i64> = places().map(|(p, _)| p.clamp(0, last.max(0))).collect();
    let inside: Vec<bool> = places().map(|(p, end)| p < end).collect();
    let n = ranges.len() as i64;
    let taken = take(cx, v, dim, &positions, &[n, longest])?;
    if inside.iter().all(|x| *x) {
        return Ok(taken);
    }
    let mask = cx.f.constant(&[n, longest], &inside)?;
    let dims = cx.dims(taken)?;
    let mask =
        cx.f.broadcast_in_dim(mask, dims.as_slice(), &[dim as i64, dim as i64 + 1])?;
    let fill = cx.full_like(taken, fill)?;
    Ok(cx.f.select(mask, taken, fill)?)
}

/// A vector along one dimension of a tensor of this rank, with size 1 elsewhere.
pub(super) fn along(cx: &mut Cx<'_, '_>, v: Value, dim: usize, rank: usize) -> Result<Value> {
    let n = cx.dims(v)?.iter().product();
    let mut dims = vec![1; rank];
    dims[dim] = n;
    cx.reshape(v, &dims)
}

/// Floats along one dimension, as constants of this type.
pub(super) fn constants_along(
    cx: &mut Cx<'_, '_>,
    numbers: &[f64],
    element: ElementType,
    dim: usize,
    rank: usize,
) -> Result<Value> {
    let v = cx.f.constant(&[numbers.len() as i64], numbers)?;
    let v = cx.cast(v, element)?;
    along(cx, v, dim, rank)
}

/// Part `start..limit` of one dimension.
pub(super) fn slice_dim(cx: &mut Cx<'_, '_>, v: Value, dim: usize, start: i64, limit: i64) -> Result<Value> {
    let dims = cx.dims(v)?;
    let (mut low, mut high) = (vec![0; dims.len()], dims.to_vec());
    (low[dim], high[dim]) = (start, limit);
    Ok(cx.f.slice(v, &low, &high, &vec![1; dims.len()])?)
}

/// Zeros around one dimension.
pub(super) fn pad_dim(cx: &mut Cx<'_, '_>, v: Value, dim: usize, low: i64, high: i64) -> Result<Value> {
    let rank = cx.rank(v)?;
    if (low, high) == (0, 0) {
        return Ok(v);
    }
    let (mut l, mut h) = (vec![0; rank], vec![0; rank]);
    (l[dim], h[dim]) = (low, high);
    let element = cx.element(v)?;
    let zero = cx.full(&[], element, 0)?;
    Ok(cx.f.pad(v, zero, &l, &h, &vec![0; rank])?)
}

/// Raises `message`, showing an index that is not within `0..limit`, unless it counts as ignored.
pub(super) fn check_range(
    cx: &mut Cx<'_, '_>,
    indices: Value,
    limit: i64,
    ignore: Option<i64>,
    message: &str,
    kind: ErrorKind,
) -> Result<()> {
    let wide = cx.cast(indices, ElementType::S64)?;
    let mut bad = ex(wide).lt(0.0).or(ex(wide).ge(limit as f64));
    if let Some(ignore) = ignore {
        let ignore = cx.full(&[], ElementType::S64, ignore)?;
        bad = bad.and(ex(wide).ne(ignore));
    }
    let bad = bad.eval(cx)?;
    let dims = all_dims(cx, bad)?;
    let any = any(cx.f, bad)?;
    let low = cx.full_like(wide, lowest(ElementType::S64))?;
    let shown = cx.f.select(bad, wide, low)?;
    let start = cx.full(&[], ElementType::S64, lowest(ElementType::S64))?;
    let shown =
        cx.f.reduce(&[shown], &[start], &dims, |f, e| Ok(vec![f.maximum(e[0], e[1])?]))?[0];
    let ok = cx.f.not(any)?;
    cx.check(ok, shown, kind, message);
    Ok(())
}

/// Results of which some are not wanted.
pub(super) fn masked<const N: usize>(mask: &[bool], values: [Option<Value>; N]) -> Outputs {
    let wanted = |i: usize| mask.get(i).copied().unwrap_or(false);
    Outputs::from(
        values
            .into_iter()
            .enumerate()
            .map(|(i, v)| v.filter(|_| wanted(i)))
            .collect::<Vec<_>>(),
    )
}

/// Metadata of a result that is like an argument, for ops that torch has no Meta kernel of.
pub(super) fn like(call: &Call, name: &str) -> Result<Vec<Option<OutMeta>>> {
    match call.arg(name) {
        Some(Arg::Tensor(i)) => {
            let TensorMeta { dims, element, .. } = call.tensors[*i as usize].clone();
            Ok(vec![Some(OutMeta { dims, element })])
        }
        _ => Err(Error::Internal(format!("{} has no tensor `{name}`", call.name))),
    }
}
