//! The work of the threads of a sample loader: read the samples of a step, and decode them into a slab.

use crate::batch_metadata::BatchMetadata;
use crate::device::slab;
use crate::diagnose::Meter;
use crate::epoch_order::EpochOrder;
use crate::fields::{AskedFields, Collate, CollateScratch, FieldContext, FieldOptions, chosen, columns, raw, resolve};
use crate::first_value::FirstValues;
use crate::free_slabs::FreeSlabs;
use crate::held_samples::{HeldField, HeldSamples};
use crate::isolation::Isolation;
use crate::pipeline::PipelineConfig;
use crate::readahead::Readahead;
use crate::requested_columns::Column;
use crate::shard_caches::ShardCaches;
use crate::steps::Steps;
use crate::stream::Stream;
use crate::work::Work;
use crate::{
    Batch, Dataset, Device, HostSlab, Layout, LoaderCounters, LoaderOptions, Reader, Remainder, SampleBlock, Wants,
    cores,
};
use packhorse_core::{Error, Registry, Result};
use packhorse_order::{OrderState, Rank, Sampler, Shuffle};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

/// The state shared by the threads.
pub struct SampleWork {
    pub(crate) feed: Feed,
    pub(crate) steps: Steps,
    fingerprint: u64,
    pub(crate) collate: Collate,
    remainder: Remainder,
    /// The numbers of samples to leave out, sorted.
    skip: Arc<[u64]>,
    /// The approximate bytes of ragged values per sample.
    ragged: usize,
    /// Host memory for batches that threads do not make.
    pub(crate) free: Arc<FreeSlabs<HostSlab>>,
    pub(crate) isolation: Isolation,
    /// The fields of its batches.
    asked: Vec<FieldOptions>,
    /// The samples that the device holds, and where each field comes from.
    held: Option<(Arc<HeldSamples>, Vec<HeldField>)>,
    /// What reads whole shards before their samples are wanted.
    readahead: Option<Readahead>,
    /// Used blocks, for reuse.
    bin: Mutex<Vec<SampleBlock>>,
}

/// The source of samples.
#[expect(clippy::large_enum_variant, reason = "there is one of it in a loader")]
pub(crate) enum Feed {
    /// Random access.
    Dataset { reader: Reader, near: ShardCaches, order: EpochOrder },
    /// Once, in order.
    Stream { stream: Stream, columns: Vec<Column> },
}

/// Buffers that a thread reuses between batches.
#[derive(Default)]
pub struct WorkerState {
    pub(crate) wants: Wants,
    places: Vec<(u32, u64)>,
    collate: CollateScratch,
}

/// Samples of an endless epoch.
const ENDLESS: u64 = 1 << 48;
/// The initial limit of a slab's room for ragged values, in bytes.
const FIRST: usize = 256 << 20;
/// Threads for batches of samples that the device holds, for which there is little to do.
const DESCRIBING: usize = 2;

