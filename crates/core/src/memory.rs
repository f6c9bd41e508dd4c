//! Memory for large blocks: in huge pages, and pooled.
//!
//! Where blocks of megabytes come and go, page faults of fresh memory cost more than reading into it.
//! Memory of at least [`HUGE`] bytes is mapped on its own and asks for huge pages (which most Linux
//! systems give only on request), so that a fault covers 2 MiB instead of 4 KiB; returned memory is
//! reused.

use crate::{Error, Kind, Result};
use arrow_buffer::{Buffer, MutableBuffer};
use bytes::Bytes;
use memmap2::MmapMut;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Blocks of at least this size are mapped, in multiples of it.
const HUGE: usize = 2 << 20;
/// Smaller blocks are left to the allocator and not pooled.
const SMALL: usize = 64 << 10;
/// The most idle bytes that a pool keeps.
const KEEP: usize = 32 << 20;

/// A pool of memory; clones share the idle blocks. Blocks start at a cache line (64 bytes), because AMD processors copy
/// at a seventh of their speed where the offset of the target in its page is 1 to 31 bytes above that of the source; an
/// allocator's large blocks start 16 bytes into a page.
#[derive(Clone, Debug, Default)]
pub struct Pool(Arc<Waiting>);

#[derive(Debug, Default)]
struct Waiting(Mutex<Vec<Pages>>);

/// Memory of a fixed length, aligned for any element, to be filled: it holds zeros or stale bytes. It converts to a
/// [`Buffer`] without a copy, and returns to its pool when the last slice of that is dropped.
#[derive(Debug)]
pub struct Memory {
    pages: Pages,
    len: usize,
    home: Weak<Waiting>,
}

#[derive(Debug)]
enum Pages {
    Heap(MutableBuffer),
    Mapped(MmapMut),
}

impl Pages {
    fn new(len: usize) -> Result<Self> {
        let failed = || Error::new(Kind::Environment, format!("no memory for {len} bytes"));
        if len >= HUGE {
            let pages = len.checked_next_multiple_of(HUGE).ok_or_else(failed)?;
            let mapped = MmapMut::map_anon(pages).map_err(|_| failed())?;
            // Advice only: it may fail.
            #[cfg(target_os = "linux")]
            let _ = mapped.advise(memmap2::Advice::HugePage);
            return Ok(Pages::Mapped(mapped));
        }
        Ok(Pages::Heap(MutableBuffer::from_len_zeroed(len)))
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Pages::Heap(bytes) => bytes,
            Pages::Mapped(pages) => pages,
        }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            Pages::Heap(bytes) => bytes,
            Pages::Mapped(pages) => pages,
        }
    }
}

/// `len` zeros to read file bytes into: [`Vec`] starts where reading is slow on some processors (see [`Pool`]).
pub fn aligned(len: usize) -> MutableBuffer {
    MutableBuffer::from_len_zeroed(len)
}

/// How many bytes of `memory` to skip before reading a file from `offset` into it: 0, or 32 where reading would be slow
/// on some processors (see [`Pool`]).
pub fn passed_over(memory: &[u8], offset: u64) -> usize {
    const PAGE: u64 = 4096;
    let further = (memory.as_ptr().addr() as u64).wrapping_sub(offset) % PAGE;
    if (1..32).contains(&further) { 32 } else { 0 }
}

impl Pool {
    /// `len` bytes; callers have bounded `len`. An `Environment` error where the system has no more.
    pub fn take(&self, len: usize) -> Result<Memory> {
        if len < SMALL {
            return Memory::zeros(len);
        }
        let found = self.0.take(len);
        // So that tests catch callers that leave bytes unfilled.
        #[cfg(debug_assertions)]
        let found = found.map(|mut pages| {
            pages.bytes_mut().fill(0xa5);
            pages
        });
        let pages = found.map_or_else(|| Pages::new(len), Ok)?;
        Ok(Memory { pages, len, home: Arc::downgrade(&self.0) })
    }

    /// `len` bytes in a [`Buffer`], aligned for any element; `fill` writes all of them.
    pub fn filled(&self, len: usize, fill: impl FnOnce(&mut [u8]) -> Result<()>) -> Result<Buffer> {
        let mut memory = self.take(len)?;
        fill(&mut memory)?;
        Ok(memory.into())
    }
}

impl Memory {
    /// `len` zeros of no pool; an `Environment` error where the system has no more memory.
    pub fn zeros(len: usize) -> Result<Self> {
        Ok(Self { pages: Pages::new(len)?, len, home: Weak::new() })
    }

    /// Shortens to `len` bytes, if longer. The memory beyond returns to the pool with the rest.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }
}

