//! How a tensor lies in its storage, and the ops that read it from the storage's dense value or write it back.
//!
//! A storage's value has sizes `base` (row-major). A tensor is sizes, strides and an offset over the same elements.
//! [`plan`] picks the cheapest way that is right:
//!
//! 1. [`Plan::Whole`]: the tensor is the whole value, its dimensions permuted or regrouped: reshape and transpose.
//! 2. [`Plan::Slice`]: each of its dimensions steps along one dimension of the value: slice.
//! 3. [`Plan::Chain`]: its strides divide one another: the value is regrouped so that each stride has a dimension of its
//!    own (diagonals, parts of a split dimension), then sliced.
//! 4. [`Plan::Gather`]: anything else (overlapping windows): element by element.
//!
//! Where a slice starts is an input of the program, so `x[0]`, `x[1]`, ... are one program.

use aten::{Dims, Value};
use dtype::ElementType;
use smallvec::SmallVec;
use stablehlo::FunctionBuilder;

use crate::Result;

/// A tensor's place in its storage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct View {
    /// Sizes.
    pub(crate) sizes: Dims,
    /// Strides in elements.
    pub(crate) strides: Dims,
    /// First element.
    pub(crate) offset: i64,
}

/// How a dimension of the tensor steps along a dimension of the value.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Step {
    /// The tensor's dimension.
    pub(crate) dim: u8,
    /// The value's dimension, after regrouping.
    pub(crate) along: u8,
    /// Elements from one to the next, in units of that dimension.
    pub(crate) by: i64,
}

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Plan {
    /// No elements.
    Nothing,
    /// The tensor's dimensions (other than those of size 1) in the order of their strides.
    Whole(SmallVec<[u8; 6]>),
    /// Steps along the value's dimensions as they are.
    Slice(SmallVec<[Step; 6]>),
    /// Steps along these dimensions, after padding the flat value to their product.
    Chain(Dims, SmallVec<[Step; 6]>),
    /// By position.
    Gather,
}

impl Plan {
    /// Whether the offset matters beyond the plan itself.
    pub(crate) fn uses_offset(&self) -> bool {
        matches!(self, Self::Slice(_) | Self::Chain(..) | Self::Gather)
    }
}

/// Whether these strides are dense and row-major, as torch asks: sizes of 1 may have any stride.
pub(crate) fn is_contiguous(sizes: &[i64], strides: &[i64]) -> bool {
    let mut next = 1;
    sizes.contains(&0)
        || sizes.iter().zip(strides).rev().all(|(&size, &stride)| {
            let fits = size == 1 || stride == next;
            next *= size;
            fits
        })
}

/// Row-major strides.
pub(crate) fn contiguous(sizes: &[i64]) -> Dims {
    let mut strides: Dims = SmallVec::from_elem(1, sizes.len());
    for i in (0..sizes.len().saturating_sub(1)).rev() {
        strides[i] = strides[i + 1] * sizes[i + 1].max(1);
    }
    strides
}

/// Whether strides are [`contiguous`] to the letter, those of sizes of 1 too.
pub(crate) fn is_row_major(sizes: &[i64], strides: &[i64]) -> bool {
    let mut next = 1;
    sizes.iter().zip(strides).rev().all(|(&size, &stride)| {
        let fits = stride == next;
        next *= size.max(1);
        fits
    })
}

fn ascends(order: &[u8]) -> bool {
    order.windows(2).all(|w| w[0] < w[1])
}

/// Sizes of a storage's value after a tensor that is all of it was written, as [`Emit::write_whole`] leaves it.
pub(crate) fn memory_order(order: &[u8], view: &View) -> Dims {
    if ascends(order) {
        return view.sizes.clone();
    }
    order.iter().map(|&i| view.sizes[i as usize]).collect()
}

/// Elements of the storage up to the view's last.
pub(crate) fn reach(view: &View) -> i64 {
    if view.sizes.contains(&0) {
        return 0;
    }
    let span: i64 = view
        .sizes
        .iter()
        .zip(&view.strides)
        .map(|(n, s)| (n - 1) * s)
        .sum();
    view.offset + 1 + span
}

/// Picks the way for a view of a value of these sizes, whose elements reach at least as far as the view.
pub(crate) fn plan(base: &[i64], view: &View) -> Plan {
    if view.sizes.contains(&0) {
        return Plan::Nothing;
    }
    let total: i64 = base.iter().product();
    // Dimensions that move at all, by falling stride.
    let mut moving: SmallVec<[u8; 6]> = (0..view.sizes.len())
        .filter(|&i| view.sizes[i] != 1 && view.strides[i] != 0)
        .map(|i| i as u8)
        .collect();
    moving.sort_by_key(|&i| std::cmp::Reverse(view.strides[i as usize]));
    if view.offset == 0
        && !view
            .sizes
            .iter()
            .zip(&view.strides)
            .any(|(n, s)| *n != 1 && *s == 0)
    {
        let mut expected = total;
        let dense = moving.iter().all(|&i| {
            let (n, s) = (view.sizes[i as usize], view.strides[i as usize]);
            let fits = n * s == expected;
            expected = s;
            fits
        });
        if dense && expected == 1 {
            return Plan::Whole(moving);
        }
    }
    slice(base, view, &moving)
        .or_else(|| chain(total, view, &moving))
        .unwrap_or(Plan::Gather)
}

