//! SplitMix64, which kernels and their callers count with.

/// Output `n` of the generator that is seeded with `key`.
pub(super) fn at(key: u64, n: u64) -> u64 {
    let x = key.wrapping_add(n.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
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
}
