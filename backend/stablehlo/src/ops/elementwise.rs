//! Elementwise ops of one and two operands.

use crate::attribute::Props;
use crate::check::Kinds;
use crate::{ElementType, FunctionBuilder, Result, TensorType, Value};

const NUMERIC: Kinds = Kinds::INT.or(Kinds::FLOAT).or(Kinds::COMPLEX);
const FLOATING: Kinds = Kinds::FLOAT.or(Kinds::COMPLEX);
const BITS: Kinds = Kinds::BOOL.or(Kinds::INT);
const SIGNED: Kinds = Kinds::SIGNED.or(Kinds::FLOAT).or(Kinds::COMPLEX);
const ORDERED: Kinds = Kinds::BOOL.or(Kinds::INT).or(Kinds::FLOAT);

impl<'a> FunctionBuilder<'a> {
    /// One operand, the same type out.
    pub(crate) fn unary(&mut self, op: &'static str, kinds: Kinds, operand: Value) -> Result<Value> {
        let o = self.operand(op, 0, "operand", operand)?;
        o.kinds(kinds)?;
        self.emit(op, &[operand], &Props::new(), o.ty)
    }

    /// One operand, the same shape out.
    pub(crate) fn unary_to(
        &mut self,
        op: &'static str,
        kinds: Kinds,
        operand: Value,
        result: impl FnOnce(ElementType) -> ElementType,
    ) -> Result<Value> {
        let o = self.operand(op, 0, "operand", operand)?;
        o.kinds(kinds)?;
        self.emit(op, &[operand], &Props::new(), o.with_element(result(o.element)))
    }

    /// Checks two operands of one type; the type they share.
    pub(crate) fn pair(
        &self,
        op: &'static str,
        kinds: Kinds,
        lhs: Value,
        rhs: Value,
    ) -> Result<TensorType<'a>> {
        let l = self.operand(op, 0, "lhs", lhs)?;
        let r = self.operand(op, 1, "rhs", rhs)?;
        l.kinds(kinds)?;
        r.same_element(&l)?;
        if l.dims == r.dims {
            return Ok(l.ty);
        }
        let dims = r.merge_shape(&l)?;
        Ok(self.result(&dims, l.element))
    }

    pub(crate) fn binary(&mut self, op: &'static str, kinds: Kinds, lhs: Value, rhs: Value) -> Result<Value> {
        let ty = self.pair(op, kinds, lhs, rhs)?;
        self.emit(op, &[lhs, rhs], &Props::new(), ty)
    }
}

