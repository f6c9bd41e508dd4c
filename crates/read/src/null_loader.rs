//! A loader of batches without samples.

use crate::batch::aligned;
use crate::batch_metadata::BatchMetadata;
use crate::pipeline::{Pipeline, PipelineConfig};
use crate::steps::Steps;
use crate::work::Work;
use crate::{Device, Layout, Loader, LoaderCounters, LoaderOptions};
use packhorse_core::{DataType, Result};
use packhorse_order::{OrderState, Sampler, Shuffle, draw};
use std::sync::Arc;

/// A loader that reads nothing: its batches hold only the random keys of samples (`draws`, `UInt64 [batch]`), for
/// devices that make fields from them. A training loop that is not faster with it than with its own loader does not
/// wait for data.
///
/// Samples are numbered in order. Of `options` it uses batch, rank, seed, epochs, state and remainder.
pub type NullLoader<D> = Loader<D, NullWork>;

/// Fills batches with random keys.
pub struct NullWork {
    layout: Arc<Layout>,
    steps: Steps,
    seed: u64,
    counters: Arc<LoaderCounters>,
}

impl Work for NullWork {
    type Fetched = ();
    type Scratch = ();
    type State = OrderState;

    fn layout(&self) -> &Arc<Layout> {
        &self.layout
    }

    fn counters(&self) -> &Arc<LoaderCounters> {
        &self.counters
    }

    fn state(&self, steps: u64) -> OrderState {
        order(self.steps.samples, self.seed, self.steps.after(steps))
    }

    fn fetch(&self, _: u64, (): &mut ()) -> Result<Option<()>> {
        Ok(Some(()))
    }

    fn fill(
        &self,
        step: u64,
        (): (),
        slab: &mut [u8],
        filled: &mut BatchMetadata,
        (): &mut (),
    ) -> Result<Option<(usize, ())>> {
        let (epoch, positions) = self.steps.at(step);
        filled.set_dense(&self.layout, (positions.end - positions.start) as usize);
        (filled.epoch, filled.positions) = (epoch, positions.clone());
        filled.numbers.clear();
        filled.numbers.extend(positions);
        for (to, number) in slab.as_chunks_mut().0.iter_mut().zip(&filled.numbers) {
            *to = draw(self.seed, epoch, *number, 0).to_le_bytes();
        }
        filled.keys.clear();
        filled.key_ends.clear();
        filled.key_ends.resize(filled.rows, 0);
        Ok(None)
    }
}

impl<D: Device> Loader<D, NullWork> {
    /// A loader of `samples` samples per epoch.
    ///
    /// Errors (kind `Config`): contradictory options, a state of another loader; also, not enough memory.
    pub fn null(samples: u64, options: &LoaderOptions, device: D) -> Result<Self> {
        let sampler = Sampler::new(options.rank, options.batch)?;
        if let Some(state) = &options.state {
            state.check(&order(samples, options.seed, (0, 0)))?;
        }
        let from = options.state.map_or((0, 0), |state| (state.epoch, state.consumed));
        let steps = Steps::new(sampler, samples, from, options.epochs, options.remainder)?;
        let batch = options.batch as usize;
        let layout = Arc::new(Layout::new(vec![("draws", DataType::UInt64, 8, vec![batch])])?);
        let config =
            PipelineConfig { fillers: 0, readers: 0, ahead: 1, budget: 0, mean: 0, slab: aligned(layout.bytes())? };
        let counters = options.counters.clone().unwrap_or_default();
        let work = NullWork { layout, steps, seed: options.seed, counters };
        Ok(Self { pipeline: Pipeline::new(work, steps.count, config, device, || ())? })
    }
}

fn order(samples: u64, seed: u64, (epoch, consumed): (u64, u64)) -> OrderState {
    OrderState { dataset: 0, samples, shuffle: Shuffle::Sequential, seed, epoch, consumed }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Host;
    use packhorse_order::Rank;

    #[test]
    fn samples_are_numbered_over_ranks_and_epochs() {
        let mut seen = Vec::new();
        for rank in 0..2 {
            let rank = Rank { rank, world_size: 2 };
            let options = LoaderOptions { rank, seed: 3, epochs: Some(2), ..LoaderOptions::new(4) };
            let mut loader = NullLoader::null(20, &options, Host::default()).unwrap();
            for batch in loader.by_ref() {
                let batch = batch.unwrap();
                assert_eq!(batch.rows(), 4);
                for (number, key) in batch.numbers().iter().zip(batch.integers("draws")) {
                    assert_eq!(key as u64, draw(3, batch.epoch(), *number, 0));
                    seen.push((batch.epoch(), *number));
                }
            }
            assert_eq!((loader.state().epoch, loader.state().consumed), (1, 20));
        }
        let other = OrderState { samples: 21, ..order(20, 3, (0, 0)) };
        let options = LoaderOptions { seed: 3, state: Some(other), ..LoaderOptions::new(4) };
        assert!(NullLoader::null(20, &options, Host::default()).is_err());
        seen.sort_unstable();
        assert_eq!(seen, (0..2).flat_map(|epoch| (0..16).map(move |i| (epoch, i))).collect::<Vec<_>>());
    }
}
