//! Why programs were compiled: which named part of the key was another than in the program most like it.

use std::collections::VecDeque;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use aten::{Arg, Call};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;

use crate::cache::Entry;
use crate::node::{Node, Place, Slot, Source, Target};
use crate::origin::Origin;

/// Compilations that are remembered.
const REMEMBERED: usize = 4096;
/// Programs of an op that a new one is compared with: its latest.
const COMPARED: usize = 8;

/// A compilation.
#[derive(Clone, Debug, PartialEq)]
pub struct Recompile {
    /// The op, and what issued it.
    pub origin: Arc<Origin>,
    /// Seconds that it took; less when the program came from disk.
    pub seconds: f64,
    /// The parts of the key that differ from the most similar earlier program of the op, as `name: before -> after`.
    /// Empty for the op's first program.
    pub changed: Vec<String>,
    /// There was a program of this op before.
    pub again: bool,
}

type Parts = Vec<(String, String)>;

#[derive(Default)]
struct Log {
    parts: FxHashMap<Arc<str>, VecDeque<Parts>>,
    recompiles: VecDeque<Recompile>,
}

static LOG: Mutex<Option<Log>> = Mutex::new(None);

/// What was compiled since the start or the last [`forget_recompiles`], the latest last.
pub fn recompiles() -> Vec<Recompile> {
    let log = LOG.lock();
    log.as_ref()
        .map(|log| log.recompiles.iter().cloned().collect())
        .unwrap_or_default()
}

/// Forgets what [`recompiles`] tells; what was compiled stays known for comparison.
pub fn forget_recompiles() {
    if let Some(log) = LOG.lock().as_mut() {
        log.recompiles.clear();
    }
}

/// Takes down that an op's program was compiled.
pub(crate) fn note(entry: &Entry, took: Duration) {
    take_down(entry.origin.now(), took, parts(&entry.node, &entry.slots));
}

/// Takes down that a sequence of ops was compiled as one program.
pub(crate) fn note_window(origin: &Origin, nodes: &[Node], slots: &[Slot], live: &[bool], took: Duration) {
    let mut all = Parts::new();
    for (n, node) in nodes.iter().enumerate() {
        let name = &node.call.name;
        all.push((format!("op {n}"), name.clone()));
        let of_node = parts(node, &[]).into_iter();
        all.extend(of_node.map(|(part, value)| (format!("{part} of {name} (op {n})"), value)));
    }
    all.push(("storages".to_owned(), storages(slots)));
    all.push((
        "storages that somebody holds at the end".to_owned(),
        format!("{} of {}", live.iter().filter(|l| **l).count(), live.len()),
    ));
    take_down(origin.now(), took, all);
}

fn take_down(origin: Arc<Origin>, took: Duration, parts: Parts) {
    let mut guard = LOG.lock();
    let log = guard.get_or_insert_default();
    let before = log.parts.entry(origin.op.clone()).or_default();
    let nearest = before
        .iter()
        .map(|earlier| differences(earlier, &parts))
        .min_by_key(Vec::len);
    let again = nearest.is_some();
    let mut changed = telling(nearest.unwrap_or_default());
    if again && changed.is_empty() {
        changed.push("how views lie in their storages, or which tensors share one".to_owned());
    }
    if before.len() == COMPARED {
        before.pop_front();
    }
    before.push_back(parts);
    if log.recompiles.len() == REMEMBERED {
        log.recompiles.pop_front();
    }
    log.recompiles.push_back(Recompile {
        origin,
        seconds: took.as_secs_f64(),
        changed,
        again,
    });
}

/// Without what follows from the rest: other strides where sizes differ, other storages and results where anything does.
fn telling(all: Vec<String>) -> Vec<String> {
    let follows = |text: &String| {
        text.starts_with("storages: ")
            || text.starts_with("result ")
            || text.strip_prefix("strides of ").is_some_and(|rest| {
                let sizes = format!("sizes of {}", rest.split(": ").next().unwrap_or(rest));
                all.iter().any(|other| other.starts_with(&sizes))
            })
    };
    let told: Vec<String> = all.iter().filter(|text| !follows(text)).cloned().collect();
    if told.is_empty() { all } else { told }
}

fn differences(before: &Parts, after: &Parts) -> Vec<String> {
    let find = |list: &Parts, name: &str| list.iter().find(|(n, _)| n == name).map(|(_, v)| v.clone());
    let absent = || "absent".to_owned();
    let mut found: Vec<String> = after
        .iter()
        .filter_map(|(name, now)| {
            let then = find(before, name).unwrap_or_else(absent);
            (then != *now).then(|| format!("{name}: {then} -> {now}"))
        })
        .collect();
    let gone = before.iter().filter(|(name, _)| find(after, name).is_none());
    found.extend(gone.map(|(name, then)| format!("{name}: {then} -> absent")));
    found
}

