//! Which target to use: decided from the environment and from device files, before libtpu is loaded.

use std::fs;
use std::path::{Path, PathBuf};

use crate::{Error, Result};

/// A target for execution.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Platform {
    /// A real TPU through libtpu.
    Tpu,
    /// The simulated slice over the XLA CPU plugin.
    Sim,
}

impl Platform {
    /// The value that selects it in `TORCH_TPU_PLATFORM`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tpu => "tpu",
            Self::Sim => "sim",
        }
    }
}

/// What was chosen and why.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Choice {
    /// The target.
    pub platform: Platform,
    /// One line for users.
    pub reason: String,
}

/// Google's PCI vendor id.
const GOOGLE_PCI_VENDOR: &str = "0x1ae0";

/// The device files that make a TPU, under `root` (`/` but in tests): `dev/accel*`, or a `dev/vfio` group together
/// with a PCI device of Google's.
pub fn tpu_device_files(root: &Path) -> Vec<PathBuf> {
    let names = |dir: &str, wanted: &dyn Fn(&str) -> bool| -> Vec<PathBuf> {
        let entries = fs::read_dir(root.join(dir)).into_iter().flatten().flatten();
        let mut found: Vec<_> = entries
            .filter(|e| wanted(&e.file_name().to_string_lossy()))
            .map(|e| e.path())
            .collect();
        found.sort();
        found
    };
    let numbered = |name: &str| !name.is_empty() && name.bytes().all(|b| b.is_ascii_digit());
    let accel = names("dev", &|n| n.strip_prefix("accel").is_some_and(numbered));
    if !accel.is_empty() {
        return accel;
    }
    // Any passed-through device has a vfio group: only with a Google chip on the bus is it a TPU.
    let google = names("sys/bus/pci/devices", &|_| true)
        .iter()
        .any(|d| fs::read_to_string(d.join("vendor")).is_ok_and(|v| v.trim() == GOOGLE_PCI_VENDOR));
    if google {
        names("dev/vfio", &numbered)
    } else {
        Vec::new()
    }
}

/// Decides from the value of `TORCH_TPU_PLATFORM` (`auto`, `tpu`, `sim`) and the device files.
pub fn choose(requested: Option<&str>, root: &Path) -> Result<Choice> {
    let files = tpu_device_files(root);
    let found = files.first().map(|f| format!("{} is there", f.display()));
    match (requested.unwrap_or("auto"), found) {
        ("auto" | "", Some(found)) => Ok(Choice {
            platform: Platform::Tpu,
            reason: found,
        }),
        ("auto" | "", None) => Ok(Choice {
            platform: Platform::Sim,
            reason: "no TPU device files; using the simulator".into(),
        }),
        ("sim", _) => Ok(Choice {
            platform: Platform::Sim,
            reason: "TORCH_TPU_PLATFORM=sim".into(),
        }),
        ("tpu", Some(found)) => Ok(Choice {
            platform: Platform::Tpu,
            reason: found,
        }),
        ("tpu", None) => Err(Error::NoTpu {
            looked: "there is neither /dev/accel<n> nor a /dev/vfio/<n> with a Google PCI device".into(),
        }),
        (other, _) => Err(Error::argument(
            "TORCH_TPU_PLATFORM",
            format!("{other:?} is not a platform; use auto, tpu or sim"),
        )),
    }
}

/// [`choose`] for this process.
pub fn current() -> Result<Choice> {
    let requested = std::env::var("TORCH_TPU_PLATFORM").ok();
    choose(requested.as_deref(), Path::new("/"))
}

/// What the child process sets before it loads libtpu with no TPU: without the first libtpu asks a metadata server
/// for minutes.
pub const AOT_ENVIRONMENT: &[(&str, &str)] = &[
    ("TPU_SKIP_MDS_QUERY", "1"),
    ("TPU_ACCELERATOR_TYPE", "v6e-1"),
    ("TPU_WORKER_ID", "0"),
    ("TPU_WORKER_HOSTNAMES", "localhost"),
    // libtpu keeps one process a machine from the chips by a lock file; compilers use none and may be many.
    ("ALLOW_MULTIPLE_LIBTPU_LOAD", "1"),
];

/// Refuses to load libtpu where it would hang: no TPU and not told to skip the metadata server.
pub(crate) fn check_may_load(path: &Path) -> Result<()> {
    if std::env::var_os("TPU_SKIP_MDS_QUERY").is_some()
        || !tpu_device_files(Path::new("/")).is_empty()
        || !pjrt_ffi::is_libtpu(path)
    {
        return Ok(());
    }
    Err(Error::NoTpu {
        looked: format!("{} is only loaded next to TPU device files", path.display()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root(files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        dir
    }

    #[test]
    fn device_files_decide() {
        let none = root(&[
            ("dev/vfio/vfio", ""),
            ("dev/vfio/7", ""),
            ("sys/bus/pci/devices/a/vendor", "0x8086\n"),
        ]);
        assert_eq!(choose(None, none.path()).unwrap().platform, Platform::Sim);
        let error = choose(Some("tpu"), none.path()).unwrap_err().to_string();
        assert!(
            error.contains("no TPU was found") && error.contains("TORCH_TPU_PLATFORM"),
            "{error}"
        );
        let v6e = root(&[("dev/vfio/0", ""), ("sys/bus/pci/devices/a/vendor", "0x1ae0\n")]);
        assert_eq!(choose(None, v6e.path()).unwrap().platform, Platform::Tpu);
        assert_eq!(choose(Some("sim"), v6e.path()).unwrap().platform, Platform::Sim);
        let v4 = root(&[("dev/accel0", "")]);
        assert_eq!(choose(Some("tpu"), v4.path()).unwrap().platform, Platform::Tpu);
        assert!(
            choose(Some("gpu"), v4.path())
                .unwrap_err()
                .to_string()
                .contains("auto, tpu or sim")
        );
    }
}
