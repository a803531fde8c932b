//! One call of an op: find its program or make it, run it, put the results where they belong.

use std::ffi::c_void;
use std::sync::Arc;
use std::time::Instant;

use aten::{Call, Dims, OpDef, OutMeta, TensorMeta};
use dtype::ElementType;
use glue_abi::{Arg, GlueTable, Results, SchemaKind, Status, TensorResult};
use parking_lot::{Mutex, MutexGuard};
use pjrt::{Buffer, ExecuteOptions, HostArray, Placement, Program};
use smallvec::SmallVec;

use crate::cache::{self, Entry, Found, FreshMeta, Key};
use crate::client::{DeviceState, Runtime, explain, name_origin, runtime, wait};
use crate::key::with_sizes;
use crate::node::{Fresh, Node, Slot, Source, Target};
use crate::origin::{Origin, current_line};
use crate::parse::{ArgIn, Parsed, SlotIn, parse, place};
use crate::program::{Built, Param, Produce, build, build_sizes};
use crate::storage::{Content, Dense, State, Storage, Tracked};
use crate::view::contiguous;
use crate::{Error, Result, code, element};

/// An argument of an operator's schema.
#[derive(Clone, Debug)]
pub struct SchemaEntry {
    /// Name.
    pub name: String,
    /// Type.
    pub kind: SchemaKind,
    /// Whether the op writes to it.
    pub written: bool,
}

/// What is known of an operator.
#[derive(Clone, Debug)]
pub struct Schema {
    /// `aten::add_.Tensor`.
    pub name: String,
    /// Arguments.
    pub arguments: Vec<SchemaEntry>,
    /// For each return: the argument that it is.
    pub returns: Vec<Option<usize>>,
}

/// An operator that has a lowering.
#[derive(Debug)]
pub struct OpHandle {
    def: &'static OpDef,
    schema: Schema,
    dynamic: Vec<bool>,
}

impl OpHandle {
    /// For a schema; `None` when nothing lowers it.
    pub fn new(name: &str, overload: &str, schema: Schema) -> Option<Self> {
        let def = aten::find(name.strip_prefix("aten::")?, overload)?;
        Some(Self::of(def, schema))
    }

    pub(crate) fn of(def: &'static OpDef, mut schema: Schema) -> Self {
        for argument in &mut schema.arguments {
            argument.written |= def.writes.contains(&argument.name.as_str());
        }
        let numbers = [SchemaKind::Scalar, SchemaKind::Float, SchemaKind::Scalars];
        let dynamic = schema
            .arguments
            .iter()
            .map(|a| numbers.contains(&a.kind) && !def.is_static(&a.name))
            .collect();
        Self { def, schema, dynamic }
    }

    /// Arguments that results go to: those that returns name, then others that are written, then undeclared ones.
    fn targets(&self) -> Vec<TargetOf> {
        let mut out: Vec<TargetOf> = self
            .schema
            .returns
            .iter()
            .map(|r| r.map_or(TargetOf::Return, TargetOf::Argument))
            .collect();
        let listed =
            |out: &[TargetOf], i: usize| out.iter().any(|t| matches!(t, TargetOf::Argument(a) if *a == i));
        let undeclared = |i: usize| self.def.writes.contains(&self.schema.arguments[i].name.as_str());
        for pass in [false, true] {
            for i in 0..self.schema.arguments.len() {
                if self.schema.arguments[i].written && undeclared(i) == pass && !listed(&out, i) {
                    out.push(TargetOf::Argument(i));
                }
            }
        }
        out
    }
}

enum TargetOf {
    Return,
    Argument(usize),
}

/// The glue, as one call sees it.
#[derive(Copy, Clone, Debug)]
pub struct Glue {
    /// Its functions.
    pub table: &'static GlueTable,
    /// What `dispatch` was given.
    pub call: *mut c_void,
}

/// Metadata of a tensor.
type Meta = Option<(Dims, Dims, i8)>;

impl Glue {
    /// For calls that ask nothing of torch.
    pub(crate) fn none() -> Self {
        Self {
            table: &NO_GLUE,
            call: std::ptr::null_mut(),
        }
    }

