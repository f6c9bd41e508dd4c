//! A summary of an index, from one scan of its arrays.

use crate::index_header::IndexHeader;
use crate::numbers;
use packhorse_core::{Error, Input, Result};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The header and the totals of an `.idx`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IndexSummary {
    pub(crate) header: IndexHeader,
    /// Whether each document has at most one sequence, and none is empty.
    pub(crate) plain: bool,
    /// Tokens in all sequences.
    pub(crate) tokens: u64,
}

impl IndexSummary {
    /// Scans lengths, document index and modes of `idx`.
    pub(crate) fn of(idx: &dyn Input) -> Result<Self> {
        let (header, modes) = IndexHeader::read(idx)?;
        let (mut tokens, mut plain, mut at) = (0u64, true, 0u64);
        numbers::each(idx, header.length_at(0), header.sequences, &mut |lengths| {
            for length in lengths {
                let length = i32::from_le_bytes(*length);
                let length = u64::try_from(length)
                    .map_err(|_| Error::content(format!("has {length} as the length of sequence {at}")))?;
                tokens += length;
                plain &= length > 0;
                at += 1;
            }
            Ok(())
        })?;
        plain &= documents(idx, &header)?;
        if modes {
            let range = header.end()..header.end().saturating_add(header.sequences);
            idx.each_piece(range, &mut |modes| match modes.iter().all(|m| *m == 0) {
                true => Ok(()),
                false => Err(Error::unsupported("has sequences of several modes: multimodal pairs are not supported")),
            })?;
        }
        Ok(Self { header, plain, tokens })
    }

    /// Refuses a `.bin` whose length does not match the index.
    pub(crate) fn fits(&self, bin: &dyn Input, len: u64) -> Result<()> {
        let wanted = u128::from(self.tokens) * u128::from(self.header.dtype.size());
        match u128::from(len) == wanted {
            true => Ok(()),
            false => Err(Error::content(format!(
                "is {len} bytes long where its index has sequences for {wanted}; verify the pair, which may be repaired"
            ))
            .in_input(bin.name())),
        }
    }
}

/// Whether no document has more than one sequence; an error for an invalid document index.
fn documents(idx: &dyn Input, header: &IndexHeader) -> Result<bool> {
    let (mut plain, mut last, mut at) = (true, 0u64, 0u64);
    numbers::each(idx, header.entry_at(0), header.documents + 1, &mut |entries| {
        for entry in entries {
            let entry = u64::from_le_bytes(*entry);
            let wrong = (at == 0 && entry != 0) || entry < last || entry > header.sequences;
            if wrong {
                return Err(Error::content(format!("has {entry} as entry {at} of the document index, after {last}")));
            }
            plain &= entry - last <= 1;
            (last, at) = (entry, at + 1);
        }
        Ok(())
    })?;
    match last == header.sequences {
        true => Ok(plain),
        false => Err(Error::content(format!(
            "has a document index that ends at sequence {last} of {}: documents were lost, as some tools' merge does",
            header.sequences
        ))),
    }
}

/// Cached summaries by file identity, size and modification time.
#[derive(Clone, Debug, Default)]
pub(crate) struct SummaryCache(Arc<Mutex<BTreeMap<Stamp, IndexSummary>>>);

/// Device and inode, size, modification time.
type Stamp = ((u64, u64), u64, i64);

/// The most cached summaries.
const MOST: usize = 4096;

impl SummaryCache {
    /// The summary of `idx`, scanned unless cached.
    pub(crate) fn shape(&self, idx: &dyn Input) -> Result<IndexSummary> {
        let Some(stat) = idx.stat()? else { return IndexSummary::of(idx) };
        let stamp = (stat.id, stat.size, stat.mtime);
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&stamp).copied();
        if let Some(shape) = known {
            return Ok(shape);
        }
        let shape = IndexSummary::of(idx)?;
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.len() >= MOST {
            seen.clear();
        }
        seen.insert(stamp, shape);
        Ok(shape)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::Dtype;
    use packhorse_core::{FileKind, FileStat, MemoryInput};
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// A file that counts how often it is read.
    struct Counted(MemoryInput, i64, AtomicUsize);

    impl Input for Counted {
        packhorse_core::forward_input!(0: name len stream);

        fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
            self.2.fetch_add(1, Ordering::Relaxed);
            self.0.read_at(offset, buf)
        }
        fn stat(&self) -> Result<Option<FileStat>> {
            Ok(Some(FileStat { kind: FileKind::File, size: 42, mtime: self.1, ctime: 0, id: (1, 2) }))
        }
    }

    #[test]
    fn a_file_is_scanned_once_until_it_changes() {
        let header = IndexHeader { dtype: Dtype::U16, sequences: 0, documents: 0 };
        let mut bytes = header.encode().unwrap().to_vec();
        bytes.resize(42, 0);
        let file = |mtime| Counted(MemoryInput::new("a.idx", bytes.clone()), mtime, AtomicUsize::new(0));
        let seen = SummaryCache::default();
        let reads = |file: &Counted| {
            assert!(seen.shape(file).unwrap().plain);
            file.2.swap(0, Ordering::Relaxed)
        };
        let (old, new) = (file(1), file(2));
        assert!(reads(&old) > 0);
        assert_eq!(reads(&old), 0);
        assert!(reads(&new) > 0);
    }
}
