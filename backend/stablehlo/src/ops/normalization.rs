//! batch_norm_inference, batch_norm_training, batch_norm_grad.

use crate::attribute::{Attribute, Props};
use crate::check::{Kinds, Operand};
use crate::{FunctionBuilder, Result, TensorType, Value};

/// What `batch_norm_training` gives.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct BatchNormTraining {
    /// The normalized operand.
    pub output: Value,
    /// The mean of each feature.
    pub batch_mean: Value,
    /// The variance of each feature.
    pub batch_var: Value,
}

/// Checks vectors with one element a feature; their type.
fn features<'a>(
    f: &FunctionBuilder<'a>,
    o: &Operand<'a>,
    feature_index: i64,
    vectors: &[Operand<'a>],
) -> Result<TensorType<'a>> {
    o.kinds(Kinds::FLOAT)?;
    let axis = o.axis("feature_index", feature_index)?;
    for v in vectors {
        v.ranked(1)?;
        v.same_element(o)?;
        v.require(v.dims[0].merge(o.dims[axis]).is_some(), || {
            format!(
                "must have one element a feature, as dimension {axis} of operand 0 `operand` ({})",
                o.ty
            )
        })?;
    }
    Ok(f.result(&[o.dims[axis]], o.element))
}

fn props(epsilon: f32, feature_index: i64) -> Props {
    Props::new()
        .raw("epsilon", Attribute::F32(epsilon))
        .i64("feature_index", feature_index)
}

impl FunctionBuilder<'_> {
    /// Normalizes with given means and variances.
    #[expect(clippy::too_many_arguments, reason = "the op's own operands and attributes")]
    pub fn batch_norm_inference(
        &mut self,
        operand: Value,
        scale: Value,
        offset: Value,
        mean: Value,
        variance: Value,
        epsilon: f32,
        feature_index: i64,
    ) -> Result<Value> {
        const OP: &str = "stablehlo.batch_norm_inference";
        let o = self.operand(OP, 0, "operand", operand)?;
        let vectors = [
            self.operand(OP, 1, "scale", scale)?,
            self.operand(OP, 2, "offset", offset)?,
            self.operand(OP, 3, "mean", mean)?,
            self.operand(OP, 4, "variance", variance)?,
        ];
        features(self, &o, feature_index, &vectors)?;
        self.emit(
            OP,
            &[operand, scale, offset, mean, variance],
            &props(epsilon, feature_index),
            o.ty,
        )
    }

    /// Normalizes with the batch's own means and variances.
    pub fn batch_norm_training(
        &mut self,
        operand: Value,
        scale: Value,
        offset: Value,
        epsilon: f32,
        feature_index: i64,
    ) -> Result<BatchNormTraining> {
        const OP: &str = "stablehlo.batch_norm_training";
        let o = self.operand(OP, 0, "operand", operand)?;
        let vectors = [
            self.operand(OP, 1, "scale", scale)?,
            self.operand(OP, 2, "offset", offset)?,
        ];
        let vector = features(self, &o, feature_index, &vectors)?.into();
        let r = self.emit_many(
            OP,
            &[operand, scale, offset],
            &props(epsilon, feature_index),
            &[],
            &[o.ty.into(), vector, vector],
        )?;
        Ok(BatchNormTraining {
            output: r[0],
            batch_mean: r[1],
            batch_var: r[2],
        })
    }

    /// The gradients for operand, scale and offset.
    #[expect(clippy::too_many_arguments, reason = "the op's own operands and attributes")]
    pub fn batch_norm_grad(
        &mut self,
        operand: Value,
        scale: Value,
        mean: Value,
        variance: Value,
        grad_output: Value,
        epsilon: f32,
        feature_index: i64,
    ) -> Result<[Value; 3]> {
        const OP: &str = "stablehlo.batch_norm_grad";
        let o = self.operand(OP, 0, "operand", operand)?;
        let vectors = [
            self.operand(OP, 1, "scale", scale)?,
            self.operand(OP, 2, "mean", mean)?,
            self.operand(OP, 3, "variance", variance)?,
        ];
        let g = self.operand(OP, 4, "grad_output", grad_output)?;
        g.same_element(&o)?;
        g.merge_shape(&o)?;
        let vector = features(self, &o, feature_index, &vectors)?.into();
        let r = self.emit_many(
            OP,
            &[operand, scale, mean, variance, grad_output],
            &props(epsilon, feature_index),
            &[],
            &[o.ty.into(), vector, vector],
        )?;
        Ok([r[0], r[1], r[2]])
    }
}
