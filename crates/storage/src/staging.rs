//! How files get their final names: staged, synced, closed, renamed, and the folder synced.
//!
//! Every process stages below `OUT/.staging` in a folder of its own, named after its host, its
//! process and a nonce, so that two writers of one shard (Slurm can leave two) never meet. Only a
//! rename publishes. A failed sync is never tried again: the staged file is thrown away, since its
//! content is then unknown.
//!
//! ```text
//! OUT/.staging/HOST,PID,START,NONCE/packhorse-staging      the mark of a folder of ours, empty
//! OUT/.staging/HOST,PID,START,NONCE/0/shard-000000.tar     a group of files to publish together
//! ```
//!
//! OUT may be shared, and hold folders and links of others. No symbolic link below OUT is followed, and only what has
//! this shape is removed: files in a folder of our name and with our mark, and in its numbered folders.

use crate::Location;
use crate::concat::concat;
use crate::tree::Tree;
use blake3::{Hash, Hasher};
use packhorse_core::{Context, Error, FileKind, Headed, Outlet, Part, Result, Scratch, Store, StoreFile};
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

const FOLDER: &str = ".staging";

/// The folder in that of a dataset in which another one is packed that will replace it.
const REPLACING: &str = ".replacing";

/// The empty file that a staging folder of ours begins with, and that is removed last.
const MARK: &str = "packhorse-staging";

/// A file that has its final name now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    /// Its path relative to the dataset's folder.
    pub name: String,
    /// Its length.
    pub bytes: u64,
    /// BLAKE3 of its bytes, 256 bits.
    pub blake3: blake3::Hash,
}

/// This process's place for unfinished files of one dataset. Removed when dropped.
pub struct Staging {
    store: Arc<dyn Store>,
    out: PathBuf,
    dir: PathBuf,
    next: AtomicU64,
}

impl Staging {
    /// The folder in which those of all processes lie.
    pub fn folder(out: &Path) -> PathBuf {
        out.join(FOLDER)
    }

    /// The folder in which a dataset is packed that will replace the one in the folder `out`.
    pub fn replacing(out: &Path) -> PathBuf {
        out.join(REPLACING)
    }

    /// Makes the folder `out` if need be, durably, and a staging folder in it.
    ///
    /// Errors: `Unsupported` if `out` is a URL; `Config` if `.staging` is a symbolic link; `Environment`.
    pub fn open(store: Arc<dyn Store>, out: &Path) -> Result<Self> {
        Location::local(out)?;
        let new: Vec<&Path> = out.ancestors().take_while(|dir| store.stat(dir, true).is_err()).collect();
        store.create_dir(out)?;
        let below = store.beneath(root(out))?.unwrap_or_else(|| Arc::clone(&store));
        let dir = out.join(FOLDER).join(own_name());
        // From here on dropping it cleans up.
        let staging = Self { store: below, out: out.to_owned(), dir, next: AtomicU64::new(0) };
        make(&*staging.store, &staging.dir)?;
        drop(staging.store.create(&staging.dir.join(MARK))?);
        for parent in new.iter().filter_map(|dir| dir.parent()) {
            store.sync_dir(if parent.as_os_str().is_empty() { Path::new(".") } else { parent })?;
        }
        Ok(staging)
    }

    /// The dataset's folder.
    pub fn out(&self) -> &Path {
        &self.out
    }

    /// A folder for files without a name that must not outlive this process.
    pub fn scratch(&self) -> &Path {
        &self.dir
    }

    /// What dropping this would do, for a process that is about to end without dropping it.
    pub fn abandon(&self) -> impl FnOnce() + Send + use<> {
        let (store, out, dir) = (Arc::clone(&self.store), self.out.clone(), self.dir.clone());
        move || {
            // One call that fails must not leave the folder behind.
            if !clear(&*store, &dir) {
                clear(&*store, &dir);
            }
            sweep(&*store, &out, false);
        }
    }

