//! numpy's `RandomState`: the Mersenne Twister MT19937, and bounded integers by masked rejection.
//!
//! Makoto Matsumoto, Takuji Nishimura, *Mersenne Twister*, ACM TOMACS 8 (1998); seeding is the
//! `init_genrand` of its 2002 revision, which `numpy.random.RandomState(seed)` applies to an integer.

/// Words of the state.
const WORDS: usize = 624;
/// Word `k + MIDDLE` is mixed into word `k`.
const MIDDLE: usize = 397;

/// The stream of 32-bit numbers that `numpy.random.RandomState(seed)` draws from.
///
/// The seed is a `u32` because numpy accepts only integers below 2^32.
#[derive(Clone, Debug)]
pub struct RandomState {
    state: [u32; WORDS],
    /// The tempered state: the next outputs.
    ready: [u32; WORDS],
    next: usize,
}

impl RandomState {
    /// The stream of `seed`.
    pub fn new(seed: u32) -> Self {
        let mut state = [0; WORDS];
        let mut word = seed;
        for (place, at) in state.iter_mut().zip(1u32..) {
            *place = word;
            word = 1_812_433_253u32.wrapping_mul(word ^ (word >> 30)).wrapping_add(at);
        }
        Self { state, ready: [0; WORDS], next: WORDS }
    }

    /// The next 32 bits.
    #[inline]
    pub(crate) fn next_u32(&mut self) -> u32 {
        let word = match self.ready.get(self.next) {
            Some(&word) => word,
            None => self.refilled(),
        };
        self.next += 1;
        word
    }

    /// The next 64 bits: the high word is drawn first.
    #[inline]
    pub(crate) fn next_u64(&mut self) -> u64 {
        let high = u64::from(self.next_u32());
        high << 32 | u64::from(self.next_u32())
    }

    /// An integer in `0..=max`, by masked rejection.
    #[inline]
    pub fn at_most(&mut self, max: u64) -> u64 {
        let mask = mask(max);
        loop {
            let value = if max <= u64::from(u32::MAX) { u64::from(self.next_u32()) } else { self.next_u64() } & mask;
            if value <= max {
                return value;
            }
        }
    }

    /// Fills `out` with the results of [`RandomState::at_most`] for `max`, `max - 1`, ….
    ///
    /// `max` is below 2^32 and not below the length of `out`.
    pub(crate) fn descending(&mut self, max: u32, out: &mut [u32]) {
        let (mut limit, mut done) = (max, 0);
        while done < out.len() {
            if self.next >= WORDS {
                self.refilled();
            }
            // The mask stays the same down to the next power of two.
            let mask = mask(u64::from(limit)) as u32;
            let same = (limit - (mask >> 1)) as usize;
            let end = out.len().min(done + same);
            let words = self.ready.get(self.next..).unwrap_or_default();
            let (used, filled) = accept(words, mask, limit, out.get_mut(done..end).unwrap_or_default());
            self.next += used;
            done += filled;
            limit = limit.wrapping_sub(filled as u32);
        }
    }

    #[cold]
    fn refilled(&mut self) -> u32 {
        self.twist();
        for (ready, &word) in self.ready.iter_mut().zip(&self.state) {
            *ready = temper(word);
        }
        self.next = 0;
        self.ready.first().copied().unwrap_or_default()
    }

    /// The next 624 words of state. A word depends on the old value of its successor and on the word 397 ahead, which
    /// from word 227 on is already a new one. Splitting there gives each loop disjoint slices.
    fn twist(&mut self) {
        const EARLY: usize = WORDS - MIDDLE;
        let old = self.state;
        let (early, late) = self.state.split_at_mut(EARLY);
        for (k, word) in early.iter_mut().enumerate() {
            *word = mix(old[k], old[k + 1]) ^ old[k + MIDDLE];
        }
        let (second, third) = late.split_at_mut(EARLY);
        for (k, (word, made)) in second.iter_mut().zip(early.iter()).enumerate() {
            *word = mix(old[EARLY + k], old[EARLY + k + 1]) ^ made;
        }
        for (k, (word, made)) in third.iter_mut().zip(second.iter()).enumerate() {
            let following = old.get(2 * EARLY + k + 1).copied().unwrap_or(early[0]);
            *word = mix(old[2 * EARLY + k], following) ^ made;
        }
    }
}

/// Takes words until they are used up or `out` is full; returns how many were used, and how many accepted.
#[inline]
fn accept(words: &[u32], mask: u32, limit: u32, out: &mut [u32]) -> (usize, usize) {
    let mut filled = 0;
    for (used, &word) in words.iter().enumerate() {
        let Some(place) = out.get_mut(filled) else { return (used, filled) };
        *place = word & mask;
        // Branch-free, because acceptance is unpredictable.
        filled += usize::from(word & mask <= limit.wrapping_sub(filled as u32));
    }
    (words.len(), filled)
}

#[inline]
fn mix(word: u32, following: u32) -> u32 {
    let joined = word & 0x8000_0000 | following & 0x7fff_ffff;
    joined >> 1 ^ (joined & 1).wrapping_neg() & 0x9908_b0df
}

#[inline]
fn temper(mut word: u32) -> u32 {
    word ^= word >> 11;
    word ^= word << 7 & 0x9d2c_5680;
    word ^= word << 15 & 0xefc6_0000;
    word ^ word >> 18
}

/// The least `2^n - 1` that is not below `max`.
#[inline]
fn mask(max: u64) -> u64 {
    u64::MAX.checked_shr(max.leading_zeros()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_values() {
        // The 10,000th number of seed 5489, as given by the C++ standard (rand.predef).
        let mut random = RandomState::new(5489);
        let last = (0..10_000).map(|_| random.next_u32()).last();
        assert_eq!(last, Some(4_123_659_995));
    }

    #[test]
    fn masks() {
        assert_eq!([0, 1, 2, 3, 4, 255, 256].map(mask), [0, 1, 3, 3, 7, 255, 511]);
        assert_eq!(mask(u64::MAX), u64::MAX);
    }

    #[test]
    fn many_at_once_are_the_same_as_one_by_one() {
        for (max, count) in [(1, 1), (2, 2), (5, 3), (700, 700), (4096, 4096), (1 << 20, 3000), (u32::MAX, 2000)] {
            let (mut a, mut b) = (RandomState::new(7), RandomState::new(7));
            let mut many = vec![0; count];
            a.descending(max, &mut many);
            let single: Vec<u32> = (0..count as u32).map(|i| b.at_most(u64::from(max - i)) as u32).collect();
            assert_eq!(many, single, "{max}");
            assert_eq!(a.next_u32(), b.next_u32(), "the streams go on alike");
        }
    }
}
