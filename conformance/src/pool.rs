//! The workers: each a Python process with torch and the device, and a compiler; they outlive the tests.

use std::path::PathBuf;
use std::process::Command;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::Error;
use crate::Result;
use crate::compiler::Compiler;
use crate::exceptions::{Bound, Exceptions};
use crate::layout::{Layout, setting};
use crate::name::{Target, TestName};
use crate::process::{LineProcess, Silence};
use crate::wire::{Compiled, Cost, Run, TestResult, Verdict, WorkerAnswer, WorkerAsk};

/// A worker with more than this is replaced: programs and torch's caches pile up over thousands of tests.
const RESIDENT_LIMIT: u64 = 3 << 30;
/// How many refused programs of a test are told.
const REFUSALS: usize = 4;
/// How many samples of an exception on v6e are run, always the same ones.
const EXCEPTION_SAMPLES: u32 = 3;

/// All workers.
#[derive(Debug)]
pub(crate) struct Pool {
    idle: Mutex<Vec<Slot>>,
    returned: Condvar,
    /// Hardware belongs to one process at a time.
    hardware: Mutex<Slot>,
    exceptions: Exceptions,
}

#[derive(Debug)]
struct Slot {
    worker: Option<LineProcess>,
    compiler: Compiler,
    log: PathBuf,
    layout: Layout,
}

/// What came of one attempt at a test.
struct Attempt {
    samples: u64,
    failed: u64,
    ulps: f64,
    by_double: u64,
    how: String,
    messages: Vec<String>,
    cost: Option<Cost>,
    /// A crash or a hang, which no exception covers.
    broken: bool,
}

impl Attempt {
    fn broken(message: String) -> Self {
        Self {
            samples: 0,
            failed: 1,
            ulps: 0.0,
            by_double: 0,
            how: String::new(),
            messages: vec![message],
            cost: None,
            broken: true,
        }
    }
}

impl Pool {
    /// As many workers as processors, or as `TORCH_TPU_CONFORMANCE_WORKERS` says; none is started yet.
    pub(crate) fn new(layout: &Layout, files: &str) -> Result<Self> {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let count = match setting("_WORKERS") {
            None => processors,
            Some(text) => text.parse().ok().filter(|&n| n > 0).ok_or_else(|| {
                Error::Usage(format!(
                    "TORCH_TPU_CONFORMANCE_WORKERS is {text:?}, not a number of workers"
                ))
            })?,
        };
        let slot = |name: String| {
            let file = |what: &str| layout.dir.join(format!("{files}-{what}-{name}.log"));
            Slot {
                worker: None,
                compiler: Compiler::new(layout, file("compiler")),
                log: file("worker"),
                layout: layout.clone(),
            }
        };
        Ok(Self {
            idle: Mutex::new((0..count).map(|n| slot(n.to_string())).collect()),
            returned: Condvar::new(),
            hardware: Mutex::new(slot("tpu".to_owned())),
            exceptions: Exceptions::read(&layout.exceptions())?,
        })
    }

    /// Runs a test when a worker is free, and judges it.
    pub(crate) fn run(&self, run: &Run) -> TestResult {
        let name: TestName = match run.test.parse() {
            Ok(name) => name,
            Err(e) => return TestResult::broken(format!("{e}")),
        };
        if name.target == Target::Tpu {
            return self.judged(&mut lock(&self.hardware), &name, run);
        }
        let mut idle = lock(&self.idle);
        let mut slot = loop {
            match idle.pop() {
                Some(slot) => break slot,
                None => idle = self.returned.wait(idle).unwrap_or_else(PoisonError::into_inner),
            }
        };
        drop(idle);
        let result = self.judged(&mut slot, &name, run);
        lock(&self.idle).push(slot);
        self.returned.notify_one();
        result
    }

