//! Interleaves several orders by weight.

use super::augment_rng::draw;
use packhorse_core::{Error, Result};

/// Slots in the repeating pattern of datasets.
pub const SLOTS: u64 = 16_384;

/// Slots that are shuffled together.
const WINDOW: usize = 128;

/// An endless interleaving of datasets, each starting over when it is used up.
///
/// The weights, as shares of [`SLOTS`], are rounded to whole slots by largest remainders (ties: the first). At each
/// slot comes the dataset that is furthest behind its share (ties: the first), as in Megatron's blend. Then the slots are shuffled within
/// windows of 128, so that ranks, each of which takes every so many positions, get all datasets. The pattern
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

/// The dataset of each slot, and how many earlier slots have the same one.
fn pattern(slots: &[u64]) -> Vec<(u16, u16)> {
    let mut datasets = even(slots);
    for (number, window) in datasets.chunks_mut(WINDOW).enumerate() {
        // Fisher and Yates.
        for last in (1..window.len()).rev() {
            let other = draw(0, number as u64, last as u64, 2) % (last as u64 + 1);
            window.swap(last, other as usize);
        }
    }
    let mut given = vec![0u16; slots.len()];
    let slot = |dataset: u16| {
        let before = given.get_mut(usize::from(dataset)).map_or(0, |given| std::mem::replace(given, *given + 1));
        (dataset, before)
    };
    datasets.into_iter().map(slot).collect()
}

/// The datasets as evenly as they can be: at each slot the one that is furthest behind its share.
fn even(slots: &[u64]) -> Vec<u16> {
    let mut given = vec![0u64; slots.len()];
    let mut pattern = Vec::with_capacity(SLOTS as usize);
    for slot in 1..=SLOTS {
        // Both products are below 2^28.
        let behind = |at: usize| (slots[at] * slot) as i64 - (given[at] * SLOTS) as i64;
        let next = (0..slots.len()).rev().max_by_key(|&at| behind(at)).unwrap_or_default();
        // There are 2^14 slots, and so at most 2^14 datasets.
        pattern.push(next as u16);
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
        assert_eq!(even(&[8192, 5461, 2731])[..12], [0, 1, 2, 0, 1, 0, 0, 1, 2, 0, 1, 0]);
        assert_eq!(
            (0..3).map(|dataset| mix.drawn(dataset, SLOTS * 5)).collect::<Vec<_>>(),
            [8192 * 5, 5461 * 5, 2731 * 5]
        );
        let mut drawn = [0; 3];
        for at in 0..SLOTS * 2 {
            let sample = mix.get(at);
            let drawn = &mut drawn[sample.dataset as usize];
            let samples = [10, 20, 30][sample.dataset as usize];
            assert_eq!((sample.drawn, sample.epoch, sample.position), (*drawn, *drawn / samples, *drawn % samples));
            *drawn += 1;
            // Close to its share: within a window.
            let share = [1.0 / 2.0, 1.0 / 3.0, 1.0 / 6.0][sample.dataset as usize] * at as f64;
            assert!((*drawn as f64 - share).abs() < 64.0, "{at}: {drawn}");
        }
        assert_eq!(mix.get(u64::MAX).drawn, mix.drawn(mix.get(u64::MAX).dataset, u64::MAX));
    }

    /// Each rank gets each dataset in proportion, whatever the sizes of steps.
    #[test]
    fn ranks_get_all_datasets() {
        for (weights, ranks, batch) in
            [(&[1.0, 1.0][..], 2, 1), (&[1.0, 1.0], 8, 1), (&[3.0, 1.0], 4, 1), (&[7.0, 1.0], 4, 2)]
        {
            let mix = Mix::new(weights, &[1000, 1000]).unwrap();
            for rank in 0..ranks {
                let mine = |at: &u64| at / batch % ranks == rank;
                let (mut all, mut of_last) = (0.0, 0.0);
                for at in (0..SLOTS).filter(mine) {
                    all += 1.0;
                    of_last += f64::from(mix.get(at).dataset);
                }
                let share = weights[1] / (weights[0] + weights[1]);
                assert!((of_last / all - share).abs() < 0.05, "{weights:?}, rank {rank} of {ranks}: {}", of_last / all);
            }
        }
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
