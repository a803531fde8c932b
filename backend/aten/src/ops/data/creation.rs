//! fill, zero, full, arange, linspace, logspace, eye, tril_indices, triu_indices, complex, polar.

use dtype::ElementType;
use stablehlo::ops::Direction;
use stablehlo::{Number, Value};

use super::util::{compare_to, index_type, plus, positions_of, unravel};
use crate::{Cx, Error, Lowered, OpDef, Result, compute_type};

/// A number broadcast to the result.
fn splat(cx: &mut Cx<'_, '_>, name: &str) -> Lowered {
    let out = cx.out(0)?;
    let value = cx.scalar(name, out.element)?;
    Ok(cx.broadcast_to(value, &out.dims)?.into())
}

fn fill(cx: &mut Cx<'_, '_>) -> Lowered {
    splat(cx, "value")
}

fn full(cx: &mut Cx<'_, '_>) -> Lowered {
    splat(cx, "fill_value")
}

fn scalar_tensor(cx: &mut Cx<'_, '_>) -> Lowered {
    splat(cx, "s")
}

fn zero(cx: &mut Cx<'_, '_>) -> Lowered {
    let out = cx.out(0)?;
    Ok(cx.full(&out.dims, out.element, false)?.into())
}

fn ones(cx: &mut Cx<'_, '_>) -> Lowered {
    let out = cx.out(0)?;
    Ok(cx.full(&out.dims, out.element, true)?.into())
}

fn arange(cx: &mut Cx<'_, '_>) -> Lowered {
    let out = cx.out(0)?;
    let n = out.dims[0];
    let start = cx.opt_number("start")?.unwrap_or(Number::Int(0));
    let step = cx.opt_number("step")?.unwrap_or(Number::Int(1));
    let whole = |x: Number| match x {
        Number::Int(i) => Some(i as i64),
        Number::Bool(b) => Some(i64::from(b)),
        Number::Float(x) if x.fract() == 0.0 && x.abs() < 9e15 => Some(x as i64),
        Number::Float(x) if out.element.is_integer() => Some(x as i64),
        _ => None,
    };
    if let (Some(start), Some(step)) = (whole(start), whole(step)) {
        let reach = start
            .saturating_abs()
            .saturating_add(step.saturating_abs().saturating_mul(n));
        let at = cx.f.iota(&[n], index_type(reach), 0)?;
        let by = cx.full_like(at, step)?;
        let at = cx.f.multiply(at, by)?;
        return Ok(plus(cx, at, start)?.into());
    }
    let real = |x: Number| match x {
        Number::Int(i) => i as f64,
        Number::Bool(b) => f64::from(u8::from(b)),
        Number::Float(x) | Number::Complex(x, _) => x,
    };
    // torch counts in double, whatever the result's type.
    let at = cx.f.iota(&[n], ElementType::F64, 0)?;
    let (by, from) = (cx.full_like(at, real(step))?, cx.full_like(at, real(start))?);
    let scaled = cx.f.multiply(at, by)?;
    Ok(cx.f.add(scaled, from)?.into())
}

/// The type in which equal steps are computed for a result of this type.
fn step_type(element: ElementType) -> ElementType {
    match element {
        e if e.is_integer() || e == ElementType::Pred => ElementType::F64,
        ElementType::F64 => element,
        e if e.is_complex() => e.computed(),
        _ => ElementType::F32,
    }
}

/// `start` to `end` in equal steps, from both ends as torch does.
fn equal_steps(cx: &mut Cx<'_, '_>) -> Result<Value> {
    let out = cx.out(0)?;
    let n = out.dims[0];
    let ty = step_type(out.element);
    let dims = &out.dims;
    let narrow = |cx: &mut Cx<'_, '_>, name: &str| -> Result<Value> {
        // The ends are first rounded to the result's type.
        let v = cx.scalar(name, out.element)?;
        cx.cast(v, ty)
    };
    let (start, end) = (narrow(cx, "start")?, narrow(cx, "end")?);
    if n <= 1 {
        return cx.broadcast_to(start, dims);
    }
    let span = cx.f.subtract(end, start)?;
    let parts = cx.full_like(span, n - 1)?;
    // By a constant XLA multiplies with the reciprocal, and whole numbers come out a little smaller.
    let zero = cx.full_like(span, 0)?;
    let nothing = cx.f.multiply(span, zero)?;
    let parts = cx.f.add(parts, nothing)?;
    let step = cx.f.divide(span, parts)?;
    let at = cx.f.iota(dims.as_slice(), ElementType::S32, 0)?;
    let early = compare_to(cx, at, n / 2, Direction::Lt)?;
    let left = cx.full_like(at, n - 1)?;
    let left = cx.f.subtract(left, at)?;
    let (at, left) = (cx.cast(at, ty)?, cx.cast(left, ty)?);
    let (start, end) = (cx.broadcast_to(start, dims)?, cx.broadcast_to(end, dims)?);
    let step = cx.broadcast_to(step, dims)?;
    let forward = cx.f.multiply(step, at)?;
    let forward = cx.f.add(start, forward)?;
    let backward = cx.f.multiply(step, left)?;
    let backward = cx.f.subtract(end, backward)?;
    Ok(cx.f.select(early, forward, backward)?)
}

fn linspace(cx: &mut Cx<'_, '_>) -> Lowered {
    Ok(equal_steps(cx)?.into())
}

