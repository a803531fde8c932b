//! Matrix products, convolutions, pooling, norms, softmax, losses, activations, attention, embedding.

use crate::OpDef;

pub(crate) const FAMILIES: &[&[OpDef]] = &[];
