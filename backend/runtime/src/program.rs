//! From a window of nodes to one StableHLO program.

use aten::{Check, Cx, Dims, Facts, Inputs, Value};
use dtype::{Class, ElementType};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use stablehlo::{Arena, Argument, FunctionBuilder, Module, TensorType};

use crate::node::{Fresh, Node, Place, Slot, Source, Target};
use crate::region::Loop;
use crate::view::{Emit, Plan, View, plan};
use crate::{Error, Result, halves};

mod repeat;

/// What a parameter of the program is.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Param {
    /// What a storage holds.
    Slot(u32),
    /// A number: node, position among its scalars.
    Scalar(u32, u32),
    /// A tensor from host memory: node, position among its tensors.
    Host(u32, u32),
    /// The storage offset of a tensor: node, position among its tensors.
    Offset(u32, u32),
    /// The storage offset of a written tensor: node, position among its targets.
    TargetOffset(u32, u32),
    /// A node's random state.
    Random(u32),
}

/// What a result of the program is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Produce {
    /// The new value of a storage.
    Slot(u32, ElementType, Dims),
    /// The value of a new tensor: node, position among its targets.
    Fresh(u32, u32, ElementType, Dims),
    /// Whether a condition holds.
    Check(aten::ErrorKind, String),
    /// The value to show when the check before does not hold.
    Shown,
}

/// A program and how to call it.
#[derive(Clone, Debug)]
pub(crate) struct Built {
    /// StableHLO.
    pub(crate) text: String,
    /// Parameters in order.
    pub(crate) params: Vec<Param>,
    /// Results in order.
    pub(crate) results: Vec<Produce>,
    /// Parameters whose buffer may become that of the slot's new value.
    pub(crate) donated: Vec<(u32, u32)>,
    /// Blocks of random bits that each node uses.
    pub(crate) random_blocks: Vec<u64>,
}

/// Calls over shared storages, some of them in loops.
#[derive(Copy, Clone)]
pub(crate) struct Graph<'g> {
    pub(crate) slots: &'g [Slot],
    pub(crate) nodes: &'g [Node],
    pub(crate) loops: &'g [Loop],
}

type Needed = rustc_hash::FxHashSet<Param>;

/// What a first pass found.
struct Found {
    /// Parameters that are needed.
    needed: Needed,
    /// Parameters whose buffer may become that of a result.
    donated: Vec<(Param, u32)>,
}

/// Builds the program of a window. `live` says of each storage whether its new value is wanted; with `fixed` the places of
/// views in storages that the window makes are constants.
pub(crate) fn build(name: &str, graph: Graph<'_>, live: &[bool], fixed: bool) -> Result<Built> {
    // The first pass takes everything as a parameter and tells what was used: an op that fills does not read.
    let all = pass(name, graph, (live, fixed), None)?;
    Ok(pass(name, graph, (live, fixed), Some(&all.1))?.0)
}

/// [`build`] for the program that computes an op's result sizes.
pub(crate) fn build_sizes(name: &str, slots: &[Slot], node: &Node) -> Result<Built> {
    let Some(sizes) = node.call.op.sizes else {
        return Err(Error::runtime(format!("{name} has no program for its sizes")));
    };
    let nodes = std::slice::from_ref(node);
    let run = |found: Option<&Found>| {
        compose(name, slots, nodes, found, |window| {
            let inputs = window.inputs(0)?;
            let mut cx = Cx::new(window.f, &node.call, &inputs);
            let values = sizes(&mut cx)?;
            let checks = std::mem::take(&mut cx.produced).checks;
            let out = values
                .into_iter()
                .map(|v| (v, Produce::Fresh(0, 0, ElementType::S64, Dims::new())));
            window.state.outputs.extend(out);
            window.used(&inputs, 0);
            window.checks(checks)
        })
    };
    let all = run(None)?;
    Ok(run(Some(&all.1))?.0)
}

fn pass(
    name: &str,
    graph: Graph<'_>,
    (live, fixed): (&[bool], bool),
    found: Option<&Found>,
) -> Result<(Built, Found)> {
    compose(name, graph.slots, graph.nodes, found, |window| {
        window.fixed = fixed;
        let mut next = 0;
        for l in graph.loops {
            (next..l.calls.start).try_for_each(|i| window.node(i))?;
            window.repeat(l)?;
            next = l.calls.end;
        }
        (next..graph.nodes.len()).try_for_each(|i| window.node(i))?;
        window.finish(live)
    })
}

