//! Upsampling: nearest, linear, cubic, antialiased, with gradients. Each dimension is resized on its own.

use stablehlo::Value;

use super::dot::contract;
use super::ex::{Ex, ex};
use super::util::{constants_along, sum, take, take_ranges, up};
use crate::{Cx, ElementType, Error, Lowered, OpDef, Result};

/// How one spatial dimension is resized.
struct Axis {
    input: i64,
    output: i64,
    /// Given by the user instead of being computed from the sizes.
    scale: Option<f64>,
}

/// Input positions and weights that make one output element.
type Taps = Vec<(i64, f64)>;

/// The spatial dimensions: sizes of the input, of the output, scales in the order of the arguments.
fn axes(cx: &Cx<'_, '_>, input: &[i64], scales: &[&str]) -> Result<Vec<Axis>> {
    let output = cx.ints("output_size")?;
    let read = |name: &str| -> Result<Option<f64>> {
        Ok(match cx.has(name) {
            true => Some(cx.float(name)?),
            false => None,
        })
    };
    (0..scales.len())
        .map(|d| {
            Ok(Axis {
                input: input[d + 2],
                output: output[d],
                scale: read(scales[d])?.filter(|s| *s > 0.0),
            })
        })
        .collect()
}

impl Axis {
    /// Input elements for each output element.
    fn ratio(&self, single: bool) -> f64 {
        let exact = match self.scale {
            Some(s) => 1.0 / s,
            None => self.input as f64 / self.output as f64,
        };
        if !single {
            return exact;
        }
        // torch rounds to the type it computes in, and which element is nearest depends on it.
        match self.scale {
            Some(s) => f64::from((1.0 / s) as f32),
            None => f64::from(self.input as f32 / self.output as f32),
        }
    }

    /// The nearest input of each output, by corner or (`exact`) by center.
    fn nearest(&self, exact: bool) -> Vec<i64> {
        let ratio = self.ratio(true) as f32;
        (0..self.output)
            .map(|o| {
                let at = if exact {
                    (o as f32 + 0.5) * ratio
                } else {
                    o as f32 * ratio
                };
                (at.floor() as i64).min(self.input - 1)
            })
            .collect()
    }

    /// Where each output lies between the inputs.
    fn source(&self, align_corners: bool, o: i64, single: bool) -> f64 {
        let round = |x: f64| if single { f64::from(x as f32) } else { x };
        if align_corners {
            let ratio = match self.output {
                1 => 0.0,
                _ => round((self.input - 1) as f64 / (self.output - 1) as f64),
            };
            return round(ratio * o as f64);
        }
        round(self.ratio(single) * (o as f64 + 0.5) - 0.5)
    }

    fn linear(&self, align_corners: bool, single: bool) -> Vec<Taps> {
        (0..self.output)
            .map(|o| {
                let at = self.source(align_corners, o, single).max(0.0);
                let low = (at.floor() as i64).min(self.input - 1);
                let high = (low + 1).min(self.input - 1);
                let part = (at - low as f64).clamp(0.0, 1.0);
                vec![(low, 1.0 - part), (high, part)]
            })
            .collect()
    }

    fn cubic(&self, align_corners: bool, single: bool) -> Vec<Taps> {
        const A: f64 = -0.75;
        let near = |x: f64| ((A + 2.0) * x - (A + 3.0)) * x * x + 1.0;
        let far = |x: f64| ((A * x - 5.0 * A) * x + 8.0 * A) * x - 4.0 * A;
        (0..self.output)
            .map(|o| {
                let at = self.source(align_corners, o, single);
                let low = at.floor();
                let t = at - low;
                let weights = [far(t + 1.0), near(t), near(1.0 - t), far(2.0 - t)];
                let place = |k: usize| (low as i64 + k as i64 - 1).clamp(0, self.input - 1);
                weights.iter().enumerate().map(|(k, w)| (place(k), *w)).collect()
            })
            .collect()
    }

