//! Copies: from host memory, to host memory, between tensors.

use std::sync::{Arc, LazyLock};

use aten::{Cx, Lowered, OpDef};
use dtype::ElementType;
use glue_abi::{Arg, SchemaKind, Tag, TensorArg};
use pjrt::{HostArray, Placement};

use crate::client::{DeviceState, explain, failed, runtime};
use crate::dispatch::{Outcome, dispatch};
use crate::glue::Glue;
use crate::memory::human;
use crate::node::Place;
use crate::parse::{SlotIn, Tensor, is_identity, list, storage};
use crate::schema::{OpHandle, Schema, SchemaEntry};
use crate::storage::{Content, Dense, Storage, Tracked};
use crate::view::{contiguous, is_contiguous};
use crate::{Error, Result, element, window};

/// `dst = src`, converted.
fn copy_into(cx: &mut Cx<'_, '_>) -> Lowered {
    let src = cx.tensor("src")?;
    let dims = &cx.out(0)?.dims;
    Ok(cx.broadcast_to(src, dims)?.into())
}

static COPY_HANDLE: LazyLock<OpHandle> = LazyLock::new(|| {
    let tensor = |name: &str, written| SchemaEntry {
        name: name.into(),
        kind: SchemaKind::Tensor,
        written,
    };
    OpHandle::of(
        &COPY,
        Schema {
            name: "aten::copy_".into(),
            arguments: vec![tensor("self", true), tensor("src", false)],
            returns: vec![Some(0)],
        },
    )
});
/// The destination has its sizes already: no Meta kernel is needed.
static COPY: OpDef = OpDef::new("copy_", copy_into).shape(|call| {
    let meta = &call.tensors[0];
    Ok(vec![Some(aten::OutMeta {
        dims: meta.dims.clone(),
        element: meta.element,
    })])
});

/// A described tensor and its storage.
struct Described<'a> {
    storage: &'a Storage,
    slot: SlotIn<'a>,
    tensor: Tensor<'a>,
}

/// # Safety
/// Pointers in `arg` are good for `'a`.
unsafe fn described<'a>(arg: &'a TensorArg) -> Result<Described<'a>> {
    // SAFETY: the caller's promise.
    let storage: &'a Storage = unsafe { storage(arg.storage) }?;
    let n = arg.ndim as usize;
    // SAFETY: the caller's promise.
    let (sizes, strides) = unsafe { (list(arg.sizes, n), list(arg.strides, n)) };
    let element = element(arg.dtype)?;
    let slot = SlotIn::of(storage, element);
    if let Content::Lost(why) = &slot.content {
        return Err(Error::runtime(why.clone()));
    }
    let tensor = Tensor {
        sizes,
        strides,
        offset: arg.offset,
        element,
        wrapped: false,
        slot: Some(0),
        bits: [0; 2],
    };
    Ok(Described {
        storage,
        slot,
        tensor,
    })
}

impl Described<'_> {
    fn place(&self) -> Place {
        self.slot.place(0, &self.tensor)
    }

    /// The value itself, if the tensor is exactly what its storage holds.
    fn whole(&self) -> Option<&Dense> {
        let dense = self.slot.content.dense()?;
        let place = self.place();
        (place.recast.is_none() && is_identity(&place.plan, &dense.dims, &place.view)).then_some(dense)
    }

    /// Whether writing it replaces all that its storage holds, in order.
    fn fills(&self) -> bool {
        let elements: i64 = self.tensor.sizes.iter().product();
        self.tensor.offset == 0
            && is_contiguous(self.tensor.sizes, self.tensor.strides)
            && elements as usize * self.tensor.element.host_bytes() == self.slot.nbytes
    }
}

/// Runs the copy program.
///
/// # Safety
/// As for [`copy`].
unsafe fn run_copy(src: &TensorArg, dst: &TensorArg, device: usize) -> Result<()> {
    let tensor = |t: &TensorArg| Arg {
        tag: Tag::Tensor as u32,
        len: 0,
        payload: std::ptr::from_ref(t) as u64,
        imaginary: 0.0,
    };
    let args = [tensor(dst), tensor(src)];
    let glue = Glue::none();
    loop {
        // SAFETY: the caller's promise; the copy's metadata needs no glue.
        if let Outcome::Done(_) = unsafe { dispatch(&COPY_HANDLE, &args, device, glue) }? {
            return Ok(());
        }
    }
}

/// Copies between device tensors of equal sizes, converting the elements.
///
/// # Safety
/// Pointers in the arguments are good for the call.
pub unsafe fn copy(src: &TensorArg, dst: &TensorArg) -> Result<()> {
    let runtime = runtime()?;
    if window::defers(runtime) && src.device == dst.device {
        // SAFETY: the caller's promise.
        return unsafe { run_copy(src, dst, dst.device as usize) };
    }
    window::flush_all(runtime)?;
    // SAFETY: the caller's promise.
    let (from, to) = unsafe { (described(src)?, described(dst)?) };
    if to.tensor.sizes.contains(&0) {
        return Ok(());
    }
    let (a, b) = (from.storage.device, to.storage.device);
    if a == b {
        // Buffers are immutable: equal contents can be one buffer until somebody writes.
        if to.fills()
            && from.tensor.element == to.tensor.element
            && let Some(dense) = from.whole()
        {
            let dense = dense.clone();
            to.storage.state.lock().content = Content::Dense(dense);
            return Ok(());
        }
        // SAFETY: the caller's promise.
        return unsafe { run_copy(src, dst, b) };
    }
    // SAFETY: the caller's promise.
    let dense = unsafe { materialize(&from, src) }?;
    let target = runtime.device(b)?;
    let moved = dense
        .data
        .buffer
        .copy_to_device(&*target.device)
        .map_err(|e| failed(e, dense.data.origin.as_deref()))?;
    let moved = Dense {
        data: track(target, moved, &dense),
        ..dense
    };
    // SAFETY: the caller's promise.
    unsafe { put(moved, from.tensor.element, &to, dst) }
}

