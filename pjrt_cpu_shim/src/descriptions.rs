//! `PJRT_TopologyDescription` and `PJRT_DeviceDescription`: always our own objects, never the inner plugin's.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::RwLock;
use pjrt_ffi::*;

use crate::entry::entries;
use crate::error::{Fail, ShimError};
use crate::inner::{self, bytes};
use crate::named::{self, NamedValues, Value};
use crate::topology::Topology;

/// The platform that clients and topologies report.
pub const PLATFORM_NAME: &str = "tpu_sim";

/// What a `PJRT_DeviceDescription` pointer of ours leads to.
#[derive(Debug)]
pub(crate) struct DeviceObject {
    id: i32,
    kind: &'static str,
    debug_string: String,
    to_string: String,
    pub(crate) attributes: NamedValues,
}

/// What a `PJRT_TopologyDescription` pointer of ours leads to.
#[derive(Debug)]
pub(crate) struct TopologyObject {
    pub(crate) topology: Topology,
    pub(crate) platform_version: String,
    attributes: NamedValues,
    devices: Box<[DeviceObject]>,
    pointers: Box<[*mut PJRT_DeviceDescription]>,
}

// SAFETY: `pointers` lead into `devices`; nothing changes after construction.
unsafe impl Send for TopologyObject {}
// SAFETY: as above.
unsafe impl Sync for TopologyObject {}

impl TopologyObject {
    pub(crate) fn new(topology: Topology) -> Arc<Self> {
        let limit = || {
            (
                "device_memory_bytes_limit".to_owned(),
                Value::Int(topology.hbm_bytes as i64),
            )
        };
        // An integer, because JAX aborts on device attributes that are neither integers nor text.
        let simulated = || ("simulated".to_owned(), Value::Int(1));
        let devices: Box<[DeviceObject]> = (0..topology.device_count())
            .map(|id| {
                let (coords, core) = topology.place(id);
                let [x, y, z] = coords;
                DeviceObject {
                    id: id as i32,
                    kind: topology.generation.kind,
                    debug_string: format!("TPU_{id}(process=0,({x},{y},{z},{core}))"),
                    to_string: format!(
                        "TpuDevice(id={id}, process_index=0, coords=({x},{y},{z}), core_on_chip={core})"
                    ),
                    attributes: NamedValues::new(vec![
                        ("coords".to_owned(), Value::Ints(coords.into())),
                        ("core_on_chip".to_owned(), Value::Int(core)),
                        ("num_cores".to_owned(), Value::Int(topology.generation.num_cores)),
                        limit(),
                        simulated(),
                    ]),
                }
            })
            .collect();
        let pointers = devices
            .iter()
            .map(|device| (&raw const *device).cast_mut().cast())
            .collect();
        let attributes = NamedValues::new(vec![
            ("wrap".to_owned(), Value::Ints([0, 0, 0].into())),
            ("twist".to_owned(), Value::Int(0)),
            limit(),
            simulated(),
        ]);
        let platform_version = format!(
            "pjrt_cpu_shim {}\nSimulates {topology} ({})\nOver {}",
            env!("CARGO_PKG_VERSION"),
            topology.generation.kind,
            inner_version()
        );
        Arc::new(Self {
            topology,
            platform_version,
            attributes,
            devices,
            pointers,
        })
    }

    /// The description of the device with this id.
    pub(crate) fn device(&self, id: usize) -> Option<&DeviceObject> {
        self.devices.get(id)
    }

    pub(crate) fn as_ptr(self: &Arc<Self>) -> *mut PJRT_TopologyDescription {
        Arc::as_ptr(self).cast_mut().cast()
    }
}

fn inner_version() -> String {
    let Some(inner) = inner::get() else {
        return "no CPU plugin".into();
    };
    let (major, minor) = inner.version();
    let file = inner
        .path
        .file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    format!("{file} (PJRT API {major}.{minor})")
}

/// Topologies made by name or deserialized, which the caller owns, by address.
static OWNED: RwLock<Option<HashMap<usize, Arc<TopologyObject>>>> = RwLock::new(None);

fn hand_out(object: Arc<TopologyObject>) -> *mut PJRT_TopologyDescription {
    let pointer = object.as_ptr();
    OWNED
        .write()
        .get_or_insert_default()
        .insert(pointer as usize, object);
    pointer
}

