//! An in-memory file system that loses unsynced data at a power cut.

use packhorse_core::{Error, FileKind, FileStat, Input, MemoryInput, Result, Store, StoreFile};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a power cut loses. Real ones may lose anything in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// Directory entries of unsynced folders: new names vanish, renamed files get their old names back.
    Names,
    /// File contents: all names exist, but unsynced files are empty, as ext4 and XFS may leave them.
    Bytes,
}

/// A deliberate violation of the store contract, to prove that tests detect it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mutant {
    /// Keeps the contract.
    #[default]
    None,
    /// Closes files without syncing them.
    FilesUnsynced,
    /// Reports folders as synced without syncing them.
    FoldersUnsynced,
    /// Syncs a file only after its rename.
    SyncAfterRename,
}

const ENOENT: i32 = 2;

/// Files and folders in memory. Every path starts at `/`.
#[derive(Clone, Default)]
pub struct PowerStore {
    disk: Arc<Mutex<Disk>>,
    mutant: Mutant,
}

#[derive(Default)]
struct Disk {
    /// The state that programs see.
    live: BTreeMap<PathBuf, Node>,
    /// The state that survives a power cut.
    durable: BTreeMap<PathBuf, Node>,
    files: BTreeMap<u64, Contents>,
    next: u64,
    /// Changes so far, and the count at which the power fails.
    changes: u64,
    until: Option<u64>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Node {
    id: u64,
    folder: bool,
}

#[derive(Default)]
struct Contents {
    live: Vec<u8>,
    synced: Vec<u8>,
}

impl PowerStore {
    /// An empty file system.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same files, through a store that breaks the contract.
    pub fn mutant(&self, mutant: Mutant) -> Self {
        Self { disk: self.disk.clone(), mutant }
    }

    /// Durably stores a file and its folders.
    pub fn put(&self, path: &Path, bytes: &[u8]) {
        let mut disk = self.disk();
        disk.folders(path.parent().unwrap_or(Path::new("/")));
        let id = disk.add(path, false);
        disk.files.insert(id, Contents { live: bytes.to_vec(), synced: bytes.to_vec() });
        disk.durable = disk.live.clone();
    }

    /// Changes so far: creations, writes, syncs, renames, removals.
    pub fn changes(&self) -> u64 {
        self.disk().changes
    }

    /// Makes the power fail after `changes` more changes: every later call fails with EIO.
    pub fn fail_after(&self, changes: u64) {
        let mut disk = self.disk();
        disk.until = Some(disk.changes + changes);
    }

    /// Cuts the power and restarts.
    pub fn cut(&self, loss: Loss) {
        let mut disk = self.disk();
        let disk = &mut *disk;
        if loss == Loss::Names {
            disk.live = disk.durable.clone();
            // Files in lost folders are lost.
            let durable = &disk.durable;
            disk.live.retain(|path, _| {
                path.ancestors().skip(1).all(|above| above == Path::new("/") || durable.contains_key(above))
            });
        }
        disk.durable = disk.live.clone();
        disk.files.values_mut().for_each(|file| file.live = file.synced.clone());
        disk.until = None;
    }

    /// Every file below `dir`, with its bytes.
    pub fn files(&self, dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
        let disk = self.disk();
        let below = disk.live.iter().filter(|(path, node)| !node.folder && path.starts_with(dir));
        below.map(|(path, node)| (path.clone(), disk.files[&node.id].live.clone())).collect()
    }

    fn disk(&self) -> MutexGuard<'_, Disk> {
        self.disk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the disk for a change to `path`.
    fn change(&self, path: &Path) -> Result<MutexGuard<'_, Disk>> {
        let mut disk = self.look(path)?;
        disk.changes += 1;
        Ok(disk)
    }

    fn look(&self, path: &Path) -> Result<MutexGuard<'_, Disk>> {
        let disk = self.disk();
        match disk.until {
            Some(until) if disk.changes >= until => Err(errno(5, path)),
            _ => Ok(disk),
        }
    }
}

fn errno(number: i32, path: &Path) -> Error {
    Error::io("access", io::Error::from_raw_os_error(number)).in_input(path.display())
}

impl Disk {
    fn add(&mut self, path: &Path, folder: bool) -> u64 {
        self.next += 1;
        self.live.insert(path.to_owned(), Node { id: self.next, folder });
        self.next
    }

    fn folders(&mut self, dir: &Path) {
        let missing: Vec<&Path> =
            dir.ancestors().take_while(|d| *d != Path::new("/") && !self.live.contains_key(*d)).collect();
        missing.into_iter().rev().for_each(|dir| {
            self.add(dir, true);
        });
    }

    fn node(&self, path: &Path) -> Result<Node> {
        match path == Path::new("/") {
            true => Ok(Node { id: 0, folder: true }),
            false => self.live.get(path).copied().ok_or_else(|| errno(ENOENT, path)),
        }
    }

    fn sync(&mut self, id: u64) {
        if let Some(file) = self.files.get_mut(&id) {
            file.synced = file.live.clone();
        }
    }
}

fn inside(dir: &Path) -> impl Fn(&PathBuf) -> bool {
    let dir = dir.to_owned();
    move |path| path.parent() == Some(&dir)
}

