//! Arrays in host memory: dense or strided, of any element type.

use std::sync::Arc;

use dtype::ElementType;

use crate::{Error, Result, Shape};

/// Bytes that a transfer may read after the call returned, kept alive until the plugin is done with them.
pub type SharedBytes = Arc<dyn AsRef<[u8]> + Send + Sync>;

/// Where the bytes of a [`HostArray`] live.
pub(crate) enum HostData<'a> {
    /// Read during the call only.
    Borrowed(&'a [u8]),
    /// The plugin may read (or, on a CPU, alias) them until it says it is done.
    Shared(SharedBytes),
}

/// An array in host memory. Sub-byte elements take a byte each.
pub struct HostArray<'a> {
    pub(crate) shape: Shape,
    pub(crate) data: HostData<'a>,
    pub(crate) byte_strides: Option<Vec<i64>>,
}

impl<'a> HostArray<'a> {
    /// A dense row-major array whose bytes are copied during the call.
    pub fn new(element: ElementType, dims: &[i64], data: &'a [u8]) -> Self {
        Self {
            shape: Shape::new(element, dims),
            data: HostData::Borrowed(data),
            byte_strides: None,
        }
    }

    /// A dense row-major array that the transfer may read after the call returned.
    pub fn shared(element: ElementType, dims: &[i64], data: SharedBytes) -> HostArray<'static> {
        HostArray {
            shape: Shape::new(element, dims),
            data: HostData::Shared(data),
            byte_strides: None,
        }
    }

    /// Element `(i, j, ..)` lies at byte `i * strides[0] + j * strides[1] + ..` of the data. Strides are not negative.
    pub fn strided(mut self, byte_strides: &[i64]) -> Self {
        self.byte_strides = Some(byte_strides.to_vec());
        self
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        match &self.data {
            HostData::Borrowed(b) => b,
            HostData::Shared(s) => (**s).as_ref(),
        }
    }

    /// Checks that every element lies inside the data.
    pub(crate) fn check(&self, call: &'static str) -> Result<()> {
        let shape = &self.shape;
        if let Some(bad) = shape.dims.iter().find(|d| **d < 0) {
            return Err(Error::argument(
                call,
                format!("dimension {bad} of the host array is negative"),
            ));
        }
        let overflow = || {
            Error::argument(
                call,
                format!("the host array of dims {:?} is too large to address", shape.dims),
            )
        };
        let elements = shape
            .dims
            .iter()
            .try_fold(1i64, |n, &d| n.checked_mul(d))
            .ok_or_else(overflow)?;
        let need = match &self.byte_strides {
            _ if elements == 0 => 0,
            None => elements
                .checked_mul(shape.element.host_bytes() as i64)
                .ok_or_else(overflow)?,
            Some(strides) => {
                if strides.len() != shape.dims.len() {
                    let what = format!(
                        "{} byte strides for {} dimensions",
                        strides.len(),
                        shape.dims.len()
                    );
                    return Err(Error::argument(call, what));
                }
                if let Some(bad) = strides.iter().find(|s| **s < 0) {
                    return Err(Error::argument(
                        call,
                        format!("byte stride {bad} is negative; copy the array first"),
                    ));
                }
                let last = strides
                    .iter()
                    .zip(&shape.dims)
                    .try_fold(0i64, |at, (s, d)| at.checked_add(s.checked_mul(d - 1)?));
                last.and_then(|l| l.checked_add(shape.element.host_bytes() as i64))
                    .ok_or_else(overflow)?
            }
        };
        let have = self.bytes().len() as i64;
        // A dense array must fit exactly: a longer slice is nearly always a wrong dtype or dims.
        let wrong = if self.byte_strides.is_none() {
            have != need
        } else {
            have < need
        };
        if wrong {
            return Err(Error::argument(
                call,
                format!("{shape} takes {need} bytes of host memory, {have} were given"),
            ));
        }
        Ok(())
    }
}

