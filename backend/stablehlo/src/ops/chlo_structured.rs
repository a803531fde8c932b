//! The chlo ops that are not elementwise: constants, top_k, ragged_dot, scan.

use super::dot::{DotDimensions, DotOptions, dot_dims, dot_element, precision_config};
use crate::attribute::{List, Props};
use crate::check::{Kinds, Operand, ensure};
use crate::literal::{self, Element, Number};
use crate::{Dim, Dims, ElementType, Error, FunctionBuilder, Result, Shape, Type, Value};

/// The dimension numbers of `chlo_ragged_dot`.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct RaggedDotDimensions {
    /// Batching and contracting dimensions.
    pub dot: DotDimensions,
    /// The dimension of lhs that is cut into groups.
    pub lhs_ragged: i64,
    /// The dimension of rhs with an entry for each group; needed when the ragged dimension is neither batching nor contracting.
    pub rhs_group: Option<i64>,
}

impl RaggedDotDimensions {
    /// `[m, k] x [g, k, n] -> [m, n]`: rows of lhs in groups, a matrix for each.
    pub fn grouped_matmul() -> Self {
        Self {
            dot: DotDimensions {
                lhs_contracting: vec![1],
                rhs_contracting: vec![1],
                ..DotDimensions::default()
            },
            lhs_ragged: 0,
            rhs_group: Some(0),
        }
    }

    fn text(&self) -> String {
        format!(
            "#chlo.ragged_dot<lhs_batching_dimensions = {}, rhs_batching_dimensions = {}, lhs_contracting_dimensions = {}, \
             rhs_contracting_dimensions = {}, lhs_ragged_dimensions = [{}], rhs_group_dimensions = {}>",
            List(&self.dot.lhs_batching),
            List(&self.dot.rhs_batching),
            List(&self.dot.lhs_contracting),
            List(&self.dot.rhs_contracting),
            self.lhs_ragged,
            List(self.rhs_group.as_slice())
        )
    }

    /// Checks the sizes of the groups; the number of groups.
    fn groups(&self, l: &Operand<'_>, r: &Operand<'_>, sizes: &Operand<'_>) -> Result<Dim> {
        l.axis("lhs_ragged_dimensions", self.lhs_ragged)?;
        sizes.kinds(Kinds::INT)?;
        let groups = *sizes
            .dims
            .last()
            .ok_or_else(|| sizes.fault("must not be a scalar"))?;
        let d = &self.dot;
        let before = |axes: &[i64]| axes.iter().position(|&a| a == self.lhs_ragged);
        let (prefix, grouped) = if let Some(i) = before(&d.lhs_batching) {
            (d.lhs_batching[..i].to_vec(), false)
        } else if let Some(i) = before(&d.lhs_contracting) {
            ([&*d.lhs_batching, &d.lhs_contracting[..i]].concat(), false)
        } else {
            let free = |i: &i64| !d.lhs_batching.contains(i) && !d.lhs_contracting.contains(i);
            let mut axes = d.lhs_batching.clone();
            axes.extend((0..self.lhs_ragged).filter(free));
            (axes, true)
        };
        match self.rhs_group {
            Some(group) => {
                r.require(grouped, || {
                    "there is no group dimension when the ragged one is batching or contracting".into()
                })?;
                let axis = r.axis("rhs_group_dimensions", group)?;
                r.require(
                    !d.rhs_batching.contains(&group) && !d.rhs_contracting.contains(&group),
                    || format!("rhs_group_dimensions = {group} must be neither batching nor contracting"),
                )?;
                r.require(r.dims[axis].merge(groups).is_some(), || {
                    format!(
                        "dimension {axis} must have an entry for each group of operand 2 `group_sizes` ({})",
                        sizes.ty
                    )
                })?;
            }
            None => r.require(!grouped, || {
                "a group dimension is needed when the ragged one is neither batching nor contracting".into()
            })?,
        }
        if sizes.rank() > 1 {
            let mut want: Dims = prefix.iter().map(|&i| l.dims[i as usize]).collect();
            want.push(groups);
            sizes.require(crate::check::merge_dims(sizes.dims, &want).is_some(), || {
                format!(
                    "must have rank 1, or a list of sizes for each index of the dimensions {prefix:?} of operand 0 `lhs` ({})",
                    l.ty
                )
            })?;
        }
        Ok(groups)
    }
}

