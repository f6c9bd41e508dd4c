//! Writers of staged files that hash what they write.

use crate::hash_tree::HashTree;
use blake3::{Hash, Hasher};
use packhorse_core::{Error, PatchableWriter, Result, StoreFile};
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Where a writer leaves a complete file.
pub(crate) type Done = Arc<Mutex<Option<Written>>>;

/// A complete file, not yet synced.
pub(crate) struct Written {
    pub(crate) file: Box<dyn StoreFile>,
    pub(crate) hash: Hash,
    pub(crate) bytes: u64,
}

/// Hashes a stream; passes file and hash to its stage on drop.
pub(crate) struct Hashing {
    file: Option<Box<dyn StoreFile>>,
    hasher: Hasher,
    bytes: u64,
    effort: Effort,
    done: Done,
}

impl Hashing {
    pub(crate) fn new(file: Box<dyn StoreFile>, done: Done) -> Self {
        Self { file: Some(file), hasher: Hasher::new(), bytes: 0, effort: Effort::new(), done }
    }
}

impl Write for Hashing {
    fn write(&mut self, buf: &[u8]) -> std::io::Result<usize> {
        let Some(file) = &mut self.file else { return Err(Error::bug("write after drop").into()) };
        let n = self.effort.store(|| file.write(buf))?;
        let written = buf.get(..n).unwrap_or(buf);
        let hasher = &mut self.hasher;
        self.effort.hash(|| {
            hasher.update(written);
        });
        self.bytes += n as u64;
        Ok(n)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// How long the bytes of a file took to write and to hash: measured where a subscriber of `tracing` wants it, and told when the
/// file is complete. Writes are too short for a span each.
#[derive(Default)]
struct Effort {
    wanted: bool,
    store: Duration,
    hash: Duration,
}

impl Effort {
    fn new() -> Self {
        let wanted = tracing::enabled!(target: "packhorse::storage", tracing::Level::DEBUG);
        Self { wanted, ..Self::default() }
    }

    /// Adds the time that `work` takes.
    fn of<T>(wanted: bool, time: &mut Duration, work: impl FnOnce() -> T) -> T {
        if !wanted {
            return work();
        }
        let start = Instant::now();
        let done = work();
        *time += start.elapsed();
        done
    }

    fn store<T>(&mut self, work: impl FnOnce() -> T) -> T {
        Self::of(self.wanted, &mut self.store, work)
    }

    fn hash<T>(&mut self, work: impl FnOnce() -> T) -> T {
        Self::of(self.wanted, &mut self.hash, work)
    }

    fn tell(&self, bytes: u64) {
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let (store_us, hash_us) = (micros(self.store), micros(self.hash));
        tracing::debug!(name: "stored", target: "packhorse::storage", bytes, store_us, hash_us);
    }
}

impl Drop for Hashing {
    fn drop(&mut self) {
        self.effort.tell(self.bytes);
        let written = self.file.take().map(|file| Written { file, hash: self.hasher.finalize(), bytes: self.bytes });
        *self.done.lock().unwrap_or_else(PoisonError::into_inner) = written;
    }
}

/// Like [`Hashing`], for a file whose first bytes are written last.
pub(crate) struct HashingPatchable {
    file: Box<dyn StoreFile>,
    tree: HashTree,
    bytes: u64,
    effort: Effort,
    done: Done,
}

impl HashingPatchable {
    pub(crate) fn new(file: Box<dyn StoreFile>, done: Done) -> Self {
        Self { file, tree: HashTree::default(), bytes: 0, effort: Effort::new(), done }
    }
}

impl Write for HashingPatchable {
    fn write(&mut self, buf: &[u8]) -> std::io::Result<usize> {
        // Whole segments: smaller updates use fewer SIMD lanes.
        let piece = buf.get(..self.tree.room()).unwrap_or(buf);
        let (file, tree) = (&mut self.file, &mut self.tree);
        let n = self.effort.store(|| file.write(piece))?;
        self.effort.hash(|| tree.update(piece.get(..n).unwrap_or(piece)));
        self.bytes += n as u64;
        Ok(n)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl PatchableWriter for HashingPatchable {
    fn finish(self: Box<Self>, head: &[u8]) -> Result<()> {
        let Self { mut file, tree, bytes, effort, done } = *self;
        effort.tell(bytes);
        let hash = tree.finish(head).ok_or_else(|| Error::bug("a head of more than was written"))?;
        file.write_head(head)?;
        *done.lock().unwrap_or_else(PoisonError::into_inner) = Some(Written { file, hash, bytes });
        Ok(())
    }
}
