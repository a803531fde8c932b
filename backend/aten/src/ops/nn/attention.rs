//! The fused forms of attention that eager PyTorch reaches: scaled dot products as one program, and the encoder layer's fast path.

use stablehlo::Value;
use stablehlo::ops::Direction;

use super::dot::contract;
use super::ex::{ex, select};
use super::softmax::{safe_softmax_of, softmax_of};
use super::util::{max_keep, number, opt_as, slice_dim, sum_keep, up};
use crate::{Arg, Call, Cx, ElementType, Error, Lowered, OpDef, OutMeta, Result};

/// A product summed in single precision, then rounded to the operands' type as torch's kernels do between matmuls.
fn dot(cx: &mut Cx<'_, '_>, a: (Value, &str), b: (Value, &str), out: &str) -> Result<Value> {
    contract(cx, a, b, out)
}

/// `x W^T + b` over the last dimension.
fn linear(cx: &mut Cx<'_, '_>, x: Value, weight: &str, bias: &str) -> Result<Value> {
    let element = cx.element(x)?;
    let w = cx.tensor(weight)?;
    let w = cx.cast(w, element)?;
    let y = dot(cx, (x, "bld"), (w, "ed"), "ble")?;
    Ok(match opt_as(cx, bias, element)? {
        Some(b) => (ex(y) + b).eval(cx)?,
        None => y,
    })
}

/// What a mask hides, as scores' sizes (B, heads, L, S): a boolean mask of torch's kinds 0 (L, S), 1 (B, S), 2 (all).
fn hidden(cx: &mut Cx<'_, '_>, sizes: &[i64]) -> Result<Option<Value>> {
    let Some(mask) = cx.opt_tensor("mask")? else {
        return Ok(None);
    };
    let mask = cx.truth(mask)?;
    let dims = cx.dims(mask)?;
    let kind = cx.opt_int("mask_type")?.unwrap_or(2);
    let shaped = match (kind, dims.len()) {
        (0, 2) => cx.reshape(mask, &[1, 1, dims[0], dims[1]])?,
        (1, 2) => cx.reshape(mask, &[dims[0], 1, 1, dims[1]])?,
        (_, 4) => mask,
        (_, rank) => {
            return Err(Error::unsupported(format!(
                "an attention mask of kind {kind} and rank {rank}"
            )));
        }
    };
    Ok(Some(cx.broadcast_to(shaped, sizes)?))
}

/// Softmax along a dimension, zero where the mask hides, also where it hides all.
fn masked_softmax_of(cx: &mut Cx<'_, '_>, x: Value, mask: Option<Value>, dim: i64) -> Result<Value> {
    let Some(mask) = mask else {
        return softmax_of(cx, x, &[dim]);
    };
    let shown = select(mask, f64::NEG_INFINITY, x).eval(cx)?;
    safe_softmax_of(cx, shown, &[dim])
}

/// (B, L, heads * width) as (B, L, heads, width).
fn heads(cx: &mut Cx<'_, '_>, v: Value, n: i64) -> Result<Value> {
    let d = cx.dims(v)?;
    cx.reshape(v, &[d[0], d[1], n, d[2] / n])
}

/// Self- or cross-attention with packed projections: the result before its projection, and the weights.
fn attend(cx: &mut Cx<'_, '_>, parts: [Value; 3], n: i64) -> Result<(Value, Value)> {
    let [q, k, v] = parts;
    let width = cx.dims(q)?[2] / n;
    let q = (ex(q) / (width as f64).sqrt()).eval(cx)?;
    let (q, k, v) = (heads(cx, q, n)?, heads(cx, k, n)?, heads(cx, v, n)?);
    let scores = dot(cx, (q, "blhd"), (k, "bshd"), "bhls")?;
    let sizes = cx.dims(scores)?;
    let mask = hidden(cx, &sizes)?;
    let weights = masked_softmax_of(cx, scores, mask, 3)?;
    let y = dot(cx, (weights, "bhls"), (v, "bshd"), "blhd")?;
    let d = cx.dims(y)?;
    let y = cx.reshape(y, &[d[0], d[1], d[2] * d[3]])?;
    Ok((y, weights))
}

/// Query, key and value out of one packed projection.
fn thirds(cx: &mut Cx<'_, '_>, packed: Value) -> Result<[Value; 3]> {
    let e = cx.dims(packed)?[2] / 3;
    Ok([
        slice_dim(cx, packed, 2, 0, e)?,
        slice_dim(cx, packed, 2, e, 2 * e)?,
        slice_dim(cx, packed, 2, 2 * e, 3 * e)?,
    ])
}

