//! convolution.

use super::dot::{Precision, precision_config};
use super::window::WindowDim;
use crate::attribute::{Matrix, Props};
use crate::check::{Kinds, Operand, ensure, promotable};
use crate::{Dim, Dims, ElementType, FunctionBuilder, Result, Value};

/// Which dimension is what in `convolution`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ConvolutionDimensions {
    /// Batch dimension of the input.
    pub input_batch: i64,
    /// Feature dimension of the input.
    pub input_feature: i64,
    /// Spatial dimensions of the input.
    pub input_spatial: Vec<i64>,
    /// Input-feature dimension of the kernel.
    pub kernel_input_feature: i64,
    /// Output-feature dimension of the kernel.
    pub kernel_output_feature: i64,
    /// Spatial dimensions of the kernel.
    pub kernel_spatial: Vec<i64>,
    /// Batch dimension of the output.
    pub output_batch: i64,
    /// Feature dimension of the output.
    pub output_feature: i64,
    /// Spatial dimensions of the output.
    pub output_spatial: Vec<i64>,
}

impl ConvolutionDimensions {
    /// torch's order: N, C, spatial; kernel O, I, spatial.
    pub fn channels_first(spatial: usize) -> Self {
        let dims: Vec<i64> = (2..spatial as i64 + 2).collect();
        Self {
            input_batch: 0,
            input_feature: 1,
            input_spatial: dims.clone(),
            kernel_input_feature: 1,
            kernel_output_feature: 0,
            kernel_spatial: dims.clone(),
            output_batch: 0,
            output_feature: 1,
            output_spatial: dims,
        }
    }

    fn text(&self) -> String {
        let side = |a: (char, i64), b: (char, i64), spatial: &[i64]| {
            let mut names = vec![String::new(); spatial.len() + 2];
            let mut put = |at: i64, name: String| {
                if let Some(slot) = usize::try_from(at).ok().and_then(|i| names.get_mut(i)) {
                    *slot = name;
                }
            };
            put(a.1, a.0.to_string());
            put(b.1, b.0.to_string());
            for (i, d) in spatial.iter().enumerate() {
                put(*d, i.to_string());
            }
            format!("[{}]", names.join(", "))
        };
        format!(
            "#stablehlo.conv<{}x{}->{}>",
            side(
                ('b', self.input_batch),
                ('f', self.input_feature),
                &self.input_spatial
            ),
            side(
                ('o', self.kernel_output_feature),
                ('i', self.kernel_input_feature),
                &self.kernel_spatial
            ),
            side(
                ('b', self.output_batch),
                ('f', self.output_feature),
                &self.output_spatial
            ),
        )
    }
}

/// Options of `convolution`. The lists have an entry for each spatial dimension.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ConvolutionOptions {
    /// How far the window moves.
    pub window_strides: Vec<i64>,
    /// Zeros before and after.
    pub padding: Vec<[i64; 2]>,
    /// The distance of the input's elements.
    pub lhs_dilation: Vec<i64>,
    /// The distance of the kernel's elements.
    pub rhs_dilation: Vec<i64>,
    /// Whether the kernel is reversed.
    pub window_reversal: Vec<bool>,
    /// Groups of features, each with its own kernels.
    pub feature_group_count: i64,
    /// Groups of the batch, each with its own kernels.
    pub batch_group_count: i64,
    /// For input and kernel.
    pub precision: [Precision; 2],
    /// The result's element type; that of the input when not set.
    pub element: Option<ElementType>,
}

impl ConvolutionOptions {
    /// Stride 1, no padding, dilation or groups.
    pub fn new(spatial: usize) -> Self {
        Self {
            window_strides: vec![1; spatial],
            padding: vec![[0, 0]; spatial],
            lhs_dilation: vec![1; spatial],
            rhs_dilation: vec![1; spatial],
            window_reversal: vec![false; spatial],
            feature_group_count: 1,
            batch_group_count: 1,
            precision: [Precision::Default; 2],
            element: None,
        }
    }

    pub(crate) fn props(&self, dimensions: &ConvolutionDimensions, padding: bool) -> Props {
        let mut props = Props::new().i64s("window_strides", &self.window_strides);
        if padding {
            props = props.raw("padding", Matrix(&self.padding, 2));
        }
        props
            .i64s("lhs_dilation", &self.lhs_dilation)
            .i64s("rhs_dilation", &self.rhs_dilation)
            .bools("window_reversal", &self.window_reversal)
            .raw("dimension_numbers", dimensions.text())
            .i64("feature_group_count", self.feature_group_count)
            .i64("batch_group_count", self.batch_group_count)
            .raw("precision_config", precision_config("stablehlo", self.precision))
    }
}

