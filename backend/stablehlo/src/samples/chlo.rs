//! The chlo ops that are not elementwise.

use super::{Samples, bounded};
use crate::ops::{Direction, DotDimensions, DotOptions, Precision, RaggedDotDimensions};
use crate::{ElementType, FunctionBuilder, Result, Value};

pub(super) fn add(s: &mut Samples) -> Result<()> {
    for ty in ["f32", "bf16", "i32"] {
        s.add("chlo.top_k", ty, &format!("2x8x{ty}"), |f, a| {
            let (values, indices) = f.chlo_top_k(a[0], 3)?;
            Ok(vec![values, indices])
        })?;
    }
    s.add("chlo.constant", "list", "", |f, _| {
        Ok(vec![f.chlo_constant(&[3], &[1.5f32, -0.0, f32::INFINITY])?])
    })?;
    for &ty in ElementType::ALL {
        if !ty.is_complex() {
            s.add("chlo.constant_like", ty.mlir(), "2x3xf32", |f, a| {
                Ok(vec![f.chlo_constant_like(a[0], ty, true)?])
            })?;
        }
    }
    s.add("chlo.constant_like", "infinity", "2x3xi32", |f, a| {
        let v = f.chlo_constant_like(a[0], ElementType::BF16, f64::INFINITY)?;
        let w = f.chlo_constant_like(a[0], ElementType::S64, i64::MIN)?;
        Ok(vec![v, w])
    })?;
    s.add("chlo.constant_like", "bounded", "4x3xf32 i32", |f, a| {
        let x = bounded(f, a)?;
        let c = f.chlo_constant_like(x, ElementType::F32, 2.5)?;
        Ok(vec![f.add(x, c)?])
    })?;
    ragged_dots(s)?;
    scans(s)
}

fn ragged_dots(s: &mut Samples) -> Result<()> {
    const OP: &str = "chlo.ragged_dot";
    let grouped = RaggedDotDimensions::grouped_matmul();
    let batched = |batch: i64, contracting: i64| DotDimensions {
        lhs_batching: vec![0],
        rhs_batching: vec![batch],
        lhs_contracting: vec![2],
        rhs_contracting: vec![contracting],
    };
    for (name, args, dimensions) in [
        ("rows", "11x5xf32 3x5x7xf32 3xi32", grouped.clone()),
        ("rows, i64 sizes", "11x5xf32 3x5x7xf32 3xi64", grouped.clone()),
        (
            "rows of a batch",
            "2x11x5xf32 3x2x5x7xf32 2x3xi32",
            RaggedDotDimensions {
                dot: batched(1, 2),
                lhs_ragged: 1,
                rhs_group: Some(0),
            },
        ),
        (
            "contracting",
            "11x5xf32 5x7xf32 3xi32",
            RaggedDotDimensions {
                dot: DotDimensions::matmul(),
                lhs_ragged: 1,
                rhs_group: None,
            },
        ),
        (
            "contracting of a batch",
            "2x11x5xf32 2x5x7xf32 2x3xi32",
            RaggedDotDimensions {
                dot: batched(0, 1),
                lhs_ragged: 2,
                rhs_group: None,
            },
        ),
        (
            "batch",
            "3x11x5xf32 3x5x7xf32 3xi32",
            RaggedDotDimensions {
                dot: batched(0, 1),
                lhs_ragged: 0,
                rhs_group: None,
            },
        ),
    ] {
        s.add(OP, name, args, |f, a| {
            let options = DotOptions::default();
            Ok(vec![f.chlo_ragged_dot(
                a[0],
                a[1],
                a[2],
                &dimensions,
                &options,
            )?])
        })?;
    }
    for (lhs, rhs, to) in [
        ("bf16", "bf16", ElementType::F32),
        ("bf16", "f32", ElementType::F32),
        ("i8", "i8", ElementType::S32),
    ] {
        let args = format!("11x5x{lhs} 3x5x7x{rhs} 3xi32");
        s.add(OP, format!("{lhs} {rhs} to {to}"), &args, |f, a| {
            let options = DotOptions {
                precision: [Precision::Highest; 2],
                element: Some(to),
                ..DotOptions::default()
            };
            Ok(vec![f.chlo_ragged_dot(a[0], a[1], a[2], &grouped, &options)?])
        })?;
    }
    Ok(())
}

/// The sum so far, as output and as carried value.
fn running(f: &mut FunctionBuilder<'_>, e: &[Value]) -> Result<Vec<Value>> {
    let sum = f.add(e[0], e[1])?;
    Ok(vec![sum, sum])
}

fn scans(s: &mut Samples) -> Result<()> {
    const OP: &str = "chlo.scan";
    for (name, args, dimension, reverse, associative) in [
        ("sum", "5x2xf32 2xf32", 0, false, Some(true)),
        ("sum, reverse", "2x5xi32 2xi32", 1, true, Some(true)),
        ("sum of bf16", "8x128xbf16 128xbf16", 0, false, Some(true)),
        ("sum of scalars, in order", "5xf32 f32", 0, false, Some(false)),
        ("sum, order not said", "5x2xf32 2xf32", 0, false, None),
    ] {
        s.add(OP, name, args, |f, a| {
            f.chlo_scan(&a[..1], &a[1..], dimension, reverse, associative, running)
        })?;
    }
    s.add(
        OP,
        "greatest with index",
        "5x2xf32 5x2xi32 2xf32 2xi32",
        |f, a| {
            f.chlo_scan(&a[..2], &a[2..], 0, false, Some(true), |f, e| {
                let greater = f.compare(e[0], e[2], Direction::Ge)?;
                let value = f.select(greater, e[0], e[2])?;
                let index = f.select(greater, e[1], e[3])?;
                Ok(vec![value, index, value, index])
            })
        },
    )?;
    s.add(OP, "other output", "5x2xf32 2xf32", |f, a| {
        f.chlo_scan(&a[..1], &a[1..], 0, false, None, |f, e| {
            Ok(vec![f.convert(e[0], ElementType::S32)?, f.maximum(e[0], e[1])?])
        })
    })?;
    s.add(OP, "no output", "5x2xf32 2xf32", |f, a| {
        f.chlo_scan(&a[..1], &a[1..], 0, false, None, |f, e| {
            Ok(vec![f.maximum(e[0], e[1])?])
        })
    })
}
