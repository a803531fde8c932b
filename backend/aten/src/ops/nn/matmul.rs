//! mm, bmm, mv, dot, vdot, their add forms, linear and its gradients, `_trilinear`.

use dtype::Class;
use stablehlo::Value;
use stablehlo::ops::Direction;

use super::dot::{contract, contract_last};
use super::ex::ex;
use super::util::{masked, sum};
use crate::apart::rows_apart;
use crate::{Cx, ElementType, Error, Lowered, OpDef, Result, compute_type};

/// `self` in the sizes and type of `like`.
fn own(cx: &mut Cx<'_, '_>, like: Value) -> Result<Value> {
    let (dims, element) = (cx.dims(like)?, cx.element(like)?);
    let own = cx.tensor("self")?;
    let own = cx.cast(own, element)?;
    cx.broadcast_to(own, &dims)
}

/// `beta * self`; a `self` multiplied by zero does not count, whatever is in it.
fn beta_self(cx: &mut Cx<'_, '_>, like: Value) -> Result<Value> {
    let element = cx.element(like)?;
    let (own, beta) = (own(cx, like)?, cx.scalar("beta", element)?);
    let zero = cx.full_like(like, 0)?;
    let ignored = ex(beta).eq(0.0).eval(cx)?;
    let scaled = (ex(beta) * own).eval(cx)?;
    Ok(cx.f.select(ignored, zero, scaled)?)
}

/// `beta * self + alpha * product`.
fn add_scaled(cx: &mut Cx<'_, '_>, product: Value) -> Result<Value> {
    let element = cx.element(product)?;
    let alpha = cx.scalar("alpha", element)?;
    if element.class() == Class::Boolean {
        let (own, beta) = (own(cx, product)?, cx.scalar("beta", element)?);
        return ex(beta).and(own).or(ex(alpha).and(product)).eval(cx);
    }
    let own = beta_self(cx, product)?;
    (ex(own) + ex(alpha) * product).eval(cx)
}

/// Matrices are not promoted: factors of different types are the user's mistake.
fn one_type(cx: &Cx<'_, '_>, a: &str, b: &str) -> Result<()> {
    let (x, y) = (cx.meta(a)?.element, cx.meta(b)?.element);
    if x == y {
        return Ok(());
    }
    Err(Error::Refused(format!(
        "expected {a} and {b} to have the same dtype, but got: {x} != {y}"
    )))
}

/// The product of two arguments by their dimensions' names.
fn product(cx: &mut Cx<'_, '_>, a: (&str, &str), b: (&str, &str), out: &str) -> Result<Value> {
    one_type(cx, a.0, b.0)?;
    let (x, y) = (cx.tensor(a.0)?, cx.tensor(b.0)?);
    contract(cx, (x, a.1), (y, b.1), out)
}

/// A factor of two dimensions in more: its rows as they were before they were merged into one dimension.
struct Apart {
    /// Of the sizes `rows`, and one more for the columns.
    value: Value,
    rows: Vec<i64>,
    /// The factor is the transposed of it.
    turned: bool,
}

impl Apart {
    /// Finds the rows of a matrix. Where it is one of its own the rows are its first dimension.
    fn of(cx: &mut Cx<'_, '_>, v: Value) -> Result<Self> {
        let turned = cx.f.transposed_of(v).filter(|(_, order)| *order == [1, 0]);
        let whole = super::softmax::once_more(cx, turned.map_or(v, |(of, _)| of))?;
        let turned = turned.is_some();
        let sizes = cx.dims(whole)?;
        if let Some((value, rows)) = rows_apart(cx, whole)? {
            return Ok(Self { value, rows, turned });
        }
        let rows = vec![sizes[0]];
        Ok(Self {
            value: whole,
            rows,
            turned,
        })
    }

    /// With its rows as these.
    fn agree(self, cx: &mut Cx<'_, '_>, rows: &[i64]) -> Result<Self> {
        if self.rows == rows {
            return Ok(self);
        }
        let columns = cx.dims(self.value)?.last().copied().unwrap_or(1);
        let wide: Vec<i64> = rows.iter().copied().chain([columns]).collect();
        Ok(Self {
            value: cx.reshape(self.value, &wide)?,
            rows: rows.to_vec(),
            ..self
        })
    }

    /// With its rows as one.
    fn merged(self, cx: &mut Cx<'_, '_>) -> Result<Self> {
        let all = self.rows.iter().product();
        self.agree(cx, &[all])
    }

    /// Letters for its dimensions: those of the rows from `letters`, then that of the columns.
    fn names(&self, letters: &str, columns: char) -> String {
        letters.chars().take(self.rows.len()).chain([columns]).collect()
    }
}

