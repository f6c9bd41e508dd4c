//! Measures all cuts in turns.

use super::clock::{Pace, Slice, TrainingStep, run};
use super::cut::Cut;
use super::cut_work::{CutWork, Served, Spent};
use super::evict::evict;
use super::held::HeldBatches;
use super::interval::Interval;
use super::meter::Meter;
use super::model::Model;
use super::usage::allowed;
use super::verdict::{Evidence, verdict};
use super::{CutTime, DiagnoseOptions, Diagnosis, TrainingLoop, alternatives, remedy};
use crate::epoch_order::EpochOrder;
use crate::pipeline::{Pipeline, PipelineConfig};
use crate::sample_work::{Feed, SampleWork, WorkerState};
use crate::work::Work as _;
use crate::{Dataset, Device, FieldOptions, LoaderOptions, Next, cores};
use packhorse_core::{Error, Result};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread::ScopedJoinHandle;
use std::time::Instant;

/// A loader that can be cut anywhere.
pub(super) struct Rig {
    pub(super) work: Arc<SampleWork>,
    pub(super) held: Arc<HeldBatches>,
    config: PipelineConfig,
    meter: Meter,
    cores: Vec<usize>,
    cursor: Cursor,
    /// Bytes that the device has free for samples.
    pub(super) room: Option<u64>,
}

/// The first step that no measurement of a diagnosis has read yet: files are in the page cache once they were.
#[derive(Clone, Default)]
pub(super) struct Cursor(Arc<AtomicU64>);

impl Cursor {
    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn pass(&self, steps: u64) {
        self.0.fetch_add(steps, Ordering::Relaxed);
    }
}

impl Rig {
    /// `held` is made, unless it is given: of the same fields and order.
    pub(super) fn new<D: Device>(
        dataset: &Dataset,
        fields: &[FieldOptions],
        options: &LoaderOptions,
        device: &D,
        held: Option<Arc<HeldBatches>>,
        cursor: &Cursor,
    ) -> Result<Self> {
        if device.held().is_some() {
            return Err(Error::unsupported(
                "samples that the device holds are not loaded: there is nothing to diagnose",
            ));
        }
        let options = LoaderOptions { epochs: None, state: None, ..options.clone() };
        let order = EpochOrder::of(dataset, &options)?;
        let (meter, needs) = (Meter::default(), device.needs());
        let (work, config) =
            SampleWork::of_dataset(dataset.clone(), (fields, &needs), order, 0, &options, Some(&meter))?;
        let held = held.map_or_else(|| HeldBatches::new(&work, dataset).map(Arc::new), Ok)?;
        let room = device.room();
        Ok(Self { work: Arc::new(work), held, config, meter, cores: options.cores, cursor: cursor.clone(), room })
    }

