//! The local file system as a [`Store`].

use crate::beneath::{Beneath, share};
use crate::lock::Lock;
use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::stat::Mode;
use packhorse_core::{Code, DirEntry, Error, FileKind, FileStat, Input, Kind, Result, Store, StoreFile, found};
use std::any::Any;
use std::borrow::Borrow;
use std::ffi::OsString;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// This machine's file systems.
#[derive(Clone, Copy, Debug, Default)]
pub struct Local;

impl Store for Local {
    fn list(&self, dir: &Path) -> Result<Vec<PathBuf>> {
        Ok(listed(dir)?.into_iter().map(|(name, _)| name).collect())
    }

    fn entries(&self, dir: &Path) -> Result<Vec<DirEntry>> {
        let entry = |(name, kind)| DirEntry { name, kind, stat: None };
        Ok(listed(dir)?.into_iter().map(entry).collect())
    }

    fn stat(&self, path: &Path, follow: bool) -> Result<FileStat> {
        let found = if follow { std::fs::metadata(path) } else { std::fs::symlink_metadata(path) };
        found.map(|m| stat_of(&m)).map_err(|e| about("stat", path, e))
    }

    fn open(&self, path: &Path) -> Result<Box<dyn Input>> {
        Ok(Box::new(LocalFile::of(opened(path)?, path)?))
    }

    fn read(&self, path: &Path, buf: &mut [u8]) -> Result<Option<FileStat>> {
        let file = opened(path)?;
        let read = file.read_exact_at(buf, 0);
        let stat = stat_of(&file.metadata().map_err(|e| about("stat", path, e))?);
        match read {
            // A FIFO or folder fails to read in its own way; report its kind.
            _ if stat.kind != FileKind::File => Err(Error::content("is not a regular file").in_input(path.display())),
            Ok(()) => Ok(Some(stat)),
            Err(e) => Err(of_read(e, path, buf.len(), 0, stat.size)),
        }
    }

    fn create(&self, path: &Path) -> Result<Box<dyn StoreFile>> {
        let file = OpenOptions::new().write(true).create_new(true).open(path).map_err(|e| about("create", path, e))?;
        Ok(Box::new(NewFile::of(file, path)))
    }

    fn sync_file(&self, path: &Path) -> Result<()> {
        let file = File::open(path).map_err(|e| about("open", path, e))?;
        file.sync_all().map_err(|e| about("sync", path, e))?;
        close(file).map_err(|e| about("close", path, e))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        std::fs::rename(from, to).map_err(|e| about("rename", to, e))
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        let file = File::open(dir).map_err(|e| about("open", dir, e))?;
        file.sync_all().map_err(|e| about("sync", dir, e))
    }

    fn lock(&self, dir: &Path) -> Result<Option<Box<dyn Any + Send>>> {
        match Lock::take(dir)? {
            Some(lock) => Ok(Some(Box::new(lock))),
            None => Err(Error::new(Kind::Environment, "is being changed by another process of this machine")
                .with_code(Code::OutputBusy)
                .hint("run the command again when that has ended")
                .in_input(dir.display())),
        }
    }

    fn create_dir(&self, dir: &Path) -> Result<()> {
        let failed = |e| about("create folder", dir, e);
        let missing: Vec<&Path> =
            dir.ancestors().take_while(|dir| !dir.as_os_str().is_empty() && !dir.exists()).collect();
        for new in missing.iter().rev() {
            let made = std::fs::create_dir(new);
            if made.as_ref().is_err_and(|e| e.kind() == ErrorKind::AlreadyExists) && new.is_dir() {
                continue;
            }
            made.map_err(failed)?;
            let above = new.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."));
            if let (Ok(above), Ok(new)) = (File::open(above), File::open(new)) {
                share(&above, &new);
            }
        }
        // Fails where something else has the name.
        std::fs::create_dir_all(dir).map_err(failed)
    }

    fn remove(&self, path: &Path) -> Result<()> {
        unless_missing(std::fs::remove_file(path)).map_err(|e| about("remove", path, e))
    }

    fn remove_dir(&self, dir: &Path) -> Result<()> {
        unless_missing(std::fs::remove_dir(dir)).map_err(|e| about("remove folder", dir, e))
    }

    fn beneath(&self, root: &Path) -> Result<Option<Arc<dyn Store>>> {
        Ok(Some(Arc::new(Beneath::open(root)?)))
    }
}

fn listed(dir: &Path) -> Result<Vec<Listed>> {
    let failed = |e: Errno| about("list", dir, e.into());
    let flags = OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    names_in(Dir::open(dir, flags, Mode::empty()).map_err(failed)?).map_err(failed)
}

/// A name in a folder, and what it is where the file system tells.
pub(crate) type Listed = (PathBuf, Option<FileKind>);

/// The names in a folder. `std::fs::read_dir` would panic if the folder can't be closed.
pub(crate) fn names_in(mut folder: Dir) -> nix::Result<Vec<Listed>> {
    let entry = |entry: nix::dir::Entry| (entry.file_name().to_bytes().to_vec(), entry.file_type().map(kind_of));
    let entries = folder.iter().map(|found| found.map(entry)).collect::<nix::Result<Vec<_>>>()?;
    let others = entries.into_iter().filter(|(name, _)| name != b"." && name != b"..");
    Ok(others.map(|(name, kind)| (PathBuf::from(OsString::from_vec(name)), kind)).collect())
}

