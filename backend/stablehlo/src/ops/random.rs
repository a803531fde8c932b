//! rng and rng_bit_generator.

use super::enumeration;
use crate::attribute::Props;
use crate::check::{Kinds, ensure};
use crate::{Dim, ElementType, FunctionBuilder, Result, Shape, Value};

enumeration! {
    /// The distribution of `rng`.
    RngDistribution {
        /// Between a and b.
        Uniform = "UNIFORM",
        /// Mean a, standard deviation b.
        Normal = "NORMAL",
    }
}

enumeration! {
    /// The algorithm of `rng_bit_generator`.
    RngAlgorithm {
        /// The target's own.
        Default = "DEFAULT",
        /// Threefry.
        ThreeFry = "THREE_FRY",
        /// Philox.
        Philox = "PHILOX",
    }
}

impl FunctionBuilder<'_> {
    /// Random numbers from the target's own hidden state. The `shape` operand is made here, as a constant.
    pub fn rng(
        &mut self,
        a: Value,
        b: Value,
        dims: &(impl Shape + ?Sized),
        distribution: RngDistribution,
    ) -> Result<Value> {
        const OP: &str = "stablehlo.rng";
        let low = self.operand(OP, 0, "a", a)?;
        let high = self.operand(OP, 1, "b", b)?;
        low.ranked(0)?;
        high.ranked(0)?;
        high.same_element(&low)?;
        low.kinds(match distribution {
            // The specification has booleans too, on which XLA aborts.
            RngDistribution::Uniform => Kinds::INT.or(Kinds::FLOAT),
            RngDistribution::Normal => Kinds::FLOAT,
        })?;
        let least = if low.element.is_float() { 16 } else { 8 };
        low.require(low.element.bits() >= least, || {
            format!("the element type must have at least {least} bits")
        })?;
        let ty = self.tensor(dims, low.element)?;
        let sizes = ty
            .sizes()
            .ok_or_else(|| crate::Error::new(OP, format!("{ty} must have static dimensions")))?;
        let shape = self.constant(&[sizes.len() as i64], &sizes)?;
        let props = Props::new().enumeration("rng_distribution", "rng_distribution", distribution.mlir());
        self.emit(OP, &[a, b, shape], &props, ty)
    }

    /// Random bits from a state: the new state, and the bits.
    pub fn rng_bit_generator(
        &mut self,
        initial_state: Value,
        dims: &(impl Shape + ?Sized),
        element: ElementType,
        algorithm: RngAlgorithm,
    ) -> Result<(Value, Value)> {
        const OP: &str = "stablehlo.rng_bit_generator";
        let s = self.operand(OP, 0, "initial_state", initial_state)?;
        s.ranked(1)?;
        s.require(s.element == ElementType::U64, || {
            "the element type must be ui64".into()
        })?;
        let sizes: &[i64] = match algorithm {
            RngAlgorithm::ThreeFry => &[2],
            RngAlgorithm::Philox | RngAlgorithm::Default => &[2, 3],
        };
        let fits = sizes
            .iter()
            .any(|&n| s.dims.first().is_some_and(|d| d.merge(Dim::Static(n)).is_some()));
        s.require(fits, || {
            format!("the size must be one of {sizes:?} for {}", algorithm.mlir())
        })?;
        let ty = self.tensor(dims, element)?;
        ensure(OP, ty.is_static(), || format!("{ty} must have static dimensions"))?;
        ensure(OP, Kinds::INT.or(Kinds::FLOAT).has(element), || {
            format!("the element type of {ty} must be integer or float")
        })?;
        let props = Props::new().enumeration("rng_algorithm", "rng_algorithm", algorithm.mlir());
        let results = self.emit_many(OP, &[initial_state], &props, &[], &[s.ty.into(), ty.into()])?;
        Ok((results[0], results[1]))
    }
}
