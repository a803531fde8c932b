//! Complex numbers of two halves, which XLA has no type for.
//!
//! A storage holds them as words ([`ElementType::stored`]), so that views, moves and transfers need no rule of their own.
//! A lowering's values are complex singles ([`ElementType::computed`]): what it reads was widened here, its results are
//! rounded here, which is where torch's CPU kernels round. A call's metadata keeps the types that torch knows.

use aten::Value;
use dtype::ElementType;
use stablehlo::FunctionBuilder;

use crate::Result;

/// The numbers that stored words are; other types stay as they are. Shifts rather than a bitcast to pairs: a last dimension
/// of 2 fills a TPU's registers badly.
pub(crate) fn widen(f: &mut FunctionBuilder<'_>, words: Value, element: ElementType) -> Result<Value> {
    if element.is_xla() {
        return Ok(words);
    }
    let by = half_width(f, words)?;
    let high = f.shift_right_logical(words, by)?;
    let mut part = |word| -> Result<Value> {
        let bits = f.convert(word, ElementType::U16)?;
        let half = f.bitcast_convert(bits, element.real())?;
        Ok(f.convert(half, ElementType::F32)?)
    };
    let (re, im) = (part(words)?, part(high)?);
    Ok(f.complex(re, im)?)
}

/// Rounds complex singles and stores them as words; the inverse of [`widen`].
pub(crate) fn narrow(f: &mut FunctionBuilder<'_>, value: Value, element: ElementType) -> Result<Value> {
    if element.is_xla() {
        return Ok(value);
    }
    let parts = [f.real(value)?, f.imag(value)?];
    let mut word = |part| -> Result<Value> {
        let half = f.convert(part, element.real())?;
        let bits = f.bitcast_convert(half, ElementType::U16)?;
        Ok(f.convert(bits, ElementType::U32)?)
    };
    let (low, high) = (word(parts[0])?, word(parts[1])?);
    let by = half_width(f, high)?;
    let high = f.shift_left(high, by)?;
    Ok(f.or(high, low)?)
}

fn half_width(f: &mut FunctionBuilder<'_>, like: Value) -> Result<Value> {
    let dims = f.tensor_ty(like)?.dims.to_vec();
    Ok(f.full(&dims, ElementType::U32, 16)?)
}