    /// Antialiased: the filter is as wide as an output element is.
    fn antialiased(&self, align_corners: bool, cubic: bool, single: bool) -> Vec<Taps> {
        // Torch computes weights in the type of the images.
        let round = |x: f64| if single { f64::from(x as f32) } else { x };
        let ratio = match (align_corners, self.output) {
            (true, 1) => 0.0,
            (true, _) => round((self.input - 1) as f64 / (self.output - 1) as f64),
            _ => self.ratio(single),
        };
        let reach = if cubic { 2.0 } else { 1.0 };
        let support = if ratio >= 1.0 { round(reach * ratio) } else { reach };
        let squeeze = if ratio >= 1.0 { round(1.0 / ratio) } else { 1.0 };
        let filter = |x: f64| {
            const A: f64 = -0.5;
            let x = x.abs();
            match cubic {
                false => (1.0 - x).max(0.0),
                true if x < 1.0 => ((A + 2.0) * x - (A + 3.0)) * x * x + 1.0,
                true if x < 2.0 => (((x - 5.0) * x + 8.0) * x - 4.0) * A,
                true => 0.0,
            }
        };
        (0..self.output)
            .map(|o| {
                let center = round(ratio * (o as f64 + 0.5));
                let first = (round(round(center - support) + 0.5) as i64).max(0);
                let end = (round(round(center + support) + 0.5) as i64).min(self.input);
                let mut taps: Taps = (first..end)
                    .map(|i| {
                        let at = round(round(i as f64 - center) + 0.5);
                        (i, round(filter(round(at * squeeze))))
                    })
                    .collect();
                let total = taps.iter().fold(0.0, |sum, t| round(sum + t.1));
                if total != 0.0 {
                    taps.iter_mut().for_each(|t| t.1 = round(t.1 / total));
                }
                taps
            })
            .collect()
    }
}

/// Which filter an op uses.
#[derive(Copy, Clone)]
enum Filter {
    Linear,
    Cubic,
    Antialiased { cubic: bool },
}

fn taps(axis: &Axis, filter: Filter, align_corners: bool, single: bool) -> Vec<Taps> {
    match filter {
        Filter::Linear => axis.linear(align_corners, single),
        Filter::Cubic => axis.cubic(align_corners, single),
        Filter::Antialiased { cubic } => axis.antialiased(align_corners, cubic, single),
    }
}

/// Each output as the weighted sum of its taps.
fn blend(cx: &mut Cx<'_, '_>, x: Value, dim: usize, taps: &[Taps]) -> Result<Value> {
    let (rank, element) = (cx.rank(x)?, cx.element(x)?);
    let most = taps.iter().map(Vec::len).max().unwrap_or(0);
    let mut total: Option<Ex> = None;
    for k in 0..most {
        let at: Vec<i64> = taps.iter().map(|t| t.get(k).map_or(0, |t| t.0)).collect();
        let weights: Vec<f64> = taps.iter().map(|t| t.get(k).map_or(0.0, |t| t.1)).collect();
        if weights.iter().all(|w| *w == 0.0) {
            continue;
        }
        let part = take(cx, x, dim, &at, &[at.len() as i64])?;
        let weights = constants_along(cx, &weights, element, dim, rank)?;
        let part = ex((ex(part) * weights).eval(cx)?);
        total = Some(match total {
            Some(sum) => sum + part,
            None => part,
        });
    }
    total
        .ok_or_else(|| Error::Internal("an output without taps".into()))?
        .eval(cx)
}

/// A product with the matrix that holds the taps, for filters of many taps and for gradients.
fn product(
    cx: &mut Cx<'_, '_>,
    x: Value,
    dim: usize,
    taps: &[Taps],
    input: i64,
    backward: bool,
) -> Result<Value> {
    let element = cx.element(x)?;
    let mut matrix = vec![0f64; taps.len() * input as usize];
    for (o, t) in taps.iter().enumerate() {
        for (i, w) in t {
            matrix[o * input as usize + *i as usize] += w;
        }
    }
    let matrix = cx.f.constant(&[taps.len() as i64, input], &matrix)?;
    let matrix = cx.cast(matrix, element)?;
    let names: String = "abcdefgh".chars().take(cx.rank(x)?).collect();
    let own = &names[dim..=dim];
    let out = names.replace(own, "z");
    let m = if backward {
        format!("{own}z")
    } else {
        format!("z{own}")
    };
    contract(cx, (x, &names), (matrix, &m), &out)
}

fn is_single(cx: &Cx<'_, '_>, v: Value) -> Result<bool> {
    Ok(cx.element(v)? != ElementType::F64)
}

