//! Documents of an `.idx`.

use super::{DocumentRun, TokenFile};
use crate::dtype::Dtype;
use crate::index_summary::{IndexSummary, SummaryCache};
use crate::numbers;
use crate::pair::Pair;
use packhorse_core::{Error, Input, Result};
use std::sync::Arc;

/// The most sequences of a run of several documents.
const SEQUENCES: u64 = 1 << 16;

pub(super) struct Megatron<'a> {
    pair: Pair<'a>,
    shape: IndexSummary,
    bin_len: u64,
}

impl<'a> Megatron<'a> {
    pub(super) fn open(input: Arc<dyn Input + 'a>, seen: &SummaryCache) -> Result<Self> {
        let pair = Pair::open(input)?;
        let shape = seen.shape(&*pair.idx).map_err(|e| e.in_input(pair.idx.name()))?;
        let bin_len = pair.bin_len()?;
        shape.fits(&*pair.bin, bin_len)?;
        Ok(Self { pair, shape, bin_len })
    }

    /// The entries of the document index for a run: one more than its documents.
    fn entries(&self, first: u64, most: u64) -> Result<Vec<u64>> {
        let header = &self.shape.header;
        let n = header.documents.saturating_sub(first).min(most);
        let entries = numbers::read_array(&*self.pair.idx, header.entry_at(first), n as usize + 1)?;
        let mut entries: Vec<u64> = entries.into_iter().map(u64::from_le_bytes).collect();
        let rise = entries.is_sorted() && entries.last().is_some_and(|last| *last <= header.sequences);
        let Some(start) = entries.first().copied().filter(|_| rise) else {
            return Err(Error::content(format!(
                "has a document index that is not ascending, from document {first} on"
            )));
        };
        let few = entries.partition_point(|entry| entry - start <= SEQUENCES);
        entries.truncate(few.max(2));
        Ok(entries)
    }
}

impl TokenFile for Megatron<'_> {
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
        &*self.pair.bin
    }

    fn stretch(&self, first: u64, most: u64) -> Result<DocumentRun> {
        let (header, idx) = (&self.shape.header, &*self.pair.idx);
        let entries = self.entries(first, most)?;
        let (from, to) = (entries.first().copied().unwrap_or(0), entries.last().copied().unwrap_or(0));
        // The length of the file was checked against its header.
        let n = (to - from) as usize;
        let lengths: Vec<[u8; 4]> = numbers::read_array(idx, header.length_at(from), n)?;
        let lengths: Vec<i32> = lengths.into_iter().map(i32::from_le_bytes).collect();
        let pointers: Vec<[u8; 8]> = numbers::read_array(idx, header.pointer_at(from), n)?;
        let pointers: Vec<u64> = pointers.into_iter().map(u64::from_le_bytes).collect();
        let sums = self.sums(from, &lengths, &pointers)?;
        let length_ends: Vec<usize> = entries.iter().skip(1).map(|end| (end - from) as usize).collect();
        let ends = length_ends.iter().filter_map(|end| sums.get(*end)).copied().collect();
        Ok(DocumentRun { start: pointers.first().copied().unwrap_or(0), ends, lengths, length_ends })
    }
}

impl Megatron<'_> {
    /// The inclusive scan of the lengths from sequence `from` on, starting with 0. Each sequence must start where the
    /// one before ends, and the last must end within the file.
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
                    "has sequence {i} at byte {pointer}, not at the end of the one before; run verify on the pair, then \
                     repair"
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
