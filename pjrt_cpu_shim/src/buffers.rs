//! Who holds how much HBM: one record for each live buffer that occupies some.
//!
//! Sizes are dense (dimensions times element bits), known before the inner plugin is asked, so a buffer that does
//! not fit is refused and never made. Buffers in host memory, views of memory the caller owns and error buffers
//! occupy none and have no record.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::sync::Arc;

use dtype::ElementType;
use parking_lot::Mutex;
use pjrt_ffi::*;
use rustc_hash::{FxBuildHasher, FxHashMap};
use smallvec::SmallVec;

use crate::error::{Code, Fail, ShimError};
use crate::hbm::Hbm;
use crate::inner::{self, slice};

/// Where a buffer came from.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Maker {
    Host,
    Copy,
    Uninitialized,
    Transfer,
    Executable(Arc<str>),
}

/// Shape and origin of a buffer; shared by all outputs of one executable's one result.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Made {
    pub(crate) maker: Maker,
    pub(crate) element_type: u32,
    pub(crate) dims: SmallVec<[i64; 6]>,
}

impl Made {
    pub(crate) fn new(maker: Maker, element_type: u32, dims: &[i64]) -> Self {
        Self {
            maker,
            element_type,
            dims: SmallVec::from_slice(dims),
        }
    }

    /// Dense size in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        bytes_of(self.element_type, &self.dims)
    }

    fn describe(&self, out: &mut String) {
        let _ = write!(out, "{} ", array(self.element_type, &self.dims));
        let _ = match &self.maker {
            Maker::Host => write!(out, "from the host"),
            Maker::Copy => write!(out, "copied on the device"),
            Maker::Uninitialized => write!(out, "made uninitialized"),
            Maker::Transfer => write!(out, "of an asynchronous host transfer"),
            Maker::Executable(name) => write!(out, "made by {name}"),
        };
    }
}

/// Dense size of an array in bytes; negative dimensions, which the inner plugin refuses, count as none.
pub(crate) fn bytes_of(element_type: u32, dims: &[i64]) -> u64 {
    let elements = dims.iter().fold(1_u64, |product, &dim| {
        product.saturating_mul(u64::try_from(dim).unwrap_or(0))
    });
    elements.saturating_mul(u64::from(bits(element_type))).div_ceil(8)
}

/// An array's type for readers: `f32[2,3]`.
pub(crate) fn array(element_type: u32, dims: &[i64]) -> String {
    let name = match ElementType::from_pjrt(element_type) {
        Some(element) => element.mlir().to_owned(),
        None => format!("type {element_type}"),
    };
    let dims: Vec<String> = dims.iter().map(i64::to_string).collect();
    format!("{name}[{}]", dims.join(","))
}

/// A [`Made`] that records share.
#[derive(Debug, Clone)]
pub(crate) enum MadeRef {
    /// Of an executable's output: interned, so that running it touches no reference count.
    Interned(&'static Made),
    /// Of any other buffer.
    Counted(Arc<Made>),
}

impl std::ops::Deref for MadeRef {
    type Target = Made;

    fn deref(&self) -> &Made {
        match self {
            Self::Interned(made) => made,
            Self::Counted(made) => made,
        }
    }
}

/// The one copy of `made` that lives for ever; there are as many as distinct outputs of distinct programs.
pub(crate) fn intern(made: Made) -> MadeRef {
    static KNOWN: Mutex<Option<HashSet<&'static Made>>> = Mutex::new(None);
    let mut known = KNOWN.lock();
    let known = known.get_or_insert_default();
    if let Some(made) = known.get(&made) {
        return MadeRef::Interned(made);
    }
    let made: &'static Made = Box::leak(Box::new(made));
    known.insert(made);
    MadeRef::Interned(made)
}

fn bits(element_type: u32) -> u32 {
    const TOKEN: u32 = 23;
    match ElementType::from_pjrt(element_type) {
        Some(element) => element.bits(),
        None if element_type == TOKEN || element_type == 0 => 0,
        None => 8,
    }
}

/// Memory that several buffers share: released with the last of them.
#[derive(Debug)]
struct Shared {
    hbm: &'static Hbm,
    bytes: u64,
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.hbm.release(self.bytes);
    }
}

/// The record of a live buffer.
#[derive(Debug)]
struct Held {
    hbm: &'static Hbm,
    bytes: u64,
    made: MadeRef,
    shared: Option<Arc<Shared>>,
}

const SHARDS: usize = 16;

type Shard = Mutex<FxHashMap<usize, Held>>;

static TABLE: [Shard; SHARDS] = [const { Mutex::new(FxHashMap::with_hasher(FxBuildHasher)) }; SHARDS];

#[inline]
fn shard(buffer: usize) -> &'static Shard {
    // Allocator alignment leaves the low bits zero.
    &TABLE[(buffer >> 6) % SHARDS]
}

