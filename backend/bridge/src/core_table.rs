//! The core's functions for a glue. No panic and no Rust error crosses: both become a status, with kind and text kept for
//! the caller.

use std::cell::RefCell;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};

use glue_abi::{
    ABI_VERSION, Arg, CoreTable, ErrorKind, GlueTable, Memory, Results, SchemaArg, SchemaKind, Status,
    TensorArg, TensorResult,
};
use parking_lot::Mutex;
use runtime::{Error, Event, Glue, OpHandle, Outcome, Result, Schema, SchemaEntry, Storage, runtime};

/// What a call left for its caller, until the next call from the same thread.
#[derive(Default)]
struct Last {
    kind: u32,
    text: String,
    tensors: Vec<TensorResult>,
    counts: Vec<i32>,
    returned: Option<runtime::Returned>,
}

thread_local! {
    static LAST: RefCell<Last> = RefCell::default();
}

/// The opened glue.
static GLUE: OnceLock<&'static GlueTable> = OnceLock::new();

/// The glue, once it is open.
pub(crate) fn glue() -> Option<&'static GlueTable> {
    GLUE.get().copied()
}

/// Keeps the opened glue.
pub(crate) fn set_glue(table: &'static GlueTable) {
    let _ = GLUE.set(table);
}

fn remember(error: Error) -> Status {
    let (status, kind, text) = match error {
        Error::Raised { kind, message } => (Status::Error, kind, message),
        Error::NoLowering(why) => (Status::NoLowering, ErrorKind::NotImplemented, why),
        Error::GlueThrew => return Status::GlueThrew,
    };
    LAST.with_borrow_mut(|last| {
        last.kind = kind as u32;
        last.text = text;
    });
    status
}

/// Runs `body`; an error or a panic becomes a status.
fn guarded(body: impl FnOnce() -> Result<Status>) -> Status {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(status)) => status,
        Ok(Err(error)) => remember(error),
        Err(panic) => {
            let text = panic
                .downcast_ref::<String>()
                .map(String::as_str)
                .or_else(|| panic.downcast_ref::<&str>().copied())
                .unwrap_or("unknown");
            remember(Error::runtime(format!(
                "torch_tpu's core panicked (a bug of ours): {text}"
            )))
        }
    }
}

/// [`guarded`] for functions that answer with a number; `failed` stands for an error.
fn answer<T>(failed: T, body: impl FnOnce() -> Result<T>) -> T {
    let mut out = failed;
    guarded(|| {
        out = body()?;
        Ok(Status::Ok)
    });
    out
}

/// # Safety
/// `len` bytes lie at `pointer`.
unsafe fn text<'a>(pointer: *const u8, len: usize) -> &'a str {
    if len == 0 {
        return "";
    }
    // SAFETY: the caller's promise.
    std::str::from_utf8(unsafe { std::slice::from_raw_parts(pointer, len) }).unwrap_or("")
}

unsafe extern "C" fn last_error(out: *mut *const u8, len: *mut usize) -> u32 {
    LAST.with_borrow(|last| {
        // SAFETY: the glue gives two places to write to.
        unsafe {
            *out = last.text.as_ptr();
            *len = last.text.len();
        }
        last.kind
    })
}

unsafe extern "C" fn storage_new(nbytes: usize, device: i32) -> *mut c_void {
    answer(std::ptr::null_mut(), || {
        runtime()?.device(device as usize)?;
        Ok(Arc::into_raw(Storage::new(nbytes, device as usize))
            .cast_mut()
            .cast())
    })
}

unsafe extern "C" fn storage_free(storage: *mut c_void) {
    // A forked child has the plugin's memory but not its threads: freeing could wait for them.
    if !storage.is_null() && !runtime::in_bad_fork() {
        // SAFETY: it came from `Arc::into_raw` and this is the one release of that reference.
        let owned = unsafe { Arc::from_raw(storage.cast::<Storage>()) };
        guarded(move || {
            drop(owned);
            Ok(Status::Ok)
        });
    }
}

/// # Safety
/// `storage` is one of ours and lives for `'a`.
unsafe fn borrowed<'a>(storage: *mut c_void) -> Result<&'a Storage> {
    // SAFETY: the caller's promise.
    unsafe { storage.cast::<Storage>().as_ref() }.ok_or_else(|| Error::runtime("a tpu tensor has no storage"))
}