    fn judged(&self, slot: &mut Slot, name: &TestName, run: &Run) -> TestResult {
        let started = Instant::now();
        let own = self.exceptions.of(name);
        let mut run = run.clone();
        if own.is_some() {
            // Whether a row is stale must not depend on the choice of samples.
            (run.limit, run.seed, run.brief) = match name.target {
                Target::V6e => (Some(EXCEPTION_SAMPLES), 0, false),
                _ => (None, 0, false),
            };
        }
        let mut attempt = slot.attempt(name, &run, None);
        let verdict = match own.cloned().or_else(|| self.exceptions.inherited(name)) {
            _ if attempt.broken => Verdict::Failed,
            // Only a row of its own is stale then: an inherited one is for more samples than these.
            _ if attempt.failed == 0 && own.is_none() => Verdict::Passed,
            None => Verdict::Failed,
            Some(_) if attempt.failed == 0 => {
                attempt.messages = vec![format!(
                    "passes, so its row in exceptions.toml is stale: take {name} out of it"
                )];
                Verdict::Failed
            }
            Some(row) => {
                let within = match row.bound {
                    Bound::NotCompared => true,
                    bound => {
                        let again = slot.attempt(name, &run, Some(bound));
                        attempt.messages = again.messages;
                        again.failed == 0
                    }
                };
                if within {
                    attempt.messages = vec![row.reason.clone()];
                    Verdict::ExpectedFailure
                } else {
                    attempt
                        .messages
                        .insert(0, "outside the bound of its row in exceptions.toml".to_owned());
                    Verdict::Failed
                }
            }
        };
        slot.replace_when_large();
        TestResult {
            verdict,
            picked: run.picked(),
            samples: attempt.samples,
            failed: attempt.failed,
            ulps: attempt.ulps,
            by_double: attempt.by_double,
            how: attempt.how,
            messages: attempt.messages.iter().map(|m| without_addresses(m)).collect(),
            cost: attempt.cost,
            seconds: started.elapsed().as_secs_f64(),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Slot {
    fn attempt(&mut self, name: &TestName, run: &Run, bound: Option<Bound>) -> Attempt {
        let limit = Duration::from_secs_f64(run.timeout.clamp(0.1, 1e6));
        let answer = match self.ask(name, run, bound, limit) {
            Ok(Ok(answer)) => answer,
            Ok(Err(silence)) => {
                self.worker = None;
                return Attempt::broken(match silence {
                    Silence::Died(words) => format!("the worker crashed: {words}"),
                    Silence::Hung(words) => {
                        format!("the worker hung: no answer in {} s: {words}", run.timeout)
                    }
                });
            }
            Err(e) => {
                self.worker = None;
                return Attempt::broken(e.to_string());
            }
        };
        let mut attempt = Attempt {
            samples: answer.samples,
            failed: answer.failed,
            ulps: answer.ulps,
            by_double: answer.by_double,
            how: answer.how,
            messages: answer.messages,
            cost: None,
            broken: false,
        };
        if name.target == Target::V6e {
            self.compile(&answer.programs, limit, &mut attempt);
        }
        attempt
    }

    fn ask(
        &mut self,
        name: &TestName,
        run: &Run,
        bound: Option<Bound>,
        limit: Duration,
    ) -> Result<Result<WorkerAnswer, Silence>> {
        let test = name.to_string();
        let ask = WorkerAsk {
            test: &test,
            limit: run.limit,
            seed: run.seed,
            brief: run.brief,
            bound: bound.and_then(Bound::tolerances),
        };
        let line = serde_json::to_string(&ask).map_err(Error::answer("the daemon", ""))?;
        let worker = match &mut self.worker {
            Some(worker) => worker,
            None => {
                let mut started = start(&self.layout, name.target, &self.log)?;
                // It imports torch before it answers: that is no test's time.
                match started.ask(r#"{"ready": true}"#, Duration::from_secs(300)) {
                    Ok(_) => self.worker.insert(started),
                    Err(silence) => return Ok(Err(silence)),
                }
            }
        };
        match worker.ask(&line, limit) {
            Ok(line) => {
                let answer = serde_json::from_str(&line).map_err(Error::answer("the worker", &line))?;
                Ok(Ok(answer))
            }
            Err(silence) => Ok(Err(silence)),
        }
    }

    fn compile(&mut self, programs: &[String], limit: Duration, attempt: &mut Attempt) {
        let mut cost = Cost::default();
        for text in programs {
            let refused = match self.compiler.compile(text, limit) {
                Ok(Compiled::Cost(one)) => {
                    cost.add(&one);
                    continue;
                }
                Ok(Compiled::Refused(what) | Compiled::Crashed(what)) => what,
                Err(e) => e.to_string(),
            };
            attempt.failed += 1;
            if attempt.messages.len() < REFUSALS {
                let what: String = refused.chars().take(1500).collect();
                attempt.messages.push(format!("does not compile for v6e: {what}"));
            }
        }
        attempt.cost = Some(cost);
    }

    fn replace_when_large(&mut self) {
        if self
            .worker
            .as_ref()
            .is_some_and(|w| w.resident_bytes() > RESIDENT_LIMIT)
        {
            self.worker = None;
        }
    }
}

fn start(layout: &Layout, target: Target, log: &std::path::Path) -> Result<LineProcess> {
    let platform = if target == Target::Tpu { "tpu" } else { "sim" };
    let mut command = Command::new(&layout.python);
    command
        .args(["-m", "worker"])
        .env("PYTHONPATH", layout.package())
        .env("PYTHONFAULTHANDLER", "1")
        .env("TORCH_TPU_PLATFORM", platform)
        .env("TORCH_TPU_FALLBACK", "error")
        .current_dir(&layout.root);
    LineProcess::start(&mut command, log)
}

/// A message without the addresses in it, which differ from run to run.
fn without_addresses(message: &str) -> String {
    let mut parts = message.split("0x");
    let mut clean = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let digits = part.bytes().take_while(u8::is_ascii_hexdigit).count();
        // Short ones are constants that somebody wrote.
        let kept = if digits >= 8 { &part[digits..] } else { part };
        clean.push_str("0x");
        if digits >= 8 {
            clean.push('…');
        }
        clean.push_str(kept);
    }
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_taken_out_of_messages() {
        let message = "Generator at 0x7f12ab34cd56> of 0x10, 0x7f12ab34cd57";
        assert_eq!(without_addresses(message), "Generator at 0x…> of 0x10, 0x…");
        assert_eq!(without_addresses("none"), "none");
    }
}
