//! The process's client, started at its first use.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use std::sync::{Arc, Once, OnceLock, Weak};

use aten::Dims;
use dtype::ElementType;
use parking_lot::Mutex;
use pjrt::plugin::PluginClient;
use pjrt::{Buffer, Client, CompileOptions, Device, ExecuteOptions};

use crate::identity::{compile_options, identity};
use crate::memory::{Account, Usage, human};
use crate::origin::Origin;
use crate::scalar::ScalarCache;
use crate::storage::{Dense, Tracked};
use crate::window::{self, Window};
use crate::{Error, Result};

/// Which plugin to load, decided at import.
#[derive(Clone, Debug)]
pub struct Config {
    /// The plugin's library.
    pub plugin: PathBuf,
    /// Libraries that the plugin is made of: programs on disk are for these very files.
    pub libraries: Vec<PathBuf>,
}

/// Gives the configuration at the first use; its error text becomes the exception's.
type Configure = Box<dyn Fn() -> Result<Config> + Send + Sync>;

static CONFIGURE: OnceLock<Configure> = OnceLock::new();
/// The leaked client; null before the start and in forked children.
static RUNTIME: AtomicPtr<Runtime> = AtomicPtr::new(std::ptr::null_mut());
static STARTING: Mutex<()> = Mutex::new(());
/// Set in a child that was forked after the client's start.
static FORKED: AtomicBool = AtomicBool::new(false);

/// How many recent results of a device [`Runtime::outstanding`] looks through.
const RECENT: usize = 128;

/// One device.
#[derive(Debug)]
pub struct DeviceState {
    /// The device.
    pub device: Arc<dyn Device>,
    /// What an execution on it needs.
    pub options: ExecuteOptions,
    /// Bytes held by tensors.
    pub account: &'static Account,
    /// Numbers that are already there.
    pub scalars: ScalarCache,
    /// Calls that were put off.
    pub(crate) window: Mutex<Window>,
    recent: Mutex<VecDeque<Weak<Tracked>>>,
}

impl DeviceState {
    /// Remembers a result, for [`Runtime::synchronize`].
    pub(crate) fn issued(&self, result: &Arc<Tracked>) {
        let mut recent = self.recent.lock();
        if recent.len() >= RECENT {
            recent.pop_front();
        }
        recent.push_back(Arc::downgrade(result));
    }

    /// A result of an execution, accounted for.
    pub(crate) fn result(
        &self,
        buffer: Arc<dyn Buffer>,
        bytes: u64,
        origin: &Arc<Origin>,
        element: ElementType,
        dims: &Dims,
    ) -> Dense {
        let data = Tracked::new(buffer, bytes, self.account, Some(origin.clone()));
        self.issued(&data);
        Dense {
            data,
            element,
            dims: dims.clone(),
        }
    }

    /// Recent results that still exist.
    pub fn outstanding(&self) -> Vec<Arc<Tracked>> {
        self.recent.lock().iter().filter_map(Weak::upgrade).collect()
    }
}

/// The client and its devices.
#[derive(Debug)]
pub struct Runtime {
    /// The client.
    pub client: Arc<dyn Client>,
    /// Addressable devices, in order.
    pub devices: Vec<DeviceState>,
    /// How programs are compiled.
    pub options: CompileOptions,
    /// What an executable depends on besides its program: plugin, options, processor.
    pub(crate) identity: String,
    /// Whether the devices are simulated: results are at hand, so conditions on data are verified at the call.
    pub simulated: bool,
    debug: AtomicBool,
    fused: AtomicBool,
}

/// Says how to find the plugin; called once, at import.
pub fn configure(configure: impl Fn() -> Result<Config> + Send + Sync + 'static) {
    // A second import of the package in one process changes nothing.
    let _ = CONFIGURE.set(Box::new(configure));
}

