//! Ops that move elements, static and dynamic.

use super::{Samples, bounded};
use crate::ops::{ConvolutionDimensions, ConvolutionOptions, GatherDimensions};
use crate::{Dim, ElementType, Result};

pub(super) fn add(s: &mut Samples) -> Result<()> {
    const BROADCAST: &str = "stablehlo.broadcast_in_dim";
    s.add(BROADCAST, "scalar", "f32", |f, a| {
        Ok(vec![f.broadcast_in_dim(a[0], &[2, 3], &[])?])
    })?;
    s.add(BROADCAST, "size one", "1x3xf32", |f, a| {
        Ok(vec![f.broadcast_in_dim(a[0], &[5, 2, 3], &[1, 2])?])
    })?;
    s.add(BROADCAST, "permuted", "2x3xi8", |f, a| {
        Ok(vec![f.broadcast_in_dim(a[0], &[3, 2], &[1, 0])?])
    })?;
    s.add(BROADCAST, "bounded", "4x3xf32 i32", |f, a| {
        let x = bounded(f, a)?;
        Ok(vec![f.broadcast_in_dim(
            x,
            &[Dim::Static(2), Dim::Bounded(4), Dim::Static(3)],
            &[1, 2],
        )?])
    })?;
    s.add("stablehlo.reshape", "split", "6xf32", |f, a| {
        Ok(vec![f.reshape(a[0], &[2, 3])?])
    })?;
    s.add("stablehlo.reshape", "to scalar", "1x1xi4", |f, a| {
        Ok(vec![f.reshape(a[0], &[0i64; 0])?])
    })?;
    s.add("stablehlo.reshape", "no elements", "0x3xf32", |f, a| {
        Ok(vec![f.reshape(a[0], &[5, 0])?])
    })?;
    s.add("stablehlo.reshape", "bounded", "4x6xf32 i32", |f, a| {
        let x = bounded(f, a)?;
        Ok(vec![f.reshape(
            x,
            &[Dim::Bounded(4), Dim::Static(2), Dim::Static(3)],
        )?])
    })?;
    s.add("stablehlo.transpose", "rank 3", "2x3x4xbf16", |f, a| {
        Ok(vec![f.transpose(a[0], &[2, 0, 1])?])
    })?;
    s.add("stablehlo.transpose", "bounded", "4x3xf32 i32", |f, a| {
        let x = bounded(f, a)?;
        Ok(vec![f.transpose(x, &[1, 0])?])
    })?;
    s.add("stablehlo.reverse", "two dims", "2x3xf32", |f, a| {
        Ok(vec![f.reverse(a[0], &[0, 1])?])
    })?;
    s.add("stablehlo.reverse", "none", "2x3xf32", |f, a| {
        Ok(vec![f.reverse(a[0], &[])?])
    })?;
    s.add("stablehlo.concatenate", "two", "2x3xf32 2x5xf32", |f, a| {
        Ok(vec![f.concatenate(a, 1)?])
    })?;
    s.add("stablehlo.concatenate", "one", "2xi1", |f, a| {
        Ok(vec![f.concatenate(a, 0)?])
    })?;
    s.add("stablehlo.concatenate", "bounded", "4x3xf32 i32", |f, a| {
        let x = bounded(f, a)?;
        Ok(vec![f.concatenate(&[x, a[0]], 0)?])
    })?;
    s.add("stablehlo.pad", "around and between", "2x3xf32 f32", |f, a| {
        Ok(vec![f.pad(a[0], a[1], &[1, 0], &[2, 1], &[1, 2])?])
    })?;
    s.add("stablehlo.pad", "negative", "5x3xi32 i32", |f, a| {
        Ok(vec![f.pad(a[0], a[1], &[-1, 0], &[-2, 1], &[0, 0])?])
    })?;
    s.add("stablehlo.pad", "bounded", "4x3xf32 i32 f32", |f, a| {
        let x = bounded(f, a)?;
        Ok(vec![f.pad(x, a[2], &[1, 0], &[0, 0], &[0, 0])?])
    })?;
    s.add("stablehlo.slice", "strided", "8x3xf32", |f, a| {
        Ok(vec![f.slice(a[0], &[1, 0], &[8, 3], &[3, 1])?])
    })?;
    s.add("stablehlo.slice", "empty", "8xf32", |f, a| {
        Ok(vec![f.slice(a[0], &[2], &[2], &[1])?])
    })?;
    s.add("stablehlo.slice", "bounded", "4x3xf32 i32", |f, a| {
        let x = bounded(f, a)?;
        Ok(vec![f.slice(x, &[0, 1], &[4, 3], &[1, 1])?])
    })?;
    for ty in ["i32", "i64", "ui8"] {
        s.add(
            "stablehlo.dynamic_slice",
            ty,
            &format!("4x5xf32 {ty} {ty}"),
            |f, a| Ok(vec![f.dynamic_slice(a[0], &a[1..], &[2, 3])?]),
        )?;
        s.add(
            "stablehlo.dynamic_update_slice",
            ty,
            &format!("4x5xf32 2x3xf32 {ty} {ty}"),
            |f, a| Ok(vec![f.dynamic_update_slice(a[0], a[1], &a[2..])?]),
        )?;
    }
    s.add("stablehlo.get_dimension_size", "static", "4x5xf32", |f, a| {
        Ok(vec![f.get_dimension_size(a[0], 1)?])
    })?;
    s.add(
        "stablehlo.get_dimension_size",
        "bounded",
        "4x3xf32 i32",
        |f, a| {
            let x = bounded(f, a)?;
            Ok(vec![f.get_dimension_size(x, 0)?])
        },
    )?;
    s.add("stablehlo.set_dimension_size", "result", "4x3xf32 i32", |f, a| {
        Ok(vec![bounded(f, a)?])
    })?;
    s.add(
        "stablehlo.set_dimension_size",
        "argument",
        "<=4x3xf32 i32",
        |f, a| Ok(vec![bounded(f, a)?]),
    )?;
    dynamic(s)
}

