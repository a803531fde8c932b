//! Convolution in every form, with gradients. All are one of three: a forward one, its gradient for the input (which is also the
//! transposed convolution), its gradient for the weight.

use stablehlo::Value;
use stablehlo::ops::{ConvolutionDimensions, ConvolutionOptions};

use super::dot::{contract, dot_options};
use super::ex::ex;
use super::util::{along, masked, opt_as, sum, up, window_list};
use crate::layout::{is_channels_last, lies};
use crate::{Arg, Call, Cx, ElementType, Error, ErrorKind, Lowered, Made, OpDef, Result};

/// What a convolution's arguments say, an entry for each spatial dimension.
struct Geometry {
    stride: Vec<i64>,
    padding: Vec<i64>,
    dilation: Vec<i64>,
    groups: i64,
}

impl Geometry {
    fn read(cx: &Cx<'_, '_>, spatial: usize) -> Result<Self> {
        let list = |name: &str, standard: i64| window_list(cx, name, spatial, || vec![standard; spatial]);
        let geometry = Self {
            stride: list("stride", 1)?,
            padding: list("padding", 0)?,
            dilation: list("dilation", 1)?,
            groups: cx.opt_int("groups")?.unwrap_or(1),
        };
        let least = [
            (&geometry.padding, 0, "negative padding is not supported"),
            (
                &list("output_padding", 0)?,
                0,
                "negative output_padding is not supported",
            ),
            (&geometry.stride, 1, "non-positive stride is not supported"),
            (&geometry.dilation, 1, "dilation should be greater than zero"),
        ];
        if let Some((_, _, text)) = least
            .iter()
            .find(|(given, least, _)| given.iter().any(|n| n < least))
        {
            return Err(Error::user(ErrorKind::Runtime, *text));
        }
        Ok(geometry)
    }

    fn spatial(&self) -> usize {
        self.stride.len()
    }
}

/// Zeros where there is nothing to multiply; the plugins need not see such programs.
fn convolve(
    cx: &mut Cx<'_, '_>,
    lhs: Value,
    rhs: Value,
    dims: &ConvolutionDimensions,
    mut options: ConvolutionOptions,
    out: &[i64],
) -> Result<Value> {
    let element = cx.element(lhs)?;
    let dot = dot_options(element);
    (options.precision, options.element) = (dot.precision, dot.element);
    let nothing = |d: &[i64]| d.contains(&0);
    if nothing(&cx.dims(lhs)?) || nothing(&cx.dims(rhs)?) || nothing(out) {
        return cx.full(out, dot.element.unwrap_or(element), 0);
    }
    if element == ElementType::S64 {
        return by_products(cx, lhs, rhs, dims, &options, out);
    }
    Ok(cx.f.convolution(lhs, rhs, dims, &options)?)
}

