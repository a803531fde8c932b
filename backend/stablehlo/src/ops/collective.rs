//! Ops between devices, and the ids of this one.

use crate::attribute::{Matrix, Props};
use crate::check::{Operand, ensure, merge_dims};
use crate::{Dim, Dims, ElementType, Error, FunctionBuilder, Result, Type, Value};

/// A channel: which ops of different programs or partitions belong together.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub struct Channel {
    /// Its number.
    pub handle: i64,
    /// 1 device to device, 2 device to host, 3 host to device.
    pub kind: i64,
}

impl Channel {
    /// Between devices.
    pub const fn device(handle: i64) -> Self {
        Self { handle, kind: 1 }
    }

    /// To the host, for `send`.
    pub const fn device_to_host(handle: i64) -> Self {
        Self { handle, kind: 2 }
    }

    /// From the host, for `recv`.
    pub const fn host_to_device(handle: i64) -> Self {
        Self { handle, kind: 3 }
    }

    pub(crate) fn text(self) -> String {
        format!(
            "#stablehlo.channel_handle<handle = {}, type = {}>",
            self.handle, self.kind
        )
    }
}

/// Which devices work together.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ReplicaGroups {
    /// The ids of each group; all devices as one group when empty.
    pub groups: Vec<Vec<i64>>,
    /// Needed between partitions.
    pub channel: Option<Channel>,
    /// The ids count replicas and partitions together; needs a channel.
    pub use_global_device_ids: bool,
    /// Partitions that join each group when there is a channel and the ids are of replicas.
    pub partitions: i64,
}

impl ReplicaGroups {
    /// Groups of replicas.
    pub fn replicas(groups: &[&[i64]]) -> Self {
        Self {
            groups: groups.iter().map(|g| g.to_vec()).collect(),
            channel: None,
            use_global_device_ids: false,
            partitions: 1,
        }
    }

    /// Groups of devices by global id, as partitioned programs use them.
    pub fn devices(groups: &[&[i64]], channel: i64) -> Self {
        Self {
            channel: Some(Channel::device(channel)),
            use_global_device_ids: true,
            ..Self::replicas(groups)
        }
    }

    /// Checks the ids; the size of a group.
    pub(crate) fn check(&self, op: &str, uniform: bool) -> Result<Option<i64>> {
        let mut ids: Vec<i64> = self.groups.iter().flatten().copied().collect();
        ids.sort_unstable();
        ensure(op, ids.iter().copied().eq(0..ids.len() as i64), || {
            format!(
                "replica_groups {:?} must hold each id from 0 up, once",
                self.groups
            )
        })?;
        ensure(op, self.groups.iter().all(|g| !g.is_empty()), || {
            format!("replica_groups {:?} must not hold an empty group", self.groups)
        })?;
        let size = self.groups.first().map(Vec::len);
        let even = self.groups.iter().all(|g| Some(g.len()) == size);
        ensure(op, even || !uniform, || {
            format!("replica_groups {:?} must have the same size", self.groups)
        })?;
        if self.use_global_device_ids {
            ensure(op, self.channel.is_some_and(|c| c.handle > 0), || {
                "use_global_device_ids needs a channel with a positive handle".into()
            })?;
            ensure(op, !self.groups.is_empty(), || {
                "use_global_device_ids needs replica_groups".into()
            })?;
        }
        ensure(op, self.partitions > 0, || {
            format!("partitions = {} must be positive", self.partitions)
        })?;
        let joined = if self.channel.is_some() && !self.use_global_device_ids {
            self.partitions
        } else {
            1
        };
        Ok(size
            .and_then(|n| i64::try_from(n).ok())
            .and_then(|n| n.checked_mul(joined)))
    }

    pub(crate) fn props(&self, props: Props, global: bool) -> Props {
        let width = self.groups.iter().map(Vec::len).max().unwrap_or(0);
        let mut props = props.raw("replica_groups", Matrix(&self.groups, width));
        if let Some(channel) = self.channel {
            props = props.raw("channel_handle", channel.text());
        }
        props.unit("use_global_device_ids", global && self.use_global_device_ids)
    }
}

fn known(op: &str, size: Option<i64>) -> Result<i64> {
    size.ok_or_else(|| {
        Error::new(
            op,
            "needs explicit replica_groups, as the result's shape depends on them",
        )
    })
}

/// Multiplies a dimension; `None` when it does not fit.
fn grow(dim: Dim, by: i64) -> Option<Dim> {
    dim.try_map(|n| i64::try_from(n * i128::from(by)).ok())
}

/// Divides a dimension by a count that must divide it.
fn split(o: &Operand<'_>, axis: usize, count: i64) -> Result<Dim> {
    let even = o.dims[axis].size().is_none_or(|n| n % count == 0);
    o.require(even, || {
        format!("dimension {axis} must be a multiple of {count}, the devices of a group")
    })?;
    o.dims[axis]
        .try_map(|n| i64::try_from(n / i128::from(count)).ok())
        .ok_or_else(|| o.fault("the size does not fit"))
}

