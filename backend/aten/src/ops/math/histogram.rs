//! histogram and the parts of histogramdd.

use stablehlo::Value;
use stablehlo::ops::{Direction, ScatterDimensions};

use super::common::{compare, compare_to, offset, replace, scale};
use super::reduction::{Reducer, reduce};
use super::search::{places, search_like_torch};
use crate::{Arg, Call, Cx, Dims, ElementType, Error, ErrorKind, Lowered, OpDef, OutMeta, Result};

/// Points as one column for each dimension.
fn columns(cx: &mut Cx<'_, '_>, flat: bool) -> Result<Vec<Value>> {
    let x = cx.tensor("self")?;
    if !cx.element(x)?.is_float() {
        return Err(Error::user(
            ErrorKind::NotImplemented,
            "a histogram of numbers that are no floats is not implemented, as on the CPU",
        ));
    }
    let x = cx.up(x)?;
    let sizes = cx.dims(x)?;
    let width = if flat {
        1
    } else {
        sizes.last().copied().unwrap_or(1)
    };
    let n = sizes.iter().product::<i64>() / width.max(1);
    let table = cx.reshape(x, &[n, width])?;
    (0..width)
        .map(|d| {
            let column = cx.f.slice(table, &[0, d], &[n, d + 1], &[1, 1])?;
            cx.reshape(column, &[n])
        })
        .collect()
}

/// The ends of one dimension: given, or those of the data, and apart from each other.
fn ends(cx: &mut Cx<'_, '_>, column: Value, d: usize, range: &[f64]) -> Result<(Value, Value)> {
    let element = cx.element(column)?;
    let (low, high) = if let [low, high] = range.get(2 * d..2 * d + 2).unwrap_or_default() {
        (cx.full(&[], element, *low)?, cx.full(&[], element, *high)?)
    } else if cx.dims(column)?[0] == 0 {
        (cx.full(&[], element, 0)?, cx.full(&[], element, 1)?)
    } else {
        (
            reduce(cx, column, &[0], Reducer::Min)?,
            reduce(cx, column, &[0], Reducer::Max)?,
        )
    };
    let shown = cx.full(&[], ElementType::S64, 0)?;
    let (a, b) = (cx.f.is_finite(low)?, cx.f.is_finite(high)?);
    let finite = cx.f.and(a, b)?;
    cx.check(
        finite,
        shown,
        ErrorKind::Runtime,
        format!("torch.histogramdd: dimension {d}'s range is not finite"),
    );
    let ordered = compare(cx, low, high, Direction::Le)?;
    cx.check(
        ordered,
        shown,
        ErrorKind::Runtime,
        format!("torch.histogramdd: min should not exceed max for dimension {d}"),
    );
    let same = compare(cx, low, high, Direction::Eq)?;
    let (below, above) = (offset(cx, low, -0.5)?, offset(cx, high, 0.5)?);
    Ok((cx.f.select(same, below, low)?, cx.f.select(same, above, high)?))
}

/// Equal bins, from both ends as torch's `linspace` goes.
fn edges(cx: &mut Cx<'_, '_>, (low, high): (Value, Value), bins: i64) -> Result<Value> {
    let element = cx.element(low)?;
    let dims = [bins + 1];
    let width = cx.f.subtract(high, low)?;
    let step = scale(cx, width, 1.0 / bins as f64)?;
    let n = cx.full_like(width, bins as f64)?;
    let step = if element == ElementType::F64 {
        cx.f.divide(width, n)?
    } else {
        step
    };
    let step = cx.broadcast_to(step, &dims)?;
    let place = cx.f.iota(&dims, element, 0)?;
    let up = cx.f.multiply(step, place)?;
    let low = cx.broadcast_to(low, &dims)?;
    let up = cx.f.add(low, up)?;
    let last = cx.full(&dims, element, bins as f64)?;
    let back = cx.f.subtract(last, place)?;
    let down = cx.f.multiply(step, back)?;
    let high = cx.broadcast_to(high, &dims)?;
    let down = cx.f.subtract(high, down)?;
    let first_half = compare_to(cx, place, Direction::Lt, ((bins + 1) / 2) as f64)?;
    Ok(cx.f.select(first_half, up, down)?)
}