/// A product for each place of the kernel, and their sum: the TPU's compiler convolves no integers of 64 bits.
fn by_products(
    cx: &mut Cx<'_, '_>,
    x: Value,
    w: Value,
    dims: &ConvolutionDimensions,
    options: &ConvolutionOptions,
    out: &[i64],
) -> Result<Value> {
    let mut order: Vec<i64> = (0..cx.rank(w)? as i64).collect();
    (order[0], order[1]) = (dims.kernel_output_feature, dims.kernel_input_feature);
    let w = cx.f.transpose(w, &order)?;
    let (w_dims, groups) = (cx.dims(w)?, options.feature_group_count);
    let (o, i, kernel) = (w_dims[0], w_dims[1], &w_dims[2..]);
    let zero = cx.full(&[], ElementType::S64, 0)?;
    let around = |side: usize| {
        [
            &[0, 0][..],
            &options.padding.iter().map(|p| p[side]).collect::<Vec<_>>(),
        ]
        .concat()
    };
    let between = [
        &[0, 0][..],
        &options.lhs_dilation.iter().map(|d| d - 1).collect::<Vec<_>>(),
    ]
    .concat();
    let x = cx.f.pad(x, zero, &around(0), &around(1), &between)?;
    let (batch, places) = (out[0], out[2..].iter().product::<i64>());
    let mut sum: Option<Value> = None;
    let x_dims = cx.dims(x)?;
    for place in 0..kernel.iter().product::<i64>() {
        let mut rest = place;
        let (mut low, mut high, mut steps) = (vec![0; x_dims.len()], x_dims.to_vec(), vec![1; x_dims.len()]);
        let (mut from, mut to) = (vec![0; w_dims.len()], w_dims.to_vec());
        for (d, size) in kernel.iter().enumerate().rev() {
            let (at, step) = (rest % size, options.window_strides[d]);
            rest /= size;
            low[d + 2] = at * options.rhs_dilation[d];
            high[d + 2] = low[d + 2] + (out[d + 2] - 1) * step + 1;
            steps[d + 2] = step;
            (from[d + 2], to[d + 2]) = (at, at + 1);
        }
        let part = cx.f.slice(x, &low, &high, &steps)?;
        let weight = cx.f.slice(w, &from, &to, &vec![1; w_dims.len()])?;
        let part = cx.reshape(part, &[batch, groups, i, places])?;
        let weight = cx.reshape(weight, &[groups, o / groups, i])?;
        let product = contract(cx, (part, "ngip"), (weight, "goi"), "ngop")?;
        sum = Some(match sum {
            Some(sum) => cx.f.add(sum, product)?,
            None => product,
        });
    }
    let sum = sum.ok_or_else(|| Error::Internal("a kernel without places".into()))?;
    cx.reshape(sum, out)
}

fn forward(cx: &mut Cx<'_, '_>, x: Value, w: Value, g: &Geometry, out: &[i64]) -> Result<Value> {
    let (x_dims, w_dims) = (cx.dims(x)?, cx.dims(w)?);
    let padding = (0..g.spatial()).map(|d| {
        let (p, reach) = (g.padding[d], g.dilation[d] * (w_dims[d + 2] - 1));
        let windows = (x_dims[d + 2] + 2 * p - reach - 1).div_euclid(g.stride[d]) + 1;
        // Fewer windows are wanted by a transposed convolution's gradient, whose output padding made room for more.
        let high = match windows == out[d + 2] {
            true => p,
            false => (out[d + 2] - 1) * g.stride[d] + reach + 1 - x_dims[d + 2] - p,
        };
        [p, high]
    });
    let options = ConvolutionOptions {
        window_strides: g.stride.clone(),
        padding: padding.collect(),
        rhs_dilation: g.dilation.clone(),
        feature_group_count: g.groups,
        ..ConvolutionOptions::new(g.spatial())
    };
    let dims = ConvolutionDimensions::channels_first(g.spatial());
    convolve(cx, x, w, &dims, options, out)
}