    fn pipeline<D: Device + 'static>(
        &self,
        device: D,
        served: Served,
        spent: &Arc<Spent>,
    ) -> Result<Pipeline<D, CutWork>> {
        let (work, held) = (Arc::clone(&self.work), Arc::clone(&self.held));
        let work = CutWork { work, held, served, spent: Arc::clone(spent) };
        let readers = if served.reads() { self.config.readers } else { 0 };
        // Only bytes that are read for the first time tell of the storage.
        self.meter.set(matches!(served, Served::Loader { .. }));
        let cores = self.cores.clone();
        // A loader that can't be bound warns; its cuts are as unbound as it is.
        let bind = move || drop(cores::bind(&cores));
        Pipeline::new(work, u64::MAX, PipelineConfig { readers, ..self.config }, device, bind)
    }

    /// Batches until the threads, which begin at once, are out of step, and all slabs were written to.
    fn warm(&self) -> u64 {
        self.config.ahead.max(self.config.fillers).max(1) as u64 + 1
    }

    /// Batches that may be under way when the last one is taken.
    fn under_way(&self) -> u64 {
        let PipelineConfig { ahead, fillers, readers, .. } = self.config;
        (ahead.max(fillers) + ahead.max(readers) + fillers) as u64
    }

    /// Measures batches of `served`.
    pub(super) fn batches<D: Device + 'static>(
        &mut self,
        device: D,
        served: Served,
        pace: &Pace,
        spent: &Arc<Spent>,
        step: &mut dyn TrainingStep<D::Batch>,
    ) -> Result<Slice> {
        let mut pipeline = self.pipeline(device, served, spent)?;
        let pace = Pace { warm: pace.warm.max(self.warm()), ..pace.clone() };
        let mut next = || pipeline.next(None).item().transpose();
        let slice = run::<D::Batch, D::Batch>(&pace, &mut next, step)?;
        self.passed(served, pace.warm + slice.steps);
        Ok(slice)
    }

    /// The steps of a measurement of the loader are not read again.
    fn passed(&mut self, served: Served, steps: u64) {
        if matches!(served, Served::Loader { .. }) {
            self.cursor.pass(steps + self.under_way());
        }
    }

    /// The next steps of the loader.
    pub(super) fn fresh(&self) -> Served {
        Served::Loader { from: self.cursor.get() }
    }

    /// So many next steps of the loader, again and again.
    pub(super) fn repeated(&self, steps: u64) -> Served {
        let from = self.cursor.get();
        self.cursor.pass(steps);
        Served::Repeated { from, steps }
    }

    /// Steps on batches of the device, while the loader fills others as fast as they are used.
    fn beside<D: Device + 'static>(
        &mut self,
        device: D,
        batches: &[D::Batch],
        pace: &Pace,
        spent: &Arc<Spent>,
        step: &mut dyn TrainingStep<D::Batch>,
    ) -> Result<Slice> {
        let mut pipeline = self.pipeline(device, self.fresh(), spent)?;
        let (used, use_one) = sync_channel::<()>(1);
        let slice = std::thread::scope(|scope| {
            let taker = scope.spawn(move || {
                for () in use_one {
                    match pipeline.next(None) {
                        Next::Batch(batch) => drop(batch?),
                        Next::NotYet | Next::End => break,
                    }
                }
                Ok(())
            });
            let mut held = batches.iter().cycle();
            let mut next = || {
                // Where the loader is late already, it need not hurry more.
                let _ = used.try_send(());
                Ok(held.next())
            };
            let pace = Pace { warm: self.warm(), ..pace.clone() };
            let slice = run::<D::Batch, &D::Batch>(&pace, &mut next, step);
            drop(used);
            let taken: Result<()> = taker.join().unwrap_or_else(|_| Err(Error::bug("the loader beside panicked")));
            taken.and(slice)
        })?;
        self.passed(self.fresh(), self.warm() + slice.steps);
        Ok(slice)
    }

    /// Seconds per batch of reading alone, on so many threads.
    pub(super) fn read_alone(&self, threads: usize) -> Result<f64> {
        let (from, steps) = (self.cursor.get(), 2 * threads as u64);
        let next = AtomicU64::new(0);
        let start = Instant::now();
        std::thread::scope(|scope| {
            let read = || {
                let mut kept = WorkerState::default();
                loop {
                    let step = next.fetch_add(1, Ordering::Relaxed);
                    if step >= steps {
                        return Ok(());
                    }
                    match self.work.fetch(from + step, &mut kept)? {
                        Some(fetched) => self.work.done(fetched),
                        None => return Ok(()),
                    }
                }
            };
            let start = || std::thread::Builder::new().spawn_scoped(scope, read);
            let threads = (0..threads).map(|_| start().map_err(|e| Error::io("start a thread", e)));
            let threads = threads.collect::<Result<Vec<_>>>()?;
            let ended = |thread: ScopedJoinHandle<'_, Result<()>>| {
                thread.join().unwrap_or_else(|_| Err(Error::bug("a thread that reads panicked")))
            };
            threads.into_iter().try_for_each(ended)
        })?;
        Ok(start.elapsed().as_secs_f64() / steps as f64)
    }

    /// Seconds to open a shard that was not opened before, its index included; `None` where few are left.
    pub(super) fn open_alone(&self, dataset: &Dataset, options: &LoaderOptions) -> Result<Option<f64>> {
        let Some(reader) = self.reader() else { return Ok(None) };
        let closed = (0..dataset.shards().len() as u32).rev().filter(|shard| !reader.has_open(*shard));
        let closed: Vec<u32> = closed.take(OPENED).collect();
        let fresh = crate::Reader::new(dataset.clone(), Vec::new(), options.read.clone());
        let mut seconds = Vec::new();
        for shard in &closed {
            let start = Instant::now();
            fresh.input(*shard)?;
            seconds.push(start.elapsed().as_secs_f64());
        }
        Ok((seconds.len() >= OPENED / 2).then(|| Interval::of(&seconds).median))
    }

    /// The work of a loader of other fields.
    pub(super) fn other_fields(
        &self,
        dataset: &Dataset,
        fields: &[FieldOptions],
        options: &LoaderOptions,
    ) -> Result<SampleWork> {
        let options = LoaderOptions { epochs: None, state: None, ..options.clone() };
        let order = EpochOrder::of(dataset, &options)?;
        Ok(SampleWork::of_dataset(dataset.clone(), (fields, &[]), order, 0, &options, None)?.0)
    }

    fn reader(&self) -> Option<&crate::Reader> {
        match &self.work.feed {
            Feed::Dataset { reader, .. } => Some(reader),
            Feed::Stream { .. } => None,
        }
    }

    /// The bytes of a batch as stored, about.
    pub(super) fn batch_bytes(&self) -> usize {
        self.config.mean.max(1)
    }

    /// Reads the files of the held batches, so that they are in the page cache.
    fn warm_files(&self) -> Result<()> {
        let mut kept = WorkerState::default();
        for step in &self.held.steps {
            if let Some(fetched) = self.work.fetch(*step, &mut kept)? {
                self.work.done(fetched);
            }
        }
        Ok(())
    }

    /// Drops the files from the page cache.
    pub(super) fn evict(&self) {
        self.reader().into_iter().for_each(evict);
    }

    /// Whether shards are files of this machine.
    pub(super) fn is_local(&self) -> bool {
        self.reader().and_then(|reader| reader.input(0).ok()).is_some_and(|input| input.local_path().is_some())
    }
}

