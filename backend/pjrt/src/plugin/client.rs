//! [`PluginClient`].

use std::path::Path;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pjrt_ffi::*;

use super::buffer::PluginBuffer;
use super::device::{DeviceEntry, MemoryEntry, PluginDevice, PluginMemory};
use super::event::PluginEvent;
use super::executable::{PluginExecutable, program};
use super::{Plugin, PluginTopology, ask, pjrt_call, pjrt_destroy};
use crate::host::HostData;
use crate::named_value::{slice, text, to_ffi};
use crate::{
    Buffer, Client, CompileOptions, Device, Error, Event, Executable, HostArray, Memory, NamedValue,
    Placement, Program, Result, Topology,
};

/// Options for making a client, by the plugin's own names. Plugins refuse unknown ones by name.
pub type ClientOptions = [(String, NamedValue)];

/// The client handle, shared by all that came from it.
#[derive(Debug)]
pub(crate) struct ClientInner {
    pub(crate) plugin: &'static Plugin,
    pub(crate) raw: NonNull<PJRT_Client>,
    pub(crate) devices: Vec<DeviceEntry>,
    pub(crate) memories: Vec<MemoryEntry>,
    closed: AtomicBool,
}

// SAFETY: a PJRT client may be used from any thread; the lists are immutable.
unsafe impl Send for ClientInner {}
// SAFETY: as above.
unsafe impl Sync for ClientInner {}

impl ClientInner {
    #[inline]
    pub(crate) fn check_open(&self, call: &'static str) -> Result<()> {
        if self.closed.load(Ordering::Relaxed) {
            Err(Error::ClientClosed { call })
        } else {
            Ok(())
        }
    }

    pub(crate) fn device(
        self: &Arc<Self>,
        raw: *mut PJRT_Device,
        call: &'static str,
    ) -> Result<Arc<dyn Device>> {
        let index = self.devices.iter().position(|d| d.raw.as_ptr() == raw);
        let index =
            index.ok_or_else(|| Error::argument(call, "the plugin named a device that it never listed"))?;
        Ok(Arc::new(PluginDevice {
            client: self.clone(),
            index,
        }))
    }

    pub(crate) fn memory(
        self: &Arc<Self>,
        raw: *mut PJRT_Memory,
        call: &'static str,
    ) -> Result<Arc<dyn Memory>> {
        let index = self.memories.iter().position(|m| m.raw.as_ptr() == raw);
        let index =
            index.ok_or_else(|| Error::argument(call, "the plugin named a memory that it never listed"))?;
        Ok(Arc::new(PluginMemory {
            client: self.clone(),
            index,
        }))
    }

    /// Gives back an owner from a thread of the plugin's. When it is the last one, the client is destroyed on a
    /// thread of its own: a plugin joins its threads there, and must not join the one that it runs on.
    pub(crate) fn release_from_callback(self: Arc<Self>) {
        if let Some(last) = Arc::into_inner(self) {
            std::thread::spawn(move || drop(last));
        }
    }
}

impl Drop for ClientInner {
    fn drop(&mut self) {
        let mut args = PJRT_Client_Destroy_Args::new();
        args.client = self.raw.as_ptr();
        pjrt_destroy!(self.plugin, PJRT_Client_Destroy, &mut args);
    }
}

/// A client of any PJRT plugin.
#[derive(Debug)]
pub struct PluginClient {
    inner: Arc<ClientInner>,
    platform_name: String,
    platform_version: String,
    devices: Vec<Arc<dyn Device>>,
    memories: Vec<Arc<dyn Memory>>,
}

impl PluginClient {
    /// Loads the plugin at `path` and makes a client.
    pub fn open(path: impl AsRef<Path>, options: &ClientOptions) -> Result<Arc<Self>> {
        Self::new(Plugin::load(path)?, options)
    }

