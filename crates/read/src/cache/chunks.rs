//! The cached chunks of one shard, each read once.

use packhorse_core::{Error, Result};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// A chunk to cache, and its bytes after the first read.
#[derive(Debug)]
struct Slot {
    number: u64,
    bytes: OnceLock<Box<[u8]>>,
    /// Held by the thread that reads the bytes; others wait for it.
    reading: Mutex<()>,
}

/// The chunks of a shard that are cached.
#[derive(Debug)]
pub(super) struct Chunks {
    len: u64,
    chunk: u64,
    /// In order of their numbers.
    slots: Vec<Slot>,
    held: Arc<Held>,
}

/// The bytes that all chunks of a cache hold, and their limit.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) limit: u64,
    pub(super) bytes: AtomicU64,
}

impl Held {
    /// Reserves `bytes` more; false if that exceeds the limit.
    fn take(&self, bytes: u64) -> bool {
        let taken = |held: u64| held.checked_add(bytes).filter(|&held| held <= self.limit);
        self.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, taken).is_ok()
    }

    fn give_back(&self, bytes: u64) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// The source of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// They were cached.
    Held,
    /// They were read now and cached.
    Read,
    /// They don't fit the cache.
    NoRoom,
}

impl Chunks {
    /// The chunks of `chunk` bytes of a shard of `len` bytes, those selected by `keep` by their number.
    pub(super) fn new(len: u64, chunk: u64, held: Arc<Held>, keep: impl Fn(u64) -> bool) -> Self {
        let numbers = (0..len.div_ceil(chunk)).filter(|&number| keep(number));
        let slots = numbers.map(|number| Slot { number, bytes: OnceLock::new(), reading: Mutex::new(()) }).collect();
        Self { len, chunk, slots, held }
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Whether the chunk is to be cached.
    pub(super) fn keeps(&self, number: u64) -> bool {
        self.slot(number).is_some()
    }

    /// Fills `out` from `offset` in a chunk to be cached. If it is not cached yet, `read` reads it from an offset in
    /// the shard. If the cache has no room, the caller must read.
    pub(super) fn get(
        &self,
        number: u64,
        offset: u64,
        out: &mut [u8],
        read: &dyn Fn(u64, &mut [u8]) -> Result<()>,
    ) -> Result<Found> {
        let slot = self.slot(number).ok_or_else(|| Error::bug("a chunk that is not kept was asked for"))?;
        if let Some(bytes) = slot.bytes.get() {
            copy(bytes, offset, out)?;
            return Ok(Found::Held);
        }
        let guard = slot.reading.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bytes) = slot.bytes.get() {
            copy(bytes, offset, out)?;
            return Ok(Found::Held);
        }
        let begin = number.saturating_mul(self.chunk);
        let len = self.chunk.min(self.len.saturating_sub(begin));
        if !self.held.take(len) {
            return Ok(Found::NoRoom);
        }
        let mut bytes = vec![0; usize::try_from(len).unwrap_or_default()].into_boxed_slice();
        read(begin, &mut bytes).inspect_err(|_| self.held.give_back(len))?;
        copy(&bytes, offset, out)?;
        // This thread holds the only guard.
        let _ = slot.bytes.set(bytes);
        drop(guard);
        Ok(Found::Read)
    }

    fn slot(&self, number: u64) -> Option<&Slot> {
        // If everything fits, the slot index is the chunk number.
        let all = usize::try_from(number).ok().and_then(|at| self.slots.get(at)).filter(|slot| slot.number == number);
        all.or_else(|| self.slots.get(self.slots.binary_search_by_key(&number, |slot| slot.number).ok()?))
    }
}

impl Drop for Chunks {
    fn drop(&mut self) {
        let held = self.slots.iter().filter_map(|slot| slot.bytes.get());
        self.held.give_back(held.map(|bytes| bytes.len() as u64).sum());
    }
}

fn copy(bytes: &[u8], offset: u64, out: &mut [u8]) -> Result<()> {
    let part = usize::try_from(offset).ok().and_then(|from| bytes.get(from..)?.get(..out.len()));
    let part = part.ok_or_else(|| Error::bug("bytes outside of a chunk were asked for"))?;
    out.copy_from_slice(part);
    Ok(())
}
