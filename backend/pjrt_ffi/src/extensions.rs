//! Extensions and argument structs that the 0.54 header lacks.
//!
//! Each is `#[repr(C)]` and mirrors the public header of API 0.114; all were stable from their first version on.

use std::ffi::{c_char, c_void};

use crate::{
    PJRT_Buffer, PJRT_Client, PJRT_Device, PJRT_Error, PJRT_Executable, PJRT_Extension_Base,
    PJRT_LoadedExecutable, PJRT_NamedValue, PJRT_TopologyDescription,
};

/// Extension kinds (`PJRT_Extension_Type`), known up to API 0.114.
pub mod extension_kind {
    pub const PROFILER: u32 = 1;
    pub const STREAM: u32 = 3;
    pub const LAYOUTS: u32 = 4;
    pub const FFI: u32 = 5;
    pub const MEMORY_DESCRIPTIONS: u32 = 6;
    pub const RAW_BUFFER: u32 = 8;
    pub const PHASE_COMPILE: u32 = 9;
    pub const CROSS_HOST_TRANSFERS: u32 = 12;
    pub const EXECUTABLE_METADATA: u32 = 13;
    pub const CALLBACK: u32 = 14;
    pub const TPU_TOPOLOGY: u32 = 16;
    pub const TPU_EXECUTABLE: u32 = 17;
    pub const MEGASCALE: u32 = 18;
    pub const SHARDINGS: u32 = 19;
    pub const ABI_VERSION: u32 = 20;
    pub const COLLECTIVES: u32 = 21;
    pub const MULTI_SLICE: u32 = 22;
    pub const HOST_MEMORY_ALLOCATOR: u32 = 23;
    pub const XLA_TRANSFORM: u32 = 24;

    /// The standard name of an extension kind, or `None` for one this build does not know.
    pub fn name(kind: u32) -> Option<&'static str> {
        Some(match kind {
            0 => "GpuCustomCall",
            PROFILER => "Profiler",
            2 => "CustomPartitioner",
            STREAM => "Stream",
            LAYOUTS => "Layouts",
            FFI => "FFI",
            MEMORY_DESCRIPTIONS => "MemoryDescriptions",
            RAW_BUFFER => "RawBuffer",
            PHASE_COMPILE => "PhaseCompile",
            CROSS_HOST_TRANSFERS => "CrossHostTransfers",
            EXECUTABLE_METADATA => "ExecutableMetadata",
            CALLBACK => "Callback",
            TPU_TOPOLOGY => "TpuTopology",
            TPU_EXECUTABLE => "TpuExecutable",
            MEGASCALE => "Megascale",
            SHARDINGS => "Shardings",
            ABI_VERSION => "AbiVersion",
            COLLECTIVES => "Collectives",
            MULTI_SLICE => "MultiSlice",
            HOST_MEMORY_ALLOCATOR => "HostMemoryAllocator",
            XLA_TRANSFORM => "XlaTransform",
            _ => return None,
        })
    }
}

/// Element types after `PJRT_Buffer_Type_U2` of the 0.54 header.
pub mod buffer_type {
    pub const F8E4M3: u32 = 26;
    pub const F8E3M4: u32 = 27;
    pub const F8E8M0FNU: u32 = 28;
    pub const F4E2M1FN: u32 = 29;
    pub const S1: u32 = 30;
    pub const U1: u32 = 31;
    pub const F6E2M3FN: u32 = 32;
    pub const F6E3M2FN: u32 = 33;
}

