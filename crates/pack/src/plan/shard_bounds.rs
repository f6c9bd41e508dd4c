//! Divides samples into shards. Pure.

use packhorse_core::Sink;

/// Bounds on the size of shards. Without any, a shard holds 1 GiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ShardBounds {
    /// The most bytes of a shard's data file.
    pub(crate) bytes: Option<u64>,
    /// How many shards, of about equal bytes.
    pub(crate) shards: Option<u32>,
    /// The most samples in a shard.
    pub(crate) samples: Option<u64>,
}

impl ShardBounds {
    /// The bound if none is given.
    pub(crate) const DEFAULT_BYTES: u64 = 1 << 30;

    /// The most bytes of a shard, if bytes bound it.
    pub(crate) fn limit(&self) -> Option<u64> {
        match (self.bytes, self.shards, self.samples) {
            (None, None, None) => Some(Self::DEFAULT_BYTES),
            (bytes, _, _) => bytes,
        }
    }

    /// The bounds of what `sink` adds to an empty shard, with bytes in units of 1/`grain` byte.
    pub(crate) fn within(self, sink: &dyn Sink, grain: u64) -> Self {
        let room = |most: u64| most.saturating_sub(sink.frame()).max(1).saturating_mul(grain);
        Self { bytes: self.limit().map(room), ..self }
    }

    /// Divides consecutive samples, given as runs of equal size; returns the number of samples of each shard.
    ///
    /// Shards are balanced: the fewest that keep the bound on bytes (or as many as asked for), each
    /// ending where its equal share of the bytes does. A sample larger than the bound fills a shard.
    pub(crate) fn shards(&self, runs: &[SizeRun]) -> Vec<u64> {
        let mut all = SizeSum::default();
        runs.iter().for_each(|run| all.add(*run));
        let (mut cutter, mut shards) = (ShardCutter::new(*self, all), Vec::new());
        runs.iter().for_each(|run| cutter.push(*run, &mut |samples| shards.push(samples)));
        shards.extend(cutter.finish());
        shards
    }

    /// The bytes of the next shard, if the bytes `left` are divided equally among the shards they need.
    fn share(&self, left: u64, done: u64) -> u64 {
        let by_count = self.shards.map_or(1, |n| u64::from(n).saturating_sub(done));
        let by_bytes = self.limit().map_or(1, |most| left.div_ceil(most.max(1)));
        match by_count.max(by_bytes) {
            0 | 1 => u64::MAX,
            n => left.div_ceil(n),
        }
    }
}

/// Divides samples into shards as they come.
pub(crate) struct ShardCutter {
    bounds: ShardBounds,
    /// The samples that are still to come, and their bytes.
    left: SizeSum,
    /// The bytes at which the open shard ends.
    share: u64,
    /// The samples of the open shard, and their bytes.
    open: SizeSum,
    /// The number of shards before it.
    done: usize,
}

impl ShardCutter {
    /// Divides so many samples of so many bytes.
    pub(crate) fn new(bounds: ShardBounds, all: SizeSum) -> Self {
        Self { bounds, left: all, share: bounds.share(all.bytes, 0), open: SizeSum::default(), done: 0 }
    }

    /// Takes the next samples. Calls `end` with the number of samples of each shard that ends before one of them.
    pub(crate) fn push(&mut self, run: SizeRun, end: &mut dyn FnMut(u64)) {
        let mut rest = run.samples;
        while rest > 0 {
            let Self { bounds, left, share, open, done } = self;
            let full = bounds.limit().map_or(u64::MAX, |most| fit(most.checked_sub(open.bytes), run.size));
            let later = bounds.shards.map_or(0, |n| u64::from(n).saturating_sub(*done as u64 + 1));
            let reached = match (bounds.samples, bounds.shards) {
                (Some(_), None) => u64::MAX,
                (most, _) => {
                    // Those that the later shards have no room for.
                    let needed = most.map_or(0, |most| left.samples.saturating_sub(most.saturating_mul(later)));
                    until(share.saturating_sub(open.bytes), run.size).max(needed)
                }
            };
            let enough = bounds.samples.unwrap_or(u64::MAX).max(1) - open.samples;
            // Each later shard keeps one.
            let kept = bounds.shards.map_or(u64::MAX, |_| left.samples.saturating_sub(later));
            let n = rest.min(full).min(reached).min(enough).min(kept);
            if n == 0 && open.samples > 0 {
                end(open.samples);
                *done += 1;
                (*open, *share) = (SizeSum::default(), bounds.share(left.bytes, *done as u64));
                continue;
            }
            let taken = SizeRun { samples: n.max(1), ..run };
            rest -= taken.samples;
            open.add(taken);
            left.bytes = left.bytes.saturating_sub(taken.size.saturating_mul(taken.samples));
            left.samples -= taken.samples;
        }
    }

    /// The number of samples of the last shard, if there is any.
    pub(crate) fn finish(self) -> Option<u64> {
        (self.open.samples > 0).then_some(self.open.samples)
    }
}

/// Consecutive samples of equal size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SizeRun {
    /// Bytes of one of them.
    pub(crate) size: u64,
    /// How many.
    pub(crate) samples: u64,
}

/// Samples and their bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SizeSum {
    pub(crate) samples: u64,
    pub(crate) bytes: u64,
}

