//! An open file of the cache, which is not evicted while it is open.

use super::CacheSource;
use packhorse_core::{FileStat, Input, Result, Store, found};
use packhorse_storage::{Local, Lock};
use std::io::Read;
use std::path::{Path, PathBuf};

/// A copy, and the location of the original.
pub(super) struct Held {
    pub(super) input: Box<dyn Input>,
    pub(super) lock: Lock,
    pub(super) source: CacheSource,
    /// Its path relative to the dataset's folder.
    pub(super) name: PathBuf,
}

impl Input for Held {
    fn name(&self) -> &str {
        self.input.name()
    }

    fn len(&self) -> Option<u64> {
        self.input.len()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.input.read_at(offset, buf)
    }

    fn stream(&self) -> Result<Box<dyn Read + Send + '_>> {
        self.input.stream()
    }

    /// The sibling of the copy, else of the original.
    fn sibling(&self, name: &str) -> Result<Option<Box<dyn Input>>> {
        if let Some(found) = self.input.sibling(name)? {
            return Ok(Some(found));
        }
        found(self.source.store.open(&self.source.root.join(self.name.with_file_name(name))))
    }

    fn stat(&self) -> Result<Option<FileStat>> {
        self.input.stat()
    }

    fn local_path(&self) -> Option<&Path> {
        self.input.local_path()
    }
}

/// Opens `path` with a lock that prevents its eviction; `None` if it does not exist or is being evicted.
pub(super) fn open(path: &Path, source: &CacheSource, name: &str) -> Result<Option<Held>> {
    let Some(lock) = Lock::share(path)? else { return Ok(None) };
    let input = found(Local.open(path))?;
    Ok(input.map(|input| Held { input, lock, source: source.clone(), name: name.into() }))
}