impl SampleWork {
    /// The work of a loader of a dataset, and its pipeline settings. `meter` counts its reads.
    pub(crate) fn of_dataset(
        dataset: Dataset,
        fields: AskedFields<'_>,
        order: EpochOrder,
        fingerprint: u64,
        options: &LoaderOptions,
        meter: Option<&Meter>,
    ) -> Result<(Self, PipelineConfig)> {
        let fields = chosen(fields, dataset.schema())?;
        let dataset = dataset.reading(&columns(&fields).iter().flat_map(|column| column.0.clone()).collect());
        let from = begin(&order, fingerprint, options)?;
        let sampler = Sampler::new(options.rank, options.batch)?;
        let steps =
            Steps::new(sampler, order.samples(), from, options.epochs, options.remainder)?.shuffled(order.shuffle())?;
        let mean = usize::try_from(dataset.mean()).unwrap_or(usize::MAX);
        let counters = options.counters.clone().unwrap_or_default();
        let near = ShardCaches::new(&dataset, &options.cache, &options.observer, &counters.cache)?;
        let opener = match meter {
            Some(meter) => meter.opener(near.opener()),
            None => near.opener(),
        };
        let run = order.shuffle().run();
        let reader = Reader::with_opener(dataset, columns(&fields), options.reading(), Some(opener), run);
        let dataset = reader.dataset();
        let collate = Isolation::new(options.read.isolated).run(|| {
            let values = FirstValues { reader: &reader, on_error: options.on_error };
            let first = |column, look: &mut dyn FnMut(&[u8]) -> Result<bool>| {
                values.show(column, |value| raw(value).map_or(Ok(false), &mut *look))
            };
            let shape = |column, rank| values.usual_shape(column, rank);
            let (schema, registry) = (dataset.schema(), dataset.registry());
            let inner = |column| values.inner_length(column);
            let (shape, inner, limits) = (&shape, &inner, options.limits);
            let known = FieldContext { schema, first: &first, shape, inner, registry, limits };
            collate(&fields, &known, options, Arc::clone(&counters))
        });
        let collate = collate.map_err(|e| match (e.input(), dataset.shards().first()) {
            // All shards have the same fields, so any of them identifies the dataset.
            (None, Some(shard)) => e.in_input(&shard.name),
            _ => e,
        })?;
        let config = config(&collate, mean, options);
        let feed = Feed::Dataset { reader, near, order };
        Ok((Self { asked: fields, ..Self::new(feed, steps, fingerprint, collate, mean, options) }, config))
    }

    /// The same for a stream.
    pub(crate) fn of_stream(
        stream: Stream,
        registry: &Registry,
        fields: AskedFields<'_>,
        options: &LoaderOptions,
    ) -> Result<(Self, PipelineConfig)> {
        if options.state.is_some() {
            return Err(Error::config("a stream has no state to go on from: it is read from where it is"));
        }
        if !options.skip.is_empty() {
            return Err(Error::config("samples of a stream have no numbers, so none can be left out (`skip`)"));
        }
        let schema = stream.schema()?;
        let fields = chosen(fields, &schema)?;
        let columns = columns(&fields).to_vec();
        let sampler = Sampler::new(options.rank, options.batch)?;
        let steps = Steps::new(sampler, ENDLESS, (0, 0), Some(1), Remainder::Uneven)?;
        let collate = Isolation::new(options.read.isolated).run(|| {
            let first = |column: usize, look: &mut dyn FnMut(&[u8]) -> Result<bool>| {
                let value = columns.get(column).and_then(|column| stream.first(column));
                Ok(value.and_then(|value| look(&value).err()))
            };
            let (shape, inner, limits) = (&|_, _| Ok(None), &|_| Ok(None), options.limits);
            let known = FieldContext { schema: &schema, first: &first, shape, inner, registry, limits };
            collate(&fields, &known, options, options.counters.clone().unwrap_or_default())
        })?;
        let config = config(&collate, 0, options);
        Ok((Self::new(Feed::Stream { stream, columns }, steps, 0, collate, 0, options), config))
    }

    fn new(feed: Feed, steps: Steps, fingerprint: u64, collate: Collate, mean: usize, options: &LoaderOptions) -> Self {
        cores::look(options.threads, &options.cores, &*options.observer);
        let (remainder, ragged, free) = (options.remainder, ragged(&collate, mean), Arc::default());
        let isolation = Isolation::new(options.read.isolated);
        let skip = options.skipped();
        let (asked, held, readahead, bin) = (Vec::new(), None, None, Mutex::default());
        Self {
            feed,
            steps,
            fingerprint,
            collate,
            remainder,
            skip,
            ragged,
            free,
            isolation,
            asked,
            held,
            readahead,
            bin,
        }
    }

    /// The same for a loader whose steps come one after another.
    pub(crate) fn in_order(self, options: &LoaderOptions) -> Self {
        let Feed::Dataset { reader, .. } = &self.feed else { return self };
        let (epoch, positions) = self.steps.at(0);
        let from = (epoch, positions.start);
        let readahead = match self.is_held() {
            true => None,
            false => self.isolation.run(|| Ok(Readahead::new(options, reader, from))).ok().flatten(),
        };
        Self { readahead, ..self }
    }

