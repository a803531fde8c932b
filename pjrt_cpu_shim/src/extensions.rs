//! The extension chain: the inner plugin's, less what would meet our topology and device descriptions.
//!
//! Kept as they are: Profiler, Stream, FFI, RawBuffer, ExecutableMetadata, Shardings, XlaTransform (none takes a
//! topology or device description). MemoryDescriptions is our own. Layouts is the inner plugin's but for the default
//! layout of a topology. PhaseCompile (takes topologies), CrossHostTransfers (makes buffers that would escape the
//! memory account) and kinds we do not know are dropped.

use std::ffi::c_char;

use pjrt_ffi::*;

use crate::client;
use crate::descriptions::topology_of;
use crate::entry::entries;
use crate::inner;

/// Memory kinds of every simulated device, default first, as on a TPU.
const MEMORY_KINDS: [&str; 3] = ["device", "pinned_host", "unpinned_host"];
/// Their ids: XLA's 32-bit fingerprint of the kind, the same on every platform.
pub(crate) const MEMORY_KIND_IDS: [i32; 3] = [42_097_224, 1_756_073_601, -272_058_569];

/// `PJRT_MemoryDescriptions_Extension`.
#[repr(C)]
struct MemoryDescriptions {
    base: PJRT_Extension_Base,
    describe: PjrtFn<DescribeArgs>,
    kind: PjrtFn<KindArgs>,
}

/// `PJRT_DeviceDescription_MemoryDescriptions_Args`.
#[repr(C)]
pub(crate) struct DescribeArgs {
    struct_size: usize,
    extension_start: *mut PJRT_Extension_Base,
    device_description: *mut PJRT_DeviceDescription,
    memory_descriptions: *const *const u8,
    num_memory_descriptions: usize,
    default_memory_index: usize,
}

/// `PJRT_MemoryDescription_Kind_Args`.
#[repr(C)]
pub(crate) struct KindArgs {
    struct_size: usize,
    extension_start: *mut PJRT_Extension_Base,
    memory_description: *const u8,
    kind: *const c_char,
    kind_size: usize,
    kind_id: i32,
}

/// A memory description is the address of its index here.
static INDICES: [u8; 3] = [0, 1, 2];

struct Pointers([*const u8; 3]);
// SAFETY: the pointers lead into a static that nobody writes.
unsafe impl Sync for Pointers {}
static POINTERS: Pointers = Pointers([
    &raw const INDICES[0],
    &raw const INDICES[1],
    &raw const INDICES[2],
]);

entries! {
    "PJRT_DeviceDescription_MemoryDescriptions" fn describe_memories(args: DescribeArgs, upto default_memory_index) {
        (*args).memory_descriptions = POINTERS.0.as_ptr();
        (*args).num_memory_descriptions = POINTERS.0.len();
        (*args).default_memory_index = 0;
        Ok(())
    }
    "PJRT_MemoryDescription_Kind" fn memory_kind(args: KindArgs, upto kind_id) {
        let index = POINTERS.0.iter().position(|&known| known == (*args).memory_description).ok_or_else(|| {
            crate::error::ShimError::invalid("PJRT_MemoryDescription_Kind: not a memory description of this plugin")
        })?;
        (*args).kind = MEMORY_KINDS[index].as_ptr().cast();
        (*args).kind_size = MEMORY_KINDS[index].len();
        (*args).kind_id = MEMORY_KIND_IDS[index];
        Ok(())
    }
    "PJRT_Layouts_PJRT_Topology_GetDefaultLayout"
    fn topology_layout(args: PJRT_Layouts_PJRT_Topology_GetDefaultLayout_Args, upto layout) {
        topology_of((*args).topology_description)?;
        let mut own = PJRT_Layouts_PJRT_Client_GetDefaultLayout_Args::new();
        own.client = client::hidden(1)?;
        own.type_ = (*args).type_;
        own.dims = (*args).dims;
        own.num_dims = (*args).num_dims;
        let layouts = inner::get()
            .and_then(|inner| find_extension((*inner.api).extension_start, extension_kind::LAYOUTS));
        // The entry is only in the table if the inner plugin has the extension with this function.
        if let Some(f) = layouts.and_then(|found| found.cast::<PJRT_Layouts_Extension>().as_ref().client_get_default_layout) {
            let error = f(&mut own);
            if !error.is_null() {
                return Err(crate::error::Fail::Inner(error));
            }
        }
        (*args).layout = own.layout;
        Ok(())
    }
}

const KEPT: [u32; 7] = [
    extension_kind::PROFILER,
    extension_kind::STREAM,
    extension_kind::FFI,
    extension_kind::RAW_BUFFER,
    extension_kind::EXECUTABLE_METADATA,
    extension_kind::SHARDINGS,
    extension_kind::XLA_TRANSFORM,
];

/// Builds our chain from the inner plugin's; the nodes live for the rest of the process.
pub(crate) fn chain(head: *mut PJRT_Extension_Base) -> *mut PJRT_Extension_Base {
    let mut nodes: Vec<*mut PJRT_Extension_Base> = Vec::new();
    let mut at = head;
    while !at.is_null() {
        // SAFETY: the inner plugin's chain of live nodes, each `struct_size` bytes long.
        unsafe {
            match (*at).type_ {
                extension_kind::MEMORY_DESCRIPTIONS => {
                    let base = PJRT_Extension_Base {
                        struct_size: size_of::<MemoryDescriptions>(),
                        type_: extension_kind::MEMORY_DESCRIPTIONS,
                        next: std::ptr::null_mut(),
                    };
                    let own = MemoryDescriptions {
                        base,
                        describe: describe_memories,
                        kind: memory_kind,
                    };
                    nodes.push((&raw mut *Box::leak(Box::new(own))).cast());
                }
                extension_kind::LAYOUTS => {
                    let copy = copy(at);
                    let layouts = copy.cast::<PJRT_Layouts_Extension>();
                    let end = std::mem::offset_of!(PJRT_Layouts_Extension, topology_get_default_layout)
                        + size_of::<usize>();
                    if (*at).struct_size >= end && (*layouts).client_get_default_layout.is_some() {
                        (*layouts).topology_get_default_layout = Some(topology_layout);
                    }
                    nodes.push(copy);
                }
                kind if KEPT.contains(&kind) => nodes.push(copy(at)),
                _ => {}
            }
            at = (*at).next;
        }
    }
    let mut next = std::ptr::null_mut();
    for node in nodes.into_iter().rev() {
        // SAFETY: our own copies.
        unsafe { (*node).next = next };
        next = node;
    }
    next
}

/// A copy of an extension struct, in whole words.
///
/// # Safety
/// `node` points at a live extension struct of `struct_size` bytes.
unsafe fn copy(node: *mut PJRT_Extension_Base) -> *mut PJRT_Extension_Base {
    // SAFETY: the caller vouches for `node`; the copy is at least as long.
    unsafe {
        let size = (*node).struct_size;
        let words = Box::leak(vec![0_usize; size.div_ceil(size_of::<usize>())].into_boxed_slice());
        std::ptr::copy_nonoverlapping(node.cast::<u8>(), words.as_mut_ptr().cast(), size);
        words.as_mut_ptr().cast()
    }
}
