//! From a glue's flat arguments to borrowed Rust values and the key, in one pass over them.

use std::ffi::c_void;
use std::slice;

use aten::{Dims, ScalarKind};
use dtype::ElementType;
use glue_abi::{Arg, FLAG_WRAPPED_NUMBER, Tag, TensorArg, TensorKind};
use smallvec::SmallVec;

use crate::key::Key;
use crate::node::{Place, Slot};
use crate::schema::{Numbers, OpHandle};
use crate::storage::{Content, Storage};
use crate::view::{Plan, View, is_row_major, plan, reach};
use crate::{Error, Result, element};

/// A tensor argument, borrowed from the call.
#[derive(Clone, Debug)]
pub(crate) struct Tensor<'a> {
    pub(crate) sizes: &'a [i64],
    pub(crate) strides: &'a [i64],
    pub(crate) offset: i64,
    pub(crate) element: ElementType,
    pub(crate) wrapped: bool,
    /// Which slot; `None` for a number from host memory.
    pub(crate) slot: Option<u32>,
    pub(crate) bits: [u64; 2],
}

impl Tensor<'_> {
    /// Its view.
    pub(crate) fn view(&self) -> View {
        View {
            sizes: self.sizes.into(),
            strides: self.strides.into(),
            offset: self.offset,
        }
    }
}

/// A storage of the call, as it was found.
#[derive(Debug)]
pub(crate) struct SlotIn<'a> {
    pub(crate) storage: &'a Storage,
    pub(crate) content: Content,
    pub(crate) nbytes: usize,
    pub(crate) hint: Option<(ElementType, Dims)>,
    /// The type of a buffer for the first tensor in it: what it reads as when it was never written.
    pub(crate) first: ElementType,
}

impl<'a> SlotIn<'a> {
    /// A storage as it is now, met through a tensor of this type.
    pub(crate) fn of(storage: &'a Storage, first: ElementType) -> Self {
        let state = storage.state.lock();
        // Only what was never written needs the hint.
        let hint = match &state.content {
            Content::Empty => state.hint.clone(),
            _ => None,
        };
        Self {
            storage,
            content: state.content.clone(),
            nbytes: state.nbytes,
            hint,
            first: first.stored(),
        }
    }

    /// What a node needs to know of it.
    pub(crate) fn slot(&self) -> Slot {
        Slot {
            held: self
                .content
                .holds()
                .map(|(element, dims)| (element, dims.clone())),
            blank: self.blank(),
            nbytes: self.nbytes,
        }
    }

    fn blank(&self) -> (ElementType, Dims) {
        let element = self.first;
        let elements = (self.nbytes / element.host_bytes()) as i64;
        match &self.hint {
            Some((e, dims)) if e.stored() == element && dims.iter().product::<i64>() == elements => {
                (element, dims.clone())
            }
            _ => (element, SmallVec::from_slice(&[elements])),
        }
    }

    /// A tensor's place in it, planned.
    pub(crate) fn place(&self, slot: u32, tensor: &Tensor<'_>) -> Place {
        place(self, slot, tensor.element, tensor.view())
    }
}

pub(crate) fn place(slot: &SlotIn<'_>, number: u32, element: ElementType, view: View) -> Place {
    let known = slot.slot();
    let (held, dims) = known.base();
    let count: i64 = dims.iter().product();
    let recast: Option<Dims> = (*held != element.stored() || reach(&view) > count)
        .then(|| SmallVec::from_slice(&[(slot.nbytes / element.host_bytes()) as i64]));
    let plan = plan(recast.as_deref().unwrap_or(dims), &view);
    Place {
        slot: number as usize,
        view,
        element,
        plan,
        recast,
        base: known.base().clone(),
    }
}

