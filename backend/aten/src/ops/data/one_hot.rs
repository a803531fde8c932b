//! one_hot, with the CPU's checks: torch's composite kernel makes them on the CPU only.

use dtype::ElementType;
use stablehlo::Value;
use stablehlo::ops::Direction;

use super::dynamic_sizes::{meta_of, result};
use super::util::{Combine, all_axes, all_true, compare_to, count, plus, reduce, zero, zeros};
use crate::{Arg, Call, Cx, Error, ErrorKind, Lowered, OpDef, OutMeta, Result};

/// Number of classes, -1 where the data tell.
fn asked(call: &Call) -> i64 {
    match call.arg("num_classes") {
        Some(Arg::Int(n)) => *n,
        _ => -1,
    }
}

/// One more than the largest class; nothing is computed where the number is given.
fn sizes(cx: &mut Cx<'_, '_>) -> Result<Vec<Value>> {
    let n = asked(cx.call);
    let v = cx.operand("self", ElementType::S64)?;
    if n != -1 || count(&cx.dims(v)?) == 0 {
        return Ok(vec![cx.full(&[], ElementType::S64, n)?]);
    }
    let axes = all_axes(cx, v)?;
    let none = cx.full(&[], ElementType::S64, -1)?;
    let most = reduce(cx, v, none, &axes, Combine::Max)?;
    // Negative classes are refused when the sizes are known.
    let classes = plus(cx, most, 1)?;
    let least = zero(cx, ElementType::S64)?;
    Ok(vec![cx.f.maximum(classes, least)?])
}

fn shape(call: &Call) -> Result<Vec<Option<OutMeta>>> {
    let index = meta_of(call, "self")?;
    let refuse = |text: &str| Err(Error::user(ErrorKind::Runtime, text));
    if index.element != ElementType::S64 {
        return refuse("one_hot is only applicable to index tensor of type LongTensor.");
    }
    let n = super::dynamic_sizes::size_of(call)?;
    if count(&index.dims) == 0 && n <= 0 {
        return refuse("Can not infer total number of classes from empty tensor.");
    }
    let dims: Vec<i64> = index.dims.iter().copied().chain([n.max(0)]).collect();
    Ok(vec![result(&dims, ElementType::S64)])
}

fn one_hot(cx: &mut Cx<'_, '_>) -> Lowered {
    let out = cx.out(0)?;
    let v = cx.operand("self", ElementType::S64)?;
    let dims = cx.dims(v)?;
    if count(&dims) == 0 {
        return Ok(zeros(cx, &out.dims, ElementType::S64)?.into());
    }
    let signs = compare_to(cx, v, 0, Direction::Ge)?;
    let ok = all_true(cx, signs)?;
    let shown = zero(cx, ElementType::S64)?;
    cx.check(
        ok,
        shown,
        ErrorKind::Runtime,
        "Class values must be non-negative.",
    );
    let n = asked(cx.call);
    if n != -1 {
        let below = compare_to(cx, v, n, Direction::Lt)?;
        let ok = all_true(cx, below)?;
        cx.check(
            ok,
            shown,
            ErrorKind::Runtime,
            "Class values must be smaller than num_classes.",
        );
    }
    let class =
        cx.f.iota(out.dims.as_slice(), ElementType::S64, dims.len() as i64)?;
    let along: Vec<i64> = (0..dims.len() as i64).collect();
    let v = cx.f.broadcast_in_dim(v, out.dims.as_slice(), &along)?;
    let hit = cx.f.compare(class, v, Direction::Eq)?;
    Ok(cx.cast(hit, ElementType::S64)?.into())
}

pub(crate) const OPS: &[OpDef] = &[OpDef::new("one_hot", one_hot).data_dependent(sizes, shape)];
