//! [`Client`], [`Device`] and [`Memory`].

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

use serde::Serialize;

use crate::{
    Buffer, CompileOptions, DeviceDescription, Executable, HostArray, NamedValue, Program, Result, Topology,
};

/// Where a new buffer goes.
#[derive(Copy, Clone, Debug)]
pub enum Placement<'a> {
    /// The default memory of a device.
    Device(&'a dyn Device),
    /// A given memory.
    Memory(&'a dyn Memory),
}

/// A connection to a plugin and its devices.
///
/// Buffers and executables keep it alive, so the last owner may go while work is in flight.
pub trait Client: Debug + Send + Sync {
    /// `tpu`, `tpu_sim`, `cpu`, ...
    fn platform_name(&self) -> &str;

    /// The plugin's version text; part of cache keys.
    fn platform_version(&self) -> &str;

    /// This process among those of the slice.
    fn process_index(&self) -> Result<i32>;

    /// All devices of the slice, in id order.
    fn devices(&self) -> &[Arc<dyn Device>];

    /// Those that this process can use.
    fn addressable_devices(&self) -> Vec<Arc<dyn Device>> {
        self.devices()
            .iter()
            .filter(|d| d.is_addressable())
            .cloned()
            .collect()
    }

    /// The addressable device at `ordinal`.
    fn device(&self, ordinal: usize) -> Result<Arc<dyn Device>> {
        let devices = self.addressable_devices();
        let have = format!("{} (0 to {})", devices.len(), devices.len().saturating_sub(1));
        devices
            .into_iter()
            .nth(ordinal)
            .ok_or(crate::Error::NoSuchDevice {
                call: "Client::device",
                asked: ordinal.to_string(),
                have,
            })
    }

    /// All memories that this process can use.
    fn memories(&self) -> &[Arc<dyn Memory>];

    /// The slice that this client is on.
    fn topology(&self) -> Result<Arc<dyn Topology>>;

    /// Device ids for `replicas` x `partitions`, row-major.
    fn default_device_assignment(&self, replicas: i32, partitions: i32) -> Result<Vec<i32>>;

    /// Compiles a program.
    fn compile(&self, program: &Program<'_>, options: &CompileOptions) -> Result<Arc<dyn Executable>>;

    /// Loads what [`Executable::serialize`] gave. The bytes are trusted: check them before.
    fn load(&self, serialized: &[u8]) -> Result<Arc<dyn Executable>>;

    /// Copies a host array to a device.
    fn buffer_from_host(&self, array: &HostArray<'_>, to: Placement<'_>) -> Result<Arc<dyn Buffer>>;

    /// What the plugin says of itself: versions, extensions, attributes.
    fn attributes(&self) -> Vec<(String, NamedValue)>;

    /// Ends the client: every later call through it is [`crate::Error::ClientClosed`]. What runs, finishes.
    fn close(&self);
}

/// A chip, or a core of one.
pub trait Device: Debug + Send + Sync {
    /// Id in the slice, kind, coordinates, attributes.
    fn description(&self) -> &DeviceDescription;

    /// Whether this process can use it.
    fn is_addressable(&self) -> bool;

    /// Number on this host, or -1.
    fn local_hardware_id(&self) -> Result<i32>;

    /// Memories that it can address.
    fn memories(&self) -> Result<Vec<Arc<dyn Memory>>>;

    /// The memory that buffers go to when none is named.
    fn default_memory(&self) -> Result<Arc<dyn Memory>>;

    /// Bytes in use and the limit.
    fn memory_stats(&self) -> Result<MemoryStats>;

    /// Sets the peaks back to what is in use.
    fn clear_memory_stats(&self) -> Result<()>;

    /// The implementation behind decorators.
    fn as_any(&self) -> &dyn Any;
}

/// A memory space of a device or host.
pub trait Memory: Debug + Send + Sync {
    /// Number of the memory in its client.
    fn id(&self) -> i32;

    /// `device`, `pinned_host`, `unpinned_host`.
    fn kind(&self) -> &str;

    /// The implementation behind decorators.
    fn as_any(&self) -> &dyn Any;
}

/// Memory of one device, in bytes. `None` where the plugin does not tell.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct MemoryStats {
    /// Now.
    pub bytes_in_use: i64,
    /// The most since the start or the last reset.
    pub peak_bytes_in_use: Option<i64>,
    /// Allocations so far.
    pub num_allocs: Option<i64>,
    /// The largest one.
    pub largest_alloc_size: Option<i64>,
    /// How much there is.
    pub bytes_limit: Option<i64>,
    /// Held back by the allocator.
    pub bytes_reserved: Option<i64>,
    /// The largest piece that could be had now.
    pub largest_free_block_bytes: Option<i64>,
}
