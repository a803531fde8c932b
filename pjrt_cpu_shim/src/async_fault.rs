//! Asynchronous faults: the call has succeeded; its buffers and events are swapped for ones that carry an error.

use std::ffi::c_void;

use pjrt_ffi::*;

use crate::buffers::{self, Maker, shape_of};
use crate::error::{Code, Fail, ShimError};
use crate::inner;

/// `PJRT_Client_CreateErrorBuffer_Args` up to the fields of API 0.106.
#[repr(C)]
pub(crate) struct ErrorBufferArgs {
    pub(crate) struct_size: usize,
    extension_start: usize,
    client: *mut PJRT_Client,
    pub(crate) code: u32,
    message: *const u8,
    message_size: usize,
    pub(crate) dims: *const i64,
    pub(crate) num_dims: usize,
    pub(crate) element_type: u32,
    layout: *mut PJRT_Buffer_MemoryLayout,
    memory: *mut PJRT_Memory,
    pub(crate) buffer: *mut PJRT_Buffer,
    payload: usize,
    num_payload: usize,
}

/// `PJRT_Event_Create_Args`.
#[repr(C)]
struct EventCreateArgs {
    struct_size: usize,
    extension_start: usize,
    event: *mut PJRT_Event,
}

/// `PJRT_Event_Set_Args`.
#[repr(C)]
struct EventSetArgs {
    struct_size: usize,
    extension_start: usize,
    event: *mut PJRT_Event,
    code: u32,
    message: *const u8,
    message_size: usize,
}

/// Replaces what the successful call `slot` promised by failures.
///
/// # Safety
/// `args` is the argument struct of a call of `slot` that has just succeeded.
pub(crate) unsafe fn replace_results(slot: usize, args: *mut c_void, error: &ShimError) -> Result<(), Fail> {
    // SAFETY: the caller vouches that the struct is of this type and filled in.
    unsafe {
        match slot {
            slot::PJRT_LoadedExecutable_Execute => {
                let args = args.cast::<PJRT_LoadedExecutable_Execute_Args>();
                let outputs = number_of_outputs((*args).executable)?;
                for row in 0..(*args).num_devices {
                    let made = *(*args).output_lists.add(row);
                    for output in 0..outputs {
                        replace_buffer(&mut *made.add(output), error)?;
                    }
                    if !(*args).device_complete_events.is_null() {
                        replace_event(&mut *(*args).device_complete_events.add(row), error)?;
                    }
                }
                Ok(())
            }
            slot::PJRT_Client_BufferFromHostBuffer => {
                let args = args.cast::<PJRT_Client_BufferFromHostBuffer_Args>();
                replace_buffer(&mut (*args).buffer, error)
            }
            slot::PJRT_Buffer_CopyToDevice => {
                let args = args.cast::<PJRT_Buffer_CopyToDevice_Args>();
                replace_buffer(&mut (*args).dst_buffer, error)
            }
            slot::PJRT_Buffer_CopyToMemory => {
                let args = args.cast::<PJRT_Buffer_CopyToMemory_Args>();
                replace_buffer(&mut (*args).dst_buffer, error)
            }
            slot::PJRT_Buffer_ToHostBuffer => {
                let args = args.cast::<PJRT_Buffer_ToHostBuffer_Args>();
                if (*args).dst.is_null() {
                    // Only the size was asked for: there is no event.
                    return Ok(());
                }
                replace_event(&mut (*args).event, error)
            }
            _ => {
                Err(ShimError::new(Code::Internal, format!("slot {slot} has no asynchronous results")).into())
            }
        }
    }
}

fn number_of_outputs(loaded: *mut PJRT_LoadedExecutable) -> Result<usize, Fail> {
    let mut executable = PJRT_LoadedExecutable_GetExecutable_Args::new();
    executable.loaded_executable = loaded;
    inner::call(slot::PJRT_LoadedExecutable_GetExecutable, &mut executable)?;
    let mut count = PJRT_Executable_NumOutputs_Args::new();
    count.executable = executable.executable;
    let counted = inner::call(slot::PJRT_Executable_NumOutputs, &mut count);
    let mut destroy = PJRT_Executable_Destroy_Args::new();
    destroy.executable = executable.executable;
    inner::call(slot::PJRT_Executable_Destroy, &mut destroy)?;
    counted.map(|()| count.num_outputs)
}

/// Destroys `buffer` and puts one in its place that is of the same shape and holds the error.
fn replace_buffer(buffer: &mut *mut PJRT_Buffer, error: &ShimError) -> Result<(), Fail> {
    let old = *buffer;
    let shape = shape_of(old, Maker::Host)?;
    let mut memory = PJRT_Buffer_Memory_Args::new();
    memory.buffer = old;
    inner::call(slot::PJRT_Buffer_Memory, &mut memory)?;
    let client = crate::client::of_memory(memory.memory)?;
    let mut args = ErrorBufferArgs {
        struct_size: size_of::<ErrorBufferArgs>(),
        extension_start: 0,
        client,
        code: error.code as u32,
        message: error.message.as_ptr(),
        message_size: error.message.len(),
        dims: shape.dims.as_ptr(),
        num_dims: shape.dims.len(),
        element_type: shape.element_type,
        layout: std::ptr::null_mut(),
        memory: memory.memory,
        buffer: std::ptr::null_mut(),
        payload: 0,
        num_payload: 0,
    };
    inner::call(slot::PJRT_Client_CreateErrorBuffer, &mut args)?;
    buffers::remove(old);
    let mut destroy = PJRT_Buffer_Destroy_Args::new();
    destroy.buffer = old;
    inner::call(slot::PJRT_Buffer_Destroy, &mut destroy)?;
    *buffer = args.buffer;
    Ok(())
}

/// Waits for `event`, so that nothing it stands for is still going on, and puts a failed one in its place.
fn replace_event(event: &mut *mut PJRT_Event, error: &ShimError) -> Result<(), Fail> {
    let mut create = EventCreateArgs {
        struct_size: size_of::<EventCreateArgs>(),
        extension_start: 0,
        event: std::ptr::null_mut(),
    };
    inner::call(slot::PJRT_Event_Create, &mut create)?;
    let mut set = EventSetArgs {
        struct_size: size_of::<EventSetArgs>(),
        extension_start: 0,
        event: create.event,
        code: error.code as u32,
        message: error.message.as_ptr(),
        message_size: error.message.len(),
    };
    inner::call(slot::PJRT_Event_Set, &mut set)?;
    let mut wait = PJRT_Event_Await_Args::new();
    wait.event = *event;
    if let Err(own) = inner::call(slot::PJRT_Event_Await, &mut wait) {
        drop(own.into_shim_error());
    }
    let mut destroy = PJRT_Event_Destroy_Args::new();
    destroy.event = *event;
    inner::call(slot::PJRT_Event_Destroy, &mut destroy)?;
    *event = create.event;
    Ok(())
}
