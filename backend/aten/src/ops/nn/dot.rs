//! Products of tensors: how precisely, and contractions by named dimensions.

use stablehlo::Value;
use stablehlo::ops::{DotDimensions, DotOptions, Precision};

use super::util::sum;
use crate::{Cx, ElementType, Result, compute_type};

/// The type that products of `element` are summed in.
fn sum_type(element: ElementType) -> ElementType {
    compute_type(element)
}

/// Singles are multiplied as singles; narrower floats are summed in single precision.
pub(super) fn dot_options(element: ElementType) -> DotOptions {
    let precision = match element {
        ElementType::F32 | ElementType::F64 | ElementType::C64 | ElementType::C128 => Precision::Highest,
        _ => Precision::Default,
    };
    DotOptions {
        precision: [precision; 2],
        element: Some(sum_type(element)),
        ..DotOptions::default()
    }
}

/// [`contract`] for a product that is the result as it is: brains are rounded by the product itself, which sums in single
/// precision everywhere; a TPU would write the sums first.
pub(super) fn contract_last(
    cx: &mut Cx<'_, '_>,
    a: (Value, &str),
    b: (Value, &str),
    out: &str,
) -> Result<Value> {
    let element = cx.element(a.0)?;
    let mut options = dot_options(element);
    if element == ElementType::BF16 {
        options.element = Some(element);
    }
    contract_by(cx, a, b, out, &options)
}

/// `einsum`: each letter names a dimension; what is not in `out` is summed. No letter twice in one operand.
pub(super) fn contract(cx: &mut Cx<'_, '_>, a: (Value, &str), b: (Value, &str), out: &str) -> Result<Value> {
    let options = dot_options(cx.element(a.0)?);
    contract_by(cx, a, b, out, &options)
}

fn contract_by(
    cx: &mut Cx<'_, '_>,
    (a, a_names): (Value, &str),
    (b, b_names): (Value, &str),
    out: &str,
    options: &DotOptions,
) -> Result<Value> {
    let (a, a_names) = sum_lone(cx, a, a_names, b_names, out)?;
    let (b, b_names) = sum_lone(cx, b, b_names, &a_names, out)?;
    let at = |names: &str, wanted: &[char]| -> Vec<i64> {
        let place = |c: &char| names.chars().position(|x| x == *c).map(|i| i as i64);
        wanted.iter().filter_map(place).collect()
    };
    if cx.element(a)? == ElementType::S64 {
        return of_long_integers(cx, (a, &a_names), (b, &b_names), out);
    }
    let shared: Vec<char> = a_names.chars().filter(|c| b_names.contains(*c)).collect();
    let (batch, contracted): (Vec<char>, Vec<char>) = shared.iter().partition(|c| out.contains(**c));
    let dims = DotDimensions {
        lhs_batching: at(&a_names, &batch),
        rhs_batching: at(&b_names, &batch),
        lhs_contracting: at(&a_names, &contracted),
        rhs_contracting: at(&b_names, &contracted),
    };
    let product = cx.f.dot_general(a, b, &dims, options)?;
    let lone = |names: &str| names.chars().filter(|c| !shared.contains(c)).collect::<Vec<_>>();
    let have: Vec<char> = batch
        .iter()
        .copied()
        .chain(lone(&a_names))
        .chain(lone(&b_names))
        .collect();
    let permutation = at(&have.iter().collect::<String>(), &out.chars().collect::<Vec<_>>());
    if permutation.windows(2).all(|w| w[0] < w[1]) {
        return Ok(product);
    }
    Ok(cx.f.transpose(product, &permutation)?)
}

/// A product element by element and a sum, which the compilers make one loop: the TPU's has no product of tensors of 64-bit
/// integers.
fn of_long_integers(cx: &mut Cx<'_, '_>, a: (Value, &str), b: (Value, &str), out: &str) -> Result<Value> {
    let contracted = a.1.chars().filter(|c| !out.contains(*c));
    let every: Vec<char> = out.chars().chain(contracted).collect();
    let (a_dims, b_dims) = (cx.dims(a.0)?, cx.dims(b.0)?);
    let size = |c: &char| {
        let of = |names: &str, dims: &[i64]| names.chars().position(|x| x == *c).map(|i| dims[i]);
        of(a.1, &a_dims).or_else(|| of(b.1, &b_dims)).unwrap_or(1)
    };
    let whole: Vec<i64> = every.iter().map(size).collect();
    let mut spread = |(v, names): (Value, &str)| -> Result<Value> {
        let mut places: Vec<(i64, i64)> = (0..)
            .zip(names.chars())
            .filter_map(|(i, c)| Some((every.iter().position(|x| *x == c)? as i64, i)))
            .collect();
        places.sort_unstable();
        let (to, order): (Vec<i64>, Vec<i64>) = places.into_iter().unzip();
        let v = cx.f.transpose(v, &order)?;
        Ok(cx.f.broadcast_in_dim(v, whole.as_slice(), &to)?)
    };
    let (a, b) = (spread(a)?, spread(b)?);
    let products = cx.f.multiply(a, b)?;
    let dims: Vec<i64> = (out.len() as i64..every.len() as i64).collect();
    sum(cx, products, &dims)
}

/// Sums over what neither the other operand nor the result has.
fn sum_lone(cx: &mut Cx<'_, '_>, v: Value, names: &str, other: &str, out: &str) -> Result<(Value, String)> {
    let lone = |c: &char| !other.contains(*c) && !out.contains(*c);
    let dims: Vec<i64> = names
        .chars()
        .enumerate()
        .filter(|(_, c)| lone(c))
        .map(|(i, _)| i as i64)
        .collect();
    let left = names.chars().filter(|c| !lone(c)).collect();
    Ok((sum(cx, v, &dims)?, left))
}
