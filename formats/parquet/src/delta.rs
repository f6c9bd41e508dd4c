//! Checks the counts that delta-encoded blocks (`DELTA_BINARY_PACKED` and the encodings that start with it) declare,
//! before the crate `parquet` allocates for them.
//!
//! ```text
//! varints  values per block · miniblocks per block · total values · the first value
//! block    varint of the least delta | bit width of each miniblock, one byte each | miniblocks
//! ```
//!
//! Specification: <https://parquet.apache.org/docs/file-format/data-pages/encodings/>.

use crate::byte_cursor::ByteCursor;

/// The largest supported block; writers use 128 values.
const BLOCK: u64 = 1 << 20;

/// Whether the deltas at the start of `bytes` declare at most `most` values.
pub(crate) fn is_sound(bytes: &[u8], most: u64) -> bool {
    Header::read(&mut ByteCursor(bytes)).is_some_and(|header| header.values <= most)
}

/// The bytes after the deltas at the start of `bytes`; `None` if they are cut short or declare over `most` values.
pub(crate) fn after(bytes: &[u8], most: u64) -> Option<&[u8]> {
    let mut bytes = ByteCursor(bytes);
    let header = Header::read(&mut bytes).filter(|header| header.values <= most)?;
    // The first value is in the header.
    let mut left = header.values.saturating_sub(1);
    while left > 0 {
        bytes.varint()?;
        let widths = bytes.take(header.miniblocks)?;
        for width in widths {
            if left > 0 {
                bytes.take(u64::from(*width).checked_mul(header.each)? / 8)?;
                left = left.saturating_sub(header.each);
            }
        }
    }
    Some(bytes.0)
}

struct Header {
    miniblocks: u64,
    /// Values in a miniblock.
    each: u64,
    values: u64,
}

impl Header {
    fn read(bytes: &mut ByteCursor<'_>) -> Option<Self> {
        let (block, miniblocks, values) = (bytes.varint()?, bytes.varint()?, bytes.varint()?);
        bytes.varint()?;
        let each = block.checked_div(miniblocks)?;
        (block <= BLOCK && each > 0).then_some(Self { miniblocks, each, values })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A header of blocks of 128 values in 4 miniblocks, with `values` values, then `rest`.
    fn differences(values: u8, rest: &[u8]) -> Vec<u8> {
        [&[0x80, 1, 4, values, 0][..], rest].concat()
    }

    #[test]
    fn the_bytes_after_the_last_miniblock_are_found() {
        assert_eq!(after(&differences(1, b"rest"), 1), Some(&b"rest"[..]));
        // 40 values: two miniblocks, of 1 and 2 bits; the widths of the others are unused.
        let body = [&[0, 1, 2, 9, 9][..], &[0; 4], &[0; 8], b"rest"].concat();
        assert_eq!(after(&differences(40, &body), 40), Some(&b"rest"[..]));
        assert_eq!(after(&differences(40, &body), 39), None);
        assert_eq!(after(&differences(40, &body[..15]), 40), None);
    }

    #[test]
    fn impossible_counts_and_blocks_are_refused() {
        assert!(is_sound(&differences(100, &[]), 100));
        assert!(!is_sound(&differences(101, &[]), 100));
        assert!(!is_sound(&[0x80, 1, 0, 1, 0], 100));
        assert!(!is_sound(&[0xff, 0xff, 0xff, 0xff, 0xff, 1, 4, 1, 0], 100));
        assert!(!is_sound(&[0x80; 30], 100));
    }
}
