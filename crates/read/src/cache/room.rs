//! Makes space in a folder of copies by evicting the least recently used.

use super::folder::{LOCK, LOOK, STAGING, USERS};
use packhorse_core::{Error, Result};
use packhorse_storage::Lock;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The prefix of the names of datasets' folders.
pub(super) const PREFIX: &str = "packhorse-";

/// The lock that is held while copies are counted and removed.
pub(super) const COUNTING: &str = ".packhorse.lock";

/// Makes space for `bytes` among the copies of all datasets below `root`, so that the total is at most `limit`, and
/// reserves it by the file of `lock`, which counts for the bytes until it is dropped. False if copies in use leave too
/// little space.
pub(super) fn make(root: &Path, limit: u64, bytes: u64, lock: &Lock) -> Result<bool> {
    if bytes > limit {
        return Ok(false);
    }
    let counting = root.join(COUNTING);
    let _counting = loop {
        match Lock::make(&counting)? {
            Some(lock) => break lock,
            None => std::thread::sleep(LOOK),
        }
    };
    let mut found = Found::default();
    for (name, path, meta) in entries(root) {
        if meta.is_dir() && name.starts_with(PREFIX) {
            found.dataset(&path);
        }
    }
    found.copies.sort_unstable();
    let mut copies = found.copies.iter();
    while found.used.saturating_add(bytes) > limit {
        let Some(copy) = copies.next() else { return Ok(false) };
        if evict(&copy.path)? {
            found.used = found.used.saturating_sub(copy.bytes);
        }
    }
    // The file is sparse: its length counts.
    lock.file().set_len(bytes).map_err(|e| Error::io("write", e).in_input(root.display()))?;
    Ok(true)
}

/// Removes an unused copy.
fn evict(path: &Path) -> Result<bool> {
    match Lock::take(path)? {
        // If another process removed it first, its space is free as well.
        None => Ok(!path.exists()),
        Some(_lock) => Ok(std::fs::remove_file(path).is_ok()),
    }
}

#[derive(Default)]
struct Found {
    used: u64,
    copies: Vec<Copy>,
}

/// A copy, ordered by eviction.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Copy {
    /// The time of its last use: seconds and nanoseconds.
    used: (i64, i64),
    path: PathBuf,
    bytes: u64,
}

impl Found {
    /// Counts the copies in the folder of a dataset.
    fn dataset(&mut self, dir: &Path) {
        // Reservations first: a copy that is published meanwhile then counts twice rather than not at all.
        self.reserved(&dir.join(STAGING));
        self.look(dir, 0);
    }

    fn look(&mut self, dir: &Path, depth: usize) {
        const DEEPEST: usize = 32;
        for (name, path, meta) in entries(dir) {
            let ours = depth == 0 && (name == STAGING || name == USERS);
            if meta.is_dir() && !ours && depth < DEEPEST {
                self.look(&path, depth + 1);
            } else if meta.is_file() && !ours {
                self.used = self.used.saturating_add(meta.len());
                self.copies.push(Copy { used: (meta.atime(), meta.atime_nsec()), path, bytes: meta.len() });
            }
        }
    }

    /// Copies in progress count with their final length.
    fn reserved(&mut self, staging: &Path) {
        for (_, path, meta) in entries(staging).filter(|(name, _, meta)| meta.is_file() && name.starts_with(LOCK)) {
            match Lock::take(&path) {
                // Of a process that was killed.
                Ok(Some(_lock)) => drop(std::fs::remove_file(&path)),
                _ => self.used = self.used.saturating_add(meta.len()),
            }
        }
    }
}

/// The entries of a folder. Those that can't be read have been removed.
fn entries(dir: &Path) -> impl Iterator<Item = (String, PathBuf, Metadata)> {
    std::fs::read_dir(dir).into_iter().flatten().flatten().filter_map(|entry| {
        let meta = entry.metadata().ok()?;
        Some((entry.file_name().to_string_lossy().into_owned(), entry.path(), meta))
    })
}
