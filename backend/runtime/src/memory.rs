//! Bytes held by tensors, a device.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;

/// Counters of one device, in bytes and numbers of buffers.
#[derive(Debug, Default)]
pub struct Account {
    bytes: Counter,
    buffers: Counter,
    /// The sums at the last [`Account::reset_accumulated`]: bytes made and freed, buffers made and freed.
    base: Mutex<[u64; 4]>,
    /// Buffers of at least [`LARGE`] bytes by a number: what an out-of-memory error lists.
    large: Mutex<BTreeMap<u64, Holder>>,
}

/// From this many bytes on a buffer is worth naming.
pub(crate) const LARGE: u64 = 1 << 20;

/// A large buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Its bytes.
    pub bytes: u64,
    /// Element type and sizes.
    pub shape: String,
    /// The op that made it, where one did.
    pub op: Option<String>,
}

#[derive(Debug, Default)]
struct Counter {
    current: AtomicU64,
    peak: AtomicU64,
    made: AtomicU64,
}

impl Counter {
    fn add(&self, n: u64) {
        let now = self.current.fetch_add(n, Relaxed) + n;
        if now > self.peak.load(Relaxed) {
            self.peak.fetch_max(now, Relaxed);
        }
        self.made.fetch_add(n, Relaxed);
    }

    fn amount(&self, made: u64, freed: u64) -> Amount {
        let (current, sum) = (self.current.load(Relaxed), self.made.load(Relaxed));
        Amount {
            current,
            peak: self.peak.load(Relaxed),
            // Another thread may be between two counters.
            made: sum.saturating_sub(made),
            freed: sum.saturating_sub(current).saturating_sub(freed),
        }
    }
}

/// One quantity at one moment.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    /// Held now.
    pub current: u64,
    /// The most since the start or the last reset.
    pub peak: u64,
    /// Ever made, since the start or the last reset.
    pub made: u64,
    /// Ever freed, since the start or the last reset.
    pub freed: u64,
}

/// [`Account`] at one moment.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes.
    pub bytes: Amount,
    /// Buffers.
    pub buffers: Amount,
}

impl Account {
    pub(crate) fn add(&self, bytes: u64) {
        self.bytes.add(bytes);
        self.buffers.add(1);
    }

    /// Lists a large buffer; gives its number.
    pub(crate) fn hold(&self, holder: Holder) -> u64 {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let number = NEXT.fetch_add(1, Relaxed);
        self.large.lock().insert(number, holder);
        number
    }

    /// Takes a large buffer off the list.
    pub(crate) fn release(&self, number: u64) {
        self.large.lock().remove(&number);
    }

    /// The largest buffers, largest first.
    pub fn largest(&self, count: usize) -> Vec<Holder> {
        let mut all: Vec<Holder> = self.large.lock().values().cloned().collect();
        all.sort_by_key(|h| std::cmp::Reverse(h.bytes));
        all.truncate(count);
        all
    }

    pub(crate) fn remove(&self, bytes: u64) {
        self.bytes.current.fetch_sub(bytes, Relaxed);
        self.buffers.current.fetch_sub(1, Relaxed);
    }

    /// The counters.
    pub fn usage(&self) -> Usage {
        let [bytes, freed, buffers, frees] = *self.base.lock();
        Usage {
            bytes: self.bytes.amount(bytes, freed),
            buffers: self.buffers.amount(buffers, frees),
        }
    }

    /// Sets the peaks back to what is held.
    pub fn reset_peak(&self) {
        for counter in [&self.bytes, &self.buffers] {
            counter.peak.store(counter.current.load(Relaxed), Relaxed);
        }
    }

    /// Sets the sums back to zero.
    pub fn reset_accumulated(&self) {
        let mut base = self.base.lock();
        let (bytes, buffers) = (self.bytes.amount(0, 0), self.buffers.amount(0, 0));
        *base = [bytes.made, bytes.freed, buffers.made, buffers.freed];
    }
}

/// Bytes as people read them.
pub(crate) fn human(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut unit = "bytes";
    for name in UNITS {
        if value < 1024.0 {
            break;
        }
        value /= 1024.0;
        unit = name;
    }
    if unit == "bytes" {
        format!("{bytes} bytes")
    } else {
        format!("{value:.2} {unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_what_is_held_and_what_ever_was() {
        let account = Account::default();
        account.add(100);
        account.add(20);
        account.remove(100);
        let usage = account.usage();
        assert_eq!(
            usage.bytes,
            Amount {
                current: 20,
                peak: 120,
                made: 120,
                freed: 100
            }
        );
        assert_eq!(
            usage.buffers,
            Amount {
                current: 1,
                peak: 2,
                made: 2,
                freed: 1
            }
        );
        account.reset_peak();
        account.reset_accumulated();
        account.add(5);
        account.remove(20);
        let usage = account.usage();
        assert_eq!(
            usage.bytes,
            Amount {
                current: 5,
                peak: 25,
                made: 5,
                freed: 20
            }
        );
        assert_eq!(
            usage.buffers,
            Amount {
                current: 1,
                peak: 2,
                made: 1,
                freed: 1
            }
        );
    }
}
