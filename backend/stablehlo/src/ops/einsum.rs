//! einsum and unary_einsum, deprecated: a letter a dimension, `...` for the rest.

use rustc_hash::FxHashMap;

use super::dot::dot_element;
use crate::attribute::Props;
use crate::check::{Operand, ensure};
use crate::{Dim, Dims, ElementType, Error, FunctionBuilder, Result, Value};

/// A dimension's label: a letter, or one of those that `...` stands for, counted from the last.
#[derive(Copy, Clone, PartialEq, Eq, Hash)]
enum Label {
    Letter(u8),
    Rest(usize),
}

/// Refuses what XLA does not read: other characters, spaces, two ellipses.
fn check_term(op: &str, config: &str, term: &str) -> Result<()> {
    let letters = term.replacen("...", "", 1);
    ensure(op, letters.bytes().all(|b| b.is_ascii_alphabetic()), || {
        format!("einsum_config {config:?}: {term:?} must be letters, with `...` at most once")
    })
}

/// The labels of a tensor of `rank` dimensions; `None` when the term does not fit it.
fn labels(term: &str, rank: usize) -> Option<Vec<Label>> {
    let letters = |text: &str| text.bytes().map(Label::Letter).collect::<Vec<_>>();
    let Some((head, tail)) = term.split_once("...") else {
        return (term.len() == rank).then(|| letters(term));
    };
    let rest = rank.checked_sub(head.len() + tail.len())?;
    let mut all = letters(head);
    all.extend((0..rest).rev().map(Label::Rest));
    all.extend(letters(tail));
    Some(all)
}

/// Gives each label of an operand its size.
fn assign(
    o: &Operand<'_>,
    config: &str,
    term: &str,
    sizes: &mut FxHashMap<Label, Dim>,
) -> Result<Vec<Label>> {
    check_term(o.op, config, term)?;
    let all = labels(term, o.rank())
        .ok_or_else(|| o.fault(format!("einsum_config {config:?}: {term:?} must fit the rank")))?;
    for (axis, label) in all.iter().enumerate() {
        let known = sizes.entry(*label).or_insert(Dim::Dynamic);
        *known = known.merge(o.dims[axis]).ok_or_else(|| {
            o.fault(format!(
                "einsum_config {config:?}: dimension {axis} must equal those of the same label"
            ))
        })?;
    }
    Ok(all)
}

/// The result's dimensions.
fn result_dims(
    op: &str,
    config: &str,
    term: &str,
    operands: &[Vec<Label>],
    sizes: &FxHashMap<Label, Dim>,
) -> Result<Dims> {
    check_term(op, config, term)?;
    let rest = |labels: &Vec<Label>| labels.iter().filter(|l| matches!(l, Label::Rest(_))).count();
    let most = operands.iter().map(rest).max().unwrap_or(0);
    let letters = term.replacen("...", "", 1).len();
    let dropped = most > 0 && letters == term.len();
    ensure(op, !dropped, || {
        format!("einsum_config {config:?}: the result needs the `...` of the operands")
    })?;
    let wanted = labels(term, letters + most).unwrap_or_default();
    let mut dims = Dims::new();
    for (i, label) in wanted.iter().enumerate() {
        ensure(op, !wanted[..i].contains(label), || {
            format!("einsum_config {config:?}: the result {term:?} must not repeat a label")
        })?;
        dims.push(*sizes.get(label).ok_or_else(|| {
            Error::new(
                op,
                format!("einsum_config {config:?}: the result {term:?} must use labels of the operands"),
            )
        })?);
    }
    Ok(dims)
}

/// The two sides of `->`.
fn arrow<'c>(op: &str, config: &'c str) -> Result<(&'c str, &'c str)> {
    config.split_once("->").ok_or_else(|| {
        Error::new(
            op,
            format!("einsum_config {config:?} must name the result after \"->\""),
        )
    })
}

impl FunctionBuilder<'_> {
    /// Products of lhs and rhs summed over labels the result lacks: `"ab,bc->ac"`. Deprecated: `dot_general`. Dimensions
    /// of one label must have one size, and `...` stands for the same dimensions everywhere.
    ///
    /// ```
    /// # use stablehlo::{Arena, ElementType::F32, Module, TensorType};
    /// # let arena = Arena::new();
    /// # let mut m = Module::new(&arena, "m");
    /// let x = TensorType::new(&arena, &[2, 3], F32)?;
    /// m.function("main", &[x.into()], |f, a| {
    ///     let y = f.einsum(a[0], a[0], "ab,cb->ca", None)?;
    ///     assert_eq!(f.ty(y)?.to_string(), "tensor<2x2xf32>");
    ///     Ok(vec![y])
    /// })?;
    /// # Ok::<(), stablehlo::Error>(())
    /// ```
    pub fn einsum(
        &mut self,
        lhs: Value,
        rhs: Value,
        einsum_config: &str,
        element: Option<ElementType>,
    ) -> Result<Value> {
        const OP: &str = "stablehlo.einsum";
        let l = self.operand(OP, 0, "lhs", lhs)?;
        let r = self.operand(OP, 1, "rhs", rhs)?;
        let (operands, result) = arrow(OP, einsum_config)?;
        let (left, right) = operands.split_once(',').ok_or_else(|| {
            Error::new(
                OP,
                format!("einsum_config {einsum_config:?} must have two operands"),
            )
        })?;
        let mut sizes = FxHashMap::default();
        let both = [
            assign(&l, einsum_config, left, &mut sizes)?,
            assign(&r, einsum_config, right, &mut sizes)?,
        ];
        let dims = result_dims(OP, einsum_config, result, &both, &sizes)?;
        let ty = self.result(&dims, dot_element(&l, &r, element)?);
        let props = Props::new().string("einsum_config", einsum_config);
        self.emit(OP, &[lhs, rhs], &props, ty)
    }

    /// Sums over labels the result lacks: `"ab->b"`. Deprecated, and no plugin compiles it: use `reduce` and `transpose`.
    pub fn unary_einsum(&mut self, operand: Value, einsum_config: &str) -> Result<Value> {
        const OP: &str = "stablehlo.unary_einsum";
        let o = self.operand(OP, 0, "operand", operand)?;
        let (term, result) = arrow(OP, einsum_config)?;
        let mut sizes = FxHashMap::default();
        let one = [assign(&o, einsum_config, term, &mut sizes)?];
        let dims = result_dims(OP, einsum_config, result, &one, &sizes)?;
        let ty = self.result(&dims, o.element);
        let props = Props::new().string("einsum_config", einsum_config);
        self.emit(OP, &[operand], &props, ty)
    }
}
