//! The eager runtime: storages and views, the pending graph and its programs, the executable cache, memory accounting,
//! events and errors. It knows no torch and no Python; the bridge connects it to both.

mod cache;
mod client;
mod dispatch;
mod error;
mod events;
mod fallback;
mod key;
mod memory;
mod node;
mod origin;
mod parse;
mod program;
mod scalar;
mod scalar_type;
mod storage;
mod transfer;
mod view;

pub use cache::{CacheStats, clear_cache, cache_stats};
pub use client::{Config, Runtime, configure, in_bad_fork, runtime, runtime_if_started};
pub use dispatch::{Glue, OpHandle, Outcome, Returned, Schema, SchemaEntry, dispatch};
pub use error::{Error, Result};
pub use events::Event;
pub use fallback::{Policy, fallbacks, note_fallback, reset_fallbacks};
pub use memory::{Amount, Usage};
pub use origin::{Line, Origin, set_line_source};
pub use scalar_type::{code, element};
pub use storage::Storage;
pub use transfer::{copy, download, upload};
