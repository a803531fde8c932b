//! Wrappers that stand in the table only for calls that a fault rule names.

use std::ffi::c_void;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use pjrt_ffi::{PJRT_Error, SLOT_NAMES};

use crate::async_fault;
use crate::error::{Fail, guard};
use crate::fault::{Action, FaultPlan, injected};
use crate::inner::RawEntry;

#[derive(Debug)]
struct Installed {
    plan: FaultPlan,
    originals: [Option<RawEntry>; COUNT],
    calls: [AtomicU64; COUNT],
}

static INSTALLED: OnceLock<Installed> = OnceLock::new();

/// Puts trampolines over the entries that `plan` names; `read` and `write` reach the table's entries by index.
pub(crate) fn install(
    plan: &FaultPlan,
    entries: usize,
    read: impl Fn(usize) -> Option<RawEntry>,
    mut write: impl FnMut(usize, RawEntry),
) {
    let slots = plan.slots();
    if slots.is_empty() {
        return;
    }
    let mut originals = [None; COUNT];
    for &slot in slots.iter().filter(|&&slot| slot < entries) {
        originals[slot] = read(slot);
        if originals[slot].is_some() {
            write(slot, TRAMPOLINES[slot]);
        }
    }
    let calls = [const { AtomicU64::new(0) }; COUNT];
    // The table is built once, so nothing is installed yet.
    let _ = INSTALLED.set(Installed {
        plan: plan.clone(),
        originals,
        calls,
    });
}

unsafe extern "C" fn trampoline<const SLOT: usize>(args: *mut c_void) -> *mut PJRT_Error {
    guard(SLOT_NAMES[SLOT], || {
        let Some((installed, original)) = INSTALLED
            .get()
            .and_then(|installed| Some((installed, installed.originals[SLOT]?)))
        else {
            return Ok(());
        };
        let occurrence = installed.calls[SLOT].fetch_add(1, Relaxed) + 1;
        let (delay, error) = installed.plan.decide(SLOT, occurrence);
        if !delay.is_zero() {
            std::thread::sleep(delay);
        }
        if let Some(Action::Fail(code, text)) = error {
            return Err(injected(SLOT, occurrence, *code, text).into());
        }
        // SAFETY: the caller's arguments go to the entry they were meant for.
        let failed = unsafe { original(args) };
        if !failed.is_null() {
            return Err(Fail::Inner(failed));
        }
        match error {
            // SAFETY: the call succeeded, so its results are there to be replaced.
            Some(Action::Async(code)) => unsafe {
                async_fault::replace_results(SLOT, args, &injected(SLOT, occurrence, *code, "asynchronously"))
            },
            _ => Ok(()),
        }
    })
}

macro_rules! trampolines {
    ($($slot:literal)*) => { [$(trampoline::<$slot>),*] };
}

const COUNT: usize = SLOT_NAMES.len();

static TRAMPOLINES: [RawEntry; COUNT] = trampolines!(
    0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39
    40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63 64 65 66 67 68 69 70 71 72 73 74 75 76
    77 78 79 80 81 82 83 84 85 86 87 88 89 90 91 92 93 94 95 96 97 98 99 100 101 102 103 104 105 106 107 108 109
    110 111 112 113 114 115 116 117 118 119 120 121 122 123 124 125 126 127 128 129 130 131 132 133 134 135 136 137
);
