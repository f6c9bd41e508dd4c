//! Batches of samples, in an order that is a function of seed, epoch and position alone.

use crate::arrangement::Arrangement;
use crate::batch::Filled;
use crate::cache::RamCounters;
use crate::fields::{Collate, FieldOptions, Scratch, all, settle};
use crate::near::Near;
use crate::pipeline::{Crew, Pipeline};
use crate::steps::Steps;
use crate::work::Work;
use crate::{Dataset, Device, Fetched, Layout, LoaderOptions, Reader, Remainder, Wants, cores};
use packhorse_core::{Error, Event, Result};
use packhorse_order::{OrderState, Sampler};
use std::sync::{Arc, Mutex, PoisonError};

/// The batches of one rank, in order. What is in them depends neither on the number of threads, nor on how far ahead they
/// are filled, nor on caches or where the shards lie. After an error the next call gives the next batch.
pub struct Loader<D: Device> {
    pipeline: Pipeline<D, Samples>,
}

/// What the threads of a loader share.
pub(crate) struct Samples {
    pub(crate) reader: Reader,
    near: Near,
    arrangement: Arrangement,
    pub(crate) steps: Steps,
    collate: Collate,
    remainder: Remainder,
    fingerprint: u64,
    /// What was fetched and used up, to be used again.
    bin: Mutex<Vec<Fetched>>,
}

/// What a thread keeps from batch to batch.
#[derive(Default)]
pub(crate) struct Kept {
    wants: Wants,
    places: Vec<(u32, u64)>,
    collate: Scratch,
}

impl<D: Device> Loader<D> {
    /// A loader of these fields of a dataset; of all its fields if there are none.
    ///
    /// Errors (kind `Config`): fields that are not there or can't be made so, options that make no sense together, a state of
    /// another dataset or order. A shard that can't be read where the first sample is looked at; memory or threads that the
    /// system does not give.
    pub fn new(dataset: Dataset, fields: &[FieldOptions], options: &LoaderOptions, device: D) -> Result<Self> {
        let arrangement = Arrangement::new(dataset.counts(), options.shuffle, options.seed)?;
        let fingerprint = dataset.fingerprint();
        Self::arranged(dataset, fields, arrangement, fingerprint, options, device)
    }

    /// A loader of several datasets in turn, each as often as its weight says among all weights. An epoch has `samples`
    /// samples; a dataset that is through starts over, shuffled anew.
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
        let counts = all.iter().map(Dataset::counts).collect();
        let arrangement = Arrangement::mixed(counts, &weights, samples, options.shuffle, options.seed)?;
        let dataset = Dataset::concat(&all)?;
        let shares = weights.iter().fold(dataset.fingerprint(), |mark, weight| mark.rotate_left(7) ^ weight.to_bits());
        Self::arranged(dataset, fields, arrangement, shares, options, device)
    }

    fn arranged(
        dataset: Dataset,
        fields: &[FieldOptions],
        arrangement: Arrangement,
        fingerprint: u64,
        options: &LoaderOptions,
        device: D,
    ) -> Result<Self> {
        let (work, crew) = Samples::new(dataset, fields, arrangement, fingerprint, options)?;
        let (bound, observer) = (options.cores.clone(), Arc::clone(&options.observer));
        let prepare = move || {
            if let Err(error) = cores::bind(&bound) {
                observer.event(&Event::Warning(&error.to_string()));
            }
        };
        let steps = work.steps.count;
        Ok(Self { pipeline: Pipeline::new(work, steps, crew, device, prepare)? })
    }

    /// Where the fields of every batch are.
    pub fn layout(&self) -> &Arc<Layout> {
        self.pipeline.work().layout()
    }

    /// What is read.
    pub fn dataset(&self) -> &Dataset {
        self.pipeline.work().reader.dataset()
    }

    /// Samples of an epoch, of all ranks.
    pub fn samples(&self) -> u64 {
        self.pipeline.work().arrangement.samples()
    }

    /// Batches that are left; `u64::MAX` and fewer if there is no end.
    pub fn remaining(&self) -> u64 {
        self.pipeline.remaining()
    }

    /// What the cache in memory did so far, if there is one.
    pub fn ram(&self) -> Option<RamCounters> {
        self.pipeline.work().near.counters()
    }

    /// Where to go on after the batches that were taken: [`LoaderOptions::state`] of another loader, which may have
    /// other ranks and batches. Every rank has the same after as many batches.
    pub fn state(&self) -> OrderState {
        let Samples { arrangement, steps, fingerprint, .. } = self.pipeline.work();
        let (epoch, consumed) = steps.after(self.pipeline.taken());
        OrderState {
            dataset: *fingerprint,
            samples: arrangement.samples(),
            shuffle: arrangement.shuffle(),
            seed: arrangement.seed(),
            epoch,
            consumed,
        }
    }
}

