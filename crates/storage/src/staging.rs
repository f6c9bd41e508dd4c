//! Durable publishing: stage, sync, close, rename, sync the folder.
//!
//! Every process stages in its own folder below `OUT/.staging`, named after host, process and a nonce, so that two
//! writers of one shard (Slurm can leave two) never collide. Only a rename publishes. A failed sync is never retried:
//! the content of the staged file is then unknown, so it is discarded.
//!
//! ```text
//! OUT/.staging/HOST,PID,START,NONCE/packhorse-staging      an empty file that marks our folders
//! OUT/.staging/HOST,PID,START,NONCE/0/shard-000000.tar     a group of files to publish together
//! ```
//!
//! OUT may be shared and contain others' folders and links. No symbolic link below OUT is followed. Only files in a
//! folder with our name and mark, and in its numbered folders, are removed.

use crate::Location;
use crate::concat::concat;
use crate::hash_tree::HashTree;
use blake3::{Hash, Hasher};
use packhorse_core::{
    Context, Error, FileKind, InputRange, Outlet, PatchableWriter, Result, ScratchFile, Store, StoreFile,
};
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

const FOLDER: &str = ".staging";

/// The folder inside a dataset in which its replacement is packed.
const REPLACING: &str = ".replacing";

/// The marker file: created first in a staging folder, removed last.
const MARK: &str = "packhorse-staging";

/// A file under its final name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    /// Its path relative to the dataset's folder.
    pub name: String,
    /// Its length in bytes.
    pub bytes: u64,
    /// Its BLAKE3 hash.
    pub blake3: blake3::Hash,
}

/// This process's staging folder for one dataset. Removed when dropped.
pub struct Staging {
    store: Arc<dyn Store>,
    out: PathBuf,
    dir: PathBuf,
    next: AtomicU64,
}

impl Staging {
    /// The parent of all staging folders of a dataset.
    pub fn folder(out: &Path) -> PathBuf {
        out.join(FOLDER)
    }

    /// The folder in which the replacement of the dataset in `out` is packed.
    pub fn replacing(out: &Path) -> PathBuf {
        out.join(REPLACING)
    }

    /// Durably creates the folder `out` if needed, and a staging folder in it.
    ///
    /// Errors: `Unsupported` if `out` is a URL; `Config` if `.staging` is a symbolic link; `Environment`.
    pub fn open(store: Arc<dyn Store>, out: &Path) -> Result<Self> {
        Location::local(out)?;
        let new: Vec<&Path> = out.ancestors().take_while(|dir| store.stat(dir, true).is_err()).collect();
        store.create_dir(out)?;
        let below = store.beneath(root(out))?.unwrap_or_else(|| Arc::clone(&store));
        let dir = out.join(FOLDER).join(own_name());
        // From here on, drop cleans up.
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

    /// A folder for unnamed temporary files.
    pub fn scratch(&self) -> &Path {
        &self.dir
    }

    /// The cleanup that drop would do, for a process about to exit without dropping.
    pub fn abandon(&self) -> impl FnOnce() + Send + use<> {
        let (store, out, dir) = (Arc::clone(&self.store), self.out.clone(), self.dir.clone());
        move || {
            // Retry once, in case a single call failed.
            if !clear(&*store, &dir) {
                clear(&*store, &dir);
            }
            sweep(&*store, &out, false);
        }
    }

    /// A group of files to publish together; their names start with `stem`.
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

    /// Removes the staging folders of dead processes of this host; with `all` also those of other hosts, dead or
    /// alive. Never fails: whatever can't be removed or is not ours stays.
    pub fn sweep(store: &dyn Store, out: &Path, all: bool) {
        // A missing or unreadable folder holds nothing to remove.
        match store.beneath(root(out)) {
            Ok(Some(below)) => sweep(&*below, out, all),
            Ok(None) => sweep(store, out, all),
            Err(_) => {}
        }
    }
}

/// The folder below which no link is followed; for `.replacing` its parent, since others may have made it.
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
    // Fails on purpose while other processes still stage.
    let _ = store.remove_dir(&folder);
}

/// Removes one of our staging folders: numbered folders and their files, other files, the mark, the folder itself.
/// Anything else stays, and the folder with it. A folder without our mark stays unless it is empty: then its process
/// ended before it wrote the mark. Returns whether the folder is gone.
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

/// Removes a group's files and folder.
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

/// Creates the staging folder `dir`. Another process may remove the empty parent just before `dir` is created in it;
/// then both are created again.
fn make(store: &dyn Store, dir: &Path) -> Result<()> {
    const TRIES: usize = 100;
    let vanished = |made: &Result<()>| {
        made.as_ref().is_err_and(|e| matches!(e.io_kind(), Some(ErrorKind::NotFound | ErrorKind::AlreadyExists)))
    };
    let mut made = store.create_dir(dir);
    for _ in 1..TRIES {
        if !vanished(&made) {
            break;
        }
        made = store.create_dir(dir);
    }
    made
}

/// A group of files that are written, then published together.
pub struct Stage {
    store: Arc<dyn Store>,
    out: PathBuf,
    dir: PathBuf,
    stem: String,
    files: Vec<Staged>,
}

struct Staged {
    name: String,
    /// Set when the file is complete; `None` for a file written by path.
    done: Option<Done>,
    /// Hash and length of a file written by path, if known without reading it.
    known: Option<(Hash, u64)>,
}

type Done = Arc<Mutex<Option<Written>>>;

