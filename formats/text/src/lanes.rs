//! Finds quotes, backslashes and control characters in 16 bytes at once (SIMD where the processor has it).

use wide::u8x16;

/// Bytes in one vector.
pub(crate) const LANES: usize = 16;

/// Bytes in one bit mask.
pub(crate) const WORD: usize = 64;

/// The position of the first quote, backslash or control character (below 0x20).
#[inline]
pub(crate) fn special(bytes: &[u8; LANES]) -> Option<usize> {
    let mask = mask(bytes);
    (mask != 0).then_some(mask.trailing_zeros() as usize)
}

/// A mask of all such bytes; the lowest bit is the first byte.
#[inline]
pub(crate) fn specials(bytes: &[u8; WORD]) -> u64 {
    let (lanes, _) = bytes.as_chunks::<LANES>();
    lanes.iter().rev().fold(0, |word, lanes| word << LANES | u64::from(mask(lanes)))
}

#[inline]
fn mask(bytes: &[u8; LANES]) -> u32 {
    let bytes = u8x16::from(*bytes);
    let controls = bytes.min(u8x16::splat(0x1f)).simd_eq(bytes);
    (controls | bytes.simd_eq(u8x16::splat(b'"')) | bytes.simd_eq(u8x16::splat(b'\\'))).to_bitmask()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_found_at_every_position() {
        for byte in 0..=255u8 {
            for at in 0..LANES {
                for around in [b'x', 0xff, 0x20, 0x21, 0x23, b'\\', 0] {
                    let mut bytes = [around; LANES];
                    bytes[at] = byte;
                    let place = |test: fn(&u8) -> bool| bytes.iter().position(test);
                    let first = place(|byte| *byte < 0x20 || *byte == b'"' || *byte == b'\\');
                    assert_eq!(special(&bytes), first);
                    let all: u64 = (0..LANES).filter(|i| special(&[bytes[*i]; LANES]).is_some()).map(|i| 1 << i).sum();
                    assert_eq!(specials(&bytes.repeat(4).try_into().unwrap()), all * 0x0001_0001_0001_0001);
                }
            }
        }
    }
}
