//! Bytes held by tensors, a device.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counters of one device, in bytes and numbers of buffers.
#[derive(Debug, Default)]
pub struct Account {
    current: AtomicU64,
    peak: AtomicU64,
    allocations: AtomicU64,
    frees: AtomicU64,
    total: AtomicU64,
}

/// [`Account`] at one moment.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Bytes held now.
    pub current: u64,
    /// The most since the start or the last reset.
    pub peak: u64,
    /// Buffers made.
    pub allocations: u64,
    /// Buffers freed.
    pub frees: u64,
    /// Bytes ever allocated.
    pub total: u64,
}

impl Account {
    pub(crate) fn add(&self, bytes: u64) {
        let now = self.current.fetch_add(bytes, Relaxed) + bytes;
        self.peak.fetch_max(now, Relaxed);
        self.allocations.fetch_add(1, Relaxed);
        self.total.fetch_add(bytes, Relaxed);
    }

    pub(crate) fn remove(&self, bytes: u64) {
        self.current.fetch_sub(bytes, Relaxed);
        self.frees.fetch_add(1, Relaxed);
    }

    /// The counters.
    pub fn usage(&self) -> Usage {
        Usage {
            current: self.current.load(Relaxed),
            peak: self.peak.load(Relaxed),
            allocations: self.allocations.load(Relaxed),
            frees: self.frees.load(Relaxed),
            total: self.total.load(Relaxed),
        }
    }

    /// Sets the peak back to what is held.
    pub fn reset_peak(&self) {
        self.peak.store(self.current.load(Relaxed), Relaxed);
    }
}
