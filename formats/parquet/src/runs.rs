//! Checks levels in runs, RLE or bit-packed (Apache Parquet, Encodings, "Run Length Encoding / Bit-Packing Hybrid"). The crate skips rows of
//! lists without end where a page has fewer repetition levels than it declares.

use crate::byte_cursor::ByteCursor;

/// Whether `bytes` hold at least `values` levels, of which the highest is `most`.
pub(crate) fn hold(bytes: &[u8], most: i16, values: u64) -> bool {
    let bits = u64::from(16 - most.leading_zeros().min(16)).max(1);
    let (mut rest, mut found) = (ByteCursor(bytes), 0u64);
    while found < values {
        let Some(head) = rest.varint() else { return false };
        let count = head >> 1;
        if head & 1 == 0 {
            let Some(_) = rest.take(bits.div_ceil(8)) else { return false };
            found = found.saturating_add(count);
            continue;
        }
        // The last groups may be cut short.
        let bytes = count.saturating_mul(bits).min(rest.0.len() as u64);
        rest.take(bytes);
        found = found.saturating_add(bytes * 8 / bits);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_counted_in_runs_of_both_kinds() {
        // A run of 5 times 1, then 8 levels of one bit.
        let bytes = [10, 1, 3, 0b1010_1010];
        assert!(hold(&bytes, 1, 13) && hold(&bytes, 1, 5) && hold(&[], 1, 0));
        assert!(!hold(&bytes, 1, 14) && !hold(&bytes[..3], 1, 6) && !hold(&bytes[..1], 1, 1) && !hold(&[], 1, 1));
        // Levels of two bits take 2 bytes a group.
        assert!(hold(&[3, 0, 0], 3, 8) && hold(&[3, 0], 3, 4));
        assert!(!hold(&[3, 0], 3, 5) && !hold(&[3, 0, 0], 3, 9));
        // Runs of no levels end.
        assert!(!hold(&[0, 0, 0, 0, 1, 1], 1, 1));
    }
}
