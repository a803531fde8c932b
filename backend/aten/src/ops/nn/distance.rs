//! Distances between rows, with gradients.

use stablehlo::Value;

use super::ex::{Ex, ex, select};
use super::util::{max_keep, sum, up};
use crate::{Cx, Lowered, OpDef, Result};

/// The p-norm of `d` over its last dimension.
fn norm(cx: &mut Cx<'_, '_>, d: Value, p: f64) -> Result<Value> {
    let last = cx.rank(d)? as i64 - 1;
    let dims = cx.dims(d)?;
    let kept = &dims[..last as usize];
    let size = ex(d).abs().eval(cx)?;
    let element = cx.element(d)?;
    if dims.contains(&0) {
        return cx.full(kept, element, 0);
    }
    if p == f64::INFINITY {
        let max = max_keep(cx, size, &[last])?;
        return cx.reshape(max, kept);
    }
    let powers = match p {
        0.0 => ex(size).truth().cast(element),
        1.0 => ex(size),
        2.0 => ex(size) * size,
        p => ex(size).pow(p),
    };
    let powers = powers.eval(cx)?;
    let total = sum(cx, powers, &[last])?;
    match p {
        0.0 | 1.0 => Ok(total),
        2.0 => ex(total).sqrt().eval(cx),
        p => ex(total).pow(1.0 / p).eval(cx),
    }
}

/// The derivative of the norm by each difference.
fn slope(d: Value, distance: Value, p: f64) -> Ex {
    let sign = || ex(d).sign();
    let ratio = match p {
        0.0 => return ex(d) * 0.0,
        1.0 => return sign(),
        p if p == f64::INFINITY => return select(ex(d).abs().eq(distance), sign(), 0.0),
        2.0 => ex(d) / distance,
        p => sign() * ex(d).abs().pow(p - 1.0) / ex(distance).pow(p - 1.0),
    };
    let flat = ex(distance).eq(0.0);
    let flat = if p < 2.0 { flat.or(ex(d).eq(0.0)) } else { flat };
    select(flat, 0.0, ratio)
}

/// All differences of rows: (..., P, 1, M) - (..., 1, R, M).
fn differences(cx: &mut Cx<'_, '_>) -> Result<Value> {
    let (a, b) = (up(cx, "x1")?, up(cx, "x2")?);
    let (mut da, mut db) = (cx.dims(a)?, cx.dims(b)?);
    da.insert(da.len() - 1, 1);
    db.insert(db.len() - 2, 1);
    let (a, b) = (cx.reshape(a, &da)?, cx.reshape(b, &db)?);
    (ex(a) - b).eval(cx)
}

fn cdist_forward(cx: &mut Cx<'_, '_>) -> Lowered {
    let d = differences(cx)?;
    let p = cx.float("p")?;
    Ok(norm(cx, d, p)?.into())
}

/// (...) as (..., 1).
fn one_more(cx: &mut Cx<'_, '_>, v: Value) -> Result<Value> {
    let mut dims = cx.dims(v)?;
    dims.push(1);
    cx.reshape(v, &dims)
}

fn cdist_backward(cx: &mut Cx<'_, '_>) -> Lowered {
    let out = &cx.out(0)?.dims;
    let (g, distance) = (up(cx, "grad_output")?, up(cx, "cdist")?);
    let d = differences(cx)?;
    if cx.dims(d)?.contains(&0) {
        // Of no pairs it has the sizes of `x1`, unbroadcast.
        let element = cx.element(d)?;
        return Ok(cx.full(out, element, 0)?.into());
    }
    let p = cx.float("p")?;
    let (g, distance) = (one_more(cx, g)?, one_more(cx, distance)?);
    let dims = cx.dims(d)?;
    let distance = cx.broadcast_to(distance, &dims)?;
    let each = (slope(d, distance, p) * g).eval(cx)?;
    let total = sum(cx, each, &[dims.len() as i64 - 2])?;
    Ok(cx.reshape(total, out)?.into())
}

/// `_euclidean_dist`: by differences, which loses less than torch's product does.
fn euclidean_dist(cx: &mut Cx<'_, '_>) -> Lowered {
    let d = differences(cx)?;
    Ok(norm(cx, d, 2.0)?.into())
}

/// The pairs `i < j` of `n` rows, in order.
fn pairs(n: i64) -> (Vec<i64>, Vec<i64>) {
    (0..n).flat_map(|i| (i + 1..n).map(move |j| (i, j))).unzip()
}

