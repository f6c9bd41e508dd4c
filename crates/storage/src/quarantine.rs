//! Quarantine: damaged files of a dataset that were replaced, kept with a reason until someone asks to remove them.
//!
//! ```text
//! OUT/.quarantine/1/shard-000001.tar                the damaged file, under its name
//! OUT/.quarantine/1/shard-000001.tar.reason.json    what was wrong with it, and what took its place
//! ```
//!
//! Each repair that finds damage has a folder of its own, numbered from 1. Files are moved; objects, which can't be
//! moved, are copied before they are replaced.

use crate::{Location, Published};
use packhorse_core::{Context, DirEntry, Error, FileKind, FileStat, Kind, Result, Store, counted};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

const FOLDER: &str = ".quarantine";

/// The end of the name of a reason.
const REASON: &str = ".reason.json";

/// Bytes read at once, small enough to be still in the cache when they are hashed.
const READ: usize = 256 << 10;

/// Where a repair of one dataset keeps the files that it replaces by other bytes.
pub struct Quarantine {
    store: Arc<dyn Store>,
    out: PathBuf,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    /// The folder of this repair, once it is needed.
    folder: Option<PathBuf>,
    /// The kept files, relative to the dataset's folder.
    files: Vec<String>,
}

/// What lies in quarantine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quarantined {
    /// Damaged files, without their reasons.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Quarantine {
    /// For the dataset in the existing folder `out`. Writes nothing yet.
    ///
    /// Errors: `Environment` if the folder can't be opened.
    pub fn new(store: &Arc<dyn Store>, out: &Path) -> Result<Self> {
        let store = store.beneath(out)?.unwrap_or_else(|| Arc::clone(store));
        Ok(Self { store, out: out.to_owned(), kept: Mutex::default() })
    }

    /// The parent of the folders of all repairs of the dataset in `out`.
    pub fn folder(out: &Path) -> PathBuf {
        out.join(FOLDER)
    }

    /// The files kept so far, relative to the dataset's folder, sorted.
    pub fn kept(&self) -> Vec<String> {
        let mut files = self.kept.lock().unwrap_or_else(PoisonError::into_inner).files.clone();
        files.sort();
        files
    }

    /// Moves the file that `new` is about to replace into quarantine, unless it has the same bytes. An object is copied.
    ///
    /// Errors: `Environment`; the file stays then.
    pub(crate) fn keep(&self, new: &Published) -> Result<()> {
        let path = self.out.join(&new.name);
        let stat = match self.store.stat(&path, false) {
            Err(e) if e.is_absent() => return Ok(()),
            stat => stat?,
        };
        let Some(problem) = self.problem(&path, &stat, new)? else { return Ok(()) };
        let folder = self.own_folder()?;
        let target = folder.join(&new.name);
        let reason = serde_json::json!({
            "file": new.name, "problem": problem, "bytes": stat.size,
            "replaced_by": { "bytes": new.bytes, "blake3": new.blake3.to_hex().as_str() },
        });
        let said = with_end(&target, REASON);
        if Location::url(&self.out).is_some() {
            self.upload(&said, &mut format!("{reason}\n").as_bytes())?;
            self.upload(&target, &mut self.store.open(&path)?.stream()?)?;
        } else {
            let parent = target.parent().unwrap_or(&folder);
            self.store.create_dir(parent)?;
            // An earlier attempt may have been stopped after the reason.
            self.store.remove(&said)?;
            let mut file = self.store.create(&said)?;
            file.write_all(format!("{reason}\n").as_bytes())
                .context("write")
                .map_err(|e| e.in_input(said.display()))?;
            file.sync_and_close()?;
            self.store.rename(&path, &target)?;
            self.store.sync_dir(parent)?;
        }
        let shown = target.strip_prefix(&self.out).unwrap_or(&target);
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.files.push(shown.to_string_lossy().into_owned());
        Ok(())
    }

    /// The folder of this quarantine, new at its first use.
    fn own_folder(&self) -> Result<PathBuf> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(folder) = &kept.folder {
            return Ok(folder.clone());
        }
        Ok(kept.folder.insert(self.next_folder()?).clone())
    }

    /// The damage of a file; `None` if it has the bytes of `new`.
    fn problem(&self, path: &Path, stat: &FileStat, new: &Published) -> Result<Option<String>> {
        match stat.kind {
            FileKind::File => {}
            // A folder is in the way, and publishing says so.
            FileKind::Directory => return Ok(None),
            FileKind::Symlink => return Ok(Some("was a symbolic link".to_owned())),
            FileKind::Special => return Ok(Some("was not a regular file".to_owned())),
        }
        if stat.size != new.bytes {
            return Ok(Some(format!("had {} instead of {}", counted(stat.size, "byte"), new.bytes)));
        }
        match self.digest(path) {
            Ok(digest) if digest == new.blake3 => Ok(None),
            Ok(digest) => Ok(Some(format!("its bytes had the digest {}", digest.to_hex()))),
            // A file with sectors that can't be read can be moved all the same.
            Err(e) if e.kind() == Kind::Environment && Location::url(path).is_none() => {
                Ok(Some(format!("could not be read: {}", e.message())))
            }
            Err(e) => Err(e),
        }
    }

    fn digest(&self, path: &Path) -> Result<blake3::Hash> {
        let input = self.store.open(path)?;
        let mut hasher = blake3::Hasher::new();
        pass(&mut *input.stream()?, &mut |bytes| {
            hasher.update(bytes);
            Ok(())
        })
        .map_err(|e| e.in_input(path.display()))?;
        Ok(hasher.finalize())
    }

    fn upload(&self, path: &Path, bytes: &mut dyn Read) -> Result<()> {
        let file = self.store.upload(path, false)?;
        let mut file = file.ok_or_else(|| Error::bug("this store takes no objects").in_input(path.display()))?;
        pass(bytes, &mut |bytes| file.write_all(bytes).context("write")).map_err(|e| e.in_input(path.display()))?;
        file.sync_and_close()
    }

    fn next_folder(&self) -> Result<PathBuf> {
        let folder = Self::folder(&self.out);
        let last = entries(&*self.store, &folder)?.iter().filter_map(|(name, _)| number(name)).max().unwrap_or(0);
        Ok(folder.join((last + 1).to_string()))
    }

    /// What lies in quarantine for the dataset in `out`. Nothing where folders can't be listed.
    pub fn look(store: &dyn Store, out: &Path) -> Result<Quarantined> {
        let mut found = Quarantined::default();
        let folders = match folders(store, out) {
            Err(e) if e.kind() == Kind::Unsupported => return Ok(found),
            folders => folders?,
        };
        for folder in folders {
            each_file(store, &folder, &mut |path, stat| {
                if !is_reason(path) {
                    found.files += 1;
                    found.bytes += stat.size;
                }
                Ok(())
            })?;
        }
        Ok(found)
    }

    /// Removes all that lies in quarantine for the dataset in `out`; returns what it was. Follows no link; folders of others
    /// stay.
    pub fn empty(store: &Arc<dyn Store>, out: &Path) -> Result<Quarantined> {
        let found = Self::look(&**store, out)?;
        let store = store.beneath(out)?.unwrap_or_else(|| Arc::clone(store));
        for folder in folders(&*store, out)? {
            let mut inner = vec![folder.clone()];
            each_file(&*store, &folder, &mut |path, _| {
                let above = path.ancestors().skip(1).take_while(|above| above.starts_with(&folder));
                inner.extend(above.map(Path::to_owned));
                store.remove(path)
            })?;
            inner.sort();
            inner.dedup();
            inner.iter().rev().try_for_each(|folder| store.remove_dir(folder))?;
        }
        // Fails on purpose while it holds something else.
        let _ = store.remove_dir(&Self::folder(out));
        Ok(found)
    }
}

