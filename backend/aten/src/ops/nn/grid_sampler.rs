//! grid_sampler_2d and 3d: an image read at arbitrary places, with gradients.

use stablehlo::Value;
use stablehlo::ops::{GatherDimensions, ScatterDimensions};

use super::ex::{Ex, ex, select};
use super::util::{slice_dim, sum, up};
use crate::{Cx, ElementType, Lowered, OpDef, Result};

/// Input elements along one dimension that a place reads: their positions, weights, the weights' slopes, and which are inside.
struct Tap {
    position: Value,
    weight: Value,
    slope: Value,
    inside: Value,
}

/// What the arguments say.
struct Sampler {
    x: Value,
    /// N, C, places.
    sizes: [i64; 3],
    /// Spatial sizes of the input.
    spatial: Vec<i64>,
    /// For each spatial dimension.
    taps: Vec<Vec<Tap>>,
}

/// torch's numbers of the padding and interpolation modes that are not the last of their kind.
const ZEROS: i64 = 0;
const BORDER: i64 = 1;
const NEAREST: i64 = 1;
const CUBIC: i64 = 2;

/// A coordinate brought inside by the padding mode, and the slope of doing so.
fn padded(cx: &mut Cx<'_, '_>, at: Value, size: i64, mode: i64, align: bool) -> Result<(Value, Value)> {
    let one = cx.full_like(at, 1)?;
    if mode == ZEROS {
        return Ok((at, one));
    }
    let (mut at, mut slope) = (at, one);
    if mode != BORDER {
        let (low, span) = match align {
            true => (0.0, (size - 1) as f64),
            false => (-0.5, size as f64),
        };
        if span <= 0.0 {
            let zero = cx.full_like(at, 0)?;
            return Ok((zero, zero));
        }
        let from = (ex(at) - low).eval(cx)?;
        let sign = select(ex(from).lt(0.0), -1.0, ex(one)).eval(cx)?;
        let from = ex(from).abs().eval(cx)?;
        let flips = (ex(from) / span).floor().eval(cx)?;
        let extra = (ex(from) - ex(flips) * span).eval(cx)?;
        let half = (ex(flips) * 0.5).eval(cx)?;
        let even = ex(half).eq(ex(half).floor()).eval(cx)?;
        at = select(even, ex(extra) + low, (span + low) - ex(extra)).eval(cx)?;
        slope = select(even, sign, -ex(sign)).eval(cx)?;
    }
    let most = (size - 1) as f64;
    let outside = ex(at).le(0.0).or(ex(at).ge(most)).eval(cx)?;
    Ok((
        ex(at).max(0.0).min(most).eval(cx)?,
        select(outside, 0.0, slope).eval(cx)?,
    ))
}

fn tap(cx: &mut Cx<'_, '_>, position: Value, weight: Ex, slope: Ex, size: i64) -> Result<Tap> {
    let inside = ex(position)
        .ge(0.0)
        .and(ex(position).le((size - 1) as f64))
        .eval(cx)?;
    Ok(Tap {
        position,
        weight: weight.eval(cx)?,
        slope: slope.eval(cx)?,
        inside,
    })
}

/// What a place reads along one dimension.
fn taps(cx: &mut Cx<'_, '_>, at: Value, size: i64) -> Result<Vec<Tap>> {
    let mode = cx.int("interpolation_mode")?;
    let (padding, align) = (cx.int("padding_mode")?, cx.bool("align_corners")?);
    // From -1..1 to elements.
    let (scaled, scale) = match align {
        true => ((ex(at) + 1.0) / 2.0 * (size - 1) as f64, (size - 1) as f64 / 2.0),
        false => (((ex(at) + 1.0) * size as f64 - 1.0) / 2.0, size as f64 / 2.0),
    };
    let scaled = scaled.eval(cx)?;
    if mode == CUBIC {
        const A: f64 = -0.75;
        let low = ex(scaled).floor().eval(cx)?;
        let t = (ex(scaled) - low).eval(cx)?;
        // Distances of the four elements, and which way each grows with the coordinate.
        let distances = [
            (ex(t) + 1.0, 1.0),
            (ex(t), 1.0),
            (1.0 - ex(t), -1.0),
            (2.0 - ex(t), -1.0),
        ];
        let mut all = Vec::new();
        for (k, (d, way)) in distances.into_iter().enumerate() {
            let d = d.eval(cx)?;
            let (weight, slope) = if k == 1 || k == 2 {
                (
                    (((A + 2.0) * ex(d) - (A + 3.0)) * d) * d + 1.0,
                    (3.0 * (A + 2.0) * ex(d) - 2.0 * (A + 3.0)) * d,
                )
            } else {
                (
                    ((A * ex(d) - 5.0 * A) * d + 8.0 * A) * d - 4.0 * A,
                    (3.0 * A * ex(d) - 10.0 * A) * d + 8.0 * A,
                )
            };
            let position = (ex(low) + (k as f64 - 1.0)).eval(cx)?;
            let (position, _) = padded(cx, position, size, padding, align)?;
            all.push(tap(cx, position, weight, slope * (way * scale), size)?);
        }
        return Ok(all);
    }
    let (at, slope) = padded(cx, scaled, size, padding, align)?;
    let slope = (ex(slope) * scale).eval(cx)?;
    if mode == NEAREST {
        let position = cx.f.round_nearest_even(at)?;
        let one = cx.full_like(at, 1)?;
        return Ok(vec![tap(cx, position, ex(one), ex(one) * 0.0, size)?]);
    }
    let low = ex(at).floor().eval(cx)?;
    let high = (ex(low) + 1.0).eval(cx)?;
    Ok(vec![
        tap(cx, low, ex(high) - at, -ex(slope), size)?,
        tap(cx, high, ex(at) - low, ex(slope), size)?,
    ])
}

