//! Merges ranges into reads.

use std::ops::Range;

/// How many of `ranges`, sorted by start, to merge into one read, and the end of that read: ranges at most `gap` bytes
/// apart, and at most `most` bytes in total unless the first range is longer.
pub(crate) fn coalesce(mut ranges: impl Iterator<Item = Range<u64>>, gap: u64, most: u64) -> (usize, u64) {
    let Some(first) = ranges.next() else { return (0, 0) };
    let (mut count, mut end) = (1, first.end);
    for range in ranges {
        let reached = range.end.max(end);
        if range.start > end.saturating_add(gap) || reached - first.start > most {
            break;
        }
        (count, end) = (count + 1, reached);
    }
    (count, end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_read_together() {
        let ranges = [0..10, 8..9, 15..20, 26..30];
        let of = |ranges: &[Range<u64>], most| coalesce(ranges.iter().cloned(), 5, most);
        assert_eq!(of(&ranges, 100), (3, 20));
        assert_eq!(of(&ranges, 19), (2, 10));
        assert_eq!(of(&ranges[3..], 100), (1, 30));
        assert_eq!(of(&[0..100, 100..101], 100), (1, 100));
        assert_eq!(of(&[], 100), (0, 0));
    }
}