impl std::fmt::Debug for Quarantine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Quarantine").field("out", &self.out).finish_non_exhaustive()
    }
}

/// Calls `each` with every file below the folder `dir`.
fn each_file(store: &dyn Store, dir: &Path, each: &mut dyn FnMut(&Path, &FileStat) -> Result<()>) -> Result<()> {
    for (name, stat) in entries(store, dir)? {
        let path = dir.join(name);
        match stat.kind {
            FileKind::Directory => each_file(store, &path, each)?,
            _ => each(&path, &stat)?,
        }
    }
    Ok(())
}

/// The folders of repairs of the dataset in `out`. Links to folders are none of ours.
fn folders(store: &dyn Store, out: &Path) -> Result<Vec<PathBuf>> {
    let folder = Quarantine::folder(out);
    // A link in the place of the folder is not followed; in an object store there are none.
    if Location::url(out).is_none() {
        match store.stat(&folder, false) {
            Ok(stat) if stat.kind == FileKind::Directory => {}
            Err(e) if !e.is_absent() => return Err(e),
            _ => return Ok(Vec::new()),
        }
    }
    let ours = |(name, stat): &(PathBuf, FileStat)| number(name).is_some() && stat.kind == FileKind::Directory;
    Ok(entries(store, &folder)?.iter().filter(|entry| ours(entry)).map(|(name, _)| folder.join(name)).collect())
}

/// Names in a folder, and what they are; none if there is no such folder.
fn entries(store: &dyn Store, folder: &Path) -> Result<Vec<(PathBuf, FileStat)>> {
    let names = match store.entries(folder) {
        Err(e) if e.is_absent() => return Ok(Vec::new()),
        names => names?,
    };
    let mut found = Vec::new();
    for DirEntry { name, stat, .. } in names {
        match stat.map_or_else(|| store.stat(&folder.join(&name), false), Ok) {
            Err(e) if e.is_absent() => {}
            stat => found.push((name, stat?)),
        }
    }
    Ok(found)
}

