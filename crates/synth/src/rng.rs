//! Random numbers. Owns one small generator, identical on every machine.

use packhorse_core::SplitMix64;

/// xoshiro256** by Blackman and Vigna, seeded by SplitMix64.
pub(crate) struct Rng([u64; 4]);

impl Rng {
    /// The generator of item `index` of kind `stream` for `seed`.
    pub(crate) fn new(seed: u64, stream: u64, index: u64) -> Self {
        let mut state = mix(mix(mix(seed) ^ stream) ^ index);
        Self(std::array::from_fn(|_| {
            state = state.wrapping_add(SplitMix64::STEP);
            mix(state)
        }))
    }

    pub(crate) fn next(&mut self) -> u64 {
        let [a, b, c, d] = &mut self.0;
        let result = b.wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let t = *b << 17;
        *c ^= *a;
        *d ^= *b;
        *b ^= *c;
        *a ^= *d;
        *c ^= t;
        *d = d.rotate_left(45);
        result
    }

    /// A number in `0..n`; 0 if `n` is 0. Nearly uniform for `n` far below 2³².
    pub(crate) fn below(&mut self, n: u32) -> u32 {
        (((self.next() >> 32) * u64::from(n)) >> 32) as u32
    }

    /// A number in `low..=high`; `low` if the range is empty.
    pub(crate) fn within(&mut self, low: u32, high: u32) -> u32 {
        low + self.below(high.saturating_sub(low).saturating_add(1))
    }

    /// An approximately standard normal number: the sum of twelve uniform ones (Irwin–Hall).
    pub(crate) fn normal(&mut self) -> f64 {
        let sum: u64 = (0..12).map(|_| self.next() >> 32).sum();
        sum as f64 / 4_294_967_296.0 - 6.0
    }
}

/// Mixes the bits of a number.
fn mix(z: u64) -> u64 {
    SplitMix64::mix(z).wrapping_add(SplitMix64::STEP)
}

/// 2^`x` for |x| < 1000 from exact operations only, because libm differs between machines. Relative error under 1e-6.
pub(crate) fn exp2(x: f64) -> f64 {
    let whole = x.floor();
    let y = (x - whole) * std::f64::consts::LN_2;
    let fraction = 1.0
        + y * (1.0 + y / 2.0 * (1.0 + y / 3.0 * (1.0 + y / 4.0 * (1.0 + y / 5.0 * (1.0 + y / 6.0 * (1.0 + y / 7.0))))));
    let exponent = (whole as i64 + 1023).clamp(1, 2046) as u64;
    fraction * f64::from_bits(exponent << 52)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_in_their_range_and_reach_its_ends() {
        let mut rng = Rng::new(1, 2, 3);
        let drawn: Vec<u32> = (0..1000).map(|_| rng.within(5, 9)).collect();
        assert_eq!((drawn.iter().min(), drawn.iter().max()), (Some(&5), Some(&9)));
        assert_eq!((rng.below(0), rng.within(7, 3)), (0, 7));
    }

    #[test]
    fn streams_differ() {
        let first = |seed, stream, index| Rng::new(seed, stream, index).next();
        let all = [first(0, 0, 0), first(1, 0, 0), first(0, 1, 0), first(0, 0, 1)];
        assert!((1..4).all(|i| !all[..i].contains(&all[i])));
    }

    #[test]
    fn exp2_is_close_and_normal_is_normal() {
        for x in [-20.5, -1.0, 0.0, 0.3, 0.999, 1.0, 13.7] {
            assert!((exp2(x) / f64::exp2(x) - 1.0).abs() < 1e-6, "{x}");
        }
        let mut rng = Rng::new(4, 5, 6);
        let (mut sum, mut squares) = (0.0, 0.0);
        for _ in 0..10_000 {
            let x = rng.normal();
            sum += x;
            squares += x * x;
        }
        assert!((sum / 1e4_f64).abs() < 0.05 && (squares / 1e4_f64 - 1.0).abs() < 0.05);
    }
}
