//! Elementwise ops, constants, conversions.

use super::{Samples, bounded};
use crate::ops::{CompareType, Direction, ResultAccuracy};
use crate::{Complex, ElementType, FunctionBuilder, Result, Value};

type Unary = for<'a> fn(&mut FunctionBuilder<'a>, Value) -> Result<Value>;
type Binary = for<'a> fn(&mut FunctionBuilder<'a>, Value, Value) -> Result<Value>;

macro_rules! unary {
    ($dialect:literal: $($method:ident $op:literal [$($ty:literal)*],)*) => {
        &[$((concat!($dialect, $op), (|f, x| f.$method(x)) as Unary, &[$($ty),*] as &[&str])),*]
    };
}

macro_rules! binary {
    ($dialect:literal: $($method:ident $op:literal [$($ty:literal)*],)*) => {
        &[$((concat!($dialect, $op), (|f, x, y| f.$method(x, y)) as Binary, &[$($ty),*] as &[&str])),*]
    };
}

const UNARY: &[(&str, Unary, &[&str])] = unary!["stablehlo.":
    abs "abs" ["f32" "i32" "complex<f32>" "i8"],
    cbrt "cbrt" ["f32" "f64"],
    ceil "ceil" ["f32" "bf16" "f16"],
    count_leading_zeros "count_leading_zeros" ["i32" "ui8" "i64"],
    cosine "cosine" ["f32" "f64" "complex<f32>"],
    exp2 "exp2" ["f32" "bf16" "f64" "complex<f32>"],
    exponential "exponential" ["f32" "bf16" "complex<f64>"],
    exponential_minus_one "exponential_minus_one" ["f32" "complex<f32>"],
    floor "floor" ["f32" "bf16"],
    imag "imag" ["complex<f32>" "complex<f64>" "f32"],
    is_finite "is_finite" ["f32" "bf16" "f8E5M2"],
    log "log" ["f32" "f64" "complex<f32>"],
    log2 "log2" ["f32" "bf16" "f64" "complex<f32>"],
    log_plus_one "log_plus_one" ["f32" "complex<f32>"],
    logistic "logistic" ["f32" "bf16" "complex<f32>"],
    negate "negate" ["f32" "i32" "ui32" "complex<f32>"],
    not "not" ["i1" "i32" "ui8"],
    popcnt "popcnt" ["i32" "ui64"],
    real "real" ["complex<f32>" "f64"],
    round_nearest_afz "round_nearest_afz" ["f32" "f16"],
    round_nearest_even "round_nearest_even" ["f32" "f64"],
    rsqrt "rsqrt" ["f32" "complex<f32>"],
    sign "sign" ["f32" "i32" "complex<f32>"],
    sine "sine" ["f32" "complex<f32>"],
    sqrt "sqrt" ["f32" "bf16" "complex<f32>"],
    tan "tan" ["f32" "complex<f32>"],
    tanh "tanh" ["f32" "bf16" "complex<f32>"],
];

const BINARY: &[(&str, Binary, &[&str])] = binary!["stablehlo.":
    add "add" ["f32" "bf16" "f16" "f64" "i8" "i16" "i32" "i64" "ui8" "ui16" "ui32" "ui64" "i1" "complex<f32>" "complex<f64>" "i4" "f8E4M3FN" "f8E5M2"],
    and "and" ["i1" "i32" "ui64"],
    atan2 "atan2" ["f32" "complex<f32>"],
    complex "complex" ["f32" "f64"],
    divide "divide" ["f32" "i32" "ui32" "complex<f32>"],
    maximum "maximum" ["f32" "i32" "i1" "bf16"],
    minimum "minimum" ["f32" "ui8" "i1"],
    multiply "multiply" ["f32" "i1" "complex<f32>"],
    or "or" ["i1" "ui32"],
    power "power" ["f32" "i32" "complex<f32>"],
    remainder "remainder" ["f32" "i32"],
    shift_left "shift_left" ["i32" "ui8"],
    shift_right_arithmetic "shift_right_arithmetic" ["i32"],
    shift_right_logical "shift_right_logical" ["i32" "ui64"],
    subtract "subtract" ["f32" "i64" "complex<f32>"],
    xor "xor" ["i1" "i16"],
];

