//! What the elementwise families share: type promotion of the operands, broadcasting, constants.

use stablehlo::Value;
use stablehlo::ops::Direction;

use dtype::Class;

use crate::{
    Arg, Cx, Dims, ElementType, Error, Lowered, Result, ScalarKind, TensorMeta, complex_of, compute_type,
    promote,
};

/// A function of one value, in the type it is given.
pub(crate) type Unary = fn(&mut Cx<'_, '_>, Value) -> Result<Value>;
/// A function of two values of the same type and sizes.
pub(crate) type Binary = fn(&mut Cx<'_, '_>, Value, Value) -> Result<Value>;

/// torch's default float type, as far as the result shows it.
pub(crate) fn default_float(cx: &Cx<'_, '_>) -> ElementType {
    match cx.out(0).map(|o| o.element) {
        Ok(ElementType::F64 | ElementType::C128) => ElementType::F64,
        _ => ElementType::F32,
    }
}

/// c10's `combine_categories`: the higher category decides, the lower one only lifts its class.
fn combine(higher: Option<ElementType>, lower: Option<ElementType>) -> Option<ElementType> {
    let (Some(h), Some(l)) = (higher, lower) else {
        return higher.or(lower);
    };
    Some(match (h.class(), l.class()) {
        (Class::Complex, _) => h,
        (Class::Float, Class::Complex) => complex_of(h),
        (Class::Float, _) => h,
        (Class::Boolean, _) | (_, Class::Float | Class::Complex) => promote(h, l),
        _ => h,
    })
}

/// The operands of an op as its result type depends on them.
#[derive(Default)]
pub(crate) struct Promotion {
    sized: Option<ElementType>,
    zero: Option<ElementType>,
    number: Option<ElementType>,
}

impl Promotion {
    fn join(slot: &mut Option<ElementType>, element: ElementType) {
        *slot = Some(slot.map_or(element, |have| promote(have, element)));
    }

    /// A tensor takes part.
    pub(crate) fn tensor(&mut self, meta: &TensorMeta, default: ElementType) {
        if !meta.dims.is_empty() {
            Self::join(&mut self.sized, meta.element);
        } else if !meta.wrapped {
            Self::join(&mut self.zero, meta.element);
        } else {
            let element = match meta.element.class() {
                Class::Complex => complex_of(default),
                Class::Float => default,
                _ => meta.element,
            };
            Self::join(&mut self.number, element);
        }
    }

    /// A number takes part.
    pub(crate) fn number(&mut self, kind: ScalarKind, default: ElementType) {
        let element = match kind {
            ScalarKind::Bool => ElementType::Pred,
            ScalarKind::Int => ElementType::S64,
            ScalarKind::Float => default,
            ScalarKind::Complex => complex_of(default),
        };
        Self::join(&mut self.number, element);
    }

    /// The type of them all, unless nothing took part.
    pub(crate) fn result(self) -> Option<ElementType> {
        combine(self.sized, combine(self.zero, self.number))
    }
}

/// `at::result_type` of arguments that are tensors or numbers; absent ones do not count.
pub(crate) fn result_type(cx: &Cx<'_, '_>, names: &[&str]) -> Result<ElementType> {
    let default = default_float(cx);
    let mut all = Promotion::default();
    for name in names {
        match cx.call.arg(name) {
            None => {}
            Some(Arg::Tensor(i)) => all.tensor(&cx.call.tensors[*i as usize], default),
            Some(Arg::Scalar(s)) => all.number(s.kind, default),
            Some(Arg::Bool(_)) => all.number(ScalarKind::Bool, default),
            Some(Arg::Int(_)) => all.number(ScalarKind::Int, default),
            Some(Arg::Float(_)) => all.number(ScalarKind::Float, default),
            Some(Arg::Complex(..)) => all.number(ScalarKind::Complex, default),
            Some(other) => {
                return Err(Error::Internal(format!(
                    "{}: `{name}` is neither a tensor nor a number: {other:?}",
                    cx.call.name
                )));
            }
        }
    }
    all.result()
        .ok_or_else(|| Error::Internal(format!("{}: none of {names:?} is given", cx.call.name)))
}

/// The type that kernels compute in for these arguments.
pub(crate) fn common_type(cx: &Cx<'_, '_>, names: &[&str]) -> Result<ElementType> {
    Ok(compute_type(result_type(cx, names)?))
}

/// The type that operands are brought to: numbers among complex halves are halves before anything is computed, those among
/// other halves are not.
pub(crate) fn operand_type(cx: &Cx<'_, '_>, names: &[&str]) -> Result<ElementType> {
    let result = result_type(cx, names)?;
    Ok(if result.is_xla() {
        compute_type(result)
    } else {
        result
    })
}

/// [`common_type`] of an op that turns integers into floats.
pub(crate) fn float_type(cx: &Cx<'_, '_>, names: &[&str]) -> Result<ElementType> {
    let common = common_type(cx, names)?;
    Ok(match common.class() {
        Class::Float | Class::Complex => common,
        _ => default_float(cx),
    })
}

/// The arguments in this type, broadcast to the sizes of the first result.
pub(crate) fn operands<const N: usize>(
    cx: &mut Cx<'_, '_>,
    names: [&str; N],
    element: ElementType,
) -> Result<[Value; N]> {
    let dims = cx.out(0)?.dims.clone();
    let mut values = Vec::with_capacity(N);
    for name in names {
        let v = cx.operand(name, element)?;
        values.push(cx.broadcast_to(v, &dims)?);
    }
    values
        .try_into()
        .map_err(|_| Error::Internal("as many operands as names".into()))
}