    /// Makes a client of a loaded plugin.
    pub fn new(plugin: &'static Plugin, options: &ClientOptions) -> Result<Arc<Self>> {
        let options = to_ffi(options);
        let mut args = PJRT_Client_Create_Args_V114::new();
        args.create_options = options.as_ptr();
        args.num_options = options.len();
        pjrt_call!(plugin, PJRT_Client_Create, (&raw mut args).cast())?;
        let call = "PJRT_Client_Create";
        let raw = NonNull::new(args.client)
            .ok_or_else(|| Error::argument(call, "the plugin returned no client"))?;
        // From here on dropping `inner` destroys the client, also when a query below fails.
        let mut inner = ClientInner {
            plugin,
            raw,
            devices: vec![],
            memories: vec![],
            closed: AtomicBool::new(false),
        };
        let list = ask!(plugin, PJRT_Client_Devices, client = raw.as_ptr())?;
        // SAFETY: the list lives as long as the client.
        for device in unsafe { slice(list.devices, list.num_devices) } {
            let device = NonNull::new(*device)
                .ok_or_else(|| Error::argument(call, "the plugin listed a null device"))?;
            inner.devices.push(DeviceEntry::read(plugin, device)?);
        }
        inner.devices.sort_by_key(|d| d.description.id);
        let list = ask!(plugin, PJRT_Client_AddressableMemories, client = raw.as_ptr())?;
        // SAFETY: as above.
        for memory in unsafe { slice(list.addressable_memories, list.num_addressable_memories) } {
            let memory = NonNull::new(*memory)
                .ok_or_else(|| Error::argument(call, "the plugin listed a null memory"))?;
            inner.memories.push(MemoryEntry::read(plugin, memory)?);
        }
        let name = ask!(plugin, PJRT_Client_PlatformName, client = raw.as_ptr())?;
        let version = ask!(plugin, PJRT_Client_PlatformVersion, client = raw.as_ptr())?;
        // SAFETY: texts with their lengths, owned by the client.
        let (platform_name, platform_version) = unsafe {
            (
                text(name.platform_name, name.platform_name_size),
                text(version.platform_version, version.platform_version_size),
            )
        };
        let inner = Arc::new(inner);
        let devices = (0..inner.devices.len())
            .map(|index| {
                Arc::new(PluginDevice {
                    client: inner.clone(),
                    index,
                }) as Arc<dyn Device>
            })
            .collect();
        let memories = (0..inner.memories.len())
            .map(|index| {
                Arc::new(PluginMemory {
                    client: inner.clone(),
                    index,
                }) as Arc<dyn Memory>
            })
            .collect();
        Ok(Arc::new(Self {
            inner,
            platform_name,
            platform_version,
            devices,
            memories,
        }))
    }

    /// The plugin.
    pub fn plugin(&self) -> &'static Plugin {
        self.inner.plugin
    }

    fn own_device<'d>(&self, device: &'d dyn Device, call: &'static str) -> Result<&'d PluginDevice> {
        own_device(&self.inner, device, call)
    }
}

/// The plugin's device behind `device`, when it is one of this client's.
pub(crate) fn own_device<'d>(
    client: &Arc<ClientInner>,
    device: &'d dyn Device,
    call: &'static str,
) -> Result<&'d PluginDevice> {
    let ours = device
        .as_any()
        .downcast_ref::<PluginDevice>()
        .filter(|d| Arc::ptr_eq(&d.client, client));
    ours.ok_or_else(|| Error::NoSuchDevice {
        call,
        asked: format!("{} of another client", device.description().text),
        have: format!("{} devices of its own", client.devices.len()),
    })
}

/// The plugin's memory behind `memory`, when it is one of this client's.
pub(crate) fn own_memory<'m>(
    client: &Arc<ClientInner>,
    memory: &'m dyn Memory,
    call: &'static str,
) -> Result<&'m PluginMemory> {
    let ours = memory
        .as_any()
        .downcast_ref::<PluginMemory>()
        .filter(|m| Arc::ptr_eq(&m.client, client));
    ours.ok_or_else(|| Error::argument(call, format!("memory {} belongs to another client", memory.id())))
}

impl Client for PluginClient {
    fn platform_name(&self) -> &str {
        &self.platform_name
    }

    fn platform_version(&self) -> &str {
        &self.platform_version
    }

    fn process_index(&self) -> Result<i32> {
        let args = ask!(
            self.inner.plugin,
            PJRT_Client_ProcessIndex,
            client = self.inner.raw.as_ptr()
        )?;
        Ok(args.process_index)
    }

    fn devices(&self) -> &[Arc<dyn Device>] {
        &self.devices
    }

    fn memories(&self) -> &[Arc<dyn Memory>] {
        &self.memories
    }

    fn topology(&self) -> Result<Arc<dyn Topology>> {
        Ok(Arc::new(PluginTopology::of_client(&self.inner)?))
    }

