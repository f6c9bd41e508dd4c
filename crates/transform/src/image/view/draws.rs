//! Random numbers of a sample.

use packhorse_core::SplitMix64;

/// The random numbers of one sample in one epoch: a pure function of `key`, so that the same key gives the same crop
/// and flip on any machine, on any thread, in any order.
///
/// Give samples that must match (an image and its mask) the same key, and two views of one image two [lanes](Self::lane).
///
/// Number `n` is output `n` of [`SplitMix64`] seeded with `key`.
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

    /// The numbers of another lane of the same sample, independent of these: those of the key that is number 2^32 + `lane`. Lane 0 is
    /// this one.
    #[must_use]
    pub fn lane(self, lane: u32) -> Self {
        // Beyond all numbers that are drawn.
        if lane == 0 { self } else { Self { key: SplitMix64::at(self.key, (1 << 32) | u64::from(lane)) } }
    }

    fn number(self, n: u32) -> u64 {
        SplitMix64::at(self.key, n.into())
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

    #[test]
    fn lanes_are_keys_of_their_own() {
        let draws = Draws::new(7);
        assert_eq!(draws.lane(0), draws);
        assert_eq!(draws.lane(1), Draws::new(SplitMix64::at(7, (1 << 32) + 1)));
        assert_eq!(draws.lane(1).number(0), 0x4e9a_7a74_c83b_119e);
        assert_ne!(draws.lane(1), draws.lane(2));
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
