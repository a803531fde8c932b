//! Elementwise math, comparisons, reductions, scans, sorting, foreach ops and fused optimizers.

mod airy;
mod amp;
mod arithmetic;
mod bessel;
mod bessel_ordinary;
mod bessel_second;
mod bitwise;
mod common;
mod comparison;
mod division;
mod exponential;
mod foreach;
mod histogram;
mod incomplete_gamma;
mod optimizer;
mod polynomials;
mod reduction;
mod rounding;
mod scan;
mod search;
mod segment;
mod sorting;
mod special;
mod statistics;
mod trigonometric;
mod zeta;

use crate::OpDef;

pub(crate) const FAMILIES: &[&[OpDef]] = &[
    airy::OPS,
    amp::OPS,
    arithmetic::OPS,
    bessel::OPS,
    bessel_ordinary::OPS,
    bessel_second::OPS,
    bitwise::OPS,
    comparison::OPS,
    division::OPS,
    exponential::OPS,
    foreach::OPS,
    histogram::OPS,
    incomplete_gamma::OPS,
    optimizer::OPS,
    polynomials::OPS,
    rounding::OPS,
    statistics::OPS,
    segment::OPS,
    sorting::OPS,
    special::OPS,
    search::OPS,
    scan::OPS,
    reduction::OPS,
    trigonometric::OPS,
];
