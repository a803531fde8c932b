//! The glue's functions, as safe calls.

use std::ffi::c_void;

use aten::Dims;
use glue_abi::{GlueTable, Results, Status, TensorResult};

use crate::{Error, Result};

/// The glue, as one call sees it.
#[derive(Copy, Clone, Debug)]
pub struct Glue {
    /// Its functions; `None` for a call that asks nothing of torch.
    pub table: Option<&'static GlueTable>,
    /// What `dispatch` was given.
    pub call: *mut c_void,
}

/// Metadata of a tensor.
pub(crate) type Meta = Option<(Dims, Dims, i8)>;

impl Glue {
    /// For calls that ask nothing of torch.
    pub(crate) fn none() -> Self {
        Self {
            table: None,
            call: std::ptr::null_mut(),
        }
    }

    fn table(&self) -> Result<&'static GlueTable> {
        self.table
            .ok_or_else(|| Error::runtime("this call has no glue to ask (a bug of ours)"))
    }

    /// Metadata of the results, from the Meta kernel, and how many each return has.
    pub(crate) fn meta(&self) -> Result<(Vec<Meta>, Vec<i32>)> {
        self.read(self.table()?.meta)
    }

    /// Metadata of the written tensors after the Meta kernel ran.
    pub(crate) fn meta_written(&self) -> Result<Vec<Meta>> {
        Ok(self.read(self.table()?.meta_written)?.0)
    }

    fn read(
        &self,
        function: unsafe extern "C" fn(*mut c_void, *mut Results) -> u32,
    ) -> Result<(Vec<Meta>, Vec<i32>)> {
        let mut results = Results {
            tensors: std::ptr::null(),
            counts: std::ptr::null(),
            returns: 0,
            len: 0,
        };
        // SAFETY: the function belongs to the glue that made `call`, which lives until `dispatch` returns.
        let status = unsafe { function(self.call, &mut results) };
        if status != Status::Ok as u32 {
            return Err(Error::GlueThrew);
        }
        let tensors = slice(results.tensors, results.len as usize);
        let counts = slice(results.counts, results.returns as usize).to_vec();
        let meta = |t: &TensorResult| {
            (t.defined != 0).then(|| {
                let n = t.ndim as usize;
                (
                    Dims::from_slice(slice(t.sizes, n)),
                    Dims::from_slice(slice(t.strides, n)),
                    t.dtype,
                )
            })
        };
        Ok((tensors.iter().map(meta).collect(), counts))
    }

    pub(crate) fn resize(&self, written: u32, sizes: &[i64]) -> Result<()> {
        let resize = self.table()?.resize;
        // SAFETY: as in `read`; the sizes are read during the call.
        let status = unsafe { resize(self.call, written, sizes.as_ptr(), sizes.len() as u32) };
        if status == Status::Ok as u32 {
            Ok(())
        } else {
            Err(Error::GlueThrew)
        }
    }

    pub(crate) fn random(&self, generator: *mut c_void, device: usize, blocks: u64) -> Result<[u64; 3]> {
        let random = self.table()?.random;
        let (mut seed, mut offset) = (0, 0);
        // SAFETY: the generator is an argument of the call; the numbers are written during it.
        let status = unsafe { random(generator, device as i32, blocks, &mut seed, &mut offset) };
        if status == Status::Ok as u32 {
            Ok([seed, offset, 0])
        } else {
            Err(Error::GlueThrew)
        }
    }
}

/// A slice that a glue gave; null when it is empty.
fn slice<'a, T>(pointer: *const T, len: usize) -> &'a [T] {
    if len == 0 || pointer.is_null() {
        return &[];
    }
    // SAFETY: the glue gives `len` values that stay until its next call on this thread; they are copied before that.
    unsafe { std::slice::from_raw_parts(pointer, len) }
}
