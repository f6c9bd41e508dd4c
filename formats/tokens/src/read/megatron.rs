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
        let lengths: Vec<i32> = lengths.into_iter().map(i32::from_le_bytes).collect();
        let pointers: Vec<[u8; 8]> = numbers::some(idx, header.pointer_at(from), n)?;
        let pointers: Vec<u64> = pointers.into_iter().map(u64::from_le_bytes).collect();
        let sums = self.sums(from, &lengths, &pointers)?;
        let length_ends: Vec<usize> = entries.iter().skip(1).map(|end| (end - from) as usize).collect();
        let ends = length_ends.iter().filter_map(|end| sums.get(*end)).copied().collect();
        Ok(Stretch { start: pointers.first().copied().unwrap_or(0), ends, lengths, length_ends })
    }
}

impl Megatron<'_> {
    /// The tokens before each of the sequences from `from` on, and in all of them. Each must begin where the
    /// one before ends, and the last one end within the file.
    fn sums(&self, from: u64, lengths: &[i32], pointers: &[u64]) -> Result<Vec<u64>> {
        let (size, start) = (self.shape.header.dtype.size(), pointers.first().copied().unwrap_or(0));
        let place = |tokens: u64| tokens.checked_mul(size).and_then(|bytes| bytes.checked_add(start));
        let mut sums = Vec::with_capacity(lengths.len() + 1);
        let mut sum = 0u64;
        sums.push(sum);
        for (i, (length, pointer)) in (from..).zip(lengths.iter().zip(pointers)) {
            let length = u64::try_from(*length).ok().filter(|_| place(sum) == Some(*pointer));
            sum += length.ok_or_else(|| {
                Error::content(format!(
                    "has sequence {i} at byte {pointer}, which is not where the one before ends; verify the pair, which \
                     may be repaired"
                ))
            })?;
            sums.push(sum);
        }
        match place(sum).is_some_and(|end| end <= self.bin_len) {
            true => Ok(sums),
            false => Err(Error::content(format!("has sequences from {from} on that end after the end of the tokens"))),
        }
    }
}