unsafe extern "C" fn storage_resize(storage: *mut c_void, nbytes: usize) -> u32 {
    guarded(|| {
        runtime::flush_pending()?;
        // SAFETY: the glue passes a storage that it holds.
        unsafe { borrowed(storage) }?.resize(nbytes);
        Ok(Status::Ok)
    }) as u32
}

unsafe extern "C" fn storage_hint(storage: *mut c_void, dtype: i8, sizes: *const i64, ndim: u32) {
    guarded(|| {
        let sizes = if ndim == 0 {
            &[]
        } else {
            // SAFETY: the glue gives `ndim` sizes.
            unsafe { std::slice::from_raw_parts(sizes, ndim as usize) }
        };
        if let Ok(element) = runtime::element(dtype) {
            // SAFETY: the glue passes a storage that it holds.
            unsafe { borrowed(storage) }?.state.lock().hint = Some((element, sizes.into()));
        }
        Ok(Status::Ok)
    });
}

fn kind(code: u32) -> SchemaKind {
    const ALL: [SchemaKind; 9] = [
        SchemaKind::Other,
        SchemaKind::Tensor,
        SchemaKind::Tensors,
        SchemaKind::Scalar,
        SchemaKind::Float,
        SchemaKind::Dtype,
        SchemaKind::Generator,
        SchemaKind::Scalars,
        SchemaKind::Int,
    ];
    ALL.get(code as usize).copied().unwrap_or(SchemaKind::Other)
}

unsafe extern "C" fn find_op(
    name: *const u8,
    name_len: usize,
    overload: *const u8,
    overload_len: usize,
    schema: *const SchemaArg,
    arguments: u32,
    returns: u32,
) -> *const c_void {
    answer(std::ptr::null(), || {
        // SAFETY: the glue's strings and schema live for the call.
        let (name, overload, entries) = unsafe {
            let count = (arguments + returns) as usize;
            let entries: &[SchemaArg] = if count == 0 {
                &[]
            } else {
                std::slice::from_raw_parts(schema, count)
            };
            (text(name, name_len), text(overload, overload_len), entries)
        };
        let (arguments, returns) = entries.split_at(arguments as usize);
        let full = if overload.is_empty() {
            name.to_owned()
        } else {
            format!("{name}.{overload}")
        };
        let schema = Schema {
            name: full,
            arguments: arguments
                .iter()
                .map(|a| SchemaEntry {
                    // SAFETY: as above.
                    name: unsafe { text(a.name, a.name_len as usize) }.to_owned(),
                    kind: kind(a.kind),
                    written: a.alias != 0,
                })
                .collect(),
            returns: returns.iter().map(|r| usize::try_from(r.alias).ok()).collect(),
        };
        // An op that gives something other than tensors has no lowering.
        let tensors = |r: &SchemaArg| matches!(kind(r.kind), SchemaKind::Tensor | SchemaKind::Tensors);
        if !returns.iter().all(tensors) {
            return Ok(std::ptr::null());
        }
        // Handles live as long as the process: the glue keeps them by operator.
        Ok(
            OpHandle::new(name, overload, schema).map_or(std::ptr::null(), |h| {
                Box::into_raw(Box::new(h)).cast_const().cast()
            }),
        )
    })
}

unsafe extern "C" fn has_op(
    name: *const u8,
    name_len: usize,
    overload: *const u8,
    overload_len: usize,
) -> u32 {
    answer(0, || {
        // SAFETY: the glue's strings live for the call.
        let (name, overload) = unsafe { (text(name, name_len), text(overload, overload_len)) };
        let short = name.strip_prefix("aten::").unwrap_or(name);
        Ok(u32::from(aten::find(short, overload).is_some()))
    })
}

