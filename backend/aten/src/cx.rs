//! What a lowering works with: arguments by name, and the function it adds to.

use std::cell::Cell;

use dtype::{Class, ElementType};
use smallvec::SmallVec;
use stablehlo::{FunctionBuilder, Number, Value};

use crate::{Arg, Call, Dims, Error, OutMeta, Result, ScalarRef, TensorMeta, compute_type};

/// The values that stand for a call's tensors and numbers in the program, and which of them the lowering used.
#[derive(Clone, Debug, Default)]
pub struct Inputs {
    tensors: Vec<(Value, Cell<bool>)>,
    scalars: Vec<(Value, Cell<bool>)>,
    random: Option<Value>,
    facts: Facts,
}

/// A value's sum over a dimension that it keeps, known without adding anything up.
#[derive(Copy, Clone, Debug)]
pub struct KnownSum {
    /// The value.
    pub of: Value,
    /// The dimension.
    pub dim: i64,
    /// The sum, of size 1 there.
    pub sum: Value,
}

/// A softmax or its logarithm that an op gave, and what it was computed from. An op that takes these parts leaves the whole
/// for nobody to keep.
#[derive(Copy, Clone, Debug)]
pub struct KnownSoftmax {
    /// The softmax or its logarithm.
    pub of: Value,
    /// The dimension.
    pub dim: i64,
    /// Whether it is the logarithm.
    pub log: bool,
    /// What it was taken of.
    pub input: Value,
    /// Its largest element along the dimension, of size 1 there.
    pub max: Value,
    /// `exp(input - max)`.
    pub exp: Value,
    /// The sum of these along the dimension, of size 1 there.
    pub total: Value,
}

/// A gradient of the logarithm of a softmax that an op gave: `gradient - exp(input - max) * share`.
#[derive(Copy, Clone, Debug)]
pub struct KnownSoftmaxGradient {
    /// The op's result.
    pub of: Value,
    /// What the softmax was taken of.
    pub input: Value,
    /// Its largest element along the dimension, of size 1 there.
    pub max: Value,
    /// The gradient's sum along the dimension by that of the exponentials, of size 1 there.
    pub share: Value,
    /// The gradient of the op's result.
    pub gradient: Value,
}

/// What is known of a program's values, for ops that come later in it.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// Sums.
    pub sums: Vec<KnownSum>,
    /// Softmaxes.
    pub softmaxes: Vec<KnownSoftmax>,
    /// Gradients of softmaxes' logarithms.
    pub softmax_gradients: Vec<KnownSoftmaxGradient>,
    /// Values of [`Facts::softmax_gradients`], once for each use that takes one to itself.
    pub uses: Vec<Value>,
}

impl Facts {
    /// Adds what an op left.
    pub fn extend(&mut self, other: Self) {
        self.sums.extend(other.sums);
        self.softmaxes.extend(other.softmaxes);
        self.softmax_gradients.extend(other.softmax_gradients);
        self.uses.extend(other.uses);
    }
}

impl Inputs {
    /// One value for each of [`Call::tensors`] and of [`Call::scalars`]; the random state, `ui64[3]` (seed, block, 0), for
    /// an op marked [`crate::OpDef::random`].
    pub fn new(tensors: Vec<Value>, scalars: Vec<Value>, random: Option<Value>) -> Self {
        let unused = |all: Vec<Value>| all.into_iter().map(|v| (v, Cell::new(false))).collect();
        Self {
            tensors: unused(tensors),
            scalars: unused(scalars),
            random,
            facts: Facts::default(),
        }
    }

    /// With what earlier ops of the program left.
    #[must_use]
    pub fn knowing(self, facts: Facts) -> Self {
        Self { facts, ..self }
    }

    /// Gives the facts of [`Inputs::knowing`] back.
    pub fn take_facts(&mut self) -> Facts {
        std::mem::take(&mut self.facts)
    }

