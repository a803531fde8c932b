//! What the core and a glue library say to each other: plain C structs and two tables of functions.
//!
//! The core ([`CoreTable`]) links no libtorch; a glue ([`GlueTable`]) is built from the headers of one torch version.
//! `backend/glue/csrc/abi.h` is the same in C++; its static assertions and [`LAYOUT`] hold the two together.
//! A function that can fail returns a [`Status`]; the error's kind and text are then read with `last_error`.

use std::ffi::c_void;

/// Raised whenever a struct or a table changes.
pub const ABI_VERSION: u32 = 2;

/// Sizes of [`TensorArg`], [`Arg`], [`TensorResult`], [`SchemaArg`], [`CoreTable`] and [`GlueTable`], compared when a
/// glue is opened.
pub const LAYOUT: [u32; 6] = [
    size_of::<TensorArg>() as u32,
    size_of::<Arg>() as u32,
    size_of::<TensorResult>() as u32,
    size_of::<SchemaArg>() as u32,
    size_of::<CoreTable>() as u32,
    size_of::<GlueTable>() as u32,
];

/// How a call ended.
#[repr(u32)]
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Status {
    /// It worked.
    Ok = 0,
    /// It failed; `last_error` has the reason.
    Error = 1,
    /// The core has no way to run this op: the caller takes the next tier.
    NoLowering = 2,
    /// A function of the glue threw; the glue holds the exception.
    GlueThrew = 3,
    /// An argument was resized: describe the arguments anew and call again.
    Retry = 4,
}

/// The exception class that an error becomes.
#[repr(u32)]
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum ErrorKind {
    /// `RuntimeError`
    Runtime = 0,
    /// `IndexError`
    Index = 1,
    /// `ValueError`
    Value = 2,
    /// `TypeError`
    Type = 3,
    /// `NotImplementedError`
    NotImplemented = 4,
    /// `torch.OutOfMemoryError`
    OutOfMemory = 5,
    /// `RuntimeError`, for a lowering that failed: the glue asks the CPU kernel whether the arguments are at fault.
    Internal = 6,
}

/// What a [`TensorArg`] is.
#[repr(u8)]
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum TensorKind {
    /// An undefined tensor.
    Undefined = 0,
    /// A tensor on the device.
    Device = 1,
    /// A 0-dim tensor in host memory; its bits are in [`TensorArg::scalar`].
    HostScalar = 2,
}

/// [`TensorArg::flags`]: the tensor is a Python number in disguise and takes part in type promotion as one.
pub const FLAG_WRAPPED_NUMBER: u8 = 1;

/// A tensor argument; borrowed from torch for the length of the call.
#[repr(C)]
#[derive(Copy, Clone, Debug)]
pub struct TensorArg {
    /// The core's storage, null unless `kind` is [`TensorKind::Device`].
    pub storage: *mut c_void,
    /// Sizes, `ndim` of them.
    pub sizes: *const i64,
    /// Strides in elements.
    pub strides: *const i64,
    /// Storage offset in elements.
    pub offset: i64,
    /// Number of dimensions.
    pub ndim: u32,
    /// `c10::ScalarType`.
    pub dtype: i8,
    /// A [`TensorKind`].
    pub kind: u8,
    /// `FLAG_*`.
    pub flags: u8,
    /// Device index.
    pub device: i8,
    /// The bits of a host scalar, low bytes first.
    pub scalar: [u64; 2],
}

/// Kinds of arguments.
#[repr(u32)]
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Tag {
    /// `None`, and what the core does not look at (a generator has a tag of its own).
    None = 0,
    /// `payload` points to one [`TensorArg`].
    Tensor = 1,
    /// `payload` points to `len` [`TensorArg`]s.
    Tensors = 2,
    /// An integer; also memory formats and layouts.
    Int = 3,
    /// The bits of a double.
    Float = 4,
    /// 0 or 1.
    Bool = 5,
    /// The bits of a double, the imaginary part in `imaginary`.
    Complex = 6,
    /// `payload` points to `len` `i64`.
    Ints = 7,
    /// `payload` points to `len` `f64`.
    Floats = 8,
    /// `payload` points to `len` bytes.
    Bools = 9,
    /// `payload` points to `len` bytes of UTF-8.
    Str = 10,
    /// A `c10::ScalarType`.
    Dtype = 11,
    /// A device index.
    Device = 12,
    /// `payload` is the generator, null for the default one.
    Generator = 13,
    /// `payload` points to `len` [`Arg`]s that are scalars.
    Scalars = 14,
}

/// One argument of a call, in the order of the schema.
#[repr(C)]
#[derive(Copy, Clone, Debug)]
pub struct Arg {
    /// A [`Tag`].
    pub tag: u32,
    /// Number of elements behind a pointer.
    pub len: u32,
    /// A value or a pointer.
    pub payload: u64,
    /// The imaginary part of a complex number.
    pub imaginary: f64,
}