    /// The same for a device that holds the samples, so that nothing is read.
    ///
    /// Errors (kind `Config`): samples of another dataset, or without one of the fields.
    pub(crate) fn of_held(self, held: Arc<HeldSamples>, config: PipelineConfig) -> Result<(Self, PipelineConfig)> {
        let Feed::Dataset { reader, .. } = &self.feed else {
            return Err(Error::unsupported("a stream is read once: no device can hold its samples before"));
        };
        let fields = held.fields(reader.dataset(), &self.asked, &self.collate)?;
        let fillers = config.fillers.min(DESCRIBING);
        let slab = HeldSamples::room(&fields, self.collate.batch);
        let config = PipelineConfig { fillers, readers: 0, ahead: fillers + DESCRIBING, slab, ..config };
        Ok((Self { held: Some((held, fields)), ..self }, config))
    }

    /// Whether a device holds the samples.
    fn is_held(&self) -> bool {
        self.held.is_some()
    }

    /// Refuses a device that does not hold what this one's device does.
    pub(crate) fn check_held(&self, held: Option<&Arc<HeldSamples>>) -> Result<()> {
        let own = self.held.as_ref().map(|(held, _)| held);
        let same = own.zip(held).map_or(own.is_none() && held.is_none(), |(own, held)| Arc::ptr_eq(own, held));
        let hint = "take its batches there: `random_access` with a device that has the same samples";
        let message = "samples that a device holds are on that device alone";
        if same { Ok(()) } else { Err(Error::config(message).hint(hint)) }
    }

    /// The fields of its batches.
    pub(crate) fn asked(&self) -> &[FieldOptions] {
        &self.asked
    }

    /// Fills `slab` with the fetched samples of a step, or returns the bytes needed.
    pub(crate) fn collate(
        &self,
        step: u64,
        fetched: &SampleBlock,
        slab: &mut [u8],
        filled: &mut BatchMetadata,
        kept: &mut WorkerState,
    ) -> Result<Option<usize>> {
        let (epoch, positions) = self.steps.at(step);
        let room = self.fill_rows(&self.collate, fetched, epoch, slab, filled, &mut kept.collate);
        let room = room.map_err(|e| match &self.feed {
            Feed::Dataset { reader, .. } => {
                let number = fetched.number_of(e.sample());
                reader.dataset().in_shard(e, number)
            }
            Feed::Stream { .. } => e,
        })?;
        (filled.epoch, filled.positions) = (epoch, positions);
        Ok(room)
    }

    /// Fills `slab` with rows, or with where the device finds them; or returns the bytes needed.
    fn fill_rows(
        &self,
        collate: &Collate,
        fetched: &SampleBlock,
        epoch: u64,
        slab: &mut [u8],
        filled: &mut BatchMetadata,
        scratch: &mut CollateScratch,
    ) -> Result<Option<usize>> {
        let Some((held, fields)) = &self.held else { return collate.fill(fetched, epoch, slab, filled, scratch) };
        held.fill((&collate.layout, fields), fetched, collate.seed, slab, filled).map(|()| None)
    }

    /// The steps that are left of an epoch of which all ranks took `consumed` samples.
    pub(crate) fn steps_left(&self, consumed: u64) -> u64 {
        match self.feed {
            Feed::Dataset { .. } => self.steps.left(consumed),
            Feed::Stream { .. } => u64::MAX,
        }
    }

    /// The batch of `rank` at step `step`, counted from the beginning of epoch 0, in a slab of `free` or of `device`.
    pub(crate) fn at<D: Device>(
        &self,
        step: u64,
        rank: Rank,
        free: &Arc<FreeSlabs<D::Host>>,
        device: &mut D,
    ) -> Result<Batch<D::Host>> {
        let Feed::Dataset { reader, order, .. } = &self.feed else {
            return Err(Error::unsupported(
                "a stream is read once and in order: none of its batches can be read again",
            ));
        };
        self.check_held(device.held().as_ref())?;
        let batch = u32::try_from(self.collate.batch).unwrap_or(u32::MAX);
        let steps = order.steps_from((0, 0), Sampler::new(rank, batch)?, self.remainder)?;
        let mut kept = WorkerState::default();
        self.isolation.run(|| {
            let fetched = self.read(reader, order, &steps, step, &mut kept)?;
            self.batch(&self.collate, fetched, steps.at(step), &mut kept, (free, device))
        })
    }

