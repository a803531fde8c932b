//! What the families of this group share: zeros, positions, indices in range, moves of dimensions.

use dtype::ElementType;
use stablehlo::Value;
use stablehlo::ops::Direction;

use crate::{Cx, Error, ErrorKind, Result};

/// Number of elements.
pub(crate) fn count(dims: &[i64]) -> i64 {
    dims.iter().product()
}

/// The integer type that positions up to `limit` are computed in: 64 bits are slow on a TPU.
pub(crate) fn index_type(limit: i64) -> ElementType {
    if limit < i64::from(i32::MAX) {
        ElementType::S32
    } else {
        ElementType::S64
    }
}

/// Zeros of these sizes.
pub(crate) fn zeros(cx: &mut Cx<'_, '_>, dims: &[i64], element: ElementType) -> Result<Value> {
    cx.full(dims, element, false)
}

/// A rank-0 zero.
pub(crate) fn zero(cx: &mut Cx<'_, '_>, element: ElementType) -> Result<Value> {
    zeros(cx, &[], element)
}

/// The value as rank 1 where it has rank 0.
pub(crate) fn at_least_1d(cx: &mut Cx<'_, '_>, v: Value) -> Result<Value> {
    if cx.rank(v)? == 0 {
        return cx.reshape(v, &[1]);
    }
    Ok(v)
}

/// Moves dimension `from` to `to`.
pub(crate) fn move_dim(cx: &mut Cx<'_, '_>, v: Value, from: usize, to: usize) -> Result<Value> {
    if from == to {
        return Ok(v);
    }
    let mut order: Vec<i64> = (0..cx.rank(v)? as i64).filter(|d| *d != from as i64).collect();
    order.insert(to, from as i64);
    Ok(cx.f.transpose(v, &order)?)
}

/// Part of one dimension.
pub(crate) fn slice_dim(
    cx: &mut Cx<'_, '_>,
    v: Value,
    dim: usize,
    start: i64,
    limit: i64,
    step: i64,
) -> Result<Value> {
    let dims = cx.dims(v)?;
    if start == 0 && limit == dims[dim] && step == 1 {
        return Ok(v);
    }
    let mut low = vec![0; dims.len()];
    let mut high = dims.to_vec();
    let mut steps = vec![1; dims.len()];
    (low[dim], high[dim], steps[dim]) = (start, limit, step);
    Ok(cx.f.slice(v, &low, &high, &steps)?)
}

/// The block of these sizes at the origin.
pub(crate) fn head(cx: &mut Cx<'_, '_>, v: Value, sizes: &[i64]) -> Result<Value> {
    if cx.dims(v)?.as_slice() == sizes {
        return Ok(v);
    }
    let (low, ones) = (vec![0; sizes.len()], vec![1; sizes.len()]);
    Ok(cx.f.slice(v, &low, sizes, &ones)?)
}

/// Compares with a number.
pub(crate) fn compare_to(cx: &mut Cx<'_, '_>, v: Value, n: i64, direction: Direction) -> Result<Value> {
    let n = cx.full_like(v, n)?;
    Ok(cx.f.compare(v, n, direction)?)
}

/// `v + n`.
pub(crate) fn plus(cx: &mut Cx<'_, '_>, v: Value, n: i64) -> Result<Value> {
    if n == 0 {
        return Ok(v);
    }
    let n = cx.full_like(v, n)?;
    Ok(cx.f.add(v, n)?)
}

/// How an element replaces another.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Combine {
    /// By the new one.
    Set,
    /// By the sum; logical or.
    Add,
    /// By the product; logical and.
    Multiply,
    /// By the lesser, NaN if any is.
    Min,
    /// By the greater, NaN if any is.
    Max,
}

impl Combine {
    /// As a region of `reduce` or `scatter`.
    pub(crate) fn body(
        self,
        f: &mut stablehlo::FunctionBuilder<'_>,
        old: Value,
        new: Value,
    ) -> stablehlo::Result<Value> {
        match self {
            Self::Set => Ok(new),
            Self::Add if f.tensor_ty(old)?.element == ElementType::Pred => f.or(old, new),
            Self::Add => f.add(old, new),
            Self::Multiply if f.tensor_ty(old)?.element == ElementType::Pred => f.and(old, new),
            Self::Multiply => f.multiply(old, new),
            Self::Min | Self::Max => {
                let direction = if self == Self::Min {
                    Direction::Le
                } else {
                    Direction::Ge
                };
                // An unordered pair must give the NaN, whichever side it is on.
                let nan = f.compare(old, old, Direction::Ne)?;
                let first = f.compare(old, new, direction)?;
                let keep = f.or(nan, first)?;
                f.select(keep, old, new)
            }
        }
    }
}

/// Reduces all of one value along `axes`.
pub(crate) fn reduce(
    cx: &mut Cx<'_, '_>,
    v: Value,
    init: Value,
    axes: &[i64],
    how: Combine,
) -> Result<Value> {
    let out =
        cx.f.reduce(&[v], &[init], axes, |f, e| Ok(vec![how.body(f, e[0], e[1])?]))?;
    Ok(out[0])
}

