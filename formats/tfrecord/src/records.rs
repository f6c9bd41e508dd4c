//! Records in order, many at a time.

use crate::feed::Feed;
use crate::frame::{self, FOOTER, HEADER};
use crate::scan::{Place, at, cut};
use arrow_buffer::Buffer;
use packhorse_core::{Error, Limits, Result};
use std::ops::Range;

/// Bytes read at once.
const CHUNK: usize = 4 << 20;
/// Bytes read first: whoever wants one record reads no more.
const FIRST: usize = 256 << 10;

/// Consecutive records in one buffer.
pub(crate) struct Chunk {
    pub(crate) bytes: Buffer,
    /// Where the data of each record lies.
    pub(crate) data: Vec<Range<usize>>,
    /// The number of the first.
    pub(crate) first: u64,
}

/// The records of a file from a place on.
pub(crate) struct Records<'a> {
    feed: Feed<'a>,
    /// Bytes of a record whose end was not read yet.
    buf: Vec<u8>,
    /// The record that `buf` begins with.
    place: Place,
    /// Those that are wanted; others are passed over unchecked.
    items: Range<u64>,
    check: bool,
    limits: Limits,
    next: usize,
}

impl<'a> Records<'a> {
    /// The records `items` out of `feed`, which begins with the one at `place`.
    pub(crate) fn new(feed: Feed<'a>, place: Place, items: Range<u64>, check: bool, limits: Limits) -> Self {
        Self { feed, buf: Vec::new(), place, items, check, limits, next: FIRST }
    }

    /// The record that comes next, and where it begins.
    pub(crate) fn place(&self) -> Place {
        self.place
    }

    /// The next records; `None` when there are no more.
    pub(crate) fn chunk(&mut self) -> Result<Option<Chunk>> {
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
            self.next = CHUNK;
            let tail = self.buf.get(used..).unwrap_or_default().to_vec();
            let bytes = std::mem::replace(&mut self.buf, tail);
            if !data.is_empty() {
                let first = self.place.record - data.len() as u64;
                return Ok(Some(Chunk { bytes: Buffer::from_vec(bytes), data, first }));
            }
        }
        Ok(None)
    }

    /// The whole records in `buf` that are wanted, and the bytes of all passed.
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

    /// Reads on to the end of the first record in `buf`.
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
