//! reduce, windows, sort, map, batch normalization.

use super::{Samples, WIDER, bounded, sum};
use crate::ops::{Direction, Window};
use crate::{ElementType, Result};

pub(super) fn add(s: &mut Samples) -> Result<()> {
    const REDUCE: &str = "stablehlo.reduce";
    for ty in ["f32", "bf16", "f16", "i64", "ui8", "complex<f32>"] {
        s.add(REDUCE, ty, &format!("2x3x4x{ty} {ty}"), |f, a| {
            f.reduce(&a[..1], &a[1..], &[0, 2], sum)
        })?;
    }
    s.add(REDUCE, "i1", "2x3xi1 i1", |f, a| {
        f.reduce(&a[..1], &a[1..], &[1], |f, e| Ok(vec![f.or(e[0], e[1])?]))
    })?;
    s.add(REDUCE, "argmax", "2x3xf32 2x3xi32 f32 i32", |f, a| {
        f.reduce(&a[..2], &a[2..], &[1], |f, e| {
            let greater = f.compare(e[0], e[2], Direction::Ge)?;
            Ok(vec![
                f.select(greater, e[0], e[2])?,
                f.select(greater, e[1], e[3])?,
            ])
        })
    })?;
    s.add(REDUCE, "no dims", "2x3xf32 f32", |f, a| {
        f.reduce(&a[..1], &a[1..], &[], sum)
    })?;
    s.add(REDUCE, "bounded", "4x3xf32 i32 f32", |f, a| {
        let x = bounded(f, a)?;
        f.reduce(&[x], &a[2..], &[0], sum)
    })?;
    s.add(REDUCE, "bounded dim kept", "4x3xf32 i32 f32", |f, a| {
        let x = bounded(f, a)?;
        f.reduce(&[x], &a[2..], &[1], sum)
    })?;
    s.add("stablehlo.map", "two inputs", "2x3xf32 2x3xf32", |f, a| {
        Ok(vec![f.map(a, sum)?])
    })?;
    s.add("stablehlo.map", "other type", "4xf32", |f, a| {
        Ok(vec![
            f.map(a, |f, e| Ok(vec![f.convert(e[0], ElementType::S32)?]))?,
        ])
    })?;
    for (from, to) in WIDER {
        s.add(
            REDUCE,
            format!("{from} in {to}"),
            &format!("2x3x{from} {from}"),
            |f, a| f.reduce_as(&a[..1], &a[1..], &[to], &[1], sum),
        )?;
    }
    windows(s)?;
    const SORT: &str = "stablehlo.sort";
    for ty in ["f32", "i32", "bf16", "ui64"] {
        s.add(SORT, ty, &format!("2x5x{ty}"), |f, a| {
            f.sort(a, 1, false, |f, e| {
                Ok(vec![f.compare(e[0], e[1], Direction::Lt)?])
            })
        })?;
    }
    s.add(SORT, "key and value, stable", "2x5xf32 2x5xi32", |f, a| {
        f.sort(a, 0, true, |f, e| {
            Ok(vec![f.compare(e[0], e[1], Direction::Gt)?])
        })
    })?;
    for ty in ["f32", "bf16"] {
        let v = format!("3x{ty}");
        s.add(
            "stablehlo.batch_norm_inference",
            ty,
            &format!("2x3x4x{ty} {v} {v} {v} {v}"),
            |f, a| {
                Ok(vec![
                    f.batch_norm_inference(a[0], a[1], a[2], a[3], a[4], 1e-5, 1)?,
                ])
            },
        )?;
        s.add(
            "stablehlo.batch_norm_training",
            ty,
            &format!("2x3x4x{ty} {v} {v}"),
            |f, a| {
                let r = f.batch_norm_training(a[0], a[1], a[2], 1e-5, 1)?;
                Ok(vec![r.output, r.batch_mean, r.batch_var])
            },
        )?;
        s.add(
            "stablehlo.batch_norm_grad",
            ty,
            &format!("2x3x4x{ty} {v} {v} {v} 2x3x4x{ty}"),
            |f, a| Ok(f.batch_norm_grad(a[0], a[1], a[2], a[3], a[4], 1e-5, 1)?.to_vec()),
        )?;
    }
    Ok(())
}