fn kind_of(kind: nix::dir::Type) -> FileKind {
    use nix::dir::Type;
    match kind {
        Type::File => FileKind::File,
        Type::Directory => FileKind::Directory,
        Type::Symlink => FileKind::Symlink,
        Type::Fifo | Type::CharacterDevice | Type::BlockDevice | Type::Socket => FileKind::Special,
    }
}

/// Opens with O_NONBLOCK: a FIFO without a writer would block forever.
fn opened(path: &Path) -> Result<File> {
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
    OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(|e| about("open", path, e))
}

fn of_read(error: io::Error, path: &Path, wanted: usize, offset: u64, size: u64) -> Error {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => Error::past_end(wanted as u64, offset, size).in_input(path.display()),
        _ => about("read", path, error),
    }
}

pub(crate) fn unless_missing(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

pub(crate) fn about(action: &str, path: &Path, error: io::Error) -> Error {
    Error::io(action, error).in_input(path.display())
}

fn stat_of(meta: &Metadata) -> FileStat {
    let file_type = meta.file_type();
    let kind = if file_type.is_file() {
        FileKind::File
    } else if file_type.is_dir() {
        FileKind::Directory
    } else if file_type.is_symlink() {
        FileKind::Symlink
    } else {
        FileKind::Special
    };
    let time = |seconds: i64, rest: i64| seconds.saturating_mul(1_000_000_000).saturating_add(rest);
    let (mtime, ctime) = (time(meta.mtime(), meta.mtime_nsec()), time(meta.ctime(), meta.ctime_nsec()));
    FileStat { kind, size: meta.size(), mtime, ctime, id: (meta.dev(), meta.ino()) }
}

/// A file, or a locked one, which stays locked while it is read.
pub struct LocalFile<F = File> {
    file: F,
    path: PathBuf,
    name: String,
    stat: FileStat,
}

impl<F: Borrow<File>> LocalFile<F> {
    /// An open file at `path`; a `Content` error if it is not a regular file.
    pub fn of(file: F, path: &Path) -> Result<Self> {
        let stat = stat_of(&file.borrow().metadata().map_err(|e| about("stat", path, e))?);
        if stat.kind != FileKind::File {
            return Err(Error::content("is not a regular file").in_input(path.display()));
        }
        Ok(Self { file, path: path.to_owned(), name: path.to_string_lossy().into_owned(), stat })
    }

    /// The file itself.
    pub fn file(&self) -> &File {
        self.file.borrow()
    }
}

impl<F: Borrow<File> + Send + Sync> Input for LocalFile<F> {
    fn name(&self) -> &str {
        &self.name
    }

    fn len(&self) -> Option<u64> {
        Some(self.stat.size)
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        let read = self.file().read_exact_at(buf, offset);
        read.map_err(|e| of_read(e, &self.path, buf.len(), offset, self.stat.size))
    }

    fn stream(&self) -> Result<Box<dyn Read + Send + '_>> {
        Ok(Box::new(Cursor { file: self.file(), offset: 0 }))
    }

    fn sibling(&self, name: &str) -> Result<Option<Box<dyn Input>>> {
        found(Local.open(&self.path.with_file_name(name)))
    }

    fn local_path(&self) -> Option<&Path> {
        Some(&self.path)
    }

    fn stat(&self) -> Result<Option<FileStat>> {
        let meta = self.file().metadata().map_err(|e| about("stat", &self.path, e))?;
        Ok(Some(stat_of(&meta)))
    }
}

/// Sequential reads by offset, so that several streams of one file are independent.
struct Cursor<'a> {
    file: &'a File,
    offset: u64,
}

impl Read for Cursor<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = self.file.read_at(buf, self.offset)?;
        self.offset += n as u64;
        Ok(n)
    }
}

pub(crate) struct NewFile {
    file: File,
    path: PathBuf,
}

impl NewFile {
    /// A newly created file.
    pub(crate) fn of(file: File, path: &Path) -> Self {
        Self { file, path: path.to_owned() }
    }
}

impl Write for NewFile {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.file.write(buf).map_err(|e| match e.kind() {
            // `write_all` retries this one and must recognize it.
            io::ErrorKind::Interrupted => e,
            _ => about("write", &self.path, e).into(),
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl StoreFile for NewFile {
    fn write_head(&mut self, head: &[u8]) -> Result<()> {
        self.file.write_all_at(head, 0).map_err(|e| about("write", &self.path, e))
    }

    fn sync_and_close(self: Box<Self>) -> Result<()> {
        self.file.sync_all().map_err(|e| about("sync", &self.path, e))?;
        close(self.file).map_err(|e| about("close", &self.path, e))
    }
}

/// Closes with an error check, which dropping a `File` does not do. Network file systems may report failed writes
/// only here.
pub(crate) fn close(file: File) -> io::Result<()> {
    nix::unistd::close(file).map_err(io::Error::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use packhorse_core::Kind;

    #[test]
    fn a_fifo_is_refused_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("fifo");
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert_eq!(Local.stat(&path, true).unwrap().kind, FileKind::Special);
        assert_eq!(Local.open(&path).map(|_| ()).unwrap_err().kind(), Kind::Content);
    }

    #[test]
    fn a_read_past_the_end_names_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.bin");
        std::fs::write(&path, b"12345").unwrap();
        let error = Local.open(&path).unwrap().read_at(3, &mut [0; 4]).unwrap_err();
        assert_eq!(error.kind(), Kind::Content);
        assert!(error.to_string().contains("a.bin"), "{error}");
    }

    #[test]
    fn a_file_is_never_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        Local.create(&path).unwrap().sync_and_close().unwrap();
        assert_eq!(Local.create(&path).map(|_| ()).unwrap_err().errno(), Some(libc::EEXIST));
    }
}