/// Each of three inputs through its third of the packed projection.
fn project_each(cx: &mut Cx<'_, '_>) -> Result<[Value; 3]> {
    let mut out = Vec::new();
    let e = cx.int("embed_dim")?;
    for (i, name) in ["query", "key", "value"].into_iter().enumerate() {
        let x = up(cx, name)?;
        let (from, to) = (i as i64 * e, (i as i64 + 1) * e);
        let (w, b) = (up(cx, "qkv_weight")?, up(cx, "qkv_bias")?);
        let (w, b) = (slice_dim(cx, w, 0, from, to)?, slice_dim(cx, b, 0, from, to)?);
        let y = dot(cx, (x, "bld"), (w, "ed"), "ble")?;
        out.push((ex(y) + b).eval(cx)?);
    }
    Ok([out[0], out[1], out[2]])
}

fn native_multi_head_attention(cx: &mut Cx<'_, '_>) -> Lowered {
    let n = cx.int("num_head")?;
    let parts = project_each(cx)?;
    let (y, weights) = attend(cx, parts, n)?;
    let y = linear(cx, y, "proj_weight", "proj_bias")?;
    if !cx.bool("need_weights")? {
        return Ok(vec![Some(y), None].into());
    }
    let weights = if cx.bool("average_attn_weights")? {
        let total = super::util::sum(cx, weights, &[1])?;
        (ex(total) / n as f64).eval(cx)?
    } else {
        weights
    };
    Ok((y, weights).into())
}

/// Layer normalization over the last dimension.
fn norm(cx: &mut Cx<'_, '_>, x: Value, weight: &str, bias: &str) -> Result<Value> {
    let element = cx.element(x)?;
    let mean = super::util::mean_keep(cx, x, &[2])?;
    let centered = (ex(x) - mean).eval(cx)?;
    let square = (ex(centered) * centered).eval(cx)?;
    let variance = super::util::mean_keep(cx, square, &[2])?;
    let eps = number(cx, "eps", x)?;
    let mut y = ex(centered) * (ex(variance) + eps).rsqrt();
    if let Some(w) = opt_as(cx, weight, element)? {
        y = y * w;
    }
    if let Some(b) = opt_as(cx, bias, element)? {
        y = y + b;
    }
    y.eval(cx)
}

/// nn.TransformerEncoderLayer in evaluation.
fn transformer_encoder_layer_fwd(cx: &mut Cx<'_, '_>) -> Lowered {
    let src = up(cx, "src")?;
    let n = cx.int("num_heads")?;
    let first = cx.bool("norm_first")?;
    let normed = if first {
        norm(cx, src, "norm_weight_1", "norm_bias_1")?
    } else {
        src
    };
    let packed = linear(cx, normed, "qkv_weight", "qkv_bias")?;
    let parts = thirds(cx, packed)?;
    let (y, _) = attend(cx, parts, n)?;
    let y = linear(cx, y, "proj_weight", "proj_bias")?;
    let mut x = (ex(y) + src).eval(cx)?;
    if !first {
        x = norm(cx, x, "norm_weight_1", "norm_bias_1")?;
    }
    let inner = if first {
        norm(cx, x, "norm_weight_2", "norm_bias_2")?
    } else {
        x
    };
    let inner = linear(cx, inner, "ffn_weight_1", "ffn_bias_1")?;
    let inner = if cx.bool("use_gelu")? {
        super::activation::gelu_exact(cx, inner)?
    } else {
        ex(inner).max(0.0).eval(cx)?
    };
    let inner = linear(cx, inner, "ffn_weight_2", "ffn_bias_2")?;
    let x = (ex(x) + inner).eval(cx)?;
    Ok(if first {
        x
    } else {
        norm(cx, x, "norm_weight_2", "norm_bias_2")?
    }
    .into())
}

/// `softmax(self)` with `mask` hidden.
fn masked_softmax(cx: &mut Cx<'_, '_>) -> Lowered {
    let x = up(cx, "self")?;
    let sizes = cx.dims(x)?;
    let dim = match cx.opt_int("dim")? {
        Some(_) => cx.dim("dim", sizes.len())?,
        None => sizes.len() as i64 - 1,
    };
    let mask = if sizes.len() == 4 {
        hidden(cx, &sizes)?
    } else {
        let mask = cx.tensor("mask")?;
        Some(cx.broadcast_to(mask, &sizes)?)
    };
    Ok(masked_softmax_of(cx, x, mask, dim)?.into())
}

fn transform_bias_rescale_qkv(cx: &mut Cx<'_, '_>) -> Lowered {
    let x = up(cx, "qkv")?;
    let b = up(cx, "qkv_bias")?;
    let n = cx.int("num_heads")?;
    let x = (ex(x) + b).eval(cx)?;
    let [q, k, v] = thirds(cx, x)?;
    let width = cx.dims(q)?[2] / n;
    let q = (ex(q) / (width as f64).sqrt()).eval(cx)?;
    let mut all = Vec::new();
    for part in [q, k, v] {
        let part = heads(cx, part, n)?;
        all.push(cx.f.transpose(part, &[0, 2, 1, 3])?);
    }
    Ok(all.into())
}

