//! Blends: which dataset each sample comes from, exactly Megatron's `BlendedDataset`.

use crate::array::room;
use crate::blend_scheduler::BlendScheduler;
use crate::small_blend_scheduler::SmallBlendScheduler;
use crate::{Array, normalized};
use packhorse_core::{Error, Result};

/// Samples requested beyond the expected number, as a fraction: Megatron's `mid_level_dataset_surplus`.
pub const SURPLUS: f64 = 0.005;

/// The two indices of a blend: for each sample the dataset it comes from, and its number there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlendIndex {
    /// `<i2` (Megatron) or `<i8` (Megatron-DeepSpeed, BlendCorpus).
    pub dataset: Array,
    /// `<i8`
    pub sample: Array,
}

/// The sizes of a weighted blend: how many samples each dataset must have, and how many the blend has.
#[derive(Clone, Debug, PartialEq)]
pub struct BlendRequest {
    /// The weights, normalised once. [`BlendIndex::weighted`] normalises them again.
    pub weights: Vec<f64>,
    /// Samples to request of each dataset: `ceil(ceil(size·w)·(1 + surplus))`.
    pub requests: Vec<u64>,
    /// Samples of the blend: the sum of `ceil(size·w)`.
    pub size: u64,
}

impl BlendRequest {
    /// What Megatron asks of the datasets of a blend of at least `size` samples.
    ///
    /// Errors: no weights, or one that is not finite and above zero.
    pub fn new(weights: &[f64], size: u64, surplus: f64) -> Result<Self> {
        check(weights)?;
        let weights = normalized(weights);
        let targets: Vec<f64> = weights.iter().map(|weight| (size as f64 * weight).ceil()).collect();
        let requests = targets.iter().map(|target| (target * (1.0 + surplus)).ceil() as u64).collect();
        let size = targets.iter().fold(0u64, |sum, &target| sum.saturating_add(target as u64));
        Ok(Self { weights, requests, size })
    }
}

impl BlendIndex {
    /// `size` samples, each from the dataset that is furthest behind its share. The weights are normalised here.
    ///
    /// Errors: no weights, more than 32,766, a weight that is not finite and above zero, not enough memory.
    pub fn weighted(weights: &[f64], size: u64) -> Result<Self> {
        check(weights)?;
        few(weights.len())?;
        Self::raw(&normalized(weights), size, |dataset| dataset as i16, Array::I16)
    }

    /// All samples of all datasets of these `sizes`: Megatron's blend without weights and without a size.
    pub fn exhaustive(sizes: &[u64]) -> Result<Self> {
        few(sizes.len())?;
        let total = sizes.iter().try_fold(0u64, |sum, &size| sum.checked_add(size)).filter(|&sum| sum >> 52 == 0);
        let total = total.ok_or_else(|| Error::config("datasets of 2^52 samples and more can't be blended"))?;
        if sizes.contains(&0) {
            return Err(Error::config("a dataset without samples can't be part of a blend: leave it out"));
        }
        let weights: Vec<f64> = sizes.iter().map(|&size| size as f64 / total as f64).collect();
        let mut lead = BlendScheduler::new(&weights, total as f64);
        let (mut dataset, mut sample) = (room(total, "blend")?, room(total, "blend")?);
        for at in 0..total {
            let (which, had) = lead.next((at as f64).max(1.0));
            dataset.push(which as i16);
            sample.push(had as i64);
            if sizes.get(which).is_some_and(|&size| had as u64 + 1 == size) {
                lead.spend(which);
            }
        }
        Ok(Self { dataset: Array::I16(dataset), sample: Array::I64(sample) })
    }

    /// As [`BlendIndex::weighted`], with 64-bit dataset numbers and without normalising the weights.
    pub(crate) fn wide(weights: &[f64], size: u64) -> Result<Self> {
        Self::raw(weights, size, |dataset| dataset as i64, Array::I64)
    }

    fn raw<T>(weights: &[f64], size: u64, number: fn(usize) -> T, array: fn(Vec<T>) -> Array) -> Result<Self> {
        let mut both = (room(size, "blend")?, room(size, "blend")?);
        match weights.len() {
            0..=2 => of_few::<1, T>(weights, size, number, &mut both),
            3..=4 => of_few::<2, T>(weights, size, number, &mut both),
            5..=8 => of_few::<4, T>(weights, size, number, &mut both),
            9..=16 => of_few::<8, T>(weights, size, number, &mut both),
            17..=32 => of_few::<16, T>(weights, size, number, &mut both),
            _ => {
                let mut lead = BlendScheduler::new(weights, size as f64);
                both.extend(samples(size, number, |y| lead.next(y)));
            }
        }
        let (dataset, sample) = both;
        Ok(Self { dataset: array(dataset), sample: Array::I64(sample) })
    }
}

