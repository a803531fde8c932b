//! What the linear algebra families share: batches of matrices in the last two dimensions.

use dtype::ElementType;
use stablehlo::Value;
use stablehlo::ops::{CustomCall, DotDimensions, DotOptions, Precision};

use crate::{Cx, Error, Result};

/// LAPACK's measure of an element, by which it chooses pivots: of a complex one not the modulus but the sum of its parts'
/// sizes.
pub(super) fn lapack_size(f: &mut stablehlo::FunctionBuilder<'_>, v: Value) -> stablehlo::Result<Value> {
    if !f.tensor_ty(v)?.element.is_complex() {
        return f.abs(v);
    }
    let (re, im) = (f.real(v)?, f.imag(v)?);
    let (re, im) = (f.abs(re)?, f.abs(im)?);
    f.add(re, im)
}

/// A batch of matrices as rank 3, and the sizes before the last two.
pub(crate) fn batched(cx: &mut Cx<'_, '_>, v: Value) -> Result<(Value, Vec<i64>)> {
    let dims = cx.dims(v)?;
    let split = dims.len() - 2;
    let batch = dims[..split].to_vec();
    let n = batch.iter().product();
    Ok((cx.reshape(v, &[n, dims[split], dims[split + 1]])?, batch))
}

/// `batch` with more sizes after it.
pub(crate) fn with(batch: &[i64], more: &[i64]) -> Vec<i64> {
    [batch, more].concat()
}

/// The last two dimensions exchanged.
pub(crate) fn transposed(cx: &mut Cx<'_, '_>, v: Value) -> Result<Value> {
    let rank = cx.rank(v)?;
    let mut order: Vec<i64> = (0..rank as i64).collect();
    order.swap(rank - 1, rank - 2);
    Ok(cx.f.transpose(v, &order)?)
}

/// The complex conjugate; a real value as it is.
pub(crate) fn conjugate(cx: &mut Cx<'_, '_>, v: Value) -> Result<Value> {
    if !cx.element(v)?.is_complex() {
        return Ok(v);
    }
    let (re, im) = (cx.f.real(v)?, cx.f.imag(v)?);
    let im = cx.f.negate(im)?;
    Ok(cx.f.complex(re, im)?)
}

/// Transposed and conjugated.
pub(crate) fn adjoint(cx: &mut Cx<'_, '_>, v: Value) -> Result<Value> {
    let v = transposed(cx, v)?;
    conjugate(cx, v)
}

/// The product of two batches of rank 3, as precise as the type.
pub(crate) fn product(cx: &mut Cx<'_, '_>, a: Value, b: Value) -> Result<Value> {
    let numbers = DotDimensions {
        lhs_batching: vec![0],
        rhs_batching: vec![0],
        lhs_contracting: vec![2],
        rhs_contracting: vec![1],
    };
    let options = DotOptions {
        precision: [Precision::Highest; 2],
        ..DotOptions::default()
    };
    Ok(cx.f.dot_general(a, b, &numbers, &options)?)
}

/// Identity matrices of rank 3.
pub(crate) fn identities(
    cx: &mut Cx<'_, '_>,
    batch: i64,
    rows: i64,
    columns: i64,
    element: ElementType,
) -> Result<Value> {
    super::diagonals::identity(cx, &[batch, rows, columns], element)
}

/// `v`, of rank 2, repeated along the dimension that is missing: the last (`along` 1) or the one before (`along` 2).
pub(crate) fn spread(cx: &mut Cx<'_, '_>, v: Value, dims: &[i64], along: i64) -> Result<Value> {
    Ok(cx.f.broadcast_in_dim(v, dims, &[0, along])?)
}

/// One of XLA's own matrix programs, which every target expands; results of these sizes and types.
pub(crate) fn expanded(
    cx: &mut Cx<'_, '_>,
    target: &str,
    config: Option<String>,
    operands: &[Value],
    results: &[(&[i64], ElementType)],
) -> Result<Vec<Value>> {
    let mut types = Vec::with_capacity(results.len());
    for (dims, element) in results {
        types.push(cx.f.tensor(*dims, *element)?.into());
    }
    let mut call = CustomCall::new(target, types);
    if let Some(text) = config {
        call.backend_config = stablehlo::ops::BackendConfig::Text(text);
    }
    Ok(cx.f.custom_call(&call, operands)?)
}

/// Refuses types that matrices are not decomposed in.
pub(crate) fn decomposable(cx: &Cx<'_, '_>, v: Value) -> Result<ElementType> {
    let element = cx.element(v)?;
    match element {
        ElementType::F32 | ElementType::F64 | ElementType::C64 | ElementType::C128 => Ok(element),
        other => Err(Error::unsupported(format!("a decomposition of {other}"))),
    }
}
