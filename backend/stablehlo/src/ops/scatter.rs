//! scatter.

use super::gather::{ascending, check_indices, interleave, without};
use crate::attribute::{List, Props};
use crate::check::ensure;
use crate::{ElementType, FunctionBuilder, Result, Type, Value};

/// The dimension numbers of `scatter`.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct ScatterDimensions {
    /// Dimensions of the updates that run over a window.
    pub update_window_dims: Vec<i64>,
    /// Dimensions of the input that a window lacks; its size there is 1.
    pub inserted_window_dims: Vec<i64>,
    /// Dimensions of the input that go along with `scatter_indices_batching_dims`.
    pub input_batching_dims: Vec<i64>,
    /// Dimensions of the indices that go along with `input_batching_dims`.
    pub scatter_indices_batching_dims: Vec<i64>,
    /// Which dimension of the input each number of an index vector is for.
    pub scatter_dims_to_operand_dims: Vec<i64>,
    /// The dimension of the indices that holds an index vector; their rank when each index is one number.
    pub index_vector_dim: i64,
}

impl ScatterDimensions {
    fn text(&self) -> String {
        format!(
            "#stablehlo.scatter<update_window_dims = {}, inserted_window_dims = {}, input_batching_dims = {}, \
             scatter_indices_batching_dims = {}, scatter_dims_to_operand_dims = {}, index_vector_dim = {}>",
            List(&self.update_window_dims),
            List(&self.inserted_window_dims),
            List(&self.input_batching_dims),
            List(&self.scatter_indices_batching_dims),
            List(&self.scatter_dims_to_operand_dims),
            self.index_vector_dim
        )
    }
}

impl<'a> FunctionBuilder<'a> {
    /// The inputs with windows at `scatter_indices` combined with `updates` by `update`, which takes the present
    /// elements, then the updates, as scalars. Windows that do not fit are dropped.
    #[expect(clippy::too_many_arguments, reason = "the op's own operands and attributes")]
    pub fn scatter<F>(
        &mut self,
        inputs: &[Value],
        scatter_indices: Value,
        updates: &[Value],
        dimensions: &ScatterDimensions,
        indices_are_sorted: bool,
        unique_indices: bool,
        update: F,
    ) -> Result<Vec<Value>>
    where
        F: FnOnce(&mut Self, &[Value]) -> Result<Vec<Value>>,
    {
        const OP: &str = "stablehlo.scatter";
        let (first, ins) = self.alike(OP, "inputs", inputs)?;
        let indices = self.operand(OP, inputs.len(), "scatter_indices", scatter_indices)?;
        let ups = self.operands(OP, inputs.len() + 1, "updates", updates)?;
        ensure(OP, ins.len() == ups.len(), || {
            format!("{} inputs need as many updates, got {}", ins.len(), ups.len())
        })?;
        let d = dimensions;
        let batch = check_indices(
            &first,
            &indices,
            ("scatter_dims_to_operand_dims", &d.scatter_dims_to_operand_dims),
            d.index_vector_dim,
            [
                ("input_batching_dims", &d.input_batching_dims),
                ("scatter_indices_batching_dims", &d.scatter_indices_batching_dims),
            ],
        )?;
        ascending(OP, "inserted_window_dims", &d.inserted_window_dims)?;
        let mut dropped = d.inserted_window_dims.clone();
        dropped.extend_from_slice(&d.input_batching_dims);
        first.axes("inserted_window_dims and input_batching_dims", &dropped)?;
        let window = without(first.dims, &dropped, &[]);
        let largest = interleave(OP, "update_window_dims", &d.update_window_dims, &window, &batch)?;
        for (x, u) in ins.iter().zip(&ups) {
            u.same_element(x)?;
            u.ranked(largest.len())?;
            if u.index > ups[0].index {
                u.merge_shape(&ups[0])?;
            }
            for (i, (have, most)) in u.dims.iter().zip(&largest).enumerate() {
                let fits = if d.update_window_dims.contains(&(i as i64)) {
                    have.limit().zip(most.limit()).is_none_or(|(h, m)| h <= m)
                } else {
                    have.merge(*most).is_some()
                };
                u.require(fits, || {
                    format!(
                        "dimension {i} must fit the indices and windows, {}",
                        self.result(&largest, x.element)
                    )
                })?;
            }
        }
        let scalars: Vec<_> = ins.iter().map(|x| self.result(&[], x.element)).collect();
        let region = self.combiner(OP, "update_computation", &scalars, update)?;
        let props = Props::new()
            .raw("scatter_dimension_numbers", d.text())
            .raw("indices_are_sorted", indices_are_sorted)
            .raw("unique_indices", unique_indices);
        let results: Vec<Type<'a>> = ins.iter().map(|x| x.ty.into()).collect();
        let mut all = inputs.to_vec();
        all.push(scatter_indices);
        all.extend_from_slice(updates);
        self.emit_many(OP, &all, &props, &[region], &results)
    }
    /// `scatter` in wider types, one an input: inputs and updates are converted first.
    #[expect(clippy::too_many_arguments, reason = "the op's own operands and attributes")]
    pub fn scatter_as<F>(
        &mut self,
        inputs: &[Value],
        scatter_indices: Value,
        updates: &[Value],
        accumulators: &[ElementType],
        dimensions: &ScatterDimensions,
        indices_are_sorted: bool,
        unique_indices: bool,
        update: F,
    ) -> Result<Vec<Value>>
    where
        F: FnOnce(&mut Self, &[Value]) -> Result<Vec<Value>>,
    {
        const OP: &str = "stablehlo.scatter";
        let wide = self.widened(OP, 0, "inputs", inputs, accumulators)?;
        let updates = self.widened(OP, inputs.len() + 1, "updates", updates, accumulators)?;
        self.scatter(
            &wide,
            scatter_indices,
            &updates,
            dimensions,
            indices_are_sorted,
            unique_indices,
            update,
        )
    }
}
