//! Table entries that make and end buffers other than by execution.

use std::sync::Arc;

use parking_lot::Mutex;
use pjrt_ffi::*;
use rustc_hash::{FxBuildHasher, FxHashMap};

use crate::arguments;
use crate::async_fault::ErrorBufferArgs;
use crate::buffers::{self, Made, MadeRef, Maker, bytes_of, make, shape_of};
use crate::client::{destination, device_hbm, memory_hbm};
use crate::entry::entries;
use crate::error::Fail;
use crate::hbm::Hbm;
use crate::inner::{self, slice};

/// Buffers of an asynchronous transfer that the caller has not fetched yet; `None` once fetched.
#[derive(Debug)]
struct Pending {
    hbm: &'static Hbm,
    buffers: Vec<Option<Made>>,
}

static TRANSFERS: Mutex<FxHashMap<usize, Pending>> = Mutex::new(FxHashMap::with_hasher(FxBuildHasher));
/// Alias buffers whose memory is not there yet, by fulfil callback.
static ALIASES: Mutex<FxHashMap<usize, usize>> = Mutex::new(FxHashMap::with_hasher(FxBuildHasher));

/// `PJRT_Client_CreateUninitializedBuffer_Args`, API 0.69 on.
#[repr(C)]
pub(crate) struct UninitializedArgs {
    struct_size: usize,
    extension_start: *mut PJRT_Extension_Base,
    client: *mut PJRT_Client,
    dims: *const i64,
    num_dims: usize,
    element_type: u32,
    layout: *mut PJRT_Buffer_MemoryLayout,
    device: *mut PJRT_Device,
    memory: *mut PJRT_Memory,
    buffer: *mut PJRT_Buffer,
}

/// `PJRT_Client_CreateAliasBuffer_Args`.
#[repr(C)]
pub(crate) struct AliasArgs {
    struct_size: usize,
    extension_start: *mut PJRT_Extension_Base,
    client: *mut PJRT_Client,
    memory: *mut PJRT_Memory,
    dims: *const i64,
    num_dims: usize,
    element_type: u32,
    layout: *mut PJRT_Buffer_MemoryLayout,
    alias_buffer: *mut PJRT_Buffer,
    fulfill_alias_buffer_cb: *mut std::ffi::c_void,
}

/// `PJRT_Client_FulfillAliasBuffer_Args`.
#[repr(C)]
pub(crate) struct FulfillArgs {
    struct_size: usize,
    extension_start: *mut PJRT_Extension_Base,
    client: *mut PJRT_Client,
    buffer: *mut PJRT_Buffer,
    status_code: u32,
    error_message: *const std::ffi::c_char,
    error_message_size: usize,
    fulfill_alias_buffer_cb: *mut std::ffi::c_void,
}

/// `PJRT_Buffer_Bitcast_Args`.
#[repr(C)]
pub(crate) struct BitcastArgs {
    struct_size: usize,
    extension_start: *mut PJRT_Extension_Base,
    buffer: *mut PJRT_Buffer,
    element_type: u32,
    dims: *const i64,
    num_dims: usize,
    layout: *mut PJRT_Buffer_MemoryLayout,
    out_buffer: *mut PJRT_Buffer,
}

/// `PJRT_Buffer_DonateWithControlDependency_Args`.
#[repr(C)]
pub(crate) struct DonateArgs {
    struct_size: usize,
    extension_start: *mut PJRT_Extension_Base,
    buffer: *mut PJRT_Buffer,
    callback_data: *mut std::ffi::c_void,
    dependency_ready_callback: *mut std::ffi::c_void,
    out_buffer: *mut PJRT_Buffer,
}

/// `PJRT_ShapeSpec`.
#[repr(C)]
struct ShapeSpec {
    struct_size: usize,
    extension_start: *mut PJRT_Extension_Base,
    dims: *const i64,
    num_dims: usize,
    element_type: u32,
}

/// `PJRT_Client_CreateBuffersForAsyncHostToDevice_Args`.
#[repr(C)]
pub(crate) struct StartTransferArgs {
    struct_size: usize,
    extension_start: *mut PJRT_Extension_Base,
    client: *mut PJRT_Client,
    shape_specs: *const ShapeSpec,
    num_shape_specs: usize,
    device_layouts: *mut *mut PJRT_Buffer_MemoryLayout,
    num_device_layouts: usize,
    memory: *mut PJRT_Memory,
    transfer_manager: *mut std::ffi::c_void,
}

/// `PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer_Args`.
#[repr(C)]
pub(crate) struct RetrieveArgs {
    struct_size: usize,
    extension_start: *mut PJRT_Extension_Base,
    transfer_manager: *mut std::ffi::c_void,
    buffer_index: i32,
    buffer_out: *mut PJRT_Buffer,
}

