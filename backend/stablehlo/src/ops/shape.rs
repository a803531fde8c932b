//! broadcast_in_dim, reshape, transpose, reverse, concatenate, pad.

use crate::attribute::Props;
use crate::check::ensure;
use crate::{Dim, Dims, Error, FunctionBuilder, Result, Shape, Value};

impl FunctionBuilder<'_> {
    /// Puts the operand's dimension `i` at `broadcast_dimensions[i]` of the result and repeats along the rest and along dimensions of size 1.
    ///
    /// ```
    /// # use stablehlo::{Arena, ElementType::F32, Module, TensorType};
    /// # let arena = Arena::new();
    /// # let mut m = Module::new(&arena, "m");
    /// let x = TensorType::new(&arena, &[3], F32)?;
    /// m.function("main", &[x.into()], |f, a| {
    ///     let y = f.broadcast_in_dim(a[0], &[2, 3], &[1])?;
    ///     assert_eq!(f.ty(y)?.to_string(), "tensor<2x3xf32>");
    ///     Ok(vec![y])
    /// })?;
    /// # Ok::<(), stablehlo::Error>(())
    /// ```
    pub fn broadcast_in_dim(
        &mut self,
        operand: Value,
        dims: &(impl Shape + ?Sized),
        broadcast_dimensions: &[i64],
    ) -> Result<Value> {
        const OP: &str = "stablehlo.broadcast_in_dim";
        let o = self.operand(OP, 0, "operand", operand)?;
        let ty = self.tensor(dims, o.element)?;
        ensure(OP, ty.dims.iter().all(|d| d.limit().is_some()), || {
            format!("the result {ty} must not have unbounded dimensions: use dynamic_broadcast_in_dim")
        })?;
        o.per_dim("broadcast_dimensions", broadcast_dimensions)?;
        let mut seen = vec![false; ty.rank()];
        for (from, &to) in o.dims.iter().zip(broadcast_dimensions) {
            let slot = usize::try_from(to)
                .ok()
                .filter(|&t| t < ty.rank())
                .ok_or_else(|| o.fault(format!("broadcast_dimensions has {to}, not a dimension of {ty}")))?;
            o.require(!std::mem::replace(&mut seen[slot], true), || {
                format!("broadcast_dimensions = {broadcast_dimensions:?} must not repeat a dimension")
            })?;
            let fits = *from == Dim::Static(1) || from.merge(ty.dims[slot]).is_some();
            o.require(fits, || {
                format!("each dimension must be 1 or equal the result's, dimension {to} of {ty}")
            })?;
        }
        self.emit(
            OP,
            &[operand],
            &Props::new().i64s("broadcast_dimensions", broadcast_dimensions),
            ty,
        )
    }

    /// The same elements in row-major order under other dimensions.
    pub fn reshape(&mut self, operand: Value, dims: &(impl Shape + ?Sized)) -> Result<Value> {
        const OP: &str = "stablehlo.reshape";
        let o = self.operand(OP, 0, "operand", operand)?;
        let ty = self.tensor(dims, o.element)?;
        o.require(ty.dims.iter().all(|d| d.limit().is_some()), || {
            format!("the result {ty} must not have unbounded dimensions: use dynamic_reshape")
        })?;
        let counts = o.limit_count().zip(ty.limit_count());
        o.require(counts.is_none_or(|(a, b)| a == b), || {
            format!("the number of elements must equal that of the result {ty}")
        })?;
        self.emit(OP, &[operand], &Props::new(), ty)
    }

    /// Permutes the dimensions: dimension `i` of the result is `permutation[i]` of the operand.
    pub fn transpose(&mut self, operand: Value, permutation: &[i64]) -> Result<Value> {
        const OP: &str = "stablehlo.transpose";
        let o = self.operand(OP, 0, "operand", operand)?;
        o.per_dim("permutation", permutation)?;
        let axes = o.axes("permutation", permutation)?;
        let dims: Dims = axes.iter().map(|&a| o.dims[a]).collect();
        let ty = self.result(&dims, o.element);
        let value = self.emit(OP, &[operand], &Props::new().i64s("permutation", permutation), ty)?;
        self.note_order(value, permutation);
        Ok(value)
    }

    /// Reverses the order along dimensions.
    pub fn reverse(&mut self, operand: Value, dimensions: &[i64]) -> Result<Value> {
        const OP: &str = "stablehlo.reverse";
        let o = self.operand(OP, 0, "operand", operand)?;
        o.axes("dimensions", dimensions)?;
        self.emit(OP, &[operand], &Props::new().i64s("dimensions", dimensions), o.ty)
    }

    /// Joins tensors along a dimension.
    pub fn concatenate(&mut self, inputs: &[Value], dimension: i64) -> Result<Value> {
        const OP: &str = "stablehlo.concatenate";
        let operands = self.operands(OP, 0, "inputs", inputs)?;
        let first = *operands
            .first()
            .ok_or_else(|| Error::new(OP, "needs at least one input"))?;
        let axis = first.axis("dimension", dimension)?;
        let mut dims = Dims::from_slice(first.dims);
        for o in &operands[1..] {
            o.same_element(&first)?;
            o.ranked(first.rank())?;
            for i in 0..first.rank() {
                dims[i] = if i == axis {
                    join(dims[i], o.dims[i])
                } else {
                    dims[i].merge(o.dims[i])
                }
                .ok_or_else(|| {
                    o.fault(format!(
                        "dimension {i} must equal that of operand 0 `inputs` ({}) everywhere but in dimension {dimension}",
                        first.ty
                    ))
                })?;
            }
        }
        let ty = self.result(&dims, first.element);
        self.emit(OP, inputs, &Props::new().i64("dimension", dimension), ty)
    }

    /// Adds (or, where negative, cuts) elements around and between.
    pub fn pad(
        &mut self,
        operand: Value,
        padding_value: Value,
        low: &[i64],
        high: &[i64],
        interior: &[i64],
    ) -> Result<Value> {
        const OP: &str = "stablehlo.pad";
        let o = self.operand(OP, 0, "operand", operand)?;
        let p = self.operand(OP, 1, "padding_value", padding_value)?;
        p.ranked(0)?;
        p.same_element(&o)?;
        o.per_dim("edge_padding_low", low)?;
        o.per_dim("edge_padding_high", high)?;
        o.per_dim("interior_padding", interior)?;
        let mut dims = Dims::new();
        for i in 0..o.rank() {
            o.require(interior[i] >= 0, || {
                format!("interior_padding = {interior:?} must not be negative")
            })?;
            let (l, h, n) = (i128::from(low[i]), i128::from(high[i]), i128::from(interior[i]));
            let padded = o.dims[i].try_map(|size| {
                let between = if size > 0 { (size - 1) * n } else { 0 };
                i64::try_from(l + size + between + h).ok().filter(|&d| d >= 0)
            });
            dims.push(padded.ok_or_else(|| {
                o.fault(format!(
                    "padding dimension {i} by {l}, {h} and {n} between must give a size of 0 or more that fits"
                ))
            })?);
        }
        let ty = self.result(&dims, o.element);
        let props = Props::new()
            .i64s("edge_padding_low", low)
            .i64s("edge_padding_high", high)
            .i64s("interior_padding", interior);
        self.emit(OP, &[operand, padding_value], &props, ty)
    }
}

/// The sum of two dimensions; `None` when it does not fit.
fn join(a: Dim, b: Dim) -> Option<Dim> {
    Some(match (a, b) {
        (Dim::Dynamic, _) | (_, Dim::Dynamic) => Dim::Dynamic,
        (Dim::Static(x), Dim::Static(y)) => Dim::Static(x.checked_add(y)?),
        (x, y) => Dim::Bounded(x.limit()?.checked_add(y.limit()?)?),
    })
}
