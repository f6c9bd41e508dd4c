//! Batches of samples, in an order that is a function of seed, epoch and position alone.

use crate::cache::RamCounters;
use crate::epoch_order::EpochOrder;
use crate::fields::FieldOptions;
use crate::pipeline::{Pipeline, PipelineConfig};
use crate::sample_work::{Feed, SampleWork};
use crate::stream::Stream;
use crate::work::Work;
use crate::{Batches, Dataset, Device, Layout, LoaderOptions, cores};
use packhorse_core::{Event, Input, Options, Registry, Result};
use std::sync::Arc;

/// The batches of one rank, in order. Their content does not depend on the number of threads, on how far ahead they are
/// filled, on caches or on the location of the shards. After an error the next call returns the next batch.
///
/// This one reads samples; [`TokenLoader`](crate::TokenLoader) and [`NullLoader`](crate::NullLoader) differ in the `W` that fills
/// batches.
pub struct Loader<D: Device, W: Work = SampleWork> {
    pub(crate) pipeline: Pipeline<D, W>,
}

impl<D: Device> Loader<D> {
    /// A loader of these fields of a dataset; of all its fields if `fields` is empty.
    ///
    /// Errors (kind `Config`): missing fields or impossible conversions, contradictory options, a state of another
    /// dataset or order. Also: a shard that can't be read to inspect the first sample; not enough memory or threads.
    pub fn new(dataset: Dataset, fields: &[FieldOptions], options: &LoaderOptions, device: D) -> Result<Self> {
        let order = EpochOrder::new(dataset.runs(), options.shuffle, options.seed)?;
        let fingerprint = dataset.fingerprint();
        let (work, config) = SampleWork::of_dataset(dataset, (fields, &device.needs()), order, fingerprint, options)?;
        Self::start(work, config, options, device)
    }

    /// A loader of several interleaved datasets, each in proportion to its weight. An epoch has `samples` samples; a
    /// dataset at its end starts over with another shuffle.
    ///
    /// Errors: as for [`Loader::new`]; a weight that is not above 0, or too small for one sample in 16,384.
    pub fn mixed(
        datasets: &[(Dataset, f64)],
        samples: u64,
        fields: &[FieldOptions],
        options: &LoaderOptions,
        device: D,
    ) -> Result<Self> {
        let all: Vec<Dataset> = datasets.iter().map(|(dataset, _)| dataset.clone()).collect();
        let weights: Vec<f64> = datasets.iter().map(|(_, weight)| *weight).collect();
        let runs: Vec<_> = all.iter().map(Dataset::runs).collect();
        let order = EpochOrder::mixed(&runs, &weights, samples, options.shuffle, options.seed)?;
        let dataset = Dataset::concat(&all)?;
        let mark = weights.iter().fold(dataset.fingerprint(), |mark, weight| mark.rotate_left(7) ^ weight.to_bits());
        let (work, config) = SampleWork::of_dataset(dataset, (fields, &device.needs()), order, mark, options)?;
        Self::start(work, config, options, device)
    }

    /// A loader of the samples of one container of the format `format`, in stored order, from a [`Pipe`](crate::Pipe)
    /// or a compressed file. Shuffle, epochs, caches and state don't apply. Ranks that read the same bytes share the
    /// samples as usual, and samples that don't fill a last step are dropped or make smaller batches. Without `fields`,
    /// all fields of the first block are read.
    ///
    /// Errors: as for [`Loader::new`]; a format that can't be read in order; no samples.
    pub fn stream(
        registry: &Registry,
        format: &str,
        input: Box<dyn Input>,
        fields: &[FieldOptions],
        options: &LoaderOptions,
        device: D,
    ) -> Result<Self> {
        let source = registry.get(format)?.source(&Options::new(), options.limits)?;
        let stream = Stream::start(source, input)?;
        let (work, config) = SampleWork::of_stream(stream, registry, (fields, &device.needs()), options)?;
        Self::start(work, config, options, device)
    }

    fn start(work: SampleWork, config: PipelineConfig, options: &LoaderOptions, device: D) -> Result<Self> {
        let (bound, observer) = (options.cores.clone(), Arc::clone(&options.observer));
        let prepare = move || {
            if let Err(error) = cores::bind(&bound) {
                observer.event(&Event::Warning(&error.to_string()));
            }
        };
        let steps = work.steps.count;
        Ok(Self { pipeline: Pipeline::new(work, steps, config, device, prepare)? })
    }

    /// The counters of the cache in memory, if there is one.
    pub fn ram(&self) -> Option<RamCounters> {
        match &self.pipeline.work().feed {
            Feed::Dataset { near, .. } => near.counters(),
            Feed::Stream { .. } => None,
        }
    }
}

impl<D: Device, W: Work> Loader<D, W> {
    /// The layout of every batch.
    pub fn layout(&self) -> &Arc<Layout> {
        self.pipeline.work().layout()
    }

    /// The number of remaining batches. An endless loader, or one of a stream, returns about `u64::MAX`.
    pub fn remaining(&self) -> u64 {
        self.pipeline.remaining()
    }

    /// The state after the batches taken so far. Another loader can resume from it, with any world size and batch size.
    /// Every rank has the same state after the same number of batches. The state of a stream only says how much of it
    /// was taken; no loader can resume from it.
    pub fn state(&self) -> W::State {
        self.pipeline.work().state(self.pipeline.taken())
    }
}

impl<D: Device, W: Work> Iterator for Loader<D, W> {
    type Item = Result<D::Batch>;

    fn next(&mut self) -> Option<Self::Item> {
        self.pipeline.next()
    }
}

impl<D: Device, W: Work> Batches for Loader<D, W> {
    type Batch = D::Batch;
    type State = W::State;

    fn state(&self) -> W::State {
        Loader::state(self)
    }

    fn stopper(&self) -> Box<dyn Fn() + Send + Sync> {
        self.pipeline.stopper()
    }
}
