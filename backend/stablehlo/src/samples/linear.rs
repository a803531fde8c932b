//! dot_general, convolution, factorizations, Fourier transforms, random numbers.

use super::{Samples, bounded};
use crate::ops::{
    ConvolutionDimensions, ConvolutionOptions, DotAlgorithm, DotDimensions, DotOptions, FftType, Precision,
    RngAlgorithm, RngDistribution, TransposeKind,
};
use crate::{ElementType, Result};

pub(super) fn add(s: &mut Samples) -> Result<()> {
    dots(s)?;
    convolutions(s)?;
    for ty in ["f32", "f64", "complex<f32>"] {
        s.add("stablehlo.cholesky", ty, &format!("2x3x3x{ty}"), |f, a| {
            Ok(vec![f.cholesky(a[0], true)?])
        })?;
    }
    for &kind in TransposeKind::ALL {
        s.add(
            "stablehlo.triangular_solve",
            kind.mlir(),
            "2x3x3xf32 2x3x4xf32",
            |f, a| Ok(vec![f.triangular_solve(a[0], a[1], true, true, false, kind)?]),
        )?;
    }
    s.add(
        "stablehlo.triangular_solve",
        "right side",
        "3x3xf64 4x3xf64",
        |f, a| {
            Ok(vec![f.triangular_solve(
                a[0],
                a[1],
                false,
                false,
                true,
                TransposeKind::NoTranspose,
            )?])
        },
    )?;
    for (kind, arg) in [
        (FftType::Fft, "2x8xcomplex<f32>"),
        (FftType::Ifft, "2x8xcomplex<f32>"),
        (FftType::Rfft, "2x8xf32"),
        (FftType::Irfft, "2x5xcomplex<f32>"),
    ] {
        s.add("stablehlo.fft", kind.mlir(), arg, |f, a| {
            Ok(vec![f.fft(a[0], kind, &[8])?])
        })?;
    }
    s.add("stablehlo.fft", "RFFT of three dims, f64", "4x6x7xf64", |f, a| {
        Ok(vec![f.fft(a[0], FftType::Rfft, &[4, 6, 7])?])
    })?;
    for (kind, ty) in [
        (RngDistribution::Uniform, "f32"),
        (RngDistribution::Uniform, "i32"),
        (RngDistribution::Normal, "f32"),
        (RngDistribution::Normal, "bf16"),
    ] {
        s.add(
            "stablehlo.rng",
            format!("{} {ty}", kind.mlir()),
            &format!("{ty} {ty}"),
            |f, a| Ok(vec![f.rng(a[0], a[1], &[2, 3], kind)?]),
        )?;
    }
    for (algorithm, state, element) in [
        (RngAlgorithm::Default, "2xui64", ElementType::U32),
        (RngAlgorithm::ThreeFry, "2xui64", ElementType::U32),
        (RngAlgorithm::Philox, "2xui64", ElementType::U64),
        (RngAlgorithm::Philox, "3xui64", ElementType::U32),
        (RngAlgorithm::Philox, "3xui64", ElementType::U8),
        (RngAlgorithm::Philox, "3xui64", ElementType::S32),
        (RngAlgorithm::Philox, "3xui64", ElementType::F32),
    ] {
        let name = format!("{} {state} {element}", algorithm.mlir());
        s.add("stablehlo.rng_bit_generator", name, state, |f, a| {
            let (state, bits) = f.rng_bit_generator(a[0], &[2, 3], element, algorithm)?;
            Ok(vec![state, bits])
        })?;
    }
    Ok(())
}