const CHLO_UNARY: &[(&str, Unary, &[&str])] = unary!["chlo.":
    chlo_acos "acos" ["f32" "complex<f32>"],
    chlo_acosh "acosh" ["f32" "complex<f32>"],
    chlo_asin_acos_kernel "_asin_acos_kernel" ["complex<f32>" "complex<f64>"],
    chlo_asin "asin" ["f32" "complex<f32>"],
    chlo_asinh "asinh" ["f32" "complex<f32>"],
    chlo_atan "atan" ["f32" "complex<f32>"],
    chlo_atanh "atanh" ["f32" "complex<f32>"],
    chlo_bessel_i1e "bessel_i1e" ["f32" "f64"],
    chlo_conj "conj" ["complex<f32>" "f32"],
    chlo_cosh "cosh" ["f32" "complex<f32>"],
    chlo_digamma "digamma" ["f32" "f64"],
    chlo_erf "erf" ["f32" "bf16" "f64"],
    chlo_erf_inv "erf_inv" ["f32" "f64"],
    chlo_erfc "erfc" ["f32" "bf16"],
    chlo_is_inf "is_inf" ["f32" "bf16"],
    chlo_is_neg_inf "is_neg_inf" ["f32"],
    chlo_is_pos_inf "is_pos_inf" ["f32"],
    chlo_lgamma "lgamma" ["f32" "f64"],
    chlo_sinh "sinh" ["f32" "complex<f32>"],
    chlo_square "square" ["f32" "complex<f32>"],
    chlo_tan "tan" ["f32" "complex<f32>"],
];

const CHLO_BINARY: &[(&str, Binary, &[&str])] = binary!["chlo.":
    chlo_mulhi "mulhi" ["i32" "ui8" "i64" "ui64" "i4"],
    chlo_next_after "next_after" ["f32" "f64" "bf16"],
    chlo_polygamma "polygamma" ["f32" "f64"],
    chlo_zeta "zeta" ["f32" "f64"],
];

const BROADCASTING: &[(&str, Binary, &[&str])] = binary!["chlo.":
    chlo_broadcast_add "broadcast_add" ["f32"],
    chlo_broadcast_and "broadcast_and" ["i32"],
    chlo_broadcast_atan2 "broadcast_atan2" ["f32"],
    chlo_broadcast_complex "broadcast_complex" ["f32" "f64"],
    chlo_broadcast_divide "broadcast_divide" ["f32"],
    chlo_broadcast_maximum "broadcast_maximum" ["f32"],
    chlo_broadcast_minimum "broadcast_minimum" ["i32"],
    chlo_broadcast_multiply "broadcast_multiply" ["f32"],
    chlo_broadcast_next_after "broadcast_next_after" ["f32"],
    chlo_broadcast_or "broadcast_or" ["i1"],
    chlo_broadcast_polygamma "broadcast_polygamma" ["f32"],
    chlo_broadcast_power "broadcast_power" ["f32"],
    chlo_broadcast_remainder "broadcast_remainder" ["f32"],
    chlo_broadcast_shift_left "broadcast_shift_left" ["i32"],
    chlo_broadcast_shift_right_arithmetic "broadcast_shift_right_arithmetic" ["i32"],
    chlo_broadcast_shift_right_logical "broadcast_shift_right_logical" ["ui32"],
    chlo_broadcast_subtract "broadcast_subtract" ["f32"],
    chlo_broadcast_xor "broadcast_xor" ["i32"],
    chlo_broadcast_zeta "broadcast_zeta" ["f32"],
];

