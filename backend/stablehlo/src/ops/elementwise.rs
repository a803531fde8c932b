//! Elementwise ops of one and two operands.

use super::methods;
use crate::attribute::Props;
use crate::check::{Kinds, ensure, merge_dims};
use crate::literal::decimal;
use crate::{Dims, ElementType, FunctionBuilder, Result, TensorType, Value};

const SIGNED: Kinds = Kinds::SIGNED.or(Kinds::FLOATING);

/// How accurate a result must be, for the ops that targets compute in more than one way.
#[derive(Copy, Clone, PartialEq, Debug, Default)]
pub enum ResultAccuracy {
    /// As the target finds fit.
    #[default]
    Default,
    /// As accurate as the target can.
    Highest,
    /// Off by no more than `atol + rtol * |result|`, or this many units in the last place. A target without such an
    /// implementation refuses the program.
    Tolerance {
        /// Absolute.
        atol: f64,
        /// Relative.
        rtol: f64,
        /// Units in the last place.
        ulps: i64,
    },
}

impl ResultAccuracy {
    /// The property; none for the default, which plugins older than it also read.
    fn props(self, op: &str) -> Result<Props> {
        let props = Props::new();
        let mode = |mode: &str| format!("mode = #stablehlo.result_accuracy_mode<{mode}>");
        let text = match self {
            Self::Default => return Ok(props),
            Self::Highest => mode("HIGHEST"),
            Self::Tolerance { atol, rtol, ulps } => {
                let valid = |x: f64| x.is_finite() && x >= 0.0;
                ensure(op, valid(atol) && valid(rtol) && ulps >= 0, || {
                    format!(
                        "tolerances must be finite and not negative, got atol = {atol}, rtol = {rtol}, ulps = {ulps}"
                    )
                })?;
                format!(
                    "atol = {}, rtol = {}, ulps = {ulps}, {}",
                    decimal(atol),
                    decimal(rtol),
                    mode("TOLERANCE")
                )
            }
        };
        Ok(props.raw(
            "result_accuracy",
            format_args!("#stablehlo.result_accuracy<{text}>"),
        ))
    }
}

impl<'a> FunctionBuilder<'a> {
    /// One operand, the same type out.
    pub(crate) fn unary(&mut self, op: &'static str, kinds: Kinds, operand: Value) -> Result<Value> {
        let o = self.operand(op, 0, "operand", operand)?;
        o.kinds(kinds)?;
        self.emit(op, &[operand], &Props::new(), o.ty)
    }

