//! Writers of staged files that hash what they write.

use crate::hash_tree::HashTree;
use blake3::{Hash, Hasher};
use packhorse_core::{Error, PatchableWriter, Result, StoreFile};
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

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
    done: Done,
}

impl Hashing {
    pub(crate) fn new(file: Box<dyn StoreFile>, done: Done) -> Self {
        Self { file: Some(file), hasher: Hasher::new(), bytes: 0, done }
    }
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
pub(crate) struct HashingPatchable {
    file: Box<dyn StoreFile>,
    tree: HashTree,
    bytes: u64,
    done: Done,
}

impl HashingPatchable {
    pub(crate) fn new(file: Box<dyn StoreFile>, done: Done) -> Self {
        Self { file, tree: HashTree::default(), bytes: 0, done }
    }
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
