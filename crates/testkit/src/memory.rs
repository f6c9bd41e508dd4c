//! An in-memory outlet and inputs.

use packhorse_core::{Context, Error, Input, MemoryInput, Outlet, PatchableWriter, Result, ScratchFile};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Keeps files in memory.
#[derive(Default)]
pub struct MemoryOutlet(BTreeMap<String, Arc<Mutex<Vec<u8>>>>);

impl MemoryOutlet {
    /// An outlet without files.
    pub fn new() -> Self {
        Self::default()
    }

    /// Every file by suffix. Call it after the writers are dropped.
    pub fn files(&self) -> BTreeMap<String, Vec<u8>> {
        self.0.iter().map(|(suffix, bytes)| (suffix.clone(), lock(bytes).clone())).collect()
    }

    fn create(&mut self, suffix: &str) -> Result<Box<Shared>> {
        let bytes = Arc::<Mutex<Vec<u8>>>::default();
        match self.0.insert(suffix.to_owned(), bytes.clone()) {
            Some(_) => Err(Error::bug(format!("a sink opened \"{suffix}\" twice"))),
            None => Ok(Box::new(Shared(bytes))),
        }
    }
}

fn lock(bytes: &Mutex<Vec<u8>>) -> std::sync::MutexGuard<'_, Vec<u8>> {
    bytes.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Outlet for MemoryOutlet {
    fn stream(&mut self, suffix: &str) -> Result<Box<dyn Write + Send>> {
        Ok(self.create(suffix)?)
    }

    fn patchable(&mut self, suffix: &str) -> Result<Box<dyn PatchableWriter>> {
        Ok(self.create(suffix)?)
    }

    fn scratch(&mut self) -> Result<Box<dyn ScratchFile>> {
        Ok(Box::new(Vec::new()))
    }
}

/// Files in a folder without hashes and syncs, each called as this path with the suffix behind it; scratch is on disk.
pub struct FolderOutlet(pub PathBuf);

impl FolderOutlet {
    fn create(&self, suffix: &str) -> Result<Box<File>> {
        let mut path = self.0.clone().into_os_string();
        path.push(suffix);
        Ok(Box::new(File::create(path).context("create")?))
    }
}

impl Outlet for FolderOutlet {
    fn stream(&mut self, suffix: &str) -> Result<Box<dyn Write + Send>> {
        Ok(self.create(suffix)?)
    }

    fn patchable(&mut self, suffix: &str) -> Result<Box<dyn PatchableWriter>> {
        Ok(self.create(suffix)?)
    }

    fn scratch(&mut self) -> Result<Box<dyn ScratchFile>> {
        scratch_file()
    }
}

/// Scratch in an unnamed temporary file, for outlets that must save memory.
pub fn scratch_file() -> Result<Box<dyn ScratchFile>> {
    let file = tempfile::tempfile().context("create a temporary file")?;
    Ok(Box::new(Unnamed { file, at: 0 }))
}

struct Unnamed {
    file: File,
    at: u64,
}

impl ScratchFile for Unnamed {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all_at(bytes, self.at).context("write")?;
        self.at += bytes.len() as u64;
        Ok(())
    }

    fn read_at(&mut self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.file.read_exact_at(buf, offset).context("read")
    }
}

struct Shared(Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, buf: &[u8]) -> std::io::Result<usize> {
        lock(&self.0).extend_from_slice(buf);
        Ok(buf.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl PatchableWriter for Shared {
    fn finish(self: Box<Self>, head: &[u8]) -> Result<()> {
        let mut bytes = lock(&self.0);
        let start = bytes.get_mut(..head.len()).ok_or_else(|| Error::bug("a head longer than its file"))?;
        start.copy_from_slice(head);
        Ok(())
    }
}

/// The bytes of a [`MemoryInput`] like a compressed file: unknown length, forward only, in small reads.
pub struct StreamInput(MemoryInput);

impl StreamInput {
    /// An input called `name`.
    pub fn new(name: &str, bytes: Vec<u8>) -> Self {
        Self(MemoryInput::new(name, bytes))
    }
}

impl Input for StreamInput {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn len(&self) -> Option<u64> {
        None
    }

    fn read_at(&self, _: u64, _: &mut [u8]) -> Result<()> {
        Err(Error::bug("a stream was read by position").in_input(self.name()))
    }

    fn stream(&self) -> Result<Box<dyn Read + Send + '_>> {
        Ok(Box::new(Dribble(self.0.stream()?)))
    }

    fn local_path(&self) -> Option<&Path> {
        None
    }
}

/// Returns at most 700 bytes per read.
struct Dribble<'a>(Box<dyn Read + Send + 'a>);

impl Read for Dribble<'_> {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        let n = buf.len().min(700);
        self.0.read(buf.get_mut(..n).unwrap_or_default())
    }
}

/// A [`MemoryInput`] that counts the bytes read by position.
pub struct CountedInput {
    input: MemoryInput,
    path: Option<PathBuf>,
    read: Arc<AtomicU64>,
}

impl CountedInput {
    /// An input called `name`.
    pub fn new(name: &str, bytes: Vec<u8>) -> Self {
        Self { input: MemoryInput::new(name, bytes), path: None, read: Arc::default() }
    }

    /// The same input as a file of this machine, which `name` is the path of.
    pub fn local(name: &str, bytes: Vec<u8>) -> Self {
        Self { path: Some(name.into()), ..Self::new(name, bytes) }
    }

    /// How many bytes were read; stays valid when the input is given away.
    pub fn counter(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.read)
    }

    /// How many bytes were read since the last call.
    pub fn take_read(&self) -> u64 {
        self.read.swap(0, Ordering::Relaxed)
    }
}

impl Input for CountedInput {
    packhorse_core::forward_input!(input: name len stream);

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.read.fetch_add(buf.len() as u64, Ordering::Relaxed);
        self.input.read_at(offset, buf)
    }

    fn local_path(&self) -> Option<&Path> {
        self.path.as_deref()
    }
}
