//! custom_call.

use std::fmt::Write as _;

use crate::attribute::{Attribute, List, Props, SymbolName};
use crate::check::ensure;
use crate::{Error, FunctionBuilder, Result, Type, Value};

/// What the target of a custom call is told.
#[derive(Clone, PartialEq, Debug, Default)]
pub enum BackendConfig {
    /// Nothing.
    #[default]
    None,
    /// Text, for API versions 1 to 3.
    Text(String),
    /// Named attributes, for API version 4 (typed FFI).
    Dictionary(Vec<(String, Attribute)>),
}

/// A result (or a part of one) that shares its buffer with an operand (or a part of one).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OutputOperandAlias {
    /// The path to the result: empty for the only one, the index for one of several.
    pub output_tuple_indices: Vec<i64>,
    /// The operand.
    pub operand_index: i64,
    /// The path into the operand, when it is a tuple.
    pub operand_tuple_indices: Vec<i64>,
}

/// A call of code outside the program.
#[derive(Clone, PartialEq, Debug)]
pub struct CustomCall<'a> {
    /// The name it is registered under.
    pub target: String,
    /// The types of the results.
    pub results: Vec<Type<'a>>,
    /// Whether it must run though nobody uses its results.
    pub has_side_effect: bool,
    /// What it is told.
    pub backend_config: BackendConfig,
    /// 1 to 4.
    pub api_version: i32,
    /// Functions it may call.
    pub called_computations: Vec<String>,
    /// Minor-to-major layouts, one an operand (empty for tokens), with those of the results.
    pub operand_layouts: Option<Vec<Vec<i64>>>,
    /// Minor-to-major layouts, one a result.
    pub result_layouts: Option<Vec<Vec<i64>>>,
    /// Shared buffers.
    pub output_operand_aliases: Vec<OutputOperandAlias>,
}

impl<'a> CustomCall<'a> {
    /// A call without side effects or configuration, API version 1.
    pub fn new(target: impl Into<String>, results: Vec<Type<'a>>) -> Self {
        Self {
            target: target.into(),
            results,
            has_side_effect: false,
            backend_config: BackendConfig::None,
            api_version: 1,
            called_computations: Vec::new(),
            operand_layouts: None,
            result_layouts: None,
            output_operand_aliases: Vec::new(),
        }
    }
}

const OP: &str = "stablehlo.custom_call";

impl<'a> FunctionBuilder<'a> {
    /// Calls code outside the program.
    pub fn custom_call(&mut self, call: &CustomCall<'a>, operands: &[Value]) -> Result<Vec<Value>> {
        let types = self.types_of(OP, "inputs", operands)?;
        ensure(OP, !call.target.is_empty(), || {
            "call_target_name must not be empty".into()
        })?;
        ensure(OP, (1..=4).contains(&call.api_version), || {
            format!("api_version {} must be from 1 to 4", call.api_version)
        })?;
        let mut props = Props::new()
            .string("call_target_name", &call.target)
            .raw("has_side_effect", call.has_side_effect);
        match &call.backend_config {
            BackendConfig::None => {}
            BackendConfig::Text(text) => {
                ensure(OP, call.api_version < 4, || {
                    "api_version 4 takes a dictionary as backend_config, not text".into()
                })?;
                props = props.string("backend_config", text);
            }
            BackendConfig::Dictionary(entries) => {
                ensure(OP, call.api_version == 4, || {
                    format!(
                        "a dictionary as backend_config needs api_version 4, got {}",
                        call.api_version
                    )
                })?;
                props = props.raw("backend_config", Attribute::Dictionary(entries.clone()));
            }
        }
        props = props.i32("api_version", call.api_version);
        if !call.called_computations.is_empty() {
            let mut text = String::from("[");
            for (i, name) in call.called_computations.iter().enumerate() {
                ensure(OP, self.signatures.contains_key(name.as_str()), || {
                    format!("there is no function @{name} yet: add it before its callers")
                })?;
                // Writing to a String does not fail.
                let _ = write!(text, "{}{}", if i > 0 { ", " } else { "" }, SymbolName(name));
            }
            props = props.raw("called_computations", text + "]");
        }
        match (&call.operand_layouts, &call.result_layouts) {
            (None, None) => {}
            (Some(inputs), Some(outputs)) => {
                props = props
                    .raw("operand_layouts", layouts("operand", inputs, &types)?)
                    .raw("result_layouts", layouts("result", outputs, &call.results)?);
            }
            _ => {
                return Err(Error::new(
                    OP,
                    "operand_layouts and result_layouts go together: give both or none",
                ));
            }
        }
        if !call.output_operand_aliases.is_empty() {
            let mut text = String::from("[");
            for (i, alias) in call.output_operand_aliases.iter().enumerate() {
                check_alias(alias, &types, &call.results)?;
                let _ = write!(
                    text,
                    "{}#stablehlo.output_operand_alias<output_tuple_indices = {}, operand_index = {}, operand_tuple_indices = {}>",
                    if i > 0 { ", " } else { "" },
                    List(&alias.output_tuple_indices),
                    alias.operand_index,
                    List(&alias.operand_tuple_indices)
                );
            }
            props = props.raw("output_operand_aliases", text + "]");
        }
        self.emit_many(OP, operands, &props, &[], &call.results)
    }
}