/// All axes of a value.
pub(crate) fn all_axes(cx: &Cx<'_, '_>, v: Value) -> Result<Vec<i64>> {
    Ok((0..cx.rank(v)? as i64).collect())
}

/// Whether every element of a boolean value holds.
pub(crate) fn all_true(cx: &mut Cx<'_, '_>, v: Value) -> Result<Value> {
    let init = cx.full(&[], ElementType::Pred, true)?;
    let axes = all_axes(cx, v)?;
    reduce(cx, v, init, &axes, Combine::Multiply)
}

/// How many elements of a boolean value hold, `i64[]`.
pub(crate) fn count_true(cx: &mut Cx<'_, '_>, v: Value) -> Result<Value> {
    let axes = all_axes(cx, v)?;
    let element = index_type(count(&cx.dims(v)?));
    let ones = cx.f.convert(v, element)?;
    let init = zero(cx, element)?;
    let sum = reduce(cx, ones, init, &axes, Combine::Add)?;
    cx.cast(sum, ElementType::S64)
}

/// What indices must satisfy.
pub(crate) struct Bounds<'m> {
    /// The size they are for.
    pub(crate) size: i64,
    /// Whether -1 means the last.
    pub(crate) negative: bool,
    /// The exception.
    pub(crate) kind: ErrorKind,
    /// Its text, `{}` for the index.
    pub(crate) message: &'m str,
}

/// Indices from 0 up, in the type that positions below `limit` need; a check refuses those outside.
pub(crate) fn indices(cx: &mut Cx<'_, '_>, index: Value, bounds: &Bounds<'_>, limit: i64) -> Result<Value> {
    check_bounds(cx, index, bounds)?;
    if bounds.negative {
        return wrapped(cx, index, bounds.size, limit);
    }
    cx.cast(index, index_type(limit))
}

/// Indices from 0 up, unchecked, where those below 0 count from the end.
pub(crate) fn wrapped(cx: &mut Cx<'_, '_>, index: Value, size: i64, limit: i64) -> Result<Value> {
    let index = cx.cast(index, index_type(limit))?;
    let below = compare_to(cx, index, 0, Direction::Lt)?;
    let wrapped = plus(cx, index, size)?;
    Ok(cx.f.select(below, wrapped, index)?)
}

/// Refuses indices outside.
pub(crate) fn check_bounds(cx: &mut Cx<'_, '_>, index: Value, bounds: &Bounds<'_>) -> Result<()> {
    let dims = cx.dims(index)?;
    if count(&dims) == 0 {
        return Ok(());
    }
    let wide = cx.cast(index, ElementType::S64)?;
    let axes = all_axes(cx, wide)?;
    let first = cx.full(&[], ElementType::S64, i64::MAX)?;
    let last = cx.full(&[], ElementType::S64, i64::MIN)?;
    let least =
        cx.f.reduce(&[wide], &[first], &axes, |f, e| Ok(vec![f.minimum(e[0], e[1])?]))?[0];
    let most =
        cx.f.reduce(&[wide], &[last], &axes, |f, e| Ok(vec![f.maximum(e[0], e[1])?]))?[0];
    let low = if bounds.negative { -bounds.size } else { 0 };
    let above = compare_to(cx, least, low, Direction::Ge)?;
    let below = compare_to(cx, most, bounds.size, Direction::Lt)?;
    let ok = cx.f.and(above, below)?;
    let shown = cx.f.select(above, most, least)?;
    cx.check(ok, shown, bounds.kind, bounds.message);
    Ok(())
}

/// Positions along one dimension, broadcast to `dims`.
pub(crate) fn positions(
    cx: &mut Cx<'_, '_>,
    dims: &[i64],
    dim: usize,
    element: ElementType,
) -> Result<Value> {
    if dims.is_empty() {
        return zero(cx, element);
    }
    Ok(cx.f.iota(dims, element, dim as i64)?)
}

/// The first `size` positions, in order, where the flat `mask` holds; `fill` where there are fewer.
pub(crate) fn positions_of(cx: &mut Cx<'_, '_>, mask: Value, size: i64, fill: i64) -> Result<Value> {
    let n = cx.dims(mask)?[0];
    let element = index_type(n.max(fill));
    let at = cx.f.iota(&[n], element, 0)?;
    let last = cx.full(&[n], element, fill)?;
    let keys = cx.f.select(mask, at, last)?;
    let sorted = cx.f.sort(&[keys], 0, false, |f, e| {
        Ok(vec![f.compare(e[0], e[1], Direction::Lt)?])
    })?[0];
    if size <= n {
        return head(cx, sorted, &[size]);
    }
    let pad = cx.full(&[], element, fill)?;
    Ok(cx.f.pad(sorted, pad, &[0], &[size - n], &[0])?)
}

