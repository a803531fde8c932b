//! Conditions on data, such as an index in range: verified at the call or at the next synchronization.

use std::sync::Arc;

use parking_lot::Mutex;
use pjrt::Buffer;

use crate::Result;
use crate::client::{Runtime, failed};
use crate::origin::Origin;
use crate::program::Produce;

/// A condition on data that is verified later.
pub(crate) struct Pending {
    pub(crate) ok: Arc<dyn Buffer>,
    pub(crate) shown: Arc<dyn Buffer>,
    pub(crate) kind: aten::ErrorKind,
    pub(crate) message: String,
    pub(crate) origin: Arc<Origin>,
}

pub(crate) static PENDING: Mutex<Vec<Pending>> = Mutex::new(Vec::new());

impl Pending {
    /// Reads whether it holds; an error that comes after its call names the op and the line.
    pub(crate) fn verify(&self, late: bool) -> Result<()> {
        let mut ok = [0];
        let read = |buffer: &Arc<dyn Buffer>, bytes: &mut [u8]| {
            buffer
                .copy_to_host(bytes)
                .map_err(|e| failed(e, Some(&self.origin)))
        };
        read(&self.ok, &mut ok)?;
        if ok[0] != 0 {
            return Ok(());
        }
        let mut shown = [0; 8];
        read(&self.shown, &mut shown)?;
        let text = self.message.replace("{}", &i64::from_le_bytes(shown).to_string());
        let error = crate::Error::from(aten::Error::user(self.kind, text));
        Err(match late {
            true => error.during(&self.origin.to_string()),
            false => error,
        })
    }
}

/// The conditions among a run's results; each is followed by the value to show.
pub(crate) fn pending_checks(
    results: &[Produce],
    buffers: &[Arc<dyn Buffer>],
    origin: &Arc<Origin>,
) -> Vec<Pending> {
    let pairs = results.iter().zip(buffers.windows(2));
    pairs
        .filter_map(|(result, pair)| match result {
            Produce::Check(kind, message) => Some(Pending {
                ok: pair[0].clone(),
                shown: pair[1].clone(),
                kind: *kind,
                message: message.clone(),
                origin: origin.clone(),
            }),
            _ => None,
        })
        .collect()
}

/// Verifies the conditions among a run's results, or puts that off on a device whose results take their time.
pub(crate) fn check_conditions(
    runtime: &Runtime,
    results: &[Produce],
    buffers: &[Arc<dyn Buffer>],
    origin: &Arc<Origin>,
) -> Result<()> {
    let pending = pending_checks(results, buffers, origin);
    if runtime.simulated || runtime.debug() {
        return pending.iter().try_for_each(|p| p.verify(false));
    }
    PENDING.lock().extend(pending);
    Ok(())
}

/// Verifies conditions that were put off; an error names the op and, where known, the line.
pub(crate) fn verify_pending() -> Result<()> {
    let all = std::mem::take(&mut *PENDING.lock());
    all.iter().try_for_each(|p| p.verify(true))
}
