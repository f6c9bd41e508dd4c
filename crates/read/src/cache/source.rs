//! The source of a dataset's files.

use super::{CacheFile, Check};
use packhorse_core::{FileStat, Store};
use packhorse_dataset::{Digest, Manifest};
use packhorse_storage::Local;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The folder of a dataset in its store, and the identity of the dataset.
#[derive(Clone)]
pub(crate) struct CacheSource {
    pub(super) store: Arc<dyn Store>,
    pub(super) root: PathBuf,
    pub(super) dataset: Digest,
    /// Whether its files are local, so that their modification time shows changes.
    pub(super) local: bool,
}

impl CacheSource {
    /// The dataset in the folder `root` that `manifest` describes; its root digest identifies it.
    pub(crate) fn sealed(store: Arc<dyn Store>, root: impl Into<PathBuf>, manifest: &Manifest) -> Self {
        Self::new(store, root.into(), manifest.root)
    }

    /// Third-party shards in the folder `root`, identified by `location`, the text that names them.
    pub(crate) fn foreign(store: Arc<dyn Store>, root: impl Into<PathBuf>, location: &str) -> Self {
        Self::new(store, root.into(), Digest::of(location.as_bytes()))
    }

    fn new(store: Arc<dyn Store>, root: PathBuf, dataset: Digest) -> Self {
        let local = is_same(&*store, &root, &root);
        Self { store, root, dataset, local }
    }

    /// Whether `other` is the same dataset.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.dataset == other.dataset && self.root == other.root
    }

    /// A file without a recorded digest, validated by its current state in the store.
    pub(crate) fn file(&self, name: impl Into<String>, stat: &FileStat) -> CacheFile {
        CacheFile { name: name.into(), bytes: stat.size, check: Check::Modified(self.stamp(stat)) }
    }

    /// The modification time that a copy gets. Remote stores know it to the second, and identify each version of a file
    /// by a number (of its ETag), which is stored in the sub-second part.
    pub(super) fn stamp(&self, stat: &FileStat) -> i64 {
        const SECOND: i64 = 1_000_000_000;
        match self.local {
            true => stat.mtime,
            false => {
                let seconds = stat.mtime.div_euclid(SECOND).saturating_mul(SECOND);
                seconds.saturating_add((stat.id.1 % SECOND.unsigned_abs()).cast_signed())
            }
        }
    }

    /// Whether the local `path` is the source's folder or inside it.
    pub(super) fn holds(&self, path: &Path) -> bool {
        let mut above = path.ancestors().filter(|path| !path.as_os_str().is_empty());
        self.local && above.any(|path| is_same(&*self.store, &self.root, path))
    }
}

/// Whether `there`, in the store, is the local folder `here`.
pub(crate) fn is_same(store: &dyn Store, there: &Path, here: &Path) -> bool {
    // Checks the local folder first, to avoid requests for files that do not exist.
    let here = Local.stat(here, true).map(|stat| stat.id);
    here.is_ok_and(|here| store.stat(there, true).is_ok_and(|stat| stat.id == here))
}

#[cfg(test)]
mod tests {
    use super::*;
    use packhorse_core::FileKind;

    #[test]
    fn states_of_remote_files_are_told_apart_within_a_second() {
        let dir = tempfile::tempdir().unwrap();
        let stat = |mtime, id| FileStat { kind: FileKind::File, size: 1, mtime, ctime: 0, id: (7, id) };
        let local = CacheSource::foreign(Arc::new(Local), dir.path(), "x");
        assert_eq!(local.stamp(&stat(5_000_000_001, 3)), 5_000_000_001);
        let remote = CacheSource { local: false, ..local.clone() };
        assert_eq!(remote.stamp(&stat(5_000_000_001, 3)), 5_000_000_003);
        assert_eq!(remote.stamp(&stat(-1, u64::MAX)), -1_000_000_000 + 709_551_615);
        assert!(local.holds(dir.path()) && local.holds(&dir.path().join("a/b")) && !remote.holds(dir.path()));
        assert!(!local.holds(Path::new("/")) && !local.holds(Path::new("elsewhere")));
    }
}
