//! One call of an op: find its program or make it, run it, put the results where they belong.

use std::sync::Arc;

use aten::{Dims, ScalarKind};
use dtype::ElementType;
use glue_abi::Arg;
use pjrt::Buffer;
use smallvec::SmallVec;

use crate::cache::{self, Entry, Found};
use crate::client::{DeviceState, Runtime, explain, failed, runtime, wait};
use crate::donate::{Donation, Offer};
use crate::execute::{Bits, Given, execute, expect};
use crate::glue::Glue;
use crate::make::make;
use crate::origin::Origin;
use crate::parse::Parsed;
use crate::pending::{check_conditions, pending_checks};
use crate::program::{Param, Produce};
use crate::schema::OpHandle;
use crate::storage::{Content, Dense, Storage};
use crate::{Error, Result, window};

/// The new tensors of a call, in the order of its returns.
#[derive(Debug)]
pub struct Returned {
    /// `None` for an undefined tensor.
    pub tensors: SmallVec<[Option<ReturnedTensor>; 2]>,
    entry: Arc<Entry>,
}

/// A new tensor.
#[derive(Debug)]
pub struct ReturnedTensor {
    /// Its storage.
    pub storage: Arc<Storage>,
}

impl Returned {
    pub(crate) fn new(tensors: SmallVec<[Option<ReturnedTensor>; 2]>, entry: Arc<Entry>) -> Self {
        Self { tensors, entry }
    }

    /// As in [`Results::counts`].
    pub fn counts(&self) -> &[i32] {
        &self.entry.counts
    }

    /// Sizes, strides, dtype code and storage bytes of the i-th tensor.
    pub fn meta(&self, i: usize) -> Option<(&[i64], &[i64], i8, usize)> {
        let meta = self.entry.returned.get(i)?.as_ref()?;
        Some((&meta.sizes, &meta.strides, meta.code, meta.nbytes))
    }
}

/// How a call went.
#[derive(Debug)]
pub enum Outcome {
    /// It ran.
    Done(Returned),
    /// An argument was resized: describe the arguments anew.
    Retry,
}

/// Runs an op.
///
/// # Safety
/// Pointers in `args` are good for the call; `glue` belongs to it.
pub unsafe fn dispatch(op: &OpHandle, args: &[Arg], device: usize, glue: Glue) -> Result<Outcome> {
    let runtime = runtime()?;
    let state = runtime.device(device)?;
    let defers = window::defers(runtime);
    if !defers {
        window::flush_all(runtime)?;
    }
    let mut parsed = Parsed::new(device);
    // SAFETY: the caller's promise.
    unsafe { parsed.fill(op, args) }?;
    let found = match cache::get(&parsed.key) {
        Some(found) => found,
        None => make(op, &parsed, glue, None)?,
    };
    let Some(mut entry) = ready(found, glue)? else {
        return Ok(Outcome::Retry);
    };
    if defers {
        // Sizes are needed now, and a failed condition is the call's own error.
        if !entry.computes_sizes && (!entry.has_checks || window::takes_conditions(runtime)) {
            check_fits(&entry, &parsed)?;
            return window::append(runtime, state, entry, &parsed, glue);
        }
        if window::flush_all(runtime)? {
            // What it reads is there now.
            return Ok(Outcome::Retry);
        }
    }
    if entry.computes_sizes {
        let sizes = read_sizes(runtime, state, &entry, &parsed, glue)?;
        let key = parsed.key.with_sizes(&sizes);
        let found = match cache::get(&key) {
            Some(found) => found,
            None => make(op, &parsed, glue, Some((key, sizes)))?,
        };
        match ready(found, glue)? {
            Some(second) => entry = second,
            None => return Ok(Outcome::Retry),
        }
    }
    check_fits(&entry, &parsed)?;
    let results = run(runtime, state, &entry, &parsed, glue)?;
    finish(runtime, state, device, entry, &parsed, results).map(Outcome::Done)
}

fn check_fits(entry: &Entry, parsed: &Parsed<'_>) -> Result<()> {
    entry.fits.iter().try_for_each(|&(scalar, element)| {
        let (kind, bits) = parsed.scalars[scalar as usize];
        crate::fits::check(kind, bits, element)
    })
}

/// The program, if there is one to run; `None` after giving written tensors the sizes that they need first.
fn ready(found: Found, glue: Glue) -> Result<Option<Arc<Entry>>> {
    match found {
        Found::Entry(entry) => Ok(Some(entry)),
        Found::NoLowering(why) => Err(Error::NoLowering(why.to_string())),
        Found::Resize(list) => {
            for (written, sizes) in list.iter() {
                glue.resize(*written, sizes)?;
            }
            Ok(None)
        }
    }
}

fn read_sizes(
    runtime: &Runtime,
    state: &DeviceState,
    entry: &Arc<Entry>,
    parsed: &Parsed<'_>,
    glue: Glue,
) -> Result<Vec<i64>> {
    let results = run(runtime, state, entry, parsed, glue)?;
    // Sizes of wrong arguments mean nothing: the conditions come first. The host waits here anyway.
    for pending in pending_checks(&entry.results, &results.buffers, &results.origin) {
        pending.verify(false)?;
    }
    let mut sizes = Vec::new();
    for (result, buffer) in entry.results.iter().zip(&results.buffers) {
        if matches!(result, Produce::Fresh(..)) {
            let mut bytes = [0; 8];
            buffer
                .copy_to_host(&mut bytes)
                .map_err(|e| failed(e, Some(&results.origin)))?;
            sizes.push(i64::from_le_bytes(bytes));
        }
    }
    Ok(sizes)
}

