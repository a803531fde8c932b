//! geqrf, linalg_qr, linalg_householder_product, ormqr, _linalg_eigh, linalg_matrix_exp.

use dtype::ElementType;
use smallvec::SmallVec;
use stablehlo::Value;
use stablehlo::ops::Direction;

use super::diagonals::keep_triangle;
use super::dynamic_sizes::{meta_of, result};
use super::matrices::{adjoint, batched, decomposable, expanded, identities, product, transposed};
use super::util::{count, slice_dim, zeros};
use crate::{Call, Cx, Dims, Lowered, OpDef, OutMeta, Result};

/// Householder reflectors below R, and their scales; rank 3.
pub(crate) fn reflectors(cx: &mut Cx<'_, '_>, a: Value) -> Result<(Value, Value)> {
    let dims = cx.dims(a)?;
    let element = cx.element(a)?;
    let scales = [dims[0], dims[1].min(dims[2])];
    let all = expanded(cx, "Qr", None, &[a], &[(&dims, element), (&scales, element)])?;
    Ok((all[0], all[1]))
}

/// The product of reflectors, as a matrix of this many columns; rank 3.
pub(crate) fn orthogonal(cx: &mut Cx<'_, '_>, packed: Value, scales: Value, columns: i64) -> Result<Value> {
    let dims = cx.dims(packed)?;
    let element = cx.element(packed)?;
    let have = dims[2];
    let packed = if have > columns {
        slice_dim(cx, packed, 2, 0, columns, 1)?
    } else {
        let fill = zeros(cx, &[], element)?;
        cx.f.pad(packed, fill, &[0, 0, 0], &[0, 0, columns - have], &[0, 0, 0])?
    };
    let target = "ProductOfElementaryHouseholderReflectors";
    let full: &[i64] = &[dims[0], dims[1], columns];
    Ok(expanded(cx, target, None, &[packed, scales], &[(full, element)])?[0])
}

fn geqrf(cx: &mut Cx<'_, '_>) -> Lowered {
    let (out, scales_out) = (cx.out(0)?, cx.out(1)?);
    let a = cx.tensor("self")?;
    let element = decomposable(cx, a)?;
    if count(&out.dims) == 0 {
        return Ok((a, zeros(cx, &scales_out.dims, element)?).into());
    }
    let (a, _) = batched(cx, a)?;
    let (packed, scales) = reflectors(cx, a)?;
    Ok((
        cx.reshape(packed, &out.dims)?,
        cx.reshape(scales, &scales_out.dims)?,
    )
        .into())
}

fn geqrf_shape(call: &Call) -> Result<Vec<Option<OutMeta>>> {
    let meta = meta_of(call, "self")?;
    let split = meta.dims.len().saturating_sub(2);
    let mut scales: Dims = SmallVec::from_slice(&meta.dims[..split]);
    scales.push(meta.dims[split..].iter().copied().min().unwrap_or(0));
    Ok(vec![
        result(&meta.dims, meta.element),
        result(&scales, meta.element),
    ])
}

fn linalg_qr(cx: &mut Cx<'_, '_>) -> Lowered {
    let (q_out, r_out) = (cx.out(0)?, cx.out(1)?);
    let a = cx.tensor("A")?;
    let element = decomposable(cx, a)?;
    let (a, _) = batched(cx, a)?;
    let dims = cx.dims(a)?;
    let (batch, m) = (dims[0], dims[1]);
    let mode = cx.str("mode")?.unwrap_or("reduced");
    if count(&dims) == 0 {
        // Nothing to reflect: the identity, where Q has a size at all.
        let q = if mode == "complete" && batch * m > 0 {
            let unit = identities(cx, batch, m, m, element)?;
            cx.reshape(unit, &q_out.dims)?
        } else {
            zeros(cx, &q_out.dims, element)?
        };
        return Ok((q, zeros(cx, &r_out.dims, element)?).into());
    }
    let (packed, scales) = reflectors(cx, a)?;
    let rows = r_out.dims[r_out.dims.len() - 2];
    let r = slice_dim(cx, packed, 1, 0, rows, 1)?;
    let r = keep_triangle(cx, r, false, 0)?;
    let r = cx.reshape(r, &r_out.dims)?;
    if mode == "r" {
        return Ok((zeros(cx, &q_out.dims, element)?, r).into());
    }
    let columns = q_out.dims[q_out.dims.len() - 1];
    let q = orthogonal(cx, packed, scales, columns)?;
    Ok((cx.reshape(q, &q_out.dims)?, r).into())
}