fn dots(s: &mut Samples) -> Result<()> {
    const OP: &str = "stablehlo.dot_general";
    let matmul = DotDimensions::matmul();
    for ty in [
        "f32",
        "bf16",
        "f16",
        "f64",
        "i8",
        "i32",
        "i4",
        "i1",
        "complex<f32>",
        "f8E4M3FN",
        "f8E5M2",
    ] {
        s.add(OP, ty, &format!("4x5x{ty} 5x6x{ty}"), |f, a| {
            Ok(vec![f.dot_general(
                a[0],
                a[1],
                &matmul,
                &DotOptions::default(),
            )?])
        })?;
    }
    for (lhs, rhs, to) in [
        ("bf16", "bf16", ElementType::F32),
        ("i8", "i8", ElementType::S32),
        ("f8E4M3FN", "f8E5M2", ElementType::F32),
        ("bf16", "f32", ElementType::F32),
    ] {
        s.add(
            OP,
            format!("{lhs} {rhs} to {to}"),
            &format!("4x5x{lhs} 5x6x{rhs}"),
            |f, a| {
                let options = DotOptions {
                    element: Some(to),
                    ..DotOptions::default()
                };
                Ok(vec![f.dot_general(a[0], a[1], &matmul, &options)?])
            },
        )?;
    }
    for &p in Precision::ALL {
        s.add(OP, p.mlir(), "4x5xf32 5x6xf32", |f, a| {
            let options = DotOptions {
                precision: [p, p],
                ..DotOptions::default()
            };
            Ok(vec![f.dot_general(a[0], a[1], &matmul, &options)?])
        })?;
    }
    for (name, algorithm) in [
        ("algorithm f32", DotAlgorithm::simple("f32", "f32")),
        (
            "algorithm tf32x3",
            DotAlgorithm {
                num_primitive_operations: 3,
                ..DotAlgorithm::simple("tf32", "f32")
            },
        ),
        ("algorithm bf16", DotAlgorithm::simple("bf16", "f32")),
        (
            "algorithm bf16x9",
            DotAlgorithm {
                num_primitive_operations: 9,
                ..DotAlgorithm::simple("bf16", "f32")
            },
        ),
        ("algorithm tf32", DotAlgorithm::simple("tf32", "f32")),
        ("algorithm bf16x3", DotAlgorithm::BF16_BF16_F32_X3),
        ("algorithm bf16x6", DotAlgorithm::BF16_BF16_F32_X6),
    ] {
        s.add(OP, name, "4x5xf32 5x6xf32", |f, a| {
            let options = DotOptions {
                algorithm: Some(algorithm),
                ..DotOptions::default()
            };
            Ok(vec![f.dot_general(a[0], a[1], &matmul, &options)?])
        })?;
    }
    s.add(OP, "algorithm f8", "4x5xf8E4M3FN 5x6xf8E5M2", |f, a| {
        let algorithm = DotAlgorithm {
            rhs_precision_type: "f8E5M2",
            allow_imprecise_accumulation: true,
            ..DotAlgorithm::simple("f8E4M3FN", "f32")
        };
        let options = DotOptions {
            algorithm: Some(algorithm),
            element: Some(ElementType::F32),
            ..DotOptions::default()
        };
        Ok(vec![f.dot_general(a[0], a[1], &matmul, &options)?])
    })?;
    s.add(OP, "algorithm f64", "4x5xf64 5x6xf64", |f, a| {
        let options = DotOptions {
            algorithm: Some(DotAlgorithm::simple("f64", "f64")),
            ..DotOptions::default()
        };
        Ok(vec![f.dot_general(a[0], a[1], &matmul, &options)?])
    })?;
    s.add(OP, "batched", "2x3x4x5xf32 3x6x2x5xf32", |f, a| {
        let d = DotDimensions {
            lhs_batching: vec![0, 1],
            rhs_batching: vec![2, 0],
            lhs_contracting: vec![3],
            rhs_contracting: vec![3],
        };
        Ok(vec![f.dot_general(a[0], a[1], &d, &DotOptions::default())?])
    })?;
    s.add(OP, "outer product", "4xf32 5xf32", |f, a| {
        Ok(vec![f.dot_general(
            a[0],
            a[1],
            &DotDimensions::default(),
            &DotOptions::default(),
        )?])
    })?;
    s.add(OP, "bounded", "4x5xf32 i32 5x6xf32", |f, a| {
        let x = bounded(f, a)?;
        Ok(vec![f.dot_general(x, a[2], &matmul, &DotOptions::default())?])
    })
}

fn convolutions(s: &mut Samples) -> Result<()> {
    const OP: &str = "stablehlo.convolution";
    for ty in ["f32", "bf16", "f64", "i32", "complex<f32>"] {
        s.add(OP, ty, &format!("2x3x8x9x{ty} 4x3x3x3x{ty}"), |f, a| {
            let d = ConvolutionDimensions::channels_first(2);
            Ok(vec![f.convolution(
                a[0],
                a[1],
                &d,
                &ConvolutionOptions::new(2),
            )?])
        })?;
    }
    let d = ConvolutionDimensions {
        input_batch: 0,
        input_feature: 3,
        input_spatial: vec![1, 2],
        kernel_input_feature: 2,
        kernel_output_feature: 3,
        kernel_spatial: vec![0, 1],
        output_batch: 2,
        output_feature: 0,
        output_spatial: vec![1, 3],
    };
    s.add(OP, "every option", "2x8x9x3xf32 3x2x3x4xf32", |f, a| {
        let options = ConvolutionOptions {
            window_strides: vec![2, 1],
            padding: vec![[1, 2], [-1, 0]],
            lhs_dilation: vec![2, 1],
            rhs_dilation: vec![1, 2],
            window_reversal: vec![true, false],
            precision: [Precision::Highest; 2],
            ..ConvolutionOptions::new(2)
        };
        Ok(vec![f.convolution(a[0], a[1], &d, &options)?])
    })?;
    s.add(OP, "feature groups", "2x6x8xf32 4x3x3xf32", |f, a| {
        let d = ConvolutionDimensions::channels_first(1);
        let options = ConvolutionOptions {
            feature_group_count: 2,
            ..ConvolutionOptions::new(1)
        };
        Ok(vec![f.convolution(a[0], a[1], &d, &options)?])
    })?;
    s.add(OP, "batch groups", "4x3x8xf32 6x3x3xf32", |f, a| {
        let d = ConvolutionDimensions::channels_first(1);
        let options = ConvolutionOptions {
            batch_group_count: 2,
            ..ConvolutionOptions::new(1)
        };
        Ok(vec![f.convolution(a[0], a[1], &d, &options)?])
    })?;
    s.add(
        OP,
        "three spatial dims, to f32",
        "1x2x4x4x4xbf16 3x2x2x2x2xbf16",
        |f, a| {
            let options = ConvolutionOptions {
                element: Some(ElementType::F32),
                ..ConvolutionOptions::new(3)
            };
            Ok(vec![f.convolution(
                a[0],
                a[1],
                &ConvolutionDimensions::channels_first(3),
                &options,
            )?])
        },
    )?;
    s.add(OP, "no spatial dims", "2x3xf32 4x3xf32", |f, a| {
        let d = ConvolutionDimensions::channels_first(0);
        Ok(vec![f.convolution(
            a[0],
            a[1],
            &d,
            &ConvolutionOptions::new(0),
        )?])
    })?;
    s.add(OP, "bounded batch", "4x3x8xf32 i32 4x3x3xf32", |f, a| {
        let x = bounded(f, a)?;
        let d = ConvolutionDimensions::channels_first(1);
        Ok(vec![f.convolution(x, a[2], &d, &ConvolutionOptions::new(1))?])
    })
}
