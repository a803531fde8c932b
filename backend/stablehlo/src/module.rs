//! A module: attributes, foreign text, functions.

use rustc_hash::FxHashMap;

use crate::attribute::Attribute;
use crate::builder::{FunctionBuilder, Op};
use crate::{Arena, Error, Result, Type, Value};

/// What a call needs to know of a function.
#[derive(Clone, Debug)]
pub(crate) struct Signature<'a> {
    pub(crate) arguments: &'a [Type<'a>],
    pub(crate) results: &'a [Type<'a>],
}

/// An argument of a function: its type and attributes.
#[derive(Clone, PartialEq, Debug)]
pub struct Argument<'a> {
    /// The type.
    pub ty: Type<'a>,
    /// Attributes, printed in the order given.
    pub attributes: Vec<(String, Attribute)>,
}

impl<'a> Argument<'a> {
    /// An argument without attributes.
    pub fn new(ty: impl Into<Type<'a>>) -> Self {
        Self {
            ty: ty.into(),
            attributes: Vec::new(),
        }
    }

    /// Adds any attribute.
    #[must_use]
    pub fn attribute(mut self, name: impl Into<String>, value: Attribute) -> Self {
        self.attributes.push((name.into(), value));
        self
    }

    /// The argument's buffer becomes that of this result (`tf.aliasing_output`).
    #[must_use]
    pub fn aliasing_output(self, result: i32) -> Self {
        self.attribute("tf.aliasing_output", Attribute::I32(result))
    }

    /// The argument's buffer may become that of any result (`jax.buffer_donor`).
    #[must_use]
    pub fn donated(self) -> Self {
        self.attribute("jax.buffer_donor", Attribute::Bool(true))
    }

    /// How the argument lies over the devices (`mhlo.sharding`).
    #[must_use]
    pub fn sharding(self, text: impl Into<String>) -> Self {
        self.attribute("mhlo.sharding", Attribute::string(text))
    }
}

impl<'a, T: Into<Type<'a>>> From<T> for Argument<'a> {
    fn from(ty: T) -> Self {
        Self::new(ty)
    }
}

pub(crate) struct Function<'a> {
    pub(crate) name: &'a str,
    pub(crate) private: bool,
    pub(crate) arguments: Vec<Argument<'a>>,
    pub(crate) values: Vec<Type<'a>>,
    pub(crate) ops: &'a [Op<'a>],
    pub(crate) results: &'a [Value],
    pub(crate) result_attributes: Vec<Vec<(String, Attribute)>>,
}

/// A StableHLO module under construction.
///
/// ```
/// use stablehlo::{Arena, ElementType::F32, Module, TensorType};
/// let arena = Arena::new();
/// let mut m = Module::new(&arena, "double");
/// let x = TensorType::new(&arena, &[4], F32)?;
/// m.function("main", &[x.into()], |f, args| Ok(vec![f.add(args[0], args[0])?]))?;
/// assert_eq!(
///     m.to_string(),
///     r#"module @double {
///   func.func public @main(%0: tensor<4xf32>) -> (tensor<4xf32>) {
///     %1 = "stablehlo.add"(%0, %0) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
///     "func.return"(%1) : (tensor<4xf32>) -> ()
///   }
/// }
/// "#
/// );
/// # Ok::<(), stablehlo::Error>(())
/// ```
pub struct Module<'a> {
    arena: &'a Arena,
    pub(crate) name: String,
    pub(crate) attributes: Vec<(String, Attribute)>,
    pub(crate) foreign: Vec<String>,
    pub(crate) functions: Vec<Function<'a>>,
    signatures: FxHashMap<&'a str, Signature<'a>>,
}

impl<'a> Module<'a> {
    /// An empty module. Everything it holds lives in `arena`.
    pub fn new(arena: &'a Arena, name: impl Into<String>) -> Self {
        Self {
            arena,
            name: name.into(),
            attributes: Vec::new(),
            foreign: Vec::new(),
            functions: Vec::new(),
            signatures: FxHashMap::default(),
        }
    }

