//! Creation, copies, shapes, indexing, scatter and gather, random numbers, complex parts, data-dependent sizes.

use crate::OpDef;

pub(crate) const FAMILIES: &[&[OpDef]] = &[];