/// Where a loader begins.
fn begin(arrangement: &Arrangement, fingerprint: u64, options: &LoaderOptions) -> Result<(u64, u64)> {
    let Some(state) = &options.state else { return Ok((0, 0)) };
    state.check(&OrderState {
        dataset: fingerprint,
        samples: arrangement.samples(),
        shuffle: arrangement.shuffle(),
        seed: arrangement.seed(),
        epoch: 0,
        consumed: 0,
    })?;
    Ok((state.epoch, state.consumed))
}

fn crew(collate: &Collate, mean: usize, options: &LoaderOptions) -> Crew {
    let ragged = collate.fields.iter().any(|field| field.ragged);
    // Room for batches that are a little larger than most; those that are much larger enlarge their slab.
    let values = if ragged { mean.saturating_add(mean / 4) } else { 0 };
    Crew {
        fillers: options.threads,
        readers: options.readers,
        ahead: options.ahead.max(options.threads),
        budget: options.budget,
        mean,
        slab: collate.layout.bytes().saturating_add(values).min(isize::MAX as usize),
    }
}

impl Samples {
    /// What a loader works on, and with how many hands.
    pub(crate) fn new(
        dataset: Dataset,
        fields: &[FieldOptions],
        arrangement: Arrangement,
        fingerprint: u64,
        options: &LoaderOptions,
    ) -> Result<(Self, Crew)> {
        let fields = if fields.is_empty() { all(&dataset) } else { fields.to_vec() };
        if fields.is_empty() {
            return Err(Error::config("the dataset has no fields"));
        }
        let sampler = Sampler::new(options.place.rank, options.place.ranks, options.batch)?;
        let from = begin(&arrangement, fingerprint, options)?;
        let steps = Steps::new(sampler, arrangement.samples(), from, options.epochs, options.remainder)?;
        let columns = fields.iter().map(|field| field.from.clone()).collect();
        let mean = dataset.bytes() / dataset.len().max(1) * u64::from(options.batch);
        let near = Near::new(&dataset, &options.cache, &options.observer)?;
        let reader = Reader::with_opener(dataset, columns, options.read.clone(), near.opener());
        let batch = options.batch as usize;
        let (settled, layout) = settle(&fields, &reader, reader.dataset().registry(), options.limits, batch)?;
        let collate = Collate {
            layout: Arc::new(layout),
            batch,
            limits: options.limits,
            on_error: options.on_error,
            observer: Arc::clone(&options.observer),
            seed: options.seed,
            fields: settled,
        };
        let crew = crew(&collate, usize::try_from(mean).unwrap_or(usize::MAX), options);
        cores::look(crew.fillers, &options.cores, &*options.observer);
        let (remainder, bin) = (options.remainder, Mutex::default());
        Ok((Self { reader, near, arrangement, steps, collate, remainder, fingerprint, bin }, crew))
    }

    /// Fills `slab` with what was fetched for a step, or says how many bytes that takes.
    pub(crate) fn collate(
        &self,
        step: u64,
        fetched: &Fetched,
        slab: &mut [u8],
        filled: &mut Filled,
        kept: &mut Kept,
    ) -> Result<Option<usize>> {
        let (epoch, positions) = self.steps.at(step);
        let room = self.collate.fill(fetched, epoch, slab, filled, &mut kept.collate)?;
        (filled.epoch, filled.positions) = (epoch, positions);
        Ok(room)
    }

    fn spare(&self) -> Fetched {
        self.bin.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default()
    }

    pub(crate) fn done(&self, fetched: Fetched) {
        self.bin.lock().unwrap_or_else(PoisonError::into_inner).push(fetched);
    }
}

impl Work for Samples {
    type Fetched = Fetched;
    type Scratch = Kept;

    fn layout(&self) -> &Arc<Layout> {
        &self.collate.layout
    }

    fn fetch(&self, step: u64, kept: &mut Kept) -> Result<Fetched> {
        let (epoch, positions) = self.steps.at(step);
        let positions = match self.remainder {
            Remainder::Pad => {
                let begin = self.steps.begin(step);
                begin..begin.saturating_add(self.collate.batch as u64)
            }
            _ => positions,
        };
        let Kept { wants, places, .. } = kept;
        places.clear();
        self.arrangement.places(epoch, positions, places)?;
        let mut fetched = self.spare();
        self.reader.read_places(places.iter().copied(), wants, &mut fetched)?;
        Ok(fetched)
    }

    fn weight(&self, fetched: &Fetched) -> usize {
        fetched.weight()
    }

    fn fill(
        &self,
        step: u64,
        fetched: Fetched,
        slab: &mut [u8],
        filled: &mut Filled,
        kept: &mut Kept,
    ) -> Result<Option<(usize, Fetched)>> {
        let room = self.collate(step, &fetched, slab, filled, kept);
        if let Ok(Some(bytes)) = room {
            return Ok(Some((bytes, fetched)));
        }
        self.done(fetched);
        room.map(|_| None)
    }
}

impl<D: Device> Iterator for Loader<D> {
    type Item = Result<D::Batch>;

    fn next(&mut self) -> Option<Self::Item> {
        self.pipeline.next()
    }
}
