//! Eight bytes at a time, as one word: which of them is the first of a kind.

/// How many bytes are looked at together.
pub(crate) const LANES: usize = 8;

const ONES: u64 = u64::MAX / 255;
const HIGHS: u64 = ONES << 7;

/// The place of the first byte that is a quote, a backslash or a control character (below 0x20).
#[inline]
pub(crate) fn special(bytes: &[u8; LANES]) -> Option<usize> {
    let word = u64::from_le_bytes(*bytes);
    first(below(word, 0x20) | equal(word, b'"') | equal(word, b'\\'))
}

/// Bits of which the lowest is the highest of the first byte below `bound`, which is at most 0x80. Higher
/// ones may be wrong, as a borrow may reach them.
#[inline]
fn below(word: u64, bound: u64) -> u64 {
    word.wrapping_sub(ONES * bound) & !word & HIGHS
}

#[inline]
fn equal(word: u64, byte: u8) -> u64 {
    below(word ^ (ONES * u64::from(byte)), 1)
}

#[inline]
fn first(bits: u64) -> Option<usize> {
    (bits != 0).then_some(bits.trailing_zeros() as usize / 8)
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
