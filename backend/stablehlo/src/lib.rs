//! A typed builder of StableHLO programs.
//!
//! Every op of the StableHLO specification, and the chlo ops that XLA's plugins accept, is a method of [`FunctionBuilder`] with the op's
//! own name (`if_` and `while_` where Rust has the word; `chlo_erf` for `chlo.erf`). Methods infer the result's shape and element type
//! by the specification's rules; what breaks one is an [`Error`] naming the op, the operand and the rule. Everything lives in an
//! [`Arena`]; a [`Value`] is a small id. [`Module`] prints as MLIR text, the same text for the same calls.
//!
//! A test in `pjrt` holds the op set against the names in the plugins themselves; [`samples`] says what each of them refuses. Quantized
//! tensors go from `uniform_quantize` to `uniform_dequantize` only: no plugin compiles any op on them, so the others refuse them.

mod attribute;
mod builder;
mod check;
mod error;
mod literal;
mod minifloat;
mod module;
pub mod ops;
mod print;
pub mod samples;
mod types;

pub use attribute::Attribute;
pub use builder::{FunctionBuilder, Value};
pub use bumpalo::Bump as Arena;
pub use dtype::{Class, ElementType};
pub use error::{Error, OperandFault, Result};
pub use literal::{Complex, Element, Number};
pub use module::{Argument, Module};
pub use types::{Dim, Dims, Quantization, Shape, TensorType, Type};
