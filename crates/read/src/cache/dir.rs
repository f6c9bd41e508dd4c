//! A cache of whole files in a local folder, shared by the processes of a machine.

use super::copy::Trouble;
use super::folder::{Fetch, Folder, LOOK, USERS};
use super::held::Held;
use super::room::{self, PREFIX};
use super::share::Share;
use super::staged::{self, Owner};
use super::{CacheFile, CacheSource, DirOptions};
use packhorse_core::{Cancel, Context, Error, Event, Input, Kind, Observer, Result};
use packhorse_dataset::MANIFEST;
use packhorse_storage::Lock;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

/// Copies of a dataset's files in a local folder.
///
/// ```text
/// DIR/packhorse-0123456789abcdef/     the first 16 digits of the dataset's digest
///     train-000000.tar                as in the dataset; used last at its time of access
///     .staging/HOST,PID,…/            copies in progress
///     .staging/lock,…                 who copies what
///     .users                          shared by those who have the cache open
/// DIR/train-000000.tar                instead, where `packhorse stage` put this dataset into DIR itself
/// ```
///
/// A copy gets its name when it is complete, synced and verified, so a process may end at any moment. An error of the
/// folder's file system ends the filling with one warning; reading continues from the source.
pub(crate) struct DirCache {
    folder: Folder,
    options: DirOptions,
    share: Share,
    /// Whether copies may be evicted; staged ones may not.
    ours: bool,
    users: Option<Lock>,
    observer: Arc<dyn Observer>,
    stopped: AtomicBool,
}

/// The result of requesting a copy.
enum Outcome {
    Here(Box<Held>),
    /// Another process is copying it.
    Busy,
    /// There is no space for it.
    None,
}

impl DirCache {
    /// Opens the cache of the dataset `source` in a folder. Removes leftovers of processes that have ended.
    ///
    /// Errors: an invalid fraction, a folder that is another dataset or the source itself (kind `Config`); a folder
    /// that can't be created. A read-only folder is reported to `observer` and used without adding copies.
    pub(crate) fn open(source: CacheSource, options: DirOptions, observer: Arc<dyn Observer>) -> Result<Self> {
        let share = Share::new(options.fraction)?;
        let staged = is_staged(&source, &options.dir)?;
        let digits: String = source.dataset.to_string().chars().take(16).collect();
        let dir = if staged { options.dir.clone() } else { options.dir.join(format!("{PREFIX}{digits}")) };
        let stopped = AtomicBool::new(false);
        let folder = Folder::new(dir, source);
        let mut cache = Self { folder, options, share, ours: !staged, users: None, observer, stopped };
        match cache.enter() {
            Err(e) if e.is_full() || cache.dir().is_dir() => cache.stop(&e),
            done => done?,
        }
        Ok(cache)
    }

    fn enter(&mut self) -> Result<()> {
        self.folder.sweep();
        if !self.ours {
            return Ok(());
        }
        let path = self.dir().join(USERS);
        while self.users.is_none() {
            std::fs::create_dir_all(self.dir())
                .context("create a folder for the cache")
                .map_err(|e| e.in_input(self.dir().display()))?;
            std::fs::File::options().create(true).append(true).open(&path).context("create")?;
            // Another process may be removing the folder.
            self.users = Lock::share(&path)?;
            if self.users.is_none() {
                std::thread::sleep(LOOK);
            }
        }
        Ok(())
    }

    /// The folder of this dataset's copies.
    pub(crate) fn dir(&self) -> &Path {
        self.folder.dir()
    }

    /// Whether the file is in the part to cache.
    pub(crate) fn wants(&self, file: &CacheFile) -> bool {
        self.share.has_name(file.stem())
    }

    /// The copy of a file, if it exists. It is not evicted while the result is open.
    #[cfg(test)]
    pub(crate) fn present(&self, file: &CacheFile) -> Result<Option<Box<dyn Input>>> {
        let held = self.folder.find(file)?.inspect(|held| used(held.input.file()));
        Ok(held.map(|held| Box::new(held) as Box<dyn Input>))
    }

