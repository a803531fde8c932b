//! Where a buffer comes from: for errors that arrive after the call that caused them.

use std::fmt;
use std::sync::{Arc, OnceLock};

/// A line of the user's program.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Line {
    /// File.
    pub file: String,
    /// Line, from 1.
    pub line: u32,
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// What issued an op.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Issued {
    /// This line.
    At(&'static Line),
    /// A thread that runs no Python, such as autograd's; the last line that issued an op from Python.
    After(&'static Line),
}

/// The op that computed a buffer, and what issued it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// `aten::add.out`.
    pub op: Arc<str>,
    /// Unknown for what no line of Python issued.
    pub issued: Option<Issued>,
}

impl Origin {
    /// An op that no call issued yet.
    pub(crate) fn of(op: impl Into<Arc<str>>) -> Arc<Self> {
        Arc::new(Self {
            op: op.into(),
            issued: None,
        })
    }

    /// The same op, issued by what runs now.
    pub(crate) fn now(&self) -> Arc<Self> {
        Arc::new(Self {
            op: self.op.clone(),
            issued: SOURCE.get().and_then(|source| source()),
        })
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.op)?;
        match self.issued {
            Some(Issued::At(line)) => write!(f, " (issued at {line})"),
            Some(Issued::After(line)) => write!(f, " (issued by autograd or another thread, after {line})"),
            None => Ok(()),
        }
    }
}

static SOURCE: OnceLock<fn() -> Option<Issued>> = OnceLock::new();

/// Says how to find what is running; the bridge knows Python.
pub fn set_line_source(source: fn() -> Option<Issued>) {
    let _ = SOURCE.set(source);
}
