//! Where things are: the checkout, Python, the files of a run; and what all of it is keyed by.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::UNIX_EPOCH;

use crate::{Error, Result};

/// Prefix of the variables that reach the harness.
const OWN: &str = "TORCH_TPU_CONFORMANCE";
/// Variables of ours that go with a request and so do not need a pool of their own.
const PER_TEST: [&str; 4] = [
    "TORCH_TPU_CONFORMANCE",
    "TORCH_TPU_CONFORMANCE_TIMEOUT",
    "TORCH_TPU_CONFORMANCE_SEED",
    "TORCH_TPU_CONFORMANCE_SAMPLES",
];

/// A variable of the harness, by what follows the prefix; an empty one is as good as none.
pub fn setting(name: &str) -> Option<String> {
    env::var(format!("{OWN}{name}"))
        .ok()
        .filter(|value| !value.is_empty())
}

/// Where things are.
#[derive(Clone, Debug)]
pub struct Layout {
    /// The checkout.
    pub root: PathBuf,
    /// Files of the suite: `target/conformance`, or `TORCH_TPU_CONFORMANCE_DIR`.
    pub dir: PathBuf,
    /// The interpreter that has torch: `.venv/bin/python`, or `TORCH_TPU_CONFORMANCE_PYTHON`.
    pub python: PathBuf,
}

impl Layout {
    /// The one of this process; makes the folder.
    pub fn here() -> Result<Self> {
        // Cargo and nextest say where the crate is; the path of the build stands in for a binary started by hand.
        let package = env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
        let package = package
            .filter(|p| p.join("worker").is_dir())
            .unwrap_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")));
        let root = package.parent().unwrap_or(&package).to_owned();
        let path = |name: &str, standard: PathBuf| setting(name).map_or(standard, PathBuf::from);
        let layout = Self {
            dir: path("_DIR", root.join("target").join("conformance")),
            python: path("_PYTHON", root.join(".venv").join("bin").join("python")),
            root,
        };
        fs::create_dir_all(&layout.dir).map_err(Error::file("create", &layout.dir))?;
        Ok(layout)
    }

    /// The crate's folder.
    pub fn package(&self) -> PathBuf {
        self.root.join("conformance")
    }

    /// The folder of the installed packages.
    pub fn site_packages(&self) -> Option<PathBuf> {
        let lib = self.python.parent()?.parent()?.join("lib");
        let found = fs::read_dir(lib).ok()?.flatten().map(|entry| entry.path());
        found
            .map(|path| path.join("site-packages"))
            .find(|path| path.is_dir())
    }

    /// libtpu: `TPU_LIBRARY_PATH`, else the wheel's.
    pub fn libtpu(&self) -> Result<PathBuf> {
        if let Some(path) = env::var_os("TPU_LIBRARY_PATH").filter(|v| !v.is_empty()) {
            return Ok(path.into());
        }
        let path = self
            .site_packages()
            .unwrap_or_default()
            .join("libtpu")
            .join("libtpu.so");
        if path.is_file() {
            return Ok(path);
        }
        Err(Error::Usage(format!(
            "tests of the target v6e need libtpu, which is not at {}: {} -m pip install libtpu",
            path.display(),
            self.python.display()
        )))
    }

    /// The version of an installed package, as the name of its metadata folder tells it.
    pub fn version(&self, package: &str) -> String {
        let entries = self.site_packages().and_then(|site| fs::read_dir(site).ok());
        let names = entries
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|e| e.file_name().into_string().ok());
        let mut versions = names.filter_map(|name| {
            let rest = name.strip_prefix(package)?.strip_prefix('-')?;
            Some(rest.strip_suffix(".dist-info")?.to_owned())
        });
        versions.next().unwrap_or_else(|| "none".to_owned())
    }

    /// A hash of all that a list of tests depends on.
    pub fn list_key(&self) -> Result<u64> {
        let mut hasher = DefaultHasher::new();
        self.version("torch").hash(&mut hasher);
        hash_contents(&self.package().join("worker"), &mut hasher)?;
        Ok(hasher.finish())
    }

    /// A hash of all that a pool depends on: the libraries, the package, the workers' code, this harness, the table of
    /// exceptions and the environment.
    pub fn pool_key(&self, harness: &Path) -> Result<u64> {
        let mut hasher = DefaultHasher::new();
        self.list_key()?.hash(&mut hasher);
        self.version("libtpu").hash(&mut hasher);
        hash_stamp(harness, &mut hasher)?;
        for path in sorted_files(&self.root.join("python").join("torch_tpu"))? {
            hash_stamp(&path, &mut hasher)?;
        }
        let table = self.exceptions();
        fs::read(&table)
            .map_err(Error::file("read", &table))?
            .hash(&mut hasher);
        self.python.hash(&mut hasher);
        environment().hash(&mut hasher);
        Ok(hasher.finish())
    }

    /// The table of what cannot be right: `exceptions.toml`, or `TORCH_TPU_CONFORMANCE_EXCEPTIONS`.
    pub fn exceptions(&self) -> PathBuf {
        setting("_EXCEPTIONS").map_or_else(|| self.package().join("exceptions.toml"), PathBuf::from)
    }

    /// The commit that is checked out, or nothing outside a repository.
    pub fn commit(&self) -> String {
        let asked = Command::new("git")
            .args(["rev-parse", "HEAD"])
            .current_dir(&self.root)
            .output();
        asked.map_or_else(
            |_| String::new(),
            |output| String::from_utf8_lossy(&output.stdout).trim().to_owned(),
        )
    }
}

/// What of the environment the workers see differently.
fn environment() -> BTreeMap<String, String> {
    env::vars()
        .filter(|(name, _)| name.starts_with("TORCH_TPU_") || name == "TPU_LIBRARY_PATH")
        .filter(|(name, _)| !PER_TEST.contains(&name.as_str()))
        .collect()
}

/// Files of a folder and those below it, without the interpreter's leftovers, in a fixed order.
fn sorted_files(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut open = vec![dir.to_owned()];
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(&dir).map_err(Error::file("read", &dir))?.flatten() {
            let path = entry.path();
            if !path.is_dir() {
                found.push(path);
            } else if entry.file_name() != "__pycache__" {
                open.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

fn hash_contents(dir: &Path, hasher: &mut DefaultHasher) -> Result<()> {
    for path in sorted_files(dir)? {
        path.hash(hasher);
        fs::read(&path).map_err(Error::file("read", &path))?.hash(hasher);
    }
    Ok(())
}

/// Size and time stand for the contents of what may be large: each test computes this.
fn hash_stamp(path: &Path, hasher: &mut DefaultHasher) -> Result<()> {
    let data = fs::metadata(path).map_err(Error::file("read", path))?;
    let changed = data
        .modified()
        .ok()
        .and_then(|t| t.duration_since(UNIX_EPOCH).ok());
    (path, data.len(), changed).hash(hasher);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_keyed_by_what_the_workers_code_says() {
        let dir = tempfile::tempdir().unwrap();
        let worker = dir.path().join("conformance").join("worker");
        fs::create_dir_all(worker.join("__pycache__")).unwrap();
        fs::write(worker.join("a.py"), "1").unwrap();
        let layout = Layout {
            root: dir.path().to_owned(),
            dir: dir.path().to_owned(),
            python: dir.path().join("bin").join("python"),
        };
        let before = layout.list_key().unwrap();
        fs::write(worker.join("__pycache__").join("a.pyc"), "x").unwrap();
        assert_eq!(layout.list_key().unwrap(), before);
        fs::write(worker.join("a.py"), "2").unwrap();
        assert_ne!(layout.list_key().unwrap(), before);
    }
}
