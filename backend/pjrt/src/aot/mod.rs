//! Ahead-of-time compilation: a TPU topology with no TPU.
//!
//! libtpu must be loaded with [`crate::platform::AOT_ENVIRONMENT`] for this, and a process that did so can never use a
//! real TPU. So the compiler lives in a child process ([`worker`]); [`AotClient`] speaks to it over pipes.

mod client;
mod executable;
mod header;
mod protocol;
mod report;

pub mod worker;

pub use client::{AotClient, WorkerCommand};
pub use header::{ModuleAttribute, module_attributes, uses_shardy};
pub use report::report;
