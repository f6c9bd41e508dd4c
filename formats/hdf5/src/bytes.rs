//! Bounds-checked reading of little-endian numbers from untrusted bytes.

use packhorse_core::{Error, Result};

/// HDF5's undefined address.
pub(crate) const UNDEFINED: u64 = u64::MAX;

/// A name as text. Names that are not UTF-8 have escapes (`T_\xb5`), so that they stay apart.
pub(crate) fn name(bytes: &[u8]) -> String {
    std::str::from_utf8(bytes).map_or_else(|_| bytes.escape_ascii().to_string(), str::to_owned)
}

/// A position in bytes that moves forward.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'a> {
    rest: &'a [u8],
    /// Name of the structure, for errors.
    what: &'static str,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8], what: &'static str) -> Self {
        Self { rest: bytes, what }
    }

    /// The unread bytes.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// The next `n` bytes.
    pub(crate) fn take(&mut self, n: usize) -> Result<&'a [u8]> {
        let (head, tail) = self.rest.split_at_checked(n).ok_or_else(|| self.bad("is cut short"))?;
        self.rest = tail;
        Ok(head)
    }

    pub(crate) fn skip(&mut self, n: usize) -> Result<()> {
        self.take(n).map(|_| ())
    }

    /// Consumes a signature, which must match.
    pub(crate) fn expect(&mut self, signature: &[u8]) -> Result<()> {
        match self.take(signature.len())? == signature {
            true => Ok(()),
            false => Err(self.bad(&format!("lacks its signature {}", signature.escape_ascii()))),
        }
    }

    /// The next `n` bytes, at most 8, as a number.
    pub(crate) fn uint(&mut self, n: usize) -> Result<u64> {
        if n > 8 {
            return Err(self.bad("has numbers of more than 8 bytes"));
        }
        Ok(self.take(n)?.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }

    /// The next `n` bytes, at most 8, as a big-endian number.
    pub(crate) fn big(&mut self, n: usize) -> Result<u64> {
        if n > 8 {
            return Err(self.bad("has numbers of more than 8 bytes"));
        }
        Ok(self.take(n)?.iter().fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }

    /// Like [`Cursor::uint`], for addresses: all bits set gives [`UNDEFINED`].
    pub(crate) fn address(&mut self, n: usize) -> Result<u64> {
        let undefined = self.rest.get(..n).is_some_and(|bytes| bytes.iter().all(|byte| *byte == 0xff));
        self.uint(n).map(|value| if undefined { UNDEFINED } else { value })
    }

    pub(crate) fn u8(&mut self) -> Result<u8> {
        Ok(self.take(1)?.first().copied().unwrap_or_default())
    }

    pub(crate) fn u16(&mut self) -> Result<u16> {
        self.uint(2).map(|value| value as u16)
    }

    pub(crate) fn u32(&mut self) -> Result<u32> {
        self.uint(4).map(|value| value as u32)
    }

    pub(crate) fn u64(&mut self) -> Result<u64> {
        self.uint(8)
    }

    /// The bytes up to a zero byte, which is consumed.
    pub(crate) fn zero_ended(&mut self) -> Result<&'a [u8]> {
        let end = self.rest.iter().position(|byte| *byte == 0).ok_or_else(|| self.bad("has a name without an end"))?;
        let name = self.take(end)?;
        self.skip(1)?;
        Ok(name)
    }

    /// A `Content` error that names the structure.
    pub(crate) fn bad(&self, message: &str) -> Error {
        Error::content(format!("{} {message}", self.what))
    }
}

/// `at` rounded up to a multiple of 8.
pub(crate) fn padded(at: u64) -> u64 {
    at.saturating_add(7) & !7
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_are_checked() {
        let mut cursor = Cursor::new(&[1, 2, 0xff, 0xff, b'a', 0], "it");
        assert_eq!(cursor.u16().unwrap(), 0x201);
        assert_eq!(cursor.address(2).unwrap(), UNDEFINED);
        assert_eq!(cursor.zero_ended().unwrap(), b"a");
        assert_eq!(cursor.u8().unwrap_err().message(), "it is cut short");
        assert!(cursor.zero_ended().is_err() && cursor.uint(9).is_err());
    }
}
