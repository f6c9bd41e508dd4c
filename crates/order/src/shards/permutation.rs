//! A permutation of `0..n`, computed one element at a time: a Feistel network with cycle walking.

use packhorse_core::SplitMix64;

const ROUNDS: u64 = 8;

/// The least width of a network in bits: with fewer, its rounds give too few permutations.
const FEWEST: u32 = 4;

/// A permutation of `0..n`, chosen by `key`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Permutation {
    n: u64,
    key: u64,
    /// Bits of the lower half.
    low: u32,
    /// The bits of each half.
    masks: [u64; 2],
}

impl Permutation {
    /// `n` is at most 2^48.
    #[inline]
    pub(super) fn new(n: u64, key: u64) -> Self {
        let bits = (u64::BITS - n.saturating_sub(1).leading_zeros()).max(FEWEST);
        let high = bits / 2;
        let low = bits - high;
        Self { n, key, low, masks: [(1 << high) - 1, (1 << low) - 1] }
    }

    /// The image of `x`, which is below `n`.
    #[inline]
    pub(super) fn of(&self, mut x: u64) -> u64 {
        loop {
            x = self.network(x);
            // Terminates: the cycle of `x` contains `x` itself, which is below `n`.
            if x < self.n {
                return x;
            }
        }
    }

    #[inline]
    fn network(&self, x: u64) -> u64 {
        let [high_mask, low_mask] = self.masks;
        let (mut high, mut low) = (x >> self.low, x & low_mask);
        let mut key = self.key;
        for _ in 0..ROUNDS / 2 {
            key = key.wrapping_add(SplitMix64::STEP);
            high ^= SplitMix64::mix(key ^ low) & high_mask;
            key = key.wrapping_add(SplitMix64::STEP);
            low ^= SplitMix64::mix(key ^ high) & low_mask;
        }
        high << self.low | low
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_is_taken_once() {
        for n in (1..70).chain([127, 128, 129, 1000, 4096, 65_537]) {
            let permutation = Permutation::new(n, SplitMix64::at(3, n));
            let mut seen = vec![false; n as usize];
            (0..n).for_each(|x| seen[permutation.of(x) as usize] = true);
            assert!(seen.iter().all(|&seen| seen), "{n}");
        }
        for n in [1 << 48, (1 << 48) - 1, (1 << 47) + 1] {
            let permutation = Permutation::new(n, 5);
            assert!((0..1000).chain(n - 1000..n).all(|x| permutation.of(x) < n));
        }
    }

    /// The deviation of `counts`, each expected to be `mean`, in standard deviations of chi-squared.
    fn off(counts: &[u32], mean: f64, freedom: f64) -> f64 {
        let chi: f64 = counts.iter().map(|&n| (f64::from(n) - mean).powi(2) / mean).sum();
        (chi - freedom) / (2.0 * freedom).sqrt()
    }

    /// Each number is equally likely at each position.
    #[test]
    fn places_are_even() {
        for n in [2u64, 3, 5, 7, 8, 13, 16, 17, 31, 32, 33, 100] {
            let keys = 20_000;
            let mut counts = vec![0; (n * n) as usize];
            for seed in 0..keys {
                let permutation = Permutation::new(n, SplitMix64::at(seed, 1));
                (0..n).for_each(|x| counts[(x * n + permutation.of(x)) as usize] += 1);
            }
            let off = off(&counts, keys as f64 / n as f64, ((n - 1) * (n - 1)) as f64);
            assert!(off.abs() < 5.0, "{n}: {off} standard deviations");
        }
    }

    /// Every ordered pair of neighbours is equally likely.
    #[test]
    fn neighbours_are_even() {
        for n in [5u64, 9, 20, 64] {
            let keys = 40_000;
            let mut counts = vec![0; (n * n) as usize];
            for seed in 0..keys {
                let permutation = Permutation::new(n, SplitMix64::at(seed, 2));
                let (a, b) = (permutation.of(2), permutation.of(3));
                counts[(a * n + b) as usize] += 1;
            }
            assert!((0..n).all(|x| counts[(x * n + x) as usize] == 0));
            let counts: Vec<u32> = (0..n * n).filter(|x| x % (n + 1) != 0).map(|x| counts[x as usize]).collect();
            let cells = (n * (n - 1)) as f64;
            let off = off(&counts, keys as f64 / cells, cells - 1.0);
            assert!(off.abs() < 5.0, "{n}: {off} standard deviations");
        }
    }

    /// A long sequence: the differences of neighbours and the distribution of each hundredth are uniform.
    #[test]
    fn a_long_sequence_keeps_nothing_of_its_order() {
        let n = 1_000_003u64;
        let permutation = Permutation::new(n, 11);
        let all: Vec<u64> = (0..n).map(|x| permutation.of(x)).collect();
        let mut counts = vec![0; 100 * 100];
        let mut steps = vec![0; 100];
        for (x, &y) in all.iter().enumerate() {
            counts[x * 100 / n as usize * 100 + y as usize * 100 / n as usize] += 1;
        }
        for pair in all.windows(2) {
            steps[((pair[1] + n - pair[0]) % n * 100 / n) as usize] += 1;
        }
        let places = off(&counts, n as f64 / 1e4, 99.0 * 99.0);
        let steps = off(&steps, n as f64 / 100.0, 99.0);
        assert!(places.abs() < 5.0 && steps.abs() < 5.0, "{places}, {steps}");
    }
}