    /// A group of files that will be published together; their names start with `stem`.
    pub fn stage(&self, stem: &str) -> Result<Stage> {
        let dir = self.dir.join(self.next.fetch_add(1, Ordering::Relaxed).to_string());
        self.store.create_dir(&dir)?;
        Ok(Stage { store: self.store.clone(), out: self.out.clone(), dir, stem: stem.to_owned(), files: Vec::new() })
    }

    /// Publishes one small file.
    pub fn document(&self, name: &str, bytes: &[u8]) -> Result<Published> {
        let mut stage = self.stage(name)?;
        stage.write("", bytes)?;
        stage.publish()?.pop().ok_or_else(|| Error::bug("a staged document vanished"))
    }

    /// Removes what processes of this host left behind that are gone; with `all`, also what processes of other hosts
    /// staged, whether they are gone or not. Never fails: what can't be removed stays, and so does what is not ours.
    pub fn sweep(store: &dyn Store, out: &Path, all: bool) {
        // A folder that is not there, or can't be opened, holds nothing to remove.
        match store.beneath(root(out)) {
            Ok(Some(below)) => sweep(&*below, out, all),
            Ok(None) => sweep(store, out, all),
            Err(_) => {}
        }
    }
}

/// The folder below which no link is followed: `.replacing` may itself be one that others made.
fn root(out: &Path) -> &Path {
    match out.parent() {
        Some(above) if out.file_name().is_some_and(|name| name == REPLACING) => above,
        _ => out,
    }
}

fn sweep(store: &dyn Store, out: &Path, all: bool) {
    let folder = out.join(FOLDER);
    for name in store.list(&folder).unwrap_or_default() {
        let gone = match owner(&name.to_string_lossy()) {
            Owner::Lives | Owner::Foreign => false,
            Owner::Gone => true,
            Owner::Elsewhere => all,
        };
        if gone {
            clear(store, &folder.join(name));
        }
    }
    // Fails, and should, where another process has its folder in it.
    let _ = store.remove_dir(&folder);
}

/// Removes a staging folder of ours: the files of its numbered folders, those folders, its files, the mark, itself.
/// Whatever else is in there stays, and the folder with it. So does a folder without our mark, unless it is empty: then
/// its process ended before the mark was there. Says whether it is gone.
fn clear(store: &dyn Store, dir: &Path) -> bool {
    let mark = dir.join(MARK);
    let kind = |path: &Path| store.stat(path, false).map(|stat| stat.kind).ok();
    if kind(&mark) == Some(FileKind::File) {
        for name in store.list(dir).unwrap_or_default() {
            let path = dir.join(&name);
            let numbered = name.to_str().is_some_and(|name| name.bytes().all(|b| b.is_ascii_digit()));
            match kind(&path) {
                Some(FileKind::Directory) if numbered => clear_group(store, &path),
                Some(FileKind::File) if path != mark => drop(store.remove(&path)),
                _ => {}
            }
        }
        let empty = store.list(dir).is_ok_and(|names| names.iter().all(|name| name == Path::new(MARK)));
        if empty {
            let _ = store.remove(&mark);
        }
    }
    store.remove_dir(dir).is_ok()
}

/// Removes the files of a group, and its folder.
fn clear_group(store: &dyn Store, dir: &Path) {
    for path in store.list(dir).unwrap_or_default().iter().map(|name| dir.join(name)) {
        if store.stat(&path, false).is_ok_and(|stat| stat.kind == FileKind::File) {
            let _ = store.remove(&path);
        }
    }
    let _ = store.remove_dir(dir);
}

impl Drop for Staging {
    fn drop(&mut self) {
        self.abandon()();
    }
}

/// Makes the staging folder `dir`. A process that ends may remove the folder of all staging folders
/// in the moment before this one is in it: then both are made once more.
fn make(store: &dyn Store, dir: &Path) -> Result<()> {
    const ENOENT: i32 = 2;
    const EEXIST: i32 = 17;
    const TRIES: usize = 100;
    let vanished = |made: &Result<()>| made.as_ref().is_err_and(|e| matches!(e.errno(), Some(ENOENT | EEXIST)));
    let mut made = store.create_dir(dir);
    for _ in 1..TRIES {
        if !vanished(&made) {
            break;
        }
        made = store.create_dir(dir);
    }
    made
}

