//! One client trait over every way to run or compile a TPU program.
//!
//! [`Client`], [`Device`], [`Memory`], [`Buffer`], [`Executable`], [`Event`] and [`Topology`] are object-safe; the
//! layers above hold `Arc<dyn _>` and never learn which target they drive. Implementations:
//!
//! - [`plugin::PluginClient`]: any PJRT plugin through the C API (libtpu, the simulator, the CPU plugins);
//! - [`aot::AotClient`]: a TPU topology with no TPU. Compiles, reports and serializes; refuses to execute;
//! - [`decorate`]: wrappers that record calls, fail the nth call with a given code, or delay.

mod buffer;
mod client;
mod error;
mod executable;
mod host;
mod named_value;
mod options;
mod shape;
mod topology;

pub mod aot;
pub mod decorate;
pub mod platform;
pub mod plugin;

pub use buffer::{Buffer, Event, ExternalReference, HostRead};
pub use client::{Client, Device, Memory, MemoryStats, Placement};
pub use dtype::ElementType;
pub use error::{Code, Error, Result};
pub use executable::{CompiledMemoryStats, Executable, ExecuteOptions, Execution, OptimizedProgram, Program};
pub use host::{HostArray, SharedBytes, dense_strides, gather_strided, scatter_strided};
pub use named_value::NamedValue;
pub use options::{CompileOptions, OptionValue};
pub use shape::{Shape, Signature};
pub use topology::{DeviceDescription, Topology};