/// The only tensor argument of an op with one operand (`self`, or `x` of some special functions).
fn subject(cx: &Cx<'_, '_>) -> &'static str {
    if cx.has("self") { "self" } else { "x" }
}

/// An op of one operand that keeps the type.
pub(crate) fn unary(cx: &mut Cx<'_, '_>, kernel: Unary) -> Lowered {
    let x = cx.tensor(subject(cx))?;
    let x = cx.up(x)?;
    Ok(kernel(cx, x)?.into())
}

/// An op of one operand that returns integers and booleans as they are.
pub(crate) fn unary_unless_int(cx: &mut Cx<'_, '_>, kernel: Unary) -> Lowered {
    let x = cx.tensor(subject(cx))?;
    match cx.element(x)?.class() {
        Class::Float | Class::Complex => unary(cx, kernel),
        _ => Ok(x.into()),
    }
}

/// An op of one operand that turns integers into floats.
pub(crate) fn unary_float(cx: &mut Cx<'_, '_>, kernel: Unary) -> Lowered {
    let name = subject(cx);
    let element = float_type(cx, &[name])?;
    let x = cx.tensor(name)?;
    let x = cx.cast(x, element)?;
    Ok(kernel(cx, x)?.into())
}

/// An op of `self` and `other` in their common type.
pub(crate) fn binary(cx: &mut Cx<'_, '_>, kernel: Binary) -> Lowered {
    let element = operand_type(cx, &["self", "other"])?;
    let [a, b] = operands(cx, ["self", "other"], element)?;
    let v = kernel(cx, a, b)?;
    Ok(by_way_of(cx, v, result_type(cx, &["self", "other"])?)?.into())
}

/// A result of this type on its way to an `out` of another: halves are rounded all the same.
pub(crate) fn by_way_of(cx: &mut Cx<'_, '_>, v: Value, result: ElementType) -> Result<Value> {
    if cx.out(0)?.element == result {
        return Ok(v);
    }
    let v = cx.cast(v, compute_type(result))?;
    cx.rounded(v, result)
}

/// An op of `self` and `other` in their common type, integers made floats.
pub(crate) fn binary_float(cx: &mut Cx<'_, '_>, kernel: Binary) -> Lowered {
    let element = float_type(cx, &["self", "other"])?;
    let [a, b] = operands(cx, ["self", "other"], element)?;
    Ok(kernel(cx, a, b)?.into())
}

/// A comparison of two values of the same type.
pub(crate) fn compare(cx: &mut Cx<'_, '_>, a: Value, b: Value, direction: Direction) -> Result<Value> {
    Ok(cx.f.compare(a, b, direction)?)
}

/// A comparison with a constant.
pub(crate) fn compare_to(
    cx: &mut Cx<'_, '_>,
    a: Value,
    direction: Direction,
    n: impl Into<stablehlo::Number>,
) -> Result<Value> {
    let n = cx.full_like(a, n)?;
    Ok(cx.f.compare(a, n, direction)?)
}

/// `v` where `pred` does not hold, a constant where it does.
pub(crate) fn replace(
    cx: &mut Cx<'_, '_>,
    pred: Value,
    n: impl Into<stablehlo::Number>,
    v: Value,
) -> Result<Value> {
    let n = cx.full_like(v, n)?;
    Ok(cx.f.select(pred, n, v)?)
}

/// `v * n`.
pub(crate) fn scale(cx: &mut Cx<'_, '_>, v: Value, n: f64) -> Result<Value> {
    let n = cx.full_like(v, n)?;
    Ok(cx.f.multiply(v, n)?)
}

/// `v + n`.
pub(crate) fn offset(cx: &mut Cx<'_, '_>, v: Value, n: f64) -> Result<Value> {
    let n = cx.full_like(v, n)?;
    Ok(cx.f.add(v, n)?)
}

/// Where a float, or a part of a complex number, is NaN.
pub(crate) fn is_nan(cx: &mut Cx<'_, '_>, v: Value) -> Result<Value> {
    match cx.element(v)?.class() {
        Class::Float | Class::Complex => Ok(cx.f.compare(v, v, Direction::Ne)?),
        _ => {
            let dims = cx.dims(v)?;
            cx.full(&dims, ElementType::Pred, false)
        }
    }
}

/// A tensor argument in this type, with rank 0 seen as one dimension; its sizes then.
pub(crate) fn at_least_1d(cx: &mut Cx<'_, '_>, v: Value) -> Result<(Value, Dims)> {
    let mut dims = cx.dims(v)?;
    if dims.is_empty() {
        dims.push(1);
    }
    Ok((cx.reshape(v, &dims)?, dims))
}

/// The unsigned type as wide as a float.
pub(crate) fn bits_type(element: ElementType) -> Result<ElementType> {
    match element.bits() {
        64 => Ok(ElementType::U64),
        32 => Ok(ElementType::U32),
        16 => Ok(ElementType::U16),
        8 => Ok(ElementType::U8),
        _ => Err(Error::unsupported(format!("the bits of {element}"))),
    }
}

/// The sign bit of floats.
pub(crate) fn sign_bit(cx: &mut Cx<'_, '_>, v: Value) -> Result<Value> {
    let bits = bits_type(cx.element(v)?)?;
    let raw = cx.f.bitcast_convert(v, bits)?;
    compare_to(cx, raw, Direction::Ge, 1u64 << (bits.bits() - 1))
}
