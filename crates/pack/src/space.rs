//! Memory for blocks, used again and again.

use arrow_buffer::Buffer;
use packhorse_core::{Error, Kind, Result};
use std::sync::{Mutex, PoisonError};

/// Room for the bytes of one block. What it held before stays in it beyond `used`, so that memory is
/// cleared once and not for every block.
#[derive(Default)]
pub(crate) struct Space {
    bytes: Vec<u8>,
    used: usize,
}

impl Space {
    /// `len` more bytes, to be filled.
    pub(crate) fn grow(&mut self, len: usize) -> Result<&mut [u8]> {
        let end = self.used + len;
        if let Some(more) = end.checked_sub(self.bytes.len()) {
            let failed = |_| Error::new(Kind::Environment, format!("no memory for {len} bytes"));
            self.bytes.try_reserve(more).map_err(failed)?;
            self.bytes.resize(end, 0);
        }
        let from = std::mem::replace(&mut self.used, end);
        Ok(self.bytes.get_mut(from..end).unwrap_or_default())
    }

    /// How many bytes are in use.
    pub(crate) fn used(&self) -> usize {
        self.used
    }

    /// The bytes in use.
    pub(crate) fn filled(&self) -> &[u8] {
        self.bytes.get(..self.used).unwrap_or_default()
    }

    /// Forgets what lies behind the first `used` bytes.
    pub(crate) fn truncate(&mut self, used: usize) {
        self.used = self.used.min(used);
    }

    /// All of it, what is not in use included.
    pub(crate) fn into_buffer(self) -> Buffer {
        Buffer::from_vec(self.bytes)
    }
}

/// Spaces that are free. The one given back last is taken first: it is still in the cache.
#[derive(Default)]
pub(crate) struct Spaces(Mutex<Vec<Vec<u8>>>);

/// Larger spaces are freed instead of kept.
const KEEP_BYTES: usize = 4 << 20;
/// More spaces are freed instead of kept.
const KEEP: usize = 64;

impl Spaces {
    /// An empty space.
    pub(crate) fn take(&self) -> Space {
        let free = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        Space { bytes: free.unwrap_or_default(), used: 0 }
    }

    /// Takes back the memory of a block, unless somebody else looks at it: then it is returned.
    pub(crate) fn give_back(&self, buffer: Buffer) -> Option<Buffer> {
        let bytes = match buffer.into_vec::<u8>() {
            Ok(bytes) => bytes,
            Err(buffer) => return Some(buffer),
        };
        let mut free = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if bytes.len() <= KEEP_BYTES && free.len() < KEEP {
            free.push(bytes);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_comes_back_unless_somebody_holds_it() {
        let spaces = Spaces::default();
        let mut space = spaces.take();
        space.grow(1000).unwrap().fill(7);
        let buffer = space.into_buffer();
        let held = buffer.clone();
        let buffer = spaces.give_back(buffer);
        assert!(buffer.is_some() && spaces.take().bytes.is_empty());
        drop(buffer);
        assert!(spaces.give_back(held).is_none());
        let mut space = spaces.take();
        assert_eq!((space.bytes.len(), space.used()), (1000, 0));
        space.grow(10).unwrap().fill(1);
        space.grow(2000).unwrap().fill(2);
        space.truncate(10);
        assert_eq!(space.filled(), [1; 10]);
    }
}
