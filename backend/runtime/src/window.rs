//! The pending window of a device: calls that were put off, in order, and the storages that they touch.
//!
//! A call that is put off has its metadata at once; a storage that it writes holds [`Content::Pending`] until the window
//! runs. Whoever looks into storages runs the window first ([`flush_all`]), so nobody else ever meets that.

use std::cell::Cell;
use std::ffi::c_void;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Weak};

use aten::{Dims, ScalarKind};
use dtype::ElementType;
use glue_abi::TensorArg;
use parking_lot::MutexGuard;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::cache::Entry;
use crate::capture::{capturing, in_step, refuse_dry};
use crate::client::{DeviceState, Runtime, explain};
use crate::dispatch::{Outcome, Returned, ReturnedTensor, random_of};
use crate::execute::{Bits, Given, execute, expect};
use crate::fused::{self, Program, Recipe};
use crate::glue::Glue;
use crate::node::{Slot, Source, Target};
use crate::origin::Origin;
use crate::parse::Parsed;
use crate::pending::check_conditions;
use crate::program::{Param, Produce};
use crate::region::{self, Loop, Open};
use crate::storage::{Content, Dense, Storage};
use crate::{Error, Result};

/// A window of this many calls runs.
const LIMIT: usize = 2048;

/// Calls put off on all devices: nearly always zero outside fused mode, and then nothing else is looked at.
static PENDING: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// Scopes that are open on this thread: a decomposition's ops become one program.
    static SCOPES: Cell<u32> = const { Cell::new(0) };
}

/// A storage in a window.
#[derive(Debug)]
pub(crate) struct Held {
    storage: Arc<Storage>,
    /// As the window found it.
    pub(crate) slot: Slot,
    /// What it holds: at first as found, then what the calls wrote.
    content: Content,
    /// The last call that uses it.
    last: usize,
    /// The last call that writes it.
    writer: Option<usize>,
    /// Only a loop's body knows it.
    pub(crate) inner: bool,
}

/// A call that was put off.
#[derive(Debug)]
pub(crate) struct Deferred {
    pub(crate) entry: Arc<Entry>,
    /// For each storage of the call: its place in the window.
    pub(crate) slots: SmallVec<[u32; 4]>,
    /// For each target that is a new tensor: its storage's place in the window.
    pub(crate) fresh: SmallVec<[Option<u32>; 2]>,
    scalars: SmallVec<[(ScalarKind, Bits); 2]>,
    tensors: SmallVec<[(i64, Bits, ElementType); 4]>,
    random: [u64; 3],
    /// The call whose random bits it uses again.
    pub(crate) replays: Option<u32>,
    origin: Arc<Origin>,
}

/// Calls that were put off.
#[derive(Debug, Default)]
pub(crate) struct Window {
    pub(crate) slots: Vec<Held>,
    pub(crate) nodes: Vec<Deferred>,
    /// Calls that run several times, in order.
    pub(crate) loops: Vec<Loop>,
    /// The loop that is being recorded.
    pub(crate) open: Option<Open>,
    by_storage: FxHashMap<usize, u32>,
    /// Nothing ran, and nobody looked at a value, since [`watch`].
    whole: bool,
}

/// Whether the calling thread's ops are put off.
#[inline]
pub(crate) fn defers(runtime: &Runtime) -> bool {
    (runtime.fused() || SCOPES.get() > 0 || in_step()) && !runtime.debug()
}

/// From here to [`close_scope`] ops of this thread are put off, to run as one program.
pub fn open_scope() {
    SCOPES.set(SCOPES.get() + 1);
}

/// Ends the innermost scope and runs nothing; how many are left.
pub(crate) fn leave_scope() -> u32 {
    SCOPES.set(SCOPES.get().saturating_sub(1));
    SCOPES.get()
}

/// From here on a window that runs is noticed by [`take`].
pub(crate) fn watch(runtime: &Runtime) {
    for state in &runtime.devices {
        state.window.lock().whole = true;
    }
}

