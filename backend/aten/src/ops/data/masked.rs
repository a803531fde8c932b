//! masked_fill, masked_scatter, masked_scatter_backward.

use dtype::ElementType;
use stablehlo::ops::Direction;

use super::util::{
    compare_to, count, count_true, index_type, plus, positions_of, prefix_sum, take_flat, zero,
};
use crate::{Cx, Error, ErrorKind, Lowered, OpDef};

fn masked_fill(cx: &mut Cx<'_, '_>) -> Lowered {
    let out = cx.out(0)?;
    let v = cx.operand("self", out.element)?;
    let v = cx.broadcast_to(v, &out.dims)?;
    let mask = cx.operand("mask", ElementType::Pred)?;
    let mask = cx.broadcast_to(mask, &out.dims)?;
    let value = cx.scalar("value", out.element)?;
    let value = cx.broadcast_to(value, &out.dims)?;
    Ok(cx.f.select(mask, value, v)?.into())
}

fn masked_scatter(cx: &mut Cx<'_, '_>) -> Lowered {
    let masks = cx.meta("mask")?.element;
    if masks != ElementType::Pred {
        return Err(Error::user(
            ErrorKind::Runtime,
            format!("masked_scatter_ only supports boolean masks, but got mask with dtype {masks}"),
        ));
    }
    let out = cx.out(0)?;
    let v = cx.operand("self", out.element)?;
    let v = cx.broadcast_to(v, &out.dims)?;
    let mask = cx.operand("mask", ElementType::Pred)?;
    let mask = cx.broadcast_to(mask, &out.dims)?;
    let source = cx.operand("source", out.element)?;
    let (n, m) = (count(&out.dims), count(&cx.dims(source)?));
    if n == 0 {
        return Ok(v.into());
    }
    let wanted = count_true(cx, mask)?;
    let enough = compare_to(cx, wanted, m, Direction::Le)?;
    cx.check(
        enough,
        wanted,
        ErrorKind::Runtime,
        "Number of elements of source < number of ones in mask",
    );
    if m == 0 {
        return Ok(v.into());
    }
    let flat = cx.reshape(mask, &[n])?;
    let ones = cx.cast(flat, index_type(n.max(m)))?;
    let upto = prefix_sum(cx, ones)?;
    let at = plus(cx, upto, -1)?;
    let source = cx.reshape(source, &[m])?;
    let values = take_flat(cx, source, at)?;
    let values = cx.reshape(values, &out.dims)?;
    Ok(cx.f.select(mask, values, v)?.into())
}

fn masked_scatter_backward(cx: &mut Cx<'_, '_>) -> Lowered {
    let out = cx.out(0)?;
    let grad = cx.tensor("grad_output")?;
    let (dims, element) = (cx.dims(grad)?, cx.element(grad)?);
    let mask = cx.operand("mask", ElementType::Pred)?;
    let mask = cx.broadcast_to(mask, &dims)?;
    let (n, m) = (count(&dims), count(&out.dims));
    // One zero at the end, for the elements of the source that were not used.
    let fill = zero(cx, element)?;
    let grad = cx.reshape(grad, &[n])?;
    let grad = cx.f.pad(grad, fill, &[0], &[1], &[0])?;
    let mask = cx.reshape(mask, &[n])?;
    let at = positions_of(cx, mask, m, n)?;
    let taken = take_flat(cx, grad, at)?;
    Ok(cx.reshape(taken, &out.dims)?.into())
}

pub(crate) const OPS: &[OpDef] = &[
    OpDef::new("masked_fill", masked_fill).fits(&["value"]),
    OpDef::new("masked_scatter", masked_scatter),
    OpDef::new("masked_scatter_backward", masked_scatter_backward),
];
