//! A loop of a window as `stablehlo.while`: the calls are lowered once, in its body.

use std::cell::RefCell;

use aten::{Dims, Value};
use dtype::ElementType;
use smallvec::SmallVec;
use stablehlo::FunctionBuilder;
use stablehlo::ops::Direction;

use super::{Param, State, Window};
use crate::region::Loop;
use crate::{Error, Result};

/// The count of turns; a TPU counts in 32 bits.
const COUNT: ElementType = ElementType::S32;

impl Window<'_, '_, '_> {
    /// A node's random state; in a loop each turn's own, one after the other as the calls of a plain loop draw them.
    pub(super) fn random(&mut self, n: usize) -> Result<Value> {
        let drawn = self.nodes[n].replays.unwrap_or(n as u32);
        let state = self.param(Param::Random(drawn))?;
        let Some((turn, blocks)) = self.turn else {
            return Ok(state);
        };
        let f = &mut *self.f;
        let turn = f.convert(turn, ElementType::U64)?;
        let blocks = f.full(&[0i64; 0], ElementType::U64, blocks as i64)?;
        let further = f.multiply(turn, blocks)?;
        let further = f.reshape(further, &[1])?;
        let zero = f.full(&[1], ElementType::U64, 0)?;
        let further = f.concatenate(&[zero, further, zero], 0)?;
        Ok(f.add(state, further)?)
    }

    /// Lowers a loop's calls.
    pub(super) fn repeat(&mut self, l: &Loop) -> Result<()> {
        let length = i64::from(l.length);
        let mut operands = vec![self.f.full(&[0i64; 0], COUNT, 0)?];
        for carry in &l.carries {
            operands.push(self.whole(carry.init, &carry.ty)?);
        }
        for put in &l.put {
            let (element, dims) = stacked(length, &put.ty);
            operands.push(self.f.full(dims.as_slice(), element, 0)?);
        }
        let mut stacks = Vec::with_capacity(l.taken.len());
        for taken in &l.taken {
            stacks.push(self.whole(taken.stack, &stacked(length, &taken.ty))?);
        }
        // What a region learns of its values means nothing after it.
        let facts = self.state.facts.clone();
        let (slots, nodes, fixed) = (self.slots, self.nodes, self.fixed);
        let state = RefCell::new(std::mem::take(&mut self.state));
        let failed = RefCell::new(None);
        let region = |f: &mut FunctionBuilder<'_>,
                      lower: &dyn Fn(&mut Window<'_, '_, '_>) -> Result<Vec<Value>>| {
            let mut window = Window {
                f,
                slots,
                nodes,
                state: state.take(),
                fixed,
                turn: None,
            };
            let lowered = lower(&mut window);
            window.leave(l);
            state.replace(State {
                facts: facts.clone(),
                ..window.state
            });
            Ok(lowered.unwrap_or_else(|e| {
                failed.borrow_mut().get_or_insert(e);
                Vec::new()
            }))
        };
        let looped = self.f.while_(
            &operands,
            |f, carried| region(f, &|window| Ok(vec![window.goes_on(l, carried)?])),
            |f, carried| region(f, &|window| window.turn(l, carried, &stacks)),
        );
        self.state = state.into_inner();
        if let Some(e) = failed.into_inner() {
            return Err(e);
        }
        let results = looped?;
        let outs = l.carries.iter().map(|c| (c.out, c.ty.clone()));
        let outs = outs.chain(l.put.iter().map(|p| (p.stack, stacked(length, &p.ty))));
        for ((out, (element, dims)), value) in outs.zip(&results[1..]) {
            self.state.current[out as usize] = Some((*value, element, dims));
            self.state.written[out as usize] = true;
        }
        Ok(())
    }

    /// Forgets what is known in the loop only.
    fn leave(&mut self, l: &Loop) {
        for at in &l.inner {
            self.state.current[*at as usize] = None;
            self.state.written[*at as usize] = false;
        }
    }

    /// Whether there is a turn.
    fn goes_on(&mut self, l: &Loop, carried: &[Value]) -> Result<Value> {
        let Some(condition) = &l.condition else {
            let end = self.f.full(&[0i64; 0], COUNT, i64::from(l.length))?;
            return Ok(self.f.compare(carried[0], end, Direction::Lt)?);
        };
        for (carry, value) in l.carries.iter().zip(&carried[1..]) {
            self.hold(carry.at, *value, &carry.ty);
        }
        for n in l.calls.start..condition.end {
            self.node(n)?;
        }
        self.whole(condition.at, &(ElementType::Pred, Dims::new()))
    }

    /// One turn: what is carried on.
    fn turn(&mut self, l: &Loop, carried: &[Value], stacks: &[Value]) -> Result<Vec<Value>> {
        let turn = carried[0];
        let at = if l.reverse {
            let last = self.f.full(&[0i64; 0], COUNT, i64::from(l.length) - 1)?;
            self.f.subtract(last, turn)?
        } else {
            turn
        };
        self.turn = Some((at, l.blocks));
        for (carry, value) in l.carries.iter().zip(&carried[1..]) {
            self.hold(carry.at, *value, &carry.ty);
        }
        for (taken, stack) in l.taken.iter().zip(stacks) {
            let value = take(self.f, *stack, at, &taken.ty.1)?;
            self.hold(taken.at, value, &taken.ty);
        }
        let first = l.condition.as_ref().map_or(l.calls.start, |c| c.end);
        for n in first..l.calls.end {
            self.node(n)?;
        }
        let one = self.f.full(&[0i64; 0], COUNT, 1)?;
        let mut results = vec![self.f.add(turn, one)?];
        for carry in &l.carries {
            results.push(self.whole(carry.result, &carry.ty)?);
        }
        for (put, stack) in l.put.iter().zip(&carried[1 + l.carries.len()..]) {
            let value = self.whole(put.from, &put.ty)?;
            let (_, mut dims) = put.ty.clone();
            dims.insert(0, 1);
            let value = self.f.reshape(value, dims.as_slice())?;
            let starts = starts(self.f, at, dims.len())?;
            results.push(self.f.dynamic_update_slice(*stack, value, &starts)?);
        }
        self.turn = None;
        Ok(results)
    }

    fn hold(&mut self, slot: u32, value: Value, (element, dims): &(ElementType, Dims)) {
        self.state.current[slot as usize] = Some((value, *element, dims.clone()));
        self.state.written[slot as usize] = true;
    }

    /// All of a storage, as it was when the loop was recorded.
    fn whole(&mut self, slot: u32, (element, dims): &(ElementType, Dims)) -> Result<Value> {
        let (value, found, sizes) = self.base(slot as usize)?;
        let count = |dims: &Dims| dims.iter().product::<i64>();
        if found != *element || count(&sizes) != count(dims) {
            return Err(Error::runtime(format!(
                "a loop's storage holds {found:?} of {sizes:?}, not {element:?} of {dims:?} (a bug of ours)"
            )));
        }
        match sizes == *dims {
            true => Ok(value),
            false => Ok(self.f.reshape(value, dims.as_slice())?),
        }
    }
}

fn stacked(length: i64, (element, dims): &(ElementType, Dims)) -> (ElementType, Dims) {
    let mut sizes: Dims = SmallVec::from_slice(&[length]);
    sizes.extend_from_slice(dims);
    (*element, sizes)
}

fn starts(f: &mut FunctionBuilder<'_>, at: Value, rank: usize) -> Result<Vec<Value>> {
    let zero = f.full(&[0i64; 0], COUNT, 0)?;
    let mut starts = vec![zero; rank];
    starts[0] = at;
    Ok(starts)
}

/// One of a stack.
fn take(f: &mut FunctionBuilder<'_>, stack: Value, at: Value, dims: &Dims) -> Result<Value> {
    let mut sizes: Dims = SmallVec::from_slice(&[1]);
    sizes.extend_from_slice(dims);
    let starts = starts(f, at, sizes.len())?;
    let one = f.dynamic_slice(stack, &starts, &sizes)?;
    Ok(f.reshape(one, dims.as_slice())?)
}
