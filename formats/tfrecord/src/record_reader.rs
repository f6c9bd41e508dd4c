//! Reads records in order, in chunks.

use crate::byte_stream::ByteStream;
use crate::frame::{self, FOOTER, HEADER};
use crate::scan::{RecordStart, at, cut};
use arrow_buffer::Buffer;
use packhorse_core::{Error, Limits, Result};
use std::ops::Range;

/// Bytes of one read.
const CHUNK: usize = 4 << 20;
/// The least bytes of a later read.
const LEAST: usize = 64 << 10;
/// Bytes of the first read, so that access to a single record stays cheap.
const FIRST: usize = 256 << 10;

/// Consecutive records in one buffer.
pub(crate) struct RecordChunk {
    pub(crate) bytes: Buffer,
    /// The range of the data of each record.
    pub(crate) data: Vec<Range<usize>>,
    /// The number of the first record.
    pub(crate) first: u64,
}

/// Reads the records of a file.
pub(crate) struct RecordReader<'a> {
    feed: ByteStream<'a>,
    /// Bytes of a record that is not complete yet.
    buf: Vec<u8>,
    /// The record at the start of `buf`, and that at the start of all.
    place: RecordStart,
    start: RecordStart,
    /// The requested records; others are skipped without checks.
    items: Range<u64>,
    check: bool,
    limits: Limits,
    next: usize,
}

impl<'a> RecordReader<'a> {
    /// Reads the records `items` from `feed`, which starts with the record at `place`.
    pub(crate) fn new(
        feed: ByteStream<'a>,
        place: RecordStart,
        items: Range<u64>,
        check: bool,
        limits: Limits,
    ) -> Self {
        Self { feed, buf: Vec::new(), place, start: place, items, check, limits, next: FIRST }
    }

    /// Bytes of the next read: about those of the records that are still wanted.
    fn left(&self) -> usize {
        let done = (self.place.record - self.start.record).max(1);
        let wanted = u128::from(self.items.end.saturating_sub(self.place.record));
        let bytes = wanted * u128::from(self.place.offset - self.start.offset) / u128::from(done);
        usize::try_from(bytes + bytes / 8).unwrap_or(usize::MAX).clamp(LEAST, CHUNK)
    }

    /// The next record and its offset.
    pub(crate) fn place(&self) -> RecordStart {
        self.place
    }

    /// The next records; `None` at the end.
    pub(crate) fn chunk(&mut self) -> Result<Option<RecordChunk>> {
        while self.place.record < self.items.end {
            let wanted = self.next.saturating_sub(self.buf.len());
            self.feed.append(&mut self.buf, wanted)?;
            if self.buf.is_empty() {
                return Ok(None);
            }
            let before = self.place;
            let (data, used) = self.frames()?;
            if self.place == before {
                self.complete()?;
                continue;
            }
            self.next = self.left();
            let tail = self.buf.get(used..).unwrap_or_default().to_vec();
            let bytes = std::mem::replace(&mut self.buf, tail);
            if !data.is_empty() {
                let first = self.place.record - data.len() as u64;
                return Ok(Some(RecordChunk { bytes: Buffer::from_vec(bytes), data, first }));
            }
        }
        Ok(None)
    }

    /// The requested complete records in `buf`, and the bytes of all complete records.
    fn frames(&mut self) -> Result<(Vec<Range<usize>>, usize)> {
        let (mut data, mut used) = (Vec::new(), 0);
        while self.place.record < self.items.end {
            let Some(rest) = self.buf.get(used..) else { break };
            let Some(header) = rest.first_chunk() else { break };
            let len = frame::length(header, self.check).map_err(|e| at(e, self.place))? as usize;
            let Some((body, footer)) =
                rest.get(HEADER..HEADER + len + FOOTER).and_then(|frame| frame.split_at_checked(len))
            else {
                break;
            };
            if self.place.record >= self.items.start {
                if self.check {
                    frame::check_data(body, footer).map_err(|e| at(e, self.place))?;
                }
                data.push(used + HEADER..used + HEADER + len);
            }
            used += HEADER + len + FOOTER;
            self.place.record += 1;
            self.place.offset += (HEADER + len + FOOTER) as u64;
        }
        Ok((data, used))
    }

    /// Reads up to the end of the first record in `buf`.
    fn complete(&mut self) -> Result<()> {
        let end = |records: &Self| cut(records.place, records.place.offset + records.buf.len() as u64);
        let Some(header) = self.buf.first_chunk().copied() else { return Err(end(self)) };
        let len = frame::length(&header, self.check).map_err(|e| at(e, self.place))?;
        let whole = self.limits.blob(len).map_err(|e: Error| at(e, self.place))? + HEADER + FOOTER;
        let missing = whole.saturating_sub(self.buf.len());
        self.feed.append(&mut self.buf, missing)?;
        if self.buf.len() < whole { Err(end(self)) } else { Ok(()) }
    }
}
