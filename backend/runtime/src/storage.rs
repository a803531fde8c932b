//! Storages: each holds one dense device buffer with the sizes of the tensor that filled it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use aten::Dims;
use dtype::ElementType;
use parking_lot::Mutex;
use pjrt::Buffer;

use crate::memory::{Account, Holder, LARGE};

/// A device buffer whose bytes are accounted while it lives.
#[derive(Debug)]
pub struct Tracked {
    /// The buffer.
    pub buffer: Arc<dyn Buffer>,
    /// What computed it, for errors that arrive later.
    pub origin: Option<Arc<crate::origin::Origin>>,
    account: &'static Account,
    bytes: u64,
    /// Its number among the large buffers, or 0.
    large: u64,
}

impl Tracked {
    /// Takes a buffer into account.
    pub fn new(
        buffer: Arc<dyn Buffer>,
        bytes: u64,
        account: &'static Account,
        origin: Option<Arc<crate::origin::Origin>>,
    ) -> Arc<Self> {
        account.add(bytes);
        let large = if bytes >= LARGE {
            let op = origin.as_ref().map(|o| o.op.to_string());
            account.hold(Holder {
                bytes,
                shape: buffer.shape().to_string(),
                op,
            })
        } else {
            0
        };
        Arc::new(Self {
            buffer,
            origin,
            account,
            bytes,
            large,
        })
    }

    /// Bytes accounted for.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Tracked {
    fn drop(&mut self) {
        self.account.remove(self.bytes);
        if self.large != 0 {
            self.account.release(self.large);
        }
    }
}

/// What a storage holds: the elements in row-major order of `dims` are its memory, first to last.
#[derive(Clone, Debug)]
pub struct Dense {
    /// The device buffer.
    pub data: Arc<Tracked>,
    /// Its element type.
    pub element: ElementType,
    /// Its sizes.
    pub dims: Dims,
}

/// The contents of a storage.
#[derive(Clone, Debug, Default)]
pub enum Content {
    /// Never written: reads as zeros.
    #[default]
    Empty,
    /// Written.
    Dense(Dense),
    /// A call that was put off writes it: element type and sizes of what it will hold.
    Pending(ElementType, Dims),
    /// Lost in a failed execution that consumed it; the text says which.
    Lost(String),
}

impl Content {
    /// The value, where it is there.
    pub(crate) fn dense(&self) -> Option<&Dense> {
        match self {
            Self::Dense(dense) => Some(dense),
            _ => None,
        }
    }

    /// Element type and sizes of what it holds, or will hold once pending calls ran.
    pub(crate) fn holds(&self) -> Option<(ElementType, &Dims)> {
        match self {
            Self::Dense(dense) => Some((dense.element, &dense.dims)),
            Self::Pending(element, dims) => Some((*element, dims)),
            Self::Empty | Self::Lost(_) => None,
        }
    }
}

/// A storage's mutable part.
#[derive(Debug)]
pub struct State {
    /// Its size; the contents may be shorter after it grew.
    pub nbytes: usize,
    /// The sizes of the tensor it was made for, outermost first in memory.
    pub hint: Option<(ElementType, Dims)>,
    /// What it holds.
    pub content: Content,
}

/// What backs torch's storages on the device.
#[derive(Debug)]
pub struct Storage {
    /// A number that no other storage of the process has.
    pub id: u64,
    /// Device index.
    pub device: usize,
    /// The rest.
    pub state: Mutex<State>,
}

static NEXT: AtomicU64 = AtomicU64::new(1);

impl Storage {
    /// The number of the storage that is made next.
    pub(crate) fn next_id() -> u64 {
        NEXT.load(Ordering::Relaxed)
    }

    /// An empty storage.
    pub fn new(nbytes: usize, device: usize) -> Arc<Self> {
        Arc::new(Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            device,
            state: Mutex::new(State {
                nbytes,
                hint: None,
                content: Content::Empty,
            }),
        })
    }

    /// A storage that holds something.
    pub fn filled(nbytes: usize, device: usize, dense: Dense) -> Arc<Self> {
        let made = Self::new(nbytes, device);
        made.state.lock().content = Content::Dense(dense);
        made
    }

    /// One more holder of a storage, which is always behind an `Arc`.
    pub(crate) fn shared(&self) -> Arc<Self> {
        let me = std::ptr::from_ref(self);
        // SAFETY: storages are made by `new` and `filled` alone, which give an `Arc`; whoever lent `self` holds one.
        unsafe {
            Arc::increment_strong_count(me);
            Arc::from_raw(me)
        }
    }

    /// Changes the size; leading bytes stay, new ones read as zeros.
    pub fn resize(&self, nbytes: usize) {
        let mut state = self.state.lock();
        if nbytes == 0 {
            // What FSDP does to free a shard's memory.
            state.content = Content::Empty;
        }
        state.hint = None;
        state.nbytes = nbytes;
    }
}
