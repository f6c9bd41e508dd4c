//! The local file system below one folder, never through symbolic links.
//!
//! Others may be able to write to a dataset's folder. A symbolic link placed there must not redirect what packhorse
//! creates, renames or removes. So every path is resolved from an open folder, one name at a time, and each step
//! refuses links (openat(2) with `O_NOFOLLOW`). Checking first and acting later would be a race.

use crate::local::{LocalFile, NewFile, about, close, names_in, unless_missing};
use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, openat, renameat};
use nix::sys::stat::{FileStat as RawStat, Mode, SFlag, fchmod, fstat, fstatat, mkdirat};
use nix::unistd::{UnlinkatFlags, linkat, unlinkat};
use packhorse_core::{Error, FileKind, FileStat, Input, Result, Store, StoreFile};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

/// The files below `root`. The root is opened once and may itself be reached through a link.
pub(crate) struct Beneath {
    root: PathBuf,
    folder: OwnedFd,
}

/// An open folder and a name in it.
struct Place {
    folder: OwnedFd,
    name: OsString,
}

const FOLDER: OFlag = OFlag::O_DIRECTORY.union(OFlag::O_CLOEXEC);
const STEP: OFlag = FOLDER.union(OFlag::O_NOFOLLOW);

impl Beneath {
    /// Opens the existing folder `root`.
    pub(crate) fn open(root: &Path) -> Result<Self> {
        let opened = nix::fcntl::open(root, FOLDER, Mode::empty());
        let folder = opened.map_err(|e| about("open", root, e.into()))?;
        Ok(Self { root: root.to_owned(), folder })
    }

    /// The path components from the root to `path`.
    fn names<'a>(&self, path: &'a Path) -> Result<Vec<&'a OsStr>> {
        let outside = || Error::bug(format!("{} is not below {}", path.display(), self.root.display()));
        let below = path.strip_prefix(&self.root).map_err(|_| outside())?;
        let name = |component| match component {
            Component::Normal(name) => Ok(name),
            _ => Err(outside()),
        };
        below.components().map(name).collect()
    }

    /// Opens the folder at `names`; with `create`, makes missing folders.
    fn walk(&self, names: &[&OsStr], create: bool) -> nix::Result<OwnedFd> {
        let mut at = self.folder.try_clone().map_err(|e| Errno::from_raw(e.raw_os_error().unwrap_or_default()))?;
        for name in names {
            let made = match create.then(|| mkdirat(&at, *name, Mode::from_bits_truncate(0o777))) {
                None | Some(Err(Errno::EEXIST)) => false,
                Some(Ok(())) => true,
                Some(Err(e)) => return Err(e),
            };
            let inside = openat(&at, *name, STEP, Mode::empty())?;
            if made {
                share(&at, &inside);
            }
            at = inside;
        }
        Ok(at)
    }

    fn folder(&self, path: &Path, action: &str, create: bool) -> Result<OwnedFd> {
        let names = self.names(path)?;
        self.walk(&names, create).map_err(|e| self.refused(&names, action, path, e))
    }

    fn place(&self, path: &Path, action: &str) -> Result<Place> {
        let names = self.names(path)?;
        let Some((name, above)) = names.split_last() else {
            return Err(Error::bug(format!("{} is the folder itself", path.display())));
        };
        let folder = self.walk(above, false).map_err(|e| self.refused(above, action, path, e))?;
        Ok(Place { folder, name: (*name).to_owned() })
    }

    /// The error of a walk; names the link if one was in the way.
    fn refused(&self, names: &[&OsStr], action: &str, path: &Path, error: Errno) -> Error {
        let mut at = self.root.clone();
        for name in names {
            at.push(name);
            if matches!(error, Errno::ENOTDIR | Errno::ELOOP) && at.is_symlink() {
                let message = "is a symbolic link, and packhorse follows none inside a dataset's folder; remove the link, \
                               or choose another folder";
                return Error::config(message).in_input(at.display());
            }
        }
        about(action, path, error.into())
    }
}

/// Gives the group the rights to the new folder or file `inside` that it has to the folder above, if it shares that one: several users
/// may work on a dataset, whatever their umask.
pub(crate) fn share(above: &impl AsFd, inside: &impl AsFd) {
    let mode = Mode::from_bits_truncate;
    if let (Ok(above), Ok(own)) = (fstat(above.as_fd()), fstat(inside.as_fd()))
        && mode(above.st_mode).contains(Mode::S_ISGID | Mode::S_IWGRP)
    {
        let is_folder = own.st_mode & SFlag::S_IFMT.bits() == SFlag::S_IFDIR.bits();
        let rights = if is_folder { Mode::S_IRWXG } else { Mode::S_IRGRP | Mode::S_IWGRP };
        // Where it can't be changed, the umask decides.
        let _ = fchmod(inside, mode(own.st_mode) | (mode(above.st_mode) & rights));
    }
}

