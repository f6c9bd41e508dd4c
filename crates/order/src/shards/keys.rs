//! Numbers from numbers: SplitMix64, as counters and as keys.

/// SplitMix64's step.
pub(super) const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// SplitMix64's output function: a bijection in which each bit depends on all.
#[inline]
pub(super) fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Output `n` of the generator that is seeded with `key`.
#[inline]
pub(super) fn at(key: u64, n: u64) -> u64 {
    mix(key.wrapping_add(n.wrapping_add(1).wrapping_mul(STEP)))
}

/// The key for what `tag` names in an epoch.
pub(super) fn key(seed: u64, tag: &[u8; 8], epoch: u64) -> u64 {
    at(at(seed, u64::from_le_bytes(*tag)), epoch)
}

/// A generator's outputs in turn.
pub(super) struct Outputs {
    key: u64,
    next: u64,
}

impl Outputs {
    pub(super) fn of(key: u64) -> Self {
        Self { key, next: 0 }
    }

    /// A number below `n`, each as likely as any other.
    pub(super) fn below(&mut self, n: u64) -> u64 {
        let refused = n.wrapping_neg().checked_rem(n).unwrap_or(0);
        loop {
            let product = u128::from(at(self.key, self.next)) * u128::from(n);
            self.next = self.next.wrapping_add(1);
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
        let outputs: Vec<u64> = (0..3).map(|n| at(1_234_567, n)).collect();
        assert_eq!(outputs, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn below_is_even() {
        let mut outputs = Outputs::of(7);
        let mut seen = [0u32; 12];
        for _ in 0..120_000 {
            seen[outputs.below(12) as usize] += 1;
        }
        assert!(seen.iter().all(|&n| n.abs_diff(10_000) < 450), "{seen:?}");
        assert_eq!((outputs.below(1), outputs.below(0)), (0, 0));
    }
}
