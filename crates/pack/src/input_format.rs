//! Which format reads a file, by its name; how a file is opened.

use packhorse_core::{Error, FileKind, Format, Input, Registry, Result, Store};
use packhorse_storage::{Compression, decompressed};
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What names of files say of their formats.
#[derive(Clone, Debug, Default)]
pub(crate) struct NameRules {
    /// The format of all files, where it is not for their names to say.
    pub(crate) from: Option<String>,
    /// Whether files of encoded arrays are tables of rows, not fields of samples.
    pub(crate) rows: bool,
    /// Whether compressed JSON is JSON lines, not a field of samples.
    pub(crate) lines: bool,
}

/// The format of a container called `path` and its compression; `None` for a plain file, which is
/// packed as it is.
pub(crate) fn container<'r>(
    registry: &'r Registry,
    names: &NameRules,
    path: &Path,
) -> Option<(&'r Arc<dyn Format>, Option<Compression>)> {
    let name = path.as_os_str().as_bytes();
    let compression = Compression::of(name);
    if let Some(format) = names.from.as_ref().and_then(|id| registry.get(id).ok()) {
        return Some((format, compression.map(|(compression, _)| compression)));
    }
    match compression {
        Some((compression, inside)) => {
            let json = names.lines && inside.len() > 5 && inside.to_ascii_lowercase().ends_with(b".json");
            let lines = || registry.by_name(b"x.jsonl").filter(|_| json);
            registry.by_name(&inside).or_else(lines).map(|format| (format, Some(compression)))
        }
        None => {
            let field = || registry.by_field(&String::from_utf8_lossy(name)).filter(|_| names.rows);
            registry.by_name(name).or_else(field).map(|format| (format, None))
        }
    }
}

/// An error where `path` is called as the files of another format than `from` are, which was given for all files.
pub(crate) fn check_from(registry: &Registry, from: &str, path: &Path) -> Result<()> {
    let other = container(registry, &NameRules::default(), path).map(|(format, _)| format.info().id);
    match other.filter(|id| *id != from) {
        None => Ok(()),
        Some(id) => Err(Error::config(format!(
            "is called as files of {id} are, and `from={from}` is given for all inputs; leave `from` out, leave the file \
             out with `exclude`, or give it another name"
        ))
        .in_input(path.display())),
    }
}

/// Compressions that are not read, by the end of a name: what it stands for, and the program that undoes it.
const UNREAD: [(&[u8], &[u8], &str); 15] = [
    (b".z", b"", "uncompress"),
    (b".taz", b".tar", "uncompress"),
    (b".lz", b"", "lzip"),
    (b".tlz", b".tar", "lzip"),
    (b".lz4", b"", "lz4"),
    (b".tlz4", b".tar", "lz4"),
    (b".lzma", b"", "xz"),
    (b".lzo", b"", "lzop"),
    (b".tzo", b".tar", "lzop"),
    (b".br", b"", "brotli"),
    (b".sz", b"", "snzip"),
    (b".snappy", b"", "snzip"),
    (b".lrz", b"", "lrzip"),
    (b".7z", b"", "7z"),
    (b".zip", b"", "unzip"),
];

/// The program that decompresses a container called `path`, where packhorse can't; its members would be packed as one
/// field.
pub(crate) fn unread(registry: &Registry, path: &Path) -> Option<&'static str> {
    let name = path.file_name()?.as_bytes();
    UNREAD.iter().find_map(|(ending, inside, program)| {
        let (stem, tail) = name.split_at_checked(name.len().checked_sub(ending.len())?)?;
        let inside = [stem, inside].concat();
        (tail.eq_ignore_ascii_case(ending) && registry.by_name(&inside).is_some()).then_some(*program)
    })
}

/// How a container is compressed.
pub(crate) fn compression(path: &Path) -> Option<Compression> {
    Compression::of(path.as_os_str().as_bytes()).map(|(compression, _)| compression)
}

/// Whether the file called `path` is read as what is in it, decompressed, if it is looked into.
pub(crate) fn is_compressed(path: &Path) -> bool {
    compression(path).is_some()
}

/// The file that `path` is a part of (of `x.bin` the `x.idx` beside it), if there is one; else `path`.
pub(crate) fn main_file(registry: &Registry, store: &dyn Store, path: &Path) -> PathBuf {
    let mains = registry.mains(path.as_os_str().as_bytes()).map(|name| PathBuf::from(OsString::from_vec(name)));
    let is_there = |main: &PathBuf| store.stat(main, true).is_ok_and(|stat| stat.kind == FileKind::File);
    mains
        .filter(|_| container(registry, &NameRules::default(), path).is_none())
        .find(is_there)
        .unwrap_or(path.to_owned())
}

/// Opens a file, seen as the bytes inside it where it is compressed.
pub(crate) fn open(store: &dyn Store, path: &Path, compression: Option<Compression>) -> Result<Box<dyn Input>> {
    let input = store.open(path)?;
    Ok(match compression {
        None => input,
        Some(compression) => decompressed(input, compression),
    })
}
