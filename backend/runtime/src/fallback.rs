//! Ops that ran on the CPU because nothing else could.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use parking_lot::Mutex;

use crate::{Error, Result};

/// `TORCH_TPU_FALLBACK`.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Policy {
    /// Warn once an op.
    Warn,
    /// Refuse.
    Error,
    /// Say nothing.
    Allow,
}

static COUNTS: Mutex<BTreeMap<String, u64>> = Mutex::new(BTreeMap::new());

fn policy() -> Result<Policy> {
    static POLICY: OnceLock<std::result::Result<Policy, String>> = OnceLock::new();
    let read = || match std::env::var("TORCH_TPU_FALLBACK").as_deref() {
        Err(_) | Ok("" | "warn") => Ok(Policy::Warn),
        Ok("error") => Ok(Policy::Error),
        Ok("allow") => Ok(Policy::Allow),
        Ok(other) => Err(format!(
            "TORCH_TPU_FALLBACK={other:?} is no policy: use warn, error or allow"
        )),
    };
    POLICY.get_or_init(read).clone().map_err(Error::runtime)
}

/// Counts a fallback; tells whether the user must be warned, or the error that the policy makes of it.
pub fn note_fallback(op: &str) -> Result<bool> {
    match policy()? {
        Policy::Error => Err(Error::raised(
            glue_abi::ErrorKind::NotImplemented,
            format!(
                "{op} has no lowering for these arguments on tpu, and TORCH_TPU_FALLBACK=error forbids running it on the CPU"
            ),
        )),
        policy => {
            let mut counts = COUNTS.lock();
            let count = counts.entry(op.to_owned()).or_insert(0);
            *count += 1;
            Ok(*count == 1 && policy == Policy::Warn)
        }
    }
}

/// How often each op ran on the CPU.
pub fn fallbacks() -> BTreeMap<String, u64> {
    COUNTS.lock().clone()
}

/// Forgets the counts.
pub fn reset_fallbacks() {
    COUNTS.lock().clear();
}