fn pdist_forward(cx: &mut Cx<'_, '_>) -> Lowered {
    let x = up(cx, "self")?;
    let n = cx.dims(x)?[0];
    let out = &cx.out(0)?.dims;
    if out.contains(&0) {
        let element = cx.element(x)?;
        return Ok(cx.full(out, element, 0)?.into());
    }
    let (i, j) = pairs(n);
    let count = [i.len() as i64];
    let a = super::util::take(cx, x, 0, &i, &count)?;
    let b = super::util::take(cx, x, 0, &j, &count)?;
    let d = (ex(a) - b).eval(cx)?;
    let p = cx.float("p")?;
    Ok(norm(cx, d, p)?.into())
}

fn pdist_backward(cx: &mut Cx<'_, '_>) -> Lowered {
    let (g, x, distance) = (up(cx, "grad_output")?, up(cx, "self")?, up(cx, "pdist")?);
    let (sizes, element) = (cx.dims(x)?, cx.element(x)?);
    let zeros = cx.full(&sizes, element, 0)?;
    let (i, j) = pairs(sizes[0]);
    if i.is_empty() || sizes.contains(&0) {
        return Ok(zeros.into());
    }
    let count = [i.len() as i64];
    let a = super::util::take(cx, x, 0, &i, &count)?;
    let b = super::util::take(cx, x, 0, &j, &count)?;
    let d = (ex(a) - b).eval(cx)?;
    let p = cx.float("p")?;
    let (g, distance) = (one_more(cx, g)?, one_more(cx, distance)?);
    let dims = cx.dims(d)?;
    let distance = cx.broadcast_to(distance, &dims)?;
    let each = (slope(d, distance, p) * g).eval(cx)?;
    let back = (-ex(each)).eval(cx)?;
    let (i, j) = (cx.f.constant(&count, &i)?, cx.f.constant(&count, &j)?);
    let total = super::scatter::add_rows(cx, zeros, i, each)?;
    Ok(super::scatter::add_rows(cx, total, j, back)?.into())
}

/// `v * g / |v|`, the norm over all dimensions but `dim`.
fn weight_norm_interface(cx: &mut Cx<'_, '_>) -> Lowered {
    let (v, g) = (up(cx, "v")?, up(cx, "g")?);
    let dims = weight_dims(cx, v)?;
    let square = (ex(v) * v).eval(cx)?;
    let norm = super::util::sum_keep(cx, square, &dims)?;
    let norm = ex(norm).sqrt().eval(cx)?;
    let w = (ex(v) * (ex(g) / norm)).eval(cx)?;
    let norm = match cx.wants(1) {
        true => {
            let out = &cx.out(1)?.dims;
            Some(cx.reshape(norm, out)?)
        }
        false => None,
    };
    Ok(vec![Some(w), norm].into())
}

/// All dimensions but that of `dim`.
fn weight_dims(cx: &Cx<'_, '_>, v: Value) -> Result<Vec<i64>> {
    let rank = cx.rank(v)?;
    let dim = cx.opt_int("dim")?.unwrap_or(0);
    let dim = if dim < 0 { dim + rank as i64 } else { dim };
    Ok((0..rank as i64).filter(|d| *d != dim).collect())
}

fn weight_norm_interface_backward(cx: &mut Cx<'_, '_>) -> Lowered {
    let (gw, v, g) = (up(cx, "grad_w")?, up(cx, "saved_v")?, up(cx, "saved_g")?);
    let norms = up(cx, "saved_norms")?;
    let dims = weight_dims(cx, v)?;
    let sizes = super::util::kept(&cx.dims(v)?, &dims);
    let (norms, g4) = (cx.reshape(norms, &sizes)?, cx.reshape(g, &sizes)?);
    let product = (ex(gw) * v).eval(cx)?;
    let along = super::util::sum_keep(cx, product, &dims)?;
    let dv = ex(g4) / norms * (ex(gw) - ex(v) * (ex(along) / (ex(norms) * norms)));
    let dv = dv.eval(cx)?;
    let dg = (ex(along) / norms).eval(cx)?;
    let g_dims = cx.dims(g)?;
    Ok((dv, cx.reshape(dg, &g_dims)?).into())
}

pub(crate) const OPS: &[OpDef] = &[
    OpDef::new("_cdist_forward", cdist_forward).statics(&["p"]),
    OpDef::new("_cdist_backward", cdist_backward).statics(&["p"]),
    OpDef::new("_euclidean_dist", euclidean_dist),
    OpDef::new("_pdist_forward", pdist_forward).statics(&["p"]),
    OpDef::new("_pdist_backward", pdist_backward).statics(&["p"]),
    OpDef::new("_weight_norm_interface", weight_norm_interface),
    OpDef::new("_weight_norm_interface_backward", weight_norm_interface_backward),
];