impl Store for PowerStore {
    fn list(&self, dir: &Path) -> Result<Vec<PathBuf>> {
        let disk = self.look(dir)?;
        disk.node(dir)?;
        Ok(disk.live.keys().filter(|path| inside(dir)(path)).filter_map(|p| p.file_name().map(PathBuf::from)).collect())
    }

    fn stat(&self, path: &Path, _follow: bool) -> Result<FileStat> {
        let disk = self.look(path)?;
        let node = disk.node(path)?;
        let kind = if node.folder { FileKind::Directory } else { FileKind::File };
        let size = disk.files.get(&node.id).map_or(0, |file| file.live.len() as u64);
        Ok(FileStat { kind, size, mtime: 0, ctime: 0, id: (0, node.id) })
    }

    fn open(&self, path: &Path) -> Result<Box<dyn Input>> {
        let disk = self.look(path)?;
        let node = disk.node(path)?;
        let file = disk.files.get(&node.id).ok_or_else(|| Error::content("is not a regular file"))?;
        let bytes = MemoryInput::new(path.to_string_lossy(), file.live.clone());
        Ok(Box::new(PowerInput { store: self.clone(), bytes, path: path.to_owned() }))
    }

    fn create(&self, path: &Path) -> Result<Box<dyn StoreFile>> {
        const EEXIST: i32 = 17;
        let mut disk = self.change(path)?;
        disk.node(path.parent().unwrap_or(Path::new("/")))?;
        if disk.live.contains_key(path) {
            return Err(errno(EEXIST, path));
        }
        let id = disk.add(path, false);
        disk.files.insert(id, Contents::default());
        Ok(Box::new(PowerFile { store: self.clone(), path: path.to_owned(), id }))
    }

    fn sync_file(&self, path: &Path) -> Result<()> {
        let mut disk = self.change(path)?;
        let node = disk.node(path)?;
        disk.sync(node.id);
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        let mut disk = self.change(to)?;
        let node = disk.node(from)?;
        disk.node(to.parent().unwrap_or(Path::new("/")))?;
        disk.live.remove(from);
        disk.live.insert(to.to_owned(), node);
        drop(disk);
        if self.mutant == Mutant::SyncAfterRename {
            self.change(to)?.sync(node.id);
        }
        Ok(())
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        let mut disk = self.change(dir)?;
        disk.node(dir)?;
        if self.mutant != Mutant::FoldersUnsynced {
            let disk = &mut *disk;
            disk.durable.retain(|path, _| !inside(dir)(path));
            disk.durable.extend(disk.live.iter().filter(|(path, _)| inside(dir)(path)).map(|(p, n)| (p.clone(), *n)));
        }
        Ok(())
    }

    fn create_dir(&self, dir: &Path) -> Result<()> {
        self.change(dir)?.folders(dir);
        Ok(())
    }

    fn remove(&self, path: &Path) -> Result<()> {
        self.change(path)?.live.remove(path);
        Ok(())
    }

    fn remove_dir(&self, dir: &Path) -> Result<()> {
        const ENOTEMPTY: i32 = 39;
        let mut disk = self.change(dir)?;
        if disk.live.keys().any(inside(dir)) {
            return Err(errno(ENOTEMPTY, dir));
        }
        disk.live.remove(dir);
        Ok(())
    }
}

/// A snapshot of a file at open.
struct PowerInput {
    store: PowerStore,
    bytes: MemoryInput,
    path: PathBuf,
}

impl Input for PowerInput {
    packhorse_core::forward_input!(bytes: name len read_at stream);

    fn sibling(&self, name: &str) -> Result<Option<Box<dyn Input>>> {
        beside(&self.store, &self.path, name)
    }
}

/// Opens the file `name` next to `path`, if it exists.
pub(super) fn beside(store: &dyn Store, path: &Path, name: &str) -> Result<Option<Box<dyn Input>>> {
    match store.open(&path.with_file_name(name)) {
        Ok(input) => Ok(Some(input)),
        Err(e) if e.is_not_found() => Ok(None),
        Err(e) => Err(e),
    }
}

struct PowerFile {
    store: PowerStore,
    path: PathBuf,
    id: u64,
}

impl Write for PowerFile {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let mut disk = self.store.change(&self.path)?;
        if let Some(file) = disk.files.get_mut(&self.id) {
            file.live.extend_from_slice(buf);
        }
        Ok(buf.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl StoreFile for PowerFile {
    fn write_head(&mut self, head: &[u8]) -> Result<()> {
        let mut disk = self.store.change(&self.path)?;
        let first = disk.files.get_mut(&self.id).and_then(|file| file.live.get_mut(..head.len()));
        first.ok_or_else(|| Error::bug("a head of more than was written"))?.copy_from_slice(head);
        Ok(())
    }

    fn sync_and_close(self: Box<Self>) -> Result<()> {
        let mut disk = self.store.change(&self.path)?;
        if !matches!(self.store.mutant, Mutant::FilesUnsynced | Mutant::SyncAfterRename) {
            disk.sync(self.id);
        }
        Ok(())
    }
}
