//! Compiled programs by key, in memory.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, LazyLock, OnceLock};

use aten::Dims;
use dtype::ElementType;
use parking_lot::RwLock;
use pjrt::Executable;
use rustc_hash::FxHashMap;

use crate::key::Key;
use crate::node::{Node, Slot};
use crate::origin::Origin;
use crate::program::{Param, Produce};

/// A new tensor that a program makes.
#[derive(Clone, Debug)]
pub(crate) struct FreshMeta {
    pub(crate) sizes: Dims,
    pub(crate) strides: Dims,
    pub(crate) code: i8,
    pub(crate) nbytes: usize,
}

/// A program and all that a call of it needs.
#[derive(Debug)]
pub(crate) struct Entry {
    /// Tells it from all others of the process.
    pub(crate) id: u64,
    /// When it was last used, in programs made since the start.
    pub(crate) used: AtomicU64,
    /// Compiled at the first run. Absent when the program has no results: nothing to run.
    pub(crate) compiled: OnceLock<Option<Arc<dyn Executable>>>,
    /// StableHLO.
    pub(crate) text: Arc<str>,
    /// The call and the storages that it found, for programs of several calls.
    pub(crate) node: Node,
    pub(crate) slots: Vec<Slot>,
    /// The program takes random bits.
    pub(crate) random: bool,
    pub(crate) params: Vec<Param>,
    pub(crate) results: Vec<Produce>,
    /// Bytes of each result on the device.
    pub(crate) result_bytes: Vec<u64>,
    /// Parameters that the program may consume.
    pub(crate) donated: Vec<u32>,
    pub(crate) random_blocks: u64,
    /// Returned tensors: new ones, or `None` for an undefined one. In the order of the returns.
    pub(crate) returned: Vec<Option<FreshMeta>>,
    /// As in `glue_abi::Results`.
    pub(crate) counts: Vec<i32>,
    /// For each target of the node: its position among `returned`, when it is a new tensor.
    pub(crate) fresh_of: Vec<Option<u32>>,
    /// For each target of the node: the tensor that it writes.
    pub(crate) target_tensor: Vec<Option<u32>>,
    /// Numbers that must fit a type: position among the scalars.
    pub(crate) fits: Vec<(u32, ElementType)>,
    /// Some results are conditions.
    pub(crate) has_checks: bool,
    /// The op.
    pub(crate) origin: Arc<Origin>,
    /// The op has result sizes that depend on data: the program computes them.
    pub(crate) computes_sizes: bool,
}

/// What a key leads to.
#[derive(Clone, Debug)]
pub(crate) enum Found {
    /// A program.
    Entry(Arc<Entry>),
    /// The lowering has none for these arguments.
    NoLowering(Arc<str>),
    /// Written tensors, by number, get these sizes first, as `out=` does.
    Resize(Arc<[(u32, Dims)]>),
}

static CACHE: RwLock<Option<FxHashMap<Key, Found>>> = RwLock::new(None);
/// Programs held in memory (`TORCH_TPU_CACHE_PROGRAMS`); the longest unused quarter goes when there are more. A program
/// of the CPU plugin takes ten to forty mappings of memory, of which Linux gives a process 65,530; on a TPU it takes
/// memory of the device.
static HELD: LazyLock<usize> = LazyLock::new(|| {
    let asked = std::env::var("TORCH_TPU_CACHE_PROGRAMS").ok();
    asked
        .and_then(|text| text.parse().ok())
        .filter(|n| *n > 0)
        .unwrap_or(1024)
});
/// Counts programs made.
static CLOCK: AtomicU64 = AtomicU64::new(0);
static HITS: AtomicU64 = AtomicU64::new(0);
static MISSES: AtomicU64 = AtomicU64::new(0);
static NANOSECONDS: AtomicU64 = AtomicU64::new(0);

/// Counters of the executable cache.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct CacheStats {
    /// Calls that found their program.
    pub hits: u64,
    /// Calls that had to compile one.
    pub misses: u64,
    /// Programs held.
    pub entries: u64,
    /// Seconds spent compiling.
    pub compile_seconds: f64,
    /// Programs that came from disk instead.
    pub disk_hits: u64,
    /// Programs written to disk.
    pub disk_writes: u64,
}

/// The counters since the start.
pub fn cache_stats() -> CacheStats {
    let (disk_hits, disk_writes) = crate::disk::counters();
    CacheStats {
        disk_hits,
        disk_writes,
        hits: HITS.load(Relaxed),
        misses: MISSES.load(Relaxed),
        entries: CACHE.read().as_ref().map_or(0, |c| c.len() as u64),
        compile_seconds: NANOSECONDS.load(Relaxed) as f64 / 1e9,
    }
}

/// Forgets every program that is held in memory.
pub fn clear_cache() {
    *CACHE.write() = None;
    crate::fused::clear();
}

/// Removes every program from disk.
pub fn clear_disk() {
    if let Some(disk) = crate::disk::disk() {
        disk.clear();
    }
}

pub(crate) fn get(key: &Key) -> Option<Found> {
    let cache = CACHE.read();
    let found = cache.as_ref()?.get(key)?.clone();
    HITS.fetch_add(1, Relaxed);
    if let Found::Entry(entry) = &found {
        entry.used.store(CLOCK.load(Relaxed), Relaxed);
    }
    Some(found)
}

pub(crate) fn insert(key: Key, found: Found) {
    let now = CLOCK.fetch_add(1, Relaxed);
    if let Found::Entry(entry) = &found {
        entry.used.store(now, Relaxed);
    }
    let full = {
        let mut cache = CACHE.write();
        let cache = cache.get_or_insert_default();
        cache.insert(key, found);
        cache.len() > *HELD
    };
    if full {
        drop_unused();
    }
}

/// Whether so many programs are held that they may be why another one cannot be made.
pub(crate) fn many() -> bool {
    CACHE.read().as_ref().is_some_and(|cache| cache.len() >= 512)
}

/// Lets the longest unused quarter of the programs go; how many.
pub(crate) fn drop_unused() -> usize {
    let mut guard = CACHE.write();
    let Some(cache) = guard.as_mut() else {
        return 0;
    };
    let mut ages: Vec<u64> = cache.values().map(used).collect();
    let quarter = ages.len() / 4;
    let Some(oldest) = ages
        .get(quarter)
        .is_some()
        .then(|| *ages.select_nth_unstable(quarter).1)
    else {
        return 0;
    };
    let mut gone = Vec::new();
    cache.retain(|_, found| {
        let stays = used(found) > oldest;
        if !stays {
            gone.push(found.clone());
        }
        stays
    });
    // Unloading programs takes time, which others need not wait for.
    drop(guard);
    tracing::debug!(programs = gone.len(), "the longest unused programs are let go");
    gone.len()
}

fn used(found: &Found) -> u64 {
    match found {
        Found::Entry(entry) => entry.used.load(Relaxed),
        // Answers without a program are quickly found again.
        Found::NoLowering(_) | Found::Resize(_) => 0,
    }
}

pub(crate) fn note_compile(elapsed: std::time::Duration) {
    MISSES.fetch_add(1, Relaxed);
    NANOSECONDS.fetch_add(elapsed.as_nanos() as u64, Relaxed);
}