/// What was put off on a device since [`watch`], if none of it ran and nothing was put off elsewhere.
pub(crate) fn take(runtime: &Runtime, device: usize) -> Option<Window> {
    let others = runtime.devices.iter().enumerate().filter(|(i, _)| *i != device);
    if others
        .map(|(_, state)| state.window.lock().nodes.len())
        .sum::<usize>()
        > 0
    {
        return None;
    }
    let mut window = runtime.device(device).ok()?.window.lock();
    if !window.whole || window.nodes.is_empty() {
        return None;
    }
    PENDING.fetch_sub(window.nodes.len(), Relaxed);
    Some(std::mem::take(&mut *window))
}

/// Counts a capture, or a loop that is being recorded, as one more call that was put off, or one less.
pub(crate) fn count_open(change: isize) {
    PENDING.fetch_add(change as usize, Relaxed);
}

/// What was put off on a device.
pub(crate) fn take_any(runtime: &Runtime, device: usize) -> Option<Window> {
    let mut window = runtime.device(device).ok()?.window.lock();
    PENDING.fetch_sub(window.nodes.len(), Relaxed);
    Some(std::mem::take(&mut *window))
}

/// Ends the innermost scope; with the outermost one its ops run, unless the mode puts them off anyway.
pub fn close_scope() -> Result<()> {
    let left = leave_scope();
    match crate::runtime_if_started() {
        Some(runtime) if left == 0 && !runtime.fused() && !in_step() => flush(runtime, true).map(|_| ()),
        _ => Ok(()),
    }
}

/// Runs what was put off on all devices; whether there was anything.
#[inline]
pub(crate) fn flush_all(runtime: &Runtime) -> Result<bool> {
    if PENDING.load(Relaxed) == 0 {
        return Ok(false);
    }
    refuse_dry()?;
    // What a capture has to give up runs as single calls: it will not come again in this shape.
    flush(runtime, SCOPES.get() > 0 && !capturing())
}

/// Runs what was put off on all devices, if the client was started.
pub fn flush_pending() -> Result<()> {
    match crate::runtime_if_started() {
        Some(runtime) => flush_all(runtime).map(|_| ()),
        None => Ok(()),
    }
}

/// Runs what was put off if a tensor's storage is in it.
pub(crate) fn flush_for(runtime: &Runtime, tensor: &TensorArg) -> Result<()> {
    if PENDING.load(Relaxed) != 0 {
        let touched = |state: &DeviceState| {
            state
                .window
                .lock()
                .by_storage
                .contains_key(&(tensor.storage as usize))
        };
        if runtime.devices.iter().any(touched) {
            flush_all(runtime)?;
        }
    }
    Ok(())
}

/// `now`: as one program, though that must be compiled first.
fn flush(runtime: &Runtime, now: bool) -> Result<bool> {
    let mut any = false;
    for (index, state) in runtime.devices.iter().enumerate() {
        let mut guard = state.window.lock();
        region::refuse_open(&guard)?;
        if guard.nodes.is_empty() {
            // What somebody looked at, before the first call of a capture, is no part of its program.
            guard.whole = false;
            continue;
        }
        any = true;
        let mut window = std::mem::take(&mut *guard);
        PENDING.fetch_sub(window.nodes.len(), Relaxed);
        // The lock is held meanwhile: calls of other threads come after these.
        let outcome = window.run(runtime, state, index, now);
        window.settle(&outcome);
        outcome.map_err(|(_, e)| e)?;
    }
    Ok(any)
}

/// Whether a failed condition may wait for the end of the window: nothing but one op's parts is in it.
pub(crate) fn takes_conditions(runtime: &Runtime) -> bool {
    capturing() || (SCOPES.get() > 0 && !runtime.fused())
}

/// Whether a storage is the same as when the call was described.
fn unchanged(then: &Content, now: &Content) -> bool {
    match (then, now) {
        (Content::Dense(a), Content::Dense(b)) => Arc::ptr_eq(&a.data, &b.data),
        (Content::Pending(a, b), Content::Pending(c, d)) => a == c && b == d,
        (Content::Empty, Content::Empty) => true,
        _ => false,
    }
}

