//! The suite's own machinery, seen at work: planted faults fail one test each, and the run goes on.

use std::path::PathBuf;
use std::process::{Command, Output};

use conformance::diff;
use conformance::report::Report;
use conformance::wire::{TestResult, Verdict};
use tempfile::TempDir;

const HANGS: &str = "sim::op::abs::float32";
const ABORTS: &str = "sim::op::neg::float32";
const WRONG: &str = "sim::op::sign::float32";
const RIGHT: [&str; 2] = ["sim::op::ceil::float32", "sim::op::floor::float32"];

/// A suite with a folder, and so a pool, of its own. One worker: each fault meets the tests after it.
struct Suite {
    dir: TempDir,
    settings: Vec<(&'static str, String)>,
}

impl Suite {
    fn new() -> Self {
        Self {
            dir: TempDir::new().unwrap(),
            settings: vec![
                ("TORCH_TPU_CONFORMANCE_WORKERS", "1".to_owned()),
                ("TORCH_TPU_CONFORMANCE_IDLE", "3".to_owned()),
                ("TORCH_TPU_CONFORMANCE_SEED", "1".to_owned()),
            ],
        }
    }

    fn set(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.settings.push((name, value.into()));
        self
    }

    /// Runs tests one process each, as nextest does, in one run.
    fn run(&self, run: &str, tests: &[&str]) -> (Vec<Output>, Report) {
        let outputs = tests.iter().map(|test| {
            self.command(suite())
                .args(["--exact", test, "--nocapture"])
                .env("NEXTEST_RUN_ID", run)
                .output()
                .unwrap()
        });
        let outputs = outputs.collect();
        conformance::client::flush(&self.layout());
        let path = self.dir.path().join("runs").join(format!("default-{run}.json"));
        (outputs, Report::read(&path).unwrap())
    }

    /// Whether a run of everything takes a test.
    fn takes(&self, test: &str) -> bool {
        let listed = |more: &[&str]| {
            let output = self
                .command(suite())
                .args(["--list", "--format", "terse"])
                .args(more)
                .output()
                .unwrap();
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            text.lines().any(|line| line == format!("{test}: test"))
        };
        listed(&[]) && !listed(&["--ignored"])
    }

    fn layout(&self) -> conformance::layout::Layout {
        let mut layout = conformance::layout::Layout::here().unwrap();
        layout.dir = self.dir.path().to_owned();
        layout
    }