/// The named parts of what a call's program depends on.
fn parts(node: &Node, slots: &[Slot]) -> Parts {
    let call = &node.call;
    let mut all = Parts::new();
    for (name, arg) in &call.args {
        match arg {
            Arg::Tensor(i) => tensor(&mut all, node, name, *i as usize),
            Arg::Tensors(list) => {
                for (k, i) in list.iter().enumerate() {
                    if let Some(i) = i {
                        tensor(&mut all, node, &format!("{name}[{k}]"), *i as usize);
                    }
                }
                all.push((format!("length of {name}"), list.len().to_string()));
            }
            Arg::Scalar(number) => all.push((format!("type of {name}"), format!("{:?}", number.kind))),
            Arg::Scalars(list) => all.push((format!("length of {name}"), list.len().to_string())),
            Arg::None => {}
            other => all.push((name.clone(), value(other))),
        }
    }
    for (k, target) in node.targets.iter().enumerate() {
        let text = match target {
            Target::Fresh(new) => format!("a new tensor of strides {:?}", new.strides.as_slice()),
            Target::Write(place) => format!("written into {}", layout(place)),
            Target::Skip => "not wanted".to_owned(),
        };
        all.push((format!("result {k}"), text));
    }
    if !call.sizes.is_empty() {
        all.push((
            "sizes that depend on data".to_owned(),
            format!("{:?}", call.sizes),
        ));
    }
    if !slots.is_empty() {
        all.push(("storages".to_owned(), storages(slots)));
    }
    all
}

fn tensor(all: &mut Parts, node: &Node, name: &str, i: usize) {
    let Call { tensors, .. } = &node.call;
    let (Some(meta), Some(source)) = (tensors.get(i), node.sources.get(i)) else {
        return;
    };
    all.push((format!("sizes of {name}"), format!("{:?}", meta.dims.as_slice())));
    all.push((format!("dtype of {name}"), meta.element.to_string()));
    all.push(match source {
        Source::Host(_) => (format!("place of {name}"), "host".to_owned()),
        Source::Device(place) => (
            format!("strides of {name}"),
            format!("{:?}", place.view.strides.as_slice()),
        ),
    });
}

fn layout(place: &Place) -> String {
    let (sizes, strides) = (place.view.sizes.as_slice(), place.view.strides.as_slice());
    format!("{} {sizes:?} of strides {strides:?}", place.element)
}

fn storages(slots: &[Slot]) -> String {
    let mut text = String::new();
    for slot in slots {
        let (element, dims) = slot.base();
        let _ = write!(
            text,
            "{}{element}{:?}",
            if text.is_empty() { "" } else { ", " },
            dims.as_slice()
        );
    }
    text
}

fn value(arg: &Arg) -> String {
    match arg {
        Arg::Int(v) => v.to_string(),
        Arg::Float(v) => v.to_string(),
        Arg::Bool(v) => v.to_string(),
        Arg::Complex(re, im) => format!("{re}+{im}j"),
        Arg::Ints(v) => format!("{v:?}"),
        Arg::Floats(v) => format!("{v:?}"),
        Arg::Bools(v) => format!("{v:?}"),
        Arg::Str(v) => format!("{v:?}"),
        Arg::Dtype(v) => v.to_string(),
        Arg::None | Arg::Tensor(_) | Arg::Tensors(_) | Arg::Scalar(_) | Arg::Scalars(_) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(list: &[(&str, &str)]) -> Parts {
        list.iter()
            .map(|(n, v)| ((*n).to_owned(), (*v).to_owned()))
            .collect()
    }

    #[test]
    fn what_differs_is_named() {
        let before = parts(&[("sizes of self", "[2]"), ("dtype of self", "f32"), ("dim", "0")]);
        let after = parts(&[
            ("sizes of self", "[3]"),
            ("dtype of self", "f32"),
            ("keepdim", "true"),
        ]);
        assert_eq!(
            differences(&before, &after),
            [
                "sizes of self: [2] -> [3]",
                "keepdim: absent -> true",
                "dim: 0 -> absent"
            ]
        );
        assert!(differences(&before, &before).is_empty());
        let all = [
            "sizes of self: [2] -> [3]",
            "strides of self: [1] -> [2]",
            "storages: f32[2] -> f32[3]",
        ];
        let all = all.map(str::to_owned).to_vec();
        assert_eq!(telling(all.clone()), all[..1]);
        assert_eq!(telling(all[1..].to_vec()), all[1..2]);
        assert_eq!(telling(all[2..].to_vec()), all[2..]);
    }
}
