//! A node of the pending graph: one call of an op on storages.
//!
//! A window is a list of nodes over shared slots (storages). Strict eager runs windows of one node; a longer window goes
//! through the same program builder.

use aten::{Call, Dims};
use dtype::ElementType;

use crate::view::{Plan, View, memory_order, plan, reach};

/// A storage as a window finds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    /// Element type and sizes of what it holds; `None` when it was never written.
    pub(crate) held: Option<(ElementType, Dims)>,
    /// Element type and sizes it has when it was never written and a part is written.
    pub(crate) blank: (ElementType, Dims),
    /// Its size.
    pub(crate) nbytes: usize,
}

impl Slot {
    /// Element type and sizes of the value that it reads as.
    pub(crate) fn base(&self) -> &(ElementType, Dims) {
        self.held.as_ref().unwrap_or(&self.blank)
    }
}

/// A tensor of a call on the device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Which storage.
    pub(crate) slot: usize,
    /// Where in it.
    pub(crate) view: View,
    /// Its element type; the type that it is stored as differs from the storage's for views of another dtype.
    pub(crate) element: ElementType,
    /// How it is read, planned on the base below.
    pub(crate) plan: Plan,
    /// Sizes of the value that the plan is for, when they are not the slot's own: after a change of element type, or
    /// because the storage grew.
    pub(crate) recast: Option<Dims>,
    /// What the storage held when the plan was made.
    pub(crate) base: (ElementType, Dims),
}

impl Place {
    /// Elements of the storage up to the view's last.
    pub(crate) fn reach(&self) -> i64 {
        reach(&self.view)
    }

    /// What the storage holds after a write here.
    pub(crate) fn after_write(&self) -> (ElementType, Dims) {
        let dims = match (&self.plan, &self.recast) {
            (Plan::Whole(order), _) => memory_order(order, &self.view),
            (_, Some(to)) => to.clone(),
            (_, None) => self.base.1.clone(),
        };
        (self.element.stored(), dims)
    }
}

/// A tensor argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// On the device.
    Device(Box<Place>),
    /// A number from host memory.
    Host(ElementType),
}

/// Where a result goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// A new storage, whose memory order is given by the strides.
    Fresh(Fresh),
    /// An argument.
    Write(Box<Place>),
    /// Nowhere: undefined.
    Skip,
}

/// A new tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fresh {
    /// Sizes.
    pub(crate) sizes: Dims,
    /// Strides.
    pub(crate) strides: Dims,
    /// Element type.
    pub(crate) element: ElementType,
    /// Bytes of its storage.
    pub(crate) nbytes: usize,
}

impl Fresh {
    /// Its place in a storage of its own.
    pub(crate) fn place(&self, slot: usize) -> Place {
        let view = View {
            sizes: self.sizes.clone(),
            strides: self.strides.clone(),
            offset: 0,
        };
        let elements = if self.sizes.contains(&0) {
            self.sizes.clone()
        } else {
            smallvec::smallvec![(self.nbytes / self.element.host_bytes()) as i64]
        };
        Place {
            slot,
            plan: plan(&elements, &view),
            view,
            element: self.element,
            recast: None,
            base: (self.element.stored(), elements),
        }
    }
}

/// One call.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    /// What the lowering sees.
    pub(crate) call: Call,
    /// One for each of the call's tensors.
    pub(crate) sources: Vec<Source>,
    /// One for each result.
    pub(crate) targets: Vec<Target>,
    /// The node whose random bits it uses.
    pub(crate) replays: Option<u32>,
}