    fn read(
        &self,
        function: unsafe extern "C" fn(*mut c_void, *mut Results) -> u32,
    ) -> Result<(Vec<Meta>, Vec<i32>)> {
        let mut results = Results {
            tensors: std::ptr::null(),
            counts: std::ptr::null(),
            returns: 0,
            len: 0,
        };
        // SAFETY: the function belongs to the glue that made `call`, which lives until `dispatch` returns.
        let status = unsafe { function(self.call, &mut results) };
        if status != Status::Ok as u32 {
            return Err(Error::GlueThrew);
        }
        let tensors = slice(results.tensors, results.len as usize);
        let counts = slice(results.counts, results.returns as usize).to_vec();
        let meta = |t: &TensorResult| {
            (t.defined != 0).then(|| {
                let n = t.ndim as usize;
                (
                    Dims::from_slice(slice(t.sizes, n)),
                    Dims::from_slice(slice(t.strides, n)),
                    t.dtype,
                )
            })
        };
        Ok((tensors.iter().map(meta).collect(), counts))
    }

    fn resize(&self, written: u32, sizes: &[i64]) -> Result<()> {
        // SAFETY: as in `read`; the sizes are read during the call.
        let status = unsafe { (self.table.resize)(self.call, written, sizes.as_ptr(), sizes.len() as u32) };
        if status == Status::Ok as u32 {
            Ok(())
        } else {
            Err(Error::GlueThrew)
        }
    }

    fn random(&self, generator: *mut c_void, device: usize, blocks: u64) -> Result<[u64; 3]> {
        let (mut seed, mut offset) = (0, 0);
        // SAFETY: the generator is an argument of the call; the numbers are written during it.
        let status = unsafe { (self.table.random)(generator, device as i32, blocks, &mut seed, &mut offset) };
        if status == Status::Ok as u32 {
            Ok([seed, offset, 0])
        } else {
            Err(Error::GlueThrew)
        }
    }
}

/// Answers every question with a failure.
static NO_GLUE: GlueTable = {
    extern "C" fn results(_: *mut c_void, _: *mut Results) -> u32 {
        Status::GlueThrew as u32
    }
    extern "C" fn resize(_: *mut c_void, _: u32, _: *const i64, _: u32) -> u32 {
        Status::GlueThrew as u32
    }
    extern "C" fn random(_: *mut c_void, _: i32, _: u64, _: *mut u64, _: *mut u64) -> u32 {
        Status::GlueThrew as u32
    }
    extern "C" fn generator_get(_: i32, _: *mut u64, _: *mut u64) -> u32 {
        Status::GlueThrew as u32
    }
    extern "C" fn generator_set(_: i32, _: u64, _: u64) -> u32 {
        Status::GlueThrew as u32
    }
    extern "C" fn current_device() -> i32 {
        0
    }
    extern "C" fn set_current_device(_: i32) -> u32 {
        Status::GlueThrew as u32
    }
    extern "C" fn thrown(_: *mut *const u8, _: *mut usize) {}
    GlueTable {
        version: glue_abi::ABI_VERSION,
        size: size_of::<GlueTable>() as u32,
        meta: results,
        meta_written: results,
        resize,
        random,
        generator_get,
        generator_set,
        current_device,
        set_current_device,
        thrown,
    }
};

/// A slice that a glue gave; null when it is empty.
fn slice<'a, T>(pointer: *const T, len: usize) -> &'a [T] {
    if len == 0 || pointer.is_null() {
        return &[];
    }
    // SAFETY: the glue gives `len` values that stay until its next call on this thread; they are copied before that.
    unsafe { std::slice::from_raw_parts(pointer, len) }
}

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
    meta: u32,
}

