//! A node of the pending graph: one call of an op on storages.
//!
//! A window is a list of nodes over shared slots (storages). Strict eager runs windows of one node; a longer window goes
//! through the same program builder.

use aten::{Call, Dims};
use dtype::ElementType;

use crate::view::{Plan, View};

/// A storage as a window finds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Element type and sizes of what it holds; `None` when it was never written.
    pub held: Option<(ElementType, Dims)>,
    /// Element type and sizes it has when it was never written and a part is written.
    pub blank: (ElementType, Dims),
    /// Its size.
    pub nbytes: usize,
}

impl Slot {
    /// Element type and sizes of the value that it reads as.
    pub fn base(&self) -> &(ElementType, Dims) {
        self.held.as_ref().unwrap_or(&self.blank)
    }
}

/// A tensor of a call on the device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Which storage.
    pub slot: usize,
    /// Where in it.
    pub view: View,
    /// Its element type; differs from the storage's for views of another dtype.
    pub element: ElementType,
    /// How it is read, planned on the base below.
    pub plan: Plan,
    /// Sizes of the value that the plan is for, when they are not the slot's own: after a change of element type, or
    /// because the storage grew.
    pub recast: Option<Dims>,
}

/// A tensor argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// On the device.
    Device(Place),
    /// A number from host memory.
    Host(ElementType),
}

/// Where a result goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A new storage, whose memory order is given by the strides.
    Fresh(Fresh),
    /// An argument.
    Write(Place),
    /// Nowhere: undefined.
    Skip,
}

/// A new tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fresh {
    /// Sizes.
    pub sizes: Dims,
    /// Strides.
    pub strides: Dims,
    /// Element type.
    pub element: ElementType,
    /// Bytes of its storage.
    pub nbytes: usize,
}

/// One call.
#[derive(Clone, Debug)]
pub struct Node {
    /// What the lowering sees.
    pub call: Call,
    /// One for each of the call's tensors.
    pub sources: Vec<Source>,
    /// One for each result.
    pub targets: Vec<Target>,
}
