//! `_foreach_*`: one program for a list of tensors.

use stablehlo::Value;

use super::arithmetic::{accumulate_kernel, divide, interpolate, magnitude, minus, multiply, negate, plus};
use super::common::{Promotion, Unary, default_float};
use super::comparison::{greater, lesser};
use super::division::inverse;
use super::exponential as exp;
use super::reduction::{Reducer, reduce};
use super::rounding as round;
use super::special;
use super::statistics::{order, vector_norm};
use super::trigonometric as trig;
use crate::{Arg, Cx, ElementType, Error, Lowered, OpDef, Result, ScalarKind, TensorMeta, compute_type};

/// A function of the k-th of each operand.
type Kernel = fn(&mut Cx<'_, '_>, &[Value]) -> Result<Value>;

/// What an op does to integers.
#[derive(Copy, Clone, PartialEq, Eq)]
enum Integers {
    Keep,
    ToFloat,
}

/// The k-th of an argument: of a list of tensors or numbers; a single one is the same for all.
enum Item {
    Tensor(TensorMeta),
    Number(ScalarKind),
}

fn item(cx: &Cx<'_, '_>, name: &str, k: usize) -> Result<Item> {
    let meta = |i: u32| cx.call.tensors[i as usize].clone();
    Ok(match cx.call.arg(name) {
        Some(Arg::Tensors(list)) => match list.get(k).copied().flatten() {
            Some(i) => Item::Tensor(meta(i)),
            None => return Err(missing(cx, name, k)),
        },
        // A tensor that holds a number for all, or a number for each.
        Some(Arg::Tensor(i)) => {
            let mut found = meta(*i);
            found.dims.clear();
            Item::Tensor(found)
        }
        Some(Arg::Scalar(s)) => Item::Number(s.kind),
        Some(Arg::Scalars(list)) => match list.get(k) {
            Some(s) => Item::Number(s.kind),
            None => return Err(missing(cx, name, k)),
        },
        Some(Arg::Floats(_) | Arg::Float(_)) => Item::Number(ScalarKind::Float),
        Some(Arg::Int(_)) => Item::Number(ScalarKind::Int),
        Some(Arg::Bool(_)) => Item::Number(ScalarKind::Bool),
        Some(Arg::Complex(..)) => Item::Number(ScalarKind::Complex),
        _ => return Err(missing(cx, name, k)),
    })
}

fn missing(cx: &Cx<'_, '_>, name: &str, k: usize) -> Error {
    Error::Internal(format!("{} has no `{name}` number {k}", cx.call.name))
}

/// The value of [`item`].
fn item_value(cx: &mut Cx<'_, '_>, name: &str, k: usize, element: ElementType) -> Result<Value> {
    match cx.call.arg(name) {
        Some(Arg::Tensors(_)) => {
            let found = cx.opt_tensors(name)?.get(k).copied().flatten();
            let found = found.ok_or_else(|| missing(cx, name, k))?;
            cx.cast(found, element)
        }
        Some(Arg::Tensor(_)) => {
            let v = cx.tensor(name)?;
            let v = cx.cast(v, element)?;
            let n: i64 = cx.dims(v)?.iter().product();
            if n == 1 {
                return cx.reshape(v, &[]);
            }
            let one = cx.f.slice(v, &[k as i64], &[k as i64 + 1], &[1])?;
            cx.reshape(one, &[])
        }
        Some(Arg::Scalars(_) | Arg::Floats(_)) => {
            let all = cx.scalars(name, element)?;
            all.get(k).copied().ok_or_else(|| missing(cx, name, k))
        }
        _ => cx.scalar(name, element),
    }
}

/// The name of the argument that says how long the list is: `self`, but for a number to the power of tensors.
fn list_name(cx: &Cx<'_, '_>) -> &'static str {
    match cx.call.arg("self") {
        Some(Arg::Tensors(_)) => "self",
        _ => "exponent",
    }
}

/// Which of these arguments the overload has.
fn present<'n>(cx: &Cx<'_, '_>, names: &[&'n str]) -> Vec<&'n str> {
    names.iter().copied().filter(|n| cx.has(n)).collect()
}