fn slice(base: &[i64], view: &View, moving: &[u8]) -> Option<Plan> {
    let strides = contiguous(base);
    let mut steps = SmallVec::new();
    let mut last: Option<usize> = None;
    for &i in moving {
        let (n, s) = (view.sizes[i as usize], view.strides[i as usize]);
        // The innermost dimension whose stride is not larger: strides fall, so it comes after the last one.
        let j = (0..base.len()).find(|&j| base[j] > 1 && strides[j] <= s)?;
        let by = s / strides[j];
        let start = view.offset / strides[j] % base[j];
        if s % strides[j] != 0 || start + (n - 1) * by >= base[j] || last.is_some_and(|l| l >= j) {
            return None;
        }
        last = Some(j);
        steps.push(Step {
            dim: i,
            along: j as u8,
            by,
        });
    }
    Some(Plan::Slice(steps))
}

fn chain(total: i64, view: &View, moving: &[u8]) -> Option<Plan> {
    let mut groups = Dims::new();
    let mut steps = SmallVec::new();
    let mut outer: Option<i64> = None;
    for (k, &i) in moving.iter().enumerate() {
        let (n, s) = (view.sizes[i as usize], view.strides[i as usize]);
        let size = match outer {
            None => (total + s - 1) / s,
            Some(o) if o % s == 0 && o != s => o / s,
            Some(_) => return None,
        };
        let start = if k == 0 {
            view.offset / s
        } else {
            view.offset / s % size
        };
        if start + n > size {
            return None;
        }
        groups.push(size);
        steps.push(Step {
            dim: i,
            along: k as u8,
            by: 1,
        });
        outer = Some(s);
    }
    match outer {
        // Nothing moves: one element, in flat order.
        None => groups.push(total),
        Some(s) if s > 1 => groups.push(s),
        Some(_) => {}
    }
    Some(Plan::Chain(groups, steps))
}

/// Emits ops on values of known static sizes.
pub(crate) struct Emit<'f, 'a> {
    /// The function.
    pub(crate) f: &'f mut FunctionBuilder<'a>,
}

fn product(dims: &[i64]) -> i64 {
    dims.iter().product()
}

impl Emit<'_, '_> {
    fn reshape(&mut self, v: Value, from: &[i64], to: &[i64]) -> Result<Value> {
        Ok(if from == to { v } else { self.f.reshape(v, to)? })
    }

    fn zero(&mut self, element: ElementType) -> Result<Value> {
        Ok(self.f.full(&[0i64; 0], element, 0)?)
    }

    /// Start positions along dimensions of these sizes for a flat offset (`i64[]`, `None`: all zero).
    fn starts(&mut self, dims: &[i64], offset: Option<Value>) -> Result<Vec<Value>> {
        let Some(offset) = offset else {
            let zero = self.f.scalar(0i64)?;
            return Ok(vec![zero; dims.len()]);
        };
        let strides = contiguous(dims);
        let mut out = Vec::new();
        for (j, (&n, &s)) in dims.iter().zip(&strides).enumerate() {
            let mut v = offset;
            if s > 1 {
                let s = self.f.scalar(s)?;
                v = self.f.divide(v, s)?;
            }
            if j > 0 {
                let n = self.f.scalar(n)?;
                v = self.f.remainder(v, n)?;
            }
            out.push(v);
        }
        Ok(out)
    }

    /// The value regrouped for a chain.
    fn regroup(&mut self, v: Value, base: &[i64], groups: &[i64], element: ElementType) -> Result<Value> {
        let (have, want) = (product(base), product(groups));
        let mut flat = self.reshape(v, base, &[have])?;
        if want > have {
            let zero = self.zero(element)?;
            flat = self.f.pad(flat, zero, &[0], &[want - have], &[0])?;
        }
        self.reshape(flat, &[want], groups)
    }

