//! Reads the bytes of a file sequentially, decompressed.

use crate::frame::{self, HEADER};
use flate2::read::{MultiGzDecoder, ZlibDecoder};
use packhorse_core::{Context, Error, Input, Result};
use std::io::{ErrorKind, Read};

/// A sequential reader.
pub(crate) enum ByteStream<'a> {
    /// Reads by position, in large pieces.
    At { input: &'a dyn Input, at: u64, len: u64 },
    /// Reads a stream.
    Stream(Box<dyn Read + Send + 'a>),
}

impl<'a> ByteStream<'a> {
    /// All bytes of `input`.
    pub(crate) fn open(input: &'a dyn Input) -> Result<Self> {
        let Some(len) = input.len() else { return Ok(ByteStream::Stream(input.stream()?)) };
        let mut head = [0; HEADER];
        if len >= HEADER as u64 {
            input.read_at(0, &mut head)?;
        }
        Ok(match Compression::of(&head) {
            None => ByteStream::At { input, at: 0, len },
            Some(Compression::Gzip) => ByteStream::Stream(Box::new(MultiGzDecoder::new(input.stream()?))),
            Some(Compression::Zlib) => ByteStream::Stream(Box::new(ZlibDecoder::new(input.stream()?))),
        })
    }

    /// Appends `wanted` bytes to `buf`, or as many as there are.
    pub(crate) fn append(&mut self, buf: &mut Vec<u8>, wanted: usize) -> Result<()> {
        match self {
            ByteStream::At { input, at, len } => {
                let n = usize::try_from(len.saturating_sub(*at)).unwrap_or(usize::MAX).min(wanted);
                let start = buf.len();
                buf.resize(start + n, 0);
                input.read_at(*at, buf.get_mut(start..).unwrap_or_default())?;
                *at += n as u64;
            }
            ByteStream::Stream(stream) => {
                stream.take(wanted as u64).read_to_end(buf).map_err(damaged).context("read")?;
            }
        }
        Ok(())
    }
}

/// Turns the error of a decompressor into a `Content` error.
fn damaged(error: std::io::Error) -> std::io::Error {
    let ours = error.get_ref().is_some_and(|inner| inner.is::<Error>());
    match error.kind() {
        ErrorKind::InvalidData | ErrorKind::InvalidInput | ErrorKind::UnexpectedEof if !ours => {
            Error::content(format!("is damaged or cut short: {error}")).into()
        }
        _ => error,
    }
}

enum Compression {
    Gzip,
    Zlib,
}

impl Compression {
    /// The compression of a file, by its first bytes. A valid checksum of a record's length excludes compression.
    fn of(head: &[u8; HEADER]) -> Option<Self> {
        match head {
            _ if frame::length(head, true).is_ok() => None,
            [0x1f, 0x8b, 8, ..] => Some(Compression::Gzip),
            [0x78, flags, ..] if (0x7800 | u16::from(*flags)).is_multiple_of(31) => Some(Compression::Zlib),
            _ => None,
        }
    }
}
