//! The plugin underneath: its table, copied once, and calls into it.

use std::ffi::c_void;
use std::path::PathBuf;
use std::sync::OnceLock;

use pjrt_ffi::*;

use crate::error::{Code, Fail, ShimError};

/// Any table entry that can fail, its argument struct untyped.
pub(crate) type RawEntry = unsafe extern "C" fn(*mut c_void) -> *mut PJRT_Error;

/// The loaded inner plugin.
#[derive(Debug)]
pub(crate) struct Inner {
    /// Where it came from.
    pub(crate) path: PathBuf,
    /// The table in the plugin's own memory; never unloaded.
    pub(crate) api: *const PJRT_Api,
    entries: Vec<Option<RawEntry>>,
}

// SAFETY: the table is immutable once the plugin has returned it, and PJRT entries may be called from any thread.
unsafe impl Send for Inner {}
// SAFETY: as above.
unsafe impl Sync for Inner {}

static INNER: OnceLock<Inner> = OnceLock::new();

/// The inner plugin, once loaded.
#[inline]
pub(crate) fn get() -> Option<&'static Inner> {
    INNER.get()
}

/// Keeps the inner plugin for the rest of the process.
pub(crate) fn install(path: PathBuf, api: *const PJRT_Api) -> &'static Inner {
    INNER.get_or_init(|| Inner::new(path, api))
}

impl Inner {
    fn new(path: PathBuf, api: *const PJRT_Api) -> Self {
        // SAFETY: `api` is a plugin's table, valid for `struct_size` bytes for ever.
        let size = unsafe { (*api).struct_size };
        let count = size.saturating_sub(VTABLE_OFFSET) / size_of::<usize>();
        let entries = (0..count)
            .map(|index| {
                // SAFETY: inside the table; each entry is one nullable function pointer of this shape.
                unsafe {
                    api.cast::<u8>()
                        .add(slot_offset(index))
                        .cast::<Option<RawEntry>>()
                        .read()
                }
            })
            .collect();
        Self { path, api, entries }
    }

    /// The entry at this index, unless the plugin is older or left it null.
    #[inline]
    pub(crate) fn entry(&self, index: usize) -> Option<RawEntry> {
        self.entries.get(index).copied().flatten()
    }

    /// API version of the inner plugin.
    pub(crate) fn version(&self) -> (i32, i32) {
        // SAFETY: the table lives for ever.
        let version = unsafe { &(*self.api).pjrt_api_version };
        (version.major_version, version.minor_version)
    }
}

/// Calls the inner entry at `index`.
#[inline]
pub(crate) fn call<Args>(index: usize, args: *mut Args) -> Result<(), Fail> {
    let Some(f) = get().and_then(|inner| inner.entry(index)) else {
        return Err(missing(index));
    };
    // SAFETY: `index` names the entry whose argument struct is `Args`; the caller's struct is valid.
    let error = unsafe { f(args.cast()) };
    if error.is_null() {
        Ok(())
    } else {
        Err(Fail::Inner(error))
    }
}

/// An argument struct of ours with zeros behind it.
///
/// Plugins refuse structs smaller than their own header's, and take zeros in fields we do not know as defaults.
#[repr(C)]
pub(crate) struct Padded<Args> {
    pub(crate) args: Args,
    padding: [usize; 32],
}

impl<Args> Padded<Args> {
    /// `args` must start with `struct_size`, as all argument structs do.
    pub(crate) fn new(args: Args) -> Self {
        let mut padded = Self {
            args,
            padding: [0; 32],
        };
        // SAFETY: the first word of an argument struct is `struct_size`.
        unsafe { (&raw mut padded).cast::<usize>().write(size_of::<Self>()) };
        padded
    }
}

#[cold]
fn missing(index: usize) -> Fail {
    let name = slot_name(index).unwrap_or("a PJRT entry");
    let text = match get() {
        Some(inner) => {
            let (major, minor) = inner.version();
            format!(
                "{name}: the CPU plugin at {} (API {major}.{minor}) lacks this call; use a newer one",
                inner.path.display()
            )
        }
        None => format!("{name}: no CPU plugin is loaded"),
    };
    ShimError::new(Code::Unimplemented, text).into()
}

/// Reads and destroys an error object of the inner plugin.
pub(crate) fn take_error(error: *mut PJRT_Error) -> ShimError {
    let mut message = PJRT_Error_Message_Args::new();
    message.error = error;
    let mut code = PJRT_Error_GetCode_Args::new();
    code.error = error;
    let mut destroy = PJRT_Error_Destroy_Args::new();
    destroy.error = error;
    // SAFETY: `error` is an owned error object; the dispatching functions accept ours and the inner plugin's.
    unsafe {
        crate::error::error_message(&mut message);
        let text = bytes(message.message, message.message_size);
        let text = String::from_utf8_lossy(text).into_owned();
        crate::error::error_get_code(&mut code);
        crate::error::error_destroy(&mut destroy);
        ShimError::new(Code::from_pjrt(code.code), text)
    }
}

/// The caller's or plugin's byte string; empty when null.
///
/// # Safety
/// `data` is null or points at `size` readable bytes that outlive the use of the result.
pub(crate) unsafe fn bytes<'a>(data: *const std::ffi::c_char, size: usize) -> &'a [u8] {
    if data.is_null() || size == 0 {
        return &[];
    }
    // SAFETY: the caller vouches for it.
    unsafe { std::slice::from_raw_parts(data.cast(), size) }
}

/// The caller's array; empty when null.
///
/// # Safety
/// `data` is null or points at `count` readable elements that outlive the use of the result.
#[inline]
pub(crate) unsafe fn slice<'a, T>(data: *const T, count: usize) -> &'a [T] {
    if data.is_null() || count == 0 {
        return &[];
    }
    // SAFETY: the caller vouches for it.
    unsafe { std::slice::from_raw_parts(data, count) }
}

/// Whether the caller's struct is large enough to hold `field`.
macro_rules! has_field {
    ($args:expr, $ty:ty, $field:ident) => {{
        // SAFETY: `struct_size` is the first word of every argument struct.
        #[allow(unused_unsafe)]
        let size = unsafe { (*$args).struct_size };
        size >= std::mem::offset_of!($ty, $field) + crate::inner::field_size(|a: &$ty| a.$field)
    }};
}
pub(crate) use has_field;

/// Size of the field that `get` reads; a helper of [`has_field`].
pub(crate) const fn field_size<S, T>(_get: fn(&S) -> T) -> usize {
    size_of::<T>()
}
