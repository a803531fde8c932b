//! Formulas in the notation of a formula: a copyable value with operators.
//!
//! An operator cannot return a `Result`, so a formula keeps its first error until [`Formula::finish`] is asked for it. An op is
//! added at once, so that a term may be used again; `nn::ex` builds a formula first, and a part that occurs twice twice,
//! but broadcasts and converts.

use std::cell::RefCell;
use std::ops::{Add, Div, Mul, Neg, Sub};

use stablehlo::ops::Direction;
use stablehlo::{FunctionBuilder, Value};

use crate::{Cx, Error, Result};

/// Adds an op to the function, on as many operands as it has.
type Build = for<'a> fn(&mut FunctionBuilder<'a>, &[Value]) -> stablehlo::Result<Value>;

trait Emit {
    fn emit(&self, build: Build, operands: &[Value]) -> Value;
    fn number(&self, like: Value, n: f64) -> Value;
}

/// Where a formula's operations are written to.
pub(crate) struct Formula<'r, 'c, 'a> {
    cx: RefCell<&'r mut Cx<'c, 'a>>,
    failed: RefCell<Option<Error>>,
}

impl<'r, 'c, 'a> Formula<'r, 'c, 'a> {
    /// A formula in the function under construction.
    pub(crate) fn new(cx: &'r mut Cx<'c, 'a>) -> Self {
        Self {
            cx: RefCell::new(cx),
            failed: RefCell::new(None),
        }
    }

    /// A value as a term.
    pub(crate) fn of(&self, v: Value) -> Term<'_> {
        Term { by: self, v }
    }

    /// The first error, if there was one. What was computed after it means nothing.
    pub(crate) fn finish(&self) -> Result<()> {
        self.failed.borrow_mut().take().map_or(Ok(()), Err)
    }

    fn or_note(&self, made: Result<Value>, instead: Value) -> Value {
        made.unwrap_or_else(|e| {
            self.failed.borrow_mut().get_or_insert(e);
            instead
        })
    }
}

impl Emit for Formula<'_, '_, '_> {
    fn emit(&self, build: Build, operands: &[Value]) -> Value {
        let made = build(self.cx.borrow_mut().f, operands);
        self.or_note(made.map_err(Error::from), operands[0])
    }

    fn number(&self, like: Value, n: f64) -> Value {
        let made = self.cx.borrow_mut().full_like(like, n);
        self.or_note(made, like)
    }
}

/// A term of a formula.
#[derive(Copy, Clone)]
pub(crate) struct Term<'s> {
    by: &'s dyn Emit,
    /// Its value.
    pub(crate) v: Value,
}

impl<'s> Term<'s> {
    fn with(self, build: Build, others: &[Value]) -> Self {
        let operands: smallvec::SmallVec<[Value; 3]> =
            std::iter::once(self.v).chain(others.iter().copied()).collect();
        Self {
            by: self.by,
            v: self.by.emit(build, &operands),
        }
    }

    /// A number of this term's type and sizes.
    pub(crate) fn number(self, n: f64) -> Self {
        Self {
            by: self.by,
            v: self.by.number(self.v, n),
        }
    }

    /// Whether it is no number.
    pub(crate) fn is_nan(self) -> Self {
        self.with(|f, v| f.compare(v[0], v[0], Direction::Ne), &[])
    }

    /// Of truth values.
    pub(crate) fn and(self, other: Self) -> Self {
        self.with(|f, v| f.and(v[0], v[1]), &[other.v])
    }

    /// Of truth values.
    pub(crate) fn or(self, other: Self) -> Self {
        self.with(|f, v| f.or(v[0], v[1]), &[other.v])
    }

    /// Where this holds `then`, elsewhere `otherwise`.
    pub(crate) fn pick(self, then: Self, otherwise: Self) -> Self {
        self.with(|f, v| f.select(v[0], v[1], v[2]), &[then.v, otherwise.v])
    }

    /// A polynomial by Horner's rule, the constant first.
    pub(crate) fn polynomial(self, coefficients: &[f64]) -> Self {
        let mut powers = coefficients.iter().rev();
        let mut sum = self.number(powers.next().copied().unwrap_or(0.0));
        for &c in powers {
            sum = sum * self + c;
        }
        sum
    }
}

macro_rules! unary {
    ($($(#[$doc:meta])* $name:ident $build:ident;)*) => { impl Term<'_> {$(
        $(#[$doc])*
        pub(crate) fn $name(self) -> Self {
            self.with(|f, v| f.$build(v[0]), &[])
        }
    )*} };
}
unary! {
    /// The natural logarithm.
    log log;
    /// `log(1 + x)`
    log1p log_plus_one;
    /// `e^x`
    exp exponential;
    /// The square root.
    sqrt sqrt;
    /// The absolute value.
    abs abs;
    /// The largest whole number that is not above.
    floor floor;
    /// The least whole number that is not below.
    ceil ceil;
    /// The digamma function.
    digamma chlo_digamma;
    /// Whether it is neither infinite nor NaN.
    finite is_finite;
    /// Of a truth value.
    not not;
}

macro_rules! comparison {
    ($($(#[$doc:meta])* $name:ident $direction:ident;)*) => { impl<'s> Term<'s> {$(
        $(#[$doc])*
        pub(crate) fn $name(self, other: impl Operand<'s>) -> Self {
            self.with(|f, v| f.compare(v[0], v[1], Direction::$direction), &[other.value(self)])
        }
    )*} };
}
comparison! {
    /// `<`
    lt Lt;
    /// `<=`
    le Le;
    /// `>`
    gt Gt;
    /// `>=`
    ge Ge;
    /// `==`
    eq Eq;
}

/// The second operand of an operator: a term or a number.
pub(crate) trait Operand<'s> {
    fn value(self, like: Term<'s>) -> Value;
}

impl<'s> Operand<'s> for Term<'s> {
    fn value(self, _: Term<'s>) -> Value {
        self.v
    }
}

impl<'s> Operand<'s> for f64 {
    fn value(self, like: Term<'s>) -> Value {
        like.by.number(like.v, self)
    }
}

impl<'s> Neg for Term<'s> {
    type Output = Self;
    fn neg(self) -> Self {
        self.with(|f, v| f.negate(v[0]), &[])
    }
}

/// An operator of two terms, of a term and a number, and of a number and a term.
macro_rules! operator {
    ($class:ident, $method:ident, $build:ident) => {
        impl<'s, T: Operand<'s>> $class<T> for Term<'s> {
            type Output = Term<'s>;
            fn $method(self, other: T) -> Term<'s> {
                self.with(|f, v| f.$build(v[0], v[1]), &[other.value(self)])
            }
        }
        impl<'s> $class<Term<'s>> for f64 {
            type Output = Term<'s>;
            fn $method(self, other: Term<'s>) -> Term<'s> {
                other.number(self).$method(other)
            }
        }
    };
}

operator!(Add, add, add);
operator!(Sub, sub, subtract);
operator!(Mul, mul, multiply);
operator!(Div, div, divide);