    fn tensor(&self, i: u32) -> Value {
        let (value, used) = &self.tensors[i as usize];
        used.set(true);
        *value
    }

    fn scalar(&self, i: u32) -> Value {
        let (value, used) = &self.scalars[i as usize];
        used.set(true);
        *value
    }

    /// Positions of the tensors that were asked for.
    pub fn used_tensors(&self) -> impl Iterator<Item = usize> {
        self.tensors
            .iter()
            .enumerate()
            .filter(|(_, (_, used))| used.get())
            .map(|(i, _)| i)
    }

    /// Positions of the numbers that were asked for.
    pub fn used_scalars(&self) -> impl Iterator<Item = usize> {
        self.scalars
            .iter()
            .enumerate()
            .filter(|(_, (_, used))| used.get())
            .map(|(i, _)| i)
    }
}

/// What a lowering returns: as many values as the op has results, `None` where one is not wanted or not changed.
#[derive(Clone, Debug, Default)]
pub struct Outputs(pub SmallVec<[Option<Value>; 3]>);

impl From<Value> for Outputs {
    fn from(v: Value) -> Self {
        Self(SmallVec::from_iter([Some(v)]))
    }
}
impl From<(Value, Value)> for Outputs {
    fn from((a, b): (Value, Value)) -> Self {
        Self(SmallVec::from_iter([Some(a), Some(b)]))
    }
}
impl From<(Value, Value, Value)> for Outputs {
    fn from((a, b, c): (Value, Value, Value)) -> Self {
        Self(SmallVec::from_iter([Some(a), Some(b), Some(c)]))
    }
}
impl From<Vec<Value>> for Outputs {
    fn from(all: Vec<Value>) -> Self {
        Self(all.into_iter().map(Some).collect())
    }
}
impl From<Vec<Option<Value>>> for Outputs {
    fn from(all: Vec<Option<Value>>) -> Self {
        Self(SmallVec::from_vec(all))
    }
}

/// A condition on data that the user must be told of, such as an index in range.
#[derive(Clone, Debug)]
pub struct Check {
    /// `pred[]`: true when all is well.
    pub ok: Value,
    /// `i64[]`: a value that the message shows in place of `{}`.
    pub shown: Value,
    /// The exception's class.
    pub kind: crate::ErrorKind,
    /// torch's text.
    pub message: String,
}

/// What a lowering left behind besides its outputs.
#[derive(Clone, Debug, Default)]
pub struct Produced {
    /// Conditions to be verified after the run.
    pub checks: Vec<Check>,
    /// Blocks of 128 random bits used.
    pub random_blocks: u64,
    /// What an op after it in the same program may want to know of its values.
    pub facts: Facts,
}

/// What a lowering works with.
pub struct Cx<'c, 'a> {
    /// The function under construction: one method a StableHLO op.
    pub f: &'c mut FunctionBuilder<'a>,
    /// The call.
    pub call: &'c Call,
    pub(crate) inputs: &'c Inputs,
    /// The generator's state here: the op's, or in a loop that draws the loop's.
    pub(crate) random: Option<Value>,
    /// What is left besides the outputs.
    pub produced: Produced,
}

impl<'c, 'a> Cx<'c, 'a> {
    /// For one call in a function.
    pub fn new(f: &'c mut FunctionBuilder<'a>, call: &'c Call, inputs: &'c Inputs) -> Self {
        Self {
            f,
            call,
            inputs,
            random: inputs.random,
            produced: Produced::default(),
        }
    }

    /// A value's sum over one dimension, of size 1 there, if an earlier op of the program knew it.
    pub fn known_sum(&self, of: Value, dims: &[i64]) -> Option<Value> {
        let [dim] = dims else { return None };
        let found = self
            .inputs
            .facts
            .sums
            .iter()
            .find(|s| s.of == of && s.dim == *dim);
        found.map(|s| s.sum)
    }

