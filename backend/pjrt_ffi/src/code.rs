//! Status codes, shared by the client and the simulator.

/// Canonical status codes, as numbered by PJRT and absl.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[repr(u32)]
pub enum Code {
    /// The caller gave up.
    Cancelled = 1,
    /// No better code is known.
    Unknown = 2,
    /// The request is malformed whatever the state.
    InvalidArgument = 3,
    /// Too late.
    DeadlineExceeded = 4,
    /// Something named does not exist.
    NotFound = 5,
    /// Something to be made exists already.
    AlreadyExists = 6,
    /// Not allowed.
    PermissionDenied = 7,
    /// Out of memory.
    ResourceExhausted = 8,
    /// The state does not permit the request.
    FailedPrecondition = 9,
    /// Stopped, for example by a conflict.
    Aborted = 10,
    /// Past the valid range.
    OutOfRange = 11,
    /// The plugin lacks it.
    Unimplemented = 12,
    /// A defect.
    Internal = 13,
    /// Gone for now, for example a device.
    Unavailable = 14,
    /// Lost or damaged data.
    DataLoss = 15,
    /// No valid credentials.
    Unauthenticated = 16,
}

impl Code {
    /// Every code, in numeric order.
    pub const ALL: [Self; 16] = [
        Self::Cancelled,
        Self::Unknown,
        Self::InvalidArgument,
        Self::DeadlineExceeded,
        Self::NotFound,
        Self::AlreadyExists,
        Self::PermissionDenied,
        Self::ResourceExhausted,
        Self::FailedPrecondition,
        Self::Aborted,
        Self::OutOfRange,
        Self::Unimplemented,
        Self::Internal,
        Self::Unavailable,
        Self::DataLoss,
        Self::Unauthenticated,
    ];

    /// The canonical spelling, such as `RESOURCE_EXHAUSTED`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cancelled => "CANCELLED",
            Self::Unknown => "UNKNOWN",
            Self::InvalidArgument => "INVALID_ARGUMENT",
            Self::DeadlineExceeded => "DEADLINE_EXCEEDED",
            Self::NotFound => "NOT_FOUND",
            Self::AlreadyExists => "ALREADY_EXISTS",
            Self::PermissionDenied => "PERMISSION_DENIED",
            Self::ResourceExhausted => "RESOURCE_EXHAUSTED",
            Self::FailedPrecondition => "FAILED_PRECONDITION",
            Self::Aborted => "ABORTED",
            Self::OutOfRange => "OUT_OF_RANGE",
            Self::Unimplemented => "UNIMPLEMENTED",
            Self::Internal => "INTERNAL",
            Self::Unavailable => "UNAVAILABLE",
            Self::DataLoss => "DATA_LOSS",
            Self::Unauthenticated => "UNAUTHENTICATED",
        }
    }

    /// The code spelled `name`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|code| code.name() == name)
    }

    /// From the number that a plugin returns; one outside the table reads as `Unknown`.
    pub fn from_pjrt(code: u32) -> Self {
        Self::ALL
            .into_iter()
            .find(|known| *known as u32 == code)
            .unwrap_or(Self::Unknown)
    }
}

impl std::fmt::Display for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::Code;

    #[test]
    fn every_code_keeps_its_number_and_name() {
        for n in 1..=16 {
            let code = Code::from_pjrt(n);
            assert_eq!(code as u32, n);
            assert_eq!(Code::from_name(code.name()), Some(code));
        }
        assert_eq!(Code::from_pjrt(8).name(), "RESOURCE_EXHAUSTED");
        assert_eq!(Code::from_pjrt(99), Code::Unknown);
    }
}