/// Buffers that a run gave, and what it may have consumed.
struct Ran<'a> {
    buffers: Vec<Arc<dyn Buffer>>,
    donation: Donation<'a>,
    origin: Arc<Origin>,
}

/// A call as its program sees it.
struct Strict<'p, 'a> {
    entry: &'p Entry,
    parsed: &'p Parsed<'a>,
    random: [u64; 3],
}

impl Given for Strict<'_, '_> {
    fn dense(&self, slot: u32) -> Option<&Dense> {
        self.parsed.slots[slot as usize].content.dense()
    }

    fn scalar(&self, _: u32, i: u32) -> (ScalarKind, Bits) {
        self.parsed.scalars[i as usize]
    }

    fn host(&self, _: u32, i: u32) -> (Bits, ElementType) {
        let tensor = &self.parsed.tensors[i as usize];
        (tensor.bits, tensor.element)
    }

    fn offset(&self, _: u32, i: u32) -> i64 {
        self.parsed.tensors[i as usize].offset
    }

    fn target_offset(&self, _: u32, k: u32) -> i64 {
        let tensor = self.entry.target_tensor[k as usize];
        tensor.map_or(0, |i| self.parsed.tensors[i as usize].offset)
    }

    fn random(&self, _: u32) -> [u64; 3] {
        self.random
    }
}

/// Random bits for a call, if its program takes some.
pub(crate) fn random_of(entry: &Entry, parsed: &Parsed<'_>, glue: Glue) -> Result<[u64; 3]> {
    if !entry.random {
        return Ok([0; 3]);
    }
    glue.random(parsed.generator, parsed.device, entry.random_blocks)
}

/// Runs a program on the storages of a call.
fn run<'a>(
    runtime: &Runtime,
    state: &DeviceState,
    entry: &Arc<Entry>,
    parsed: &Parsed<'a>,
    glue: Glue,
) -> Result<Ran<'a>> {
    let origin = entry.origin.now();
    let Some(executable) = entry.executable(runtime, state)? else {
        return Ok(Ran {
            buffers: Vec::new(),
            donation: Donation::default(),
            origin,
        });
    };
    let given = Strict {
        entry,
        parsed,
        random: random_of(entry, parsed, glue)?,
    };
    let mut donation = Donation::of(entry.donated.iter().filter_map(|&param| {
        let Param::Slot(slot) = entry.params[param as usize] else {
            return None;
        };
        let given = &parsed.slots[slot as usize];
        Some(Offer {
            param,
            slot,
            storage: given.storage,
            found: given.content.dense()?,
        })
    }));
    let keep = std::mem::take(&mut donation.keep);
    match execute(runtime, state, &**executable, &entry.params, &given, keep)? {
        Ok(buffers) => {
            expect(&origin, buffers.len(), entry.results.len())?;
            Ok(Ran {
                buffers,
                donation,
                origin,
            })
        }
        Err(e) => {
            let error = explain(parsed.device, state, e, &format!("{origin} failed"));
            donation.lose(&error);
            Err(error)
        }
    }
}

fn finish(
    runtime: &Runtime,
    state: &DeviceState,
    device: usize,
    entry: Arc<Entry>,
    parsed: &Parsed<'_>,
    ran: Ran<'_>,
) -> Result<Returned> {
    let Ran {
        buffers,
        mut donation,
        origin,
    } = ran;
    if entry.has_checks {
        check_conditions(runtime, &entry.results, &buffers, &origin)?;
    }
    let mut tensors: SmallVec<[Option<ReturnedTensor>; 2]> = entry.returned.iter().map(|_| None).collect();
    for ((result, buffer), bytes) in entry.results.iter().zip(buffers).zip(&entry.result_bytes) {
        let dense =
            |element: ElementType, dims: &Dims| state.result(buffer.clone(), *bytes, &origin, element, dims);
        match result {
            Produce::Slot(s, element, dims) => {
                donation.put(*s, parsed.slots[*s as usize].storage, dense(*element, dims));
            }
            Produce::Fresh(_, k, element, dims) => {
                let Some(i) = entry.fresh_of.get(*k as usize).copied().flatten() else {
                    continue;
                };
                let nbytes = entry.returned[i as usize].as_ref().map_or(0, |m| m.nbytes);
                let storage = Storage::filled(nbytes, device, dense(*element, dims));
                tensors[i as usize] = Some(ReturnedTensor { storage });
            }
            Produce::Check(..) | Produce::Shown => {}
        }
    }
    drop(donation);
    let returned = Returned { tensors, entry };
    if runtime.debug() {
        for tensor in returned.tensors.iter().flatten() {
            if let Content::Dense(d) = &tensor.storage.state.lock().content {
                wait(&d.data)?;
            }
        }
        for slot in &parsed.slots {
            if let Content::Dense(d) = &slot.storage.state.lock().content {
                wait(&d.data)?;
            }
        }
    }
    Ok(returned)
}
