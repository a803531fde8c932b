//! The process that owns the workers of a pool, serves tests over a socket, writes the report, and ends when nobody
//! has asked for a while.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File, TryLockError};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::layout::{Layout, setting};
use crate::pool::Pool;
use crate::report::Report;
use crate::wire::{About, Ask, TestResult};
use crate::{Error, Result};

/// Without tests for so long, the daemon ends; `TORCH_TPU_CONFORMANCE_IDLE` says otherwise.
const IDLE_SECONDS: f64 = 30.0;
/// How often it looks whether it should, and whether the report is due.
const TICK: Duration = Duration::from_millis(50);
/// A report is written when tests have paused for this long, or at the latest after the other.
const PAUSE: Duration = Duration::from_millis(100);
const LATEST: Duration = Duration::from_secs(30);
/// Files of pools that nobody used for so long go.
const OLD: Duration = Duration::from_secs(3 * 24 * 3600);
/// Reports of earlier runs that are kept.
const RUNS_KEPT: usize = 20;

/// The argument that makes this program the daemon.
pub const SERVE: &str = "serve";

/// Files of a pool, by its key.
#[derive(Clone, Debug)]
pub struct Files {
    /// `pool-0123456789abcdef`.
    pub stem: String,
    dir: PathBuf,
}

impl Files {
    /// Of the pool with a key.
    pub fn of(layout: &Layout, key: u64) -> Self {
        Self {
            stem: format!("pool-{key:016x}"),
            dir: layout.dir.clone(),
        }
    }

    /// Where it listens.
    pub fn socket(&self) -> PathBuf {
        self.path("sock")
    }

    /// What the daemon holds locked while it lives.
    pub fn lock(&self) -> PathBuf {
        self.path("lock")
    }

    /// What a client holds locked while it starts the daemon.
    pub fn start_lock(&self) -> PathBuf {
        self.path("start")
    }

    /// What it says.
    pub fn log(&self) -> PathBuf {
        self.path("log")
    }

    fn path(&self, extension: &str) -> PathBuf {
        self.dir.join(&self.stem).with_extension(extension)
    }
}

struct State {
    active: usize,
    last: Instant,
    runs: HashMap<String, RunState>,
}

struct RunState {
    about: About,
    tests: BTreeMap<String, TestResult>,
    /// Since when the file lacks something.
    changed: Option<Instant>,
}

struct Daemon {
    layout: Layout,
    pool: Pool,
    state: Mutex<State>,
    versions: BTreeMap<String, String>,
}

/// Serves a pool until nobody has asked for a while. At once nothing to do when another daemon serves it.
pub fn serve(layout: &Layout, key: u64) -> Result<()> {
    let files = Files::of(layout, key);
    let lock = File::create(files.lock()).map_err(Error::file("create", &files.lock()))?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(()),
        Err(TryLockError::Error(e)) => return Err(Error::file("lock", &files.lock())(e)),
    }
    let socket = files.socket();
    // A leftover of a daemon that was killed; the lock says that none lives.
    if let Err(e) = fs::remove_file(&socket)
        && e.kind() != io::ErrorKind::NotFound
    {
        return Err(Error::file("remove", &socket)(e));
    }
    let versions = ["torch", "libtpu"].map(|name| (name.to_owned(), layout.version(name)));
    let daemon = Arc::new(Daemon {
        layout: layout.clone(),
        pool: Pool::new(layout, &files.stem)?,
        state: Mutex::new(State {
            active: 0,
            last: Instant::now(),
            runs: HashMap::new(),
        }),
        versions: versions.into(),
    });
    forget_old_pools(&layout.dir);
    let listener = UnixListener::bind(&socket).map_err(Error::file("listen at", &socket))?;
    let accepting = daemon.clone();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let daemon = accepting.clone();
            daemon.lock().active += 1;
            thread::spawn(move || {
                let served = daemon.serve_one(stream);
                let mut state = daemon.lock();
                state.active -= 1;
                state.last = Instant::now();
                drop(state);
                if let Err(e) = served {
                    complain(&e);
                }
            });
        }
    });
    daemon.watch(&socket);
    Ok(())
}

#[expect(clippy::print_stderr, reason = "its standard error is the pool's log")]
fn complain(what: &dyn std::fmt::Display) {
    eprintln!("{what}");
}

