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
//! In an object store nothing is staged: a file of a group is uploaded while it is written, and gets its name when the
//! group is published. Temporary files are local then.
//!
//! OUT may be shared and contain others' folders and links. No symbolic link below OUT is followed. Only files in a
//! folder with our name and mark, and in its numbered folders, are removed.

use crate::owner::{Owner, own_name, owner};
use crate::{Location, Published, Quarantine, Stage};
use packhorse_core::{Error, FileKind, Result, Store};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const FOLDER: &str = ".staging";

/// The folder inside a dataset in which its replacement is packed.
const REPLACING: &str = ".replacing";

/// The marker file: created first in a staging folder, removed last.
const MARK: &str = "packhorse-staging";

/// This process's staging folder for one dataset. Removed when dropped.
pub struct Staging {
    store: Arc<dyn Store>,
    out: PathBuf,
    dir: PathBuf,
    next: AtomicU64,
    /// Whether `out` is in an object store; then `dir` is the system's folder of temporary files.
    objects: bool,
    /// Keeps files that are replaced by other bytes.
    quarantine: Option<Arc<Quarantine>>,
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

    /// Whether `error` may say that a staged file is gone: a process of another host removed it ([`sweep`](Self::sweep)), which can't
    /// tell those of living processes here from those of dead ones. A rename names the file to be.
    pub fn is_lost(error: &Error, out: &Path) -> bool {
        let stale = error.io_kind() == Some(ErrorKind::StaleNetworkFileHandle);
        (error.is_not_found() || stale) && error.input().is_some_and(|input| Path::new(input).starts_with(out))
    }

    /// Durably creates the folder `out` if needed, and a staging folder in it. For a bucket it creates nothing, and
    /// temporary files go to the system's folder (`TMPDIR`).
    ///
    /// Errors: `Unsupported` if `out` is a URL of another kind; `Config` if `.staging` is a symbolic link; `Environment`.
    pub fn open(store: Arc<dyn Store>, out: &Path) -> Result<Self> {
        if Location::holds_objects(out)? {
            let (out, dir) = (out.to_owned(), std::env::temp_dir());
            return Ok(Self { store, out, dir, next: AtomicU64::new(0), objects: true, quarantine: None });
        }
        let new: Vec<&Path> = out.ancestors().take_while(|dir| store.stat(dir, true).is_err()).collect();
        store.create_dir(out)?;
        let below = store.beneath(root(out))?.unwrap_or_else(|| Arc::clone(&store));
        let dir = out.join(FOLDER).join(own_name());
        // From here on, drop cleans up.
        let next = AtomicU64::new(0);
        let staging = Self { store: below, out: out.to_owned(), dir, next, objects: false, quarantine: None };
        make(&*staging.store, &staging.dir)?;
        drop(staging.store.create(&staging.dir.join(MARK))?);
        for parent in new.iter().filter_map(|dir| dir.parent()) {
            store.sync_dir(if parent.as_os_str().is_empty() { Path::new(".") } else { parent })?;
        }
        Ok(staging)
    }

    /// Whether another staging folder of the dataset belongs to a running process of this host.
    pub fn has_neighbours(&self) -> bool {
        let lives = |name: &PathBuf| matches!(owner(&name.to_string_lossy()), Owner::Lives);
        let names = self.store.list(&self.out.join(FOLDER)).unwrap_or_default();
        !self.objects && names.iter().any(|name| Some(name.as_os_str()) != self.dir.file_name() && lives(name))
    }

    /// Files that are replaced by other bytes go into `quarantine`.
    #[must_use]
    pub fn keeping(mut self, quarantine: Option<Arc<Quarantine>>) -> Self {
        self.quarantine = quarantine;
        self
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
        let objects = self.objects;
        move || {
            if objects {
                return;
            }
            // Retry once, in case a single call failed.
            if !clear(&*store, &dir) {
                clear(&*store, &dir);
            }
            sweep(&*store, &out, &|owner| owner == Owner::Gone);
        }
    }

    /// A group of files to publish together; their names start with `stem`.
    pub fn stage(&self, stem: &str) -> Result<Stage> {
        let mut dir = self.dir.clone();
        if !self.objects {
            self.mark_again()?;
            dir.push(self.next.fetch_add(1, Ordering::Relaxed).to_string());
            self.store.create_dir(&dir)?;
        }
        Ok(Stage::new(self.store.clone(), self.out.clone(), dir, stem, self.objects, self.quarantine.clone()))
    }

