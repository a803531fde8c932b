//! slice, dynamic_slice, dynamic_update_slice, get_dimension_size, set_dimension_size.

use crate::attribute::Props;
use crate::{Dim, Dims, ElementType, FunctionBuilder, Result, Value};

impl FunctionBuilder<'_> {
    /// Takes every `strides[i]`-th element from `start[i]` up to `limit[i]`.
    pub fn slice(&mut self, operand: Value, start: &[i64], limit: &[i64], strides: &[i64]) -> Result<Value> {
        const OP: &str = "stablehlo.slice";
        let o = self.operand(OP, 0, "operand", operand)?;
        o.per_dim("start_indices", start)?;
        o.per_dim("limit_indices", limit)?;
        o.per_dim("strides", strides)?;
        let mut dims = Dims::new();
        for i in 0..o.rank() {
            let (s, l, step) = (start[i], limit[i], strides[i]);
            let inside = s >= 0 && s <= l && o.dims[i].limit().is_none_or(|d| l <= d);
            o.require(inside, || {
                format!("dimension {i}: 0 <= start {s} <= limit {l} <= the size must hold")
            })?;
            o.require(step > 0, || {
                format!("dimension {i}: the stride {step} must be positive")
            })?;
            dims.push(Dim::Static((l - s) / step + i64::from((l - s) % step != 0)));
        }
        let ty = self.result(&dims, o.element);
        let props = Props::new()
            .i64s("start_indices", start)
            .i64s("limit_indices", limit)
            .i64s("strides", strides);
        self.emit(OP, &[operand], &props, ty)
    }

    /// Takes a block of `slice_sizes` at indices known at run time, clamped into the operand.
    pub fn dynamic_slice(
        &mut self,
        operand: Value,
        start_indices: &[Value],
        slice_sizes: &[i64],
    ) -> Result<Value> {
        const OP: &str = "stablehlo.dynamic_slice";
        let o = self.operand(OP, 0, "operand", operand)?;
        o.per_dim("slice_sizes", slice_sizes)?;
        o.require(start_indices.len() == o.rank(), || {
            format!("takes {} start indices, got {}", o.rank(), start_indices.len())
        })?;
        self.index_scalars(OP, 1, "start_indices", start_indices)?;
        for (i, (&size, dim)) in slice_sizes.iter().zip(o.dims).enumerate() {
            o.require(size >= 0 && dim.limit().is_none_or(|d| size <= d), || {
                format!("dimension {i}: the slice size {size} must be at least 0 and at most the size")
            })?;
        }
        let dims: Dims = slice_sizes.iter().map(|&n| Dim::Static(n)).collect();
        let ty = self.result(&dims, o.element);
        let mut all = vec![operand];
        all.extend_from_slice(start_indices);
        self.emit(OP, &all, &Props::new().i64s("slice_sizes", slice_sizes), ty)
    }

    /// The operand with a block replaced at indices known at run time, clamped into the operand.
    pub fn dynamic_update_slice(
        &mut self,
        operand: Value,
        update: Value,
        start_indices: &[Value],
    ) -> Result<Value> {
        const OP: &str = "stablehlo.dynamic_update_slice";
        let o = self.operand(OP, 0, "operand", operand)?;
        let u = self.operand(OP, 1, "update", update)?;
        u.same_element(&o)?;
        u.ranked(o.rank())?;
        for (i, (part, whole)) in u.dims.iter().zip(o.dims).enumerate() {
            let fits = part.limit().zip(whole.limit()).is_none_or(|(p, w)| p <= w);
            u.require(fits, || {
                format!(
                    "dimension {i} must not exceed that of operand 0 `operand` ({})",
                    o.ty
                )
            })?;
        }
        o.require(start_indices.len() == o.rank(), || {
            format!("takes {} start indices, got {}", o.rank(), start_indices.len())
        })?;
        self.index_scalars(OP, 2, "start_indices", start_indices)?;
        let mut all = vec![operand, update];
        all.extend_from_slice(start_indices);
        self.emit(OP, &all, &Props::new(), o.ty)
    }

    /// The size of a dimension as an `i32` scalar.
    pub fn get_dimension_size(&mut self, operand: Value, dimension: i64) -> Result<Value> {
        const OP: &str = "stablehlo.get_dimension_size";
        let o = self.any_operand(OP, 0, "operand", operand)?;
        o.axis("dimension", dimension)?;
        let ty = self.result(&[], ElementType::S32);
        self.emit(OP, &[operand], &Props::new().i64("dimension", dimension), ty)
    }

    /// The operand with a dimension's size set at run time; its present size becomes the bound.
    pub fn set_dimension_size(&mut self, operand: Value, size: Value, dimension: i64) -> Result<Value> {
        const OP: &str = "stablehlo.set_dimension_size";
        let o = self.operand(OP, 0, "operand", operand)?;
        let s = self.operand(OP, 1, "size", size)?;
        s.ranked(0)?;
        s.require(s.element == ElementType::S32, || {
            "the element type must be i32".into()
        })?;
        let axis = o.axis("dimension", dimension)?;
        let mut dims = Dims::from_slice(o.dims);
        dims[axis] = o.dims[axis].limit().map_or(Dim::Dynamic, Dim::Bounded);
        let ty = self.result(&dims, o.element);
        self.emit(
            OP,
            &[operand, size],
            &Props::new().i64("dimension", dimension),
            ty,
        )
    }
}
