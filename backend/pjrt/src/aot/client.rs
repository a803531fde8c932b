//! [`AotClient`].

use std::any::Any;
use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use super::executable::{AotExecutable, from_failure};
use super::protocol::{Compiled, Opened, Reply, Request, receive, send};
use crate::{
    Buffer, Client, CompileOptions, Device, DeviceDescription, Error, Executable, HostArray, Memory,
    MemoryStats, NamedValue, Placement, Program, Result, Topology, platform,
};

/// How much of a dead child's standard error is told.
const LAST_WORDS: usize = 2000;

/// How to start the child that runs [`super::worker::serve`].
#[derive(Clone, Debug)]
pub struct WorkerCommand {
    /// The executable.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
}

/// What a dead child said that matters: its fatal log line (`F1130 12:00:00 file.cc:7] Check failed: ...`) where there
/// is one, without the stack trace around it; else the end of all it said.
fn last_words(log: &str) -> String {
    let fatal = |line: &&str| {
        let mut bytes = line.bytes();
        bytes.next() == Some(b'F') && bytes.take(4).filter(u8::is_ascii_digit).count() == 4
    };
    if let Some(line) = log.lines().find(fatal) {
        return line.split_once("] ").map_or(line, |(_, text)| text).to_owned();
    }
    let mut start = log.len().saturating_sub(LAST_WORDS);
    while !log.is_char_boundary(start) {
        start += 1;
    }
    log[start..].trim().to_owned()
}

/// A running child; killed and reaped when dropped.
#[derive(Debug)]
struct Worker {
    child: Child,
    stderr: File,
}

