//! The fused LSTM and GRU cells, which torch's recurrent layers use on devices of this kind, with gradients.

use stablehlo::Value;

use super::ex::ex;
use super::util::{opt_as, slice_dim, sum, up};
use crate::{Cx, Lowered, OpDef, Result};

/// Part `k` of `n` along the last dimension.
fn chunk(cx: &mut Cx<'_, '_>, v: Value, k: i64, n: i64) -> Result<Value> {
    let dims = cx.dims(v)?;
    let last = dims.len() - 1;
    let width = dims[last] / n;
    slice_dim(cx, v, last, k * width, (k + 1) * width)
}

fn join(cx: &mut Cx<'_, '_>, parts: &[Value]) -> Result<Value> {
    let last = cx.rank(parts[0])? as i64 - 1;
    Ok(cx.f.concatenate(parts, last)?)
}

/// Gates and bias, when there is one.
fn biased(cx: &mut Cx<'_, '_>, gates: &str, bias: &str) -> Result<Value> {
    let g = up(cx, gates)?;
    let element = cx.element(g)?;
    Ok(match opt_as(cx, bias, element)? {
        Some(b) => (ex(g) + b).eval(cx)?,
        None => g,
    })
}

fn lstm_cell(cx: &mut Cx<'_, '_>) -> Lowered {
    let (a, b) = (
        biased(cx, "input_gates", "input_bias")?,
        biased(cx, "hidden_gates", "hidden_bias")?,
    );
    let gates = (ex(a) + b).eval(cx)?;
    let mut parts = Vec::new();
    for k in 0..4 {
        let g = chunk(cx, gates, k, 4)?;
        parts.push(if k == 2 { ex(g).tanh() } else { ex(g).sigmoid() }.eval(cx)?);
    }
    let [i, f, g, o] = [parts[0], parts[1], parts[2], parts[3]];
    let c = up(cx, "cx")?;
    let cy = (ex(f) * c + ex(i) * g).eval(cx)?;
    let hy = (ex(o) * ex(cy).tanh()).eval(cx)?;
    Ok((hy, cy, join(cx, &parts)?).into())
}

fn lstm_cell_backward(cx: &mut Cx<'_, '_>) -> Lowered {
    let (c, cy, gates) = (up(cx, "cx")?, up(cx, "cy")?, up(cx, "workspace")?);
    let element = cx.element(c)?;
    let zero = cx.full_like(c, 0)?;
    let gh = opt_as(cx, "grad_hy", element)?.unwrap_or(zero);
    let gc = opt_as(cx, "grad_cy", element)?.unwrap_or(zero);
    let mut parts = Vec::new();
    for k in 0..4 {
        parts.push(chunk(cx, gates, k, 4)?);
    }
    let [i, f, g, o] = [parts[0], parts[1], parts[2], parts[3]];
    let t = ex(cy).tanh().eval(cx)?;
    let dc = (ex(gh) * o * (1.0 - ex(t) * t) + gc).eval(cx)?;
    let sigmoid = |y: Value| ex(y) * (1.0 - ex(y));
    let di = (ex(dc) * g * sigmoid(i)).eval(cx)?;
    let df = (ex(dc) * c * sigmoid(f)).eval(cx)?;
    let dg = (ex(dc) * i * (1.0 - ex(g) * g)).eval(cx)?;
    let d_o = (ex(gh) * t * sigmoid(o)).eval(cx)?;
    let d_gates = join(cx, &[di, df, dg, d_o])?;
    let d_cx = (ex(dc) * f).eval(cx)?;
    let bias = match cx.bool("has_bias")? {
        true => Some(sum(cx, d_gates, &[0])?),
        false => None,
    };
    Ok(vec![Some(d_gates), Some(d_cx), bias].into())
}

fn gru_cell(cx: &mut Cx<'_, '_>) -> Lowered {
    let (a, b) = (
        biased(cx, "input_gates", "input_bias")?,
        biased(cx, "hidden_gates", "hidden_bias")?,
    );
    let h = up(cx, "hx")?;
    let mut halves = Vec::new();
    for k in 0..3 {
        halves.push((chunk(cx, a, k, 3)?, chunk(cx, b, k, 3)?));
    }
    let r = (ex(halves[0].0) + halves[0].1).sigmoid().eval(cx)?;
    let z = (ex(halves[1].0) + halves[1].1).sigmoid().eval(cx)?;
    let hn = halves[2].1;
    let n = (ex(halves[2].0) + ex(r) * hn).tanh().eval(cx)?;
    let hy = (ex(n) + ex(z) * (ex(h) - n)).eval(cx)?;
    Ok((hy, join(cx, &[r, z, n, h, hn])?).into())
}

fn gru_cell_backward(cx: &mut Cx<'_, '_>) -> Lowered {
    let (g, saved) = (up(cx, "grad_hy")?, up(cx, "workspace")?);
    let mut parts = Vec::new();
    for k in 0..5 {
        parts.push(chunk(cx, saved, k, 5)?);
    }
    let [r, z, n, h, hn] = [parts[0], parts[1], parts[2], parts[3], parts[4]];
    let dn = (ex(g) * (1.0 - ex(z)) * (1.0 - ex(n) * n)).eval(cx)?;
    let dz = (ex(g) * (ex(h) - n) * ex(z) * (1.0 - ex(z))).eval(cx)?;
    let dr = (ex(dn) * hn * ex(r) * (1.0 - ex(r))).eval(cx)?;
    let dhn = (ex(dn) * r).eval(cx)?;
    let d_input = join(cx, &[dr, dz, dn])?;
    let d_hidden = join(cx, &[dr, dz, dhn])?;
    let d_hx = (ex(g) * z).eval(cx)?;
    let (bi, bh) = match cx.bool("has_bias")? {
        true => (Some(sum(cx, d_input, &[0])?), Some(sum(cx, d_hidden, &[0])?)),
        false => (None, None),
    };
    Ok(vec![Some(d_input), Some(d_hidden), Some(d_hx), bi, bh].into())
}

pub(crate) const OPS: &[OpDef] = &[
    OpDef::new("_thnn_fused_lstm_cell", lstm_cell),
    OpDef::new("_thnn_fused_lstm_cell_backward_impl", lstm_cell_backward),
    OpDef::new("_thnn_fused_gru_cell", gru_cell),
    OpDef::new("_thnn_fused_gru_cell_backward", gru_cell_backward),
];
