//! Sequential reading of an index's sequences and of single tokens, in bounded memory.

use crate::dtype::Dtype;
use crate::index_header::IndexHeader;
use crate::numbers;
use packhorse_core::{Input, Result};

/// Lengths in one read.
const BLOCK: u64 = 1 << 16;

/// Calls `each` for every sequence of a valid index with its length and whether it is the last of its document.
pub(crate) fn each_sequence(
    idx: &dyn Input,
    header: &IndexHeader,
    each: &mut dyn FnMut(i32, bool) -> Result<()>,
) -> Result<()> {
    let mut at = 0u64;
    let (mut lengths, mut used): (Vec<[u8; 4]>, usize) = (Vec::new(), 0);
    numbers::each::<8>(idx, header.entry_at(1), header.documents, &mut |entries| {
        for entry in entries {
            let end = u64::from_le_bytes(*entry).min(header.sequences);
            while at < end {
                if used == lengths.len() {
                    let n = (header.sequences - at).min(BLOCK) as usize;
                    (lengths, used) = (numbers::read_array(idx, header.length_at(at), n)?, 0);
                }
                let length = lengths.get(used).copied().unwrap_or_default();
                (at, used) = (at + 1, used + 1);
                each(i32::from_le_bytes(length), at == end)?;
            }
        }
        Ok(())
    })
}

/// Reads single tokens of a `.bin` in ascending order.
pub(crate) struct TokenWindow<'a> {
    bin: &'a dyn Input,
    dtype: Dtype,
    /// The offset of `buf` in the file.
    start: u64,
    buf: Vec<u8>,
}

/// Bytes of a window.
const WINDOW: u64 = 1 << 20;

impl<'a> TokenWindow<'a> {
    pub(crate) fn new(bin: &'a dyn Input, dtype: Dtype) -> Self {
        Self { bin, dtype, start: 0, buf: Vec::new() }
    }

    /// Token `at`; `None` past the end, or if it is not an integer.
    pub(crate) fn token(&mut self, at: u64) -> Result<Option<i64>> {
        let Some(offset) = at.checked_mul(self.dtype.size()) else { return Ok(None) };
        let len = self.bin.len().unwrap_or_default();
        if offset.checked_add(self.dtype.size()).is_none_or(|end| end > len) {
            return Ok(None);
        }
        let inside = |start: u64, have: usize| offset >= start && offset - start + self.dtype.size() <= have as u64;
        if !inside(self.start, self.buf.len()) {
            self.start = offset;
            self.buf.resize((len - offset).min(WINDOW) as usize, 0);
            self.bin.read_at(offset, &mut self.buf)?;
        }
        let from = (offset - self.start) as usize;
        Ok(self.buf.get(from..from + self.dtype.width()).and_then(|bytes| self.dtype.value(bytes)))
    }
}