/// Applies a kernel to the k-th of each operand, in their common type. Operands of `weights` do not take part in promotion.
fn each(cx: &mut Cx<'_, '_>, names: &[&str], weights: &[&str], ints: Integers, kernel: Kernel) -> Lowered {
    each_rounded(cx, names, weights, ints, false, kernel)
}

/// As [`each`]; numbers are rounded to the type of the result first where `round` says so, as torch does in sums.
fn each_rounded(
    cx: &mut Cx<'_, '_>,
    names: &[&str],
    weights: &[&str],
    ints: Integers,
    round: bool,
    kernel: Kernel,
) -> Lowered {
    let names = present(cx, names);
    let weights = present(cx, weights);
    let count = cx.opt_tensors(list_name(cx))?.len();
    let mut results = Vec::with_capacity(count);
    for k in 0..count {
        let default = default_float(cx);
        let mut types = Promotion::default();
        for name in &names {
            match item(cx, name, k)? {
                Item::Tensor(meta) => types.tensor(&meta, default),
                Item::Number(kind) => types.number(kind, default),
            }
        }
        let result = types.result().ok_or_else(|| missing(cx, "self", k))?;
        let mut element = compute_type(result);
        if ints == Integers::ToFloat && !element.is_float() && !element.is_complex() {
            element = default;
        }
        let dims = cx.out(k)?.dims.clone();
        let mut values = Vec::with_capacity(names.len() + weights.len());
        for name in names.iter().chain(&weights) {
            let v = item_value(cx, name, k, if round { result } else { element })?;
            let v = cx.cast(v, element)?;
            values.push(cx.broadcast_to(v, &dims)?);
        }
        results.push(kernel(cx, &values)?);
    }
    Ok(results.into())
}

fn unary(cx: &mut Cx<'_, '_>, kernel: Unary, ints: Integers) -> Lowered {
    let all = cx.tensors("self")?;
    let default = default_float(cx);
    let mut results = Vec::with_capacity(all.len());
    for x in all {
        let mut x = cx.up(x)?;
        let element = cx.element(x)?;
        let exact = !element.is_float() && !element.is_complex();
        if exact && ints == Integers::ToFloat {
            x = cx.cast(x, default)?;
        }
        results.push(kernel(cx, x)?);
    }
    Ok(results.into())
}

fn float(cx: &mut Cx<'_, '_>, kernel: Unary) -> Lowered {
    unary(cx, kernel, Integers::ToFloat)
}

fn keep(cx: &mut Cx<'_, '_>, kernel: Unary) -> Lowered {
    unary(cx, kernel, Integers::Keep)
}

/// A kernel that integers and booleans pass unchanged.
fn keep_integers(cx: &mut Cx<'_, '_>, kernel: Unary) -> Lowered {
    let all = cx.tensors("self")?;
    let mut results = Vec::with_capacity(all.len());
    for x in all {
        let x = cx.up(x)?;
        results.push(if cx.element(x)?.is_float() {
            kernel(cx, x)?
        } else {
            x
        });
    }
    Ok(results.into())
}

const OPERANDS: &[&str] = &["self", "other", "scalar", "scalars"];

/// `self + alpha * other`.
fn with_alpha(cx: &mut Cx<'_, '_>, kernel: Kernel) -> Lowered {
    each_rounded(cx, OPERANDS, &["alpha"], Integers::Keep, true, kernel)
}

fn scaled(cx: &mut Cx<'_, '_>, v: &[Value]) -> Result<Value> {
    match v.get(2) {
        Some(&alpha) => multiply(cx, v[1], alpha),
        None => Ok(v[1]),
    }
}

fn foreach_add(cx: &mut Cx<'_, '_>) -> Lowered {
    with_alpha(cx, |cx, v| {
        let b = scaled(cx, v)?;
        plus(cx, v[0], b)
    })
}

fn foreach_sub(cx: &mut Cx<'_, '_>) -> Lowered {
    with_alpha(cx, |cx, v| {
        let b = scaled(cx, v)?;
        minus(cx, v[0], b)
    })
}

fn foreach_mul(cx: &mut Cx<'_, '_>) -> Lowered {
    each(cx, OPERANDS, &[], Integers::Keep, |cx, v| {
        multiply(cx, v[0], v[1])
    })
}

