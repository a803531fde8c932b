//! The shim's own errors and the `PJRT_Error` objects that carry them over the C boundary.
//!
//! The inner plugin's errors travel through unchanged. Ours start with the address of [`VTABLE`], which no error
//! of the inner plugin has as its first word, so one load tells them apart.

use std::ffi::{c_char, c_void};

pub use pjrt_ffi::Code;
use pjrt_ffi::*;

use crate::inner;

/// An error the shim itself raises.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ShimError {
    /// What kind of failure.
    pub code: Code,
    /// What was asked, what is wrong, what to do.
    pub message: String,
}

impl ShimError {
    /// An error of this code and text.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }

    /// A malformed request.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(Code::InvalidArgument, message)
    }

    /// Moves the error into an object the caller owns.
    pub(crate) fn into_raw(self) -> *mut PJRT_Error {
        Box::into_raw(Box::new(RawError {
            vtable: &VTABLE,
            code: self.code as u32,
            message: self.message,
        }))
        .cast()
    }
}

/// Why an entry failed: on our side, or with an error object of the inner plugin (owned).
#[derive(Debug)]
pub(crate) enum Fail {
    Ours(ShimError),
    Inner(*mut PJRT_Error),
}

impl From<ShimError> for Fail {
    fn from(error: ShimError) -> Self {
        Self::Ours(error)
    }
}

impl Fail {
    pub(crate) fn into_raw(self) -> *mut PJRT_Error {
        match self {
            Self::Ours(error) => error.into_raw(),
            Self::Inner(error) => error,
        }
    }

    /// The failure as one of ours; an inner error object is read and destroyed.
    pub(crate) fn into_shim_error(self) -> ShimError {
        match self {
            Self::Ours(error) => error,
            Self::Inner(error) => inner::take_error(error),
        }
    }
}

/// Runs an entry's body; a panic or failure becomes an error object, success null.
pub(crate) fn guard(name: &str, body: impl FnOnce() -> Result<(), Fail>) -> *mut PJRT_Error {
    match std::panic::catch_unwind(std::panic::AssertUnwindSafe(body)) {
        Ok(Ok(())) => std::ptr::null_mut(),
        Ok(Err(fail)) => fail.into_raw(),
        Err(panic) => {
            let text = panic
                .downcast_ref::<&str>()
                .map(|text| (*text).to_owned())
                .or_else(|| panic.downcast_ref::<String>().cloned())
                .unwrap_or_default();
            ShimError::new(
                Code::Internal,
                format!("{name} panicked inside the tpu_sim shim: {text}"),
            )
            .into_raw()
        }
    }
}

#[repr(C)]
struct RawError {
    vtable: &'static ErrorVtable,
    code: u32,
    message: String,
}

/// `PJRT_Error_FunctionTable`: how callers from API 0.112 on may reach an error without the plugin's table.
#[repr(C)]
struct ErrorVtable {
    struct_size: usize,
    instance_size: usize,
    extension_start: usize,
    destroy: unsafe extern "C" fn(*mut RawError),
    message: unsafe extern "C" fn(*const RawError, *mut *const c_char, *mut usize),
    get_code: unsafe extern "C" fn(*const RawError) -> u32,
    for_each_payload: unsafe extern "C" fn(*const RawError, *mut c_void, *mut c_void),
}

static VTABLE: ErrorVtable = ErrorVtable {
    struct_size: size_of::<ErrorVtable>(),
    instance_size: size_of::<RawError>(),
    extension_start: 0,
    destroy: vt_destroy,
    message: vt_message,
    get_code: vt_code,
    for_each_payload: vt_payloads,
};

unsafe extern "C" fn vt_destroy(error: *mut RawError) {
    // SAFETY: `error` came from `into_raw` and the caller gives up ownership.
    drop(unsafe { Box::from_raw(error) });
}

unsafe extern "C" fn vt_message(error: *const RawError, message: *mut *const c_char, size: *mut usize) {
    // SAFETY: `error` is one of ours and both out-pointers are the caller's.
    unsafe {
        let text = &(*error).message;
        *message = text.as_ptr().cast();
        *size = text.len();
    }
}

unsafe extern "C" fn vt_code(error: *const RawError) -> u32 {
    // SAFETY: `error` is one of ours.
    unsafe { (*error).code }
}

unsafe extern "C" fn vt_payloads(_error: *const RawError, _visitor: *mut c_void, _arg: *mut c_void) {}

