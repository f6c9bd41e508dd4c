//! What another way of packing would gain: what some samples cost as they are stored, and packed that way.

use super::cut::Cut;
use super::model::Model;
use super::remedy::{Remedy, WORTH};
use super::usage::process_seconds;
use super::verdict::Bottleneck;
use super::{Diagnosis, Interval};
use crate::batch_metadata::BatchMetadata;
use crate::epoch_order::EpochOrder;
use crate::sample_work::{SampleWork, WorkerState};
use crate::work::Work as _;
use crate::{CacheOptions, Dataset, FieldOptions, LoaderOptions};
use packhorse_core::{Error, Result};
use packhorse_order::Rank;
use std::time::{Duration, Instant};

/// How long samples are loaded, each way.
const TIME: Duration = Duration::from_millis(700);
/// Rounds in which the ways take turns, after one that reads files into the page cache.
const ROUNDS: usize = 3;

impl Diagnosis {
    /// Adds the remedy `name` of packing the dataset in another way, if it is worth it. `other` is a dataset of samples
    /// packed that way, `now` has as many as they are. Both are loaded by one thread for about a second; how their costs
    /// compare is taken to hold for all samples. Returns the steps per second that are predicted; 0 where the loop waits
    /// for no data, and for iterators.
    ///
    /// Errors: those of [`Loader::new`](crate::Loader::new) and of reading; no samples (kind `Config`).
    pub fn add_packing(
        &mut self,
        name: &str,
        says: &str,
        [now, other]: [&Dataset; 2],
        fields: &[FieldOptions],
        options: &LoaderOptions,
    ) -> Result<f64> {
        let loader = self.cut(Cut::Loader).map_or(0.0, |time| time.seconds.median);
        if self.verdict.bottleneck == Bottleneck::Step || self.model.fill + self.model.fetch == 0.0 || loader == 0.0 {
            return Ok(0.0);
        }
        let mut ways = [Way::new(now, fields, options)?, Way::new(other, fields, options)?];
        for _ in 0..ROUNDS {
            ways.iter_mut().try_for_each(Way::round)?;
        }
        let [now, other] = ways.map(|way| way.cost());
        let Model { fill, fetch, fetch_cpu, near_fetch, .. } = self.model;
        // The storage takes longer for more bytes, everything else for more work.
        let work = near_fetch.unwrap_or(now.read * f64::from(options.batch)).min(fetch);
        let model = Model {
            fill: fill * ratio(other.fill, now.fill),
            fetch: work * ratio(other.read, now.read) + (fetch - work) * ratio(other.stored, now.stored),
            fetch_cpu: fetch_cpu * ratio(other.fetch, now.fetch),
            ..self.model
        };
        let says = format!(
            "{says}: samples take {:.0} % of the bytes, and {:.0} % of the time of processors to read and decode",
            100.0 * ratio(other.stored, now.stored),
            100.0 * ratio(other.fetch + other.fill, now.fetch + now.fill),
        );
        // The model is trusted for the gain alone: of small batches, what it leaves out takes the most time.
        let gain = self.model.step(self.model.workers) / model.step(model.workers).max(1e-9);
        let predicted = 1.0 / (loader / gain).max(self.model.host).max(1e-9);
        if predicted > WORTH / loader {
            self.remedies.push(Remedy { name: name.to_owned(), says, predicted, observed: None, setting: None });
            self.remedies.sort_by(|a, b| b.predicted.total_cmp(&a.predicted));
        }
        Ok(predicted)
    }
}

fn ratio(other: f64, now: f64) -> f64 {
    other.max(1e-9) / now.max(1e-9)
}

/// What a sample costs, in the mean.
struct Cost {
    /// Seconds of processors to read it, and to decode and collate it.
    fetch: f64,
    fill: f64,
    /// Seconds to read it on one thread, from the page cache.
    read: f64,
    /// Bytes in shards.
    stored: f64,
}

/// Samples that are packed in one way.
struct Way<'a> {
    dataset: &'a Dataset,
    fields: &'a [FieldOptions],
    options: LoaderOptions,
    /// Steps of a round; 0 before the first.
    steps: u64,
    fetch: Vec<f64>,
    fill: Vec<f64>,
    read: Vec<f64>,
}

impl<'a> Way<'a> {
    fn new(dataset: &'a Dataset, fields: &'a [FieldOptions], options: &LoaderOptions) -> Result<Self> {
        let batch = u32::try_from(dataset.len()).unwrap_or(u32::MAX).min(options.batch);
        if batch == 0 {
            return Err(Error::config("has no samples"));
        }
        // All of them, as they lie on the disk.
        let (rank, cache) = (Rank::default(), CacheOptions::default());
        let options =
            LoaderOptions { batch, rank, cache, epochs: None, state: None, counters: None, ..options.clone() };
        let (fetch, fill, read) = (Vec::new(), Vec::new(), Vec::new());
        let mut made = Self { dataset, fields, options, steps: 0, fetch, fill, read };
        made.round()?;
        for times in [&mut made.fetch, &mut made.fill, &mut made.read] {
            times.clear();
        }
        Ok(made)
    }

    /// Loads the same samples as in the rounds before, with nothing kept in memory.
    fn round(&mut self) -> Result<()> {
        let order = EpochOrder::of(self.dataset, &self.options)?;
        let work = SampleWork::of_dataset(self.dataset.clone(), (self.fields, &[]), order, 0, &self.options, None)?.0;
        let (mut kept, mut slab, mut filled) = (WorkerState::default(), Vec::new(), BatchMetadata::default());
        let (mut fetch, mut fill, mut read, mut done, start) = (0.0, 0.0, Duration::ZERO, 0u64, Instant::now());
        let more = |done: u64| if self.steps == 0 { start.elapsed() < TIME / 4 } else { done < self.steps };
        while done < work.steps.in_first && (done == 0 || more(done)) {
            let (start, at) = (process_seconds(), Instant::now());
            let Some(block) = work.fetch(done, &mut kept)? else { break };
            read += at.elapsed();
            let fetched = process_seconds();
            while let Some(room) =
                work.isolation.run(|| work.collate(done, &block, &mut slab, &mut filled, &mut kept))?
            {
                slab.resize(room, 0);
            }
            (fetch, fill, done) = (fetch + fetched - start, fill + process_seconds() - fetched, done + 1);
            work.done(block);
        }
        let samples = (done.max(1) * u64::from(self.options.batch)) as f64;
        self.steps = done;
        self.fetch.push(fetch / samples);
        self.fill.push(fill / samples);
        self.read.push(read.as_secs_f64() / samples);
        Ok(())
    }

    fn cost(&self) -> Cost {
        let median = |times: &[f64]| Interval::of(times).median;
        let stored = self.dataset.mean() as f64;
        Cost { fetch: median(&self.fetch), fill: median(&self.fill), read: median(&self.read), stored }
    }
}