/// Files being written that are published in one go.
pub struct Stage {
    store: Arc<dyn Store>,
    out: PathBuf,
    dir: PathBuf,
    stem: String,
    files: Vec<Staged>,
}

struct Staged {
    name: String,
    /// Filled when the file is complete; for a file written by its path it stays empty.
    done: Option<Done>,
    /// Of a file written by its path: its hash and length, where they are known without reading it.
    known: Option<(Hash, u64)>,
}

type Done = Arc<Mutex<Option<Written>>>;

struct Written {
    file: Box<dyn StoreFile>,
    hash: Hash,
    bytes: u64,
}

impl Stage {
    /// Stages `bytes` as the file with `suffix`.
    pub fn write(&mut self, suffix: &str, bytes: &[u8]) -> Result<()> {
        let mut writer = self.stream(suffix)?;
        writer.write_all(bytes).context("write")
    }

    /// Syncs, closes and renames all files, in the order in which they were opened, and syncs the
    /// folders. On an error nothing or a part has been renamed: the files mean nothing until
    /// somebody publishes a receipt for them.
    pub fn publish(self) -> Result<Vec<Published>> {
        self.publish_if(|_| Ok(()))
    }

    /// The same, unless `check` refuses the files as they are written: then none is renamed.
    pub fn publish_if(mut self, check: impl FnOnce(&[Published]) -> Result<()>) -> Result<Vec<Published>> {
        let files = std::mem::take(&mut self.files);
        let published = files.iter().map(|staged| self.settle(staged)).collect::<Result<Vec<_>>>()?;
        check(&published)?;
        let mut dirs = vec![self.out.clone()];
        for file in &published {
            let target = self.out.join(&file.name);
            if let Some(parent) = target.parent().filter(|p| !dirs.iter().any(|d| d == p)) {
                self.store.create_dir(parent)?;
                dirs.push(parent.to_owned());
            }
            self.store.rename(&self.dir.join(flat(&file.name)), &target)?;
        }
        dirs.iter().rev().try_for_each(|dir| self.store.sync_dir(dir))?;
        Ok(published)
    }

    fn settle(&self, staged: &Staged) -> Result<Published> {
        let path = self.dir.join(flat(&staged.name));
        let Some(done) = &staged.done else {
            self.store.sync_file(&path)?;
            return match staged.known {
                Some((blake3, bytes)) => Ok(Published { name: staged.name.clone(), bytes, blake3 }),
                None => self.digest(&staged.name, &path),
            };
        };
        let written = done.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Written { file, hash, bytes } =
            written.ok_or_else(|| Error::bug(format!("{} is still being written", staged.name)))?;
        file.sync_and_close()?;
        Ok(Published { name: staged.name.clone(), bytes, blake3: hash })
    }

    fn digest(&self, name: &str, path: &Path) -> Result<Published> {
        let input = self.store.open(path)?;
        let (mut hasher, mut bytes) = (Hasher::new(), 0);
        let (mut stream, mut piece) = (input.stream()?, packhorse_core::aligned(READ));
        loop {
            let found = match stream.read(&mut piece) {
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
                found => found.context("read")?,
            };
            hasher.update(piece.get(..found).unwrap_or_default());
            bytes += found as u64;
            if found == 0 {
                break;
            }
        }
        Ok(Published { name: name.to_owned(), bytes, blake3: hasher.finalize() })
    }

    fn create(&mut self, suffix: &str) -> Result<(Box<dyn StoreFile>, Done)> {
        let done = Done::default();
        let path = self.add(suffix, Some(done.clone()));
        Ok((self.store.create(&path)?, done))
    }

    fn add(&mut self, suffix: &str, done: Option<Done>) -> PathBuf {
        let name = format!("{}{suffix}", self.stem);
        let path = self.dir.join(flat(&name));
        self.files.push(Staged { name, done, known: None });
        path
    }
}

/// Bytes that are hashed at once: what was just read or written is still in the cache.
const READ: usize = 256 << 10;

