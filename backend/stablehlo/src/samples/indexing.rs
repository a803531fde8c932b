//! gather and scatter.

use super::{Samples, WIDER, sum};
use crate::Result;
use crate::ops::{GatherDimensions, ScatterDimensions};

pub(super) fn add(s: &mut Samples) -> Result<()> {
    let rows = GatherDimensions {
        offset_dims: vec![1],
        collapsed_slice_dims: vec![0],
        start_index_map: vec![0],
        index_vector_dim: 1,
        ..GatherDimensions::default()
    };
    for ty in ["i32", "i64", "ui8"] {
        s.add("stablehlo.gather", ty, &format!("4x3xf32 2x1x{ty}"), |f, a| {
            Ok(vec![f.gather(a[0], a[1], &rows, &[1, 3], false)?])
        })?;
    }
    s.add("stablehlo.gather", "scalar index", "4x3xf32 i32", |f, a| {
        let d = GatherDimensions {
            offset_dims: vec![0],
            index_vector_dim: 0,
            ..rows.clone()
        };
        Ok(vec![f.gather(a[0], a[1], &d, &[1, 2], true)?])
    })?;
    s.add("stablehlo.gather", "batching", "2x4x3xf32 2x5x1xi32", |f, a| {
        let d = GatherDimensions {
            offset_dims: vec![2],
            collapsed_slice_dims: vec![1],
            operand_batching_dims: vec![0],
            start_indices_batching_dims: vec![0],
            start_index_map: vec![1],
            index_vector_dim: 2,
        };
        Ok(vec![f.gather(a[0], a[1], &d, &[1, 1, 3], false)?])
    })?;
    s.add("stablehlo.gather", "windows", "5x6x7xbf16 2x2x8xi32", |f, a| {
        let d = GatherDimensions {
            offset_dims: vec![0, 3],
            collapsed_slice_dims: vec![1],
            start_index_map: vec![2, 0],
            index_vector_dim: 1,
            ..GatherDimensions::default()
        };
        Ok(vec![f.gather(a[0], a[1], &d, &[3, 1, 4], false)?])
    })?;
    let into_rows = ScatterDimensions {
        update_window_dims: vec![1],
        inserted_window_dims: vec![0],
        scatter_dims_to_operand_dims: vec![0],
        index_vector_dim: 1,
        ..ScatterDimensions::default()
    };
    for ty in ["f32", "bf16", "i64", "complex<f32>", "ui8"] {
        let args = format!("4x3x{ty} 2x1xi32 2x3x{ty}");
        s.add("stablehlo.scatter", ty, &args, |f, a| {
            f.scatter(&a[..1], a[1], &a[2..], &into_rows, false, false, sum)
        })?;
    }
    for (from, to) in WIDER {
        let args = format!("4x3x{from} 2x1xi32 2x3x{from}");
        s.add("stablehlo.scatter", format!("{from} in {to}"), &args, |f, a| {
            f.scatter_as(&a[..1], a[1], &a[2..], &[to], &into_rows, false, false, sum)
        })?;
    }
    s.add(
        "stablehlo.scatter",
        "overwrite, unique",
        "4x3xf32 2x1xi64 2x3xf32",
        |f, a| {
            f.scatter(&a[..1], a[1], &a[2..], &into_rows, true, true, |_, e| {
                Ok(vec![e[1]])
            })
        },
    )?;
    s.add(
        "stablehlo.scatter",
        "smaller windows",
        "4x3xf32 2x1xi32 2x2xf32",
        |f, a| f.scatter(&a[..1], a[1], &a[2..], &into_rows, false, false, sum),
    )?;
    s.add(
        "stablehlo.scatter",
        "two inputs",
        "4x3xf32 4x3xi32 2x1xi32 2x3xf32 2x3xi32",
        |f, a| {
            f.scatter(&a[..2], a[2], &a[3..], &into_rows, false, false, |f, e| {
                Ok(vec![f.add(e[0], e[2])?, f.maximum(e[1], e[3])?])
            })
        },
    )?;
    s.add(
        "stablehlo.scatter",
        "batching",
        "2x4x3xf32 2x5x1xi32 2x5x3xf32",
        |f, a| {
            let d = ScatterDimensions {
                update_window_dims: vec![2],
                inserted_window_dims: vec![1],
                input_batching_dims: vec![0],
                scatter_indices_batching_dims: vec![0],
                scatter_dims_to_operand_dims: vec![1],
                index_vector_dim: 2,
            };
            f.scatter(&a[..1], a[1], &a[2..], &d, false, false, sum)
        },
    )?;
    s.add("stablehlo.scatter", "scalar index", "8xf32 1xi32 f32", |f, a| {
        let d = ScatterDimensions {
            inserted_window_dims: vec![0],
            scatter_dims_to_operand_dims: vec![0],
            ..ScatterDimensions::default()
        };
        f.scatter(&a[..1], a[1], &a[2..], &d, false, false, sum)
    })
}
