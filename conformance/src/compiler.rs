//! Programs compiled for a v6e with no TPU: a process that holds libtpu, and what it said, kept on disk.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, BufRead, Write};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use pjrt::aot::{AotClient, WorkerCommand, report};
use pjrt::{CompileOptions, Program};

use crate::layout::Layout;
use crate::process::{LineProcess, Silence};
use crate::wire::{CompileAsk, Compiled, Cost};
use crate::{Error, Result};

/// What programs are compiled for.
pub const TOPOLOGY: &str = "v6e:1x1";
/// The argument that makes this program the process with libtpu in it.
pub const LIBTPU: &str = "libtpu";
/// The argument that makes this program the one that speaks to it.
pub const SERVE: &str = "compile";

/// Answers requests to compile, a line each, until the input ends. libtpu is in a child of this process, so a crash
/// of it is an answer like others; a hang ends with this process.
pub fn serve(layout: &Layout) -> Result<()> {
    let (libtpu, program) = (layout.libtpu()?, this_program()?);
    let mut client = None;
    let mut output = io::stdout().lock();
    let broken = |e: io::Error| Error::Process {
        program: "the compiler's process".to_owned(),
        what: e.to_string(),
    };
    for line in io::stdin().lock().lines() {
        let line = line.map_err(broken)?;
        let ask: CompileAsk = serde_json::from_str(&line).map_err(Error::answer("the daemon", &line))?;
        let open = || {
            let command = WorkerCommand {
                program: program.clone(),
                arguments: vec![LIBTPU.into()],
            };
            AotClient::new(command, &libtpu, TOPOLOGY)
        };
        let answer = match &client {
            Some(open) => compile(open, &ask.text),
            None => match open() {
                Ok(made) => compile(client.insert(made), &ask.text),
                Err(e) => Compiled::Crashed(e.to_string()),
            },
        };
        if matches!(answer, Compiled::Crashed(_)) {
            client = None;
        }
        let text = serde_json::to_string(&answer).map_err(Error::answer("the compiler", ""))?;
        writeln!(output, "{text}")
            .and_then(|()| output.flush())
            .map_err(broken)?;
    }
    Ok(())
}

fn compile(client: &Arc<AotClient>, text: &str) -> Compiled {
    let made = client
        .compile_timed(&Program::mlir(text), &CompileOptions::new(1, 1))
        .and_then(|(executable, seconds)| report(client, &*executable, seconds));
    match made {
        Ok(report) => Compiled::Cost(Cost {
            programs: 1,
            estimated_cycles: report.cost.estimated_cycles,
            flops: report.cost.flops,
            bytes_accessed: report.cost.bytes_accessed,
            peak_hbm_bytes: report.memory.peak_hbm_bytes,
            compile_seconds: report.compile_seconds,
        }),
        Err(e @ pjrt::Error::Worker { .. }) => Compiled::Crashed(e.to_string()),
        Err(e) => Compiled::Refused(e.to_string()),
    }
}

/// This executable: the compilers are other modes of it.
fn this_program() -> Result<PathBuf> {
    std::env::current_exe().map_err(|e| Error::Process {
        program: "conformance".to_owned(),
        what: format!("does not know its own path: {e}"),
    })
}

/// A compiler's process and the folder of what was compiled before.
#[derive(Debug)]
pub(crate) struct Compiler {
    child: Option<LineProcess>,
    log: PathBuf,
    cache: PathBuf,
    layout: Layout,
}

impl Compiler {
    /// One that starts its process when it is first needed.
    pub(crate) fn new(layout: &Layout, log: PathBuf) -> Self {
        let cache = layout.dir.join(format!(
            "{}-libtpu-{}",
            TOPOLOGY.replace(':', "-"),
            layout.version("libtpu")
        ));
        Self {
            child: None,
            log,
            cache,
            layout: layout.clone(),
        }
    }

    /// Compiles a program, or tells what came of it before.
    pub(crate) fn compile(&mut self, text: &str, limit: Duration) -> Result<Compiled> {
        let path = self.path(text);
        if let Ok(bytes) = fs::read(&path)
            && let Ok(known) = serde_json::from_slice(&bytes)
        {
            return Ok(known);
        }
        let answer = self.ask(text, limit)?;
        if !matches!(answer, Compiled::Crashed(_)) {
            keep(&path, &answer)?;
        }
        Ok(answer)
    }

    fn path(&self, text: &str) -> PathBuf {
        // Two hashes of 64 bits with different starts: no two of a million programs meet.
        let hash = |start: u8| {
            let mut hasher = DefaultHasher::new();
            (start, text).hash(&mut hasher);
            hasher.finish()
        };
        let name = format!("{:016x}{:016x}", hash(0), hash(1));
        self.cache.join(&name[..2]).join(format!("{name}.json"))
    }

    fn ask(&mut self, text: &str, limit: Duration) -> Result<Compiled> {
        let child = match &mut self.child {
            Some(child) => child,
            None => {
                self.layout.libtpu()?;
                let mut command = Command::new(this_program()?);
                let command = command.arg(SERVE).current_dir(&self.layout.root);
                self.child.insert(LineProcess::start(command, &self.log)?)
            }
        };
        let ask = CompileAsk {
            text: text.to_owned(),
        };
        let line = serde_json::to_string(&ask).map_err(Error::answer("the daemon", ""))?;
        match child.ask(&line, limit) {
            Ok(line) => serde_json::from_str(&line).map_err(Error::answer("the compiler", &line)),
            Err(silence) => {
                self.child = None;
                let what = match silence {
                    Silence::Died(words) => format!("the compiler crashed: {words}"),
                    Silence::Hung(words) => {
                        format!("the compiler took more than {} s: {words}", limit.as_secs())
                    }
                };
                Ok(Compiled::Crashed(what))
            }
        }
    }
}

fn keep(path: &std::path::Path, answer: &Compiled) -> Result<()> {
    if let Some(dir) = path.parent() {
        fs::create_dir_all(dir).map_err(Error::file("create", dir))?;
    }
    let text = serde_json::to_vec(answer).map_err(Error::answer("the compiler", ""))?;
    let draft = path.with_extension(format!("{:?}.tmp", std::thread::current().id()));
    fs::write(&draft, text).map_err(Error::file("write", &draft))?;
    fs::rename(&draft, path).map_err(Error::file("write", path))
}