impl Worker {
    fn start(command: &WorkerCommand) -> Result<Self> {
        let failed = |what: String| Error::Worker { what };
        // A file, not a pipe: nobody reads it until the child is dead, and libtpu is talkative. It has no name, so
        // nothing stays behind when this process is killed.
        let keep = || tempfile::tempfile().and_then(|file| Ok((file.try_clone()?, file)));
        let temp = std::env::temp_dir();
        let (log, stderr) = keep().map_err(|e| {
            failed(format!(
                "cannot make a file in {} for the compiler's messages: {e}; set TMPDIR",
                temp.display()
            ))
        })?;
        let child = Command::new(&command.program)
            .args(&command.arguments)
            .envs(platform::AOT_ENVIRONMENT.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .map_err(|e| failed(format!("cannot start {}: {e}", command.program.display())))?;
        Ok(Self { child, stderr })
    }

    fn ask(&mut self, request: &Request) -> Result<Reply> {
        let (Some(to), Some(from)) = (self.child.stdin.as_mut(), self.child.stdout.as_mut()) else {
            return Err(Error::Worker {
                what: "the child has no pipes".into(),
            });
        };
        let answer = send(to, request).and_then(|()| receive::<Reply>(from));
        match answer {
            Ok(Some(reply)) => Ok(reply),
            Ok(None) => Err(self.death("it ended")),
            Err(error) => Err(self.death(&error.to_string())),
        }
    }

    fn death(&mut self, what: &str) -> Error {
        let _ = self.child.kill();
        let status = self
            .child
            .wait()
            .map_or_else(|e| e.to_string(), |s| s.to_string());
        let mut log = Vec::new();
        if self.stderr.seek(SeekFrom::Start(0)).is_ok() {
            let _ = self.stderr.read_to_end(&mut log);
        }
        let log = last_words(&String::from_utf8_lossy(&log));
        Error::Worker {
            what: format!("the child process failed ({what}, {status}); its last words: {log}"),
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[derive(Debug)]
struct Shared {
    name: String,
    command: WorkerCommand,
    compiler: PathBuf,
    worker: Mutex<Option<Worker>>,
}

impl Shared {
    /// Asks the child, starting one when there is none. A child that failed is dropped, so the next call starts anew.
    fn ask(&self, request: &Request) -> Result<Reply> {
        let mut slot = self.worker.lock();
        let mut worker = match slot.take() {
            Some(worker) => worker,
            None => self.start()?.0,
        };
        let reply = worker.ask(request)?;
        *slot = Some(worker);
        match reply {
            Reply::Failed(failure) => Err(from_failure(&failure)),
            reply => Ok(reply),
        }
    }

    fn start(&self) -> Result<(Worker, Opened)> {
        let mut worker = Worker::start(&self.command)?;
        let plugin = self.compiler.to_string_lossy().into_owned();
        match worker.ask(&Request::Open {
            plugin,
            topology: self.name.clone(),
        })? {
            Reply::Opened(opened) => Ok((worker, *opened)),
            Reply::Failed(failure) => Err(from_failure(&failure)),
            Reply::Compiled(_) => Err(Error::Worker {
                what: "the child answered another question".into(),
            }),
        }
    }

    fn compile(&self, program: &Program<'_>, options: &CompileOptions) -> Result<(Compiled, f64)> {
        let (code, format) = (program.code.to_vec(), program.format.to_owned());
        match self.ask(&Request::Compile {
            code,
            format,
            options: options.encode(),
        })? {
            Reply::Compiled(compiled) => {
                let seconds = compiled.seconds;
                Ok((*compiled, seconds))
            }
            _ => Err(Error::Worker {
                what: "the child answered another question".into(),
            }),
        }
    }
}

/// A client that compiles for a TPU topology with no TPU attached. Executing and transferring is
/// [`Error::CompileOnly`].
#[derive(Debug)]
pub struct AotClient {
    shared: Arc<Shared>,
    topology: Arc<AotTopology>,
    devices: Vec<Arc<dyn Device>>,
    closed: AtomicBool,
}

impl AotClient {
    /// Starts the child and makes the topology `name` (`v6e:2x2`) with the compiler plugin at `compiler` (libtpu).
    pub fn new(command: WorkerCommand, compiler: &Path, name: &str) -> Result<Arc<Self>> {
        let shared = Shared {
            name: name.to_owned(),
            command,
            compiler: compiler.to_owned(),
            worker: Mutex::new(None),
        };
        let (worker, opened) = shared.start()?;
        *shared.worker.lock() = Some(worker);
        let shared = Arc::new(shared);
        let bad = |e: serde_json::Error| Error::Worker {
            what: format!("the child sent bad attributes: {e}"),
        };
        let devices = opened
            .devices
            .into_iter()
            .map(super::protocol::WireDevice::description);
        let topology = Arc::new(AotTopology {
            shared: shared.clone(),
            platform_name: opened.platform_name,
            platform_version: opened.platform_version,
            devices: devices.collect::<serde_json::Result<_>>().map_err(bad)?,
            attributes: serde_json::from_str(&opened.attributes).map_err(bad)?,
            fingerprint: opened.fingerprint,
            serialized: opened.serialized,
        });
        let device = |index| {
            Arc::new(AotDevice {
                topology: topology.clone(),
                index,
            }) as Arc<dyn Device>
        };
        let devices = (0..topology.devices.len()).map(device).collect();
        Ok(Arc::new(Self {
            shared,
            topology,
            devices,
            closed: AtomicBool::new(false),
        }))
    }

    /// Compiles and gives the seconds that the compiler took.
    pub fn compile_timed(
        &self,
        program: &Program<'_>,
        options: &CompileOptions,
    ) -> Result<(Arc<dyn Executable>, f64)> {
        if self.closed.load(Ordering::Relaxed) {
            return Err(Error::ClientClosed {
                call: "Client::compile",
            });
        }
        let (compiled, seconds) = self.shared.compile(program, options)?;
        Ok((
            Arc::new(AotExecutable::new(&self.shared.name, compiled)?),
            seconds,
        ))
    }

    /// The topology's name, as given.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    fn refuse<T>(&self, call: &'static str) -> Result<T> {
        Err(Error::CompileOnly {
            call,
            topology: self.shared.name.clone(),
        })
    }
}

impl Client for AotClient {
    fn platform_name(&self) -> &str {
        &self.topology.platform_name
    }

    fn platform_version(&self) -> &str {
        &self.topology.platform_version
    }

    fn process_index(&self) -> Result<i32> {
        Ok(0)
    }

    fn devices(&self) -> &[Arc<dyn Device>] {
        &self.devices
    }

    fn memories(&self) -> &[Arc<dyn Memory>] {
        &[]
    }

    fn topology(&self) -> Result<Arc<dyn Topology>> {
        Ok(self.topology.clone())
    }

    fn default_device_assignment(&self, replicas: i32, partitions: i32) -> Result<Vec<i32>> {
        let wanted = usize::try_from(i64::from(replicas) * i64::from(partitions)).unwrap_or(usize::MAX);
        if replicas < 1 || partitions < 1 || wanted > self.devices.len() {
            let what = format!(
                "{replicas} x {partitions} devices asked for, the slice has {}",
                self.devices.len()
            );
            return Err(Error::argument("Client::default_device_assignment", what));
        }
        Ok(self.topology.devices.iter().take(wanted).map(|d| d.id).collect())
    }

    fn compile(&self, program: &Program<'_>, options: &CompileOptions) -> Result<Arc<dyn Executable>> {
        Ok(self.compile_timed(program, options)?.0)
    }

    fn load(&self, _: &[u8]) -> Result<Arc<dyn Executable>> {
        self.refuse("Client::load")
    }

    fn buffer_from_host(&self, _: &HostArray<'_>, _: Placement<'_>) -> Result<Arc<dyn Buffer>> {
        self.refuse("Client::buffer_from_host")
    }

    fn attributes(&self) -> Vec<(String, NamedValue)> {
        self.topology.attributes.clone()
    }

    fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
        *self.shared.worker.lock() = None;
    }
}

/// The child's topology.
#[derive(Debug)]
struct AotTopology {
    shared: Arc<Shared>,
    platform_name: String,
    platform_version: String,
    devices: Vec<DeviceDescription>,
    attributes: Vec<(String, NamedValue)>,
    fingerprint: u64,
    serialized: Vec<u8>,
}

impl Topology for AotTopology {
    fn platform_name(&self) -> &str {
        &self.platform_name
    }

    fn platform_version(&self) -> &str {
        &self.platform_version
    }

    fn devices(&self) -> &[DeviceDescription] {
        &self.devices
    }

    fn attributes(&self) -> Result<Vec<(String, NamedValue)>> {
        Ok(self.attributes.clone())
    }

    fn fingerprint(&self) -> Result<u64> {
        Ok(self.fingerprint)
    }

    fn serialize(&self) -> Result<Vec<u8>> {
        Ok(self.serialized.clone())
    }

    fn compile(&self, program: &Program<'_>, options: &CompileOptions) -> Result<Arc<dyn Executable>> {
        Ok(Arc::new(AotExecutable::new(
            &self.shared.name,
            self.shared.compile(program, options)?.0,
        )?))
    }
}

/// A chip that is only described.
#[derive(Debug)]
struct AotDevice {
    topology: Arc<AotTopology>,
    index: usize,
}

impl AotDevice {
    fn refuse<T>(&self, call: &'static str) -> Result<T> {
        Err(Error::CompileOnly {
            call,
            topology: self.topology.shared.name.clone(),
        })
    }
}

impl Device for AotDevice {
    fn description(&self) -> &DeviceDescription {
        &self.topology.devices[self.index]
    }

    fn is_addressable(&self) -> bool {
        false
    }

    fn local_hardware_id(&self) -> Result<i32> {
        Ok(-1)
    }

    fn memories(&self) -> Result<Vec<Arc<dyn Memory>>> {
        Ok(Vec::new())
    }

    fn default_memory(&self) -> Result<Arc<dyn Memory>> {
        self.refuse("Device::default_memory")
    }

    fn memory_stats(&self) -> Result<MemoryStats> {
        self.refuse("Device::memory_stats")
    }

    fn clear_memory_stats(&self) -> Result<()> {
        self.refuse("Device::clear_memory_stats")
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