/// One edge of many.
fn edge(cx: &mut Cx<'_, '_>, edges: Value, at: i64) -> Result<Value> {
    let one = cx.f.slice(edges, &[at], &[at + 1], &[1])?;
    cx.reshape(one, &[])
}

/// How much weight falls into each bin; the last bin has both its edges. `given`: the edges are the user's, in any order.
fn counts(cx: &mut Cx<'_, '_>, points: &[Value], all_edges: &[Value], given: bool) -> Result<Value> {
    let element = cx.element(points[0])?;
    let n = cx.dims(points[0])?[0];
    let bins: Vec<i64> = all_edges
        .iter()
        .map(|e| Ok(cx.dims(*e)?[0] - 1))
        .collect::<Result<_>>()?;
    let total: i64 = bins.iter().product();
    let base = cx.full(&[total], element, 0)?;
    let sums = if n == 0 || total == 0 {
        base
    } else {
        let mut at = cx.full(&[n], ElementType::S64, 0)?;
        let mut inside = cx.full(&[n], ElementType::Pred, true)?;
        for ((point, edges), bins) in points.iter().zip(all_edges).zip(&bins) {
            let (first, last) = (edge(cx, *edges, 0)?, edge(cx, *edges, *bins)?);
            let (first, last) = (cx.broadcast_to(first, &[n])?, cx.broadcast_to(last, &[n])?);
            for (bound, direction) in [(first, Direction::Ge), (last, Direction::Le)] {
                let fine = compare(cx, *point, bound, direction)?;
                inside = cx.f.and(inside, fine)?;
            }
            let sequence = cx.reshape(*edges, &[1, bins + 1])?;
            let values = cx.reshape(*point, &[1, n])?;
            let found = if given {
                search_like_torch(cx, sequence, values)?
            } else {
                places(cx, sequence, values, true)?
            };
            let found = cx.reshape(found, &[n])?;
            let found = cx.cast(found, ElementType::S64)?;
            let (one, most) = (cx.full_like(found, 1)?, cx.full_like(found, bins - 1)?);
            let found = cx.f.subtract(found, one)?;
            let found = cx.f.minimum(found, most)?;
            let by = cx.full_like(at, *bins)?;
            at = cx.f.multiply(at, by)?;
            at = cx.f.add(at, found)?;
        }
        // Past the end: dropped.
        let outside = cx.f.not(inside)?;
        let at = replace(cx, outside, total, at)?;
        let weights = if cx.has("weight") {
            let weight = cx.operand("weight", element)?;
            cx.reshape(weight, &[n])?
        } else {
            cx.full(&[n], element, 1)?
        };
        let numbers = ScatterDimensions {
            inserted_window_dims: vec![0],
            scatter_dims_to_operand_dims: vec![0],
            index_vector_dim: 1,
            ..ScatterDimensions::default()
        };
        cx.f.scatter(&[base], at, &[weights], &numbers, false, false, |f, e| {
            Ok(vec![f.add(e[0], e[1])?])
        })?[0]
    };
    let mut sums = cx.reshape(sums, &bins)?;
    if cx.bool("density")? {
        let every: Vec<i64> = (0..bins.len() as i64).collect();
        let whole = reduce(cx, sums, &every, Reducer::Sum)?;
        let whole = cx.broadcast_to(whole, &bins)?;
        sums = cx.f.divide(sums, whole)?;
        for (d, edges) in all_edges.iter().enumerate() {
            let k = bins[d];
            let (left, right) = (
                cx.f.slice(*edges, &[0], &[k], &[1])?,
                cx.f.slice(*edges, &[1], &[k + 1], &[1])?,
            );
            let width = cx.f.subtract(right, left)?;
            let width = cx.f.broadcast_in_dim(width, bins.as_slice(), &[d as i64])?;
            sums = cx.f.divide(sums, width)?;
        }
    }
    Ok(sums)
}