fn check_alias(alias: &OutputOperandAlias, operands: &[Type<'_>], results: &[Type<'_>]) -> Result<()> {
    let fault = |rule: &str| Error::new(OP, format!("output_operand_aliases: {rule} ({alias:?})"));
    let operand = usize::try_from(alias.operand_index)
        .ok()
        .and_then(|i| operands.get(i))
        .ok_or_else(|| fault("operand_index must be an operand"))?;
    let operand = descend(operand, &alias.operand_tuple_indices)
        .ok_or_else(|| fault("operand_tuple_indices must lead to a tensor"))?;
    let whole;
    let root = match results {
        [only] => only,
        many => {
            whole = Type::Tuple(many);
            &whole
        }
    };
    let result = descend(root, &alias.output_tuple_indices)
        .ok_or_else(|| fault("output_tuple_indices must lead to a tensor"))?;
    if operand != result {
        return Err(fault(&format!(
            "the types must be the same, {operand} and {result} are not"
        )));
    }
    Ok(())
}

/// The tensor at a path.
fn descend<'t, 'a>(ty: &'t Type<'a>, path: &[i64]) -> Option<&'t Type<'a>> {
    match (path.split_first(), ty) {
        (None, Type::Tensor(_)) => Some(ty),
        (Some((&i, rest)), Type::Tuple(parts)) => descend(parts.get(usize::try_from(i).ok()?)?, rest),
        _ => None,
    }
}

/// `[dense<[1, 0]> : tensor<2xindex>]`.
pub(crate) fn layouts(what: &str, layouts: &[Vec<i64>], types: &[Type<'_>]) -> Result<String> {
    ensure(OP, layouts.len() == types.len(), || {
        format!(
            "{} {what} layouts for {} {what}s: give each one",
            layouts.len(),
            types.len()
        )
    })?;
    let mut text = String::from("[");
    for (i, (layout, ty)) in layouts.iter().zip(types).enumerate() {
        let rank = ty.tensor().map_or(0, |t| t.rank());
        let mut sorted = layout.clone();
        sorted.sort_unstable();
        let permutation = sorted.iter().copied().eq(0..rank as i64) && !matches!(ty, Type::Tuple(_));
        ensure(OP, permutation, || {
            format!("{what} {i} ({ty}): the layout {layout:?} must be a permutation of the dimensions")
        })?;
        let list = if layout.is_empty() {
            String::new()
        } else {
            List(layout).to_string()
        };
        let _ = write!(
            text,
            "{}dense<{list}> : tensor<{}xindex>",
            if i > 0 { ", " } else { "" },
            layout.len()
        );
    }
    Ok(text + "]")
}