/// The client, if something started it.
pub fn runtime_if_started() -> Option<&'static Runtime> {
    // SAFETY: null, or a leaked `Runtime`.
    unsafe { RUNTIME.load(Acquire).as_ref() }
}

/// The client; starts it when it is not there.
#[inline]
pub fn runtime() -> Result<&'static Runtime> {
    match runtime_if_started() {
        Some(found) => Ok(found),
        None => start(),
    }
}

/// Whether this process was forked from one that had started the client.
#[inline]
pub fn in_bad_fork() -> bool {
    FORKED.load(Relaxed)
}

/// Runs in a child right after `fork`: the plugin's threads are not there, so nothing may reach the client any more.
unsafe extern "C" fn after_fork() {
    if !RUNTIME.swap(std::ptr::null_mut(), Relaxed).is_null() {
        FORKED.store(true, Relaxed);
    }
}

#[cold]
fn start() -> Result<&'static Runtime> {
    if in_bad_fork() {
        // torch's words for CUDA.
        return Err(Error::runtime(
            "Cannot re-initialize TPU in forked subprocess. \
             To use TPU with multiprocessing, you must use the 'spawn' start method",
        ));
    }
    let _starting = STARTING.lock();
    if let Some(found) = runtime_if_started() {
        return Ok(found);
    }
    let configure = CONFIGURE
        .get()
        .ok_or_else(|| Error::runtime("torch_tpu was not imported"))?;
    let config = configure()?;
    let client = PluginClient::open(&config.plugin, &[])
        .map_err(|e| Error::from(e).during("cannot start the tpu device"))?;
    let made = Runtime::new(client, &config)?;
    static WATCH: Once = Once::new();
    // SAFETY: the handler only touches atomics.
    WATCH.call_once(|| unsafe {
        libc::pthread_atfork(None, None, Some(after_fork));
    });
    let made: &'static Runtime = Box::leak(Box::new(made));
    RUNTIME.store(std::ptr::from_ref(made).cast_mut(), Release);
    Ok(made)
}

impl Runtime {
    fn new(client: Arc<dyn Client>, config: &Config) -> Result<Self> {
        let all = client.addressable_devices();
        let several = all.len() > 1;
        let platform = client.platform_name().to_owned();
        let options = compile_options(&platform, several);
        let devices = all
            .into_iter()
            .map(|device| DeviceState {
                options: ExecuteOptions {
                    device: several.then(|| device.clone()),
                    ..Default::default()
                },
                device,
                // Buffers outlive everything, so their accounts do too.
                account: Box::leak(Box::default()),
                scalars: ScalarCache::default(),
                window: Mutex::default(),
                recent: Mutex::default(),
            })
            .collect();
        Ok(Self {
            identity: identity(&*client, Some(config), &options),
            client,
            devices,
            options,
            simulated: platform != "tpu",
            debug: AtomicBool::new(flag("TORCH_TPU_LAUNCH_BLOCKING")),
            fused: AtomicBool::new(flag("TORCH_TPU_DEFER_AND_FUSE")),
        })
    }

    /// The device at an index.
    #[inline]
    pub fn device(&self, index: usize) -> Result<&DeviceState> {
        self.devices.get(index).ok_or_else(|| {
            Error::runtime(format!(
                "invalid device ordinal {index}: there are {} tpu devices",
                self.devices.len()
            ))
        })
    }

    /// Whether every op waits for its result.
    pub fn debug(&self) -> bool {
        self.debug.load(Relaxed)
    }

    /// Makes every op wait for its result, or not.
    pub fn set_debug(&self, on: bool) {
        self.debug.store(on, Relaxed);
    }

    /// Whether ops are put off and run together.
    pub fn fused(&self) -> bool {
        self.fused.load(Relaxed)
    }

    /// Puts ops off, or not; what was put off runs.
    pub fn set_fused(&self, on: bool) -> Result<()> {
        self.fused.store(on, Relaxed);
        window::flush_all(self).map(|_| ())
    }

