//! _scaled_mm and _scaled_mm_v2: products of eight-bit floats with scales for all of a factor or for each row.

use stablehlo::Value;

use super::dot::contract;
use super::ex::ex;
use crate::{Arg, Call, Cx, Dims, ElementType, Error, ErrorKind, Lowered, OpDef, OutMeta, Result};

const PART: ElementType = ElementType::F32;

/// One factor as singles, times its scale, which broadcasts over it.
fn scaled(cx: &mut Cx<'_, '_>, factor: &str, scale: Value) -> Result<Value> {
    let v = cx.tensor(factor)?;
    let v = cx.cast(v, PART)?;
    let (dims, scale_dims) = (cx.dims(v)?, cx.dims(scale)?);
    let scale = cx.cast(scale, PART)?;
    let scale = if scale_dims.iter().product::<i64>() == 1 {
        cx.reshape(scale, &[])?
    } else if scale_dims.len() == 2 && scale_dims.iter().zip(&dims).all(|(s, d)| *s == 1 || s == d) {
        scale
    } else {
        return Err(Error::unsupported(format!(
            "a scale of sizes {scale_dims:?} for a factor of sizes {dims:?}"
        )));
    };
    (ex(v) * scale).eval(cx)
}

fn product(cx: &mut Cx<'_, '_>, scale_a: Value, scale_b: Value) -> Lowered {
    let (a, b) = (scaled(cx, "self", scale_a)?, scaled(cx, "mat2", scale_b)?);
    let mut y = contract(cx, (a, "ik"), (b, "kj"), "ij")?;
    if let Some(bias) = super::util::opt_as(cx, "bias", PART)? {
        y = (ex(y) + bias).eval(cx)?;
    }
    if let Some(scale) = super::util::opt_as(cx, "scale_result", PART)? {
        let scale = cx.reshape(scale, &[])?;
        // Only eight-bit results are scaled.
        if cx.out(0)?.element.bits() == 8 {
            y = (ex(y) * scale).eval(cx)?;
        }
    }
    Ok(y.into())
}

fn scaled_mm(cx: &mut Cx<'_, '_>) -> Lowered {
    let (a, b) = (cx.tensor("scale_a")?, cx.tensor("scale_b")?);
    product(cx, a, b)
}

fn scaled_mm_v2(cx: &mut Cx<'_, '_>) -> Lowered {
    let (a, b) = (cx.tensors("scale_a")?, cx.tensors("scale_b")?);
    // Recipes above 1 are scales for blocks.
    let plain = |name: &str| -> Result<bool> { Ok(cx.ints(name)?.iter().all(|r| *r == 0 || *r == 1)) };
    match (a.as_slice(), b.as_slice()) {
        ([a], [b]) if plain("recipe_a")? && plain("recipe_b")? => {
            let (a, b) = (*a, *b);
            product(cx, a, b)
        }
        _ => Err(Error::unsupported("scales for blocks")),
    }
}

/// Rows of one factor by columns of the other, of the first one's type unless another is asked for.
fn shape(call: &Call) -> Result<Vec<Option<OutMeta>>> {
    let (a, b) = (super::util::like(call, "self")?, super::util::like(call, "mat2")?);
    let (Some(Some(a)), Some(Some(b))) = (a.first(), b.first()) else {
        return Err(Error::Internal("a product without factors".into()));
    };
    if a.dims.len() != 2 || b.dims.len() != 2 || a.dims[1] != b.dims[0] {
        return Err(Error::user(
            ErrorKind::Runtime,
            format!(
                "mat1 and mat2 shapes cannot be multiplied ({:?} and {:?})",
                a.dims, b.dims
            ),
        ));
    }
    let element = match call.arg("out_dtype") {
        Some(Arg::Dtype(asked)) => *asked,
        _ => a.element,
    };
    Ok(vec![Some(OutMeta {
        dims: Dims::from_slice(&[a.dims[0], b.dims[1]]),
        element,
    })])
}

pub(crate) const OPS: &[OpDef] = &[
    OpDef::new("_scaled_mm", scaled_mm).shape(shape),
    OpDef::new("_scaled_mm_v2", scaled_mm_v2).shape(shape),
];
