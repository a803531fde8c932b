//! A test's side: asks the daemon, and starts it when there is none.

use std::env;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::daemon::{self, Files};
use crate::layout::{Layout, setting};
use crate::wire::{Ask, TestResult};
use crate::{Error, Result};

/// How long a daemon may take until it listens.
const STARTS_WITHIN: Duration = Duration::from_secs(30);
/// A daemon that ends just as it is asked is followed by another; this often.
const ATTEMPTS: usize = 3;
/// Seconds after which a test hangs, unless `TORCH_TPU_CONFORMANCE_TIMEOUT` says otherwise: with few samples, and with
/// all of them, which may be hundreds.
const TIMEOUT: f64 = 300.0;
const TIMEOUT_OF_ALL: f64 = 1800.0;

/// The way to a pool.
#[derive(Clone, Debug)]
pub struct Client {
    layout: Layout,
    harness: PathBuf,
    key: u64,
}

impl Client {
    /// To the pool of this code and environment; `harness` is the program that is its daemon.
    pub fn new(layout: &Layout, harness: &Path) -> Result<Self> {
        Ok(Self {
            layout: layout.clone(),
            harness: harness.to_owned(),
            key: layout.pool_key(harness)?,
        })
    }

    /// Runs a test.
    pub fn run(&self, run: crate::wire::Run) -> Result<TestResult> {
        let line = self.ask(&Ask::Run(Box::new(run)))?;
        serde_json::from_str(&line).map_err(Error::answer("the daemon", &line))
    }

    fn ask(&self, ask: &Ask) -> Result<String> {
        let files = Files::of(&self.layout, self.key);
        let mut last = None;
        for _ in 0..ATTEMPTS {
            let stream = match UnixStream::connect(files.socket()) {
                Ok(stream) => stream,
                Err(_) => self.start(&files)?,
            };
            match exchange(stream, ask) {
                Ok(line) => return Ok(line),
                Err(e) => last = Some(e),
            }
        }
        let what = last.map_or_else(|| "was not asked".to_owned(), |e| e.to_string());
        Err(unreachable(&files, what))
    }

    fn start(&self, files: &Files) -> Result<UnixStream> {
        let path = files.start_lock();
        let lock = File::create(&path).map_err(Error::file("create", &path))?;
        // Released when the file closes: others wait here, and then find the daemon.
        lock.lock().map_err(Error::file("lock", &path))?;
        let started = Instant::now();
        let mut child = None;
        loop {
            if let Ok(stream) = UnixStream::connect(files.socket()) {
                return Ok(stream);
            }
            if started.elapsed() > STARTS_WITHIN {
                return Err(unreachable(
                    files,
                    format!("did not start within {STARTS_WITHIN:?}"),
                ));
            }
            let ended = match &mut child {
                None => true,
                Some(child) => matches!(std::process::Child::try_wait(child), Ok(Some(_))),
            };
            // It gives way to one that is just ending; then another must be started.
            if ended {
                child = Some(self.spawn(files)?);
            }
            thread::sleep(Duration::from_millis(10));
        }
    }

    fn spawn(&self, files: &Files) -> Result<std::process::Child> {
        let log = File::options()
            .create(true)
            .append(true)
            .open(files.log())
            .map_err(Error::file("open", &files.log()))?;
        let failed = |e: std::io::Error| Error::Process {
            program: self.harness.display().to_string(),
            what: e.to_string(),
        };
        Command::new(&self.harness)
            .args([daemon::SERVE, &format!("{:016x}", self.key)])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            // A runner that ends the tests' group does not mean the pool.
            .process_group(0)
            .current_dir(&self.layout.root)
            .spawn()
            .map_err(failed)
    }
}

/// Has each daemon that lives write its report.
pub fn flush(layout: &Layout) {
    let entries = std::fs::read_dir(&layout.dir).into_iter().flatten().flatten();
    let sockets = entries
        .map(|e| e.path())
        .filter(|path| path.extension().is_some_and(|e| e == "sock"));
    for socket in sockets {
        // A socket that nobody serves has nothing to write.
        if let Ok(stream) = UnixStream::connect(socket) {
            let _ = exchange(stream, &Ask::Flush);
        }
    }
}

fn unreachable(files: &Files, what: String) -> Error {
    Error::Daemon {
        socket: files.socket(),
        what,
    }
}

fn exchange(mut stream: UnixStream, ask: &Ask) -> std::io::Result<String> {
    let text = serde_json::to_string(ask)?;
    writeln!(stream, "{text}")?;
    let mut line = String::new();
    if BufReader::new(stream).read_line(&mut line)? == 0 {
        return Err(std::io::Error::other("it broke off without an answer"));
    }
    Ok(line)
}

/// Seconds after which a test hangs that runs so many samples at most.
pub fn timeout(limit: Option<u32>) -> Result<f64> {
    let Some(text) = setting("_TIMEOUT") else {
        return Ok(if limit.is_some() { TIMEOUT } else { TIMEOUT_OF_ALL });
    };
    let seconds = text.parse().ok().filter(|s: &f64| s.is_finite() && *s > 0.0);
    seconds.ok_or_else(|| {
        Error::Usage(format!(
            "TORCH_TPU_CONFORMANCE_TIMEOUT is {text:?}, not a number of seconds"
        ))
    })
}

/// The number of this run of the suite: nextest's, else one of this process.
pub fn run_id() -> String {
    env::var("NEXTEST_RUN_ID").unwrap_or_else(|_| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        format!("{}-{}", now.map_or(0, |t| t.as_secs()), std::process::id())
    })
}
