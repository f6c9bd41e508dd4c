//! Folds for cross-validation, by a hash of the keys.

use crate::Dataset;
use packhorse_core::{Error, Result};

impl Dataset {
    /// Fold `i` of `folds`, counted from 1: the samples to hold out. Each sample is in one fold, chosen by a hash of its
    /// key and `seed`: it stays there when the dataset grows, is packed in another order or is cut. Folds have about the
    /// same size.
    ///
    /// Errors: a fold that is not within `1..=folds` (kind `Config`); those of [`each_key`](Self::each_key).
    pub fn fold(&self, i: u32, folds: u32, seed: u64) -> Result<Self> {
        self.subset(self.fold_numbers(i, folds, seed)?)
    }

    /// All samples that are not in [fold](Self::fold) `i`: those to train with.
    ///
    /// Errors: those of [`fold`](Self::fold).
    pub fn without_fold(&self, i: u32, folds: u32, seed: u64) -> Result<Self> {
        self.subset(self.without_fold_numbers(i, folds, seed)?)
    }

    /// The numbers of the samples in [fold](Self::fold) `i`, ascending.
    ///
    /// Errors: those of [`fold`](Self::fold).
    pub fn fold_numbers(&self, i: u32, folds: u32, seed: u64) -> Result<Vec<u64>> {
        self.by_fold(i, folds, seed, true)
    }

    /// The numbers of the samples that are not in [fold](Self::fold) `i`, ascending.
    ///
    /// Errors: those of [`fold`](Self::fold).
    pub fn without_fold_numbers(&self, i: u32, folds: u32, seed: u64) -> Result<Vec<u64>> {
        self.by_fold(i, folds, seed, false)
    }

    fn by_fold(&self, i: u32, folds: u32, seed: u64, inside: bool) -> Result<Vec<u64>> {
        if folds < 2 || !(1..=folds).contains(&i) {
            let message =
                format!("there is no fold {i} of {folds}: folds are numbered from 1, and there are at least 2");
            return Err(Error::config(message));
        }
        let mut numbers = Vec::new();
        self.each_key(|number, key| {
            if (fold_of(key, folds, seed) == i) == inside {
                numbers.push(number);
            }
            Ok(())
        })?;
        Ok(numbers)
    }
}

/// The fold of a key, from 1: the first 8 bytes of BLAKE3 over the seed (u64, little-endian) and the key, as a fraction of
/// 2^64.
fn fold_of(key: &str, folds: u32, seed: u64) -> u32 {
    let hash = blake3::Hasher::new().update(&seed.to_le_bytes()).update(key.as_bytes()).finalize();
    let head = hash.as_bytes().first_chunk().map_or(0, |head| u64::from_le_bytes(*head));
    ((u128::from(head) * u128::from(folds)) >> 64) as u32 + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folds_are_even_and_fixed() {
        let mut counts = [0u32; 5];
        for i in 0..10_000 {
            counts[fold_of(&format!("key{i}"), 5, 7) as usize - 1] += 1;
        }
        assert!(counts.iter().all(|n| n.abs_diff(2000) < 200), "{counts:?}");
        let of = |seed| (0..20).map(|i| fold_of(&format!("{i}"), 4, seed)).collect::<Vec<_>>();
        assert_ne!(of(0), of(1));
        // A fold is part of what people compare results by: it never changes.
        assert_eq!(of(0), [3, 3, 4, 1, 1, 1, 4, 4, 2, 1, 4, 3, 3, 3, 4, 3, 2, 4, 4, 2]);
    }
}
