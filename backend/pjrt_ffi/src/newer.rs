//! Table entries newer than API 0.54.
//!
//! The table only grows, so an entry's place never changes. [`slot`] names each entry after 0.54 by its index.

/// Byte offset of the first function pointer in `PJRT_Api` (after size, extensions and version).
pub const VTABLE_OFFSET: usize = 40;

/// Byte offset in `PJRT_Api` of the entry with this index.
pub const fn slot_offset(index: usize) -> usize {
    VTABLE_OFFSET + index * size_of::<*const u8>()
}

/// Indices of the table's entries, in table order; those past the 0.54 header are our own declarations.
pub mod slot {
    pub const PJRT_Error_Destroy: usize = 0;
    pub const PJRT_Error_Message: usize = 1;
    pub const PJRT_Error_GetCode: usize = 2;
    pub const PJRT_Plugin_Initialize: usize = 3;
    pub const PJRT_Plugin_Attributes: usize = 4;
    pub const PJRT_Event_Destroy: usize = 5;
    pub const PJRT_Event_IsReady: usize = 6;
    pub const PJRT_Event_Error: usize = 7;
    pub const PJRT_Event_Await: usize = 8;
    pub const PJRT_Event_OnReady: usize = 9;
    pub const PJRT_Client_Create: usize = 10;
    pub const PJRT_Client_Destroy: usize = 11;
    pub const PJRT_Client_PlatformName: usize = 12;
    pub const PJRT_Client_ProcessIndex: usize = 13;
    pub const PJRT_Client_PlatformVersion: usize = 14;
    pub const PJRT_Client_Devices: usize = 15;
    pub const PJRT_Client_AddressableDevices: usize = 16;
    pub const PJRT_Client_LookupDevice: usize = 17;
    pub const PJRT_Client_LookupAddressableDevice: usize = 18;
    pub const PJRT_Client_AddressableMemories: usize = 19;
    pub const PJRT_Client_Compile: usize = 20;
    pub const PJRT_Client_DefaultDeviceAssignment: usize = 21;
    pub const PJRT_Client_BufferFromHostBuffer: usize = 22;
    pub const PJRT_DeviceDescription_Id: usize = 23;
    pub const PJRT_DeviceDescription_ProcessIndex: usize = 24;
    pub const PJRT_DeviceDescription_Attributes: usize = 25;
    pub const PJRT_DeviceDescription_Kind: usize = 26;
    pub const PJRT_DeviceDescription_DebugString: usize = 27;
    pub const PJRT_DeviceDescription_ToString: usize = 28;
    pub const PJRT_Device_GetDescription: usize = 29;
    pub const PJRT_Device_IsAddressable: usize = 30;
    pub const PJRT_Device_LocalHardwareId: usize = 31;
    pub const PJRT_Device_AddressableMemories: usize = 32;
    pub const PJRT_Device_DefaultMemory: usize = 33;
    pub const PJRT_Device_MemoryStats: usize = 34;
    pub const PJRT_Memory_Id: usize = 35;
    pub const PJRT_Memory_Kind: usize = 36;
    pub const PJRT_Memory_DebugString: usize = 37;
    pub const PJRT_Memory_ToString: usize = 38;
    pub const PJRT_Memory_AddressableByDevices: usize = 39;
    pub const PJRT_Executable_Destroy: usize = 40;
    pub const PJRT_Executable_Name: usize = 41;
    pub const PJRT_Executable_NumReplicas: usize = 42;
    pub const PJRT_Executable_NumPartitions: usize = 43;
    pub const PJRT_Executable_NumOutputs: usize = 44;
    pub const PJRT_Executable_SizeOfGeneratedCodeInBytes: usize = 45;
    pub const PJRT_Executable_GetCostAnalysis: usize = 46;
    pub const PJRT_Executable_OutputMemoryKinds: usize = 47;
    pub const PJRT_Executable_OptimizedProgram: usize = 48;
    pub const PJRT_Executable_Serialize: usize = 49;
    pub const PJRT_LoadedExecutable_Destroy: usize = 50;
    pub const PJRT_LoadedExecutable_GetExecutable: usize = 51;
    pub const PJRT_LoadedExecutable_AddressableDevices: usize = 52;
    pub const PJRT_LoadedExecutable_Delete: usize = 53;
    pub const PJRT_LoadedExecutable_IsDeleted: usize = 54;
    pub const PJRT_LoadedExecutable_Execute: usize = 55;
    pub const PJRT_Executable_DeserializeAndLoad: usize = 56;
    pub const PJRT_LoadedExecutable_Fingerprint: usize = 57;
    pub const PJRT_Buffer_Destroy: usize = 58;
    pub const PJRT_Buffer_ElementType: usize = 59;
    pub const PJRT_Buffer_Dimensions: usize = 60;
    pub const PJRT_Buffer_UnpaddedDimensions: usize = 61;
    pub const PJRT_Buffer_DynamicDimensionIndices: usize = 62;
    pub const PJRT_Buffer_GetMemoryLayout: usize = 63;
    pub const PJRT_Buffer_OnDeviceSizeInBytes: usize = 64;
    pub const PJRT_Buffer_Device: usize = 65;
    pub const PJRT_Buffer_Memory: usize = 66;
    pub const PJRT_Buffer_Delete: usize = 67;
    pub const PJRT_Buffer_IsDeleted: usize = 68;
    pub const PJRT_Buffer_CopyToDevice: usize = 69;
    pub const PJRT_Buffer_ToHostBuffer: usize = 70;
    pub const PJRT_Buffer_IsOnCpu: usize = 71;
    pub const PJRT_Buffer_ReadyEvent: usize = 72;
    pub const PJRT_Buffer_UnsafePointer: usize = 73;
    pub const PJRT_Buffer_IncreaseExternalReferenceCount: usize = 74;
    pub const PJRT_Buffer_DecreaseExternalReferenceCount: usize = 75;
    pub const PJRT_Buffer_OpaqueDeviceMemoryDataPointer: usize = 76;
    pub const PJRT_CopyToDeviceStream_Destroy: usize = 77;
    pub const PJRT_CopyToDeviceStream_AddChunk: usize = 78;
    pub const PJRT_CopyToDeviceStream_TotalBytes: usize = 79;
    pub const PJRT_CopyToDeviceStream_GranuleSize: usize = 80;
    pub const PJRT_CopyToDeviceStream_CurrentBytes: usize = 81;
    pub const PJRT_TopologyDescription_Create: usize = 82;
    pub const PJRT_TopologyDescription_Destroy: usize = 83;
    pub const PJRT_TopologyDescription_PlatformName: usize = 84;
    pub const PJRT_TopologyDescription_PlatformVersion: usize = 85;
    pub const PJRT_TopologyDescription_GetDeviceDescriptions: usize = 86;
    pub const PJRT_TopologyDescription_Serialize: usize = 87;
    pub const PJRT_TopologyDescription_Attributes: usize = 88;
    pub const PJRT_Compile: usize = 89;
    pub const PJRT_Executable_OutputElementTypes: usize = 90;
    pub const PJRT_Executable_OutputDimensions: usize = 91;
    pub const PJRT_Buffer_CopyToMemory: usize = 92;
    pub const PJRT_Client_CreateViewOfDeviceBuffer: usize = 93;
    pub const PJRT_Executable_Fingerprint: usize = 94;
    pub const PJRT_Client_TopologyDescription: usize = 95;
    pub const PJRT_Executable_GetCompiledMemoryStats: usize = 96;
    pub const PJRT_Memory_Kind_Id: usize = 97;
    pub const PJRT_ExecuteContext_Create: usize = 98;
    pub const PJRT_ExecuteContext_Destroy: usize = 99;
    pub const PJRT_Buffer_CopyRawToHost: usize = 100;
    pub const PJRT_AsyncHostToDeviceTransferManager_Destroy: usize = 101;
    pub const PJRT_AsyncHostToDeviceTransferManager_TransferData: usize = 102;
    pub const PJRT_Client_CreateBuffersForAsyncHostToDevice: usize = 103;
    pub const PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer: usize = 104;
    pub const PJRT_AsyncHostToDeviceTransferManager_Device: usize = 105;
    pub const PJRT_AsyncHostToDeviceTransferManager_BufferCount: usize = 106;
    pub const PJRT_AsyncHostToDeviceTransferManager_BufferSize: usize = 107;
    pub const PJRT_AsyncHostToDeviceTransferManager_SetBufferError: usize = 108;
    pub const PJRT_AsyncHostToDeviceTransferManager_AddMetadata: usize = 109;
    pub const PJRT_Client_DmaMap: usize = 110;
    pub const PJRT_Client_DmaUnmap: usize = 111;
    pub const PJRT_Client_CreateUninitializedBuffer: usize = 112;
    pub const PJRT_Client_UpdateGlobalProcessInfo: usize = 113;
    pub const PJRT_TopologyDescription_Deserialize: usize = 114;
    pub const PJRT_Client_CreateAliasBuffer: usize = 115;
    pub const PJRT_Client_FulfillAliasBuffer: usize = 116;
    pub const PJRT_LoadedExecutable_GetDeviceAssignment: usize = 117;
    pub const PJRT_Client_CreateErrorBuffer: usize = 118;
    pub const PJRT_AsyncHostToDeviceTransferManager_TransferLiteral: usize = 119;
    pub const PJRT_Buffer_CopyRawToHostFuture: usize = 120;
    pub const PJRT_Device_PoisonExecution: usize = 121;
    pub const PJRT_Device_CreateAsyncTrackingEvent: usize = 122;
    pub const PJRT_AsyncTrackingEvent_Destroy: usize = 123;
    pub const PJRT_Executable_GetCompileOptions: usize = 124;
    pub const PJRT_Buffer_DonateWithControlDependency: usize = 125;
    pub const PJRT_Event_Create: usize = 126;
    pub const PJRT_Event_Set: usize = 127;
    pub const PJRT_Device_GetAttributes: usize = 128;
    pub const PJRT_Client_Load: usize = 129;
    pub const PJRT_LoadedExecutable_AddressableDeviceLogicalIds: usize = 130;
    pub const PJRT_Buffer_Bitcast: usize = 131;
    pub const PJRT_Error_ForEachPayload: usize = 132;
    pub const PJRT_TopologyDescription_Fingerprint: usize = 133;
    pub const PJRT_Executable_ParameterMemoryKinds: usize = 134;
    pub const PJRT_Device_ClearMemoryStats: usize = 135;
    pub const PJRT_TopologyDescription_MakeCanonicalShapeForMemorySpace: usize = 136;
    pub const PJRT_TopologyDescription_GetMemorySpaceKindIds: usize = 137;
}

