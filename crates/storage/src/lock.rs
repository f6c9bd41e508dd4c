//! File locks between processes of one machine: flock(2), which the kernel releases when the process ends.

use crate::local::about;
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use packhorse_core::Result;
use std::borrow::Borrow;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// A lock on a file, held until dropped. Advisory: it binds only processes that use it. On a file system without
/// locks every request succeeds.
#[derive(Debug)]
pub struct Lock {
    file: Open,
    remove: Option<PathBuf>,
}

#[derive(Debug)]
enum Open {
    Locked(Flock<File>),
    /// The file system has no locks.
    Plain(File),
}

impl Open {
    fn file(&self) -> &File {
        match self {
            Open::Locked(file) => file,
            Open::Plain(file) => file,
        }
    }
}

impl Lock {
    /// A shared lock on an existing file. `None` if the file is missing or exclusively locked.
    pub fn share(path: &Path) -> Result<Option<Self>> {
        Self::existing(path, FlockArg::LockSharedNonblock)
    }

    /// An exclusive lock on an existing file. `None` if the file is missing or locked.
    pub fn take(path: &Path) -> Result<Option<Self>> {
        Self::existing(path, FlockArg::LockExclusiveNonblock)
    }

    /// An exclusive lock on a lock file, created if missing and removed on drop. `None` if it is locked.
    pub fn make(path: &Path) -> Result<Option<Self>> {
        loop {
            // A cache truncates its lock files: a link must not redirect that to another file.
            let flags = libc::O_NOFOLLOW;
            let file = OpenOptions::new().write(true).create(true).truncate(false).custom_flags(flags).open(path);
            let file = file.map_err(|e| about("create", path, e))?;
            match lock(file, path, FlockArg::LockExclusiveNonblock)? {
                // The previous holder may have removed the file after it was opened here: then this locks nothing.
                Some(file) if !is_at(file.file(), path) => {}
                found => return Ok(found.map(|file| Self { file, remove: Some(path.to_owned()) })),
            }
        }
    }

    fn existing(path: &Path, how: FlockArg) -> Result<Option<Self>> {
        // NFS takes an exclusive lock only on a file that is open for writing.
        let writable = || OpenOptions::new().read(true).write(true).open(path).ok();
        let exclusive = matches!(how, FlockArg::LockExclusive | FlockArg::LockExclusiveNonblock);
        let file = match exclusive.then(writable).flatten().map_or_else(|| File::open(path), Ok) {
            Ok(file) => file,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(about("open", path, e)),
        };
        let file = lock(file, path, how)?.filter(|file| is_at(file.file(), path));
        Ok(file.map(|file| Self { file, remove: None }))
    }

    /// The locked file.
    pub fn file(&self) -> &File {
        self.file.file()
    }
}

impl Borrow<File> for Lock {
    fn borrow(&self) -> &File {
        self.file()
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        if let Some(path) = self.remove.take() {
            // Removed while still locked, so that no other process can hold it.
            let _ = std::fs::remove_file(path);
        }
    }
}

fn lock(file: File, path: &Path, how: FlockArg) -> Result<Option<Open>> {
    let mut file = file;
    loop {
        match Flock::lock(file, how) {
            Ok(file) => return Ok(Some(Open::Locked(file))),
            Err((_, Errno::EWOULDBLOCK)) => return Ok(None),
            Err((back, Errno::EINTR)) => file = back,
            Err((file, Errno::ENOSYS | Errno::EOPNOTSUPP | Errno::ENOLCK)) => return Ok(Some(Open::Plain(file))),
            Err((_, errno)) => return Err(about("lock", path, errno.into())),
        }
    }
}

/// Whether `path` still names this file.
fn is_at(file: &File, path: &Path) -> bool {
    let id = |meta: std::fs::Metadata| (meta.dev(), meta.ino());
    match (file.metadata(), std::fs::metadata(path)) {
        (Ok(open), Ok(named)) => id(open) == id(named),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn locks_are_shared_or_exclusive() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        assert!(Lock::share(&path).unwrap().is_none() && Lock::take(&path).unwrap().is_none());
        std::fs::write(&path, b"x").unwrap();
        let (a, b) = (Lock::share(&path).unwrap(), Lock::share(&path).unwrap());
        assert!(a.is_some() && b.is_some() && Lock::take(&path).unwrap().is_none());
        drop(a);
        assert!(Lock::take(&path).unwrap().is_none());
        drop(b);
        let alone = Lock::take(&path).unwrap();
        assert!(alone.is_some() && Lock::share(&path).unwrap().is_none());
        drop(alone);
        assert!(path.exists());
    }

    /// A lock file that comes and goes still admits one holder at a time.
    #[test]
    fn a_lock_file_has_one_holder() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let (inside, had) = (AtomicU32::new(0), AtomicU32::new(0));
        std::thread::scope(|threads| {
            for _ in 0..4 {
                threads.spawn(|| {
                    while had.load(Ordering::SeqCst) < 500 {
                        let Some(_lock) = Lock::make(&path).unwrap() else { continue };
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                        had.fetch_add(1, Ordering::SeqCst);
                        inside.fetch_sub(1, Ordering::SeqCst);
                    }
                });
            }
        });
        assert!(!path.exists());
    }
}