    /// Tells later ops that this one has a value of [`Facts::softmax_gradients`] to itself; how many had it before.
    pub fn use_alone(&mut self, of: Value) -> usize {
        let facts = [&self.inputs.facts, &self.produced.facts];
        let before = facts.map(|facts| facts.uses.iter().filter(|v| **v == of).count());
        self.produced.facts.uses.push(of);
        before.iter().sum()
    }

    /// How a value was computed if an earlier op of the program took it for the gradient of a softmax's logarithm.
    pub fn known_softmax_gradient(&self, of: Value) -> Option<KnownSoftmaxGradient> {
        let mut all = self.inputs.facts.softmax_gradients.iter();
        all.find(|s| s.of == of).copied()
    }

    /// What a value was computed from if an earlier op of the program took it for a softmax, or the logarithm of one.
    pub fn known_softmax(&self, of: Value, dims: &[i64], log: bool) -> Option<KnownSoftmax> {
        let [dim] = dims else { return None };
        let mut all = self.inputs.facts.softmaxes.iter();
        all.find(|s| s.of == of && s.dim == *dim && s.log == log).copied()
    }

    // ---- arguments by schema name

    /// Whether the argument exists and is not `None`.
    pub fn has(&self, name: &str) -> bool {
        self.call.arg(name).is_some()
    }

    fn want<T>(&self, name: &str, what: &str, found: Option<T>) -> Result<T> {
        found.ok_or_else(|| {
            Error::Internal(format!(
                "the lowering of {} wants `{name}` as {what}, got {:?}",
                self.call.name,
                self.call.arg(name)
            ))
        })
    }

    /// A tensor argument.
    pub fn tensor(&self, name: &str) -> Result<Value> {
        let found = self.opt_tensor(name)?;
        self.want(name, "a tensor", found)
    }

    /// A `Tensor?` argument.
    pub fn opt_tensor(&self, name: &str) -> Result<Option<Value>> {
        match self.call.arg(name) {
            None => Ok(None),
            Some(Arg::Tensor(i)) => Ok(Some(self.inputs.tensor(*i))),
            Some(_) => self.want(name, "a tensor", None),
        }
    }

    /// A `Tensor[]` argument.
    pub fn tensors(&self, name: &str) -> Result<Vec<Value>> {
        let all = self.opt_tensors(name)?;
        all.into_iter().map(|t| self.want(name, "tensors", t)).collect()
    }

    /// A `Tensor?[]` argument.
    pub fn opt_tensors(&self, name: &str) -> Result<Vec<Option<Value>>> {
        match self.call.arg(name) {
            None => Ok(Vec::new()),
            Some(Arg::Tensors(list)) => Ok(list.iter().map(|i| i.map(|i| self.inputs.tensor(i))).collect()),
            Some(_) => self.want(name, "a list of tensors", None),
        }
    }

