//! Reads an input sequentially from an offset, in few large reads.

use packhorse_core::{Input, Result, read_full};
use std::io::Read;
use std::ops::Range;

/// Bytes of one read from storage with latency.
const READ: u64 = 1 << 20;

/// Bytes of one read from a local file, where the kernel reads ahead. This much stays in a core's cache together with
/// its block and a tokenizer's own cache.
const NEAR: u64 = 128 << 10;

/// Bytes of the first read past the end of a range, where only the end of one document is missing.
const PAST: u64 = 64 << 10;

/// A sequential reader of an input.
pub(crate) struct ByteReader<'a> {
    bytes: Bytes<'a>,
    /// [`READ`] or [`NEAR`].
    read: u64,
}

enum Bytes<'a> {
    At {
        input: &'a dyn Input,
        /// The next byte.
        at: u64,
        /// The end of the requested range.
        end: u64,
        /// The input's length.
        len: u64,
    },
    Stream(Box<dyn Read + Send + 'a>),
}

impl<'a> ByteReader<'a> {
    /// Reads `input`, of `len` bytes, from the start of `range`, and past its end as needed.
    pub(crate) fn at(input: &'a dyn Input, range: Range<u64>, len: u64) -> Self {
        let bytes = Bytes::At { input, at: range.start, end: range.end.min(len), len };
        Self { bytes, read: read(input) }
    }

    /// Reads all of an `input` that can only be streamed.
    pub(crate) fn stream(input: &'a dyn Input) -> Result<Self> {
        Ok(Self { bytes: Bytes::Stream(input.stream()?), read: read(input) })
    }

    /// The best size of the next read; 0 at the end.
    pub(crate) fn wish(&self) -> usize {
        let bytes = match &self.bytes {
            Bytes::At { at, end, len, .. } => {
                let wanted = if at < end { self.read.min(end - at) } else { 0 };
                wanted.saturating_add(PAST).min(self.read + PAST).min(len.saturating_sub(*at))
            }
            Bytes::Stream(_) => self.read,
        };
        usize::try_from(bytes).unwrap_or(usize::MAX)
    }

    /// The bytes up to the end of the input, if known.
    pub(crate) fn left(&self) -> Option<u64> {
        match &self.bytes {
            Bytes::At { at, len, .. } => Some(len - at),
            Bytes::Stream(_) => None,
        }
    }

    /// Fills `buf` up to the end of the input; returns the number of bytes.
    pub(crate) fn read(&mut self, buf: &mut [u8]) -> Result<usize> {
        match &mut self.bytes {
            Bytes::At { input, at, len, .. } => {
                let n = usize::try_from(*len - *at).map_or(buf.len(), |rest| rest.min(buf.len()));
                input.read_at(*at, buf.get_mut(..n).unwrap_or_default())?;
                *at += n as u64;
                Ok(n)
            }
            Bytes::Stream(stream) => read_full(stream, buf),
        }
    }
}

fn read(input: &dyn Input) -> u64 {
    if input.local_path().is_some() { NEAR } else { READ }
}
