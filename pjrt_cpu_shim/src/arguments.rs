//! Argument checks for calls that take the CPU plugin, and with it the process, down when given nonsense.

use dtype::ElementType;
use pjrt_ffi::Code;

use crate::error::ShimError;
use crate::inner::slice;

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
