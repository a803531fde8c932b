//! dot_general.

use super::enumeration;
use super::gather::without;
use crate::attribute::{List, Props};
use crate::check::{Kinds, Operand, ensure, promotable};
use crate::{Dims, ElementType, FunctionBuilder, Result, Value};

enumeration! {
    /// How precisely an operand is read.
    Precision {
        /// As fast as the target can.
        Default = "DEFAULT",
        /// Between.
        High = "HIGH",
        /// As precise as the element type.
        Highest = "HIGHEST",
    }
}

/// `precision_config` for two operands, in the words of a dialect.
pub(crate) fn precision_config(dialect: &str, precision: [Precision; 2]) -> String {
    format!(
        "[#{dialect}<precision {}>, #{dialect}<precision {}>]",
        precision[0].mlir(),
        precision[1].mlir()
    )
}

/// The dimension numbers of `dot_general`.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct DotDimensions {
    /// Batching dimensions of lhs.
    pub lhs_batching: Vec<i64>,
    /// Batching dimensions of rhs.
    pub rhs_batching: Vec<i64>,
    /// Contracted dimensions of lhs.
    pub lhs_contracting: Vec<i64>,
    /// Contracted dimensions of rhs.
    pub rhs_contracting: Vec<i64>,
}

impl DotDimensions {
    /// A matrix product: the last dimension of a rank-2 lhs with the first of rhs.
    pub fn matmul() -> Self {
        Self {
            lhs_contracting: vec![1],
            rhs_contracting: vec![0],
            ..Self::default()
        }
    }
}

/// How a dot is computed, exactly (`#stablehlo.dot_algorithm`).
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub struct DotAlgorithm {
    /// The type lhs is rounded to; `tf32` has no element type, so this is MLIR's name.
    pub lhs_precision_type: &'static str,
    /// The type rhs is rounded to.
    pub rhs_precision_type: &'static str,
    /// The type of the sums.
    pub accumulation_type: &'static str,
    /// Parts lhs is split in.
    pub lhs_component_count: i64,
    /// Parts rhs is split in.
    pub rhs_component_count: i64,
    /// Products of parts.
    pub num_primitive_operations: i64,
    /// Whether sums may be less precise than their type.
    pub allow_imprecise_accumulation: bool,
}

impl DotAlgorithm {
    /// One product of values rounded to `precision`, summed in `accumulation`.
    pub const fn simple(precision: &'static str, accumulation: &'static str) -> Self {
        Self {
            lhs_precision_type: precision,
            rhs_precision_type: precision,
            accumulation_type: accumulation,
            lhs_component_count: 1,
            rhs_component_count: 1,
            num_primitive_operations: 1,
            allow_imprecise_accumulation: false,
        }
    }

    /// f32 in bf16 parts, three products.
    pub const BF16_BF16_F32_X3: Self = Self {
        num_primitive_operations: 3,
        ..Self::simple("bf16", "f32")
    };

    /// f32 in bf16 parts, six products.
    pub const BF16_BF16_F32_X6: Self = Self {
        num_primitive_operations: 6,
        ..Self::simple("bf16", "f32")
    };

    /// Whether it is one of those that StableHLO lets programs ask for.
    fn is_known(&self) -> bool {
        let narrow = |t: &str| t.starts_with("f8") && ElementType::from_mlir(t).is_some();
        let counts = (self.lhs_component_count, self.rhs_component_count);
        if counts != (1, 1) {
            return false;
        }
        let n = self.num_primitive_operations;
        match (
            self.lhs_precision_type,
            self.rhs_precision_type,
            self.accumulation_type,
        ) {
            (l, r, "f32") if narrow(l) && narrow(r) => n == 1,
            _ if self.allow_imprecise_accumulation => false,
            ("f16", "f16", "f16" | "f32") | ("bf16", "bf16", "bf16") => n == 1,
            ("bf16", "bf16", "f32") => matches!(n, 1 | 3 | 6 | 9),
            ("tf32", "tf32", "f32") => matches!(n, 1 | 3),
            ("f32", "f32", "f32") | ("f64", "f64", "f64") => n == 1,
            _ => false,
        }
    }
}

/// Options of `dot_general`.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub struct DotOptions {
    /// For lhs and rhs.
    pub precision: [Precision; 2],
    /// Instead of a precision.
    pub algorithm: Option<DotAlgorithm>,
    /// The result's element type; that of lhs when not set.
    pub element: Option<ElementType>,
}

impl Default for DotOptions {
    fn default() -> Self {
        Self {
            precision: [Precision::Default; 2],
            algorithm: None,
            element: None,
        }
    }
}

