//! The disk tier of the executable cache: serialized executables in files named by a hash of all that they depend on.
//!
//! Processes share the folder without locks: a file appears whole, by a rename, and carries a checksum. A damaged or
//! foreign file is compiled anew; a folder that cannot be written costs the tier and nothing else.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::SystemTime;

use sha2::{Digest, Sha256};

/// Precedes the checksum of a file's payload; another layout gets another number.
const MAGIC: &[u8; 8] = b"TTPUEXE1";
const SUFFIX: &str = "ttpu";
const CHECKSUM: usize = 32;
/// Bytes of a folder, unless `TORCH_TPU_CACHE_LIMIT` says otherwise.
const LIMIT: u64 = 4 << 30;

/// A folder of programs.
#[derive(Debug)]
pub(crate) struct Disk {
    folder: PathBuf,
    limit: u64,
    /// Bytes in the folder as far as this process knows.
    size: AtomicU64,
    /// The folder was looked through for its size.
    measured: AtomicBool,
    warned: AtomicBool,
}

static HITS: AtomicU64 = AtomicU64::new(0);
static WRITES: AtomicU64 = AtomicU64::new(0);

/// Programs loaded from disk and written to it since the start.
pub(crate) fn counters() -> (u64, u64) {
    (HITS.load(Relaxed), WRITES.load(Relaxed))
}

/// The folder for programs, if there is to be one: `TORCH_TPU_CACHE_DIR`, where empty means none, or the user's cache.
pub fn cache_folder() -> Option<PathBuf> {
    if let Some(set) = std::env::var_os("TORCH_TPU_CACHE_DIR") {
        return (!set.is_empty()).then(|| set.into());
    }
    let base = std::env::var_os("XDG_CACHE_HOME")
        .filter(|v| !v.is_empty())
        .map(PathBuf::from);
    let home = || {
        std::env::var_os("HOME")
            .filter(|v| !v.is_empty())
            .map(|h| Path::new(&h).join(".cache"))
    };
    base.or_else(home).map(|base| base.join("torch_tpu"))
}

/// The disk tier, if there is one.
pub(crate) fn disk() -> Option<&'static Disk> {
    static DISK: OnceLock<Option<Disk>> = OnceLock::new();
    DISK.get_or_init(|| cache_folder().map(Disk::in_folder)).as_ref()
}

/// The name of a program: a hash of its named parts.
pub(crate) fn name(parts: &[(&str, &[u8])]) -> String {
    let mut hash = Sha256::new();
    for (name, bytes) in parts {
        // Lengths keep neighbours apart.
        hash.update((name.len() as u64).to_le_bytes());
        hash.update(name.as_bytes());
        hash.update((bytes.len() as u64).to_le_bytes());
        hash.update(bytes);
    }
    hash.finalize().iter().map(|b| format!("{b:02x}")).collect()
}

impl Disk {
    /// With as many bytes as `TORCH_TPU_CACHE_LIMIT` allows.
    pub(crate) fn in_folder(folder: PathBuf) -> Self {
        let limit = std::env::var("TORCH_TPU_CACHE_LIMIT")
            .ok()
            .and_then(|v| v.parse().ok());
        Self::new(folder, limit.unwrap_or(LIMIT))
    }

    fn new(folder: PathBuf, limit: u64) -> Self {
        Self {
            folder,
            limit,
            size: AtomicU64::new(0),
            measured: AtomicBool::new(false),
            warned: AtomicBool::new(false),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.{SUFFIX}"))
    }

    /// The payload of a program, if it is there and whole.
    pub(crate) fn read(&self, name: &str) -> Option<Vec<u8>> {
        let path = self.path(name);
        let mut file = File::open(&path).ok()?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).ok()?;
        let payload = bytes
            .strip_prefix(MAGIC)
            .and_then(|rest| rest.split_at_checked(CHECKSUM));
        match payload {
            Some((sum, payload)) if Sha256::digest(payload).as_slice() == sum => {
                // What is used stays longest.
                let _ = file.set_modified(SystemTime::now());
                HITS.fetch_add(1, Relaxed);
                Some(payload.to_vec())
            }
            _ => {
                self.forget(name);
                None
            }
        }
    }

    /// Removes a program, such as one that the plugin does not take.
    pub(crate) fn forget(&self, name: &str) {
        let _ = fs::remove_file(self.path(name));
    }

    /// Keeps a program. A folder that cannot be written is said once.
    pub(crate) fn write(&self, name: &str, payload: &[u8]) {
        match self.try_write(name, payload) {
            Ok(()) => {
                WRITES.fetch_add(1, Relaxed);
                self.shrink(payload.len() as u64);
            }
            Err(error) => {
                if !self.warned.swap(true, Relaxed) {
                    tracing::warn!(folder = %self.folder.display(), %error, "programs cannot be kept on disk");
                }
            }
        }
    }

