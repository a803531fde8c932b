//! The eager runtime: storages and views, the pending graph and its programs, the executable cache, memory accounting,
//! events and errors. It knows no torch and no Python; the bridge connects it to both.

mod cache;
mod capture;
mod client;
mod dispatch;
mod error;
mod events;
mod execute;
mod fallback;
mod fits;
mod fused;
mod glue;
mod key;
mod make;
mod memory;
mod node;
mod origin;
mod parse;
mod pending;
mod program;
mod record;
mod scalar;
mod scalar_type;
mod schema;
mod storage;
mod transfer;
mod view;
mod window;

pub use cache::{CacheStats, cache_stats, clear_cache};
pub use capture::{Capture, Ran, abandon, begin_capture, end_capture};
pub use client::{Config, Runtime, configure, in_bad_fork, runtime, runtime_if_started};
pub use dispatch::{Outcome, Returned, dispatch};
pub use error::{Error, Result};
pub use events::Event;
pub use fallback::{Policy, fallbacks, note_fallback, reset_fallbacks};
pub use fused::{FusedStats, fused_stats, wait_for_fused};
pub use glue::Glue;
pub use memory::{Amount, Usage};
pub use origin::{Line, Origin, set_line_source};
pub use record::{record_programs, take_programs};
pub use scalar_type::{code, element};
pub use schema::{OpHandle, Schema, SchemaEntry};
pub use storage::Storage;
pub use transfer::{copy, download, upload};
pub use window::{close_scope, flush_pending, open_scope};
