//! A captured graph: a window kept as a program, to run again on other storages.

use std::cell::Cell;
use std::ffi::c_void;

use aten::ScalarKind;
use dtype::ElementType;

use crate::client::{DeviceState, Runtime, explain};
use crate::donate::{Donation, Offer};
use crate::execute::{Bits, Given, execute, expect};
use crate::fused::{Program, Recipe};
use crate::glue::Glue;
use crate::node::Slot;
use crate::parse::storage;
use crate::pending::check_conditions;
use crate::program::{Param, Produce};
use crate::storage::{Content, Dense, Storage};
use crate::window::{self, Deferred};
use crate::{Error, Result, runtime};

thread_local! {
    static CAPTURING: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread's ops are being captured.
pub(crate) fn capturing() -> bool {
    CAPTURING.get()
}

/// What a storage of the window is to a later run.
#[derive(Debug)]
enum Role {
    /// The storage of an input.
    Input(u32),
    /// What the graph holds itself.
    Constant(Content),
    /// The storage of an output.
    Output(u32),
    /// Nobody sees it.
    Inner,
}

/// A program of a graph, and what its storages are.
#[derive(Debug)]
pub struct Capture {
    program: Program,
    nodes: Vec<Deferred>,
    slots: Vec<Slot>,
    roles: Vec<Role>,
    device: usize,
}

/// How a run of a capture went.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Ran {
    /// The outputs are there.
    Done,
    /// A storage is not as it was when the graph was captured: capture anew.
    Differs,
}

/// From here to [`end_capture`] ops of this thread are put off as one graph.
pub fn begin_capture() -> Result<()> {
    let runtime = runtime()?;
    window::flush_all(runtime)?;
    window::watch(runtime);
    CAPTURING.set(true);
    window::open_scope();
    Ok(())
}

/// Ends the capture: the ops run, and are kept as a program if they can be: not when something looked at a value in
/// between, nor when a new tensor is neither forgotten nor among the outputs.
///
/// # Safety
/// The pointers are storages that tensors hold.
pub unsafe fn end_capture(
    inputs: &[*const c_void],
    outputs: &[*const c_void],
    device: usize,
) -> Result<Option<Capture>> {
    abandon();
    let runtime = runtime()?;
    let state = runtime.device(device)?;
    let Some(mut taken) = window::take(runtime, device) else {
        window::flush_all(runtime)?;
        return Ok(None);
    };
    let live = taken.live();
    let roles: Option<Vec<Role>> = taken
        .slots
        .iter()
        .zip(&live)
        .map(|(held, live)| {
            let at =
                |list: &[*const c_void]| list.iter().position(|p| *p == held.pointer()).map(|i| i as u32);
            Some(match (at(inputs), at(outputs)) {
                (Some(i), _) => Role::Input(i),
                (None, Some(o)) => Role::Output(o),
                (None, None) if !held.written() => Role::Constant(held.content().clone()),
                (None, None) if !*live => Role::Inner,
                (None, None) => return None,
            })
        })
        .collect();
    let made = roles.and_then(|roles| {
        let recipe = Recipe::of(&taken, &live, device);
        let program = recipe
            .cook(runtime, true)
            .inspect_err(|error| tracing::debug!(%error, "a graph is no program"));
        Some((roles, program.ok()?))
    });
    let Some((roles, program)) = made else {
        taken.run_each(runtime, state, device)?;
        return Ok(None);
    };
    taken.restore();
    let capture = Capture {
        program,
        slots: taken.slots.iter().map(|s| s.slot.clone()).collect(),
        nodes: std::mem::take(&mut taken.nodes),
        roles,
        device,
    };
    drop(taken);
    // The words that the capture drew are those of this first run.
    let random = capture.nodes.iter().map(Deferred::drawn).collect();
    // SAFETY: the caller's promise.
    match unsafe { capture.run_with(runtime, state, inputs, outputs, random) }? {
        Ran::Done => Ok(Some(capture)),
        Ran::Differs => Err(Error::runtime(
            "a captured graph does not fit its own inputs (a bug of ours)",
        )),
    }
}

/// Gives a capture up after an exception: what was put off runs as usual.
pub fn abandon() {
    if CAPTURING.replace(false) {
        window::leave_scope();
    }
}

