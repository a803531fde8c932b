//! What is known of an operator: its schema, its entry of the table, where its results go.

use aten::OpDef;
use glue_abi::SchemaKind;

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
    pub(crate) def: &'static OpDef,
    pub(crate) schema: Schema,
    pub(crate) dynamic: Vec<bool>,
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
    pub(crate) fn targets(&self) -> Vec<TargetOf> {
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

/// Where a result comes to lie.
pub(crate) enum TargetOf {
    Return,
    Argument(usize),
}
