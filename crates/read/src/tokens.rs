//! The tokens of all files of an order, by segment.

use crate::token_ranges::{self, Want};
use crate::{TokenFile, TokenType};
use packhorse_core::{Error, Result};
use packhorse_order::Segment;
use std::hint::black_box;

/// Ranges of mapped files that are touched together.
const TOGETHER: usize = 32;
/// The size of a page of memory, in bytes.
const PAGE: usize = 4096;

/// Files of tokens, numbered by the `dataset` of segments, and read as one type.
#[derive(Debug)]
pub struct Tokens {
    files: Vec<TokenFile>,
    token_type: TokenType,
}

/// The reusable state of a read.
#[derive(Debug, Default)]
pub(crate) struct TokenReads {
    /// Ranges of mapped files.
    mapped: Vec<Want>,
    /// Ranges of other files.
    wants: Vec<Want>,
    buf: Vec<u8>,
}

impl TokenReads {
    /// Clears the pending ranges, after an error.
    pub(crate) fn forget(&mut self) {
        self.mapped.clear();
        self.wants.clear();
    }
}

impl Tokens {
    /// Errors: no files, or 2^32 or more.
    pub fn new(files: Vec<TokenFile>) -> Result<Self> {
        let token_type = files.iter().map(TokenFile::token_type).max();
        let token_type = token_type.ok_or_else(|| Error::config("there are no files of tokens: name one at least"))?;
        if u32::try_from(files.len()).is_err() {
            return Err(Error::unsupported("2^32 files of tokens and more can't be numbered"));
        }
        Ok(Self { files, token_type })
    }

    /// The type of tokens as read: the widest of the files' types.
    pub fn token_type(&self) -> TokenType {
        self.token_type
    }

    /// The files.
    pub fn files(&self) -> &[TokenFile] {
        &self.files
    }

    /// Reads the tokens of `segments`, one after another, to the beginning of `out`, and returns the number of bytes.
    /// For single samples; use [`TokenLoader`](crate::TokenLoader) for batches.
    ///
    /// Errors: `out` is too short (kind `Config`); a segment does not exist.
    pub fn read(&self, segments: &[Segment], out: &mut [u8]) -> Result<usize> {
        let mut reading = TokenReads::default();
        let mut at = 0;
        for segment in segments {
            at = self.want(segment, at, out.len(), &mut reading)?;
        }
        self.finish(out, &mut reading)?;
        Ok(at)
    }

    /// Requests the tokens of a segment at byte `at` of the `room` bytes that [`Tokens::finish`] fills; returns where
    /// they end. Checks that the segment exists.
    #[inline]
    pub(crate) fn want(&self, segment: &Segment, at: usize, room: usize, reading: &mut TokenReads) -> Result<usize> {
        let file = self.files.get(segment.dataset as usize).ok_or_else(|| {
            let message = format!("the order names dataset {} of {}", segment.dataset, self.files.len());
            Error::content(message)
        })?;
        let place = file.place(segment)?;
        let len = segment.length as usize * self.token_type.width();
        let end = at.saturating_add(len);
        if end > room {
            return Err(Error::config(format!("there is no room for {len} bytes of tokens at byte {at}")));
        }
        let want = Want { file: segment.dataset, start: place.start, end: place.end, to: at, len };
        if file.is_mapped() {
            reading.mapped.push(want);
        } else {
            reading.wants.push(want);
        }
        Ok(end)
    }

    /// Reads all requested tokens to their places in `out`.
    pub(crate) fn finish(&self, out: &mut [u8], reading: &mut TokenReads) -> Result<()> {
        let TokenReads { mapped, wants, buf } = reading;
        let copied = self.copy(mapped, out);
        mapped.clear();
        let read = copied.and_then(|()| token_ranges::read(&self.files, wants, self.token_type, out, buf));
        wants.clear();
        read
    }

    /// Copies ranges of mapped files. Touches the first bytes of many ranges before copying any, so that their cache
    /// and TLB misses overlap.
    fn copy(&self, wants: &[Want], out: &mut [u8]) -> Result<()> {
        for wants in wants.chunks(TOGETHER) {
            for (_, from) in wants.iter().filter_map(|want| self.mapped(want)) {
                from.iter().step_by(PAGE).for_each(|byte| {
                    black_box(*byte);
                });
            }
            for want in wants {
                let both = self.mapped(want).zip(out.get_mut(want.to..want.to.saturating_add(want.len)));
                let ((file, from), out) = both.ok_or_else(|| Error::bug("a range of no mapped file"))?;
                file.convert(from, self.token_type, out)?;
            }
        }
        Ok(())
    }

    #[inline]
    fn mapped(&self, want: &Want) -> Option<(&TokenFile, &[u8])> {
        let file = self.files.get(want.file as usize)?;
        Some((file, file.mapped(&(want.start..want.end))?))
    }
}