macro_rules! unary {
    ($($(#[$doc:meta])* $method:ident $op:literal $kinds:expr;)*) => {
        impl FunctionBuilder<'_> {$(
            $(#[$doc])*
            pub fn $method(&mut self, operand: Value) -> Result<Value> {
                self.unary($op, $kinds, operand)
            }
        )*}
    };
}

macro_rules! binary {
    ($($(#[$doc:meta])* $method:ident $op:literal $kinds:expr;)*) => {
        impl FunctionBuilder<'_> {$(
            $(#[$doc])*
            pub fn $method(&mut self, lhs: Value, rhs: Value) -> Result<Value> {
                self.binary($op, $kinds, lhs, rhs)
            }
        )*}
    };
}

unary! {
    /// Cube root.
    cbrt "stablehlo.cbrt" FLOATING;
    /// Rounds up.
    ceil "stablehlo.ceil" Kinds::FLOAT;
    /// Number of leading zero bits.
    count_leading_zeros "stablehlo.count_leading_zeros" Kinds::INT;
    /// Cosine.
    cosine "stablehlo.cosine" FLOATING;
    /// e to the power of the operand.
    exponential "stablehlo.exponential" FLOATING;
    /// e to the power of the operand, minus one.
    exponential_minus_one "stablehlo.exponential_minus_one" FLOATING;
    /// Rounds down.
    floor "stablehlo.floor" Kinds::FLOAT;
    /// Natural logarithm.
    log "stablehlo.log" FLOATING;
    /// Natural logarithm of one plus the operand.
    log_plus_one "stablehlo.log_plus_one" FLOATING;
    /// Sigmoid.
    logistic "stablehlo.logistic" FLOATING;
    /// Negation; wraps for unsigned integers.
    negate "stablehlo.negate" NUMERIC;
    /// Logical or bitwise not.
    not "stablehlo.not" BITS;
    /// Number of bits set.
    popcnt "stablehlo.popcnt" Kinds::INT;
    /// Rounds to the nearest integer, ties away from zero.
    round_nearest_afz "stablehlo.round_nearest_afz" Kinds::FLOAT;
    /// Rounds to the nearest integer, ties to even.
    round_nearest_even "stablehlo.round_nearest_even" Kinds::FLOAT;
    /// Reciprocal of the square root.
    rsqrt "stablehlo.rsqrt" FLOATING;
    /// Sign.
    sign "stablehlo.sign" SIGNED;
    /// Sine.
    sine "stablehlo.sine" FLOATING;
    /// Square root.
    sqrt "stablehlo.sqrt" FLOATING;
    /// Tangent.
    tan "stablehlo.tan" FLOATING;
    /// Hyperbolic tangent.
    tanh "stablehlo.tanh" FLOATING;
}

binary! {
    /// Sum; logical or for booleans.
    ///
    /// ```
    /// # use stablehlo::{Arena, ElementType::{F32, S32}, Module, TensorType};
    /// # let arena = Arena::new();
    /// # let mut m = Module::new(&arena, "m");
    /// let x = TensorType::new(&arena, &[2], F32)?;
    /// let y = TensorType::new(&arena, &[3], F32)?;
    /// let wrong = m.function("main", &[x.into(), y.into()], |f, a| Ok(vec![f.add(a[0], a[1])?]));
    /// assert_eq!(
    ///     wrong.unwrap_err().to_string(),
    ///     "stablehlo.add: operand 1 `rhs` (tensor<3xf32>): the shape must equal that of operand 0 `lhs` (tensor<2xf32>)"
    /// );
    /// # Ok::<(), stablehlo::Error>(())
    /// ```
    add "stablehlo.add" Kinds::ANY;
    /// Logical or bitwise and.
    and "stablehlo.and" BITS;
    /// Angle of the point (rhs, lhs).
    atan2 "stablehlo.atan2" FLOATING;
    /// Quotient; truncates for integers.
    divide "stablehlo.divide" NUMERIC;
    /// The greater.
    maximum "stablehlo.maximum" ORDERED;
    /// The lesser.
    minimum "stablehlo.minimum" ORDERED;
    /// Product; logical and for booleans.
    multiply "stablehlo.multiply" Kinds::ANY;
    /// Logical or bitwise or.
    or "stablehlo.or" BITS;
    /// lhs to the power of rhs.
    power "stablehlo.power" NUMERIC;
    /// Remainder with the sign of lhs.
    remainder "stablehlo.remainder" NUMERIC;
    /// Shift to the left.
    shift_left "stablehlo.shift_left" Kinds::INT;
    /// Shift to the right, keeping the sign.
    shift_right_arithmetic "stablehlo.shift_right_arithmetic" Kinds::INT;
    /// Shift to the right, filling with zeros.
    shift_right_logical "stablehlo.shift_right_logical" Kinds::INT;
    /// Difference.
    subtract "stablehlo.subtract" NUMERIC;
    /// Logical or bitwise exclusive or.
    xor "stablehlo.xor" BITS;
}

impl FunctionBuilder<'_> {
    /// Absolute value; the magnitude, a real, for complex numbers.
    pub fn abs(&mut self, operand: Value) -> Result<Value> {
        self.unary_to("stablehlo.abs", SIGNED, operand, ElementType::real)
    }

    /// Neither infinite nor NaN.
    pub fn is_finite(&mut self, operand: Value) -> Result<Value> {
        self.unary_to("stablehlo.is_finite", Kinds::FLOAT, operand, |_| {
            ElementType::Pred
        })
    }

    /// The real part.
    pub fn real(&mut self, operand: Value) -> Result<Value> {
        self.unary_to("stablehlo.real", FLOATING, operand, ElementType::real)
    }

    /// The imaginary part.
    pub fn imag(&mut self, operand: Value) -> Result<Value> {
        self.unary_to("stablehlo.imag", FLOATING, operand, ElementType::real)
    }

    /// A complex number from its parts.
    pub fn complex(&mut self, lhs: Value, rhs: Value) -> Result<Value> {
        const OP: &str = "stablehlo.complex";
        let ty = self.pair(OP, Kinds::FLOAT, lhs, rhs)?;
        let element = match ty.element {
            ElementType::F32 => ElementType::C64,
            ElementType::F64 => ElementType::C128,
            _ => {
                return Err(self
                    .operand(OP, 0, "lhs", lhs)?
                    .fault("the element type must be f32 or f64"));
            }
        };
        self.emit(OP, &[lhs, rhs], &Props::new(), ty.with_element(element))
    }
}
