//! Where one shard ends and the next begins. Pure.

use std::ops::Range;

/// How large shards are. Several bounds may be given; without any a shard holds 1 GiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cut {
    /// The most bytes a shard shall hold, as the format writes them.
    pub bytes: Option<u64>,
    /// How many shards, of about equal bytes.
    pub shards: Option<u32>,
    /// The most samples in a shard.
    pub samples: Option<u64>,
}

impl Cut {
    /// What holds without any bound.
    pub const DEFAULT_BYTES: u64 = 1 << 30;

    /// Cuts consecutive samples of the given sizes.
    ///
    /// Shards are balanced: the fewest that keep the bound on bytes (or as many as asked for), each
    /// ending where its equal share of the bytes does. A sample larger than the bound fills a shard.
    pub(crate) fn ranges(&self, sizes: &[u64]) -> Vec<Range<usize>> {
        let bytes = match (self.bytes, self.shards, self.samples) {
            (None, None, None) => Some(Self::DEFAULT_BYTES),
            (bytes, _, _) => bytes,
        };
        let most_samples = self.samples.unwrap_or(u64::MAX).max(1);
        let mut left: u64 = sizes.iter().sum();
        let mut share = self.share(bytes, left, 0);
        let mut ranges = Vec::new();
        let (mut from, mut held) = (0, 0u64);
        for (i, size) in sizes.iter().enumerate() {
            let full = bytes.is_some_and(|most| held + size > most);
            let reached = self.samples.is_none() && held >= share;
            let enough = (i - from) as u64 >= most_samples;
            let must = self.shards.is_some_and(|n| must_cut(ranges.len(), n, sizes.len() - i));
            if i > from && (full || reached || enough || must) {
                ranges.push(from..i);
                (from, held) = (i, 0);
                share = self.share(bytes, left, ranges.len() as u64);
            }
            held += size;
            left -= size;
        }
        if from < sizes.len() {
            ranges.push(from..sizes.len());
        }
        ranges
    }

    /// The bytes of the next shard, if what is `left` is shared equally among those that it needs.
    fn share(&self, bytes: Option<u64>, left: u64, done: u64) -> u64 {
        let by_count = self.shards.map_or(1, |n| u64::from(n).saturating_sub(done));
        let by_bytes = bytes.map_or(1, |most| left.div_ceil(most.max(1)));
        match by_count.max(by_bytes) {
            0 | 1 => u64::MAX,
            n => left.div_ceil(n),
        }
    }
}

/// Whether every sample left is needed as a shard of its own to reach the count asked for.
fn must_cut(done: usize, wanted: u32, samples_left: usize) -> bool {
    (wanted as usize).saturating_sub(done + 1) >= samples_left
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn lens(cut: Cut, sizes: &[u64]) -> Vec<usize> {
        cut.ranges(sizes).iter().map(|r| r.len()).collect()
    }

    #[test]
    fn shards_are_balanced() {
        assert_eq!(lens(Cut { bytes: Some(100), ..Cut::default() }, &[10; 25]), [9, 8, 8]);
        assert_eq!(lens(Cut { shards: Some(4), ..Cut::default() }, &[10; 25]), [7, 6, 6, 6]);
        assert_eq!(lens(Cut { samples: Some(10), ..Cut::default() }, &[10; 25]), [10, 10, 5]);
        assert_eq!(lens(Cut::default(), &[10; 25]), [25]);
        assert!(lens(Cut::default(), &[]).is_empty());
    }

    #[test]
    fn a_large_sample_fills_a_shard_and_a_count_is_reached() {
        assert_eq!(lens(Cut { bytes: Some(100), ..Cut::default() }, &[500, 10, 10]), [1, 2]);
        assert_eq!(lens(Cut { shards: Some(3), ..Cut::default() }, &[500, 1, 1]), [1, 1, 1]);
        assert_eq!(lens(Cut { shards: Some(3), ..Cut::default() }, &[1, 1, 500]), [1, 1, 1]);
        assert_eq!(lens(Cut { shards: Some(5), ..Cut::default() }, &[0, 0]), [1, 1]);
    }

    proptest! {
        #[test]
        fn every_sample_is_in_one_shard_and_bounds_hold(
            sizes in proptest::collection::vec(0u64..1000, 0..200),
            bytes in proptest::option::of(1u64..5000),
            shards in proptest::option::of(1u32..50),
            samples in proptest::option::of(1u64..50),
        ) {
            let ranges = Cut { bytes, shards, samples }.ranges(&sizes);
            let mut next = 0;
            for range in &ranges {
                prop_assert_eq!(range.start, next);
                prop_assert!(!range.is_empty());
                next = range.end;
                let held: u64 = sizes[range.clone()].iter().sum();
                prop_assert!(range.len() == 1 || bytes.is_none_or(|most| held <= most));
                prop_assert!(samples.is_none_or(|most| range.len() as u64 <= most));
            }
            prop_assert_eq!(next, sizes.len());
            if let (Some(n), None, None) = (shards, bytes, samples) {
                prop_assert_eq!(ranges.len(), sizes.len().min(n as usize));
            }
        }
    }
}
