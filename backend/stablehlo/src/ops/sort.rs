//! sort.

use crate::attribute::Props;
use crate::{ElementType, FunctionBuilder, Result, Type, Value};

impl<'a> FunctionBuilder<'a> {
    /// Sorts the inputs together along a dimension. The comparator takes two elements of the first input, two of
    /// the second, and so on, as scalars, and says whether the first of each pair goes before the second.
    pub fn sort<F>(
        &mut self,
        inputs: &[Value],
        dimension: i64,
        is_stable: bool,
        comparator: F,
    ) -> Result<Vec<Value>>
    where
        F: FnOnce(&mut Self, &[Value]) -> Result<Vec<Value>>,
    {
        const OP: &str = "stablehlo.sort";
        let (first, ins) = self.alike(OP, "inputs", inputs)?;
        // The specification counts a negative dimension from the end; here as everywhere it is refused.
        first.axis("dimension", dimension)?;
        let arguments: Vec<Type<'a>> = ins
            .iter()
            .flat_map(|x| [self.result(&[], x.element).into(); 2])
            .collect();
        let pred: Type<'a> = self.result(&[], ElementType::Pred).into();
        let region = self.typed_region(OP, "comparator", true, &arguments, &[pred], comparator)?;
        let props = Props::new()
            .i64("dimension", dimension)
            .raw("is_stable", is_stable);
        let results: Vec<Type<'a>> = ins.iter().map(|x| x.ty.into()).collect();
        self.emit_many(OP, inputs, &props, &[region], &results)
    }
}
