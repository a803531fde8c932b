//! ATen operators as StableHLO.
//!
//! Each op of the table ([`find`]) is one function, `fn(&mut Cx) -> Lowered`, named as in ATen and listed at the end of its family's file.
//! One function serves all variants: `add.Tensor`, `add_.Scalar` and `add.out` all arrive at `add`, which reads its arguments by their
//! schema names and returns what the functional form returns; writing to `self` or `out` is the runtime's business.
//!
//! A lowering runs once a signature (dtypes, sizes, attributes). Numbers of type `Scalar` or `float` are program inputs, not constants,
//! unless the op's entry says that they shape the program.

mod apart;
mod call;
mod cx;
mod error;
mod layout;
mod loops;
pub mod ops;
mod promote;
mod random;
mod table;

pub use call::{Arg, Call, Dims, OutMeta, ScalarKind, ScalarRef, TensorMeta};
pub use cx::{Check, Cx, Facts, Inputs, KnownSoftmax, KnownSoftmaxGradient, KnownSum, Outputs, Produced};
pub use error::{Error, ErrorKind, Lowered, Result};
pub use layout::{AmendFn, Made};
pub use promote::{complex_of, compute_type, promote, promote_with_scalar};
pub use table::{OpDef, ShapeFn, SizesFn, all, find, functional_name};

pub use dtype::ElementType;
pub use stablehlo::Value;