/// The number of a folder of one repair.
fn number(name: &Path) -> Option<u64> {
    name.to_str().filter(|name| name.bytes().all(|b| b.is_ascii_digit()))?.parse().ok()
}

fn is_reason(path: &Path) -> bool {
    path.to_string_lossy().ends_with(REASON)
}

fn with_end(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    name.into()
}

/// Passes all bytes to `take`.
pub(crate) fn pass(bytes: &mut dyn Read, take: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
    let mut piece = packhorse_core::aligned(READ);
    loop {
        match bytes.read(&mut piece) {
            Ok(0) => return Ok(()),
            Ok(n) => take(piece.get(..n).unwrap_or_default())?,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e).context("read"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Local, Staging};
    use packhorse_core::Outlet;

    fn local() -> Arc<dyn Store> {
        Arc::new(Local)
    }

    /// Publishes these files, and keeps what they replace.
    fn publish(out: &Path, files: &[(&str, &[u8])]) -> Vec<String> {
        let quarantine = Arc::new(Quarantine::new(&local(), out).unwrap());
        let staging = Staging::open(local(), out).unwrap().keeping(Some(quarantine.clone()));
        for (name, bytes) in files {
            let mut stage = staging.stage(name).unwrap();
            stage.stream("").unwrap().write_all(bytes).unwrap();
            stage.publish().unwrap();
        }
        quarantine.kept()
    }

    #[test]
    fn what_is_replaced_by_other_bytes_is_kept_with_a_reason() {
        let out = tempfile::tempdir().unwrap();
        let out = out.path();
        assert!(publish(out, &[("a.tar", b"good"), (".nv-meta/x.yaml", b"good")]).is_empty());
        std::fs::write(out.join("a.tar"), b"baad").unwrap();
        std::fs::write(out.join(".nv-meta/x.yaml"), b"cut").unwrap();
        let files: [(&str, &[u8]); 3] = [("a.tar", b"good"), (".nv-meta/x.yaml", b"good"), ("new", b"new")];
        assert_eq!(publish(out, &files), [".quarantine/1/.nv-meta/x.yaml", ".quarantine/1/a.tar"]);
        assert_eq!(std::fs::read(out.join("a.tar")).unwrap(), b"good");
        assert_eq!(std::fs::read(out.join(".quarantine/1/a.tar")).unwrap(), b"baad");
        let reason = std::fs::read_to_string(out.join(".quarantine/1/.nv-meta/x.yaml.reason.json")).unwrap();
        assert!(reason.contains("had 3 bytes instead of 4") && reason.contains("\".nv-meta/x.yaml\""), "{reason}");
        // Equal bytes stay where they are; other damage has the next number.
        assert!(publish(out, &files).is_empty());
        std::os::unix::fs::symlink("elsewhere", out.join("link")).unwrap();
        assert_eq!(publish(out, &[("link", b"x")]), [".quarantine/2/link"]);
        assert_eq!(Quarantine::look(&Local, out).unwrap().files, 3);
    }

    #[test]
    fn emptying_removes_what_is_ours_and_follows_no_link() {
        let (out, victim) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let out = out.path();
        assert_eq!(Quarantine::empty(&local(), out).unwrap(), Quarantined::default());
        std::fs::write(victim.path().join("precious"), b"x").unwrap();
        for name in ["a", "b/c"] {
            let path = out.join(".quarantine/1").join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, b"12345").unwrap();
            std::fs::write(with_end(&path, REASON), b"{}").unwrap();
        }
        std::os::unix::fs::symlink(victim.path(), out.join(".quarantine/1/link")).unwrap();
        std::fs::create_dir(out.join(".quarantine/notes")).unwrap();
        let found = Quarantine::empty(&local(), out).unwrap();
        assert_eq!(found.files, 3);
        assert!(victim.path().join("precious").is_file() && out.join(".quarantine/notes").is_dir());
        assert!(!out.join(".quarantine/1").exists());
        std::fs::remove_dir(out.join(".quarantine/notes")).unwrap();
        std::os::unix::fs::symlink(victim.path(), out.join(".quarantine/2")).unwrap();
        assert_eq!(Quarantine::empty(&local(), out).unwrap(), Quarantined::default());
        std::fs::remove_dir_all(out.join(".quarantine")).unwrap();
        std::os::unix::fs::symlink(victim.path(), out.join(".quarantine")).unwrap();
        std::fs::create_dir(victim.path().join("1")).unwrap();
        std::fs::write(victim.path().join("1/x"), b"x").unwrap();
        assert_eq!(Quarantine::empty(&local(), out).unwrap(), Quarantined::default());
        assert!(victim.path().join("1/x").is_file());
    }
}
