//! Tables that a scan leaves open for packing, so that the metadata of an input is parsed once a job. Knows no plan.

use crate::open_input::SharedFile;
use packhorse_core::Limits;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The most tables, each an open file.
const MOST: usize = 64;

/// Opened tables by path, up to a number of files and of bytes of metadata. Those beyond are opened again.
pub(crate) struct KeptTables {
    most: usize,
    limits: Limits,
    bytes: u64,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    tables: HashMap<PathBuf, Arc<SharedFile>>,
    bytes: u64,
}

impl KeptTables {
    /// For tables opened with `limits`, whose metadata has up to `bytes` bytes in their files.
    pub(crate) fn new(limits: Limits, bytes: u64) -> Self {
        Self { most: MOST, limits, bytes, kept: Mutex::default() }
    }

    /// Keeps nothing.
    pub(crate) fn none() -> Self {
        Self { most: 0, limits: Limits::default(), bytes: 0, kept: Mutex::default() }
    }

    /// Keeps the table of the absolute path `path`, which took `bytes` bytes to open.
    pub(crate) fn put(&self, path: &Path, file: SharedFile, bytes: u64) {
        let mut kept = self.kept();
        let sum = kept.bytes.saturating_add(bytes);
        if kept.tables.len() < self.most && sum <= self.bytes {
            kept.bytes = sum;
            kept.tables.insert(path.to_owned(), Arc::new(file));
        }
    }

    /// The table of `path`, if it was kept and opened with `limits`.
    pub(crate) fn get(&self, path: &Path, limits: Limits) -> Option<Arc<SharedFile>> {
        (limits == self.limits).then(|| self.kept().tables.get(path).cloned())?
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