struct Written {
    file: Box<dyn StoreFile>,
    hash: Hash,
    bytes: u64,
}

impl Stage {
    /// Writes `bytes` as the file with `suffix`.
    pub fn write(&mut self, suffix: &str, bytes: &[u8]) -> Result<()> {
        let mut writer = self.stream(suffix)?;
        writer.write_all(bytes).context("write")
    }

    /// Syncs, closes and renames all files, in the order of their creation, and syncs the folders. After an error
    /// none or some are renamed; they do not count until a receipt is published.
    pub fn publish(self) -> Result<Vec<Published>> {
        self.publish_if(|_| Ok(()))
    }

    /// Like [`publish`](Self::publish), unless `check` refuses the written files; then none is renamed.
    pub fn publish_if(self, check: impl FnOnce(&[Published]) -> Result<()>) -> Result<Vec<Published>> {
        let ready = self.ready()?;
        check(ready.files())?;
        ready.publish()
    }

    /// Syncs and closes all files, which are published later.
    pub fn ready(mut self) -> Result<ReadyStage> {
        let staged = std::mem::take(&mut self.files);
        let files = staged.iter().map(|staged| self.settle(staged)).collect::<Result<Vec<_>>>()?;
        Ok(ReadyStage { stage: self, files })
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

/// A group of complete files, synced and closed, under their staged names. Dropping removes them.
pub struct ReadyStage {
    stage: Stage,
    files: Vec<Published>,
}

impl ReadyStage {
    /// The files in the order of their creation, with the names that they will have.
    pub fn files(&self) -> &[Published] {
        &self.files
    }

    /// Renames all files, in order, and syncs the folders. After an error none or some are renamed.
    pub fn publish(self) -> Result<Vec<Published>> {
        let Stage { store, out, dir, .. } = &self.stage;
        let mut dirs = vec![out.clone()];
        for file in &self.files {
            let target = out.join(&file.name);
            if let Some(parent) = target.parent().filter(|p| !dirs.iter().any(|d| d == p)) {
                store.create_dir(parent)?;
                dirs.push(parent.to_owned());
            }
            store.rename(&dir.join(flat(&file.name)), &target)?;
        }
        dirs.iter().rev().try_for_each(|dir| store.sync_dir(dir))?;
        Ok(self.files)
    }
}

/// Bytes hashed at once, small enough to be still in the cache.
const READ: usize = 256 << 10;

/// The staged name of a file: flat, so that staging needs no subfolders.
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

    fn patchable(&mut self, suffix: &str) -> Result<Box<dyn PatchableWriter>> {
        let (file, done) = self.create(suffix)?;
        Ok(Box::new(HashingPatchable { file, tree: HashTree::default(), bytes: 0, done }))
    }

    fn concat(&mut self, suffix: &str, parts: &[InputRange<'_>]) -> Result<()> {
        let path = self.add(suffix, None);
        let known = concat(&path, parts)?;
        if let Some(staged) = self.files.last_mut() {
            staged.known = Some(known);
        }
        Ok(())
    }

    fn scratch(&mut self) -> Result<Box<dyn ScratchFile>> {
        Ok(Box::new(Unnamed { dir: self.dir.clone(), file: None, at: 0 }))
    }
}

/// An unnamed temporary file, created with the first byte.
struct Unnamed {
    dir: PathBuf,
    file: Option<File>,
    at: u64,
}

impl ScratchFile for Unnamed {
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
            None => Err(Error::bug("unwritten bytes are read")),
        }
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        clear_group(&*self.store, &self.dir);
    }
}

/// Hashes a stream; passes file and hash to its stage on drop.
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

/// Like [`Hashing`], for a file whose first bytes are written last.
struct HashingPatchable {
    file: Box<dyn StoreFile>,
    tree: HashTree,
    bytes: u64,
    done: Done,
}

impl Write for HashingPatchable {
    fn write(&mut self, buf: &[u8]) -> std::io::Result<usize> {
        // Whole segments: smaller updates use fewer SIMD lanes.
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

impl PatchableWriter for HashingPatchable {
    fn finish(self: Box<Self>, head: &[u8]) -> Result<()> {
        let Self { mut file, tree, bytes, done } = *self;
        let hash = tree.finish(head).ok_or_else(|| Error::bug("a head of more than was written"))?;
        file.write_head(head)?;
        *done.lock().unwrap_or_else(PoisonError::into_inner) = Some(Written { file, hash, bytes });
        Ok(())
    }
}

/// `HOST,PID,START,NONCE`: identifies the owner of a staging folder and shows whether it may still run.
fn own_name() -> String {
    static NONCE: AtomicU64 = AtomicU64::new(0);
    let pid = std::process::id();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |d| d.as_nanos());
    let nonce = NONCE.fetch_add(1, Ordering::Relaxed);
    format!("{},{pid},{},{now:x}-{nonce}", host(), start_time(pid).unwrap_or_default())
}

/// Host name and PID namespace: containers may share a host name but count processes separately.
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

/// The owner of a staging folder.
enum Owner {
    /// A running process of this host.
    Lives,
    /// A dead process of this host.
    Gone,
    /// A process of another host.
    Elsewhere,
    /// Not one of our names.
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
    fn files_get_their_names_at_publish_only() {
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
    fn refused_files_are_not_published() {
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
    fn scratch_has_random_access_and_leaves_nothing() {
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
    fn parent_folders_are_created() {
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

    /// Almost-matching names, a matching folder without the mark, a link under a matching name, and folders and links
    /// inside a matching folder.
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
