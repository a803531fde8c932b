//! The key of a program: everything that may change it, and nothing else.
//!
//! Words in the order of the arguments. Named parts: the op; for each argument its tag and static value; for each tensor
//! its dtype, sizes, storage (by first appearance, so that aliasing counts) and, unless it fills its storage in order, the
//! storage's own dtype and sizes, the strides and the way it is read. Offsets, numbers and data are inputs, not parts.

use smallvec::SmallVec;

use crate::view::{Plan, View};

/// A key, part after part.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Key(SmallVec<[u64; 64]>);

impl Key {
    #[inline]
    pub(crate) fn word(&mut self, word: u64) {
        self.0.push(word);
    }

    /// A header of small numbers.
    #[inline]
    pub(crate) fn head(&mut self, tag: u32, a: u32, b: u16, c: u16) {
        self.0
            .push(u64::from(tag) << 56 ^ u64::from(a) << 32 ^ u64::from(b) << 16 ^ u64::from(c));
    }

    #[inline]
    pub(crate) fn dims(&mut self, dims: &[i64]) {
        self.0.extend(dims.iter().map(|d| *d as u64));
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.word(bytes.len() as u64);
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.word(u64::from_le_bytes(word));
        }
    }

    /// The way a tensor lies in its storage; the plan's details follow from sizes and strides.
    pub(crate) fn view(&mut self, base: &[i64], view: &View, plan: &Plan) {
        self.word(
            base.len() as u64
                ^ (view.sizes.len() as u64) << 8
                ^ u64::from(view.offset != 0) << 16
                ^ plan_number(plan) << 17,
        );
        self.dims(base);
        self.dims(&view.sizes);
        self.dims(&view.strides);
    }

    /// With data-dependent sizes at its end.
    pub(crate) fn with_sizes(&self, sizes: &[i64]) -> Self {
        let mut out = self.clone();
        out.word(u64::MAX - sizes.len() as u64);
        out.dims(sizes);
        out
    }
}

fn plan_number(plan: &Plan) -> u64 {
    match plan {
        Plan::Nothing => 0,
        Plan::Whole(_) => 1,
        Plan::Slice(_) => 2,
        Plan::Chain(..) => 3,
        Plan::Gather => 4,
    }
}