/// Shards to open, to see how long it takes.
const OPENED: usize = 16;
/// Steps of a cut that do not count.
const WARM: u64 = 2;

/// How long each measurement takes, where a round has `cuts` of them.
pub(super) fn pace(options: &LoaderOptions, how: &DiagnoseOptions, cuts: usize) -> Pace {
    let slices = (how.rounds.max(3) * cuts) as u32;
    Pace {
        warm: WARM,
        steps: (2 * options.threads as u64).max(4),
        time: how.time / slices.max(1),
        cancel: how.cancel.clone(),
    }
}

/// All measurements of a diagnosis.
#[derive(Default)]
struct Seen {
    slices: BTreeMap<Cut, Vec<Slice>>,
    spent: BTreeMap<Cut, Arc<Spent>>,
    supply: Vec<Slice>,
}

/// Diagnoses the loop once, from a step on.
pub(super) fn look<D, S>(
    training: &mut TrainingLoop<'_, '_, D, S>,
    fields: &[FieldOptions],
    options: &LoaderOptions,
) -> Result<Diagnosis>
where
    D: Device + 'static,
    S: TrainingStep<D::Batch>,
{
    let TrainingLoop { dataset, device, step, how, cursor, .. } = training;
    let mut rig = Rig::new(dataset, fields, options, &device()?, None, cursor)?;
    let cuts: Vec<Cut> = Cut::ALL.into_iter().filter(|cut| *cut != Cut::Files || rig.is_local()).collect();
    let pace = pace(options, how, cuts.len() + 1);
    let batches = on_device(&rig, device()?)?;
    let mut seen = Seen::default();
    let start = Instant::now();
    for round in 0..how.rounds.max(3) {
        // A loop that is so slow that each slice takes its fewest steps.
        if round >= 3 && start.elapsed() > how.time * 2 {
            break;
        }
        let turn: Vec<Cut> = if round % 2 == 0 { cuts.clone() } else { cuts.iter().rev().copied().collect() };
        for cut in turn {
            let spent = Arc::clone(seen.spent.entry(cut).or_default());
            match cut {
                Cut::Loader | Cut::Busy if how.cold => rig.evict(),
                Cut::Files if how.cold => rig.warm_files()?,
                _ => {}
            }
            let slice = match cut {
                Cut::Device => {
                    let mut held = batches.iter().cycle();
                    run::<D::Batch, &D::Batch>(&pace, &mut || Ok(held.next()), *step)?
                }
                Cut::Busy => rig.beside(device()?, &batches, &pace, &spent, *step)?,
                _ => {
                    let served = Served::at(cut, rig.cursor.get());
                    rig.batches(device()?, served, &pace, &spent, *step)?
                }
            };
            seen.slices.entry(cut).or_default().push(slice);
        }
        if how.cold {
            rig.evict();
        }
        let mut nothing = |_: &D::Batch| Ok(());
        let served = rig.fresh();
        seen.supply.push(rig.batches(device()?, served, &pace, &Arc::default(), &mut nothing)?);
    }
    let mut made = conclude(&seen, &rig, batches.len(), dataset, fields, options)?;
    // The GPU has room for the batches of others.
    drop((batches, rig));
    alternatives::add(&mut made, training, fields, options, &pace)?;
    let seconds = made.cut(Cut::Loader).map_or(0.0, |loader| loader.seconds.median);
    remedy::keep_worthy(&mut made.remedies, seconds);
    Ok(made)
}

