//! Ops whose shapes or attributes are operands. The result's dimensions are given where operands decide them.

use super::convolution::{ConvolutionDimensions, ConvolutionOptions, convolution_type};
use super::gather::{GatherDimensions, gather_dims};
use crate::attribute::Props;
use crate::check::{Kinds, Operand, ensure};
use crate::{Dim, Dims, FunctionBuilder, Result, Shape, TensorType, Value};

impl<'a> FunctionBuilder<'a> {
    /// An operand with a number for each of `count` dimensions.
    fn shape_operand(
        &self,
        op: &'static str,
        index: usize,
        name: &'static str,
        value: Value,
        count: usize,
    ) -> Result<Operand<'a>> {
        let o = self.operand(op, index, name, value)?;
        o.kinds(Kinds::INT)?;
        o.ranked(1)?;
        o.require(o.dims[0].merge(Dim::Static(count as i64)).is_some(), || {
            format!("must have {count} elements, one a dimension")
        })?;
        Ok(o)
    }

    /// The type with the given dimensions, which must agree with the inferred ones.
    fn agreed(
        &self,
        op: &'static str,
        given: &(impl Shape + ?Sized),
        inferred: &[Dim],
        like: &TensorType<'a>,
    ) -> Result<TensorType<'a>> {
        let ty = self.tensor(given, like.element)?;
        ensure(op, crate::check::merge_dims(ty.dims, inferred).is_some(), || {
            format!(
                "the result {ty} must agree with the inferred {}",
                self.result(inferred, like.element)
            )
        })?;
        Ok(ty)
    }

    /// `broadcast_in_dim` to a shape known at run time.
    pub fn dynamic_broadcast_in_dim(
        &mut self,
        operand: Value,
        output_dimensions: Value,
        dims: &(impl Shape + ?Sized),
        broadcast_dimensions: &[i64],
    ) -> Result<Value> {
        const OP: &str = "stablehlo.dynamic_broadcast_in_dim";
        let o = self.operand(OP, 0, "operand", operand)?;
        let ty = self.tensor(dims, o.element)?;
        self.shape_operand(OP, 1, "output_dimensions", output_dimensions, ty.rank())?;
        o.per_dim("broadcast_dimensions", broadcast_dimensions)?;
        let mut seen = vec![false; ty.rank()];
        for (from, &to) in o.dims.iter().zip(broadcast_dimensions) {
            let slot = usize::try_from(to).ok().filter(|&t| t < ty.rank() && !seen[t]);
            let slot = slot.ok_or_else(|| {
                o.fault(format!(
                    "broadcast_dimensions = {broadcast_dimensions:?} must be distinct dimensions of {ty}"
                ))
            })?;
            seen[slot] = true;
            o.require(
                *from == Dim::Static(1) || from.merge(ty.dims[slot]).is_some(),
                || format!("each dimension must be 1 or equal the result's, dimension {to} of {ty}"),
            )?;
        }
        let props = Props::new().i64s("broadcast_dimensions", broadcast_dimensions);
        self.emit(OP, &[operand, output_dimensions], &props, ty)
    }

    /// `iota` of a shape known at run time.
    pub fn dynamic_iota(
        &mut self,
        output_shape: Value,
        dims: &(impl Shape + ?Sized),
        element: crate::ElementType,
        iota_dimension: i64,
    ) -> Result<Value> {
        const OP: &str = "stablehlo.dynamic_iota";
        let ty = self.tensor(dims, element)?;
        self.shape_operand(OP, 0, "output_shape", output_shape, ty.rank())?;
        ensure(OP, (0..ty.rank() as i64).contains(&iota_dimension), || {
            format!("iota_dimension = {iota_dimension} must be a dimension of {ty}")
        })?;
        let kinds = Kinds::INT.or(Kinds::FLOAT).or(Kinds::COMPLEX);
        ensure(OP, kinds.has(element), || {
            format!("the element type of {ty} must be {kinds}")
        })?;
        self.emit(
            OP,
            &[output_shape],
            &Props::new().i64("iota_dimension", iota_dimension),
            ty,
        )
    }

    /// `reshape` to a shape known at run time.
    pub fn dynamic_reshape(
        &mut self,
        operand: Value,
        output_shape: Value,
        dims: &(impl Shape + ?Sized),
    ) -> Result<Value> {
        const OP: &str = "stablehlo.dynamic_reshape";
        let o = self.operand(OP, 0, "operand", operand)?;
        let ty = self.tensor(dims, o.element)?;
        self.shape_operand(OP, 1, "output_shape", output_shape, ty.rank())?;
        let equal = !(o.is_static() && ty.is_static()) || o.limit_count() == ty.limit_count();
        o.require(equal, || {
            format!("the number of elements must equal that of the result {ty}")
        })?;
        self.emit(OP, &[operand, output_shape], &Props::new(), ty)
    }

    /// `pad` with amounts known at run time.
    pub fn dynamic_pad(
        &mut self,
        operand: Value,
        padding_value: Value,
        low: Value,
        high: Value,
        interior: Value,
        dims: &(impl Shape + ?Sized),
    ) -> Result<Value> {
        const OP: &str = "stablehlo.dynamic_pad";
        let o = self.operand(OP, 0, "operand", operand)?;
        let p = self.operand(OP, 1, "padding_value", padding_value)?;
        p.ranked(0)?;
        p.same_element(&o)?;
        let l = self.shape_operand(OP, 2, "edge_padding_low", low, o.rank())?;
        let h = self.shape_operand(OP, 3, "edge_padding_high", high, o.rank())?;
        let i = self.shape_operand(OP, 4, "interior_padding", interior, o.rank())?;
        h.same_element(&l)?;
        i.same_element(&l)?;
        let unknown = vec![Dim::Dynamic; o.rank()];
        let ty = self.agreed(OP, dims, &unknown, &o)?;
        self.emit(
            OP,
            &[operand, padding_value, low, high, interior],
            &Props::new(),
            ty,
        )
    }

    /// `slice` with bounds known at run time.
    pub fn real_dynamic_slice(
        &mut self,
        operand: Value,
        start: Value,
        limit: Value,
        strides: Value,
        dims: &(impl Shape + ?Sized),
    ) -> Result<Value> {
        const OP: &str = "stablehlo.real_dynamic_slice";
        let o = self.operand(OP, 0, "operand", operand)?;
        let s = self.shape_operand(OP, 1, "start_indices", start, o.rank())?;
        let l = self.shape_operand(OP, 2, "limit_indices", limit, o.rank())?;
        let t = self.shape_operand(OP, 3, "strides", strides, o.rank())?;
        l.same_element(&s)?;
        t.same_element(&s)?;
        let unknown = vec![Dim::Dynamic; o.rank()];
        let ty = self.agreed(OP, dims, &unknown, &o)?;
        self.emit(OP, &[operand, start, limit, strides], &Props::new(), ty)
    }

    /// `gather` with slice sizes known at run time.
    pub fn dynamic_gather(
        &mut self,
        operand: Value,
        start_indices: Value,
        slice_sizes: Value,
        dimensions: &GatherDimensions,
        indices_are_sorted: bool,
        dims: &(impl Shape + ?Sized),
    ) -> Result<Value> {
        const OP: &str = "stablehlo.dynamic_gather";
        let o = self.operand(OP, 0, "operand", operand)?;
        let indices = self.operand(OP, 1, "start_indices", start_indices)?;
        self.shape_operand(OP, 2, "slice_sizes", slice_sizes, o.rank())?;
        let sizes: Dims = o.dims.iter().map(|_| Dim::Dynamic).collect();
        let inferred = gather_dims(&o, &indices, dimensions, &sizes)?;
        let ty = self.agreed(OP, dims, &inferred, &o)?;
        let props = Props::new()
            .raw("dimension_numbers", dimensions.text())
            .raw("indices_are_sorted", indices_are_sorted);
        self.emit(OP, &[operand, start_indices, slice_sizes], &props, ty)
    }

    /// `convolution` with padding known at run time, an integer matrix of two columns.
    pub fn dynamic_conv(
        &mut self,
        lhs: Value,
        rhs: Value,
        padding: Value,
        dimensions: &ConvolutionDimensions,
        options: &ConvolutionOptions,
        dims: &(impl Shape + ?Sized),
    ) -> Result<Value> {
        const OP: &str = "stablehlo.dynamic_conv";
        let x = self.operand(OP, 0, "lhs", lhs)?;
        let w = self.operand(OP, 1, "rhs", rhs)?;
        let p = self.operand(OP, 2, "padding", padding)?;
        p.kinds(Kinds::INT)?;
        let spatial = dimensions.input_spatial.len() as i64;
        let want = [Dim::Static(spatial), Dim::Static(2)];
        p.require(crate::check::merge_dims(p.dims, &want).is_some(), || {
            format!("must have shape {spatial}x2")
        })?;
        let (inferred, element) = convolution_type(&x, &w, dimensions, options, false)?;
        let ty = self.agreed(OP, dims, &inferred, &x.with_element(element))?;
        self.emit(OP, &[lhs, rhs, padding], &options.props(dimensions, false), ty)
    }
}
