//! tuple and get_tuple_element.

use crate::attribute::Props;
use crate::{Error, FunctionBuilder, Result, Type, Value};

impl FunctionBuilder<'_> {
    /// Several values as one.
    pub fn tuple(&mut self, values: &[Value]) -> Result<Value> {
        const OP: &str = "stablehlo.tuple";
        let types = self.types_of(OP, "val", values)?;
        let ty = Type::Tuple(self.arena.alloc_slice_copy(&types));
        self.emit(OP, values, &Props::new(), ty)
    }

    /// One value of a tuple.
    pub fn get_tuple_element(&mut self, operand: Value, index: i32) -> Result<Value> {
        const OP: &str = "stablehlo.get_tuple_element";
        let ty = self.value_operand(OP, 0, "operand", operand)?;
        let Type::Tuple(parts) = ty else {
            return Err(Error::operand(OP, 0, "operand", ty, "must be a tuple"));
        };
        let part = usize::try_from(index).ok().and_then(|i| parts.get(i));
        let part = *part.ok_or_else(|| {
            Error::operand(
                OP,
                0,
                "operand",
                ty,
                format!("index {index} must be less than {}", parts.len()),
            )
        })?;
        self.emit(OP, &[operand], &Props::new().i32("index", index), part)
    }
}