unsafe extern "C" fn dispatch(
    op: *const c_void,
    arguments: *const Arg,
    len: u32,
    device: i32,
    call: *mut c_void,
    results: *mut Results,
) -> u32 {
    guarded(|| {
        let table = glue().ok_or_else(|| Error::runtime("no glue is open"))?;
        // SAFETY: the handle came from `find_op`; the glue gives `len` arguments that live for the call.
        let outcome = unsafe {
            let op = &*op.cast::<OpHandle>();
            let args: &[Arg] = if len == 0 {
                &[]
            } else {
                std::slice::from_raw_parts(arguments, len as usize)
            };
            runtime::dispatch(
                op,
                args,
                device as usize,
                Glue {
                    table: Some(table),
                    call,
                },
            )
        }?;
        let Outcome::Done(mut returned) = outcome else {
            return Ok(Status::Retry);
        };
        LAST.with_borrow_mut(|last| {
            last.tensors.clear();
            last.counts.clear();
            last.counts.extend_from_slice(returned.counts());
            for i in 0..returned.tensors.len() {
                let storage = returned.tensors[i].take();
                let meta = returned.meta(i);
                last.tensors.push(match (storage, meta) {
                    (Some(tensor), Some((sizes, strides, dtype, nbytes))) => TensorResult {
                        storage: Arc::into_raw(tensor.storage).cast_mut().cast(),
                        sizes: sizes.as_ptr(),
                        strides: strides.as_ptr(),
                        nbytes: nbytes as i64,
                        ndim: sizes.len() as u32,
                        dtype,
                        defined: 1,
                        device: device as i8,
                        reserved: 0,
                    },
                    _ => TensorResult {
                        storage: std::ptr::null_mut(),
                        sizes: std::ptr::null(),
                        strides: std::ptr::null(),
                        nbytes: 0,
                        ndim: 0,
                        dtype: 0,
                        defined: 0,
                        device: 0,
                        reserved: 0,
                    },
                });
            }
            // Sizes and strides lie in the program's entry: keep it.
            last.returned = Some(returned);
            // SAFETY: the glue gives a place to write to.
            unsafe {
                *results = Results {
                    tensors: last.tensors.as_ptr(),
                    counts: last.counts.as_ptr(),
                    returns: last.counts.len() as u32,
                    len: last.tensors.len() as u32,
                };
            }
        });
        Ok(Status::Ok)
    }) as u32
}

unsafe extern "C" fn copy(src: *const TensorArg, dst: *const TensorArg) -> u32 {
    // SAFETY: the glue's tensors live for the call.
    guarded(|| unsafe { runtime::copy(&*src, &*dst) }.map(|()| Status::Ok)) as u32
}

unsafe extern "C" fn upload(bytes: *const u8, len: usize, dst: *const TensorArg) -> u32 {
    guarded(|| {
        // SAFETY: the glue gives `len` bytes and a tensor that live for the call.
        unsafe {
            let bytes: &[u8] = if len == 0 {
                &[]
            } else {
                std::slice::from_raw_parts(bytes, len)
            };
            runtime::upload(bytes, &*dst)
        }?;
        Ok(Status::Ok)
    }) as u32
}

unsafe extern "C" fn download(src: *const TensorArg, bytes: *mut u8, len: usize) -> u32 {
    guarded(|| {
        // SAFETY: the glue gives `len` writable bytes and a tensor that live for the call.
        unsafe {
            let bytes: &mut [u8] = if len == 0 {
                &mut []
            } else {
                std::slice::from_raw_parts_mut(bytes, len)
            };
            runtime::download(&*src, bytes)
        }?;
        Ok(Status::Ok)
    }) as u32
}

unsafe extern "C" fn decompose(
    name: *const u8,
    name_len: usize,
    overload: *const u8,
    overload_len: usize,
) -> u32 {
    answer(0, || {
        // SAFETY: the glue's strings live for the call.
        let (name, overload) = unsafe { (text(name, name_len), text(overload, overload_len)) };
        crate::eager::decompose(name, overload).map(u32::from)
    })
}

unsafe extern "C" fn note_fallback(name: *const u8, len: usize) -> u32 {
    let mut warn = false;
    let status = guarded(|| {
        // SAFETY: the glue's string lives for the call.
        warn = runtime::note_fallback(unsafe { text(name, len) })?;
        Ok(Status::Ok)
    });
    if warn { WARN } else { status as u32 }
}

/// What [`note_fallback`] answers when the user is to be warned.
const WARN: u32 = 100;

unsafe extern "C" fn device_count() -> i32 {
    answer(-1, || {
        if let Some(runtime) = runtime::runtime_if_started() {
            return Ok(runtime.devices.len() as i32);
        }
        // Autograd asks every device for its count, for a backward on the CPU too: that must not take the chip.
        match crate::eager::expected_devices() {
            Some(count) => Ok(count as i32),
            None => Ok(runtime()?.devices.len() as i32),
        }
    })
}

