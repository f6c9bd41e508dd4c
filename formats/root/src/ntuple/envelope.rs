//! RNTuple's metadata encoding: little-endian values, frames and envelopes.

use packhorse_core::{Code, Error, Result};

/// A position in an envelope.
#[derive(Clone)]
pub(crate) struct Words<'a> {
    bytes: &'a [u8],
}

/// A byte range of the file: stored size and offset.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Locator {
    pub(crate) len: u64,
    pub(crate) at: u64,
}

/// A record or list frame: its contents, and the number of items in a list.
pub(crate) struct EnvelopeFrame<'a> {
    pub(crate) words: Words<'a>,
    pub(crate) count: usize,
}

impl<'a> Words<'a> {
    /// The contents of the envelope `bytes`, after checking its type `kind` and its checksum.
    pub(crate) fn envelope(bytes: &'a [u8], kind: u16) -> Result<Self> {
        let (body, sum) = bytes.split_last_chunk::<8>().ok_or_else(|| Error::content("an envelope is cut short"))?;
        if twox_hash::XxHash3_64::oneshot(body) != u64::from_le_bytes(*sum) {
            return Err(
                Error::content("an envelope's checksum is wrong: the file is damaged").with_code(Code::ChecksumDiffers)
            );
        }
        let mut words = Self { bytes: body };
        let head = words.u64()?;
        if head & 0xffff != u64::from(kind) {
            return Err(Error::content(format!("an envelope of type {} instead of {kind}", head & 0xffff)));
        }
        Ok(words)
    }

    pub(crate) fn take(&mut self, n: usize) -> Result<&'a [u8]> {
        let left = self.bytes.len();
        let cut = || Error::cut_short(format!("{n} bytes needed, {left} left"));
        let (found, rest) = self.bytes.split_at_checked(n).ok_or_else(cut)?;
        self.bytes = rest;
        Ok(found)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        self.take(N)?.try_into().map_err(|_| Error::bug("a slice of another length than was taken"))
    }

    pub(crate) fn u16(&mut self) -> Result<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn i32(&mut self) -> Result<i32> {
        self.array().map(i32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64> {
        self.array().map(u64::from_le_bytes)
    }

    pub(crate) fn i64(&mut self) -> Result<i64> {
        self.array().map(i64::from_le_bytes)
    }

    pub(crate) fn f64(&mut self) -> Result<f64> {
        self.array().map(f64::from_le_bytes)
    }

    pub(crate) fn string(&mut self) -> Result<String> {
        let len = self.u32()? as usize;
        self.take(len).map(|bytes| String::from_utf8_lossy(bytes).into_owned())
    }

    /// Feature flags, which must be 0: version 1.0 defines none.
    pub(crate) fn features(&mut self) -> Result<()> {
        match self.i64()? {
            0 => Ok(()),
            flags => Err(Error::unsupported(format!("an RNTuple with the unknown features {flags:#x}"))),
        }
    }

    /// The next frame. Callers ignore trailing bytes, which newer versions may add.
    pub(crate) fn frame(&mut self) -> Result<EnvelopeFrame<'a>> {
        let size = self.i64()?;
        let len = usize::try_from(size.unsigned_abs()).unwrap_or(usize::MAX).checked_sub(8);
        let len = len.ok_or_else(|| Error::content("a frame shorter than its size"))?;
        let mut words = Words { bytes: self.take(len)? };
        let count = if size < 0 { words.u32()? as usize } else { 1 };
        if count > words.bytes.len() && size < 0 {
            return Err(Error::content(format!("a list of {count} items in {} bytes", words.bytes.len())));
        }
        Ok(EnvelopeFrame { words, count })
    }

    pub(crate) fn locator(&mut self) -> Result<Locator> {
        let size = self.i32()?;
        if let Ok(len) = u64::try_from(size) {
            return Ok(Locator { len, at: self.u64()? });
        }
        match size.unsigned_abs() >> 24 {
            1 => Ok(Locator { len: self.u64()?, at: self.u64()? }),
            kind => Err(Error::unsupported(format!("data outside the file (locator of type {kind})"))),
        }
    }

    pub(crate) fn left(&self) -> usize {
        self.bytes.len()
    }
}