pub(super) fn add(s: &mut Samples) -> Result<()> {
    for (op, build, types) in UNARY.iter().chain(CHLO_UNARY) {
        for ty in *types {
            s.add(op, *ty, &format!("2x3x{ty}"), |f, a| Ok(vec![build(f, a[0])?]))?;
        }
    }
    for (op, build, types) in BINARY.iter().chain(CHLO_BINARY) {
        for ty in *types {
            s.add(op, *ty, &format!("2x3x{ty} 2x3x{ty}"), |f, a| {
                Ok(vec![build(f, a[0], a[1])?])
            })?;
        }
    }
    for (op, build, types) in BROADCASTING {
        for ty in *types {
            s.add(op, *ty, &format!("2x1x{ty} 3x{ty}"), |f, a| {
                Ok(vec![build(f, a[0], a[1])?])
            })?;
        }
    }
    s.add("stablehlo.add", "bounded", "4x3xf32 i32", |f, a| {
        let x = bounded(f, a)?;
        Ok(vec![f.add(x, x)?])
    })?;
    s.add("stablehlo.add", "bounded and static", "4x3xf32 i32", |f, a| {
        let x = bounded(f, a)?;
        Ok(vec![f.add(x, a[0])?])
    })?;
    s.add("stablehlo.add", "scalar", "f32 f32", |f, a| {
        Ok(vec![f.add(a[0], a[1])?])
    })?;
    s.add("stablehlo.add", "no elements", "0x4xf32 0x4xf32", |f, a| {
        Ok(vec![f.add(a[0], a[1])?])
    })?;
    s.add("stablehlo.add", "location", "4xf32", |f, a| {
        f.set_location("train \"1\".py", 12, 7);
        Ok(vec![f.add(a[0], a[0])?])
    })?;
    for ty in ["f32", "bf16", "f64"] {
        s.add(
            "stablehlo.fma",
            ty,
            &format!("2x3x{ty} 2x3x{ty} 2x3x{ty}"),
            |f, a| Ok(vec![f.fma(a[0], a[1], a[2])?]),
        )?;
    }
    accuracy(s)?;
    compare(s)?;
    constants(s)?;
    conversions(s)
}

type Accurate = for<'a> fn(&mut FunctionBuilder<'a>, Value, ResultAccuracy) -> Result<Value>;

fn accuracy(s: &mut Samples) -> Result<()> {
    let ops: &[(&str, Accurate)] = &[
        ("stablehlo.cbrt", |f, x, r| f.cbrt_with(x, r)),
        ("stablehlo.cosine", |f, x, r| f.cosine_with(x, r)),
        ("stablehlo.exp2", |f, x, r| f.exp2_with(x, r)),
        ("stablehlo.exponential", |f, x, r| f.exponential_with(x, r)),
        ("stablehlo.exponential_minus_one", |f, x, r| {
            f.exponential_minus_one_with(x, r)
        }),
        ("stablehlo.log", |f, x, r| f.log_with(x, r)),
        ("stablehlo.log2", |f, x, r| f.log2_with(x, r)),
        ("stablehlo.log_plus_one", |f, x, r| f.log_plus_one_with(x, r)),
        ("stablehlo.logistic", |f, x, r| f.logistic_with(x, r)),
        ("stablehlo.rsqrt", |f, x, r| f.rsqrt_with(x, r)),
        ("stablehlo.sine", |f, x, r| f.sine_with(x, r)),
        ("stablehlo.sqrt", |f, x, r| f.sqrt_with(x, r)),
        ("stablehlo.tan", |f, x, r| f.tan_with(x, r)),
        ("stablehlo.tanh", |f, x, r| f.tanh_with(x, r)),
    ];
    let tolerance = |of: f64, ulps: i64| ResultAccuracy::Tolerance {
        atol: of,
        rtol: of,
        ulps,
    };
    for (op, build) in ops {
        for (name, accuracy) in [
            ("highest accuracy", ResultAccuracy::Highest),
            ("wide tolerance", tolerance(1e-2, 100)),
        ] {
            s.add(op, name, "4xf32", |f, a| Ok(vec![build(f, a[0], accuracy)?]))?;
        }
    }
    // Narrower than any implementation the v6e compiler has.
    s.add("stablehlo.exponential", "narrow tolerance", "4xf32", |f, a| {
        Ok(vec![f.exponential_with(a[0], tolerance(1e-9, 0))?])
    })
}

