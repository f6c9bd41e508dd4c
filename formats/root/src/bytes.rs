//! Bounds-checked reading of big-endian values and object headers. Knows nothing of files.

use packhorse_core::{Error, Result};

/// A position in bytes. Reading beyond the end is a `Content` error.
#[derive(Clone)]
pub(crate) struct Bytes<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// The header of an object: its class version and, if it has a byte count, its end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ObjectHeader {
    pub(crate) version: u16,
    pub(crate) end: Option<usize>,
}

const BYTE_COUNT: u32 = 0x4000_0000;

impl<'a> Bytes<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    pub(crate) fn at(&self) -> usize {
        self.at
    }

    pub(crate) fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    pub(crate) fn take(&mut self, n: usize) -> Result<&'a [u8]> {
        let end = self.at.checked_add(n).filter(|end| *end <= self.bytes.len());
        let found = end.and_then(|end| self.bytes.get(self.at..end));
        let found = found.ok_or_else(|| Error::cut_short(format!("{n} bytes needed, {} left", self.left())))?;
        self.at += n;
        Ok(found)
    }

    /// Moves forward to `to`; moving back is an error, so that every read loop ends.
    pub(crate) fn advance_to(&mut self, to: usize) -> Result<()> {
        let n = to.checked_sub(self.at).ok_or_else(|| Error::content("an object is longer than its byte count"))?;
        self.take(n).map(|_| ())
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let bytes = self.take(N)?;
        bytes.try_into().map_err(|_| Error::bug("a slice of another length than was taken"))
    }

    pub(crate) fn u8(&mut self) -> Result<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(crate) fn u16(&mut self) -> Result<u16> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn i32(&mut self) -> Result<i32> {
        self.array().map(i32::from_be_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64> {
        self.array().map(u64::from_be_bytes)
    }

    pub(crate) fn i64(&mut self) -> Result<i64> {
        self.array().map(i64::from_be_bytes)
    }

    /// A file offset of 4 or, in large files, 8 bytes.
    pub(crate) fn place(&mut self, large: bool) -> Result<u64> {
        let place = if large { self.i64()? } else { i64::from(self.i32()?) };
        u64::try_from(place).map_err(|_| Error::content("a negative file offset"))
    }

    /// A count of items of at least `size` bytes each, checked against the bytes left.
    pub(crate) fn count(&mut self, size: usize) -> Result<usize> {
        let count = self.i32()?;
        let fits = |n: &usize| n.checked_mul(size).is_some_and(|bytes| bytes <= self.left());
        let bad = || Error::content(format!("a count of {count} items, which {} bytes can't hold", self.left()));
        usize::try_from(count).ok().filter(fits).ok_or_else(bad)
    }

    /// The bytes of a `TString`: after a length of one byte or, from 255 on, four more.
    pub(crate) fn raw_string(&mut self) -> Result<&'a [u8]> {
        let len = match self.u8()? {
            255 => self.count(1)?,
            short => usize::from(short),
        };
        self.take(len)
    }

    /// A `TString`; invalid UTF-8 is replaced.
    pub(crate) fn string(&mut self) -> Result<String> {
        self.raw_string().map(|bytes| String::from_utf8_lossy(bytes).into_owned())
    }

    /// A string up to a zero byte.
    pub(crate) fn c_string(&mut self) -> Result<String> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let len = rest.iter().position(|byte| *byte == 0).ok_or_else(|| Error::content("a name without an end"))?;
        let name = String::from_utf8_lossy(self.take(len)?).into_owned();
        self.take(1)?;
        Ok(name)
    }

    /// An object header, with or without a byte count.
    pub(crate) fn header(&mut self) -> Result<ObjectHeader> {
        let mut ahead = self.clone();
        let Some(len) = ahead.u32().ok().and_then(counted) else {
            return Ok(ObjectHeader { version: self.u16()?, end: None });
        };
        let end = ahead.at.checked_add(len).filter(|end| len >= 2 && *end <= self.bytes.len());
        let bad = || Error::content(format!("an object of {len} bytes, but only {} are left", ahead.left()));
        let end = end.ok_or_else(bad)?;
        self.at = ahead.at;
        Ok(ObjectHeader { version: self.u16()?, end: Some(end) })
    }

    /// Moves to the end of the object, if `header` has it.
    pub(crate) fn finish(&mut self, header: ObjectHeader) -> Result<()> {
        header.end.map_or(Ok(()), |end| self.advance_to(end))
    }

    /// Skips a `TObject`.
    pub(crate) fn skip_object(&mut self) -> Result<()> {
        self.object_number().map(|_| ())
    }

    /// A `TObject`: its unique ID, which references use.
    pub(crate) fn object_number(&mut self) -> Result<u32> {
        let version = self.u16()?;
        if version & 0x4000 != 0 {
            self.take(2 + 2)?;
        }
        let number = self.u32()?;
        self.object_bits()?;
        Ok(number)
    }

    /// The `fBits` of a `TObject`; if it is referenced, a process ID of two bytes follows.
    pub(crate) fn object_bits(&mut self) -> Result<u32> {
        const IS_REFERENCED: u32 = 1 << 4;
        let bits = self.u32()?;
        if bits & IS_REFERENCED != 0 {
            self.u16()?;
        }
        Ok(bits)
    }

    /// A `TNamed`: name and title.
    pub(crate) fn named(&mut self) -> Result<(String, String)> {
        let header = self.header()?;
        self.skip_object()?;
        let named = (self.string()?, self.string()?);
        self.finish(header)?;
        Ok(named)
    }
}

/// The byte count in `word`, if it is one.
pub(crate) fn counted(word: u32) -> Option<usize> {
    (word & BYTE_COUNT != 0 && word != u32::MAX).then_some((word & !BYTE_COUNT) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_short_or_long() {
        let long = [&[255, 0, 0, 1, 0][..], &[b'x'; 256]].concat();
        let mut bytes = Bytes::new(&long);
        assert_eq!(bytes.raw_string().unwrap().len(), 256);
        assert_eq!(bytes.left(), 0);
        assert_eq!(Bytes::new(b"\x02ab").string().unwrap(), "ab");
        assert!(Bytes::new(b"\x03ab").string().is_err());
        assert!(Bytes::new(b"\xff\x7f\xff\xff\xffab").string().is_err());
    }

    #[test]
    fn headers_with_and_without_byte_count() {
        let header = Bytes::new(&[0x40, 0, 0, 4, 0, 3, 9, 9]).header().unwrap();
        assert_eq!((header.version, header.end), (3, Some(8)));
        let header = Bytes::new(&[0, 3, 9, 9]).header().unwrap();
        assert_eq!((header.version, header.end), (3, None));
        assert!(Bytes::new(&[0x40, 0, 0, 5, 0, 3, 9, 9]).header().is_err());
    }

    #[test]
    fn bits_of_referenced_objects_are_longer() {
        let mut bytes = Bytes::new(&[3, 0, 0, 0x10, 0, 1, 3, 0, 0, 0]);
        assert_eq!(bytes.object_bits().unwrap(), 0x0300_0010);
        assert_eq!(bytes.left(), 4);
        assert_eq!(bytes.object_bits().unwrap(), 0x0300_0000);
        assert!(Bytes::new(&[0, 0, 0, 0x10]).object_bits().is_err());
    }

    #[test]
    fn moving_back_is_an_error() {
        let mut bytes = Bytes::new(&[0; 4]);
        bytes.take(3).unwrap();
        assert!(bytes.advance_to(2).is_err());
        assert!(bytes.advance_to(5).is_err());
        assert!(bytes.advance_to(4).is_ok());
    }
}