/// A parsed argument; tensors and numbers are in lists of their own.
#[derive(Clone, Debug)]
pub(crate) enum ArgIn<'a> {
    None,
    Tensor(u32),
    Tensors(SmallVec<[Option<u32>; 4]>),
    /// A number that is an input, and, where the op asks, whether it is nearer to 0 than a half is.
    Scalar(u32, ScalarKind, Option<bool>),
    Scalars(SmallVec<[(u32, ScalarKind); 4]>),
    Int(i64),
    Float(f64),
    Bool(bool),
    Complex(f64, f64),
    Ints(&'a [i64]),
    Floats(&'a [f64]),
    Bools(&'a [u8]),
    Str(&'a str),
    Dtype(ElementType),
}

/// All of a call.
#[derive(Debug)]
pub(crate) struct Parsed<'a> {
    pub(crate) args: SmallVec<[ArgIn<'a>; 12]>,
    pub(crate) tensors: SmallVec<[Tensor<'a>; 8]>,
    pub(crate) scalars: SmallVec<[(ScalarKind, [u64; 2]); 4]>,
    pub(crate) slots: SmallVec<[SlotIn<'a>; 8]>,
    pub(crate) generator: *mut c_void,
    pub(crate) device: usize,
    pub(crate) key: Key,
}

/// Whether an argument is the number 1.
fn is_one(arg: &Arg) -> bool {
    (arg.tag == Tag::Int as u32 && arg.payload == 1)
        || (arg.tag == Tag::Float as u32 && arg.payload == 1f64.to_bits())
}

/// Whether a number is nearer to 0 than a half is; nothing for what is no real number.
fn is_small(arg: &Arg) -> Option<bool> {
    if arg.tag == Tag::Float as u32 {
        return Some(f64::from_bits(arg.payload).abs() < 0.5);
    }
    (arg.tag == Tag::Int as u32).then_some(arg.payload == 0)
}

/// A slice from a pointer that may be null when it is empty.
///
/// # Safety
/// `len` values lie at `pointer`, for `'a`.
pub(crate) unsafe fn list<'a, T>(pointer: *const T, len: usize) -> &'a [T] {
    if len == 0 {
        &[]
    } else {
        // SAFETY: the caller's promise.
        unsafe { slice::from_raw_parts(pointer, len) }
    }
}

/// The storage behind a pointer that was made by `Arc::into_raw`.
///
/// # Safety
/// The storage lives for `'a`.
pub(crate) unsafe fn storage<'a>(pointer: *const c_void) -> Result<&'a Storage> {
    // SAFETY: the caller's promise.
    unsafe { pointer.cast::<Storage>().as_ref() }.ok_or_else(|| Error::runtime("a tpu tensor has no storage"))
}

impl<'a> Parsed<'a> {
    /// A call on a device, with nothing parsed yet. Kilobytes: it is filled where it lies.
    pub(crate) fn new(device: usize) -> Self {
        Self {
            args: SmallVec::new(),
            tensors: SmallVec::new(),
            scalars: SmallVec::new(),
            slots: SmallVec::new(),
            generator: std::ptr::null_mut(),
            device,
            key: Key::default(),
        }
    }

    /// Parses the arguments of an op.
    ///
    /// # Safety
    /// Pointers in `args` are good, as [`Arg`] says, for `'a`.
    pub(crate) unsafe fn fill(&mut self, op: &OpHandle, args: &'a [Arg]) -> Result<()> {
        self.key.word(std::ptr::from_ref(op) as u64);
        for (i, arg) in args.iter().enumerate() {
            let numbers = op.numbers.get(i).copied().unwrap_or(Numbers::Constant);
            // SAFETY: the caller's promise.
            let one = unsafe { self.argument(arg, numbers) }?;
            self.args.push(one);
        }
        Ok(())
    }

    /// # Safety
    /// As for [`Self::fill`].
    unsafe fn argument(&mut self, arg: &Arg, numbers: Numbers) -> Result<ArgIn<'a>> {
        let tag = arg.tag;
        let len = arg.len as usize;
        let dynamic = match numbers {
            Numbers::Constant => false,
            Numbers::Input | Numbers::InputBySize => true,
            Numbers::InputUnlessOne => !is_one(arg),
        };
        let small = if numbers == Numbers::InputBySize {
            is_small(arg)
        } else {
            None
        };
        let size = small.map_or(0, |small| 1 + u16::from(small));
        self.key.head(tag, arg.len, u16::from(dynamic) + size, 0);
        let is = |t: Tag| t as u32 == tag;
        // SAFETY (of the blocks below): the caller promises that pointers are good for the tag.
        Ok(if is(Tag::Tensor) {
            // SAFETY: see above.
            let tensor = unsafe { &*(arg.payload as *const TensorArg) };
            // SAFETY: see above.
            match unsafe { self.tensor(tensor) }? {
                Some(i) => ArgIn::Tensor(i),
                None => ArgIn::None,
            }
        } else if is(Tag::Tensors) {
            // SAFETY: see above.
            let tensors = unsafe { list(arg.payload as *const TensorArg, len) };
            let mut out = SmallVec::new();
            for tensor in tensors {
                // SAFETY: see above.
                out.push(unsafe { self.tensor(tensor) }?);
            }
            ArgIn::Tensors(out)
        } else if is(Tag::Int) || is(Tag::Float) || is(Tag::Bool) || is(Tag::Complex) {
            if dynamic {
                let (i, kind) = self.scalar(arg);
                ArgIn::Scalar(i, kind, small)
            } else {
                self.key.word(arg.payload);
                if is(Tag::Int) {
                    ArgIn::Int(arg.payload as i64)
                } else if is(Tag::Bool) {
                    ArgIn::Bool(arg.payload != 0)
                } else if is(Tag::Float) {
                    ArgIn::Float(f64::from_bits(arg.payload))
                } else {
                    self.key.word(arg.imaginary.to_bits());
                    ArgIn::Complex(f64::from_bits(arg.payload), arg.imaginary)
                }
            }
        } else if is(Tag::Ints) {
            // SAFETY: see above.
            let ints = unsafe { list(arg.payload as *const i64, len) };
            self.key.dims(ints);
            ArgIn::Ints(ints)
        } else if is(Tag::Floats) {
            // SAFETY: see above.
            let floats = unsafe { list(arg.payload as *const f64, len) };
            floats.iter().for_each(|x| self.key.word(x.to_bits()));
            ArgIn::Floats(floats)
        } else if is(Tag::Bools) {
            // SAFETY: see above.
            let bools = unsafe { list(arg.payload as *const u8, len) };
            self.key.bytes(bools);
            ArgIn::Bools(bools)
        } else if is(Tag::Str) {
            // SAFETY: see above.
            let bytes = unsafe { list(arg.payload as *const u8, len) };
            self.key.bytes(bytes);
            ArgIn::Str(std::str::from_utf8(bytes).map_err(|_| Error::runtime("an argument is not UTF-8"))?)
        } else if is(Tag::Dtype) {
            self.key.word(arg.payload);
            ArgIn::Dtype(element(arg.payload as i8)?)
        } else if is(Tag::Scalars) {
            // SAFETY: see above.
            let all = unsafe { list(arg.payload as *const Arg, len) };
            let mut out = SmallVec::new();
            for one in all {
                self.key.head(one.tag, 0, 0, 0);
                out.push(self.scalar(one));
            }
            ArgIn::Scalars(out)
        } else {
            if is(Tag::Generator) {
                self.generator = arg.payload as *mut c_void;
            }
            ArgIn::None
        })
    }

    fn scalar(&mut self, arg: &Arg) -> (u32, ScalarKind) {
        let (kind, bits) = match arg.tag {
            t if t == Tag::Int as u32 => (ScalarKind::Int, [arg.payload, 0]),
            t if t == Tag::Bool as u32 => (ScalarKind::Bool, [arg.payload, 0]),
            t if t == Tag::Float as u32 => (ScalarKind::Float, [arg.payload, 0]),
            _ => (ScalarKind::Complex, [arg.payload, arg.imaginary.to_bits()]),
        };
        self.scalars.push((kind, bits));
        (self.scalars.len() as u32 - 1, kind)
    }

    /// # Safety
    /// As for [`Self::fill`].
    unsafe fn tensor(&mut self, arg: &TensorArg) -> Result<Option<u32>> {
        if arg.kind == TensorKind::Undefined as u8 {
            self.key.word(0);
            return Ok(None);
        }
        let element = element(arg.dtype)?;
        let wrapped = arg.flags & FLAG_WRAPPED_NUMBER != 0;
        let ndim = arg.ndim as usize;
        let index = self.tensors.len() as u32;
        if arg.kind == TensorKind::HostScalar as u8 {
            self.key
                .head(u32::from(arg.kind), u32::from(wrapped), arg.dtype as u16, 0);
            let mut bits = arg.scalar;
            let bytes = element.host_bytes();
            if bytes < 8 {
                bits[0] &= (1 << (8 * bytes)) - 1;
            }
            if bytes <= 8 {
                bits[1] = 0;
            }
            self.tensors.push(Tensor {
                sizes: &[],
                strides: &[],
                offset: 0,
                element,
                wrapped,
                slot: None,
                bits,
            });
            return Ok(Some(index));
        }
        // SAFETY: the caller's promise.
        let (sizes, strides) = unsafe { (list(arg.sizes, ndim), list(arg.strides, ndim)) };
        // SAFETY: the caller's promise: the tensor holds its storage for the call.
        let storage: &'a Storage = unsafe { storage(arg.storage) }?;
        if storage.device != self.device {
            return Err(Error::runtime(format!(
                "Expected all tensors to be on the same device, but found at least two devices, tpu:{} and tpu:{}!",
                self.device, storage.device
            )));
        }
        let found = self.slots.iter().position(|s| std::ptr::eq(s.storage, storage));
        let slot = found.unwrap_or_else(|| {
            self.slots.push(SlotIn::of(storage, element));
            self.slots.len() - 1
        }) as u32;
        let known = &self.slots[slot as usize];
        if let Content::Lost(why) = &known.content {
            return Err(Error::runtime(why.clone()));
        }
        let simple = known.content.holds().is_some_and(|(held, dims)| {
            held == element.stored()
                && arg.offset == 0
                && dims.as_slice() == sizes
                // To the letter: results' strides follow those of sizes of 1 too.
                && is_row_major(sizes, strides)
        });
        let tensor = Tensor {
            sizes,
            strides,
            offset: arg.offset,
            element,
            wrapped,
            slot: Some(slot),
            bits: [0; 2],
        };
        self.key.head(
            u32::from(arg.kind) | u32::from(simple) << 2,
            slot << 8 | u32::from(wrapped),
            arg.dtype as u16,
            ndim as u16,
        );
        if simple {
            self.key.dims(sizes);
        } else {
            let place = known.place(slot, &tensor);
            let base = known.slot();
            self.key.word(
                u64::from(base.held.is_some()) | (base.base().0 as u64) << 1 | (known.nbytes as u64) << 16,
            );
            self.key.dims(place.recast.as_deref().unwrap_or(&[]));
            self.key.view(&base.base().1, &place.view, &place.plan);
        }
        self.tensors.push(tensor);
        Ok(Some(index))
    }
}

/// Whether a plan needs no more than the value itself.
pub(crate) fn is_identity(plan: &Plan, base: &[i64], view: &View) -> bool {
    matches!(plan, Plan::Whole(order) if order.windows(2).all(|w| w[0] < w[1]))
        && base == view.sizes.as_slice()
}
