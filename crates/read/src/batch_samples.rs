//! The samples of any batch of a loader, by arithmetic: which they are and where they lie. Decodes nothing.

use crate::epoch_order::EpochOrder;
use crate::{Dataset, LoaderOptions, Reader, SampleBlock, Wants, sample_work};
use packhorse_core::{Error, Result};
use packhorse_order::Sampler;
use std::ops::Range;

/// The samples of one batch, as a loader gives them if none is bad.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchSamples {
    /// The epoch.
    pub epoch: u64,
    /// The positions of the epoch's order that the batch covers.
    pub positions: Range<u64>,
    /// One per row, in order.
    pub samples: Vec<BatchSample>,
}

/// A sample, and the place where it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchSample {
    /// Its number in the dataset.
    pub number: u64,
    /// Its key; where samples have no keys, the shard and the position in it.
    pub key: String,
    /// Its shard's file.
    pub shard: String,
    /// Its position in the shard, from 0.
    pub position: u64,
}

impl Dataset {
    /// The samples of the batch that the rank of `options` takes at step `step`, counted from the beginning of epoch 0, or
    /// from the state of `options`: the keys and numbers of that batch of a loader with these options. Of `options` it
    /// uses what decides the order, and the samples to skip. Reads only the keys of these samples, however far the step is.
    ///
    /// ```
    /// use packhorse_core::Result;
    /// use packhorse_order::Rank;
    /// use packhorse_read::{Dataset, LoaderOptions};
    ///
    /// fn culprits(dataset: &Dataset) -> Result<Vec<String>> {
    ///     let rank = Rank { rank: 3, world_size: 64 };
    ///     let batch = dataset.batch_samples(41_207, &LoaderOptions { rank, seed: 7, ..LoaderOptions::new(256) })?;
    ///     Ok(batch.samples.into_iter().map(|sample| sample.key).collect())
    /// }
    /// ```
    ///
    /// Errors (kind `Config`): a rank that is not below its world size, fewer samples than a step, a state of another
    /// dataset or order. Also: a shard that can't be opened or read.
    pub fn batch_samples(&self, step: u64, options: &LoaderOptions) -> Result<BatchSamples> {
        let order = EpochOrder::of(self, options)?;
        let from = sample_work::begin(&order, self.fingerprint(), options)?;
        let steps = order.steps_from(from, Sampler::new(options.rank, options.batch)?, options.remainder)?;
        let (epoch, positions) = steps.at(step);
        let (mut places, mut epochs) = (Vec::new(), Vec::new());
        order.places_of_step(&steps, step, options.remainder, &mut places, &mut epochs)?;
        self.leave_out(&options.skipped(), &mut places, &mut epochs)?;
        Ok(BatchSamples { epoch, positions, samples: self.located(&places, options)? })
    }

    /// Drops the places of the samples with the numbers `skip`, which are sorted, and their epochs.
    pub(crate) fn leave_out(&self, skip: &[u64], places: &mut Vec<(u32, u64)>, epochs: &mut Vec<u64>) -> Result<()> {
        if skip.is_empty() {
            return Ok(());
        }
        for ((run, at), epoch) in std::mem::take(places).into_iter().zip(std::mem::take(epochs)) {
            if skip.binary_search(&self.sample(run, at)?.2).is_err() {
                places.push((run, at));
                epochs.push(epoch);
            }
        }
        Ok(())
    }

    fn located(&self, places: &[(u32, u64)], options: &LoaderOptions) -> Result<Vec<BatchSample>> {
        let reader = Reader::new(self.keys_alone()?, Vec::new(), options.read.clone());
        let (mut wants, mut block) = (Wants::default(), SampleBlock::default());
        reader.read_places(places.iter().copied(), &mut wants, &mut block)?;
        let sample = |(row, (run, at)): (usize, &(u32, u64))| {
            if let Some(fault) = block.fault(row) {
                return Err(fault.clone());
            }
            let (shard, position, number) = self.sample(*run, *at)?;
            let found =
                self.shards().get(shard as usize).ok_or_else(|| Error::bug(format!("there is no shard {shard}")))?;
            let key = block.key(row).unwrap_or_default().to_owned();
            Ok(BatchSample { number, key, shard: found.name.clone(), position })
        };
        places.iter().enumerate().map(sample).collect()
    }
}