/// Batches on the device: those that batches in host memory are, of which there are as many as slabs.
fn on_device<D: Device + 'static>(rig: &Rig, device: D) -> Result<Vec<D::Batch>> {
    let mut pipeline = rig.pipeline(device, Served::Batches, &Arc::default())?;
    let slabs = if rig.config.fillers == 0 { 1 } else { rig.config.ahead.max(rig.config.fillers) };
    let batches = (0..rig.held.steps.len().min(slabs)).map_while(|_| pipeline.next(None).item());
    batches.collect()
}

fn conclude(
    seen: &Seen,
    rig: &Rig,
    held: usize,
    dataset: &Dataset,
    fields: &[FieldOptions],
    options: &LoaderOptions,
) -> Result<Diagnosis> {
    let processors = allowed();
    let cuts: Vec<CutTime> = seen.slices.iter().map(|(cut, slices)| cut_time(*cut, slices, processors)).collect();
    let seconds = |slices: &[Slice]| slices.iter().map(Slice::seconds).collect::<Vec<_>>();
    let model = Model::of(&cuts, &seen.spent, options, processors);
    let loader = cuts.iter().find(|time| time.cut == Cut::Loader);
    let evidence = Evidence {
        times: seen.slices.iter().map(|(cut, slices)| (*cut, seconds(slices))).collect(),
        model,
        online: cores::online(),
        mask: cores::allowed_cpus().len(),
        others: loader.map_or(0.0, |time| time.others),
        saturation: loader.map_or(0.0, |time| time.saturation),
        waited: loader.map_or(0.0, |time| time.waited),
        by_batch: seen.slices.get(&Cut::Device).map(|slices| by_batch(slices, held)).unwrap_or_default(),
    };
    let verdict = verdict(&evidence);
    let remedies = remedy::all(&verdict, &evidence, &remedy::Scene { rig, dataset, fields, options })?;
    Ok(Diagnosis {
        supply: Interval::of(&seconds(&seen.supply)).inverse(),
        cuts,
        verdict,
        remedies,
        slow_shards: rig.meter.slow(),
        representative: rig.held.representative,
        applied: Vec::new(),
        model: evidence.model,
    })
}

pub(super) fn cut_time(cut: Cut, slices: &[Slice], processors: usize) -> CutTime {
    let of = |value: fn(&Slice) -> f64| Interval::of(&slices.iter().map(value).collect::<Vec<_>>()).median;
    let saturation: Vec<f64> = slices.iter().map(|slice| slice.saturation(processors)).collect();
    CutTime {
        cut,
        seconds: Interval::of(&slices.iter().map(Slice::seconds).collect::<Vec<_>>()),
        cpu: of(|slice| slice.used.process / slice.steps.max(1) as f64),
        saturation: Interval::of(&saturation).median,
        others: of(|slice| slice.used.others / slice.used.seconds.max(1e-9)),
        waited: of(|slice| slice.waited / slice.used.seconds.max(1e-9)),
    }
}

/// The times of the steps on each held batch.
fn by_batch(slices: &[Slice], held: usize) -> Vec<Vec<f64>> {
    let mut times = vec![Vec::new(); held];
    for slice in slices {
        for (number, seconds) in slice.each.iter().enumerate() {
            if let Some(times) = times.get_mut((WARM as usize + number) % held.max(1)) {
                times.push(*seconds);
            }
        }
    }
    times
}
