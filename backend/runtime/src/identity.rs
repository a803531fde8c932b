//! What an executable depends on besides its program, and the names by which a TPU's process finds executables that were
//! compiled elsewhere.

use std::io;
use std::path::{Path, PathBuf};

use pjrt::{Client, CompileOptions};

use crate::client::Config;
use crate::disk::{self, Disk};

/// The name of libtpu's platform.
const TPU: &str = "tpu";

/// How a client's programs are compiled; `several` when it has more than one device, any of which may run them.
pub fn compile_options(platform: &str, several: bool) -> CompileOptions {
    let mut options = CompileOptions::default();
    if platform != TPU {
        // XLA CPU's: max and min must let NaN through, and every rounding that torch makes must be made.
        options = options
            .with("xla_cpu_enable_fast_min_max", false)
            .with("xla_allow_excess_precision", false);
    }
    options.message.compile_portable_executable = several;
    options
}

/// What an executable of a client depends on besides its program. A TPU's depends on nothing of the machine, so that it can
/// be made on another: what differs in libtpu is in its version.
pub(crate) fn identity(client: &dyn Client, config: Option<&Config>, options: &CompileOptions) -> String {
    let kind = client.devices().first().map(|d| d.description().kind.clone());
    // XLA reads these by itself, and compiles other code for them.
    let flags = ["XLA_FLAGS", "LIBTPU_INIT_ARGS"].map(|name| std::env::var(name).unwrap_or_default());
    let mut parts = vec![
        client.platform_name().to_owned(),
        client.platform_version().to_owned(),
        kind.unwrap_or_default(),
        format!("{:?}", options.encode()),
        env!("CARGO_PKG_VERSION").to_owned(),
        format!("{flags:?}"),
    ];
    if client.platform_name() != TPU {
        parts.push(format!("{} devices", client.devices().len()));
        parts.extend(config.map(of_files));
        parts.push(processor());
    }
    parts.join("\n")
}

/// The libraries that a plugin is made of, as they are now.
fn of_files(config: &Config) -> String {
    let stamp = |path: &PathBuf| {
        let about = std::fs::metadata(path).ok();
        let changed = about.as_ref().and_then(|a| a.modified().ok());
        format!("{} {:?} {changed:?}", path.display(), about.map(|a| a.len()))
    };
    let files: Vec<String> = std::iter::once(&config.plugin)
        .chain(&config.libraries)
        .map(stamp)
        .collect();
    format!("{files:?}")
}

/// Code for the host is for its processor's own instructions.
fn processor() -> String {
    let host = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let about = |line: &&str| {
        line.starts_with("flags") || line.starts_with("model name") || line.starts_with("Features")
    };
    let lines: Vec<&str> = host.lines().filter(about).take(2).collect();
    format!("{lines:?}")
}

/// Where the disk tier keeps the executable of a program: a hash of the program and of what else it depends on.
pub(crate) fn file_name(text: &str, identity: &str) -> String {
    disk::name(&[("program", text.as_bytes()), ("identity", identity.as_bytes())])
}

/// Keeps an executable that `client` compiled with [`compile_options`], in `folder` or the user's own cache, for processes
/// on devices like the client's.
pub fn keep(
    folder: Option<&Path>,
    client: &dyn Client,
    options: &CompileOptions,
    text: &str,
    executable: &[u8],
) -> io::Result<()> {
    let folder = folder.map(Path::to_owned).or_else(disk::cache_folder);
    let folder = folder.ok_or_else(|| {
        let why = "programs are not kept on disk here (TORCH_TPU_CACHE_DIR is empty): name a folder";
        io::Error::new(io::ErrorKind::NotFound, why)
    })?;
    let name = file_name(text, &identity(client, None, options));
    Disk::in_folder(folder).try_write(&name, executable)
}
