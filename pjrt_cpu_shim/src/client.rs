//! Clients and devices: creation over the inner plugin, identity, memory statistics.

use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use pjrt_ffi::*;
use rustc_hash::{FxBuildHasher, FxHashMap};

use crate::buffers;
use crate::descriptions::{PLATFORM_NAME, TopologyObject};
use crate::entry::entries;
use crate::error::{Code, Fail, ShimError};
use crate::hbm::Hbm;
use crate::inner::{self, Padded, bytes, has_field, slice};
use crate::named::{self, NamedValues, Value};

/// Create options that mean nothing here and are let pass: what JAX and libtpu users set on every TPU client.
pub(crate) const HARMLESS_OPTIONS: [&str; 4] = [
    "ml_framework_name",
    "ml_framework_version",
    "max_inflight_computations",
    "node_id",
];

#[derive(Debug)]
struct Client {
    topology: Arc<TopologyObject>,
    hbms: Vec<&'static Hbm>,
    /// Keys of this client's entries in [`DEVICES`] and [`MEMORIES`].
    devices: Vec<usize>,
    memories: Vec<usize>,
}

#[derive(Debug, Clone)]
struct Device {
    hbm: &'static Hbm,
    id: usize,
    topology: Arc<TopologyObject>,
}

#[derive(Debug, Clone, Copy)]
struct Memory {
    /// `None` for kinds in host memory, which cost no HBM.
    hbm: Option<&'static Hbm>,
    client: usize,
}

static CLIENTS: RwLock<FxHashMap<usize, Client>> = RwLock::new(FxHashMap::with_hasher(FxBuildHasher));
static DEVICES: RwLock<FxHashMap<usize, Device>> = RwLock::new(FxHashMap::with_hasher(FxBuildHasher));
static MEMORIES: RwLock<FxHashMap<usize, Memory>> = RwLock::new(FxHashMap::with_hasher(FxBuildHasher));
/// Inner clients for work without a client of the caller, by device count. They live for ever.
static HIDDEN: Mutex<FxHashMap<usize, usize>> = Mutex::new(FxHashMap::with_hasher(FxBuildHasher));

/// Counters of the caller's device, unless it is not one of ours.
pub(crate) fn device_hbm(device: *const PJRT_Device) -> Option<&'static Hbm> {
    DEVICES.read().get(&(device as usize)).map(|device| device.hbm)
}

/// Counters behind a memory space; `None` for host memory.
pub(crate) fn memory_hbm(memory: *const PJRT_Memory) -> Option<&'static Hbm> {
    MEMORIES
        .read()
        .get(&(memory as usize))
        .and_then(|memory| memory.hbm)
}

/// The client that a memory space belongs to.
pub(crate) fn of_memory(memory: *const PJRT_Memory) -> Result<*mut PJRT_Client, Fail> {
    match MEMORIES.read().get(&(memory as usize)) {
        Some(memory) => Ok(memory.client as *mut PJRT_Client),
        None => Err(ShimError::invalid("the memory space belongs to no live client of this plugin").into()),
    }
}

/// Where a new buffer goes: a memory space wins over a device.
pub(crate) fn destination(device: *const PJRT_Device, memory: *const PJRT_Memory) -> Option<&'static Hbm> {
    if memory.is_null() {
        device_hbm(device)
    } else {
        memory_hbm(memory)
    }
}

fn device(pointer: *const PJRT_Device) -> Result<Device, Fail> {
    DEVICES.read().get(&(pointer as usize)).cloned().ok_or_else(|| {
        ShimError::invalid("the device is null or belongs to no live client of this plugin").into()
    })
}

/// A client of the inner plugin that no caller sees, with `devices` devices.
pub(crate) fn hidden(devices: usize) -> Result<*mut PJRT_Client, Fail> {
    let mut hidden = HIDDEN.lock();
    if let Some(&client) = hidden.get(&devices) {
        return Ok(client as *mut PJRT_Client);
    }
    let options = NamedValues::new(vec![device_count(devices)]);
    let mut padded = Padded::new(PJRT_Client_Create_Args::new());
    padded.args.create_options = options.as_slice().as_ptr();
    padded.args.num_options = options.as_slice().len();
    inner::call(slot::PJRT_Client_Create, &mut padded)?;
    hidden.insert(devices, padded.args.client as usize);
    Ok(padded.args.client)
}

fn device_count(devices: usize) -> (String, Value) {
    (COUNT_OPTION.to_owned(), Value::Int(devices as i64))
}

const COUNT_OPTION: &str = "cpu_device_count";

