//! A call that has no program yet: metadata, where results go, the program, its entry.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use aten::{Call, Dims, OutMeta, TensorMeta};
use dtype::ElementType;
use pjrt::{Code, Executable, Program};
use smallvec::SmallVec;

use crate::cache::{self, Entry, Found, FreshMeta};
use crate::client::{DeviceState, Runtime, explain};
use crate::glue::{Glue, Meta};
use crate::identity::file_name;
use crate::key::Key;
use crate::node::{Fresh, Node, Slot, Source, Target};
use crate::origin::Origin;
use crate::parse::{ArgIn, Parsed, SlotIn, place};
use crate::program::{Built, Graph, Param, Produce, build, build_sizes};
use crate::schema::{OpHandle, TargetOf};
use crate::view::contiguous;
use crate::{Error, Result, code, element};
use crate::{disk, explain, record};

/// Finds metadata, builds and caches the program for a call; it compiles when it first runs. With `sizes` the call's data-dependent sizes are
/// known; without, an op that needs them gets the program that computes them.
pub(crate) fn make(
    op: &OpHandle,
    parsed: &Parsed<'_>,
    glue: Glue,
    sizes: Option<(Key, Vec<i64>)>,
) -> Result<Found> {
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
            Some(s) => Source::Device(Box::new(parsed.slots[s as usize].place(s, t))),
        })
        .collect();
    let mut node = Node {
        call,
        sources,
        targets: Vec::new(),
        replays: None,
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
        let graph = Graph {
            slots: &slots,
            nodes: std::slice::from_ref(&node),
            loops: &[],
        };
        build(name, graph, &vec![true; slots.len()], false)
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
    plan.fits = must_fit(op, &node);
    let found = Found::Entry(Arc::new(entry(name, node, slots, built, plan, first)));
    cache::insert(key, found.clone());
    Ok(found)
}

#[derive(Default)]
struct Planned {
    returned: Vec<Option<FreshMeta>>,
    counts: Vec<i32>,
    fresh_of: Vec<Option<u32>>,
    target_tensor: Vec<Option<u32>>,
    fits: Vec<(u32, ElementType)>,
}

/// Bytes of a result on the device.
pub(crate) fn result_bytes(result: &Produce) -> u64 {
    match result {
        Produce::Slot(_, e, d) | Produce::Fresh(_, _, e, d) => {
            (d.iter().product::<i64>().max(0) as usize * e.host_bytes()) as u64
        }
        Produce::Check(..) => 1,
        Produce::Shown => 8,
    }
}

fn entry(name: &str, node: Node, slots: Vec<Slot>, built: Built, plan: Planned, first: bool) -> Entry {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    Entry {
        id: NEXT.fetch_add(1, Relaxed),
        used: AtomicU64::new(0),
        compiled: OnceLock::new(),
        result_bytes: built.results.iter().map(result_bytes).collect(),
        has_checks: built.results.iter().any(|r| matches!(r, Produce::Check(..))),
        random: built.params.iter().any(|p| matches!(p, Param::Random(_))),
        text: built.text.into(),
        node,
        slots,
        params: built.params,
        results: built.results,
        donated: built.donated.iter().map(|(p, _)| *p).collect(),
        random_blocks: built.random_blocks.first().copied().unwrap_or(0),
        returned: plan.returned,
        counts: plan.counts,
        fresh_of: plan.fresh_of,
        target_tensor: plan.target_tensor,
        origin: Origin::of(name),
        computes_sizes: first,
        fits: plan.fits,
    }
}

impl Entry {
    /// The compiled program; compiles it when this is its first run.
    pub(crate) fn executable(
        &self,
        runtime: &Runtime,
        state: &DeviceState,
    ) -> Result<Option<&Arc<dyn Executable>>> {
        record::note(&self.text);
        if let Some(found) = self.compiled.get() {
            return Ok(found.as_ref());
        }
        let made = if self.results.is_empty() {
            None
        } else {
            let started = Instant::now();
            let compiled = compile(runtime, state, &self.origin.op, &self.text)?;
            explain::note(self, started.elapsed());
            Some(compiled)
        };
        // Two threads may have compiled it: either will do.
        Ok(self.compiled.get_or_init(|| made).as_ref())
    }
}