    /// One operand, the same type out, as accurate as asked for.
    fn accurate(
        &mut self,
        op: &'static str,
        kinds: Kinds,
        operand: Value,
        accuracy: ResultAccuracy,
    ) -> Result<Value> {
        let o = self.operand(op, 0, "operand", operand)?;
        o.kinds(kinds)?;
        self.emit(op, &[operand], &accuracy.props(op)?, o.ty)
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

methods! { unary unary:
    /// Rounds up.
    ceil "stablehlo.ceil" Kinds::FLOAT;
    /// Number of leading zero bits.
    count_leading_zeros "stablehlo.count_leading_zeros" Kinds::INT;
    /// Rounds down.
    floor "stablehlo.floor" Kinds::FLOAT;
    /// Negation; wraps for unsigned integers.
    negate "stablehlo.negate" Kinds::NUMERIC;
    /// Logical or bitwise not.
    not "stablehlo.not" Kinds::BITS;
    /// Number of bits set.
    popcnt "stablehlo.popcnt" Kinds::INT;
    /// Rounds to the nearest integer, ties away from zero.
    round_nearest_afz "stablehlo.round_nearest_afz" Kinds::FLOAT;
    /// Rounds to the nearest integer, ties to even.
    round_nearest_even "stablehlo.round_nearest_even" Kinds::FLOAT;
    /// Sign.
    sign "stablehlo.sign" SIGNED;
}

methods! { accurate accurate:
    /// Cube root.
    cbrt cbrt_with "stablehlo.cbrt" Kinds::FLOATING;
    /// Cosine.
    cosine cosine_with "stablehlo.cosine" Kinds::FLOATING;
    /// 2 to the power of the operand. CPU plugins up to API 0.115 do not know this op.
    exp2 exp2_with "stablehlo.exp2" Kinds::FLOATING;
    /// e to the power of the operand.
    exponential exponential_with "stablehlo.exponential" Kinds::FLOATING;
    /// e to the power of the operand, minus one.
    exponential_minus_one exponential_minus_one_with "stablehlo.exponential_minus_one" Kinds::FLOATING;
    /// Natural logarithm.
    log log_with "stablehlo.log" Kinds::FLOATING;
    /// Logarithm to base 2. CPU plugins up to API 0.115 do not know this op.
    log2 log2_with "stablehlo.log2" Kinds::FLOATING;
    /// Natural logarithm of one plus the operand.
    log_plus_one log_plus_one_with "stablehlo.log_plus_one" Kinds::FLOATING;
    /// Sigmoid.
    logistic logistic_with "stablehlo.logistic" Kinds::FLOATING;
    /// Reciprocal of the square root.
    rsqrt rsqrt_with "stablehlo.rsqrt" Kinds::FLOATING;
    /// Sine.
    sine sine_with "stablehlo.sine" Kinds::FLOATING;
    /// Square root.
    sqrt sqrt_with "stablehlo.sqrt" Kinds::FLOATING;
    /// Tangent.
    tan tan_with "stablehlo.tan" Kinds::FLOATING;
    /// Hyperbolic tangent.
    tanh tanh_with "stablehlo.tanh" Kinds::FLOATING;
}

methods! { binary binary:
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
    and "stablehlo.and" Kinds::BITS;
    /// Angle of the point (rhs, lhs).
    atan2 "stablehlo.atan2" Kinds::FLOATING;
    /// Quotient; truncates for integers.
    divide "stablehlo.divide" Kinds::NUMERIC;
    /// The greater.
    maximum "stablehlo.maximum" Kinds::ORDERED;
    /// The lesser.
    minimum "stablehlo.minimum" Kinds::ORDERED;
    /// Product; logical and for booleans.
    multiply "stablehlo.multiply" Kinds::ANY;
    /// Logical or bitwise or.
    or "stablehlo.or" Kinds::BITS;
    /// lhs to the power of rhs.
    power "stablehlo.power" Kinds::NUMERIC;
    /// Remainder with the sign of lhs.
    remainder "stablehlo.remainder" Kinds::NUMERIC;
    /// Shift to the left.
    shift_left "stablehlo.shift_left" Kinds::INT;
    /// Shift to the right, keeping the sign.
    shift_right_arithmetic "stablehlo.shift_right_arithmetic" Kinds::INT;
    /// Shift to the right, filling with zeros.
    shift_right_logical "stablehlo.shift_right_logical" Kinds::INT;
    /// Difference.
    subtract "stablehlo.subtract" Kinds::NUMERIC;
    /// Logical or bitwise exclusive or.
    xor "stablehlo.xor" Kinds::BITS;
}

impl<'a> FunctionBuilder<'a> {
    /// `a * b + c`, rounded once. CPU plugins up to API 0.115 do not know this op.
    pub fn fma(&mut self, a: Value, b: Value, c: Value) -> Result<Value> {
        const OP: &str = "stablehlo.fma";
        let operands = [
            self.operand(OP, 0, "a", a)?,
            self.operand(OP, 1, "b", b)?,
            self.operand(OP, 2, "c", c)?,
        ];
        operands[0].kinds(Kinds::FLOAT)?;
        let mut dims = Dims::from_slice(operands[0].dims);
        for o in &operands[1..] {
            o.same_element(&operands[0])?;
            dims = merge_dims(o.dims, &dims)
                .ok_or_else(|| o.fault("the shape must equal that of the other operands"))?;
        }
        let ty = self.result(&dims, operands[0].element);
        self.emit(OP, &[a, b, c], &Props::new(), ty)
    }

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
        self.unary_to("stablehlo.real", Kinds::FLOATING, operand, ElementType::real)
    }

    /// The imaginary part.
    pub fn imag(&mut self, operand: Value) -> Result<Value> {
        self.unary_to("stablehlo.imag", Kinds::FLOATING, operand, ElementType::real)
    }

    /// A complex number from its parts.
    pub fn complex(&mut self, lhs: Value, rhs: Value) -> Result<Value> {
        const OP: &str = "stablehlo.complex";
        let ty = self.pair(OP, Kinds::FLOAT, lhs, rhs)?;
        self.emit_complex(OP, lhs, rhs, ty)
    }

    /// An op that makes complex numbers of parts of type `ty`.
    pub(crate) fn emit_complex(
        &mut self,
        op: &'static str,
        lhs: Value,
        rhs: Value,
        ty: TensorType<'a>,
    ) -> Result<Value> {
        let element = match ty.element {
            ElementType::F32 => ElementType::C64,
            ElementType::F64 => ElementType::C128,
            _ => {
                return Err(self
                    .operand(op, 0, "lhs", lhs)?
                    .fault("the element type must be f32 or f64"));
            }
        };
        self.emit(op, &[lhs, rhs], &Props::new(), ty.with_element(element))
    }
}
