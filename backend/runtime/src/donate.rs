//! Buffers that a program may overwrite: those of storages whose value nobody else holds.

use std::sync::Arc;

use parking_lot::MutexGuard;
use smallvec::SmallVec;

use crate::Error;
use crate::storage::{Content, Dense, State, Storage};

/// A parameter that may be consumed: its position, its storage's number, the storage, and the value as the call found it.
pub(crate) struct Offer<'a, 'c> {
    pub(crate) param: u32,
    pub(crate) slot: u32,
    pub(crate) storage: &'a Storage,
    pub(crate) found: &'c Dense,
}

/// The storages whose buffers a program takes, locked while it runs, and the parameters that it must keep.
#[derive(Default)]
pub(crate) struct Donation<'a> {
    locked: SmallVec<[(u32, MutexGuard<'a, State>); 2]>,
    pub(crate) keep: SmallVec<[i64; 4]>,
}

impl<'a> Donation<'a> {
    /// Locks the storages of offers whose value the storage and this call hold, and nobody else.
    pub(crate) fn of<'c>(offers: impl Iterator<Item = Offer<'a, 'c>>) -> Self {
        let mut offers: SmallVec<[Offer<'a, 'c>; 4]> = offers.collect();
        // One order for all threads.
        offers.sort_by_key(|offer| offer.storage.id);
        let mut made = Self::default();
        for offer in offers {
            let state = offer.storage.state.lock();
            let data = &offer.found.data;
            let free = state
                .content
                .dense()
                .is_some_and(|now| Arc::ptr_eq(&now.data, data));
            if free && Arc::strong_count(data) == 2 {
                made.locked.push((offer.slot, state));
            } else {
                made.keep.push(i64::from(offer.param));
            }
        }
        made
    }

    /// Puts a new value into a storage, locked or not.
    pub(crate) fn put(&mut self, slot: u32, storage: &Storage, value: Dense) {
        match self.locked.iter_mut().find(|(at, _)| *at == slot) {
            Some((_, state)) => state.content = Content::Dense(value),
            None => storage.state.lock().content = Content::Dense(value),
        }
    }

    /// After a failed execution: one that failed at its start keeps its arguments, one that failed later took them along.
    pub(crate) fn lose(&mut self, error: &Error) {
        for (_, state) in &mut self.locked {
            let value = state.content.dense();
            if value.is_some_and(|d| d.data.buffer.is_deleted().unwrap_or(true)) {
                state.content = Content::Lost(format!("the contents of this tensor were lost: {error}"));
            }
        }
    }
}
