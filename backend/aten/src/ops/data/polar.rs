//! linalg_polar and linalg_matrix_sqrth.

use stablehlo::Value;

use super::matrices::{adjoint, batched, decomposable, product};
use super::orthogonal::{eigenpairs, hermitian};
use super::svd;
use super::util::{count, zeros};
use crate::{Cx, ElementType, Error, Lowered, OpDef, Result};

/// The type that the factors are computed in: their products should be as near as the type can tell.
fn wide(element: ElementType) -> ElementType {
    if element.is_complex() {
        ElementType::C128
    } else {
        ElementType::F64
    }
}

/// Columns times numbers, one a column.
fn columns_times(cx: &mut Cx<'_, '_>, v: Value, by: Value) -> Result<Value> {
    let (dims, element) = (cx.dims(v)?, cx.element(v)?);
    let by = cx.f.convert(by, element)?;
    let by = cx.f.broadcast_in_dim(by, dims.as_slice(), &[0, 2])?;
    Ok(cx.f.multiply(v, by)?)
}

/// A = W S V* is (W V*)(V S V*).
fn linalg_polar(cx: &mut Cx<'_, '_>) -> Lowered {
    let (u_out, h_out) = (cx.out(0)?, cx.out(1)?);
    let a = cx.tensor("A")?;
    let element = decomposable(cx, a)?;
    let (a, _) = batched(cx, a)?;
    if count(&cx.dims(a)?) == 0 {
        return Ok((zeros(cx, &u_out.dims, element)?, zeros(cx, &h_out.dims, element)?).into());
    }
    let a = cx.cast(a, wide(element))?;
    let (Some(w), values, Some(vh)) = svd::decomposed(cx, a, false, true)? else {
        return Err(Error::Internal("a decomposition without its vectors".into()));
    };
    let u = product(cx, w, vh)?;
    let v = adjoint(cx, vh)?;
    let scaled = columns_times(cx, v, values)?;
    let h = product(cx, scaled, vh)?;
    Ok((cx.reshape(u, &u_out.dims)?, cx.reshape(h, &h_out.dims)?).into())
}

fn linalg_matrix_sqrth(cx: &mut Cx<'_, '_>) -> Lowered {
    let out = cx.out(0)?;
    let name = if cx.has("self") { "self" } else { "A" };
    let a = cx.tensor(name)?;
    let element = decomposable(cx, a)?;
    let (a, _) = batched(cx, a)?;
    if count(&cx.dims(a)?) == 0 {
        return Ok(zeros(cx, &out.dims, element)?.into());
    }
    let a = cx.cast(a, wide(element))?;
    let full = hermitian(cx, a, true)?;
    let (values, vectors) = eigenpairs(cx, full)?;
    // What rounding made negative counts as zero.
    let none = cx.full_like(values, 0)?;
    let values = cx.f.maximum(values, none)?;
    let roots = cx.f.sqrt(values)?;
    let scaled = columns_times(cx, vectors, roots)?;
    let back = adjoint(cx, vectors)?;
    let root = product(cx, scaled, back)?;
    Ok(cx.reshape(root, &out.dims)?.into())
}

pub(crate) const OPS: &[OpDef] = &[
    OpDef::new("linalg_polar", linalg_polar),
    OpDef::new("linalg_matrix_sqrth", linalg_matrix_sqrth),
];
