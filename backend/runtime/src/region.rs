//! Loops of a window: calls recorded once that its program runs several times, on slices of stacked values.
//!
//! Between [`begin_loop`] and [`end_loop`] calls are put off as usual, on placeholders: storages that stand for what one
//! turn of the loop is given. What the body makes is known to it alone; afterwards the stacked results and the last
//! carried values are in storages of their own.

use std::collections::VecDeque;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use aten::Dims;
use dtype::ElementType;

use crate::cache::Entry;
use crate::client::{DeviceState, runtime};
use crate::glue::Glue;
use crate::node::{Slot, Target};
use crate::parse::{Parsed, SlotIn, storage};
use crate::storage::{Content, Storage};
use crate::window::{self, Held, Window};
use crate::{Error, Result};

/// A value that a turn gives to the next one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Carry {
    /// The storage of the first one.
    pub(crate) init: u32,
    /// The body's placeholder.
    pub(crate) at: u32,
    /// Where the body leaves the next one.
    pub(crate) result: u32,
    /// Where the last one goes.
    pub(crate) out: u32,
    /// Its element type and sizes.
    pub(crate) ty: (ElementType, Dims),
}

/// A value that a turn takes out of a stack of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    /// The stack's storage.
    pub(crate) stack: u32,
    /// The body's placeholder.
    pub(crate) at: u32,
    /// Element type and sizes of one.
    pub(crate) ty: (ElementType, Dims),
}

/// A value that a turn puts into a stack of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Put {
    /// Where the body leaves it.
    pub(crate) from: u32,
    /// The stack's storage.
    pub(crate) stack: u32,
    /// Element type and sizes of one.
    pub(crate) ty: (ElementType, Dims),
}

/// What is computed before each turn of a loop that has no fixed number of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Condition {
    /// The call after its last: the loop's first ones are its, and the others the body's.
    pub(crate) end: usize,
    /// The storage of a bool: whether there is a turn.
    pub(crate) at: u32,
}

/// A loop over calls of a window; storages are the window's numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Loop {
    /// Tells it from all others of the process.
    id: u64,
    /// Its first call and the one after its last.
    pub(crate) calls: std::ops::Range<usize>,
    /// How often it turns, if no condition decides that.
    pub(crate) length: u32,
    pub(crate) condition: Option<Condition>,
    /// It takes and puts from the last to the first.
    pub(crate) reverse: bool,
    pub(crate) carries: Vec<Carry>,
    pub(crate) taken: Vec<Taken>,
    pub(crate) put: Vec<Put>,
    /// Storages that only the body knows.
    pub(crate) inner: Vec<u32>,
    /// Blocks of random bits that a turn uses.
    pub(crate) blocks: u64,
    /// It draws them itself; otherwise they are another loop's.
    draws: bool,
}

/// A loop that is being recorded.
#[derive(Debug)]
pub(crate) struct Open {
    made: Loop,
    /// The first storage that is the body's own.
    first: u64,
    /// Storages that the window had.
    slots: usize,
    /// And with the placeholders.
    given: usize,
    /// Calls whose random bits are used again, in order.
    replay: Option<VecDeque<u32>>,
}

/// What becomes of a tensor that one turn made, after the loop.
pub(crate) const INNER: &str = "a tensor that one turn of a loop (a layer of torch_tpu.scan_layers) made is used outside \
                                it: it has another value in each turn; return it, or use the plain loop";

fn refused(what: &str) -> Error {
    Error::runtime(format!(
        "a turn of a loop (a layer of torch_tpu.scan_layers) {what}"
    ))
}

impl Loop {
    /// Blocks of random bits that turns after the first one use.
    pub(crate) fn draws_later(&self) -> u64 {
        match self.draws {
            true => self.blocks * u64::from(self.length.saturating_sub(1)),
            false => 0,
        }
    }

    /// What tells its program from others.
    pub(crate) fn key(&self, key: &mut Vec<u64>) {
        key.extend([self.calls.start as u64, self.calls.end as u64]);
        key.push(u64::from(self.length) << 1 | u64::from(self.reverse));
        let condition = self.condition.as_ref();
        key.extend(condition.map_or([u64::MAX; 2], |c| [c.end as u64, u64::from(c.at)]));
        key.extend([self.carries.len(), self.taken.len(), self.put.len()].map(|n| n as u64));
        let pair = |a: u32, b: u32| u64::from(a) << 32 | u64::from(b);
        for c in &self.carries {
            key.extend([pair(c.init, c.at), pair(c.result, c.out)]);
        }
        key.extend(self.taken.iter().map(|t| pair(t.stack, t.at)));
        key.extend(self.put.iter().map(|p| pair(p.from, p.stack)));
    }
}