impl<'a> FunctionBuilder<'a> {
    /// Joins the operands of a group's devices along a dimension.
    pub fn all_gather(
        &mut self,
        operands: &[Value],
        all_gather_dim: i64,
        groups: &ReplicaGroups,
    ) -> Result<Vec<Value>> {
        const OP: &str = "stablehlo.all_gather";
        let size = known(OP, groups.check(OP, true)?)?;
        let mut results: Vec<Type<'a>> = Vec::new();
        for o in self.operands(OP, 0, "operands", operands)? {
            let axis = o.axis("all_gather_dim", all_gather_dim)?;
            let mut dims = Dims::from_slice(o.dims);
            dims[axis] =
                grow(dims[axis], size).ok_or_else(|| o.fault("the gathered size does not fit in 63 bits"))?;
            results.push(self.result(&dims, o.element).into());
        }
        ensure(OP, !results.is_empty(), || "needs at least one operand".into())?;
        let props = groups.props(Props::new().i64("all_gather_dim", all_gather_dim), true);
        self.emit_many(OP, operands, &props, &[], &results)
    }

    /// Combines the operands of a group's devices elementwise by `computation`.
    pub fn all_reduce<F>(
        &mut self,
        operands: &[Value],
        groups: &ReplicaGroups,
        computation: F,
    ) -> Result<Vec<Value>>
    where
        F: FnOnce(&mut Self, &[Value]) -> Result<Vec<Value>>,
    {
        self.all_reduced("stablehlo.all_reduce", operands, None, groups, computation)
    }

    /// `all_reduce` in a wider type: the operands are converted first.
    pub fn all_reduce_as<F>(
        &mut self,
        operands: &[Value],
        accumulator: ElementType,
        groups: &ReplicaGroups,
        computation: F,
    ) -> Result<Vec<Value>>
    where
        F: FnOnce(&mut Self, &[Value]) -> Result<Vec<Value>>,
    {
        let wider = vec![accumulator; operands.len()];
        let wide = self.widened("stablehlo.all_reduce", 0, "operands", operands, &wider)?;
        self.all_reduce(&wide, groups, computation)
    }

    /// Combines as `all_reduce`, for one device of each group: the first, or the one that `root` names by its position
    /// in the group, an `i32` vector with an entry for each operand. On the others results are undefined.
    ///
    /// No plugin up to API 0.117 compiles this op; those before 0.115 do not know it.
    pub fn collective_reduce<F>(
        &mut self,
        operands: &[Value],
        root: Option<Value>,
        groups: &ReplicaGroups,
        computation: F,
    ) -> Result<Vec<Value>>
    where
        F: FnOnce(&mut Self, &[Value]) -> Result<Vec<Value>>,
    {
        const OP: &str = "stablehlo.collective_reduce";
        ensure(OP, !groups.use_global_device_ids, || {
            "has no use_global_device_ids".into()
        })?;
        if let Some(root) = root {
            let r = self.operand(OP, operands.len(), "root", root)?;
            let want = [Dim::Static(operands.len() as i64)];
            let fits = r.element == ElementType::S32 && merge_dims(r.dims, &want).is_some();
            r.require(fits, || {
                format!(
                    "must be tensor<{}xi32>, an entry for each operand",
                    operands.len()
                )
            })?;
        }
        self.all_reduced(OP, operands, root, groups, computation)
    }

    fn all_reduced<F>(
        &mut self,
        op: &'static str,
        operands: &[Value],
        root: Option<Value>,
        groups: &ReplicaGroups,
        computation: F,
    ) -> Result<Vec<Value>>
    where
        F: FnOnce(&mut Self, &[Value]) -> Result<Vec<Value>>,
    {
        groups.check(op, false)?;
        let ins = self.operands(op, 0, "operands", operands)?;
        let first = *ins
            .first()
            .ok_or_else(|| Error::new(op, "needs at least one operand"))?;
        for o in &ins[1..] {
            o.same_element(&first)?;
        }
        let scalar = self.result(&[], first.element);
        let region = self.combiner(op, "computation", &[scalar], computation)?;
        let results: Vec<Type<'a>> = ins.iter().map(|o| o.ty.into()).collect();
        let props = groups
            .props(Props::new(), true)
            .unit("has_dynamic_root", root.is_some());
        let mut all = operands.to_vec();
        all.extend(root);
        self.emit_many(op, &all, &props, &[region], &results)
    }