/// The object behind a caller's pointer.
///
/// # Safety
/// `topology` is null or was handed out by us and is alive.
unsafe fn object<'a>(topology: *const PJRT_TopologyDescription) -> Result<&'a TopologyObject, Fail> {
    // SAFETY: the caller vouches for it.
    unsafe { topology.cast::<TopologyObject>().as_ref() }
        .ok_or_else(|| ShimError::invalid("the topology description is null").into())
}

/// The object behind a caller's device description.
///
/// # Safety
/// `device` is null or was handed out by us and is alive.
unsafe fn device<'a>(device: *const PJRT_DeviceDescription) -> Result<&'a DeviceObject, Fail> {
    // SAFETY: the caller vouches for it.
    unsafe { device.cast::<DeviceObject>().as_ref() }
        .ok_or_else(|| ShimError::invalid("the device description is null").into())
}

/// The slice a caller's topology pointer describes.
///
/// # Safety
/// As for [`object`].
pub(crate) unsafe fn topology_of<'a>(pointer: *const PJRT_TopologyDescription) -> Result<&'a Topology, Fail> {
    // SAFETY: the caller vouches for it.
    unsafe { object(pointer) }.map(|object| &object.topology)
}

unsafe extern "C" fn free_serialized(serialized: *mut PJRT_SerializedTopology) {
    if !serialized.is_null() {
        // SAFETY: made by `Box::into_raw` below, freed once by contract.
        drop(unsafe { Box::from_raw(serialized.cast::<Vec<u8>>()) });
    }
}

entries! {
    "PJRT_TopologyDescription_Create" fn topology_create(args: PJRT_TopologyDescription_Create_Args, upto topology) {
        let options = named::read((*args).create_options, (*args).num_options);
        if let Some((name, _)) = options.first() {
            return Err(ShimError::invalid(format!(
                "PJRT_TopologyDescription_Create: option {name:?} is unknown; the name alone describes a slice"
            ))
            .into());
        }
        let config = crate::config()?;
        let name = String::from_utf8_lossy(bytes((*args).topology_name, (*args).topology_name_size));
        let topology = if name.is_empty() {
            config.topology.clone()
        } else {
            Topology::parse(&name, config.hbm_bytes)?
        };
        (*args).topology = hand_out(TopologyObject::new(topology));
        Ok(())
    }
    "PJRT_TopologyDescription_Deserialize"
    fn topology_deserialize(args: PJRT_TopologyDescription_Deserialize_Args, upto topology) {
        let topology =
            Topology::deserialize(bytes((*args).serialized_topology, (*args).serialized_topology_size))?;
        (*args).topology = hand_out(TopologyObject::new(topology));
        Ok(())
    }
    "PJRT_TopologyDescription_Destroy" fn topology_destroy(args: PJRT_TopologyDescription_Destroy_Args, upto topology) {
        // A topology that belongs to a client is not in the map and stays.
        if let Some(owned) = OWNED.write().as_mut() {
            owned.remove(&((*args).topology as usize));
        }
        Ok(())
    }
    "PJRT_TopologyDescription_PlatformName"
    fn topology_platform_name(args: PJRT_TopologyDescription_PlatformName_Args, upto platform_name_size) {
        object((*args).topology)?;
        (*args).platform_name = PLATFORM_NAME.as_ptr().cast();
        (*args).platform_name_size = PLATFORM_NAME.len();
        Ok(())
    }
    "PJRT_TopologyDescription_PlatformVersion"
    fn topology_platform_version(args: PJRT_TopologyDescription_PlatformVersion_Args, upto platform_version_size) {
        let version = &object((*args).topology)?.platform_version;
        (*args).platform_version = version.as_ptr().cast();
        (*args).platform_version_size = version.len();
        Ok(())
    }
    "PJRT_TopologyDescription_GetDeviceDescriptions"
    fn topology_devices(args: PJRT_TopologyDescription_GetDeviceDescriptions_Args, upto num_descriptions) {
        let pointers = &object((*args).topology)?.pointers;
        (*args).descriptions = pointers.as_ptr();
        (*args).num_descriptions = pointers.len();
        Ok(())
    }
    "PJRT_TopologyDescription_Serialize"
    fn topology_serialize(args: PJRT_TopologyDescription_Serialize_Args, upto serialized_topology_deleter) {
        let bytes = Box::new(object((*args).topology)?.topology.serialize());
        (*args).serialized_bytes = bytes.as_ptr().cast();
        (*args).serialized_bytes_size = bytes.len();
        (*args).serialized_topology = Box::into_raw(bytes).cast();
        (*args).serialized_topology_deleter = Some(free_serialized);
        Ok(())
    }
    "PJRT_TopologyDescription_Attributes"
    fn topology_attributes(args: PJRT_TopologyDescription_Attributes_Args, upto num_attributes) {
        let attributes = object((*args).topology)?.attributes.as_slice();
        (*args).attributes = attributes.as_ptr();
        (*args).num_attributes = attributes.len();
        Ok(())
    }
    "PJRT_TopologyDescription_Fingerprint"
    fn topology_fingerprint(args: PJRT_TopologyDescription_Fingerprint_Args, upto fingerprint) {
        (*args).fingerprint = object((*args).topology)?.topology.fingerprint();
        Ok(())
    }
    "PJRT_DeviceDescription_Id" fn device_id(args: PJRT_DeviceDescription_Id_Args, upto id) {
        (*args).id = device((*args).device_description)?.id;
        Ok(())
    }
    "PJRT_DeviceDescription_ProcessIndex"
    fn device_process_index(args: PJRT_DeviceDescription_ProcessIndex_Args, upto process_index) {
        device((*args).device_description)?;
        (*args).process_index = 0;
        Ok(())
    }
    "PJRT_DeviceDescription_Attributes"
    fn device_attributes(args: PJRT_DeviceDescription_Attributes_Args, upto attributes) {
        let attributes = device((*args).device_description)?.attributes.as_slice();
        (*args).attributes = attributes.as_ptr();
        (*args).num_attributes = attributes.len();
        Ok(())
    }
    "PJRT_DeviceDescription_Kind" fn device_kind(args: PJRT_DeviceDescription_Kind_Args, upto device_kind_size) {
        let kind = device((*args).device_description)?.kind;
        (*args).device_kind = kind.as_ptr().cast();
        (*args).device_kind_size = kind.len();
        Ok(())
    }
    "PJRT_DeviceDescription_DebugString"
    fn device_debug_string(args: PJRT_DeviceDescription_DebugString_Args, upto debug_string_size) {
        let text = &device((*args).device_description)?.debug_string;
        (*args).debug_string = text.as_ptr().cast();
        (*args).debug_string_size = text.len();
        Ok(())
    }
    "PJRT_DeviceDescription_ToString"
    fn device_to_string(args: PJRT_DeviceDescription_ToString_Args, upto to_string_size) {
        let text = &device((*args).device_description)?.to_string;
        (*args).to_string = text.as_ptr().cast();
        (*args).to_string_size = text.len();
        Ok(())
    }
    "PJRT_TopologyDescription_GetMemorySpaceKindIds"
    fn topology_memory_kinds(args: MemorySpaceKindIdsArgs, upto num_memory_space_kind_ids) {
        object((*args).topology)?;
        (*args).memory_space_kind_ids = crate::extensions::MEMORY_KIND_IDS.as_ptr();
        (*args).num_memory_space_kind_ids = crate::extensions::MEMORY_KIND_IDS.len();
        Ok(())
    }
}