/// Puts a call off.
pub(crate) fn append(
    runtime: &Runtime,
    state: &DeviceState,
    entry: Arc<Entry>,
    parsed: &Parsed<'_>,
    glue: Glue,
) -> Result<Outcome> {
    let origin = entry.origin.now();
    let mut window = state.window.lock();
    window.admit(&entry, parsed)?;
    let (mut replays, mut random) = (None, [0; 3]);
    if entry.random {
        replays = window.replayed(&entry)?;
        if replays.is_none() {
            // The generator is torch's, with a lock of its own.
            random = MutexGuard::unlocked(&mut window, || random_of(&entry, parsed, glue))?;
        }
    }
    // Another thread may have written between the call's description and here.
    for slot in &parsed.slots {
        if !unchanged(&slot.content, &slot.storage.state.lock().content) {
            return Ok(Outcome::Retry);
        }
    }
    let number = window.nodes.len();
    let slots = parsed.slots.iter().zip(&entry.slots);
    let slots = slots.map(|(given, slot)| window.hold(given.storage, slot, &given.content, number));
    let slots: SmallVec<[u32; 4]> = slots.collect();
    let mut fresh = SmallVec::new();
    let mut tensors: SmallVec<[Option<ReturnedTensor>; 2]> = entry.returned.iter().map(|_| None).collect();
    for (k, target) in entry.node.targets.iter().enumerate() {
        fresh.push(match target {
            Target::Skip => None,
            Target::Write(place) => {
                let (element, dims) = place.after_write();
                window.write(slots[place.slot], element, dims, number);
                None
            }
            Target::Fresh(new) => {
                let place = new.place(0);
                let storage = Storage::new(new.nbytes, parsed.device);
                let slot = Slot {
                    held: None,
                    blank: place.base.clone(),
                    nbytes: new.nbytes,
                };
                let at = window.add(storage.clone(), slot, Content::Empty, number);
                let (element, dims) = place.after_write();
                window.write(at, element, dims, number);
                if let Some(i) = entry.fresh_of[k] {
                    tensors[i as usize] = Some(ReturnedTensor { storage });
                }
                Some(at)
            }
        });
    }
    window.nodes.push(Deferred {
        slots,
        fresh,
        scalars: parsed.scalars.as_slice().into(),
        tensors: parsed
            .tensors
            .iter()
            .map(|t| (t.offset, t.bits, t.element))
            .collect(),
        random,
        replays,
        origin,
        entry: entry.clone(),
    });
    if replays.is_some() {
        window.replay_next();
    }
    PENDING.fetch_add(1, Relaxed);
    let full = window.nodes.len() >= LIMIT && !capturing();
    drop(window);
    if full {
        flush_all(runtime)?;
    }
    Ok(Outcome::Done(Returned::new(tensors, entry)))
}

impl Window {
    /// The place of a storage.
    pub(crate) fn find(&self, storage: &Storage) -> Option<u32> {
        self.by_storage
            .get(&(std::ptr::from_ref(storage) as usize))
            .copied()
    }

    pub(crate) fn hold(&mut self, storage: &Storage, slot: &Slot, content: &Content, node: usize) -> u32 {
        if let Some(at) = self.find(storage) {
            self.slots[at as usize].last = node;
            return at;
        }
        self.add(storage.shared(), slot.clone(), content.clone(), node)
    }

    pub(crate) fn add(&mut self, storage: Arc<Storage>, slot: Slot, content: Content, node: usize) -> u32 {
        let at = self.slots.len() as u32;
        self.by_storage.insert(Arc::as_ptr(&storage) as usize, at);
        self.slots.push(Held {
            storage,
            slot,
            content,
            last: node,
            writer: None,
            inner: false,
        });
        at
    }

    /// Forgets calls from this one on, and the storages that came with them.
    pub(crate) fn forget(&mut self, node: usize, slot: usize) {
        PENDING.fetch_sub(self.nodes.len() - node, Relaxed);
        self.nodes.truncate(node);
        for held in self.slots.drain(slot..) {
            self.by_storage.remove(&(Arc::as_ptr(&held.storage) as usize));
            let mut state = held.storage.state.lock();
            if matches!(state.content, Content::Pending(..)) {
                state.content = Content::Lost(region::INNER.into());
            }
        }
    }