/// Flat positions as one position a dimension.
pub(crate) fn unravel(cx: &mut Cx<'_, '_>, flat: Value, dims: &[i64]) -> Result<Vec<Value>> {
    let mut rest = flat;
    let mut out = Vec::with_capacity(dims.len());
    for (i, &d) in dims.iter().enumerate().rev() {
        if i == 0 {
            out.push(rest);
            break;
        }
        let by = cx.full_like(rest, d.max(1))?;
        out.push(cx.f.remainder(rest, by)?);
        rest = cx.f.divide(rest, by)?;
    }
    out.reverse();
    Ok(out)
}

/// Sums from the first element of a rank-1 integer value up to each, inclusive.
pub(crate) fn prefix_sum(cx: &mut Cx<'_, '_>, v: Value) -> Result<Value> {
    // Blocks, so that the work stays linear on targets that compute each window anew.
    const BLOCK: i64 = 32;
    let element = cx.element(v)?;
    let n = cx.dims(v)?[0];
    if n == 0 {
        return Ok(v);
    }
    let start = zero(cx, element)?;
    let width = n.min(BLOCK);
    let rows = (n + width - 1) / width;
    let padded = cx.f.pad(v, start, &[0], &[rows * width - n], &[0])?;
    let blocks = cx.reshape(padded, &[rows, width])?;
    let mut window = stablehlo::ops::Window::new(&[1, width]);
    window.padding[1] = [width - 1, 0];
    let inner =
        cx.f.reduce_window(&[blocks], &[start], &window, |f, e| Ok(vec![f.add(e[0], e[1])?]))?[0];
    let summed = if rows == 1 {
        inner
    } else {
        let totals = slice_dim(cx, inner, 1, width - 1, width, 1)?;
        let totals = cx.reshape(totals, &[rows])?;
        let upto = prefix_sum(cx, totals)?;
        let before = cx.f.subtract(upto, totals)?;
        let before = cx.f.broadcast_in_dim(before, &[rows, width], &[0])?;
        cx.f.add(inner, before)?
    };
    let flat = cx.reshape(summed, &[rows * width])?;
    head(cx, flat, &[n])
}

/// Integers that order as torch orders the values: -0 with 0, NaN last, subnormal numbers told apart.
pub(crate) fn sort_key(cx: &mut Cx<'_, '_>, v: Value) -> Result<Value> {
    let element = cx.element(v)?;
    if element == ElementType::Pred {
        return cx.cast(v, ElementType::U8);
    }
    if !element.is_float() {
        if element.is_complex() {
            return Err(Error::unsupported("an order of complex numbers"));
        }
        return Ok(v);
    }
    let (bits, most) = match element.bits() {
        64 => (ElementType::S64, i64::MAX),
        32 => (ElementType::S32, i64::from(i32::MAX)),
        16 => (ElementType::S16, i64::from(i16::MAX)),
        _ => return Err(Error::unsupported(format!("an order of {element}"))),
    };
    let raw = cx.f.bitcast_convert(v, bits)?;
    // A negative number's magnitude, negated, makes -0 a 0.
    let mask = cx.full_like(raw, most)?;
    let magnitude = cx.f.and(raw, mask)?;
    let mirrored = cx.f.negate(magnitude)?;
    let below = compare_to(cx, raw, 0, Direction::Lt)?;
    let ordered = cx.f.select(below, mirrored, raw)?;
    let nan = cx.f.compare(v, v, Direction::Ne)?;
    Ok(cx.f.select(nan, mask, ordered)?)
}

/// Whether elements of a float value are NaN; `None` where there can be none.
pub(crate) fn nan_mask(cx: &mut Cx<'_, '_>, v: Value) -> Result<Option<Value>> {
    if cx.element(v)?.is_float() {
        return Ok(Some(cx.f.compare(v, v, Direction::Ne)?));
    }
    Ok(None)
}

/// `values[index]` for a rank-1 value and indices of rank 1.
pub(crate) fn take_flat(cx: &mut Cx<'_, '_>, values: Value, index: Value) -> Result<Value> {
    take_rows(cx, values, index)
}

/// Rows of `values` along dimension 0 at indices of rank 1.
pub(crate) fn take_rows(cx: &mut Cx<'_, '_>, values: Value, index: Value) -> Result<Value> {
    let dims = cx.dims(values)?;
    let n = cx.dims(index)?[0];
    let mut sizes = dims.to_vec();
    if count(&dims) == 0 || n == 0 {
        sizes[0] = n;
        let element = cx.element(values)?;
        return zeros(cx, &sizes, element);
    }
    sizes[0] = 1;
    let numbers = stablehlo::ops::GatherDimensions {
        offset_dims: (1..dims.len() as i64).collect(),
        collapsed_slice_dims: vec![0],
        start_index_map: vec![0],
        index_vector_dim: 1,
        ..Default::default()
    };
    Ok(cx.f.gather(values, index, &numbers, &sizes, false)?)
}
