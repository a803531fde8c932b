//! Finds and loads the CPU plugin underneath.
//!
//! `TORCH_TPU_CPU_PLUGIN` names it; else the wheel `fastatomstruct-xla-cpu` is looked up in the site-packages
//! around the shim, in `$VIRTUAL_ENV`, in the running interpreter's environment, and in a `.venv` of any folder
//! above the shim or the current folder.

use std::ffi::OsStr;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use pjrt_ffi::PJRT_Api;

use crate::error::{Code, ShimError};
use crate::inner::{self, Inner};

/// Names a plugin file and wins over every search.
pub const PLUGIN_ENV: &str = "TORCH_TPU_CPU_PLUGIN";
/// The plugin's place inside a site-packages folder.
pub const PLUGIN_IN_SITE_PACKAGES: &str = "fastatomstruct_xla_cpu/libpjrt_cpu.so";

const ADVICE: &str = "run `pip install fastatomstruct-xla-cpu`, or set TORCH_TPU_CPU_PLUGIN to the file of a PJRT \
                      CPU plugin";

/// Loads the inner plugin and checks that the shim can stand on it.
pub(crate) fn load() -> Result<&'static Inner, ShimError> {
    let found = find()?;
    // dlopen looks a bare name up in the system's folders; a link hides what it leads to.
    let path = std::fs::canonicalize(&found).unwrap_or(found);
    let fail =
        |code, why: String| ShimError::new(code, format!("CPU plugin {}: {why}; {ADVICE}", path.display()));
    if is_shim(&path) {
        return Err(fail(
            Code::InvalidArgument,
            format!("this is the simulator itself, which cannot run on top of itself ({PLUGIN_ENV})"),
        ));
    }
    // Loading libtpu where no TPU is may hang for minutes.
    if pjrt_ffi::is_libtpu(&path) {
        return Err(ShimError::invalid(format!(
            "{PLUGIN_ENV}={}: this is a TPU plugin, not a CPU plugin; use python -m torch_tpu aot to compile for a \
             TPU without one; {ADVICE}",
            path.display()
        )));
    }
    if !starts_as_library(&path) {
        return Err(fail(
            Code::NotFound,
            "cannot be loaded: it is not a shared library".into(),
        ));
    }
    // SAFETY: loading runs the library's initializers; the user chose the file.
    let library = unsafe { libloading::os::unix::Library::open(Some(&path), libloading::os::unix::RTLD_NOW) }
        .map_err(|error| fail(Code::NotFound, format!("cannot be loaded: {error}")))?;
    // SAFETY: the PJRT contract gives this symbol this type.
    let get_api = unsafe { library.get::<unsafe extern "C" fn() -> *const PJRT_Api>(b"GetPjrtApi\0") }
        .map(|symbol| *symbol)
        .map_err(|_| {
            fail(
                Code::InvalidArgument,
                "is not a PJRT plugin: it exports no GetPjrtApi".into(),
            )
        })?;
    if get_api as usize == crate::GetPjrtApi as *const () as usize {
        return Err(fail(Code::InvalidArgument, "this is the simulator itself".into()));
    }
    // A plugin's threads outlive any client, so it is never unloaded.
    std::mem::forget(library);
    // SAFETY: see above.
    let api = unsafe { get_api() };
    if api.is_null() {
        return Err(fail(Code::Internal, "GetPjrtApi returned no table".into()));
    }
    // SAFETY: every table starts with size, extensions and version.
    let (size, version) = unsafe { ((*api).struct_size, &(*api).pjrt_api_version) };
    if version.major_version != 0 || size < pjrt_ffi::slot_offset(pjrt_ffi::slot::PJRT_Compile) {
        return Err(fail(
            Code::FailedPrecondition,
            format!(
                "has PJRT API {}.{} with a table of {size} bytes; the simulator needs major version 0",
                version.major_version, version.minor_version
            ),
        ));
    }
    Ok(inner::install(path, api))
}

fn find() -> Result<PathBuf, ShimError> {
    if let Some(path) = std::env::var_os(PLUGIN_ENV).filter(|value| !value.is_empty()) {
        let path = PathBuf::from(path);
        if path.is_file() {
            return Ok(path);
        }
        let why = if path.is_dir() {
            "this is a directory, not a file"
        } else {
            "no such file"
        };
        return Err(ShimError::new(
            Code::NotFound,
            format!("{PLUGIN_ENV}={}: {why}; {ADVICE}", path.display()),
        ));
    }
    let looked = candidates(&Surroundings::of_process());
    match looked.iter().find(|path| path.is_file()) {
        Some(path) => Ok(path.clone()),
        None => {
            let places: Vec<String> = looked
                .iter()
                .map(|path| format!("\n  {}", path.display()))
                .collect();
            Err(ShimError::new(
                Code::NotFound,
                format!(
                    "tpu_sim needs the XLA CPU plugin ({PLUGIN_IN_SITE_PACKAGES}) and found none; looked at:{}\n{ADVICE}",
                    places.concat()
                ),
            ))
        }
    }
}