/// The staged name of a file that will lie in a folder: one level, so that staging needs no folders.
fn flat(name: &str) -> String {
    name.replace('/', "%2F")
}

impl Outlet for Stage {
    fn stream(&mut self, suffix: &str) -> Result<Box<dyn Write + Send>> {
        let (file, done) = self.create(suffix)?;
        Ok(Box::new(Hashing { file: Some(file), hasher: Hasher::new(), bytes: 0, done }))
    }

    fn path(&mut self, suffix: &str) -> Result<PathBuf> {
        Ok(self.add(suffix, None))
    }

    fn headed(&mut self, suffix: &str) -> Result<Box<dyn Headed>> {
        let (file, done) = self.create(suffix)?;
        Ok(Box::new(HashingHeaded { file, tree: Tree::default(), bytes: 0, done }))
    }

    fn concat(&mut self, suffix: &str, parts: &[Part<'_>]) -> Result<()> {
        let path = self.add(suffix, None);
        let known = concat(&path, parts)?;
        if let Some(staged) = self.files.last_mut() {
            staged.known = Some(known);
        }
        Ok(())
    }

    fn scratch(&mut self) -> Result<Box<dyn Scratch>> {
        Ok(Box::new(Unnamed { dir: self.dir.clone(), file: None, at: 0 }))
    }
}

/// A file without a name, made when the first byte comes.
struct Unnamed {
    dir: PathBuf,
    file: Option<File>,
    at: u64,
}

impl Scratch for Unnamed {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(tempfile::tempfile_in(&self.dir).context("create a temporary file")?),
        };
        file.write_all_at(bytes, self.at).context("write a temporary file")?;
        self.at += bytes.len() as u64;
        Ok(())
    }

    fn read_at(&mut self, offset: u64, buf: &mut [u8]) -> Result<()> {
        match &self.file {
            Some(file) => file.read_exact_at(buf, offset).context("read a temporary file"),
            None if buf.is_empty() => Ok(()),
            None => Err(Error::bug("bytes are read that nobody wrote")),
        }
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        clear_group(&*self.store, &self.dir);
    }
}

/// Hashes what passes through; hands file and hash back to its stage when dropped.
struct Hashing {
    file: Option<Box<dyn StoreFile>>,
    hasher: Hasher,
    bytes: u64,
    done: Done,
}

