//! LZF, h5py's own filter: literal runs, and back references over at most 8 KiB and 264 bytes long.
//!
//! A byte below 32 is the number of literals that follow, minus one. Otherwise its upper three bits are the length of a
//! reference minus two (7: plus the next byte), and its lower five bits and one more byte the distance minus one.

/// Bits of the hash of three bytes.
const BITS: u32 = 14;
const FARTHEST: usize = 1 << 13;
const LONGEST: usize = 264;
const RUN: usize = 32;

/// Compresses chunks, one at a time; reuses its memory.
pub(crate) struct Lzf {
    /// For each hash the last position of such bytes, counted from 1.
    seen: Vec<u32>,
}

impl Lzf {
    pub(crate) fn new() -> Self {
        Self { seen: Vec::new() }
    }

    /// Compresses `input` into the start of `out`; returns the number of bytes, or `None` if they do not fit.
    pub(crate) fn compress(&mut self, input: &[u8], out: &mut [u8]) -> Option<usize> {
        self.seen.clear();
        self.seen.resize(1 << BITS, 0);
        let mut writer = Writer { out, at: 0 };
        let (mut start, mut at) = (0, 0);
        while at < input.len() {
            match self.reference(input, at)? {
                None => at += 1,
                Some((distance, len)) => {
                    writer.literals(input.get(start..at)?)?;
                    writer.reference(distance, len)?;
                    at += len;
                    start = at;
                }
            }
        }
        writer.literals(input.get(start..)?)?;
        Some(writer.at)
    }

    /// Distance and length of the longest match at `at`, if any. The outer `None` means that `input` is too long.
    #[expect(clippy::option_option, reason = "the outer option ends the compression")]
    fn reference(&mut self, input: &[u8], at: usize) -> Option<Option<(usize, usize)>> {
        let rest = input.get(at..)?;
        let Some([a, b, c]) = rest.first_chunk() else { return Some(None) };
        let hash = u32::from_le_bytes([*a, *b, *c, 0]).wrapping_mul(0x9e37_79b1) >> (32 - BITS);
        let place = self.seen.get_mut(hash as usize)?;
        let before = std::mem::replace(place, u32::try_from(at + 1).ok()?) as usize;
        let Some(from) = before.checked_sub(1).filter(|from| at - from <= FARTHEST) else { return Some(None) };
        let same = input.get(from..)?.iter().zip(rest).take(LONGEST).take_while(|(old, new)| old == new).count();
        Some((same >= 3).then_some((at - from, same)))
    }
}

struct Writer<'a> {
    out: &'a mut [u8],
    at: usize,
}

impl Writer<'_> {
    fn put(&mut self, bytes: &[u8]) -> Option<()> {
        self.out.get_mut(self.at..self.at + bytes.len())?.copy_from_slice(bytes);
        self.at += bytes.len();
        Some(())
    }

    fn literals(&mut self, bytes: &[u8]) -> Option<()> {
        bytes.chunks(RUN).try_for_each(|run| {
            self.put(&[run.len() as u8 - 1])?;
            self.put(run)
        })
    }

    fn reference(&mut self, distance: usize, len: usize) -> Option<()> {
        let (far, len) = (distance - 1, len - 2);
        let high = |len: usize| (len << 5 | far >> 8) as u8;
        match len {
            ..7 => self.put(&[high(len), far as u8]),
            _ => self.put(&[high(7), (len - 7) as u8, far as u8]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Lzf;
    use crate::read::lzf_for_tests;

    #[test]
    fn input_round_trips() {
        let mut lzf = Lzf::new();
        let mut state = 1u64;
        for len in (0..300).chain([5_000, 70_000]) {
            for values in [1, 2, 5, 256] {
                let mut next = || {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    (state >> 33) % values
                };
                let input: Vec<u8> = (0..len).map(|_| next() as u8).collect();
                let mut packed = vec![0; len + len / 32 + 1];
                let size = lzf.compress(&input, &mut packed).unwrap();
                let mut out = vec![0; len];
                assert_eq!(lzf_for_tests(&packed[..size], &mut out).unwrap(), len);
                assert_eq!(out, input, "{len} of {values}");
                assert!(lzf.compress(&input, &mut packed[..size.saturating_sub(1)]).is_none() || size == 0);
                if values == 1 && len > 300 {
                    assert!(size < len / 80);
                }
            }
        }
    }
}
