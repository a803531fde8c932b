//! Buffers of a plugin.

use std::any::Any;
use std::fmt::Debug;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::Arc;

use dtype::ElementType;
use pjrt_ffi::*;

use super::client::{ClientInner, own_device, own_memory};
use super::event::{Done, PluginEvent};
use super::{ask, pjrt_call, pjrt_destroy};
use crate::buffer::HostRead;
use crate::host::normalize_narrow;
use crate::named_value::slice;
use crate::{Buffer, Device, Error, Event, ExternalReference, Memory, Result, Shape};

/// Reads up to this many bytes of host-resident memory by pointer: a transfer costs 17 us, the pointer 0.1 us.
const DIRECT_READ_BYTES: usize = 64 << 10;

/// A buffer handle, its client and its shape.
#[derive(Debug)]
pub(crate) struct PluginBuffer {
    pub(crate) client: Arc<ClientInner>,
    raw: NonNull<PJRT_Buffer>,
    shape: Arc<Shape>,
}

// SAFETY: PJRT buffers may be used from any thread.
unsafe impl Send for PluginBuffer {}
// SAFETY: as above.
unsafe impl Sync for PluginBuffer {}

impl PluginBuffer {
    /// Takes over `raw`.
    #[inline]
    pub(crate) fn adopt(
        client: &Arc<ClientInner>,
        raw: *mut PJRT_Buffer,
        shape: Arc<Shape>,
        call: &'static str,
    ) -> Result<Self> {
        let raw = NonNull::new(raw).ok_or_else(|| Error::argument(call, "the plugin returned no buffer"))?;
        Ok(Self {
            client: client.clone(),
            raw,
            shape,
        })
    }

    #[inline]
    pub(crate) fn raw(&self) -> *mut PJRT_Buffer {
        self.raw.as_ptr()
    }

    fn to_host(&self, dst: *mut u8, len: usize) -> Result<Option<PluginEvent>> {
        // Row-major whatever the device's layout is.
        let minor_to_major: Vec<i64> = (0..self.shape.dims.len() as i64).rev().collect();
        let mut layout = PJRT_Buffer_MemoryLayout::new();
        layout.type_ = PJRT_Buffer_MemoryLayout_Type_PJRT_Buffer_MemoryLayout_Type_Tiled;
        let mut tiled = PJRT_Buffer_MemoryLayout_Tiled::new();
        tiled.minor_to_major = minor_to_major.as_ptr();
        tiled.minor_to_major_size = minor_to_major.len();
        layout.__bindgen_anon_1.tiled = tiled;
        let mut args = PJRT_Buffer_ToHostBuffer_Args::new();
        args.src = self.raw();
        args.host_layout = &mut layout;
        args.dst = dst.cast();
        args.dst_size = len;
        pjrt_call!(self.client.plugin, PJRT_Buffer_ToHostBuffer, &mut args)?;
        Ok(PluginEvent::new(&self.client, args.event))
    }

    /// Copies from host-resident memory by its pointer; `false` when that is not possible for this buffer.
    fn read_directly(&self, dst: &mut [u8]) -> Result<bool> {
        // Narrow elements are packed on the device, so only whole-byte ones are the same on the host.
        if dst.len() > DIRECT_READ_BYTES || self.shape.element.bits() < 8 && self.shape.element.bits() != 1 {
            return Ok(false);
        }
        if self.shape.dynamic != 0 || !self.is_on_cpu()? {
            return Ok(false);
        }
        if self.shape.dims.len() > 1
            && !self
                .minor_to_major()?
                .iter()
                .rev()
                .enumerate()
                .all(|(i, m)| i as i64 == *m)
        {
            return Ok(false);
        }
        let reference = Pinned::new(self)?;
        self.ready()?.wait()?;
        // SAFETY: the reference pins `size_on_device` bytes, ready, of a dense row-major array of this shape.
        unsafe { std::ptr::copy_nonoverlapping(reference.address as *const u8, dst.as_mut_ptr(), dst.len()) };
        Ok(true)
    }
}

impl Buffer for PluginBuffer {
    fn shape(&self) -> &Shape {
        &self.shape
    }

