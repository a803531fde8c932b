//! reduce and map.

use crate::attribute::Props;
use crate::check::{Operand, ensure};
use crate::{Error, FunctionBuilder, Result, Type, Value};

impl<'a> FunctionBuilder<'a> {
    /// Checks inputs of one shape with a scalar initial value each.
    pub(crate) fn reduction(
        &self,
        op: &'static str,
        inputs: &[Value],
        init_values: &[Value],
    ) -> Result<(Vec<Operand<'a>>, Vec<Type<'a>>)> {
        let ins = self.operands(op, 0, "inputs", inputs)?;
        let inits = self.operands(op, inputs.len(), "init_values", init_values)?;
        ensure(op, !ins.is_empty(), || "needs at least one input".into())?;
        ensure(op, ins.len() == inits.len(), || {
            format!(
                "{} inputs need as many initial values, got {}",
                ins.len(),
                inits.len()
            )
        })?;
        for (x, init) in ins.iter().zip(&inits) {
            if x.index > 0 {
                x.merge_shape(&ins[0])?;
            }
            init.ranked(0)?;
            init.same_element(x)?;
        }
        let scalars = inits.iter().map(|i| i.ty.into()).collect();
        Ok((ins, scalars))
    }

    /// Combines elements along `dimensions` by `body`, which takes the accumulators, then the elements, as scalars.
    ///
    /// ```
    /// # use stablehlo::{Arena, ElementType::F32, Module, TensorType};
    /// # let arena = Arena::new();
    /// # let mut m = Module::new(&arena, "m");
    /// let x = TensorType::new(&arena, &[2, 3], F32)?;
    /// m.function("main", &[x.into()], |f, a| {
    ///     let zero = f.scalar(0f32)?;
    ///     let sum = f.reduce(&[a[0]], &[zero], &[1], |f, e| Ok(vec![f.add(e[0], e[1])?]))?;
    ///     assert_eq!(f.ty(sum[0])?.to_string(), "tensor<2xf32>");
    ///     Ok(sum)
    /// })?;
    /// # Ok::<(), stablehlo::Error>(())
    /// ```
    pub fn reduce<F>(
        &mut self,
        inputs: &[Value],
        init_values: &[Value],
        dimensions: &[i64],
        body: F,
    ) -> Result<Vec<Value>>
    where
        F: FnOnce(&mut Self, &[Value]) -> Result<Vec<Value>>,
    {
        const OP: &str = "stablehlo.reduce";
        let (ins, scalars) = self.reduction(OP, inputs, init_values)?;
        ins[0].axes("dimensions", dimensions)?;
        let arguments: Vec<Type<'a>> = scalars.iter().chain(&scalars).copied().collect();
        let region = self.typed_region(OP, "body", true, &arguments, &scalars, body)?;
        let dims = super::gather::without(ins[0].dims, dimensions, &[]);
        let results: Vec<Type<'a>> = ins.iter().map(|x| self.result(&dims, x.element).into()).collect();
        let all = [inputs, init_values].concat();
        self.emit_many(
            OP,
            &all,
            &Props::new().i64s("dimensions", dimensions),
            &[region],
            &results,
        )
    }

    /// Applies `computation` to the inputs' elements as scalars.
    pub fn map<F>(&mut self, inputs: &[Value], computation: F) -> Result<Value>
    where
        F: FnOnce(&mut Self, &[Value]) -> Result<Vec<Value>>,
    {
        const OP: &str = "stablehlo.map";
        let ins = self.operands(OP, 0, "inputs", inputs)?;
        let first = *ins
            .first()
            .ok_or_else(|| Error::new(OP, "needs at least one input"))?;
        for x in &ins[1..] {
            x.merge_shape(&first)?;
        }
        let scalars: Vec<Type<'a>> = ins.iter().map(|x| self.result(&[], x.element).into()).collect();
        let (region, types) = self.region(OP, true, &scalars, computation)?;
        let element = match types.as_slice() {
            [Type::Tensor(t)] if t.rank() == 0 && t.quant.is_none() => t.element,
            _ => return Err(Error::new(OP, "region `computation` must return one scalar")),
        };
        let dimensions: Vec<i64> = (0..first.rank() as i64).collect();
        let results = self.emit_many(
            OP,
            inputs,
            &Props::new().i64s("dimensions", &dimensions),
            &[region],
            &[first.with_element(element).into()],
        )?;
        Ok(results[0])
    }
}
