//! Which format reads a file, by its name; how a file is opened.

use packhorse_core::{Error, FileKind, Format, Input, Registry, Result, Store};
use packhorse_storage::{Compression, decompressed, windowed};
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The value of the setting `from` with which archives and tables are fields of samples, as other files are.
pub(crate) const FILES: &str = "files";

/// How file names map to formats.
#[derive(Clone, Debug, Default)]
pub(crate) struct NameRules {
    /// The format of all files, whatever their names.
    pub(crate) from: Option<String>,
    /// Whether files of encoded arrays (`.npz`) are tables of rows, not fields of samples.
    pub(crate) rows: bool,
    /// Whether compressed JSON (`.json.gz`) is JSON lines, not a field of samples.
    pub(crate) lines: bool,
}

impl NameRules {
    /// Whether archives and tables are read.
    pub(crate) fn has_containers(&self) -> bool {
        self.from.as_deref() != Some(FILES)
    }
}

/// The format and compression of the container `path`, by its name; `None` for a plain file, which is packed unread.
pub(crate) fn container<'r>(
    registry: &'r Registry,
    names: &NameRules,
    path: &Path,
) -> Option<(&'r Arc<dyn Format>, Option<Compression>)> {
    let name = path.as_os_str().as_bytes();
    let compression = Compression::of(name);
    if !names.has_containers() {
        return None;
    }
    if names.from.as_ref().is_some_and(|from| TABLES.contains(&from.as_str())) && is_card(path) {
        return None;
    }
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

/// Formats of tables, beside which a file that describes a dataset is not one of theirs.
const TABLES: [&str; 7] = ["arrow", "csv", "hdf5", "jsonl", "parquet", "root", "tfrecord"];

/// The names of such files in lower case: the card and the licence, and the documents of Hugging Face's datasets, of Croissant and of
/// TFDS.
const CARDS: [(&str, &str); 10] = [
    ("citation", "cff"),
    ("croissant", "json"),
    ("dataset_dict", "json"),
    ("dataset_info", "json"),
    ("dataset_infos", "json"),
    ("features", "json"),
    ("license", "md"),
    ("license", "txt"),
    ("readme", "md"),
    ("readme", "txt"),
];

/// Whether a file of this name describes a dataset.
pub(crate) fn is_card_name(stem: &[u8], extension: &[u8]) -> bool {
    let is = |bytes: &[u8], name: &str| bytes.eq_ignore_ascii_case(name.as_bytes());
    is_list_of_classes(stem, extension) || CARDS.iter().any(|(name, end)| is(extension, end) && is(stem, name))
}

/// Whether it is called as TensorFlow Datasets calls the list of a feature's classes: `label.labels.txt`.
pub(crate) fn is_list_of_classes(stem: &[u8], extension: &[u8]) -> bool {
    extension == b"labels.txt" || extension == b"txt" && stem.ends_with(b".labels")
}

fn is_card(path: &Path) -> bool {
    let parts = path.file_stem().zip(path.extension());
    parts.is_some_and(|(stem, extension)| is_card_name(stem.as_bytes(), extension.as_bytes()))
}

/// Refuses a file that has the extension of another format than `from`, which is given for all inputs.
pub(crate) fn check_from(registry: &Registry, from: &str, path: &Path) -> Result<()> {
    let name = path.as_os_str().as_bytes();
    let inside = Compression::of(name).map_or_else(|| name.to_owned(), |(_, inside)| inside);
    // Two formats may read files of one extension.
    if registry.get(from).is_ok_and(|format| format.info().claims(&inside).is_some()) {
        return Ok(());
    }
    let other = container(registry, &NameRules::default(), path).map(|(format, _)| format.info().id);
    match other.filter(|id| *id != from) {
        None => Ok(()),
        Some(id) => Err(Error::config(format!(
            "has an extension of format {id}, and `from={from}` is given for all inputs; leave `from` out, leave the file \
             out with `exclude`, or rename it"
        ))
        .in_input(path.display())),
    }
}

/// Extensions of compressions that packhorse does not read: the extension that replaces it inside, and a program that
/// decompresses it.
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

/// A program that decompresses the container `path`, if packhorse can't: it would be packed as one opaque field.
pub(crate) fn unread(registry: &Registry, path: &Path) -> Option<&'static str> {
    let name = path.file_name()?.as_bytes();
    UNREAD.iter().find_map(|(ending, inside, program)| {
        let (stem, tail) = name.split_at_checked(name.len().checked_sub(ending.len())?)?;
        // A folder may have a million files: a name is built for those that need it.
        let is_container = || registry.by_name(&[stem, inside].concat()).is_some();
        (tail.eq_ignore_ascii_case(ending) && is_container()).then_some(*program)
    })
}

/// The compression of a file, by its name.
pub(crate) fn compression(path: &Path) -> Option<Compression> {
    Compression::of(path.as_os_str().as_bytes()).map(|(compression, _)| compression)
}

/// Whether the name is that of a compressed file, which is read decompressed.
pub(crate) fn is_compressed(path: &Path) -> bool {
    compression(path).is_some()
}

/// The main file of `path` (for `x.bin` an existing `x.idx`), or `path` itself.
pub(crate) fn main_file(registry: &Registry, store: &dyn Store, path: &Path) -> PathBuf {
    let mains = registry.mains(path.as_os_str().as_bytes()).map(|name| PathBuf::from(OsString::from_vec(name)));
    let exists = |main: &PathBuf| store.stat(main, true).is_ok_and(|stat| stat.kind == FileKind::File);
    mains.filter(|_| container(registry, &NameRules::default(), path).is_none()).find(exists).unwrap_or(path.to_owned())
}

/// Opens a file; a compressed one is read decompressed.
pub(crate) fn open(store: &dyn Store, path: &Path, compression: Option<Compression>) -> Result<Box<dyn Input>> {
    let input = windowed(store.open(path)?);
    Ok(match compression {
        None => input,
        Some(compression) => decompressed(input, compression),
    })
}