fn resize(cx: &mut Cx<'_, '_>, scales: &[&str], filter: Filter) -> Lowered {
    if cx.meta("self")?.element == ElementType::U8 && scales.len() == 2 {
        return resize_bytes(cx, scales, filter);
    }
    let x = up(cx, "self")?;
    let (sizes, element) = (cx.dims(x)?, cx.element(x)?);
    if !element.is_float() {
        return Err(Error::unsupported("interpolation of integers"));
    }
    let out = &cx.out(0)?.dims;
    if out.contains(&0) {
        return Ok(cx.full(out, element, 0)?.into());
    }
    let align = cx.bool("align_corners")?;
    let single = is_single(cx, x)?;
    let mut v = x;
    // The last dimension first, as torch's antialiasing does.
    for (d, axis) in axes(cx, &sizes, scales)?.iter().enumerate().rev() {
        if axis.input == axis.output && matches!(filter, Filter::Antialiased { .. }) {
            continue;
        }
        let taps = taps(axis, filter, align, single);
        v = if matches!(filter, Filter::Antialiased { .. }) {
            product(cx, v, d + 2, &taps, axis.input, false)?
        } else {
            blend(cx, v, d + 2, &taps)?
        };
    }
    Ok(v.into())
}

/// Images of bytes, as the CPU resizes them: whole-numbered weights, and bytes between the two dimensions.
fn resize_bytes(cx: &mut Cx<'_, '_>, scales: &[&str], filter: Filter) -> Lowered {
    let x = cx.tensor("self")?;
    let sizes = cx.dims(x)?;
    let out = &cx.out(0)?.dims;
    if out.contains(&0) {
        return Ok(cx.full(out, ElementType::U8, 0)?.into());
    }
    let align = cx.bool("align_corners")?;
    let mut v = cx.cast(x, ElementType::S32)?;
    for (d, axis) in axes(cx, &sizes, scales)?.iter().enumerate().rev() {
        if axis.input == axis.output {
            continue;
        }
        let (taps, digits) = whole_weights(&taps(axis, filter, align, false));
        v = if matches!(filter, Filter::Antialiased { .. }) {
            product(cx, v, d + 2, &taps, axis.input, false)?
        } else {
            blend(cx, v, d + 2, &taps)?
        };
        let half = cx.full_like(v, if digits > 0 { 1i64 << (digits - 1) } else { 0 })?;
        v = cx.f.add(v, half)?;
        let by = cx.full_like(v, digits)?;
        v = cx.f.shift_right_arithmetic(v, by)?;
        let (low, high) = (
            cx.full(&[], ElementType::S32, 0)?,
            cx.full(&[], ElementType::S32, 255)?,
        );
        v = cx.f.clamp(low, v, high)?;
    }
    Ok(v.into())
}

/// Weights as 16-bit integers of as many binary digits as the greatest allows; and how many those are.
fn whole_weights(taps: &[Taps]) -> (Vec<Taps>, i64) {
    let mut most = 0f64;
    let merged: Vec<Taps> = taps
        .iter()
        .map(|taps| {
            let mut sums: Taps = Vec::new();
            for &(at, weight) in taps {
                // Places clamped to the border come more than once.
                let slot = match sums.iter().position(|s| s.0 == at) {
                    Some(slot) => slot,
                    None => {
                        sums.push((at, 0.0));
                        sums.len() - 1
                    }
                };
                sums[slot].1 += weight;
                most = most.max(sums[slot].1);
            }
            sums
        })
        .collect();
    let digits = (0..22)
        .find(|digits| (0.5 + most * f64::from(1 << (digits + 1))) as i32 >= 1 << 15)
        .unwrap_or(22);
    let whole = |w: f64| (w * f64::from(1 << digits)).round();
    let taps = merged
        .into_iter()
        .map(|taps| taps.into_iter().map(|(at, w)| (at, whole(w))).collect())
        .collect();
    (taps, i64::from(digits))
}

