//! Argument checks for calls that take the CPU plugin, and with it the process, down when given nonsense.

use std::ffi::c_void;

use dtype::ElementType;
use pjrt_ffi::*;

use crate::buffers::{array, bytes_of};
use crate::error::{Fail, ShimError};
use crate::inner::{self, slice};

/// Refuses a shape that has an unknown element type, a negative dimension or more bytes than 63 bits count.
///
/// # Safety
/// `dims` is null or points at `num_dims` readable numbers.
pub(crate) unsafe fn shape(
    call: &str,
    element_type: u32,
    dims: *const i64,
    num_dims: usize,
) -> Result<(), ShimError> {
    let Some(element) = ElementType::from_pjrt(element_type) else {
        return Err(ShimError::invalid(format!(
            "{call}: element type {element_type} is unknown; use a PJRT_Buffer_Type that holds numbers"
        )));
    };
    if dims.is_null() && num_dims > 0 {
        return Err(ShimError::invalid(format!(
            "{call}: dims is null, num_dims is {num_dims}; point dims at that many numbers"
        )));
    }
    // SAFETY: the caller vouches for it.
    let dims = unsafe { slice(dims, num_dims) };
    if let Some(dim) = dims.iter().find(|&&dim| dim < 0) {
        return Err(ShimError::invalid(format!(
            "{call}: dimension {dim} of {dims:?} is negative; dimensions start at 0"
        )));
    }
    let bytes = i64::from(element.bits().div_ceil(8));
    let whole = dims
        .iter()
        .try_fold(bytes, |product, &dim| product.checked_mul(dim));
    match whole {
        Some(_) => Ok(()),
        None => Err(ShimError::invalid(format!(
            "{call}: {}{dims:?} overflows 63 bits; use smaller dimensions",
            element.mlir()
        ))),
    }
}

/// Refuses a null list that is said to have entries.
pub(crate) fn list<T>(call: &str, name: &str, data: *const T, count: usize) -> Result<(), ShimError> {
    if data.is_null() && count > 0 {
        return Err(ShimError::invalid(format!(
            "{call}: {name} is null, its length is {count}; point it at that many entries"
        )));
    }
    Ok(())
}

/// Refuses a null pointer to memory that holds something.
pub(crate) fn memory(call: &str, data: *const c_void, bytes: u64) -> Result<(), ShimError> {
    if data.is_null() && bytes > 0 {
        return Err(ShimError::invalid(format!(
            "{call}: the pointer to the device's memory is null where {bytes} bytes are to be viewed"
        )));
    }
    Ok(())
}

/// Refuses a buffer that is null, deleted or donated.
///
/// # Safety
/// `buffer` is null or a live handle.
pub(crate) unsafe fn alive(call: &str, buffer: *mut PJRT_Buffer) -> Result<(), Fail> {
    if buffer.is_null() {
        return Err(ShimError::invalid(format!("{call}: the buffer is null; pass a live buffer")).into());
    }
    let mut deleted = PJRT_Buffer_IsDeleted_Args::new();
    deleted.buffer = buffer;
    inner::call(slot::PJRT_Buffer_IsDeleted, &mut deleted)?;
    if deleted.is_deleted {
        let text = format!("{call}: the buffer was deleted or donated; pass a live buffer");
        return Err(ShimError::invalid(text).into());
    }
    Ok(())
}

/// Refuses to see memory as an array of another size; each array is its element type and dimensions.
pub(crate) fn same_size(call: &str, old: (u32, &[i64]), new: (u32, &[i64])) -> Result<(), ShimError> {
    let (have, want) = (bytes_of(old.0, old.1), bytes_of(new.0, new.1));
    if have == want {
        return Ok(());
    }
    Err(ShimError::invalid(format!(
        "{call}: the buffer is {} of {have} bytes, {} takes {want}; ask for a shape of the same size",
        array(old.0, old.1),
        array(new.0, new.1)
    )))
}

/// Refuses a status code that stands for success or for nothing.
pub(crate) fn error_code(call: &str, code: u32) -> Result<(), ShimError> {
    if Code::ALL.into_iter().any(|known| known as u32 == code) {
        return Ok(());
    }
    Err(ShimError::invalid(format!(
        "{call}: code {code} is no error; use one from {} to {}",
        Code::Cancelled as u32,
        Code::Unauthenticated as u32
    )))
}

/// Refuses an assignment of no devices, or of more than there are.
pub(crate) fn assignment(
    call: &str,
    replicas: i32,
    partitions: i32,
    devices: usize,
) -> Result<(), ShimError> {
    let wanted = i64::from(replicas) * i64::from(partitions);
    if replicas >= 1 && partitions >= 1 && wanted <= devices as i64 {
        return Ok(());
    }
    Err(ShimError::invalid(format!(
        "{call}: {replicas} replicas of {partitions} partitions do not fit {devices} devices; ask for at least one of \
         each and for {devices} devices at most"
    )))
}
