//! How often a `while` runs.
//!
//! A compiler that knows says so in the loop's backend config (`known_trip_count`). libtpu often drops
//! that on the way, so a counter that starts at a constant, moves by a constant and is compared with a
//! constant is recognized from the module itself. Anything else is unknown, never guessed.

use std::collections::BTreeMap;

use pjrt_ffi::protos::xla::{HloInstructionProto, LiteralProto};

use crate::index::{Computation, Index, MAX_DEPTH};

/// Elements of a computation's parameter tuple that are known constants: what an outer loop knows of an inner one's bounds.
pub(crate) type Env = BTreeMap<i64, i64>;

/// A `while` as its surroundings define it.
pub(crate) struct Loop {
    /// `None` when not known.
    pub(crate) trips: Option<u64>,
    /// What is constant inside the body.
    pub(crate) env: Env,
}

/// An integer scalar: a constant, or an element of the loop's tuple plus a constant.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Value {
    Const(i64),
    Element { index: i64, plus: i64 },
}

impl Value {
    fn under(self, env: &Env) -> Self {
        match self {
            Self::Element { index, plus } => match env.get(&index) {
                Some(c) => Self::Const(c.wrapping_add(plus)),
                None => self,
            },
            Self::Const(_) => self,
        }
    }
}

/// A computation, and for a fused or called one the instruction that binds its parameters.
struct Frame<'f, 'a> {
    computation: &'f Computation<'a>,
    caller: Option<(&'f Frame<'f, 'a>, &'a HloInstructionProto)>,
    depth: usize,
}

impl<'f, 'a> Frame<'f, 'a> {
    fn top(computation: &'f Computation<'a>) -> Self {
        Self {
            computation,
            caller: None,
            depth: 0,
        }
    }

    fn inside(&'f self, index: &'f Index<'a>, call: &'a HloInstructionProto) -> Option<Self> {
        (self.depth < MAX_DEPTH).then_some(())?;
        Some(Self {
            computation: index.called(call, 0)?,
            caller: Some((self, call)),
            depth: self.depth + 1,
        })
    }
}

/// Opcodes that hand their first operand on unchanged.
fn forwards(opcode: &str) -> bool {
    matches!(
        opcode,
        "copy" | "bitcast" | "reshape" | "copy-start" | "copy-done" | "opt-barrier"
    )
}

fn literal(l: &LiteralProto) -> Option<i64> {
    let one = |b: &[u8]| Some(*b.first()?);
    let (wide, narrow) = (l.s64s.first().copied(), l.s32s.first().copied());
    wide.or(narrow.map(i64::from))
        .or(l.u32s.first().map(|&v| i64::from(v)))
        .or(l.u64s.first().and_then(|&v| i64::try_from(v).ok()))
        .or(one(&l.s8s).map(|v| i64::from(v as i8)))
        .or(one(&l.u8s).map(i64::from))
}