impl<'a> FunctionBuilder<'a> {
    /// A constant, as chlo has it. Prefer `constant`.
    pub fn chlo_constant<T: Element>(&mut self, dims: &(impl Shape + ?Sized), values: &[T]) -> Result<Value> {
        let ty = self.tensor(dims, T::TYPE)?;
        let mut bytes = Vec::with_capacity(values.len() * T::TYPE.host_bytes());
        values.iter().for_each(|v| v.write(&mut bytes));
        self.dense("chlo.constant", ty, &bytes)
    }

    /// One number in the shape of the operand, which may be known at run time only.
    pub fn chlo_constant_like(
        &mut self,
        operand: Value,
        element: ElementType,
        value: impl Into<Number>,
    ) -> Result<Value> {
        const OP: &str = "chlo.constant_like";
        let o = self.operand(OP, 0, "operand", operand)?;
        // The attribute of a complex number is of a dialect that plugins do not load.
        ensure(OP, !element.is_complex(), || {
            format!("the value must be real, got {element}: make a complex number of two")
        })?;
        let bytes = value.into().to_bytes(element).map_err(|e| Error::new(OP, e))?;
        let props = Props::new().raw("value", literal::number(element, &bytes));
        self.emit(OP, &[operand], &props, o.with_element(element))
    }

    /// `dot_general` with one dimension of lhs cut into groups of the sizes given.
    ///
    /// Along a free dimension (`[m, k] x [g, k, n]`) each group has its own part of rhs; along a contracting one
    /// (`[m, k] x [k, n] -> [g, m, n]`) each group gives its own result; along a batching one sizes only limit the batch.
    /// `group_sizes` is an integer vector, or has such a vector for each index of the dimensions before.
    pub fn chlo_ragged_dot(
        &mut self,
        lhs: Value,
        rhs: Value,
        group_sizes: Value,
        dimensions: &RaggedDotDimensions,
        options: &DotOptions,
    ) -> Result<Value> {
        const OP: &str = "chlo.ragged_dot";
        let l = self.operand(OP, 0, "lhs", lhs)?;
        let r = self.operand(OP, 1, "rhs", rhs)?;
        let sizes = self.operand(OP, 2, "group_sizes", group_sizes)?;
        ensure(OP, options.algorithm.is_none(), || {
            "has no algorithm, only a precision".into()
        })?;
        let free = dot_dims(&l, &r, &dimensions.dot, dimensions.rhs_group)?;
        let groups = dimensions.groups(&l, &r, &sizes)?;
        let mut dims = Dims::new();
        if dimensions.dot.lhs_contracting.contains(&dimensions.lhs_ragged) {
            dims.push(groups);
        }
        dims.extend(free);
        let element = dot_element(&l, &r, options.element)?;
        let props = Props::new()
            .raw("ragged_dot_dimension_numbers", dimensions.text())
            .raw("precision_config", precision_config("chlo", options.precision));
        let ty = self.result(&dims, element);
        self.emit(OP, &[lhs, rhs, group_sizes], &props, ty)
    }

