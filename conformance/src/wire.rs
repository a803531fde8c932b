//! What goes between a test, the daemon and the workers: one line of JSON each.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What a client asks the daemon.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ask {
    /// Run a test; answered with a [`TestResult`].
    Run(Box<Run>),
    /// Write the report; answered with its path.
    Flush,
}

/// A test to run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Run {
    /// Its name.
    pub test: String,
    /// At most so many samples; nothing is all of them.
    pub limit: Option<u32>,
    /// Which samples, when not all.
    pub seed: u64,
    /// The function only, not its method and its in-place and `out=` forms.
    pub brief: bool,
    /// Seconds after which it hangs.
    pub timeout: f64,
    /// Of which run of the suite it is a part.
    pub about: About,
}

/// A run of the suite.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// Its number, which nextest gives.
    pub id: String,
    /// `default`, `small` or `full`.
    pub mode: String,
    /// The commit.
    pub commit: String,
}

/// How a test ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// As on the CPU; or it compiles.
    Passed,
    /// Not so.
    Failed,
    /// Not so, as the table of exceptions says, and within the bound that it names.
    ExpectedFailure,
}

/// What a test found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TestResult {
    /// How it ended.
    pub verdict: Verdict,
    /// Which samples were asked for; nothing is all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub picked: Option<Picked>,
    /// Samples that were run.
    pub samples: u64,
    /// Samples that were wrong.
    pub failed: u64,
    /// The largest error, in units of the last place.
    pub ulps: f64,
    /// Comparisons that CPU torch in double precision decided: in the tested type its own rounding errors exceed the
    /// tolerance.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub by_double: u64,
    /// How the op ran: `lowering`, `decomposition`, `fallback`, or empty where nobody looked.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub how: String,
    /// What was wrong; the reason, for an expected failure.
    pub messages: Vec<String>,
    /// What its programs cost, where they were compiled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
    /// How long it took.
    pub seconds: f64,
}

/// Which samples of a test were asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Picked {
    /// At most so many.
    pub limit: u32,
    /// From where on.
    pub seed: u64,
    /// The function only.
    pub brief: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Run {
    /// Which samples it asks for; nothing is all.
    pub fn picked(&self) -> Option<Picked> {
        Some(Picked {
            limit: self.limit?,
            seed: self.seed,
            brief: self.brief,
        })
    }
}

impl TestResult {
    /// A test that gave no result.
    pub fn broken(message: String) -> Self {
        Self {
            verdict: Verdict::Failed,
            picked: None,
            samples: 0,
            failed: 1,
            ulps: 0.0,
            by_double: 0,
            how: String::new(),
            messages: vec![message],
            cost: None,
            seconds: 0.0,
        }
    }
}

/// What compiled programs cost; sums over the programs but for the peak.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// Programs that compile.
    pub programs: u64,
    /// Cycles as the compiler estimates them.
    pub estimated_cycles: u64,
    /// Operations.
    pub flops: f64,
    /// Bytes read and written.
    pub bytes_accessed: f64,
    /// The most memory that one of them needs.
    pub peak_hbm_bytes: u64,
    /// Seconds in the compiler, when it was asked.
    pub compile_seconds: f64,
}

impl Cost {
    /// Takes another program in.
    pub fn add(&mut self, other: &Self) {
        self.programs += other.programs;
        self.estimated_cycles += other.estimated_cycles;
        self.flops += other.flops;
        self.bytes_accessed += other.bytes_accessed;
        self.peak_hbm_bytes = self.peak_hbm_bytes.max(other.peak_hbm_bytes);
        self.compile_seconds += other.compile_seconds;
    }
}

/// What the daemon asks a worker.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct WorkerAsk<'a> {
    pub(crate) test: &'a str,
    pub(crate) limit: Option<u32>,
    pub(crate) seed: u64,
    pub(crate) brief: bool,
    /// Tolerances to use in place of torch's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) bound: Option<BTreeMap<&'static str, f64>>,
}

/// What a worker found.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct WorkerAnswer {
    pub(crate) samples: u64,
    pub(crate) failed: u64,
    #[serde(default)]
    pub(crate) ulps: f64,
    #[serde(default)]
    pub(crate) by_double: u64,
    #[serde(default)]
    pub(crate) messages: Vec<String>,
    #[serde(default)]
    pub(crate) how: String,
    #[serde(default)]
    pub(crate) programs: Vec<String>,
}

/// What the compiler's process is asked.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct CompileAsk {
    /// StableHLO.
    pub(crate) text: String,
}

/// What became of a program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Compiled {
    /// It compiles, at this cost.
    Cost(Cost),
    /// It is refused, with these words.
    Refused(String),
    /// The compiler did not live to answer; another time it may.
    Crashed(String),
}