/// The product of two matrices, with the rows that it has as they were before they were merged, as [`batch_apart`] does.
/// `last`: it is the whole result.
fn product_apart(cx: &mut Cx<'_, '_>, a: &str, b: &str, last: bool) -> Result<Value> {
    one_type(cx, a, b)?;
    let (x, y) = (cx.tensor(a)?, cx.tensor(b)?);
    let (mut x, mut y) = (Apart::of(cx, x)?, Apart::of(cx, y)?);
    match (x.turned, y.turned) {
        (false, false) => y = y.merged(cx)?,
        (true, true) => x = x.merged(cx)?,
        (false, true) => {}
        // Both sum over their rows.
        (true, false) if x.rows == y.rows => {}
        (true, false) if x.rows.len() == 1 => x = x.agree(cx, &y.rows)?,
        (true, false) if y.rows.len() == 1 => y = y.agree(cx, &x.rows)?,
        (true, false) => (x, y) = (x.merged(cx)?, y.merged(cx)?),
    }
    let (x_names, y_names) = match (x.turned, y.turned) {
        (false, false) => (x.names("abcdef", 'k'), y.names("k", 'j')),
        (false, true) => (x.names("abcdef", 'k'), y.names("uvwxyz", 'k')),
        (true, false) => (x.names("mnopqr", 'i'), y.names("mnopqr", 'j')),
        (true, true) => (x.names("k", 'i'), y.names("uvwxyz", 'k')),
    };
    let lone =
        |names: &str, other: &str| -> String { names.chars().filter(|c| !other.contains(*c)).collect() };
    let out = lone(&x_names, &y_names) + &lone(&y_names, &x_names);
    if last {
        contract_last(cx, (x.value, &x_names), (y.value, &y_names), &out)
    } else {
        contract(cx, (x.value, &x_names), (y.value, &y_names), &out)
    }
}

fn mm(cx: &mut Cx<'_, '_>) -> Lowered {
    let product = product_apart(cx, "self", "mat2", true)?;
    let dims = &cx.out(0)?.dims;
    Ok(cx.reshape(product, dims)?.into())
}

fn bmm(cx: &mut Cx<'_, '_>) -> Lowered {
    one_type(cx, "self", "mat2")?;
    let (x, y) = (cx.tensor("self")?, cx.tensor("mat2")?);
    let (x_apart, y_apart) = (batch_apart(cx, x)?, batch_apart(cx, y)?);
    let apart = x_apart.as_ref().or(y_apart.as_ref());
    let Some(batch) = apart.map(|(_, batch)| batch.clone()) else {
        return Ok(contract_last(cx, (x, "bik"), (y, "bkj"), "bij")?.into());
    };
    let mut each = Vec::new();
    for (v, found) in [(x, x_apart), (y, y_apart)] {
        let dims = cx.dims(v)?;
        let wide: Vec<i64> = batch.iter().copied().chain(dims[1..].iter().copied()).collect();
        each.push(match found {
            Some((found, its)) if its == batch => found,
            _ => cx.reshape(v, &wide)?,
        });
    }
    let names = &"abcdefgh"[..batch.len()];
    let (x, y) = ((each[0], format!("{names}ik")), (each[1], format!("{names}kj")));
    let product = contract_last(cx, (x.0, &x.1), (y.0, &y.1), &format!("{names}ij"))?;
    let dims = &cx.out(0)?.dims;
    Ok(cx.reshape(product, dims)?.into())
}

/// Matrices of which `matmul` made one batch, in the dimensions that it had before, and these: a TPU then need not order a
/// batch's matrices one after the other (the heads of an attention lie inside of its positions).
fn batch_apart(cx: &mut Cx<'_, '_>, v: Value) -> Result<Option<(Value, Vec<i64>)>> {
    const MOST: usize = 8;
    let turned = cx.f.transposed_of(v).filter(|(_, order)| *order == [0, 2, 1]);
    let of = turned.map_or(v, |(of, _)| of);
    let Some(source) = cx.f.operand_of("stablehlo.reshape", of) else {
        return Ok(None);
    };
    let (merged, sizes) = (cx.dims(of)?, cx.dims(source)?);
    let Some(batch) = sizes.len().checked_sub(2) else {
        return Ok(None);
    };
    let fits = sizes[batch..] == merged[1..] && sizes[..batch].iter().product::<i64>() == merged[0];
    if !fits || !(2..=MOST).contains(&batch) || merged[0] == 0 {
        return Ok(None);
    }
    let found = if turned.is_some() {
        let last = batch as i64;
        let order: Vec<i64> = (0..last).chain([last + 1, last]).collect();
        cx.f.transpose(source, &order)?
    } else {
        source
    };
    Ok(Some((found, sizes[..batch].to_vec())))
}