    /// Runs `body` along a dimension: it takes a slice of each input, then the carried values, and returns a slice of
    /// each output, then the new carried values. The outputs, then the last carried values.
    ///
    /// `is_associative` allows a target to combine in another order; the v6e compiler (libtpu 0.0.52) aborts without
    /// it, the CPU plugin at API 0.115 with it when slices are scalars, and the one at 0.106 takes no scan.
    pub fn chlo_scan<F>(
        &mut self,
        inputs: &[Value],
        inits: &[Value],
        dimension: i64,
        is_reverse: bool,
        is_associative: Option<bool>,
        body: F,
    ) -> Result<Vec<Value>>
    where
        F: FnOnce(&mut Self, &[Value]) -> Result<Vec<Value>>,
    {
        const OP: &str = "chlo.scan";
        let ins = self.operands(OP, 0, "inputs", inputs)?;
        let carried = self.operands(OP, inputs.len(), "inits", inits)?;
        // Both are degenerate (a map, a counted loop), and XLA's CPU compiler aborts on them.
        ensure(OP, !ins.is_empty() && !carried.is_empty(), || {
            format!(
                "needs at least one input and one init, got {} and {}",
                ins.len(),
                carried.len()
            )
        })?;
        let mut length = Dim::Dynamic;
        let mut arguments: Vec<Type<'a>> = Vec::new();
        for x in &ins {
            let axis = x.axis("dimension", dimension)?;
            length = length.merge(x.dims[axis]).ok_or_else(|| {
                x.fault(format!(
                    "dimension {dimension} must equal that of the other inputs"
                ))
            })?;
            let slice = super::gather::without(x.dims, &[dimension], &[]);
            arguments.push(self.result(&slice, x.element).into());
        }
        let carries: Vec<Type<'a>> = carried.iter().map(|c| c.ty.into()).collect();
        arguments.extend_from_slice(&carries);
        let (region, types) = self.region(OP, true, &arguments, body)?;
        let outputs = types.len().checked_sub(carries.len()).ok_or_else(|| {
            Error::new(
                OP,
                format!(
                    "region `body` must return {} carried values, returns {}",
                    carries.len(),
                    types.len()
                ),
            )
        })?;
        crate::builder::expect_types(OP, "body", &types[outputs..], &carries)?;
        let mut results = Vec::with_capacity(types.len());
        for (i, ty) in types[..outputs].iter().enumerate() {
            let slice = ty
                .tensor()
                .filter(|t| t.quant.is_none() && dimension <= t.rank() as i64)
                .ok_or_else(|| {
                    Error::new(
                        OP,
                        format!(
                            "region `body`: result {i} must be a tensor of rank {dimension} or more, is {ty}"
                        ),
                    )
                })?;
            let mut dims = Dims::from_slice(slice.dims);
            dims.insert(dimension as usize, length);
            results.push(self.result(&dims, slice.element).into());
        }
        results.extend_from_slice(&carries);
        let mut props = Props::new()
            .i64("dimension", dimension)
            .raw("is_reverse", is_reverse)
            .raw(
                "operandSegmentSizes",
                format_args!("array<i32: {}, {}>", inputs.len(), inits.len()),
            )
            .raw(
                "resultSegmentSizes",
                format_args!("array<i32: {outputs}, {}>", carries.len()),
            );
        if let Some(associative) = is_associative {
            props = props.raw("is_associative", associative);
        }
        let all = [inputs, inits].concat();
        self.emit_many(OP, &all, &props, &[region], &results)
    }

    /// The k greatest along the last dimension, and their positions as `i32`.
    pub fn chlo_top_k(&mut self, operand: Value, k: i64) -> Result<(Value, Value)> {
        const OP: &str = "chlo.top_k";
        let o = self.operand(OP, 0, "operand", operand)?;
        o.kinds(Kinds::INT.or(Kinds::FLOAT))?;
        let last = *o.dims.last().ok_or_else(|| o.fault("must not be a scalar"))?;
        o.require(k >= 0 && last.limit().is_none_or(|n| k <= n), || {
            format!("k = {k} must be at least 0 and at most the last dimension")
        })?;
        let mut dims = Dims::from_slice(o.dims);
        if let Some(d) = dims.last_mut() {
            *d = Dim::Static(k);
        }
        let values = self.result(&dims, o.element);
        let indices = values.with_element(ElementType::S32);
        // XLA's CPU plugins read `largest = false` and give the greatest all the same, so it is not offered.
        let props = Props::new().i64("k", k);
        let r = self.emit_many(OP, &[operand], &props, &[], &[values.into(), indices.into()])?;
        Ok((r[0], r[1]))
    }
}
