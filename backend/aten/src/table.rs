//! The table of ops.

use std::sync::LazyLock;

use rustc_hash::FxHashMap;

use crate::{AmendFn, Call, Cx, Lowered, OutMeta, Result, Value};

/// Builds the program that computes result sizes.
pub type SizesFn = fn(&mut Cx<'_, '_>) -> Result<Vec<Value>>;
/// Gives results' metadata.
pub type ShapeFn = fn(&Call) -> Result<Vec<Option<OutMeta>>>;

/// An op: its lowering and what the runtime must know of it.
pub struct OpDef {
    /// ATen's name without namespace, in-place underscore and overload; with the overload where only that one is meant.
    pub name: &'static str,
    /// Builds the functional form.
    pub lower: fn(&mut Cx<'_, '_>) -> Lowered,
    /// `Scalar` and `float` arguments whose value shapes the program. `*` means all.
    pub statics: &'static [&'static str],
    /// Arguments that torch's kernel writes although the schema does not say so. Their values follow the results.
    pub writes: &'static [&'static str],
    /// Numbers that must fit the result's type: torch refuses to fill with others.
    pub fits: &'static [&'static str],
    /// Of a number that must fit, the type that counts is the one that elements are computed in.
    pub fits_computed: bool,
    /// Draws random numbers.
    pub random: bool,
    /// For ops whose result sizes depend on data: a first program that computes `i64` scalars, which the runtime reads.
    pub sizes: Option<SizesFn>,
    /// New results lie column by column in memory, as `nonzero`'s do; only with [`OpDef::shape`].
    pub column_major: bool,
    /// What of the metadata is not as CPU torch makes it.
    pub amend: Option<AmendFn>,
    /// Results' metadata, where torch's Meta kernel cannot give it. Sees [`Call::sizes`].
    pub shape: Option<ShapeFn>,
}

impl OpDef {
    /// An op whose numbers are all inputs.
    pub const fn new(name: &'static str, lower: fn(&mut Cx<'_, '_>) -> Lowered) -> Self {
        Self {
            name,
            lower,
            statics: &[],
            writes: &[],
            fits: &[],
            fits_computed: false,
            random: false,
            sizes: None,
            column_major: false,
            amend: None,
            shape: None,
        }
    }

    /// These numbers shape the program.
    pub const fn statics(mut self, names: &'static [&'static str]) -> Self {
        self.statics = names;
        self
    }

    /// These arguments are written without the schema saying so.
    pub const fn writes(mut self, names: &'static [&'static str]) -> Self {
        self.writes = names;
        self
    }

    /// These numbers must fit the result's type.
    pub const fn fits(mut self, names: &'static [&'static str]) -> Self {
        self.fits = names;
        self
    }

    /// As [`OpDef::fits`] for ops of torch's fill kernel, which asks it of complex halves in singles.
    pub const fn fits_computed(mut self, names: &'static [&'static str]) -> Self {
        self.fits_computed = true;
        self.fits(names)
    }

    /// Draws random numbers: [`Cx::random_bits`] may be called.
    pub const fn random(mut self) -> Self {
        self.random = true;
        self
    }

    /// Result sizes depend on data: `sizes` computes them, `shape` makes metadata of them.
    pub const fn data_dependent(mut self, sizes: SizesFn, shape: ShapeFn) -> Self {
        self.sizes = Some(sizes);
        self.shape = Some(shape);
        self
    }

    /// New results lie column by column in memory.
    pub const fn column_major(mut self) -> Self {
        self.column_major = true;
        self
    }

    /// New results' metadata, changed.
    pub const fn amend(mut self, rule: AmendFn) -> Self {
        self.amend = Some(rule);
        self
    }

    /// Metadata by this rule instead of torch's Meta kernel.
    pub const fn shape(mut self, rule: ShapeFn) -> Self {
        self.shape = Some(rule);
        self
    }

    /// Whether the value of this number shapes the program.
    pub fn is_static(&self, argument: &str) -> bool {
        self.statics.iter().any(|s| *s == argument || *s == "*")
    }
}

impl std::fmt::Debug for OpDef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

static BY_NAME: LazyLock<FxHashMap<&'static str, &'static OpDef>> =
    LazyLock::new(|| all().map(|op| (op.name, op)).collect());

/// Every op, family by family.
pub fn all() -> impl Iterator<Item = &'static OpDef> {
    crate::ops::GROUPS
        .iter()
        .flat_map(|group| group.iter().flat_map(|family| family.iter()))
}

/// The name that an op's lowering is listed by: `add_` and `__iadd__` without their in-place marks.
pub fn functional_name(name: &str) -> &str {
    if name.ends_with("__") {
        return name;
    }
    name.strip_suffix('_').unwrap_or(name)
}

/// The lowering of `name` (`add_`) with overload (`Tensor`), if there is one.
pub fn find(name: &str, overload: &str) -> Option<&'static OpDef> {
    let table = &*BY_NAME;
    let exact = |overload: &str| table.get(format!("{name}.{overload}").as_str());
    // The overload `no_stats_out` is `no_stats` that writes to what it is given.
    let functional = overload.strip_suffix("_out");
    exact(overload)
        .or_else(|| functional.and_then(exact))
        .or_else(|| table.get(name))
        .or_else(|| table.get(functional_name(name)))
        .copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_found() {
        let mut seen = std::collections::BTreeSet::new();
        for op in all() {
            assert!(seen.insert(op.name), "{} is listed twice", op.name);
        }
        assert_eq!(find("add_", "Tensor").unwrap().name, "add");
        assert!(find("no_such_op", "").is_none());
        let batch_norm = find("_native_batch_norm_legit", "no_stats_out").unwrap();
        assert_eq!(batch_norm.name, "_native_batch_norm_legit.no_stats");
        assert_eq!(functional_name("__iand__"), "__iand__");
    }
}
