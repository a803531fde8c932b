//! The ops, one family a file, and the types of their attributes.

mod chlo;
mod collective;
mod compare;
mod constant;
mod control;
mod convert;
mod convolution;
mod custom_call;
mod dot;
mod dynamic;
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

pub use collective::{Channel, ReplicaGroups};
pub use compare::{CompareType, Direction};
pub use control::Branch;
pub use convolution::{ConvolutionDimensions, ConvolutionOptions};
pub use custom_call::{BackendConfig, CustomCall, OutputOperandAlias};
pub use dot::{DotAlgorithm, DotDimensions, DotOptions, Precision};
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