    /// Metadata of a tensor argument.
    pub fn meta(&self, name: &str) -> Result<&'c TensorMeta> {
        match self.call.arg(name) {
            Some(Arg::Tensor(i)) => Ok(&self.call.tensors[*i as usize]),
            _ => self.want(name, "a tensor", None),
        }
    }

    /// An `int` argument.
    pub fn int(&self, name: &str) -> Result<i64> {
        let found = self.opt_int(name)?;
        self.want(name, "an int", found)
    }

    /// An `int?` argument.
    pub fn opt_int(&self, name: &str) -> Result<Option<i64>> {
        match self.call.arg(name) {
            None => Ok(None),
            Some(Arg::Int(i)) => Ok(Some(*i)),
            Some(Arg::Bool(b)) => Ok(Some(i64::from(*b))),
            Some(_) => self.want(name, "an int", None),
        }
    }

    /// An `int` argument that is a dimension, made non-negative for a tensor of this rank (0 counts as 1).
    pub fn dim(&self, name: &str, rank: usize) -> Result<i64> {
        Ok(wrap_dim(self.int(name)?, rank))
    }

    /// An `int[]` argument; empty when absent. A single `int` is a list of one.
    pub fn ints(&self, name: &str) -> Result<Vec<i64>> {
        match self.call.arg(name) {
            None => Ok(Vec::new()),
            Some(Arg::Ints(list)) => Ok(list.clone()),
            Some(Arg::Int(i)) => Ok(vec![*i]),
            Some(_) => self.want(name, "a list of ints", None),
        }
    }

    /// A `bool[]` argument.
    pub fn bools(&self, name: &str) -> Result<Vec<bool>> {
        match self.call.arg(name) {
            Some(Arg::Bools(list)) => Ok(list.clone()),
            _ => self.want(name, "a list of bools", None),
        }
    }

    /// A `bool` argument; `false` when absent.
    pub fn bool(&self, name: &str) -> Result<bool> {
        match self.call.arg(name) {
            None => Ok(false),
            Some(Arg::Bool(b)) => Ok(*b),
            Some(Arg::Int(i)) => Ok(*i != 0),
            Some(_) => self.want(name, "a bool", None),
        }
    }

    /// A `float[]` argument.
    pub fn floats(&self, name: &str) -> Result<Vec<f64>> {
        match self.call.arg(name) {
            None => Ok(Vec::new()),
            Some(Arg::Floats(list)) => Ok(list.clone()),
            Some(_) => self.want(name, "a list of floats", None),
        }
    }

    /// A `str` argument.
    pub fn str(&self, name: &str) -> Result<Option<&'c str>> {
        match self.call.arg(name) {
            None => Ok(None),
            Some(Arg::Str(s)) => Ok(Some(s)),
            Some(_) => self.want(name, "a string", None),
        }
    }

    /// A dtype argument.
    pub fn dtype(&self, name: &str) -> Result<Option<ElementType>> {
        match self.call.arg(name) {
            None => Ok(None),
            Some(Arg::Dtype(e)) => Ok(Some(*e)),
            Some(_) => self.want(name, "a dtype", None),
        }
    }

    /// A number listed in [`crate::OpDef::statics`]: its value.
    pub fn number(&self, name: &str) -> Result<Number> {
        let found = self.opt_number(name)?;
        self.want(name, "a static number", found)
    }

    /// [`Cx::number`], or `None` when it is absent.
    pub fn opt_number(&self, name: &str) -> Result<Option<Number>> {
        Ok(Some(match self.call.arg(name) {
            None => return Ok(None),
            Some(Arg::Int(i)) => Number::Int(i128::from(*i)),
            Some(Arg::Float(x)) => Number::Float(*x),
            Some(Arg::Bool(b)) => Number::Bool(*b),
            Some(Arg::Complex(re, im)) => Number::Complex(*re, *im),
            Some(_) => return self.want(name, "a static number", None),
        }))
    }

    /// A static number as a float.
    pub fn float(&self, name: &str) -> Result<f64> {
        Ok(match self.number(name)? {
            Number::Bool(b) => f64::from(u8::from(b)),
            Number::Int(i) => i as f64,
            Number::Float(x) | Number::Complex(x, _) => x,
        })
    }

    /// A number (an input or static) as a rank-0 value of this type, converted as a C++ cast does.
    pub fn scalar(&mut self, name: &str, element: ElementType) -> Result<Value> {
        let found = self.opt_scalar(name, element)?;
        self.want(name, "a number", found)
    }

    /// [`Cx::scalar`], or `None` when the argument is absent.
    pub fn opt_scalar(&mut self, name: &str, element: ElementType) -> Result<Option<Value>> {
        match self.call.arg(name) {
            None => Ok(None),
            Some(Arg::Scalar(s)) => {
                let v = self.inputs.scalar(s.index);
                Ok(Some(self.cast(v, element)?))
            }
            Some(Arg::Tensor(i)) if self.call.tensors[*i as usize].dims.is_empty() => {
                let v = self.inputs.tensor(*i);
                Ok(Some(self.cast(v, element)?))
            }
            Some(_) => {
                let Some(n) = self.opt_number(name)? else {
                    return Ok(None);
                };
                let natural = match n {
                    Number::Bool(_) => ElementType::Pred,
                    Number::Int(_) => ElementType::S64,
                    Number::Float(_) => ElementType::F64,
                    Number::Complex(..) => ElementType::C128,
                };
                let v = self.f.full(&[0i64; 0], natural, n)?;
                Ok(Some(self.cast(v, element)?))
            }
        }
    }

    /// A `Scalar[]` or `float[]` argument as rank-0 values of this type.
    pub fn scalars(&mut self, name: &str, element: ElementType) -> Result<Vec<Value>> {
        match self.call.arg(name) {
            None => Ok(Vec::new()),
            Some(Arg::Scalars(list)) => list
                .iter()
                .map(|s| self.cast(self.inputs.scalar(s.index), element))
                .collect(),
            Some(Arg::Floats(list)) => list
                .iter()
                .map(|x| {
                    let v = self.f.full(&[0i64; 0], ElementType::F64, *x)?;
                    self.cast(v, element)
                })
                .collect(),
            Some(_) => self.want(name, "numbers", None),
        }
    }

    /// The kind of an input number.
    pub fn scalar_ref(&self, name: &str) -> Option<ScalarRef> {
        match self.call.arg(name) {
            Some(Arg::Scalar(s)) => Some(*s),
            _ => None,
        }
    }

    /// An argument that is a tensor in one overload and a number in another, as a value of this type (rank 0 for a number).
    pub fn operand(&mut self, name: &str, element: ElementType) -> Result<Value> {
        match self.call.arg(name) {
            Some(Arg::Tensor(i)) => {
                let v = self.inputs.tensor(*i);
                if self.call.tensors[*i as usize].element == element {
                    return Ok(v);
                }
                self.cast(v, element)
            }
            _ => self.scalar(name, element),
        }
    }

    // ---- results

    /// What result `k` must be.
    pub fn out(&self, k: usize) -> Result<&'c OutMeta> {
        let found = self.call.outs.get(k).and_then(Option::as_ref);
        found.ok_or_else(|| Error::Internal(format!("{} has no result {k}", self.call.name)))
    }

    /// Whether result `k` is wanted.
    pub fn wants(&self, k: usize) -> bool {
        self.call.outs.get(k).is_some_and(Option::is_some)
    }

    /// Adds a condition on data; `message` may hold `{}` for `shown`.
    pub fn check(&mut self, ok: Value, shown: Value, kind: crate::ErrorKind, message: impl Into<String>) {
        let message = message.into();
        self.produced.checks.push(Check {
            ok,
            shown,
            kind,
            message,
        });
    }

    // ---- values

    /// Sizes of a value.
    pub fn dims(&self, v: Value) -> Result<Dims> {
        let ty = self.f.tensor_ty(v)?;
        ty.dims
            .iter()
            .map(|d| {
                d.limit()
                    .ok_or_else(|| Error::unsupported("an unbounded dimension"))
            })
            .collect()
    }

    /// Rank of a value.
    pub fn rank(&self, v: Value) -> Result<usize> {
        Ok(self.f.tensor_ty(v)?.dims.len())
    }

    /// Element type of a value.
    pub fn element(&self, v: Value) -> Result<ElementType> {
        Ok(self.f.tensor_ty(v)?.element)
    }

    /// A constant of these sizes, of the type that such elements are computed in.
    pub fn full(&mut self, dims: &[i64], element: ElementType, n: impl Into<Number>) -> Result<Value> {
        let v = self.f.full(dims, element.computed(), n)?;
        if element.is_xla() {
            return Ok(v);
        }
        self.rounded(v, element)
    }

    /// A constant with the sizes and type of `like`.
    pub fn full_like(&mut self, like: Value, n: impl Into<Number>) -> Result<Value> {
        let (dims, element) = (self.dims(like)?, self.element(like)?);
        self.full(&dims, element, n)
    }

    /// Torch's conversion between types: truncation to integers, `!= 0` to bool, the real part of a complex number. To a
    /// type that XLA lacks it rounds, in the type that such elements are computed in.
    pub fn cast(&mut self, v: Value, to: ElementType) -> Result<Value> {
        if !to.is_xla() {
            let v = self.cast(v, to.computed())?;
            return self.rounded(v, to);
        }
        let from = self.element(v)?;
        if from == to {
            return Ok(v);
        }
        if to == ElementType::Pred {
            return self.truth(v);
        }
        let narrow = matches!(to.class(), Class::Signed | Class::Unsigned) && to.bits() < 32;
        match (from.class(), to.class()) {
            (Class::Complex, Class::Complex) => Ok(self.f.convert(v, to)?),
            (Class::Complex, _) => {
                let re = self.f.real(v)?;
                self.cast(re, to)
            }
            // C++ goes through a wide integer: 300.0 to uint8 is 44, -1.0 is 255; XLA would clamp.
            (Class::Float, Class::Signed | Class::Unsigned) if narrow || to == ElementType::U32 => {
                let wide = self.f.convert(v, ElementType::S64)?;
                Ok(self.f.convert(wide, to)?)
            }
            (_, Class::Float) if to.bits() == 8 => self.byte_float(v, to),
            _ => Ok(self.f.convert(v, to)?),
        }
    }

    /// Torch's conversions to floats of eight bits, which have rules of their own at their ends.
    fn byte_float(&mut self, v: Value, to: ElementType) -> Result<Value> {
        let v = match self.element(v)? {
            from if from.is_float() && from.bits() > 8 => v,
            _ => self.f.convert(v, ElementType::F32)?,
        };
        match to {
            // Too large a number is the largest there is; XLA makes it no number.
            ElementType::F8E4M3FN => {
                let element = self.element(v)?;
                let (low, high) = (self.full(&[], element, -448)?, self.full(&[], element, 448)?);
                let v = self.f.clamp(low, v, high)?;
                Ok(self.f.convert(v, to)?)
            }
            // Powers of two without sign or zero: the least stands for it.
            ElementType::F8E8M0FNU => {
                let size = self.f.abs(v)?;
                let none = self.full_like(size, 0)?;
                let is_zero = self.f.compare(size, none, stablehlo::ops::Direction::Eq)?;
                let power = self.f.convert(size, to)?;
                let raw = self.f.bitcast_convert(power, ElementType::U8)?;
                let least = self.full_like(raw, 0)?;
                let raw = self.f.select(is_zero, least, raw)?;
                Ok(self.f.bitcast_convert(raw, to)?)
            }
            _ => Ok(self.f.convert(v, to)?),
        }
    }

    /// `v != 0`, by bits where the device would flush a subnormal number to zero.
    pub fn truth(&mut self, v: Value) -> Result<Value> {
        let element = self.element(v)?;
        match element.class() {
            Class::Boolean => Ok(v),
            Class::Complex => {
                let (re, im) = (self.f.real(v)?, self.f.imag(v)?);
                let (re, im) = (self.truth(re)?, self.truth(im)?);
                Ok(self.f.or(re, im)?)
            }
            Class::Float => {
                let bits = match element.bits() {
                    64 => ElementType::U64,
                    32 => ElementType::U32,
                    16 => ElementType::U16,
                    8 => ElementType::U8,
                    _ => return Err(Error::unsupported(format!("truth of {element}"))),
                };
                let raw = self.f.bitcast_convert(v, bits)?;
                // All bits but the sign.
                let mask = self.full_like(raw, Number::Int((1i128 << (element.bits() - 1)) - 1))?;
                let magnitude = self.f.and(raw, mask)?;
                let zero = self.full_like(magnitude, 0)?;
                Ok(self.f.compare(magnitude, zero, stablehlo::ops::Direction::Ne)?)
            }
            _ => {
                let zero = self.full_like(v, 0)?;
                Ok(self.f.compare(v, zero, stablehlo::ops::Direction::Ne)?)
            }
        }
    }

    /// To the type in which torch's CPU kernels compute ([`compute_type`]).
    pub fn up(&mut self, v: Value) -> Result<Value> {
        let to = compute_type(self.element(v)?);
        self.cast(v, to)
    }

    /// Rounded as if through this type, where CPU torch stores its steps in it. A conversion there and back the compiler may drop.
    pub fn rounded(&mut self, v: Value, through: ElementType) -> Result<Value> {
        Ok(match through {
            ElementType::F16 => {
                let normal = self.f.reduce_precision(v, 5, 10)?;
                // That makes zeros of the subnormal halves, which are multiples of 2^-24 below 2^-14.
                let (per, unit) = (
                    self.full_like(v, 16_777_216.0)?,
                    self.full_like(v, 1.0 / 16_777_216.0)?,
                );
                let units = self.f.multiply(v, per)?;
                let units = self.f.round_nearest_even(units)?;
                let subnormal = self.f.multiply(units, unit)?;
                let (size, least) = (self.f.abs(v)?, self.full_like(v, 1.0 / 16_384.0)?);
                let small = self.f.compare(size, least, stablehlo::ops::Direction::Lt)?;
                self.f.select(small, subnormal, normal)?
            }
            ElementType::BF16 => self.f.reduce_precision(v, 8, 7)?,
            ElementType::C32 | ElementType::BC32 => {
                let parts = [self.f.real(v)?, self.f.imag(v)?];
                let [re, im] = parts.map(|part| self.rounded(part, through.real()));
                self.f.complex(re?, im?)?
            }
            _ => v,
        })
    }

    /// Broadcasts as torch does: trailing dimensions align, size 1 stretches.
    pub fn broadcast_to(&mut self, v: Value, dims: &[i64]) -> Result<Value> {
        let have = self.dims(v)?;
        if have.as_slice() == dims {
            return Ok(v);
        }
        let skip = dims.len().checked_sub(have.len()).ok_or_else(|| {
            Error::Internal(format!(
                "{}: cannot broadcast {have:?} to {dims:?}",
                self.call.name
            ))
        })?;
        let map: Vec<i64> = (skip as i64..dims.len() as i64).collect();
        Ok(self.f.broadcast_in_dim(v, dims, &map)?)
    }

    /// Broadcasts two values to their common sizes.
    pub fn broadcast_pair(&mut self, a: Value, b: Value) -> Result<(Value, Value)> {
        let dims = broadcast_dims(&[&self.dims(a)?, &self.dims(b)?])?;
        Ok((self.broadcast_to(a, &dims)?, self.broadcast_to(b, &dims)?))
    }

    /// Reshape; nothing when the sizes are the same already.
    pub fn reshape(&mut self, v: Value, dims: &[i64]) -> Result<Value> {
        if self.dims(v)?.as_slice() == dims {
            return Ok(v);
        }
        Ok(self.f.reshape(v, dims)?)
    }
}

/// A dimension counted from the end when negative; rank 0 counts as rank 1.
pub(crate) fn wrap_dim(dim: i64, rank: usize) -> i64 {
    let rank = rank.max(1) as i64;
    if dim < 0 { dim + rank } else { dim }
}

/// The sizes that all of these broadcast to.
pub(crate) fn broadcast_dims(all: &[&[i64]]) -> Result<Dims> {
    let rank = all.iter().map(|d| d.len()).max().unwrap_or(0);
    let mut out: Dims = SmallVec::from_elem(1, rank);
    for dims in all {
        for (i, &d) in dims.iter().rev().enumerate() {
            let slot = &mut out[rank - 1 - i];
            if *slot == 1 {
                *slot = d;
            } else if d != 1 && d != *slot {
                return Err(Error::Internal(format!("cannot broadcast {all:?}")));
            }
        }
    }
    Ok(out)
}