    pub(crate) fn write(&mut self, at: u32, element: ElementType, dims: Dims, node: usize) {
        let held = &mut self.slots[at as usize];
        held.writer = Some(node);
        held.storage.state.lock().content = Content::Pending(element, dims);
    }

    /// Runs all calls one by one.
    pub(crate) fn run_each(mut self, runtime: &Runtime, state: &DeviceState, device: usize) -> Result<()> {
        let outcome = self.run_singly(runtime, state, device);
        self.settle(&outcome);
        outcome.map_err(|(_, e)| e)
    }

    /// Runs all calls by their program; the storages as the window found them, and the calls.
    pub(crate) fn run_whole(
        mut self,
        runtime: &Runtime,
        state: &DeviceState,
        device: usize,
        program: &Program,
    ) -> Result<(Vec<Slot>, Vec<Deferred>)> {
        let outcome = self
            .run_fused(runtime, state, device, program)
            .map_err(|e| (0, e));
        let slots = self.slots.iter().map(|s| s.slot.clone()).collect();
        let nodes = std::mem::take(&mut self.nodes);
        self.settle(&outcome);
        outcome.map_err(|(_, e)| e)?;
        Ok((slots, nodes))
    }

    /// Whether a storage held nothing before the window.
    pub(crate) fn makes(&self, at: u32) -> bool {
        self.slots[at as usize].slot.held.is_none()
    }

    /// Gives storages back what they held before.
    pub(crate) fn restore(&mut self) {
        for held in &mut self.slots {
            let mut state = held.storage.state.lock();
            if let Content::Pending(element, dims) = &state.content {
                // What holds nothing after this, another dry run takes as what this one would have left.
                let hint = (*element, dims.clone());
                state.content = region::lost(held).unwrap_or_else(|| std::mem::take(&mut held.content));
                if matches!(state.content, Content::Empty) {
                    state.hint = Some(hint);
                }
            }
        }
    }

    /// The storages, with those that are older than the storage `first` and hold nothing as if they held a value.
    pub(crate) fn filled(&self, first: u64) -> Vec<Slot> {
        let filled = |held: &Held| {
            let mut slot = held.slot.clone();
            if held.storage.id < first && slot.held.is_none() {
                slot.held = Some(slot.blank.clone());
            }
            slot
        };
        self.slots.iter().map(filled).collect()
    }

    /// Storages that somebody other than the window holds; not those of a loop's body, of which nothing is left.
    pub(crate) fn live(&self) -> Vec<bool> {
        self.slots
            .iter()
            .map(|s| Arc::strong_count(&s.storage) > 1 && !s.inner)
            .collect()
    }

    /// Runs all calls; an error comes with the number of calls before it.
    fn run(
        &mut self,
        runtime: &Runtime,
        state: &DeviceState,
        device: usize,
        now: bool,
    ) -> std::result::Result<(), (usize, Error)> {
        if self.nodes.len() > 1
            && let Some(program) =
                fused::find(runtime, device, self, &self.live(), now || !self.loops.is_empty())
        {
            return self
                .run_fused(runtime, state, device, &program)
                .map_err(|e| (0, e));
        }
        self.run_singly(runtime, state, device)
    }

    fn run_singly(
        &mut self,
        runtime: &Runtime,
        state: &DeviceState,
        device: usize,
    ) -> std::result::Result<(), (usize, Error)> {
        if !self.loops.is_empty() {
            // A loop is no list of calls: its program says why there is none.
            let made = Recipe::of(self, &self.live(), device, true).cook(runtime, true);
            return made
                .and_then(|program| self.run_fused(runtime, state, device, &program))
                .map_err(|e| (0, e));
        }
        (0..self.nodes.len()).try_for_each(|n| self.run_one(runtime, state, device, n).map_err(|e| (n, e)))
    }

