//! linalg_lstsq, by singular values for all of LAPACK's drivers.

use smallvec::SmallVec;
use stablehlo::Value;
use stablehlo::ops::Direction;

use super::dynamic_sizes::{meta_of, result, size_of};
use super::matrices::{adjoint, batched, decomposable, product, with};
use super::svd;
use super::util::{Combine, all_true, count, reduce, zeros};
use crate::cx::broadcast_dims;
use crate::layout::Made;
use crate::{Arg, Call, Cx, Dims, ElementType, Error, ErrorKind, Lowered, OpDef, OutMeta, Result};

/// What of the arguments decides which results there are.
struct Problem {
    /// Sizes of the matrices before the last two.
    own_batch: Dims,
    /// With those of the right sides.
    batch: Dims,
    rows: i64,
    columns: i64,
    right_sides: i64,
    /// The right side is one vector a matrix.
    vector: bool,
    driver: String,
}

impl Problem {
    fn of(call: &Call) -> Result<Self> {
        let (a, b) = (&meta_of(call, "self")?.dims, &meta_of(call, "b")?.dims);
        let refuse = |text: &str| Error::user(ErrorKind::Runtime, format!("torch.linalg.lstsq: {text}"));
        if a.len() < 2 {
            return Err(refuse("input must have at least 2 dimensions."));
        }
        if b.is_empty() {
            return Err(refuse("other must have at least 1 dimension."));
        }
        let split = a.len() - 2;
        let vector = b.len() == 1 || (b.len() + 1 == a.len() && b[..] == a[..=split]);
        if !vector && b.len() < 2 || b.len() > a.len() {
            return Err(refuse("input.dim() must be greater or equal to other.dim()"));
        }
        let (rows, right_sides, theirs) = if vector {
            (b[b.len() - 1], 1, &b[..b.len() - 1])
        } else {
            (b[b.len() - 2], b[b.len() - 1], &b[..b.len() - 2])
        };
        if rows != a[split] {
            return Err(refuse("input.size(-2) should match other.size(-2)"));
        }
        let batch = broadcast_dims(&[&a[..split], theirs]).map_err(|_| refuse("batches do not broadcast"))?;
        let driver = match call.arg("driver") {
            Some(Arg::Str(name)) => name.clone(),
            _ => "gelsy".into(),
        };
        if !["gels", "gelsy", "gelsd", "gelss"].contains(&driver.as_str()) {
            return Err(refuse(
                "parameter `driver` should be one of (gels, gelsy, gelsd, gelss)",
            ));
        }
        Ok(Self {
            own_batch: a[..split].iter().copied().collect(),
            batch,
            rows,
            columns: a[split + 1],
            right_sides,
            vector,
            driver,
        })
    }

    /// These drivers give residuals only where all matrices have full rank, and singular values.
    fn by_values(&self) -> bool {
        matches!(self.driver.as_str(), "gelsd" | "gelss")
    }

    fn may_have_residuals(&self) -> bool {
        self.rows > self.columns && self.driver != "gelsy"
    }
}

fn shape(call: &Call) -> Result<Vec<Option<OutMeta>>> {
    let element = meta_of(call, "self")?.element;
    let p = Problem::of(call)?;
    let residuals = p.may_have_residuals() && size_of(call)? != 0;
    let tail: &[i64] = if p.vector {
        &[p.columns]
    } else {
        &[p.columns, p.right_sides]
    };
    let least = p.rows.min(p.columns);
    let none = vec![0];
    Ok(vec![
        result(&with(&p.batch, tail), element),
        result(
            &if residuals {
                with(&p.batch, &[p.right_sides])
            } else {
                none.clone()
            },
            element.real(),
        ),
        result(
            &if p.driver == "gels" {
                none.clone()
            } else {
                p.own_batch.to_vec()
            },
            ElementType::S64,
        ),
        result(
            &if p.by_values() {
                with(&p.own_batch, &[least])
            } else {
                none
            },
            element.real(),
        ),
    ])
}