fn compare(s: &mut Samples) -> Result<()> {
    for ty in [
        "f32",
        "bf16",
        "i32",
        "ui8",
        "i1",
        "i64",
        "complex<f32>",
        "f8E4M3FN",
    ] {
        let args = format!("4x{ty} 4x{ty}");
        s.add("stablehlo.compare", ty, &args, |f, a| {
            Ok(vec![f.compare(a[0], a[1], Direction::Eq)?])
        })?;
    }
    for &d in Direction::ALL {
        s.add("stablehlo.compare", d.mlir(), "4xf32 4xf32", |f, a| {
            Ok(vec![f.compare(a[0], a[1], d)?])
        })?;
    }
    s.add("stablehlo.compare", "TOTALORDER", "4xf32 4xf32", |f, a| {
        Ok(vec![f.compare_as(
            a[0],
            a[1],
            Direction::Lt,
            CompareType::TotalOrder,
        )?])
    })?;
    for order in [None, Some(CompareType::TotalOrder), Some(CompareType::Float)] {
        let name = order.map_or("default", CompareType::mlir);
        s.add("chlo.broadcast_compare", name, "2x1xf32 3xf32", |f, a| {
            Ok(vec![f.chlo_broadcast_compare(
                a[0],
                a[1],
                Direction::Lt,
                order,
            )?])
        })?;
    }
    for (name, args) in [
        ("three shapes", "4x2x1xi1 3xf32 1xf32"),
        ("scalar predicate", "i1 2x1xi32 3xi32"),
    ] {
        s.add("chlo.broadcast_select", name, args, |f, a| {
            Ok(vec![f.chlo_broadcast_select(a[0], a[1], a[2])?])
        })?;
    }
    s.add("stablehlo.select", "same shape", "4xi1 4xf32 4xf32", |f, a| {
        Ok(vec![f.select(a[0], a[1], a[2])?])
    })?;
    s.add(
        "stablehlo.select",
        "scalar predicate",
        "i1 4xi64 4xi64",
        |f, a| Ok(vec![f.select(a[0], a[1], a[2])?]),
    )?;
    for (name, args) in [
        ("scalars", "f32 4xf32 f32"),
        ("same shape", "4xi32 4xi32 4xi32"),
        ("i1", "i1 4xi1 i1"),
    ] {
        s.add("stablehlo.clamp", name, args, |f, a| {
            Ok(vec![f.clamp(a[0], a[1], a[2])?])
        })?;
    }
    Ok(())
}

fn constants(s: &mut Samples) -> Result<()> {
    const OP: &str = "stablehlo.constant";
    for &ty in ElementType::ALL {
        let width = ty.host_bytes();
        let bytes = |count: usize| -> Vec<u8> {
            let mask = if ty.bits() < 8 {
                (1u32 << ty.bits()) as u8 - 1
            } else {
                0x3F
            };
            let signed = ty.class() == crate::Class::Signed && ty.bits() < 8;
            (0..count * width)
                .map(|i| {
                    let b = (i * 5 + 1) as u8 & mask;
                    // A negative sub-byte value is sign-extended in its byte.
                    if signed && b >> (ty.bits() - 1) == 1 {
                        b | !mask
                    } else {
                        b
                    }
                })
                .collect()
        };
        for (kind, dims) in [("list", [2i64, 3]), ("blob", [7, 9])] {
            let count = (dims[0] * dims[1]) as usize;
            s.add(OP, format!("{kind} {ty}"), "", |f, _| {
                let t = f.tensor(&dims, ty)?;
                Ok(vec![f.constant_bytes(t, &bytes(count))?])
            })?;
        }
        s.add(OP, format!("splat {ty}"), "", |f, _| {
            Ok(vec![f.full(&[3], ty, true)?])
        })?;
    }
    s.add(OP, "special f32", "", |f, _| {
        let v = [
            f32::NAN,
            f32::INFINITY,
            f32::NEG_INFINITY,
            -0.0,
            f32::MIN_POSITIVE,
            1e-40,
            f32::MAX,
            0.1,
        ];
        Ok(vec![f.constant(&[8], &v)?])
    })?;
    s.add(OP, "special f64", "", |f, _| {
        let v = [f64::NAN, f64::INFINITY, -0.0, 1e300, 5e-324, 0.1, 1e16, 1e-7];
        Ok(vec![f.constant(&[8], &v)?])
    })?;
    s.add(OP, "special bf16 and f16", "", |f, _| {
        let b = f.constant(&[2], &[half::bf16::NAN, half::bf16::from_f32(0.1)])?;
        let h = f.constant(&[2], &[half::f16::INFINITY, half::f16::from_f32(0.1)])?;
        Ok(vec![b, h])
    })?;
    s.add(OP, "special complex", "", |f, _| {
        Ok(vec![f.constant(
            &[2],
            &[Complex(f32::NAN, -0.0), Complex(0.1, f32::INFINITY)],
        )?])
    })?;
    s.add(OP, "no elements", "", |f, _| {
        Ok(vec![f.constant::<f32>(&[2, 0, 3], &[])?])
    })?;
    s.add(OP, "integers at their limits", "", |f, _| {
        Ok(vec![
            f.constant(&[2], &[i64::MIN, i64::MAX])?,
            f.constant(&[2], &[0, u64::MAX])?,
        ])
    })?;
    for ty in ["f32", "i32", "ui8", "bf16", "complex<f32>"] {
        let element = ElementType::from_mlir(ty).unwrap_or(ElementType::F32);
        s.add("stablehlo.iota", ty, "", |f, _| {
            Ok(vec![f.iota(&[2, 3], element, 1)?])
        })?;
    }
    Ok(())
}