fn foreach_div(cx: &mut Cx<'_, '_>) -> Lowered {
    each(cx, OPERANDS, &[], Integers::ToFloat, |cx, v| {
        divide(cx, v[0], v[1])
    })
}

fn foreach_maximum(cx: &mut Cx<'_, '_>) -> Lowered {
    each(cx, OPERANDS, &[], Integers::Keep, |cx, v| greater(cx, v[0], v[1]))
}

fn foreach_minimum(cx: &mut Cx<'_, '_>) -> Lowered {
    each(cx, OPERANDS, &[], Integers::Keep, |cx, v| lesser(cx, v[0], v[1]))
}

fn foreach_pow(cx: &mut Cx<'_, '_>) -> Lowered {
    each(cx, &["self", "exponent"], &[], Integers::Keep, |cx, v| {
        exp::power(cx, v[0], v[1])
    })
}

fn foreach_lerp(cx: &mut Cx<'_, '_>) -> Lowered {
    each(
        cx,
        &["self", "tensors1"],
        &["weights", "weight"],
        Integers::Keep,
        |cx, v| interpolate(cx, v[0], v[1], v[2]),
    )
}

const ACCUMULATED: &[&str] = &["self", "tensor1", "tensor2"];

fn foreach_addcmul(cx: &mut Cx<'_, '_>) -> Lowered {
    each(cx, ACCUMULATED, &["value", "scalars"], Integers::Keep, |cx, v| {
        accumulate_kernel(cx, v[0], [v[1], v[2], v[3]], multiply)
    })
}

fn foreach_addcdiv(cx: &mut Cx<'_, '_>) -> Lowered {
    each(cx, ACCUMULATED, &["value", "scalars"], Integers::Keep, |cx, v| {
        accumulate_kernel(cx, v[0], [v[1], v[2], v[3]], divide)
    })
}

/// A norm of each tensor, in the type of the result.
fn foreach_norm(cx: &mut Cx<'_, '_>) -> Lowered {
    norms(cx, false)
}

/// The sum of powers of magnitudes: a norm without its root.
fn foreach_powsum(cx: &mut Cx<'_, '_>) -> Lowered {
    norms(cx, true)
}

fn norms(cx: &mut Cx<'_, '_>, without_root: bool) -> Lowered {
    let all = cx.tensors("self")?;
    let p = order(cx)?;
    let mut results = Vec::with_capacity(all.len());
    for (k, x) in all.into_iter().enumerate() {
        let wide = compute_type(cx.out(k)?.element);
        let element = match (cx.element(x)?.is_complex(), wide) {
            (true, ElementType::F64) => ElementType::C128,
            (true, _) => ElementType::C64,
            (false, _) => wide,
        };
        let x = cx.cast(x, element)?;
        // As one dimension: a norm of a number is its magnitude too.
        let n: i64 = cx.dims(x)?.iter().product();
        let x = cx.reshape(x, &[n])?;
        results.push(if without_root {
            let size = cx.f.abs(x)?;
            let powers = exp::power_of(cx, size, p)?;
            reduce(cx, powers, &[0], Reducer::Sum)?
        } else {
            vector_norm(cx, x, p, &[0])?
        });
    }
    Ok(results.into())
}

fn foreach_max(cx: &mut Cx<'_, '_>) -> Lowered {
    let all = cx.tensors("self")?;
    let mut results = Vec::with_capacity(all.len());
    for x in all {
        let n: i64 = cx.dims(x)?.iter().product();
        let x = cx.reshape(x, &[n])?;
        results.push(reduce(cx, x, &[0], Reducer::Max)?);
    }
    Ok(results.into())
}

fn foreach_zero(cx: &mut Cx<'_, '_>) -> Lowered {
    let all = cx.tensors("self")?;
    let mut results = Vec::with_capacity(all.len());
    for x in all {
        results.push(cx.full_like(x, 0)?);
    }
    Ok(results.into())
}

fn foreach_copy(cx: &mut Cx<'_, '_>) -> Lowered {
    let sources = cx.tensors("src")?;
    let mut results = Vec::with_capacity(sources.len());
    for (k, x) in sources.into_iter().enumerate() {
        let dims = cx.out(k)?.dims.clone();
        results.push(cx.broadcast_to(x, &dims)?);
    }
    Ok(results.into())
}