    /// Parameters that must not be consumed: somebody else holds the buffer.
    fn kept(&self, donated: &[u32], params: &[Param], at: impl Fn(u32) -> u32) -> SmallVec<[i64; 4]> {
        let shared = |p: &&u32| match params[**p as usize] {
            Param::Slot(s) => match &self.slots[at(s) as usize].content {
                Content::Dense(d) => Arc::strong_count(&d.data) > 1,
                _ => true,
            },
            _ => true,
        };
        donated.iter().filter(shared).map(|p| i64::from(*p)).collect()
    }

    fn run_one(&mut self, runtime: &Runtime, state: &DeviceState, device: usize, n: usize) -> Result<()> {
        let (entry, origin) = (self.nodes[n].entry.clone(), self.nodes[n].origin.clone());
        if let Some(executable) = entry.executable(runtime, state)? {
            let map = &self.nodes[n].slots;
            let keep = self.kept(&entry.donated, &entry.params, |s| map[s as usize]);
            let given = One {
                window: self,
                node: &self.nodes[n],
            };
            let buffers = execute(runtime, state, &**executable, &entry.params, &given, keep)?
                .map_err(|e| explain(device, state, e, &format!("{origin} failed")))?;
            expect(&origin, buffers.len(), entry.results.len())?;
            check_conditions(runtime, &entry.results, &buffers, &origin)?;
            for ((result, buffer), bytes) in entry.results.iter().zip(buffers).zip(&entry.result_bytes) {
                let (at, element, dims) = match result {
                    Produce::Slot(s, element, dims) => {
                        (Some(self.nodes[n].slots[*s as usize]), element, dims)
                    }
                    Produce::Fresh(_, k, element, dims) => (self.nodes[n].fresh[*k as usize], element, dims),
                    Produce::Check(..) | Produce::Shown => continue,
                };
                if let Some(at) = at {
                    let dense = state.result(buffer, *bytes, &origin, *element, dims);
                    self.slots[at as usize].content = Content::Dense(dense);
                }
            }
        }
        // What nobody will look at any more goes, as it would have at once: storages that this call used.
        let node = &self.nodes[n];
        for at in node.slots.iter().chain(node.fresh.iter().flatten()) {
            let held = &mut self.slots[*at as usize];
            if held.last == n && Arc::strong_count(&held.storage) == 1 {
                held.content = Content::Empty;
            }
        }
        Ok(())
    }

    fn run_fused(
        &mut self,
        runtime: &Runtime,
        state: &DeviceState,
        device: usize,
        program: &Program,
    ) -> Result<()> {
        crate::record::note(&program.text);
        let keep = self.kept(&program.donated, &program.params, |s| s);
        let given = Many { window: self };
        let buffers = execute(
            runtime,
            state,
            &*program.executable,
            &program.params,
            &given,
            keep,
        )?
        .map_err(|e| explain(device, state, e, &format!("{} failed", program.origin)))?;
        expect(&program.origin, buffers.len(), program.results.len())?;
        let verdict = check_conditions(runtime, &program.results, &buffers, &program.origin);
        for (result, buffer) in program.results.iter().zip(buffers) {
            if let Produce::Slot(s, element, dims) = result
                && (verdict.is_ok() || program.guards(*s))
            {
                let held = &mut self.slots[*s as usize];
                let origin = held.writer.map_or(&program.origin, |n| &self.nodes[n].origin);
                let bytes = crate::make::result_bytes(result);
                held.content = Content::Dense(state.result(buffer, bytes, origin, *element, dims));
            }
        }
        if verdict.is_err() {
            // What the ops were to change stays as it was.
            self.restore();
        }
        verdict
    }

    /// Gives storages what the calls left in them.
    fn settle(self, outcome: &std::result::Result<(), (usize, Error)>) {
        for held in self.slots {
            let lost = match (outcome, held.writer) {
                (Err((done, e)), Some(writer)) if writer >= *done => Some(e),
                _ => None,
            };
            let inner = region::lost(&held);
            let mut state = held.storage.state.lock();
            if matches!(state.content, Content::Pending(..)) {
                state.content = match lost {
                    Some(e) => Content::Lost(format!("this tensor was not computed: {e}")),
                    None => inner.unwrap_or(held.content),
                };
            }
        }
    }
}

