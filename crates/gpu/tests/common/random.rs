//! Random numbers for tests, different in each run.

use std::time::{SystemTime, UNIX_EPOCH};

/// Output `n` of SplitMix64 seeded with `key`.
pub(crate) fn at(key: u64, n: u64) -> u64 {
    let x = key.wrapping_add(n.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// A number below `n` from 64 random bits.
pub(crate) fn below(number: u64, n: u64) -> u64 {
    ((u128::from(number) * u128::from(n)) >> 64) as u64
}

pub(crate) struct Random {
    seed: u64,
    next: u64,
}

impl Random {
    /// Seeded by `PACKHORSE_SEED`, or by the time; prints the seed to reproduce failures.
    pub(crate) fn fresh() -> Self {
        let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
        let seed = std::env::var("PACKHORSE_SEED").ok().map_or_else(now, |seed| seed.parse().unwrap());
        println!("PACKHORSE_SEED={seed}");
        Self::new(seed)
    }

    pub(crate) fn new(seed: u64) -> Self {
        Self { seed, next: 0 }
    }

    pub(crate) fn u64(&mut self) -> u64 {
        self.next += 1;
        at(self.seed, self.next)
    }

    pub(crate) fn below(&mut self, n: u64) -> u64 {
        below(self.u64(), n)
    }

    /// From `from` to `to`.
    pub(crate) fn between(&mut self, from: u32, to: u32) -> u32 {
        from + self.below(u64::from(to - from) + 1) as u32
    }

    pub(crate) fn chance(&mut self, one_in: u64) -> bool {
        self.below(one_in) == 0
    }

    pub(crate) fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes: Vec<u8> = (0..len.div_ceil(8)).flat_map(|_| self.u64().to_le_bytes()).collect();
        bytes.truncate(len);
        bytes
    }

    /// Uniform in `[0, 1)`.
    pub(crate) fn unit(&mut self) -> f32 {
        (self.u64() >> 40) as f32 / (1 << 24) as f32
    }
}
