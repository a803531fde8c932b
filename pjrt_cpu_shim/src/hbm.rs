//! One device's memory: what is in use, the peak, the limit.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;

/// Counters of one simulated device. Sizes are in bytes.
#[derive(Debug, Default)]
pub(crate) struct Hbm {
    limit: AtomicU64,
    in_use: AtomicU64,
    peak: AtomicU64,
    num_allocs: AtomicU64,
    largest_alloc: AtomicU64,
}

/// A reading of [`Hbm`], in bytes and counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stats {
    pub(crate) limit: u64,
    pub(crate) in_use: u64,
    pub(crate) peak: u64,
    pub(crate) num_allocs: u64,
    pub(crate) largest_alloc: u64,
}

/// Counters of destroyed clients, to be used again: records may name them at any time, so they are never freed.
static FREE: Mutex<Vec<&'static Hbm>> = Mutex::new(Vec::new());

impl Hbm {
    /// Fresh counters with this limit.
    pub(crate) fn obtain(limit: u64) -> &'static Self {
        let hbm = FREE.lock().pop().unwrap_or_else(|| Box::leak(Box::default()));
        hbm.limit.store(limit, Relaxed);
        for counter in [&hbm.in_use, &hbm.peak, &hbm.num_allocs, &hbm.largest_alloc] {
            counter.store(0, Relaxed);
        }
        hbm
    }

    /// Gives counters back once no record names them.
    pub(crate) fn give_back(hbms: impl Iterator<Item = &'static Self>) {
        FREE.lock().extend(hbms);
    }

    /// Takes `bytes`, with `scratch` more needed for a moment and `freed` about to be released; false past the limit.
    #[inline]
    pub(crate) fn take(&self, bytes: u64, scratch: u64, freed: u64) -> bool {
        let now = self.in_use.fetch_add(bytes, Relaxed) + bytes;
        let high = (now + scratch)
            .saturating_sub(freed)
            .max(now.saturating_sub(freed));
        if high > self.limit.load(Relaxed) {
            self.in_use.fetch_sub(bytes, Relaxed);
            return false;
        }
        if high > self.peak.load(Relaxed) {
            self.peak.fetch_max(high, Relaxed);
        }
        true
    }

    /// Counts `count` allocations of which the largest has `largest` bytes.
    #[inline]
    pub(crate) fn count(&self, count: u64, largest: u64) {
        self.num_allocs.fetch_add(count, Relaxed);
        if largest > self.largest_alloc.load(Relaxed) {
            self.largest_alloc.fetch_max(largest, Relaxed);
        }
    }

    /// Gives `bytes` back.
    #[inline]
    pub(crate) fn release(&self, bytes: u64) {
        self.in_use.fetch_sub(bytes, Relaxed);
    }

    /// Starts a new measuring period: the peak falls to what is in use.
    pub(crate) fn reset_peak(&self) {
        self.peak.store(self.in_use.load(Relaxed), Relaxed);
        self.num_allocs.store(0, Relaxed);
        self.largest_alloc.store(0, Relaxed);
    }

    pub(crate) fn stats(&self) -> Stats {
        Stats {
            limit: self.limit.load(Relaxed),
            in_use: self.in_use.load(Relaxed),
            peak: self.peak.load(Relaxed),
            num_allocs: self.num_allocs.load(Relaxed),
            largest_alloc: self.largest_alloc.load(Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_go_up_and_down_and_stop_at_the_limit() {
        let hbm = Hbm::obtain(100);
        assert!(hbm.take(60, 0, 0));
        hbm.count(1, 60);
        assert!(!hbm.take(60, 0, 0), "past the limit");
        assert!(hbm.take(60, 0, 60), "a donated buffer makes room");
        hbm.release(60);
        assert!(!hbm.take(10, 50, 0), "scratch counts");
        assert!(hbm.take(10, 30, 0));
        assert_eq!(
            hbm.stats(),
            Stats {
                limit: 100,
                in_use: 70,
                peak: 100,
                num_allocs: 1,
                largest_alloc: 60
            }
        );
        hbm.reset_peak();
        assert_eq!(hbm.stats().peak, 70);
    }
}