fn logspace(cx: &mut Cx<'_, '_>) -> Lowered {
    let out = cx.out(0)?;
    let exponent = if out.dims[0] == 1 && !out.element.is_complex() {
        // The one number that is not rounded to the result's type first.
        let start = cx.scalar("start", ElementType::F64)?;
        cx.broadcast_to(start, &out.dims)?
    } else {
        equal_steps(cx)?
    };
    let ty = cx.element(exponent)?;
    let base = match cx.opt_scalar("base", ty)? {
        Some(base) => base,
        None => cx.full(&[], ty, 10)?,
    };
    let base = cx.broadcast_to(base, &out.dims)?;
    Ok(cx.f.power(base, exponent)?.into())
}

fn eye(cx: &mut Cx<'_, '_>) -> Lowered {
    let out = cx.out(0)?;
    let row = cx.f.iota(out.dims.as_slice(), ElementType::S32, 0)?;
    let column = cx.f.iota(out.dims.as_slice(), ElementType::S32, 1)?;
    Ok(cx.f.compare(row, column, Direction::Eq)?.into())
}

/// Rows and columns of the triangle's elements.
fn triangle_indices(cx: &mut Cx<'_, '_>, lower: bool) -> Lowered {
    let out = cx.out(0)?;
    let (rows, columns) = (cx.int("row")?, cx.int("col")?);
    let offset = cx.opt_int("offset")?.unwrap_or(0);
    let size = out.dims[1];
    if size == 0 {
        return Ok(cx.full(&out.dims, out.element, 0)?.into());
    }
    let element = index_type(rows.max(columns).saturating_add(offset.saturating_abs()));
    let row = cx.f.iota(&[rows, columns], element, 0)?;
    let column = cx.f.iota(&[rows, columns], element, 1)?;
    let edge = plus(cx, row, offset)?;
    let direction = if lower { Direction::Le } else { Direction::Ge };
    let inside = cx.f.compare(column, edge, direction)?;
    let inside = cx.reshape(inside, &[rows * columns])?;
    let flat = positions_of(cx, inside, size, rows * columns)?;
    let parts = unravel(cx, flat, &[rows, columns])?;
    let both: Vec<Value> = parts
        .into_iter()
        .map(|p| cx.reshape(p, &[1, size]))
        .collect::<Result<_>>()?;
    Ok(cx.f.concatenate(&both, 0)?.into())
}

fn tril_indices(cx: &mut Cx<'_, '_>) -> Lowered {
    triangle_indices(cx, true)
}

fn triu_indices(cx: &mut Cx<'_, '_>) -> Lowered {
    triangle_indices(cx, false)
}

/// Both parts, in the part type of the result and its sizes.
fn parts(cx: &mut Cx<'_, '_>, names: [&str; 2]) -> Result<(Value, Value)> {
    let out = cx.out(0)?;
    let (first, second) = (cx.meta(names[0])?.element, cx.meta(names[1])?.element);
    let taken = |e| matches!(e, ElementType::F16 | ElementType::F32 | ElementType::F64);
    if !taken(first) || !taken(second) {
        return Err(Error::Refused(format!(
            "Expected both inputs to be Half, Float or Double tensors but got {first} and {second}"
        )));
    }
    if first != second {
        return Err(Error::Refused(format!(
            "Expected object of scalar type {first} but got scalar type {second} for second argument"
        )));
    }
    if !out.element.is_complex() || out.element.real() != first {
        return Err(Error::Refused(format!(
            "Expected parts of {} for argument 'out', but got {first}",
            out.element
        )));
    }
    let part = compute_type(first);
    let (a, b) = (cx.operand(names[0], part)?, cx.operand(names[1], part)?);
    Ok((cx.broadcast_to(a, &out.dims)?, cx.broadcast_to(b, &out.dims)?))
}

fn complex(cx: &mut Cx<'_, '_>) -> Lowered {
    let (re, im) = parts(cx, ["real", "imag"])?;
    Ok(cx.f.complex(re, im)?.into())
}

fn polar(cx: &mut Cx<'_, '_>) -> Lowered {
    let (abs, angle) = parts(cx, ["abs", "angle"])?;
    let (cosine, sine) = (cx.f.cosine(angle)?, cx.f.sine(angle)?);
    let (re, im) = (cx.f.multiply(abs, cosine)?, cx.f.multiply(abs, sine)?);
    Ok(cx.f.complex(re, im)?.into())
}

fn copy(cx: &mut Cx<'_, '_>) -> Lowered {
    let out = cx.out(0)?;
    let name = if cx.has("src") { "src" } else { "self" };
    let source = cx.tensor(name)?;
    let source = cx.cast(source, out.element)?;
    Ok(cx.broadcast_to(source, &out.dims)?.into())
}

/// Plain zeros: a tensor without memory would save nothing here, where zeros are made inside programs.
fn _efficientzerotensor(cx: &mut Cx<'_, '_>) -> Lowered {
    let out = cx.out(0)?;
    Ok(cx.full(&out.dims, out.element, false)?.into())
}

pub(crate) const OPS: &[OpDef] = &[
    OpDef::new("_efficientzerotensor", _efficientzerotensor),
    OpDef::new("fill", fill).fits_computed(&["value"]),
    OpDef::new("full", full).fits_computed(&["fill_value"]),
    OpDef::new("scalar_tensor", scalar_tensor).fits(&["s"]),
    OpDef::new("zero", zero),
    OpDef::new("zeros", zero),
    OpDef::new("ones", ones),
    OpDef::new("arange", arange).statics(&["start", "end", "step"]),
    OpDef::new("linspace", linspace),
    OpDef::new("logspace", logspace),
    OpDef::new("eye", eye),
    OpDef::new("tril_indices", tril_indices),
    OpDef::new("triu_indices", triu_indices),
    OpDef::new("complex", complex),
    OpDef::new("polar", polar),
    OpDef::new("copy", copy),
    OpDef::new("_to_copy", copy),
];
