//! Random access: the shard and sample at a position of an epoch.

use super::Shuffle;
use super::keys::key;
use super::permutation::Permutation;
use super::shuffle::RUNS;
use super::starts::Starts;
use packhorse_core::{Error, Result, SplitMix64};
use std::ops::Range;

/// The maximum number of samples of an order.
pub const MOST_SAMPLES: u64 = 1 << 48;

/// The samples of one epoch in order. Takes about twenty bytes per shard, whatever the number of samples.
///
/// The same shards, shuffle, seed and epoch give the same order on every machine.
#[derive(Clone, Debug)]
pub struct ShardOrder {
    /// The shards that hold samples, in the order of the epoch.
    shards: Vec<u32>,
    /// The position at which the samples of each of them begin.
    starts: Starts,
    /// Shards per block.
    group: usize,
    /// The key of the permutation of samples; `None` if they are not shuffled.
    key: Option<u64>,
    windows: Option<Windows>,
}

/// How the samples of a block are cut into runs, which are shuffled, and then shuffled in windows.
#[derive(Clone, Debug)]
struct Windows {
    /// Samples in a run.
    run: u64,
    /// The key of the permutation of runs.
    key: u64,
    /// The whole runs of each shard, end to end in the order of the epoch.
    runs: Starts,
    /// The samples of each shard behind its whole runs.
    rests: Starts,
}

/// Shards whose samples are shuffled together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block<'o> {
    /// Its number in the epoch.
    pub number: u64,
    /// The positions of its samples.
    pub positions: Range<u64>,
    /// Its shards, without empty ones.
    pub shards: &'o [u32],
}

impl ShardOrder {
    /// The order of shards with `counts` samples each, in `epoch`.
    ///
    /// Errors (kind `Config`): blocks of 0 shards, windows of 0 samples or more than [`MOST_SAMPLES`], a shuffle over nodes
    /// ([`NodeOrder`](super::NodeOrder)), 2^32 shards or more, more than [`MOST_SAMPLES`] samples.
    pub fn new(counts: &[u64], shuffle: Shuffle, seed: u64, epoch: u64) -> Result<Self> {
        let number = u32::try_from(counts.len());
        let number = number.map_err(|_| Error::config(format!("{} shards are more than 2^32", counts.len())))?;
        let mut shards: Vec<u32> = (0..number).zip(counts).filter(|&(_, &n)| n > 0).map(|(shard, _)| shard).collect();
        let group = match shuffle {
            Shuffle::Blocks { shards: 0 } | Shuffle::Windows { shards: 0, .. } => {
                return Err(Error::config("a block of 0 shards holds nothing: give 1 or more"));
            }
            Shuffle::Windows { samples, .. } if !(1..=MOST_SAMPLES).contains(&samples) => {
                return Err(Error::config(format!("a window of {samples} samples: give 1 to 2^48")));
            }
            Shuffle::Sequential => 1,
            Shuffle::Blocks { shards } | Shuffle::Windows { shards, .. } => shards as usize,
            Shuffle::Full => shards.len().max(1),
            Shuffle::Nodes { .. } => {
                return Err(Error::config(format!("{shuffle} is not an order for one node: see `NodeOrder`")));
            }
        };
        if shuffle != Shuffle::Sequential {
            let mut outputs = SplitMix64::new(key(seed, b"shards..", epoch));
            for i in (1..shards.len()).rev() {
                shards.swap(i, outputs.below(i as u64 + 1) as usize);
            }
        }
        let all = counts.iter().fold(0, |all: u64, count| all.saturating_add(*count));
        if all > MOST_SAMPLES {
            return Err(Error::config(format!("{all} samples are more than 2^48: take fewer shards")));
        }
        let counts = || shards.iter().map(|&shard| counts.get(shard as usize).copied().unwrap_or(0));
        let starts = Starts::new(counts());
        let windows = shuffle.run().map(|run| Windows {
            run,
            key: key(seed, b"runs....", epoch),
            runs: Starts::new(counts().map(|samples| samples / run)),
            rests: Starts::new(counts().map(|samples| samples % run)),
        });
        let key = (shuffle != Shuffle::Sequential).then(|| key(seed, b"samples.", epoch));
        Ok(Self { shards, starts, group, key, windows })
    }

    /// The number of samples.
    pub fn len(&self) -> u64 {
        self.starts.all()
    }

