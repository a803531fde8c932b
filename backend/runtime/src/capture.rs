//! A captured graph: a window kept as a program, to run again on other storages.

use std::cell::Cell;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};

use aten::ScalarKind;
use dtype::ElementType;

use crate::client::{DeviceState, Runtime, explain};
use crate::donate::{Donation, Offer};
use crate::execute::{Bits, Given, execute, expect};
use crate::fused::{self, Program, Recipe};
use crate::glue::Glue;
use crate::node::Slot;
use crate::parse::storage;
use crate::pending::check_conditions;
use crate::program::{Param, Produce};
use crate::region::{self, Loop};
use crate::storage::{Content, Dense, Storage};
use crate::window::{self, Deferred, Held, Window};
use crate::{Error, Result, runtime};

thread_local! {
    static CAPTURING: Cell<bool> = const { Cell::new(false) };
}

/// A whole step is being captured, on all threads: autograd's too.
static STEP: AtomicBool = AtomicBool::new(false);

/// The step is captured for its program only: nothing may run.
static DRY: AtomicBool = AtomicBool::new(false);
/// The first storage that is not older than that capture.
static FIRST: AtomicU64 = AtomicU64::new(0);

/// Refuses to run what was put off where only its program is wanted.
pub(crate) fn refuse_dry() -> Result<()> {
    match DRY.load(Relaxed) {
        false => Ok(()),
        true => Err(Error::runtime(
            "the function looks at a value (.item(), print, nonzero, a mask as an index): nothing is computed ahead of \
             time, so there is none; compile a function that returns the tensor instead",
        )),
    }
}

/// Whether this thread's ops are being captured.
pub fn capturing() -> bool {
    CAPTURING.get() || in_step()
}

/// Whether a whole step is being captured.
#[inline]
pub fn in_step() -> bool {
    STEP.load(Relaxed)
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
    /// A storage that was there before and stays: a parameter, a state of an optimizer.
    Kept(Weak<Storage>),
    /// Nobody sees it.
    Inner,
    /// A new storage that somebody kept and that is no output: another run must not write to it.
    Escaped,
}