fn conversions(s: &mut Samples) -> Result<()> {
    const OP: &str = "stablehlo.convert";
    for &ty in ElementType::ALL {
        if !ty.is_complex() && ty != ElementType::F32 {
            s.add(OP, format!("f32 to {ty}"), "4xf32", |f, a| {
                Ok(vec![f.convert(a[0], ty)?])
            })?;
            s.add(OP, format!("{ty} to f32"), &format!("4x{ty}"), |f, a| {
                Ok(vec![f.convert(a[0], ElementType::F32)?])
            })?;
        }
    }
    for (from, to) in [
        ("f32", ElementType::C64),
        ("complex<f32>", ElementType::C128),
        ("complex<f32>", ElementType::F32),
        ("i64", ElementType::Pred),
        ("i1", ElementType::S64),
    ] {
        if from != "f32" || to.is_complex() {
            s.add(
                OP,
                format!("{from} to {to}, other"),
                &format!("4x{from}"),
                |f, a| Ok(vec![f.convert(a[0], to)?]),
            )?;
        }
    }
    const BITS: &str = "stablehlo.bitcast_convert";
    for (from, to) in [
        ("4xf32", ElementType::S32),
        ("4xf32", ElementType::U8),
        ("4x2xi32", ElementType::F64),
        ("4xbf16", ElementType::U16),
        ("4xi8", ElementType::S4),
        ("4x2xi4", ElementType::U8),
        ("4xcomplex<f64>", ElementType::C128),
        ("4xf8E4M3FN", ElementType::U8),
        ("4xi1", ElementType::Pred),
    ] {
        s.add(BITS, format!("{from} to {to}"), from, |f, a| {
            Ok(vec![f.bitcast_convert(a[0], to)?])
        })?;
    }
    for ty in ["f32", "f64", "bf16"] {
        s.add("stablehlo.reduce_precision", ty, &format!("4x{ty}"), |f, a| {
            Ok(vec![f.reduce_precision(a[0], 5, 7)?])
        })?;
    }
    for (name, storage, axis, scales, zeros) in [
        ("per tensor", ElementType::S8, None, &[0.5][..], &[-3i64][..]),
        ("per tensor unsigned", ElementType::U8, None, &[1e-5], &[128]),
        (
            "per axis",
            ElementType::S8,
            Some(1),
            &[0.5, 0.25, 2.0],
            &[0, 1, 2],
        ),
    ] {
        s.add("stablehlo.uniform_quantize", name, "2x3xf32", |f, a| {
            let q = f.quantized(&[2, 3], storage, ElementType::F32, axis, scales, zeros)?;
            let x = f.uniform_quantize(a[0], q)?;
            Ok(vec![f.uniform_dequantize(x)?])
        })?;
    }
    s.add("stablehlo.uniform_dequantize", "per tensor", "2x3xf32", |f, a| {
        let q = f.quantized(&[2, 3], ElementType::S8, ElementType::F32, None, &[0.1], &[0])?;
        let x = f.uniform_quantize(a[0], q)?;
        Ok(vec![f.uniform_dequantize(x)?])
    })
}