    /// True if there are no samples.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The shard, and the sample in it, at `position`; `None` past the last.
    #[inline]
    pub fn get(&self, position: u64) -> Option<(u32, u64)> {
        if position >= self.len() {
            return None;
        }
        let (block, shards) = self.place(position);
        let place = match (self.key, &self.windows) {
            (Some(key), None) => {
                let (first, end) = (self.starts.get(shards.start)?, self.starts.get(shards.end)?);
                first + Permutation::new(end - first, SplitMix64::at(key, block)).of(position - first)
            }
            (Some(key), Some(windows)) => {
                let at = position - self.starts.get(shards.start)?;
                let (shard, sample) = windows.get(SplitMix64::at(key, block), block, shards, at)?;
                return Some((*self.shards.get(shard)?, sample));
            }
            (None, _) => position,
        };
        let shard = self.starts.before(place);
        Some((*self.shards.get(shard)?, place - self.starts.get(shard)?))
    }

    /// The block that contains `position`; `None` past the last. In an order that is not shuffled each shard is a
    /// block.
    pub fn block(&self, position: u64) -> Option<Block<'_>> {
        if position >= self.len() {
            return None;
        }
        let (number, shards) = self.place(position);
        let positions = self.starts.get(shards.start)?..self.starts.get(shards.end)?;
        Some(Block { number, positions, shards: self.shards.get(shards)? })
    }

    /// The blocks in order, from the one that contains `position`.
    pub fn blocks(&self, position: u64) -> impl Iterator<Item = Block<'_>> {
        std::iter::successors(self.block(position), |block| self.block(block.positions.end))
    }

    /// The block that contains a valid position, and the range of its shards.
    #[inline]
    fn place(&self, position: u64) -> (u64, Range<usize>) {
        let alone = self.group >= self.shards.len();
        let block = if alone { 0 } else { self.starts.before(position) / self.group };
        let first = block * self.group;
        (block as u64, first..first.saturating_add(self.group).min(self.shards.len()))
    }
}