/// The samples of a blend of at most 2·`P` datasets.
fn of_few<const P: usize, T>(weights: &[f64], size: u64, number: fn(usize) -> T, both: &mut (Vec<T>, Vec<i64>)) {
    let mut few = SmallBlendScheduler::<P>::new(weights);
    both.extend(samples(size, number, |y| few.next(y)));
}

/// `size` samples, of the datasets that `next` returns.
#[inline(always)]
fn samples<T>(
    size: u64,
    number: fn(usize) -> T,
    mut next: impl FnMut(f64) -> (usize, f64),
) -> impl Iterator<Item = (T, i64)> {
    (0..size).map(move |at| {
        let (which, had) = next((at as f64).max(1.0));
        (number(which), had as i64)
    })
}

/// The conditions that Megatron asserts.
pub(crate) fn check(weights: &[f64]) -> Result<()> {
    if weights.is_empty() {
        return Err(Error::config("a blend needs at least one dataset"));
    }
    match weights.iter().find(|weight| !(weight.is_finite() && **weight > 0.0)) {
        Some(weight) => Err(Error::config(format!("a weight of {weight} is not above zero: leave the dataset out"))),
        None => Ok(()),
    }
}

fn few(datasets: usize) -> Result<()> {
    if datasets == 0 || datasets >= i16::MAX as usize {
        return Err(Error::config(format!("{datasets} datasets can't be blended: 1 to 32766 can")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RandomState;

    /// The reference implementation of the rule.
    fn plainly(weights: &[f64], size: u64) -> (Vec<i64>, Vec<i64>) {
        let mut given = vec![0i64; weights.len()];
        let (mut datasets, mut samples) = (Vec::new(), Vec::new());
        for at in 0..size {
            let y = (at as f64).max(1.0);
            let (mut best, mut error) = (0, weights[0] * y - given[0] as f64);
            for (k, weight) in weights.iter().enumerate().skip(1) {
                let this = weight * y - given[k] as f64;
                if this > error {
                    (best, error) = (k, this);
                }
            }
            datasets.push(best as i64);
            samples.push(given[best]);
            given[best] += 1;
        }
        (datasets, samples)
    }

    #[test]
    fn bounds_change_nothing() {
        let mut random = RandomState::new(11);
        for case in 0..90 {
            let count = [1, 2, 3, 4, 5, 8, 9, 15, 16, 17, 31, 32, 33, 100, 257][case / 3 % 15];
            let weights: Vec<f64> = (0..count)
                .map(|_| match case % 3 {
                    0 => 1.0,
                    1 => random.at_most(1000) as f64 + 1.0,
                    _ => 1.0 / (random.at_most(7) as f64 + 1.0),
                })
                .collect();
            let weights = normalized(&weights);
            let blend = BlendIndex::wide(&weights, 3000).unwrap();
            let (dataset, sample) = plainly(&weights, 3000);
            assert_eq!((blend.dataset, blend.sample), (Array::I64(dataset), Array::I64(sample)), "{case}");
        }
    }

    #[test]
    fn an_exhaustive_blend_gives_every_sample_once() {
        let sizes = [5, 1, 100, 37];
        let blend = BlendIndex::exhaustive(&sizes).unwrap();
        let (dataset, sample) = (blend.dataset.view(), blend.sample.view());
        let mut pairs: Vec<_> = (0..dataset.len()).map(|i| (dataset.get(i), sample.get(i))).collect();
        pairs.sort();
        pairs.dedup();
        assert_eq!(pairs.len(), 143);
        assert_eq!(pairs.iter().filter(|pair| pair.0 == Some(3)).count(), 37);
    }

    #[test]
    fn weights_that_are_none() {
        for weights in [&[][..], &[0.0], &[-1.0, 2.0], &[f64::NAN], &[f64::INFINITY]] {
            assert!(BlendIndex::weighted(weights, 3).is_err());
        }
        assert!(BlendIndex::exhaustive(&[3, 0]).is_err());
        assert!(BlendIndex::exhaustive(&[u64::MAX, 2]).is_err());
    }
}
