//! Ops on their way out of StableHLO that plugins still accept: dot, broadcast, torch_index_select, cross-replica-sum.

use super::dot::{Precision, dot_element, precision_config};
use super::{DotDimensions, ReplicaGroups};
use crate::attribute::Props;
use crate::check::{Kinds, ensure};
use crate::{Dim, Dims, ElementType, FunctionBuilder, Result, Value};

impl FunctionBuilder<'_> {
    /// The product of two matrices or vectors. Deprecated: `dot_general` takes any rank.
    pub fn dot(
        &mut self,
        lhs: Value,
        rhs: Value,
        precision: [Precision; 2],
        element: Option<ElementType>,
    ) -> Result<Value> {
        const OP: &str = "stablehlo.dot";
        let l = self.operand(OP, 0, "lhs", lhs)?;
        let r = self.operand(OP, 1, "rhs", rhs)?;
        for o in [&l, &r] {
            o.require(matches!(o.rank(), 1 | 2), || "must have rank 1 or 2".into())?;
        }
        let d = DotDimensions {
            lhs_contracting: vec![l.rank() as i64 - 1],
            rhs_contracting: vec![0],
            ..DotDimensions::default()
        };
        let dims = super::dot::dot_dims(&l, &r, &d, None)?;
        let ty = self.result(&dims, dot_element(&l, &r, element)?);
        let props = Props::new().raw("precision_config", precision_config("stablehlo", precision));
        self.emit(OP, &[lhs, rhs], &props, ty)
    }

    /// Adds dimensions of these sizes before the operand's own. Deprecated: `broadcast_in_dim` puts them anywhere.
    pub fn broadcast(&mut self, operand: Value, broadcast_sizes: &[i64]) -> Result<Value> {
        const OP: &str = "stablehlo.broadcast";
        let o = self.operand(OP, 0, "operand", operand)?;
        ensure(OP, broadcast_sizes.iter().all(|&n| n >= 0), || {
            format!("broadcast_sizes = {broadcast_sizes:?} must not be negative")
        })?;
        let mut dims: Dims = broadcast_sizes.iter().map(|&n| Dim::Static(n)).collect();
        dims.extend_from_slice(o.dims);
        let ty = self.result(&dims, o.element);
        self.emit(
            OP,
            &[operand],
            &Props::new().i64s("broadcast_sizes", broadcast_sizes),
            ty,
        )
    }

    /// Takes the entries of `index` along dimension `dim`, the first `batch_dims` dimensions going along. Deprecated: `gather`.
    pub fn torch_index_select(
        &mut self,
        operand: Value,
        index: Value,
        dim: i64,
        batch_dims: i64,
    ) -> Result<Value> {
        const OP: &str = "stablehlo.torch_index_select";
        let o = self.operand(OP, 0, "operand", operand)?;
        let i = self.operand(OP, 1, "index", index)?;
        i.kinds(Kinds::INT)?;
        let axis = o.axis("dim", dim)?;
        let batch = usize::try_from(batch_dims).ok().filter(|&n| n <= axis);
        let batch = batch.ok_or_else(|| {
            o.fault(format!(
                "batch_dims = {batch_dims} must be at least 0 and at most dim = {dim}"
            ))
        })?;
        i.require(batch <= i.rank(), || {
            format!("must have at least batch_dims = {batch_dims} dimensions")
        })?;
        let mut dims = Dims::from_slice(&o.dims[..axis]);
        for (n, d) in dims.iter_mut().enumerate().take(batch) {
            *d = d.merge(i.dims[n]).ok_or_else(|| {
                i.fault(format!(
                    "dimension {n} must equal that of operand 0 `operand` ({})",
                    o.ty
                ))
            })?;
        }
        dims.extend_from_slice(&i.dims[batch..]);
        dims.extend_from_slice(&o.dims[axis + 1..]);
        let ty = self.result(&dims, o.element);
        let props = Props::new().i64("dim", dim).i64("batch_dims", batch_dims);
        self.emit(OP, &[operand, index], &props, ty)
    }

    /// The sum over the replicas of each group. Deprecated: `all_reduce` takes any computation.
    pub fn cross_replica_sum(&mut self, operand: Value, groups: &ReplicaGroups) -> Result<Value> {
        const OP: &str = "stablehlo.cross-replica-sum";
        let o = self.operand(OP, 0, "operand", operand)?;
        ensure(
            OP,
            groups.channel.is_none() && !groups.use_global_device_ids,
            || "has neither channel nor global device ids: it sums over replicas".into(),
        )?;
        groups.check(OP, false)?;
        self.emit(OP, &[operand], &groups.props(Props::new(), false), o.ty)
    }
}