/// `PJRT_TopologyDescription_GetMemorySpaceKindIds_Args` as of API 0.114.
#[repr(C)]
pub(crate) struct MemorySpaceKindIdsArgs {
    pub(crate) struct_size: usize,
    pub(crate) extension_start: *mut PJRT_Extension_Base,
    pub(crate) topology: *mut PJRT_TopologyDescription,
    pub(crate) memory_space_kind_ids: *const i32,
    pub(crate) num_memory_space_kind_ids: usize,
}

/// The leading fields of `PJRT_TopologyDescription_MakeCanonicalShapeForMemorySpace_Args`.
#[repr(C)]
pub(crate) struct CanonicalShapeArgs {
    pub(crate) struct_size: usize,
    pub(crate) extension_start: *mut PJRT_Extension_Base,
    pub(crate) topology: *mut PJRT_TopologyDescription,
}

entries! {
    "PJRT_TopologyDescription_MakeCanonicalShapeForMemorySpace"
    fn topology_canonical_shape(args: CanonicalShapeArgs, upto topology) {
        // The inner plugin's own topology stands in: every slice has the CPU's layouts.
        let own = (*args).topology;
        object(own)?;
        let mut hidden = PJRT_Client_TopologyDescription_Args::new();
        hidden.client = crate::client::hidden(1)?;
        inner::call(slot::PJRT_Client_TopologyDescription, &mut hidden)?;
        (*args).topology = hidden.topology;
        let result = inner::call(slot::PJRT_TopologyDescription_MakeCanonicalShapeForMemorySpace, args);
        (*args).topology = own;
        result
    }
}
