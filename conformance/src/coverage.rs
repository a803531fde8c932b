//! `docs/coverage.md`, made of a report.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use crate::name::{Target, TestName};
use crate::report::{ALL, Report};
use crate::wire::{TestResult, Verdict};

/// How an op runs, the worst last.
const WAYS: [&str; 4] = ["", "lowering", "decomposition", "fallback"];

/// All that a report says of one entry of a database.
#[derive(Default)]
struct Entry {
    how: usize,
    /// For each target, of each dtype: whether no test failed.
    dtypes: BTreeMap<Target, BTreeMap<String, bool>>,
    ulps: f64,
    expected: BTreeSet<String>,
}

impl Entry {
    fn take(&mut self, name: &TestName, result: &TestResult) {
        let way = WAYS.iter().position(|way| *way == result.how).unwrap_or(0);
        self.how = self.how.max(way);
        let passed = result.verdict == Verdict::Passed;
        let dtypes = self.dtypes.entry(name.target).or_default();
        *dtypes.entry(name.dtype.clone()).or_insert(true) &= passed;
        if result.verdict == Verdict::ExpectedFailure {
            self.expected.extend(result.messages.first().cloned());
        }
        if passed {
            self.ulps = self.ulps.max(result.ulps);
        }
    }

    fn cell(&self, target: Target) -> String {
        let Some(dtypes) = self.dtypes.get(&target) else {
            return "not run".to_owned();
        };
        let of = |wanted: bool| {
            let names = dtypes.iter().filter(|(_, passed)| **passed == wanted);
            names.map(|(name, _)| short(name)).collect::<Vec<_>>().join(" ")
        };
        let count = dtypes.values().filter(|passed| **passed).count();
        let mut cell = format!("{count}/{}", dtypes.len());
        let (good, bad) = (of(true), of(false));
        if !good.is_empty() {
            cell += &format!(" {good}");
        }
        if !bad.is_empty() {
            cell += &format!("; not {bad}");
        }
        cell
    }
}

/// Names of dtypes as they fit in a table.
fn short(dtype: &str) -> String {
    match dtype {
        "bfloat16" => "bf16".to_owned(),
        _ => [("complex", "c"), ("float", "f"), ("uint", "u"), ("int", "i")]
            .into_iter()
            .find_map(|(long, short)| Some(format!("{short}{}", dtype.strip_prefix(long)?)))
            .unwrap_or_else(|| dtype.to_owned()),
    }
}

fn percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "-".to_owned();
    }
    // Down, so that 100 is all of them.
    format!("{:.2} %", (part as f64 / whole as f64 * 1e4).floor() / 1e2)
}

/// The page.
pub fn page(report: &Report) -> String {
    let mut entries: BTreeMap<(String, String), Entry> = BTreeMap::new();
    for (name, result) in report.named() {
        let section = match name.kind.as_str() {
            "module" => "Modules",
            "optim" => "Optimizers",
            _ => "Operators",
        };
        let key = (section.to_owned(), name.op.clone());
        entries.entry(key).or_default().take(&name, result);
    }
    let mut text = head(report);
    for section in ["Operators", "Modules", "Optimizers"] {
        let of: Vec<(&String, &Entry)> = entries
            .iter()
            .filter(|((s, _), _)| s == section)
            .map(|((_, op), entry)| (op, entry))
            .collect();
        if !of.is_empty() {
            table(&mut text, section, &of);
        }
    }
    text
}

