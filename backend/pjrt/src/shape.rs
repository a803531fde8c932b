//! Shapes of buffers, parameters and results.

use std::fmt;

use dtype::ElementType;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

/// An element type and dimensions. For a bounded dynamic dimension the size is its bound.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Shape {
    /// Element type.
    pub element: ElementType,
    /// Sizes, outermost first; empty for a scalar.
    pub dims: SmallVec<[i64; 4]>,
    /// Bit `i` is set when dimension `i` is dynamic below its bound.
    pub dynamic: u64,
}

impl Shape {
    /// A static shape.
    pub fn new(element: ElementType, dims: &[i64]) -> Self {
        Self {
            element,
            dims: SmallVec::from_slice(dims),
            dynamic: 0,
        }
    }

    /// Number of elements.
    pub fn elements(&self) -> usize {
        self.dims.iter().product::<i64>().max(0) as usize
    }

    /// Bytes of a dense host array of this shape; sub-byte elements take a byte each.
    pub fn host_bytes(&self) -> usize {
        self.elements() * self.element.host_bytes()
    }

    /// Whether a buffer of shape `given` may stand where this shape is expected.
    #[inline]
    pub fn accepts(&self, given: &Self) -> bool {
        if self.element != given.element || self.dims.len() != given.dims.len() {
            return false;
        }
        if self.dynamic == 0 {
            return self.dims == given.dims;
        }
        self.dims
            .iter()
            .zip(&given.dims)
            .enumerate()
            .all(|(i, (&want, &got))| want == got || (self.dynamic >> i & 1 == 1 && got <= want))
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[", self.element)?;
        for (i, d) in self.dims.iter().enumerate() {
            let comma = if i == 0 { "" } else { "," };
            let bound = if self.dynamic >> i & 1 == 1 { "<=" } else { "" };
            write!(f, "{comma}{bound}{d}")?;
        }
        f.write_str("]")
    }
}

/// What a program takes and gives on each device (after partitioning, so shards where there are any).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Signature {
    /// Parameters in order.
    pub parameters: Vec<Shape>,
    /// Results in order.
    pub results: Vec<Shape>,
}

/// [`Shape`] as it crosses to the ahead-of-time worker.
#[derive(Serialize, Deserialize, Debug, Clone)]
pub(crate) struct WireShape {
    element: u32,
    dims: Vec<i64>,
    dynamic: u64,
}

impl From<&Shape> for WireShape {
    fn from(s: &Shape) -> Self {
        Self {
            element: s.element.to_pjrt(),
            dims: s.dims.to_vec(),
            dynamic: s.dynamic,
        }
    }
}

impl WireShape {
    pub(crate) fn shape(&self) -> Option<Shape> {
        Some(Shape {
            element: ElementType::from_pjrt(self.element)?,
            dims: SmallVec::from_slice(&self.dims),
            dynamic: self.dynamic,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bounded_dimension_accepts_what_is_below_its_bound() {
        let want = Shape {
            element: ElementType::F32,
            dims: SmallVec::from_slice(&[8, 3]),
            dynamic: 1,
        };
        assert!(want.accepts(&Shape::new(ElementType::F32, &[5, 3])));
        assert!(!want.accepts(&Shape::new(ElementType::F32, &[9, 3])));
        assert!(!want.accepts(&Shape::new(ElementType::F32, &[5, 2])));
        assert!(!want.accepts(&Shape::new(ElementType::S32, &[8, 3])));
        assert_eq!(want.to_string(), "f32[<=8,3]");
        assert_eq!(Shape::new(ElementType::S4, &[3]).host_bytes(), 3);
    }
}