fn mv(cx: &mut Cx<'_, '_>) -> Lowered {
    Ok(product(cx, ("self", "ik"), ("vec", "k"), "i")?.into())
}

fn dot(cx: &mut Cx<'_, '_>) -> Lowered {
    Ok(product(cx, ("self", "k"), ("tensor", "k"), "")?.into())
}

fn vdot(cx: &mut Cx<'_, '_>) -> Lowered {
    let (a, b) = (cx.tensor("self")?, cx.tensor("other")?);
    let a = if cx.element(a)?.is_complex() {
        cx.f.chlo_conj(a)?
    } else {
        a
    };
    Ok(contract(cx, (a, "k"), (b, "k"), "")?.into())
}

fn addmm(cx: &mut Cx<'_, '_>) -> Lowered {
    let p = product_apart(cx, "mat1", "mat2", false)?;
    let out = cx.out(0)?;
    if cx.meta("self")?.dims.len() > 1 {
        let p = cx.reshape(p, &out.dims)?;
        return Ok(add_scaled(cx, p)?.into());
    }
    // Rounded as it lies: what follows then finds it there.
    let sum = add_scaled(cx, p)?;
    let sum = cx.cast(sum, out.element)?;
    Ok(cx.reshape(sum, &out.dims)?.into())
}

fn addmm_activation(cx: &mut Cx<'_, '_>) -> Lowered {
    let p = product(cx, ("mat1", "ik"), ("mat2", "kj"), "ij")?;
    let x = add_scaled(cx, p)?;
    Ok(if cx.bool("use_gelu")? {
        super::activation::gelu_exact(cx, x)?
    } else {
        ex(x).max(0.0).eval(cx)?
    }
    .into())
}

fn addmv(cx: &mut Cx<'_, '_>) -> Lowered {
    let p = product(cx, ("mat", "ik"), ("vec", "k"), "i")?;
    Ok(add_scaled(cx, p)?.into())
}

fn baddbmm(cx: &mut Cx<'_, '_>) -> Lowered {
    let p = product(cx, ("batch1", "bik"), ("batch2", "bkj"), "bij")?;
    Ok(add_scaled(cx, p)?.into())
}

fn addbmm(cx: &mut Cx<'_, '_>) -> Lowered {
    one_type(cx, "self", "batch1")?;
    let narrow = cx.out(0)?.element;
    if compute_type(narrow) != narrow {
        return addbmm_rounded(cx, narrow);
    }
    let p = product(cx, ("batch1", "bik"), ("batch2", "bkj"), "ij")?;
    Ok(add_scaled(cx, p)?.into())
}

/// Products that are summed one after the other without a loop.
const UNROLLED: i64 = 64;

/// Torch adds one product after the other to a result of the narrow type: all products are one contraction, their rounded sum
/// is elementwise. Very many are not kept at the same time.
fn addbmm_rounded(cx: &mut Cx<'_, '_>, narrow: ElementType) -> Lowered {
    one_type(cx, "batch1", "batch2")?;
    let (a, b) = (cx.tensor("batch1")?, cx.tensor("batch2")?);
    let (a_dims, b_dims) = (cx.dims(a)?, cx.dims(b)?);
    let (rows, inner, columns) = (a_dims[1], a_dims[2], b_dims[2]);
    let like = cx.full(&[rows, columns], compute_type(narrow), 0)?;
    let own = beta_self(cx, like)?;
    if a_dims[0] == 0 || inner == 0 {
        return Ok(own.into());
    }
    let alpha = cx.scalar("alpha", compute_type(narrow))?;
    let alpha = cx.broadcast_to(alpha, &[rows, columns])?;
    if a_dims[0] <= UNROLLED {
        let products = contract(cx, (a, "bik"), (b, "bkj"), "bij")?;
        let mut total = own;
        for i in 0..a_dims[0] {
            let product = super::util::slice_dim(cx, products, 0, i, i + 1)?;
            let product = cx.reshape(product, &[rows, columns])?;
            let sum = (ex(total) + ex(product) * alpha).eval(cx)?;
            total = cx.rounded(sum, narrow)?;
        }
        return Ok(total.into());
    }
    let options = super::dot::dot_options(narrow);
    let numbers = stablehlo::ops::DotDimensions {
        lhs_contracting: vec![1],
        rhs_contracting: vec![0],
        ..Default::default()
    };
    let start = cx.full(&[], ElementType::S32, 0)?;
    let end = cx.full(&[], ElementType::S32, a_dims[0])?;
    let done = cx.f.while_(
        &[start, own],
        |f, c| Ok(vec![f.compare(c[0], end, Direction::Lt)?]),
        |f, c| {
            let zero = f.scalar(0i32)?;
            let x = f.dynamic_slice(a, &[c[0], zero, zero], &[1, rows, inner])?;
            let x = f.reshape(x, &[rows, inner])?;
            let y = f.dynamic_slice(b, &[c[0], zero, zero], &[1, inner, columns])?;
            let y = f.reshape(y, &[inner, columns])?;
            let product = f.dot_general(x, y, &numbers, &options)?;
            let product = f.multiply(product, alpha)?;
            let sum = f.add(c[1], product)?;
            let sum = match narrow {
                ElementType::F16 => f.reduce_precision(sum, 5, 10)?,
                _ => f.reduce_precision(sum, 8, 7)?,
            };
            let one = f.scalar(1i32)?;
            Ok(vec![f.add(c[0], one)?, sum])
        },
    )?;
    Ok(done[1].into())
}

