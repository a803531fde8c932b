//! [`Buffer`] and [`Event`].

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

use crate::host::scatter_strided;
use crate::{Device, Error, Memory, Result, Shape};

/// Something that happens later, with success or an error.
pub trait Event: Debug + Send + Sync {
    /// Whether it has happened, without waiting.
    fn is_ready(&self) -> Result<bool>;

    /// Waits for it. The error is the one that the awaited work ended with.
    fn wait(&self) -> Result<()>;

    /// Calls `then` when it has happened, on a thread of the plugin's or at once. A panic in it is caught and logged.
    fn on_ready(&self, then: Box<dyn FnOnce(Result<()>) + Send>) -> Result<()>;
}

/// Keeps a buffer's device memory in place while somebody outside (DLPack, say) uses it.
pub trait ExternalReference: Debug + Send {
    /// The address of the memory, on its device.
    fn address(&self) -> usize;
}

/// An array on a device.
pub trait Buffer: Debug + Send + Sync {
    /// Element type and dimensions; for a dynamic result the bounds.
    fn shape(&self) -> &Shape;

    /// The actual sizes: those of [`Buffer::shape`], or fewer where a dimension is dynamic. Waits for dynamic ones.
    fn logical_dims(&self) -> Result<Vec<i64>>;

    /// The device that holds it.
    fn device(&self) -> Result<Arc<dyn Device>>;

    /// The memory that holds it.
    fn memory(&self) -> Result<Arc<dyn Memory>>;

    /// Bytes it takes on the device, padding included.
    fn size_on_device(&self) -> Result<usize>;

    /// Dimensions from the fastest-varying to the slowest, as laid out on the device.
    fn minor_to_major(&self) -> Result<Vec<i64>>;

    /// Whether its memory is the host's.
    fn is_on_cpu(&self) -> Result<bool>;

    /// Happens when its value is there.
    fn ready(&self) -> Result<Arc<dyn Event>>;

    /// Copies its value, dense and row-major, into `dst`, which has exactly [`Shape::host_bytes`] bytes. Waits.
    fn copy_to_host(&self, dst: &mut [u8]) -> Result<()>;

    /// Starts to read its value; the bytes are there when the returned transfer is waited for.
    fn read(&self) -> Result<Box<dyn HostRead>>;

    /// Copies its value into a strided host array. Waits.
    fn copy_to_host_strided(&self, dst: &mut [u8], byte_strides: &[i64]) -> Result<()> {
        let shape = self.shape().clone();
        let target = crate::HostArray::new(shape.element, &shape.dims, dst).strided(byte_strides);
        target.check("Buffer::copy_to_host_strided")?;
        let mut dense = vec![0; shape.host_bytes()];
        self.copy_to_host(&mut dense)?;
        scatter_strided(&shape, &dense, dst, byte_strides);
        Ok(())
    }

    /// Copies it to another device of the same client.
    fn copy_to_device(&self, device: &dyn Device) -> Result<Arc<dyn Buffer>>;

    /// Copies it to another memory of the same client, such as `pinned_host`.
    fn copy_to_memory(&self, memory: &dyn Memory) -> Result<Arc<dyn Buffer>>;

    /// Pins its memory and gives the address; keeps the buffer.
    fn external_reference(self: Arc<Self>) -> Result<Box<dyn ExternalReference>>;

    /// Frees its memory now; every later use is an error.
    fn delete(&self) -> Result<()>;

    /// Whether it was deleted or donated.
    fn is_deleted(&self) -> Result<bool>;

    /// The implementation behind decorators, for the client that made it.
    fn as_any(&self) -> &dyn Any;

    /// The error for a use after deletion, or `Ok` when it may be used.
    fn check_alive(&self, call: &'static str) -> Result<()> {
        if self.is_deleted()? {
            return Err(Error::BufferDeleted {
                call,
                what: format!("the buffer {}", self.shape()),
            });
        }
        Ok(())
    }
}

/// A transfer to the host that is under way.
pub trait HostRead: Debug + Send {
    /// Whether the bytes are there.
    fn is_ready(&self) -> Result<bool>;

    /// Waits and gives the bytes, dense and row-major.
    fn wait(self: Box<Self>) -> Result<Vec<u8>>;
}
