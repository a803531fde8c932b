//! Formulas in the notation of a formula: a copyable value with operators.
//!
//! An operator cannot return a `Result`, so a formula keeps its first error until [`Formula::finish`] is asked for it.

use std::cell::RefCell;
use std::ops::{Add, Div, Mul, Neg, Sub};

use stablehlo::Value;
use stablehlo::ops::Direction;

use crate::{Cx, Error, Result};

#[derive(Copy, Clone)]
enum Op {
    Add,
    Subtract,
    Multiply,
    Divide,
    Negate,
    Log,
    Log1p,
    Exp,
    Sqrt,
    Abs,
    Floor,
    Ceil,
    Digamma,
    Finite,
    Compare(Direction),
    And,
    Or,
    Not,
    Select,
}

trait Emit {
    fn emit(&self, op: Op, operands: &[Value]) -> Value;
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
    fn emit(&self, op: Op, operands: &[Value]) -> Value {
        let mut cx = self.cx.borrow_mut();
        let f = &mut *cx.f;
        let made = match (op, operands) {
            (Op::Add, &[a, b]) => f.add(a, b),
            (Op::Subtract, &[a, b]) => f.subtract(a, b),
            (Op::Multiply, &[a, b]) => f.multiply(a, b),
            (Op::Divide, &[a, b]) => f.divide(a, b),
            (Op::Negate, &[a, ..]) => f.negate(a),
            (Op::Log, &[a, ..]) => f.log(a),
            (Op::Log1p, &[a, ..]) => f.log_plus_one(a),
            (Op::Exp, &[a, ..]) => f.exponential(a),
            (Op::Sqrt, &[a, ..]) => f.sqrt(a),
            (Op::Abs, &[a, ..]) => f.abs(a),
            (Op::Floor, &[a, ..]) => f.floor(a),
            (Op::Ceil, &[a, ..]) => f.ceil(a),
            (Op::Digamma, &[a, ..]) => f.chlo_digamma(a),
            (Op::Finite, &[a, ..]) => f.is_finite(a),
            (Op::Compare(direction), &[a, b]) => f.compare(a, b, direction),
            (Op::And, &[a, b]) => f.and(a, b),
            (Op::Or, &[a, b]) => f.or(a, b),
            (Op::Not, &[a, ..]) => f.not(a),
            (Op::Select, &[p, a, b]) => f.select(p, a, b),
            _ => return operands[0],
        };
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
    fn with(self, op: Op, others: &[Value]) -> Self {
        let operands: smallvec::SmallVec<[Value; 3]> =
            std::iter::once(self.v).chain(others.iter().copied()).collect();
        Self {
            by: self.by,
            v: self.by.emit(op, &operands),
        }
    }

    /// A number of this term's type and sizes.
    pub(crate) fn number(self, n: f64) -> Self {
        Self {
            by: self.by,
            v: self.by.number(self.v, n),
        }
    }

    fn compare(self, direction: Direction, other: impl Operand<'s>) -> Self {
        self.with(Op::Compare(direction), &[other.value(self)])
    }

    /// `<`
    pub(crate) fn lt(self, other: impl Operand<'s>) -> Self {
        self.compare(Direction::Lt, other)
    }

    /// `<=`
    pub(crate) fn le(self, other: impl Operand<'s>) -> Self {
        self.compare(Direction::Le, other)
    }

    /// `>`
    pub(crate) fn gt(self, other: impl Operand<'s>) -> Self {
        self.compare(Direction::Gt, other)
    }

    /// `>=`
    pub(crate) fn ge(self, other: impl Operand<'s>) -> Self {
        self.compare(Direction::Ge, other)
    }

    /// `==`
    pub(crate) fn eq(self, other: impl Operand<'s>) -> Self {
        self.compare(Direction::Eq, other)
    }

    /// Whether it is no number.
    pub(crate) fn is_nan(self) -> Self {
        self.compare(Direction::Ne, self)
    }

    /// Whether it is neither infinite nor NaN.
    pub(crate) fn finite(self) -> Self {
        self.with(Op::Finite, &[])
    }

    /// Of truth values.
    pub(crate) fn and(self, other: Self) -> Self {
        self.with(Op::And, &[other.v])
    }

    /// Of truth values.
    pub(crate) fn or(self, other: Self) -> Self {
        self.with(Op::Or, &[other.v])
    }

    /// Of a truth value.
    pub(crate) fn not(self) -> Self {
        self.with(Op::Not, &[])
    }

    /// Where this holds `then`, elsewhere `otherwise`.
    pub(crate) fn pick(self, then: Self, otherwise: Self) -> Self {
        self.with(Op::Select, &[then.v, otherwise.v])
    }

    /// The natural logarithm.
    pub(crate) fn log(self) -> Self {
        self.with(Op::Log, &[])
    }

    /// `log(1 + x)`
    pub(crate) fn log1p(self) -> Self {
        self.with(Op::Log1p, &[])
    }

    /// `e^x`
    pub(crate) fn exp(self) -> Self {
        self.with(Op::Exp, &[])
    }

    /// The square root.
    pub(crate) fn sqrt(self) -> Self {
        self.with(Op::Sqrt, &[])
    }

    /// The absolute value.
    pub(crate) fn abs(self) -> Self {
        self.with(Op::Abs, &[])
    }

    /// The largest whole number that is not above.
    pub(crate) fn floor(self) -> Self {
        self.with(Op::Floor, &[])
    }

    /// The least whole number that is not below.
    pub(crate) fn ceil(self) -> Self {
        self.with(Op::Ceil, &[])
    }

    /// The digamma function.
    pub(crate) fn digamma(self) -> Self {
        self.with(Op::Digamma, &[])
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
        self.with(Op::Negate, &[])
    }
}

/// An operator of two terms, of a term and a number, and of a number and a term.
macro_rules! operator {
    ($class:ident, $method:ident, $op:expr) => {
        impl<'s, T: Operand<'s>> $class<T> for Term<'s> {
            type Output = Term<'s>;
            fn $method(self, other: T) -> Term<'s> {
                self.with($op, &[other.value(self)])
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

operator!(Add, add, Op::Add);
operator!(Sub, sub, Op::Subtract);
operator!(Mul, mul, Op::Multiply);
operator!(Div, div, Op::Divide);
