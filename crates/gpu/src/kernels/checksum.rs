//! Checksums of device memory.

use super::launch::{Args, Launch, Module, address};
use packhorse_core::{Error, Result, SplitMix64};

/// `UInt8 [rows, bytes]` to `UInt64 [rows]`: [`checksum`] of each row. The result does not depend on the number of
/// threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checksum {
    /// Bytes per row.
    pub bytes: u64,
}

impl Checksum {
    /// Partial sums per row in the first pass, and the group size of each later pass.
    fn parts(&self) -> (u32, &'static [u64]) {
        match self.bytes {
            0..=2_048 => (1, &[]),
            2_049..=524_288 => (64, &[64]),
            _ => (16_384, &[128, 128]),
        }
    }

    /// Bytes of scratch memory that [`Checksum::launch`] needs.
    pub fn scratch(&self, rows: u32) -> Result<usize> {
        let (parts, folds) = self.parts();
        let numbers = match folds {
            [] => 0,
            [_] => u64::from(parts),
            [group, ..] => u64::from(parts) + u64::from(parts) / group,
        };
        let bytes = numbers.checked_mul(8 * u64::from(rows)).and_then(|bytes| usize::try_from(bytes).ok());
        bytes.ok_or_else(|| Error::config(format!("checksums of {rows} rows: give fewer")))
    }

    /// The consecutive launches that read `rows` contiguous rows at `input` and write as many numbers to `output`.
    /// `scratch` has [`Checksum::scratch`] bytes.
    pub fn launch(&self, input: u64, output: u64, scratch: u64, rows: u32) -> Result<Vec<Launch>> {
        let (parts, folds) = self.parts();
        let all = self.bytes.checked_mul(rows.into());
        all.ok_or_else(|| Error::config(format!("{rows} rows of {} bytes: give less", self.bytes)))?;
        self.scratch(rows)?;
        let (input, output) = (address("input", input, 1)?, address("output", output, 8)?);
        let mut sums = if folds.is_empty() { output } else { address("scratch", scratch, 8)? };
        let aligned = input.is_multiple_of(8) && (self.bytes.is_multiple_of(8) || rows == 1);
        let args = Args::new().u64(input).u64(sums).u64(self.bytes).u32(rows).u32(parts).flag(aligned).u32(0);
        let mut launches = vec![Launch::rows(Module::Check, "checksum", parts.into(), rows, args.finish(40)?)?];
        let mut count = u64::from(parts) * u64::from(rows);
        for (at, group) in folds.iter().enumerate() {
            let to = if at + 1 == folds.len() { output } else { sums + 8 * count };
            let args = Args::new().u64(sums).u64(to).u64(count).u64(*group).finish(32)?;
            count /= group;
            launches.push(Launch::flat(Module::Check, "fold", count, args)?);
            sums = to;
        }
        Ok(launches)
    }
}

/// The sum, modulo 2^64, over all words `i` of eight bytes (little-endian, zeros after the last) of output `i` of SplitMix64 seeded
/// with the word, plus the last output of SplitMix64 seeded with the number of bytes.
///
/// It changes with any byte, with the order of words and with zeros at the end. It is not cryptographic.
pub fn checksum(bytes: &[u8]) -> u64 {
    let word = |part: &[u8]| part.iter().rev().fold(0u64, |word, byte| word << 8 | u64::from(*byte));
    let words = bytes.chunks(8).map(word).zip(0u64..);
    words.fold(SplitMix64::at(bytes.len() as u64, u64::MAX), |sum, (word, i)| sum.wrapping_add(SplitMix64::at(word, i)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_and_every_place_counts() {
        let bytes: Vec<u8> = (0..100).collect();
        let whole = checksum(&bytes);
        for at in 0..100 {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            assert_ne!(checksum(&changed), whole);
        }
        let swapped = [&bytes[8..16], &bytes[..8], &bytes[16..]].concat();
        assert_ne!(checksum(&swapped), whole);
        assert_ne!(checksum(&[0; 8]), checksum(&[0; 9]));
        assert_ne!(checksum(&[]), checksum(&[0]));
    }
}
