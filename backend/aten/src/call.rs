//! One call of an op, as its lowering sees it: metadata only, no data.

use dtype::ElementType;
use smallvec::SmallVec;

use crate::OpDef;

/// Sizes of a tensor.
pub type Dims = SmallVec<[i64; 6]>;

/// What is known of a tensor argument.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TensorMeta {
    /// Sizes.
    pub dims: Dims,
    /// Element type.
    pub element: ElementType,
    /// A Python number in disguise: weaker in type promotion.
    pub wrapped: bool,
    /// Dense and row-major, for the few ops whose results depend on it.
    pub contiguous: bool,
}

/// What a result must be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OutMeta {
    /// Sizes.
    pub dims: Dims,
    /// Element type.
    pub element: ElementType,
}

/// The kind of a number, which is part of the signature where its value is not.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum ScalarKind {
    /// `True`, `False`.
    Bool,
    /// `int`.
    Int,
    /// `float`.
    Float,
    /// `complex`.
    Complex,
}

impl ScalarKind {
    /// The type of the program input that carries it.
    pub const fn element(self) -> ElementType {
        match self {
            Self::Bool => ElementType::Pred,
            Self::Int => ElementType::S64,
            Self::Float => ElementType::F64,
            Self::Complex => ElementType::C128,
        }
    }
}

/// A number that is a program input.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct ScalarRef {
    /// Position among the call's scalars.
    pub index: u32,
    /// Its kind.
    pub kind: ScalarKind,
    /// Whether it is nearer to 0 than a half is, where that is known.
    pub small: Option<bool>,
}

/// An argument.
#[derive(Clone, PartialEq, Debug)]
pub enum Arg {
    /// Not given.
    None,
    /// Position among the call's tensors.
    Tensor(u32),
    /// Positions among the call's tensors.
    Tensors(Vec<Option<u32>>),
    /// A number that is an input of the program.
    Scalar(ScalarRef),
    /// Several of them.
    Scalars(Vec<ScalarRef>),
    /// `int`; also memory formats.
    Int(i64),
    /// A number that shapes the program.
    Float(f64),
    /// `bool`.
    Bool(bool),
    /// A number that shapes the program.
    Complex(f64, f64),
    /// `int[]`.
    Ints(Vec<i64>),
    /// `float[]`.
    Floats(Vec<f64>),
    /// `bool[]`.
    Bools(Vec<bool>),
    /// `str`.
    Str(String),
    /// A dtype.
    Dtype(ElementType),
}

/// One call of an op.
#[derive(Clone, Debug)]
pub struct Call {
    /// The op.
    pub op: &'static OpDef,
    /// The overload that was called: `aten::add.out`.
    pub name: String,
    /// Arguments by schema name.
    pub args: Vec<(String, Arg)>,
    /// All tensors of all arguments.
    pub tensors: Vec<TensorMeta>,
    /// All numbers that are inputs.
    pub scalars: Vec<ScalarKind>,
    /// What the results must be: the returns, then what is written besides. `None`: undefined, not wanted.
    pub outs: Vec<Option<OutMeta>>,
    /// What [`OpDef::sizes`] computed, for ops whose result sizes depend on data.
    pub sizes: Vec<i64>,
}

impl Call {
    /// The argument of this name, unless it is absent or `None`.
    pub fn arg(&self, name: &str) -> Option<&Arg> {
        let found = self.args.iter().find(|(n, _)| n == name);
        found.map(|(_, a)| a).filter(|a| **a != Arg::None)
    }
}
