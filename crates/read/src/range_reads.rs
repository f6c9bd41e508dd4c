//! The reads of a batch from shards of members: ranges that are close to each other are one read.

use crate::coalesce::coalesce;
use crate::opened::Opened;
use crate::reads_ahead::ReadsAhead;
use crate::sample_block::{SampleBlock, Span};
use packhorse_core::{Error, Input, Result, passed_over};
use std::ops::Range;
use std::sync::Arc;

/// Reserve of the buffer for the alignment of a read, in bytes.
const ALIGNMENT: usize = 32;

/// A range of a shard that a batch needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Want {
    /// The index of its shard among the opened ones.
    pub(crate) shard: usize,
    pub(crate) start: u64,
    pub(crate) len: u64,
    /// The index of its span.
    pub(crate) span: usize,
    pub(crate) crc: Option<u32>,
}

/// A read, and the wants that it serves.
#[derive(Clone, Debug)]
pub(crate) struct RangeRead {
    /// The index of its shard among the opened ones.
    pub(crate) shard: usize,
    /// The indices of its wants.
    pub(crate) wants: Range<usize>,
    pub(crate) bytes: Range<u64>,
}

/// Merges `wants`, sorted by shard and start, into `reads`. Those of mapped shards get their spans at once.
pub(crate) fn plan(
    wants: &[Want],
    opened: &[(u32, Arc<Opened>)],
    gap: u64,
    reads: &mut Vec<RangeRead>,
    out: &mut SampleBlock,
) {
    reads.clear();
    let mut at = 0;
    for wants in wants.chunk_by(|one, next| one.shard == next.shard) {
        let Some(shard) = wants.first().map(|want| want.shard) else { continue };
        if let Some(map) = opened.get(shard).and_then(|(_, shard)| shard.map.as_ref()) {
            out.maps.push(Arc::clone(map));
            wants.iter().for_each(|want| put(out, want, out.maps.len(), want.start as usize));
        } else {
            let mut rest = wants;
            while let Some(first) = rest.first() {
                let ranges = rest.iter().map(|want| want.start..want.start.saturating_add(want.len));
                let (count, end) = coalesce(ranges, gap, u64::MAX);
                let from = at + wants.len() - rest.len();
                reads.push(RangeRead { shard, wants: from..from + count, bytes: first.start..end });
                rest = rest.get(count..).unwrap_or_default();
            }
        }
        at += wants.len();
    }
}

/// The bytes that `reads` take in the buffer of a block, at most; `None` where no memory is as large.
pub(crate) fn room(reads: &[RangeRead]) -> Option<usize> {
    let lens = reads.iter().map(|read| usize::try_from(read.bytes.end - read.bytes.start).ok());
    lens.into_iter().try_fold(0usize, |all, len| all.checked_add(len?)?.checked_add(ALIGNMENT))
}

/// Takes `reads`, which are of one shard, from those `ahead`, into the buffer of `out` from byte `used`. After an error the
/// rest of them is left out.
pub(crate) fn read<'a>(
    reads: &[RangeRead],
    ahead: &mut ReadsAhead<'a, impl Iterator<Item = (&'a dyn Input, Range<u64>)>>,
    wants: &[Want],
    used: &mut usize,
    out: &mut SampleBlock,
) -> Result<()> {
    let mut rest = reads.iter();
    while let Some(read) = rest.next() {
        let start = read.bytes.start;
        *used += passed_over(out.bytes.get(*used..).unwrap_or_default(), start);
        let end = *used + (read.bytes.end - start) as usize;
        let buf = out.bytes.get_mut(*used..end).ok_or_else(|| Error::bug("a read without room"))?;
        if let Err(error) = ahead.read(buf) {
            rest.for_each(|_| ahead.skip());
            return Err(error);
        }
        for want in wants.get(read.wants.clone()).unwrap_or_default() {
            put(out, want, 0, *used + (want.start - start) as usize);
        }
        *used = end;
    }
    Ok(())
}

/// Sets the span of a range.
fn put(out: &mut SampleBlock, want: &Want, place: usize, start: usize) {
    if let Some(span) = out.spans.get_mut(want.span) {
        *span = Some(Span { place, start, len: want.len as usize });
    }
}