fn addr(cx: &mut Cx<'_, '_>) -> Lowered {
    // Operands may be of different types here. CPU torch rounds to the result's type after each step, so we compute in it.
    let element = cx.out(0)?.element;
    let (a, b) = (cx.tensor("vec1")?, cx.tensor("vec2")?);
    let (a, b) = (cx.cast(a, element)?, cx.cast(b, element)?);
    let n = cx.dims(a)?[0];
    let a = cx.reshape(a, &[n, 1])?;
    if element == ElementType::Pred {
        let p = ex(a).and(b).eval(cx)?;
        return Ok(add_scaled(cx, p)?.into());
    }
    // Narrow floats are multiplied as singles and rounded by hand: compilers keep more digits than asked.
    let wide = compute_type(element);
    let mut step = [
        cx.scalar("alpha", element)?,
        a,
        b,
        own_narrow(cx, element)?,
        cx.scalar("beta", element)?,
    ];
    for v in &mut step {
        *v = cx.cast(*v, wide)?;
    }
    let [alpha, a, b, own, beta] = step;
    let p = (ex(alpha) * a).eval(cx)?;
    let p = cx.rounded(p, element)?;
    let p = (ex(p) * b).eval(cx)?;
    let p = cx.rounded(p, element)?;
    let scaled = (ex(beta) * own).eval(cx)?;
    let scaled = cx.rounded(scaled, element)?;
    let ignored = ex(beta).eq(0.0).eval(cx)?;
    let none = cx.full_like(scaled, 0)?;
    let scaled = cx.f.select(ignored, none, scaled)?;
    Ok((ex(scaled) + p).eval(cx)?.into())
}

/// `self` in the result's type, not yet in its sizes.
fn own_narrow(cx: &mut Cx<'_, '_>, element: ElementType) -> Result<Value> {
    let own = cx.tensor("self")?;
    cx.cast(own, element)
}

fn int_mm(cx: &mut Cx<'_, '_>) -> Lowered {
    let (a, b) = (cx.tensor("self")?, cx.tensor("mat2")?);
    let (a, b) = (cx.cast(a, ElementType::S32)?, cx.cast(b, ElementType::S32)?);
    Ok(contract(cx, (a, "ik"), (b, "kj"), "ij")?.into())
}

/// Any number of leading dimensions as one.
fn rows(cx: &mut Cx<'_, '_>, v: Value) -> Result<Value> {
    let dims = cx.dims(v)?;
    let (last, leading) = match dims.split_last() {
        Some((last, leading)) => (*last, leading.iter().product()),
        None => (1, 1),
    };
    cx.reshape(v, &[leading, last])
}

fn linear(cx: &mut Cx<'_, '_>) -> Lowered {
    one_type(cx, "input", "weight")?;
    let (x, w) = (cx.tensor("input")?, cx.tensor("weight")?);
    let dims = &cx.out(0)?.dims;
    let x = rows(cx, x)?;
    let y = if cx.rank(w)? == 1 {
        contract(cx, (x, "ik"), (w, "k"), "i")?
    } else {
        contract(cx, (x, "ik"), (w, "jk"), "ij")?
    };
    let mut y = cx.reshape(y, dims)?;
    let element = cx.element(y)?;
    if cx.has("out") && dims.len() != 2 {
        // torch writes the product there and adds to what it has written.
        let own = cx.meta("input")?.element;
        y = cx.rounded(y, own)?;
    }
    Ok(match super::util::opt_as(cx, "bias", element)? {
        Some(bias) => (ex(y) + bias).eval(cx)?,
        None => y,
    }
    .into())
}