/// Solutions lie in the columns that the right sides had.
fn layout(call: &Call, _: &[&[i64]], made: &mut [Option<Made>]) {
    let (Ok(p), Some(Some(solution))) = (Problem::of(call), made.first_mut()) else {
        return;
    };
    let step = p.rows.max(p.columns).max(1);
    let mut strides: Dims = if p.vector {
        SmallVec::from_slice(&[1])
    } else {
        SmallVec::from_slice(&[1, step])
    };
    let mut block = step * p.right_sides.max(1);
    for d in p.batch.iter().rev() {
        strides.insert(0, block);
        block *= (*d).max(1);
    }
    solution.strides = strides;
}

/// U, the singular values, V* and which of the values count; of the matrices as given, in double precision.
fn factored(cx: &mut Cx<'_, '_>, p: &Problem) -> Result<(Value, Value, Value, Value)> {
    let a = cx.tensor("self")?;
    let element = decomposable(cx, a)?;
    let wide = if element.is_complex() {
        ElementType::C128
    } else {
        ElementType::F64
    };
    let (a, _) = batched(cx, a)?;
    let a = cx.cast(a, wide)?;
    let (Some(u), values, Some(vh)) = svd::decomposed(cx, a, false, true)? else {
        return Err(Error::Internal("a decomposition without its vectors".into()));
    };
    let dims = cx.dims(values)?;
    let limit = if p.driver == "gels" {
        cx.full(&dims, ElementType::F64, 0)?
    } else {
        let part = ElementType::F64;
        let epsilon = if element.real() == ElementType::F64 {
            f64::EPSILON
        } else {
            f64::from(f32::EPSILON)
        };
        let rcond = match cx.opt_scalar("rcond", part)? {
            Some(rcond) => rcond,
            None => cx.full(&[], part, epsilon * p.rows.max(p.columns) as f64)?,
        };
        let zero = zeros(cx, &[], part)?;
        let largest = reduce(cx, values, zero, &[1], Combine::Max)?;
        let largest = cx.f.broadcast_in_dim(largest, dims.as_slice(), &[0])?;
        let rcond = cx.f.broadcast_in_dim(rcond, dims.as_slice(), &[])?;
        cx.f.multiply(largest, rcond)?
    };
    let counted = cx.f.compare(values, limit, Direction::Gt)?;
    Ok((u, values, vh, counted))
}

/// 1 where all matrices have full rank, or nothing depends on it.
fn sizes(cx: &mut Cx<'_, '_>) -> Result<Vec<Value>> {
    let p = Problem::of(cx.call)?;
    let empty = p.rows == 0 || p.columns == 0 || count(&p.own_batch) == 0;
    if !p.by_values() || !p.may_have_residuals() || empty {
        return Ok(vec![cx.full(&[], ElementType::S64, 1)?]);
    }
    let (.., counted) = factored(cx, &p)?;
    let all = all_true(cx, counted)?;
    Ok(vec![cx.cast(all, ElementType::S64)?])
}

/// `v` of rank 3 over the whole batch.
fn widened(cx: &mut Cx<'_, '_>, v: Value, have: &[i64], batch: &[i64]) -> Result<Value> {
    let dims = cx.dims(v)?;
    let own = cx.reshape(v, &with(have, &dims[dims.len() - 2..]))?;
    let all = cx.broadcast_to(own, &with(batch, &dims[dims.len() - 2..]))?;
    Ok(batched(cx, all)?.0)
}

