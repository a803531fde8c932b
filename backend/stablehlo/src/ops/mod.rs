//! The ops, one family a file, and the types of their attributes.

mod asynchronous;
mod chlo;
mod chlo_broadcast;
mod chlo_structured;
mod collective;
mod compare;
mod constant;
mod control;
mod convert;
mod convolution;
mod custom_call;
mod deprecated;
mod dot;
mod dynamic;
mod einsum;
mod elementwise;
mod gather;
mod io;
mod linalg;
mod normalization;
mod quantization;
mod random;
mod reduce;
mod scatter;
mod shape;
mod slice;
mod sort;
mod tuple;
mod window;

pub use chlo_structured::RaggedDotDimensions;
pub use collective::{Channel, ReplicaGroups};
pub use compare::{CompareType, Direction};
pub use control::Branch;
pub use convolution::{ConvolutionDimensions, ConvolutionOptions};
pub use custom_call::{BackendConfig, CustomCall, OutputOperandAlias};
pub use dot::{DotAlgorithm, DotDimensions, DotOptions, Precision};
pub use elementwise::ResultAccuracy;
pub use gather::GatherDimensions;
pub use linalg::{FftType, TransposeKind};
pub use normalization::BatchNormTraining;
pub use random::{RngAlgorithm, RngDistribution};
pub use scatter::ScatterDimensions;
pub use window::Window;

/// Declares an attribute enumeration with StableHLO's spelling.
macro_rules! enumeration {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $text:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
        pub enum $name { $($(#[$vdoc])* $variant),* }

        impl $name {
            /// Every variant.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// StableHLO's spelling.
            pub const fn mlir(self) -> &'static str {
                match self { $(Self::$variant => $text),* }
            }
        }
    };
}
pub(crate) use enumeration;

/// Declares elementwise methods, each with its op and the element types it takes. The helper named first checks and emits.
macro_rules! methods {
    (unary $helper:ident: $($(#[$doc:meta])* $method:ident $op:literal $kinds:expr;)*) => {
        impl FunctionBuilder<'_> {$(
            $(#[$doc])*
            pub fn $method(&mut self, operand: Value) -> Result<Value> {
                self.$helper($op, $kinds, operand)
            }
        )*}
    };
    (accurate $helper:ident: $($(#[$doc:meta])* $method:ident $with:ident $op:literal $kinds:expr;)*) => {
        impl FunctionBuilder<'_> {$(
            $(#[$doc])*
            pub fn $method(&mut self, operand: Value) -> Result<Value> {
                self.$helper($op, $kinds, operand, ResultAccuracy::Default)
            }

            $(#[$doc])*
            /// The result is as accurate as asked for.
            pub fn $with(&mut self, operand: Value, accuracy: ResultAccuracy) -> Result<Value> {
                self.$helper($op, $kinds, operand, accuracy)
            }
        )*}
    };
    (binary $helper:ident: $($(#[$doc:meta])* $method:ident $op:literal $kinds:expr;)*) => {
        impl FunctionBuilder<'_> {$(
            $(#[$doc])*
            pub fn $method(&mut self, lhs: Value, rhs: Value) -> Result<Value> {
                self.$helper($op, $kinds, lhs, rhs)
            }
        )*}
    };
}
pub(crate) use methods;
