//! Huffman codes (T.81, annex C). Owns the tables; reads no bytes itself.

use super::Fault;
use super::bits::Bits;

/// Codes of up to this many bits are found by one table lookup.
const FAST: u32 = 9;

/// A Huffman table with codes of 1 to 16 bits.
pub(super) struct Codes {
    /// Indexed by the next bits: code length in the high byte, value in the low byte; 0 for longer codes.
    fast: Vec<u16>,
    /// Per length: one past the last code, left-aligned in 16 bits, and the offset from a code to its value's index.
    lengths: [(u32, i32); 17],
    values: Vec<u8>,
}

impl Codes {
    /// Reads a table of a DHT segment; also returns the bytes after it.
    pub(super) fn read(body: &[u8]) -> Result<(Self, &[u8]), Fault> {
        const WRONG: Fault = "a Huffman table is damaged";
        let (counts, tail) = body.split_first_chunk::<16>().ok_or(WRONG)?;
        let many = counts.iter().map(|count| usize::from(*count)).sum();
        let (values, tail) = tail.split_at_checked(many).filter(|_| many <= 256).ok_or(WRONG)?;
        let mut codes = Self { fast: vec![0; 1 << FAST], lengths: [(0, 0); 17], values: values.to_vec() };
        let (mut code, mut place) = (0u32, 0usize);
        for (length, count) in (1..=16u32).zip(counts) {
            let first = place as i32 - code as i32;
            for _ in 0..*count {
                if code >> length != 0 {
                    return Err(WRONG);
                }
                codes.put_fast(code, length, values.get(place).copied().ok_or(WRONG)?);
                (code, place) = (code + 1, place + 1);
            }
            if let Some(entry) = codes.lengths.get_mut(length as usize) {
                *entry = (code << (16 - length), first);
            }
            code <<= 1;
        }
        Ok((codes, tail))
    }

    fn put_fast(&mut self, code: u32, length: u32, value: u8) {
        if length <= FAST {
            let first = (code << (FAST - length)) as usize;
            let entries = self.fast.get_mut(first..first + (1 << (FAST - length))).unwrap_or_default();
            entries.fill((length as u16) << 8 | u16::from(value));
        }
    }

    /// Consumes the next code and returns its value.
    pub(super) fn next(&self, bits: &mut Bits<'_>) -> Result<u8, Fault> {
        let (length, value) = self.look(bits)?;
        bits.skip(length)?;
        Ok(value)
    }

    /// Like [`next`](Self::next); also skips the number of bits in the value's low nibble.
    pub(super) fn next_with_bits(&self, bits: &mut Bits<'_>) -> Result<u8, Fault> {
        let (length, value) = self.look(bits)?;
        bits.skip(length + u32::from(value & 15))?;
        Ok(value)
    }

    /// Length and value of the next code, without consuming it.
    #[inline]
    fn look(&self, bits: &mut Bits<'_>) -> Result<(u32, u8), Fault> {
        let next = u32::from(bits.peek());
        match self.fast.get((next >> (16 - FAST)) as usize) {
            Some(found) if *found != 0 => Ok((u32::from(found >> 8), *found as u8)),
            _ => self.slow(next),
        }
    }

    fn slow(&self, next: u32) -> Result<(u32, u8), Fault> {
        let mut ends = (1..).zip(self.lengths.iter().skip(1));
        let found = ends.find(|(_, (end, _))| next < *end);
        let value = found.and_then(|(length, (_, first))| {
            let place = (next >> (16 - length)) as i32 + first;
            Some((length, *self.values.get(usize::try_from(place).ok()?)?))
        });
        value.ok_or("a code is in no table")
    }
}
