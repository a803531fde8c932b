//! Creation, copies, shapes, indexing, scatter and gather, random numbers, complex parts, data-dependent sizes.

mod along;
mod along_dim;
mod creation;
mod dft;
mod diagonals;
mod dynamic_sizes;
mod eig;
mod fft;
mod gather_scatter;
mod indexing;
mod ldl;
mod lstsq;
mod lu;
mod masked;
mod matrices;
mod one_hot;
mod orthogonal;
mod polar;
mod random;
mod sampler_grads;
mod samplers;
mod shapes;
mod svd;
mod triangular;
mod unique;
mod util;
mod view_grads;

use crate::OpDef;

pub(crate) const FAMILIES: &[&[OpDef]] = &[
    creation::OPS,
    shapes::OPS,
    diagonals::OPS,
    view_grads::OPS,
    indexing::OPS,
    along_dim::OPS,
    gather_scatter::OPS,
    masked::OPS,
    dynamic_sizes::OPS,
    one_hot::OPS,
    unique::OPS,
    random::OPS,
    samplers::OPS,
    sampler_grads::OPS,
    fft::OPS,
    triangular::OPS,
    lu::OPS,
    orthogonal::OPS,
    svd::OPS,
    eig::OPS,
    ldl::OPS,
    lstsq::OPS,
    polar::OPS,
];