/// Records `buffer`, whose bytes were taken before.
#[inline]
pub(crate) fn insert(buffer: *const PJRT_Buffer, hbm: &'static Hbm, bytes: u64, made: MadeRef) {
    let held = Held {
        hbm,
        bytes,
        made,
        shared: None,
    };
    let old = shard(buffer as usize).lock().insert(buffer as usize, held);
    if let Some(old) = old {
        release(old);
    }
}

/// Forgets `buffer` and gives its memory back.
#[inline]
pub(crate) fn remove(buffer: *const PJRT_Buffer) {
    let held = shard(buffer as usize).lock().remove(&(buffer as usize));
    if let Some(held) = held {
        release(held);
    }
}

#[inline]
fn release(held: Held) {
    match held.shared {
        None => held.hbm.release(held.bytes),
        Some(shared) => drop(shared),
    }
}

/// What `read` sees in the record of `buffer`, if it has one.
#[inline]
pub(crate) fn with_record<R>(
    buffer: *const PJRT_Buffer,
    read: impl FnOnce(&Made, &'static Hbm) -> R,
) -> Option<R> {
    let shard = shard(buffer as usize).lock();
    shard
        .get(&(buffer as usize))
        .map(|held| read(&held.made, held.hbm))
}

/// Bytes that destroying `buffer` would free on `hbm`.
pub(crate) fn freeable(buffer: *const PJRT_Buffer, hbm: &'static Hbm) -> u64 {
    match shard(buffer as usize).lock().get(&(buffer as usize)) {
        Some(held) if std::ptr::eq(held.hbm, hbm) && held.shared.is_none() => held.bytes,
        _ => 0,
    }
}

/// Lets `to` hold the same memory as `from`.
pub(crate) fn share(from: *const PJRT_Buffer, to: *const PJRT_Buffer) {
    let copy = {
        let mut shard = shard(from as usize).lock();
        let Some(held) = shard.get_mut(&(from as usize)) else {
            return;
        };
        let shared = match &held.shared {
            Some(shared) => shared.clone(),
            None => {
                let shared = Arc::new(Shared {
                    hbm: held.hbm,
                    bytes: held.bytes,
                });
                held.shared = Some(shared.clone());
                shared
            }
        };
        Held {
            hbm: held.hbm,
            bytes: held.bytes,
            made: held.made.clone(),
            shared: Some(shared),
        }
    };
    if let Some(old) = shard(to as usize).lock().insert(to as usize, copy) {
        release(old);
    }
}

/// Forgets every buffer on these devices, whose client is going.
pub(crate) fn forget(hbms: &[&'static Hbm]) {
    for shard in &TABLE {
        let gone: Vec<Held> = {
            let mut shard = shard.lock();
            let keys: Vec<usize> = shard
                .iter()
                .filter(|(_, held)| hbms.iter().any(|hbm| std::ptr::eq(*hbm, held.hbm)))
                .map(|(key, _)| *key)
                .collect();
            keys.into_iter().filter_map(|key| shard.remove(&key)).collect()
        };
        gone.into_iter().for_each(release);
    }
}

/// Takes the memory of a new buffer, or says who holds what.
pub(crate) fn take(hbm: &'static Hbm, bytes: u64, what: &Made) -> Result<(), ShimError> {
    if hbm.take(bytes, 0, 0) {
        return Ok(());
    }
    let mut asked = String::new();
    what.describe(&mut asked);
    Err(exhausted(hbm, bytes, &format!("for a buffer {asked}")))
}

/// RESOURCE_EXHAUSTED with an account of the device's memory.
#[cold]
pub(crate) fn exhausted(hbm: &'static Hbm, bytes: u64, purpose: &str) -> ShimError {
    const SHOWN: usize = 8;
    let mut holders: HashMap<Made, (u64, u64)> = HashMap::new();
    for shard in &TABLE {
        for held in shard.lock().values().filter(|held| std::ptr::eq(held.hbm, hbm)) {
            let entry = holders.entry((*held.made).clone()).or_default();
            entry.0 += held.bytes;
            entry.1 += 1;
        }
    }
    let mut holders: Vec<(Made, (u64, u64))> = holders.into_iter().collect();
    // By size, then by description, so that the same state gives the same text.
    holders.sort_by(|(a, sizes_a), (b, sizes_b)| sizes_b.cmp(sizes_a).then_with(|| a.cmp(b)));
    let stats = hbm.stats();
    let mut text = format!(
        "Out of simulated HBM: asked for {} {purpose}; {} of {} are in use, {} are free.",
        amount(bytes),
        amount(stats.in_use),
        amount(stats.limit),
        amount(stats.limit.saturating_sub(stats.in_use))
    );
    if !holders.is_empty() {
        text.push_str(" Largest holders:");
    }
    for (made, (bytes, count)) in holders.iter().take(SHOWN) {
        let plural = if *count == 1 { "" } else { "s" };
        let _ = write!(text, "\n  {} in {count} buffer{plural} ", amount(*bytes));
        made.describe(&mut text);
    }
    if holders.len() > SHOWN {
        let rest: u64 = holders[SHOWN..].iter().map(|(_, (bytes, _))| bytes).sum();
        let _ = write!(
            text,
            "\n  {} in {} other kinds of buffers",
            amount(rest),
            holders.len() - SHOWN
        );
    }
    ShimError::new(Code::ResourceExhausted, text)
}

/// A size for readers.
pub(crate) fn amount(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if bytes < 1024 {
        return format!("{bytes} bytes");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{bytes} bytes ({value:.2} {})", UNITS[unit])
}

/// Takes memory, lets `make` create the buffer, and records it; a failure gives the memory back.
///
/// `hbm` is `None` where the buffer costs no HBM.
pub(crate) fn make(
    hbm: Option<&'static Hbm>,
    made: impl FnOnce() -> Result<Made, Fail>,
    make: impl FnOnce() -> Result<*mut PJRT_Buffer, Fail>,
) -> Result<(), Fail> {
    let Some(hbm) = hbm else { return make().map(drop) };
    let made = made()?;
    let bytes = made.bytes();
    take(hbm, bytes, &made)?;
    match make() {
        Ok(buffer) => {
            hbm.count(1, bytes);
            insert(buffer, hbm, bytes, MadeRef::Counted(Arc::new(made)));
            Ok(())
        }
        Err(error) => {
            hbm.release(bytes);
            Err(error)
        }
    }
}

/// Shape of a live buffer, from its record or from the inner plugin.
pub(crate) fn shape_of(buffer: *mut PJRT_Buffer, maker: Maker) -> Result<Made, Fail> {
    if let Some(held) = shard(buffer as usize).lock().get(&(buffer as usize)) {
        return Ok(Made {
            maker,
            ..(*held.made).clone()
        });
    }
    let mut element = PJRT_Buffer_ElementType_Args::new();
    element.buffer = buffer;
    inner::call(slot::PJRT_Buffer_ElementType, &mut element)?;
    let mut dims = PJRT_Buffer_Dimensions_Args::new();
    dims.buffer = buffer;
    inner::call(slot::PJRT_Buffer_Dimensions, &mut dims)?;
    // SAFETY: the buffer owns the list while the caller holds it.
    Ok(Made::new(maker, element.type_, unsafe {
        slice(dims.dims, dims.num_dims)
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fake(at: usize) -> *const PJRT_Buffer {
        at as *const PJRT_Buffer
    }

    fn made(maker: Maker, dims: &[i64]) -> Made {
        Made::new(maker, ElementType::F32.to_pjrt(), dims)
    }

    #[test]
    fn sizes_are_dense_for_every_width() {
        let size =
            |element: ElementType, dims: &[i64]| Made::new(Maker::Host, element.to_pjrt(), dims).bytes();
        assert_eq!(size(ElementType::F32, &[2, 3]), 24);
        assert_eq!(size(ElementType::S4, &[5]), 3);
        assert_eq!(size(ElementType::C128, &[]), 16);
        assert_eq!(size(ElementType::F32, &[0, 7]), 0);
        assert_eq!(
            size(ElementType::F32, &[i64::MAX, i64::MAX]),
            u64::MAX.div_ceil(8)
        );
    }

    #[test]
    fn shared_memory_is_freed_with_its_last_holder() {
        let hbm = Hbm::obtain(1000);
        let shape = made(Maker::Host, &[25]);
        take(hbm, shape.bytes(), &shape).unwrap();
        insert(
            fake(0x1000),
            hbm,
            shape.bytes(),
            MadeRef::Counted(Arc::new(shape)),
        );
        share(fake(0x1000), fake(0x2000));
        remove(fake(0x1000));
        assert_eq!(hbm.stats().in_use, 100);
        remove(fake(0x2000));
        assert_eq!(hbm.stats().in_use, 0);
    }

    #[test]
    fn the_account_names_the_largest_holders_first() {
        let hbm = Hbm::obtain(10_000);
        let shapes = [
            (0x3000, made(Maker::Host, &[100])),
            (0x3040, made(Maker::Executable("jit_step".into()), &[1000])),
            (0x3080, made(Maker::Executable("jit_step".into()), &[1000])),
        ];
        for (at, shape) in shapes {
            take(hbm, shape.bytes(), &shape).unwrap();
            insert(fake(at), hbm, shape.bytes(), MadeRef::Counted(Arc::new(shape)));
        }
        let wanted = made(Maker::Copy, &[2000]);
        let error = take(hbm, wanted.bytes(), &wanted).unwrap_err();
        assert_eq!(error.code, Code::ResourceExhausted);
        let lines: Vec<&str> = error.message.lines().collect();
        assert!(
            lines[0].contains("asked for 8000 bytes (7.81 KiB) for a buffer f32[2000] copied"),
            "{error}"
        );
        assert!(
            lines[0].contains("8400 bytes (8.20 KiB) of 10000 bytes (9.77 KiB) are in use"),
            "{error}"
        );
        assert_eq!(
            lines[1],
            "  8000 bytes (7.81 KiB) in 2 buffers f32[1000] made by jit_step"
        );
        assert_eq!(lines[2], "  400 bytes in 1 buffer f32[100] from the host");
        forget(&[hbm]);
        assert_eq!(hbm.stats().in_use, 0);
    }
}