    fn logical_dims(&self) -> Result<Vec<i64>> {
        self.check_alive("PJRT_Buffer_UnpaddedDimensions")?;
        if self.shape.dynamic == 0 {
            return Ok(self.shape.dims.to_vec());
        }
        self.ready()?.wait()?;
        let args = ask!(
            self.client.plugin,
            PJRT_Buffer_UnpaddedDimensions,
            buffer = self.raw()
        )?;
        // SAFETY: the list lives as long as the buffer.
        Ok(unsafe { slice(args.unpadded_dims, args.num_dims) }.to_vec())
    }

    fn device(&self) -> Result<Arc<dyn Device>> {
        let args = ask!(self.client.plugin, PJRT_Buffer_Device, buffer = self.raw())?;
        self.client.device(args.device, "PJRT_Buffer_Device")
    }

    fn memory(&self) -> Result<Arc<dyn Memory>> {
        let args = ask!(self.client.plugin, PJRT_Buffer_Memory, buffer = self.raw())?;
        self.client.memory(args.memory, "PJRT_Buffer_Memory")
    }

    fn size_on_device(&self) -> Result<usize> {
        self.check_alive("PJRT_Buffer_OnDeviceSizeInBytes")?;
        let args = ask!(
            self.client.plugin,
            PJRT_Buffer_OnDeviceSizeInBytes,
            buffer = self.raw()
        )?;
        Ok(args.on_device_size_in_bytes)
    }

    fn minor_to_major(&self) -> Result<Vec<i64>> {
        let args = ask!(
            self.client.plugin,
            PJRT_Buffer_GetMemoryLayout,
            buffer = self.raw()
        )?;
        if args.layout.type_ != PJRT_Buffer_MemoryLayout_Type_PJRT_Buffer_MemoryLayout_Type_Tiled {
            return Err(self.client.plugin.unsupported("a strided device layout"));
        }
        // SAFETY: the tag says that the tiled member is live; its lists live as long as the buffer.
        let tiled = unsafe { args.layout.__bindgen_anon_1.tiled };
        // SAFETY: as above.
        Ok(unsafe { slice(tiled.minor_to_major, tiled.minor_to_major_size) }.to_vec())
    }

    fn is_on_cpu(&self) -> Result<bool> {
        let args = ask!(self.client.plugin, PJRT_Buffer_IsOnCpu, buffer = self.raw())?;
        Ok(args.is_on_cpu)
    }

    fn ready(&self) -> Result<Arc<dyn Event>> {
        self.check_alive("PJRT_Buffer_ReadyEvent")?;
        let args = ask!(self.client.plugin, PJRT_Buffer_ReadyEvent, buffer = self.raw())?;
        Ok(match PluginEvent::new(&self.client, args.event) {
            Some(event) => Arc::new(event),
            None => Arc::new(Done),
        })
    }

    fn copy_to_host(&self, dst: &mut [u8]) -> Result<()> {
        let call = "PJRT_Buffer_ToHostBuffer";
        let want = self.shape.host_bytes();
        if dst.len() != want {
            let what = format!(
                "{} takes {want} bytes of host memory, {} were given",
                self.shape,
                dst.len()
            );
            return Err(Error::argument(call, what));
        }
        self.check_alive(call)?;
        if dst.is_empty() {
            return self.ready()?.wait();
        }
        if self.read_directly(dst)? {
            return Ok(());
        }
        if let Some(event) = self.to_host(dst.as_mut_ptr(), dst.len())? {
            event.wait()?;
        }
        normalize_narrow(self.shape.element, dst);
        Ok(())
    }

    fn read(&self) -> Result<Box<dyn HostRead>> {
        self.check_alive("PJRT_Buffer_ToHostBuffer")?;
        let mut bytes = vec![0; self.shape.host_bytes()];
        let event = if bytes.is_empty() {
            None
        } else {
            self.to_host(bytes.as_mut_ptr(), bytes.len())?
        };
        Ok(Box::new(PendingRead {
            event,
            bytes,
            element: self.shape.element,
        }))
    }

    fn copy_to_device(&self, device: &dyn Device) -> Result<Arc<dyn Buffer>> {
        let call = "PJRT_Buffer_CopyToDevice";
        self.client.check_open(call)?;
        self.check_alive(call)?;
        let mut args = PJRT_Buffer_CopyToDevice_Args::new();
        args.buffer = self.raw();
        args.dst_device = own_device(&self.client, device, call)?.raw();
        // Not every plugin copies a buffer onto its own device by this call; by its memory it does.
        if self.device()?.description().id == device.description().id {
            return self.copy_to_memory(&*device.default_memory()?);
        }
        pjrt_call!(self.client.plugin, PJRT_Buffer_CopyToDevice, &mut args)?;
        Ok(Arc::new(Self::adopt(
            &self.client,
            args.dst_buffer,
            self.shape.clone(),
            call,
        )?))
    }