fn read(cx: &mut Cx<'_, '_>) -> Result<Sampler> {
    let (x, grid) = (up(cx, "input")?, up(cx, "grid")?);
    let (x_dims, grid_dims) = (cx.dims(x)?, cx.dims(grid)?);
    let n = x_dims.len() - 2;
    let places: i64 = grid_dims[1..=n].iter().product();
    let spatial = x_dims[2..].to_vec();
    let grid = cx.reshape(grid, &[x_dims[0], places, n as i64])?;
    let mut all = Vec::new();
    for (d, &size) in spatial.iter().enumerate() {
        // The grid names the last dimension first.
        let k = (n - 1 - d) as i64;
        let at = slice_dim(cx, grid, 2, k, k + 1)?;
        let at = cx.reshape(at, &[x_dims[0], places])?;
        all.push(taps(cx, at, size)?);
    }
    // (N, elements, C): what a place reads lies together.
    let elements: i64 = spatial.iter().product();
    let x = cx.reshape(x, &[x_dims[0], x_dims[1], elements])?;
    let x = cx.f.transpose(x, &[0, 2, 1])?;
    Ok(Sampler {
        x,
        sizes: [x_dims[0], x_dims[1], places],
        spatial,
        taps: all,
    })
}

/// One tap for each dimension.
fn combinations(counts: &[usize]) -> Vec<Vec<usize>> {
    counts.iter().fold(vec![Vec::new()], |all, &n| {
        all.iter()
            .flat_map(|c| {
                (0..n).map(move |k| {
                    let mut c = c.clone();
                    c.push(k);
                    c
                })
            })
            .collect()
    })
}

/// The place of a combination in the flat image, and whether it is inside.
fn locate(cx: &mut Cx<'_, '_>, s: &Sampler, c: &[usize]) -> Result<(Value, Value)> {
    let first = &s.taps[0][c[0]];
    let mut inside = first.inside;
    let mut flat: Option<Value> = None;
    for (d, &k) in c.iter().enumerate() {
        let t = &s.taps[d][k];
        if d > 0 {
            inside = ex(inside).and(t.inside).eval(cx)?;
        }
        let at = ex(t.position).max(0.0).min((s.spatial[d] - 1) as f64).eval(cx)?;
        let at = cx.cast(at, ElementType::S32)?;
        flat = Some(match flat {
            Some(f) => (ex(f) * s.spatial[d] as f64 + at).eval(cx)?,
            None => at,
        });
    }
    Ok((flat.unwrap_or(inside), inside))
}

/// The values (N, places, C) of a combination.
fn fetch(cx: &mut Cx<'_, '_>, s: &Sampler, flat: Value) -> Result<Value> {
    let numbers = GatherDimensions {
        offset_dims: vec![2],
        collapsed_slice_dims: vec![1],
        operand_batching_dims: vec![0],
        start_indices_batching_dims: vec![0],
        start_index_map: vec![1],
        index_vector_dim: 2,
    };
    Ok(cx.f.gather(s.x, flat, &numbers, &[1, 1, s.sizes[1]], false)?)
}

