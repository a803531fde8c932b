//! uniform_quantize and uniform_dequantize, and quantized types.

use crate::attribute::Props;
use crate::check::{Kinds, ensure};
use crate::{ElementType, Error, FunctionBuilder, Quantization, Result, Shape, TensorType, Value};

impl<'a> FunctionBuilder<'a> {
    /// A quantized tensor type: integers of `storage` that stand for `(n - zero_point) * scale`.
    pub fn quantized(
        &self,
        dims: &(impl Shape + ?Sized),
        storage: ElementType,
        expressed: ElementType,
        axis: Option<i64>,
        scales: &[f64],
        zero_points: &[i64],
    ) -> Result<TensorType<'a>> {
        const OP: &str = "quantized type";
        let plain = self.tensor(dims, storage)?;
        ensure(OP, Kinds::INT.has(storage) && storage.bits() <= 16, || {
            format!("the storage type {storage} must be an integer of at most 16 bits")
        })?;
        ensure(OP, expressed.is_float(), || {
            format!("the expressed type {expressed} must be float")
        })?;
        let count = match axis {
            None => Some(1),
            Some(a) => usize::try_from(a)
                .ok()
                .and_then(|a| plain.dims.get(a))
                .ok_or_else(|| Error::new(OP, format!("axis {a} must be a dimension of {plain}")))?
                .size(),
        };
        let n = scales.len() as i64;
        ensure(
            OP,
            n > 0 && count.is_none_or(|c| c == n) && zero_points.len() == scales.len(),
            || {
                format!(
                    "{} scales and {} zero points: there must be one of each, or one of each along the axis",
                    scales.len(),
                    zero_points.len()
                )
            },
        )?;
        let range = match storage.bits() {
            bits if storage.class() == crate::Class::Signed => {
                -(1i64 << (bits - 1))..=(1i64 << (bits - 1)) - 1
            }
            bits => 0..=(1i64 << bits) - 1,
        };
        ensure(OP, scales.iter().all(|s| s.is_finite() && *s > 0.0), || {
            format!("scales {scales:?} must be positive and finite")
        })?;
        ensure(OP, zero_points.iter().all(|z| range.contains(z)), || {
            format!("zero points {zero_points:?} must be values of {storage}")
        })?;
        let quant = Quantization {
            expressed,
            axis,
            scales: self.arena.alloc_slice_copy(scales),
            zero_points: self.arena.alloc_slice_copy(zero_points),
        };
        Ok(TensorType {
            quant: Some(self.arena.alloc(quant)),
            ..plain
        })
    }

    /// Quantizes floats (or quantizes anew) to a type made by `quantized`.
    pub fn uniform_quantize(&mut self, operand: Value, ty: TensorType<'a>) -> Result<Value> {
        const OP: &str = "stablehlo.uniform_quantize";
        let o = self.any_operand(OP, 0, "operand", operand)?;
        let quant = ty
            .quant
            .ok_or_else(|| Error::new(OP, format!("the result {ty} must be a quantized type")))?;
        o.require(o.dims == ty.dims, || {
            format!("the shape must equal that of the result {ty}")
        })?;
        let real = o.quant.map_or(o.element, |q| q.expressed);
        o.require(real == quant.expressed, || {
            format!(
                "the element type must be {}, the expressed type of the result {ty}",
                quant.expressed
            )
        })?;
        self.emit(OP, &[operand], &Props::new(), ty)
    }

    /// The reals a quantized tensor stands for.
    pub fn uniform_dequantize(&mut self, operand: Value) -> Result<Value> {
        const OP: &str = "stablehlo.uniform_dequantize";
        let o = self.any_operand(OP, 0, "operand", operand)?;
        let quant = o.quant.ok_or_else(|| o.fault("must be quantized"))?;
        self.emit(OP, &[operand], &Props::new(), o.with_element(quant.expressed))
    }
}
