//! Mirrors rows of RGB pixels. Owns a method that works on whole words.

/// Reverses the pixels, eight from each end at a time: moving three bytes costs a processor as much as moving eight.
pub(super) fn mirror(row: &mut [[u8; 3]]) {
    let side = row.len() / 16 * 8;
    let (left, rest) = row.split_at_mut(side);
    let (middle, right) = rest.split_at_mut(rest.len() - side);
    let (left, right) = (left.as_flattened_mut().as_chunks_mut().0, right.as_flattened_mut().as_chunks_mut().0);
    for (a, b) in left.iter_mut().zip(right.iter_mut().rev()) {
        (*a, *b) = (eight(b), eight(a));
    }
    middle.reverse();
}

/// Reverses eight pixels. As little-endian words: `000111 22`, `2 333444 5`, `55 666777`.
fn eight(pixels: &[u8; 24]) -> [u8; 24] {
    let word = |at: usize| pixels.as_chunks().0.get(at).map_or(0, |bytes| u64::from_le_bytes(*bytes));
    let (a, b, c) = (word(0), word(1), word(2));
    let (byte, pixel) = (0xff, 0xff_ffff);
    let words = [
        (c >> 40) | ((c >> 16) & pixel) << 24 | (b >> 56) << 48 | c << 56,
        ((c >> 8) & byte) | ((b >> 32) & pixel) << 8 | ((b >> 8) & pixel) << 32 | ((a >> 48) & byte) << 56,
        (a >> 56) | (b & byte) << 8 | ((a >> 24) & pixel) << 16 | a << 40,
    ];
    let mut mirrored = [0; 24];
    for (to, word) in mirrored.as_chunks_mut().0.iter_mut().zip(words) {
        *to = word.to_le_bytes();
    }
    mirrored
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_any_width_are_mirrored() {
        for width in 0..100u8 {
            let row: Vec<[u8; 3]> = (0..width).map(|x| [x, x + 100, x.wrapping_mul(37)]).collect();
            let mut mirrored = row.clone();
            mirror(&mut mirrored);
            assert!(mirrored.iter().rev().eq(row.iter()), "{width}");
        }
    }
}