impl SizeSum {
    /// Adds samples. Headers of third-party files may claim any size.
    pub(crate) fn add(&mut self, run: SizeRun) {
        self.bytes = self.bytes.saturating_add(run.size.saturating_mul(run.samples));
        self.samples += run.samples;
    }
}

/// How many samples fit into `room` bytes; `None` stands for a shard that is already over its bound.
fn fit(room: Option<u64>, size: u64) -> u64 {
    room.map_or(0, |room| room.checked_div(size).unwrap_or(u64::MAX))
}

/// How many samples of `size` bytes reach `missing` bytes.
fn until(missing: u64, size: u64) -> u64 {
    match missing {
        0 => 0,
        _ if size == 0 => u64::MAX,
        _ => missing.div_ceil(size),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn lens(bounds: ShardBounds, sizes: &[u64]) -> Vec<usize> {
        let runs: Vec<SizeRun> = sizes.iter().map(|size| SizeRun { size: *size, samples: 1 }).collect();
        bounds.shards(&runs).into_iter().map(|n| n as usize).collect()
    }

    #[test]
    fn shards_are_balanced() {
        assert_eq!(lens(ShardBounds { bytes: Some(100), ..ShardBounds::default() }, &[10; 25]), [9, 8, 8]);
        assert_eq!(lens(ShardBounds { shards: Some(4), ..ShardBounds::default() }, &[10; 25]), [7, 6, 6, 6]);
        assert_eq!(lens(ShardBounds { samples: Some(10), ..ShardBounds::default() }, &[10; 25]), [10, 10, 5]);
        assert_eq!(lens(ShardBounds::default(), &[10; 25]), [25]);
        assert!(lens(ShardBounds::default(), &[]).is_empty());
        let both = |shards| ShardBounds { shards: Some(shards), samples: Some(10), bytes: None };
        assert_eq!(lens(both(4), &[1; 20]), [5, 5, 5, 5]);
        assert_eq!(lens(both(2), &[1; 25]), [10, 10, 5]);
        assert_eq!(lens(both(2), &[[9; 10], [1; 10]].concat()), [10, 10]);
        assert_eq!(lens(both(3), &[[9; 5], [1; 5], [1; 5]].concat()), [3, 2, 10]);
    }

    #[test]
    fn a_large_sample_fills_a_shard_and_a_count_is_reached() {
        assert_eq!(lens(ShardBounds { bytes: Some(100), ..ShardBounds::default() }, &[500, 10, 10]), [1, 2]);
        assert_eq!(lens(ShardBounds { bytes: Some(100), ..ShardBounds::default() }, &[500, 0, 0, 100, 0]), [1, 4]);
        assert_eq!(lens(ShardBounds { shards: Some(3), ..ShardBounds::default() }, &[500, 1, 1]), [1, 1, 1]);
        assert_eq!(lens(ShardBounds { shards: Some(3), ..ShardBounds::default() }, &[1, 1, 500]), [1, 1, 1]);
        assert_eq!(lens(ShardBounds { shards: Some(5), ..ShardBounds::default() }, &[0, 0]), [1, 1]);
    }

    #[test]
    fn sizes_that_no_disk_has_do_not_overflow() {
        let huge = [SizeRun { size: u64::MAX / 2, samples: 5 }, SizeRun { size: 1, samples: 3 }];
        let bounds = ShardBounds { shards: Some(3), ..ShardBounds::default() };
        assert_eq!(bounds.shards(&huge).iter().sum::<u64>(), 8);
    }

    proptest! {
        #[test]
        fn every_sample_is_in_one_shard_and_bounds_hold(
            sizes in proptest::collection::vec(0u64..1000, 0..200),
            bytes in proptest::option::of(1u64..5000),
            shards in proptest::option::of(1u32..50),
            samples in proptest::option::of(1u64..50),
        ) {
            let lens = lens(ShardBounds { bytes, shards, samples }, &sizes);
            let mut next = 0;
            for len in &lens {
                prop_assert!(*len > 0);
                let held: u64 = sizes[next..next + len].iter().sum();
                next += len;
                prop_assert!(*len == 1 || bytes.is_none_or(|most| held <= most));
                prop_assert!(samples.is_none_or(|most| *len as u64 <= most));
            }
            prop_assert_eq!(next, sizes.len());
            if let (Some(n), None) = (shards, bytes) {
                let fewest = samples.map_or(0, |most| sizes.len().div_ceil(most as usize));
                prop_assert_eq!(lens.len(), sizes.len().min(n as usize).max(fewest));
            }
        }

        #[test]
        fn a_run_is_cut_like_its_samples(
            runs in proptest::collection::vec((0u64..50, 0u64..30), 0..20),
            bytes in proptest::option::of(1u64..500),
            shards in proptest::option::of(1u32..50),
            samples in proptest::option::of(1u64..50),
        ) {
            let bounds = ShardBounds { bytes, shards, samples };
            let together: Vec<SizeRun> = runs.iter().map(|(size, samples)| SizeRun { size: *size, samples: *samples }).collect();
            let apart: Vec<u64> = runs.iter().flat_map(|(size, n)| std::iter::repeat_n(*size, *n as usize)).collect();
            let found: Vec<usize> = bounds.shards(&together).into_iter().map(|n| n as usize).collect();
            prop_assert_eq!(found, lens(bounds, &apart));
        }
    }
}