    /// From a value's steps in its own order to the tensor's dimensions: drop the others, permute, stretch.
    fn shape_as_view(&mut self, v: Value, from: &[i64], order: &[u8], view: &View) -> Result<Value> {
        let kept: Dims = order.iter().map(|&i| view.sizes[i as usize]).collect();
        let mut out = self.reshape(v, from, &kept)?;
        // Position of each kept dimension, in the order of the tensor's dimensions.
        let mut sorted: SmallVec<[u8; 6]> = order.into();
        sorted.sort_unstable();
        if sorted.as_slice() != order {
            let permutation: Vec<i64> = sorted
                .iter()
                .filter_map(|i| order.iter().position(|o| o == i))
                .map(|p| p as i64)
                .collect();
            out = self.f.transpose(out, &permutation)?;
        }
        let have: Dims = sorted.iter().map(|&i| view.sizes[i as usize]).collect();
        if have == view.sizes {
            return Ok(out);
        }
        let stretched = view
            .sizes
            .iter()
            .zip(&view.strides)
            .any(|(n, s)| *n != 1 && *s == 0);
        if !stretched {
            return self.reshape(out, &have, &view.sizes);
        }
        let map: Vec<i64> = sorted.iter().map(|&i| i64::from(i)).collect();
        Ok(self.f.broadcast_in_dim(out, view.sizes.as_slice(), &map)?)
    }

    /// The inverse of [`Emit::shape_as_view`] for a tensor without stretched dimensions.
    fn out_of_view(&mut self, v: Value, order: &[u8], view: &View) -> Result<(Value, Dims)> {
        let mut sorted: SmallVec<[u8; 6]> = order.into();
        sorted.sort_unstable();
        let have: Dims = sorted.iter().map(|&i| view.sizes[i as usize]).collect();
        let mut view = std::borrow::Cow::Borrowed(view);
        let mut v = v;
        let stretched = |view: &View, i: usize| view.sizes[i] > 1 && view.strides[i] == 0;
        if (0..view.sizes.len()).any(|i| stretched(&view, i)) {
            // Only fills write through a stretched view: any of the equal elements is the value.
            let view = view.to_mut();
            let limits: Dims = (0..view.sizes.len())
                .map(|i| if stretched(view, i) { 1 } else { view.sizes[i] })
                .collect();
            let (start, ones) = (vec![0; limits.len()], vec![1; limits.len()]);
            v = self.f.slice(v, &start, &limits, &ones)?;
            view.sizes = limits;
        }
        let view = &*view;
        let mut out = self.reshape(v, &view.sizes, &have)?;
        if sorted.as_slice() != order {
            let permutation: Vec<i64> = order
                .iter()
                .filter_map(|o| sorted.iter().position(|i| i == o))
                .map(|p| p as i64)
                .collect();
            out = self.f.transpose(out, &permutation)?;
        }
        Ok((out, order.iter().map(|&i| view.sizes[i as usize]).collect()))
    }

    /// Flat positions of the tensor's elements, `i64` of its sizes.
    fn positions(&mut self, view: &View, offset: Option<Value>) -> Result<Value> {
        let dims = view.sizes.as_slice();
        let mut at = match offset {
            Some(offset) => self.f.broadcast_in_dim(offset, dims, &[])?,
            None => self.f.full(dims, ElementType::S64, 0)?,
        };
        for (i, &s) in view.strides.iter().enumerate() {
            if view.sizes[i] > 1 && s != 0 {
                let steps = self.f.iota(dims, ElementType::S64, i as i64)?;
                let by = self.f.full(dims, ElementType::S64, s)?;
                let steps = self.f.multiply(steps, by)?;
                at = self.f.add(at, steps)?;
            }
        }
        Ok(at)
    }

    /// Reads the tensor from the value. `offset` is `i64[]`, absent when it is zero.
    pub(crate) fn read(
        &mut self,
        value: Value,
        base: &[i64],
        element: ElementType,
        plan: &Plan,
        view: &View,
        offset: Option<Value>,
    ) -> Result<Value> {
        match plan {
            Plan::Nothing => Ok(self.f.full(view.sizes.as_slice(), element, 0)?),
            Plan::Whole(order) => self.shape_as_view(value, base, order, view),
            Plan::Slice(steps) => self.read_steps(value, base, steps, view, offset),
            Plan::Chain(groups, steps) => {
                let grouped = self.regroup(value, base, groups, element)?;
                self.read_steps(grouped, groups, steps, view, offset)
            }
            Plan::Gather => {
                let total = product(base);
                let flat = self.reshape(value, base, &[total])?;
                let at = self.positions(view, offset)?;
                let dimensions = stablehlo::ops::GatherDimensions {
                    collapsed_slice_dims: vec![0],
                    start_index_map: vec![0],
                    index_vector_dim: view.sizes.len() as i64,
                    ..Default::default()
                };
                Ok(self.f.gather(flat, at, &dimensions, &[1], false)?)
            }
        }
    }

