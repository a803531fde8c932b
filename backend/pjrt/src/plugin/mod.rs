//! Any PJRT plugin through the C API.
//!
//! `unsafe` of this crate lives in this folder and in `named_value`. The invariants that its blocks rely on:
//!
//! 1. A plugin, once loaded, is never unloaded, so its table and its functions live for the process.
//! 2. Every wrapper owns its handle (destroyed in `drop`) and holds its client, so a handle is live while its wrapper
//!    is, and a client is destroyed after all that came from it.
//! 3. Argument structs are zeroed but for `struct_size` and what the call documents as input.

mod buffer;
mod client;
mod device;
mod event;
mod executable;
mod layouts;
mod library;
mod topology;

use pjrt_ffi::{PJRT_Api, PjrtFn};

pub use client::{ClientOptions, PluginClient};
pub use library::{ExtensionInfo, Plugin};
pub use topology::PluginTopology;

/// Calls an entry of the table by name; `Err` when the plugin lacks it or reports an error.
///
/// Callers keep the invariants above: every handle in `$args` is live and every slice outlives the call.
macro_rules! pjrt_call {
    ($plugin:expr, $name:ident, $args:expr) => {{
        let plugin: &$crate::plugin::Plugin = $plugin;
        let entry = if plugin.has(std::mem::offset_of!(pjrt_ffi::PJRT_Api, $name)) {
            // SAFETY: the entry lies inside the plugin's table (invariant 1).
            unsafe { (*plugin.api()).$name }
        } else {
            None
        };
        match entry {
            // SAFETY: invariants 2 and 3.
            Some(function) => plugin.check(stringify!($name), unsafe { function($args) }),
            None => Err(plugin.unsupported(stringify!($name))),
        }
    }};
}

/// Calls an entry newer than the 0.54 header by its place in the table.
macro_rules! pjrt_call_new {
    ($plugin:expr, $name:ident, $args:expr) => {{
        let plugin: &$crate::plugin::Plugin = $plugin;
        plugin.call_slot(stringify!($name), pjrt_ffi::slot::$name, $args)
    }};
}

/// Asks about a handle: `ask!(plugin, PJRT_Buffer_Device, buffer = raw)` calls with an argument struct that holds nothing
/// but the handle, and gives the struct with the answer in it.
macro_rules! ask {
    ($plugin:expr, $name:ident, $handle:ident = $raw:expr) => {{
        let mut args = $crate::plugin::blank(|api| api.$name);
        args.$handle = $raw;
        $crate::plugin::pjrt_call!($plugin, $name, &mut args).map(|()| args)
    }};
}

/// The empty argument struct of an entry that `of` picks from the table.
pub(crate) fn blank<A: Default>(_of: fn(&PJRT_Api) -> Option<PjrtFn<A>>) -> A {
    let mut args = A::default();
    // SAFETY: what an entry of the table takes starts with `struct_size`.
    unsafe { (&raw mut args).cast::<usize>().write(size_of::<A>()) };
    args
}

/// Calls a table function that returns nothing to check (`Error_*` aside, destructors).
macro_rules! pjrt_destroy {
    ($plugin:expr, $name:ident, $args:expr) => {{
        if let Err(error) = $crate::plugin::pjrt_call!($plugin, $name, $args) {
            tracing::warn!(%error, "a PJRT handle could not be destroyed");
        }
    }};
}

pub(crate) use {ask, pjrt_call, pjrt_call_new, pjrt_destroy};