    fn command(&self, program: PathBuf) -> Command {
        let mut command = Command::new(program);
        command
            .env("TORCH_TPU_CONFORMANCE_DIR", self.dir.path())
            .env("NEXTEST_BIN_EXE_conformance", env!("CARGO_BIN_EXE_conformance"))
            .envs(self.settings.iter().map(|(name, value)| (name, value)));
        for inherited in ["TORCH_TPU_CONFORMANCE", "TORCH_TPU_CONFORMANCE_SAMPLES"] {
            command.env_remove(inherited);
        }
        command
    }
}

/// The suite's executable: it lies beside this one.
fn suite() -> PathBuf {
    let here = std::env::current_exe().unwrap();
    let found = std::fs::read_dir(here.parent().unwrap()).unwrap().flatten();
    let named = found.map(|entry| entry.path()).filter(|path| {
        let name = path.file_name().unwrap().to_string_lossy();
        name.starts_with("suite-") && path.extension().is_none()
    });
    // Builds of other times lie there too.
    named
        .max_by_key(|path| path.metadata().unwrap().modified().unwrap())
        .unwrap()
}

fn passed(output: &Output) -> bool {
    output.status.success()
}

#[test]
fn planted_faults_fail_one_test_each_and_the_run_goes_on() {
    let plant = format!("hang={HANGS},abort={ABORTS},wrong={WRONG}");
    let suite = Suite::new()
        .set("TORCH_TPU_CONFORMANCE_PLANT", plant)
        .set("TORCH_TPU_CONFORMANCE_TIMEOUT", "12");
    let (outputs, report) = suite.run("faults", &[RIGHT[0], HANGS, ABORTS, WRONG, RIGHT[1]]);
    let went: Vec<bool> = outputs.iter().map(passed).collect();
    assert_eq!(went, [true, false, false, false, true], "{outputs:?}");
    let said = |test: &str| -> &TestResult { &report.tests[test] };
    let message = |test: &str| said(test).messages.join("\n");
    assert!(message(HANGS).contains("hung"), "{}", message(HANGS));
    assert!(
        message(HANGS).contains("planted: this test hangs"),
        "its last words: {}",
        message(HANGS)
    );
    assert!(message(ABORTS).contains("SIGABRT"), "{}", message(ABORTS));
    assert!(
        message(ABORTS).contains("planted: this test aborts"),
        "{}",
        message(ABORTS)
    );
    assert!(message(WRONG).contains("not close"), "{}", message(WRONG));
    let all = report.totals["sim"][conformance::report::ALL];
    assert_eq!((all.tests, all.passed, all.failed), (5, 2, 3));
}

/// Whichever samples a commit chooses.
#[test]
fn a_reduction_over_the_wrong_axis_in_one_dtype_is_caught_by_the_default_run() {
    for (overload, op) in [("aten.sum.dim_IntList", "sum"), ("aten.amax.default", "amax")] {
        let [wrong, right] = ["int16", "int32"].map(|dtype| format!("sim::op::{op}::{dtype}"));
        let mut suite = Suite::new().set("TORCH_TPU_CONFORMANCE_PLANT", format!("axis={overload}/int16"));
        for seed in 0..3 {
            // The last one set counts.
            suite = suite.set("TORCH_TPU_CONFORMANCE_SEED", seed.to_string());
            assert!(suite.takes(&wrong), "{wrong}, seed {seed}");
            let (outputs, report) = suite.run(&format!("axis-{seed}"), &[&wrong, &right]);
            let went: Vec<bool> = outputs.iter().map(passed).collect();
            assert_eq!(went, [false, true], "{op}, seed {seed}: {:?}", report.tests);
        }
    }
}

#[test]
fn exceptions_are_failures_that_are_expected_until_they_are_stale() {
    let rows = [
        (WRONG, "compared = false"),
        // The planted error is one: within the first bound, outside the second.
        ("sim::op::sgn::float32", "rtol = 0.0, atol = 2.0"),
        ("sim::op::sin::float32", "rtol = 0.0, atol = 0.5"),
        (RIGHT[0], "compared = false"),
    ];
    let rows_of_table: Vec<String> = rows
        .iter()
        .map(|(test, bound)| format!("{{ test = \"{test}\", {bound} }}"))
        .collect();
    let table = format!(
        "[[exceptions]]\nreason = \"planted\"\ntests = [{}]\n",
        rows_of_table.join(", ")
    );
    let plant: Vec<String> = rows[..3]
        .iter()
        .map(|(test, _)| format!("wrong={test}"))
        .collect();
    let suite = Suite::new().set("TORCH_TPU_CONFORMANCE_PLANT", plant.join(","));
    let file = suite.dir.path().join("table.toml");
    std::fs::write(&file, table).unwrap();
    let suite = suite.set("TORCH_TPU_CONFORMANCE_EXCEPTIONS", file.to_str().unwrap());
    let tests: Vec<&str> = rows.iter().map(|(test, _)| *test).collect();
    let (outputs, report) = suite.run("exceptions", &tests);
    let verdicts: Vec<Verdict> = tests.iter().map(|test| report.tests[*test].verdict).collect();
    use Verdict::{ExpectedFailure, Failed};
    assert_eq!(
        verdicts,
        [ExpectedFailure, ExpectedFailure, Failed, Failed],
        "{report:?}"
    );
    let went: Vec<bool> = outputs.iter().map(passed).collect();
    assert_eq!(went, [true, true, false, false]);
    let all = report.totals["sim"][conformance::report::ALL];
    assert_eq!((all.passed, all.failed, all.expected_failures), (0, 4, 2));
    let stale = report.tests[RIGHT[0]].messages.join("\n");
    assert!(stale.contains("stale"), "{stale}");
}

#[test]
fn two_runs_give_the_same_report_but_for_times_and_a_worker_outlives_a_test() {
    let suite = Suite::new();
    let tests = [
        RIGHT[0],
        "sim::grad::sum::float32",
        "v6e::op::add::float32",
        "sim::optim::SGD::float32",
    ];
    let (first, one) = suite.run("one", &tests);
    let (_, other) = suite.run("other", &tests);
    assert!(first.iter().all(passed), "{first:?}");
    let difference = diff::same(&one, &other);
    assert!(difference.is_empty(), "{difference}");
    let cost = one.tests["v6e::op::add::float32"].cost.as_ref().unwrap();
    assert!(
        cost.programs > 0 && cost.estimated_cycles > 0 && cost.peak_hbm_bytes > 0,
        "{cost:?}"
    );
    // An import of torch takes seconds; none is in these.
    let slowest = tests
        .iter()
        .map(|test| other.tests[*test].seconds)
        .fold(0.0, f64::max);
    let imports = one
        .tests
        .values()
        .map(|result| result.seconds)
        .fold(0.0, f64::max);
    assert!(
        slowest < imports,
        "{slowest} s, with the start of torch {imports} s"
    );
}

#[test]
fn a_compiler_that_does_not_start_fails_its_test_and_is_not_remembered() {
    let suite = Suite::new();
    // Something that is no library.
    let path = suite.dir.path().join("libtpu.so");
    std::fs::write(&path, "nothing").unwrap();
    let suite = suite.set("TPU_LIBRARY_PATH", path.to_str().unwrap());
    let tests = ["v6e::op::ceil::float32", RIGHT[0], "v6e::op::ceil::float32"];
    let (outputs, report) = suite.run("no-compiler", &tests);
    let went: Vec<bool> = outputs.iter().map(passed).collect();
    assert_eq!(went, [false, true, false], "{outputs:?}");
    let message = report.tests[tests[0]].messages.join("\n");
    assert!(
        message.contains("does not compile for v6e") && message.contains("libtpu.so"),
        "{message}"
    );
    let kept = std::fs::read_dir(suite.dir.path()).unwrap().flatten();
    let kept: Vec<_> = kept
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("v6e"))
        .collect();
    assert!(kept.is_empty(), "{kept:?}");
}

#[test]
fn tests_of_absent_hardware_are_skipped_with_the_reason() {
    let here = pjrt::platform::tpu_device_files(std::path::Path::new("/"));
    let suite = Suite::new();
    let output = suite
        .command(self::suite())
        .args(["--exact", "tpu::op::abs::float32"])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    assert_eq!(
        text.contains("ignored (this machine has no TPU"),
        here.is_empty(),
        "{text}"
    );
}