fn track(device: &DeviceState, buffer: Arc<dyn pjrt::Buffer>, like: &Dense) -> Arc<Tracked> {
    let tracked = Tracked::new(
        buffer,
        like.data.bytes(),
        device.account,
        like.data.origin.clone(),
    );
    device.issued(&tracked);
    tracked
}

/// Puts a value of such elements into a tensor: at once if it fills its storage, through the copy program otherwise.
///
/// # Safety
/// Pointers in `dst` are good for the call.
unsafe fn put(value: Dense, element: ElementType, to: &Described<'_>, dst: &TensorArg) -> Result<()> {
    if to.fills() && to.tensor.element == element {
        to.storage.state.lock().content = Content::Dense(value);
        return Ok(());
    }
    let device = to.storage.device;
    let sizes = value.dims.clone();
    let strides = contiguous(&sizes);
    let nbytes = value.data.bytes() as usize;
    let temporary = Storage::filled(nbytes, device, value);
    let src = TensorArg {
        storage: Arc::as_ptr(&temporary).cast_mut().cast(),
        sizes: sizes.as_ptr(),
        strides: strides.as_ptr(),
        offset: 0,
        ndim: sizes.len() as u32,
        dtype: crate::code(element),
        kind: glue_abi::TensorKind::Device as u8,
        flags: 0,
        device: device as i8,
        scalar: [0; 2],
    };
    // SAFETY: the temporary outlives the call, `dst` by the caller's promise.
    unsafe { run_copy(&src, dst, device) }
}

/// The tensor's elements as a dense value of its sizes.
///
/// # Safety
/// Pointers in `arg` are good for the call.
unsafe fn materialize(from: &Described<'_>, arg: &TensorArg) -> Result<Dense> {
    if let Some(dense) = from.whole() {
        return Ok(dense.clone());
    }
    let elements: i64 = from.tensor.sizes.iter().product();
    let device = from.storage.device;
    let temporary = Storage::new(elements as usize * from.tensor.element.host_bytes(), device);
    let strides = contiguous(from.tensor.sizes);
    let dst = TensorArg {
        storage: Arc::as_ptr(&temporary).cast_mut().cast(),
        strides: strides.as_ptr(),
        offset: 0,
        ..*arg
    };
    // SAFETY: the temporary outlives the call, `arg` by the caller's promise.
    unsafe { run_copy(arg, &dst, device) }?;
    window::flush_all(runtime()?)?;
    let content = temporary.state.lock().content.clone();
    match content {
        Content::Dense(dense) => Ok(dense),
        _ => Err(Error::runtime("a copy left nothing")),
    }
}

/// Copies dense row-major host bytes into a tensor.
///
/// # Safety
/// Pointers in `dst` are good for the call.
pub unsafe fn upload(bytes: &[u8], dst: &TensorArg) -> Result<()> {
    let runtime = runtime()?;
    window::flush_for(runtime, dst)?;
    // SAFETY: the caller's promise.
    let to = unsafe { described(dst) }?;
    let device = to.storage.device;
    let state = runtime.device(device)?;
    let array = HostArray::new(to.tensor.element.stored(), to.tensor.sizes, bytes);
    let buffer = runtime
        .client
        .buffer_from_host(&array, Placement::Device(&*state.device))
        .map_err(|e| {
            explain(
                device,
                state,
                e,
                &format!("cannot copy {} to the device", human(bytes.len() as u64)),
            )
        })?;
    let tracked = Tracked::new(buffer, bytes.len() as u64, state.account, None);
    state.issued(&tracked);
    let dense = Dense {
        data: tracked,
        element: to.tensor.element.stored(),
        dims: to.tensor.sizes.into(),
    };
    // SAFETY: the caller's promise.
    unsafe { put(dense, to.tensor.element, &to, dst) }
}

/// Copies a tensor to dense row-major host bytes.
///
/// # Safety
/// Pointers in `src` are good for the call.
pub unsafe fn download(src: &TensorArg, bytes: &mut [u8]) -> Result<()> {
    // A value may lie in memory that a forked child can read: refused all the same, as every other access is.
    window::flush_all(runtime()?)?;
    // SAFETY: the caller's promise.
    let from = unsafe { described(src) }?;
    crate::pending::verify_pending()?;
    if bytes.is_empty() {
        return Ok(());
    }
    if let Some(dense) = from.raw(bytes.len()) {
        return dense
            .data
            .buffer
            .copy_to_host(bytes)
            .map_err(|e| failed(e, dense.data.origin.as_deref()));
    }
    // SAFETY: the caller's promise.
    let dense = unsafe { materialize(&from, src) }?;
    dense
        .data
        .buffer
        .copy_to_host(bytes)
        .map_err(|e| failed(e, dense.data.origin.as_deref()))
}

impl Described<'_> {
    /// The value whose bytes in order are those of the tensor, whatever the two's element types and sizes.
    fn raw(&self, bytes: usize) -> Option<&Dense> {
        let dense = self.slot.content.dense()?;
        let held = dense.dims.iter().product::<i64>() as usize * dense.element.host_bytes();
        let ordered = self.tensor.offset == 0 && is_contiguous(self.tensor.sizes, self.tensor.strides);
        (ordered && held == bytes).then_some(dense)
    }
}
