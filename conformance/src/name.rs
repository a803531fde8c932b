//! Names of tests: `sim::op::add::float32`.

use std::fmt;
use std::str::FromStr;

/// What a test runs against.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Target {
    /// The simulator: executed and compared with the CPU.
    Sim,
    /// libtpu's compiler: every program of the samples compiles for `v6e:1x1`.
    V6e,
    /// Real hardware: as the simulator.
    Tpu,
}

impl Target {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Sim, Self::V6e, Self::Tpu];

    /// As it stands in a test's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sim => "sim",
            Self::V6e => "v6e",
            Self::Tpu => "tpu",
        }
    }

    /// Whether tests of a kind run against it: compilers are asked for forward and gradient only, as errors make no
    /// program and double gradients are made of the same ones.
    pub fn runs(self, kind: &str) -> bool {
        self != Self::V6e || matches!(kind, "op" | "grad" | "module" | "optim")
    }
}

/// The kind of the tests under `torch.compile`.
pub(crate) const COMPILED: &str = "compiled";

/// A test's name, in its parts.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TestName {
    /// What it runs against.
    pub target: Target,
    /// `op`, `grad`, `gradgrad`, `error`, `compiled`, `module` or `optim`.
    pub kind: String,
    /// The entry of the database, with its variant.
    pub op: String,
    /// The dtype.
    pub dtype: String,
}

impl TestName {
    /// The same test against another target.
    pub fn on(&self, target: Target) -> Self {
        Self {
            target,
            ..self.clone()
        }
    }

    /// The test of another kind of the same op and dtype.
    pub fn of_kind(&self, kind: &str) -> Self {
        Self {
            kind: kind.to_owned(),
            ..self.clone()
        }
    }
}

impl fmt::Display for TestName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            target,
            kind,
            op,
            dtype,
        } = self;
        write!(f, "{}::{kind}::{op}::{dtype}", target.name())
    }
}

/// A text that names no test.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0:?} names no test; a name is TARGET::KIND::NAME::DTYPE, as in sim::op::add::float32")]
pub struct NotATest(pub String);

impl FromStr for TestName {
    type Err = NotATest;

    fn from_str(text: &str) -> Result<Self, NotATest> {
        let wrong = || NotATest(text.to_owned());
        let parts: Vec<&str> = text.split("::").collect();
        let [target, kind, op, dtype] = parts[..] else {
            return Err(wrong());
        };
        let target = Target::ALL.into_iter().find(|t| t.name() == target);
        if [kind, op, dtype].iter().any(|part| part.is_empty()) {
            return Err(wrong());
        }
        Ok(Self {
            target: target.ok_or_else(wrong)?,
            kind: kind.to_owned(),
            op: op.to_owned(),
            dtype: dtype.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_reads_back() {
        let text = "v6e::grad::nn.functional.pad.replicate::bfloat16";
        let name: TestName = text.parse().unwrap();
        assert_eq!(name.target, Target::V6e);
        assert_eq!(name.op, "nn.functional.pad.replicate");
        assert_eq!(name.to_string(), text);
        assert_eq!(name.on(Target::Sim).to_string(), text.replace("v6e", "sim"));
    }

    #[test]
    fn what_is_no_name_is_refused() {
        for text in [
            "",
            "sim::op::add",
            "gpu::op::add::float32",
            "sim::op::::float32",
            "a::b::c::d::e",
        ] {
            assert_eq!(text.parse::<TestName>(), Err(NotATest(text.to_owned())));
        }
    }
}
