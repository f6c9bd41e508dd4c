//! Random numbers of a sample. Owns the mixing.

/// The random numbers of one sample in one epoch: a pure function of `key`, so that the same key gives the same crop
/// and flip on any machine, on any thread, in any order.
///
/// Give samples that must match (an image and its mask) the same key.
///
/// Number `n` is the output of SplitMix64 (Steele, Lea, Flood 2014) after `n` steps from `key`:
///
/// ```text
/// z = key + (n + 1) × 0x9e3779b97f4a7c15
/// z = (z ^ z >> 30) × 0xbf58476d1ce4e5b9
/// z = (z ^ z >> 27) × 0x94d049bb133111eb
/// z ^ z >> 31
/// ```
///
/// `n` is 0 for the flip, and 1 to 40 for the ten tries of a random crop: area, aspect ratio, top, left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Draws {
    key: u64,
}

impl Draws {
    /// The numbers of `key`, which the caller has mixed well from seed, epoch and sample.
    pub fn new(key: u64) -> Self {
        Self { key }
    }

    fn number(self, n: u32) -> u64 {
        let z = self.key.wrapping_add((u64::from(n) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Number `n` as one of 2^53 evenly spaced values in [0, 1).
    pub(in crate::image) fn unit(self, n: u32) -> f64 {
        (self.number(n) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Number `n` as a value in [`from`, `to`).
    pub(super) fn between(self, n: u32, from: f64, to: f64) -> f64 {
        from + self.unit(n) * (to - from)
    }

    /// Number `n` as an integer from 0 to `last`.
    pub(super) fn up_to(self, n: u32, last: u32) -> u32 {
        let scaled = u128::from(self.number(n)) * (u128::from(last) + 1);
        u32::try_from(scaled >> 64).unwrap_or(last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first numbers of the reference implementation for the seed 1234567.
    #[test]
    fn they_are_splitmix64() {
        let numbers: Vec<u64> = (0..3).map(|n| Draws::new(1_234_567).number(n)).collect();
        assert_eq!(numbers, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn they_keep_to_their_bounds() {
        for key in 0..1000 {
            let draws = Draws::new(key);
            assert!((0.0..1.0).contains(&draws.unit(7)) && draws.up_to(3, 4) <= 4);
            assert_eq!((draws.up_to(1, 0), draws.between(2, 3.0, 3.0)), (0, 3.0));
        }
        assert!((0..1000).any(|key| Draws::new(key).up_to(3, 4) == 4));
    }
}
