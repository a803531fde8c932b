//! The chlo ops that XLA's plugins accept.

use super::{CompareType, Direction};
use crate::attribute::Props;
use crate::check::Kinds;
use crate::{Dim, Dims, ElementType, FunctionBuilder, Result, TensorType, Value};

const FLOATING: Kinds = Kinds::FLOAT.or(Kinds::COMPLEX);
const NUMERIC: Kinds = Kinds::INT.or(Kinds::FLOAT).or(Kinds::COMPLEX);
const ORDERED: Kinds = Kinds::BOOL.or(Kinds::INT).or(Kinds::FLOAT);
const BITS: Kinds = Kinds::BOOL.or(Kinds::INT);

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

macro_rules! broadcasting {
    ($($(#[$doc:meta])* $method:ident $op:literal $kinds:expr;)*) => {
        impl FunctionBuilder<'_> {$(
            $(#[$doc])*
            /// The operands' shapes are broadcast as numpy does.
            pub fn $method(&mut self, lhs: Value, rhs: Value) -> Result<Value> {
                let ty = self.broadcast_pair($op, $kinds, lhs, rhs)?;
                self.emit($op, &[lhs, rhs], &Props::new(), ty)
            }
        )*}
    };
}

unary! {
    /// Inverse cosine.
    chlo_acos "chlo.acos" FLOATING;
    /// Inverse hyperbolic cosine.
    chlo_acosh "chlo.acosh" FLOATING;
    /// Inverse sine.
    chlo_asin "chlo.asin" FLOATING;
    /// Inverse hyperbolic sine.
    chlo_asinh "chlo.asinh" FLOATING;
    /// Inverse tangent.
    chlo_atan "chlo.atan" FLOATING;
    /// Inverse hyperbolic tangent.
    chlo_atanh "chlo.atanh" FLOATING;
    /// Exponentially scaled modified Bessel function of order 1.
    chlo_bessel_i1e "chlo.bessel_i1e" Kinds::FLOAT;
    /// Complex conjugate.
    chlo_conj "chlo.conj" FLOATING;
    /// Hyperbolic cosine.
    chlo_cosh "chlo.cosh" FLOATING;
    /// Derivative of the logarithm of the gamma function.
    chlo_digamma "chlo.digamma" Kinds::FLOAT;
    /// Error function.
    chlo_erf "chlo.erf" Kinds::FLOAT;
    /// Inverse error function.
    chlo_erf_inv "chlo.erf_inv" Kinds::FLOAT;
    /// One minus the error function.
    chlo_erfc "chlo.erfc" Kinds::FLOAT;
    /// Logarithm of the absolute value of the gamma function.
    chlo_lgamma "chlo.lgamma" Kinds::FLOAT;
    /// Hyperbolic sine.
    chlo_sinh "chlo.sinh" FLOATING;
    /// Square.
    chlo_square "chlo.square" FLOATING;
    /// Tangent.
    chlo_tan "chlo.tan" FLOATING;
}

broadcasting! {
    /// Sum.
    chlo_broadcast_add "chlo.broadcast_add" Kinds::ANY;
    /// Logical or bitwise and.
    chlo_broadcast_and "chlo.broadcast_and" BITS;
    /// Angle of the point (rhs, lhs).
    chlo_broadcast_atan2 "chlo.broadcast_atan2" FLOATING;
    /// Quotient.
    chlo_broadcast_divide "chlo.broadcast_divide" NUMERIC;
    /// The greater.
    chlo_broadcast_maximum "chlo.broadcast_maximum" ORDERED;
    /// The lesser.
    chlo_broadcast_minimum "chlo.broadcast_minimum" ORDERED;
    /// Product.
    chlo_broadcast_multiply "chlo.broadcast_multiply" Kinds::ANY;
    /// The next representable number from lhs towards rhs.
    chlo_broadcast_next_after "chlo.broadcast_next_after" Kinds::FLOAT;
    /// Logical or bitwise or.
    chlo_broadcast_or "chlo.broadcast_or" BITS;
    /// Polygamma function of order lhs.
    chlo_broadcast_polygamma "chlo.broadcast_polygamma" Kinds::FLOAT;
    /// lhs to the power of rhs.
    chlo_broadcast_power "chlo.broadcast_power" NUMERIC;
    /// Remainder.
    chlo_broadcast_remainder "chlo.broadcast_remainder" NUMERIC;
    /// Shift to the left.
    chlo_broadcast_shift_left "chlo.broadcast_shift_left" Kinds::INT;
    /// Shift to the right, keeping the sign.
    chlo_broadcast_shift_right_arithmetic "chlo.broadcast_shift_right_arithmetic" Kinds::INT;
    /// Shift to the right, filling with zeros.
    chlo_broadcast_shift_right_logical "chlo.broadcast_shift_right_logical" Kinds::INT;
    /// Difference.
    chlo_broadcast_subtract "chlo.broadcast_subtract" NUMERIC;
    /// Logical or bitwise exclusive or.
    chlo_broadcast_xor "chlo.broadcast_xor" BITS;
    /// Hurwitz zeta function.
    chlo_broadcast_zeta "chlo.broadcast_zeta" Kinds::FLOAT;
}

impl<'a> FunctionBuilder<'a> {
    /// Numpy's broadcast of two shapes; an unknown size against 1 stays unknown, against a known one is that.
    fn broadcast_pair(
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
        let rank = l.rank().max(r.rank());
        let at = |t: &TensorType<'a>, i: usize| {
            (i + t.rank())
                .checked_sub(rank)
                .map_or(Dim::Static(1), |k| t.dims[k])
        };
        let dims: Option<Dims> = (0..rank)
            .map(|i| match (at(&l, i), at(&r, i)) {
                (Dim::Static(1), d) | (d, Dim::Static(1)) => Some(d),
                (a, b) => a.merge(b),
            })
            .collect();
        let dims = dims.ok_or_else(|| {
            r.fault(format!(
                "the shape does not broadcast with that of operand 0 `lhs` ({})",
                l.ty
            ))
        })?;
        Ok(self.result(&dims, l.element))
    }

    /// Compares; the operands' shapes are broadcast as numpy does.
    pub fn chlo_broadcast_compare(
        &mut self,
        lhs: Value,
        rhs: Value,
        direction: Direction,
        order: Option<CompareType>,
    ) -> Result<Value> {
        const OP: &str = "chlo.broadcast_compare";
        let ty = self.broadcast_pair(OP, Kinds::ANY, lhs, rhs)?;
        let mut props = Props::new().raw(
            "comparison_direction",
            format_args!("#chlo<comparison_direction {}>", direction.mlir()),
        );
        if let Some(order) = order {
            props = props.raw(
                "compare_type",
                format_args!("#chlo<comparison_type {}>", order.mlir()),
            );
        }
        self.emit(OP, &[lhs, rhs], &props, ty.with_element(ElementType::Pred))
    }

    /// Positive or negative infinity.
    pub fn chlo_is_inf(&mut self, operand: Value) -> Result<Value> {
        self.unary_to("chlo.is_inf", Kinds::FLOAT, operand, |_| ElementType::Pred)
    }

    /// Negative infinity.
    pub fn chlo_is_neg_inf(&mut self, operand: Value) -> Result<Value> {
        self.unary_to("chlo.is_neg_inf", Kinds::FLOAT, operand, |_| ElementType::Pred)
    }

    /// Positive infinity.
    pub fn chlo_is_pos_inf(&mut self, operand: Value) -> Result<Value> {
        self.unary_to("chlo.is_pos_inf", Kinds::FLOAT, operand, |_| ElementType::Pred)
    }

    /// The next representable number from lhs towards rhs.
    pub fn chlo_next_after(&mut self, lhs: Value, rhs: Value) -> Result<Value> {
        self.binary("chlo.next_after", Kinds::FLOAT, lhs, rhs)
    }

    /// Polygamma function of order lhs.
    pub fn chlo_polygamma(&mut self, lhs: Value, rhs: Value) -> Result<Value> {
        self.binary("chlo.polygamma", Kinds::FLOAT, lhs, rhs)
    }

    /// Hurwitz zeta function.
    pub fn chlo_zeta(&mut self, lhs: Value, rhs: Value) -> Result<Value> {
        self.binary("chlo.zeta", Kinds::FLOAT, lhs, rhs)
    }

    /// The k greatest along the last dimension, and their positions as `i32`.
    pub fn chlo_top_k(&mut self, operand: Value, k: i64) -> Result<(Value, Value)> {
        const OP: &str = "chlo.top_k";
        let o = self.operand(OP, 0, "operand", operand)?;
        o.kinds(Kinds::INT.or(Kinds::FLOAT))?;
        let last = *o.dims.last().ok_or_else(|| o.fault("must not be a scalar"))?;
        o.require(k >= 0 && last.limit().is_none_or(|n| k <= n), || {
            format!("k = {k} must be at least 0 and at most the last dimension")
        })?;
        let mut dims = Dims::from_slice(o.dims);
        if let Some(d) = dims.last_mut() {
            *d = Dim::Static(k);
        }
        let values = self.result(&dims, o.element);
        let indices = values.with_element(ElementType::S32);
        let props = Props::new().i64("k", k);
        let r = self.emit_many(OP, &[operand], &props, &[], &[values.into(), indices.into()])?;
        Ok((r[0], r[1]))
    }
}
