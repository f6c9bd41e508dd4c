//! Locks between processes of one machine: flock(2), which ends with its process, however that ends.

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use packhorse_core::{Error, Result};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// A lock on a file, until it is dropped. It binds those who ask for it, and nobody else. Where the file system has no
/// locks everybody gets one.
#[derive(Debug)]
pub struct Lock {
    file: Open,
    remove: Option<PathBuf>,
}

#[derive(Debug)]
enum Open {
    Locked(Flock<File>),
    /// On a file system without locks.
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
    /// A lock that many may have, on a file that is there. `None` if it is not, or if somebody has it alone.
    pub fn share(path: &Path) -> Result<Option<Self>> {
        Self::existing(path, FlockArg::LockSharedNonblock)
    }

    /// A lock that nobody else has, on a file that is there. `None` if it is not, or if somebody has one.
    pub fn take(path: &Path) -> Result<Option<Self>> {
        Self::existing(path, FlockArg::LockExclusiveNonblock)
    }

    /// A lock that nobody else has, on a file that is made for it and removed when this is dropped. `None` if somebody
    /// has it.
    pub fn make(path: &Path) -> Result<Option<Self>> {
        loop {
            // A cache sets the length of its locks: a link must not aim that at another file.
            let flags = libc::O_NOFOLLOW;
            let file = OpenOptions::new().write(true).create(true).truncate(false).custom_flags(flags).open(path);
            let file = file.map_err(|e| about("create", path, e))?;
            match lock(file, path, FlockArg::LockExclusiveNonblock)? {
                // Whoever had it may have removed the file after it was opened here: then this locks nothing.
                Some(file) if !is_at(file.file(), path) => {}
                found => return Ok(found.map(|file| Self { file, remove: Some(path.to_owned()) })),
            }
        }
    }

    fn existing(path: &Path, how: FlockArg) -> Result<Option<Self>> {
        let file = match File::open(path) {
            Ok(file) => file,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(about("open", path, e)),
        };
        let file = lock(file, path, how)?.filter(|file| is_at(file.file(), path));
        Ok(file.map(|file| Self { file, remove: None }))
    }

    /// The file.
    pub fn file(&self) -> &File {
        self.file.file()
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        if let Some(path) = self.remove.take() {
            // As long as it is locked: nobody else can have it meanwhile.
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

/// Whether this is the file of that name.
fn is_at(file: &File, path: &Path) -> bool {
    let id = |meta: std::fs::Metadata| (meta.dev(), meta.ino());
    match (file.metadata(), std::fs::metadata(path)) {
        (Ok(open), Ok(named)) => id(open) == id(named),
        _ => false,
    }
}

fn about(action: &str, path: &Path, error: std::io::Error) -> Error {
    Error::io(action, error).in_input(path.display())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn many_share_or_one_has_it() {
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

    /// A lock whose file comes and goes is still had by one at a time.
    #[test]
    fn a_made_lock_is_had_by_one() {
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
