//! Loops over all elements of a tensor until none is pending.

use dtype::ElementType;
use stablehlo::ops::Direction;
use stablehlo::{FunctionBuilder, Value};

use crate::{Cx, Result};

/// Whether any of some truth values holds.
pub(crate) fn any(f: &mut FunctionBuilder<'_>, v: Value) -> stablehlo::Result<Value> {
    let axes: Vec<i64> = (0..f.tensor_ty(v)?.dims.len() as i64).collect();
    if axes.is_empty() {
        return Ok(v);
    }
    let no = f.full(&[0i64; 0], ElementType::Pred, false)?;
    Ok(f.reduce(&[v], &[no], &axes, |f, e| Ok(vec![f.or(e[0], e[1])?]))?[0])
}

impl<'a> Cx<'_, 'a> {
    /// Steps until nothing is pending, or `most` were taken. `step` takes and gives the state, whose item 0 tells which
    /// elements are pending; the last state is returned.
    pub(crate) fn while_any(
        &mut self,
        most: i64,
        state: &[Value],
        step: impl FnOnce(&mut FunctionBuilder<'a>, &[Value]) -> stablehlo::Result<Vec<Value>>,
    ) -> Result<Vec<Value>> {
        let [count, one, most] = [0, 1, most].map(|n| self.full(&[], ElementType::S32, n));
        let (count, one, most) = (count?, one?, most?);
        let mut done = self.f.while_(
            &[&[count], state].concat(),
            |f, v| {
                let any = any(f, v[1])?;
                let few = f.compare(v[0], most, Direction::Lt)?;
                Ok(vec![f.and(any, few)?])
            },
            |f, v| {
                let mut next = step(f, &v[1..])?;
                next.insert(0, f.add(v[0], one)?);
                Ok(next)
            },
        )?;
        Ok(done.split_off(1))
    }
}
