//! Batches of samples, in an order that is a function of seed, epoch and position alone.

use crate::cache::RamCounters;
use crate::epoch_order::EpochOrder;
use crate::fields::FieldOptions;
use crate::pipeline::{Pipeline, PipelineConfig};
use crate::sample_work::{Feed, SampleWork};
use crate::stream::Stream;
use crate::work::Work;
use crate::{
    Batch, Batches, Dataset, Device, Host, HostSlab, Layout, LoaderCounters, LoaderOptions, LoaderStats, Next,
    RandomAccess, cores,
};
use packhorse_core::{Code, Error, Event, Input, Options, Registry, Result};
use packhorse_order::{OrderState, Rank};
use std::sync::Arc;
use std::time::Duration;

/// The batches of one rank, in order. Their content does not depend on the number of threads, on how far ahead they are
/// filled, on caches or on the location of the shards. After an error the next call returns the next batch.
///
/// This one reads samples; [`TokenLoader`](crate::TokenLoader) and [`NullLoader`](crate::NullLoader) differ in the `W` that fills
/// batches.
pub struct Loader<D: Device, W: Work = SampleWork> {
    pub(crate) pipeline: Pipeline<D, W>,
}

/// Refuses a state from before samples were added to the dataset.
fn refuse_older(state: &OrderState, dataset: &Dataset) -> Result<()> {
    let (then, now) = (state.samples, dataset.len());
    if then == 0 || then >= now || dataset.take(then)?.fingerprint() != state.dataset {
        return Ok(());
    }
    let message = format!("the state is of the first {then} samples, and the dataset has {now}");
    let hint = format!(
        "take the split that the state is of; if samples were added since, take({then}) of the dataset goes on with those before, and without \
         the state a new epoch has all"
    );
    Err(Error::config(message).with_code(Code::StateDiffers).hint(hint))
}

impl<D: Device> Loader<D> {
    /// A loader of these fields of a dataset; of all its fields if `fields` is empty.
    ///
    /// Errors (kind `Config`): missing fields or impossible conversions, contradictory options, a state of another
    /// dataset or order. Also: a shard that can't be read to inspect the first sample; not enough memory or threads.
    pub fn new(dataset: Dataset, fields: &[FieldOptions], options: &LoaderOptions, device: D) -> Result<Self> {
        let order = EpochOrder::of(&dataset, options)?;
        let fingerprint = dataset.fingerprint();
        if let Some(state) = &options.state {
            refuse_older(state, &dataset)?;
        }
        let (work, config) =
            SampleWork::of_dataset(dataset, (fields, &device.needs()), order, fingerprint, options, None)?;
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
        let dataset = Dataset::concat(&all)?;
        let shuffle = options.shuffle.unwrap_or_else(|| dataset.default_shuffle());
        let order = EpochOrder::mixed(&runs, &weights, samples, shuffle, options.seed)?;
        let marked = |mark: u64, (dataset, weight): &(Dataset, f64)| {
            mark.rotate_left(7) ^ weight.to_bits() ^ dataset.len().wrapping_mul(0x9E37_79B9_7F4A_7C15)
        };
        let mark = datasets.iter().fold(!dataset.fingerprint(), marked);
        let work = SampleWork::of_dataset(dataset, (fields, &device.needs()), order, mark, options, None);
        let (work, config) = work.map_err(|error| match error.code() {
            Code::StateDiffers => {
                error.hint("a state of a mix needs the same datasets, in the same order, with the same weights")
            }
            _ => error,
        })?;
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
        let stream = Stream::start(source, input, options.read.isolated)?;
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
        let (work, config) = match device.held() {
            Some(held) => work.of_held(held, config)?,
            None => (work, config),
        };
        let work = work.in_order(options);
        let steps = work.steps.count;
        Ok(Self { pipeline: Pipeline::new(work, steps, config, device, prepare)? })
    }

    /// The batch that `rank` takes at step `step`, counted from the beginning of epoch 0 through all epochs, in host
    /// memory: with the dataset, order, seed, batch size and remainder of this loader, what a loader of that rank returns
    /// that began at step 0. Equal in all fields, keys and numbers.
    ///
    /// It is computed from the step, however far that is, also past the end of this loader, whose threads it does not
    /// disturb. Several threads may call it, but not tasks of a rayon pool: decoding runs tasks of its own on the pool, and two that
    /// need one block of rows could wait for each other.
    ///
    /// Errors: a rank that is not below its world size, fewer samples than a step, samples that a device
    /// [holds](Device::held), which are not in host memory (kind `Config`); a stream, which can't be read again (`Unsupported`); the errors of the batch itself.
    pub fn at(&self, step: u64, rank: Rank) -> Result<Batch<HostSlab>> {
        let work = self.pipeline.work();
        work.at(step, rank, &work.free, &mut Host::default())
    }

