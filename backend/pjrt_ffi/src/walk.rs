//! Guards: which table entries and extensions a plugin really has.

use std::ffi::c_void;
use std::ptr::NonNull;

use crate::{PJRT_Api, PJRT_Extension_Base};

/// Whether the entry at byte `offset` of the plugin's table lies inside its `struct_size`.
pub fn api_has(api: &PJRT_Api, offset: usize) -> bool {
    offset + size_of::<*const c_void>() <= api.struct_size
}

/// The function pointer at byte `offset` of the table, or `None` when the plugin is older or left it null.
///
/// # Safety
/// `api` must point at a whole table of `struct_size` bytes, as a plugin's `GetPjrtApi` returns it.
pub unsafe fn api_fn_at(api: NonNull<PJRT_Api>, offset: usize) -> Option<NonNull<c_void>> {
    // SAFETY: the caller vouches for the table; `struct_size` is its second word in every version.
    let has = unsafe { api_has(api.as_ref(), offset) };
    if !has {
        return None;
    }
    // SAFETY: the entry lies inside the table and every entry is one pointer.
    NonNull::new(unsafe { api.as_ptr().cast::<u8>().add(offset).cast::<*mut c_void>().read() })
}

/// The first extension of `kind` in the chain that starts at `head`.
///
/// # Safety
/// `head` is null or the start of a chain of live extension structs.
pub unsafe fn find_extension(
    head: *mut PJRT_Extension_Base,
    kind: u32,
) -> Option<NonNull<PJRT_Extension_Base>> {
    let mut at = head;
    while let Some(node) = NonNull::new(at) {
        // SAFETY: the caller vouches for every node of the chain.
        let base = unsafe { node.as_ref() };
        if base.type_ == kind {
            return Some(node);
        }
        at = base.next;
    }
    None
}