    /// Waits for all work on a device, or on all.
    pub fn synchronize(&self, device: Option<usize>) -> Result<()> {
        window::flush_all(self)?;
        let range = match device {
            Some(i) => std::slice::from_ref(self.device(i)?),
            None => &self.devices[..],
        };
        for device in range {
            for result in device.outstanding() {
                wait(&result)?;
            }
        }
        crate::pending::verify_pending()
    }

    /// The earliest of the recent results that failed for the reason in this text.
    fn first_failed(&self, text: &str) -> Option<Arc<Origin>> {
        let results = self.devices.iter().flat_map(DeviceState::outstanding);
        results
            .filter(|result| {
                // What is still running failed for no reason yet.
                let ready = result.buffer.ready();
                let Ok(ready) = ready.and_then(|r| Ok(r.is_ready()?.then_some(r))) else {
                    return false;
                };
                ready.is_some_and(|r| r.wait().is_err_and(|e| text.contains(cause(&e.to_string()))))
            })
            .find_map(|result| result.origin.clone())
    }

    /// Bytes held by tensors of a device.
    pub fn usage(&self, device: usize) -> Result<Usage> {
        Ok(self.device(device)?.account.usage())
    }
}

/// A failure on a device. Out of memory says what was asked, what is in use, and the largest holders.
pub(crate) fn explain(index: usize, state: &DeviceState, e: pjrt::Error, doing: &str) -> Error {
    if e.code() != pjrt::Code::ResourceExhausted {
        return Error::from(e).during(doing);
    }
    let usage = state.account.usage();
    let limit = state.device.memory_stats().ok().and_then(|m| m.bytes_limit);
    let limit = limit.map_or(String::new(), |l| format!(" of {}", human(l.max(0) as u64)));
    let mut text = format!(
        "{doing}: tpu:{index} is out of memory. Tensors hold {}{limit} in {} buffers.",
        human(usage.bytes.current),
        usage.buffers.current
    );
    let largest = state.account.largest(5);
    if !largest.is_empty() {
        text.push_str(" The largest:");
        for holder in largest {
            let op = holder
                .op
                .map_or("a copy from the host".to_owned(), |op| format!("from {op}"));
            text.push_str(&format!(
                "\n  {:>12}  {}  {op}",
                human(holder.bytes),
                holder.shape
            ));
        }
    }
    text.push_str(&format!("\nThe plugin says: {e}"));
    Error::raised(glue_abi::ErrorKind::OutOfMemory, text)
}

/// Waits until a result is there; its error names what computed it.
pub(crate) fn wait(result: &Tracked) -> Result<()> {
    if result.buffer.is_deleted().unwrap_or(true) {
        return Ok(());
    }
    result
        .buffer
        .ready()
        .and_then(|event| event.wait())
        .map_err(|e| failed(e, result.origin.as_deref()))
}

/// An error that a buffer gave, with the op that failed and the one that needed its result.
pub(crate) fn failed(e: pjrt::Error, computed: Option<&Origin>) -> Error {
    let Some(computed) = computed else { return e.into() };
    let first = runtime().ok().and_then(|r| r.first_failed(&e.to_string()));
    let doing = match first {
        Some(first) if *first != *computed => format!("{first} failed, whose result {computed} needed"),
        _ => format!("{computed} failed"),
    };
    Error::from(e).during(&doing)
}

/// What is left of an error's text without the words by which XLA hands a failed input's error on.
fn cause(text: &str) -> &str {
    let mut rest = text;
    for words in ["Buffer Definition Event: ", "Error dispatching computation: "] {
        rest = rest.rsplit(words).next().unwrap_or(rest);
    }
    rest
}

/// Whether an environment variable is set to something other than 0.
pub(crate) fn flag(name: &str) -> bool {
    std::env::var_os(name).is_some_and(|v| !v.is_empty() && v != "0")
}