/// A program of a graph, and what its storages are.
#[derive(Debug)]
pub struct Capture {
    program: Arc<Program>,
    nodes: Vec<Deferred>,
    slots: Vec<Slot>,
    loops: Vec<Loop>,
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

/// From here to [`end_capture`] ops of this thread are put off as one graph; up to [`end_step`] those of all threads.
pub fn begin_capture(step: bool) -> Result<()> {
    let runtime = runtime()?;
    window::flush_all(runtime)?;
    if step && STEP.swap(true, Relaxed) {
        return Err(Error::runtime(
            "a step is being compiled already, on this thread or another one: steps cannot be nested",
        ));
    }
    window::watch(runtime);
    // Whoever looks at a value must notice the capture, though nothing was put off yet.
    window::count_open(1);
    if !step {
        CAPTURING.set(true);
        window::open_scope();
    }
    Ok(())
}

/// The place of a storage in a list.
fn position(list: &[*const c_void], held: &Held) -> Option<u32> {
    list.iter().position(|p| *p == held.pointer()).map(|i| i as u32)
}

/// Ends a capture: what was put off, or `None` where something looked at a value in between; then all of it has run.
fn captured(device: usize) -> Result<Option<(&'static Runtime, &'static DeviceState, Window)>> {
    abandon();
    let runtime = runtime()?;
    let state = runtime.device(device)?;
    match window::take(runtime, device) {
        Some(taken) => Ok(Some((runtime, state, taken))),
        None => {
            window::flush_all(runtime)?;
            Ok(None)
        }
    }
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
    let Some((runtime, state, mut taken)) = captured(device)? else {
        return Ok(None);
    };
    let live = taken.live();
    let roles: Option<Vec<Role>> = taken
        .slots
        .iter()
        .zip(&live)
        .map(
            |(held, live)| match (position(inputs, held), position(outputs, held)) {
                (Some(i), _) => Some(Role::Input(i)),
                (None, Some(o)) => Some(Role::Output(o)),
                (None, None) if held.inner => Some(Role::Inner),
                (None, None) if !held.written() => Some(Role::Constant(held.content().clone())),
                (None, None) if !*live => Some(Role::Inner),
                (None, None) => None,
            },
        )
        .collect();
    let made = roles.and_then(|roles| Some((roles, fused::find(runtime, device, &taken, &live, true)?)));
    let Some((roles, program)) = made else {
        taken.run_each(runtime, state, device)?;
        return Ok(None);
    };
    taken.restore();
    let capture = Capture {
        program,
        slots: taken.slots.iter().map(|s| s.slot.clone()).collect(),
        nodes: std::mem::take(&mut taken.nodes),
        loops: std::mem::take(&mut taken.loops),
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

/// Ends the capture of a step: the ops run as one program, which may read and write any storage that was there before.
/// `None` when they could not be one, because something looked at a value in between.
///
/// # Safety
/// The pointers are storages that tensors hold.
pub unsafe fn end_step(
    inputs: &[*const c_void],
    outputs: &[*const c_void],
    device: usize,
) -> Result<Option<Capture>> {
    let Some((runtime, state, taken)) = captured(device)? else {
        return Ok(None);
    };
    let live = taken.live();
    let roles = taken.slots.iter().zip(&live).map(|(held, live)| {
        let before = !matches!(held.content(), Content::Empty);
        match (position(inputs, held), position(outputs, held)) {
            (Some(i), _) => Role::Input(i),
            (None, _) if before && *live => Role::Kept(held.weak()),
            (None, Some(o)) => Role::Output(o),
            (None, None) if !held.written() => Role::Constant(held.content().clone()),
            (None, None) if !*live => Role::Inner,
            (None, None) => Role::Escaped,
        }
    });
    let roles: Vec<Role> = roles.collect();
    let Some(program) = fused::find(runtime, device, &taken, &live, true) else {
        taken.run_each(runtime, state, device)?;
        return Ok(None);
    };
    let loops = taken.loops.clone();
    let (slots, nodes) = taken.run_whole(runtime, state, device, &program)?;
    Ok(Some(Capture {
        program,
        nodes,
        slots,
        loops,
        roles,
        device,
    }))
}

/// From here to [`end_dry`] ops of all threads are put off and never run: storages keep what they hold.
pub fn begin_dry() -> Result<()> {
    begin_capture(true)?;
    FIRST.store(Storage::next_id(), Relaxed);
    DRY.store(true, Relaxed);
    Ok(())
}

/// Ends a capture of which only the program is wanted; `None` when there were no ops. Storages that were there before
/// are its inputs, whether they hold something or not.
pub fn end_dry(device: usize) -> Result<Option<String>> {
    DRY.store(false, Relaxed);
    abandon();
    let runtime = runtime()?;
    let Some(mut taken) = window::take(runtime, device) else {
        return match window::flush_all(runtime)? {
            false => Ok(None),
            true => Err(Error::runtime("the function uses more than one device")),
        };
    };
    let live = taken.live();
    let text = Recipe::text(&taken, FIRST.load(Relaxed), &live, device);
    taken.restore();
    text.map(Some)
}

/// Gives a capture up after an exception: what was put off runs as usual.
pub fn abandon() {
    if DRY.swap(false, Relaxed)
        && let Ok(runtime) = runtime()
    {
        for device in 0..runtime.devices.len() {
            if let Some(mut taken) = window::take_any(runtime, device) {
                taken.restore();
            }
        }
    }
    if let Some(runtime) = crate::runtime_if_started() {
        region::abandon_all(&runtime.devices);
    }
    if STEP.swap(false, Relaxed) {
        window::count_open(-1);
    }
    if CAPTURING.replace(false) {
        window::count_open(-1);
        window::leave_scope();
    }
}

impl Capture {
    /// Whether another run does what the ops would do: nobody outside keeps what they made but for the outputs.
    pub fn repeats(&self) -> bool {
        !self.roles.iter().any(|role| matches!(role, Role::Escaped))
    }

    /// For each output whether a run makes it; otherwise it is a storage that was there before.
    pub fn makes(&self, outputs: usize) -> Vec<bool> {
        let made = |o: u32| {
            self.roles
                .iter()
                .any(|r| matches!(r, Role::Output(at) if *at == o))
        };
        (0..outputs as u32).map(made).collect()
    }

    /// Whether two captures run the same program with the same numbers and constants.
    pub fn same(&self, other: &Self) -> Result<bool> {
        if !Arc::ptr_eq(&self.program, &other.program)
            || !self
                .nodes
                .iter()
                .zip(&other.nodes)
                .all(|(a, b)| a.same_numbers(b))
        {
            return Ok(false);
        }
        for pair in self.roles.iter().zip(&other.roles) {
            let same = match pair {
                (Role::Constant(a), Role::Constant(b)) => same_content(a, b)?,
                (Role::Kept(a), Role::Kept(b)) => Weak::ptr_eq(a, b),
                (Role::Input(a), Role::Input(b)) | (Role::Output(a), Role::Output(b)) => a == b,
                (Role::Inner, Role::Inner) => true,
                _ => false,
            };
            if !same {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Runs the program on other storages.
    ///
    /// # Safety
    /// The pointers are storages that tensors hold; `glue` is torch's.
    pub unsafe fn run(&self, inputs: &[*const c_void], outputs: &[*const c_void], glue: Glue) -> Result<Ran> {
        let runtime = runtime()?;
        window::flush_all(runtime)?;
        let state = runtime.device(self.device)?;
        let blocks = |blocks| glue.random(std::ptr::null_mut(), self.device, blocks);
        let draw = |node: &Deferred| match node.entry.random && node.replays.is_none() {
            true => blocks(node.entry.random_blocks).map(Some),
            false => Ok(None),
        };
        let random = region::drawn(&self.nodes, &self.loops, draw, |later| match later {
            0 => Ok(()),
            later => blocks(later).map(|_| ()),
        })?;
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
        let alive: Option<Vec<Option<Arc<Storage>>>> = self
            .roles
            .iter()
            .map(|role| match role {
                Role::Kept(storage) => storage.upgrade().map(Some),
                Role::Escaped => None,
                _ => Some(None),
            })
            .collect();
        let Some(alive) = alive else {
            return Ok(Ran::Differs);
        };
        let mut storages: Vec<Option<&Storage>> = Vec::with_capacity(self.roles.len());
        let mut contents: Vec<Content> = Vec::with_capacity(self.roles.len());
        for ((role, slot), alive) in self.roles.iter().zip(&self.slots).zip(&alive) {
            let pointer = match role {
                Role::Input(i) => inputs.get(*i as usize),
                Role::Output(o) => outputs.get(*o as usize),
                _ => None,
            };
            let found: Option<&Storage> = match pointer {
                // SAFETY: the caller's promise.
                Some(pointer) => Some(unsafe { storage(*pointer) }?),
                None => alive.as_deref(),
            };
            contents.push(match (role, found) {
                (Role::Input(_) | Role::Kept(_), Some(found)) => {
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
        let verdict = check_conditions(runtime, &program.results, &buffers, &origin);
        for (result, buffer) in program.results.iter().zip(buffers) {
            let Produce::Slot(s, element, dims) = result else {
                continue;
            };
            if verdict.is_err() && !program.guards(*s) {
                continue;
            }
            let bytes = crate::make::result_bytes(result);
            if let Some(storage) = storages[*s as usize] {
                let dense = state.result(buffer, bytes, &origin, *element, dims);
                donation.put(*s, storage, dense);
            }
        }
        verdict.map(|()| Ran::Done)
    }
}

/// Constants above this size are not compared, and are taken for different ones.
const COMPARED: u64 = 1 << 20;

fn same_content(a: &Content, b: &Content) -> Result<bool> {
    let (a, b) = match (a, b) {
        (Content::Empty, Content::Empty) => return Ok(true),
        (Content::Dense(a), Content::Dense(b)) => (a, b),
        _ => return Ok(false),
    };
    if Arc::ptr_eq(&a.data, &b.data) {
        return Ok(true);
    }
    if a.element != b.element || a.dims != b.dims || a.data.bytes() > COMPARED {
        return Ok(false);
    }
    let read = |dense: &Dense| -> Result<Vec<u8>> {
        let mut bytes = vec![0; dense.data.bytes() as usize];
        dense.data.buffer.copy_to_host(&mut bytes)?;
        Ok(bytes)
    };
    Ok(read(a)? == read(b)?)
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
