//! reduce_window and select_and_scatter.

use crate::attribute::{Matrix, Props};
use crate::check::{Operand, ensure};
use crate::{Dims, ElementType, FunctionBuilder, Result, Type, Value};

/// A window over every dimension of an operand.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Window {
    /// The window's size.
    pub dimensions: Vec<i64>,
    /// How far it moves.
    pub strides: Vec<i64>,
    /// The distance of the operand's elements, the gaps filled with the initial value.
    pub base_dilations: Vec<i64>,
    /// The distance of the window's elements.
    pub window_dilations: Vec<i64>,
    /// Elements added (or, where negative, cut) before and after.
    pub padding: Vec<[i64; 2]>,
}

impl Window {
    /// A window that moves by one, without dilation or padding.
    pub fn new(dimensions: &[i64]) -> Self {
        let ones = vec![1; dimensions.len()];
        Self {
            dimensions: dimensions.to_vec(),
            strides: ones.clone(),
            base_dilations: ones.clone(),
            window_dilations: ones,
            padding: vec![[0, 0]; dimensions.len()],
        }
    }
}

/// One dimension of a window.
pub(crate) struct WindowDim {
    pub(crate) size: i64,
    pub(crate) stride: i64,
    pub(crate) padding: [i64; 2],
    pub(crate) base_dilation: i64,
    pub(crate) window_dilation: i64,
}

impl WindowDim {
    /// How many positions the window has over `size` elements.
    pub(crate) fn positions(&self, size: i128) -> Option<i64> {
        let dilated = if size > 0 {
            (size - 1) * i128::from(self.base_dilation) + 1
        } else {
            0
        };
        let padded = dilated + i128::from(self.padding[0]) + i128::from(self.padding[1]);
        if padded < 0 {
            return None;
        }
        let window = if self.size > 0 {
            (i128::from(self.size) - 1) * i128::from(self.window_dilation) + 1
        } else {
            0
        };
        if padded == 0 || window > padded {
            return Some(0);
        }
        i64::try_from((padded - window) / i128::from(self.stride) + 1).ok()
    }

    /// Positive sizes, strides and dilations.
    pub(crate) fn check(&self, o: &Operand<'_>, axis: usize) -> Result<()> {
        let parts = [
            ("window size", self.size),
            ("stride", self.stride),
            ("base dilation", self.base_dilation),
            ("window dilation", self.window_dilation),
        ];
        for (name, value) in parts {
            o.require(value > 0, || {
                format!("dimension {axis}: the {name} {value} must be positive")
            })?;
        }
        Ok(())
    }
}

fn window_dims(o: &Operand<'_>, w: &Window) -> Result<Dims> {
    o.per_dim("window_dimensions", &w.dimensions)?;
    o.per_dim("window_strides", &w.strides)?;
    o.per_dim("base_dilations", &w.base_dilations)?;
    o.per_dim("window_dilations", &w.window_dilations)?;
    o.require(w.padding.len() == o.rank(), || {
        format!("padding has {} rows, must have one a dimension", w.padding.len())
    })?;
    (0..o.rank())
        .map(|i| {
            let dim = WindowDim {
                size: w.dimensions[i],
                stride: w.strides[i],
                padding: w.padding[i],
                base_dilation: w.base_dilations[i],
                window_dilation: w.window_dilations[i],
            };
            dim.check(o, i)?;
            o.dims[i].try_map(|n| dim.positions(n)).ok_or_else(|| {
                o.fault(format!(
                    "dimension {i}: the padded size must be 0 or more and fit in 63 bits"
                ))
            })
        })
        .collect()
}

impl<'a> FunctionBuilder<'a> {
    /// Combines the elements under each position of a window by `body` (accumulators, then elements, as scalars).
    pub fn reduce_window<F>(
        &mut self,
        inputs: &[Value],
        init_values: &[Value],
        window: &Window,
        body: F,
    ) -> Result<Vec<Value>>
    where
        F: FnOnce(&mut Self, &[Value]) -> Result<Vec<Value>>,
    {
        const OP: &str = "stablehlo.reduce_window";
        let (first, scalars) = self.reduction(OP, inputs, init_values)?;
        let dims = window_dims(&first, window)?;
        let region = self.combiner(OP, "body", &scalars, body)?;
        let results: Vec<Type<'a>> = scalars
            .iter()
            .map(|s| self.result(&dims, s.element).into())
            .collect();
        let props = Props::new()
            .i64s("window_dimensions", &window.dimensions)
            .i64s("window_strides", &window.strides)
            .i64s("base_dilations", &window.base_dilations)
            .i64s("window_dilations", &window.window_dilations)
            .raw("padding", Matrix(&window.padding, 2));
        let all = [inputs, init_values].concat();
        self.emit_many(OP, &all, &props, &[region], &results)
    }