/// `PJRT_AsyncHostToDeviceTransferManager_Destroy_Args`.
#[repr(C)]
pub(crate) struct EndTransferArgs {
    struct_size: usize,
    extension_start: *mut PJRT_Extension_Base,
    transfer_manager: *mut std::ffi::c_void,
}

unsafe extern "C" fn nothing_to_delete(_pointer: *mut std::ffi::c_void, _argument: *mut std::ffi::c_void) {}

entries! {
    "PJRT_Client_BufferFromHostBuffer" fn from_host(args: PJRT_Client_BufferFromHostBuffer_Args, upto buffer) {
        arguments::shape("PJRT_Client_BufferFromHostBuffer", (*args).type_, (*args).dims, (*args).num_dims)?;
        make(
            destination((*args).device, (*args).memory),
            || Ok(Made::new(Maker::Host, (*args).type_, slice((*args).dims, (*args).num_dims))),
            || {
                inner::call(slot::PJRT_Client_BufferFromHostBuffer, args)?;
                Ok((*args).buffer)
            },
        )
    }
    "PJRT_Client_CreateUninitializedBuffer" fn uninitialized(args: UninitializedArgs, upto buffer) {
        arguments::shape("PJRT_Client_CreateUninitializedBuffer", (*args).element_type, (*args).dims, (*args).num_dims)?;
        make(
            destination((*args).device, (*args).memory),
            || {
                let dims = slice((*args).dims, (*args).num_dims);
                Ok(Made::new(Maker::Uninitialized, (*args).element_type, dims))
            },
            || {
                inner::call(slot::PJRT_Client_CreateUninitializedBuffer, args)?;
                Ok((*args).buffer)
            },
        )
    }
    "PJRT_Client_CreateViewOfDeviceBuffer" fn create_view(args: PJRT_Client_CreateViewOfDeviceBuffer_Args, upto buffer) {
        const CALL: &str = "PJRT_Client_CreateViewOfDeviceBuffer";
        arguments::shape(CALL, (*args).element_type, (*args).dims, (*args).num_dims)?;
        let bytes = bytes_of((*args).element_type, slice((*args).dims, (*args).num_dims));
        arguments::memory(CALL, (*args).device_buffer_ptr, bytes)?;
        // The CPU plugin calls the callback unasked and takes the process down when there is none.
        let own = (*args).on_delete_callback;
        (*args).on_delete_callback = own.or(Some(nothing_to_delete));
        let result = inner::call(slot::PJRT_Client_CreateViewOfDeviceBuffer, args);
        (*args).on_delete_callback = own;
        result
    }
    "PJRT_Client_CreateErrorBuffer" fn create_error(args: ErrorBufferArgs, upto buffer) {
        arguments::error_code("PJRT_Client_CreateErrorBuffer", (*args).code)?;
        arguments::shape("PJRT_Client_CreateErrorBuffer", (*args).element_type, (*args).dims, (*args).num_dims)?;
        inner::call(slot::PJRT_Client_CreateErrorBuffer, args)
    }
    "PJRT_Client_CreateAliasBuffer" fn create_alias(args: AliasArgs, upto fulfill_alias_buffer_cb) {
        arguments::shape("PJRT_Client_CreateAliasBuffer", (*args).element_type, (*args).dims, (*args).num_dims)?;
        inner::call(slot::PJRT_Client_CreateAliasBuffer, args)?;
        ALIASES.lock().insert((*args).fulfill_alias_buffer_cb as usize, (*args).alias_buffer as usize);
        Ok(())
    }
    "PJRT_Client_FulfillAliasBuffer" fn fulfill_alias(args: FulfillArgs, upto fulfill_alias_buffer_cb) {
        let alias = ALIASES.lock().remove(&((*args).fulfill_alias_buffer_cb as usize));
        inner::call(slot::PJRT_Client_FulfillAliasBuffer, args)?;
        if let (Some(alias), 0) = (alias, (*args).status_code) {
            buffers::share((*args).buffer, alias as *const PJRT_Buffer);
        }
        Ok(())
    }
    "PJRT_Buffer_Bitcast" fn bitcast(args: BitcastArgs, upto out_buffer) {
        const CALL: &str = "PJRT_Buffer_Bitcast";
        arguments::shape(CALL, (*args).element_type, (*args).dims, (*args).num_dims)?;
        arguments::alive(CALL, (*args).buffer)?;
        let old = shape_of((*args).buffer, Maker::Copy)?;
        arguments::same_size(
            CALL,
            (old.element_type, &old.dims),
            ((*args).element_type, slice((*args).dims, (*args).num_dims)),
        )?;
        inner::call(slot::PJRT_Buffer_Bitcast, args)?;
        hand_over((*args).buffer, (*args).out_buffer)
    }
    "PJRT_Buffer_DonateWithControlDependency" fn donate(args: DonateArgs, upto out_buffer) {
        inner::call(slot::PJRT_Buffer_DonateWithControlDependency, args)?;
        hand_over((*args).buffer, (*args).out_buffer)
    }
    "PJRT_Buffer_CopyToDevice" fn copy_to_device(args: PJRT_Buffer_CopyToDevice_Args, upto dst_buffer) {
        make(device_hbm((*args).dst_device), || shape_of((*args).buffer, Maker::Copy), || {
            inner::call(slot::PJRT_Buffer_CopyToDevice, args)?;
            Ok((*args).dst_buffer)
        })
    }
    "PJRT_Buffer_CopyToMemory" fn copy_to_memory(args: PJRT_Buffer_CopyToMemory_Args, upto dst_buffer) {
        make(memory_hbm((*args).dst_memory), || shape_of((*args).buffer, Maker::Copy), || {
            inner::call(slot::PJRT_Buffer_CopyToMemory, args)?;
            Ok((*args).dst_buffer)
        })
    }
    "PJRT_Buffer_Delete" fn delete(args: PJRT_Buffer_Delete_Args, upto buffer) {
        inner::call(slot::PJRT_Buffer_Delete, args)?;
        buffers::remove((*args).buffer);
        Ok(())
    }
    "PJRT_Buffer_Destroy" fn destroy(args: PJRT_Buffer_Destroy_Args, upto buffer) {
        // Before the inner plugin frees it: the address may come back at once in another thread.
        buffers::remove((*args).buffer);
        inner::call(slot::PJRT_Buffer_Destroy, args)
    }
    "PJRT_Client_CreateBuffersForAsyncHostToDevice"
    fn start_transfer(args: StartTransferArgs, upto transfer_manager) {
        const CALL: &str = "PJRT_Client_CreateBuffersForAsyncHostToDevice";
        arguments::list(CALL, "shape_specs", (*args).shape_specs, (*args).num_shape_specs)?;
        let specs = slice((*args).shape_specs, (*args).num_shape_specs);
        for spec in specs {
            arguments::shape(CALL, spec.element_type, spec.dims, spec.num_dims)?;
        }
        let Some(hbm) = memory_hbm((*args).memory) else {
            return inner::call(slot::PJRT_Client_CreateBuffersForAsyncHostToDevice, args);
        };
        let made: Vec<Made> = specs
            .iter()
            .map(|spec| Made::new(Maker::Transfer, spec.element_type, slice(spec.dims, spec.num_dims)))
            .collect();
        let undo = |count: usize| made[..count].iter().for_each(|made| hbm.release(made.bytes()));
        for (at, shape) in made.iter().enumerate() {
            if let Err(error) = buffers::take(hbm, shape.bytes(), shape) {
                undo(at);
                return Err(error.into());
            }
        }
        if let Err(error) = inner::call(slot::PJRT_Client_CreateBuffersForAsyncHostToDevice, args) {
            undo(made.len());
            return Err(error);
        }
        hbm.count(made.len() as u64, made.iter().map(Made::bytes).max().unwrap_or(0));
        let buffers = made.into_iter().map(Some).collect();
        TRANSFERS.lock().insert((*args).transfer_manager as usize, Pending { hbm, buffers });
        Ok(())
    }
    "PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer"
    fn retrieve(args: RetrieveArgs, upto buffer_out) {
        inner::call(slot::PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer, args)?;
        let mut transfers = TRANSFERS.lock();
        let Some(pending) = transfers.get_mut(&((*args).transfer_manager as usize)) else { return Ok(()) };
        let index = usize::try_from((*args).buffer_index).unwrap_or(usize::MAX);
        if let Some(made) = pending.buffers.get_mut(index).and_then(Option::take) {
            buffers::insert((*args).buffer_out, pending.hbm, made.bytes(), MadeRef::Counted(Arc::new(made)));
        }
        Ok(())
    }
    "PJRT_AsyncHostToDeviceTransferManager_Destroy"
    fn end_transfer(args: EndTransferArgs, upto transfer_manager) {
        let pending = TRANSFERS.lock().remove(&((*args).transfer_manager as usize));
        if let Some(pending) = pending {
            pending.buffers.iter().flatten().for_each(|made| pending.hbm.release(made.bytes()));
        }
        inner::call(slot::PJRT_AsyncHostToDeviceTransferManager_Destroy, args)
    }
}

/// After a call that made `new` out of `old`: both hold the memory, or only `new` if `old` was used up.
fn hand_over(old: *mut PJRT_Buffer, new: *mut PJRT_Buffer) -> Result<(), Fail> {
    buffers::share(old, new);
    let mut deleted = PJRT_Buffer_IsDeleted_Args::new();
    deleted.buffer = old;
    inner::call(slot::PJRT_Buffer_IsDeleted, &mut deleted)?;
    if deleted.is_deleted {
        buffers::remove(old);
    }
    Ok(())
}
