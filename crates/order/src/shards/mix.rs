//! Interleaves several orders by weight.

use packhorse_core::{Error, Result};

/// Slots in the repeating pattern of datasets.
pub const SLOTS: u64 = 16_384;

/// An endless interleaving of datasets, each starting over when it is used up.
///
/// The weights, as shares of [`SLOTS`], are rounded to whole slots by largest remainders (ties: the first). At each
/// slot comes the dataset that is furthest behind its share (ties: the first), as in Megatron's blend, and the pattern
/// repeats: after every `SLOTS` positions each dataset has given exactly its slots, and it is always close to its
/// share. Only the pattern takes memory.
#[derive(Clone, Debug)]
pub struct Mix {
    /// For each slot: its dataset, and how many earlier slots have the same one.
    pattern: Vec<(u16, u16)>,
    /// For each dataset: its slots and its samples.
    datasets: Vec<(u64, u64)>,
}

/// A sample of a mix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mixed {
    /// The dataset, by its position among the weights.
    pub dataset: u32,
    /// How many of its samples came before.
    pub drawn: u64,
    /// Its epoch.
    pub epoch: u64,
    /// The position in that epoch.
    pub position: u64,
}

impl Mix {
    /// A mix of datasets with these weights, of any scale, and these numbers of samples.
    ///
    /// Errors (kind `Config`): no dataset, one without samples, a weight that is not finite and above 0, or one that is
    /// too small for a slot.
    pub fn new(weights: &[f64], samples: &[u64]) -> Result<Self> {
        if weights.is_empty() || weights.len() != samples.len() {
            let message = format!("{} weights for {} datasets make no mix", weights.len(), samples.len());
            return Err(Error::config(message));
        }
        if let Some(at) = weights.iter().position(|&weight| !(weight.is_finite() && weight > 0.0)) {
            let weight = weights.get(at).copied().unwrap_or_default();
            return Err(Error::config(format!(
                "dataset {at} has the weight {weight}: give one above 0, or leave it out"
            )));
        }
        if let Some(at) = samples.iter().position(|&samples| samples == 0) {
            return Err(Error::config(format!("dataset {at} has no samples: leave it out of the mix")));
        }
        let slots = slots(weights)?;
        Ok(Self { pattern: pattern(&slots), datasets: slots.into_iter().zip(samples.iter().copied()).collect() })
    }

    /// The slots of each dataset out of [`SLOTS`]: its share after rounding.
    pub fn slots(&self) -> impl ExactSizeIterator<Item = u64> + '_ {
        self.datasets.iter().map(|&(slots, _)| slots)
    }

    /// The sample at `position`.
    #[inline]
    pub fn get(&self, position: u64) -> Mixed {
        // Every remainder has a slot, and every slot a dataset.
        let (dataset, before) = self.pattern.get((position % SLOTS) as usize).copied().unwrap_or_default();
        let (slots, samples) = self.datasets.get(usize::from(dataset)).copied().unwrap_or((0, 1));
        let drawn = position / SLOTS * slots + u64::from(before);
        Mixed { dataset: dataset.into(), drawn, epoch: drawn / samples, position: drawn % samples }
    }

    /// How many samples of `dataset` come before `position`.
    pub fn drawn(&self, dataset: u32, position: u64) -> u64 {
        let slots = self.datasets.get(dataset as usize).map_or(0, |&(slots, _)| slots);
        let part = self.pattern.iter().take((position % SLOTS) as usize);
        position / SLOTS * slots + part.filter(|&&(this, _)| u32::from(this) == dataset).count() as u64
    }
}

