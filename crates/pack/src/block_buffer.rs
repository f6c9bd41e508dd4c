//! Growable memory for the bytes of one block, taken from a pool.

use arrow_buffer::Buffer;
use packhorse_core::{Memory, Pool, Result};

/// The bytes of one block. The memory returns to its pool when the last view drops.
#[derive(Default)]
pub(crate) struct BlockBuffer {
    pool: Pool,
    bytes: Option<Memory>,
    used: usize,
    /// The size of the first allocation, in bytes.
    least: usize,
}

/// Bytes of a cache line. A lead is extended by one line, so that a file does not start right after a page boundary
/// (see [`packhorse_core::Pool`]) and keeps its alignment.
const LINE: usize = 64;

/// The most bytes allocated ahead of the data.
const AHEAD: u64 = 512 << 10;

impl BlockBuffer {
    /// A buffer from `pool` that starts with `lead` zeros (extended by a cache line); about `expected` bytes will
    /// follow.
    pub(crate) fn of(pool: &Pool, lead: usize, expected: u64) -> Self {
        let lead = if (1..LINE).contains(&lead) { lead + LINE } else { lead };
        Self { pool: pool.clone(), bytes: None, used: lead, least: expected.min(AHEAD) as usize }
    }

    /// Appends `len` bytes, which the caller fills.
    pub(crate) fn grow(&mut self, len: usize) -> Result<&mut [u8]> {
        let end = self.used.saturating_add(len);
        let held = self.bytes.as_ref().map_or(0, |bytes| bytes.len());
        if end > held {
            let mut more = self.pool.take(end.max(held.saturating_mul(2)).max(self.least))?;
            let before = more.get_mut(..self.used).unwrap_or_default();
            match &self.bytes {
                Some(bytes) => before.copy_from_slice(bytes.get(..self.used).unwrap_or_default()),
                None => before.fill(0),
            }
            self.bytes = Some(more);
        }
        let from = std::mem::replace(&mut self.used, end);
        Ok(self.bytes.as_mut().and_then(|bytes| bytes.get_mut(from..end)).unwrap_or_default())
    }

    /// How many bytes are in use.
    pub(crate) fn used(&self) -> usize {
        self.used
    }

    /// The bytes in use.
    pub(crate) fn filled(&self) -> &[u8] {
        self.bytes.as_ref().and_then(|bytes| bytes.get(..self.used)).unwrap_or_default()
    }

    /// Keeps the first `used` bytes.
    pub(crate) fn truncate(&mut self, used: usize) {
        self.used = self.used.min(used);
    }

    /// The bytes in use, without a copy.
    pub(crate) fn into_buffer(self) -> Buffer {
        let Some(mut bytes) = self.bytes else { return Buffer::default() };
        bytes.truncate(self.used);
        bytes.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LARGE: usize = 300_000;

    #[test]
    fn growing_keeps_the_bytes_so_far() {
        let pool = Pool::default();
        let mut space = BlockBuffer::of(&pool, 3, 200);
        space.grow(10).unwrap().fill(1);
        space.grow(LARGE).unwrap().fill(2);
        space.grow(5).unwrap().fill(3);
        let end = 3 + LINE + 10 + LARGE;
        space.truncate(end);
        assert_eq!((space.used(), space.filled().len()), (end, end));
        let buffer = space.into_buffer();
        let (lead, rest) = buffer.split_at(3 + LINE);
        assert!(lead == [0; 3 + LINE] && rest[..10] == [1; 10] && rest[10..] == [2; LARGE]);
        assert!(BlockBuffer::default().into_buffer().is_empty());
    }

    #[test]
    fn memory_returns_to_the_pool_when_the_last_view_drops() {
        let pool = Pool::default();
        let address = |space: &mut BlockBuffer| space.grow(LARGE).unwrap().as_ptr();
        let mut space = BlockBuffer::of(&pool, 0, u64::MAX);
        let first = address(&mut space);
        let held = space.into_buffer().slice(7);
        assert_ne!(address(&mut BlockBuffer::of(&pool, 0, u64::MAX)), first);
        drop(held);
        assert_eq!(address(&mut BlockBuffer::of(&pool, 0, u64::MAX)), first);
    }
}