    /// Sets an attribute of the module, such as `mhlo.num_partitions`.
    pub fn attribute(&mut self, name: impl Into<String>, value: Attribute) {
        self.attributes.push((name.into(), value));
    }

    /// Sets `mhlo.num_replicas` and `mhlo.num_partitions`.
    pub fn devices(&mut self, replicas: i32, partitions: i32) {
        self.attribute("mhlo.num_replicas", Attribute::I32(replicas));
        self.attribute("mhlo.num_partitions", Attribute::I32(partitions));
    }

    /// Adds top-level MLIR text as it stands, such as `sdy.mesh @mesh = <["x"=4]>`.
    pub fn foreign(&mut self, text: impl Into<String>) {
        self.foreign.push(text.into());
    }

    /// Adds a public function; its body returns the results.
    pub fn function<F>(&mut self, name: &str, arguments: &[Argument<'a>], body: F) -> Result<()>
    where
        F: FnOnce(&mut FunctionBuilder<'a>, &[Value]) -> Result<Vec<Value>>,
    {
        self.add(name, false, arguments, body)
    }

    /// Adds a private function, for calls, composites and custom calls.
    pub fn private_function<F>(&mut self, name: &str, arguments: &[Argument<'a>], body: F) -> Result<()>
    where
        F: FnOnce(&mut FunctionBuilder<'a>, &[Value]) -> Result<Vec<Value>>,
    {
        self.add(name, true, arguments, body)
    }

    fn add<F>(&mut self, name: &str, private: bool, arguments: &[Argument<'a>], body: F) -> Result<()>
    where
        F: FnOnce(&mut FunctionBuilder<'a>, &[Value]) -> Result<Vec<Value>>,
    {
        const OP: &str = "func.func";
        if self.signatures.contains_key(name) {
            return Err(Error::new(OP, format!("there is already a function @{name}")));
        }
        let types = self.arena.alloc_slice_fill_iter(arguments.iter().map(|a| a.ty));
        for ty in types.iter() {
            ty.check(OP)?;
        }
        // The builder borrows the signatures for the time of the body.
        let signatures = std::mem::take(&mut self.signatures);
        let mut f = FunctionBuilder::new(self.arena, self.functions.len() as u32, signatures);
        let finished = f.function_body(types, body);
        let FunctionBuilder {
            signatures,
            values,
            result_attributes,
            ..
        } = f;
        self.signatures = signatures;
        let (ops, results) = finished?;
        let values: Vec<Type<'a>> = values.into_iter().map(|v| v.ty).collect();
        for (index, alias) in arguments
            .iter()
            .flat_map(|a| &a.attributes)
            .filter_map(|(k, v)| match v {
                Attribute::I32(n) if k == "tf.aliasing_output" => Some((*n, k)),
                _ => None,
            })
        {
            if usize::try_from(index).map_or(true, |i| i >= results.len()) {
                return Err(Error::new(
                    OP,
                    format!(
                        "@{name}: {alias} = {index}, but there are {} results",
                        results.len()
                    ),
                ));
            }
        }
        if let Some((index, _)) = result_attributes.iter().find(|(i, _)| *i >= results.len()) {
            return Err(Error::new(
                OP,
                format!(
                    "@{name}: attribute on result {index}, but there are {} results",
                    results.len()
                ),
            ));
        }
        let mut per_result = vec![Vec::new(); results.len()];
        for (i, attribute) in result_attributes {
            per_result[i].push(attribute);
        }
        let name: &'a str = self.arena.alloc_str(name);
        let result_types = self
            .arena
            .alloc_slice_fill_iter(results.iter().map(|v| values[v.index as usize]));
        self.signatures.insert(
            name,
            Signature {
                arguments: types,
                results: result_types,
            },
        );
        self.functions.push(Function {
            name,
            private,
            arguments: arguments.to_vec(),
            values,
            ops,
            results,
            result_attributes: per_result,
        });
        Ok(())
    }
}
