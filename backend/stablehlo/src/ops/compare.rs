//! compare, select, clamp.

use super::enumeration;
use crate::attribute::Props;
use crate::check::{Kinds, ensure};
use crate::{Class, ElementType, FunctionBuilder, Result, Value};

enumeration! {
    /// What `compare` asks.
    Direction {
        /// Equal.
        Eq = "EQ",
        /// Not equal.
        Ne = "NE",
        /// Greater or equal.
        Ge = "GE",
        /// Greater.
        Gt = "GT",
        /// Less or equal.
        Le = "LE",
        /// Less.
        Lt = "LT",
    }
}

enumeration! {
    /// How `compare` orders.
    CompareType {
        /// IEEE-754; also complex numbers.
        Float = "FLOAT",
        /// IEEE-754 total order.
        TotalOrder = "TOTALORDER",
        /// Signed integers.
        Signed = "SIGNED",
        /// Unsigned integers and booleans.
        Unsigned = "UNSIGNED",
    }
}

impl FunctionBuilder<'_> {
    /// Compares elementwise, with the element type's own order.
    pub fn compare(&mut self, lhs: Value, rhs: Value, direction: Direction) -> Result<Value> {
        let class = self
            .pair("stablehlo.compare", Kinds::ANY, lhs, rhs)?
            .element
            .class();
        let order = match class {
            Class::Boolean | Class::Unsigned => CompareType::Unsigned,
            Class::Signed => CompareType::Signed,
            Class::Float | Class::Complex => CompareType::Float,
        };
        self.compare_as(lhs, rhs, direction, order)
    }

    /// Compares elementwise in the order asked for.
    pub fn compare_as(
        &mut self,
        lhs: Value,
        rhs: Value,
        direction: Direction,
        order: CompareType,
    ) -> Result<Value> {
        const OP: &str = "stablehlo.compare";
        let ty = self.pair(OP, Kinds::ANY, lhs, rhs)?;
        let fits = match ty.element.class() {
            Class::Boolean | Class::Unsigned => order == CompareType::Unsigned,
            Class::Signed => order == CompareType::Signed,
            Class::Float => matches!(order, CompareType::Float | CompareType::TotalOrder),
            Class::Complex => order == CompareType::Float,
        };
        let l = self.operand(OP, 0, "lhs", lhs)?;
        l.require(fits, || {
            format!("compare_type {} does not fit the element type", order.mlir())
        })?;
        l.require(
            !ty.element.is_complex() || matches!(direction, Direction::Eq | Direction::Ne),
            || {
                format!(
                    "complex numbers compare with EQ and NE only, not {}",
                    direction.mlir()
                )
            },
        )?;
        let props = Props::new()
            .enumeration("comparison_direction", "comparison_direction", direction.mlir())
            .enumeration("compare_type", "comparison_type", order.mlir());
        self.emit(OP, &[lhs, rhs], &props, ty.with_element(ElementType::Pred))
    }

    /// Takes from `on_true` where `pred` holds, from `on_false` elsewhere. `pred` may be a scalar.
    pub fn select(&mut self, pred: Value, on_true: Value, on_false: Value) -> Result<Value> {
        const OP: &str = "stablehlo.select";
        let p = self.operand(OP, 0, "pred", pred)?;
        let t = self.operand(OP, 1, "on_true", on_true)?;
        let f = self.operand(OP, 2, "on_false", on_false)?;
        p.kinds(Kinds::BOOL)?;
        f.same_element(&t)?;
        let mut dims = f.merge_shape(&t)?;
        if p.rank() != 0 {
            let merged = self.result(&dims, t.element);
            dims = crate::check::merge_dims(p.dims, &dims)
                .ok_or_else(|| p.fault(format!("must be a scalar or have the shape of {merged}")))?;
        }
        let ty = self.result(&dims, t.element);
        self.emit(OP, &[pred, on_true, on_false], &Props::new(), ty)
    }

    /// Limits to [min, max]; the limits may be scalars.
    pub fn clamp(&mut self, min: Value, operand: Value, max: Value) -> Result<Value> {
        const OP: &str = "stablehlo.clamp";
        let low = self.operand(OP, 0, "min", min)?;
        let x = self.operand(OP, 1, "operand", operand)?;
        let high = self.operand(OP, 2, "max", max)?;
        x.kinds(Kinds::BOOL.or(Kinds::INT).or(Kinds::FLOAT))?;
        for limit in [&low, &high] {
            limit.same_element(&x)?;
            if limit.rank() != 0 {
                limit.merge_shape(&x)?;
            }
        }
        ensure(OP, low.rank() == high.rank(), || {
            format!(
                "min ({}) and max ({}) must both be scalars or both have the operand's shape",
                low.ty, high.ty
            )
        })?;
        self.emit(OP, &[min, operand, max], &Props::new(), x.ty)
    }
}
