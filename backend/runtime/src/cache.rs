//! Compiled programs by key, in memory.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

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
    Some(found)
}

pub(crate) fn insert(key: Key, found: Found) {
    CACHE.write().get_or_insert_default().insert(key, found);
}

pub(crate) fn note_compile(elapsed: std::time::Duration) {
    MISSES.fetch_add(1, Relaxed);
    NANOSECONDS.fetch_add(elapsed.as_nanos() as u64, Relaxed);
}