/// The options for the inner plugin: the slice decides the device count, the rest is the inner plugin's to judge.
fn inner_options(
    options: Vec<(String, Value)>,
    devices: usize,
    slice: &str,
) -> Result<Vec<(String, Value)>, Fail> {
    let mut kept = vec![device_count(devices)];
    for (name, value) in options {
        match (name.as_str(), &value) {
            (COUNT_OPTION, Value::Int(count)) if (1..=devices as i64).contains(count) => {}
            (COUNT_OPTION, _) => {
                return Err(ShimError::invalid(format!(
                    "PJRT_Client_Create: {COUNT_OPTION}={value:?} does not fit {slice}, which has {devices} devices; \
                     set {} instead",
                    crate::config::TOPOLOGY_ENV
                ))
                .into());
            }
            ("num_nodes", Value::Int(1)) => {}
            ("asynchronous" | "process_id", _) => kept.push((name, value)),
            (known, _) if HARMLESS_OPTIONS.contains(&known) => {}
            _ => {
                return Err(ShimError::invalid(format!(
                    "PJRT_Client_Create: option {name:?} is unknown to tpu_sim; it knows {COUNT_OPTION}, num_nodes=1, \
                     asynchronous, process_id and ignores {}",
                    HARMLESS_OPTIONS.join(", ")
                ))
                .into());
            }
        }
    }
    Ok(kept)
}

/// Enters a client of the inner plugin into the side tables.
fn register(client: *mut PJRT_Client, topology: Arc<TopologyObject>) -> Result<(), Fail> {
    let mut args = PJRT_Client_Devices_Args::new();
    args.client = client;
    inner::call(slot::PJRT_Client_Devices, &mut args)?;
    // SAFETY: the client owns the list for as long as it lives.
    let pointers = unsafe { slice(args.devices, args.num_devices) };
    if pointers.len() != topology.topology.device_count() {
        return Err(ShimError::new(
            Code::Internal,
            format!(
                "the CPU plugin made {} devices where {} has {}",
                pointers.len(),
                topology.topology,
                topology.topology.device_count()
            ),
        )
        .into());
    }
    let limit = topology.topology.hbm_bytes;
    let mut entry = Client {
        topology,
        hbms: Vec::new(),
        devices: Vec::new(),
        memories: Vec::new(),
    };
    for &pointer in pointers {
        let mut description = PJRT_Device_GetDescription_Args::new();
        description.device = pointer;
        inner::call(slot::PJRT_Device_GetDescription, &mut description)?;
        let mut id = PJRT_DeviceDescription_Id_Args::new();
        id.device_description = description.device_description;
        inner::call(slot::PJRT_DeviceDescription_Id, &mut id)?;
        let hbm = Hbm::obtain(limit);
        entry.hbms.push(hbm);
        entry.devices.push(pointer as usize);
        let device = Device {
            hbm,
            id: id.id as usize,
            topology: entry.topology.clone(),
        };
        DEVICES.write().insert(pointer as usize, device);

        let mut memories = PJRT_Device_AddressableMemories_Args::new();
        memories.device = pointer;
        inner::call(slot::PJRT_Device_AddressableMemories, &mut memories)?;
        // SAFETY: the device owns the list for as long as it lives.
        for &memory in unsafe { slice(memories.memories, memories.num_memories) } {
            let mut kind = PJRT_Memory_Kind_Args::new();
            kind.memory = memory;
            inner::call(slot::PJRT_Memory_Kind, &mut kind)?;
            // SAFETY: the memory space owns its kind.
            let on_device = unsafe { bytes(kind.kind, kind.kind_size) } == b"device";
            let space = Memory {
                hbm: on_device.then_some(hbm),
                client: client as usize,
            };
            MEMORIES.write().insert(memory as usize, space);
            entry.memories.push(memory as usize);
        }
    }
    CLIENTS.write().insert(client as usize, entry);
    Ok(())
}

fn unregister(client: *mut PJRT_Client) {
    let Some(entry) = CLIENTS.write().remove(&(client as usize)) else {
        return;
    };
    {
        let mut devices = DEVICES.write();
        devices.retain(|device, _| !entry.devices.contains(device));
        let mut memories = MEMORIES.write();
        memories.retain(|memory, _| !entry.memories.contains(memory));
    }
    buffers::forget(&entry.hbms);
    Hbm::give_back(entry.hbms.into_iter());
}

/// Stores `value` in a field of the caller's struct if it has that field.
macro_rules! put {
    ($args:expr, $ty:ty, $($field:ident = $value:expr),* $(,)?) => {
        $(if has_field!($args, $ty, $field) { (*$args).$field = $value; })*
    };
}