/// Applies `call` to a path's folder and name.
fn at<T>(place: Result<Place>, action: &str, path: &Path, call: impl FnOnce(&Place) -> nix::Result<T>) -> Result<T> {
    call(&place?).map_err(|e| about(action, path, e.into()))
}

impl Store for Beneath {
    fn list(&self, dir: &Path) -> Result<Vec<PathBuf>> {
        let failed = |e: Errno| about("list", dir, e.into());
        let found = names_in(Dir::from_fd(self.folder(dir, "list", false)?).map_err(failed)?).map_err(failed)?;
        Ok(found.into_iter().map(|(name, _)| name).collect())
    }

    fn stat(&self, path: &Path, _follow: bool) -> Result<FileStat> {
        let look = |place: &Place| fstatat(&place.folder, &*place.name, AtFlags::AT_SYMLINK_NOFOLLOW);
        at(self.place(path, "stat"), "stat", path, look).map(|raw| stat_of(&raw))
    }

    fn open(&self, path: &Path) -> Result<Box<dyn Input>> {
        let flags = OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let open = |place: &Place| openat(&place.folder, &*place.name, flags, Mode::empty());
        let file = at(self.place(path, "open"), "open", path, open)?;
        Ok(Box::new(LocalFile::of(File::from(file), path)?))
    }

    fn create(&self, path: &Path) -> Result<Box<dyn StoreFile>> {
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_CLOEXEC;
        let mode = Mode::from_bits_truncate(0o666);
        let create =
            |place: &Place| openat(&place.folder, &*place.name, flags, mode).inspect(|file| share(&place.folder, file));
        let file = at(self.place(path, "create"), "create", path, create)?;
        Ok(Box::new(NewFile::of(file.into(), path)))
    }

    fn sync_file(&self, path: &Path) -> Result<()> {
        let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let open = |place: &Place| openat(&place.folder, &*place.name, flags, Mode::empty());
        let file = File::from(at(self.place(path, "open"), "open", path, open)?);
        file.sync_all().map_err(|e| about("sync", path, e))?;
        close(file).map_err(|e| about("close", path, e))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        let (old, new) = (self.place(from, "rename")?, self.place(to, "rename")?);
        renameat(&old.folder, &*old.name, &new.folder, &*new.name).map_err(|e| about("rename", to, e.into()))
    }

    fn rename_new(&self, from: &Path, to: &Path) -> Result<()> {
        let (old, new) = (self.place(from, "rename")?, self.place(to, "rename")?);
        match linkat(&old.folder, &*old.name, &new.folder, &*new.name, AtFlags::empty()) {
            // Of a job that dies here, the staged name is swept.
            Ok(()) => self.remove(from),
            // A file system without hard links.
            Err(Errno::EPERM | Errno::EOPNOTSUPP | Errno::ENOSYS | Errno::EMLINK) => {
                self.refuse_taken(to)?;
                self.rename(from, to)
            }
            Err(e) => Err(about("rename", to, e.into())),
        }
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        let folder = File::from(self.folder(dir, "open", false)?);
        folder.sync_all().map_err(|e| about("sync", dir, e))
    }

    fn create_dir(&self, dir: &Path) -> Result<()> {
        self.folder(dir, "create folder", true).map(drop)
    }

    fn remove(&self, path: &Path) -> Result<()> {
        self.unlink(path, "remove", UnlinkatFlags::NoRemoveDir)
    }

    fn remove_dir(&self, dir: &Path) -> Result<()> {
        self.unlink(dir, "remove folder", UnlinkatFlags::RemoveDir)
    }
}

impl Beneath {
    fn unlink(&self, path: &Path, action: &str, what: UnlinkatFlags) -> Result<()> {
        let names = self.names(path)?;
        let Some((name, above)) = names.split_last() else { return Err(Error::bug("the folder itself")) };
        let removed = self.walk(above, false).and_then(|folder| unlinkat(folder.as_fd(), *name, what));
        unless_missing(removed.map_err(Into::into)).map_err(|e| about(action, path, e))
    }
}