impl Daemon {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes reports when they are due; returns when the daemon has been idle for long enough.
    fn watch(&self, socket: &Path) {
        let idle = setting("_IDLE")
            .and_then(|text| text.parse().ok())
            .unwrap_or(IDLE_SECONDS);
        loop {
            thread::sleep(TICK);
            let state = self.lock();
            let quiet = state.last.elapsed();
            let busy = state.active > 0;
            let due = |run: &RunState| {
                run.changed
                    .is_some_and(|since| (!busy && quiet >= PAUSE) || since.elapsed() >= LATEST)
            };
            let write = state.runs.values().any(due);
            let over = !busy && quiet.as_secs_f64() >= idle;
            if over {
                // Before the workers end, so that a client finds no socket rather than one that nobody serves.
                let _ = fs::remove_file(socket);
            }
            drop(state);
            if (write || over)
                && let Err(e) = self.write()
            {
                complain(&e);
            }
            if over {
                return;
            }
        }
    }

    fn serve_one(&self, mut stream: UnixStream) -> Result<()> {
        let failed = |e: io::Error| Error::Process {
            program: "a test".to_owned(),
            what: e.to_string(),
        };
        let mut line = String::new();
        BufReader::new(stream.try_clone().map_err(failed)?)
            .read_line(&mut line)
            .map_err(failed)?;
        let ask: Ask = serde_json::from_str(&line).map_err(Error::answer("a test", &line))?;
        let answer = match ask {
            Ask::Flush => {
                self.write()?;
                serde_json::to_string(&self.report_path())
            }
            Ask::Run(run) => {
                let result = self.pool.run(&run);
                self.record(&run.about, run.test, &result);
                serde_json::to_string(&result)
            }
        };
        let answer = answer.map_err(Error::answer("the daemon", ""))?;
        writeln!(stream, "{answer}").map_err(failed)
    }

    fn record(&self, about: &About, test: String, result: &TestResult) {
        let mut state = self.lock();
        let run = state.runs.entry(about.id.clone()).or_insert_with(|| RunState {
            about: about.clone(),
            tests: BTreeMap::new(),
            changed: None,
        });
        run.tests.insert(test, result.clone());
        run.changed.get_or_insert_with(Instant::now);
    }

    fn report_path(&self) -> PathBuf {
        self.layout.dir.join("report.json")
    }

    fn run_path(&self, about: &About) -> PathBuf {
        let id: String = about
            .id
            .chars()
            .filter(|c| c.is_ascii_alphanumeric() || *c == '-')
            .collect();
        self.layout
            .dir
            .join("runs")
            .join(format!("{}-{id}.json", about.mode))
    }

    /// Writes each report that changed, to a file of its run and to the one of the last run.
    fn write(&self) -> Result<()> {
        let changed: Vec<(About, BTreeMap<String, TestResult>)> = {
            let mut state = self.lock();
            let mut changed = Vec::new();
            for run in state.runs.values_mut() {
                if run.changed.take().is_some() {
                    changed.push((run.about.clone(), run.tests.clone()));
                }
            }
            changed
        };
        let dir = self.layout.dir.join("runs");
        fs::create_dir_all(&dir).map_err(Error::file("create", &dir))?;
        for (about, tests) in changed {
            // Another daemon, with other code, may have a part in the run.
            let earlier = Report::read(&self.run_path(&about)).map(|report| report.tests);
            let mut all = earlier.unwrap_or_default();
            all.extend(tests);
            let report = Report::new(&about, self.versions.clone(), all);
            report.write(&self.run_path(&about))?;
            report.write(&self.report_path())?;
        }
        prune(&dir);
        Ok(())
    }
}

/// Removes what pools of other days left: their locks, logs and lists. What cannot be removed stays.
fn forget_old_pools(dir: &Path) {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    for entry in entries {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let age = entry
            .metadata()
            .and_then(|data| data.modified())
            .map(|time| time.elapsed());
        if (name.starts_with("pool-") || name.starts_with("list-")) && matches!(age, Ok(Ok(age)) if age > OLD)
        {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Removes the oldest reports. What cannot be removed stays.
fn prune(dir: &Path) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    let mut files: Vec<_> = entries
        .flatten()
        .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())))
        .collect();
    files.sort();
    let surplus = files.len().saturating_sub(RUNS_KEPT);
    for (_, path) in files.into_iter().take(surplus) {
        let _ = fs::remove_file(path);
    }
}
