//! Sixteen bytes at a time, in a register where the processor has one for them: which of them is the first of a kind.

use wide::u8x16;

/// How many bytes are looked at together.
pub(crate) const LANES: usize = 16;

/// The place of the first byte that is a quote, a backslash or a control character (below 0x20).
#[inline]
pub(crate) fn special(bytes: &[u8; LANES]) -> Option<usize> {
    let bytes = u8x16::from(*bytes);
    let controls = bytes.min(u8x16::splat(0x1f)).simd_eq(bytes);
    let found = controls | bytes.simd_eq(u8x16::splat(b'"')) | bytes.simd_eq(u8x16::splat(b'\\'));
    let mask = found.to_bitmask();
    (mask != 0).then_some(mask.trailing_zeros() as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_at_every_place_is_told() {
        for byte in 0..=255u8 {
            for at in 0..LANES {
                for around in [b'x', 0xff, 0x20, 0x21, 0x23, b'\\', 0] {
                    let mut bytes = [around; LANES];
                    bytes[at] = byte;
                    let place = |test: fn(&u8) -> bool| bytes.iter().position(test);
                    assert_eq!(special(&bytes), place(|byte| *byte < 0x20 || *byte == b'"' || *byte == b'\\'));
                }
            }
        }
    }
}
