//! The eager runtime: storages and views, the pending graph and its programs, the executable cache, memory accounting,
//! events and errors. It knows no torch and no Python; the bridge connects it to both.

mod cache;
mod capture;
mod client;
mod disk;
mod dispatch;
mod donate;
mod error;
mod events;
mod execute;
mod explain;
mod fallback;
mod fits;
mod fused;
mod glue;
mod halves;
mod identity;
mod key;
mod make;
mod memory;
mod node;
mod origin;
mod parse;
mod pending;
mod program;
mod record;
mod region;
mod scalar;
mod scalar_type;
mod schema;
mod storage;
mod transfer;
mod view;
mod window;

pub use cache::{CacheStats, cache_stats, clear_cache, clear_disk};
pub use capture::{
    Capture, Ran, abandon, begin_capture, begin_dry, capturing, end_capture, end_dry, end_step, in_step,
};
pub use client::{Config, Runtime, configure, in_bad_fork, runtime, runtime_if_started};
pub use disk::cache_folder;
pub use dispatch::{Outcome, Returned, dispatch};
pub use error::{Error, Result};
pub use events::Event;
pub use explain::{Recompile, forget_recompiles, recompiles};
pub use fallback::{Policy, fallbacks, note_fallback, reset_fallbacks};
pub use fused::{FusedStats, fused_stats, stop_fused, wait_for_fused};
pub use glue::Glue;
pub use identity::{compile_options, keep};
pub use memory::{Amount, Usage};
pub use origin::{Issued, Line, Origin, set_line_source};
pub use record::{record_programs, take_programs};
pub use region::{Known, abandon_loop, begin_loop, end_condition, end_loop, known_to_loop};
pub use scalar_type::{code, element};
pub use schema::{OpHandle, Schema, SchemaEntry};
pub use storage::Storage;
pub use transfer::{copy, download, upload};
pub use window::{close_scope, flush_pending, open_scope};