/// The result's dimensions: batching ones, what is left of lhs, what is left of rhs without `rhs_group`.
pub(crate) fn dot_dims(
    l: &Operand<'_>,
    r: &Operand<'_>,
    d: &DotDimensions,
    rhs_group: Option<i64>,
) -> Result<Dims> {
    ensure(l.op, d.lhs_batching.len() == d.rhs_batching.len(), || {
        format!(
            "lhs_batching_dimensions {:?} and rhs_batching_dimensions {:?} must have the same length",
            d.lhs_batching, d.rhs_batching
        )
    })?;
    ensure(l.op, d.lhs_contracting.len() == d.rhs_contracting.len(), || {
        format!(
            "lhs_contracting_dimensions {:?} and rhs_contracting_dimensions {:?} must have the same length",
            d.lhs_contracting, d.rhs_contracting
        )
    })?;
    let what = "batching and contracting dimensions";
    let left = l.axes(what, &[&*d.lhs_batching, &d.lhs_contracting].concat())?;
    let right = r.axes(what, &[&*d.rhs_batching, &d.rhs_contracting].concat())?;
    let mut dims = Dims::new();
    for (n, (&i, &j)) in left.iter().zip(&right).enumerate() {
        let merged = l.dims[i].merge(r.dims[j]).ok_or_else(|| {
            r.fault(format!(
                "dimension {j} must equal dimension {i} of operand 0 `lhs` ({})",
                l.ty
            ))
        })?;
        if n < d.lhs_batching.len() {
            dims.push(merged);
        }
    }
    dims.extend(without(l.dims, &d.lhs_batching, &d.lhs_contracting));
    let mut dropped = d.rhs_contracting.clone();
    dropped.extend(rhs_group);
    dims.extend(without(r.dims, &d.rhs_batching, &dropped));
    Ok(dims)
}

/// The result's element type: that of lhs, or the one asked for, in which both must accumulate.
pub(crate) fn dot_element(
    l: &Operand<'_>,
    r: &Operand<'_>,
    wanted: Option<ElementType>,
) -> Result<ElementType> {
    // Float types may mix (f8 with f8 of another kind, bf16 with f32), as XLA allows.
    if !(l.element.is_float() && r.element.is_float()) {
        r.same_element(l)?;
    }
    let element = wanted.unwrap_or(l.element);
    for o in [l, r] {
        o.require(promotable(o.element, element), || {
            format!("cannot be accumulated in {element}")
        })?;
    }
    Ok(element)
}

impl FunctionBuilder<'_> {
    /// Products of lhs and rhs summed over the contracted dimensions. The result has the batching dimensions, what is
    /// left of lhs, what is left of rhs.
    pub fn dot_general(
        &mut self,
        lhs: Value,
        rhs: Value,
        dimensions: &DotDimensions,
        options: &DotOptions,
    ) -> Result<Value> {
        const OP: &str = "stablehlo.dot_general";
        let l = self.operand(OP, 0, "lhs", lhs)?;
        let r = self.operand(OP, 1, "rhs", rhs)?;
        let d = dimensions;
        let dims = dot_dims(&l, &r, d, None)?;
        let element = dot_element(&l, &r, options.element)?;
        let mut props = Props::new()
            .raw(
                "dot_dimension_numbers",
                format_args!(
                    "#stablehlo.dot<lhs_batching_dimensions = {}, rhs_batching_dimensions = {}, \
                     lhs_contracting_dimensions = {}, rhs_contracting_dimensions = {}>",
                    List(&d.lhs_batching),
                    List(&d.rhs_batching),
                    List(&d.lhs_contracting),
                    List(&d.rhs_contracting)
                ),
            )
            .raw(
                "precision_config",
                precision_config("stablehlo", options.precision),
            );
        if let Some(a) = options.algorithm {
            l.kinds(Kinds::FLOAT)?;
            ensure(OP, options.precision == [Precision::Default; 2], || {
                "precision must be DEFAULT when there is an algorithm".into()
            })?;
            ensure(OP, a.is_known(), || {
                format!("no hardware knows the algorithm {a:?}")
            })?;
            props = props.raw(
                "algorithm",
                format_args!(
                    "#stablehlo.dot_algorithm<lhs_precision_type = {}, rhs_precision_type = {}, accumulation_type = {}, \
                     lhs_component_count = {}, rhs_component_count = {}, num_primitive_operations = {}, \
                     allow_imprecise_accumulation = {}>",
                    a.lhs_precision_type,
                    a.rhs_precision_type,
                    a.accumulation_type,
                    a.lhs_component_count,
                    a.rhs_component_count,
                    a.num_primitive_operations,
                    a.allow_imprecise_accumulation
                ),
            );
        }
        let ty = self.result(&dims, element);
        self.emit(OP, &[lhs, rhs], &props, ty)
    }
}
