//! async_start and async_done: an op that runs while others do.

use crate::attribute::Props;
use crate::check::ensure;
use crate::{Error, FunctionBuilder, Result, Type, Value};

const START: &str = "stablehlo.async_start";
const DONE: &str = "stablehlo.async_done";

/// What may run asynchronously. XLA (to API 0.117) compiles the collectives of one operand only.
const STARTED: [&str; 10] = [
    "stablehlo.all_gather",
    "stablehlo.all_reduce",
    "stablehlo.all_to_all",
    "stablehlo.collective_broadcast",
    "stablehlo.collective_permute",
    "stablehlo.collective_reduce",
    "stablehlo.dynamic_slice",
    "stablehlo.dynamic_update_slice",
    "stablehlo.reduce_scatter",
    "stablehlo.slice",
];

impl FunctionBuilder<'_> {
    /// Starts the one op of `body`, a collective or a slice, and gives a future, which goes to `async_done`, once, in
    /// the same block.
    ///
    /// ```
    /// # use stablehlo::{Arena, ElementType::F32, Module, TensorType, ops::ReplicaGroups};
    /// # let arena = Arena::new();
    /// # let mut m = Module::new(&arena, "m");
    /// let x = TensorType::new(&arena, &[4], F32)?;
    /// m.function("main", &[x.into()], |f, a| {
    ///     let gathered = f.async_start(a, |f, e| f.all_gather(e, 0, &ReplicaGroups::replicas(&[&[0, 1]])))?;
    ///     assert_eq!(f.ty(gathered)?.to_string(), "!stablehlo.future<tensor<8xf32>>");
    ///     Ok(vec![f.async_done(gathered)?])
    /// })?;
    /// # Ok::<(), stablehlo::Error>(())
    /// ```
    pub fn async_start<F>(&mut self, operands: &[Value], body: F) -> Result<Value>
    where
        F: FnOnce(&mut Self, &[Value]) -> Result<Vec<Value>>,
    {
        let operand_types = self.operands(START, 0, "operands", operands)?;
        let arguments: Vec<Type<'_>> = operand_types.iter().map(|o| o.ty.into()).collect();
        let (region, types) = self.region(START, true, &arguments, body)?;
        let one = match (region.ops, region.results) {
            ([op], [result]) => {
                STARTED.contains(&op.name) && op.result_count == 1 && result.index == op.first_result
            }
            _ => false,
        };
        ensure(START, one, || {
            "region `body` must be one collective or slice and return its one result".into()
        })?;
        let ty = types
            .first()
            .and_then(|t| t.tensor())
            .ok_or_else(|| Error::new(START, "region `body` must return a tensor"))?;
        let results = self.emit_many(START, operands, &Props::new(), &[region], &[Type::Future(ty)])?;
        self.open_futures.push(results[0].index);
        Ok(results[0])
    }

    /// Waits for what `async_start` started; its result.
    pub fn async_done(&mut self, future: Value) -> Result<Value> {
        let ty = self.value_operand(DONE, 0, "future", future)?;
        let fault = |rule: &str| Error::operand(DONE, 0, "future", ty, rule);
        let Type::Future(tensor) = ty else {
            return Err(fault("must be a future"));
        };
        // XLA aborts on a future that none or several wait for.
        let open = self.open_futures.iter().position(|&i| i == future.index);
        let open = open.ok_or_else(|| fault("an earlier async_done has waited for it"))?;
        if !self.in_current_block(future) {
            return Err(fault("must be waited for in the block that starts it"));
        }
        let value = self.emit(DONE, &[future], &Props::new(), tensor)?;
        self.open_futures.swap_remove(open);
        Ok(value)
    }
}
