//! One error type, ready to become a Python exception.

use glue_abi::ErrorKind;

/// The result of the runtime.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// A message with the class of exception that it becomes.
    #[error("{message}")]
    Raised {
        /// The exception's class.
        kind: ErrorKind,
        /// Its text.
        message: String,
    },
    /// No lowering for these arguments; the next tier takes the call.
    #[error("{0}")]
    NoLowering(String),
    /// A function of the glue threw; the glue holds the exception.
    #[error("torch raised an exception")]
    GlueThrew,
}

impl Error {
    /// A `RuntimeError`.
    pub fn runtime(message: impl Into<String>) -> Self {
        Self::raised(ErrorKind::Runtime, message)
    }

    /// An exception of this class.
    pub fn raised(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self::Raised {
            kind,
            message: message.into(),
        }
    }

    /// Puts what was being done before the message.
    #[must_use]
    pub fn during(self, what: &str) -> Self {
        match self {
            Self::Raised { kind, message } => Self::Raised {
                kind,
                message: format!("{what}: {message}"),
            },
            other => other,
        }
    }
}

impl From<pjrt::Error> for Error {
    fn from(e: pjrt::Error) -> Self {
        let kind = match e.code() {
            pjrt::Code::ResourceExhausted => ErrorKind::OutOfMemory,
            pjrt::Code::Unimplemented => ErrorKind::NotImplemented,
            _ => ErrorKind::Runtime,
        };
        Self::raised(kind, e.to_string())
    }
}

impl From<stablehlo::Error> for Error {
    fn from(e: stablehlo::Error) -> Self {
        Self::raised(
            ErrorKind::Internal,
            format!("a program of torch_tpu is wrong (a bug of ours): {e}"),
        )
    }
}

impl From<aten::Error> for Error {
    fn from(e: aten::Error) -> Self {
        use aten::ErrorKind as From;
        match e {
            aten::Error::Unsupported(why) => Self::NoLowering(why),
            aten::Error::User(kind, text) => {
                let kind = match kind {
                    From::Runtime => ErrorKind::Runtime,
                    From::Index => ErrorKind::Index,
                    From::Value => ErrorKind::Value,
                    From::Type => ErrorKind::Type,
                    From::NotImplemented => ErrorKind::NotImplemented,
                };
                Self::raised(kind, text)
            }
            // What is ours is asked of the CPU first.
            aten::Error::Refused(text) => Self::raised(ErrorKind::Internal, text),
            aten::Error::Program(e) => e.into(),
            aten::Error::Internal(text) => Self::raised(
                ErrorKind::Internal,
                format!("a lowering of torch_tpu is wrong (a bug of ours): {text}"),
            ),
        }
    }
}