/// A tensor that a call gives, or the metadata of one.
#[repr(C)]
#[derive(Copy, Clone, Debug)]
pub struct TensorResult {
    /// A counted reference to the core's storage, owned by the receiver. Null for metadata.
    pub storage: *mut c_void,
    /// Sizes, valid until the next call from the same thread.
    pub sizes: *const i64,
    /// Strides in elements.
    pub strides: *const i64,
    /// Bytes of the storage.
    pub nbytes: i64,
    /// Number of dimensions.
    pub ndim: u32,
    /// `c10::ScalarType`.
    pub dtype: i8,
    /// 0 when the tensor is undefined.
    pub defined: u8,
    /// Device index.
    pub device: i8,
    /// Unused.
    pub reserved: u8,
}

/// An argument or return of an operator's schema.
#[repr(C)]
#[derive(Copy, Clone, Debug)]
pub struct SchemaArg {
    /// Its name, not terminated.
    pub name: *const u8,
    /// Bytes of the name.
    pub name_len: u32,
    /// What it is: a [`SchemaKind`].
    pub kind: u32,
    /// For an argument 1 when the op writes to it; for a return the argument that it is, or -1.
    pub alias: i32,
    /// 1 when the argument has a default and stands at it in most calls.
    pub reserved: u32,
}

/// Types of arguments that the core treats differently.
#[repr(u32)]
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum SchemaKind {
    /// Anything else.
    Other = 0,
    /// `Tensor`, `Tensor?`.
    Tensor = 1,
    /// `Tensor[]`, `Tensor?[]`.
    Tensors = 2,
    /// `Scalar`, `Scalar?`: a number whose value need not change the program.
    Scalar = 3,
    /// `float`, `float?`.
    Float = 4,
    /// `ScalarType`, `ScalarType?`.
    Dtype = 5,
    /// `Generator?`.
    Generator = 6,
    /// `Scalar[]`.
    Scalars = 7,
    /// `int`, `SymInt`.
    Int = 8,
}

/// What [`CoreTable::dispatch`] gives.
#[repr(C)]
#[derive(Copy, Clone, Debug)]
pub struct Results {
    /// All tensors of all returns, valid until the next call from the same thread.
    pub tensors: *const TensorResult,
    /// For each return: how many tensors it takes; -1 for a single tensor; -2 for the argument that the schema names.
    pub counts: *const i32,
    /// Number of returns.
    pub returns: u32,
    /// Number of tensors.
    pub len: u32,
}

/// Memory of a device, in bytes; see `torch.tpu.memory_stats`.
#[repr(C)]
#[derive(Copy, Clone, Debug, Default)]
pub struct Memory {
    /// Bytes held by tensors: now, at most, ever allocated, ever freed.
    pub bytes: [u64; 4],
    /// Buffers, likewise.
    pub buffers: [u64; 4],
    /// What the device says is in use; at least `bytes[0]`.
    pub in_use: u64,
    /// The most of it.
    pub peak_in_use: u64,
    /// What the device has; 0 when unknown.
    pub limit: u64,
}

