//! Reads optimized HLO modules, as plugins hand them out: what a program takes and gives
//! ([`signature`]), what it costs ([`cost`]), and what Google's TPU compiler says of it ([`report`]).

pub mod cost;
mod index;
mod loops;
pub mod module;
pub mod report;
mod shape;
mod signature;

pub use cost::Cost;
pub use module::{Error, Module};
pub use shape::element_type;
pub use signature::{Alias, ArrayShape, Signature, signature};

#[cfg(test)]
mod testing;
