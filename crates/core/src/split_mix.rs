//! Random numbers as a function of a key and a counter. Knows nothing of their uses.

/// SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, OOPSLA 2014): the same on every
/// machine, any output at once, and a good hash of 64 bits.
///
/// ```
/// # use packhorse_core::SplitMix64;
/// let mut random = SplitMix64::new(7);
/// assert_eq!(random.next(), SplitMix64::at(7, 0));
/// assert_eq!(random.next(), SplitMix64::at(7, 1));
/// ```
#[derive(Clone, Debug)]
pub struct SplitMix64 {
    key: u64,
    next: u64,
}

impl SplitMix64 {
    /// The increment of the state from output to output.
    pub const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

    /// The output function: a bijection in which each bit depends on all.
    #[inline]
    pub fn mix(mut x: u64) -> u64 {
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    /// Output `n`, from 0, of the generator that is seeded with `key`.
    #[inline]
    pub fn at(key: u64, n: u64) -> u64 {
        Self::mix(key.wrapping_add(n.wrapping_add(1).wrapping_mul(Self::STEP)))
    }

    /// The generator that is seeded with `key`.
    pub fn new(key: u64) -> Self {
        Self { key, next: 0 }
    }

    /// The next output.
    #[expect(clippy::should_implement_trait, reason = "it never ends, and its callers want no Option")]
    pub fn next(&mut self) -> u64 {
        let output = Self::at(self.key, self.next);
        self.next = self.next.wrapping_add(1);
        output
    }

    /// A number below `n`, each equally likely (Lemire, 2019: multiply and reject); 0 for `n` = 0.
    pub fn below(&mut self, n: u64) -> u64 {
        let refused = n.wrapping_neg().checked_rem(n).unwrap_or(0);
        loop {
            let product = u128::from(self.next()) * u128::from(n);
            if product as u64 >= refused {
                return (product >> 64) as u64;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first outputs for seed 1234567, as the published generator has them.
    #[test]
    fn it_is_splitmix64() {
        let outputs: Vec<u64> = (0..3).map(|n| SplitMix64::at(1_234_567, n)).collect();
        assert_eq!(outputs, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn below_is_even() {
        let mut random = SplitMix64::new(7);
        let mut seen = [0u32; 12];
        for _ in 0..120_000 {
            seen[random.below(12) as usize] += 1;
        }
        assert!(seen.iter().all(|&n| n.abs_diff(10_000) < 450), "{seen:?}");
        assert_eq!((random.below(1), random.below(0)), (0, 0));
    }
}
