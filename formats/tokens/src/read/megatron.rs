//! The documents of an `.idx`.

use super::{Stretch, Table};
use crate::dtype::Dtype;
use crate::numbers;
use crate::pair::Pair;
use crate::shape::{Seen, Shape};
use packhorse_core::{Error, Input, Result};

/// About how many sequences a stretch has at most.
const SEQUENCES: u64 = 1 << 16;

pub(super) struct Megatron<'a> {
    pair: Pair<'a>,
    shape: Shape,
    bin_len: u64,
}

impl<'a> Megatron<'a> {
    pub(super) fn open(input: &'a dyn Input, seen: &Seen) -> Result<Self> {
        let pair = Pair::open(input)?;
        let shape = seen.shape(pair.idx.get()).map_err(|e| e.in_input(pair.idx.get().name()))?;
        let bin_len = pair.bin_len()?;
        shape.fits(pair.bin.get(), bin_len)?;
        Ok(Self { pair, shape, bin_len })
    }

    /// The entries of the document index of a stretch: one more than it has documents.
    fn entries(&self, first: u64, most: u64) -> Result<Vec<u64>> {
        let header = &self.shape.header;
        let n = header.documents.saturating_sub(first).min(most);
        let entries = numbers::some(self.pair.idx.get(), header.entry_at(first), n as usize + 1)?;
        let mut entries: Vec<u64> = entries.into_iter().map(u64::from_le_bytes).collect();
        let rise = entries.is_sorted() && entries.last().is_some_and(|last| *last <= header.sequences);
        let Some(start) = entries.first().copied().filter(|_| rise) else {
            return Err(Error::content(format!("has a document index that doesn't rise, from document {first} on")));
        };
        let few = entries.partition_point(|entry| entry - start <= SEQUENCES);
        entries.truncate(few.max(2));
        Ok(entries)
    }
}

impl Table for Megatron<'_> {
    fn dtype(&self) -> Dtype {
        self.shape.header.dtype
    }

    fn documents(&self) -> u64 {
        self.shape.header.documents
    }

    fn tokens(&self) -> u64 {
        self.shape.tokens
    }

    fn lengths(&self) -> bool {
        !self.shape.plain
    }

    fn data(&self) -> &dyn Input {
        self.pair.bin.get()
    }

    fn stretch(&self, first: u64, most: u64) -> Result<Stretch> {
        let (header, idx) = (&self.shape.header, self.pair.idx.get());
        let entries = self.entries(first, most)?;
        let (from, to) = (entries.first().copied().unwrap_or(0), entries.last().copied().unwrap_or(0));
        // The file is long enough for them: its length was compared with its header.
        let n = (to - from) as usize;
        let lengths: Vec<[u8; 4]> = numbers::some(idx, header.length_at(from), n)?;
        let pointers: Vec<[u8; 8]> = numbers::some(idx, header.pointer_at(from), n)?;
        let start = pointers.first().map_or(0, |pointer| u64::from_le_bytes(*pointer));
        let mut stretch = Stretch { start, ..Stretch::default() };
        let (mut tokens, mut sequence) = (0u64, 0);
        for end in entries.iter().skip(1) {
            let end = (end - from) as usize;
            for (length, pointer) in lengths.iter().zip(&pointers).take(end).skip(sequence) {
                let place = tokens.checked_mul(header.dtype.size()).and_then(|bytes| bytes.checked_add(start));
                let length = i32::from_le_bytes(*length);
                if place != Some(u64::from_le_bytes(*pointer)) || length < 0 {
                    return Err(Error::content(format!(
                        "has a sequence between {} and {to} that doesn't begin where the one before ends; \
                         verify the pair, which may be repaired",
                        from + sequence as u64
                    )));
                }
                tokens += length.unsigned_abs() as u64;
                stretch.lengths.push(length);
            }
            sequence = end;
            stretch.ends.push(tokens);
            stretch.length_ends.push(end);
        }
        let end = tokens.checked_mul(header.dtype.size()).and_then(|bytes| bytes.checked_add(start));
        match end.is_some_and(|end| end <= self.bin_len) {
            true => Ok(stretch),
            false => Err(Error::content(format!("has sequences {from} to {to} end after the end of the tokens"))),
        }
    }
}
