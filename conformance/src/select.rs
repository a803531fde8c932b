//! Which tests a run takes, and how many samples of each.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::layout::setting;
use crate::name::{COMPILED, Target, TestName};
use crate::{Error, Result};

/// How much a run takes; `TORCH_TPU_CONFORMANCE` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// A minute or two.
    Small,
    /// Every op and dtype on the simulator, every op on v6e, a part of the rest, chosen by the commit.
    Default,
    /// All of it.
    Full,
}

/// Tests taken of a thousand, of each kind, in a default run. Those of `op` are taken whole.
const SHARES: [(Target, &str, u64); 9] = [
    (Target::Sim, "grad", 80),
    (Target::Sim, "gradgrad", 20),
    (Target::Sim, "error", 300),
    (Target::Sim, COMPILED, 60),
    (Target::Sim, "module", 120),
    (Target::Sim, "optim", 200),
    (Target::V6e, "grad", 10),
    (Target::V6e, "module", 30),
    (Target::V6e, "optim", 70),
];
/// How many samples of a compiled op a full run takes: tracing one takes longer than running it.
const TRACED: u32 = 8;
/// Of a thousand of those, how many a small run takes.
const SMALL: u64 = 80;

impl Mode {
    /// The one that the environment or the command line asks for.
    pub fn asked(full: bool) -> Result<Self> {
        match setting("").as_deref() {
            _ if full => Ok(Self::Full),
            None | Some("default") => Ok(Self::Default),
            Some("small") => Ok(Self::Small),
            Some("full") => Ok(Self::Full),
            Some(other) => Err(Error::Usage(format!(
                "TORCH_TPU_CONFORMANCE is {other:?}; it can be small, default or full"
            ))),
        }
    }

    /// As the environment says it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Small => "small",
            Self::Default => "default",
            Self::Full => "full",
        }
    }

    /// How many samples of a test are run; nothing is all.
    pub fn limit(self, test: &TestName, seed: u64) -> Option<u32> {
        match (self, test.target) {
            (Self::Full, Target::V6e) => Some(3),
            (Self::Full, _) if test.kind == COMPILED => Some(TRACED),
            (Self::Full, _) => None,
            _ if self.brief(test, seed) || test.target == Target::V6e => Some(1),
            _ => Some(2),
        }
    }

    /// Whether only the function is called, not its method and its in-place and `out=` forms: there are six thousand
    /// tests of ops.
    pub fn brief(self, test: &TestName, seed: u64) -> bool {
        self != Self::Full && test.kind == "op" && hash(seed, &test.to_string()) & 7 != 0
    }
}

/// A number that a commit gives, the same at every run of it; `TORCH_TPU_CONFORMANCE_SEED` stands in for it.
pub fn seed(commit: &str) -> u64 {
    match setting("_SEED") {
        Some(text) => text.parse().unwrap_or_else(|_| hash(0, &text)),
        None => hash(0, commit),
    }
}

/// Which samples of a test a seed stands for: fewer bits, as Python multiplies with them.
pub fn sample_seed(mode: Mode, seed: u64, test: &TestName) -> u64 {
    // Full runs of different commits are compared: what they pick is the same.
    let seed = if mode == Mode::Full { 0 } else { seed };
    // Both targets run the same samples.
    hash(seed, &test.on(Target::Sim).to_string()) % 1_000_000
}

fn hash(seed: u64, text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    (seed, text).hash(&mut hasher);
    hasher.finish()
}

/// For each test whether a run takes it.
pub fn chosen(tests: &[TestName], mode: Mode, seed: u64) -> Vec<bool> {
    if mode == Mode::Full {
        return vec![true; tests.len()];
    }
    let rank: Vec<u64> = tests.iter().map(|test| hash(seed, &test.to_string())).collect();
    let first = first_of_each_op(tests, &rank);
    let taken = |(at, test): (usize, &TestName)| {
        // Hardware runs what the simulator does.
        let target = if test.target == Target::Tpu {
            Target::Sim
        } else {
            test.target
        };
        let is_first = first.get(&(test.target, test.op.as_str())) == Some(&at);
        let share = SHARES
            .iter()
            .find(|(t, kind, _)| *t == target && *kind == test.kind)
            .map_or(0, |share| share.2);
        let takes = match (target, test.kind.as_str()) {
            (Target::V6e, "op") => is_first,
            (_, "op") => mode == Mode::Default || is_first,
            _ => rank[at] % 1000 < share,
        };
        // Other bits than those that the shares look at.
        takes && (mode == Mode::Default || (rank[at] >> 32) % 1000 < SMALL)
    };
    tests.iter().enumerate().map(taken).collect()
}

/// Of each op, against each target, the one test of kind `op` that stands for it.
fn first_of_each_op<'a>(tests: &'a [TestName], rank: &[u64]) -> HashMap<(Target, &'a str), usize> {
    let mut first = HashMap::new();
    for (at, test) in tests.iter().enumerate().filter(|(_, test)| test.kind == "op") {
        let best = first.entry((test.target, test.op.as_str())).or_insert(at);
        if rank[at] < rank[*best] {
            *best = at;
        }
    }
    first
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn many() -> Vec<TestName> {
        let mut tests = Vec::new();
        for target in Target::ALL {
            for op in 0..200 {
                for kind in ["op", "grad"] {
                    for dtype in ["float32", "float64", "int32"] {
                        tests.push(
                            format!("{}::{kind}::op{op}::{dtype}", target.name())
                                .parse()
                                .unwrap(),
                        );
                    }
                }
            }
        }
        tests
    }

    fn names(mode: Mode, seed: u64) -> BTreeSet<String> {
        let tests = many();
        let taken = chosen(&tests, mode, seed);
        let both = tests.iter().zip(taken);
        both.filter(|(_, taken)| *taken)
            .map(|(test, _)| test.to_string())
            .collect()
    }

    #[test]
    fn each_op_runs_on_both_targets() {
        let taken = names(Mode::Default, 7);
        for op in 0..200 {
            let of = |target: &str| {
                let start = format!("{target}::op::op{op}::");
                taken.iter().filter(|name| name.starts_with(&start)).count()
            };
            assert_eq!((of("sim"), of("v6e")), (3, 1), "op{op}");
        }
        let gradients = taken.iter().filter(|name| name.starts_with("sim::grad")).count();
        assert!((30..130).contains(&gradients), "{gradients} of 600");
    }

    #[test]
    fn a_commit_always_takes_the_same_and_another_takes_others() {
        assert_eq!(names(Mode::Default, 7), names(Mode::Default, 7));
        assert_ne!(names(Mode::Default, 7), names(Mode::Default, 8));
        assert!(names(Mode::Small, 7).len() * 5 < names(Mode::Default, 7).len());
        assert!(names(Mode::Small, 7).is_subset(&names(Mode::Default, 7)));
        assert_eq!(names(Mode::Full, 7).len(), many().len());
    }

    #[test]
    fn both_targets_run_the_same_samples() {
        let test: TestName = "v6e::op::add::float32".parse().unwrap();
        let of = |mode, seed, test: &TestName| sample_seed(mode, seed, test);
        assert_eq!(
            of(Mode::Default, 3, &test),
            of(Mode::Default, 3, &test.on(Target::Sim))
        );
        assert_ne!(of(Mode::Default, 3, &test), of(Mode::Default, 4, &test));
        assert_eq!(of(Mode::Full, 3, &test), of(Mode::Full, 4, &test));
    }
}
