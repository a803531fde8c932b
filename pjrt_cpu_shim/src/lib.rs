//! A PJRT plugin that makes the public XLA CPU plugin look and fail like a TPU slice.
//!
//! [`GetPjrtApi`] loads the CPU plugin, copies its function table and replaces the entries that would give it away:
//! device kinds, coordinates and topology, HBM accounting with a limit, cost analysis, compiling without a client.
//! All else goes straight through, and objects of the inner plugin keep their addresses. JAX and any other PJRT
//! client can load the result; `docs/simulator.md` tells what users set.
//!
//! - [`topology`]: slices by name
//! - [`fault`]: the grammar of `TORCH_TPU_SIM_FAULT`
//! - [`locate`]: where the CPU plugin is looked for
//! - [`error`]: errors and their C objects

use std::sync::OnceLock;

use pjrt_ffi::PJRT_Api;

mod arguments;
mod async_fault;
mod buffers;
mod client;
pub mod config;
mod descriptions;
mod entry;
pub mod error;
mod execute;
mod extensions;
pub mod fault;
mod hbm;
mod inner;
mod known;
pub mod locate;
mod named;
mod program;
mod signature;
mod table;
pub mod topology;
mod trampoline;
mod transfer;

pub use descriptions::PLATFORM_NAME;

use config::Config;
use error::{Code, ShimError};
use table::Table;

static CONFIG: OnceLock<Config> = OnceLock::new();
static TABLE: OnceLock<Table> = OnceLock::new();

/// The plugin's function table.
///
/// It is never null: when the environment is malformed or no CPU plugin is found, every call of the table fails with
/// an error that says so.
#[unsafe(no_mangle)]
pub extern "C" fn GetPjrtApi() -> *const PJRT_Api {
    let build = || {
        TABLE.get_or_init(|| match set_up() {
            Ok(table) => table,
            Err(why) => table::broken(why),
        })
    };
    match std::panic::catch_unwind(build) {
        Ok(table) => table.as_ptr(),
        Err(_) => TABLE
            .get_or_init(|| {
                table::broken(ShimError::new(
                    Code::Internal,
                    "tpu_sim panicked while it was set up",
                ))
            })
            .as_ptr(),
    }
}

fn set_up() -> Result<Table, ShimError> {
    let config = Config::from_env()?;
    let inner = locate::load()?;
    let config = CONFIG.get_or_init(|| config);
    Ok(table::working(inner, &config.faults))
}

/// What the environment asked for when the plugin was loaded.
fn config() -> Result<&'static Config, ShimError> {
    CONFIG
        .get()
        .ok_or_else(|| ShimError::new(Code::Internal, "tpu_sim is not set up"))
}
