//! What a walk over folders finds, for the listing.

use super::TableInput;
use crate::scan::sealed::{ChosenPlace, SealedInput};
use packhorse_core::{Error, Field, FileStat, InputTable};
use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::Arc;

/// A finding of a walk, sent to the listing's builder.
pub(crate) enum WalkEvent {
    /// Files of one folder.
    Files { root: u32, folder: PathBuf, files: Vec<FoundFile> },
    /// Members of one archive.
    Members { root: u32, archive: PathBuf, stat: FileStat, members: Vec<FoundMember> },
    /// A table input.
    Table { root: u32, path: PathBuf, stat: FileStat, table: TableInput },
    /// A sealed dataset whose shards are among the inputs.
    Sealed(Box<SealedInput>),
    /// Samples of the view at a root.
    Chosen { root: u32, places: Vec<ChosenPlace> },
    /// The tables of an input.
    Tables { path: PathBuf, tables: Vec<InputTable> },
    /// A bad input.
    Fault(Error),
    /// Inputs that are ignored without being bad: why, how many, and the first by name.
    Ignored(Cow<'static, str>, u64, PathBuf),
    /// The scan can't go on.
    Abort(Error),
}

/// A file that a walk found.
pub(crate) struct FoundFile {
    pub(crate) name: Box<[u8]>,
    pub(crate) size: u64,
    pub(crate) mtime: i64,
    /// The columns that its bytes decode to, if they were looked at.
    pub(crate) columns: Option<Arc<[Field]>>,
}

/// A member of an archive that a walk found.
pub(crate) struct FoundMember {
    pub(crate) name: Box<[u8]>,
    pub(crate) offset: u64,
    pub(crate) len: u64,
}

/// Why inputs are ignored.
pub(crate) const HIDDEN: &str = "hidden";
pub(crate) const NO_FIELD: &str = "without an extension";
pub(crate) const NO_MATCH: &str = "without a key and a field by `key-ends`";
