//! Random numbers for augmentation, a function of seed, epoch, sample and lane.

use super::keys::key;
use packhorse_core::SplitMix64;

/// The random number for `lane` of `sample` in `epoch`, independent of the order of calls and of threads.
///
/// `sample` identifies the sample independently of the order, for example its number in the dataset. Each use has its
/// own lane: 0 for flipping, 1 for the left edge of a crop, ….
pub fn draw(seed: u64, epoch: u64, sample: u64, lane: u64) -> u64 {
    AugmentRng::new(seed, epoch, sample).u64(lane)
}

/// The numbers of one sample in one epoch, by lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AugmentRng(u64);

impl AugmentRng {
    /// The numbers of `sample` in `epoch`.
    pub fn new(seed: u64, epoch: u64, sample: u64) -> Self {
        Self(SplitMix64::at(key(seed, b"augment.", epoch), sample))
    }

    /// 64 uniform bits.
    #[inline]
    pub fn u64(self, lane: u64) -> u64 {
        SplitMix64::at(self.0, lane)
    }

    /// Uniform in `0..n` (0 for `n` = 0), by the high half of the product, with a bias of at most `n` in 2^64.
    #[inline]
    pub fn below(self, lane: u64, n: u64) -> u64 {
        ((u128::from(self.u64(lane)) * u128::from(n)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fraction(bits: u64) -> f64 {
        (bits >> 11) as f64 / (1u64 << 53) as f64
    }

    #[test]
    fn numbers_are_even_over_samples_lanes_and_epochs() {
        let mean = |of: &dyn Fn(u64) -> f64| (0..100_000).map(of).sum::<f64>() / 1e5;
        for numbers in [
            &(|i| fraction(AugmentRng::new(7, 0, i).u64(0))) as &dyn Fn(u64) -> f64,
            &|i| fraction(AugmentRng::new(7, 0, 3).u64(i)),
            &|i| fraction(AugmentRng::new(7, i, 3).u64(0)),
            &|i| fraction(AugmentRng::new(i, 0, 0).u64(0)),
            &|i| AugmentRng::new(7, 0, i).below(1, 1000) as f64 / 1000.0 + 0.0005,
        ] {
            assert!((mean(numbers) - 0.5).abs() < 0.005, "{}", mean(numbers));
            // Successive numbers are not correlated.
            let product = mean(&|i| (numbers(i) - 0.5) * (numbers(i + 1) - 0.5));
            assert!(product.abs() < 0.0015, "{product}");
        }
    }

    #[test]
    fn below_nothing_is_zero() {
        assert_eq!(AugmentRng::new(1, 2, 3).below(4, 0), 0);
    }
}