/// Reflectors and scales of these arguments, rank 3 and 2.
fn given_reflectors(cx: &mut Cx<'_, '_>, names: [&str; 2]) -> Result<(Value, Value)> {
    let (packed, scales) = (cx.tensor(names[0])?, cx.tensor(names[1])?);
    decomposable(cx, packed)?;
    let (packed, _) = batched(cx, packed)?;
    let batch = cx.dims(packed)?[0];
    let k = cx.dims(scales)?.last().copied().unwrap_or(0);
    Ok((packed, cx.reshape(scales, &[batch, k])?))
}

fn linalg_householder_product(cx: &mut Cx<'_, '_>) -> Lowered {
    let out = cx.out(0)?;
    let (packed, scales) = given_reflectors(cx, ["input", "tau"])?;
    let dims = cx.dims(packed)?;
    if count(&out.dims) == 0 {
        return Ok(zeros(cx, &out.dims, out.element)?.into());
    }
    let q = if cx.dims(scales)?[1] == 0 {
        identities(cx, dims[0], dims[1], dims[2], out.element)?
    } else {
        orthogonal(cx, packed, scales, dims[2])?
    };
    Ok(cx.reshape(q, &out.dims)?.into())
}

fn ormqr(cx: &mut Cx<'_, '_>) -> Lowered {
    let out = cx.out(0)?;
    let (packed, scales) = given_reflectors(cx, ["self", "input2"])?;
    let other = cx.tensor("input3")?;
    if count(&out.dims) == 0 || count(&cx.dims(scales)?) == 0 {
        return Ok(other.into());
    }
    let (other, _) = batched(cx, other)?;
    let m = cx.dims(packed)?[1];
    let q = orthogonal(cx, packed, scales, m)?;
    let q = if cx.bool("transpose")? { adjoint(cx, q)? } else { q };
    let left = cx.call.arg("left").is_none() || cx.bool("left")?;
    let moved = if left {
        product(cx, q, other)?
    } else {
        product(cx, other, q)?
    };
    Ok(cx.reshape(moved, &out.dims)?.into())
}

/// The Hermitian matrix that one triangle stands for; rank 3.
pub(crate) fn hermitian(cx: &mut Cx<'_, '_>, a: Value, lower: bool) -> Result<Value> {
    let half = keep_triangle(cx, a, lower, 0)?;
    let strict = keep_triangle(cx, a, lower, if lower { -1 } else { 1 })?;
    let mirrored = adjoint(cx, strict)?;
    let full = cx.f.add(half, mirrored)?;
    if !cx.element(full)?.is_complex() {
        return Ok(full);
    }
    // The diagonal's imaginary parts do not count.
    let dims = cx.dims(full)?;
    let (re, im) = (cx.f.real(full)?, cx.f.imag(full)?);
    let rows = cx.f.iota(dims.as_slice(), ElementType::S32, 1)?;
    let columns = cx.f.iota(dims.as_slice(), ElementType::S32, 2)?;
    let on = cx.f.compare(rows, columns, Direction::Eq)?;
    let none = cx.full_like(im, 0)?;
    let im = cx.f.select(on, none, im)?;
    Ok(cx.f.complex(re, im)?)
}

fn _linalg_eigh(cx: &mut Cx<'_, '_>) -> Lowered {
    let (values_out, vectors_out) = (cx.out(0)?, cx.out(1)?);
    let a = cx.tensor("A")?;
    let element = decomposable(cx, a)?;
    let part = element.real();
    let (a, _) = batched(cx, a)?;
    let dims = cx.dims(a)?;
    if count(&dims) == 0 {
        let values = zeros(cx, &values_out.dims, part)?;
        return Ok((values, zeros(cx, &vectors_out.dims, element)?).into());
    }
    let lower = cx.str("UPLO")?.is_none_or(|s| s.eq_ignore_ascii_case("l"));
    let full = hermitian(cx, a, lower)?;
    let (values, vectors) = eigenpairs(cx, full)?;
    let values = cx.reshape(values, &values_out.dims)?;
    let vectors = if count(&vectors_out.dims) == 0 {
        zeros(cx, &vectors_out.dims, element)?
    } else {
        cx.reshape(vectors, &vectors_out.dims)?
    };
    Ok((values, vectors).into())
}

/// Eigenvalues, from the least up, and vectors of Hermitian matrices; rank 2 and 3.
pub(crate) fn eigenpairs(cx: &mut Cx<'_, '_>, full: Value) -> Result<(Value, Value)> {
    let dims = cx.dims(full)?;
    let element = cx.element(full)?;
    let part = element.real();
    // Lower triangle, sorted, sweeps at most, what may remain beside the diagonal.
    let remains = if part == ElementType::F64 { "1e-13" } else { "1e-6" };
    let all = expanded(
        cx,
        "Eigh",
        Some(format!("1,1,100,{remains}")),
        &[full],
        &[(&dims, element), (&[dims[0], dims[1]], part)],
    )?;
    Ok((all[1], all[0]))
}