fn stat_of(raw: &RawStat) -> FileStat {
    let kind = match SFlag::from_bits_truncate(raw.st_mode) & SFlag::S_IFMT {
        SFlag::S_IFREG => FileKind::File,
        SFlag::S_IFDIR => FileKind::Directory,
        SFlag::S_IFLNK => FileKind::Symlink,
        _ => FileKind::Special,
    };
    let time = |seconds: i64, rest: i64| seconds.saturating_mul(1_000_000_000).saturating_add(rest);
    let (mtime, ctime) = (time(raw.st_mtime, raw.st_mtime_nsec), time(raw.st_ctime, raw.st_ctime_nsec));
    FileStat { kind, size: u64::try_from(raw.st_size).unwrap_or(0), mtime, ctime, id: (raw.st_dev, raw.st_ino) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use packhorse_core::Kind;
    use std::io::Write;

    #[test]
    fn folders_of_a_shared_folder_are_shared() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o7777;
        for (above, shared) in [(0o2775, true), (0o2755, false)] {
            let out = dir.path().join(format!("{above:o}"));
            std::fs::create_dir(&out).unwrap();
            std::fs::set_permissions(&out, std::fs::Permissions::from_mode(above)).unwrap();
            Beneath::open(&out).unwrap().create_dir(&out.join("a/b")).unwrap();
            let (file, plain) = (out.join("a/file"), dir.path().join("plain-file"));
            Beneath::open(&out).unwrap().create(&file).unwrap().sync_and_close().unwrap();
            std::fs::write(&plain, "").unwrap();
            let wanted = mode(&plain) & 0o060 | if shared { 0o060 } else { 0 };
            assert_eq!(mode(&file) & 0o060, wanted, "{above:o}");
            for inside in ["a", "a/b"] {
                let plain = dir.path().join("plain");
                std::fs::create_dir_all(&plain).unwrap();
                let wanted = mode(&plain) & 0o070 | if shared { 0o070 } else { 0 };
                assert_eq!(mode(&out.join(inside)) & 0o070, wanted, "{above:o} {inside}");
            }
        }
    }

    #[test]
    fn files_can_be_created_renamed_and_removed() {
        let dir = tempfile::tempdir().unwrap();
        let store = Beneath::open(dir.path()).unwrap();
        let (sub, a, b) = (dir.path().join("x/y"), dir.path().join("x/y/a"), dir.path().join("x/b"));
        store.create_dir(&sub).unwrap();
        let mut file = store.create(&a).unwrap();
        file.write_all(b"hello").unwrap();
        file.sync_and_close().unwrap();
        assert_eq!(store.create(&a).map(drop).unwrap_err().errno(), Some(libc::EEXIST));
        assert_eq!(store.list(&sub).unwrap(), [Path::new("a")]);
        store.sync_file(&a).unwrap();
        store.rename_new(&a, &b).unwrap();
        store.create(&a).unwrap().sync_and_close().unwrap();
        assert!(store.rename_new(&a, &b).unwrap_err().is_taken());
        store.remove(&a).unwrap();
        store.sync_dir(dir.path()).unwrap();
        assert_eq!(store.open(&b).unwrap().read_all(10).unwrap(), b"hello");
        assert_eq!(
            (store.stat(&b, true).unwrap().size, store.stat(&sub, false).unwrap().kind),
            (5, FileKind::Directory)
        );
        store.remove_dir(&sub).unwrap();
        store.remove(&b).unwrap();
        store.remove(&dir.path().join("nowhere/at/all")).unwrap();
        assert!(store.list(&dir.path().join("x")).unwrap().is_empty());
    }

    #[test]
    fn a_link_is_never_followed() {
        let (dir, victim) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::fs::create_dir(victim.path().join("sub")).unwrap();
        std::fs::write(victim.path().join("sub/file"), b"precious").unwrap();
        std::os::unix::fs::symlink(victim.path(), dir.path().join("link")).unwrap();
        std::os::unix::fs::symlink(victim.path().join("sub/file"), dir.path().join("own")).unwrap();
        let store = Beneath::open(dir.path()).unwrap();
        let inside = dir.path().join("link/sub/file");
        let refused = |result: Result<()>| assert_eq!(result.unwrap_err().kind(), Kind::Config);
        refused(store.create(&dir.path().join("link/new")).map(drop));
        refused(store.open(&inside).map(drop));
        refused(store.list(&dir.path().join("link")).map(drop));
        refused(store.create_dir(&dir.path().join("link/more")));
        refused(store.rename(&dir.path().join("own"), &inside));
        refused(store.sync_file(&inside));
        assert!(store.remove(&inside).is_err() && store.remove_dir(&dir.path().join("link/sub")).is_err());
        assert!(store.open(&dir.path().join("own")).is_err() && store.create(&dir.path().join("own")).is_err());
        assert_eq!(std::fs::read(victim.path().join("sub/file")).unwrap(), b"precious");
        assert_eq!(std::fs::read_dir(victim.path()).unwrap().count(), 1);
    }

    #[test]
    fn nothing_outside_is_reached() {
        let dir = tempfile::tempdir().unwrap();
        let store = Beneath::open(&dir.path().join(".")).unwrap();
        assert!(store.create(Path::new("/tmp/elsewhere")).is_err());
        assert!(store.create(&dir.path().join("../elsewhere")).is_err());
    }
}