/// Dynamic ops with constant shapes, as compilers take them, and with run-time ones.
fn dynamic(s: &mut Samples) -> Result<()> {
    const BROADCAST: &str = "stablehlo.dynamic_broadcast_in_dim";
    s.add(BROADCAST, "constant shape", "3xf32", |f, a| {
        let shape = f.constant(&[2], &[2i64, 3])?;
        Ok(vec![f.dynamic_broadcast_in_dim(a[0], shape, &[2, 3], &[1])?])
    })?;
    s.add(BROADCAST, "run-time shape", "3xf32 2xi32", |f, a| {
        Ok(vec![f.dynamic_broadcast_in_dim(
            a[0],
            a[1],
            &[Dim::Dynamic, Dim::Static(3)],
            &[1],
        )?])
    })?;
    s.add(BROADCAST, "bounded", "3xf32 2xi32", |f, a| {
        Ok(vec![f.dynamic_broadcast_in_dim(
            a[0],
            a[1],
            &[Dim::Bounded(8), Dim::Static(3)],
            &[1],
        )?])
    })?;
    s.add("stablehlo.dynamic_iota", "constant shape", "", |f, _| {
        let shape = f.constant(&[2], &[2i32, 3])?;
        Ok(vec![f.dynamic_iota(shape, &[2, 3], ElementType::F32, 0)?])
    })?;
    s.add("stablehlo.dynamic_reshape", "constant shape", "6xf32", |f, a| {
        let shape = f.constant(&[2], &[2i32, 3])?;
        Ok(vec![f.dynamic_reshape(a[0], shape, &[2, 3])?])
    })?;
    s.add(
        "stablehlo.dynamic_reshape",
        "bounded",
        "4x6xf32 i32 3xi32",
        |f, a| {
            let x = bounded(f, a)?;
            Ok(vec![f.dynamic_reshape(
                x,
                a[2],
                &[Dim::Bounded(4), Dim::Static(2), Dim::Static(3)],
            )?])
        },
    )?;
    s.add(
        "stablehlo.dynamic_pad",
        "constant amounts",
        "4xf32 f32",
        |f, a| {
            let n: Vec<_> = [1i64, 2, 0]
                .iter()
                .map(|n| f.constant(&[1], &[*n]))
                .collect::<Result<_>>()?;
            Ok(vec![f.dynamic_pad(a[0], a[1], n[0], n[1], n[2], &[7])?])
        },
    )?;
    s.add(
        "stablehlo.real_dynamic_slice",
        "constant bounds",
        "8xf32",
        |f, a| {
            let n: Vec<_> = [1i64, 7, 2]
                .iter()
                .map(|n| f.constant(&[1], &[*n]))
                .collect::<Result<_>>()?;
            Ok(vec![f.real_dynamic_slice(a[0], n[0], n[1], n[2], &[3])?])
        },
    )?;
    s.add(
        "stablehlo.dynamic_gather",
        "constant sizes",
        "4x3xf32 2x1xi32",
        |f, a| {
            let sizes = f.constant(&[2], &[1i32, 3])?;
            let d = GatherDimensions {
                offset_dims: vec![1],
                collapsed_slice_dims: vec![0],
                start_index_map: vec![0],
                index_vector_dim: 1,
                ..GatherDimensions::default()
            };
            Ok(vec![f.dynamic_gather(a[0], a[1], sizes, &d, false, &[2, 3])?])
        },
    )?;
    s.add(
        "stablehlo.dynamic_conv",
        "constant padding",
        "1x2x8xf32 4x2x3xf32",
        |f, a| {
            let padding = f.constant(&[1, 2], &[1i32, 1])?;
            let d = ConvolutionDimensions::channels_first(1);
            Ok(vec![f.dynamic_conv(
                a[0],
                a[1],
                padding,
                &d,
                &ConvolutionOptions::new(1),
                &[1, 4, 8],
            )?])
        },
    )
}