fn slots(weights: &[f64]) -> Result<Vec<u64>> {
    // Scaled first, so that the sum stays finite.
    let greatest = weights.iter().copied().fold(0.0, f64::max);
    let sum: f64 = weights.iter().map(|weight| weight / greatest).sum();
    let shares: Vec<f64> = weights.iter().map(|weight| weight / greatest / sum * SLOTS as f64).collect();
    let mut slots: Vec<u64> = shares.iter().map(|share| *share as u64).collect();
    let mut by_remainder: Vec<usize> = (0..weights.len()).collect();
    by_remainder.sort_by(|&a, &b| shares[b].fract().total_cmp(&shares[a].fract()));
    let missing = SLOTS.saturating_sub(slots.iter().sum()) as usize;
    by_remainder.iter().cycle().take(missing).for_each(|&at| slots[at] += 1);
    if let Some(at) = slots.iter().position(|&slots| slots == 0) {
        let share = shares[at] / SLOTS as f64;
        return Err(Error::config(format!(
            "dataset {at} has a share of {share:.2e}, too small for one of {SLOTS} slots: give it more weight, or join it \
             with another"
        )));
    }
    Ok(slots)
}

/// The dataset of each slot: the one that is furthest behind its share.
fn pattern(slots: &[u64]) -> Vec<(u16, u16)> {
    let mut given = vec![0u64; slots.len()];
    let mut pattern = Vec::with_capacity(SLOTS as usize);
    for slot in 1..=SLOTS {
        // Both products are below 2^28.
        let behind = |at: usize| (slots[at] * slot) as i64 - (given[at] * SLOTS) as i64;
        let next = (0..slots.len()).rev().max_by_key(|&at| behind(at)).unwrap_or_default();
        // There are 2^14 slots, and so at most 2^14 datasets.
        pattern.push((next as u16, given[next] as u16));
        given[next] += 1;
    }
    pattern
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thirds_and_a_half() {
        let mix = Mix::new(&[3.0, 2.0, 1.0], &[10, 20, 30]).unwrap();
        assert_eq!(mix.slots().collect::<Vec<_>>(), [8192, 5461, 2731]);
        let first: Vec<u32> = (0..12).map(|at| mix.get(at).dataset).collect();
        assert_eq!(first, [0, 1, 2, 0, 1, 0, 0, 1, 2, 0, 1, 0]);
        assert_eq!(mix.get(SLOTS * 5).drawn, 8192 * 5);
        let sample = mix.get(10);
        assert_eq!((sample.dataset, sample.drawn, sample.epoch, sample.position), (1, 3, 0, 3));
        assert_eq!(mix.get(u64::MAX).drawn, mix.drawn(mix.get(u64::MAX).dataset, u64::MAX));
    }

    #[test]
    fn one_dataset_is_itself_over_and_over() {
        let mix = Mix::new(&[0.1], &[7]).unwrap();
        for at in [0, 6, 7, 100_000] {
            assert_eq!(mix.get(at), Mixed { dataset: 0, drawn: at, epoch: at / 7, position: at % 7 });
        }
    }

    #[test]
    fn what_can_not_be_mixed_is_said() {
        let message = |weights: &[f64], samples: &[u64]| Mix::new(weights, samples).unwrap_err().message().to_owned();
        assert!(message(&[1.0, 1e-5], &[1, 1]).contains("dataset 1 has a share of 1.00e-5, too small"));
        assert!(message(&[1.0, 0.0], &[1, 1]).contains("dataset 1 has the weight 0"));
        assert!(message(&[1.0, f64::NAN], &[1, 1]).contains("weight NaN"));
        assert!(message(&[1.0, 1.0], &[1, 0]).contains("dataset 1 has no samples"));
        assert!(message(&[1.0], &[]).contains("make no mix"));
        assert!(message(&vec![1.0; SLOTS as usize + 1], &vec![1; SLOTS as usize + 1]).contains("too small"));
        assert!(Mix::new(&[f64::MAX, f64::MAX], &[1, 1]).is_ok());
        assert!(Mix::new(&[f64::MIN_POSITIVE / 4.0, f64::MIN_POSITIVE / 4.0], &[1, 1]).is_ok());
    }
}
