//! The table that `GetPjrtApi` returns.

use std::ffi::c_void;
use std::sync::OnceLock;

use pjrt_ffi::*;

use crate::error::{ShimError, error_destroy, error_for_each_payload, error_get_code, error_message};
use crate::inner::{Inner, RawEntry};
use crate::{client, descriptions, execute, extensions, program, trampoline, transfer};

/// A `PJRT_Api` in whole words.
#[derive(Debug)]
pub(crate) struct Table(Box<[usize]>);

impl Table {
    pub(crate) fn as_ptr(&self) -> *const PJRT_Api {
        self.0.as_ptr().cast()
    }

    fn entries(&self) -> usize {
        self.0.len() - slot_offset(0) / size_of::<usize>()
    }

    fn set(&mut self, slot: usize, entry: usize) {
        self.0[slot_offset(slot) / size_of::<usize>()] = entry;
    }

    /// Overrides an entry that the inner plugin's table has room for.
    fn cover(&mut self, slot: usize, entry: usize) {
        if slot < self.entries() {
            self.set(slot, entry);
        }
    }
}

/// The inner plugin's table with our entries over it.
pub(crate) fn working(inner: &Inner, faults: &crate::fault::FaultPlan) -> Table {
    // SAFETY: the inner table lives for ever and is `struct_size` bytes long.
    let mut table = unsafe {
        let words = (*inner.api).struct_size / size_of::<usize>();
        Table(std::slice::from_raw_parts(inner.api.cast::<usize>(), words).into())
    };
    let head = table.0[1] as *mut PJRT_Extension_Base;
    table.0[1] = extensions::chain(head) as usize;

    macro_rules! cover {
        ($($slot:ident = $entry:path),* $(,)?) => {
            $(table.cover(slot::$slot, $entry as *const () as usize);)*
        };
    }
    cover! {
        PJRT_Error_Destroy = error_destroy,
        PJRT_Error_Message = error_message,
        PJRT_Error_GetCode = error_get_code,
        PJRT_Error_ForEachPayload = error_for_each_payload,

        PJRT_Client_Create = client::create,
        PJRT_Client_Destroy = client::destroy,
        PJRT_Client_PlatformName = client::platform_name,
        PJRT_Client_PlatformVersion = client::platform_version,
        PJRT_Client_TopologyDescription = client::topology,
        PJRT_Client_DefaultDeviceAssignment = client::default_assignment,
        PJRT_Device_GetDescription = client::get_description,
        PJRT_Device_GetAttributes = client::get_attributes,
        PJRT_Device_MemoryStats = client::memory_stats,
        PJRT_Device_ClearMemoryStats = client::clear_memory_stats,

        PJRT_TopologyDescription_Create = descriptions::topology_create,
        PJRT_TopologyDescription_Deserialize = descriptions::topology_deserialize,
        PJRT_TopologyDescription_Destroy = descriptions::topology_destroy,
        PJRT_TopologyDescription_PlatformName = descriptions::topology_platform_name,
        PJRT_TopologyDescription_PlatformVersion = descriptions::topology_platform_version,
        PJRT_TopologyDescription_GetDeviceDescriptions = descriptions::topology_devices,
        PJRT_TopologyDescription_Serialize = descriptions::topology_serialize,
        PJRT_TopologyDescription_Attributes = descriptions::topology_attributes,
        PJRT_TopologyDescription_Fingerprint = descriptions::topology_fingerprint,
        PJRT_TopologyDescription_GetMemorySpaceKindIds = descriptions::topology_memory_kinds,
        PJRT_TopologyDescription_MakeCanonicalShapeForMemorySpace = descriptions::topology_canonical_shape,
        PJRT_DeviceDescription_Id = descriptions::device_id,
        PJRT_DeviceDescription_ProcessIndex = descriptions::device_process_index,
        PJRT_DeviceDescription_Attributes = descriptions::device_attributes,
        PJRT_DeviceDescription_Kind = descriptions::device_kind,
        PJRT_DeviceDescription_DebugString = descriptions::device_debug_string,
        PJRT_DeviceDescription_ToString = descriptions::device_to_string,

        PJRT_Client_BufferFromHostBuffer = transfer::from_host,
        PJRT_Client_CreateUninitializedBuffer = transfer::uninitialized,
        PJRT_Client_CreateViewOfDeviceBuffer = transfer::create_view,
        PJRT_Client_CreateErrorBuffer = transfer::create_error,
        PJRT_Client_CreateAliasBuffer = transfer::create_alias,
        PJRT_Client_FulfillAliasBuffer = transfer::fulfill_alias,
        PJRT_Client_CreateBuffersForAsyncHostToDevice = transfer::start_transfer,
        PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer = transfer::retrieve,
        PJRT_AsyncHostToDeviceTransferManager_Destroy = transfer::end_transfer,
        PJRT_Buffer_Bitcast = transfer::bitcast,
        PJRT_Buffer_DonateWithControlDependency = transfer::donate,
        PJRT_Buffer_CopyToDevice = transfer::copy_to_device,
        PJRT_Buffer_CopyToMemory = transfer::copy_to_memory,
        PJRT_Buffer_Delete = transfer::delete,
        PJRT_Buffer_Destroy = transfer::destroy,

        PJRT_Client_Compile = execute::compile,
        PJRT_Client_Load = execute::load,
        PJRT_Compile = execute::compile_for_topology,
        PJRT_Executable_DeserializeAndLoad = execute::deserialize_and_load,
        PJRT_LoadedExecutable_Destroy = execute::destroy,
        PJRT_LoadedExecutable_Execute = execute::execute,
        PJRT_Executable_GetCostAnalysis = program::cost_analysis,
        PJRT_Executable_Destroy = execute::executable_destroy,
    }

    let first = slot_offset(0) / size_of::<usize>();
    let entries = table.entries();
    let before = table.0.clone();
    trampoline::install(
        faults,
        entries,
        // SAFETY: every entry of the table is a nullable function pointer of this shape.
        |slot| unsafe { std::mem::transmute::<usize, Option<RawEntry>>(before[first + slot]) },
        |slot, entry| table.set(slot, entry as usize),
    );
    table
}