    /// The copy of a file, made now if needed. With `None` the caller reads the original: the file is not in the part
    /// to cache, there is no space, or another process is copying it and the options say not to wait.
    ///
    /// Errors: the original differs from the manifest (`Content`), or can't be read.
    #[cfg(test)]
    pub(crate) fn file(&self, file: &CacheFile) -> Result<Option<Box<dyn Input>>> {
        self.file_or_busy(file).map(|(copy, _)| copy)
    }

    /// The same, and whether another process is copying the file, which then is there soon.
    pub(crate) fn file_or_busy(&self, file: &CacheFile) -> Result<(Option<Box<dyn Input>>, bool)> {
        Ok(match self.have(file)? {
            Outcome::Here(held) => (Some(held), false),
            Outcome::Busy => (None, true),
            Outcome::None => (None, false),
        })
    }

    fn have(&self, file: &CacheFile) -> Result<Outcome> {
        if let Some(held) = self.folder.find(file)? {
            used(held.input.file());
            return Ok(Outcome::Here(Box::new(held)));
        }
        if !self.wants(file) {
            return Ok(Outcome::None);
        }
        while !self.stopped.load(Ordering::Relaxed) {
            match self.make(file) {
                Ok(Outcome::Busy) if self.options.wait => std::thread::sleep(LOOK),
                Ok(outcome) => return Ok(outcome),
                Err(Trouble::There(e)) => return Err(e),
                Err(Trouble::Here(e)) if e.kind() == Kind::Bug => return Err(e),
                Err(Trouble::Here(e)) => self.stop(&e),
            }
        }
        Ok(Outcome::None)
    }

    fn make(&self, file: &CacheFile) -> Result<Outcome, Trouble> {
        let Some(lock) = self.folder.lock(file).map_err(Trouble::Here)? else { return Ok(Outcome::Busy) };
        // The previous holder of the lock has made it.
        if let Some(held) = self.folder.find(file).map_err(Trouble::Here)? {
            return Ok(Outcome::Here(Box::new(held)));
        }
        if let Some(limit) = self.options.limit.filter(|_| self.ours)
            && !room::make(&self.options.dir, limit, file.bytes, &lock).map_err(Trouble::Here)?
        {
            return Ok(Outcome::None);
        }
        self.folder.fetch(file, &Fetch { reads: self.options.reads, cancel: &Cancel::default(), each: &|_| {} })?;
        let held = self.folder.find(file).map_err(Trouble::Here)?;
        Ok(held.map_or(Outcome::None, |held| Outcome::Here(Box::new(held))))
    }

    /// Stops copying, with one warning.
    fn stop(&self, error: &Error) {
        if !self.stopped.swap(true, Ordering::Relaxed) {
            let dir = self.dir().display();
            let text = format!("the cache {dir} is not filled any further, reading goes on without: {error}");
            self.observer.event(&Event::Warning(&text));
        }
    }
}

impl Drop for DirCache {
    fn drop(&mut self) {
        let Some(users) = self.users.take() else { return };
        drop(users);
        if self.options.remove {
            // The last process that uses the cache removes it.
            if let Ok(Some(_alone)) = Lock::take(&self.dir().join(USERS)) {
                let _ = std::fs::remove_dir_all(self.dir());
            }
        }
    }
}

/// Whether the shards of `source` are staged in `dir` itself.
fn is_staged(source: &CacheSource, dir: &Path) -> Result<bool> {
    let refused = |what: String| Err(Error::config(what).in_input(dir.display()));
    // Unknown files would be damage to a sealed dataset.
    if source.holds(dir) && source.store.stat(&source.root.join(MANIFEST), true).is_ok() {
        return refused("is the dataset itself, or in it; give the cache another folder".to_owned());
    }
    match staged::owner(dir)? {
        Owner::Marked(found) | Owner::Sealed(found) if found == source.dataset => Ok(true),
        Owner::Sealed(other) => refused(format!("is another dataset ({other}); give the cache another folder")),
        Owner::Unknown | Owner::Marked(_) => Ok(false),
    }
}

/// Records the use of a copy in its access time, since file systems may not do so on reads.
fn used(file: &File) {
    let times = std::fs::FileTimes::new().set_accessed(SystemTime::now());
    // The times of other users' copies can't be set.
    let _ = file.set_times(times);
}

#[cfg(test)]
mod tests;