    fn copy_to_memory(&self, memory: &dyn Memory) -> Result<Arc<dyn Buffer>> {
        let call = "PJRT_Buffer_CopyToMemory";
        self.client.check_open(call)?;
        self.check_alive(call)?;
        let mut args = PJRT_Buffer_CopyToMemory_Args::new();
        args.buffer = self.raw();
        args.dst_memory = own_memory(&self.client, memory, call)?.raw();
        pjrt_call!(self.client.plugin, PJRT_Buffer_CopyToMemory, &mut args)?;
        Ok(Arc::new(Self::adopt(
            &self.client,
            args.dst_buffer,
            self.shape.clone(),
            call,
        )?))
    }

    fn external_reference(self: Arc<Self>) -> Result<Box<dyn ExternalReference>> {
        Ok(Box::new(Pinned::new(self)?))
    }

    fn delete(&self) -> Result<()> {
        let mut args = PJRT_Buffer_Delete_Args::new();
        args.buffer = self.raw();
        pjrt_call!(self.client.plugin, PJRT_Buffer_Delete, &mut args)
    }

    fn is_deleted(&self) -> Result<bool> {
        let args = ask!(self.client.plugin, PJRT_Buffer_IsDeleted, buffer = self.raw())?;
        Ok(args.is_deleted)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Drop for PluginBuffer {
    fn drop(&mut self) {
        let mut args = PJRT_Buffer_Destroy_Args::new();
        args.buffer = self.raw();
        pjrt_destroy!(self.client.plugin, PJRT_Buffer_Destroy, &mut args);
    }
}

/// A read under way: the bytes must outlive the transfer into them.
#[derive(Debug)]
struct PendingRead {
    event: Option<PluginEvent>,
    bytes: Vec<u8>,
    element: ElementType,
}

impl HostRead for PendingRead {
    fn is_ready(&self) -> Result<bool> {
        self.event.as_ref().map_or(Ok(true), Event::is_ready)
    }

    fn wait(mut self: Box<Self>) -> Result<Vec<u8>> {
        if let Some(event) = self.event.take() {
            event.wait()?;
        }
        normalize_narrow(self.element, &mut self.bytes);
        Ok(std::mem::take(&mut self.bytes))
    }
}

impl Drop for PendingRead {
    fn drop(&mut self) {
        if let Some(event) = &self.event {
            // The error, if any, goes with the value that nobody wants any more.
            let _ = event.wait();
        }
    }
}

/// A pinned buffer, owned or borrowed: the count is given back while its handle is live.
#[derive(Debug)]
struct Pinned<B: Deref<Target = PluginBuffer>> {
    buffer: B,
    address: usize,
}

impl<B: Deref<Target = PluginBuffer>> Pinned<B> {
    fn new(buffer: B) -> Result<Self> {
        buffer.check_alive("PJRT_Buffer_IncreaseExternalReferenceCount")?;
        ask!(
            buffer.client.plugin,
            PJRT_Buffer_IncreaseExternalReferenceCount,
            buffer = buffer.raw()
        )?;
        // Built before the address is asked for, so that a failure gives the count back.
        let mut pinned = Self { buffer, address: 0 };
        let address = ask!(
            pinned.buffer.client.plugin,
            PJRT_Buffer_OpaqueDeviceMemoryDataPointer,
            buffer = pinned.buffer.raw()
        )?;
        pinned.address = address.device_memory_ptr as usize;
        Ok(pinned)
    }
}

impl<B: Deref<Target = PluginBuffer> + Debug + Send> ExternalReference for Pinned<B> {
    fn address(&self) -> usize {
        self.address
    }
}

impl<B: Deref<Target = PluginBuffer>> Drop for Pinned<B> {
    fn drop(&mut self) {
        let mut args = PJRT_Buffer_DecreaseExternalReferenceCount_Args::new();
        args.buffer = self.buffer.raw();
        pjrt_destroy!(
            self.buffer.client.plugin,
            PJRT_Buffer_DecreaseExternalReferenceCount,
            &mut args
        );
    }
}
