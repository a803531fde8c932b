//! The suite: one test for each entry, dtype, kind and target.

use std::env;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use conformance::client::{self, Client};
use conformance::exceptions::Exceptions;
use conformance::layout::Layout;
use conformance::list;
use conformance::name::{Target, TestName};
use conformance::select::{self, Mode};
use conformance::wire::{About, Run, TestResult, Verdict};
use conformance::{Error, Result};
use libtest_mimic::{Arguments, Completion, Failed, Trial};

/// The test that looks for rows of the table of exceptions that no test needs.
const EXCEPTIONS: &str = "exceptions";

fn main() -> ExitCode {
    // Ours among the arguments; the others are libtest's.
    let (full, rest): (Vec<String>, Vec<String>) = env::args().partition(|argument| argument == "--full");
    let mut arguments = Arguments::from_iter(rest);
    if arguments.test_threads.is_none() {
        // Tests only wait for the pool.
        arguments.test_threads = std::thread::available_parallelism().ok().map(usize::from);
    }
    match trials(&arguments, !full.is_empty()) {
        Ok(trials) => libtest_mimic::run(&arguments, trials).exit_code(),
        Err(e) => {
            complain(&e);
            ExitCode::from(101)
        }
    }
}

#[expect(clippy::print_stderr, reason = "what keeps the suite from starting")]
fn complain(e: &Error) {
    eprintln!("conformance: {e}");
}

/// What all tests of this process share.
#[derive(Clone)]
struct Suite {
    layout: Layout,
    about: About,
    mode: Mode,
    seed: u64,
}

fn trials(arguments: &Arguments, full: bool) -> Result<Vec<Trial>> {
    let mode = Mode::asked(full)?;
    let layout = Layout::here()?;
    let commit = layout.commit();
    let suite = Suite {
        mode,
        seed: select::seed(&commit),
        about: About {
            id: client::run_id(),
            mode: mode.name().to_owned(),
            commit,
        },
        layout,
    };
    // One test a process is nextest's way: it must not cost the list of all.
    if let (true, Some(name), false) = (arguments.exact, &arguments.filter, arguments.list)
        && let Ok(name) = name.parse::<TestName>()
    {
        let trial = suite.trial(name);
        return Ok(vec![trial.with_ignored_flag(arguments.ignored)]);
    }
    let tests = list::every_test(&suite.layout)?;
    let taken = select::chosen(&tests, mode, suite.seed);
    let asked = asked_by_name();
    let no_hardware = no_hardware().is_some();
    let mut trials = vec![Trial::test(EXCEPTIONS, {
        let suite = suite.clone();
        move || suite.exceptions()
    })];
    for (test, taken) in tests.into_iter().zip(taken) {
        let taken = taken && !(test.target == Target::Tpu && no_hardware);
        let ignored = !taken && !asked.iter().any(|text| text.contains(&test.to_string()));
        trials.push(suite.trial(test).with_ignored_flag(ignored));
    }
    Ok(trials)
}

/// Arguments of nextest that name tests: those are run, chosen or not. nextest does not pass its filters on, and lists
/// before it filters.
fn asked_by_name() -> Vec<String> {
    let parent = std::os::unix::process::parent_id();
    let line = std::fs::read(format!("/proc/{parent}/cmdline")).unwrap_or_default();
    let words = line.split(|&byte| byte == 0).map(String::from_utf8_lossy);
    words
        .filter(|word| {
            Target::ALL
                .iter()
                .any(|target| word.contains(&format!("{}::", target.name())))
        })
        .map(std::borrow::Cow::into_owned)
        .collect()
}

/// Why tests of real hardware cannot run.
fn no_hardware() -> Option<String> {
    let files = pjrt::platform::tpu_device_files(Path::new("/"));
    files
        .is_empty()
        .then(|| "this machine has no TPU: no device files /dev/accel* or /dev/vfio".to_owned())
}

impl Suite {
    fn trial(&self, name: TestName) -> Trial {
        let suite = self.clone();
        Trial::ignorable_test(name.to_string(), move || {
            if name.target == Target::Tpu
                && let Some(reason) = no_hardware()
            {
                return Ok(Completion::ignored_with(reason));
            }
            suite.run(&name)
        })
    }

    fn run(&self, name: &TestName) -> Result<Completion, Failed> {
        let client = Client::new(&self.layout, &harness())?;
        let limit = match conformance::layout::setting("_SAMPLES") {
            None => self.mode.limit(name, self.seed),
            Some(text) if text == "all" => None,
            Some(text) => Some(text.parse().map_err(|_| {
                format!("TORCH_TPU_CONFORMANCE_SAMPLES is {text:?}; it can be a number or \"all\"")
            })?),
        };
        let result = client.run(Run {
            test: name.to_string(),
            limit,
            seed: select::sample_seed(self.mode, self.seed, name),
            brief: self.mode.brief(name, self.seed),
            timeout: client::timeout(limit)?,
            about: self.about.clone(),
        })?;
        match result.verdict {
            Verdict::Passed => Ok(Completion::Completed),
            Verdict::ExpectedFailure => {
                say(&format!("expected failure: {}", result.messages.join("\n")));
                Ok(Completion::Completed)
            }
            Verdict::Failed => Err(told(&result).into()),
        }
    }

    fn exceptions(&self) -> Result<(), Failed> {
        let path = self.layout.exceptions();
        let idle = Exceptions::read(&path)?.idle(&list::every_test(&self.layout)?);
        if idle.is_empty() {
            return Ok(());
        }
        Err(format!(
            "rows of {} that match no test are stale; take them out: {}",
            path.display(),
            idle.join(", ")
        )
        .into())
    }
}

#[expect(clippy::print_stdout, reason = "what a runner shows with the test")]
fn say(what: &str) {
    println!("{what}");
}

fn told(result: &TestResult) -> String {
    let TestResult {
        failed,
        samples,
        messages,
        ..
    } = result;
    format!("{failed} wrong, {samples} samples\n{}", messages.join("\n"))
}

/// The program that is the daemon: nextest says where, as tests may run on another path than they were built on.
fn harness() -> PathBuf {
    env::var_os("NEXTEST_BIN_EXE_conformance")
        .map_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_conformance")), PathBuf::from)
}