/// Starts a loop of so many turns on a device: for each carried value its first one and a placeholder, for each stack
/// that a turn takes from the stack and a placeholder. With `like` it draws no random bits and uses those of that loop
/// again, turn by turn. Gives the loop's number.
///
/// # Safety
/// The pointers are storages that tensors hold.
pub unsafe fn begin_loop(
    device: usize,
    length: u32,
    reverse: bool,
    like: Option<u64>,
    carries: &[(*const c_void, *const c_void)],
    taken: &[(*const c_void, *const c_void)],
) -> Result<u64> {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let mut window = runtime()?.device(device)?.window.lock();
    let window = &mut *window;
    if window.open.is_some() {
        return Err(Error::runtime(
            "loops (of torch_tpu.scan_layers, scan and while_loop) cannot be nested",
        ));
    }
    let replay = like.map(|id| window.random_of_loop(id)).transpose()?;
    let start = window.nodes.len();
    let mut made = Loop {
        id: NEXT.fetch_add(1, Relaxed),
        calls: start..start,
        length,
        condition: None,
        reverse,
        carries: Vec::new(),
        taken: Vec::new(),
        put: Vec::new(),
        inner: Vec::new(),
        blocks: 0,
        draws: replay.is_none(),
    };
    let mut placeholders = Vec::new();
    for &(init, at) in carries {
        // SAFETY: the caller's promise.
        let (init, at) = unsafe { (storage(init)?, storage(at)?) };
        let (init, ty) = window.outside(init)?;
        placeholders.push((at, ty.clone()));
        made.carries.push(Carry {
            init,
            at: 0,
            result: 0,
            out: 0,
            ty,
        });
    }
    for &(stack, at) in taken {
        // SAFETY: the caller's promise.
        let (stack, at) = unsafe { (storage(stack)?, storage(at)?) };
        let (stack, (element, dims)) = window.outside(stack)?;
        if dims.first() != Some(&i64::from(length)) {
            return Err(Error::runtime(
                "a stack does not have the loop's length (a bug of ours)",
            ));
        }
        let ty = (element, Dims::from_slice(&dims[1..]));
        placeholders.push((at, ty.clone()));
        made.taken.push(Taken { stack, at: 0, ty });
    }
    let before = window.slots.len();
    let mut numbers = placeholders.iter().map(|(storage, ty)| {
        let slot = Slot {
            held: None,
            blank: ty.clone(),
            nbytes: storage.state.lock().nbytes,
        };
        // Not as written: what the body writes shows.
        storage.state.lock().content = Content::Pending(ty.0, ty.1.clone());
        window.add(storage.shared(), slot, Content::Empty, start)
    });
    for (carry, at) in made.carries.iter_mut().zip(numbers.by_ref()) {
        carry.at = at;
    }
    for (taken, at) in made.taken.iter_mut().zip(numbers.by_ref()) {
        taken.at = at;
    }
    drop(numbers);
    // The body's own are newer.
    let first = Storage::next_id();
    let id = made.id;
    window.open = Some(Open {
        made,
        first,
        slots: before,
        given: window.slots.len(),
        replay,
    });
    // Whoever looks at a value must notice the loop, though it has no calls yet.
    window::count_open(1);
    Ok(id)
}

/// Ends the calls of the loop's condition, which left a bool; those of its body follow. Its length does not count.
///
/// # Safety
/// As for [`begin_loop`].
pub unsafe fn end_condition(device: usize, pointer: *const c_void) -> Result<()> {
    // SAFETY: the caller's promise.
    let storage = unsafe { storage(pointer) }?;
    let mut window = runtime()?.device(device)?.window.lock();
    let at = window.find(storage);
    let end = window.nodes.len();
    let Some(open) = &mut window.open else {
        return Err(Error::runtime(
            "there is no loop with a condition (a bug of ours)",
        ));
    };
    let at = at.filter(|at| *at as usize >= open.slots);
    let at = at.ok_or_else(|| refused("has a condition that it did not compute"))?;
    match storage.state.lock().content.holds() {
        Some((ElementType::Pred, dims)) if dims.iter().product::<i64>() == 1 => {}
        _ => return Err(refused("has a condition that is no bool")),
    }
    open.made.condition = Some(Condition { end, at });
    Ok(())
}

/// Ends the loop: for each carried value where the body leaves it and where the last one goes, and the same for what is
/// stacked. `glue` is torch's. Gives the blocks of random bits that turns after the first one use.
///
/// # Safety
/// As for [`begin_loop`].
pub unsafe fn end_loop(
    device: usize,
    carries: &[(*const c_void, *const c_void)],
    put: &[(*const c_void, *const c_void)],
    glue: Glue,
) -> Result<u64> {
    let mut window = runtime()?.device(device)?.window.lock();
    let Some(open) = window.open.take() else {
        return Err(Error::runtime("there is no loop to end (a bug of ours)"));
    };
    window::count_open(-1);
    let (start, slots) = (open.made.calls.start, open.slots);
    // SAFETY: the caller's promise.
    let later = unsafe { window.close(open, carries, put) }.inspect_err(|_| window.forget(start, slots))?;
    if later > 0 {
        // The generator goes on after what all turns use.
        glue.random(std::ptr::null_mut(), device, later)?;
    }
    Ok(later)
}

