//! Elementwise math, comparisons, reductions, scans, sorting, foreach ops and fused optimizers.

mod arithmetic;
mod bitwise;
mod common;
mod comparison;
mod division;
mod exponential;
mod rounding;
mod statistics;
mod sorting;
mod search;
mod scan;
mod reduction;
mod trigonometric;

use crate::OpDef;

pub(crate) const FAMILIES: &[&[OpDef]] = &[
    arithmetic::OPS,
    bitwise::OPS,
    comparison::OPS,
    division::OPS,
    exponential::OPS,
    rounding::OPS,
    statistics::OPS,
    sorting::OPS,
    search::OPS,
    scan::OPS,
    reduction::OPS,
    trigonometric::OPS,
];
