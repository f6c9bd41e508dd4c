//! A store that adds up how long its reads and writes take, for benchmarks.

use packhorse_core::{DirEntry, FileStat, Input, Result, Store, StoreFile};
use std::any::Any;
use std::collections::BTreeSet;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Time that all threads together spent on a store.
#[derive(Default)]
pub(crate) struct StoreTimes {
    reading: AtomicU64,
    writing: AtomicU64,
    /// Whether the files that are opened are noted.
    noting: AtomicBool,
    opened: Mutex<BTreeSet<PathBuf>>,
}

impl StoreTimes {
    /// The time of reads, opening files included, and of writes, syncs and renames included, since the last call.
    pub(crate) fn take(&self) -> (Duration, Duration) {
        let take = |nanos: &AtomicU64| Duration::from_nanos(nanos.swap(0, Ordering::Relaxed));
        (take(&self.reading), take(&self.writing))
    }

    /// Notes from now on which files are opened.
    pub(crate) fn note(&self) {
        self.noting.store(true, Ordering::Relaxed);
    }

    /// The files that were opened since [`note`](Self::note), which ends.
    pub(crate) fn noted(&self) -> BTreeSet<PathBuf> {
        self.noting.store(false, Ordering::Relaxed);
        std::mem::take(&mut self.opened.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn read<T>(&self, call: impl FnOnce() -> T) -> T {
        timed(&self.reading, call)
    }

    fn write<T>(&self, call: impl FnOnce() -> T) -> T {
        timed(&self.writing, call)
    }

    fn opens(&self, path: &Path) {
        if self.noting.load(Ordering::Relaxed) {
            self.opened.lock().unwrap_or_else(PoisonError::into_inner).insert(path.to_owned());
        }
    }
}

fn timed<T>(nanos: &AtomicU64, call: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let done = call();
    nanos.fetch_add(start.elapsed().as_nanos() as u64, Ordering::Relaxed);
    done
}

/// `inner`, timed.
pub(crate) struct TimedStore {
    pub(crate) inner: Arc<dyn Store>,
    pub(crate) times: Arc<StoreTimes>,
}

impl TimedStore {
    fn input(&self, path: &Path, inner: Box<dyn Input>) -> Box<dyn Input> {
        self.times.opens(path);
        Box::new(TimedInput { inner, path: path.to_owned(), times: Arc::clone(&self.times) })
    }

    fn file(&self, inner: Box<dyn StoreFile>) -> Box<dyn StoreFile> {
        Box::new(TimedFile { inner, times: Arc::clone(&self.times) })
    }
}

impl Store for TimedStore {
    fn shown(&self, path: &Path) -> String {
        self.inner.shown(path)
    }

    fn list(&self, dir: &Path) -> Result<Vec<PathBuf>> {
        self.inner.list(dir)
    }

    fn entries(&self, dir: &Path) -> Result<Vec<DirEntry>> {
        self.inner.entries(dir)
    }

    fn stat(&self, path: &Path, follow: bool) -> Result<FileStat> {
        self.inner.stat(path, follow)
    }

    fn open(&self, path: &Path) -> Result<Box<dyn Input>> {
        let input = self.times.read(|| self.inner.open(path))?;
        Ok(self.input(path, input))
    }

    fn read(&self, path: &Path, buf: &mut [u8]) -> Result<Option<FileStat>> {
        self.times.opens(path);
        self.times.read(|| self.inner.read(path, buf))
    }

    fn create(&self, path: &Path) -> Result<Box<dyn StoreFile>> {
        self.times.write(|| self.inner.create(path)).map(|file| self.file(file))
    }

    fn upload(&self, path: &Path, patchable: bool) -> Result<Option<Box<dyn StoreFile>>> {
        let file = self.times.write(|| self.inner.upload(path, patchable))?;
        Ok(file.map(|file| self.file(file)))
    }

    fn abort_uploads(&self, dir: &Path) -> Result<u64> {
        self.inner.abort_uploads(dir)
    }

    fn sync_file(&self, path: &Path) -> Result<()> {
        self.times.write(|| self.inner.sync_file(path))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.times.write(|| self.inner.rename(from, to))
    }

    fn rename_new(&self, from: &Path, to: &Path) -> Result<()> {
        self.times.write(|| self.inner.rename_new(from, to))
    }

    fn refuse_taken(&self, path: &Path) -> Result<()> {
        self.inner.refuse_taken(path)
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        self.times.write(|| self.inner.sync_dir(dir))
    }

    fn create_dir(&self, dir: &Path) -> Result<()> {
        self.inner.create_dir(dir)
    }

    fn remove(&self, path: &Path) -> Result<()> {
        self.inner.remove(path)
    }

    fn remove_dir(&self, dir: &Path) -> Result<()> {
        self.inner.remove_dir(dir)
    }

    fn lock(&self, dir: &Path) -> Result<Option<Box<dyn Any + Send>>> {
        self.inner.lock(dir)
    }

    fn beneath(&self, root: &Path) -> Result<Option<Arc<dyn Store>>> {
        let beneath = self.inner.beneath(root)?;
        let timed = |inner| Arc::new(Self { inner, times: Arc::clone(&self.times) }) as Arc<dyn Store>;
        Ok(beneath.map(timed))
    }
}

struct TimedInput {
    inner: Box<dyn Input>,
    path: PathBuf,
    times: Arc<StoreTimes>,
}

impl Input for TimedInput {
    packhorse_core::forward_input!(inner: name len stat pinned local_path);

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.times.read(|| self.inner.read_at(offset, buf))
    }

    fn stream(&self) -> Result<Box<dyn Read + Send + '_>> {
        Ok(Box::new(TimedStream { inner: self.inner.stream()?, times: &self.times }))
    }

