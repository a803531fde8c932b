//! Checks shared by the ops: operands with their names, element kinds, shapes, axis lists.

use std::fmt;
use std::ops::Deref;

use dtype::{Class, ElementType};

use crate::builder::{FunctionBuilder, Value};
use crate::{Dim, Dims, Error, Result, TensorType};

/// A set of element classes.
#[derive(Copy, Clone, PartialEq, Eq)]
pub(crate) struct Kinds(u8);

impl Kinds {
    pub(crate) const BOOL: Self = Self(1);
    pub(crate) const SIGNED: Self = Self(2);
    pub(crate) const UNSIGNED: Self = Self(4);
    pub(crate) const FLOAT: Self = Self(8);
    pub(crate) const COMPLEX: Self = Self(16);
    pub(crate) const INT: Self = Self(6);
    pub(crate) const ANY: Self = Self(31);
    pub(crate) const FLOATING: Self = Self::FLOAT.or(Self::COMPLEX);
    pub(crate) const NUMERIC: Self = Self::INT.or(Self::FLOATING);
    pub(crate) const ORDERED: Self = Self::BOOL.or(Self::INT).or(Self::FLOAT);
    pub(crate) const BITS: Self = Self::BOOL.or(Self::INT);

    pub(crate) const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(crate) const fn has(self, element: ElementType) -> bool {
        let bit = match element.class() {
            Class::Boolean => 1,
            Class::Signed => 2,
            Class::Unsigned => 4,
            Class::Float => 8,
            Class::Complex => 16,
        };
        self.0 & bit != 0
    }
}

impl fmt::Display for Kinds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = [
            (Self::BOOL, "boolean"),
            (Self::SIGNED, "signed integer"),
            (Self::UNSIGNED, "unsigned integer"),
            (Self::FLOAT, "float"),
            (Self::COMPLEX, "complex"),
        ];
        let mut first = true;
        for (kind, name) in names {
            if self.0 & kind.0 != 0 {
                if !first {
                    f.write_str(" or ")?;
                }
                first = false;
                f.write_str(name)?;
            }
        }
        Ok(())
    }
}

/// A tensor operand of the op being built.
#[derive(Copy, Clone)]
pub(crate) struct Operand<'a> {
    pub(crate) op: &'static str,
    pub(crate) index: usize,
    pub(crate) name: &'static str,
    pub(crate) ty: TensorType<'a>,
}

impl<'a> Deref for Operand<'a> {
    type Target = TensorType<'a>;
    fn deref(&self) -> &TensorType<'a> {
        &self.ty
    }
}

impl<'a> Operand<'a> {
    /// An error about this operand.
    pub(crate) fn fault(&self, rule: impl Into<String>) -> Error {
        Error::operand(self.op, self.index, self.name, self.ty, rule)
    }

    pub(crate) fn require(&self, holds: bool, rule: impl FnOnce() -> String) -> Result<()> {
        if holds { Ok(()) } else { Err(self.fault(rule())) }
    }

    pub(crate) fn kinds(&self, kinds: Kinds) -> Result<()> {
        self.require(kinds.has(self.element), || {
            format!("the element type must be {kinds}")
        })
    }

    pub(crate) fn ranked(&self, rank: usize) -> Result<()> {
        self.require(self.rank() == rank, || format!("must have rank {rank}"))
    }

    pub(crate) fn same_element(&self, other: &Self) -> Result<()> {
        self.require(self.element == other.element, || {
            format!(
                "the element type must equal that of operand {} `{}` ({})",
                other.index, other.name, other.ty
            )
        })
    }

    /// Merges the shapes of two operands that must agree.
    pub(crate) fn merge_shape(&self, other: &Self) -> Result<Dims> {
        merge_dims(self.dims, other.dims).ok_or_else(|| {
            self.fault(format!(
                "the shape must equal that of operand {} `{}` ({})",
                other.index, other.name, other.ty
            ))
        })
    }

    /// A dimension number of this operand.
    pub(crate) fn axis(&self, what: &str, axis: i64) -> Result<usize> {
        usize::try_from(axis)
            .ok()
            .filter(|&a| a < self.rank())
            .ok_or_else(|| {
                self.fault(format!(
                    "{what} = {axis} must be at least 0 and less than the rank"
                ))
            })
    }

    /// Dimension numbers of this operand, no two the same.
    pub(crate) fn axes(&self, what: &str, axes: &[i64]) -> Result<Vec<usize>> {
        let mut seen = vec![false; self.rank()];
        axes.iter()
            .map(|&a| {
                let i = self.axis(what, a)?;
                if std::mem::replace(&mut seen[i], true) {
                    return Err(self.fault(format!("{what} = {axes:?} must not repeat a dimension")));
                }
                Ok(i)
            })
            .collect()
    }

    /// One number for each dimension.
    pub(crate) fn per_dim(&self, what: &str, values: &[i64]) -> Result<()> {
        self.require(values.len() == self.rank(), || {
            format!(
                "{what} has {} entries, must have one for each of the {} dimensions",
                values.len(),
                self.rank()
            )
        })
    }
}

