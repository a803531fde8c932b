//! The conformance suite: every entry of PyTorch's test databases, run on the device and held against CPU torch.
//!
//! A test is one process of `cargo nextest` and costs milliseconds: torch and the device live in workers that a daemon
//! keeps ([`daemon`]), and the test only asks it ([`client`]). What the daemon answers goes into a [`report`].

pub mod client;
pub mod compiler;
pub mod coverage;
pub mod daemon;
pub mod diff;
mod error;
pub mod exceptions;
pub mod layout;
pub mod list;
pub mod name;
mod pool;
mod process;
pub mod report;
pub mod select;
pub mod wire;

pub use error::{Error, Result};
