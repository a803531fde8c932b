//! Events: all work issued on a device up to a moment.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use parking_lot::{Condvar, Mutex};

use crate::{Error, Result, Runtime};

#[derive(Debug, Default)]
struct Shared {
    left: AtomicUsize,
    done: Mutex<Option<std::result::Result<Instant, String>>>,
    changed: Condvar,
    /// What it waits for; nothing once it has happened.
    results: Mutex<Vec<Arc<dyn pjrt::Event>>>,
}

impl Shared {
    fn finish_one(&self, outcome: pjrt::Result<()>) {
        let mut done = self.done.lock();
        if let Err(e) = outcome {
            *done = Some(Err(e.to_string()));
        }
        if self.left.fetch_sub(1, Ordering::AcqRel) == 1 && done.is_none() {
            *done = Some(Ok(Instant::now()));
        }
        self.changed.notify_all();
    }

    /// Finishes if all results are there. A plugin's thread calls `finish_one` some time after those who wait for a
    /// result go on, so that work known to be done may not have been told yet.
    fn settle(&self) -> Result<()> {
        if self.done.lock().is_some() {
            self.results.lock().clear();
            return Ok(());
        }
        let mut outcome = Ok(());
        for result in self.results.lock().iter() {
            if !result.is_ready()? {
                return Ok(());
            }
            outcome = outcome.and(result.wait().map_err(|e| e.to_string()));
        }
        self.done.lock().get_or_insert(outcome.map(|()| Instant::now()));
        self.changed.notify_all();
        Ok(())
    }
}

/// Happens when all work issued before it is done; knows when that was.
#[derive(Clone, Debug)]
pub struct Event(Arc<Shared>);

impl Event {
    /// Records the work issued so far on a device.
    pub fn record(runtime: &Runtime, device: usize) -> Result<Self> {
        crate::window::flush_all(runtime)?;
        let shared = Arc::new(Shared::default());
        // One more than the results, so that it cannot finish while they are being listed.
        shared.left.store(1, Ordering::Release);
        for result in runtime.device(device)?.outstanding() {
            if result.buffer.is_deleted().unwrap_or(true) {
                continue;
            }
            let ready = result.buffer.ready()?;
            if ready.is_ready()? {
                continue;
            }
            shared.left.fetch_add(1, Ordering::AcqRel);
            shared.results.lock().push(ready.clone());
            let theirs = shared.clone();
            ready.on_ready(Box::new(move |outcome| theirs.finish_one(outcome)))?;
        }
        shared.finish_one(Ok(()));
        Ok(Self(shared))
    }

    /// Whether it has happened.
    pub fn query(&self) -> Result<bool> {
        self.0.settle()?;
        match &*self.0.done.lock() {
            None => Ok(false),
            Some(Ok(_)) => Ok(true),
            Some(Err(e)) => Err(Error::runtime(e.clone())),
        }
    }

    /// Waits for it.
    pub fn synchronize(&self) -> Result<()> {
        let mut done = self.0.done.lock();
        while done.is_none() {
            self.0.changed.wait(&mut done);
        }
        drop(done);
        self.query().map(|_| ())
    }

    /// Milliseconds from this event to a later one; both have happened.
    pub fn elapsed(&self, end: &Self) -> Result<f64> {
        let time = |event: &Self| match &*event.0.done.lock() {
            Some(Ok(at)) => Ok(*at),
            Some(Err(e)) => Err(Error::runtime(e.clone())),
            None => Err(Error::runtime(
                "Both events must be completed before calculating elapsed time: synchronize them first",
            )),
        };
        let (from, to) = (time(self)?, time(end)?);
        Ok(if to >= from {
            (to - from).as_secs_f64() * 1e3
        } else {
            -(from - to).as_secs_f64() * 1e3
        })
    }
}
