//! What a run found, as one file.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::name::TestName;
use crate::wire::{About, TestResult, Verdict};
use crate::{Error, Result};

/// All that a run found. But for the times in it, two runs of one commit give the same.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The commit that was checked out.
    pub commit: String,
    /// `default`, `small` or `full`.
    pub mode: String,
    /// Versions of what was tested against.
    pub versions: BTreeMap<String, String>,
    /// For each target and kind, and for all kinds of a target.
    pub totals: BTreeMap<String, BTreeMap<String, Totals>>,
    /// For each target: pairs of an op and a dtype of which each test that ran passed.
    pub pairs: BTreeMap<String, Pairs>,
    /// Each test.
    pub tests: BTreeMap<String, TestResult>,
}

/// Sums over tests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Totals {
    /// Tests that ran, each an op and a dtype.
    pub tests: u64,
    /// Those that passed.
    pub passed: u64,
    /// Those that did not, the expected ones included.
    pub failed: u64,
    /// Failures that the table of exceptions foretells.
    pub expected_failures: u64,
    /// Those that passed where CPU torch in double precision decided some comparison.
    #[serde(default)]
    pub by_double: u64,
    /// Those that passed with no sample to run: the CPU could run none of them.
    pub empty: u64,
    /// Samples that ran.
    pub samples: u64,
    /// Seconds of all of them.
    pub seconds: f64,
}

/// Pairs of an op and a dtype.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pairs {
    /// Of which a test ran.
    pub ran: u64,
    /// Of which none failed.
    pub passed: u64,
}

/// The row of totals that sums over kinds.
pub const ALL: &str = "all";

impl Report {
    /// Of the tests of a run.
    pub fn new(
        about: &About,
        versions: BTreeMap<String, String>,
        tests: BTreeMap<String, TestResult>,
    ) -> Self {
        let mut report = Self {
            commit: about.commit.clone(),
            mode: about.mode.clone(),
            versions,
            tests,
            ..Self::default()
        };
        report.sum();
        report
    }

    /// Tests whose names are well-formed, with the names.
    pub fn named(&self) -> impl Iterator<Item = (TestName, &TestResult)> {
        self.tests
            .iter()
            .filter_map(|(name, result)| Some((name.parse().ok()?, result)))
    }

    /// Makes the sums anew.
    fn sum(&mut self) {
        let mut totals: BTreeMap<String, BTreeMap<String, Totals>> = BTreeMap::new();
        let mut ran: BTreeMap<String, BTreeSet<(String, String)>> = BTreeMap::new();
        let mut bad = ran.clone();
        for (name, result) in self.named() {
            let target = name.target.name().to_owned();
            let of_target = totals.entry(target.clone()).or_default();
            for kind in [name.kind.as_str(), ALL] {
                of_target.entry(kind.to_owned()).or_default().count(result);
            }
            let pair = (name.op, name.dtype);
            if result.verdict != Verdict::Passed {
                bad.entry(target.clone()).or_default().insert(pair.clone());
            }
            ran.entry(target).or_default().insert(pair);
        }
        let pairs = ran.into_iter().map(|(target, pairs)| {
            let failed = bad.get(&target).map_or(0, BTreeSet::len) as u64;
            let ran = pairs.len() as u64;
            let passed = ran - failed;
            (target, Pairs { ran, passed })
        });
        self.pairs = pairs.collect();
        self.totals = totals;
    }

    /// Takes another report in; where both have a test, the other one counts.
    pub fn merge(&mut self, other: Self) {
        self.commit = other.commit;
        if self.mode != other.mode {
            self.mode = format!("{} and {}", self.mode, other.mode);
        }
        self.versions.extend(other.versions);
        self.tests.extend(other.tests);
        self.sum();
    }

    /// Reads one.
    pub fn read(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).map_err(Error::file("read", path))?;
        serde_json::from_str(&text).map_err(|e| Error::Text {
            path: path.to_owned(),
            what: format!("is no report: {e}"),
        })
    }

    /// Writes it whole or not at all.
    pub fn write(&self, path: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(self).map_err(Error::answer("the report", ""))?;
        let draft = path.with_extension(format!("{}.tmp", std::process::id()));
        fs::write(&draft, text + "\n").map_err(Error::file("write", &draft))?;
        fs::rename(&draft, path).map_err(Error::file("write", path))
    }

    /// The same without times: what two runs of one commit agree on.
    pub fn without_times(&self) -> Self {
        let mut report = self.clone();
        for result in report.tests.values_mut() {
            result.seconds = 0.0;
            if let Some(cost) = &mut result.cost {
                cost.compile_seconds = 0.0;
            }
        }
        report.sum();
        report
    }
}

impl Totals {
    fn count(&mut self, result: &TestResult) {
        self.tests += 1;
        match result.verdict {
            Verdict::Passed => self.passed += 1,
            Verdict::Failed => self.failed += 1,
            Verdict::ExpectedFailure => {
                self.failed += 1;
                self.expected_failures += 1;
            }
        }
        self.by_double += u64::from(result.verdict == Verdict::Passed && result.by_double > 0);
        self.empty += u64::from(result.verdict == Verdict::Passed && result.samples == 0);
        self.samples += result.samples;
        self.seconds += result.seconds;
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn result(verdict: Verdict) -> TestResult {
        TestResult {
            verdict,
            samples: 2,
            failed: u64::from(verdict != Verdict::Passed),
            messages: Vec::new(),
            seconds: 1.5,
            ..TestResult::broken(String::new())
        }
    }

    pub(crate) fn report(tests: &[(&str, Verdict)]) -> Report {
        let tests = tests
            .iter()
            .map(|(name, verdict)| ((*name).to_owned(), result(*verdict)));
        Report::new(&About::default(), BTreeMap::new(), tests.collect())
    }

    #[test]
    fn an_expected_failure_counts_as_a_failure() {
        let report = report(&[
            ("sim::op::add::float32", Verdict::Passed),
            ("sim::grad::add::float32", Verdict::ExpectedFailure),
            ("sim::op::add::int32", Verdict::Passed),
            ("v6e::op::add::float32", Verdict::Failed),
        ]);
        let all = report.totals["sim"][ALL];
        assert_eq!(
            (all.tests, all.passed, all.failed, all.expected_failures),
            (3, 2, 1, 1)
        );
        assert_eq!(all.samples, 6);
        assert_eq!(report.pairs["sim"], Pairs { ran: 2, passed: 1 });
        assert_eq!(report.pairs["v6e"], Pairs { ran: 1, passed: 0 });
    }

    #[test]
    fn a_report_reads_back_and_a_later_one_counts() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("report.json");
        let mut first = report(&[
            ("sim::op::add::float32", Verdict::Failed),
            ("sim::op::sub::float32", Verdict::Passed),
        ]);
        first.write(&path).unwrap();
        assert_eq!(Report::read(&path).unwrap(), first);
        first.merge(report(&[("sim::op::add::float32", Verdict::Passed)]));
        assert_eq!(first.pairs["sim"], Pairs { ran: 2, passed: 2 });
    }
}
