//! A folder of test files that does not outlive its measurement.

use packhorse_core::{Context, Error, Kind, Result};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// A folder that is removed with all that it holds when it is dropped.
#[derive(Debug)]
pub struct TestFolder(PathBuf);

/// Folders of this process.
static MADE: AtomicU64 = AtomicU64::new(0);

impl TestFolder {
    /// A new folder in `dir`, `.NAME-…`, if the file system has room for `bytes`.
    ///
    /// Errors: `Config` where `dir` is a file; `Environment` where it is missing, full or may not be written to.
    pub fn new(dir: &Path, name: &str, bytes: u64) -> Result<Self> {
        let named = |error: Error| error.in_input(dir.display());
        let is_dir = std::fs::metadata(dir).context("look at the folder").map_err(named)?.is_dir();
        if !is_dir {
            return Err(named(Error::config("is not a folder")));
        }
        refuse_full(dir, bytes).map_err(named)?;
        loop {
            let number = MADE.fetch_add(1, Ordering::Relaxed);
            let path = dir.join(format!(".{name}-{}-{number}", std::process::id()));
            match std::fs::create_dir(&path) {
                Ok(()) => return Ok(Self(path)),
                // Of a process with the same number, on another machine or before.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(named(Error::io("create a folder for test files", error))),
            }
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TestFolder {
    fn drop(&mut self) {
        // What can't be removed stays visible by its name.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn refuse_full(dir: &Path, bytes: u64) -> Result<()> {
    let found = nix::sys::statvfs::statvfs(dir).map_err(|e| Error::io("ask for free space", e.into()))?;
    let free = (found.blocks_available() as u64).saturating_mul(found.fragment_size() as u64);
    // Some network file systems do not say how large they are.
    if found.blocks() == 0 || free >= bytes {
        return Ok(());
    }
    let mb = |bytes: u64| bytes as f64 / 1e6;
    let text = format!("has {:.1} MB of free space, and the test files take {:.1} MB", mb(free), mb(bytes));
    let code = packhorse_core::Code::NoSpace;
    Err(Error::new(Kind::Environment, text).with_code(code).hint("take a smaller `size`, or another folder"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_goes_with_its_files() {
        let dir = tempfile::tempdir().unwrap();
        let folder = TestFolder::new(dir.path(), "test", 1000).unwrap();
        std::fs::write(folder.path().join("x"), "x").unwrap();
        let other = TestFolder::new(dir.path(), "test", 1000).unwrap();
        assert_ne!(folder.path(), other.path());
        drop((folder, other));
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_folder_that_was_left_behind_stays() {
        let dir = tempfile::tempdir().unwrap();
        let next = MADE.load(Ordering::Relaxed);
        let left = (next..next + 20).map(|number| dir.path().join(format!(".test-{}-{number}", std::process::id())));
        left.for_each(|path| std::fs::create_dir(path).unwrap());
        let folder = TestFolder::new(dir.path(), "test", 1000).unwrap();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 21);
        drop(folder);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 20);
    }

    #[test]
    fn there_must_be_a_folder_with_room() {
        let dir = tempfile::tempdir().unwrap();
        let refused = |path: &Path, bytes| TestFolder::new(path, "test", bytes).map(drop).unwrap_err();
        let full = refused(dir.path(), u64::MAX);
        assert!(full.code() == packhorse_core::Code::NoSpace && full.hints().unwrap().contains("`size`"), "{full}");
        assert!(refused(&dir.path().join("nowhere"), 1).is_not_found());
        std::fs::write(dir.path().join("file"), "").unwrap();
        assert_eq!(refused(&dir.path().join("file"), 1).kind(), Kind::Config);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