/// Scores (B, H, L, S) of scaled queries and keys, biased and causally masked.
fn scores(cx: &mut Cx<'_, '_>, bias: &str) -> Result<(Value, Value)> {
    let (q, k) = (cx.tensor("query")?, cx.tensor("key")?);
    let s = dot(cx, (q, "bhld"), (k, "bhsd"), "bhls")?;
    let scale = scale(cx, s)?;
    let mut s = (ex(s) * scale).eval(cx)?;
    let sizes = cx.dims(s)?;
    if let Some(bias) = cx.opt_tensor(bias)? {
        s = if cx.element(bias)? == ElementType::Pred {
            let bias = cx.broadcast_to(bias, &sizes)?;
            select(bias, s, f64::NEG_INFINITY).eval(cx)?
        } else {
            let element = cx.element(s)?;
            (ex(s) + ex(bias).cast(element)).eval(cx)?
        };
    }
    if cx.bool("is_causal")? {
        let row = cx.f.iota(sizes.as_slice(), ElementType::S32, 2)?;
        let column = cx.f.iota(sizes.as_slice(), ElementType::S32, 3)?;
        let seen = cx.f.compare(row, column, Direction::Ge)?;
        s = select(seen, s, f64::NEG_INFINITY).eval(cx)?;
    }
    Ok((s, scale))
}

/// The scale: `1 / sqrt(width)` unless it is given.
fn scale(cx: &mut Cx<'_, '_>, like: Value) -> Result<Value> {
    let element = cx.element(like)?;
    if let Some(scale) = cx.opt_scalar("scale", element)? {
        return Ok(scale);
    }
    let q = cx.tensor("query")?;
    let width = cx.dims(q)?[3];
    cx.full(&[], element, 1.0 / (width as f64).sqrt())
}

/// What the overloads call the tensor that is added to the scores.
fn bias_name(cx: &Cx<'_, '_>) -> &'static str {
    if cx.has("attn_mask") {
        "attn_mask"
    } else {
        "attn_bias"
    }
}

/// `softmax(q k^T * scale + bias) v` and the logarithm of the softmax's denominator.
fn fused_attention(cx: &mut Cx<'_, '_>) -> Lowered {
    if cx.float("dropout_p")? != 0.0 {
        return Err(Error::unsupported("dropout inside fused attention"));
    }
    let (s, _) = scores(cx, bias_name(cx))?;
    let max = max_keep(cx, s, &[3])?;
    // A row that sees nothing gives zeros, as in torch.
    let base = select(ex(max).eq(f64::NEG_INFINITY), 0.0, max).eval(cx)?;
    let e = (ex(s) - base).exp().eval(cx)?;
    let total = sum_keep(cx, e, &[3])?;
    let v = cx.tensor("value")?;
    let element = cx.element(v)?;
    // As torch's kernel does: what is summed is divided after it.
    let narrow = cx.cast(e, element)?;
    let y = dot(cx, (narrow, "bhls"), (v, "bhsd"), "bhld")?;
    let y = select(ex(total).eq(0.0), 0.0, ex(y) * (1.0 / ex(total))).eval(cx)?;
    let lse = (ex(total).ln() + base).eval(cx)?;
    let dims = cx.dims(lse)?;
    let lse = cx.reshape(lse, &dims[..3])?;
    let mut all = vec![Some(y), Some(lse)];
    // Sequence lengths, seeds and the debug mask are kept for kernels that need them; ours does not.
    for k in 2..cx.call.outs.len() {
        all.push(match cx.wants(k) {
            true => {
                let out = cx.out(k)?;
                Some(cx.full(&out.dims, out.element, 0)?)
            }
            false => None,
        });
    }
    Ok(all.into())
}