/// Functions of the core, called by a glue.
#[repr(C)]
#[derive(Debug)]
pub struct CoreTable {
    /// [`ABI_VERSION`].
    pub version: u32,
    /// Size of this struct.
    pub size: u32,
    /// The kind and text of the last error of this thread; the text is valid until the next call.
    pub last_error: unsafe extern "C" fn(text: *mut *const u8, len: *mut usize) -> u32,
    /// Makes a storage of so many bytes on a device; null on failure.
    pub storage_new: unsafe extern "C" fn(nbytes: usize, device: i32) -> *mut c_void,
    /// Gives up a reference to a storage.
    pub storage_free: unsafe extern "C" fn(storage: *mut c_void),
    /// Changes a storage's size; its leading bytes stay.
    pub storage_resize: unsafe extern "C" fn(storage: *mut c_void, nbytes: usize) -> u32,
    /// Says of which sizes (in memory order) the tensor is that a new storage is for.
    pub storage_hint: unsafe extern "C" fn(storage: *mut c_void, dtype: i8, sizes: *const i64, ndim: u32),
    /// Finds what runs an operator. `returns` follow the arguments in `schema`. Null when nothing does.
    pub find_op: unsafe extern "C" fn(
        name: *const u8,
        name_len: usize,
        overload: *const u8,
        overload_len: usize,
        schema: *const SchemaArg,
        arguments: u32,
        returns: u32,
    ) -> *const c_void,
    /// Runs an operator. `call` is handed back to the glue's functions.
    pub dispatch: unsafe extern "C" fn(
        op: *const c_void,
        arguments: *const Arg,
        len: u32,
        device: i32,
        call: *mut c_void,
        results: *mut Results,
    ) -> u32,
    /// Copies between tensors of one or two devices, with conversion and broadcast.
    pub copy: unsafe extern "C" fn(src: *const TensorArg, dst: *const TensorArg) -> u32,
    /// Copies dense row-major host bytes into a tensor of the same sizes and dtype; reads them during the call.
    pub upload: unsafe extern "C" fn(bytes: *const u8, len: usize, dst: *const TensorArg) -> u32,
    /// Copies a tensor to dense row-major host bytes.
    pub download: unsafe extern "C" fn(src: *const TensorArg, bytes: *mut u8, len: usize) -> u32,
    /// 1 when an operator has a lowering: one with a composite kernel must then be registered by name.
    pub has_op: unsafe extern "C" fn(
        name: *const u8,
        name_len: usize,
        overload: *const u8,
        overload_len: usize,
    ) -> u32,
    /// Registers torch's decomposition of an operator as its kernel; 1 when there is one. Takes Python's lock.
    pub decompose: unsafe extern "C" fn(
        name: *const u8,
        name_len: usize,
        overload: *const u8,
        overload_len: usize,
    ) -> u32,
    /// Called before an op runs on the CPU instead; an error when the policy forbids it.
    pub note_fallback: unsafe extern "C" fn(name: *const u8, len: usize) -> u32,
    /// Number of devices; starts the client. -1 on failure.
    pub device_count: unsafe extern "C" fn() -> i32,
    /// Waits for all work on a device (-1: all devices).
    pub synchronize: unsafe extern "C" fn(device: i32) -> u32,
    /// Records all work issued so far on a device; 0 on failure.
    pub event_record: unsafe extern "C" fn(device: i32) -> u64,
    /// 1 when it has happened, 0 when not, -1 on failure.
    pub event_query: unsafe extern "C" fn(event: u64) -> i32,
    /// Waits for it.
    pub event_synchronize: unsafe extern "C" fn(event: u64) -> u32,
    /// Milliseconds between two events that have happened; NaN on failure.
    pub event_elapsed: unsafe extern "C" fn(start: u64, end: u64) -> f64,
    /// Forgets it.
    pub event_free: unsafe extern "C" fn(event: u64),
    /// Reads a device's memory counters.
    pub memory: unsafe extern "C" fn(device: i32, out: *mut Memory) -> u32,
    /// Sets the peaks back to what is held; with `sums` the sums back to zero instead.
    pub memory_reset: unsafe extern "C" fn(device: i32, sums: u32) -> u32,
    /// 1 when the client was started in this process.
    pub started: unsafe extern "C" fn() -> u32,
}

/// Functions of a glue, called by the core. `call` is what `dispatch` was given.
#[repr(C)]
#[derive(Debug)]
pub struct GlueTable {
    /// [`ABI_VERSION`].
    pub version: u32,
    /// Size of this struct.
    pub size: u32,
    /// Runs the operator's Meta kernel on the arguments. `tensors` are its results, then those written arguments that
    /// it resized, each preceded in `counts` as in [`Results`].
    pub meta: unsafe extern "C" fn(call: *mut c_void, results: *mut Results) -> u32,
    /// Sizes of the written arguments after the Meta kernel ran: `tensors[k]` for the k-th written tensor.
    pub meta_written: unsafe extern "C" fn(call: *mut c_void, results: *mut Results) -> u32,
    /// Gives the k-th written tensor these sizes, as `out=` does.
    pub resize: unsafe extern "C" fn(call: *mut c_void, written: u32, sizes: *const i64, ndim: u32) -> u32,
    /// Takes `blocks` of 128 random bits from a generator (null: the device's default): the seed and the first block.
    pub random: unsafe extern "C" fn(
        generator: *mut c_void,
        device: i32,
        blocks: u64,
        seed: *mut u64,
        offset: *mut u64,
    ) -> u32,
    /// Reads the seed and the next block of a device's default generator.
    pub generator_get: unsafe extern "C" fn(device: i32, seed: *mut u64, offset: *mut u64) -> u32,
    /// Sets them; for device -1 the seed of every device, also of those not started yet.
    pub generator_set: unsafe extern "C" fn(device: i32, seed: u64, offset: u64) -> u32,
    /// The current device of this thread.
    pub current_device: unsafe extern "C" fn() -> i32,
    /// Sets it.
    pub set_current_device: unsafe extern "C" fn(device: i32) -> u32,
    /// The text of the exception that a function of this table threw last on this thread.
    pub thrown: unsafe extern "C" fn(text: *mut *const u8, len: *mut usize),
}

// SAFETY: tables are constants that hold function pointers only.
unsafe impl Sync for CoreTable {}
// SAFETY: as above.
unsafe impl Sync for GlueTable {}
