//! Topologies of a plugin.

use std::ptr::NonNull;
use std::sync::Arc;

use pjrt_ffi::*;

use super::client::ClientInner;
use super::device::describe;
use super::executable::{PluginExecutable, program};
use super::{Plugin, ask, pjrt_call, pjrt_call_new, pjrt_destroy};
use crate::named_value::{from_ffi, slice, text, to_ffi};
use crate::{CompileOptions, DeviceDescription, Error, Executable, NamedValue, Program, Result, Topology};

/// A topology handle: owned, or its client's.
#[derive(Debug)]
pub struct PluginTopology {
    plugin: &'static Plugin,
    raw: NonNull<PJRT_TopologyDescription>,
    /// Set when the handle is the client's own, which must then outlive this.
    client: Option<Arc<ClientInner>>,
    platform_name: String,
    platform_version: String,
    devices: Vec<DeviceDescription>,
}

// SAFETY: a topology is immutable.
unsafe impl Send for PluginTopology {}
// SAFETY: as above.
unsafe impl Sync for PluginTopology {}

impl PluginTopology {
    /// Makes a topology by name, such as `v6e:2x2`, with no client and no device.
    pub fn by_name(plugin: &'static Plugin, name: &str, options: &[(String, NamedValue)]) -> Result<Self> {
        let options = to_ffi(options);
        let mut args = PJRT_TopologyDescription_Create_Args::new();
        args.topology_name = name.as_ptr().cast();
        args.topology_name_size = name.len();
        args.create_options = options.as_ptr();
        args.num_options = options.len();
        pjrt_call!(plugin, PJRT_TopologyDescription_Create, &mut args)?;
        Self::adopt(plugin, args.topology, None)
    }

    /// Makes a topology from what [`Topology::serialize`] gave.
    pub fn deserialize(plugin: &'static Plugin, bytes: &[u8]) -> Result<Self> {
        let mut args = PJRT_TopologyDescription_Deserialize_Args::new();
        args.serialized_topology = bytes.as_ptr().cast();
        args.serialized_topology_size = bytes.len();
        pjrt_call_new!(plugin, PJRT_TopologyDescription_Deserialize, &mut args)?;
        Self::adopt(plugin, args.topology, None)
    }

    pub(crate) fn of_client(client: &Arc<ClientInner>) -> Result<Self> {
        let args = ask!(
            client.plugin,
            PJRT_Client_TopologyDescription,
            client = client.raw.as_ptr()
        )?;
        Self::adopt(client.plugin, args.topology, Some(client.clone()))
    }

    fn adopt(
        plugin: &'static Plugin,
        raw: *mut PJRT_TopologyDescription,
        client: Option<Arc<ClientInner>>,
    ) -> Result<Self> {
        let call = "PJRT_TopologyDescription_Create";
        let raw =
            NonNull::new(raw).ok_or_else(|| Error::argument(call, "the plugin returned no topology"))?;
        let mut this = Self {
            plugin,
            raw,
            client,
            platform_name: String::new(),
            platform_version: String::new(),
            devices: vec![],
        };
        let name = ask!(
            plugin,
            PJRT_TopologyDescription_PlatformName,
            topology = raw.as_ptr()
        )?;
        let version = ask!(
            plugin,
            PJRT_TopologyDescription_PlatformVersion,
            topology = raw.as_ptr()
        )?;
        let list = ask!(
            plugin,
            PJRT_TopologyDescription_GetDeviceDescriptions,
            topology = raw.as_ptr()
        )?;
        // SAFETY: texts and the list live as long as the topology.
        unsafe {
            this.platform_name = text(name.platform_name, name.platform_name_size);
            this.platform_version = text(version.platform_version, version.platform_version_size);
            for d in slice(list.descriptions, list.num_descriptions) {
                this.devices.push(describe(plugin, *d)?);
            }
        }
        Ok(this)
    }
}

impl Topology for PluginTopology {
    fn platform_name(&self) -> &str {
        &self.platform_name
    }

    fn platform_version(&self) -> &str {
        &self.platform_version
    }

    fn devices(&self) -> &[DeviceDescription] {
        &self.devices
    }

    fn attributes(&self) -> Result<Vec<(String, NamedValue)>> {
        let args = ask!(
            self.plugin,
            PJRT_TopologyDescription_Attributes,
            topology = self.raw.as_ptr()
        )?;
        // SAFETY: the list lives as long as the topology.
        Ok(unsafe { from_ffi(args.attributes, args.num_attributes) })
    }

    fn fingerprint(&self) -> Result<u64> {
        let mut args = PJRT_TopologyDescription_Fingerprint_Args::new();
        args.topology = self.raw.as_ptr();
        pjrt_call_new!(self.plugin, PJRT_TopologyDescription_Fingerprint, &mut args)?;
        Ok(args.fingerprint)
    }

    fn serialize(&self) -> Result<Vec<u8>> {
        let args = ask!(
            self.plugin,
            PJRT_TopologyDescription_Serialize,
            topology = self.raw.as_ptr()
        )?;
        // SAFETY: the bytes live until their owner is given to the deleter, once.
        unsafe {
            let bytes = slice(args.serialized_bytes.cast::<u8>(), args.serialized_bytes_size).to_vec();
            if let Some(delete) = args.serialized_topology_deleter {
                delete(args.serialized_topology);
            }
            Ok(bytes)
        }
    }

    fn compile(&self, code: &Program<'_>, options: &CompileOptions) -> Result<Arc<dyn Executable>> {
        let options = options.encode();
        let code = program(code);
        let mut args = PJRT_Compile_Args::new();
        args.topology = self.raw.as_ptr();
        args.program = &code;
        args.compile_options = options.as_ptr().cast();
        args.compile_options_size = options.len();
        pjrt_call!(self.plugin, PJRT_Compile, &mut args)?;
        Ok(Arc::new(PluginExecutable::unloaded(
            self.plugin,
            args.executable,
        )?))
    }
}

impl Drop for PluginTopology {
    fn drop(&mut self) {
        if self.client.is_some() {
            return;
        }
        let mut args = PJRT_TopologyDescription_Destroy_Args::new();
        args.topology = self.raw.as_ptr();
        pjrt_destroy!(self.plugin, PJRT_TopologyDescription_Destroy, &mut args);
    }
}