/// One call of a window, with numbers of its own storages.
struct One<'w> {
    window: &'w Window,
    node: &'w Deferred,
}

/// All calls of a window.
struct Many<'w> {
    window: &'w Window,
}

impl Deferred {
    pub(crate) fn scalar(&self, i: u32) -> (ScalarKind, Bits) {
        self.scalars[i as usize]
    }

    pub(crate) fn host(&self, i: u32) -> (Bits, ElementType) {
        let (_, bits, element) = self.tensors[i as usize];
        (bits, element)
    }

    pub(crate) fn offset(&self, i: u32) -> i64 {
        self.tensors[i as usize].0
    }

    pub(crate) fn target_offset(&self, k: u32) -> i64 {
        self.entry.target_tensor[k as usize].map_or(0, |i| self.offset(i))
    }

    /// Whether the numbers that a program is given are those of another call.
    pub(crate) fn same_numbers(&self, other: &Self) -> bool {
        self.scalars == other.scalars && self.tensors == other.tensors
    }

    /// For each tensor on the device: its storage's place in the window, and its offset.
    pub(crate) fn offsets(&self) -> impl Iterator<Item = (u32, i64)> {
        let sources = self.entry.node.sources.iter().enumerate();
        let sources = sources.filter_map(|(i, source)| match source {
            Source::Device(place) => Some((self.slots[place.slot], self.offset(i as u32))),
            Source::Host(_) => None,
        });
        let targets = self.entry.node.targets.iter().enumerate();
        sources.chain(targets.filter_map(|(k, target)| match target {
            Target::Write(place) => Some((self.slots[place.slot], self.target_offset(k as u32))),
            _ => None,
        }))
    }

    /// The seed and block that were drawn for it.
    pub(crate) fn drawn(&self) -> [u64; 3] {
        self.random
    }
}

impl Held {
    pub(crate) fn pointer(&self) -> *const c_void {
        Arc::as_ptr(&self.storage).cast()
    }

    /// Its storage's number.
    pub(crate) fn id(&self) -> u64 {
        self.storage.id
    }

    pub(crate) fn weak(&self) -> Weak<Storage> {
        Arc::downgrade(&self.storage)
    }

    pub(crate) fn written(&self) -> bool {
        self.writer.is_some()
    }

    pub(crate) fn content(&self) -> &Content {
        &self.content
    }
}

impl Window {
    fn dense(&self, slot: u32) -> Option<&Dense> {
        self.slots[slot as usize].content.dense()
    }
}

impl Given for One<'_> {
    fn dense(&self, slot: u32) -> Option<&Dense> {
        self.window.dense(self.node.slots[slot as usize])
    }

    fn scalar(&self, _: u32, i: u32) -> (ScalarKind, Bits) {
        self.node.scalar(i)
    }

    fn host(&self, _: u32, i: u32) -> (Bits, ElementType) {
        self.node.host(i)
    }

    fn offset(&self, _: u32, i: u32) -> i64 {
        self.node.offset(i)
    }

    fn target_offset(&self, _: u32, k: u32) -> i64 {
        self.node.target_offset(k)
    }

    fn random(&self, _: u32) -> [u64; 3] {
        self.node.drawn()
    }
}

impl Many<'_> {
    fn node(&self, node: u32) -> &Deferred {
        &self.window.nodes[node as usize]
    }
}

impl Given for Many<'_> {
    fn dense(&self, slot: u32) -> Option<&Dense> {
        self.window.dense(slot)
    }

    fn scalar(&self, node: u32, i: u32) -> (ScalarKind, Bits) {
        self.node(node).scalar(i)
    }

    fn host(&self, node: u32, i: u32) -> (Bits, ElementType) {
        self.node(node).host(i)
    }

    fn offset(&self, node: u32, i: u32) -> i64 {
        self.node(node).offset(i)
    }

    fn target_offset(&self, node: u32, k: u32) -> i64 {
        self.node(node).target_offset(k)
    }

    fn random(&self, node: u32) -> [u64; 3] {
        self.node(node).drawn()
    }
}