    /// Combines as `all_reduce`, then leaves each device its part along a dimension.
    pub fn reduce_scatter<F>(
        &mut self,
        operand: Value,
        scatter_dimension: i64,
        groups: &ReplicaGroups,
        computation: F,
    ) -> Result<Value>
    where
        F: FnOnce(&mut Self, &[Value]) -> Result<Vec<Value>>,
    {
        const OP: &str = "stablehlo.reduce_scatter";
        let size = known(OP, groups.check(OP, true)?)?;
        let o = self.operand(OP, 0, "operand", operand)?;
        let axis = o.axis("scatter_dimension", scatter_dimension)?;
        let mut dims = Dims::from_slice(o.dims);
        dims[axis] = split(&o, axis, size)?;
        let scalar = self.result(&[], o.element);
        let region = self.combiner(OP, "computation", &[scalar], computation)?;
        let props = groups.props(Props::new().i64("scatter_dimension", scatter_dimension), true);
        let ty = self.result(&dims, o.element);
        Ok(self.emit_many(OP, &[operand], &props, &[region], &[ty.into()])?[0])
    }

    /// `reduce_scatter` in a wider type: the operand is converted first.
    pub fn reduce_scatter_as<F>(
        &mut self,
        operand: Value,
        accumulator: ElementType,
        scatter_dimension: i64,
        groups: &ReplicaGroups,
        computation: F,
    ) -> Result<Value>
    where
        F: FnOnce(&mut Self, &[Value]) -> Result<Vec<Value>>,
    {
        const OP: &str = "stablehlo.reduce_scatter";
        let wide = self.widened(OP, 0, "operand", &[operand], &[accumulator])?;
        self.reduce_scatter(wide[0], scatter_dimension, groups, computation)
    }

    /// Splits along one dimension, sends each part to its device, joins what comes along another.
    pub fn all_to_all(
        &mut self,
        operands: &[Value],
        split_dimension: i64,
        concat_dimension: i64,
        groups: &ReplicaGroups,
    ) -> Result<Vec<Value>> {
        const OP: &str = "stablehlo.all_to_all";
        ensure(OP, !groups.use_global_device_ids, || {
            "has no use_global_device_ids".into()
        })?;
        groups.check(OP, true)?;
        let count = known(
            OP,
            groups.groups.first().and_then(|g| i64::try_from(g.len()).ok()),
        )?;
        let mut results: Vec<Type<'a>> = Vec::new();
        let ins = self.operands(OP, 0, "operands", operands)?;
        for o in &ins {
            o.same_element(&ins[0])?;
            o.merge_shape(&ins[0])?;
            let from = o.axis("split_dimension", split_dimension)?;
            let to = o.axis("concat_dimension", concat_dimension)?;
            let mut dims = Dims::from_slice(o.dims);
            dims[from] = split(o, from, count)?;
            dims[to] =
                grow(dims[to], count).ok_or_else(|| o.fault("the joined size does not fit in 63 bits"))?;
            results.push(self.result(&dims, o.element).into());
        }
        ensure(OP, !results.is_empty(), || "needs at least one operand".into())?;
        let props = Props::new()
            .i64("split_dimension", split_dimension)
            .i64("concat_dimension", concat_dimension)
            .i64("split_count", count);
        self.emit_many(OP, operands, &groups.props(props, false), &[], &results)
    }

    /// Sends the operand along (source, target) pairs; a device nobody sends to gets zeros.
    pub fn collective_permute(
        &mut self,
        operand: Value,
        source_target_pairs: &[[i64; 2]],
        channel: Option<Channel>,
    ) -> Result<Value> {
        const OP: &str = "stablehlo.collective_permute";
        let o = self.operand(OP, 0, "operand", operand)?;
        for (side, name) in ["sources", "targets"].iter().enumerate() {
            let mut ids: Vec<i64> = source_target_pairs.iter().map(|p| p[side]).collect();
            ids.sort_unstable();
            let distinct = ids.windows(2).all(|w| w[0] < w[1]) && ids.first().is_none_or(|&n| n >= 0);
            ensure(OP, distinct, || {
                format!(
                    "source_target_pairs {source_target_pairs:?}: {name} must be distinct and not negative"
                )
            })?;
        }
        let mut props = Props::new().raw("source_target_pairs", Matrix(source_target_pairs, 2));
        if let Some(channel) = channel {
            props = props.raw("channel_handle", channel.text());
        }
        self.emit(OP, &[operand], &props, o.ty)
    }

    /// Sends the operand of the first device of each group to the others.
    pub fn collective_broadcast(&mut self, operand: Value, groups: &ReplicaGroups) -> Result<Value> {
        const OP: &str = "stablehlo.collective_broadcast";
        ensure(OP, !groups.use_global_device_ids, || {
            "has no use_global_device_ids".into()
        })?;
        groups.check(OP, false)?;
        let o = self.operand(OP, 0, "operand", operand)?;
        self.emit(OP, &[operand], &groups.props(Props::new(), false), o.ty)
    }

    /// The number of this partition.
    pub fn partition_id(&mut self) -> Result<Value> {
        let ty = self.result(&[], ElementType::U32);
        self.emit("stablehlo.partition_id", &[], &Props::new(), ty)
    }

    /// The number of this replica.
    pub fn replica_id(&mut self) -> Result<Value> {
        let ty = self.result(&[], ElementType::U32);
        self.emit("stablehlo.replica_id", &[], &Props::new(), ty)
    }
}
