//! One error type: which op, which operand, which rule.

use std::fmt;

/// The result of building.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A program that StableHLO does not allow, found before any compiler sees it.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct Error(Box<Fault>);

/// What is wrong: see [`Error`].
#[derive(Clone, PartialEq, Eq, Debug)]
struct Fault {
    op: String,
    operand: Option<OperandFault>,
    rule: String,
}

/// The operand at fault.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OperandFault {
    /// Its position among the op's operands.
    pub index: usize,
    /// Its name in the specification.
    pub name: &'static str,
    /// Its type, as printed.
    pub ty: String,
}

impl Error {
    /// A broken rule of `op` as a whole.
    pub(crate) fn new(op: &str, rule: impl Into<String>) -> Self {
        Self(Box::new(Fault {
            op: op.to_owned(),
            operand: None,
            rule: rule.into(),
        }))
    }

    /// A rule broken by one operand.
    pub(crate) fn operand(
        op: &str,
        index: usize,
        name: &'static str,
        ty: impl fmt::Display,
        rule: impl Into<String>,
    ) -> Self {
        Self(Box::new(Fault {
            op: op.to_owned(),
            operand: Some(OperandFault {
                index,
                name,
                ty: ty.to_string(),
            }),
            rule: rule.into(),
        }))
    }

    /// The op's full name: `stablehlo.add`.
    pub fn op(&self) -> &str {
        &self.0.op
    }

    /// The operand at fault, when it is one operand.
    pub fn operand_fault(&self) -> Option<&OperandFault> {
        self.0.operand.as_ref()
    }

    /// The rule that is broken, in words.
    pub fn rule(&self) -> &str {
        &self.0.rule
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.op)?;
        if let Some(o) = &self.operand {
            write!(f, "operand {} `{}` ({}): ", o.index, o.name, o.ty)?;
        }
        f.write_str(&self.rule)
    }
}
