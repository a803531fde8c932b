//! constant and iota.

use crate::attribute::Props;
use crate::check::{Kinds, ensure};
use crate::literal::{self, Element, Number};
use crate::{ElementType, Error, FunctionBuilder, Result, Shape, TensorType, Value};

const OP: &str = "stablehlo.constant";

impl<'a> FunctionBuilder<'a> {
    /// A constant from its elements in row-major order.
    ///
    /// ```
    /// # use stablehlo::{Arena, Module};
    /// # let arena = Arena::new();
    /// # let mut m = Module::new(&arena, "m");
    /// m.function("main", &[], |f, _| Ok(vec![f.constant(&[2], &[1.5f32, f32::INFINITY])?]))?;
    /// assert!(m.to_string().contains("dense<[1.5, 0x7F800000]> : tensor<2xf32>"));
    /// # Ok::<(), stablehlo::Error>(())
    /// ```
    pub fn constant<T: Element>(&mut self, dims: &(impl Shape + ?Sized), values: &[T]) -> Result<Value> {
        let ty = self.tensor(dims, T::TYPE)?;
        let mut bytes = Vec::with_capacity(values.len() * T::TYPE.host_bytes());
        values.iter().for_each(|v| v.write(&mut bytes));
        self.constant_bytes(ty, &bytes)
    }

    /// A scalar constant.
    pub fn scalar<T: Element>(&mut self, value: T) -> Result<Value> {
        self.constant::<T>(&[0i64; 0], &[value])
    }

    /// A constant from host memory: little-endian, row-major, a byte for each sub-byte element.
    pub fn constant_bytes(&mut self, ty: TensorType<'a>, bytes: &[u8]) -> Result<Value> {
        self.dense(OP, ty, bytes)
    }

    /// A constant by either of the ops that make one.
    pub(crate) fn dense(&mut self, op: &'static str, ty: TensorType<'a>, bytes: &[u8]) -> Result<Value> {
        ensure(op, ty.quant.is_none(), || {
            format!("{ty}: quantize a constant with uniform_quantize")
        })?;
        let sizes = static_sizes(op, &ty)?;
        let expected = ty
            .limit_count()
            .and_then(|n| n.checked_mul(ty.element.host_bytes() as i64));
        ensure(op, expected == i64::try_from(bytes.len()).ok(), || {
            format!(
                "{ty} takes {} bytes, got {}",
                expected.unwrap_or_default(),
                bytes.len()
            )
        })?;
        literal::check_bytes(ty.element, bytes).map_err(|e| Error::new(op, e))?;
        let text = literal::dense(ty.element, &sizes, bytes);
        self.emit(
            op,
            &[],
            &Props::new().raw("value", format_args!("{text} : {ty}")),
            ty,
        )
    }

    /// A constant with every element the same number, written in the element type.
    pub fn full(
        &mut self,
        dims: &(impl Shape + ?Sized),
        element: ElementType,
        value: impl Into<Number>,
    ) -> Result<Value> {
        let ty = self.tensor(dims, element)?;
        static_sizes(OP, &ty)?;
        let one = value.into().to_bytes(element).map_err(|e| Error::new(OP, e))?;
        let text = if ty.limit_count() == Some(0) {
            "dense<>".to_owned()
        } else {
            literal::dense(element, &[], &one)
        };
        self.emit(
            OP,
            &[],
            &Props::new().raw("value", format_args!("{text} : {ty}")),
            ty,
        )
    }

    /// Counts from zero along one dimension.
    pub fn iota(
        &mut self,
        dims: &(impl Shape + ?Sized),
        element: ElementType,
        iota_dimension: i64,
    ) -> Result<Value> {
        const OP: &str = "stablehlo.iota";
        let ty = self.tensor(dims, element)?;
        static_sizes(OP, &ty)?;
        ensure(
            OP,
            iota_dimension >= 0 && iota_dimension < ty.rank() as i64,
            || format!("iota_dimension = {iota_dimension} must be a dimension of {ty}"),
        )?;
        let kinds = Kinds::INT.or(Kinds::FLOAT).or(Kinds::COMPLEX);
        ensure(OP, kinds.has(element), || {
            format!("the element type of {ty} must be {kinds}")
        })?;
        self.emit(OP, &[], &Props::new().i64("iota_dimension", iota_dimension), ty)
    }
}

fn static_sizes(op: &str, ty: &TensorType<'_>) -> Result<smallvec::SmallVec<[i64; 6]>> {
    ty.sizes()
        .ok_or_else(|| Error::new(op, format!("{ty} must have static dimensions")))
}