/// The name of the table entry with this index.
pub fn slot_name(index: usize) -> Option<&'static str> {
    SLOT_NAMES.get(index).copied()
}

/// Every entry's name, in table order (API 0.115).
pub const SLOT_NAMES: &[&str] = &[
    "PJRT_Error_Destroy",
    "PJRT_Error_Message",
    "PJRT_Error_GetCode",
    "PJRT_Plugin_Initialize",
    "PJRT_Plugin_Attributes",
    "PJRT_Event_Destroy",
    "PJRT_Event_IsReady",
    "PJRT_Event_Error",
    "PJRT_Event_Await",
    "PJRT_Event_OnReady",
    "PJRT_Client_Create",
    "PJRT_Client_Destroy",
    "PJRT_Client_PlatformName",
    "PJRT_Client_ProcessIndex",
    "PJRT_Client_PlatformVersion",
    "PJRT_Client_Devices",
    "PJRT_Client_AddressableDevices",
    "PJRT_Client_LookupDevice",
    "PJRT_Client_LookupAddressableDevice",
    "PJRT_Client_AddressableMemories",
    "PJRT_Client_Compile",
    "PJRT_Client_DefaultDeviceAssignment",
    "PJRT_Client_BufferFromHostBuffer",
    "PJRT_DeviceDescription_Id",
    "PJRT_DeviceDescription_ProcessIndex",
    "PJRT_DeviceDescription_Attributes",
    "PJRT_DeviceDescription_Kind",
    "PJRT_DeviceDescription_DebugString",
    "PJRT_DeviceDescription_ToString",
    "PJRT_Device_GetDescription",
    "PJRT_Device_IsAddressable",
    "PJRT_Device_LocalHardwareId",
    "PJRT_Device_AddressableMemories",
    "PJRT_Device_DefaultMemory",
    "PJRT_Device_MemoryStats",
    "PJRT_Memory_Id",
    "PJRT_Memory_Kind",
    "PJRT_Memory_DebugString",
    "PJRT_Memory_ToString",
    "PJRT_Memory_AddressableByDevices",
    "PJRT_Executable_Destroy",
    "PJRT_Executable_Name",
    "PJRT_Executable_NumReplicas",
    "PJRT_Executable_NumPartitions",
    "PJRT_Executable_NumOutputs",
    "PJRT_Executable_SizeOfGeneratedCodeInBytes",
    "PJRT_Executable_GetCostAnalysis",
    "PJRT_Executable_OutputMemoryKinds",
    "PJRT_Executable_OptimizedProgram",
    "PJRT_Executable_Serialize",
    "PJRT_LoadedExecutable_Destroy",
    "PJRT_LoadedExecutable_GetExecutable",
    "PJRT_LoadedExecutable_AddressableDevices",
    "PJRT_LoadedExecutable_Delete",
    "PJRT_LoadedExecutable_IsDeleted",
    "PJRT_LoadedExecutable_Execute",
    "PJRT_Executable_DeserializeAndLoad",
    "PJRT_LoadedExecutable_Fingerprint",
    "PJRT_Buffer_Destroy",
    "PJRT_Buffer_ElementType",
    "PJRT_Buffer_Dimensions",
    "PJRT_Buffer_UnpaddedDimensions",
    "PJRT_Buffer_DynamicDimensionIndices",
    "PJRT_Buffer_GetMemoryLayout",
    "PJRT_Buffer_OnDeviceSizeInBytes",
    "PJRT_Buffer_Device",
    "PJRT_Buffer_Memory",
    "PJRT_Buffer_Delete",
    "PJRT_Buffer_IsDeleted",
    "PJRT_Buffer_CopyToDevice",
    "PJRT_Buffer_ToHostBuffer",
    "PJRT_Buffer_IsOnCpu",
    "PJRT_Buffer_ReadyEvent",
    "PJRT_Buffer_UnsafePointer",
    "PJRT_Buffer_IncreaseExternalReferenceCount",
    "PJRT_Buffer_DecreaseExternalReferenceCount",
    "PJRT_Buffer_OpaqueDeviceMemoryDataPointer",
    "PJRT_CopyToDeviceStream_Destroy",
    "PJRT_CopyToDeviceStream_AddChunk",
    "PJRT_CopyToDeviceStream_TotalBytes",
    "PJRT_CopyToDeviceStream_GranuleSize",
    "PJRT_CopyToDeviceStream_CurrentBytes",
    "PJRT_TopologyDescription_Create",
    "PJRT_TopologyDescription_Destroy",
    "PJRT_TopologyDescription_PlatformName",
    "PJRT_TopologyDescription_PlatformVersion",
    "PJRT_TopologyDescription_GetDeviceDescriptions",
    "PJRT_TopologyDescription_Serialize",
    "PJRT_TopologyDescription_Attributes",
    "PJRT_Compile",
    "PJRT_Executable_OutputElementTypes",
    "PJRT_Executable_OutputDimensions",
    "PJRT_Buffer_CopyToMemory",
    "PJRT_Client_CreateViewOfDeviceBuffer",
    "PJRT_Executable_Fingerprint",
    "PJRT_Client_TopologyDescription",
    "PJRT_Executable_GetCompiledMemoryStats",
    "PJRT_Memory_Kind_Id",
    "PJRT_ExecuteContext_Create",
    "PJRT_ExecuteContext_Destroy",
    "PJRT_Buffer_CopyRawToHost",
    "PJRT_AsyncHostToDeviceTransferManager_Destroy",
    "PJRT_AsyncHostToDeviceTransferManager_TransferData",
    "PJRT_Client_CreateBuffersForAsyncHostToDevice",
    "PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer",
    "PJRT_AsyncHostToDeviceTransferManager_Device",
    "PJRT_AsyncHostToDeviceTransferManager_BufferCount",
    "PJRT_AsyncHostToDeviceTransferManager_BufferSize",
    "PJRT_AsyncHostToDeviceTransferManager_SetBufferError",
    "PJRT_AsyncHostToDeviceTransferManager_AddMetadata",
    "PJRT_Client_DmaMap",
    "PJRT_Client_DmaUnmap",
    "PJRT_Client_CreateUninitializedBuffer",
    "PJRT_Client_UpdateGlobalProcessInfo",
    "PJRT_TopologyDescription_Deserialize",
    "PJRT_Client_CreateAliasBuffer",
    "PJRT_Client_FulfillAliasBuffer",
    "PJRT_LoadedExecutable_GetDeviceAssignment",
    "PJRT_Client_CreateErrorBuffer",
    "PJRT_AsyncHostToDeviceTransferManager_TransferLiteral",
    "PJRT_Buffer_CopyRawToHostFuture",
    "PJRT_Device_PoisonExecution",
    "PJRT_Device_CreateAsyncTrackingEvent",
    "PJRT_AsyncTrackingEvent_Destroy",
    "PJRT_Executable_GetCompileOptions",
    "PJRT_Buffer_DonateWithControlDependency",
    "PJRT_Event_Create",
    "PJRT_Event_Set",
    "PJRT_Device_GetAttributes",
    "PJRT_Client_Load",
    "PJRT_LoadedExecutable_AddressableDeviceLogicalIds",
    "PJRT_Buffer_Bitcast",
    "PJRT_Error_ForEachPayload",
    "PJRT_TopologyDescription_Fingerprint",
    "PJRT_Executable_ParameterMemoryKinds",
    "PJRT_Device_ClearMemoryStats",
    "PJRT_TopologyDescription_MakeCanonicalShapeForMemorySpace",
    "PJRT_TopologyDescription_GetMemorySpaceKindIds",
];
