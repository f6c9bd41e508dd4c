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

/// The batches of one rank, in order. What is in them depends neither on the number of threads, nor on how far ahead they
/// are filled, nor on caches or where the shards lie. After an error the next call gives the next batch.
///
/// This one reads samples; [`TokenLoader`](crate::TokenLoader) and [`NullLoader`](crate::NullLoader) differ in the `W` that fills
/// batches.
pub struct Loader<D: Device, W: Work = SampleWork> {
    pub(crate) pipeline: Pipeline<D, W>,
}

impl<D: Device> Loader<D> {
    /// A loader of these fields of a dataset; of all its fields if there are none.
    ///
    /// Errors (kind `Config`): fields that are not there or can't be made so, options that make no sense together, a state of
    /// another dataset or order. A shard that can't be read where the first sample is looked at; memory or threads that the
    /// system does not give.
    pub fn new(dataset: Dataset, fields: &[FieldOptions], options: &LoaderOptions, device: D) -> Result<Self> {
        let order = EpochOrder::new(dataset.runs(), options.shuffle, options.seed)?;
        let fingerprint = dataset.fingerprint();
        let (work, config) = SampleWork::of_dataset(dataset, (fields, &device.needs()), order, fingerprint, options)?;
        Self::start(work, config, options, device)
    }

    /// A loader of several datasets in turn, each as often as its weight says among all weights. An epoch has `samples`
    /// samples; a dataset at its end starts over with another shuffle.
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

    /// A loader of the samples of one container of the format `format`, in the order in which they come: of a
    /// [`Pipe`](crate::Pipe), or of a compressed file. Shuffle, epochs, caches and state have no meaning here; ranks that are
    /// given the same bytes share them as always, and samples that don't fill a last step are dropped or make smaller
    /// batches. If no fields are given, those of the first block are meant.
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

    /// What is read; `None` for a stream.
    pub fn dataset(&self) -> Option<&Dataset> {
        match &self.pipeline.work().feed {
            Feed::Dataset { reader, .. } => Some(reader.dataset()),
            Feed::Stream { .. } => None,
        }
    }

    /// What the cache in memory did so far, if there is one.
    pub fn ram(&self) -> Option<RamCounters> {
        match &self.pipeline.work().feed {
            Feed::Dataset { near, .. } => near.counters(),
            Feed::Stream { .. } => None,
        }
    }
}

impl<D: Device, W: Work> Loader<D, W> {
    /// Where the fields of every batch are.
    pub fn layout(&self) -> &Arc<Layout> {
        self.pipeline.work().layout()
    }

    /// Batches that are left. A loader without an end, or of a stream, has about `u64::MAX`.
    pub fn remaining(&self) -> u64 {
        self.pipeline.remaining()
    }

    /// Where to go on after the batches that were taken: for another loader, which may have another world size and batch size.
    /// Every rank has the same state after the same number of batches. The state of a stream says how much of it was taken, and
    /// no loader can go on from it.
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
