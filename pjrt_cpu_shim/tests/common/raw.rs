//! Argument structs of calls that the vendored header lacks.

use std::ffi::c_void;

use pjrt_ffi::*;

/// Defines structs that start as all argument structs do; `zeroed` is one with every other field zero.
macro_rules! raw {
    ($($(#[$doc:meta])* $name:ident { $($field:ident: $ty:ty,)* })*) => {$(
        $(#[$doc])*
        #[repr(C)]
        pub struct $name {
            pub struct_size: usize,
            pub extension_start: usize,
            $(pub $field: $ty,)*
        }

        impl $name {
            pub fn zeroed() -> Self {
                // SAFETY: numbers and raw pointers may be zero.
                unsafe { std::mem::zeroed() }
            }
        }
    )*};
}

raw! {
    /// `PJRT_Client_CreateUninitializedBuffer_Args`.
    Uninitialized {
        client: *mut PJRT_Client,
        dims: *const i64,
        num_dims: usize,
        element_type: u32,
        layout: *mut c_void,
        device: *mut PJRT_Device,
        memory: *mut PJRT_Memory,
        buffer: *mut PJRT_Buffer,
    }
    /// `PJRT_Client_CreateAliasBuffer_Args`.
    Alias {
        client: *mut PJRT_Client,
        memory: *mut PJRT_Memory,
        dims: *const i64,
        num_dims: usize,
        element_type: u32,
        layout: *mut c_void,
        alias_buffer: *mut PJRT_Buffer,
        callback: *mut c_void,
    }
    /// `PJRT_Client_CreateErrorBuffer_Args`.
    ErrorBuffer {
        client: *mut PJRT_Client,
        code: u32,
        message: *const u8,
        message_size: usize,
        dims: *const i64,
        num_dims: usize,
        element_type: u32,
        layout: *mut c_void,
        memory: *mut PJRT_Memory,
        buffer: *mut PJRT_Buffer,
    }
    /// `PJRT_Buffer_Bitcast_Args`.
    Bitcast {
        buffer: *mut PJRT_Buffer,
        element_type: u32,
        dims: *const i64,
        num_dims: usize,
        layout: *mut c_void,
        out_buffer: *mut PJRT_Buffer,
    }
    /// `PJRT_ShapeSpec`.
    ShapeSpec {
        dims: *const i64,
        num_dims: usize,
        element_type: u32,
    }
    /// `PJRT_Client_CreateBuffersForAsyncHostToDevice_Args`.
    StartTransfer {
        client: *mut PJRT_Client,
        specs: *const ShapeSpec,
        num_specs: usize,
        layouts: *mut c_void,
        num_layouts: usize,
        memory: *mut PJRT_Memory,
        manager: usize,
    }
    /// `PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer_Args`.
    Retrieve {
        manager: usize,
        index: i32,
        buffer: *mut PJRT_Buffer,
    }
    /// `PJRT_AsyncHostToDeviceTransferManager_Destroy_Args`.
    EndTransfer {
        manager: usize,
    }
}

impl ShapeSpec {
    /// Of these dimensions, which must outlive it.
    pub fn new(element_type: u32, dims: &[i64]) -> Self {
        Self {
            struct_size: 36,
            dims: dims.as_ptr(),
            num_dims: dims.len(),
            element_type,
            ..Self::zeroed()
        }
    }
}
