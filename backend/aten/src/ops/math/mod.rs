//! Elementwise math, comparisons, reductions, scans, sorting, foreach ops and fused optimizers.

mod arithmetic;

use crate::OpDef;

pub(crate) const FAMILIES: &[&[OpDef]] = &[arithmetic::OPS];