    /// A batch of these samples in memory of its own.
    pub(crate) fn batch<D: Device>(
        &self,
        collate: &Collate,
        fetched: SampleBlock,
        (epoch, positions): (u64, Range<u64>),
        kept: &mut WorkerState,
        (free, device): (&Arc<FreeSlabs<D::Host>>, &mut D),
    ) -> Result<Batch<D::Host>> {
        let mut bytes = match &self.held {
            Some((_, fields)) => HeldSamples::room(fields, collate.batch),
            None => collate.layout.bytes().saturating_add(self.ragged.saturating_mul(collate.batch).min(FIRST)),
        };
        loop {
            let mut slab = free.slab(bytes, |bytes| slab(device, bytes))?;
            let (host, filled) = (slab.host.as_mut(), &mut slab.filled);
            let room = self.fill_rows(collate, &fetched, epoch, host, filled, &mut kept.collate)?;
            if let Some(needed) = room {
                bytes = needed;
                continue;
            }
            (slab.filled.epoch, slab.filled.positions) = (epoch, positions);
            self.done(fetched);
            return Ok(Batch::new(slab, Arc::clone(&collate.layout), Arc::clone(free) as _));
        }
    }

    pub(crate) fn spare(&self) -> SampleBlock {
        self.bin.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default()
    }

    pub(crate) fn done(&self, mut fetched: SampleBlock) {
        fetched.reset();
        self.bin.lock().unwrap_or_else(PoisonError::into_inner).push(fetched);
    }

    /// Reads the samples of `step` of `steps`.
    fn read(
        &self,
        reader: &Reader,
        order: &EpochOrder,
        steps: &Steps,
        step: u64,
        kept: &mut WorkerState,
    ) -> Result<SampleBlock> {
        let WorkerState { wants, places, .. } = kept;
        places.clear();
        let mut fetched = self.spare();
        let mut epochs = std::mem::take(&mut fetched.epochs);
        epochs.clear();
        order.places_of_step(steps, step, self.remainder, places, &mut epochs)?;
        reader.dataset().leave_out(&self.skip, places, &mut epochs)?;
        match self.is_held() {
            true => {
                let numbers = places.iter().map(|(run, at)| Ok(reader.dataset().sample(*run, *at)?.2));
                fetched.numbers = numbers.collect::<Result<_>>()?;
            }
            false => reader.read_watched(places.iter().copied(), wants, &mut fetched, &*self.collate.observer)?,
        }
        fetched.epochs = epochs;
        Ok(fetched)
    }

    /// Takes this rank's samples of a step from the stream.
    fn streamed(&self, stream: &Stream, columns: &[Column], step: u64) -> Result<Option<SampleBlock>> {
        let (_, positions) = self.steps.at(step);
        let (begin, share) = (self.steps.begin_of_all(step), positions.end - positions.start);
        let before = positions.start - begin;
        let mut fetched = self.spare();
        let shares = (before, share, self.steps.step() - before - share);
        let found = stream.fetch(step, shares, columns, &mut fetched)?;
        let enough = if self.remainder == Remainder::Drop { self.steps.step() } else { 1 };
        Ok(Some(fetched).filter(|_| found >= enough))
    }
}

impl Work for SampleWork {
    type Fetched = SampleBlock;
    type Scratch = WorkerState;
    type State = OrderState;

    fn layout(&self) -> &Arc<Layout> {
        &self.collate.layout
    }

    fn counters(&self) -> &Arc<LoaderCounters> {
        &self.collate.counters
    }

    fn state(&self, steps: u64) -> OrderState {
        let (epoch, consumed) = self.steps.after(steps);
        let (shuffle, seed) = match &self.feed {
            Feed::Dataset { order, .. } => (order.shuffle(), order.seed()),
            Feed::Stream { .. } => (Shuffle::Sequential, 0),
        };
        OrderState { dataset: self.fingerprint, samples: self.steps.samples, shuffle, seed, epoch, consumed }
    }

