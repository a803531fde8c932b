//! The programs that ran, for those who want to compile them elsewhere.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use parking_lot::Mutex;

static ON: AtomicBool = AtomicBool::new(false);
static RAN: Mutex<Vec<Arc<str>>> = Mutex::new(Vec::new());

/// Starts keeping the text of each program that runs, or ends it. Compiled programs are forgotten at the start: their
/// texts were not kept.
pub fn record_programs(on: bool) {
    if on && !ON.swap(on, Relaxed) {
        crate::cache::clear_cache();
    }
    ON.store(on, Relaxed);
    RAN.lock().clear();
}

/// StableHLO texts of the distinct programs that ran since the last call, in the order of their first run.
pub fn take_programs() -> Vec<Arc<str>> {
    std::mem::take(&mut *RAN.lock())
}

/// A program's text, if texts are kept.
pub(crate) fn kept(text: &str) -> Option<Arc<str>> {
    ON.load(Relaxed).then(|| text.into())
}

/// A program runs.
#[cold]
pub(crate) fn note(text: &Arc<str>) {
    let mut ran = RAN.lock();
    if ON.load(Relaxed) && !ran.iter().any(|t| Arc::ptr_eq(t, text)) {
        ran.push(text.clone());
    }
}