/// The result's dimensions and element type; spatial ones are unbounded when the padding is not known.
pub(crate) fn convolution_type(
    x: &Operand<'_>,
    w: &Operand<'_>,
    d: &ConvolutionDimensions,
    c: &ConvolutionOptions,
    padding_known: bool,
) -> Result<(Dims, ElementType)> {
    let op = x.op;
    let spatial = d.input_spatial.len();
    ensure(op, x.rank() == spatial + 2, || {
        format!(
            "{spatial} spatial dimensions need operands of rank {}, got {} and {}",
            spatial + 2,
            x.ty,
            w.ty
        )
    })?;
    w.ranked(x.rank())?;
    if !(x.element.is_float() && w.element.is_float()) {
        w.same_element(x)?;
    }
    let numbers = |a: i64, b: i64, s: &[i64]| [&[a, b], s].concat();
    let input = numbers(d.input_batch, d.input_feature, &d.input_spatial);
    let kernel = numbers(d.kernel_input_feature, d.kernel_output_feature, &d.kernel_spatial);
    let output = numbers(d.output_batch, d.output_feature, &d.output_spatial);
    let lengths = [
        d.kernel_spatial.len(),
        d.output_spatial.len(),
        c.window_strides.len(),
        c.padding.len(),
        c.lhs_dilation.len(),
        c.rhs_dilation.len(),
        c.window_reversal.len(),
    ];
    ensure(op, lengths.iter().all(|&n| n == spatial), || {
        format!("every list must have one entry for each of the {spatial} spatial dimensions")
    })?;
    x.axes("input dimension numbers", &input)?;
    w.axes("kernel dimension numbers", &kernel)?;
    // The output has the rank of the input, so the same check serves.
    x.axes("output dimension numbers", &output)?;
    let at = |o: &Operand<'_>, i: i64| o.dims[i as usize];
    let (fg, bg) = (c.feature_group_count, c.batch_group_count);
    ensure(op, fg > 0 && bg > 0 && (fg == 1 || bg == 1), || {
        format!("feature_group_count {fg} and batch_group_count {bg} must be positive, one of them 1")
    })?;
    let multiple = |o: &Operand<'_>, axis: i64, by: i64, what: &str| {
        o.require(at(o, axis).size().is_none_or(|n| n % by == 0), || {
            format!("dimension {axis} must be a multiple of {what} {by}")
        })
    };
    multiple(x, d.input_batch, bg, "batch_group_count")?;
    multiple(x, d.input_feature, fg, "feature_group_count")?;
    multiple(w, d.kernel_output_feature, bg, "batch_group_count")?;
    multiple(w, d.kernel_output_feature, fg, "feature_group_count")?;
    let per_group = at(x, d.input_feature).try_map(|n| i64::try_from(n / i128::from(fg)).ok());
    let fits = per_group.and_then(|n| n.merge(at(w, d.kernel_input_feature)));
    w.require(fits.is_some(), || {
        format!(
            "the input features must be those of operand 0 `lhs` ({}) divided by feature_group_count {fg}",
            x.ty
        )
    })?;
    let mut dims: Dims = x.dims.iter().map(|_| Dim::Dynamic).collect();
    dims[d.output_batch as usize] = at(x, d.input_batch)
        .try_map(|n| i64::try_from(n / i128::from(bg)).ok())
        .unwrap_or(Dim::Dynamic);
    dims[d.output_feature as usize] = at(w, d.kernel_output_feature);
    for i in 0..spatial {
        let axis = d.input_spatial[i];
        let size = at(w, d.kernel_spatial[i]).size().ok_or_else(|| {
            w.fault(format!(
                "spatial dimension {} must be static",
                d.kernel_spatial[i]
            ))
        })?;
        let window = WindowDim {
            size,
            stride: c.window_strides[i],
            padding: c.padding[i],
            base_dilation: c.lhs_dilation[i],
            window_dilation: c.rhs_dilation[i],
        };
        // The one number that may be zero here is the window's size, a dimension of the kernel.
        WindowDim {
            size: size.max(1),
            ..window
        }
        .check(x, axis as usize)?;
        if padding_known {
            dims[d.output_spatial[i] as usize] =
                at(x, axis).try_map(|n| window.positions(n)).ok_or_else(|| {
                    x.fault(format!(
                        "dimension {axis}: the padded size must be 0 or more and fit in 63 bits"
                    ))
                })?;
        }
    }
    let element = c.element.unwrap_or(x.element);
    for o in [x, w] {
        o.kinds(Kinds::INT.or(Kinds::FLOAT).or(Kinds::COMPLEX))?;
        o.require(promotable(o.element, element), || {
            format!("cannot be accumulated in {element}")
        })?;
    }
    Ok((dims, element))
}

impl FunctionBuilder<'_> {
    /// Slides the kernel `rhs` over the input `lhs`.
    pub fn convolution(
        &mut self,
        lhs: Value,
        rhs: Value,
        dimensions: &ConvolutionDimensions,
        options: &ConvolutionOptions,
    ) -> Result<Value> {
        const OP: &str = "stablehlo.convolution";
        let x = self.operand(OP, 0, "lhs", lhs)?;
        let w = self.operand(OP, 1, "rhs", rhs)?;
        let (dims, element) = convolution_type(&x, &w, dimensions, options, true)?;
        let ty = self.result(&dims, element);
        self.emit(OP, &[lhs, rhs], &options.props(dimensions, true), ty)
    }
}