entries! {
    "PJRT_Client_Create" fn create(args: PJRT_Client_Create_Args, upto client) {
        let config = crate::config()?;
        let options = inner_options(
            named::read((*args).create_options, (*args).num_options),
            config.topology.device_count(),
            &config.topology.to_string(),
        )?;
        let options = NamedValues::new(options);
        // The caller's struct may be older than the inner plugin's, or newer: what it has goes along, callbacks too.
        let mut padded = Padded::new(PJRT_Client_Create_Args::new());
        let size = size_of::<Padded<PJRT_Client_Create_Args>>();
        let known = (*args).struct_size.min(size);
        std::ptr::copy_nonoverlapping(args.cast::<u8>(), (&raw mut padded).cast(), known);
        padded.args.struct_size = size;
        padded.args.create_options = options.as_slice().as_ptr();
        padded.args.num_options = options.as_slice().len();
        inner::call(slot::PJRT_Client_Create, &mut padded)?;
        (*args).client = padded.args.client;
        let client = (*args).client;
        if let Err(error) = register(client, TopologyObject::new(config.topology.clone())) {
            let mut destroy = PJRT_Client_Destroy_Args::new();
            destroy.client = client;
            inner::call(slot::PJRT_Client_Destroy, &mut destroy)?;
            return Err(error);
        }
        Ok(())
    }
    "PJRT_Client_Destroy" fn destroy(args: PJRT_Client_Destroy_Args, upto client) {
        unregister((*args).client);
        inner::call(slot::PJRT_Client_Destroy, args)
    }
    "PJRT_Client_PlatformName" fn platform_name(args: PJRT_Client_PlatformName_Args, upto platform_name_size) {
        inner::call(slot::PJRT_Client_PlatformName, args)?;
        (*args).platform_name = PLATFORM_NAME.as_ptr().cast();
        (*args).platform_name_size = PLATFORM_NAME.len();
        Ok(())
    }
    "PJRT_Client_PlatformVersion"
    fn platform_version(args: PJRT_Client_PlatformVersion_Args, upto platform_version_size) {
        let topology = topology_of((*args).client)?;
        (*args).platform_version = topology.platform_version.as_ptr().cast();
        (*args).platform_version_size = topology.platform_version.len();
        Ok(())
    }
    "PJRT_Client_TopologyDescription" fn topology(args: PJRT_Client_TopologyDescription_Args, upto topology) {
        (*args).topology = topology_of((*args).client)?.as_ptr();
        Ok(())
    }
    "PJRT_Client_DefaultDeviceAssignment"
    fn default_assignment(args: PJRT_Client_DefaultDeviceAssignment_Args, upto default_assignment) {
        crate::arguments::assignment(
            "PJRT_Client_DefaultDeviceAssignment",
            (*args).num_replicas,
            (*args).num_partitions,
            topology_of((*args).client)?.topology.device_count(),
        )?;
        inner::call(slot::PJRT_Client_DefaultDeviceAssignment, args)
    }
    "PJRT_Device_GetDescription" fn get_description(args: PJRT_Device_GetDescription_Args, upto device_description) {
        let device = device((*args).device)?;
        let description = device.topology.device(device.id).ok_or_else(|| {
            ShimError::new(Code::Internal, format!("device {} is not in {}", device.id, device.topology.topology))
        })?;
        (*args).device_description = (&raw const *description).cast_mut().cast();
        Ok(())
    }
    "PJRT_Device_GetAttributes" fn get_attributes(args: PJRT_Device_GetAttributes_Args, upto attributes_deleter) {
        let device = device((*args).device)?;
        let attributes = device.topology.device(device.id).map(|device| device.attributes.as_slice());
        let attributes = attributes.unwrap_or_default();
        (*args).attributes = attributes.as_ptr();
        (*args).num_attributes = attributes.len();
        // The array lives as long as the client; callers call the deleter unasked, so there must be one.
        (*args).device_attributes = std::ptr::null_mut();
        (*args).attributes_deleter = Some(keep_attributes);
        Ok(())
    }
    "PJRT_Device_MemoryStats" fn memory_stats(args: PJRT_Device_MemoryStats_Args, upto bytes_in_use) {
        let stats = device((*args).device)?.hbm.stats();
        (*args).bytes_in_use = stats.in_use as i64;
        put!(args, PJRT_Device_MemoryStats_Args,
            peak_bytes_in_use = stats.peak as i64, peak_bytes_in_use_is_set = true,
            num_allocs = stats.num_allocs as i64, num_allocs_is_set = true,
            largest_alloc_size = stats.largest_alloc as i64, largest_alloc_size_is_set = true,
            bytes_limit = stats.limit as i64, bytes_limit_is_set = true,
            bytes_reserved_is_set = false, peak_bytes_reserved_is_set = false,
            bytes_reservable_limit_is_set = false,
            largest_free_block_bytes = stats.limit.saturating_sub(stats.in_use) as i64,
            largest_free_block_bytes_is_set = true,
            pool_bytes_is_set = false, peak_pool_bytes_is_set = false,
        );
        Ok(())
    }
    "PJRT_Device_ClearMemoryStats" fn clear_memory_stats(args: PJRT_Device_ClearMemoryStats_Args, upto device) {
        device((*args).device)?.hbm.reset_peak();
        Ok(())
    }
}

unsafe extern "C" fn keep_attributes(_attributes: *mut std::ffi::c_void) {}

fn topology_of(client: *const PJRT_Client) -> Result<Arc<TopologyObject>, Fail> {
    // The client keeps its own reference, so what the caller gets outlives the returned one.
    CLIENTS
        .read()
        .get(&(client as usize))
        .map(|client| client.topology.clone())
        .ok_or_else(|| ShimError::invalid("the client is null or was destroyed").into())
}