    /// Recreates the folder and its mark if a process of another host removed them. Unmarked folders are never cleaned up.
    fn mark_again(&self) -> Result<()> {
        let mark = self.dir.join(MARK);
        if !self.store.stat(&mark, false).is_err_and(|e| e.is_absent()) {
            return Ok(());
        }
        make(&*self.store, &self.dir)?;
        match self.store.create(&mark) {
            Err(e) if e.is_taken() => Ok(()),
            made => made.map(drop),
        }
    }

    /// Publishes one small file.
    pub fn document(&self, name: &str, bytes: &[u8]) -> Result<Published> {
        let mut stage = self.stage(name)?;
        stage.write("", bytes)?;
        stage.publish()?.pop().ok_or_else(|| Error::bug("a staged document vanished"))
    }

    /// Removes the staging folders of dead processes of this host; with `all` also those of other hosts, dead or
    /// alive, and all unfinished uploads. Never fails: whatever can't be removed or is not ours stays. Returns how many
    /// it removed.
    pub fn sweep(store: &dyn Store, out: &Path, all: bool) -> u64 {
        if Location::url(out).is_some() {
            return if all { store.abort_uploads(out).unwrap_or(0) } else { 0 };
        }
        let goes = |owner| owner == Owner::Gone || all && owner == Owner::Elsewhere;
        // A missing or unreadable folder holds nothing to remove.
        match store.beneath(root(out)) {
            Ok(Some(below)) => sweep(&*below, out, &goes),
            Ok(None) => sweep(store, out, &goes),
            Err(_) => 0,
        }
    }

    /// Removes the staging folders of all processes, also of running ones: what they have staged is never published, however late
    /// they go on. They begin again, and meet what has changed meanwhile. Of an object store nothing is removed. Never fails.
    pub fn cut_off(store: &dyn Store, out: &Path) {
        if Location::url(out).is_some() {
            return;
        }
        let goes = |owner| owner != Owner::Foreign;
        match store.beneath(root(out)) {
            Ok(Some(below)) => drop(sweep(&*below, out, &goes)),
            Ok(None) => drop(sweep(store, out, &goes)),
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

/// Removes the staging folders whose owner `goes`.
fn sweep(store: &dyn Store, out: &Path, goes: &dyn Fn(Owner) -> bool) -> u64 {
    let folder = out.join(FOLDER);
    let mut removed = 0;
    for name in store.list(&folder).unwrap_or_default() {
        if goes(owner(&name.to_string_lossy())) && clear(store, &folder.join(name)) {
            removed += 1;
        }
    }
    // Fails on purpose while other processes still stage.
    let _ = store.remove_dir(&folder);
    removed
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
pub(crate) fn clear_group(store: &dyn Store, dir: &Path) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Local;
    use crate::owner::host;
    use packhorse_core::Outlet;

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
        let mut head = stage.patchable(".h5").unwrap();
        head.write_all(b"....body").unwrap();
        head.finish(b"head").unwrap();
        assert_eq!(names(out.path()), [FOLDER]);
        let published = stage.publish().unwrap();
        drop(staging);
        assert_eq!(names(out.path()), ["s-000000.h5", "s-000000.tar"]);
        assert_eq!(published[0].blake3, blake3::hash(b"hello"));
        assert_eq!((published[1].bytes, published[1].blake3), (8, blake3::hash(b"headbody")));
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

    #[test]
    fn what_is_staged_after_another_host_swept_is_swept_too() {
        let out = tempfile::tempdir().unwrap();
        let staging = Staging::open(Arc::new(Local), out.path()).unwrap();
        std::fs::remove_dir_all(out.path().join(FOLDER)).unwrap();
        let mut stage = staging.stage("shard-000000").unwrap();
        stage.write(".tar", b"half").unwrap();
        // As if this process were killed.
        std::mem::forget((staging, stage));
        let dead = out.path().join(FOLDER).join("elsewhere,1,1,1");
        let ours = std::fs::read_dir(out.path().join(FOLDER)).unwrap().next().unwrap().unwrap().path();
        std::fs::rename(ours, dead).unwrap();
        assert_eq!(Staging::sweep(&Local, out.path(), true), 1);
        assert!(!out.path().join(FOLDER).exists());
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
