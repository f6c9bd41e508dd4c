//! Reads byte ranges of an input for the crate `parquet`.

use bytes::{Buf, Bytes};
use packhorse_core::{Error, Input, Limits, Pool, Result};
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::reader::{ChunkReader, Length};
use std::ops::Range;

/// Ranges at most this far apart are read together.
const GAP: u64 = 64 << 10;

/// Reads `range` of `input`, of length `len`. A range past the end is a `Content` error, before any allocation.
pub(crate) fn read(input: &dyn Input, len: u64, range: Range<u64>, limits: Limits) -> Result<Bytes> {
    let mut bytes = vec![0; limits.blob(size(len, &range)?)?];
    input.read_at(range.start, &mut bytes)?;
    Ok(bytes.into())
}

fn size(len: u64, range: &Range<u64>) -> Result<u64> {
    let size = range.end.checked_sub(range.start).filter(|_| range.end <= len);
    size.ok_or_else(|| {
        Error::content(format!("is cut short or damaged: it refers to bytes {} to {} of {len}", range.start, range.end))
    })
}

/// The length of `input`, which must be known: the footer is at the end.
pub(crate) fn length(input: &dyn Input) -> Result<u64> {
    input.len().ok_or_else(|| Error::unsupported("is compressed as a whole; decompress it first"))
}

/// Ranges of an input in memory.
#[derive(Clone)]
pub(crate) struct FetchedRanges {
    len: u64,
    /// Disjoint, ascending.
    parts: Vec<(u64, Bytes)>,
}

impl FetchedRanges {
    /// Reads `ranges`, merging close ones, into memory from `buffers`.
    pub(crate) fn read(
        input: &dyn Input,
        len: u64,
        mut ranges: Vec<Range<u64>>,
        limits: Limits,
        buffers: &Pool,
    ) -> Result<Self> {
        ranges.retain(|range| range.start < range.end);
        ranges.sort_unstable_by_key(|range| (range.start, range.end));
        let mut merged: Vec<Range<u64>> = Vec::new();
        for range in ranges {
            match merged.last_mut() {
                Some(last) if range.start <= last.end.saturating_add(GAP) => last.end = last.end.max(range.end),
                _ => merged.push(range),
            }
        }
        let part = |range: Range<u64>| {
            let wanted = limits.held(size(len, &range)?)?;
            let bytes = buffers.filled(wanted, |bytes| input.read_at(range.start, bytes))?;
            Ok((range.start, Bytes::from_owner(bytes)))
        };
        Ok(Self { len, parts: merged.into_iter().map(part).collect::<Result<_>>()? })
    }

    /// The bytes in memory from `start` on.
    pub(crate) fn from(&self, start: u64) -> ParquetResult<Bytes> {
        let place = self.parts.partition_point(|(at, _)| *at <= start).checked_sub(1);
        let part = place.and_then(|place| self.parts.get(place)).and_then(|(at, bytes)| {
            let skip = usize::try_from(start - at).ok()?;
            (skip <= bytes.len()).then(|| bytes.slice(skip..))
        });
        part.ok_or_else(|| ParquetError::EOF(format!("byte {start} lies outside of its column")))
    }
}

impl Length for FetchedRanges {
    fn len(&self) -> u64 {
        self.len
    }
}

impl ChunkReader for FetchedRanges {
    type T = bytes::buf::Reader<Bytes>;

    fn get_read(&self, start: u64) -> ParquetResult<Self::T> {
        Ok(self.from(start)?.reader())
    }

    fn get_bytes(&self, start: u64, length: usize) -> ParquetResult<Bytes> {
        let bytes = self.from(start)?;
        match length <= bytes.len() {
            true => Ok(bytes.slice(..length)),
            false => Err(ParquetError::EOF(format!("{length} bytes at {start} reach out of their column"))),
        }
    }
}
