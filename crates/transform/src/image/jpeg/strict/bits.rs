//! Reads the bits of a scan. Owns byte stuffing and markers; knows no Huffman code.

use super::{Fault, marker};

/// Bits, most significant first. After a marker all bits are 0, and consuming one is an error.
pub(super) struct Bits<'a> {
    rest: &'a [u8],
    held: u64,
    /// How many of the high bits of `held` belong to the scan.
    count: u32,
}

const EARLY: Fault = "a scan ends early";

impl<'a> Bits<'a> {
    pub(super) fn new(rest: &'a [u8]) -> Self {
        Self { rest, held: 0, count: 0 }
    }

    /// Fills `held` to at least 32 bits, or up to the next marker.
    fn fill(&mut self) {
        // Fast path: four bytes at once if none is 0xff.
        if let Some((four, rest)) = self.rest.split_first_chunk::<4>().filter(|_| self.count <= 32) {
            let word = u32::from_be_bytes(*four);
            if !four.contains(&0xff) {
                self.held |= u64::from(word) << (32 - self.count);
                self.count += 32;
                self.rest = rest;
                return;
            }
        }
        while self.count <= 56 {
            let (byte, used) = match *self.rest {
                [0xff, 0, ..] => (0xff, 2),
                [0xff, ..] | [] => return,
                [byte, ..] => (byte, 1),
            };
            self.held |= u64::from(byte) << (56 - self.count);
            self.count += 8;
            self.rest = self.rest.get(used..).unwrap_or_default();
        }
    }

    /// The next 16 bits, without consuming them. [`Bits::skip`] may then consume up to 32.
    pub(super) fn peek(&mut self) -> u16 {
        if self.count < 32 {
            self.fill();
        }
        (self.held >> 48) as u16
    }

    /// Consumes `many` bits, at most 32 after [`Bits::peek`].
    pub(super) fn skip(&mut self, many: u32) -> Result<(), Fault> {
        self.count = self.count.checked_sub(many).ok_or(EARLY)?;
        self.held <<= many;
        Ok(())
    }

    /// Consumes and returns up to 16 bits.
    pub(super) fn take(&mut self, many: u32) -> Result<u16, Fault> {
        let bits = self.peek() as u32;
        self.skip(many)?;
        Ok((bits << many >> 16) as u16)
    }

    /// Consumes one bit.
    pub(super) fn drop_one(&mut self) -> Result<(), Fault> {
        self.take(1).map(|_| ())
    }

    /// Continues after the restart marker `expected`, which must come now.
    pub(super) fn restart(&mut self, expected: u8) -> Result<(), Fault> {
        match marker(self.end()?)? {
            (found, rest) if found == expected => *self = Self::new(rest),
            (0xd0..=0xd7, _) => return Err("restarts are out of order"),
            _ => return Err(EARLY),
        }
        Ok(())
    }

    /// The bytes after the scan; an error if codes are left over.
    pub(super) fn end(&mut self) -> Result<&'a [u8], Fault> {
        self.fill();
        match self.count < 8 {
            true => Ok(self.rest),
            false => Err("codes are left over at the end of a scan"),
        }
    }
}
