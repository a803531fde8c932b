//! Programs of whole windows. A window that comes again is compiled in the background as one program; until that is there
//! its calls run one by one, so that no call waits for a compilation that it does not need.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use pjrt::Executable;
use rustc_hash::FxHashMap;

use crate::client::Runtime;
use crate::make::compile;
use crate::node::{Node, Slot, Source, Target};
use crate::origin::Origin;
use crate::program::{Built, Graph, Param, Produce, build};
use crate::region::Loop;
use crate::window::{Deferred, Window};
use crate::{Error, Result, explain, runtime_if_started};

/// A window seen this often is worth a program of its own.
const WORTH: u32 = 2;

/// The program of a window.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) executable: Arc<dyn Executable>,
    pub(crate) text: Arc<str>,
    pub(crate) params: Vec<Param>,
    pub(crate) results: Vec<Produce>,
    pub(crate) donated: Vec<u32>,
    pub(crate) origin: Arc<Origin>,
}

impl Program {
    /// Whether a failed condition leaves this storage's old value in its result: the buffer may have been consumed.
    pub(crate) fn guards(&self, slot: u32) -> bool {
        let param = |p: &u32| self.params.get(*p as usize) == Some(&Param::Slot(slot));
        self.donated.iter().any(param)
    }
}

/// What is known of a window.
#[derive(Clone)]
enum State {
    Seen(u32),
    Compiling,
    Ready(Arc<Program>),
    /// It cannot be one program.
    Never,
}

/// Windows that are known at most; then all are forgotten, and those that come again are known again.
const HELD: usize = 4096;

type Key = Vec<u64>;

static KNOWN: LazyLock<Mutex<FxHashMap<Key, State>>> = LazyLock::new(Mutex::default);
static CHANGED: Condvar = Condvar::new();
static RAN: AtomicU64 = AtomicU64::new(0);
/// The process ends: nothing more is compiled.
static STOPPED: AtomicBool = AtomicBool::new(false);

/// Counters of fused windows.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct FusedStats {
    /// Programs that are ready.
    pub programs: u64,
    /// Programs that are being compiled.
    pub compiling: u64,
    /// Windows that ran as one program.
    pub ran: u64,
}

/// The counters.
pub fn fused_stats() -> FusedStats {
    let known = KNOWN.lock();
    let count = |wanted: fn(&State) -> bool| known.values().filter(|s| wanted(s)).count() as u64;
    FusedStats {
        programs: count(|s| matches!(s, State::Ready(_))),
        compiling: count(|s| matches!(s, State::Compiling)),
        ran: RAN.load(Relaxed),
    }
}

/// Waits until nothing is being compiled, or for so long; whether nothing is.
pub fn wait_for_fused(limit: Duration) -> bool {
    let mut known = KNOWN.lock();
    let busy = |known: &mut FxHashMap<Key, State>| known.values().any(|s| matches!(s, State::Compiling));
    !CHANGED.wait_while_for(&mut known, busy, limit).timed_out()
}

/// Compiles nothing more, and waits for what is being compiled: a plugin must not be at work while the process takes
/// itself apart.
pub fn stop_fused() {
    if crate::in_bad_fork() {
        // The compiling thread is the parent's, and so may be its locks.
        return;
    }
    STOPPED.store(true, Relaxed);
    wait_for_fused(Duration::from_secs(300));
}

/// Forgets every program.
pub(crate) fn clear() {
    KNOWN.lock().retain(|_, state| matches!(state, State::Compiling));
}

/// The key of a window: its calls, which storages they share, and which of those are wanted.
///
/// With `fixed` the places of views in storages that the window makes are part of the program: in a graph they are part of
/// the model's structure, and a compiler makes more of a slice than of a slice at a place it is told at each run.
fn key(window: &Window, live: &[bool], fixed: bool) -> Key {
    let mut key = Vec::with_capacity(4 * window.nodes.len() + live.len() / 64 + 2);
    key.push(window.nodes.len() as u64 | u64::from(fixed) << 32);
    for node in &window.nodes {
        key.push(node.entry.id);
        key.extend(node.slots.iter().map(|s| u64::from(*s)));
        key.extend(node.fresh.iter().map(|f| f.map_or(u64::MAX, u64::from)));
        if fixed {
            key.extend(
                node.offsets()
                    .filter(|(at, _)| window.makes(*at))
                    .map(|(_, o)| o as u64),
            );
        }
    }
    for node in window.nodes.iter().filter_map(|n| n.replays) {
        key.push(u64::from(node));
    }
    for l in &window.loops {
        l.key(&mut key);
    }
    for bits in live.chunks(64) {
        key.push(
            bits.iter()
                .enumerate()
                .fold(0, |word, (i, live)| word | u64::from(*live) << i),
        );
    }
    key
}

/// What a program is made from.
pub(crate) struct Recipe {
    slots: Vec<Slot>,
    nodes: Vec<Node>,
    loops: Vec<Loop>,
    live: Vec<bool>,
    device: usize,
    fixed: bool,
}

impl Recipe {
    pub(crate) fn of(window: &Window, live: &[bool], device: usize, fixed: bool) -> Self {
        Self {
            slots: window.slots.iter().map(|s| s.slot.clone()).collect(),
            nodes: window.nodes.iter().map(of_window).collect(),
            loops: window.loops.clone(),
            live: live.to_vec(),
            device,
            fixed,
        }
    }

