//! embedding, its gradient, and renormalization of the rows that are used.

use stablehlo::Value;

use super::ex::{ex, select};
use super::scatter::add_rows;
use super::util::{along, check_range, number, sum_keep, take_at, up};
use crate::{Cx, ElementType, ErrorKind, Lowered, OpDef, Result};

const OUT_OF_RANGE: &str = "index out of range in self";

fn embedding(cx: &mut Cx<'_, '_>) -> Lowered {
    let (w, indices) = (cx.tensor("weight")?, cx.tensor("indices")?);
    let sizes = cx.dims(w)?;
    let out = &cx.out(0)?.dims;
    if out.contains(&0) {
        let element = cx.element(w)?;
        return Ok(cx.full(out, element, 0)?.into());
    }
    check_range(cx, indices, sizes[0], None, OUT_OF_RANGE, ErrorKind::Index)?;
    if sizes[0] == 0 {
        let element = cx.element(w)?;
        return Ok(cx.full(out, element, 0)?.into());
    }
    Ok(take_at(cx, w, 0, indices, &sizes)?.into())
}

/// How often each of `n` indices occurs, at each index.
pub(super) fn frequencies(
    cx: &mut Cx<'_, '_>,
    indices: Value,
    n: i64,
    element: ElementType,
) -> Result<Value> {
    let ones = cx.dims(indices)?;
    let (ones, zeros) = (cx.full(&ones, element, 1)?, cx.full(&[n], element, 0)?);
    let counts = add_rows(cx, zeros, indices, ones)?;
    take_at(cx, counts, 0, indices, &[n])
}

fn embedding_dense_backward(cx: &mut Cx<'_, '_>) -> Lowered {
    let (g, indices) = (up(cx, "grad_output")?, cx.tensor("indices")?);
    let n = cx.int("num_weights")?;
    let padding = cx.int("padding_idx")?;
    let (sizes, element) = (cx.dims(g)?, cx.element(g)?);
    let width = sizes.last().copied().unwrap_or(1);
    let rows: i64 = cx.dims(indices)?.iter().product();
    let base = cx.full(&[n, width], element, 0)?;
    if rows == 0 || n == 0 {
        return Ok(base.into());
    }
    let mut g = cx.reshape(g, &[rows, width])?;
    let indices = cx.reshape(indices, &[rows])?;
    if cx.bool("scale_grad_by_freq")? {
        let often = frequencies(cx, indices, n, element)?;
        let often = along(cx, often, 0, 2)?;
        g = (ex(g) / often).eval(cx)?;
    }
    if padding >= 0 {
        let pad = ex(indices).eq(padding as f64).eval(cx)?;
        let pad = along(cx, pad, 0, 2)?;
        g = select(pad, 0.0, g).eval(cx)?;
    }
    Ok(add_rows(cx, base, indices, g)?.into())
}

/// Rows that occur in `indices` and are longer than `max_norm` are shortened to it.
fn embedding_renorm(cx: &mut Cx<'_, '_>) -> Lowered {
    let (w, indices) = (up(cx, "self")?, cx.tensor("indices")?);
    let (sizes, element) = (cx.dims(w)?, cx.element(w)?);
    let count: i64 = cx.dims(indices)?.iter().product();
    if count == 0 || sizes.contains(&0) {
        return Ok(w.into());
    }
    let indices = cx.reshape(indices, &[count])?;
    let (ones, zeros) = (
        cx.full(&[count], ElementType::S32, 1)?,
        cx.full(&[sizes[0]], ElementType::S32, 0)?,
    );
    let used = add_rows(cx, zeros, indices, ones)?;
    let used = along(cx, used, 0, 2)?;
    let p = cx.float("norm_type")?;
    let size = ex(w).abs();
    let norm = match p {
        2.0 => {
            let squares = (ex(w) * w).eval(cx)?;
            let total = sum_keep(cx, squares, &[1])?;
            ex(total).sqrt().eval(cx)?
        }
        1.0 => {
            let size = size.eval(cx)?;
            sum_keep(cx, size, &[1])?
        }
        p if p == f64::INFINITY => {
            let size = size.eval(cx)?;
            super::util::max_keep(cx, size, &[1])?
        }
        p => {
            let powers = size.pow(p).eval(cx)?;
            let total = sum_keep(cx, powers, &[1])?;
            ex(total).pow(1.0 / p).eval(cx)?
        }
    };
    let most = number(cx, "max_norm", w)?;
    let long = ex(norm).gt(most).and(ex(used).gt(0.0)).eval(cx)?;
    let scale = ex(most) / (ex(norm) + 1e-7);
    let one = cx.full(&[], element, 1)?;
    let scale = select(long, scale, one).eval(cx)?;
    Ok((ex(w) * scale).eval(cx)?.into())
}

pub(crate) const OPS: &[OpDef] = &[
    OpDef::new("embedding", embedding),
    OpDef::new("embedding_dense_backward", embedding_dense_backward),
    OpDef::new("embedding_renorm", embedding_renorm).statics(&["norm_type"]),
];