fn windows(s: &mut Samples) -> Result<()> {
    const WINDOW: &str = "stablehlo.reduce_window";
    let pool = Window {
        strides: vec![1, 1, 2, 2],
        padding: vec![[0, 0], [0, 0], [1, 1], [0, 1]],
        ..Window::new(&[1, 1, 3, 2])
    };
    for ty in ["f32", "bf16", "i32"] {
        s.add(WINDOW, ty, &format!("1x2x8x8x{ty} {ty}"), |f, a| {
            f.reduce_window(&a[..1], &a[1..], &pool, |f, e| Ok(vec![f.maximum(e[0], e[1])?]))
        })?;
    }
    s.add(WINDOW, "dilated", "9xf32 f32", |f, a| {
        let w = Window {
            base_dilations: vec![2],
            window_dilations: vec![3],
            ..Window::new(&[2])
        };
        f.reduce_window(&a[..1], &a[1..], &w, sum)
    })?;
    s.add(WINDOW, "no position", "2xf32 f32", |f, a| {
        f.reduce_window(&a[..1], &a[1..], &Window::new(&[3]), sum)
    })?;
    s.add(WINDOW, "two inputs", "8xf32 8xi32 f32 i32", |f, a| {
        f.reduce_window(&a[..2], &a[2..], &Window::new(&[2]), |f, e| {
            Ok(vec![f.add(e[0], e[2])?, f.add(e[1], e[3])?])
        })
    })?;
    s.add(WINDOW, "bounded", "4x3xf32 i32 f32", |f, a| {
        let x = bounded(f, a)?;
        f.reduce_window(&[x], &a[2..], &Window::new(&[2, 1]), sum)
    })?;
    for (from, to) in WIDER {
        let args = format!("2x3x{from} {from}");
        s.add(WINDOW, format!("{from} in {to}"), &args, |f, a| {
            f.reduce_window_as(&a[..1], &a[1..], &[to], &Window::new(&[1, 2]), sum)
        })?;
        s.add(
            "stablehlo.select_and_scatter",
            format!("{from} in {to}"),
            &format!("4x4x2x2x{from} 2x2x2x2x{from} {from}"),
            |f, a| {
                let w = Window {
                    strides: vec![2, 2, 1, 1],
                    ..Window::new(&[2, 2, 1, 1])
                };
                let x = f.select_and_scatter_as(
                    a[0],
                    a[1],
                    a[2],
                    to,
                    &w,
                    |f, e| Ok(vec![f.compare(e[0], e[1], Direction::Ge)?]),
                    sum,
                )?;
                Ok(vec![x])
            },
        )?;
    }
    for ty in ["f32", "bf16"] {
        s.add(
            "stablehlo.select_and_scatter",
            ty,
            &format!("8x8x{ty} 4x4x{ty} {ty}"),
            |f, a| {
                let w = Window {
                    strides: vec![2, 2],
                    ..Window::new(&[2, 2])
                };
                let x = f.select_and_scatter(
                    a[0],
                    a[1],
                    a[2],
                    &w,
                    |f, e| Ok(vec![f.compare(e[0], e[1], Direction::Ge)?]),
                    sum,
                )?;
                Ok(vec![x])
            },
        )?;
    }
    // TPUs take no window in the two minor-most dimensions, so a pooling gradient has them outside.
    s.add(
        "stablehlo.select_and_scatter",
        "major dims",
        "8x8x2x2xf32 4x4x2x2xf32 f32",
        |f, a| {
            let w = Window {
                strides: vec![2, 2, 1, 1],
                ..Window::new(&[2, 2, 1, 1])
            };
            let x = f.select_and_scatter(
                a[0],
                a[1],
                a[2],
                &w,
                |f, e| Ok(vec![f.compare(e[0], e[1], Direction::Ge)?]),
                sum,
            )?;
            Ok(vec![x])
        },
    )?;
    Ok(())
}