    fn fetch(&self, step: u64, kept: &mut WorkerState) -> Result<Option<SampleBlock>> {
        let (reader, order) = match &self.feed {
            Feed::Dataset { reader, order, .. } => (reader, order),
            Feed::Stream { stream, columns } => return self.streamed(stream, columns, step),
        };
        if let Some(readahead) = &self.readahead {
            let (epoch, positions) = self.steps.at(step);
            readahead.reached((epoch, positions.start));
        }
        self.isolation.run(|| self.read(reader, order, &self.steps, step, kept).map(Some))
    }

    fn reads_ahead(&self) -> bool {
        self.readahead.is_some()
    }

    fn read_ahead(&self) {
        if let (Some(readahead), Feed::Dataset { reader, order, .. }) = (&self.readahead, &self.feed) {
            let end = self.steps.count.checked_sub(1).map_or(0, |last| self.steps.at(last).0.saturating_add(1));
            // What fails here fails in the loader too, which says so.
            let _ = self.isolation.run(|| {
                readahead.run(reader, order, end, &self.collate.counters.readahead_bytes);
                Ok(())
            });
        }
    }

    fn stop(&self) {
        if let Feed::Stream { stream, .. } = &self.feed {
            stream.stop();
        }
        if let Some(readahead) = &self.readahead {
            readahead.stop();
        }
    }

    fn weight(&self, fetched: &SampleBlock) -> usize {
        fetched.weight()
    }

    fn read_bytes(&self, fetched: &SampleBlock) -> u64 {
        fetched.read_bytes()
    }

    fn fill(
        &self,
        step: u64,
        fetched: SampleBlock,
        slab: &mut [u8],
        filled: &mut BatchMetadata,
        kept: &mut WorkerState,
    ) -> Result<Option<(usize, SampleBlock)>> {
        let room = self.isolation.run(|| self.collate(step, &fetched, slab, filled, kept));
        if let Ok(Some(bytes)) = room {
            return Ok(Some((bytes, fetched)));
        }
        self.done(fetched);
        room.map(|_| None)
    }
}

/// The epoch and position at which a loader begins.
pub(crate) fn begin(order: &EpochOrder, fingerprint: u64, options: &LoaderOptions) -> Result<(u64, u64)> {
    let Some(state) = &options.state else { return Ok((0, 0)) };
    state.check(&OrderState {
        dataset: fingerprint,
        samples: order.samples(),
        shuffle: order.shuffle(),
        seed: order.seed(),
        epoch: 0,
        consumed: 0,
    })?;
    Ok((state.epoch, state.consumed))
}

fn collate(
    fields: &[FieldOptions],
    known: &FieldContext<'_>,
    options: &LoaderOptions,
    counters: Arc<LoaderCounters>,
) -> Result<Collate> {
    let batch = options.batch as usize;
    let (fields, layout) = resolve(fields, known, batch)?;
    Ok(Collate {
        fields: fields.into(),
        layout: Arc::new(layout),
        batch,
        limits: options.limits,
        on_error: options.on_error,
        observer: Arc::clone(&options.observer),
        counters,
        seed: options.seed,
    })
}

/// The approximate bytes of ragged values per sample, where a sample has `mean` bytes: room for slightly larger batches
/// than the mean; much larger ones grow their slab.
fn ragged(collate: &Collate, mean: usize) -> usize {
    let any = collate.fields.iter().any(|field| field.ragged);
    if any { mean.saturating_add(mean / 4) } else { 0 }
}

fn config(collate: &Collate, mean: usize, options: &LoaderOptions) -> PipelineConfig {
    let values = ragged(collate, mean).saturating_mul(collate.batch).min(FIRST);
    PipelineConfig {
        fillers: options.threads,
        readers: options.readers,
        ahead: options.ahead,
        budget: options.budget,
        mean: mean.saturating_mul(collate.batch),
        slab: collate.layout.bytes().saturating_add(values).min(isize::MAX as usize),
    }
}
