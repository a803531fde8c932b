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
    pub(crate) numbers: Vec<Numbers>,
}

/// What a program makes of an argument's number.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Numbers {
    /// A constant.
    Constant,
    /// An input, so that another value is not another program.
    Input,
    /// An input, but for 1: `alpha` and `beta` are that in nearly every call, and an input has its price in each
    /// and in each program (a TPU computes far slower where a fused loop takes more than eight).
    InputUnlessOne,
    /// An input, and a constant of it whether it is nearer to 0 than a half is: `lerp` starts from the nearer end.
    InputBySize,
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
        let kinds = [SchemaKind::Scalar, SchemaKind::Float, SchemaKind::Scalars];
        let of = |a: &SchemaEntry| match a.name.as_str() {
            name if !kinds.contains(&a.kind) || def.is_static(name) => Numbers::Constant,
            "alpha" | "beta" => Numbers::InputUnlessOne,
            "value" if def.name.contains("addc") => Numbers::InputUnlessOne,
            "weight" if def.name.ends_with("lerp") => Numbers::InputBySize,
            _ => Numbers::Input,
        };
        let numbers = schema.arguments.iter().map(of).collect();
        Self { def, schema, numbers }
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