fn compose<F>(
    name: &str,
    slots: &[Slot],
    nodes: &[Node],
    found: Option<&Found>,
    body: F,
) -> Result<(Built, Found)>
where
    F: FnOnce(&mut Window<'_, '_, '_>) -> Result<()>,
{
    let arena = Arena::new();
    let params = parameters(slots, nodes, found.map(|f| &f.needed));
    let donated = found.map_or(&[][..], |f| &f.donated);
    let mut arguments: Vec<Argument<'_>> = Vec::new();
    for param in &params {
        let (element, dims) = type_of(*param, slots, nodes);
        let argument = Argument::new(TensorType::new(&arena, dims.as_slice(), element)?);
        arguments.push(match donated.iter().find(|(p, _)| p == param) {
            Some((_, result)) => argument.aliasing_output(*result as i32),
            None => argument,
        });
    }
    let mut module = Module::new(&arena, module_name(name));
    let mut outcome = Err(Error::runtime("the program was not built"));
    module.function("main", &arguments, |f, values| {
        let mut window = Window {
            f,
            slots,
            nodes,
            state: State {
                params: params.iter().copied().zip(values.iter().copied()).collect(),
                current: vec![None; slots.len()],
                written: vec![false; slots.len()],
                random_blocks: vec![0; nodes.len()],
                ..State::default()
            },
            fixed: false,
            turn: None,
        };
        let built = body(&mut window);
        let results = window.state.outputs.iter().map(|(v, _)| *v).collect();
        let produced: Vec<Produce> = window.state.outputs.into_iter().map(|(_, p)| p).collect();
        outcome = built.map(|()| (produced, window.state.needed, window.state.random_blocks));
        Ok(if outcome.is_ok() { results } else { Vec::new() })
    })?;
    let (results, needed, random_blocks) = outcome?;
    let donated = donations(&params, slots, &results, nodes.len() > 1);
    let donated_at = |(p, r): &(Param, u32)| params.iter().position(|q| q == p).map(|at| (at as u32, *r));
    let built = Built {
        text: module.to_string(),
        donated: found.map_or(Vec::new(), |f| f.donated.iter().filter_map(donated_at).collect()),
        params,
        results,
        random_blocks,
    };
    Ok((built, Found { needed, donated }))
}

fn donations(params: &[Param], slots: &[Slot], results: &[Produce], guarded: bool) -> Vec<(Param, u32)> {
    if !guarded && results.iter().any(|r| matches!(r, Produce::Check(..))) {
        // A failed check must leave the old value.
        return Vec::new();
    }
    let mut out = Vec::new();
    for &param in params {
        let Param::Slot(s) = param else { continue };
        let held = slots[s as usize].held.as_ref();
        let same = |r: &Produce| matches!(r, Produce::Slot(t, e, d) if *t == s && held.is_some_and(|(he, hd)| he == e && hd == d));
        if let Some(r) = results.iter().position(same) {
            out.push((param, r as u32));
        }
    }
    out
}

/// A symbol of letters, digits and underscores.
fn module_name(name: &str) -> String {
    name.chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
        .collect()
}

fn parameters(slots: &[Slot], nodes: &[Node], needed: Option<&Needed>) -> Vec<Param> {
    let mut all = Vec::new();
    for (s, slot) in slots.iter().enumerate() {
        if slot.held.is_some() {
            all.push(Param::Slot(s as u32));
        }
    }
    for (n, node) in nodes.iter().enumerate() {
        let n = n as u32;
        all.extend((0..node.call.scalars.len() as u32).map(|i| Param::Scalar(n, i)));
        for (i, source) in node.sources.iter().enumerate() {
            match source {
                Source::Host(_) => all.push(Param::Host(n, i as u32)),
                Source::Device(p) if p.plan.uses_offset() && p.view.offset != 0 => {
                    all.push(Param::Offset(n, i as u32))
                }
                Source::Device(_) => {}
            }
        }
        for (i, target) in node.targets.iter().enumerate() {
            if let Target::Write(p) = target
                && p.plan.uses_offset()
                && p.view.offset != 0
            {
                all.push(Param::TargetOffset(n, i as u32));
            }
        }
        if node.call.op.random {
            all.push(Param::Random(n));
        }
    }
    if let Some(needed) = needed {
        all.retain(|p| needed.contains(p));
    }
    all
}

fn type_of(param: Param, slots: &[Slot], nodes: &[Node]) -> (ElementType, Dims) {
    match param {
        Param::Slot(s) => slots[s as usize].base().clone(),
        Param::Scalar(n, i) => (nodes[n as usize].call.scalars[i as usize].element(), Dims::new()),
        Param::Host(n, i) => match &nodes[n as usize].sources[i as usize] {
            Source::Host(e) => (e.stored(), Dims::new()),
            Source::Device(p) => (p.element.stored(), Dims::new()),
        },
        Param::Offset(..) | Param::TargetOffset(..) => (ElementType::S64, Dims::new()),
        Param::Random(_) => (ElementType::U64, SmallVec::from_slice(&[3])),
    }
}

/// What is known of a program so far.
#[derive(Default)]
struct State {
    params: FxHashMap<Param, Value>,
    /// What each storage holds at this point, once known.
    current: Vec<Option<(Value, ElementType, Dims)>>,
    written: Vec<bool>,
    outputs: Vec<(Value, Produce)>,
    needed: Needed,
    random_blocks: Vec<u64>,
    facts: Facts,
}

struct Window<'w, 'a, 'f> {
    f: &'f mut FunctionBuilder<'a>,
    slots: &'w [Slot],
    nodes: &'w [Node],
    state: State,
    fixed: bool,
    /// In a loop: which turn it is, and the blocks of random bits that one uses.
    turn: Option<(Value, u64)>,
}

