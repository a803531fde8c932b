//! Types of values: tensors (static, bounded and unbounded dimensions), tokens, tuples, futures.

use std::fmt;

use bumpalo::Bump;
use dtype::ElementType;
use smallvec::SmallVec;

use crate::{Error, Result};

/// One dimension of a tensor.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum Dim {
    /// Known.
    Static(i64),
    /// Known at run time, at most this.
    Bounded(i64),
    /// Known at run time.
    Dynamic,
}

/// Dimensions on the stack.
pub type Dims = SmallVec<[Dim; 6]>;

impl Dim {
    /// The size when known.
    pub const fn size(self) -> Option<i64> {
        match self {
            Self::Static(n) => Some(n),
            _ => None,
        }
    }

    /// The size, or its bound.
    pub const fn limit(self) -> Option<i64> {
        match self {
            Self::Static(n) | Self::Bounded(n) => Some(n),
            Self::Dynamic => None,
        }
    }

    /// The most that is known when both describe the same dimension; `None` when they contradict.
    pub fn merge(self, other: Self) -> Option<Self> {
        use Dim::{Bounded, Dynamic, Static};
        Some(match (self, other) {
            (Static(a), Static(b)) if a == b => self,
            (Static(_), Static(_)) => return None,
            (Static(a), Bounded(b)) | (Bounded(b), Static(a)) if a <= b => Static(a),
            (Static(_), Bounded(_)) | (Bounded(_), Static(_)) => return None,
            (Bounded(a), Bounded(b)) => Bounded(a.min(b)),
            (known, Dynamic) | (Dynamic, known) => known,
        })
    }

    /// Applies a size formula, keeping the kind of dimension.
    pub(crate) fn try_map(self, f: impl FnOnce(i128) -> Option<i64>) -> Option<Self> {
        Some(match self {
            Self::Static(n) => Self::Static(f(i128::from(n))?),
            Self::Bounded(n) => Self::Bounded(f(i128::from(n))?),
            Self::Dynamic => Self::Dynamic,
        })
    }
}

impl From<i64> for Dim {
    fn from(n: i64) -> Self {
        Self::Static(n)
    }
}

/// Something that names the dimensions of a tensor: `[2, 3]`, a slice of `i64` or of [`Dim`].
pub trait Shape {
    /// The dimensions.
    fn to_dims(&self) -> Dims;
}

impl Shape for [i64] {
    fn to_dims(&self) -> Dims {
        self.iter().map(|&n| Dim::Static(n)).collect()
    }
}

impl Shape for [Dim] {
    fn to_dims(&self) -> Dims {
        self.iter().copied().collect()
    }
}

impl<T, const N: usize> Shape for [T; N]
where
    [T]: Shape,
{
    fn to_dims(&self) -> Dims {
        self.as_slice().to_dims()
    }
}

impl<T> Shape for Vec<T>
where
    [T]: Shape,
{
    fn to_dims(&self) -> Dims {
        self.as_slice().to_dims()
    }
}

/// How a quantized tensor's integers stand for reals.
#[derive(Copy, Clone, PartialEq, Debug)]
pub struct Quantization<'a> {
    /// The type of the reals.
    pub expressed: ElementType,
    /// The quantized dimension; `None` for one scale for the whole tensor.
    pub axis: Option<i64>,
    /// One scale, or one for each index of `axis`.
    pub scales: &'a [f64],
    /// As many as `scales`.
    pub zero_points: &'a [i64],
}

/// The type of a tensor.
#[derive(Copy, Clone, PartialEq, Debug)]
pub struct TensorType<'a> {
    /// The dimensions.
    pub dims: &'a [Dim],
    /// The element type; the storage type of a quantized tensor.
    pub element: ElementType,
    /// Set for a quantized tensor.
    pub quant: Option<&'a Quantization<'a>>,
}

impl<'a> TensorType<'a> {
    /// A tensor type in `arena`.
    ///
    /// ```
    /// use stablehlo::{Arena, TensorType, Dim, ElementType::F32};
    /// let arena = Arena::new();
    /// let t = TensorType::new(&arena, &[2, 3], F32)?;
    /// assert_eq!(t.to_string(), "tensor<2x3xf32>");
    /// let t = TensorType::new(&arena, &[Dim::Bounded(5), Dim::Static(3)], F32)?;
    /// assert_eq!(t.to_string(), "tensor<?x3xf32, #stablehlo.bounds<5, ?>>");
    /// # Ok::<(), stablehlo::Error>(())
    /// ```
    pub fn new(arena: &'a Bump, dims: &(impl Shape + ?Sized), element: ElementType) -> Result<Self> {
        let ty = Self {
            dims: arena.alloc_slice_copy(&dims.to_dims()),
            element,
            quant: None,
        };
        ty.check("tensor type")?;
        Ok(ty)
    }

    /// The number of dimensions.
    pub const fn rank(&self) -> usize {
        self.dims.len()
    }

    /// Every size, when all are known.
    pub fn sizes(&self) -> Option<SmallVec<[i64; 6]>> {
        self.dims.iter().map(|d| d.size()).collect()
    }

    /// Whether every size is known.
    pub fn is_static(&self) -> bool {
        self.dims.iter().all(|d| d.size().is_some())
    }