    fn read_steps(
        &mut self,
        value: Value,
        dims: &[i64],
        steps: &[Step],
        view: &View,
        offset: Option<Value>,
    ) -> Result<Value> {
        let (lengths, strides) = lengths(dims, steps, view);
        let starts = self.starts(dims, offset)?;
        let mut v = if lengths.as_slice() == dims {
            value
        } else {
            self.f.dynamic_slice(value, &starts, &lengths)?
        };
        let mut sizes = lengths.clone();
        if strides.iter().any(|s| *s != 1) {
            v = self.f.slice(v, &vec![0; dims.len()], &lengths, &strides)?;
            for step in steps {
                sizes[step.along as usize] = view.sizes[step.dim as usize];
            }
        }
        let order: SmallVec<[u8; 6]> = steps.iter().map(|s| s.dim).collect();
        self.shape_as_view(v, &sizes, &order, view)
    }

    /// Writes the tensor into the value; gives the new value and its sizes.
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn write(
        &mut self,
        value: Value,
        base: &[i64],
        element: ElementType,
        plan: &Plan,
        view: &View,
        offset: Option<Value>,
        new: Value,
    ) -> Result<(Value, Dims)> {
        let out = match plan {
            Plan::Nothing => value,
            Plan::Whole(order) => return self.write_whole(order, view, new),
            Plan::Slice(steps) => self.write_steps(value, base, steps, view, offset, new)?,
            Plan::Chain(groups, steps) => {
                let grouped = self.regroup(value, base, groups, element)?;
                let written = self.write_steps(grouped, groups, steps, view, offset, new)?;
                let (have, want) = (product(groups), product(base));
                let mut flat = self.reshape(written, groups, &[have])?;
                if have > want {
                    flat = self.f.slice(flat, &[0], &[want], &[1])?;
                }
                self.reshape(flat, &[want], base)?
            }
            Plan::Gather => {
                let total = product(base);
                let flat = self.reshape(value, base, &[total])?;
                let at = self.positions(view, offset)?;
                let dimensions = stablehlo::ops::ScatterDimensions {
                    inserted_window_dims: vec![0],
                    scatter_dims_to_operand_dims: vec![0],
                    index_vector_dim: view.sizes.len() as i64,
                    ..Default::default()
                };
                let out = self
                    .f
                    .scatter(&[flat], at, &[new], &dimensions, false, false, |_, args| {
                        Ok(vec![args[1]])
                    })?;
                self.reshape(out[0], &[total], base)?
            }
        };
        Ok((out, base.into()))
    }

    /// The new value of a storage that the tensor fills.
    pub(crate) fn write_whole(&mut self, order: &[u8], view: &View, new: Value) -> Result<(Value, Dims)> {
        if ascends(order) {
            return Ok((new, view.sizes.clone()));
        }
        self.out_of_view(new, order, view)
    }

    fn write_steps(
        &mut self,
        value: Value,
        dims: &[i64],
        steps: &[Step],
        view: &View,
        offset: Option<Value>,
        new: Value,
    ) -> Result<Value> {
        let (lengths, strides) = lengths(dims, steps, view);
        let order: SmallVec<[u8; 6]> = steps.iter().map(|s| s.dim).collect();
        let (mut update, have) = self.out_of_view(new, &order, view)?;
        let mut sizes: Dims = SmallVec::from_elem(1, dims.len());
        for step in steps {
            sizes[step.along as usize] = view.sizes[step.dim as usize];
        }
        update = self.reshape(update, &have, &sizes)?;
        let starts = self.starts(dims, offset)?;
        if strides.iter().any(|s| *s != 1) {
            // Between the elements that are written lie others that stay.
            let interior: Vec<i64> = strides.iter().map(|s| s - 1).collect();
            let none = vec![0; dims.len()];
            let element = self.f.tensor_ty(update)?.element;
            let zero = self.zero(element)?;
            let spread = self.f.pad(update, zero, &none, &none, &interior)?;
            let hit = self.f.full(sizes.as_slice(), ElementType::Pred, true)?;
            let miss = self.f.scalar(false)?;
            let hit = self.f.pad(hit, miss, &none, &none, &interior)?;
            let old = self.f.dynamic_slice(value, &starts, &lengths)?;
            update = self.f.select(hit, spread, old)?;
        }
        Ok(self.f.dynamic_update_slice(value, update, &starts)?)
    }
}

/// How far each dimension of the value is touched, and by which step.
fn lengths(dims: &[i64], steps: &[Step], view: &View) -> (Dims, Dims) {
    let mut lengths: Dims = SmallVec::from_elem(1, dims.len());
    let mut strides: Dims = SmallVec::from_elem(1, dims.len());
    for step in steps {
        let (n, j) = (view.sizes[step.dim as usize], step.along as usize);
        lengths[j] = (n - 1) * step.by + 1;
        strides[j] = step.by;
    }
    (lengths, strides)
}