    fn sibling(&self, name: &str) -> Result<Option<Box<dyn Input>>> {
        let Some(inner) = self.times.read(|| self.inner.sibling(name))? else { return Ok(None) };
        let path = self.path.with_file_name(name);
        self.times.opens(&path);
        Ok(Some(Box::new(Self { inner, path, times: Arc::clone(&self.times) })))
    }
}

struct TimedStream<'a> {
    inner: Box<dyn Read + Send + 'a>,
    times: &'a StoreTimes,
}

impl Read for TimedStream<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.times.read(|| self.inner.read(buf))
    }
}

struct TimedFile {
    inner: Box<dyn StoreFile>,
    times: Arc<StoreTimes>,
}

impl Write for TimedFile {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.times.write(|| self.inner.write(buf))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.times.write(|| self.inner.flush())
    }
}

impl StoreFile for TimedFile {
    fn write_head(&mut self, head: &[u8]) -> Result<()> {
        self.times.write(|| self.inner.write_head(head))
    }

    fn sync_and_close(self: Box<Self>) -> Result<()> {
        let Self { inner, times } = *self;
        times.write(|| inner.sync_and_close())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use packhorse_storage::Local;

    #[test]
    fn reads_and_writes_are_timed_and_what_was_opened_is_noted() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("made");
        let times = Arc::new(StoreTimes::default());
        let store = TimedStore { inner: Arc::new(Local), times: Arc::clone(&times) };
        store.create_dir(&dir).unwrap();
        let path = dir.join("x");
        let mut file = store.create(&path).unwrap();
        file.write_all(&[7; 1 << 20]).unwrap();
        file.sync_and_close().unwrap();
        let (reading, writing) = times.take();
        assert!(reading.is_zero() && !writing.is_zero());
        times.note();
        let mut found = [0; 3];
        store.open(&path).unwrap().read_at(5, &mut found).unwrap();
        assert_eq!((found, times.noted().into_iter().collect::<Vec<_>>()), ([7; 3], vec![path]));
        let (reading, writing) = times.take();
        assert!(!reading.is_zero() && writing.is_zero());
    }
}
