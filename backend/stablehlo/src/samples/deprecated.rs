//! Ops on their way out of StableHLO.

use super::{Samples, bounded};
use crate::ops::Precision;
use crate::{ElementType, Result};

pub(super) fn add(s: &mut Samples) -> Result<()> {
    const DOT: &str = "stablehlo.dot";
    for (name, args) in [
        ("vectors", "3xf32 3xf32"),
        ("matrix and vector", "2x3xbf16 3xbf16"),
        ("vector and matrix", "3xf32 3x4xf32"),
        ("matrices", "2x3xcomplex<f32> 3x4xcomplex<f32>"),
    ] {
        s.add(DOT, name, args, |f, a| {
            Ok(vec![f.dot(a[0], a[1], [Precision::Default; 2], None)?])
        })?;
    }
    s.add(DOT, "i8 to i32", "2x3xi8 3x4xi8", |f, a| {
        let to = Some(ElementType::S32);
        Ok(vec![f.dot(a[0], a[1], [Precision::Default; 2], to)?])
    })?;
    s.add(DOT, "HIGHEST", "2x3xf32 3x4xf32", |f, a| {
        Ok(vec![f.dot(a[0], a[1], [Precision::Highest; 2], None)?])
    })?;
    for (config, args, to) in [
        ("ab,bc->ac", "2x3xf32 3x4xf32", None),
        ("ab,bc->ca", "2x3xbf16 3x4xbf16", Some(ElementType::F32)),
        ("bij,bjk->bik", "2x3x4xf32 2x4x5xf32", None),
        ("ab,b->", "2x3xf32 3xf32", None),
        ("aa,b->ab", "3x3xf32 4xf32", None),
        ("a,B->Ba", "3xi8 4xi8", Some(ElementType::S32)),
        ("...ab,...bc->...ac", "2x3x4xf32 2x4x5xf32", None),
        ("...ab,bc->...ac", "2x3x4xf32 4x5xf32", None),
    ] {
        s.add("stablehlo.einsum", config, args, |f, a| {
            Ok(vec![f.einsum(a[0], a[1], config, to)?])
        })?;
    }
    for (config, args) in [
        ("ab->b", "2x3xf32"),
        ("...a->...", "2x3xf32"),
        ("ab->ba", "2x3xi32"),
    ] {
        s.add("stablehlo.unary_einsum", config, args, |f, a| {
            Ok(vec![f.unary_einsum(a[0], config)?])
        })?;
    }
    for (name, args, sizes) in [
        ("scalar", "f32", &[2i64, 3][..]),
        ("vector", "3xi8", &[2]),
        ("no elements", "3xf32", &[0]),
        ("no sizes", "3xf32", &[]),
    ] {
        s.add("stablehlo.broadcast", name, args, |f, a| {
            Ok(vec![f.broadcast(a[0], sizes)?])
        })?;
    }
    s.add("stablehlo.broadcast", "bounded", "4x3xf32 i32", |f, a| {
        let x = bounded(f, a)?;
        Ok(vec![f.broadcast(x, &[2])?])
    })?;
    for (name, args, dim, batch) in [
        ("rows", "5x4xf32 2xi32", 0, 0),
        ("columns", "2x3x4xbf16 5xi64", 1, 0),
        ("matrix of indices", "5x4xf32 2x3xui8", 0, 0),
        ("scalar index", "5x4xi32 i32", 0, 0),
        ("batch", "2x5x4xf32 2x3xi32", 1, 1),
    ] {
        s.add("stablehlo.torch_index_select", name, args, |f, a| {
            Ok(vec![f.torch_index_select(a[0], a[1], dim, batch)?])
        })?;
    }
    Ok(())
}