    /// Keeps a program, or says why not.
    pub(crate) fn try_write(&self, name: &str, payload: &[u8]) -> std::io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        let mut file = tempfile::Builder::new()
            .prefix(".writing-")
            .tempfile_in(&self.folder)?;
        file.write_all(MAGIC)?;
        file.write_all(&Sha256::digest(payload))?;
        file.write_all(payload)?;
        file.persist(self.path(name)).map(|_| ()).map_err(|e| e.error)
    }

    /// Removes what was not used for longest while there is too much.
    fn shrink(&self, added: u64) {
        let size = self.size.fetch_add(added, Relaxed) + added;
        if size <= self.limit && self.measured.swap(true, Relaxed) {
            return;
        }
        let Ok(entries) = fs::read_dir(&self.folder) else {
            return;
        };
        let mut files: Vec<(SystemTime, u64, PathBuf)> = entries
            .filter_map(|entry| {
                let entry = entry.ok()?;
                let about = entry.metadata().ok()?;
                let abandoned = entry.file_name().to_string_lossy().starts_with(".writing-")
                    && about
                        .modified()
                        .ok()?
                        .elapsed()
                        .is_ok_and(|age| age.as_secs() > 3600);
                let ours = entry.path().extension().is_some_and(|e| e == SUFFIX);
                (ours || abandoned).then_some((about.modified().ok()?, about.len(), entry.path()))
            })
            .collect();
        let mut total: u64 = files.iter().map(|(_, size, _)| size).sum();
        if total > self.limit {
            files.sort();
            for (_, size, path) in files {
                // Room for some more, so that not every write looks here.
                if total <= self.limit / 10 * 9 {
                    break;
                }
                if fs::remove_file(path).is_ok() {
                    total -= size;
                }
            }
        }
        self.size.store(total, Relaxed);
    }

    /// Removes all programs.
    pub(crate) fn clear(&self) {
        let Ok(entries) = fs::read_dir(&self.folder) else {
            return;
        };
        for path in entries.filter_map(|e| Some(e.ok()?.path())) {
            if path.extension().is_some_and(|e| e == SUFFIX) {
                let _ = fs::remove_file(path);
            }
        }
        self.size.store(0, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk(limit: u64) -> (tempfile::TempDir, Disk) {
        let folder = tempfile::tempdir().unwrap();
        let disk = Disk::new(folder.path().join("deep/cache"), limit);
        (folder, disk)
    }

    fn files(disk: &Disk) -> usize {
        fs::read_dir(&disk.folder).map_or(0, Iterator::count)
    }

    #[test]
    fn names_tell_every_part_and_its_place() {
        let a = name(&[("program", b"ab"), ("options", b"c")]);
        assert_eq!(a, name(&[("program", b"ab"), ("options", b"c")]));
        for other in [
            name(&[("program", b"a"), ("options", b"bc")]),
            name(&[("program", b"ab"), ("option", b"sc")]),
            name(&[("options", b"c"), ("program", b"ab")]),
            name(&[("program", b"ab")]),
        ] {
            assert_ne!(a, other);
        }
    }

    #[test]
    fn what_was_written_is_read() {
        let (_guard, disk) = disk(1 << 20);
        assert_eq!(disk.read("x"), None);
        disk.write("x", b"payload");
        assert_eq!(disk.read("x").as_deref(), Some(&b"payload"[..]));
        disk.clear();
        assert_eq!(disk.read("x"), None);
    }

    #[test]
    fn damage_is_seen_and_removed() {
        let (_guard, disk) = disk(1 << 20);
        let damages: [fn(&mut Vec<u8>); 4] = [
            |b| b.truncate(20),
            |b| *b.last_mut().unwrap() ^= 1,
            |b| b[0] = b'X',
            |b| b.push(0),
        ];
        for damage in damages {
            disk.write("x", b"payload");
            let path = disk.path("x");
            let mut bytes = fs::read(&path).unwrap();
            damage(&mut bytes);
            fs::write(&path, bytes).unwrap();
            assert_eq!(disk.read("x"), None);
            assert!(!path.exists());
        }
    }

    #[test]
    fn what_was_not_used_for_longest_goes_first() {
        let (_guard, disk) = disk(5_000);
        for (i, name) in ["a", "b", "c"].iter().enumerate() {
            disk.write(name, &[0; 1_000]);
            let at = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000 + i as u64);
            File::open(disk.path(name)).unwrap().set_modified(at).unwrap();
        }
        assert!(disk.read("a").is_some());
        disk.write("d", &[0; 1_500]);
        disk.write("e", &[0; 1_500]);
        assert!(disk.read("a").is_some() && disk.read("e").is_some());
        assert!(disk.read("b").is_none());
    }

    #[test]
    fn a_folder_that_cannot_be_costs_nothing_else() {
        let guard = tempfile::tempdir().unwrap();
        let file = guard.path().join("file");
        fs::write(&file, b"").unwrap();
        let disk = Disk::new(file.join("cache"), 1 << 20);
        disk.write("x", b"payload");
        assert_eq!(disk.read("x"), None);
        assert_eq!(files(&disk), 0);
    }
}