    /// The same batches on any device, also after this loader has moved to an [`Ahead`](crate::Ahead) or is gone. They
    /// share the caches and the shards that are open.
    ///
    /// Errors: fields that the device needs and this loader's batches lack (kind `Config`); those of
    /// [`Device::prepare`].
    pub fn random_access<E: Device>(&self, device: E) -> Result<RandomAccess<E>> {
        RandomAccess::new(Arc::clone(self.pipeline.work()), device)
    }

    /// The fields of its batches, as they were asked for; all that the samples have if none was. A stream does not tell.
    pub fn fields(&self) -> &[FieldOptions] {
        self.pipeline.work().asked()
    }

    /// The number of steps of a whole epoch with the world size of this loader; `u64::MAX` for a stream.
    pub fn steps_per_epoch(&self) -> u64 {
        self.pipeline.work().steps_left(0)
    }

    /// The number of steps that are left of the epoch of `state`, which is of the order of this loader: 0 at its end.
    /// `u64::MAX` for a stream.
    pub fn remaining_in_epoch(&self, state: &OrderState) -> u64 {
        self.pipeline.work().steps_left(state.consumed)
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
    /// The next batch, if it is there within `wait`: for callers that must look at something else meanwhile, such as
    /// signals. Without threads of its own, the loader fills the batch on this one first, however long that takes.
    ///
    /// ```
    /// use packhorse_core::Result;
    /// use packhorse_read::{Host, Loader, Next};
    /// use std::time::Duration;
    ///
    /// fn count(mut loader: Loader<Host>, stop: impl Fn() -> bool) -> Result<usize> {
    ///     let mut rows = 0;
    ///     while !stop() {
    ///         match loader.next_within(Duration::from_millis(100)) {
    ///             Next::Batch(batch) => rows += batch?.rows(),
    ///             Next::NotYet => {}
    ///             Next::End => break,
    ///         }
    ///     }
    ///     Ok(rows)
    /// }
    /// ```
    pub fn next_within(&mut self, wait: Duration) -> Next<D::Batch> {
        self.pipeline.next(Some(wait))
    }

    /// What the loader has done so far, and who waited for whom.
    ///
    /// ```
    /// use packhorse_core::Result;
    /// use packhorse_read::{Host, Loader};
    ///
    /// fn share_of_waiting(mut loader: Loader<Host>) -> Result<f64> {
    ///     let start = std::time::Instant::now();
    ///     loader.by_ref().try_for_each(|batch| batch.map(drop))?;
    ///     Ok(loader.stats().wait.as_secs_f64() / start.elapsed().as_secs_f64())
    /// }
    /// ```
    pub fn stats(&self) -> LoaderStats {
        self.pipeline.counters().stats()
    }

    /// The counters behind [`stats`](Loader::stats), to look at from another thread.
    pub fn counters(&self) -> Arc<LoaderCounters> {
        Arc::clone(self.pipeline.counters())
    }

    /// The layout of every batch.
    pub fn layout(&self) -> &Arc<Layout> {
        self.pipeline.work().layout()
    }

    /// The number of remaining batches. An endless loader, or one of a stream, returns about `u64::MAX`.
    pub fn remaining(&self) -> u64 {
        self.pipeline.remaining()
    }

    /// The state after the batches taken so far: an [`OrderState`](packhorse_order::OrderState) of a loader of samples, a
    /// [`TokenState`](crate::TokenState) of one of tokens. Another loader can resume from it, with any world size and batch size.
    /// Every rank has the same state after the same number of batches. The state of a stream only says how much of it
    /// was taken; no loader can resume from it.
    pub fn state(&self) -> W::State {
        self.pipeline.work().state(self.pipeline.taken())
    }
}

impl<D: Device, W: Work> Iterator for Loader<D, W> {
    type Item = Result<D::Batch>;

    fn next(&mut self) -> Option<Self::Item> {
        self.pipeline.next(None).item()
    }
}

impl<D: Device, W: Work> Batches for Loader<D, W> {
    type Batch = D::Batch;
    type State = W::State;

    fn state(&self) -> W::State {
        Loader::state(self)
    }

    fn take_ahead(&mut self) -> Option<Arc<LoaderCounters>> {
        self.pipeline.take_ahead();
        Some(self.counters())
    }

    fn last_size(&self) -> (u64, u64) {
        self.pipeline.last_size()
    }

    fn stopper(&self) -> Box<dyn Fn() + Send + Sync> {
        self.pipeline.stopper()
    }
}

impl<D: Device, W: Work> std::fmt::Debug for Loader<D, W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (taken, remaining) = (self.pipeline.taken(), self.remaining());
        f.debug_struct("Loader").field("taken", &taken).field("remaining", &remaining).finish_non_exhaustive()
    }
}
