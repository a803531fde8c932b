//! Where a buffer comes from: for errors that arrive after the call that caused them.

use std::fmt;
use std::sync::OnceLock;

/// A line of the user's program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// File.
    pub file: String,
    /// Line, from 1.
    pub line: u32,
}

/// The op that computed a buffer, and the line that issued it where that is recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// `aten::add.out`.
    pub op: String,
    /// Known in debug mode.
    pub line: Option<Line>,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.op)?;
        match &self.line {
            Some(at) => write!(f, " (issued at {}:{})", at.file, at.line),
            None => Ok(()),
        }
    }
}

static SOURCE: OnceLock<fn() -> Option<Line>> = OnceLock::new();

/// Says how to find the line that is running; the bridge knows Python.
pub fn set_line_source(source: fn() -> Option<Line>) {
    let _ = SOURCE.set(source);
}

/// The line that is running.
pub(crate) fn current_line() -> Option<Line> {
    SOURCE.get().and_then(|source| source())
}
