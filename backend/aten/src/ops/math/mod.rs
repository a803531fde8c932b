//! Elementwise math, comparisons, reductions, scans, sorting, foreach ops and fused optimizers.

mod amp;
mod arithmetic;
mod bessel;
mod bitwise;
mod common;
mod comparison;
mod division;
mod exponential;
mod foreach;
mod optimizer;
mod reduction;
mod rounding;
mod scan;
mod search;
mod sorting;
mod special;
mod statistics;
mod trigonometric;
mod zeta;

use crate::OpDef;

pub(crate) const FAMILIES: &[&[OpDef]] = &[
    amp::OPS,
    arithmetic::OPS,
    bessel::OPS,
    bitwise::OPS,
    comparison::OPS,
    division::OPS,
    exponential::OPS,
    foreach::OPS,
    optimizer::OPS,
    rounding::OPS,
    statistics::OPS,
    sorting::OPS,
    special::OPS,
    search::OPS,
    scan::OPS,
    reduction::OPS,
    trigonometric::OPS,
];