unsafe extern "C" fn synchronize(device: i32) -> u32 {
    guarded(|| {
        // Nothing ran if nothing was started.
        if let Some(runtime) = runtime::runtime_if_started() {
            runtime.synchronize(usize::try_from(device).ok())?;
        }
        Ok(Status::Ok)
    }) as u32
}

/// Events by number, so that a stale one is an error and not a crash.
static EVENTS: Mutex<(u64, std::collections::BTreeMap<u64, Event>)> =
    Mutex::new((0, std::collections::BTreeMap::new()));

fn event(number: u64) -> Result<Event> {
    EVENTS
        .lock()
        .1
        .get(&number)
        .cloned()
        .ok_or_else(|| Error::runtime("the event does not exist any more"))
}

unsafe extern "C" fn event_record(device: i32) -> u64 {
    answer(0, || {
        let made = Event::record(runtime()?, device as usize)?;
        let mut events = EVENTS.lock();
        events.0 += 1;
        let number = events.0;
        events.1.insert(number, made);
        Ok(number)
    })
}

unsafe extern "C" fn event_query(number: u64) -> i32 {
    answer(-1, || Ok(i32::from(event(number)?.query()?)))
}

unsafe extern "C" fn event_synchronize(number: u64) -> u32 {
    guarded(|| event(number)?.synchronize().map(|()| Status::Ok)) as u32
}

unsafe extern "C" fn event_elapsed(start: u64, end: u64) -> f64 {
    answer(f64::NAN, || event(start)?.elapsed(&event(end)?))
}

unsafe extern "C" fn event_free(number: u64) {
    EVENTS.lock().1.remove(&number);
}

/// What tensors hold on a device and what the device itself says.
pub(crate) fn memory_of(device: usize) -> Result<Memory> {
    runtime::flush_pending()?;
    let state = runtime()?.device(device)?;
    let (usage, plugin) = (state.account.usage(), state.device.memory_stats().ok());
    let words = |a: runtime::Amount| [a.current, a.peak, a.made, a.freed];
    let said = |n: Option<i64>| n.and_then(|n| u64::try_from(n).ok()).unwrap_or(0);
    Ok(Memory {
        bytes: words(usage.bytes),
        buffers: words(usage.buffers),
        in_use: said(plugin.as_ref().map(|p| p.bytes_in_use)).max(usage.bytes.current),
        peak_in_use: said(plugin.as_ref().and_then(|p| p.peak_bytes_in_use)).max(usage.bytes.peak),
        limit: said(plugin.and_then(|p| p.bytes_limit)),
    })
}

/// Sets a device's peaks back to what is held; with `sums` its sums back to zero instead.
pub(crate) fn reset_memory(device: usize, sums: bool) -> Result<()> {
    let state = runtime()?.device(device)?;
    if sums {
        state.account.reset_accumulated();
    } else {
        state.account.reset_peak();
        // Not every plugin keeps a peak.
        let _ = state.device.clear_memory_stats();
    }
    Ok(())
}

unsafe extern "C" fn memory(device: i32, out: *mut Memory) -> u32 {
    guarded(|| {
        let read = memory_of(device as usize)?;
        // SAFETY: the glue gives a place to write to.
        unsafe { *out = read };
        Ok(Status::Ok)
    }) as u32
}

unsafe extern "C" fn memory_reset(device: i32, sums: u32) -> u32 {
    guarded(|| reset_memory(device as usize, sums != 0).map(|()| Status::Ok)) as u32
}

unsafe extern "C" fn started() -> u32 {
    u32::from(runtime::runtime_if_started().is_some())
}

/// The core's table.
pub(crate) static CORE: CoreTable = CoreTable {
    version: ABI_VERSION,
    size: size_of::<CoreTable>() as u32,
    last_error,
    storage_new,
    storage_free,
    storage_resize,
    storage_hint,
    find_op,
    dispatch,
    copy,
    upload,
    download,
    has_op,
    decompose,
    note_fallback,
    device_count,
    synchronize,
    event_record,
    event_query,
    event_synchronize,
    event_elapsed,
    event_free,
    memory,
    memory_reset,
    started,
};