impl Windows {
    /// The shard, by its place in the epoch, and the sample of it at position `at` of a block of these shards. `key` is that of
    /// the block's samples.
    fn get(&self, key: u64, block: u64, shards: Range<usize>, at: u64) -> Option<(usize, u64)> {
        let (first_run, first_rest) = (self.runs.get(shards.start)?, self.rests.get(shards.start)?);
        let whole = self.runs.get(shards.end)? - first_run;
        let rests = self.rests.get(shards.end)? - first_rest;
        let window = at / (self.run * RUNS);
        let start = window * self.run * RUNS;
        let samples = (self.run * RUNS).min(whole * self.run + rests - start);
        let at = start + Permutation::new(samples, SplitMix64::at(key, window)).of(at - start);
        let (run, at) = (at / self.run, at % self.run);
        // The last run, which may be shorter, stays the last.
        let last = (whole + rests.div_ceil(self.run)).checked_sub(1)?;
        let run = match run < last {
            true => Permutation::new(last, SplitMix64::at(self.key, block)).of(run),
            false => run,
        };
        if run < whole {
            let shard = self.runs.before(first_run + run);
            return Some((shard, (first_run + run - self.runs.get(shard)?) * self.run + at));
        }
        let rest = first_rest + (run - whole) * self.run + at;
        let shard = self.rests.before(rest);
        let before = (self.runs.get(shard + 1)? - self.runs.get(shard)?) * self.run;
        Some((shard, before + rest - self.rests.get(shard)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn all(order: &ShardOrder) -> Vec<(u32, u64)> {
        (0..order.len()).map(|position| order.get(position).unwrap()).collect()
    }

    #[test]
    fn sequential_is_one_after_the_other() {
        let order = ShardOrder::new(&[0, 2, 0, 3, 0], Shuffle::Sequential, 1, 1).unwrap();
        assert_eq!(all(&order), [(1, 0), (1, 1), (3, 0), (3, 1), (3, 2)]);
        assert_eq!((order.get(5), order.block(5)), (None, None));
        assert_eq!(order.block(1), Some(Block { number: 0, positions: 0..2, shards: &[1] }));
        assert_eq!(order.blocks(3).collect::<Vec<_>>(), [Block { number: 1, positions: 2..5, shards: &[3] }]);
    }

    #[test]
    fn nothing_is_an_order_too() {
        for shuffle in [Shuffle::Sequential, Shuffle::Blocks { shards: 3 }, Shuffle::Full] {
            for counts in [&[][..], &[0, 0]] {
                let order = ShardOrder::new(counts, shuffle, 1, 0).unwrap();
                assert!(order.is_empty() && order.get(0).is_none() && order.block(0).is_none());
            }
        }
    }

    #[test]
    fn what_makes_no_order_is_refused() {
        assert!(ShardOrder::new(&[1], Shuffle::Blocks { shards: 0 }, 1, 0).is_err());
        for samples in [0, MOST_SAMPLES + 1, u64::MAX] {
            assert!(ShardOrder::new(&[1], Shuffle::Windows { shards: 1, samples }, 1, 0).is_err());
        }
        let widest = ShardOrder::new(&[5, 0, 3], Shuffle::Windows { shards: 9, samples: MOST_SAMPLES }, 1, 0).unwrap();
        assert_eq!(all(&widest).into_iter().collect::<HashSet<_>>().len(), 8);
        for counts in [&[MOST_SAMPLES, 1][..], &[u64::MAX, u64::MAX], &[u64::MAX]] {
            assert!(ShardOrder::new(counts, Shuffle::Full, 1, 0).is_err());
        }
        let order = ShardOrder::new(&[MOST_SAMPLES - 1, 1], Shuffle::Full, 1, 0).unwrap();
        assert!(order.get(MOST_SAMPLES - 1).is_some() && order.get(MOST_SAMPLES).is_none());
    }

    /// Every part of a block has about the same number of samples from each of its shards.
    #[test]
    fn a_block_is_well_mixed() {
        let counts: Vec<u64> = (0..64).map(|i| 2000 + i % 7).collect();
        let order = ShardOrder::new(&counts, Shuffle::Blocks { shards: 16 }, 5, 2).unwrap();
        for block in order.blocks(0) {
            let tenth = (block.positions.end - block.positions.start) / 10;
            for part in 0..10 {
                let mut seen = [0u32; 64];
                let from = block.positions.start + part * tenth;
                (from..from + tenth).for_each(|at| seen[order.get(at).unwrap().0 as usize] += 1);
                assert!(block.shards.iter().all(|&shard| seen[shard as usize].abs_diff(200) < 80), "{seen:?}");
                assert_eq!(seen.iter().sum::<u32>(), block.shards.iter().map(|&s| seen[s as usize]).sum::<u32>());
            }
        }
    }

    /// Each sample comes once; those of a window are of at most so many runs, which begin at multiples of their length.
    #[test]
    fn windows_have_runs_of_their_block() {
        let odd: Vec<u64> = (0..40).map(|i| [0, 1, 5, 63, 64, 1000, 777][i % 7]).collect();
        for counts in [&odd[..], &[2_000; 7], &[1], &[100_000, 3]] {
            for (shards, samples) in [(1, 1), (3, 64), (16, 640), (5, 6_400), (100, 1 << 20)] {
                let order = ShardOrder::new(counts, Shuffle::Windows { shards, samples }, 5, 2).unwrap();
                let run = samples.div_ceil(RUNS);
                let found = all(&order);
                assert_eq!(found.iter().collect::<HashSet<_>>().len() as u64, counts.iter().sum::<u64>());
                assert!(found.iter().all(|&(shard, at)| at < counts[shard as usize]));
                for block in order.blocks(0) {
                    let of_block = &found[block.positions.start as usize..block.positions.end as usize];
                    for window in of_block.chunks((run * RUNS) as usize) {
                        assert!(window.iter().all(|(shard, _)| block.shards.contains(shard)));
                        let runs: HashSet<_> = window.iter().map(|(shard, at)| (shard, at / run)).collect();
                        // Several rests of shards make one run.
                        let rests = runs.iter().filter(|(shard, at)| (at + 1) * run > counts[**shard as usize]).count();
                        assert!((runs.len() - rests) as u64 <= RUNS, "{counts:?} {shards} {samples}");
                    }
                }
            }
        }
    }

    /// The runs of a window come from all shards of the block, and its samples are mixed.
    #[test]
    fn a_window_is_well_mixed() {
        let order = ShardOrder::new(&[64_000; 32], Shuffle::Windows { shards: 16, samples: 6_400 }, 5, 2).unwrap();
        for window in 0..160 {
            let found: Vec<_> = (window * 6_400..(window + 1) * 6_400).map(|at| order.get(at).unwrap()).collect();
            assert!(found.iter().map(|(shard, _)| shard).collect::<HashSet<_>>().len() > 12);
            let neighbours = found.windows(2).filter(|pair| pair[0].0 == pair[1].0 && pair[0].1 + 1 == pair[1].1);
            assert!(neighbours.count() < 10);
        }
    }
}
