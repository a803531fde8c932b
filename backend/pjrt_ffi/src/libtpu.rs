//! Telling libtpu from other plugins without loading it: where no TPU is, loading may hang for minutes.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::path::Path;

use object::read::{ReadCache, ReadRef};
use object::{Object, ObjectSymbol};

/// Whether the library at `path` is libtpu, by its name or else by what it exports: copies go by any name.
///
/// Reads a few kilobytes. What cannot be read or is no ELF file is not libtpu.
pub fn is_libtpu(path: &Path) -> bool {
    let named = |name: &OsStr| name.as_encoded_bytes().starts_with(b"libtpu");
    path.file_name().is_some_and(named) || File::open(path).is_ok_and(exports_its_names)
}

fn exports_its_names(file: File) -> bool {
    // A directory opens but does not read.
    let cache: ReadCache<io::BufReader<File>> = ReadCache::new(io::BufReader::new(file));
    has_its_names(&cache).unwrap_or(false)
}

fn has_its_names<'a>(library: impl ReadRef<'a>) -> object::Result<bool> {
    let file = object::File::parse(library)?;
    let known = |name: &[u8]| name == b"GetLibtpuSdkApi" || name.starts_with(b"TfTpu_");
    Ok(file
        .dynamic_symbols()
        .filter(|symbol| symbol.is_definition())
        .any(|symbol| symbol.name_bytes().is_ok_and(known)))
}