impl Window<'_, '_, '_> {
    fn param(&mut self, param: Param) -> Result<Value> {
        self.state.needed.insert(param);
        self.lookup(param)
            .ok_or_else(|| Error::runtime(format!("{param:?} is not a parameter")))
    }

    /// What a storage holds now.
    fn base(&mut self, slot: usize) -> Result<(Value, ElementType, Dims)> {
        if let Some(found) = &self.state.current[slot] {
            return Ok(found.clone());
        }
        let (element, dims) = self.slots[slot].base().clone();
        let value = if self.slots[slot].held.is_some() {
            self.param(Param::Slot(slot as u32))?
        } else {
            self.f.full(dims.as_slice(), element, 0)?
        };
        Ok((value, element, dims))
    }

    fn offset(&mut self, place: &Place, param: Param) -> Result<Option<Value>> {
        if !place.plan.uses_offset() || place.view.offset == 0 {
            return Ok(None);
        }
        if self.fixed && self.slots[place.slot].held.is_none() {
            let offset = self.f.full(&[0i64; 0], ElementType::S64, place.view.offset)?;
            return Ok(Some(offset));
        }
        self.state.needed.insert(param);
        // Absent in the second pass only for a tensor that nothing uses.
        Ok(self.lookup(param))
    }

    /// The tensor's value, of the type that its elements are computed in.
    fn read(&mut self, place: &Place, param: Param) -> Result<Value> {
        let (value, element, dims) = self.base(place.slot)?;
        let stored = place.element.stored();
        let (plan, to) = self.planned(place, element, &dims)?;
        let (value, dims) = match to {
            None => (value, dims),
            Some(to) => (recast(self.f, value, element, &dims, stored, &to)?, to),
        };
        let offset = self.offset(place, param)?;
        let read = Emit { f: self.f }.read(value, &dims, stored, &plan, &place.view, offset)?;
        halves::widen(self.f, read, place.element)
    }

    /// The way to a tensor in what its storage holds now, and the sizes to recast that to first. An earlier call of the
    /// window may have left something else than the plan was made for.
    fn planned(&self, place: &Place, element: ElementType, dims: &Dims) -> Result<(Plan, Option<Dims>)> {
        if place.base.0 == element && place.base.1 == *dims {
            return Ok((place.plan.clone(), place.recast.clone()));
        }
        let count: i64 = dims.iter().product();
        let to: Option<Dims> = (element != place.element.stored() || place.reach() > count).then(|| {
            let bytes = self.slots[place.slot].nbytes;
            SmallVec::from_slice(&[(bytes / place.element.host_bytes()) as i64])
        });
        let plan = plan(to.as_ref().unwrap_or(dims), &place.view);
        if plan.uses_offset() && !place.plan.uses_offset() && place.view.offset != 0 {
            return Err(Error::runtime(
                "a tensor lies in its storage in another way than was planned",
            ));
        }
        Ok((plan, to))
    }

    /// Writes a value of the type that the tensor's elements are stored as.
    fn write(&mut self, place: &Place, param: Param, new: Value) -> Result<()> {
        let stored = place.element.stored();
        let (value, element, dims) = if let Plan::Whole(order) = &place.plan {
            let (v, dims) = Emit { f: self.f }.write_whole(order, &place.view, new)?;
            (v, stored, dims)
        } else {
            let (old, old_element, old_dims) = self.base(place.slot)?;
            let (plan, to) = self.planned(place, old_element, &old_dims)?;
            let (base, dims) = match to {
                None => (old, old_dims),
                Some(to) => (recast(self.f, old, old_element, &old_dims, stored, &to)?, to),
            };
            let offset = self.offset(place, param)?;
            let (v, dims) = Emit { f: self.f }.write(base, &dims, stored, &plan, &place.view, offset, new)?;
            (v, stored, dims)
        };
        self.state.current[place.slot] = Some((value, element, dims));
        self.state.written[place.slot] = true;
        Ok(())
    }

    fn inputs(&mut self, n: usize) -> Result<Inputs> {
        let node = &self.nodes[n];
        let mut tensors = Vec::new();
        for (i, source) in node.sources.iter().enumerate() {
            // A tensor that the second pass knows to be unused stands for itself as zeros; XLA drops them.
            tensors.push(match source {
                Source::Host(element) => match self.lookup(Param::Host(n as u32, i as u32)) {
                    Some(v) => halves::widen(self.f, v, *element)?,
                    None => self.f.full(&[0i64; 0], element.computed(), 0)?,
                },
                Source::Device(place) if self.is_unused(place) => {
                    self.f
                        .full(place.view.sizes.as_slice(), place.element.computed(), 0)?
                }
                Source::Device(place) => self.read(place, Param::Offset(n as u32, i as u32))?,
            });
        }
        let mut scalars = Vec::new();
        for (i, kind) in node.call.scalars.iter().enumerate() {
            scalars.push(match self.lookup(Param::Scalar(n as u32, i as u32)) {
                Some(v) => v,
                None => self.f.full(&[0i64; 0], kind.element(), 0)?,
            });
        }
        let random = if node.call.op.random {
            Some(self.random(n)?)
        } else {
            None
        };
        Ok(Inputs::new(tensors, scalars, random))
    }

    fn lookup(&self, param: Param) -> Option<Value> {
        self.state.params.get(&param).copied()
    }

    fn is_unused(&self, place: &Place) -> bool {
        // In the second pass a held slot that nobody needs is no parameter.
        self.state.current[place.slot].is_none()
            && self.slots[place.slot].held.is_some()
            && self.lookup(Param::Slot(place.slot as u32)).is_none()
    }

    /// Turns what the lowering used into parameters that are needed.
    fn used(&mut self, inputs: &Inputs, n: usize) {
        let node = &self.nodes[n];
        for i in inputs.used_tensors() {
            match &node.sources[i] {
                Source::Host(_) => {
                    self.state.needed.insert(Param::Host(n as u32, i as u32));
                }
                Source::Device(place) => {
                    self.state.needed.insert(Param::Slot(place.slot as u32));
                    if !self.fixed || self.slots[place.slot].held.is_some() {
                        self.state.needed.insert(Param::Offset(n as u32, i as u32));
                    }
                }
            }
        }
        for i in inputs.used_scalars() {
            self.state.needed.insert(Param::Scalar(n as u32, i as u32));
        }
        if node.call.op.random {
            self.state
                .needed
                .insert(Param::Random(node.replays.unwrap_or(n as u32)));
        }
    }

    fn node(&mut self, n: usize) -> Result<()> {
        let node = &self.nodes[n];
        // Reading makes a parameter only if the lowering uses what was read.
        let kept = std::mem::take(&mut self.state.needed);
        let facts = std::mem::take(&mut self.state.facts);
        let mut inputs = self.inputs(n)?.knowing(facts);
        self.state.needed = kept;
        let mut cx = Cx::new(self.f, &node.call, &inputs);
        let outputs = (node.call.op.lower)(&mut cx)?;
        let produced = std::mem::take(&mut cx.produced);
        self.state.random_blocks[n] = produced.random_blocks;
        self.state.facts = inputs.take_facts();
        self.state.facts.extend(produced.facts);
        let mut results: Vec<Option<Value>> = outputs.0.into_vec();
        if results.len() > node.targets.len() {
            return Err(Error::runtime(format!(
                "the lowering of {} gave {} results, {} are wanted (a bug of ours)",
                node.call.name,
                results.len(),
                node.targets.len()
            )));
        }
        results.resize(node.targets.len(), None);
        for (k, (target, result)) in node.targets.iter().zip(results).enumerate() {
            self.place(n, k, target, result, &inputs)?;
        }
        self.used(&inputs, n);
        self.checks(produced.checks)
    }

    /// Conditions become results.
    fn checks(&mut self, checks: Vec<Check>) -> Result<()> {
        for Check {
            ok,
            shown,
            kind,
            message,
        } in checks
        {
            let shown_element = self.f.tensor_ty(shown)?.element;
            let shown = if shown_element == ElementType::S64 {
                shown
            } else {
                self.f.convert(shown, ElementType::S64)?
            };
            self.state.outputs.push((ok, Produce::Check(kind, message)));
            self.state.outputs.push((shown, Produce::Shown));
        }
        Ok(())
    }

    fn place(
        &mut self,
        n: usize,
        k: usize,
        target: &Target,
        result: Option<Value>,
        inputs: &Inputs,
    ) -> Result<()> {
        let node = &self.nodes[n];
        let wrong = |what: String| {
            let text = format!(
                "the lowering of {} gave {what} as result {k} (a bug of ours)",
                node.call.name
            );
            Error::raised(glue_abi::ErrorKind::Internal, text)
        };
        let (element, sizes) = match target {
            Target::Skip => return Ok(()),
            Target::Fresh(fresh) => (fresh.element, &fresh.sizes),
            Target::Write(place) => (place.element, &place.view.sizes),
        };
        let Some(result) = result else {
            return match target {
                Target::Write(_) => Ok(()),
                _ => Err(wrong("nothing".into())),
            };
        };
        let (value, dims) = {
            let mut cx = Cx::new(self.f, &node.call, inputs);
            let value = cx.cast(result, element.computed())?;
            (value, cx.dims(value)?)
        };
        if dims != *sizes {
            return Err(wrong(format!("sizes {dims:?} instead of {sizes:?}")));
        }
        let value = halves::narrow(self.f, value, element)?;
        match target {
            Target::Fresh(fresh) => {
                let (value, dims) = self.lay_out(fresh, value)?;
                self.state
                    .outputs
                    .push((value, Produce::Fresh(n as u32, k as u32, element.stored(), dims)));
                Ok(())
            }
            Target::Write(place) => self.write(place, Param::TargetOffset(n as u32, k as u32), value),
            Target::Skip => Ok(()),
        }
    }

    /// A new tensor's value, as stored, in memory order.
    fn lay_out(&mut self, fresh: &Fresh, value: Value) -> Result<(Value, Dims)> {
        let view = View {
            sizes: fresh.sizes.clone(),
            strides: fresh.strides.clone(),
            offset: 0,
        };
        let stored = fresh.element.stored();
        let elements = (fresh.nbytes / stored.host_bytes()) as i64;
        let base: Dims = SmallVec::from_slice(&[elements]);
        match plan(&base, &view) {
            Plan::Nothing => Ok((value, fresh.sizes.clone())),
            Plan::Whole(order) => Emit { f: self.f }.write_whole(&order, &view, value),
            other => {
                let blank = self.f.full(base.as_slice(), stored, 0)?;
                Emit { f: self.f }.write(blank, &base, stored, &other, &view, None, value)
            }
        }
    }

    fn finish(&mut self, live: &[bool]) -> Result<()> {
        let mut outputs = Vec::new();
        let wanted = self
            .state
            .written
            .iter()
            .zip(live)
            .map(|(written, live)| *written && *live);
        for (s, (current, wanted)) in self.state.current.iter().zip(wanted).enumerate() {
            if let (Some((value, element, dims)), true) = (current, wanted) {
                outputs.push((*value, Produce::Slot(s as u32, *element, dims.clone())));
            }
        }
        if self.nodes.len() > 1 {
            self.guard(&mut outputs)?;
        }
        outputs.append(&mut self.state.outputs);
        self.state.outputs = outputs;
        Ok(())
    }

    /// A failed condition leaves the old values, so that their buffers can be donated all the same: an update that reads
    /// them selects for nothing more than that. (A single op's program is small; it keeps its arguments.)
    fn guard(&mut self, outputs: &mut [(Value, Produce)]) -> Result<()> {
        let conditions = self.state.outputs.iter();
        let conditions: Vec<Value> = conditions
            .filter(|(_, p)| matches!(p, Produce::Check(..)))
            .map(|(ok, _)| *ok)
            .collect();
        let mut all = conditions.first().copied();
        for ok in conditions.iter().skip(1) {
            all = match all {
                Some(so_far) => Some(self.f.and(so_far, *ok)?),
                None => None,
            };
        }
        let Some(ok) = all else { return Ok(()) };
        for (value, produce) in outputs {
            let Produce::Slot(s, element, dims) = produce else {
                continue;
            };
            let param = Param::Slot(*s);
            let held = self.slots[*s as usize].held.as_ref();
            if !held.is_some_and(|(e, d)| e == element && d == dims) || !self.state.needed.contains(&param) {
                continue;
            }
            let old = self.param(param)?;
            *value = self.f.select(ok, *value, old)?;
        }
        Ok(())
    }
}