/// Sums of the Taylor series after halving the matrix until its norm is small, then squared as often.
///
/// In double precision: squaring as often as a norm of some tens wants it costs three digits, which single precision lacks.
fn linalg_matrix_exp(cx: &mut Cx<'_, '_>) -> Lowered {
    const TERMS: i64 = 18;
    let out = cx.out(0)?;
    let a = cx.tensor("self")?;
    let element = if cx.element(a)?.is_complex() {
        ElementType::C128
    } else {
        ElementType::F64
    };
    let part = ElementType::F64;
    let a = cx.cast(a, element)?;
    let (a, _) = batched(cx, a)?;
    let dims = cx.dims(a)?;
    if count(&dims) == 0 {
        return Ok(zeros(cx, &out.dims, element)?.into());
    }
    let batch = dims[0];
    let sizes = cx.f.abs(a)?;
    let zero = zeros(cx, &[], part)?;
    let sums = super::util::reduce(cx, sizes, zero, &[2], super::util::Combine::Add)?;
    let norm = super::util::reduce(cx, sums, zero, &[1], super::util::Combine::Max)?;
    // Halvings that bring the norm below 1, none for norms that are not numbers.
    let two = cx.full(&[batch], part, 2)?;
    let log = cx.f.log(norm)?;
    let log_two = cx.f.log(two)?;
    let halvings = cx.f.divide(log, log_two)?;
    let halvings = cx.f.ceil(halvings)?;
    let (none, most) = (cx.full(&[], part, 0)?, cx.full(&[], part, 1000)?);
    let finite = cx.f.is_finite(norm)?;
    let zeros_like = cx.full(&[batch], part, 0)?;
    let halvings = cx.f.clamp(none, halvings, most)?;
    let halvings = cx.f.select(finite, halvings, zeros_like)?;
    let scale = cx.f.power(two, halvings)?;
    let scale = cx.cast(scale, element)?;
    let scale = cx.f.broadcast_in_dim(scale, dims.as_slice(), &[0])?;
    let small = cx.f.divide(a, scale)?;
    let unit = identities(cx, batch, dims[1], dims[2], element)?;
    // Horner's scheme.
    let mut sum = unit;
    for k in (1..=TERMS).rev() {
        let by = cx.full_like(small, k)?;
        let step = cx.f.divide(small, by)?;
        let term = product(cx, step, sum)?;
        sum = cx.f.add(unit, term)?;
    }
    let rounds = cx.f.convert(halvings, ElementType::S32)?;
    let start = zeros(cx, &[], ElementType::S32)?;
    let end =
        cx.f.reduce(&[rounds], &[start], &[0], |f, e| Ok(vec![f.maximum(e[0], e[1])?]))?[0];
    let numbers = stablehlo::ops::DotDimensions {
        lhs_batching: vec![0],
        rhs_batching: vec![0],
        lhs_contracting: vec![2],
        rhs_contracting: vec![1],
    };
    let options = stablehlo::ops::DotOptions {
        precision: [stablehlo::ops::Precision::Highest; 2],
        ..Default::default()
    };
    let done = cx.f.while_(
        &[start, sum],
        |f, c| Ok(vec![f.compare(c[0], end, Direction::Lt)?]),
        |f, c| {
            let square = f.dot_general(c[1], c[1], &numbers, &options)?;
            let at = f.broadcast_in_dim(c[0], &[batch], &[])?;
            let more = f.compare(at, rounds, Direction::Lt)?;
            let more = f.broadcast_in_dim(more, dims.as_slice(), &[0])?;
            let one = f.scalar(1i32)?;
            Ok(vec![f.add(c[0], one)?, f.select(more, square, c[1])?])
        },
    )?;
    Ok(cx.reshape(done[1], &out.dims)?.into())
}

/// The transposed matrices where `wide`, for decompositions that want no fewer rows than columns.
pub(crate) fn upright(cx: &mut Cx<'_, '_>, v: Value, wide: bool) -> Result<Value> {
    if !wide {
        return Ok(v);
    }
    let v = transposed(cx, v)?;
    super::matrices::conjugate(cx, v)
}

pub(crate) const OPS: &[OpDef] = &[
    OpDef::new("geqrf", geqrf)
        .shape(geqrf_shape)
        .amend(crate::layout::column_by_column),
    OpDef::new("linalg_qr", linalg_qr),
    OpDef::new("linalg_householder_product", linalg_householder_product),
    OpDef::new("ormqr", ormqr),
    OpDef::new("_linalg_eigh", _linalg_eigh),
    OpDef::new("linalg_matrix_exp", linalg_matrix_exp),
];