fn head(report: &Report) -> String {
    let mut text = String::from("# Coverage\n\n");
    let versions: Vec<String> = report
        .versions
        .iter()
        .map(|(name, v)| format!("{name} {v}"))
        .collect();
    let commit: String = report.commit.chars().take(12).collect();
    let _ = writeln!(
        text,
        "Made by `cargo run -p conformance -- coverage` from a run of the conformance suite; do not edit. \
         Run: {}, commit {commit}, {}.\n",
        report.mode,
        versions.join(", ")
    );
    text.push_str(
        "A test is an entry of PyTorch's databases (operators, modules, optimizers) in one dtype. On `sim` it executes \
         on the simulator and is compared with CPU torch at torch's default tolerances, and where it differs with CPU torch in \
         double precision, at the same tolerances: the CPU's own rounding may exceed them; on `v6e` each program that it \
         makes compiles with libtpu for `v6e:1x1`. What `conformance/exceptions.toml` lists counts as failed.\n\n",
    );
    text.push_str(
        "| target | kind | tests | passed | | by double precision | failed | of them expected | without samples | samples |\n",
    );
    text.push_str("|---|---|--:|--:|--:|--:|--:|--:|--:|--:|\n");
    for (target, kinds) in &report.totals {
        // The sum last.
        let rows = kinds.iter().filter(|(kind, _)| *kind != ALL);
        for (kind, t) in rows.chain(kinds.get_key_value(ALL)) {
            let share = percent(t.passed, t.tests);
            let _ = writeln!(
                text,
                "| {target} | {kind} | {} | {} | {share} | {} | {} | {} | {} | {} |",
                t.tests, t.passed, t.by_double, t.failed, t.expected_failures, t.empty, t.samples
            );
        }
    }
    text.push('\n');
    for (target, pairs) in &report.pairs {
        let share = percent(pairs.passed, pairs.ran);
        let _ = writeln!(
            text,
            "- {target}: {} of {} pairs of entry and dtype pass in every kind that was run ({share})",
            pairs.passed, pairs.ran
        );
    }
    text.push_str(&ways(report));
    text
}

/// How many ops run in which way.
fn ways(report: &Report) -> String {
    let mut worst: BTreeMap<String, usize> = BTreeMap::new();
    for (name, result) in report.named() {
        let way = WAYS.iter().position(|way| *way == result.how).unwrap_or(0);
        if way > 0 {
            let known = worst.entry(name.op).or_default();
            *known = way.max(*known);
        }
    }
    let count = |way: usize| worst.values().filter(|w| **w == way).count();
    format!(
        "- how the {} operators run: {} by lowerings of ours alone, {} with a decomposition of torch's, {} with a \
         fallback to the CPU\n",
        worst.len(),
        count(1),
        count(2),
        count(3)
    )
}

fn table(text: &mut String, section: &str, entries: &[(&String, &Entry)]) {
    let _ = writeln!(text, "\n## {section}\n");
    text.push_str("| name | runs by | dtypes on sim | dtypes compiling on v6e | worst ulps | |\n|---|---|---|---|--:|---|\n");
    for (op, entry) in entries {
        let how = match WAYS[entry.how] {
            "" => "-",
            how => how,
        };
        let expected: Vec<&str> = entry.expected.iter().map(String::as_str).collect();
        let _ = writeln!(
            text,
            "| `{op}` | {how} | {} | {} | {} | {} |",
            entry.cell(Target::Sim),
            entry.cell(Target::V6e),
            ulps(entry.ulps),
            expected.join("; ").replace('|', "\\|").replace('\n', " ")
        );
    }
}

/// Three digits are enough of an error.
fn ulps(ulps: f64) -> String {
    if ulps == 0.0 {
        "0".to_owned()
    } else if ulps < 1000.0 {
        format!("{ulps:.1}")
    } else {
        format!("{ulps:.1e}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::report;

    #[test]
    fn the_page_tells_totals_and_each_op() {
        let mut made = report(&[
            ("sim::op::add::float32", Verdict::Passed),
            ("sim::op::add::bfloat16", Verdict::Passed),
            ("sim::grad::add::bfloat16", Verdict::Failed),
            ("sim::op::add::uint8", Verdict::ExpectedFailure),
            ("v6e::op::add::float32", Verdict::Passed),
            ("sim::module::nn.ReLU::float32", Verdict::Passed),
        ]);
        let add = made.tests.get_mut("sim::op::add::float32").unwrap();
        (add.how, add.ulps) = ("decomposition".to_owned(), 2.5);
        made.tests.get_mut("sim::op::add::uint8").unwrap().messages = vec!["a | b".to_owned()];
        let page = page(&made);
        let lines = [
            "| sim | all | 5 | 3 | 60.00 % | 0 | 2 | 1 | 0 | 10 |",
            "- sim: 2 of 4 pairs of entry and dtype pass in every kind that was run (50.00 %)",
            "- how the 1 operators run: 0 by lowerings of ours alone, 1 with a decomposition",
            "| `add` | decomposition | 1/3 f32; not bf16 u8 | 1/1 f32 | 2.5 | a \\| b |",
            "| `nn.ReLU` | - | 1/1 f32 | not run | 0 |  |",
        ];
        for line in lines {
            assert!(page.contains(line), "{line} is not in\n{page}");
        }
    }
}
