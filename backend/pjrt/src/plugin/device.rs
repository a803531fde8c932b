//! Devices and memories of a plugin.

use std::any::Any;
use std::ptr::NonNull;
use std::sync::Arc;

use pjrt_ffi::*;

use super::client::ClientInner;
use super::{Plugin, ask, pjrt_call, pjrt_call_new};
use crate::named_value::{from_ffi, slice, text};
use crate::{Device, DeviceDescription, Memory, MemoryStats, Result};

/// A device as its client keeps it.
#[derive(Debug)]
pub(crate) struct DeviceEntry {
    pub(crate) raw: NonNull<PJRT_Device>,
    pub(crate) description: DeviceDescription,
    pub(crate) addressable: bool,
}

/// A memory as its client keeps it.
#[derive(Debug)]
pub(crate) struct MemoryEntry {
    pub(crate) raw: NonNull<PJRT_Memory>,
    id: i32,
    kind: String,
}

/// Reads a whole device description.
///
/// # Safety
/// `raw` is live.
pub(crate) unsafe fn describe(
    plugin: &Plugin,
    raw: *mut PJRT_DeviceDescription,
) -> Result<DeviceDescription> {
    let id = ask!(plugin, PJRT_DeviceDescription_Id, device_description = raw)?;
    let process = ask!(
        plugin,
        PJRT_DeviceDescription_ProcessIndex,
        device_description = raw
    )?;
    let kind = ask!(plugin, PJRT_DeviceDescription_Kind, device_description = raw)?;
    let string = ask!(plugin, PJRT_DeviceDescription_ToString, device_description = raw)?;
    let mut attributes = PJRT_DeviceDescription_Attributes_Args::new();
    attributes.device_description = raw;
    // Optional for a plugin: a device without attributes is still a device.
    let attributes = match pjrt_call!(plugin, PJRT_DeviceDescription_Attributes, &mut attributes) {
        // SAFETY: the plugin filled in the list, which lives as long as the description.
        Ok(()) => unsafe { from_ffi(attributes.attributes, attributes.num_attributes) },
        Err(_) => Vec::new(),
    };
    // SAFETY: texts with their lengths, owned by the description.
    let (kind, text) = unsafe {
        (
            text(kind.device_kind, kind.device_kind_size),
            text(string.to_string, string.to_string_size),
        )
    };
    Ok(DeviceDescription {
        id: id.id,
        process_index: process.process_index,
        kind,
        text,
        attributes,
    })
}

impl DeviceEntry {
    pub(crate) fn read(plugin: &Plugin, raw: NonNull<PJRT_Device>) -> Result<Self> {
        let get = ask!(plugin, PJRT_Device_GetDescription, device = raw.as_ptr())?;
        // SAFETY: the description lives as long as its device.
        let description = unsafe { describe(plugin, get.device_description) }?;
        let addressable = ask!(plugin, PJRT_Device_IsAddressable, device = raw.as_ptr())?;
        Ok(Self {
            raw,
            description,
            addressable: addressable.is_addressable,
        })
    }
}

impl MemoryEntry {
    pub(crate) fn read(plugin: &Plugin, raw: NonNull<PJRT_Memory>) -> Result<Self> {
        let id = ask!(plugin, PJRT_Memory_Id, memory = raw.as_ptr())?;
        let kind = ask!(plugin, PJRT_Memory_Kind, memory = raw.as_ptr())?;
        // SAFETY: text with its length, owned by the memory.
        let kind = unsafe { text(kind.kind, kind.kind_size) };
        Ok(Self { raw, id: id.id, kind })
    }
}

/// A device: its client and its place in the client's list.
#[derive(Debug)]
pub(crate) struct PluginDevice {
    pub(crate) client: Arc<ClientInner>,
    pub(crate) index: usize,
}

/// A memory: its client and its place in the client's list.
#[derive(Debug)]
pub(crate) struct PluginMemory {
    pub(crate) client: Arc<ClientInner>,
    pub(crate) index: usize,
}

impl PluginDevice {
    pub(crate) fn raw(&self) -> *mut PJRT_Device {
        self.client.devices[self.index].raw.as_ptr()
    }
}

impl PluginMemory {
    pub(crate) fn raw(&self) -> *mut PJRT_Memory {
        self.client.memories[self.index].raw.as_ptr()
    }
}

impl Device for PluginDevice {
    fn description(&self) -> &DeviceDescription {
        &self.client.devices[self.index].description
    }

    fn is_addressable(&self) -> bool {
        self.client.devices[self.index].addressable
    }

    fn local_hardware_id(&self) -> Result<i32> {
        let args = ask!(
            self.client.plugin,
            PJRT_Device_LocalHardwareId,
            device = self.raw()
        )?;
        Ok(args.local_hardware_id)
    }

    fn memories(&self) -> Result<Vec<Arc<dyn Memory>>> {
        let args = ask!(
            self.client.plugin,
            PJRT_Device_AddressableMemories,
            device = self.raw()
        )?;
        // SAFETY: the list lives as long as the device.
        let raw = unsafe { slice(args.memories, args.num_memories) };
        raw.iter()
            .map(|m| self.client.memory(*m, "PJRT_Device_AddressableMemories"))
            .collect()
    }

    fn default_memory(&self) -> Result<Arc<dyn Memory>> {
        let args = ask!(self.client.plugin, PJRT_Device_DefaultMemory, device = self.raw())?;
        self.client.memory(args.memory, "PJRT_Device_DefaultMemory")
    }

    fn memory_stats(&self) -> Result<MemoryStats> {
        let mut args = PJRT_Device_MemoryStats_Args_V114::new();
        args.device = self.raw();
        pjrt_call!(
            self.client.plugin,
            PJRT_Device_MemoryStats,
            (&raw mut args).cast()
        )?;
        let set = |is_set: bool, value: i64| is_set.then_some(value);
        Ok(MemoryStats {
            bytes_in_use: args.bytes_in_use,
            peak_bytes_in_use: set(args.peak_bytes_in_use_is_set, args.peak_bytes_in_use),
            num_allocs: set(args.num_allocs_is_set, args.num_allocs),
            largest_alloc_size: set(args.largest_alloc_size_is_set, args.largest_alloc_size),
            bytes_limit: set(args.bytes_limit_is_set, args.bytes_limit),
            bytes_reserved: set(args.bytes_reserved_is_set, args.bytes_reserved),
            largest_free_block_bytes: set(
                args.largest_free_block_bytes_is_set,
                args.largest_free_block_bytes,
            ),
        })
    }

    fn clear_memory_stats(&self) -> Result<()> {
        let mut args = PJRT_Device_ClearMemoryStats_Args::new();
        args.device = self.raw();
        pjrt_call_new!(self.client.plugin, PJRT_Device_ClearMemoryStats, &mut args)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Memory for PluginMemory {
    fn id(&self) -> i32 {
        self.client.memories[self.index].id
    }

    fn kind(&self) -> &str {
        &self.client.memories[self.index].kind
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