    /// `reduce_window` in wider types, one an input: inputs and initial values are converted first.
    pub fn reduce_window_as<F>(
        &mut self,
        inputs: &[Value],
        init_values: &[Value],
        accumulators: &[ElementType],
        window: &Window,
        body: F,
    ) -> Result<Vec<Value>>
    where
        F: FnOnce(&mut Self, &[Value]) -> Result<Vec<Value>>,
    {
        const OP: &str = "stablehlo.reduce_window";
        self.reduction(OP, inputs, init_values)?;
        let wide = self.widened(OP, 0, "inputs", inputs, accumulators)?;
        let inits = self.widened(OP, inputs.len(), "init_values", init_values, accumulators)?;
        self.reduce_window(&wide, &inits, window, body)
    }

    /// For each position of a window, `select` chooses an element of `operand`; `scatter` combines `source` there.
    pub fn select_and_scatter<S, F>(
        &mut self,
        operand: Value,
        source: Value,
        init_value: Value,
        window: &Window,
        select: S,
        scatter: F,
    ) -> Result<Value>
    where
        S: FnOnce(&mut Self, &[Value]) -> Result<Vec<Value>>,
        F: FnOnce(&mut Self, &[Value]) -> Result<Vec<Value>>,
    {
        const OP: &str = "stablehlo.select_and_scatter";
        let o = self.operand(OP, 0, "operand", operand)?;
        let s = self.operand(OP, 1, "source", source)?;
        let init = self.operand(OP, 2, "init_value", init_value)?;
        s.same_element(&o)?;
        init.same_element(&o)?;
        init.ranked(0)?;
        let undilated = |d: &[i64]| d.iter().all(|&n| n == 1);
        ensure(
            OP,
            undilated(&window.base_dilations) && undilated(&window.window_dilations),
            || "the window must not be dilated".into(),
        )?;
        let positions = window_dims(&o, window)?;
        s.require(crate::check::merge_dims(s.dims, &positions).is_some(), || {
            format!(
                "must have one element for each window position, {}",
                self.result(&positions, o.element)
            )
        })?;
        let scalar: Type<'a> = init.ty.into();
        let pred: Type<'a> = self.result(&[], ElementType::Pred).into();
        let first = self.typed_region(OP, "select", true, &[scalar, scalar], &[pred], select)?;
        let second = self.combiner(OP, "scatter", &[init.ty], scatter)?;
        let props = Props::new()
            .i64s("window_dimensions", &window.dimensions)
            .i64s("window_strides", &window.strides)
            .raw("padding", Matrix(&window.padding, 2));
        let results = self.emit_many(
            OP,
            &[operand, source, init_value],
            &props,
            &[first, second],
            &[o.ty.into()],
        )?;
        Ok(results[0])
    }
    /// `select_and_scatter` in a wider type: operand, source and initial value are converted first.
    #[expect(clippy::too_many_arguments, reason = "the op's own operands and attributes")]
    pub fn select_and_scatter_as<S, F>(
        &mut self,
        operand: Value,
        source: Value,
        init_value: Value,
        accumulator: ElementType,
        window: &Window,
        select: S,
        scatter: F,
    ) -> Result<Value>
    where
        S: FnOnce(&mut Self, &[Value]) -> Result<Vec<Value>>,
        F: FnOnce(&mut Self, &[Value]) -> Result<Vec<Value>>,
    {
        const OP: &str = "stablehlo.select_and_scatter";
        let narrow = [operand, source, init_value];
        let wide = self.widened(OP, 0, "operand", &narrow, &[accumulator; 3])?;
        self.select_and_scatter(wide[0], wide[1], wide[2], window, select, scatter)
    }
}
