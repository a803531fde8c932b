//! convert, bitcast_convert, reduce_precision.

use crate::attribute::Props;
use crate::check::Kinds;
use crate::{Class, Dim, Dims, ElementType, FunctionBuilder, Result, Value};

impl FunctionBuilder<'_> {
    /// Converts values to another element type.
    pub fn convert(&mut self, operand: Value, element: ElementType) -> Result<Value> {
        const OP: &str = "stablehlo.convert";
        let o = self.operand(OP, 0, "operand", operand)?;
        self.emit(OP, &[operand], &Props::new(), o.with_element(element))
    }

    /// Reads the same bits as another element type. A narrower type adds a last dimension, a wider one consumes it.
    pub fn bitcast_convert(&mut self, operand: Value, element: ElementType) -> Result<Value> {
        const OP: &str = "stablehlo.bitcast_convert";
        let o = self.operand(OP, 0, "operand", operand)?;
        o.require(o.element.is_complex() == element.is_complex(), || {
            format!("complex and real types are not read as one another, got {element}")
        })?;
        o.require(!element.is_complex() || o.element == element, || {
            format!("complex numbers are read only as the same type (XLA aborts otherwise), got {element}")
        })?;
        let boolean = |e: ElementType| e.class() == Class::Boolean;
        o.require(boolean(o.element) == boolean(element), || {
            format!("booleans are read only as booleans, got {element}")
        })?;
        let (from, to) = (i64::from(o.element.bits()), i64::from(element.bits()));
        let mut dims = Dims::from_slice(o.dims);
        if from > to {
            dims.push(Dim::Static(from / to));
        } else if from < to {
            let ratio = to / from;
            o.require(o.dims.last() == Some(&Dim::Static(ratio)), || {
                format!("the last dimension must be {ratio} to be read as {element}")
            })?;
            dims.pop();
        }
        let ty = self.result(&dims, element);
        self.emit(OP, &[operand], &Props::new(), ty)
    }

    /// Rounds as if through a float of this many exponent and mantissa bits.
    pub fn reduce_precision(
        &mut self,
        operand: Value,
        exponent_bits: i32,
        mantissa_bits: i32,
    ) -> Result<Value> {
        const OP: &str = "stablehlo.reduce_precision";
        let o = self.operand(OP, 0, "operand", operand)?;
        o.kinds(Kinds::FLOAT)?;
        o.require(exponent_bits >= 1, || {
            format!("exponent_bits = {exponent_bits} must be at least 1")
        })?;
        o.require(mantissa_bits >= 0, || {
            format!("mantissa_bits = {mantissa_bits} must not be negative")
        })?;
        let props = Props::new()
            .i32("exponent_bits", exponent_bits)
            .i32("mantissa_bits", mantissa_bits);
        self.emit(OP, &[operand], &props, o.ty)
    }
}
