//! Matrix products, convolutions, pooling, norms, softmax, losses, activations, attention, embedding.

mod activation;
mod activation_grad;
mod attention;
mod batch_norm;
mod convolution;
mod ctc_loss;
mod distance;
mod dot;
mod dropout;
mod embedding;
mod embedding_bag;
mod ex;
mod grid_sampler;
mod layer_norm;
mod loss;
mod matmul;
mod nll_loss;
mod padding;
mod pool_avg;
mod pool_fractional;
mod pool_max;
mod rnn_cell;
mod scaled_mm;
mod scatter;
mod shuffle;
mod softmax;
mod unfold;
mod upsample;
mod util;

use crate::OpDef;

pub(crate) const FAMILIES: &[&[OpDef]] = &[
    activation::OPS,
    activation_grad::OPS,
    attention::OPS,
    batch_norm::OPS,
    convolution::OPS,
    ctc_loss::OPS,
    distance::OPS,
    dropout::OPS,
    embedding::OPS,
    embedding_bag::OPS,
    grid_sampler::OPS,
    layer_norm::OPS,
    loss::OPS,
    matmul::OPS,
    nll_loss::OPS,
    padding::OPS,
    pool_avg::OPS,
    pool_fractional::OPS,
    pool_max::OPS,
    rnn_cell::OPS,
    scaled_mm::OPS,
    shuffle::OPS,
    softmax::OPS,
    unfold::OPS,
    upsample::OPS,
];