/// Whether `error` was made by this shim.
fn is_ours(error: *const PJRT_Error) -> bool {
    // SAFETY: every error object is at least one word (a status or a function table pointer).
    !error.is_null() && unsafe { error.cast::<usize>().read() } == &raw const VTABLE as usize
}

pub(crate) unsafe extern "C" fn error_destroy(args: *mut PJRT_Error_Destroy_Args) {
    // SAFETY: the caller passes a valid argument struct; void functions have no way to refuse.
    let error = unsafe { (*args).error };
    if is_ours(error) {
        // SAFETY: ours, and destroyed once by contract.
        unsafe { vt_destroy(error.cast()) };
    } else if let Some(f) = inner::get().and_then(|inner| inner.entry(slot::PJRT_Error_Destroy)) {
        // SAFETY: the inner plugin's own entry on its own object.
        unsafe { f(args.cast()) };
    }
}

pub(crate) unsafe extern "C" fn error_message(args: *mut PJRT_Error_Message_Args) {
    // SAFETY: as in `error_destroy`.
    let args_ref = unsafe { &mut *args };
    if is_ours(args_ref.error) {
        // SAFETY: ours and alive.
        unsafe {
            vt_message(
                args_ref.error.cast(),
                &mut args_ref.message,
                &mut args_ref.message_size,
            );
        }
    } else if let Some(f) = inner::get().and_then(|inner| inner.entry(slot::PJRT_Error_Message)) {
        // SAFETY: the inner plugin's own entry on its own object.
        unsafe { f(args.cast()) };
    }
}

pub(crate) unsafe extern "C" fn error_get_code(args: *mut PJRT_Error_GetCode_Args) -> *mut PJRT_Error {
    // SAFETY: as in `error_destroy`.
    let args_ref = unsafe { &mut *args };
    if is_ours(args_ref.error) {
        // SAFETY: ours and alive.
        args_ref.code = unsafe { vt_code(args_ref.error.cast()) };
        return std::ptr::null_mut();
    }
    match inner::get().and_then(|inner| inner.entry(slot::PJRT_Error_GetCode)) {
        // SAFETY: the inner plugin's own entry on its own object.
        Some(f) => unsafe { f(args.cast()) },
        None => std::ptr::null_mut(),
    }
}

/// First two words of `PJRT_Error_ForEachPayload_Args`, then the error; ours have no payloads.
#[repr(C)]
pub(crate) struct ForEachPayloadArgs {
    _struct_size: usize,
    _extension_start: usize,
    error: *const PJRT_Error,
}

pub(crate) unsafe extern "C" fn error_for_each_payload(args: *mut ForEachPayloadArgs) -> *mut PJRT_Error {
    // SAFETY: the caller passes a valid argument struct.
    if is_ours(unsafe { (*args).error }) {
        return std::ptr::null_mut();
    }
    match inner::get().and_then(|inner| inner.entry(slot::PJRT_Error_ForEachPayload)) {
        // SAFETY: the inner plugin's own entry on its own object.
        Some(f) => unsafe { f(args.cast()) },
        None => std::ptr::null_mut(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_round_trip_by_name() {
        for code in Code::ALL {
            assert_eq!(Code::from_name(code.name()), Some(code));
        }
        assert_eq!(Code::from_name("NOPE"), None);
    }

    #[test]
    fn an_error_object_reads_back_and_frees() {
        let raw = ShimError::invalid("two words").into_raw();
        let mut code = PJRT_Error_GetCode_Args::new();
        code.error = raw;
        // SAFETY: `raw` is alive.
        assert!(unsafe { error_get_code(&mut code) }.is_null());
        assert_eq!(code.code, Code::InvalidArgument as u32);
        let mut destroy = PJRT_Error_Destroy_Args::new();
        destroy.error = raw;
        // SAFETY: destroyed once.
        unsafe { error_destroy(&mut destroy) };
    }

    #[test]
    fn a_panic_becomes_internal() {
        let raw = guard("PJRT_X", || panic!("boom"));
        let error = Fail::Ours(ShimError::invalid("x"));
        drop(error);
        let mut message = PJRT_Error_Message_Args::new();
        message.error = raw;
        // SAFETY: `raw` is alive until destroyed below.
        let text = unsafe {
            error_message(&mut message);
            std::slice::from_raw_parts(message.message.cast::<u8>(), message.message_size)
        };
        let text = String::from_utf8_lossy(text).into_owned();
        assert!(text.contains("PJRT_X") && text.contains("boom"), "{text}");
        let mut destroy = PJRT_Error_Destroy_Args::new();
        destroy.error = raw;
        // SAFETY: destroyed once.
        unsafe { error_destroy(&mut destroy) };
    }
}