/// From the gradient of the result to that of the input, whose sizes are `out`.
fn input_grad(cx: &mut Cx<'_, '_>, grad: Value, w: Value, g: &Geometry, out: &[i64]) -> Result<Value> {
    let n = g.spatial();
    let (grad_dims, w_dims) = (cx.dims(grad)?, cx.dims(w)?);
    // Kernels of all groups side by side: (O, I / groups) becomes (O / groups, I).
    let (o, i, groups) = (w_dims[0], w_dims[1], g.groups);
    let mut w = w;
    if groups > 1 {
        let kernel = &w_dims[2..];
        let split = [&[groups, o / groups, i], kernel].concat();
        let mut order: Vec<i64> = (0..split.len() as i64).collect();
        order.swap(0, 1);
        w = cx.reshape(w, &split)?;
        w = cx.f.transpose(w, &order)?;
        w = cx.reshape(w, &[&[o / groups, groups * i], kernel].concat())?;
    }
    let spatial: Vec<i64> = (2..n as i64 + 2).collect();
    // Reversed here and not by `window_reversal`, with which XLA CPU falls back to plain loops.
    let w = cx.f.reverse(w, &spatial)?;
    let padding = (0..n).map(|d| {
        let reach = g.dilation[d] * (w_dims[d + 2] - 1);
        let dilated = (grad_dims[d + 2] - 1) * g.stride[d] + 1;
        let low = reach - g.padding[d];
        [low, out[d + 2] + reach - dilated - low]
    });
    let options = ConvolutionOptions {
        padding: padding.collect(),
        lhs_dilation: g.stride.clone(),
        rhs_dilation: g.dilation.clone(),
        feature_group_count: groups,
        ..ConvolutionOptions::new(n)
    };
    let dims = ConvolutionDimensions {
        kernel_input_feature: 0,
        kernel_output_feature: 1,
        ..ConvolutionDimensions::channels_first(n)
    };
    convolve(cx, grad, w, &dims, options, out)
}

/// The gradient of a weight of sizes `out`.
fn weight_grad(cx: &mut Cx<'_, '_>, x: Value, grad: Value, g: &Geometry, out: &[i64]) -> Result<Value> {
    let n = g.spatial();
    let (x_dims, grad_dims) = (cx.dims(x)?, cx.dims(grad)?);
    let padding = (0..n).map(|d| {
        let reach = (out[d + 2] - 1) * g.dilation[d];
        let dilated = (grad_dims[d + 2] - 1) * g.stride[d] + 1;
        [g.padding[d], reach + dilated - x_dims[d + 2] - g.padding[d]]
    });
    let options = ConvolutionOptions {
        window_strides: g.dilation.clone(),
        padding: padding.collect(),
        rhs_dilation: g.stride.clone(),
        batch_group_count: g.groups,
        ..ConvolutionOptions::new(n)
    };
    // The batch is what is summed, so batch and features change places.
    let dims = ConvolutionDimensions {
        input_batch: 1,
        input_feature: 0,
        kernel_input_feature: 0,
        kernel_output_feature: 1,
        output_batch: 1,
        output_feature: 0,
        ..ConvolutionDimensions::channels_first(n)
    };
    convolve(cx, x, grad, &dims, options, out)
}

/// The rank of input and weight without batch and features.
fn spatial(cx: &Cx<'_, '_>, x: Value, w: Value) -> Result<usize> {
    let (x, w) = (cx.rank(x)?, cx.rank(w)?);
    if x != w || x < 3 {
        return Err(Error::unsupported(format!(
            "a convolution of an input of rank {x} and a weight of rank {w}"
        )));
    }
    Ok(x - 2)
}

fn convolution(cx: &mut Cx<'_, '_>) -> Lowered {
    let (x, w) = (cx.tensor("input")?, cx.tensor("weight")?);
    let (have, want) = (cx.element(w)?, cx.element(x)?);
    if have != want {
        return Err(Error::Refused(format!(
            "Input type ({want}) and weight type ({have}) should be the same"
        )));
    }
    let g = Geometry::read(cx, spatial(cx, x, w)?)?;
    let out = &cx.out(0)?.dims;
    let y = if cx.bool("transposed")? {
        input_grad(cx, x, w, &g, out)?
    } else {
        forward(cx, x, w, &g, out)?
    };
    let element = cx.element(y)?;
    Ok(match opt_as(cx, "bias", element)? {
        Some(bias) => {
            let bias = along(cx, bias, 1, out.len())?;
            (ex(y) + bias).eval(cx)?
        }
        None => y,
    }
    .into())
}