/// Equal bins of all dimensions.
fn equal_edges(cx: &mut Cx<'_, '_>, points: &[Value], bins: &[i64]) -> Result<Vec<Value>> {
    let range = cx.floats("range")?;
    points
        .iter()
        .zip(bins)
        .enumerate()
        .map(|(d, (point, bins))| {
            let ends = ends(cx, *point, d, &range)?;
            edges(cx, ends, *bins)
        })
        .collect()
}

/// Edges that the user gave, in the type of the points.
fn given_edges(cx: &mut Cx<'_, '_>, tensors: Vec<Value>, element: ElementType) -> Result<Vec<Value>> {
    tensors
        .into_iter()
        .map(|t| {
            let n = cx.dims(t)?.iter().product();
            let t = cx.cast(t, element)?;
            cx.reshape(t, &[n])
        })
        .collect()
}

fn histogram(cx: &mut Cx<'_, '_>) -> Lowered {
    let points = columns(cx, true)?;
    let element = cx.element(points[0])?;
    let given = matches!(cx.call.arg("bins"), Some(Arg::Tensor(_)));
    let edges = if given {
        let bins = cx.tensor("bins")?;
        given_edges(cx, vec![bins], element)?
    } else {
        let bins = cx.int("bins")?;
        equal_edges(cx, &points, &[bins])?
    };
    Ok((counts(cx, &points, &edges, given)?, edges[0]).into())
}

/// Bins and one edge more, in the type of the points.
fn histogram_shape(call: &Call) -> Result<Vec<Option<OutMeta>>> {
    let meta = |name: &str| match call.arg(name) {
        Some(Arg::Tensor(i)) => Ok(&call.tensors[*i as usize]),
        other => Err(Error::Internal(format!(
            "{} wants `{name}`, got {other:?}",
            call.name
        ))),
    };
    let element = meta("self")?.element;
    let edges = match call.arg("bins") {
        Some(Arg::Int(bins)) => bins + 1,
        _ => meta("bins")?.dims.iter().product(),
    };
    if edges < 2 {
        return Err(Error::user(
            ErrorKind::Runtime,
            format!(
                "torch.histogram(): bins must be > 0, but got {} for dimension 0",
                edges - 1
            ),
        ));
    }
    let one = |n: i64| {
        Some(OutMeta {
            dims: Dims::from_slice(&[n]),
            element,
        })
    };
    Ok(vec![one(edges - 1), one(edges)])
}

/// As many bins as columns.
fn check_width(points: usize, bins: usize) -> Result<()> {
    if points == bins {
        return Ok(());
    }
    Err(Error::user(
        ErrorKind::Runtime,
        "histogramdd: The size of bins must be equal to the innermost dimension of the input.",
    ))
}

fn histogramdd_bin_edges(cx: &mut Cx<'_, '_>) -> Lowered {
    let points = columns(cx, false)?;
    let bins = cx.ints("bins")?;
    check_width(points.len(), bins.len())?;
    Ok(equal_edges(cx, &points, &bins)?.into())
}

fn histogramdd_from_bin_cts(cx: &mut Cx<'_, '_>) -> Lowered {
    let points = columns(cx, false)?;
    let bins = cx.ints("bins")?;
    check_width(points.len(), bins.len())?;
    let edges = equal_edges(cx, &points, &bins)?;
    Ok(counts(cx, &points, &edges, false)?.into())
}

fn histogramdd_from_bin_tensors(cx: &mut Cx<'_, '_>) -> Lowered {
    let points = columns(cx, false)?;
    let bins = cx.tensors("bins")?;
    check_width(points.len(), bins.len())?;
    let element = cx.element(points[0])?;
    let edges = given_edges(cx, bins, element)?;
    Ok(counts(cx, &points, &edges, true)?.into())
}

pub(crate) const OPS: &[OpDef] = &[
    OpDef::new("histogram", histogram).shape(histogram_shape),
    OpDef::new("_histogramdd_bin_edges", histogramdd_bin_edges),
    OpDef::new("_histogramdd_from_bin_cts", histogramdd_from_bin_cts),
    OpDef::new("_histogramdd_from_bin_tensors", histogramdd_from_bin_tensors),
];
