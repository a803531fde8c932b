//! What can go wrong in the harness itself; a test that fails is no error.

use std::io;
use std::path::{Path, PathBuf};

/// A failure of the harness.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or folder could not be used.
    #[error("cannot {action} {}: {source}", path.display())]
    File {
        /// What was tried: "read", "write", "create".
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A program could not be started, or ended badly.
    #[error("{program}: {what}")]
    Process {
        /// Which one.
        program: String,
        /// What it did.
        what: String,
    },
    /// A file that people write does not say what it should.
    #[error("{}: {what}", path.display())]
    Text {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// The daemon could not be reached, or broke off.
    #[error("the pool at {}: {what}; its log is beside it, with the ending .log", socket.display())]
    Daemon {
        /// Its socket.
        socket: PathBuf,
        /// What happened.
        what: String,
    },
    /// An answer that could not be read.
    #[error("{who} answered {line:?}, which is no answer: {source}")]
    Answer {
        /// Who gave it.
        who: &'static str,
        /// The start of it.
        line: String,
        /// Why it could not be read.
        source: serde_json::Error,
    },
    /// The command line asks for something there is not.
    #[error("{0}")]
    Usage(String),
}

/// A result of the harness.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    pub(crate) fn file(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::File { action, path, source }
    }

    pub(crate) fn answer(who: &'static str, line: &str) -> impl FnOnce(serde_json::Error) -> Self {
        let line = line.chars().take(200).collect();
        move |source| Self::Answer { who, line, source }
    }
}