    fn default_device_assignment(&self, replicas: i32, partitions: i32) -> Result<Vec<i32>> {
        let call = "PJRT_Client_DefaultDeviceAssignment";
        self.inner.check_open(call)?;
        if replicas < 1
            || partitions < 1
            || i64::from(replicas) * i64::from(partitions) > self.devices.len() as i64
        {
            let what = format!(
                "{replicas} x {partitions} devices asked for, this client has {}",
                self.devices.len()
            );
            return Err(Error::argument(call, what));
        }
        let mut ids = vec![0; (replicas * partitions) as usize];
        let mut args = PJRT_Client_DefaultDeviceAssignment_Args::new();
        args.client = self.inner.raw.as_ptr();
        args.num_replicas = replicas;
        args.num_partitions = partitions;
        args.default_assignment_size = ids.len();
        args.default_assignment = ids.as_mut_ptr();
        pjrt_call!(self.inner.plugin, PJRT_Client_DefaultDeviceAssignment, &mut args)?;
        Ok(ids)
    }

    fn compile(&self, code: &Program<'_>, options: &CompileOptions) -> Result<Arc<dyn Executable>> {
        self.inner.check_open("PJRT_Client_Compile")?;
        let options = options.encode();
        let mut code = program(code);
        let mut args = PJRT_Client_Compile_Args::new();
        args.client = self.inner.raw.as_ptr();
        args.program = &mut code;
        args.compile_options = options.as_ptr().cast();
        args.compile_options_size = options.len();
        pjrt_call!(self.inner.plugin, PJRT_Client_Compile, &mut args)?;
        Ok(Arc::new(PluginExecutable::loaded(&self.inner, args.executable)?))
    }

    fn load(&self, serialized: &[u8]) -> Result<Arc<dyn Executable>> {
        self.inner.check_open("PJRT_Executable_DeserializeAndLoad")?;
        let mut args = PJRT_Executable_DeserializeAndLoad_Args_V114::new();
        args.client = self.inner.raw.as_ptr();
        args.serialized_executable = serialized.as_ptr().cast();
        args.serialized_executable_size = serialized.len();
        pjrt_call!(
            self.inner.plugin,
            PJRT_Executable_DeserializeAndLoad,
            (&raw mut args).cast()
        )?;
        Ok(Arc::new(PluginExecutable::loaded(
            &self.inner,
            args.loaded_executable,
        )?))
    }

    fn buffer_from_host(&self, array: &HostArray<'_>, to: Placement<'_>) -> Result<Arc<dyn Buffer>> {
        let call = "PJRT_Client_BufferFromHostBuffer";
        self.inner.check_open(call)?;
        array.check(call)?;
        let mut args = PJRT_Client_BufferFromHostBuffer_Args::new();
        args.client = self.inner.raw.as_ptr();
        args.data = array.bytes().as_ptr().cast();
        args.type_ = array.shape.element.to_pjrt();
        args.dims = array.shape.dims.as_ptr();
        args.num_dims = array.shape.dims.len();
        if let Some(strides) = &array.byte_strides {
            args.byte_strides = strides.as_ptr();
            args.num_byte_strides = strides.len();
        }
        args.host_buffer_semantics = match &array.data {
            HostData::Borrowed(_) => {
                PJRT_HostBufferSemantics_PJRT_HostBufferSemantics_kImmutableOnlyDuringCall
            }
            HostData::Shared(_) => {
                PJRT_HostBufferSemantics_PJRT_HostBufferSemantics_kImmutableUntilTransferCompletes
            }
        };
        match to {
            Placement::Device(device) => args.device = self.own_device(device, call)?.raw(),
            Placement::Memory(memory) => args.memory = own_memory(&self.inner, memory, call)?.raw(),
        }
        pjrt_call!(self.inner.plugin, PJRT_Client_BufferFromHostBuffer, &mut args)?;
        let buffer = PluginBuffer::adopt(&self.inner, args.buffer, Arc::new(array.shape.clone()), call)?;
        if let Some(done) = PluginEvent::new(&self.inner, args.done_with_host_buffer) {
            if let HostData::Shared(bytes) = &array.data {
                // A CPU plugin aliases the bytes and is done only when the buffer goes: they live until it says so.
                let bytes = bytes.clone();
                done.on_ready(Box::new(move |_| drop(bytes)))?;
            }
        }
        Ok(Arc::new(buffer))
    }

    fn attributes(&self) -> Vec<(String, NamedValue)> {
        self.inner.plugin.attributes()
    }

    fn close(&self) {
        self.inner.closed.store(true, Ordering::Relaxed);
    }
}