impl Returned {
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
    // SAFETY: the caller's promise.
    let parsed = unsafe { parse(std::ptr::from_ref(op) as u64, args, &op.dynamic, device) }?;
    let found = match cache::get(&parsed.key) {
        Some(found) => found,
        None => make(runtime, op, &parsed, glue, None)?,
    };
    let mut entry = match found {
        Found::Entry(entry) => entry,
        Found::NoLowering(why) => return Err(Error::NoLowering(why.to_string())),
        Found::Resize(list) => {
            for (written, sizes) in list.iter() {
                glue.resize(*written, sizes)?;
            }
            return Ok(Outcome::Retry);
        }
    };
    if entry.computes_sizes {
        let sizes = read_sizes(runtime, state, &entry, &parsed, glue)?;
        let key = with_sizes(&parsed.key, &sizes);
        let found = match cache::get(&key) {
            Some(found) => found,
            None => make(runtime, op, &parsed, glue, Some((key, sizes)))?,
        };
        match found {
            Found::Entry(second) => entry = second,
            Found::NoLowering(why) => return Err(Error::NoLowering(why.to_string())),
            Found::Resize(list) => {
                for (written, sizes) in list.iter() {
                    glue.resize(*written, sizes)?;
                }
                return Ok(Outcome::Retry);
            }
        }
    }
    let results = run(runtime, state, &entry, &parsed, glue)?;
    finish(runtime, state, device, entry, &parsed, results).map(Outcome::Done)
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
    for pending in pending_checks(entry, &results.buffers, &results.origin) {
        pending.verify()?;
    }
    let mut sizes = Vec::new();
    for (result, buffer) in entry.results.iter().zip(&results.buffers) {
        if matches!(result, Produce::Fresh(..)) {
            let mut bytes = [0; 8];
            buffer.copy_to_host(&mut bytes)?;
            sizes.push(i64::from_le_bytes(bytes));
        }
    }
    Ok(sizes)
}

/// Buffers that a run gave, and the states of storages whose old buffers it may have consumed.
struct Ran<'a> {
    buffers: Vec<Arc<dyn Buffer>>,
    locked: SmallVec<[(u32, MutexGuard<'a, State>); 2]>,
    origin: Arc<Origin>,
}

/// Runs a program on the storages of a call.
fn run<'a>(
    runtime: &Runtime,
    state: &DeviceState,
    entry: &Arc<Entry>,
    parsed: &Parsed<'a>,
    glue: Glue,
) -> Result<Ran<'a>> {
    let origin = if runtime.debug() {
        Arc::new(Origin {
            line: current_line(),
            ..(*entry.origin).clone()
        })
    } else {
        entry.origin.clone()
    };
    let Some(executable) = &entry.executable else {
        return Ok(Ran {
            buffers: Vec::new(),
            locked: SmallVec::new(),
            origin,
        });
    };
    let client = &*runtime.client;
    let mut made: SmallVec<[Arc<dyn Buffer>; 8]> = SmallVec::new();
    for param in &entry.params {
        made.push(match *param {
            Param::Slot(s) => match &parsed.slots[s as usize].content {
                Content::Dense(dense) => dense.data.buffer.clone(),
                _ => return Err(Error::runtime("a storage lost its contents during the call")),
            },
            Param::Scalar(_, i) => {
                let (kind, bits) = parsed.scalars[i as usize];
                state
                    .scalars
                    .get(client, &*state.device, (bits, kind.element()))?
            }
            Param::Host(_, i) => {
                let tensor = &parsed.tensors[i as usize];
                state
                    .scalars
                    .get(client, &*state.device, (tensor.bits, tensor.element))?
            }
            Param::Offset(_, i) => {
                let bits = [parsed.tensors[i as usize].offset as u64, 0];
                state
                    .scalars
                    .get(client, &*state.device, (bits, ElementType::S64))?
            }
            Param::TargetOffset(_, k) => {
                let tensor = entry.target_tensor[k as usize];
                let bits = [tensor.map_or(0, |i| parsed.tensors[i as usize].offset as u64), 0];
                state
                    .scalars
                    .get(client, &*state.device, (bits, ElementType::S64))?
            }
            Param::Random(_) => {
                let words = glue.random(parsed.generator, parsed.device, entry.random_blocks)?;
                let mut bytes = [0; 24];
                for (chunk, word) in bytes.chunks_exact_mut(8).zip(words) {
                    chunk.copy_from_slice(&word.to_le_bytes());
                }
                client.buffer_from_host(
                    &HostArray::new(ElementType::U64, &[3], &bytes),
                    Placement::Device(&*state.device),
                )?
            }
        });
    }
    let (locked, keep) = lock_donated(entry, parsed);
    let arguments: SmallVec<[&dyn Buffer; 8]> = made.iter().map(|b| &**b).collect();
    let outcome = if keep.is_empty() {
        executable.execute(&[&arguments], &state.options)
    } else {
        let options = ExecuteOptions {
            keep,
            ..state.options.clone()
        };
        executable.execute(&[&arguments], &options)
    };
    match outcome {
        Ok(execution) => Ok(Ran {
            buffers: execution.into_single(),
            locked,
            origin,
        }),
        Err(e) => {
            let error = explain(parsed.device, state, e, &format!("{origin} failed"));
            for (_, mut state) in locked {
                // An execution that failed at its start keeps its arguments; one that failed later took them along.
                let gone =
                    matches!(&state.content, Content::Dense(d) if d.data.buffer.is_deleted().unwrap_or(true));
                if gone {
                    state.content = Content::Lost(format!("the contents of this tensor were lost: {error}"));
                }
            }
            Err(error)
        }
    }
}

