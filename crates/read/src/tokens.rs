//! The tokens of all files that an order names, by segment.

use crate::ranges::{self, Want};
use crate::{TokenFile, TokenType};
use packhorse_core::{Error, Result};
use packhorse_order::Segment;
use std::hint::black_box;

/// Ranges of mapped files that are looked at together.
const TOGETHER: usize = 32;
/// Of memory.
const PAGE: usize = 4096;

/// Files of tokens, numbered as the `dataset` of segments has it. Their tokens come in one type.
#[derive(Debug)]
pub struct Tokens {
    files: Vec<TokenFile>,
    token_type: TokenType,
}

/// What reading needs again and again, and keeps.
#[derive(Debug, Default)]
pub(crate) struct Reading {
    /// In files that are mapped.
    mapped: Vec<Want>,
    /// In others.
    wants: Vec<Want>,
    buf: Vec<u8>,
}

impl Reading {
    /// Drops what was to be read, after an error.
    pub(crate) fn forget(&mut self) {
        self.mapped.clear();
        self.wants.clear();
    }
}

impl Tokens {
    /// Errors: no files, or 2^32 and more.
    pub fn new(files: Vec<TokenFile>) -> Result<Self> {
        let token_type = files.iter().map(TokenFile::token_type).max();
        let token_type = token_type.ok_or_else(|| Error::config("there are no files of tokens: name one at least"))?;
        if u32::try_from(files.len()).is_err() {
            return Err(Error::unsupported("2^32 files of tokens and more can't be numbered"));
        }
        Ok(Self { files, token_type })
    }

    /// The type that tokens are read as: the widest of the files'.
    pub fn token_type(&self) -> TokenType {
        self.token_type
    }

    /// The files.
    pub fn files(&self) -> &[TokenFile] {
        &self.files
    }

    /// Reads the tokens of `segments`, one after another, to the beginning of `out`, and says how many bytes
    /// that is. For single samples: batches are what [`TokenLoader`](crate::TokenLoader) makes.
    ///
    /// Errors: `out` is too short (kind `Config`); a segment is not there.
    pub fn read(&self, segments: &[Segment], out: &mut [u8]) -> Result<usize> {
        let mut reading = Reading::default();
        let mut at = 0;
        for segment in segments {
            at = self.want(segment, at, out.len(), &mut reading)?;
        }
        self.finish(out, &mut reading)?;
        Ok(at)
    }

    /// Asks for the tokens of a segment at byte `at` of the `room` bytes that [`Tokens::finish`] gets; says where they
    /// end. That they are there is found out here.
    #[inline]
    pub(crate) fn want(&self, segment: &Segment, at: usize, room: usize, reading: &mut Reading) -> Result<usize> {
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

    /// Puts what was asked for in its places in `out`.
    pub(crate) fn finish(&self, out: &mut [u8], reading: &mut Reading) -> Result<()> {
        let Reading { mapped, wants, buf } = reading;
        let copied = self.copy(mapped, out);
        mapped.clear();
        let read = copied.and_then(|()| ranges::read(&self.files, wants, self.token_type, out, buf));
        wants.clear();
        read
    }

    /// Copies ranges of mapped files. The first bytes of many are looked at before any is copied: the waits for pages at
    /// random places then pass side by side.
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
