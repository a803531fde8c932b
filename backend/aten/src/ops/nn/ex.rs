//! Formulas over values, written as in a textbook: `(ex(g) * (1.0 - ex(y) * y)).eval(cx)?`.
//!
//! Operands broadcast as in torch, plain numbers take the type of what they meet. A part that occurs twice is built twice: evaluate it first.

use std::ops::{Add, Div, Mul, Neg, Sub};

use dtype::Class;
use stablehlo::ops::Direction;
use stablehlo::{FunctionBuilder, Value};

use crate::{Cx, ElementType, Result};

type Unary = for<'a> fn(&mut FunctionBuilder<'a>, Value) -> stablehlo::Result<Value>;
type Binary = for<'a> fn(&mut FunctionBuilder<'a>, Value, Value) -> stablehlo::Result<Value>;

/// A formula.
pub(super) enum Ex {
    Value(Value),
    Number(f64),
    Unary(Unary, Box<Ex>),
    Binary(Binary, Box<Ex>, Box<Ex>),
    Select(Box<Ex>, Box<Ex>, Box<Ex>),
    Truth(Box<Ex>),
    Cast(Box<Ex>, ElementType),
}

/// A value or a number as a formula.
pub(super) fn ex(part: impl Into<Ex>) -> Ex {
    part.into()
}

/// `on_true` where `pred` holds, else `on_false`.
pub(super) fn select(pred: impl Into<Ex>, on_true: impl Into<Ex>, on_false: impl Into<Ex>) -> Ex {
    Ex::Select(
        Box::new(pred.into()),
        Box::new(on_true.into()),
        Box::new(on_false.into()),
    )
}

impl From<Value> for Ex {
    fn from(v: Value) -> Self {
        Self::Value(v)
    }
}
impl From<f64> for Ex {
    fn from(x: f64) -> Self {
        Self::Number(x)
    }
}

macro_rules! operators {
    ($($trait:ident $method:ident $build:ident),*) => {$(
        impl<T: Into<Ex>> $trait<T> for Ex {
            type Output = Ex;
            fn $method(self, other: T) -> Ex {
                Ex::Binary(|f, a, b| f.$build(a, b), Box::new(self), Box::new(other.into()))
            }
        }
        impl $trait<Ex> for f64 {
            type Output = Ex;
            fn $method(self, other: Ex) -> Ex {
                ex(self).$method(other)
            }
        }
    )*};
}
operators!(Add add add, Sub sub subtract, Mul mul multiply, Div div divide);

impl Neg for Ex {
    type Output = Ex;
    fn neg(self) -> Ex {
        Ex::Unary(|f, v| f.negate(v), Box::new(self))
    }
}

macro_rules! unary {
    ($($name:ident $build:ident),*) => { impl Ex {$(
        pub(super) fn $name(self) -> Ex {
            Ex::Unary(|f, v| f.$build(v), Box::new(self))
        }
    )*} };
}
unary!(exp exponential, expm1 exponential_minus_one, ln log, ln_1p log_plus_one, tanh tanh, sqrt sqrt, rsqrt rsqrt, abs abs,
    sign sign, sigmoid logistic, erf chlo_erf, not not, floor floor);

macro_rules! binary {
    ($($name:ident |$f:ident, $a:ident, $b:ident| $build:expr;)*) => { impl Ex {$(
        pub(super) fn $name(self, other: impl Into<Ex>) -> Ex {
            Ex::Binary(|$f, $a, $b| $build, Box::new(self), Box::new(other.into()))
        }
    )*} };
}
binary! {
    max |f, a, b| f.maximum(a, b);
    min |f, a, b| f.minimum(a, b);
    pow |f, a, b| f.power(a, b);
    and |f, a, b| f.and(a, b);
    or |f, a, b| f.or(a, b);
    eq |f, a, b| f.compare(a, b, Direction::Eq);
    ne |f, a, b| f.compare(a, b, Direction::Ne);
    gt |f, a, b| f.compare(a, b, Direction::Gt);
    ge |f, a, b| f.compare(a, b, Direction::Ge);
    lt |f, a, b| f.compare(a, b, Direction::Lt);
    le |f, a, b| f.compare(a, b, Direction::Le);
}

impl Ex {
    /// As another type, converted as torch does.
    pub(super) fn cast(self, element: ElementType) -> Ex {
        Ex::Cast(Box::new(self), element)
    }

    /// `!= 0`, also for the smallest numbers.
    pub(super) fn truth(self) -> Ex {
        Ex::Truth(Box::new(self))
    }

    /// Adds the formula to the function.
    pub(super) fn eval(self, cx: &mut Cx<'_, '_>) -> Result<Value> {
        Ok(match self {
            Ex::Value(v) => v,
            Ex::Number(x) => cx.full(&[], ElementType::F32, x)?,
            Ex::Unary(build, a) => {
                let a = a.eval(cx)?;
                build(cx.f, a)?
            }
            Ex::Binary(build, a, b) => {
                let (a, b) = pair(cx, *a, *b)?;
                build(cx.f, a, b)?
            }
            Ex::Select(pred, a, b) => {
                let pred = pred.eval(cx)?;
                let (a, b) = pair(cx, *a, *b)?;
                let (pred, a) = cx.broadcast_pair(pred, a)?;
                let dims = cx.dims(a)?;
                let b = cx.broadcast_to(b, &dims)?;
                cx.f.select(pred, a, b)?
            }
            Ex::Truth(a) => {
                let a = a.eval(cx)?;
                cx.truth(a)?
            }
            Ex::Cast(a, element) => {
                let a = a.eval(cx)?;
                cx.cast(a, element)?
            }
        })
    }
}

/// Two operands of one type and size.
fn pair(cx: &mut Cx<'_, '_>, a: Ex, b: Ex) -> Result<(Value, Value)> {
    match (a, b) {
        (a, Ex::Number(x)) => {
            let a = a.eval(cx)?;
            Ok((a, number(cx, a, x)?))
        }
        (Ex::Number(x), b) => {
            let b = b.eval(cx)?;
            Ok((number(cx, b, x)?, b))
        }
        (a, b) => {
            let (a, b) = (a.eval(cx)?, b.eval(cx)?);
            cx.broadcast_pair(a, b)
        }
    }
}

fn number(cx: &mut Cx<'_, '_>, like: Value, x: f64) -> Result<Value> {
    match cx.element(like)?.class() {
        Class::Float | Class::Complex => cx.full_like(like, x),
        _ => cx.full_like(like, x as i64),
    }
}