/// Locks storages whose old value the program may overwrite, as long as nobody else holds that value; lists the
/// parameters that must be kept.
#[allow(clippy::type_complexity)]
fn lock_donated<'a>(
    entry: &Entry,
    parsed: &Parsed<'a>,
) -> (SmallVec<[(u32, MutexGuard<'a, State>); 2]>, SmallVec<[i64; 4]>) {
    let mut keep = SmallVec::new();
    let mut locked: SmallVec<[(u32, MutexGuard<'a, State>); 2]> = SmallVec::new();
    if entry.donated.is_empty() {
        return (locked, keep);
    }
    let mut wanted: SmallVec<[(u32, u32); 4]> = SmallVec::new();
    for &p in &entry.donated {
        if let Param::Slot(s) = entry.params[p as usize] {
            wanted.push((p, s));
        }
    }
    // One order for all threads.
    wanted.sort_by_key(|(_, s)| parsed.slots[*s as usize].storage.id);
    for (p, s) in wanted {
        let slot = &parsed.slots[s as usize];
        let Content::Dense(ours) = &slot.content else {
            continue;
        };
        let state = slot.storage.state.lock();
        let free = match &state.content {
            // The storage and this call hold it, nobody else.
            Content::Dense(now) => Arc::ptr_eq(&now.data, &ours.data) && Arc::strong_count(&ours.data) == 2,
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

/// A condition on data that is verified later.
struct Pending {
    ok: Arc<dyn Buffer>,
    shown: Arc<dyn Buffer>,
    kind: aten::ErrorKind,
    message: String,
    origin: Arc<Origin>,
}

static PENDING: Mutex<Vec<Pending>> = Mutex::new(Vec::new());

impl Pending {
    fn verify(&self) -> Result<()> {
        let mut ok = [0];
        self.ok.copy_to_host(&mut ok)?;
        if ok[0] != 0 {
            return Ok(());
        }
        let mut shown = [0; 8];
        self.shown.copy_to_host(&mut shown)?;
        let text = self.message.replace("{}", &i64::from_le_bytes(shown).to_string());
        Err(aten::Error::user(self.kind, text).into())
    }
}

/// The conditions among a run's results; each is followed by the value to show.
fn pending_checks(entry: &Entry, buffers: &[Arc<dyn Buffer>], origin: &Arc<Origin>) -> Vec<Pending> {
    let pairs = entry.results.iter().zip(buffers.windows(2));
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

/// Verifies conditions that were put off; an error names the op and, where known, the line.
pub(crate) fn verify_pending() -> Result<()> {
    let all = std::mem::take(&mut *PENDING.lock());
    all.iter()
        .try_for_each(|p| p.verify().map_err(|e| e.during(&p.origin.to_string())))
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
        mut locked,
        origin,
    } = ran;
    if buffers.len() != entry.results.len() {
        return Err(Error::runtime(format!(
            "{origin} gave {} results, not {}",
            buffers.len(),
            entry.results.len()
        )));
    }
    if entry.has_checks {
        let now = runtime.simulated || runtime.debug();
        for pending in pending_checks(&entry, &buffers, &origin) {
            if now {
                pending.verify()?;
            } else {
                PENDING.lock().push(pending);
            }
        }
    }
    let mut tensors: SmallVec<[Option<ReturnedTensor>; 2]> = entry.returned.iter().map(|_| None).collect();
    for ((result, buffer), bytes) in entry.results.iter().zip(buffers).zip(&entry.result_bytes) {
        let dense = |element: ElementType, dims: &Dims| {
            let data = Tracked::new(buffer.clone(), *bytes, state.account, Some(origin.clone()));
            state.issued(&data);
            Dense {
                data,
                element,
                dims: dims.clone(),
            }
        };
        match result {
            Produce::Slot(s, element, dims) => {
                let dense = dense(*element, dims);
                match locked.iter_mut().find(|(slot, _)| slot == s) {
                    Some((_, state)) => state.content = Content::Dense(dense),
                    None => parsed.slots[*s as usize].storage.state.lock().content = Content::Dense(dense),
                }
            }
            Produce::Fresh(_, k, element, dims) => {
                let Some(i) = entry.fresh_of.get(*k as usize).copied().flatten() else {
                    continue;
                };
                let nbytes = entry.returned[i as usize].as_ref().map_or(0, |m| m.nbytes);
                let storage = Storage::filled(nbytes, device, dense(*element, dims));
                tensors[i as usize] = Some(ReturnedTensor { storage, meta: i });
            }
            Produce::Check(..) | Produce::Shown => {}
        }
    }
    drop(locked);
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

/// Finds metadata, builds, compiles and caches the program for a call. With `sizes` the call's data-dependent sizes are
/// known; without, an op that needs them gets the program that computes them.
fn make(
    runtime: &Runtime,
    op: &OpHandle,
    parsed: &Parsed<'_>,
    glue: Glue,
    sizes: Option<(Key, Vec<i64>)>,
) -> Result<Found> {
    let started = Instant::now();
    let state = runtime.device(parsed.device)?;
    let (key, sizes, first) = match sizes {
        Some((key, sizes)) => (key, sizes, false),
        None => (parsed.key.clone(), Vec::new(), op.def.sizes.is_some()),
    };
    let slots: Vec<Slot> = parsed.slots.iter().map(SlotIn::slot).collect();
    let mut call = describe(op, parsed);
    call.sizes = sizes;
    let sources = parsed
        .tensors
        .iter()
        .map(|t| match t.slot {
            None => Source::Host(t.element),
            Some(s) => Source::Device(parsed.slots[s as usize].place(s, t)),
        })
        .collect();
    let mut node = Node {
        call,
        sources,
        targets: Vec::new(),
    };
    let mut plan = Planned::default();
    if !first {
        match plan_targets(op, parsed, glue, &mut node)? {
            Ok(planned) => plan = planned,
            Err(resizes) => {
                let found = Found::Resize(resizes.into());
                cache::insert(key, found.clone());
                return Ok(found);
            }
        }
    }
    let name = op.schema.name.as_str();
    let built = if first {
        build_sizes(name, &slots, &node)
    } else {
        build(name, &slots, std::slice::from_ref(&node))
    };
    let built = match built {
        Ok(built) => built,
        Err(Error::NoLowering(why)) => {
            let found = Found::NoLowering(why.into());
            cache::insert(key, found.clone());
            return Ok(found);
        }
        Err(e) => return Err(e.during(name)),
    };
    let found = Found::Entry(Arc::new(compile(runtime, state, name, built, plan, first)?));
    cache::note_compile(started.elapsed());
    cache::insert(key, found.clone());
    Ok(found)
}

#[derive(Default)]
struct Planned {
    returned: Vec<Option<FreshMeta>>,
    counts: Vec<i32>,
    fresh_of: Vec<Option<u32>>,
    target_tensor: Vec<Option<u32>>,
}

fn compile(
    runtime: &Runtime,
    state: &DeviceState,
    name: &str,
    built: Built,
    plan: Planned,
    first: bool,
) -> Result<Entry> {
    let bytes = |r: &Produce| match r {
        Produce::Slot(_, e, d) | Produce::Fresh(_, _, e, d) => {
            (d.iter().product::<i64>().max(0) as usize * e.host_bytes()) as u64
        }
        Produce::Check(..) => 1,
        Produce::Shown => 8,
    };
    tracing::debug!(op = name, program = built.text.as_str(), "compile");
    let executable = if built.results.is_empty() {
        None
    } else {
        let compiled = runtime
            .client
            .compile(&Program::mlir(&built.text), &runtime.options);
        Some(compiled.map_err(|e| {
            if std::env::var_os("TORCH_TPU_DUMP_FAILED").is_some() {
                tracing::error!("{}", built.text);
            }
            explain(0, state, e, &format!("cannot compile {name}"))
        })?)
    };
    Ok(Entry {
        executable,
        result_bytes: built.results.iter().map(bytes).collect(),
        has_checks: built.results.iter().any(|r| matches!(r, Produce::Check(..))),
        params: built.params,
        results: built.results,
        donated: built.donated.iter().map(|(p, _)| *p).collect(),
        random_blocks: built.random_blocks.first().copied().unwrap_or(0),
        returned: plan.returned,
        counts: plan.counts,
        fresh_of: plan.fresh_of,
        target_tensor: plan.target_tensor,
        origin: Arc::new(Origin {
            op: name.to_owned(),
            line: None,
        }),
        computes_sizes: first,
    })
}

/// The call as the lowering sees it.
fn describe(op: &OpHandle, parsed: &Parsed<'_>) -> Call {
    let tensor = |i: &Option<u32>| *i;
    let args = op.schema.arguments.iter().zip(&parsed.args).map(|(entry, arg)| {
        let arg = match arg {
            ArgIn::None => aten::Arg::None,
            ArgIn::Tensor(i) => aten::Arg::Tensor(*i),
            ArgIn::Tensors(list) => aten::Arg::Tensors(list.iter().map(tensor).collect()),
            ArgIn::Scalar(index, kind) => aten::Arg::Scalar(aten::ScalarRef {
                index: *index,
                kind: *kind,
            }),
            ArgIn::Scalars(list) => aten::Arg::Scalars(
                list.iter()
                    .map(|(index, kind)| aten::ScalarRef {
                        index: *index,
                        kind: *kind,
                    })
                    .collect(),
            ),
            ArgIn::Int(i) => aten::Arg::Int(*i),
            ArgIn::Float(x) => aten::Arg::Float(*x),
            ArgIn::Bool(b) => aten::Arg::Bool(*b),
            ArgIn::Complex(re, im) => aten::Arg::Complex(*re, *im),
            ArgIn::Ints(list) => aten::Arg::Ints(list.to_vec()),
            ArgIn::Floats(list) => aten::Arg::Floats(list.to_vec()),
            ArgIn::Bools(list) => aten::Arg::Bools(list.iter().map(|b| *b != 0).collect()),
            ArgIn::Str(s) => aten::Arg::Str((*s).to_owned()),
            ArgIn::Dtype(e) => aten::Arg::Dtype(*e),
        };
        (entry.name.clone(), arg)
    });
    Call {
        op: op.def,
        name: op.schema.name.clone(),
        args: args.collect(),
        tensors: parsed
            .tensors
            .iter()
            .map(|t| TensorMeta {
                dims: t.sizes.into(),
                element: t.element,
                wrapped: t.wrapped,
                contiguous: crate::view::is_contiguous(t.sizes, t.strides),
            })
            .collect(),
        scalars: parsed.scalars.iter().map(|(kind, _)| *kind).collect(),
        outs: Vec::new(),
        sizes: Vec::new(),
    }
}

/// Written tensors of an argument, by position.
fn tensors_of(arg: &ArgIn<'_>) -> SmallVec<[Option<u32>; 4]> {
    match arg {
        ArgIn::Tensor(i) => SmallVec::from_slice(&[Some(*i)]),
        ArgIn::Tensors(list) => list.clone(),
        _ => SmallVec::from_slice(&[None]),
    }
}

/// Finds what the results must be and where they go; or which written tensors must be resized first.
#[allow(clippy::type_complexity)]
fn plan_targets(
    op: &OpHandle,
    parsed: &Parsed<'_>,
    glue: Glue,
    node: &mut Node,
) -> Result<Result<Planned, Vec<(u32, Dims)>>> {
    let mut plan = Planned::default();
    let (fresh, written) = match op.def.shape {
        Some(rule) => by_rule(op, parsed, rule(&node.call)?)?,
        None => {
            let (fresh, counts) = glue.read(glue.table.meta)?;
            plan.counts = counts;
            (fresh, glue.read(glue.table.meta_written)?.0)
        }
    };
    if plan.counts.is_empty() {
        plan.counts = op
            .schema
            .returns
            .iter()
            .map(|r| if r.is_some() { -2 } else { -1 })
            .collect();
    }
    // Written tensors in the order of the schema, as the glue counts them (declared ones only).
    let mut resizes = Vec::new();
    let mut number = 0;
    for (entry, arg) in op.schema.arguments.iter().zip(&parsed.args) {
        if !entry.written || op.def.writes.contains(&entry.name.as_str()) {
            continue;
        }
        for i in tensors_of(arg).into_iter().flatten() {
            if let Some(Some((sizes, ..))) = written.get(number)
                && sizes.as_slice() != parsed.tensors[i as usize].sizes
            {
                resizes.push((number as u32, sizes.clone()));
            }
            number += 1;
        }
    }
    if !resizes.is_empty() {
        return Ok(Err(resizes));
    }
    let mut fresh = fresh.into_iter();
    let mut counts = plan.counts.clone().into_iter();
    for target in op.targets() {
        match target {
            TargetOf::Return => {
                let count = counts.next().unwrap_or(-1);
                for _ in 0..count.max(if count == -1 { 1 } else { 0 }) {
                    let meta = fresh.next().flatten();
                    plan.target_tensor.push(None);
                    let Some((sizes, strides, dtype)) = meta else {
                        node.call.outs.push(None);
                        node.targets.push(Target::Skip);
                        plan.fresh_of.push(None);
                        plan.returned.push(None);
                        continue;
                    };
                    let element = element(dtype)?;
                    let nbytes = storage_bytes(&sizes, &strides, element);
                    node.call.outs.push(Some(OutMeta {
                        dims: sizes.clone(),
                        element,
                    }));
                    plan.fresh_of.push(Some(plan.returned.len() as u32));
                    plan.returned.push(Some(FreshMeta {
                        sizes: sizes.clone(),
                        strides: strides.clone(),
                        code: dtype,
                        nbytes,
                    }));
                    node.targets.push(Target::Fresh(Fresh {
                        sizes,
                        strides,
                        element,
                        nbytes,
                    }));
                }
            }
            TargetOf::Argument(a) => {
                if op.schema.returns.contains(&Some(a)) {
                    counts.next();
                }
                for i in tensors_of(&parsed.args[a]) {
                    plan.fresh_of.push(None);
                    plan.target_tensor.push(i);
                    let tensor = i.map(|i| &parsed.tensors[i as usize]);
                    match tensor.and_then(|t| t.slot.map(|s| (t, s))) {
                        None => {
                            node.call.outs.push(None);
                            node.targets.push(Target::Skip);
                        }
                        Some((t, s)) => {
                            node.call.outs.push(Some(OutMeta {
                                dims: t.sizes.into(),
                                element: t.element,
                            }));
                            let place = place(&parsed.slots[s as usize], s, t.element, t.view());
                            node.targets.push(Target::Write(place));
                        }
                    }
                }
            }
        }
    }
    Ok(Ok(plan))
}

/// From a shape rule's list (results in the order of targets) to new tensors and sizes of written ones.
fn by_rule(op: &OpHandle, parsed: &Parsed<'_>, all: Vec<Option<OutMeta>>) -> Result<(Vec<Meta>, Vec<Meta>)> {
    let mut all = all.into_iter();
    let strides = |dims: &Dims| {
        if !op.def.column_major {
            return contiguous(dims);
        }
        // As a transpose of contiguous rows, also where a size is zero: CPU torch counts zeros as they are there.
        let mut strides = Dims::from_elem(1, dims.len());
        for i in 1..dims.len() {
            strides[i] = strides[i - 1] * dims[i - 1];
        }
        strides
    };
    let meta = |o: Option<OutMeta>| o.map(|o| (o.dims.clone(), strides(&o.dims), code(o.element)));
    let mut fresh = Vec::new();
    let mut by_argument: Vec<Vec<Meta>> = vec![Vec::new(); op.schema.arguments.len()];
    for target in op.targets() {
        match target {
            TargetOf::Return => fresh.push(meta(all.next().flatten())),
            TargetOf::Argument(a) => {
                for _ in tensors_of(&parsed.args[a]) {
                    by_argument[a].push(meta(all.next().flatten()));
                }
            }
        }
    }
    Ok((fresh, by_argument.into_iter().flatten().collect()))
}

fn storage_bytes(sizes: &[i64], strides: &[i64], element: ElementType) -> usize {
    if sizes.contains(&0) {
        return 0;
    }
    let elements: i64 = 1 + sizes.iter().zip(strides).map(|(n, s)| (n - 1) * s).sum::<i64>();
    elements.max(0) as usize * element.host_bytes()
}

/// A failed read, with the op that computed what was read.
pub(crate) fn read_error(e: pjrt::Error, tracked: &Tracked) -> Error {
    name_origin(e, tracked)
}