fn fused_attention_backward(cx: &mut Cx<'_, '_>) -> Lowered {
    if cx.float("dropout_p")? != 0.0 {
        return Err(Error::unsupported("dropout inside fused attention"));
    }
    let bias = bias_name(cx);
    let mask = if cx.has("grad_input_mask") {
        cx.bools("grad_input_mask")?
    } else {
        vec![true; 3]
    };
    let (s, scale) = scores(cx, bias)?;
    let element = cx.element(s)?;
    let (lse, g) = (cx.tensor("logsumexp")?, up(cx, "grad_out")?);
    let lse = cx.cast(lse, element)?;
    let dims = cx.dims(lse)?;
    let lse = cx.reshape(lse, &[dims[0], dims[1], dims[2], 1])?;
    let p = select(ex(lse).eq(f64::NEG_INFINITY), 0.0, (ex(s) - lse).exp()).eval(cx)?;
    // Factors are of the narrow type, sums of the wide one.
    let (q, k, v) = (cx.tensor("query")?, cx.tensor("key")?, cx.tensor("value")?);
    let (own, narrow_g) = (cx.element(q)?, cx.tensor("grad_out")?);
    let narrow_p = cx.cast(p, own)?;
    let dv = dot(cx, (narrow_p, "bhls"), (narrow_g, "bhld"), "bhsd")?;
    let dp = dot(cx, (narrow_g, "bhld"), (v, "bhsd"), "bhls")?;
    let y = up(cx, "out")?;
    let gy = (ex(g) * y).eval(cx)?;
    let delta = sum_keep(cx, gy, &[3])?;
    let ds = (ex(p) * (ex(dp) - delta)).eval(cx)?;
    let narrow_ds = cx.cast(ds, own)?;
    let dq = dot(cx, (narrow_ds, "bhls"), (k, "bhsd"), "bhld")?;
    let dk = dot(cx, (narrow_ds, "bhls"), (q, "bhld"), "bhsd")?;
    let (dq, dk) = ((ex(dq) * scale).eval(cx)?, (ex(dk) * scale).eval(cx)?);
    let db = match cx.opt_tensor(bias)? {
        Some(bias) if cx.wants(3) => {
            let sizes = cx.dims(bias)?;
            let full = cx.dims(ds)?;
            let skip = full.len() - sizes.len();
            let gone: Vec<i64> = (0..full.len())
                .filter(|&d| d < skip || (sizes[d - skip] == 1 && full[d] != 1))
                .map(|d| d as i64)
                .collect();
            let total = super::util::sum(cx, ds, &gone)?;
            let total = cx.reshape(total, &sizes)?;
            Some(cx.cast(total, element)?)
        }
        _ => None,
    };
    if !cx.has("grad_input_mask") {
        return Ok((dq, dk, dv).into());
    }
    Ok(super::util::masked(&mask, [Some(dq), Some(dk), Some(dv), db]))
}

/// The result and, where they are needed, the weights.
fn attended(call: &Call) -> Result<Vec<Option<OutMeta>>> {
    let is = |name: &str| matches!(call.arg(name), Some(Arg::Bool(true)));
    let query = super::util::like(call, "query")?;
    let key = super::util::like(call, "key")?;
    let weights = match (query.first(), key.first(), call.arg("num_head")) {
        (Some(Some(q)), Some(Some(k)), Some(Arg::Int(heads))) if is("need_weights") => {
            let mut dims = vec![q.dims[0], *heads, q.dims[1], k.dims[1]];
            if is("average_attn_weights") {
                dims.remove(1);
            }
            Some(OutMeta {
                dims: dims.into_iter().collect(),
                element: q.element,
            })
        }
        _ => None,
    };
    Ok(query.into_iter().chain([weights]).collect())
}

/// Three of (B, heads, L, width).
fn rescaled(call: &Call) -> Result<Vec<Option<OutMeta>>> {
    let packed = super::util::like(call, "qkv")?;
    let heads = match call.arg("num_heads") {
        Some(Arg::Int(n)) => *n,
        _ => 1,
    };
    let part = packed.into_iter().flatten().next().map(|m| OutMeta {
        dims: [m.dims[0], heads, m.dims[1], m.dims[2] / 3 / heads]
            .into_iter()
            .collect(),
        element: m.element,
    });
    Ok(vec![part.clone(), part.clone(), part])
}

pub(crate) const OPS: &[OpDef] = &[
    OpDef::new("_native_multi_head_attention", native_multi_head_attention).shape(attended),
    OpDef::new("_transformer_encoder_layer_fwd", transformer_encoder_layer_fwd),
    OpDef::new("_masked_softmax", masked_softmax).shape(|call| super::util::like(call, "self")),
    OpDef::new("_transform_bias_rescale_qkv", transform_bias_rescale_qkv).shape(rescaled),
    OpDef::new(
        "_scaled_dot_product_fused_attention_overrideable",
        fused_attention,
    )
    .statics(&["dropout_p"]),
    OpDef::new(
        "_scaled_dot_product_fused_attention_overrideable_backward",
        fused_attention_backward,
    )
    .statics(&["dropout_p"]),
    OpDef::new("_scaled_dot_product_flash_attention_for_cpu", fused_attention).statics(&["dropout_p"]),
    OpDef::new(
        "_scaled_dot_product_flash_attention_for_cpu_backward",
        fused_attention_backward,
    )
    .statics(&["dropout_p"]),
];