/// What a storage is to the loop that is being recorded.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Known {
    /// It is not the body's.
    Outside,
    /// What the body is given, as it was given.
    Given,
    /// The body wrote it.
    Written,
}

/// What a storage is to the loop that is being recorded.
///
/// # Safety
/// As for [`begin_loop`].
pub unsafe fn known_to_loop(device: usize, pointer: *const c_void) -> Result<Known> {
    // SAFETY: the caller's promise.
    let storage = unsafe { storage(pointer) }?;
    let window = runtime()?.device(device)?.window.lock();
    let (Some(open), Some(at)) = (&window.open, window.find(storage)) else {
        return Ok(Known::Outside);
    };
    let given = (open.slots..open.given).contains(&(at as usize));
    Ok(match window.slots[at as usize].written() {
        true if given || storage.id >= open.first => Known::Written,
        false if given => Known::Given,
        _ => Known::Outside,
    })
}

/// Forgets the loop that is being recorded, and its calls.
pub fn abandon_loop(device: usize) -> Result<()> {
    runtime()?.device(device)?.window.lock().abandon_open();
    Ok(())
}

impl Window {
    /// Forgets the loop that is being recorded, and its calls.
    pub(crate) fn abandon_open(&mut self) {
        let Some(open) = self.open.take() else { return };
        window::count_open(-1);
        self.forget(open.made.calls.start, open.slots);
    }

    /// Ends a loop: the blocks of random bits that turns after the first one use.
    ///
    /// # Safety
    /// As for [`begin_loop`].
    unsafe fn close(
        &mut self,
        open: Open,
        carries: &[(*const c_void, *const c_void)],
        put: &[(*const c_void, *const c_void)],
    ) -> Result<u64> {
        let mut made = open.made;
        made.calls.end = self.nodes.len();
        let random = self.nodes[made.calls.clone()].iter().filter(|n| n.entry.random);
        made.blocks = random.map(|n| n.entry.random_blocks).sum();
        if made.condition.is_some() && made.blocks > 0 {
            return Err(refused("draws random numbers in turns that nobody counts"));
        }
        for at in open.slots..self.slots.len() {
            let held = &mut self.slots[at];
            if held.written() && held.id() >= open.first {
                held.inner = true;
                made.inner.push(at as u32);
            }
        }
        // Placeholders are the body's too.
        let placeholders = made.carries.iter().map(|c| c.at);
        for at in placeholders.chain(made.taken.iter().map(|t| t.at)) {
            self.slots[at as usize].inner = true;
            made.inner.push(at);
        }
        if open.replay.is_some_and(|left| !left.is_empty()) || carries.len() != made.carries.len() {
            return Err(Error::runtime(
                "a loop's body is not that of its like (a bug of ours)",
            ));
        }
        let last = made.calls.end.saturating_sub(1);
        for (carry, &(result, out)) in made.carries.iter_mut().zip(carries) {
            // SAFETY: the caller's promise.
            let (result, out) = unsafe { (storage(result)?, storage(out)?) };
            let (at, ty) = self.inside(result)?;
            if ty != carry.ty {
                return Err(refused("gives something else than it is given"));
            }
            carry.result = at;
            carry.out = self.result(out, ty, last);
        }
        for &(from, stack) in put {
            // SAFETY: the caller's promise.
            let (from, stack) = unsafe { (storage(from)?, storage(stack)?) };
            let (from, ty) = self.inside(from)?;
            let mut dims = Dims::from_slice(&[i64::from(made.length)]);
            dims.extend_from_slice(&ty.1);
            let stack = self.result(stack, (ty.0, dims), last);
            made.put.push(Put { from, stack, ty });
        }
        let later = made.draws_later();
        self.loops.push(made);
        Ok(later)
    }

    /// The calls with random bits of a loop in this window.
    fn random_of_loop(&self, id: u64) -> Result<VecDeque<u32>> {
        let Some(found) = self.loops.iter().find(|l| l.id == id) else {
            return Err(Error::runtime(
                "torch_tpu.scan_layers(remat=True) with random numbers: something looked at a value between forward and \
                 backward, so the numbers cannot be made again; read values after the step",
            ));
        };
        let random = found.calls.clone().filter(|n| self.nodes[*n].entry.random);
        Ok(random.map(|n| n as u32).collect())
    }

