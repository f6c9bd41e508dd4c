//! The wire format of protocol buffers, the part that an `Example` uses.

use packhorse_core::{Error, Result};

/// The length of `value` as a varint.
pub(crate) fn varint_len(value: u64) -> usize {
    // One byte for each 7 bits, at least one.
    ((64 - (value | 1).leading_zeros() as usize) * 9 + 64) / 64
}

/// Appends `value` as a varint.
pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// The size of a length-delimited field of `len` bytes, with its tag (always one byte here) and length.
pub(crate) fn delimited(len: usize) -> usize {
    1 + varint_len(len as u64) + len
}

/// Appends the tag and the length of a field of `len` bytes.
pub(crate) fn put_head(out: &mut Vec<u8>, tag: u8, len: usize) {
    out.push(tag);
    put_varint(out, len as u64);
}

/// The value of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WireValue<'a> {
    /// Wire type 0.
    Varint(u64),
    /// Wire type 2: bytes, text, a message or packed numbers.
    Bytes(&'a [u8]),
    /// Wire type 5.
    Four([u8; 4]),
    /// Wire type 1, which no known field uses.
    Eight,
}

/// Reads a message field by field.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message<'a>(pub(crate) &'a [u8]);

impl<'a> Message<'a> {
    /// The number and value of the next field; `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<(u64, WireValue<'a>)>> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let value = match tag & 7 {
            0 => WireValue::Varint(self.varint()?),
            1 => self.take(8).map(|_| WireValue::Eight)?,
            2 => {
                let len = usize::try_from(self.varint()?).map_err(|_| cut())?;
                WireValue::Bytes(self.take(len)?)
            }
            5 => WireValue::Four(self.take(4)?.try_into().map_err(|_| cut())?),
            other => {
                return Err(Error::content(format!("holds a field of wire type {other}, so it is not an Example")));
            }
        };
        match tag >> 3 {
            0 => Err(Error::content("holds a field of number 0, so it is not an Example")),
            number => Ok(Some((number, value))),
        }
    }

    /// The next varint.
    pub(crate) fn varint(&mut self) -> Result<u64> {
        if let [first @ 0..=0x7f, rest @ ..] = self.0 {
            self.0 = rest;
            return Ok(u64::from(*first));
        }
        let mut value = 0;
        for (i, byte) in self.0.iter().take(10).enumerate() {
            // Only one bit of the tenth byte counts; decoders drop the others.
            value |= u64::from(byte & 0x7f).wrapping_shl(7 * i as u32);
            if byte & 0x80 == 0 {
                self.0 = self.0.get(i + 1..).unwrap_or_default();
                return Ok(value);
            }
        }
        Err(if self.0.len() < 10 { cut() } else { Error::content("holds a number of over 10 bytes") })
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8]> {
        let (head, tail) = self.0.split_at_checked(len).ok_or_else(cut)?;
        self.0 = tail;
        Ok(head)
    }
}

fn cut() -> Error {
    Error::content("ends within a field, so it is not an Example")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_round_trip() {
        for shift in 0..64 {
            for value in [1u64 << shift, (1 << shift) - 1, u64::MAX >> shift] {
                let mut out = Vec::new();
                put_varint(&mut out, value);
                assert_eq!(out.len(), varint_len(value), "{value}");
                let mut message = Message(&out);
                assert_eq!(message.varint().unwrap(), value);
                assert!(message.0.is_empty());
                assert!(Message(&out[..out.len() - 1]).varint().is_err());
            }
        }
        assert!(Message(&[0xff; 11]).varint().is_err());
    }

    #[test]
    fn invalid_messages_are_refused() {
        for bytes in [&[0x0a][..], &[0x0a, 2, 0], &[0x0b], &[0x02, 0], &[0x0d, 1, 2, 3], &[0x09, 0], &[0x80]] {
            assert!(Message(bytes).next().is_err(), "{bytes:?}");
        }
        assert_eq!(Message(&[0x2d, 1, 2, 3, 4]).next().unwrap(), Some((5, WireValue::Four([1, 2, 3, 4]))));
        assert_eq!(Message(&[]).next().unwrap(), None);
    }
}