fn resize_backward(cx: &mut Cx<'_, '_>, scales: &[&str], filter: Filter) -> Lowered {
    let g = up(cx, "grad_output")?;
    let (input, element) = (cx.ints("input_size")?, cx.element(g)?);
    if input.contains(&0) {
        return Ok(cx.full(&input, element, 0)?.into());
    }
    let align = cx.bool("align_corners")?;
    let single = is_single(cx, g)?;
    let mut v = g;
    for (d, axis) in axes(cx, &input, scales)?.iter().enumerate() {
        if axis.input == axis.output && matches!(filter, Filter::Antialiased { .. }) {
            continue;
        }
        let taps = taps(axis, filter, align, single);
        v = product(cx, v, d + 2, &taps, axis.input, true)?;
    }
    Ok(v.into())
}

fn nearest(cx: &mut Cx<'_, '_>, scales: &[&str], exact: bool) -> Lowered {
    let x = cx.tensor("self")?;
    let (sizes, element) = (cx.dims(x)?, cx.element(x)?);
    let out = &cx.out(0)?.dims;
    if out.contains(&0) {
        return Ok(cx.full(out, element, 0)?.into());
    }
    let mut v = x;
    for (d, axis) in axes(cx, &sizes, scales)?.iter().enumerate() {
        v = take(cx, v, d + 2, &axis.nearest(exact), &[axis.output])?;
    }
    Ok(v.into())
}

fn nearest_backward(cx: &mut Cx<'_, '_>, scales: &[&str], exact: bool) -> Lowered {
    let g = up(cx, "grad_output")?;
    let (input, element) = (cx.ints("input_size")?, cx.element(g)?);
    if input.contains(&0) {
        return Ok(cx.full(&input, element, 0)?.into());
    }
    let mut v = g;
    for (d, axis) in axes(cx, &input, scales)?.iter().enumerate() {
        // The outputs of one input are neighbours.
        let from = axis.nearest(exact);
        let ranges: Vec<(i64, i64)> = (0..axis.input)
            .map(|i| {
                let first = from.partition_point(|x| *x < i) as i64;
                (first, from.partition_point(|x| *x <= i) as i64)
            })
            .collect();
        let parts = take_ranges(cx, v, d + 2, &ranges, stablehlo::Number::Int(0))?;
        v = sum(cx, parts, &[d as i64 + 3])?;
    }
    Ok(v.into())
}

const ONE: &[&str] = &["scales"];
const TWO: &[&str] = &["scales_h", "scales_w"];
const THREE: &[&str] = &["scales_d", "scales_h", "scales_w"];

macro_rules! resizers {
    ($($name:literal $backward:literal $scales:ident $forward_fn:ident $backward_fn:ident $how:expr;)*) => {
        pub(crate) const OPS: &[OpDef] = &[$(
            OpDef::new($name, |cx| $forward_fn(cx, $scales, $how)).statics($scales),
            OpDef::new($backward, |cx| $backward_fn(cx, $scales, $how)).statics($scales),
        )*];
    };
}
resizers! {
    "upsample_nearest1d" "upsample_nearest1d_backward" ONE nearest nearest_backward false;
    "upsample_nearest2d" "upsample_nearest2d_backward" TWO nearest nearest_backward false;
    "upsample_nearest3d" "upsample_nearest3d_backward" THREE nearest nearest_backward false;
    "_upsample_nearest_exact1d" "_upsample_nearest_exact1d_backward" ONE nearest nearest_backward true;
    "_upsample_nearest_exact2d" "_upsample_nearest_exact2d_backward" TWO nearest nearest_backward true;
    "_upsample_nearest_exact3d" "_upsample_nearest_exact3d_backward" THREE nearest nearest_backward true;
    "upsample_linear1d" "upsample_linear1d_backward" ONE resize resize_backward Filter::Linear;
    "upsample_bilinear2d" "upsample_bilinear2d_backward" TWO resize resize_backward Filter::Linear;
    "upsample_trilinear3d" "upsample_trilinear3d_backward" THREE resize resize_backward Filter::Linear;
    "upsample_bicubic2d" "upsample_bicubic2d_backward" TWO resize resize_backward Filter::Cubic;
    "_upsample_bilinear2d_aa" "_upsample_bilinear2d_aa_backward" TWO resize resize_backward Filter::Antialiased { cubic: false };
    "_upsample_bicubic2d_aa" "_upsample_bicubic2d_aa_backward" TWO resize resize_backward Filter::Antialiased { cubic: true };
}
