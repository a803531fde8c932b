//! The chlo ops of several operands, whose shapes are broadcast as numpy does.

use super::{CompareType, Direction, methods};
use crate::attribute::Props;
use crate::check::{Kinds, Operand};
use crate::{Dim, Dims, ElementType, FunctionBuilder, Result, TensorType, Value};

methods! { binary broadcast_binary:
    /// Sum.
    chlo_broadcast_add "chlo.broadcast_add" Kinds::ANY;
    /// Logical or bitwise and.
    chlo_broadcast_and "chlo.broadcast_and" Kinds::BITS;
    /// Angle of the point (rhs, lhs).
    chlo_broadcast_atan2 "chlo.broadcast_atan2" Kinds::FLOATING;
    /// Quotient.
    chlo_broadcast_divide "chlo.broadcast_divide" Kinds::NUMERIC;
    /// The greater.
    chlo_broadcast_maximum "chlo.broadcast_maximum" Kinds::ORDERED;
    /// The lesser.
    chlo_broadcast_minimum "chlo.broadcast_minimum" Kinds::ORDERED;
    /// Product.
    chlo_broadcast_multiply "chlo.broadcast_multiply" Kinds::ANY;
    /// The next representable number from lhs towards rhs.
    chlo_broadcast_next_after "chlo.broadcast_next_after" Kinds::FLOAT;
    /// Logical or bitwise or.
    chlo_broadcast_or "chlo.broadcast_or" Kinds::BITS;
    /// Polygamma function of order lhs.
    chlo_broadcast_polygamma "chlo.broadcast_polygamma" Kinds::FLOAT;
    /// lhs to the power of rhs.
    chlo_broadcast_power "chlo.broadcast_power" Kinds::NUMERIC;
    /// Remainder.
    chlo_broadcast_remainder "chlo.broadcast_remainder" Kinds::NUMERIC;
    /// Shift to the left.
    chlo_broadcast_shift_left "chlo.broadcast_shift_left" Kinds::INT;
    /// Shift to the right, keeping the sign.
    chlo_broadcast_shift_right_arithmetic "chlo.broadcast_shift_right_arithmetic" Kinds::INT;
    /// Shift to the right, filling with zeros.
    chlo_broadcast_shift_right_logical "chlo.broadcast_shift_right_logical" Kinds::INT;
    /// Difference.
    chlo_broadcast_subtract "chlo.broadcast_subtract" Kinds::NUMERIC;
    /// Logical or bitwise exclusive or.
    chlo_broadcast_xor "chlo.broadcast_xor" Kinds::BITS;
    /// Hurwitz zeta function.
    chlo_broadcast_zeta "chlo.broadcast_zeta" Kinds::FLOAT;
}

/// Numpy's broadcast of two shapes; an unknown size against 1 stays unknown, against a known one is that.
fn broadcast_dims(l: &Operand<'_>, r: &Operand<'_>) -> Result<Dims> {
    let rank = l.rank().max(r.rank());
    let at = |t: &TensorType<'_>, i: usize| {
        (i + t.rank())
            .checked_sub(rank)
            .map_or(Dim::Static(1), |k| t.dims[k])
    };
    (0..rank)
        .map(|i| match (at(l, i), at(r, i)) {
            (Dim::Static(1), d) | (d, Dim::Static(1)) => Some(d),
            (a, b) => a.merge(b),
        })
        .collect::<Option<Dims>>()
        .ok_or_else(|| {
            r.fault(format!(
                "the shape does not broadcast with that of operand {} `{}` ({})",
                l.index, l.name, l.ty
            ))
        })
}

impl<'a> FunctionBuilder<'a> {
    /// Checks two operands of one element type; their type when broadcast.
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
        Ok(self.result(&broadcast_dims(&l, &r)?, l.element))
    }

    fn broadcast_binary(&mut self, op: &'static str, kinds: Kinds, lhs: Value, rhs: Value) -> Result<Value> {
        let ty = self.broadcast_pair(op, kinds, lhs, rhs)?;
        self.emit(op, &[lhs, rhs], &Props::new(), ty)
    }

    /// Complex numbers from their parts.
    pub fn chlo_broadcast_complex(&mut self, lhs: Value, rhs: Value) -> Result<Value> {
        const OP: &str = "chlo.broadcast_complex";
        let ty = self.broadcast_pair(OP, Kinds::FLOAT, lhs, rhs)?;
        self.emit_complex(OP, lhs, rhs, ty)
    }

    /// Takes from `on_true` where `pred` holds, from `on_false` elsewhere, the shapes broadcast as numpy does.
    pub fn chlo_broadcast_select(&mut self, pred: Value, on_true: Value, on_false: Value) -> Result<Value> {
        const OP: &str = "chlo.broadcast_select";
        let p = self.operand(OP, 0, "pred", pred)?;
        let t = self.operand(OP, 1, "on_true", on_true)?;
        let f = self.operand(OP, 2, "on_false", on_false)?;
        p.kinds(Kinds::BOOL)?;
        f.same_element(&t)?;
        let chosen = self.result(&broadcast_dims(&t, &f)?, t.element);
        let chosen = Operand { ty: chosen, ..f };
        let ty = self.result(&broadcast_dims(&p, &chosen)?, t.element);
        self.emit(OP, &[pred, on_true, on_false], &Props::new(), ty)
    }

    /// Compares.
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
}
