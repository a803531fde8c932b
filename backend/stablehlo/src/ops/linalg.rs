//! cholesky, triangular_solve, fft.

use super::enumeration;
use crate::attribute::Props;
use crate::check::{Kinds, Operand};
use crate::{Dim, Dims, ElementType, FunctionBuilder, Result, Value};

enumeration! {
    /// How `triangular_solve` reads `a`.
    TransposeKind {
        /// As it is.
        NoTranspose = "NO_TRANSPOSE",
        /// Transposed.
        Transpose = "TRANSPOSE",
        /// Transposed and conjugated.
        Adjoint = "ADJOINT",
    }
}

enumeration! {
    /// Which Fourier transform.
    FftType {
        /// Complex, forward.
        Fft = "FFT",
        /// Complex, inverse.
        Ifft = "IFFT",
        /// Real to complex.
        Rfft = "RFFT",
        /// Complex to real.
        Irfft = "IRFFT",
    }
}

fn square(o: &Operand<'_>) -> Result<()> {
    o.kinds(Kinds::FLOAT.or(Kinds::COMPLEX))?;
    let square = match o.dims {
        [.., a, b] => a.merge(*b).is_some(),
        _ => false,
    };
    o.require(square, || "the last two dimensions must be equal".into())
}

impl FunctionBuilder<'_> {
    /// The Cholesky factor of each matrix.
    pub fn cholesky(&mut self, a: Value, lower: bool) -> Result<Value> {
        const OP: &str = "stablehlo.cholesky";
        let o = self.operand(OP, 0, "a", a)?;
        square(&o)?;
        self.emit(OP, &[a], &Props::new().raw("lower", lower), o.ty)
    }

    /// Solves `op(a) x = b` (or `x op(a) = b` when not `left_side`) for triangular `a`.
    pub fn triangular_solve(
        &mut self,
        a: Value,
        b: Value,
        left_side: bool,
        lower: bool,
        unit_diagonal: bool,
        transpose_a: TransposeKind,
    ) -> Result<Value> {
        const OP: &str = "stablehlo.triangular_solve";
        let x = self.operand(OP, 0, "a", a)?;
        let y = self.operand(OP, 1, "b", b)?;
        square(&x)?;
        y.same_element(&x)?;
        y.ranked(x.rank())?;
        let n = x.rank();
        for i in 0..n - 2 {
            y.require(x.dims[i].merge(y.dims[i]).is_some(), || {
                format!("batch dimension {i} must equal that of operand 0 `a` ({})", x.ty)
            })?;
        }
        let axis = if left_side { n - 2 } else { n - 1 };
        y.require(y.dims[axis].merge(x.dims[n - 1]).is_some(), || {
            format!("dimension {axis} must equal the size of operand 0 `a` ({})", x.ty)
        })?;
        let props = Props::new()
            .raw("left_side", left_side)
            .raw("lower", lower)
            .raw("unit_diagonal", unit_diagonal)
            .enumeration("transpose_a", "transpose", transpose_a.mlir());
        self.emit(OP, &[a, b], &props, y.ty)
    }

    /// Fourier transform over the last one to three dimensions.
    pub fn fft(&mut self, operand: Value, fft_type: FftType, fft_length: &[i64]) -> Result<Value> {
        const OP: &str = "stablehlo.fft";
        let o = self.operand(OP, 0, "operand", operand)?;
        let count = fft_length.len();
        o.require((1..=3).contains(&count) && count <= o.rank(), || {
            format!("fft_length = {fft_length:?} must have 1 to 3 entries and no more than the rank")
        })?;
        o.require(fft_length.iter().all(|&n| n >= 0), || {
            format!("fft_length = {fft_length:?} must not be negative")
        })?;
        let element = match (fft_type, o.element) {
            (FftType::Rfft, ElementType::F32) => ElementType::C64,
            (FftType::Rfft, ElementType::F64) => ElementType::C128,
            (FftType::Rfft, _) => return Err(o.fault("the element type must be f32 or f64 for RFFT")),
            (FftType::Irfft, e) if e.is_complex() => e.real(),
            (FftType::Fft | FftType::Ifft, e) if e.is_complex() => e,
            _ => {
                return Err(o.fault(format!(
                    "the element type must be complex for {}",
                    fft_type.mlir()
                )));
            }
        };
        let first = o.rank() - count;
        let half = |n: i64| if n > 0 { n / 2 + 1 } else { 0 };
        let mut dims = Dims::from_slice(o.dims);
        for (i, &n) in fft_length.iter().enumerate() {
            let last = i + 1 == count;
            let want = if last && fft_type == FftType::Irfft {
                half(n)
            } else {
                n
            };
            o.require(o.dims[first + i].merge(Dim::Static(want)).is_some(), || {
                format!("dimension {} must be {want} for fft_length {n}", first + i)
            })?;
            if last {
                match fft_type {
                    FftType::Rfft => dims[first + i] = Dim::Static(half(n)),
                    FftType::Irfft => dims[first + i] = Dim::Static(n),
                    FftType::Fft | FftType::Ifft => {}
                }
            }
        }
        let ty = self.result(&dims, element);
        let props = Props::new()
            .enumeration("fft_type", "fft_type", fft_type.mlir())
            .i64s("fft_length", fft_length);
        self.emit(OP, &[operand], &props, ty)
    }
}