fn foreach_clone(cx: &mut Cx<'_, '_>) -> Lowered {
    Ok(cx.tensors("self")?.into())
}

pub(crate) const OPS: &[OpDef] = &[
    OpDef::new("_foreach_add", foreach_add),
    OpDef::new("_foreach_sub", foreach_sub),
    OpDef::new("_foreach_mul", foreach_mul),
    OpDef::new("_foreach_div", foreach_div),
    OpDef::new("_foreach_maximum", foreach_maximum),
    OpDef::new("_foreach_minimum", foreach_minimum),
    OpDef::new("_foreach_clamp_min", foreach_maximum),
    OpDef::new("_foreach_clamp_max", foreach_minimum),
    OpDef::new("_foreach_pow", foreach_pow),
    OpDef::new("_foreach_lerp", foreach_lerp),
    OpDef::new("_foreach_addcmul", foreach_addcmul),
    OpDef::new("_foreach_addcdiv", foreach_addcdiv),
    OpDef::new("_foreach_norm", foreach_norm).statics(&["ord"]),
    OpDef::new("_foreach_powsum", foreach_powsum).statics(&["ord"]),
    OpDef::new("_foreach_max", foreach_max),
    OpDef::new("_foreach_zero", foreach_zero),
    OpDef::new("_foreach_copy", foreach_copy),
    OpDef::new("_foreach_clone", foreach_clone),
    OpDef::new("_foreach_abs", |cx| keep(cx, magnitude)),
    OpDef::new("_foreach_neg", |cx| keep(cx, negate)),
    OpDef::new("_foreach_sign", |cx| keep(cx, round::sign_of)),
    OpDef::new("_foreach_frac", |cx| keep(cx, round::fraction)),
    OpDef::new("_foreach_ceil", |cx| keep_integers(cx, round::round_up)),
    OpDef::new("_foreach_floor", |cx| keep_integers(cx, round::round_down)),
    OpDef::new("_foreach_round", |cx| keep_integers(cx, round::round_nearest)),
    OpDef::new("_foreach_trunc", |cx| keep_integers(cx, round::truncate)),
    OpDef::new("_foreach_reciprocal", |cx| float(cx, inverse)),
    OpDef::new("_foreach_sqrt", |cx| float(cx, exp::square_root)),
    OpDef::new("_foreach_rsqrt", |cx| float(cx, exp::reciprocal_root)),
    OpDef::new("_foreach_exp", |cx| float(cx, exp::exponential)),
    OpDef::new("_foreach_expm1", |cx| float(cx, exp::exponential_minus_one)),
    OpDef::new("_foreach_log", |cx| float(cx, exp::logarithm)),
    OpDef::new("_foreach_log10", |cx| float(cx, exp::logarithm_10)),
    OpDef::new("_foreach_log1p", |cx| float(cx, exp::logarithm_plus_one)),
    OpDef::new("_foreach_log2", |cx| float(cx, exp::logarithm_2)),
    OpDef::new("_foreach_sigmoid", |cx| float(cx, exp::logistic)),
    OpDef::new("_foreach_erf", |cx| float(cx, special::error_function)),
    OpDef::new("_foreach_erfc", |cx| {
        float(cx, special::error_function_complement)
    }),
    OpDef::new("_foreach_lgamma", |cx| float(cx, special::log_gamma)),
    OpDef::new("_foreach_sin", |cx| float(cx, trig::sine)),
    OpDef::new("_foreach_cos", |cx| float(cx, trig::cosine)),
    OpDef::new("_foreach_tan", |cx| float(cx, trig::tangent)),
    OpDef::new("_foreach_asin", |cx| float(cx, trig::arc_sine)),
    OpDef::new("_foreach_acos", |cx| float(cx, trig::arc_cosine)),
    OpDef::new("_foreach_atan", |cx| float(cx, trig::arc_tangent)),
    OpDef::new("_foreach_sinh", |cx| float(cx, trig::hyperbolic_sine)),
    OpDef::new("_foreach_cosh", |cx| float(cx, trig::hyperbolic_cosine)),
    OpDef::new("_foreach_tanh", |cx| float(cx, trig::hyperbolic_tangent)),
];