impl Write for Hashing {
    fn write(&mut self, buf: &[u8]) -> std::io::Result<usize> {
        let Some(file) = &mut self.file else { return Err(Error::bug("write after drop").into()) };
        let n = file.write(buf)?;
        self.hasher.update(buf.get(..n).unwrap_or(buf));
        self.bytes += n as u64;
        Ok(n)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Drop for Hashing {
    fn drop(&mut self) {
        let written = self.file.take().map(|file| Written { file, hash: self.hasher.finalize(), bytes: self.bytes });
        *self.done.lock().unwrap_or_else(PoisonError::into_inner) = written;
    }
}

/// The same for a file whose first bytes are known last.
struct HashingHeaded {
    file: Box<dyn StoreFile>,
    tree: Tree,
    bytes: u64,
    done: Done,
}

impl Write for HashingHeaded {
    fn write(&mut self, buf: &[u8]) -> std::io::Result<usize> {
        // Whole segments: pieces that straddle two are summed a few lanes at a time.
        let piece = buf.get(..self.tree.room()).unwrap_or(buf);
        let n = self.file.write(piece)?;
        self.tree.update(piece.get(..n).unwrap_or(piece));
        self.bytes += n as u64;
        Ok(n)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Headed for HashingHeaded {
    fn finish(self: Box<Self>, head: &[u8]) -> Result<()> {
        let Self { mut file, tree, bytes, done } = *self;
        let hash = tree.finish(head).ok_or_else(|| Error::bug("a head of more than was written"))?;
        file.write_head(head)?;
        *done.lock().unwrap_or_else(PoisonError::into_inner) = Some(Written { file, hash, bytes });
        Ok(())
    }
}

/// `HOST,PID,START,NONCE`: whose staging folder this is, and whether its owner can still live.
fn own_name() -> String {
    static NONCE: AtomicU64 = AtomicU64::new(0);
    let pid = std::process::id();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |d| d.as_nanos());
    let nonce = NONCE.fetch_add(1, Ordering::Relaxed);
    format!("{},{pid},{},{now:x}-{nonce}", host(), start_time(pid).unwrap_or_default())
}

/// The host, and the space in which process numbers are counted: containers may share the one and not
/// the other.
fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let pids = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    let pids: String = pids.to_string_lossy().chars().filter(char::is_ascii_digit).collect();
    format!("{}-{pids}", name.trim().replace(['/', ','], "_"))
}

/// When a process started, in clock ticks since boot (proc_pid_stat(5), field 22).
fn start_time(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

/// What is known of the process that made a staging folder.
enum Owner {
    /// It runs, on this host.
    Lives,
    /// It ran on this host.
    Gone,
    /// It runs or ran on another host.
    Elsewhere,
    /// The name is not one of ours.
    Foreign,
}

fn owner(name: &str) -> Owner {
    let parts: Vec<&str> = name.split(',').collect();
    let &[owner, pid, start, nonce] = parts.as_slice() else { return Owner::Foreign };
    let (Ok(pid), Ok(start)) = (pid.parse(), start.parse::<u64>()) else { return Owner::Foreign };
    if nonce.is_empty() || !nonce.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-') {
        return Owner::Foreign;
    }
    match owner == host() {
        false => Owner::Elsewhere,
        true if start_time(pid) == Some(start) => Owner::Lives,
        true => Owner::Gone,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Local;

    fn names(dir: &Path) -> Vec<String> {
        let mut names: Vec<_> =
            std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn nothing_has_its_final_name_before_publish_and_nothing_else_stays_after() {
        let out = tempfile::tempdir().unwrap();
        let staging = Staging::open(Arc::new(Local), out.path()).unwrap();
        let mut stage = staging.stage("s-000000").unwrap();
        stage.write(".tar", b"hello").unwrap();
        std::fs::write(stage.path(".h5").unwrap(), b"by path").unwrap();
        assert_eq!(names(out.path()), [FOLDER]);
        let published = stage.publish().unwrap();
        drop(staging);
        assert_eq!(names(out.path()), ["s-000000.h5", "s-000000.tar"]);
        assert_eq!(published[0].blake3, blake3::hash(b"hello"));
        assert_eq!((published[1].bytes, published[1].blake3), (7, blake3::hash(b"by path")));
    }

    #[test]
    fn what_is_refused_is_not_published() {
        let out = tempfile::tempdir().unwrap();
        let staging = Staging::open(Arc::new(Local), out.path()).unwrap();
        let mut stage = staging.stage("a").unwrap();
        stage.write(".tar", b"hello").unwrap();
        let refused = stage.publish_if(|files| match files {
            [file] if file.blake3 == blake3::hash(b"hello") => Err(Error::content("no")),
            _ => Ok(()),
        });
        assert_eq!(refused.unwrap_err().message(), "no");
        drop(staging);
        assert!(names(out.path()).is_empty());
    }

    #[test]
    fn scratch_is_read_at_any_place_and_leaves_nothing() {
        let out = tempfile::tempdir().unwrap();
        let staging = Staging::open(Arc::new(Local), out.path()).unwrap();
        let mut stage = staging.stage("s").unwrap();
        let mut scratch = stage.scratch().unwrap();
        assert!(scratch.read_at(0, &mut []).is_ok() && scratch.read_at(0, &mut [0]).is_err());
        scratch.append(b"0123").unwrap();
        scratch.append(b"4567").unwrap();
        let mut buf = [0; 3];
        scratch.read_at(3, &mut buf).unwrap();
        assert_eq!(&buf, b"345");
        assert!(scratch.read_at(6, &mut buf).is_err());
        assert_eq!(names(&stage.dir), [""; 0]);
        assert!(stage.publish().unwrap().is_empty());
    }

    #[test]
    fn a_name_in_a_folder_gets_its_folder() {
        let out = tempfile::tempdir().unwrap();
        let staging = Staging::open(Arc::new(Local), out.path()).unwrap();
        staging.document(".nv-meta/split.yaml", b"x").unwrap();
        assert_eq!(std::fs::read(out.path().join(".nv-meta/split.yaml")).unwrap(), b"x");
    }

    #[test]
    fn sweep_removes_what_the_dead_left_and_spares_the_living() {
        let out = tempfile::tempdir().unwrap();
        let living = Staging::open(Arc::new(Local), out.path()).unwrap();
        let dead = format!("{},{},{},1", host(), std::process::id(), 1);
        let elsewhere = "another-host,1,1,1";
        for name in [dead.as_str(), elsewhere] {
            let dir = out.path().join(FOLDER).join(name);
            std::fs::create_dir_all(dir.join("0")).unwrap();
            std::fs::write(dir.join(MARK), b"").unwrap();
            std::fs::write(dir.join("0/shard-000000.tar"), b"half").unwrap();
        }
        Staging::sweep(&Local, out.path(), false);
        let left = names(&out.path().join(FOLDER));
        assert_eq!(left.len(), 2, "{left:?}");
        assert!(left.contains(&elsewhere.to_owned()));
        Staging::sweep(&Local, out.path(), true);
        assert_eq!(names(&out.path().join(FOLDER)).len(), 1);
        assert!(living.stage("s").unwrap().write(".tar", b"x").is_ok());
        drop(living);
        assert!(names(out.path()).is_empty());
    }

    /// Names that are ours in part, a folder of our name without our mark, a link under our name, and folders and links
    /// inside of one of ours.
    #[test]
    fn sweep_removes_nothing_that_is_not_ours() {
        let (out, victim) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let folder = out.path().join(FOLDER);
        let keep = |path: PathBuf| {
            std::fs::create_dir_all(&path).unwrap();
            std::fs::write(path.join("precious"), b"x").unwrap();
            path.join("precious")
        };
        let ours = |nonce: &str| folder.join(format!("another-host,1,1,{nonce}"));
        let mut kept: Vec<PathBuf> =
            ["mine", "a,b", "another-host,1,x,1", "another-host,1,1,nonce"].map(|n| keep(folder.join(n))).into();
        kept.push(keep(ours("1")));
        kept.push(keep(ours("2").join("results")));
        kept.push(keep(victim.path().join("0")));
        std::fs::write(ours("2").join(MARK), b"").unwrap();
        std::fs::create_dir_all(ours("3")).unwrap();
        std::os::unix::fs::symlink(victim.path().join("0"), ours("3").join("0")).unwrap();
        std::fs::write(ours("3").join(MARK), b"").unwrap();
        std::fs::write(victim.path().join(MARK), b"").unwrap();
        std::os::unix::fs::symlink(victim.path(), ours("4")).unwrap();
        Staging::sweep(&Local, out.path(), true);
        for path in kept {
            assert!(path.is_file(), "{} is gone", path.display());
        }
        std::fs::rename(&folder, out.path().join("moved")).unwrap();
        std::os::unix::fs::symlink(out.path().join("moved"), &folder).unwrap();
        std::fs::create_dir(out.path().join("moved/another-host,1,1,5")).unwrap();
        Staging::sweep(&Local, out.path(), true);
        assert!(out.path().join("moved/another-host,1,1,5").is_dir());
        assert!(Staging::open(Arc::new(Local), out.path()).is_err());
    }

    #[test]
    fn a_companions_folder_that_is_a_link_is_refused() {
        let (out, victim) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::fs::write(victim.path().join("split.yaml"), b"precious").unwrap();
        std::os::unix::fs::symlink(victim.path(), out.path().join(".nv-meta")).unwrap();
        let staging = Staging::open(Arc::new(Local), out.path()).unwrap();
        assert!(staging.document(".nv-meta/split.yaml", b"x").is_err());
        assert_eq!(std::fs::read(victim.path().join("split.yaml")).unwrap(), b"precious");
    }
}