fn resolve<'a>(index: &Index<'a>, frame: &Frame<'_, 'a>, start: &'a HloInstructionProto) -> Option<Value> {
    let mut at = start;
    for _ in 0..MAX_DEPTH {
        let operand = |n| frame.computation.operand(at, n);
        match at.opcode.as_str() {
            "constant" => {
                let shape = at.shape.as_ref()?;
                return (crate::shape::elements(shape) == 1.0)
                    .then(|| literal(at.literal.as_ref()?))
                    .flatten()
                    .map(Value::Const);
            }
            "parameter" => {
                let (outer, call) = frame.caller.as_ref()?;
                let n = usize::try_from(at.parameter_number).ok()?;
                return resolve(index, outer, outer.computation.operand(call, n)?);
            }
            "get-tuple-element" => {
                let n = usize::try_from(at.tuple_index).ok()?;
                let mut tuple = operand(0)?;
                if forwards(&tuple.opcode) {
                    tuple = frame.computation.operand(tuple, 0)?;
                }
                match tuple.opcode.as_str() {
                    "tuple" => at = frame.computation.operand(tuple, n)?,
                    "parameter" if frame.caller.is_none() => {
                        return Some(Value::Element {
                            index: at.tuple_index,
                            plus: 0,
                        });
                    }
                    "fusion" | "call" => {
                        let inner = frame.inside(index, tuple)?;
                        let root = inner.computation.root()?;
                        (root.opcode == "tuple").then_some(())?;
                        return resolve(index, &inner, inner.computation.operand(root, n)?);
                    }
                    _ => return None,
                }
            }
            "fusion" | "call" => {
                let inner = frame.inside(index, at)?;
                return resolve(index, &inner, inner.computation.root()?);
            }
            op @ ("add" | "subtract") => {
                let (a, b) = (
                    resolve_deeper(index, frame, operand(0)?)?,
                    resolve_deeper(index, frame, operand(1)?)?,
                );
                return match (op, a, b) {
                    ("add", Value::Const(x), Value::Const(y)) => Some(Value::Const(x.checked_add(y)?)),
                    ("subtract", Value::Const(x), Value::Const(y)) => Some(Value::Const(x.checked_sub(y)?)),
                    ("add", Value::Element { index, plus }, Value::Const(c))
                    | ("add", Value::Const(c), Value::Element { index, plus }) => Some(Value::Element {
                        index,
                        plus: plus.checked_add(c)?,
                    }),
                    ("subtract", Value::Element { index, plus }, Value::Const(c)) => Some(Value::Element {
                        index,
                        plus: plus.checked_sub(c)?,
                    }),
                    _ => None,
                };
            }
            op if forwards(op) => at = operand(0)?,
            _ => return None,
        }
    }
    None
}

/// [`resolve`] of an operand, one level deeper: sums of sums must not overflow the stack.
fn resolve_deeper<'a>(
    index: &Index<'a>,
    frame: &Frame<'_, 'a>,
    at: &'a HloInstructionProto,
) -> Option<Value> {
    (frame.depth < MAX_DEPTH).then_some(())?;
    let deeper = Frame {
        computation: frame.computation,
        caller: frame.caller,
        depth: frame.depth + 1,
    };
    resolve(index, &deeper, at)
}

/// The comparison that decides whether a loop goes on.
fn comparison<'a>(
    index: &Index<'a>,
    frame: &Frame<'_, 'a>,
    at: &'a HloInstructionProto,
) -> Option<(String, Value, Value)> {
    match at.opcode.as_str() {
        "compare" => Some((
            at.comparison_direction.clone(),
            resolve(index, frame, frame.computation.operand(at, 0)?)?,
            resolve(index, frame, frame.computation.operand(at, 1)?)?,
        )),
        "fusion" | "call" => {
            let inner = frame.inside(index, at)?;
            comparison(index, &inner, inner.computation.root()?)
        }
        op if forwards(op) => {
            let next = frame.computation.operand(at, 0)?;
            (!forwards(&next.opcode)).then(|| comparison(index, frame, next))?
        }
        _ => None,
    }
}

/// `known_trip_count` of a loop's backend config.
fn stated(instruction: &HloInstructionProto) -> Option<u64> {
    let config: serde_json::Value = serde_json::from_slice(&instruction.backend_config).ok()?;
    let n = config.get("known_trip_count")?.get("n")?;
    n.as_u64().or_else(|| n.as_str().and_then(|s| s.parse().ok()))
}

fn count(direction: &str, init: i64, step: i64, limit: i64) -> Option<u64> {
    let (init, step, limit) = (i128::from(init), i128::from(step), i128::from(limit));
    let up = |end: i128| (end - init).max(0).div_euclid(step) + i128::from((end - init).max(0) % step != 0);
    let down = |end: i128| {
        let (distance, step) = ((init - end).max(0), -step);
        distance / step + i128::from(distance % step != 0)
    };
    let trips = match direction {
        "LT" if init >= limit => 0,
        "LE" if init > limit => 0,
        "GT" if init <= limit => 0,
        "GE" if init < limit => 0,
        "LT" if step > 0 => up(limit),
        "LE" if step > 0 => up(limit + 1),
        "GT" if step < 0 => down(limit),
        "GE" if step < 0 => down(limit - 1),
        "NE" if init == limit => 0,
        "NE" if step != 0 && (limit - init) % step == 0 && (limit - init) / step > 0 => (limit - init) / step,
        _ => return None,
    };
    u64::try_from(trips).ok()
}