/// The merged dimensions of two shapes; `None` when they contradict.
pub(crate) fn merge_dims(a: &[Dim], b: &[Dim]) -> Option<Dims> {
    if a.len() != b.len() {
        return None;
    }
    a.iter().zip(b).map(|(x, y)| x.merge(*y)).collect()
}

/// Whether values of `from` may be accumulated in `to`.
pub(crate) fn promotable(from: ElementType, to: ElementType) -> bool {
    from.class() == to.class() && from.bits() <= to.bits()
}

impl<'a> FunctionBuilder<'a> {
    /// A tensor operand, quantized or not.
    pub(crate) fn any_operand(
        &self,
        op: &'static str,
        index: usize,
        name: &'static str,
        value: Value,
    ) -> Result<Operand<'a>> {
        let ty = self.value_operand(op, index, name, value)?;
        let ty = ty
            .tensor()
            .ok_or_else(|| Error::operand(op, index, name, ty, "must be a tensor"))?;
        Ok(Operand { op, index, name, ty })
    }

    /// A tensor operand; quantized ones go through `uniform_dequantize` first.
    pub(crate) fn operand(
        &self,
        op: &'static str,
        index: usize,
        name: &'static str,
        value: Value,
    ) -> Result<Operand<'a>> {
        let o = self.any_operand(op, index, name, value)?;
        o.require(o.quant.is_none(), || {
            "must not be quantized: apply uniform_dequantize first".into()
        })?;
        Ok(o)
    }

    /// Operands of one name, numbered from `first`.
    pub(crate) fn operands(
        &self,
        op: &'static str,
        first: usize,
        name: &'static str,
        values: &[Value],
    ) -> Result<Vec<Operand<'a>>> {
        values
            .iter()
            .enumerate()
            .map(|(i, v)| self.operand(op, first + i, name, *v))
            .collect()
    }

    /// Operands of one name and one shape, at least one.
    pub(crate) fn alike(
        &self,
        op: &'static str,
        name: &'static str,
        values: &[Value],
    ) -> Result<(Operand<'a>, Vec<Operand<'a>>)> {
        let operands = self.operands(op, 0, name, values)?;
        let first = *operands
            .first()
            .ok_or_else(|| Error::new(op, "needs at least one input"))?;
        for o in &operands[1..] {
            o.merge_shape(&first)?;
        }
        Ok((first, operands))
    }

    /// Operands converted to the wider types that a region is to combine them in.
    ///
    /// StableHLO lets the region itself be wider, which means the same; but XLA (to API 0.117) refuses such a reduction,
    /// or gives the results the operands' type after all.
    pub(crate) fn widened(
        &mut self,
        op: &'static str,
        first: usize,
        name: &'static str,
        values: &[Value],
        to: &[ElementType],
    ) -> Result<Vec<Value>> {
        let operands = self.operands(op, first, name, values)?;
        ensure(op, operands.len() == to.len(), || {
            format!(
                "needs {} accumulator types, one for each of `{name}`, got {}",
                operands.len(),
                to.len()
            )
        })?;
        for (o, &to) in operands.iter().zip(to) {
            o.require(promotable(o.element, to), || {
                format!("cannot be accumulated in {to}")
            })?;
        }
        // Attributes set for `op` must not land on a conversion.
        let pending = std::mem::take(&mut self.pending);
        let converted = values
            .iter()
            .zip(operands.iter().zip(to))
            .map(|(&v, (o, &to))| {
                if o.element == to {
                    Ok(v)
                } else {
                    self.convert(v, to)
                }
            })
            .collect();
        self.pending = pending;
        converted
    }

    /// Index operands: integer scalars of one type.
    pub(crate) fn index_scalars(
        &self,
        op: &'static str,
        first: usize,
        name: &'static str,
        values: &[Value],
    ) -> Result<()> {
        let operands = self.operands(op, first, name, values)?;
        for o in &operands {
            o.ranked(0)?;
            o.kinds(Kinds::INT)?;
            o.same_element(&operands[0])?;
        }
        Ok(())
    }

    /// A token operand.
    pub(crate) fn token(
        &self,
        op: &'static str,
        index: usize,
        name: &'static str,
        value: Value,
    ) -> Result<()> {
        match self.value_operand(op, index, name, value)? {
            crate::Type::Token => Ok(()),
            other => Err(Error::operand(op, index, name, other, "must be a token")),
        }
    }

    /// A result type in the arena; its size is checked when the op is emitted.
    pub(crate) fn result(&self, dims: &[Dim], element: ElementType) -> TensorType<'a> {
        TensorType {
            dims: self.arena.alloc_slice_copy(dims),
            element,
            quant: None,
        }
    }
}

/// A broken rule of the op as a whole.
pub(crate) fn ensure(op: &str, holds: bool, rule: impl FnOnce() -> String) -> Result<()> {
    if holds {
        Ok(())
    } else {
        Err(Error::new(op, rule()))
    }
}