/// Makes bytes of narrow integers the values that they stand for: plugins leave the unused bits of each byte as they
/// like, so signed ones are sign-extended and unsigned ones cut.
pub(crate) fn normalize_narrow(element: ElementType, bytes: &mut [u8]) {
    let shift = 8 - element.bits().min(8);
    match element {
        ElementType::S4 | ElementType::S2 => {
            bytes
                .iter_mut()
                .for_each(|b| *b = (((*b << shift) as i8) >> shift) as u8);
        }
        ElementType::U4 | ElementType::U2 | ElementType::F4E2M1FN => {
            bytes.iter_mut().for_each(|b| *b = (*b << shift) >> shift);
        }
        _ => {}
    }
}

/// Byte strides of a dense row-major array.
pub fn dense_strides(shape: &Shape) -> Vec<i64> {
    let mut at = shape.element.host_bytes() as i64;
    let mut strides: Vec<i64> = shape
        .dims
        .iter()
        .rev()
        .map(|d| {
            let here = at;
            at = at.saturating_mul((*d).max(1));
            here
        })
        .collect();
    strides.reverse();
    strides
}

/// Byte offset of each element in row-major order, for the given strides.
fn offsets<'s>(dims: &'s [i64], strides: &'s [i64]) -> impl Iterator<Item = usize> + 's {
    let total = dims.iter().product::<i64>().max(0) as usize;
    let mut index = vec![0i64; dims.len()];
    (0..total).map(move |_| {
        let here: i64 = index.iter().zip(strides).map(|(i, s)| i * s).sum();
        for axis in (0..dims.len()).rev() {
            index[axis] += 1;
            if index[axis] < dims[axis] {
                break;
            }
            index[axis] = 0;
        }
        here as usize
    })
}

/// Copies a strided array into a dense row-major one.
pub fn gather_strided(shape: &Shape, strided: &[u8], byte_strides: &[i64], dense: &mut [u8]) {
    let width = shape.element.host_bytes();
    for (to, from) in dense
        .chunks_exact_mut(width)
        .zip(offsets(&shape.dims, byte_strides))
    {
        to.copy_from_slice(&strided[from..from + width]);
    }
}

/// Copies a dense row-major array into a strided one; bytes between elements stay as they are.
pub fn scatter_strided(shape: &Shape, dense: &[u8], strided: &mut [u8], byte_strides: &[i64]) {
    let width = shape.element.host_bytes();
    for (from, to) in dense.chunks_exact(width).zip(offsets(&shape.dims, byte_strides)) {
        strided[to..to + width].copy_from_slice(from);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn data_must_cover_the_array() {
        let bytes = [0u8; 24];
        let ok = |a: HostArray<'_>| a.check("test").is_ok();
        assert!(ok(HostArray::new(ElementType::F32, &[2, 3], &bytes)));
        assert!(!ok(HostArray::new(ElementType::F64, &[2, 3], &bytes)));
        assert!(ok(HostArray::new(ElementType::F64, &[2, 0], &[])));
        assert!(!ok(HostArray::new(ElementType::F32, &[-1], &bytes)));
        assert!(!ok(HostArray::new(ElementType::F32, &[i64::MAX, 4], &bytes)));
        assert!(ok(
            HostArray::new(ElementType::F32, &[3, 2], &bytes).strided(&[4, 12])
        ));
        assert!(!ok(
            HostArray::new(ElementType::F32, &[3, 2], &bytes).strided(&[4, 20])
        ));
        assert!(!ok(
            HostArray::new(ElementType::F32, &[3, 2], &bytes).strided(&[4])
        ));
        assert!(!ok(
            HostArray::new(ElementType::F32, &[3, 2], &bytes).strided(&[-4, 12])
        ));
    }

    proptest! {
        #[test]
        fn scatter_then_gather_is_the_identity(dims in proptest::collection::vec(0i64..4, 0..4), gap in 0i64..3) {
            let shape = Shape::new(ElementType::S16, &dims);
            let strides: Vec<i64> = dense_strides(&shape).iter().map(|s| s * (gap + 1)).collect();
            let dense: Vec<u8> = (0..shape.host_bytes()).map(|i| i as u8).collect();
            let mut strided = vec![0xee; (shape.host_bytes() + 2) * (gap as usize + 1)];
            scatter_strided(&shape, &dense, &mut strided, &strides);
            let mut back = vec![0; dense.len()];
            gather_strided(&shape, &strided, &strides, &mut back);
            prop_assert_eq!(back, dense);
        }
    }
}
