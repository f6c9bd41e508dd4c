//! An open file of the cache, which is not evicted while it is open.

use super::CacheSource;
use packhorse_core::{Input, Result, found};
use packhorse_storage::{LocalFile, Lock};
use std::path::{Path, PathBuf};

/// A copy, and the location of the original.
pub(super) struct Held {
    pub(super) input: LocalFile<Lock>,
    pub(super) source: CacheSource,
    /// Its path relative to the dataset's folder.
    pub(super) name: PathBuf,
}

impl Input for Held {
    packhorse_core::forward_input!(input: name len read_at stream stat local_path);

    /// The sibling of the copy, else of the original.
    fn sibling(&self, name: &str) -> Result<Option<Box<dyn Input>>> {
        if let Some(found) = self.input.sibling(name)? {
            return Ok(Some(found));
        }
        found(self.source.store.open(&self.source.root.join(self.name.with_file_name(name))))
    }
}

/// Opens `path` with a lock that prevents its eviction; `None` if it does not exist or is being evicted.
pub(super) fn open(path: &Path, source: &CacheSource, name: &str) -> Result<Option<Held>> {
    let Some(lock) = Lock::share(path)? else { return Ok(None) };
    Ok(Some(Held { input: LocalFile::of(lock, path)?, source: source.clone(), name: name.into() }))
}
