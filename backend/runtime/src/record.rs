//! The programs that ran, for those who want to compile them elsewhere.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use parking_lot::Mutex;

static ON: AtomicBool = AtomicBool::new(false);
static RAN: Mutex<Vec<Arc<str>>> = Mutex::new(Vec::new());

/// Starts keeping the text of each program that runs, or ends it.
pub fn record_programs(on: bool) {
    ON.store(on, Relaxed);
    RAN.lock().clear();
}

/// StableHLO texts of the distinct programs that ran since the last call, in the order of their first run.
pub fn take_programs() -> Vec<Arc<str>> {
    std::mem::take(&mut *RAN.lock())
}

/// A program runs.
#[inline]
pub(crate) fn note(text: &Arc<str>) {
    if ON.load(Relaxed) {
        keep(text);
    }
}

#[cold]
fn keep(text: &Arc<str>) {
    let mut ran = RAN.lock();
    if !ran.iter().any(|t| Arc::ptr_eq(t, text)) {
        ran.push(text.clone());
    }
}
