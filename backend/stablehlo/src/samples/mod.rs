//! At least one whole program for each op, for tests that hand them to real compilers, with what each compiler is known to refuse.

mod chlo;
mod collectives;
mod control;
mod deprecated;
mod elementwise;
mod indexing;
mod linear;
mod reductions;
mod refused;
mod refused_ops;
mod shapes;

use crate::{
    Arena, Argument, Dim, Dims, ElementType, Error, FunctionBuilder, Module, Result, TensorType, Value,
};

/// A compiler.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum Target {
    /// XLA's CPU plugin at PJRT API 0.106.
    Cpu106,
    /// XLA's CPU plugin at PJRT API 0.115.
    Cpu115,
    /// libtpu 0.0.52, for a TPU v6e.
    V6e,
}

impl Target {
    /// Every target.
    pub const ALL: [Self; 3] = [Self::Cpu106, Self::Cpu115, Self::V6e];
}

/// How a compiler refuses a program, in its own words, shortened.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum Refusal {
    /// It returns this error.
    Error(&'static str),
    /// It aborts the process, so never hand it this program outside a child process.
    Aborts(&'static str),
    /// It aborts the process by whichever of these checks one of its threads reaches first.
    AbortsByAny(&'static [&'static str]),
}

/// A program that uses an op.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sample {
    /// The op: `stablehlo.add`.
    pub op: &'static str,
    /// What is particular about this program: a dtype, an attribute.
    pub variant: String,
    /// MLIR text with a function `@main`.
    pub program: String,
    /// The replicas to compile for.
    pub replicas: i32,
    /// The partitions to compile for; more than one needs the compile option `use_spmd_partitioning`.
    pub partitions: i32,
    /// Who refuses it, and why.
    pub refused: Vec<(Target, Refusal)>,
}

impl Sample {
    /// Why this target refuses it; `None` when it compiles.
    pub fn refusal(&self, target: Target) -> Option<Refusal> {
        self.refused
            .iter()
            .find(|(t, _)| *t == target)
            .map(|(_, why)| *why)
    }
}

/// Every sample, in a fixed order.
pub fn samples() -> Result<Vec<Sample>> {
    let mut all = Samples {
        list: Vec::new(),
        devices: (1, 1),
    };
    elementwise::add(&mut all)?;
    shapes::add(&mut all)?;
    indexing::add(&mut all)?;
    reductions::add(&mut all)?;
    chlo::add(&mut all)?;
    linear::add(&mut all)?;
    control::add(&mut all)?;
    collectives::add(&mut all)?;
    deprecated::add(&mut all)?;
    Ok(all.list)
}

/// The samples made so far.
struct Samples {
    list: Vec<Sample>,
    devices: (i32, i32),
}

impl Samples {
    /// Adds a program whose `@main` takes these types, such as `"2x3xf32 i32"`.
    fn add<B>(&mut self, op: &'static str, variant: impl Into<String>, arguments: &str, body: B) -> Result<()>
    where
        B: for<'a> FnOnce(&mut FunctionBuilder<'a>, &[Value]) -> Result<Vec<Value>>,
    {
        self.add_module(op, variant, |m, arena| {
            let arguments = arguments
                .split_whitespace()
                .map(|text| Ok(Argument::from(parse(arena, text)?)))
                .collect::<Result<Vec<_>>>()?;
            m.function("main", &arguments, body)
        })
    }

    /// Adds a program made as a whole.
    fn add_module<B>(&mut self, op: &'static str, variant: impl Into<String>, build: B) -> Result<()>
    where
        B: for<'a> FnOnce(&mut Module<'a>, &'a Arena) -> Result<()>,
    {
        let arena = Arena::new();
        let mut m = Module::new(&arena, "sample");
        let (replicas, partitions) = self.devices;
        if self.devices != (1, 1) {
            m.devices(replicas, partitions);
        }
        build(&mut m, &arena)?;
        let variant = variant.into();
        let refused = refused::find(op, &variant);
        self.list.push(Sample {
            op,
            variant,
            program: m.text(),
            replicas,
            partitions,
            refused,
        });
        Ok(())
    }
}

/// A tensor type from `2x<=5x?xf32`.
fn parse<'a>(arena: &'a Arena, text: &str) -> Result<TensorType<'a>> {
    let bad = || Error::new("sample", format!("{text:?} is no tensor type"));
    let mut dims = Dims::new();
    let mut rest = text;
    loop {
        if let Some(element) = ElementType::from_mlir(rest) {
            return TensorType::new(arena, dims.as_slice(), element);
        }
        let (dim, more) = rest.split_once('x').ok_or_else(bad)?;
        dims.push(match dim.strip_prefix("<=") {
            Some(bound) => Dim::Bounded(bound.parse().map_err(|_| bad())?),
            None if dim == "?" => Dim::Dynamic,
            None => Dim::Static(dim.parse().map_err(|_| bad())?),
        });
        rest = more;
    }
}