impl Waiting {
    /// An idle block of `len` to `2 * len` bytes; the last returned first, since it is still in the cache.
    fn take(&self, len: usize) -> Option<Pages> {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = waiting.iter().rposition(|pages| (len..=len.saturating_mul(2)).contains(&pages.bytes().len()))?;
        Some(waiting.remove(at))
    }

    fn give_back(&self, pages: Pages) {
        if pages.bytes().len() > KEEP {
            return;
        }
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.push(pages);
        // The longest idle first: its size may be out of use.
        let mut held: usize = waiting.iter().map(|pages| pages.bytes().len()).sum();
        let beyond = waiting.iter().take_while(|pages| {
            let is_beyond = held > KEEP;
            held -= pages.bytes().len();
            is_beyond
        });
        let beyond = beyond.count();
        let freed: Vec<Pages> = waiting.drain(..beyond).collect();
        // Unmapping takes long.
        drop(waiting);
        drop(freed);
    }
}

impl Deref for Memory {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.pages.bytes().get(..self.len).unwrap_or_default()
    }
}

impl DerefMut for Memory {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.pages.bytes_mut().get_mut(..self.len).unwrap_or_default()
    }
}

impl AsRef<[u8]> for Memory {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if let Some(home) = self.home.upgrade() {
            home.give_back(std::mem::replace(&mut self.pages, Pages::Heap(MutableBuffer::default())));
        }
    }
}

impl From<Memory> for Buffer {
    fn from(memory: Memory) -> Self {
        Bytes::from_owner(memory).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_returns_when_its_last_view_drops() {
        let pool = Pool::default();
        let mut memory = pool.take(3 << 20).unwrap();
        assert_eq!(memory.len(), 3 << 20);
        memory.fill(7);
        let at = memory.as_ptr();
        let buffer = Buffer::from(memory);
        let held = buffer.slice(1 << 20);
        drop(buffer);
        let other = pool.take(3 << 20).unwrap();
        assert_ne!(other.as_ptr(), at);
        assert_eq!(held[0], 7);
        drop(held);
        assert_eq!(pool.take(2 << 20).unwrap().as_ptr(), at);
        assert!(Memory::zeros(2 << 20).unwrap().iter().all(|byte| *byte == 0));
    }

    #[test]
    fn what_waits_is_bounded_and_goes_with_its_pool() {
        let pool = Pool::default();
        let many: Vec<Memory> = (1..8).map(|i| pool.take(i << 21).unwrap()).collect();
        drop(many);
        let held = |pool: &Pool| pool.0.0.lock().unwrap().iter().map(|pages| pages.bytes().len()).sum::<usize>();
        assert!((1..=KEEP).contains(&held(&pool)));
        // A block that is too large to keep takes the place of none.
        let before = held(&pool);
        drop(pool.take(KEEP + 1).unwrap());
        assert_eq!(held(&pool), before);
        let memory = pool.take(5 << 20).unwrap();
        drop(pool);
        assert_eq!(memory.len(), 5 << 20);
    }

    #[test]
    fn what_is_cut_off_comes_back_too() {
        let pool = Pool::default();
        let mut memory = pool.take(3 << 20).unwrap();
        let at = memory.as_ptr();
        memory.truncate(5);
        memory.truncate(7);
        assert_eq!(Buffer::from(memory).len(), 5);
        assert_eq!(pool.take(3 << 20).unwrap().as_ptr(), at);
    }

    #[test]
    fn files_are_read_to_places_that_are_fast_to_read_to() {
        for len in [1, 100, 4096, 1 << 20, 5 << 20] {
            assert_eq!(passed_over(&aligned(len), 0), 0);
            assert_eq!(passed_over(&Pool::default().take(len).unwrap(), 0), 0);
        }
        let memory = aligned(3 * 4096);
        let page = memory.as_ptr().align_offset(4096);
        for (from, offset, over) in [
            (0, 0, 0),
            (1, 0, 32),
            (16, 0, 32),
            (31, 0, 32),
            (32, 0, 0),
            (4095, 0, 0),
            (16, 16, 0),
            (0, 4095, 32),
            (16, 17, 0),
        ] {
            let memory = &memory[page + from..];
            assert_eq!(passed_over(memory, offset), over, "{from} {offset}");
            assert_eq!(passed_over(&memory[over..], offset), 0);
        }
    }

    #[test]
    fn what_is_small_is_not_kept() {
        let pool = Pool::default();
        drop(pool.take(100).unwrap());
        assert!(pool.take(0).unwrap().is_empty() && pool.0.0.lock().unwrap().is_empty());
    }
}
