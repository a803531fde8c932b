//! What can go wrong, with the call that failed and the reason it gave.

use std::path::PathBuf;

pub use pjrt_ffi::Code;

/// Shorthand for results of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of the PJRT layer. `Display` is one line that names the call and the cause.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The plugin itself reported an error.
    #[error("{call}: {code}: {message}")]
    Plugin {
        /// The PJRT function that failed.
        call: &'static str,
        /// Its status code.
        code: Code,
        /// The plugin's own text.
        message: String,
    },
    /// The library could not be opened.
    #[error("cannot load the PJRT plugin {}: {reason}", path.display())]
    Load {
        /// What was asked for.
        path: PathBuf,
        /// Why it failed.
        reason: String,
    },
    /// The library opened, but it is no PJRT plugin.
    #[error("{} is not a PJRT plugin: {reason}", path.display())]
    NotAPlugin {
        /// What was opened.
        path: PathBuf,
        /// What it lacks.
        reason: String,
    },
    /// The plugin speaks another major version of the API.
    #[error("{} implements PJRT API {major}.{minor}; this build speaks major version {ours}", path.display())]
    ApiVersion {
        /// The plugin.
        path: PathBuf,
        /// Its major version.
        major: i32,
        /// Its minor version.
        minor: i32,
        /// The major version that this crate is written against.
        ours: i32,
    },
    /// The plugin does not have this call or extension.
    #[error("{call} is not offered by {plugin}")]
    Unsupported {
        /// The missing call or extension.
        call: &'static str,
        /// Which plugin or client.
        plugin: String,
    },
    /// An argument was refused before it reached the plugin.
    #[error("{call}: {what}")]
    Argument {
        /// The call that was made.
        call: &'static str,
        /// What was given, what was expected.
        what: String,
    },
    /// A buffer that was deleted or donated is used again.
    #[error("{call}: {what} was deleted or donated and cannot be used again")]
    BufferDeleted {
        /// The call that was made.
        call: &'static str,
        /// Which buffer: `argument 1 (f32[2,3])` or its shape.
        what: String,
    },
    /// No device with this id or ordinal.
    #[error("{call}: there is no device {asked}; this client has {have}")]
    NoSuchDevice {
        /// The call that was made.
        call: &'static str,
        /// What was asked for.
        asked: String,
        /// How many or which devices there are.
        have: String,
    },
    /// The client was closed.
    #[error("{call}: this client is closed")]
    ClientClosed {
        /// The call that was made.
        call: &'static str,
    },
    /// An ahead-of-time client has no device to run on.
    #[error(
        "{call}: the client for {topology} only compiles: there is no device behind it. \
         Run on a TPU or on the simulator (TORCH_TPU_PLATFORM=sim), or take its report and serialized program"
    )]
    CompileOnly {
        /// The call that was made.
        call: &'static str,
        /// The topology it compiles for.
        topology: String,
    },
    /// A TPU was asked for and there is none.
    #[error(
        "no TPU was found: {looked}. Run on a TPU VM, or unset TORCH_TPU_PLATFORM (or set it to sim) to use the \
         simulator; to compile for a TPU without one use `python -m torch_tpu aot`"
    )]
    NoTpu {
        /// Which files were looked for.
        looked: String,
    },
    /// The child process that holds the ahead-of-time compiler failed.
    #[error("ahead-of-time compiler: {what}")]
    Worker {
        /// What happened, with the child's last words.
        what: String,
    },
    /// An optimized program could not be read.
    #[error("{call}: {what}")]
    Program {
        /// The call that gave it.
        call: &'static str,
        /// What was wrong with it.
        what: String,
    },
}

impl Error {
    /// The status code that stands for this error towards callers who speak in codes.
    pub fn code(&self) -> Code {
        match self {
            Self::Plugin { code, .. } => *code,
            Self::Load { .. } | Self::NoTpu { .. } => Code::NotFound,
            Self::NotAPlugin { .. } | Self::Argument { .. } => Code::InvalidArgument,
            Self::ApiVersion { .. } | Self::BufferDeleted { .. } | Self::ClientClosed { .. } => {
                Code::FailedPrecondition
            }
            Self::Unsupported { .. } | Self::CompileOnly { .. } => Code::Unimplemented,
            Self::NoSuchDevice { .. } => Code::OutOfRange,
            Self::Worker { .. } | Self::Program { .. } => Code::Internal,
        }
    }

    /// The PJRT call that failed, where there was one.
    pub fn call(&self) -> Option<&'static str> {
        match self {
            Self::Plugin { call, .. }
            | Self::Unsupported { call, .. }
            | Self::Argument { call, .. }
            | Self::BufferDeleted { call, .. }
            | Self::NoSuchDevice { call, .. }
            | Self::ClientClosed { call }
            | Self::CompileOnly { call, .. }
            | Self::Program { call, .. } => Some(call),
            _ => None,
        }
    }

    pub(crate) fn argument(call: &'static str, what: impl Into<String>) -> Self {
        Self::Argument {
            call,
            what: what.into(),
        }
    }
}
