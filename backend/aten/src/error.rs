//! Why a lowering did not give a program.

use crate::Outputs;

/// The result of a helper of a lowering.
pub type Result<T, E = Error> = std::result::Result<T, E>;
/// The result of a lowering.
pub type Lowered = Result<Outputs>;

/// The class of Python exception that a [`Error::User`] becomes.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum ErrorKind {
    /// `RuntimeError`
    Runtime,
    /// `IndexError`
    Index,
    /// `ValueError`
    Value,
    /// `TypeError`
    Type,
    /// `NotImplementedError`
    NotImplemented,
}

/// Why a lowering did not give a program.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum Error {
    /// This combination of arguments has no lowering: the next tier (decomposition, CPU) takes it.
    #[error("no lowering: {0}")]
    Unsupported(String),
    /// The user's arguments are wrong, in torch's class and words.
    #[error("{1}")]
    User(ErrorKind, String),
    /// The arguments are wrong and CPU torch refuses them too: its class and words count, these only where it does not.
    #[error("{0}")]
    Refused(String),
    /// The lowering built a wrong program: a bug of ours.
    #[error("{0}")]
    Program(#[from] stablehlo::Error),
    /// The lowering asked for an argument that the schema does not have: a bug of ours.
    #[error("{0}")]
    Internal(String),
}

impl Error {
    /// [`Error::Unsupported`].
    pub fn unsupported(why: impl Into<String>) -> Self {
        Self::Unsupported(why.into())
    }

    /// [`Error::User`].
    pub fn user(kind: ErrorKind, text: impl Into<String>) -> Self {
        Self::User(kind, text.into())
    }
}