/// The product of the weights of a combination, that of dimension `slope` replaced by its slope; zero outside.
fn weight(
    cx: &mut Cx<'_, '_>,
    s: &Sampler,
    c: &[usize],
    inside: Value,
    slope: Option<usize>,
) -> Result<Value> {
    let mut product: Option<Ex> = None;
    for (d, &k) in c.iter().enumerate() {
        let t = &s.taps[d][k];
        let part = if slope == Some(d) { t.slope } else { t.weight };
        product = Some(match product {
            Some(p) => p * part,
            None => ex(part),
        });
    }
    let product = product.unwrap_or_else(|| ex(1.0)).eval(cx)?;
    let w = select(inside, product, 0.0).eval(cx)?;
    cx.reshape(w, &[s.sizes[0], s.sizes[2], 1])
}

fn counts(s: &Sampler) -> Vec<usize> {
    s.taps.iter().map(Vec::len).collect()
}

fn grid_sampler(cx: &mut Cx<'_, '_>) -> Lowered {
    let out = &cx.out(0)?.dims;
    let x = up(cx, "input")?;
    let element = cx.element(x)?;
    if out.contains(&0) {
        return Ok(cx.full(out, element, 0)?.into());
    }
    let s = read(cx)?;
    let [n, channels, places] = s.sizes;
    let mut total = cx.full(&[n, places, channels], element, 0)?;
    for c in combinations(&counts(&s)) {
        let (flat, inside) = locate(cx, &s, &c)?;
        let values = fetch(cx, &s, flat)?;
        let w = weight(cx, &s, &c, inside, None)?;
        // Outside is zero, whatever the nearest element is.
        let inside = cx.reshape(inside, &[n, places, 1])?;
        total = (ex(total) + select(inside, values, 0.0) * w).eval(cx)?;
    }
    let total = cx.f.transpose(total, &[0, 2, 1])?;
    Ok(cx.reshape(total, out)?.into())
}

fn grid_sampler_backward(cx: &mut Cx<'_, '_>) -> Lowered {
    let mask = cx.bools("output_mask")?;
    let g = up(cx, "grad_output")?;
    let element = cx.element(g)?;
    let s = read(cx)?;
    let [n, channels, places] = s.sizes;
    let elements: i64 = s.spatial.iter().product();
    let g = cx.reshape(g, &[n, channels, places])?;
    let g = cx.f.transpose(g, &[0, 2, 1])?;
    let mut d_x = cx.full(&[n, elements, channels], element, 0)?;
    let mut d_at: Vec<Value> = Vec::new();
    for _ in &s.spatial {
        d_at.push(cx.full(&[n, places], element, 0)?);
    }
    let numbers = ScatterDimensions {
        update_window_dims: vec![2],
        inserted_window_dims: vec![1],
        input_batching_dims: vec![0],
        scatter_indices_batching_dims: vec![0],
        scatter_dims_to_operand_dims: vec![1],
        index_vector_dim: 2,
    };
    for c in combinations(&counts(&s)) {
        let (flat, inside) = locate(cx, &s, &c)?;
        if mask.first() == Some(&true) {
            let w = weight(cx, &s, &c, inside, None)?;
            let part = (ex(g) * w).eval(cx)?;
            d_x =
                cx.f.scatter(&[d_x], flat, &[part], &numbers, false, false, |f, e| {
                    Ok(vec![f.add(e[0], e[1])?])
                })?[0];
        }
        let values = fetch(cx, &s, flat)?;
        let along = (ex(values) * g).eval(cx)?;
        let along = sum(cx, along, &[2])?;
        for (d, total) in d_at.iter_mut().enumerate() {
            let w = weight(cx, &s, &c, inside, Some(d))?;
            let w = cx.reshape(w, &[n, places])?;
            *total = (ex(*total) + ex(along) * w).eval(cx)?;
        }
    }
    let (x_sizes, grid_sizes) = (cx.meta("input")?.dims.clone(), cx.meta("grid")?.dims.clone());
    let d_x = cx.f.transpose(d_x, &[0, 2, 1])?;
    let d_x = cx.reshape(d_x, &x_sizes)?;
    let mut parts = Vec::new();
    for v in d_at.into_iter().rev() {
        parts.push(cx.reshape(v, &[n, places, 1])?);
    }
    let d_grid = cx.f.concatenate(&parts, 2)?;
    let d_grid = cx.reshape(d_grid, &grid_sizes)?;
    Ok(super::util::masked(&mask, [Some(d_x), Some(d_grid)]))
}

pub(crate) const OPS: &[OpDef] = &[
    OpDef::new("grid_sampler_2d", grid_sampler),
    OpDef::new("grid_sampler_3d", grid_sampler),
    OpDef::new("grid_sampler_2d_backward", grid_sampler_backward),
    OpDef::new("grid_sampler_3d_backward", grid_sampler_backward),
];
