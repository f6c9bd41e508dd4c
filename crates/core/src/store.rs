//! The file system interface. `storage` implements it; tests wrap it with faults.

use crate::{Error, Input, Result};
use std::any::Any;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What a directory entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link (only when it was not followed).
    Symlink,
    /// A FIFO, a socket or a device: never opened.
    Special,
}

/// A file's metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileStat {
    /// What it is.
    pub kind: FileKind,
    /// Bytes.
    pub size: u64,
    /// Last modification, nanoseconds since 1970-01-01 UTC.
    pub mtime: i64,
    /// Last change of the bytes or of the times themselves, in the same unit: a caller can't set it back. 0 where there
    /// is none.
    pub ctime: i64,
    /// Device and inode: two names of one directory have the same.
    pub id: (u64, u64),
}

/// A name in a directory, and what the listing itself tells of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry {
    /// The name, without the directory.
    pub name: PathBuf,
    /// What it is, a symbolic link not followed; `None` where the listing does not tell.
    pub kind: Option<FileKind>,
    /// Its metadata; `None` where the listing does not tell.
    pub stat: Option<FileStat>,
}

/// List, stat, read, create, sync, rename. Every call may fail; none retries.
///
/// The contract that durability rests on: what was written, synced, closed without an error,
/// renamed, and whose directory was then synced, survives a power cut whole; anything less may not.
pub trait Store: Send + Sync {
    /// How messages name the file `path`: by its URL if it is remote.
    fn shown(&self, path: &Path) -> String {
        path.display().to_string()
    }

    /// The names in a directory, in no particular order.
    fn list(&self, dir: &Path) -> Result<Vec<PathBuf>>;

    /// The names in a directory, in no particular order, each with what the listing tells: one call instead of many.
    fn entries(&self, dir: &Path) -> Result<Vec<DirEntry>> {
        Ok(self.list(dir)?.into_iter().map(|name| DirEntry { name, kind: None, stat: None }).collect())
    }

    /// What `path` is; with `follow`, what a symbolic link points to.
    fn stat(&self, path: &Path, follow: bool) -> Result<FileStat>;

    /// Opens a regular file for reading; never blocks on a FIFO.
    fn open(&self, path: &Path) -> Result<Box<dyn Input>>;

    /// Fills `buf` with the first bytes of a regular file, and returns the file's metadata after the read (`None` where
    /// the file can't change): for small files, in as few system calls as possible. A shorter file, or one that is not
    /// regular, is a `Content` error.
    fn read(&self, path: &Path, buf: &mut [u8]) -> Result<Option<FileStat>> {
        let input = self.open(path)?;
        input.read_at(0, buf)?;
        input.stat()
    }

    /// Creates a new file; it must not exist yet.
    fn create(&self, path: &Path) -> Result<Box<dyn StoreFile>>;

    /// A new object that appears under `path`, whole and in place of any other, when it is closed; dropped before, it
    /// leaves nothing. `patchable`: whether [`StoreFile::write_head`] may be called. `None` where files are created and
    /// then renamed into place.
    fn upload(&self, path: &Path, patchable: bool) -> Result<Option<Box<dyn StoreFile>>> {
        let _ = (path, patchable);
        Ok(None)
    }

    /// Drops what unfinished [`upload`](Self::upload)s of all processes left below `dir`; returns how many there were.
    fn abort_uploads(&self, dir: &Path) -> Result<u64> {
        let _ = dir;
        Ok(0)
    }

    /// Syncs a file that a library wrote by its path.
    fn sync_file(&self, path: &Path) -> Result<()>;

    /// Renames `from` to `to` atomically, replacing `to`.
    fn rename(&self, from: &Path, to: &Path) -> Result<()>;

    /// Renames `from` to `to`, a name that no file has ([`Error::is_taken`] otherwise). Of two processes that do
    /// this at once, one gets that error; where files have no hard links, the later one may replace the file.
    fn rename_new(&self, from: &Path, to: &Path) -> Result<()> {
        self.refuse_taken(to)?;
        self.rename(from, to)
    }

    /// Errors: [`Error::is_taken`] if there is a file, folder or link of this name.
    fn refuse_taken(&self, path: &Path) -> Result<()> {
        match self.stat(path, false) {
            Ok(_) => Err(Error::io("create", io::ErrorKind::AlreadyExists.into()).in_input(path.display())),
            Err(e) if e.is_absent() => Ok(()),
            Err(e) => Err(e),
        }
    }

    /// Makes the directory's entries durable.
    fn sync_dir(&self, dir: &Path) -> Result<()>;

    /// Creates a directory and its parents.
    fn create_dir(&self, dir: &Path) -> Result<()>;

    /// Removes a file; a missing file is not an error.
    fn remove(&self, path: &Path) -> Result<()>;

    /// Removes an empty directory atomically; a missing directory is not an error.
    fn remove_dir(&self, dir: &Path) -> Result<()>;

    /// Locks the existing folder `dir` against other processes of this machine until the value is dropped. `None` where
    /// there are no locks; an `Environment` error if another process holds it.
    fn lock(&self, dir: &Path) -> Result<Option<Box<dyn Any + Send>>> {
        let _ = dir;
        Ok(None)
    }

    /// This store restricted to the existing directory `root`: its calls follow no symbolic link below `root`, even one
    /// that appears meanwhile, and refuse paths outside. `None` where the store has no symbolic links.
    fn beneath(&self, root: &Path) -> Result<Option<Arc<dyn Store>>> {
        let _ = root;
        Ok(None)
    }
}

/// A file being written.
pub trait StoreFile: Write + Send {
    /// Overwrites the first bytes with `head`; at least as many were written before.
    fn write_head(&mut self, head: &[u8]) -> Result<()>;

    /// Makes the bytes durable and closes the file; an object gets its name. After an error the file's content is
    /// unknown: discard it and write another.
    fn sync_and_close(self: Box<Self>) -> Result<()>;
}
