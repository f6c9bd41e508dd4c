//! A store whose calls fail on demand.

use super::power::beside;
use packhorse_core::{Error, FileStat, Input, Result, Store, StoreFile};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The kind of a store call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallKind {
    /// Lists a folder.
    List,
    /// Stats a file.
    Stat,
    /// Opens a file for reading.
    Open,
    /// Reads from an open file.
    Read,
    /// Creates a file.
    Create,
    /// Writes to a created file.
    Write,
    /// Syncs and closes a file.
    Sync,
    /// Renames; the path is the target.
    Rename,
    /// Syncs a folder.
    SyncDir,
    /// Creates a folder.
    CreateDir,
    /// Removes a file or an empty folder.
    Remove,
}

impl CallKind {
    /// Whether a failure must fail the caller: listing, stat and removing may fail without harm.
    pub fn matters(self) -> bool {
        !matches!(self, CallKind::List | CallKind::Stat | CallKind::Remove)
    }
}

/// One call to the store.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// Its kind.
    pub kind: CallKind,
    /// The file concerned.
    pub path: &'a Path,
    /// The number of earlier calls.
    pub number: u64,
}

/// The injected fault.
pub enum StoreFault {
    /// The call fails with this error number and has no effect.
    Errno(i32),
    /// A listing lacks its last name; other calls are unaffected.
    ShortList,
    /// Runs this just before the call, as a concurrent process would.
    Meanwhile(Box<dyn Fn() + Send + Sync>),
}

type Rule = (Box<dyn Fn(&Call<'_>) -> bool + Send + Sync>, StoreFault);

/// Wraps a store: counts calls and injects faults into chosen ones.
#[derive(Clone)]
pub struct FailingStore {
    inner: Arc<dyn Store>,
    shared: Arc<Shared>,
}

struct Shared {
    rules: Vec<Rule>,
    calls: AtomicU64,
    hit: Mutex<Vec<(CallKind, PathBuf)>>,
}

impl FailingStore {
    /// Wraps `inner`; `chosen` selects the calls that get the fault.
    pub fn new(
        inner: Arc<dyn Store>,
        chosen: impl Fn(&Call<'_>) -> bool + Send + Sync + 'static,
        fault: StoreFault,
    ) -> Self {
        let rules: Vec<Rule> = vec![(Box::new(chosen), fault)];
        Self { inner, shared: Arc::new(Shared { rules, calls: AtomicU64::new(0), hit: Mutex::default() }) }
    }

    /// Wraps `inner` and only counts.
    pub fn counting(inner: Arc<dyn Store>) -> Self {
        Self::new(inner, |_| false, StoreFault::ShortList)
    }

    /// Number of calls so far.
    pub fn calls(&self) -> u64 {
        self.shared.calls.load(Ordering::SeqCst)
    }

    /// The calls that got the fault.
    pub fn hit(&self) -> Vec<(CallKind, PathBuf)> {
        self.shared.hit.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Counts a call and injects the fault; `true` asks for a short listing.
    fn call(&self, kind: CallKind, path: &Path) -> Result<bool> {
        let call = Call { kind, path, number: self.shared.calls.fetch_add(1, Ordering::SeqCst) };
        for (_, fault) in self.shared.rules.iter().filter(|(chosen, _)| chosen(&call)) {
            self.shared.hit.lock().unwrap_or_else(PoisonError::into_inner).push((kind, path.to_owned()));
            match fault {
                StoreFault::Errno(errno) => {
                    let action = format!("{kind:?}").to_lowercase();
                    return Err(Error::io(&action, io::Error::from_raw_os_error(*errno)).in_input(path.display()));
                }
                StoreFault::ShortList => return Ok(true),
                StoreFault::Meanwhile(work) => work(),
            }
        }
        Ok(false)
    }
}

impl Store for FailingStore {
    fn list(&self, dir: &Path) -> Result<Vec<PathBuf>> {
        let short = self.call(CallKind::List, dir)?;
        let mut names = self.inner.list(dir)?;
        names.truncate(names.len() - usize::from(short && !names.is_empty()));
        Ok(names)
    }

    fn stat(&self, path: &Path, follow: bool) -> Result<FileStat> {
        self.call(CallKind::Stat, path)?;
        self.inner.stat(path, follow)
    }

    fn open(&self, path: &Path) -> Result<Box<dyn Input>> {
        self.call(CallKind::Open, path)?;
        Ok(Box::new(FailingInput { store: self.clone(), input: self.inner.open(path)?, path: path.to_owned() }))
    }

    fn create(&self, path: &Path) -> Result<Box<dyn StoreFile>> {
        self.call(CallKind::Create, path)?;
        Ok(Box::new(FailingFile { store: self.clone(), file: self.inner.create(path)?, path: path.to_owned() }))
    }

    fn sync_file(&self, path: &Path) -> Result<()> {
        self.call(CallKind::Sync, path)?;
        self.inner.sync_file(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.call(CallKind::Rename, to)?;
        self.inner.rename(from, to)
    }

    fn rename_new(&self, from: &Path, to: &Path) -> Result<()> {
        self.call(CallKind::Rename, to)?;
        self.inner.rename_new(from, to)
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        self.call(CallKind::SyncDir, dir)?;
        self.inner.sync_dir(dir)
    }

    fn create_dir(&self, dir: &Path) -> Result<()> {
        self.call(CallKind::CreateDir, dir)?;
        self.inner.create_dir(dir)
    }

    fn remove(&self, path: &Path) -> Result<()> {
        self.call(CallKind::Remove, path)?;
        self.inner.remove(path)
    }

    fn remove_dir(&self, dir: &Path) -> Result<()> {
        self.call(CallKind::Remove, dir)?;
        self.inner.remove_dir(dir)
    }

    fn beneath(&self, root: &Path) -> Result<Option<Arc<dyn Store>>> {
        let shared = &self.shared;
        let wrap = |inner| Arc::new(Self { inner, shared: Arc::clone(shared) }) as Arc<dyn Store>;
        Ok(self.inner.beneath(root)?.map(wrap))
    }
}

struct FailingInput {
    store: FailingStore,
    input: Box<dyn Input>,
    path: PathBuf,
}

impl Input for FailingInput {
    packhorse_core::forward_input!(input: name len stat local_path);

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.store.call(CallKind::Read, &self.path)?;
        self.input.read_at(offset, buf)
    }

    fn stream(&self) -> Result<Box<dyn Read + Send + '_>> {
        self.store.call(CallKind::Read, &self.path)?;
        self.input.stream()
    }

    fn sibling(&self, name: &str) -> Result<Option<Box<dyn Input>>> {
        beside(&self.store, &self.path, name)
    }
}

struct FailingFile {
    store: FailingStore,
    file: Box<dyn StoreFile>,
    path: PathBuf,
}

impl Write for FailingFile {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.store.call(CallKind::Write, &self.path)?;
        self.file.write(buf)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl StoreFile for FailingFile {
    fn write_head(&mut self, head: &[u8]) -> Result<()> {
        self.store.call(CallKind::Write, &self.path)?;
        self.file.write_head(head)
    }

    fn sync_and_close(self: Box<Self>) -> Result<()> {
        self.store.call(CallKind::Sync, &self.path)?;
        self.file.sync_and_close()
    }
}