/// `a < b` as `b > a`.
fn mirrored(direction: &str) -> &str {
    match direction {
        "LT" => "GT",
        "LE" => "GE",
        "GT" => "LT",
        "GE" => "LE",
        other => other,
    }
}

/// Reads a `while` of `computation`, whose own parameter tuple holds the constants `env`.
pub(crate) fn read<'a>(
    index: &Index<'a>,
    computation: &Computation<'a>,
    instruction: &'a HloInstructionProto,
    env: &Env,
) -> Loop {
    let outside = Frame::top(computation);
    let mut init = computation.operand(instruction, 0);
    while let Some(i) = init.filter(|i| i.opcode == "opt-barrier") {
        init = computation.operand(i, 0);
    }
    let mut starts = Env::new();
    if let Some(tuple) = init.filter(|i| i.opcode == "tuple") {
        for (k, _) in tuple.operand_ids.iter().enumerate() {
            let value = computation
                .operand(tuple, k)
                .and_then(|o| resolve(index, &outside, o));
            if let Some(Value::Const(c)) = value.map(|v| v.under(env)) {
                starts.insert(k as i64, c);
            }
        }
    }
    let mut steps = Env::new();
    if let Some(body) = index.called(instruction, 0) {
        let frame = Frame::top(body);
        if let Some(tuple) = body.root().filter(|r| r.opcode == "tuple") {
            for (k, _) in tuple.operand_ids.iter().enumerate() {
                let value = body.operand(tuple, k).and_then(|o| resolve(index, &frame, o));
                match value {
                    Some(Value::Element { index, plus }) if index == k as i64 => {
                        steps.insert(index, plus);
                    }
                    _ => {}
                }
            }
        }
    }
    let env: Env = starts
        .iter()
        .filter(|(k, _)| steps.get(k) == Some(&0))
        .map(|(&k, &v)| (k, v))
        .collect();
    let derived = || {
        let condition = index.called(instruction, 1)?;
        let (direction, a, b) = comparison(index, &Frame::top(condition), condition.root()?)?;
        let (direction, element, limit) = match (a.under(&env), b.under(&env)) {
            (Value::Element { index, plus }, Value::Const(c)) => (direction.as_str(), (index, plus), c),
            (Value::Const(c), Value::Element { index, plus }) => (mirrored(&direction), (index, plus), c),
            _ => return None,
        };
        let start = starts.get(&element.0)?.checked_add(element.1)?;
        count(direction, start, *steps.get(&element.0)?, limit)
    };
    Loop {
        trips: stated(instruction).or_else(derived),
        env,
    }
}

#[cfg(test)]
mod tests {
    use super::count;

    #[test]
    fn counts_iterations() {
        assert_eq!(count("LT", 0, 1, 7), Some(7));
        assert_eq!(count("LT", 0, 3, 7), Some(3));
        assert_eq!(count("LE", 0, 1, 7), Some(8));
        assert_eq!(count("GT", 7, -2, 0), Some(4));
        assert_eq!(count("GE", 7, -1, 0), Some(8));
        assert_eq!(count("NE", 0, 2, 8), Some(4));
        assert_eq!(count("LT", 9, 1, 7), Some(0));
        assert_eq!(count("NE", 5, 1, 5), Some(0));
    }

    #[test]
    fn endless_or_unclear_loops_are_unknown() {
        assert_eq!(count("LT", 0, 0, 7), None);
        assert_eq!(count("LT", 0, -1, 7), None);
        assert_eq!(count("NE", 0, 3, 7), None);
        assert_eq!(count("NE", 5, 1, 4), None);
        assert_eq!(count("EQ", 0, 1, 0), None);
    }
}