    /// A storage that a loop is given, and what it holds.
    fn outside(&mut self, storage: &Storage) -> Result<(u32, (ElementType, Dims))> {
        let found = SlotIn::of(storage, ElementType::F32);
        let ty = found.content.holds().map(|(e, d)| (e, d.clone()));
        let ty =
            ty.ok_or_else(|| Error::runtime("a loop is given a storage that holds nothing (a bug of ours)"))?;
        let node = self.nodes.len();
        Ok((self.hold(storage, &found.slot(), &found.content, node), ty))
    }

    /// A storage that the loop's body wrote, and what it holds.
    fn inside(&self, storage: &Storage) -> Result<(u32, (ElementType, Dims))> {
        let at = self.find(storage).filter(|at| self.slots[*at as usize].inner);
        let at = at.ok_or_else(|| refused("gives a tensor that it did not make"))?;
        let state = storage.state.lock();
        let ty = state.content.holds().map(|(e, d)| (e, d.clone()));
        let ty = ty.ok_or_else(|| Error::runtime("a loop's result was not written (a bug of ours)"))?;
        Ok((at, ty))
    }

    /// A storage for what the loop leaves.
    fn result(&mut self, storage: &Storage, ty: (ElementType, Dims), node: usize) -> u32 {
        let slot = Slot {
            held: None,
            blank: ty.clone(),
            nbytes: storage.state.lock().nbytes,
        };
        let at = self.add(storage.shared(), slot, Content::Empty, node);
        self.write(at, ty.0, ty.1, node);
        at
    }

    /// Refuses a call that does not fit the loops.
    pub(crate) fn admit(&self, entry: &Entry, parsed: &Parsed<'_>) -> Result<()> {
        if self.loops.is_empty() && self.open.is_none() {
            return Ok(());
        }
        for slot in &parsed.slots {
            if self
                .find(slot.storage)
                .is_some_and(|at| self.slots[at as usize].inner)
            {
                return Err(Error::runtime(INNER));
            }
        }
        let Some(open) = &self.open else { return Ok(()) };
        if entry.has_checks {
            return Err(refused(&format!(
                "checks its data ({}), which is not done in a loop",
                entry.origin.op
            )));
        }
        for target in &entry.node.targets {
            if let Target::Write(place) = target
                && let storage = parsed.slots[place.slot].storage
                && storage.id < open.first
                && !self
                    .find(storage)
                    .is_some_and(|at| (open.slots..open.given).contains(&(at as usize)))
            {
                return Err(refused(&format!(
                    "writes to a tensor that is not its own ({})",
                    entry.origin.op
                )));
            }
        }
        Ok(())
    }

    /// The call of another loop whose random bits this one uses.
    pub(crate) fn replayed(&self, entry: &Entry) -> Result<Option<u32>> {
        let Some(replay) = self.open.as_ref().and_then(|open| open.replay.as_ref()) else {
            return Ok(None);
        };
        match replay.front() {
            Some(&at) if self.nodes[at as usize].entry.random_blocks == entry.random_blocks => Ok(Some(at)),
            _ => Err(refused(
                "draws other random numbers when it is computed again for its gradients",
            )),
        }
    }

    /// Notes that a call uses them.
    pub(crate) fn replay_next(&mut self) {
        if let Some(replay) = self.open.as_mut().and_then(|open| open.replay.as_mut()) {
            replay.pop_front();
        }
    }
}

/// Random bits for each call: those that `draw` gives, and for a loop's all turns together.
pub(crate) fn drawn<T>(
    calls: &[T],
    loops: &[Loop],
    mut draw: impl FnMut(&T) -> Result<Option<[u64; 3]>>,
    mut skip: impl FnMut(u64) -> Result<()>,
) -> Result<Vec<[u64; 3]>> {
    let mut out = Vec::with_capacity(calls.len());
    let mut loops = loops.iter().peekable();
    for (n, call) in calls.iter().enumerate() {
        out.push(draw(call)?.unwrap_or([0; 3]));
        if let Some(l) = loops.next_if(|l| l.calls.end == n + 1) {
            skip(l.draws_later())?;
        }
    }
    Ok(out)
}

/// The window of a device has no loop that is being recorded.
pub(crate) fn refuse_open(window: &Window) -> Result<()> {
    match window.open {
        None => Ok(()),
        Some(_) => Err(refused("looks at a value (.item(), print, a mask as an index)")),
    }
}

/// Gives up what is being recorded on all devices.
pub(crate) fn abandon_all(devices: &[DeviceState]) {
    for state in devices {
        state.window.lock().abandon_open();
    }
}

/// What an inner storage holds once its window has ended.
pub(crate) fn lost(held: &Held) -> Option<Content> {
    held.inner.then(|| Content::Lost(INNER.into()))
}
