//! Matrix products, convolutions, pooling, norms, softmax, losses, activations, attention, embedding.

mod activation;
mod activation_grad;
mod batch_norm;
mod dot;
mod dropout;
mod ex;
mod layer_norm;
mod matmul;
mod softmax;
mod util;

use crate::OpDef;

pub(crate) const FAMILIES: &[&[OpDef]] = &[
    activation::OPS,
    activation_grad::OPS,
    batch_norm::OPS,
    dropout::OPS,
    layer_norm::OPS,
    matmul::OPS,
    softmax::OPS,
];