static WHY: OnceLock<ShimError> = OnceLock::new();

unsafe extern "C" fn refuse(_args: *mut c_void) -> *mut PJRT_Error {
    match WHY.get() {
        Some(why) => why.clone().into_raw(),
        None => ShimError::new(Code::Internal, "tpu_sim is not set up").into_raw(),
    }
}

/// A table whose every call fails with `why`, so that the reason reaches the caller as a PJRT error.
pub(crate) fn broken(why: ShimError) -> Table {
    const VERSION: (i32, i32) = (0, 106);
    const ENTRIES: usize = slot::PJRT_Device_ClearMemoryStats + 1;
    let _ = WHY.set(why);
    let mut table = Table(vec![0; slot_offset(ENTRIES) / size_of::<usize>()].into());
    (0..ENTRIES).for_each(|slot| table.set(slot, refuse as *const () as usize));
    table.set(slot::PJRT_Error_Destroy, error_destroy as *const () as usize);
    table.set(slot::PJRT_Error_Message, error_message as *const () as usize);
    table.set(slot::PJRT_Error_GetCode, error_get_code as *const () as usize);
    table.set(
        slot::PJRT_Error_ForEachPayload,
        error_for_each_payload as *const () as usize,
    );
    let api = table.0.as_mut_ptr().cast::<PJRT_Api>();
    // SAFETY: the table is large enough for the header, which is plain data.
    unsafe {
        (*api).struct_size = slot_offset(ENTRIES);
        (*api).pjrt_api_version.struct_size = size_of::<PJRT_Api_Version>();
        (*api).pjrt_api_version.major_version = VERSION.0;
        (*api).pjrt_api_version.minor_version = VERSION.1;
    }
    table
}
