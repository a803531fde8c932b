//! Wrappers over a client that record its calls, make the nth one fail, or delay.
//!
//! Every call of the wrapped client, and of the buffers, executables and events that come from it, first asks the
//! hooks. Calls are named `Client::compile`, `Executable::execute`, `Buffer::copy_to_host`, `Event::wait` and so on.

mod hooks;
mod wrappers;

use std::fmt::Debug;
use std::sync::Arc;

pub use hooks::{Delay, FailNth, Recorder};

use crate::{Client, Result};

/// Asked before every call.
pub trait Hook: Debug + Send + Sync {
    /// Lets the call through, or ends it with an error. May block.
    fn before(&self, call: &'static str) -> Result<()>;
}

/// Wraps `client` with `hooks`, asked in order. Buffers of the wrapped and the plain client mix freely.
pub fn decorate(client: Arc<dyn Client>, hooks: Vec<Arc<dyn Hook>>) -> Arc<dyn Client> {
    Arc::new(wrappers::DecoratedClient::new(client, hooks.into()))
}