/// What the search depends on.
struct Surroundings {
    shim: Option<PathBuf>,
    virtual_env: Option<PathBuf>,
    executable: Option<PathBuf>,
    /// `argv[0]`, which keeps the environment's own path where `/proc/self/exe` resolves its links.
    command: Option<PathBuf>,
    working_dir: Option<PathBuf>,
}

impl Surroundings {
    fn of_process() -> Self {
        let command = std::fs::read("/proc/self/cmdline").ok().and_then(|line| {
            let first = line.split(|&byte| byte == 0).next()?;
            let path = PathBuf::from(OsStr::from_bytes(first));
            path.is_absolute().then_some(path).or_else(|| {
                std::env::current_dir()
                    .ok()
                    .map(|dir| dir.join(OsStr::from_bytes(first)))
            })
        });
        Self {
            shim: shim_path(),
            virtual_env: std::env::var_os("VIRTUAL_ENV")
                .filter(|value| !value.is_empty())
                .map(PathBuf::from),
            executable: std::fs::read_link("/proc/self/exe").ok(),
            command,
            working_dir: std::env::current_dir().ok(),
        }
    }
}

fn candidates(around: &Surroundings) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = Vec::new();
    let mut push = |path: PathBuf| {
        if !found.contains(&path) {
            found.push(path);
        }
    };
    let above_shim = || around.shim.iter().flat_map(|shim| shim.ancestors().skip(1));
    for dir in above_shim().filter(|dir| {
        dir.file_name()
            .is_some_and(|name| name == "site-packages" || name == "dist-packages")
    }) {
        push(dir.join(PLUGIN_IN_SITE_PACKAGES));
    }
    if let Some(prefix) = &around.virtual_env {
        site_packages(prefix, &mut push);
    }
    for python in [&around.command, &around.executable].into_iter().flatten() {
        // `bin/python` of an environment has pyvenv.cfg one folder up; a system interpreter has lib/pythonX.Y there.
        if let Some(prefix) = python.parent().and_then(Path::parent) {
            let interpreter = python
                .file_name()
                .is_some_and(|name| name.as_bytes().starts_with(b"python"));
            if interpreter || prefix.join("pyvenv.cfg").is_file() {
                site_packages(prefix, &mut push);
            }
        }
    }
    for dir in above_shim().chain(around.working_dir.iter().flat_map(|dir| dir.ancestors())) {
        let venv = dir.join(".venv");
        if venv.is_dir() {
            site_packages(&venv, &mut push);
        }
    }
    found
}

/// The plugin's possible places under a Python prefix.
fn site_packages(prefix: &Path, push: &mut impl FnMut(PathBuf)) {
    let mut versions: Vec<PathBuf> = std::fs::read_dir(prefix.join("lib"))
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| {
            path.file_name()
                .is_some_and(|name| name.as_bytes().starts_with(b"python"))
        })
        .collect();
    versions.sort();
    if versions.is_empty() {
        versions.push(prefix.join("lib/python3"));
    }
    for version in versions {
        push(version.join("site-packages").join(PLUGIN_IN_SITE_PACKAGES));
    }
}

/// The file this code was loaded from.
fn shim_path() -> Option<PathBuf> {
    // SAFETY: an all-zero `Dl_info` is valid, and the address is inside this library.
    let info = unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        if libc::dladdr((crate::GetPjrtApi as *const ()).cast(), &mut info) == 0 || info.dli_fname.is_null() {
            return None;
        }
        std::ffi::CStr::from_ptr(info.dli_fname)
    };
    std::fs::canonicalize(OsStr::from_bytes(info.to_bytes())).ok()
}

/// Whether the file has the first bytes of an ELF file; what cannot be read is left to dlopen's own message.
fn starts_as_library(path: &Path) -> bool {
    let mut magic = [0; 4];
    match std::fs::File::open(path) {
        Ok(mut file) => file.read_exact(&mut magic).is_ok() && magic == *b"\x7fELF",
        Err(_) => true,
    }
}

fn is_shim(path: &Path) -> bool {
    match (std::fs::canonicalize(path), shim_path()) {
        (Ok(path), Some(shim)) => path == shim,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wheel_beside_the_shim_comes_first() {
        let around = Surroundings {
            shim: Some("/v/lib/python3.11/site-packages/torch_tpu/libpjrt_cpu_shim.so".into()),
            virtual_env: Some("/elsewhere".into()),
            executable: Some("/usr/bin/python3.11".into()),
            command: Some("/w/bin/python".into()),
            working_dir: None,
        };
        let found = candidates(&around);
        assert_eq!(
            found[0],
            Path::new("/v/lib/python3.11/site-packages").join(PLUGIN_IN_SITE_PACKAGES)
        );
        assert!(found[1].starts_with("/elsewhere"));
        assert!(found.iter().any(|path| path.starts_with("/w/lib")));
    }

    #[test]
    fn a_venv_above_the_working_folder_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir
            .path()
            .join(".venv/lib/python3.11/site-packages")
            .join(PLUGIN_IN_SITE_PACKAGES);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, b"").unwrap();
        let below = dir.path().join("a/b");
        let around = Surroundings {
            shim: None,
            virtual_env: None,
            executable: None,
            command: None,
            working_dir: Some(below),
        };
        assert!(candidates(&around).contains(&file));
    }
}