macro_rules! args {
    ($(#[$doc:meta])* $name:ident { $($field:ident : $ty:ty),* $(,)? }) => {
        $(#[$doc])*
        #[repr(C)]
        #[derive(Debug, Copy, Clone)]
        pub struct $name {
            pub struct_size: usize,
            pub extension_start: *mut PJRT_Extension_Base,
            $(pub $field: $ty),*
        }
        impl $name {
            /// Zeroed but for `struct_size`.
            pub fn new() -> Self {
                // SAFETY: integers, raw pointers and optional function pointers are all valid as zero.
                let mut args: Self = unsafe { std::mem::zeroed() };
                args.struct_size = size_of::<Self>();
                args
            }
        }
        impl Default for $name {
            fn default() -> Self {
                Self::new()
            }
        }
    };
}

/// A table function of one argument struct that can fail.
pub type PjrtFn<Args> = unsafe extern "C" fn(*mut Args) -> *mut PJRT_Error;

/// Opaque to clients.
#[repr(C)]
#[derive(Debug)]
pub struct PJRT_Layouts_MemoryLayout {
    _opaque: [u8; 0],
}

/// Opaque to clients; frees what `Serialize` returned.
#[repr(C)]
#[derive(Debug)]
pub struct PJRT_Layouts_SerializedLayout {
    _opaque: [u8; 0],
}

args!(PJRT_Layouts_MemoryLayout_Destroy_Args { layout: *mut PJRT_Layouts_MemoryLayout });
args!(PJRT_Layouts_MemoryLayout_Serialize_Args {
    layout: *mut PJRT_Layouts_MemoryLayout,
    serialized_bytes: *const c_char,
    serialized_bytes_size: usize,
    serialized_layout: *mut PJRT_Layouts_SerializedLayout,
    serialized_layout_deleter: Option<unsafe extern "C" fn(*mut PJRT_Layouts_SerializedLayout)>,
});
args!(PJRT_Layouts_PJRT_Client_GetDefaultLayout_Args {
    client: *mut PJRT_Client,
    type_: u32,
    dims: *const i64,
    num_dims: usize,
    layout: *mut PJRT_Layouts_MemoryLayout,
});
args!(PJRT_Layouts_PJRT_Buffer_MemoryLayout_Args { buffer: *mut PJRT_Buffer, layout: *mut PJRT_Layouts_MemoryLayout });
args!(PJRT_Layouts_PJRT_Topology_GetDefaultLayout_Args {
    topology_description: *mut PJRT_TopologyDescription,
    type_: u32,
    dims: *const i64,
    num_dims: usize,
    layout: *mut PJRT_Layouts_MemoryLayout,
});
args!(PJRT_Layouts_PJRT_Executable_GetOutputLayouts_Args {
    executable: *mut PJRT_Executable,
    num_outputs: usize,
    layouts: *mut *mut PJRT_Layouts_MemoryLayout,
});
args!(PJRT_Layouts_PJRT_Executable_GetParameterLayouts_Args {
    executable: *mut PJRT_Executable,
    num_parameters: usize,
    layouts: *mut *mut PJRT_Layouts_MemoryLayout,
});

/// Layouts extension. Check `base.struct_size` before an entry: plugins carry it at 72 and 80 bytes.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct PJRT_Layouts_Extension {
    pub base: PJRT_Extension_Base,
    pub memory_layout_destroy: Option<PjrtFn<PJRT_Layouts_MemoryLayout_Destroy_Args>>,
    pub memory_layout_serialize: Option<PjrtFn<PJRT_Layouts_MemoryLayout_Serialize_Args>>,
    pub client_get_default_layout: Option<PjrtFn<PJRT_Layouts_PJRT_Client_GetDefaultLayout_Args>>,
    pub buffer_memory_layout: Option<PjrtFn<PJRT_Layouts_PJRT_Buffer_MemoryLayout_Args>>,
    pub topology_get_default_layout: Option<PjrtFn<PJRT_Layouts_PJRT_Topology_GetDefaultLayout_Args>>,
    pub executable_get_output_layouts: Option<PjrtFn<PJRT_Layouts_PJRT_Executable_GetOutputLayouts_Args>>,
    pub executable_get_parameter_layouts:
        Option<PjrtFn<PJRT_Layouts_PJRT_Executable_GetParameterLayouts_Args>>,
}

args!(PJRT_FFI_Register_Handler_Args_V114 {
    target_name: *const c_char,
    target_name_size: usize,
    handler: *mut c_void,
    platform_name: *const c_char,
    platform_name_size: usize,
    traits: u32,
});

args!(PJRT_Device_ClearMemoryStats_Args { device: *mut PJRT_Device });
args!(PJRT_Device_GetAttributes_Args {
    device: *mut PJRT_Device,
    attributes: *const PJRT_NamedValue,
    num_attributes: usize,
    device_attributes: *mut c_void,
    attributes_deleter: Option<unsafe extern "C" fn(*mut c_void)>,
});
args!(PJRT_TopologyDescription_Deserialize_Args {
    serialized_topology: *const c_char,
    serialized_topology_size: usize,
    topology: *mut PJRT_TopologyDescription,
});
args!(PJRT_TopologyDescription_Fingerprint_Args { topology: *mut PJRT_TopologyDescription, fingerprint: u64 });
args!(PJRT_Client_Load_Args {
    client: *mut PJRT_Client,
    executable: *mut PJRT_Executable,
    compile_options: *const c_char,
    compile_options_size: usize,
    loaded_executable: *mut PJRT_LoadedExecutable,
});

args!(
    /// `GetCompiledMemoryStats` as of 0.114: the plugin fills as much as `struct_size` lets it. Bytes.
    PJRT_Executable_GetCompiledMemoryStats_Args_V114 {
        executable: *mut PJRT_Executable,
        generated_code_size_in_bytes: i64,
        argument_size_in_bytes: i64,
        output_size_in_bytes: i64,
        alias_size_in_bytes: i64,
        temp_size_in_bytes: i64,
        host_generated_code_size_in_bytes: i64,
        host_argument_size_in_bytes: i64,
        host_output_size_in_bytes: i64,
        host_alias_size_in_bytes: i64,
        host_temp_size_in_bytes: i64,
        peak_memory_in_bytes: i64,
        total_size_in_bytes: i64,
        total_allocation_bytes: i64,
        indefinite_allocations: i64,
        peak_unpadded_heap_bytes: i64,
    }
);

args!(
    /// `PJRT_ExecuteOptions` as of 0.114. Plugins refuse the shorter struct of the 0.54 header.
    PJRT_ExecuteOptions_V114 {
        send_callbacks: *mut c_void,
        recv_callbacks: *mut c_void,
        num_send_ops: usize,
        num_recv_ops: usize,
        launch_id: i32,
        non_donatable_input_indices: *const i64,
        num_non_donatable_input_indices: usize,
        context: *mut c_void,
        call_location: *const c_char,
        num_tasks: usize,
        task_ids: *mut i32,
        incarnation_ids: *mut i64,
        multi_slice_config: *mut c_void,
        use_major_to_minor_data_layout_for_callbacks: bool,
        hlo_output_callbacks: *mut c_void,
        num_hlo_output_callbacks: usize,
    }
);

args!(
    /// `DeserializeAndLoad` as of 0.114.
    PJRT_Executable_DeserializeAndLoad_Args_V114 {
        client: *mut PJRT_Client,
        serialized_executable: *const c_char,
        serialized_executable_size: usize,
        loaded_executable: *mut PJRT_LoadedExecutable,
        overridden_serialized_compile_options: *const c_char,
        overridden_serialized_compile_options_size: usize,
        load_options: *mut c_void,
    }
);

args!(
    /// `PJRT_Client_Create` as of 0.114.
    PJRT_Client_Create_Args_V114 {
        create_options: *const PJRT_NamedValue,
        num_options: usize,
        kv_get_callback: *mut c_void,
        kv_get_user_arg: *mut c_void,
        kv_put_callback: *mut c_void,
        kv_put_user_arg: *mut c_void,
        client: *mut PJRT_Client,
        kv_try_get_callback: *mut c_void,
        kv_try_get_user_arg: *mut c_void,
    }
);

args!(
    /// `PJRT_Device_MemoryStats` as of 0.114. Bytes.
    PJRT_Device_MemoryStats_Args_V114 {
        device: *mut PJRT_Device,
        bytes_in_use: i64,
        peak_bytes_in_use: i64,
        peak_bytes_in_use_is_set: bool,
        num_allocs: i64,
        num_allocs_is_set: bool,
        largest_alloc_size: i64,
        largest_alloc_size_is_set: bool,
        bytes_limit: i64,
        bytes_limit_is_set: bool,
        bytes_reserved: i64,
        bytes_reserved_is_set: bool,
        peak_bytes_reserved: i64,
        peak_bytes_reserved_is_set: bool,
        bytes_reservable_limit: i64,
        bytes_reservable_limit_is_set: bool,
        largest_free_block_bytes: i64,
        largest_free_block_bytes_is_set: bool,
        pool_bytes: i64,
        pool_bytes_is_set: bool,
        peak_pool_bytes: i64,
        peak_pool_bytes_is_set: bool,
        peak_allocated_bytes: i64,
        peak_allocated_bytes_is_set: bool,
    }
);
