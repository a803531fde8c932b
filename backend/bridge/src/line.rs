//! The line of the user's program that issues an op, for errors that arrive after the call.
//!
//! Every op asks, so the answer costs tens of nanoseconds: a thread's own frames are read where they are, without
//! Python's lock, and a (code, instruction) pair that was seen before has its line in a table. The first time, Python
//! itself is asked, and the code object is kept so that its address stays its name.
//!
//! The layout of frames is private to each minor version of CPython. It is known here for some, and compared at import
//! with what Python says of the frames that run then; elsewhere each op takes Python's lock for it (0.5-1 us).

use std::cell::RefCell;
use std::ffi::c_void;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

use parking_lot::Mutex;
use pyo3::prelude::*;
use runtime::{Issued, Line};
use rustc_hash::{FxHashMap, FxHashSet};

/// Where CPython keeps what a frame runs: offsets in bytes.
#[derive(Clone, Copy)]
struct Layout {
    /// The innermost frame in a thread's state, or what points to it.
    thread: usize,
    /// The innermost frame in what the thread's state points to.
    through: Option<usize>,
    code: usize,
    previous: usize,
    instruction: usize,
    /// A frame that only marks a call from C has this owner.
    owner: usize,
    shim: Option<u8>,
}

/// The layouts of CPython's releases: `_ts` and `_PyInterpreterFrame` in its headers.
const fn layout_of(minor: u8) -> Option<Layout> {
    match minor {
        11 => Some(Layout {
            thread: 56,
            through: Some(8),
            code: 32,
            previous: 48,
            instruction: 56,
            owner: 69,
            shim: None,
        }),
        12 => Some(Layout {
            thread: 56,
            through: Some(0),
            code: 0,
            previous: 8,
            instruction: 56,
            owner: 70,
            shim: Some(3),
        }),
        13 => Some(Layout {
            thread: 72,
            through: None,
            code: 0,
            previous: 8,
            instruction: 56,
            owner: 70,
            shim: Some(3),
        }),
        _ => None,
    }
}

/// The layout of the Python that runs, once it was compared with what Python says; `None` where frames are not read.
static LAYOUT: OnceLock<Option<Layout>> = OnceLock::new();
/// Folders whose code is not the user's: torch's and ours.
static OURS: OnceLock<Vec<String>> = OnceLock::new();
/// The line that issued the last op from Python, for ops of threads that run none.
static LAST: AtomicPtr<Line> = AtomicPtr::new(std::ptr::null_mut());
/// More code objects than this are not kept: a program that makes code without end pays the lock instead.
const KEPT: usize = 1 << 16;

/// What is known of code, for all threads; code objects are kept and lines live as long as the process.
#[derive(Default)]
struct Known {
    codes: FxHashMap<usize, Py<PyAny>>,
    lines: FxHashSet<&'static Line>,
}

static KNOWN: Mutex<Option<Known>> = Mutex::new(None);

#[derive(Clone, Copy)]
enum Code {
    Ours,
    Users,
}

/// What a thread has met.
#[derive(Default)]
struct Met {
    codes: FxHashMap<usize, Code>,
    lines: FxHashMap<(usize, usize), &'static Line>,
}

thread_local! {
    static MET: RefCell<Met> = RefCell::default();
}

/// A frame as it lies in memory.
#[derive(Clone, Copy)]
struct Frame(*const u8);

impl Frame {
    /// The innermost frame of this thread that runs Python code.
    fn innermost(layout: &Layout) -> Option<Self> {
        // SAFETY: asks for a thread-local value; needs no lock.
        let thread = unsafe { pyo3::ffi::PyGILState_GetThisThreadState() } as *const u8;
        if thread.is_null() {
            return None;
        }
        // SAFETY: `layout` was compared with the running Python. The thread's state lives as long as the thread, and
        // only the thread itself, which is here, moves the pointers to its frames.
        let frame = unsafe {
            let place = thread.add(layout.thread).cast::<*const u8>();
            match layout.through {
                None => place.read(),
                Some(_) if place.read().is_null() => return None,
                Some(offset) => place.read().add(offset).cast::<*const u8>().read(),
            }
        };
        Self(frame).or_outer(layout)
    }

    /// This frame or the next outer one that is no mark of a call from C.
    fn or_outer(mut self, layout: &Layout) -> Option<Self> {
        loop {
            if self.0.is_null() {
                return None;
            }
            // SAFETY: as in `innermost`; a frame lives while it is linked from the running one.
            let owner = unsafe { self.0.add(layout.owner).read() };
            if layout.shim != Some(owner) {
                return Some(self);
            }
            self.0 = self.word(layout.previous) as *const u8;
        }
    }

    fn word(self, offset: usize) -> usize {
        // SAFETY: as in `or_outer`; the offsets are those of pointers inside a frame.
        unsafe { self.0.add(offset).cast::<usize>().read() }
    }

    fn code(self, layout: &Layout) -> usize {
        self.word(layout.code)
    }

    fn outer(self, layout: &Layout) -> Option<Self> {
        Self(self.word(layout.previous) as *const u8).or_outer(layout)
    }
}

/// The line that issues an op on this thread: the innermost one outside torch and this package.
pub(crate) fn issued() -> Option<Issued> {
    match LAYOUT.get() {
        Some(Some(layout)) => {
            let Some(frame) = Frame::innermost(layout) else {
                return last();
            };
            let line = met(layout, frame).or_else(|| ask(Some((layout, frame))));
            line.map(said).or_else(last)
        }
        _ => {
            // SAFETY: asks for a thread-local value; needs no lock.
            let thread = unsafe { pyo3::ffi::PyGILState_GetThisThreadState() };
            if thread.is_null() {
                return last();
            }
            ask(None).map(said).or_else(last)
        }
    }
}