/// Reads a value as elements of another type and as sizes `to`; a longer `to` continues with zeros.
fn recast(
    f: &mut FunctionBuilder<'_>,
    value: Value,
    from: ElementType,
    dims: &[i64],
    element: ElementType,
    to: &[i64],
) -> Result<Value> {
    let count: i64 = dims.iter().product();
    let mut flat = if dims.len() == 1 {
        value
    } else {
        f.reshape(value, &[count])?
    };
    let mut length = count;
    if from != element {
        (flat, length) = reinterpret(f, flat, count, from, element)?;
    }
    let wanted: i64 = to.iter().product();
    if wanted > length {
        let zero = f.full(&[0i64; 0], element, 0)?;
        flat = f.pad(flat, zero, &[0], &[wanted - length], &[0])?;
    } else if wanted < length {
        flat = f.slice(flat, &[0], &[wanted], &[1])?;
    }
    Ok(if to.len() == 1 { flat } else { f.reshape(flat, to)? })
}

/// The same bits as another element type, flat; the new length.
fn reinterpret(
    f: &mut FunctionBuilder<'_>,
    flat: Value,
    count: i64,
    from: ElementType,
    to: ElementType,
) -> Result<(Value, i64)> {
    if from == ElementType::Pred {
        let bytes = f.convert(flat, ElementType::U8)?;
        return if to == ElementType::U8 {
            Ok((bytes, count))
        } else {
            reinterpret(f, bytes, count, ElementType::U8, to)
        };
    }
    if to == ElementType::Pred {
        let (bytes, length) = if from == ElementType::U8 {
            (flat, count)
        } else {
            reinterpret(f, flat, count, from, ElementType::U8)?
        };
        let zero = f.full(&[length], ElementType::U8, 0)?;
        return Ok((f.compare(bytes, zero, stablehlo::ops::Direction::Ne)?, length));
    }
    if from.class() == Class::Complex {
        let (re, im) = (f.real(flat)?, f.imag(flat)?);
        let (re, im) = (f.reshape(re, &[count, 1])?, f.reshape(im, &[count, 1])?);
        let pairs = f.concatenate(&[re, im], 1)?;
        let parts = f.reshape(pairs, &[2 * count])?;
        let real = from.real();
        return if to == real {
            Ok((parts, 2 * count))
        } else {
            reinterpret(f, parts, 2 * count, real, to)
        };
    }
    if to.class() == Class::Complex {
        let real = to.real();
        let (parts, length) = if from == real {
            (flat, count)
        } else {
            reinterpret(f, flat, count, from, real)?
        };
        let half = length / 2;
        let pairs = f.slice(parts, &[0], &[2 * half], &[1])?;
        let pairs = f.reshape(pairs, &[half, 2])?;
        let re = f.slice(pairs, &[0, 0], &[half, 1], &[1, 1])?;
        let im = f.slice(pairs, &[0, 1], &[half, 2], &[1, 1])?;
        let (re, im) = (f.reshape(re, &[half])?, f.reshape(im, &[half])?);
        return Ok((f.complex(re, im)?, half));
    }
    let (a, b) = (from.host_bytes() as i64, to.host_bytes() as i64);
    if a == b {
        return Ok((f.bitcast_convert(flat, to)?, count));
    }
    if a > b {
        let parts = f.bitcast_convert(flat, to)?;
        let length = count * (a / b);
        return Ok((f.reshape(parts, &[length])?, length));
    }
    let (ratio, length) = (b / a, count / (b / a));
    let whole = f.slice(flat, &[0], &[length * ratio], &[1])?;
    let groups = f.reshape(whole, &[length, ratio])?;
    Ok((f.bitcast_convert(groups, to)?, length))
}