/// Makes the first dimension bounded, its size the second argument.
fn bounded(f: &mut FunctionBuilder<'_>, a: &[Value]) -> Result<Value> {
    f.set_dimension_size(a[0], a[1], 0)
}

/// Element types with wider ones that a region may combine them in.
const WIDER: [(&str, ElementType); 2] = [("bf16", ElementType::F32), ("i8", ElementType::S32)];

/// The sum of two scalars, as a region.
fn sum(f: &mut FunctionBuilder<'_>, e: &[Value]) -> Result<Vec<Value>> {
    Ok(vec![f.add(e[0], e[1])?])
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::{refused, samples};

    #[test]
    fn every_sample_builds_twice_to_the_same_text() {
        let all = samples().unwrap();
        assert_eq!(all, samples().unwrap());
        let names: HashSet<_> = all.iter().map(|s| (s.op, s.variant.clone())).collect();
        assert_eq!(names.len(), all.len(), "two samples have the same name");
        for s in &all {
            assert!(
                s.program.contains(&format!("\"{}\"(", s.op)),
                "{} {}",
                s.op,
                s.variant
            );
        }
    }

    /// The operations of the specification and of chlo, so that a new method does not go unsampled.
    #[test]
    fn every_op_of_the_builder_has_a_sample() {
        let sampled: HashSet<_> = samples().unwrap().into_iter().map(|s| s.op.to_owned()).collect();
        let sources = concat!(
            include_str!("../ops/asynchronous.rs"),
            include_str!("../ops/chlo.rs"),
            include_str!("../ops/chlo_broadcast.rs"),
            include_str!("../ops/chlo_structured.rs"),
            include_str!("../ops/collective.rs"),
            include_str!("../ops/compare.rs"),
            include_str!("../ops/constant.rs"),
            include_str!("../ops/control.rs"),
            include_str!("../ops/convert.rs"),
            include_str!("../ops/convolution.rs"),
            include_str!("../ops/custom_call.rs"),
            include_str!("../ops/deprecated.rs"),
            include_str!("../ops/dot.rs"),
            include_str!("../ops/dynamic.rs"),
            include_str!("../ops/einsum.rs"),
            include_str!("../ops/elementwise.rs"),
            include_str!("../ops/gather.rs"),
            include_str!("../ops/io.rs"),
            include_str!("../ops/linalg.rs"),
            include_str!("../ops/normalization.rs"),
            include_str!("../ops/quantization.rs"),
            include_str!("../ops/random.rs"),
            include_str!("../ops/reduce.rs"),
            include_str!("../ops/scatter.rs"),
            include_str!("../ops/shape.rs"),
            include_str!("../ops/slice.rs"),
            include_str!("../ops/sort.rs"),
            include_str!("../ops/tuple.rs"),
            include_str!("../ops/window.rs"),
        );
        let mut count = 0;
        for name in sources.split('"').filter(|t| {
            ["stablehlo.", "chlo.", "func."].iter().any(|d| {
                t.strip_prefix(d).is_some_and(|op| {
                    !op.is_empty()
                        && op
                            .bytes()
                            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'))
                })
            })
        }) {
            count += 1;
            assert!(sampled.contains(name), "no sample of {name}");
        }
        assert!(count > 150, "found only {count} op names in the sources");
    }

    #[test]
    fn every_refusal_is_of_a_sample() {
        let all = samples().unwrap();
        for (op, variant, _, _) in refused::rows() {
            assert!(
                all.iter()
                    .any(|s| s.op == *op && (s.variant == *variant || *variant == refused::EVERY)),
                "{op} {variant}"
            );
        }
    }
}