fn convolution_backward(cx: &mut Cx<'_, '_>) -> Lowered {
    let mask = cx.bools("output_mask")?;
    let (grad, x, w) = (
        cx.tensor("grad_output")?,
        cx.tensor("input")?,
        cx.tensor("weight")?,
    );
    let g = Geometry::read(cx, spatial(cx, x, w)?)?;
    let (x_dims, w_dims) = (cx.dims(x)?, cx.dims(w)?);
    let transposed = cx.bool("transposed")?;
    let wanted = |k: usize| mask.get(k).copied().unwrap_or(false);
    let mut grads = [None; 3];
    if wanted(0) {
        grads[0] = Some(if transposed {
            forward(cx, grad, w, &g, &x_dims)?
        } else {
            input_grad(cx, grad, w, &g, &x_dims)?
        });
    }
    if wanted(1) {
        let (from, to) = if transposed { (grad, x) } else { (x, grad) };
        grads[1] = Some(weight_grad(cx, from, to, &g, &w_dims)?);
    }
    if wanted(2) {
        let grad = up(cx, "grad_output")?;
        let others: Vec<i64> = (0..x_dims.len() as i64).filter(|d| *d != 1).collect();
        grads[2] = Some(sum(cx, grad, &others)?);
    }
    Ok(masked(&mask, grads))
}

/// Whether CPU torch computes with the channels last in memory: as the image or the kernel has them. Its own kernels for volumes,
/// which take what oneDNN does not, never do.
fn computes_channels_last(call: &Call, strides: &[&[i64]]) -> bool {
    let last = |name: &str| {
        let (dims, strides) = lies(call, strides, name)?;
        match dims.len() {
            // A signal is an image of one row; CPU torch first makes it dense.
            3 if name == "weight" => {
                let row = [dims[0], dims[1], 1, dims[2]];
                Some(is_channels_last(
                    &row,
                    &[strides[0], strides[1], strides[2] * dims[2], strides[2]],
                ))
            }
            5 if !by_onednn(call, true) => None,
            _ => Some(is_channels_last(dims, strides)),
        }
    };
    last("input").unwrap_or(false) || last("weight").unwrap_or(false)
}

/// Whether oneDNN takes this type; a complex convolution is made of real ones.
fn by_onednn(call: &Call, complex: bool) -> bool {
    let Some(Arg::Tensor(i)) = call.arg("input") else {
        return false;
    };
    match call.tensors[*i as usize].element {
        ElementType::F32 | ElementType::F16 | ElementType::BF16 => true,
        element => complex && element == ElementType::C64,
    }
}

fn layout(call: &Call, strides: &[&[i64]], made: &mut [Option<Made>]) {
    let last = computes_channels_last(call, strides);
    if let Some(Some(first)) = made.first_mut() {
        first.lay_channels(last);
    }
}

/// Gradients of the image and the kernel; the bias has none to lay.
fn backward_layout(call: &Call, strides: &[&[i64]], made: &mut [Option<Made>]) {
    let last = computes_channels_last(call, strides);
    let grouped = matches!(call.arg("groups"), Some(Arg::Int(n)) if *n > 1);
    let real =
        !matches!(call.arg("input"), Some(Arg::Tensor(i)) if call.tensors[*i as usize].element.is_complex());
    for (k, grad) in made.iter_mut().take(2).enumerate() {
        if let Some(grad) = grad {
            // Kernels of groups that are computed one by one are put one after the other.
            let joined = k == 1 && grouped && !transposed(call) && !by_onednn(call, false);
            grad.lay_channels(last && real && !joined);
        }
    }
}

fn transposed(call: &Call) -> bool {
    matches!(call.arg("transposed"), Some(Arg::Bool(true)))
}

pub(crate) const OPS: &[OpDef] = &[
    OpDef::new("convolution", convolution).amend(layout),
    OpDef::new("_convolution", convolution).amend(layout),
    OpDef::new("convolution_overrideable", convolution).amend(layout),
    OpDef::new("convolution_backward", convolution_backward).amend(backward_layout),
    OpDef::new("convolution_backward_overrideable", convolution_backward).amend(backward_layout),
];
