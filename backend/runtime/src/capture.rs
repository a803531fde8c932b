//! A captured graph: a window kept as a program, to run again on other storages.

use std::cell::Cell;
use std::ffi::c_void;
use std::sync::Arc;

use aten::ScalarKind;
use dtype::ElementType;
use parking_lot::MutexGuard;
use smallvec::SmallVec;

use crate::client::{DeviceState, Runtime, explain};
use crate::execute::{Bits, Given, execute, expect};
use crate::fused::{Program, Recipe};
use crate::glue::Glue;
use crate::node::Slot;
use crate::parse::storage;
use crate::pending::check_conditions;
use crate::program::{Param, Produce};
use crate::storage::{Content, Dense, State, Storage};
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
                    let held = match &now.content {
                        Content::Dense(d) => Some((d.element, &d.dims)),
                        _ => None,
                    };
                    let same = match (&slot.held, held) {
                        (Some((e, d)), Some((element, dims))) => *e == element && d == dims,
                        (None, None) => true,
                        _ => false,
                    };
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
        let (mut locked, keep) = self.lock_donated(&storages, &contents);
        crate::record::note(&self.program.text);
        let given = Bound {
            capture: self,
            contents: &contents,
            random: &random,
        };
        let program = &self.program;
        let buffers = execute(
            runtime,
            state,
            &*program.executable,
            &program.params,
            &given,
            keep,
        )?
        .map_err(|e| explain(self.device, state, e, &format!("{} failed", program.origin)));
        let buffers = match buffers {
            Ok(buffers) => buffers,
            Err(error) => {
                for (_, state) in &mut locked {
                    let gone = matches!(&state.content, Content::Dense(d) if d.data.buffer.is_deleted().unwrap_or(true));
                    if gone {
                        state.content =
                            Content::Lost(format!("the contents of this tensor were lost: {error}"));
                    }
                }
                return Err(error);
            }
        };
        expect(&program.origin, buffers.len(), program.results.len())?;
        check_conditions(runtime, &program.results, &buffers, &program.origin)?;
        for (result, buffer) in program.results.iter().zip(buffers) {
            let Produce::Slot(s, element, dims) = result else {
                continue;
            };
            let bytes = crate::make::result_bytes(result);
            let dense = Content::Dense(state.result(buffer, bytes, &program.origin, *element, dims));
            match locked.iter_mut().find(|(at, _)| at == s) {
                Some((_, state)) => state.content = dense,
                None => {
                    if let Some(storage) = storages[*s as usize] {
                        storage.state.lock().content = dense;
                    }
                }
            }
        }
        Ok(Ran::Done)
    }

    /// Locks inputs whose old value the program may overwrite; lists the parameters that must be kept.
    #[allow(clippy::type_complexity)]
    fn lock_donated<'s>(
        &self,
        storages: &[Option<&'s Storage>],
        contents: &[Content],
    ) -> (Vec<(u32, MutexGuard<'s, State>)>, SmallVec<[i64; 4]>) {
        let (mut locked, mut keep) = (Vec::new(), SmallVec::new());
        let slot_of = |p: u32| match self.program.params[p as usize] {
            Param::Slot(s) => Some(s),
            _ => None,
        };
        let mut wanted: Vec<(u32, u32, &'s Storage)> = Vec::new();
        for &p in &self.program.donated {
            match slot_of(p).and_then(|s| Some((s, storages[s as usize]?))) {
                Some((s, storage)) => wanted.push((p, s, storage)),
                None => keep.push(i64::from(p)),
            }
        }
        // One order for all threads.
        wanted.sort_by_key(|(_, _, storage)| storage.id);
        for (p, s, storage) in wanted {
            let state = storage.state.lock();
            let free = match (&state.content, &contents[s as usize]) {
                // The storage and this call hold it, nobody else.
                (Content::Dense(now), Content::Dense(ours)) => {
                    Arc::ptr_eq(&now.data, &ours.data) && Arc::strong_count(&ours.data) == 2
                }
                _ => false,
            };
            if free {
                locked.push((s, state));
            } else {
                keep.push(i64::from(p));
            }
        }
        (locked, keep)
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
        match &self.contents[slot as usize] {
            Content::Dense(dense) => Some(dense),
            _ => None,
        }
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