    /// The number of elements (at the bounds), when no dimension is unbounded.
    pub fn limit_count(&self) -> Option<i64> {
        self.dims.iter().map(|d| d.limit()).product()
    }

    /// The same shape with another element type.
    pub(crate) const fn with_element(self, element: ElementType) -> Self {
        Self {
            dims: self.dims,
            element,
            quant: None,
        }
    }

    /// Refuses types that XLA lacks, negative sizes, and sizes whose bytes do not fit in an `i64`.
    pub(crate) fn check(&self, op: &str) -> Result<()> {
        if !self.element.is_xla() {
            return Err(Error::new(op, format!("StableHLO has no type {}", self.element)));
        }
        if let Some(bad) = self.dims.iter().find(|d| d.limit().is_some_and(|n| n < 0)) {
            let n = bad.limit().unwrap_or_default();
            return Err(Error::new(
                op,
                format!("a dimension must not be negative, got {n} in {self}"),
            ));
        }
        // Sizes of zero do not count: XLA multiplies the others first, and aborts when that overflows.
        let bytes = self
            .dims
            .iter()
            .filter_map(|d| d.limit())
            .filter(|&n| n != 0)
            .try_fold(self.element.host_bytes() as i64, i64::checked_mul);
        if bytes.is_none() {
            return Err(Error::new(
                op,
                format!("the size of {self} in bytes does not fit in 63 bits"),
            ));
        }
        Ok(())
    }
}

/// The type of a value.
#[derive(Copy, Clone, PartialEq, Debug)]
pub enum Type<'a> {
    /// A tensor.
    Tensor(TensorType<'a>),
    /// Orders side effects.
    Token,
    /// Several values as one.
    Tuple(&'a [Type<'a>]),
    /// What `async_start` gives and `async_done` waits for.
    Future(TensorType<'a>),
}

impl<'a> Type<'a> {
    /// The tensor type, when it is one.
    pub const fn tensor(self) -> Option<TensorType<'a>> {
        match self {
            Self::Tensor(t) => Some(t),
            _ => None,
        }
    }

    pub(crate) fn check(&self, op: &str) -> Result<()> {
        match self {
            Self::Tensor(t) => t.check(op),
            Self::Token => Ok(()),
            Self::Tuple(parts) => parts.iter().try_for_each(|t| t.check(op)),
            Self::Future(t) if op == "stablehlo.async_start" => t.check(op),
            Self::Future(_) => Err(Error::new(
                op,
                format!("only async_start gives a future, got {self}"),
            )),
        }
    }
}

impl<'a> From<TensorType<'a>> for Type<'a> {
    fn from(t: TensorType<'a>) -> Self {
        Self::Tensor(t)
    }
}

impl fmt::Display for Quantization<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, ":{}", self.expressed)?;
        if let Some(axis) = self.axis {
            write!(f, ":{axis}")?;
        }
        f.write_str(", ")?;
        if self.axis.is_some() {
            f.write_str("{")?;
        }
        for (i, (scale, zero)) in self.scales.iter().zip(self.zero_points).enumerate() {
            if i > 0 {
                f.write_str(", ")?;
            }
            // MLIR reads no exponent without a fraction, and `{:?}` may print one.
            f.write_str(&crate::literal::decimal(*scale))?;
            if *zero != 0 {
                write!(f, ":{zero}")?;
            }
        }
        if self.axis.is_some() {
            f.write_str("}")?;
        }
        Ok(())
    }
}

impl fmt::Display for TensorType<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("tensor<")?;
        let mut bounded = false;
        for d in self.dims {
            match d {
                Dim::Static(n) => write!(f, "{n}x")?,
                Dim::Bounded(_) => {
                    bounded = true;
                    f.write_str("?x")?;
                }
                Dim::Dynamic => f.write_str("?x")?,
            }
        }
        match self.quant {
            None => f.write_str(self.element.mlir())?,
            Some(q) => write!(f, "!quant.uniform<{}{q}>", storage(self.element))?,
        }
        if bounded {
            f.write_str(", #stablehlo.bounds<")?;
            for (i, d) in self.dims.iter().enumerate() {
                if i > 0 {
                    f.write_str(", ")?;
                }
                match d {
                    Dim::Bounded(n) => write!(f, "{n}")?,
                    _ => f.write_str("?")?,
                }
            }
            f.write_str(">")?;
        }
        f.write_str(">")
    }
}

/// The quant dialect spells unsigned storage `u8`, not `ui8`.
fn storage(element: ElementType) -> &'static str {
    match element {
        ElementType::U8 => "u8",
        ElementType::U16 => "u16",
        ElementType::U4 => "u4",
        other => other.mlir(),
    }
}

impl fmt::Display for Type<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tensor(t) => t.fmt(f),
            Self::Token => f.write_str("!stablehlo.token"),
            Self::Future(t) => write!(f, "!stablehlo.future<{t}>"),
            Self::Tuple(parts) => {
                f.write_str("tuple<")?;
                for (i, t) in parts.iter().enumerate() {
                    if i > 0 {
                        f.write_str(", ")?;
                    }
                    t.fmt(f)?;
                }
                f.write_str(">")
            }
        }
    }
}
