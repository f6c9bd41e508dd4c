//! The folder of the copies of one dataset's files.

use super::copy::{Trouble, copy};
use super::held::{self, Held};
use super::{CacheFile, CacheSource, Check};
use packhorse_core::{Cancel, Error, FileKind, Input, Kind, Outlet, Result, Store};
use packhorse_dataset::Digest;
use packhorse_storage::{Local, Lock, Published, Staging};
use std::fs::{File, FileTimes};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

/// The file that identifies the dataset of the copies, in a folder without a manifest.
pub(super) use packhorse_dataset::CACHE_MARK as MARK;

/// The lock file that all users of a cache share.
pub(super) const USERS: &str = ".users";

/// The folder of incomplete copies and of the locks of their writers.
pub(super) const STAGING: &str = ".staging";

/// The prefix of the names of those locks.
pub(super) const LOCK: &str = "lock,";

/// The polling interval of a waiting process.
pub(super) const LOOK: Duration = Duration::from_millis(20);

/// Copies under the names of the originals, each complete or absent. A copy in progress has another name, in
/// `.staging`, next to its lock.
pub(super) struct Folder {
    dir: PathBuf,
    source: CacheSource,
    staging: Mutex<Option<Arc<Staging>>>,
}

/// How a file is copied.
pub(super) struct Fetch<'a> {
    /// Concurrent reads.
    pub(super) reads: usize,
    pub(super) cancel: &'a Cancel,
    /// Called with the number of bytes just written.
    pub(super) each: &'a (dyn Fn(u64) + Sync),
}

impl Folder {
    /// Does not access the folder yet.
    pub(super) fn new(dir: PathBuf, source: CacheSource) -> Self {
        Self { dir, source, staging: Mutex::default() }
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(super) fn source(&self) -> &CacheSource {
        &self.source
    }

    /// Removes leftovers of processes that have ended.
    pub(super) fn sweep(&self) {
        let staging = self.dir.join(STAGING);
        for name in Local.list(&staging).unwrap_or_default() {
            if name.to_string_lossy().starts_with(LOCK) {
                let path = staging.join(name);
                if let Ok(Some(_lock)) = Lock::take(&path) {
                    let _ = Local.remove(&path);
                }
            }
        }
        Staging::sweep(&Local, &self.dir, false);
    }

    /// The copy of `file`, if it exists.
    pub(super) fn find(&self, file: &CacheFile) -> Result<Option<Held>> {
        file.check_name()?;
        let Some(held) = held::open(&self.dir.join(&file.name), &self.source, &file.name)? else { return Ok(None) };
        let Some(stat) = held.stat()? else { return Ok(None) };
        let right = match file.check {
            Check::Digest(_) => true,
            Check::Modified(mtime) => stat.mtime == mtime,
        };
        Ok((stat.kind == FileKind::File && stat.size == file.bytes && right).then_some(held))
    }

    /// The lock for making the copy of `file`; `None` if another process holds it.
    pub(super) fn lock(&self, file: &CacheFile) -> Result<Option<Lock>> {
        // Creates the folder of the lock.
        self.staging()?;
        Lock::make(&self.dir.join(STAGING).join(format!("{LOCK}{}", Digest::of(file.name.as_bytes()))))
    }

    /// Makes the copy of `file`. Retries once after a wrong digest, which may be an error of the transfer.
    pub(super) fn fetch(&self, file: &CacheFile, how: &Fetch<'_>) -> Result<(), Trouble> {
        match self.try_fetch(file, how) {
            Err(Trouble::There(e)) if e.kind() == Kind::Content => {
                self.try_fetch(file, &Fetch { each: &|_| {}, ..*how })
            }
            other => other,
        }
    }

    fn try_fetch(&self, file: &CacheFile, how: &Fetch<'_>) -> Result<(), Trouble> {
        let path = self.source.root.join(&file.name);
        let named = |e: Error| e.in_input(path.display());
        let input = self.source.store.open(&path).map_err(|e| Trouble::There(named(e)))?;
        let mut stage = self.staging().and_then(|staging| staging.stage(&file.name)).map_err(Trouble::Here)?;
        let mut out = stage.stream("").map_err(Trouble::Here)?;
        copy(&*input, file.bytes, how.reads, &mut *out, how.cancel, how.each)?;
        drop(out);
        let published = stage.publish_if(|files| self.check(file, files, &*input).map_err(named));
        published.map_err(|e| match e.kind() {
            Kind::Content | Kind::Changed => Trouble::There(e),
            _ => Trouble::Here(e),
        })?;
        if let Check::Modified(mtime) = file.check {
            self.stamp(file, mtime).map_err(Trouble::Here)?;
        }
        Ok(())
    }

    /// Checks that the copy is the requested file.
    fn check(&self, file: &CacheFile, copies: &[Published], original: &dyn Input) -> Result<()> {
        match file.check {
            Check::Digest(digest) if copies.iter().any(|copy| Digest::from(copy.blake3) != digest) => {
                Err(Error::content("its bytes do not have the recorded digest"))
            }
            Check::Modified(mtime) if original.stat()?.is_some_and(|stat| self.source.stamp(&stat) != mtime) => {
                Err(Error::new(Kind::Changed, "was modified while it was copied; run the same command again"))
            }
            _ => Ok(()),
        }
    }

    /// Sets the copy's modification time to that of the original; until then it counts as outdated.
    fn stamp(&self, file: &CacheFile, mtime: i64) -> Result<()> {
        let path = self.dir.join(&file.name);
        let since = Duration::from_nanos(mtime.unsigned_abs());
        let epoch = SystemTime::UNIX_EPOCH;
        let time = if mtime < 0 { epoch.checked_sub(since) } else { epoch.checked_add(since) };
        let times = FileTimes::new().set_modified(time.unwrap_or(epoch));
        let stamped = File::open(&path).and_then(|file| file.set_times(times));
        stamped.map_err(|e| Error::io("set the time of modification", e).in_input(path.display()))
    }

    /// The folder of this process for incomplete copies.
    pub(super) fn staging(&self) -> Result<Arc<Staging>> {
        let mut staging = self.staging.lock().unwrap_or_else(PoisonError::into_inner);
        match &*staging {
            Some(staging) => Ok(Arc::clone(staging)),
            None => Ok(Arc::clone(staging.insert(Arc::new(Staging::open(Arc::new(Local), &self.dir)?)))),
        }
    }
}
