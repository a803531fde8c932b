//! What regressed from one report to another.

use std::fmt;

use crate::report::Report;
use crate::wire::{Cost, Verdict};

/// A cost has to grow by this part, and by the amount below, to count: compilers are not that even.
const GROWTH: f64 = 0.05;
/// Compile times are the machine's too.
const SLOWER: f64 = 0.5;
const LEAST_SECONDS: f64 = 0.5;
const LEAST_CYCLES: f64 = 500.0;
const LEAST_BYTES: f64 = 4096.0;

/// What became worse, one line each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Worse {
    /// Tests that passed before and do not now.
    pub correctness: Vec<String>,
    /// Tests that ran before and are not there now.
    pub missing: Vec<String>,
    /// Compile time.
    pub compile_time: Vec<String>,
    /// Cycles.
    pub cycles: Vec<String>,
    /// Memory.
    pub peak_hbm: Vec<String>,
    /// Tests that pass now and did not before.
    pub better: u64,
    /// Tests that both have.
    pub compared: u64,
}

impl Worse {
    /// Whether anything did. Tests that are not there now are told, but a sample by commit leaves others out each time.
    pub fn any(&self) -> bool {
        [
            &self.correctness,
            &self.compile_time,
            &self.cycles,
            &self.peak_hbm,
        ]
        .iter()
        .any(|list| !list.is_empty())
    }
}

impl fmt::Display for Worse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [
            ("correctness", &self.correctness),
            ("compile time", &self.compile_time),
            ("estimated cycles", &self.cycles),
            ("peak HBM", &self.peak_hbm),
        ];
        for (title, list) in parts {
            writeln!(f, "{title}: {} regressed", list.len())?;
            for line in list {
                writeln!(f, "  {line}")?;
            }
        }
        let Self {
            compared,
            better,
            missing,
            ..
        } = self;
        write!(
            f,
            "{compared} tests compared, {better} pass that did not, {} only in the first",
            missing.len()
        )
    }
}

/// What became worse from `before` to `after`.
pub fn compare(before: &Report, after: &Report) -> Worse {
    let mut worse = Worse::default();
    for (name, old) in &before.tests {
        let Some(new) = after.tests.get(name) else {
            worse.missing.push(name.clone());
            continue;
        };
        worse.compared += 1;
        match (old.verdict == Verdict::Passed, new.verdict == Verdict::Passed) {
            (true, false) => {
                let why = new.messages.first().and_then(|m| m.lines().next());
                worse
                    .correctness
                    .push(format!("{name}: {}", why.unwrap_or("failed")));
            }
            (false, true) => worse.better += 1,
            _ => {}
        }
        if let (Some(old), Some(new)) = (&old.cost, &new.cost)
            // Of other samples costs are of another thing.
            && before.tests[name].picked == after.tests[name].picked
        {
            worse.costs(name, old, new);
        }
    }
    worse
}

impl Worse {
    fn costs(&mut self, name: &str, old: &Cost, new: &Cost) {
        let grew = |list: &mut Vec<String>, old: f64, new: f64, part: f64, least: f64, unit: &str| {
            if new > old * (1.0 + part) && new - old > least {
                let percent = if old > 0.0 {
                    (new / old - 1.0) * 100.0
                } else {
                    f64::INFINITY
                };
                list.push(format!("{name}: {old:.6} -> {new:.6} {unit} (+{percent:.0} %)"));
            }
        };
        let cycles = (old.estimated_cycles as f64, new.estimated_cycles as f64);
        let bytes = (old.peak_hbm_bytes as f64, new.peak_hbm_bytes as f64);
        let seconds = (old.compile_seconds, new.compile_seconds);
        grew(
            &mut self.compile_time,
            seconds.0,
            seconds.1,
            SLOWER,
            LEAST_SECONDS,
            "s",
        );
        grew(
            &mut self.cycles,
            cycles.0,
            cycles.1,
            GROWTH,
            LEAST_CYCLES,
            "cycles",
        );
        grew(&mut self.peak_hbm, bytes.0, bytes.1, GROWTH, LEAST_BYTES, "bytes");
    }
}

/// Where two reports say different things, times aside; nothing when they are the same.
pub fn same(a: &Report, b: &Report) -> Difference {
    let (a, b) = (a.without_times(), b.without_times());
    let mut lines = Vec::new();
    for name in a
        .tests
        .keys()
        .chain(b.tests.keys().filter(|name| !a.tests.contains_key(*name)))
    {
        match (a.tests.get(name), b.tests.get(name)) {
            (Some(one), Some(other)) if one != other => lines.push(format!("{name}: {one:?} != {other:?}")),
            (None, _) => lines.push(format!("{name}: only in the second")),
            (_, None) => lines.push(format!("{name}: only in the first")),
            _ => {}
        }
    }
    if lines.is_empty() && a != b {
        lines.push("the commit, the mode or the versions differ".to_owned());
    }
    Difference(lines)
}

/// Differences of two reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference(Vec<String>);

impl Difference {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return write!(f, "the same but for times");
        }
        write!(f, "{}\n{} differences", self.0.join("\n"), self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::report;

    const ADD: &str = "v6e::op::add::float32";

    fn with_cost(cycles: u64, bytes: u64, seconds: f64) -> Report {
        let mut made = report(&[(ADD, Verdict::Passed)]);
        made.tests.get_mut(ADD).unwrap().cost = Some(Cost {
            programs: 1,
            estimated_cycles: cycles,
            peak_hbm_bytes: bytes,
            compile_seconds: seconds,
            ..Cost::default()
        });
        made
    }

    #[test]
    fn what_fails_now_and_did_not_is_told() {
        let before = report(&[(ADD, Verdict::Passed), ("sim::op::sub::int8", Verdict::Passed)]);
        let worse = compare(&before, &report(&[(ADD, Verdict::Failed)]));
        assert_eq!(worse.correctness.len(), 1);
        assert_eq!(worse.missing, ["sim::op::sub::int8"]);
        assert!(worse.any());
        let back = compare(&report(&[(ADD, Verdict::Failed)]), &before);
        assert_eq!((back.any(), back.better), (false, 1));
    }

    #[test]
    fn each_cost_is_compared() {
        let before = with_cost(10_000, 100_000, 1.0);
        assert!(!compare(&before, &with_cost(10_400, 103_000, 1.4)).any());
        let worse = compare(&before, &with_cost(20_000, 200_000, 3.0));
        assert_eq!(
            (worse.cycles.len(), worse.peak_hbm.len(), worse.compile_time.len()),
            (1, 1, 1)
        );
        assert!(
            worse
                .to_string()
                .contains("10000.000000 -> 20000.000000 cycles (+100 %)"),
            "{worse}"
        );
    }

    #[test]
    fn costs_of_other_samples_are_not_compared() {
        let mut other = with_cost(20_000, 200_000, 3.0);
        other.tests.get_mut(ADD).unwrap().picked = Some(crate::wire::Picked {
            limit: 1,
            seed: 4,
            brief: false,
        });
        assert!(!compare(&with_cost(10_000, 100_000, 1.0), &other).any());
    }

    #[test]
    fn times_do_not_make_reports_differ() {
        assert!(same(&with_cost(1, 1, 1.0), &with_cost(1, 1, 2.0)).is_empty());
        assert!(!same(&with_cost(1, 1, 1.0), &with_cost(2, 1, 1.0)).is_empty());
        assert!(!same(&report(&[]), &report(&[(ADD, Verdict::Passed)])).is_empty());
    }
}