/// Compiles a program.
pub(crate) fn compile(
    runtime: &Runtime,
    state: &DeviceState,
    name: &str,
    text: &str,
) -> Result<Arc<dyn Executable>> {
    let disk = disk::disk();
    let file = disk.map(|_| file_name(text, &runtime.identity));
    if let (Some(disk), Some(file)) = (disk, &file)
        && let Some(bytes) = disk.read(file)
    {
        match runtime.client.load(&bytes) {
            Ok(loaded) => return Ok(loaded),
            Err(error) => {
                tracing::debug!(%error, file, "a program from disk is not taken");
                disk.forget(file);
            }
        }
    }
    let started = Instant::now();
    tracing::debug!(op = name, program = text, "compile");
    let attempt = || runtime.client.compile(&Program::mlir(text), &runtime.options);
    // A plugin that runs out of what programs take (memory of the device, mappings) says so in its own ways.
    let compiled = attempt().or_else(|error| match error.code() {
        Code::Internal | Code::ResourceExhausted if cache::many() && cache::drop_unused() > 0 => attempt(),
        _ => Err(error),
    });
    let compiled = compiled.map_err(|e| {
        if std::env::var_os("TORCH_TPU_DUMP_FAILED").is_some() {
            tracing::error!("{text}");
        }
        explain(0, state, e, &format!("cannot compile {name}"))
    })?;
    if let (Some(disk), Some(file)) = (disk, &file) {
        match compiled.serialize() {
            Ok(bytes) => disk.write(file, &bytes),
            Err(error) => tracing::debug!(%error, name, "a program is not kept on disk"),
        }
    }
    cache::note_compile(started.elapsed());
    Ok(compiled)
}

/// Numbers that must fit the type of the first result.
fn must_fit(op: &OpHandle, node: &Node) -> Vec<(u32, ElementType)> {
    let Some(Some(out)) = node.call.outs.first() else {
        return Vec::new();
    };
    let scalar = |name: &&str| match node.call.arg(name) {
        Some(aten::Arg::Scalar(s)) if op.def.fits_computed => Some((s.index, out.element.computed())),
        Some(aten::Arg::Scalar(s)) => Some((s.index, out.element)),
        _ => None,
    };
    op.def.fits.iter().filter_map(scalar).collect()
}

/// The call as the lowering sees it.
fn describe(op: &OpHandle, parsed: &Parsed<'_>) -> Call {
    let tensor = |i: &Option<u32>| *i;
    let args = op.schema.arguments.iter().zip(&parsed.args).map(|(entry, arg)| {
        let arg = match arg {
            ArgIn::None => aten::Arg::None,
            ArgIn::Tensor(i) => aten::Arg::Tensor(*i),
            ArgIn::Tensors(list) => aten::Arg::Tensors(list.iter().map(tensor).collect()),
            ArgIn::Scalar(index, kind, small) => aten::Arg::Scalar(aten::ScalarRef {
                index: *index,
                kind: *kind,
                small: *small,
            }),
            ArgIn::Scalars(list) => aten::Arg::Scalars(
                list.iter()
                    .map(|(index, kind)| aten::ScalarRef {
                        index: *index,
                        kind: *kind,
                        small: None,
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
    let (mut fresh, written) = match op.def.shape {
        Some(rule) => by_rule(op, parsed, rule(&node.call)?)?,
        None => {
            let (fresh, counts) = glue.meta()?;
            plan.counts = counts;
            (fresh, glue.meta_written()?)
        }
    };
    if let Some(amend) = op.def.amend {
        fresh = amended(parsed, &node.call, amend, fresh)?;
    }
    if let Some(aten::Arg::Bools(mask)) = node.call.arg("output_mask") {
        // Torch's Meta kernels describe some of them all the same.
        for (meta, _) in fresh.iter_mut().zip(mask).filter(|(_, wanted)| !**wanted) {
            *meta = None;
        }
    }
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
                            node.targets.push(Target::Write(Box::new(place)));
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
                // What the schema does not declare as written is not resized either.
                let declared = !op.def.writes.contains(&op.schema.arguments[a].name.as_str());
                for _ in tensors_of(&parsed.args[a]) {
                    let wanted = meta(all.next().flatten());
                    if declared {
                        by_argument[a].push(wanted);
                    }
                }
            }
        }
    }
    Ok((fresh, by_argument.into_iter().flatten().collect()))
}

/// New results as the op's entry changes them.
fn amended(parsed: &Parsed<'_>, call: &Call, amend: aten::AmendFn, fresh: Vec<Meta>) -> Result<Vec<Meta>> {
    let strides: Vec<&[i64]> = parsed.tensors.iter().map(|t| t.strides).collect();
    let mut made = Vec::with_capacity(fresh.len());
    for meta in fresh {
        made.push(match meta {
            None => None,
            Some((dims, strides, dtype)) => Some(aten::Made {
                dims,
                strides,
                element: element(dtype)?,
            }),
        });
    }
    amend(call, &strides, &mut made);
    Ok(made
        .into_iter()
        .map(|m| m.map(|m| (m.dims, m.strides, code(m.element))))
        .collect())
}

fn storage_bytes(sizes: &[i64], strides: &[i64], element: ElementType) -> usize {
    if sizes.contains(&0) {
        return 0;
    }
    let elements: i64 = 1 + sizes.iter().zip(strides).map(|(n, s)| (n - 1) * s).sum::<i64>();
    elements.max(0) as usize * element.host_bytes()
}
