//! How results lie in memory, where CPU torch and the metadata at hand differ.

use dtype::ElementType;

use crate::{Arg, Call, Dims};

/// A result that is to be made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Made {
    /// Sizes.
    pub dims: Dims,
    /// Strides.
    pub strides: Dims,
    /// Element type.
    pub element: ElementType,
}

impl Made {
    /// Dense, the dimensions in this order from the one that varies slowest.
    pub fn lay(&mut self, order: &[usize]) {
        let mut step = 1;
        for &d in order.iter().rev() {
            self.strides[d] = step;
            step *= self.dims[d].max(1);
        }
    }

    /// Dense, with the channels (the second dimension) varying fastest or, if not `last`, in the order of the dimensions.
    pub fn lay_channels(&mut self, last: bool) {
        let mut order: Vec<usize> = (0..self.dims.len()).collect();
        if last && order.len() > 2 {
            order.remove(1);
            order.push(1);
        }
        self.lay(&order);
    }

    /// Dense, in the order of the dimensions.
    pub fn lay_in_order(&mut self) {
        let order: Vec<usize> = (0..self.dims.len()).collect();
        self.lay(&order);
    }
}

/// Changes what the new results of a call would be; sees the strides of its tensors (none for numbers on the host).
pub type AmendFn = fn(&Call, &[&[i64]], &mut [Option<Made>]);

/// Sizes and strides of a tensor argument.
pub(crate) fn lies<'a>(call: &'a Call, strides: &[&'a [i64]], name: &str) -> Option<(&'a [i64], &'a [i64])> {
    let Some(Arg::Tensor(i)) = call.arg(name) else {
        return None;
    };
    let i = *i as usize;
    Some((call.tensors.get(i)?.dims.as_slice(), *strides.get(i)?))
}

/// Results of matrices column by column, as LAPACK leaves them.
pub(crate) fn column_by_column(_: &Call, _: &[&[i64]], made: &mut [Option<Made>]) {
    if let Some(Some(first)) = made.first_mut() {
        let mut order: Vec<usize> = (0..first.dims.len()).collect();
        let n = order.len();
        if n > 1 {
            order.swap(n - 1, n - 2);
            first.lay(&order);
        }
    }
}

/// The first result has its channels last where `self` has them.
pub(crate) fn channels_last_as_self(call: &Call, strides: &[&[i64]], made: &mut [Option<Made>]) {
    channels_last_as(call, strides, made, "self");
}

/// The first result has its channels last where `input` has them.
pub(crate) fn channels_last_as_input(call: &Call, strides: &[&[i64]], made: &mut [Option<Made>]) {
    channels_last_as(call, strides, made, "input");
}

/// The first result lies in the order of its dimensions, whatever the arguments do.
pub(crate) fn in_order(_: &Call, _: &[&[i64]], made: &mut [Option<Made>]) {
    if let Some(Some(first)) = made.first_mut() {
        first.lay_in_order();
    }
}

fn channels_last_as(call: &Call, strides: &[&[i64]], made: &mut [Option<Made>], name: &str) {
    let (Some((dims, strides)), Some(Some(first))) = (lies(call, strides, name), made.first_mut()) else {
        return;
    };
    let rank = dims.len();
    if first.dims.len() == rank {
        first.lay_channels(is_channels_last(dims, strides));
    }
}

/// `c10::is_channels_last_strides_2d` and `_3d`.
pub(crate) fn is_channels_last(dims: &[i64], strides: &[i64]) -> bool {
    let rank = dims.len();
    if !matches!(rank, 4 | 5) || strides.len() != rank || strides[1] == 0 {
        return false;
    }
    let mut least = 0;
    for d in [1].into_iter().chain((2..rank).rev()).chain([0]) {
        if dims[d] == 0 || strides[d] < least || (d == 0 && least == strides[1]) {
            return false;
        }
        least = strides[d] * dims[d].max(1);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dimensions_lie_in_the_order_given() {
        let mut made = Made {
            dims: Dims::from_slice(&[5, 6, 4]),
            strides: Dims::from_slice(&[0, 0, 0]),
            element: ElementType::F32,
        };
        made.lay(&[1, 0, 2]);
        assert_eq!(made.strides.as_slice(), [4, 20, 1]);
        made.lay_in_order();
        assert_eq!(made.strides.as_slice(), [24, 4, 1]);
    }

    #[test]
    fn channels_last_is_told_from_row_major() {
        assert!(is_channels_last(&[1, 2, 1, 3], &[6, 1, 6, 2]));
        assert!(!is_channels_last(&[2, 3, 4, 5], &[60, 20, 5, 1]));
        // A single channel of single elements is both; it counts as row-major.
        assert!(!is_channels_last(&[2, 1, 1, 1], &[1, 1, 1, 1]));
    }
}
