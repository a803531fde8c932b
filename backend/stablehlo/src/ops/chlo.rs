//! The elementwise chlo ops that XLA's plugins accept.

use super::methods;
use crate::check::Kinds;
use crate::{ElementType, FunctionBuilder, Result, Value};

methods! { unary unary:
    /// Inverse cosine.
    chlo_acos "chlo.acos" Kinds::FLOATING;
    /// What inverse sine and cosine of complex numbers share.
    chlo_asin_acos_kernel "chlo._asin_acos_kernel" Kinds::COMPLEX;
    /// Inverse hyperbolic cosine.
    chlo_acosh "chlo.acosh" Kinds::FLOATING;
    /// Inverse sine.
    chlo_asin "chlo.asin" Kinds::FLOATING;
    /// Inverse hyperbolic sine.
    chlo_asinh "chlo.asinh" Kinds::FLOATING;
    /// Inverse tangent.
    chlo_atan "chlo.atan" Kinds::FLOATING;
    /// Inverse hyperbolic tangent.
    chlo_atanh "chlo.atanh" Kinds::FLOATING;
    /// Exponentially scaled modified Bessel function of order 1.
    chlo_bessel_i1e "chlo.bessel_i1e" Kinds::FLOAT;
    /// Complex conjugate.
    chlo_conj "chlo.conj" Kinds::FLOATING;
    /// Hyperbolic cosine.
    chlo_cosh "chlo.cosh" Kinds::FLOATING;
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
    chlo_sinh "chlo.sinh" Kinds::FLOATING;
    /// Square.
    chlo_square "chlo.square" Kinds::FLOATING;
    /// Tangent.
    chlo_tan "chlo.tan" Kinds::FLOATING;
}

methods! { binary binary:
    /// The upper half of the bits of the product. The CPU plugin at API 0.106 does not know this op.
    chlo_mulhi "chlo.mulhi" Kinds::INT;
    /// The next representable number from lhs towards rhs.
    chlo_next_after "chlo.next_after" Kinds::FLOAT;
    /// Polygamma function of order lhs.
    chlo_polygamma "chlo.polygamma" Kinds::FLOAT;
    /// Hurwitz zeta function.
    chlo_zeta "chlo.zeta" Kinds::FLOAT;
}

impl FunctionBuilder<'_> {
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
}
