//! The tokens of all files that an order names, by segment.

use crate::ranges::{self, Want};
use crate::{TokenFile, Wire};
use packhorse_core::{Error, Result};
use packhorse_order::Segment;

/// Files of tokens, numbered as the `dataset` of segments has it. Their tokens come in one type.
#[derive(Debug)]
pub struct Tokens {
    files: Vec<TokenFile>,
    wire: Wire,
}

/// What reading needs again and again, and keeps.
#[derive(Debug, Default)]
pub(crate) struct Reading {
    wants: Vec<Want>,
    buf: Vec<u8>,
}

impl Reading {
    /// Drops what was to be read, after an error.
    pub(crate) fn forget(&mut self) {
        self.wants.clear();
    }
}

impl Tokens {
    /// Errors: no files, or 2^32 and more.
    pub fn new(files: Vec<TokenFile>) -> Result<Self> {
        let wire = files.iter().map(TokenFile::wire).max();
        let wire = wire.ok_or_else(|| Error::config("there are no files of tokens: name one at least"))?;
        if u32::try_from(files.len()).is_err() {
            return Err(Error::unsupported("2^32 files of tokens and more can't be numbered"));
        }
        Ok(Self { files, wire })
    }

    /// The type that tokens are read as: the widest of the files'.
    pub fn wire(&self) -> Wire {
        self.wire
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
            at = self.take(segment, at, out, &mut reading)?;
        }
        self.finish(out, &mut reading)?;
        Ok(at)
    }

    /// The tokens of a segment to byte `at` of `out`, now or, if they have to be read, with the others in
    /// [`Tokens::finish`]; says where they end.
    #[inline]
    pub(crate) fn take(&self, segment: &Segment, at: usize, out: &mut [u8], reading: &mut Reading) -> Result<usize> {
        let file = self.files.get(segment.dataset as usize).ok_or_else(|| {
            let message = format!("the order names dataset {} of {}", segment.dataset, self.files.len());
            Error::content(message)
        })?;
        let place = file.place(segment)?;
        let len = segment.length as usize * self.wire.width();
        let end = at.saturating_add(len);
        let to = out
            .get_mut(at..end)
            .ok_or_else(|| Error::config(format!("there is no room for {len} bytes of tokens at byte {at}")))?;
        match file.mapped(&place) {
            Some(bytes) => file.convert(bytes, self.wire, to)?,
            None => {
                let want = Want { file: segment.dataset, start: place.start, end: place.end, to: at, len };
                reading.wants.push(want);
            }
        }
        Ok(end)
    }

    /// Reads what [`Tokens::take`] left.
    pub(crate) fn finish(&self, out: &mut [u8], reading: &mut Reading) -> Result<()> {
        let result = ranges::read(&self.files, &mut reading.wants, self.wire, out, &mut reading.buf);
        reading.wants.clear();
        result
    }
}
