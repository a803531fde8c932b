//! The ops: three groups of families, one family a file.

mod data;
mod formula;
mod math;
mod nn;

use crate::OpDef;

/// Elementwise math, reductions and optimizers; neural networks; indexing, shapes and random numbers.
pub(crate) const GROUPS: &[&[&[OpDef]]] = &[math::FAMILIES, nn::FAMILIES, data::FAMILIES];