fn said(line: &'static Line) -> Issued {
    LAST.store(std::ptr::from_ref(line).cast_mut(), Ordering::Relaxed);
    Issued::At(line)
}

/// Threads of autograd run no Python: the last op issued from Python is most often the call of `backward`.
fn last() -> Option<Issued> {
    // SAFETY: null, or a line that lives as long as the process.
    unsafe { LAST.load(Ordering::Relaxed).cast_const().as_ref() }.map(Issued::After)
}

/// The line by what this thread has met; `None` when something is new to it.
fn met(layout: &Layout, mut frame: Frame) -> Option<&'static Line> {
    MET.with_borrow(|met| {
        loop {
            let code = frame.code(layout);
            match met.codes.get(&code)? {
                Code::Ours => frame = frame.outer(layout)?,
                Code::Users => return met.lines.get(&(code, frame.word(layout.instruction))).copied(),
            }
        }
    })
}

/// A frame as Python shows it.
fn python_frame(py: Python<'_>) -> Option<Bound<'_, PyAny>> {
    // SAFETY: the lock is held; the frame is borrowed from the thread, or null.
    unsafe { Bound::from_borrowed_ptr_or_opt(py, pyo3::ffi::PyEval_GetFrame().cast()) }
}

fn is_ours(file: &str) -> bool {
    // What torch.fx generates, and what Python itself runs at import.
    file.starts_with("<eval_with_key")
        || file.starts_with("<frozen")
        || OURS
            .get()
            .is_some_and(|ours| ours.iter().any(|folder| file.starts_with(folder)))
}

/// Asks Python for the line, and remembers it where frames can be read.
fn ask(read: Option<(&Layout, Frame)>) -> Option<&'static Line> {
    Python::try_attach(|py| {
        let mut frame = python_frame(py)?;
        let mut raw = read;
        loop {
            let code = frame.getattr("f_code").ok()?;
            let file: String = code.getattr("co_filename").ok()?.extract().ok()?;
            let ours = is_ours(&file);
            // Both walks see the same frames, or nothing is remembered.
            raw = raw.filter(|(layout, raw)| raw.code(layout) == code.as_ptr() as usize);
            let line = match ours {
                true => None,
                false => Some(intern(Line {
                    file,
                    line: frame.getattr("f_lineno").ok()?.extract().ok()?,
                })),
            };
            if let Some((layout, raw)) = raw {
                remember(&code, line.map(|line| (raw.word(layout.instruction), line)));
            }
            if line.is_some() {
                return line;
            }
            raw = raw.and_then(|(layout, raw)| Some((layout, raw.outer(layout)?)));
            frame = frame.getattr("f_back").ok().filter(|f| !f.is_none())?;
        }
    })
    .flatten()
}

/// The one copy of a line.
fn intern(line: Line) -> &'static Line {
    let mut known = KNOWN.lock();
    let lines = &mut known.get_or_insert_default().lines;
    match lines.get(&line) {
        Some(line) => line,
        None => {
            let line: &'static Line = Box::leak(Box::new(line));
            lines.insert(line);
            line
        }
    }
}

/// Takes a code object into the tables, with the line of an instruction if it is the user's.
fn remember(code: &Bound<'_, PyAny>, line: Option<(usize, &'static Line)>) {
    let address = code.as_ptr() as usize;
    {
        let mut known = KNOWN.lock();
        let codes = &mut known.get_or_insert_default().codes;
        if !codes.contains_key(&address) {
            if codes.len() >= KEPT {
                return;
            }
            codes.insert(address, code.clone().unbind());
        }
    }
    MET.with_borrow_mut(|met| {
        met.codes
            .insert(address, if line.is_some() { Code::Users } else { Code::Ours });
        if let Some((instruction, line)) = line {
            met.lines.insert((address, instruction), line);
        }
    });
}

/// Finds out how frames lie in the Python that runs, and where torch and this package are.
pub(crate) fn start(py: Python<'_>) {
    let folders = ["torch", "torch_tpu"].iter().filter_map(|name| {
        let file: String = py.import(name).ok()?.getattr("__file__").ok()?.extract().ok()?;
        Some(format!("{}/", std::path::Path::new(&file).parent()?.display()))
    });
    let _ = OURS.set(folders.collect());
    let _ = LAYOUT.set(checked(py));
}

/// The layout for this Python if it shows what Python shows.
fn checked(py: Python<'_>) -> Option<Layout> {
    let sys = py.import("sys").ok()?;
    let name: String = sys
        .getattr("implementation")
        .ok()?
        .getattr("name")
        .ok()?
        .extract()
        .ok()?;
    let flags: String = sys.getattr("abiflags").ok()?.extract().ok()?;
    // Debug builds and those without the lock lay things out otherwise.
    if name != "cpython" || !flags.is_empty() || size_of::<*const c_void>() != 8 {
        return None;
    }
    let layout = layout_of(py.version_info().minor)?;
    let mut raw = Frame::innermost(&layout);
    let mut frame = python_frame(py);
    while let (Some(here), Some(shown)) = (raw, &frame) {
        if here.code(&layout) != shown.getattr("f_code").ok()?.as_ptr() as usize {
            return None;
        }
        raw = here.outer(&layout);
        frame = shown.getattr("f_back").ok().filter(|f| !f.is_none());
    }
    (raw.is_none() && frame.is_none()).then_some(layout)
}
