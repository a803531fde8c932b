//! The Rust half of a glue library: it is opened by the core, compares versions, and starts the C++ half.

use std::ffi::c_char;

use glue_abi::{ABI_VERSION, CoreTable, GlueTable, LAYOUT};

// What the macro writes is public inside this private module.
#[allow(unreachable_pub)]
#[cxx::bridge(namespace = "tpu")]
mod ffi {
    unsafe extern "C++" {
        include!("table.h");
        /// Registers with torch. An exception becomes an `Err` with its text.
        fn start(core_table: usize) -> Result<usize>;
    }
}

/// Called once by the core: gives its table and takes this library's. Null on failure; then `error` holds up to
/// `capacity` bytes of a reason, ended by a zero.
///
/// # Safety
/// `core` lives as long as the process; `layout` points to as many numbers as [`LAYOUT`] has; `error` to `capacity`
/// writable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torch_tpu_glue_open(
    core: *const CoreTable,
    layout: *const u32,
    error: *mut c_char,
    capacity: usize,
) -> *const GlueTable {
    // SAFETY: the caller's promise.
    let (version, theirs) = unsafe { ((*core).version, std::slice::from_raw_parts(layout, LAYOUT.len())) };
    let opened = if version != ABI_VERSION || theirs != LAYOUT {
        Err(format!(
            "the glue speaks version {ABI_VERSION} of the core's table, the core version {version}: \
             they are from different builds; build or install torch_tpu again"
        ))
    } else {
        ffi::start(core as usize).map_err(|e| e.what().to_owned())
    };
    match opened {
        Ok(table) => table as *const GlueTable,
        Err(text) => {
            let text = &text.as_bytes()[..text.len().min(capacity.saturating_sub(1))];
            if capacity > 0 {
                // SAFETY: `text` and the zero fit into `capacity`.
                unsafe {
                    std::ptr::copy_nonoverlapping(text.as_ptr(), error.cast::<u8>(), text.len());
                    *error.add(text.len()) = 0;
                }
            }
            std::ptr::null()
        }
    }
}
