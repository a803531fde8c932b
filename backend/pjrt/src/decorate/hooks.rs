//! The hooks: record, fail, delay.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::Hook;
use crate::{Code, Error, Result};

/// Keeps the name and time of each call.
#[derive(Debug)]
pub struct Recorder {
    start: Instant,
    calls: Mutex<Vec<(Duration, &'static str)>>,
}

impl Default for Recorder {
    fn default() -> Self {
        Self {
            start: Instant::now(),
            calls: Mutex::default(),
        }
    }
}

impl Recorder {
    /// Calls so far, oldest first.
    pub fn calls(&self) -> Vec<&'static str> {
        self.calls.lock().iter().map(|(_, call)| *call).collect()
    }

    /// Calls so far with the time since the recorder was made.
    pub fn timed_calls(&self) -> Vec<(Duration, &'static str)> {
        self.calls.lock().clone()
    }

    /// How often `call` was made.
    pub fn count(&self, call: &str) -> usize {
        self.calls.lock().iter().filter(|(_, c)| *c == call).count()
    }
}

impl Hook for Recorder {
    fn before(&self, call: &'static str) -> Result<()> {
        self.calls.lock().push((self.start.elapsed(), call));
        Ok(())
    }
}

/// Makes the nth call of a name fail, once.
#[derive(Debug)]
pub struct FailNth {
    call: String,
    nth: u64,
    code: Code,
    seen: AtomicU64,
}

impl FailNth {
    /// The `nth` call (from 1) of `call` fails with `code`.
    pub fn new(call: impl Into<String>, nth: u64, code: Code) -> Self {
        Self {
            call: call.into(),
            nth,
            code,
            seen: AtomicU64::new(0),
        }
    }
}

impl Hook for FailNth {
    fn before(&self, call: &'static str) -> Result<()> {
        if call != self.call || self.seen.fetch_add(1, Ordering::Relaxed) + 1 != self.nth {
            return Ok(());
        }
        Err(Error::Plugin {
            call,
            code: self.code,
            message: format!("injected failure of call {}", self.nth),
        })
    }
}

/// Delays every call of a name.
#[derive(Debug)]
pub struct Delay {
    call: String,
    by: Duration,
}

impl Delay {
    /// Every `call` waits for `by` first.
    pub fn new(call: impl Into<String>, by: Duration) -> Self {
        Self {
            call: call.into(),
            by,
        }
    }
}

impl Hook for Delay {
    fn before(&self, call: &'static str) -> Result<()> {
        if call == self.call {
            std::thread::sleep(self.by);
        }
        Ok(())
    }
}