impl Capture {
    /// Runs the program on other storages.
    ///
    /// # Safety
    /// The pointers are storages that tensors hold; `glue` is torch's.
    pub unsafe fn run(&self, inputs: &[*const c_void], outputs: &[*const c_void], glue: Glue) -> Result<Ran> {
        let runtime = runtime()?;
        window::flush_all(runtime)?;
        let state = runtime.device(self.device)?;
        let draw = |node: &Deferred| match node.entry.random {
            true => glue.random(std::ptr::null_mut(), self.device, node.entry.random_blocks),
            false => Ok([0; 3]),
        };
        let random = self.nodes.iter().map(draw).collect::<Result<_>>()?;
        // SAFETY: the caller's promise.
        unsafe { self.run_with(runtime, state, inputs, outputs, random) }
    }

    /// # Safety
    /// As for [`Capture::run`].
    unsafe fn run_with(
        &self,
        runtime: &Runtime,
        state: &DeviceState,
        inputs: &[*const c_void],
        outputs: &[*const c_void],
        random: Vec<[u64; 3]>,
    ) -> Result<Ran> {
        let mut storages: Vec<Option<&Storage>> = Vec::with_capacity(self.roles.len());
        let mut contents: Vec<Content> = Vec::with_capacity(self.roles.len());
        for (role, slot) in self.roles.iter().zip(&self.slots) {
            let pointer = match role {
                Role::Input(i) => inputs.get(*i as usize),
                Role::Output(o) => outputs.get(*o as usize),
                Role::Constant(_) | Role::Inner => None,
            };
            // SAFETY: the caller's promise.
            let found: Option<&Storage> = pointer.map(|p| unsafe { storage(*p) }).transpose()?;
            contents.push(match (role, found) {
                (Role::Input(_), Some(found)) => {
                    let now = found.state.lock();
                    if let Content::Lost(why) = &now.content {
                        return Err(Error::runtime(why.clone()));
                    }
                    let held = slot.held.as_ref().map(|(element, dims)| (*element, dims));
                    let same = now.content.dense().map(|d| (d.element, &d.dims)) == held;
                    if !same || now.nbytes != slot.nbytes || found.device != self.device {
                        return Ok(Ran::Differs);
                    }
                    now.content.clone()
                }
                (Role::Constant(content), _) => content.clone(),
                _ => Content::Empty,
            });
            storages.push(found);
        }
        // Only what the graph writes is donated: inputs.
        let mut donation = Donation::of(self.program.donated.iter().filter_map(|&param| {
            let Param::Slot(slot) = self.program.params[param as usize] else {
                return None;
            };
            Some(Offer {
                param,
                slot,
                storage: storages[slot as usize]?,
                found: contents[slot as usize].dense()?,
            })
        }));
        let keep = std::mem::take(&mut donation.keep);
        crate::record::note(&self.program.text);
        let given = Bound {
            capture: self,
            contents: &contents,
            random: &random,
        };
        let program = &self.program;
        let origin = program.origin.now();
        let buffers = execute(
            runtime,
            state,
            &*program.executable,
            &program.params,
            &given,
            keep,
        )?
        .map_err(|e| {
            let error = explain(self.device, state, e, &format!("{origin} failed"));
            donation.lose(&error);
            error
        })?;
        expect(&origin, buffers.len(), program.results.len())?;
        check_conditions(runtime, &program.results, &buffers, &origin)?;
        for (result, buffer) in program.results.iter().zip(buffers) {
            let Produce::Slot(s, element, dims) = result else {
                continue;
            };
            let bytes = crate::make::result_bytes(result);
            if let Some(storage) = storages[*s as usize] {
                let dense = state.result(buffer, bytes, &origin, *element, dims);
                donation.put(*s, storage, dense);
            }
        }
        Ok(Ran::Done)
    }
}

/// A run's values for the program's parameters.
struct Bound<'c> {
    capture: &'c Capture,
    contents: &'c [Content],
    random: &'c [[u64; 3]],
}

impl Given for Bound<'_> {
    fn dense(&self, slot: u32) -> Option<&Dense> {
        self.contents[slot as usize].dense()
    }

    fn scalar(&self, node: u32, i: u32) -> (ScalarKind, Bits) {
        self.capture.nodes[node as usize].scalar(i)
    }

    fn host(&self, node: u32, i: u32) -> (Bits, ElementType) {
        self.capture.nodes[node as usize].host(i)
    }

    fn offset(&self, node: u32, i: u32) -> i64 {
        self.capture.nodes[node as usize].offset(i)
    }

    fn target_offset(&self, node: u32, k: u32) -> i64 {
        self.capture.nodes[node as usize].target_offset(k)
    }

    fn random(&self, node: u32) -> [u64; 3] {
        self.random[node as usize]
    }
}
