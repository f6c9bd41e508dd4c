//! The starts of consecutive runs, and the search for the run that contains a position.

/// Runs, end to end from 0. One without elements contains no position.
#[derive(Clone, Debug)]
pub(super) struct Starts {
    /// The start of each run, and the end of the last.
    starts: Vec<u64>,
    /// For the start of each piece of `2^shift` positions, the run that contains it; then the last run. There are about
    /// as many pieces as runs, so one look-up replaces most steps of a binary search, each of which would be a cache
    /// miss.
    guide: Vec<u32>,
    shift: u32,
}

impl Starts {
    /// Runs of these lengths, fewer than 2^32.
    pub(super) fn new(lengths: impl ExactSizeIterator<Item = u64>) -> Self {
        let runs = lengths.len() as u64;
        let mut starts = Vec::with_capacity(lengths.len() + 1);
        let mut all = 0u64;
        starts.push(all);
        for length in lengths {
            all = all.saturating_add(length);
            starts.push(all);
        }
        let shift = bits(all).saturating_sub(bits(runs));
        let pieces = (all.saturating_sub(1) >> shift) + 1;
        let mut guide = Vec::with_capacity(pieces as usize + 1);
        let mut run = 0;
        for piece in 0..pieces {
            let ends = starts.iter().skip(run + 1);
            run += ends.take_while(|&&end| end <= piece << shift).count();
            guide.push(run as u32);
        }
        guide.push(runs.saturating_sub(1) as u32);
        Self { starts, guide, shift }
    }

    /// The sum of all lengths.
    pub(super) fn all(&self) -> u64 {
        self.starts.last().copied().unwrap_or(0)
    }

    /// The start of `run`; for the one past the last, the end of the last.
    #[inline]
    pub(super) fn get(&self, run: usize) -> Option<u64> {
        self.starts.get(run).copied()
    }

    /// The run that contains `at`, which is less than the sum.
    #[inline]
    pub(super) fn before(&self, at: u64) -> usize {
        let piece = (at >> self.shift) as usize;
        let run = |piece| self.guide.get(piece).map_or(0, |&run| run as usize);
        let (from, to) = (run(piece), run(piece + 1));
        let starts = self.starts.get(from..=to).unwrap_or_default();
        from + starts.partition_point(|&start| start <= at).saturating_sub(1)
    }
}

/// The bits that `n` different values need.
fn bits(n: u64) -> u32 {
    u64::BITS - n.saturating_sub(1).leading_zeros()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_is_found() {
        let lengths: [&[u64]; 7] = [
            &[1],
            &[5],
            &[1, 1, 1],
            &[3, 1, 4, 1, 5, 9, 2, 6],
            &[1, 1, 1, 1000],
            &[1000, 1, 1, 1, 1],
            &[64, 64, 64, 64],
        ];
        for lengths in lengths {
            let starts = Starts::new(lengths.iter().copied());
            let wanted = (0..).zip(lengths).flat_map(|(run, &length)| std::iter::repeat_n(run, length as usize));
            assert_eq!((0..starts.all()).map(|at| starts.before(at)).collect::<Vec<_>>(), wanted.collect::<Vec<_>>());
            assert!(starts.guide.len() <= 2 * lengths.len() + 1, "{lengths:?}");
        }
        assert_eq!(Starts::new([].into_iter()).all(), 0);
        let large = Starts::new([u64::MAX - 1, 1, 1].into_iter());
        assert_eq!((large.all(), large.before(u64::MAX - 2), large.before(u64::MAX - 1)), (u64::MAX, 0, 1));
    }
}
