//! reduce and map.

use crate::attribute::Props;
use crate::builder::Region;
use crate::check::{Operand, ensure};
use crate::{ElementType, Error, FunctionBuilder, Result, TensorType, Type, Value};

impl<'a> FunctionBuilder<'a> {
    /// Checks inputs of one shape with a scalar initial value each.
    pub(crate) fn reduction(
        &self,
        op: &'static str,
        inputs: &[Value],
        init_values: &[Value],
    ) -> Result<(Operand<'a>, Vec<TensorType<'a>>)> {
        let (first, ins) = self.alike(op, "inputs", inputs)?;
        let inits = self.operands(op, inputs.len(), "init_values", init_values)?;
        ensure(op, ins.len() == inits.len(), || {
            format!(
                "{} inputs need as many initial values, got {}",
                ins.len(),
                inits.len()
            )
        })?;
        for (x, init) in ins.iter().zip(&inits) {
            init.ranked(0)?;
            init.same_element(x)?;
        }
        Ok((first, inits.iter().map(|i| i.ty).collect()))
    }

    /// A region that combines scalars of these types: it takes them, then as many again, and returns them.
    pub(crate) fn combiner<F>(
        &mut self,
        op: &'static str,
        region_name: &str,
        scalars: &[TensorType<'a>],
        body: F,
    ) -> Result<Region<'a>>
    where
        F: FnOnce(&mut Self, &[Value]) -> Result<Vec<Value>>,
    {
        let results: Vec<Type<'a>> = scalars.iter().map(|s| (*s).into()).collect();
        let arguments = [&*results, &results].concat();
        self.typed_region(op, region_name, true, &arguments, &results, body)
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
        let (first, scalars) = self.reduction(OP, inputs, init_values)?;
        first.axes("dimensions", dimensions)?;
        let region = self.combiner(OP, "body", &scalars, body)?;
        let dims = super::gather::without(first.dims, dimensions, &[]);
        let results: Vec<Type<'a>> = scalars
            .iter()
            .map(|s| self.result(&dims, s.element).into())
            .collect();
        let all = [inputs, init_values].concat();
        self.emit_many(
            OP,
            &all,
            &Props::new().i64s("dimensions", dimensions),
            &[region],
            &results,
        )
    }

    /// `reduce` in wider types, one an input: inputs and initial values are converted first.
    pub fn reduce_as<F>(
        &mut self,
        inputs: &[Value],
        init_values: &[Value],
        accumulators: &[ElementType],
        dimensions: &[i64],
        body: F,
    ) -> Result<Vec<Value>>
    where
        F: FnOnce(&mut Self, &[Value]) -> Result<Vec<Value>>,
    {
        const OP: &str = "stablehlo.reduce";
        self.reduction(OP, inputs, init_values)?;
        let wide = self.widened(OP, 0, "inputs", inputs, accumulators)?;
        let inits = self.widened(OP, inputs.len(), "init_values", init_values, accumulators)?;
        self.reduce(&wide, &inits, dimensions, body)
    }

    /// Applies `computation` to the inputs' elements as scalars.
    pub fn map<F>(&mut self, inputs: &[Value], computation: F) -> Result<Value>
    where
        F: FnOnce(&mut Self, &[Value]) -> Result<Vec<Value>>,
    {
        const OP: &str = "stablehlo.map";
        let (first, ins) = self.alike(OP, "inputs", inputs)?;
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