fn linalg_lstsq(cx: &mut Cx<'_, '_>) -> Lowered {
    let p = Problem::of(cx.call)?;
    let outs = [cx.out(0)?, cx.out(1)?, cx.out(2)?, cx.out(3)?];
    if p.rows == 0 || p.columns == 0 || count(&p.batch) == 0 || count(&p.own_batch) == 0 {
        let mut all = Vec::new();
        for out in outs {
            all.push(zeros(cx, &out.dims, out.element)?);
        }
        // LAPACK's gels clears the right sides first.
        if p.columns == 0 && count(&outs[1].dims) > 0 && p.driver != "gels" {
            let b = right_sides(cx, &p)?;
            all[1] = squares(cx, b, &outs[1].dims)?;
        }
        return Ok(all.into());
    }
    let (u, values, vh, counted) = factored(cx, &p)?;
    let element = cx.element(u)?;
    let dims = cx.dims(values)?;
    let one = cx.full(&dims, ElementType::F64, 1)?;
    let safe = cx.f.select(counted, values, one)?;
    let inverse = cx.f.divide(one, safe)?;
    let none = cx.full(&dims, ElementType::F64, 0)?;
    let inverse = cx.f.select(counted, inverse, none)?;
    let inverse = cx.f.convert(inverse, element)?;
    let inverse = cx.reshape(inverse, &[dims[0], dims[1], 1])?;
    let b = right_sides(cx, &p)?;
    let uh = adjoint(cx, u)?;
    let uh = widened(cx, uh, &p.own_batch, &p.batch)?;
    let v = adjoint(cx, vh)?;
    let v = widened(cx, v, &p.own_batch, &p.batch)?;
    let inverse = widened(cx, inverse, &p.own_batch, &p.batch)?;
    let part = product(cx, uh, b)?;
    let part_dims = cx.dims(part)?;
    let inverse = cx.f.broadcast_in_dim(inverse, part_dims.as_slice(), &[0, 1, 2]);
    let inverse = inverse?;
    let part = cx.f.multiply(part, inverse)?;
    let x = product(cx, v, part)?;
    let residuals = if count(&outs[1].dims) > 0 {
        let a = cx.tensor("self")?;
        let a = cx.cast(a, element)?;
        let a = batched(cx, a)?.0;
        let a = widened(cx, a, &p.own_batch, &p.batch)?;
        let reached = product(cx, a, x)?;
        let missed = cx.f.subtract(b, reached)?;
        squares(cx, missed, &outs[1].dims)?
    } else {
        zeros(cx, &outs[1].dims, outs[1].element)?
    };
    let rank = if p.driver == "gels" {
        zeros(cx, &outs[2].dims, ElementType::S64)?
    } else {
        let ones = cx.cast(counted, ElementType::S64)?;
        let zero = zeros(cx, &[], ElementType::S64)?;
        let rank = reduce(cx, ones, zero, &[1], Combine::Add)?;
        cx.reshape(rank, &outs[2].dims)?
    };
    let values = if p.by_values() {
        cx.reshape(values, &outs[3].dims)?
    } else {
        zeros(cx, &outs[3].dims, outs[3].element)?
    };
    Ok(vec![cx.reshape(x, &outs[0].dims)?, residuals, rank, values].into())
}

/// The right sides as matrices of rank 3, in double precision.
fn right_sides(cx: &mut Cx<'_, '_>, p: &Problem) -> Result<Value> {
    let b = cx.tensor("b")?;
    let wide = if cx.element(b)?.is_complex() {
        ElementType::C128
    } else {
        ElementType::F64
    };
    let b = cx.cast(b, wide)?;
    let mut dims = cx.dims(b)?.to_vec();
    if p.vector {
        dims.push(1);
    }
    let b = cx.reshape(b, &dims)?;
    let own = dims[..dims.len() - 2].to_vec();
    let all = cx.broadcast_to(b, &with(&p.batch, &dims[own.len()..]))?;
    Ok(batched(cx, all)?.0)
}

/// Sums of squares down the columns.
fn squares(cx: &mut Cx<'_, '_>, v: Value, dims: &[i64]) -> Result<Value> {
    let sizes = cx.f.abs(v)?;
    let squares = cx.f.multiply(sizes, sizes)?;
    let element = cx.element(squares)?;
    let zero = zeros(cx, &[], element)?;
    let sum = reduce(cx, squares, zero, &[1], Combine::Add)?;
    cx.reshape(sum, dims)
}

pub(crate) const OPS: &[OpDef] = &[OpDef::new("linalg_lstsq", linalg_lstsq)
    .data_dependent(sizes, shape)
    .amend(layout)];
