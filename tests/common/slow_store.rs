//! A storage that takes its time.

use packhorse::core::{FileStat, Input, Result, Store, StoreFile};
use packhorse::storage::Local;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread::sleep;
use std::time::Duration;

/// A store of local files, whose reads of tars wait: all of them, or those of what was not read before.
pub(crate) struct SlowStore {
    delay: Duration,
    /// How long opening takes.
    opening: Duration,
    /// What was read, where that is fast from then on.
    read: Option<Read>,
}

/// The places of reads.
type Read = Arc<Mutex<HashSet<(PathBuf, u64)>>>;

impl SlowStore {
    /// Each read takes `delay`; with a `cache` only the first one of its place.
    pub(crate) fn new(delay: Duration, cache: bool) -> Self {
        Self { delay, opening: Duration::ZERO, read: cache.then(Arc::default) }
    }

    /// Opening a tar takes `opening`; reads are fast.
    pub(crate) fn slow_to_open(opening: Duration) -> Self {
        Self { opening, ..Self::new(Duration::ZERO, false) }
    }
}

struct SlowInput {
    input: Box<dyn Input>,
    path: PathBuf,
    delay: Duration,
    read: Option<Read>,
}

impl Input for SlowInput {
    packhorse_core::forward_input!(input: name len stream);

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        let new = |read: &Read| read.lock().unwrap().insert((self.path.clone(), offset));
        if self.read.as_ref().is_none_or(new) {
            sleep(self.delay);
        }
        self.input.read_at(offset, buf)
    }
    fn local_path(&self) -> Option<&Path> {
        // Without a cache it is a store elsewhere.
        self.input.local_path().filter(|_| self.read.is_some())
    }
}

impl Store for SlowStore {
    fn open(&self, path: &Path) -> Result<Box<dyn Input>> {
        let (input, read) = (Store::open(&Local, path)?, self.read.clone());
        let slow = path.extension().is_some_and(|end| end == "tar");
        let (delay, opening) = if slow { (self.delay, self.opening) } else { <_>::default() };
        sleep(opening);
        Ok(Box::new(SlowInput { input, path: path.to_owned(), delay, read }))
    }
    fn list(&self, dir: &Path) -> Result<Vec<PathBuf>> {
        Local.list(dir)
    }
    fn stat(&self, path: &Path, follow: bool) -> Result<FileStat> {
        Local.stat(path, follow)
    }
    fn create(&self, path: &Path) -> Result<Box<dyn StoreFile>> {
        Local.create(path)
    }
    fn sync_file(&self, path: &Path) -> Result<()> {
        Local.sync_file(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        Local.rename(from, to)
    }
    fn sync_dir(&self, dir: &Path) -> Result<()> {
        Local.sync_dir(dir)
    }
    fn create_dir(&self, dir: &Path) -> Result<()> {
        Local.create_dir(dir)
    }
    fn remove(&self, path: &Path) -> Result<()> {
        Local.remove(path)
    }
    fn remove_dir(&self, dir: &Path) -> Result<()> {
        Local.remove_dir(dir)
    }
}