fn linear_backward(cx: &mut Cx<'_, '_>) -> Lowered {
    let mask = cx.bools("output_mask")?;
    let (x, w, g) = (
        cx.tensor("self")?,
        cx.tensor("weight")?,
        cx.tensor("grad_output")?,
    );
    let (x_dims, w_dims) = (cx.dims(x)?, cx.dims(w)?);
    let wide = if w_dims.len() == 1 {
        vec![1, w_dims[0]]
    } else {
        w_dims.to_vec()
    };
    let w = cx.reshape(w, &wide)?;
    let x = rows(cx, x)?;
    let m = cx.dims(x)?[0];
    let g = cx.reshape(g, &[m, wide[0]])?;
    let dx = contract(cx, (g, "ij"), (w, "jk"), "ik")?;
    let dx = cx.reshape(dx, &x_dims)?;
    let dw = contract(cx, (g, "ij"), (x, "ik"), "jk")?;
    let dw = cx.reshape(dw, &w_dims)?;
    let g = cx.up(g)?;
    let db = sum(cx, g, &[0])?;
    let db = if w_dims.len() == 1 {
        cx.reshape(db, &[])?
    } else {
        db
    };
    Ok(masked(&mask, [Some(dx), Some(dw), Some(db)]))
}

/// `(i1 * i2 * i3)` summed, each with the dimensions of `expandN` added: two contractions, never the whole product.
fn trilinear(cx: &mut Cx<'_, '_>) -> Lowered {
    let names = "abcdefghijklmnopqrstuvwxyz";
    let (expand, summed) = (
        [cx.ints("expand1")?, cx.ints("expand2")?, cx.ints("expand3")?],
        cx.ints("sumdim")?,
    );
    let tensors = [cx.tensor("i1")?, cx.tensor("i2")?, cx.tensor("i3")?];
    let rank = cx.rank(tensors[0])? + expand[0].len();
    let full: String = names.chars().take(rank).collect();
    let without = |gone: &[i64]| -> String {
        let left = full
            .chars()
            .enumerate()
            .filter(|(i, _)| !gone.contains(&(*i as i64)));
        left.map(|(_, c)| c).collect()
    };
    let [n1, n2, n3] = [without(&expand[0]), without(&expand[1]), without(&expand[2])];
    let out = without(&summed);
    // Size 1 against more: contractions want equal sizes.
    let mut sizes = vec![1i64; rank];
    let mut each = Vec::new();
    for (t, n) in tensors.iter().zip([&n1, &n2, &n3]) {
        each.push((*t, cx.dims(*t)?));
        for (c, d) in n.chars().zip(cx.dims(*t)?) {
            let slot = &mut sizes[full.find(c).unwrap_or(0)];
            *slot = if *slot == 1 { d } else { *slot };
        }
    }
    let mut wide = Vec::new();
    for ((t, _), n) in each.into_iter().zip([&n1, &n2, &n3]) {
        let dims: Vec<i64> = n.chars().map(|c| sizes[full.find(c).unwrap_or(0)]).collect();
        wide.push(cx.broadcast_to(t, &dims)?);
    }
    let between: String = full
        .chars()
        .filter(|c| (n1.contains(*c) || n2.contains(*c)) && (out.contains(*c) || n3.contains(*c)))
        .collect();
    let element = cx.element(tensors[0])?;
    let part = contract(cx, (wide[0], &n1), (wide[1], &n2), &between)?;
    let part = cx.cast(part, element)?;
    // A dimension that no operand has is 1 and stays so.
    let have: String = out
        .chars()
        .filter(|c| between.contains(*c) || n3.contains(*c))
        .collect();
    let v = contract(cx, (part, &between), (wide[2], &n3), &have)?;
    let dims = &cx.out(0)?.dims;
    Ok(cx.reshape(v, dims)?.into())
}

pub(crate) const OPS: &[OpDef] = &[
    OpDef::new("mm", mm),
    OpDef::new("bmm", bmm),
    OpDef::new("mv", mv),
    OpDef::new("dot", dot),
    OpDef::new("vdot", vdot),
    OpDef::new("addmm", addmm),
    OpDef::new("_addmm_activation", addmm_activation),
    OpDef::new("addmv", addmv),
    OpDef::new("baddbmm", baddbmm),
    OpDef::new("addbmm", addbmm),
    OpDef::new("addr", addr),
    OpDef::new("_int_mm", int_mm),
    OpDef::new("linear", linear),
    OpDef::new("linear_backward", linear_backward),
    OpDef::new("_trilinear", trilinear),
];