    /// The program's text, with storages older than `first` as inputs, though they hold nothing.
    pub(crate) fn text(window: &Window, first: u64, live: &[bool], device: usize) -> Result<String> {
        let recipe = Self {
            slots: window.filled(first),
            ..Self::of(window, live, device, true)
        };
        let name = format!("window_of_{}", recipe.nodes.len());
        Ok(recipe.build(&name)?.text)
    }

    fn build(&self, name: &str) -> Result<Built> {
        let graph = Graph {
            slots: &self.slots,
            nodes: &self.nodes,
            loops: &self.loops,
        };
        build(name, graph, &self.live, self.fixed)
    }

    /// Builds and compiles; `conditional` allows conditions on data among the results.
    pub(crate) fn cook(&self, runtime: &Runtime, conditional: bool) -> Result<Program> {
        let state = runtime.device(self.device)?;
        let name = format!("window_of_{}", self.nodes.len());
        let built = self.build(&name)?;
        if !conditional && built.results.iter().any(|r| !matches!(r, Produce::Slot(..))) {
            return Err(Error::runtime("a window gave something else than storages"));
        }
        let started = Instant::now();
        let executable = compile(runtime, state, &name, &built.text)?;
        let first = self.nodes.first().map_or("", |n| n.call.name.as_str());
        let last = self.nodes.last().map_or("", |n| n.call.name.as_str());
        let origin = Origin::of(format!("{} ops from {first} to {last}", self.nodes.len()));
        explain::note_window(&origin, &self.nodes, &self.slots, &self.live, started.elapsed());
        Ok(Program {
            executable,
            text: built.text.into(),
            params: built.params,
            results: built.results,
            donated: built.donated.iter().map(|(p, _)| *p).collect(),
            origin,
        })
    }
}

/// A call with the window's numbers of its storages; new tensors are written to storages like others.
fn of_window(deferred: &Deferred) -> Node {
    let mut node = deferred.entry.node.clone();
    node.replays = deferred.replays;
    for (i, source) in node.sources.iter_mut().enumerate() {
        if let Source::Device(place) = source {
            // The entry's is that of its first call.
            place.view.offset = deferred.offset(i as u32);
            place.slot = deferred.slots[place.slot] as usize;
        }
    }
    for (k, (target, fresh)) in node.targets.iter_mut().zip(&deferred.fresh).enumerate() {
        match (&mut *target, fresh) {
            (Target::Write(place), _) => {
                place.view.offset = deferred.target_offset(k as u32);
                place.slot = deferred.slots[place.slot] as usize;
            }
            (Target::Fresh(new), Some(at)) => *target = Target::Write(Box::new(new.place(*at as usize))),
            _ => {}
        }
    }
    node
}

/// The program of a window, if it is there; otherwise the window is remembered. With `now` it is made at once.
pub(crate) fn find(
    runtime: &Runtime,
    device: usize,
    window: &Window,
    live: &[bool],
    now: bool,
) -> Option<Arc<Program>> {
    if !live.iter().any(|l| *l) {
        // Nobody wants anything of it.
        return None;
    }
    let key = key(window, live, now);
    let mut known = KNOWN.lock();
    let seen = match known.get(&key) {
        Some(State::Ready(program)) => {
            RAN.fetch_add(1, Relaxed);
            return Some(program.clone());
        }
        Some(State::Never) => return None,
        Some(State::Compiling) if !now => return None,
        Some(State::Compiling) => WORTH,
        Some(State::Seen(times)) => times + 1,
        None => 1,
    };
    if !now && (seen < WORTH || STOPPED.load(Relaxed)) {
        known.insert(key, State::Seen(seen));
        return None;
    }
    if known.len() > HELD {
        known.retain(|_, state| matches!(state, State::Compiling));
    }
    known.insert(key.clone(), State::Compiling);
    let recipe = Recipe::of(window, live, device, now);
    if now {
        drop(known);
        let made = recipe.cook(runtime, true);
        return finish(key, made).inspect(|_| {
            RAN.fetch_add(1, Relaxed);
        });
    }
    if KITCHEN.lock().send((key.clone(), recipe)).is_err() {
        known.insert(key, State::Never);
    }
    None
}

fn finish(key: Key, made: Result<Program>) -> Option<Arc<Program>> {
    let (state, program) = match made {
        Ok(program) => {
            let program = Arc::new(program);
            (State::Ready(program.clone()), Some(program))
        }
        Err(error) => {
            tracing::debug!(%error, "a window stays single calls");
            (State::Never, None)
        }
    };
    KNOWN.lock().insert(key, state);
    CHANGED.notify_all();
    program
}

/// The thread that compiles in the background.
static KITCHEN: LazyLock<Mutex<Sender<(Key, Recipe)>>> = LazyLock::new(|| {
    let (send, receive) = channel::<(Key, Recipe)>();
    let work = move || {
        for (key, recipe) in receive {
            let made = match runtime_if_started() {
                _ if STOPPED.load(Relaxed) => Err(Error::runtime("the process ends")),
                Some(runtime) => {
                    // A panic here would leave the window waiting for ever.
                    let cook = std::panic::AssertUnwindSafe(|| recipe.cook(runtime, false));
                    std::panic::catch_unwind(cook).unwrap_or_else(|_| {
                        Err(Error::runtime("building the program panicked (a bug of ours)"))
                    })
                }
                None => Err(Error::runtime("the device is gone")),
            };
            finish(key, made);
        }
    };
    let spawned = std::thread::Builder::new()
        .name("torch_tpu-compile".into())
        .spawn(work);
    if let Err(error) = spawned {
        // Sending fails from now on: windows stay single calls.
        tracing::warn!(%error, "no thread for compiling in the background");
    }
    Mutex::new(send)
});
