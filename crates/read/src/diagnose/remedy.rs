//! What would make a loop faster, and by how much: predicted from what was measured.

use super::cut::Cut;
use super::model::{Model, Workers};
use super::rounds::Rig;
use super::smaller::smaller;
use super::usage::thread_seconds;
use super::verdict::{Bottleneck, Evidence, SATURATED, Verdict, WAITED, milliseconds};
use super::{Interval, held};
use crate::batch_metadata::BatchMetadata;
use crate::sample_work::{SampleWork, WorkerState};
use crate::{CacheOptions, Dataset, FieldKind, FieldOptions, LoaderOptions, SampleBlock, cores, memory};
use packhorse_core::Result;
use packhorse_transform::image::{Size, View};

/// A change that can be made to a loader.
#[derive(Clone, Debug, PartialEq)]
pub enum Setting {
    /// [`LoaderOptions::threads`], and `ahead` with it.
    Threads(usize),
    /// [`LoaderOptions::readers`], and as much read ahead.
    Readers(usize),
    /// [`LoaderOptions::ahead`].
    Ahead(usize),
    /// [`CacheOptions::ram`], in bytes.
    Ram(u64),
    /// [`LoaderOptions::cores`]: all of the machine; and as many threads.
    Cores(Vec<usize>),
    /// Other fields.
    Fields(Vec<FieldOptions>),
    /// The [`Alternative`](super::Alternative) of this number, which changes fields and device.
    Alternative(usize),
}

impl Setting {
    /// Changes a loader's options and fields. The fields of an alternative are its own.
    pub fn apply(&self, options: &mut LoaderOptions, fields: &mut Vec<FieldOptions>) {
        match self {
            Self::Threads(threads) => (options.threads, options.ahead) = (*threads, threads + 2),
            Self::Readers(readers) => options.readers = *readers,
            Self::Ahead(ahead) => options.ahead = *ahead,
            Self::Ram(bytes) => options.cache = CacheOptions { ram: *bytes, ..options.cache.clone() },
            Self::Cores(cores) => {
                (options.threads, options.ahead) = (cores.len(), cores.len() + 2);
                options.cores.clone_from(cores);
            }
            Self::Fields(changed) => fields.clone_from(changed),
            Self::Alternative(_) => {}
        }
    }

    /// Whether batches stay as they are.
    pub fn keeps_batches(&self) -> bool {
        !matches!(self, Self::Fields(_) | Self::Alternative(_))
    }
}

/// A change that would make the loop faster.
#[derive(Clone, Debug)]
pub struct Remedy {
    /// Its name: `threads`, `readers`, `ahead`, `ram cache`, `processors`, `stage`, `without FIELD`, `uint8 FIELD`,
    /// `smaller pictures`, `larger shards`, `resident`; those of [`Diagnosis::add_packing`](super::Diagnosis::add_packing) and
    /// [`Alternative`](super::Alternative) have names of the caller.
    pub name: String,
    /// What to do, as a sentence.
    pub says: String,
    /// Steps per second that the loop would reach.
    pub predicted: f64,
    /// Steps per second that it reached, if it was tried.
    pub observed: Option<Interval>,
    /// The change of the loader; `None` if it is made elsewhere.
    pub setting: Option<Setting>,
}

/// A remedy is worth a line from this gain on.
pub(super) const WORTH: f64 = 1.03;
/// Readers to try, at most.
const READERS: usize = 64;
/// Fields whose cost is measured, at most.
const FIELDS: usize = 8;

/// Bytes of a shard from which on opening it does not count.
const LARGE: f64 = 256e6;

/// What remedies are tried on.
pub(super) struct Scene<'a> {
    pub(super) rig: &'a Rig,
    pub(super) dataset: &'a Dataset,
    pub(super) fields: &'a [FieldOptions],
    pub(super) options: &'a LoaderOptions,
}

/// The remedies; none if the loop does not wait for data.
///
/// Errors: those of reading and decoding other fields.
pub(super) fn all(verdict: &Verdict, evidence: &Evidence, scene: &Scene<'_>) -> Result<Vec<Remedy>> {
    if verdict.bottleneck == Bottleneck::Step {
        return Ok(Vec::new());
    }
    let costs = |stages: &[Bottleneck]| verdict.costs.iter().any(|cost| stages.contains(&cost.stage));
    let maker = Maker { model: &evidence.model, evidence, scene };
    let mut found = Vec::new();
    // Where batches are there in time, more threads make none earlier.
    let waits = evidence.waited >= WAITED;
    found.extend(maker.threads().filter(|_| waits));
    found.extend(maker.processors());
    if costs(&[Bottleneck::Read, Bottleneck::Storage]) {
        found.extend(maker.readers()?);
        found.extend(maker.near());
        found.extend(maker.larger()?);
    }
    found.extend(maker.ahead().filter(|_| waits));
    found.extend(maker.resident());
    if costs(&[Bottleneck::Transfer, Bottleneck::Collate, Bottleneck::Decode]) {
        found.extend(maker.fields()?);
        found.extend(maker.smaller()?);
    }
    Ok(found)
}

/// Keeps those that are worth it where a step takes so many seconds, the best first.
pub(super) fn keep_worthy(found: &mut Vec<Remedy>, seconds: f64) {
    found.retain(|remedy| remedy.predicted * seconds > WORTH);
    found.sort_by(|a, b| b.predicted.total_cmp(&a.predicted));
}

struct Maker<'a> {
    model: &'a Model,
    evidence: &'a Evidence,
    scene: &'a Scene<'a>,
}

impl Maker<'_> {
    fn remedy(&self, name: &str, seconds: f64, setting: Option<Setting>, says: String) -> Remedy {
        Remedy { name: name.to_owned(), says, predicted: 1.0 / seconds.max(1e-9), observed: None, setting }
    }

    fn threads(&self) -> Option<Remedy> {
        let workers = self.model.workers;
        // Other programs keep theirs.
        let others = self.evidence.others.round().max(0.0) as usize;
        let to = workers.processors.saturating_sub(others);
        let seconds = self.model.step(Workers { threads: to, ..workers });
        let says = format!(
            "fill batches on {to} threads instead of {}: one needs {} for a batch",
            workers.threads,
            milliseconds(self.model.fill)
        );
        (workers.threads < to).then(|| self.remedy("threads", seconds, Some(Setting::Threads(to)), says))
    }

    /// All processors of the machine, where a launcher gave this process fewer.
    fn processors(&self) -> Option<Remedy> {
        let Evidence { online, mask: few, .. } = *self.evidence;
        if few == 0 || few >= online {
            return None;
        }
        let workers = Workers { threads: online, processors: online, ..self.model.workers };
        let all: Vec<usize> = (0..online).collect();
        let says = format!(
            "let this process run on all {online} processors instead of {few} (srun: cpus-per-task, cpu-bind=none; taskset)"
        );
        let setting = may_run_on(&all).then_some(Setting::Cores(all));
        Some(self.remedy("processors", self.model.step(workers), setting, says))
    }

    /// More threads that read, if that was seen to help.
    fn readers(&self) -> Result<Option<Remedy>> {
        let workers = self.model.workers;
        let now = if workers.readers == 0 { workers.threads.max(1) } else { workers.readers };
        let to = (4 * now).min(READERS).min(self.scene.options.budget / self.scene.rig.batch_bytes());
        if workers.threads == 0 || to <= now {
            return Ok(None);
        }
        let each = self.scene.rig.read_alone(to)?;
        let seconds = Model { fetch: each * to as f64, ..*self.model }.step(Workers { readers: to, ..workers });
        let says = format!(
            "read ahead on {to} threads instead of {}: alone they read a batch in {}",
            workers.readers,
            milliseconds(each)
        );
        Ok(Some(self.remedy("readers", seconds, Some(Setting::Readers(to)), says)))
    }

    /// Shards in memory, or on a near disk.
    fn near(&self) -> Vec<Remedy> {
        let near = if self.evidence.seconds(Cut::Files) > 0.0 { Cut::Files } else { Cut::Stored };
        let (bytes, memory) = (self.scene.dataset.bytes(), memory_of_rank());
        let half = memory / 2;
        let mut found = Vec::new();
        if half > 0 && self.scene.options.cache.ram == 0 {
            let share = (half as f64 / bytes.max(1) as f64).min(1.0);
            let seconds = match share >= 1.0 {
                true => self.evidence.seconds(near),
                false => Model { fetch: self.model.fetch * (1.0 - share), ..*self.model }.step(self.model.workers),
            };
            let (limit, percent) = (bytes.saturating_add(bytes / 8).min(half), 100.0 * share);
            let says = format!(
                "keep {percent:.0} % of the shards in memory ({} MB), from the second epoch on",
                limit / 1_000_000
            );
            found.push(self.remedy("ram cache", seconds, Some(Setting::Ram(limit)), says));
        }
        let says = format!(
            "stage the shards ({} MB) to a local disk, or to memory (/dev/shm), before training",
            bytes / 1_000_000
        );
        found.push(self.remedy("stage", self.evidence.seconds(near), None, says));
        found
    }

    /// Fewer and larger shards, where opening them takes long.
    fn larger(&self) -> Result<Option<Remedy>> {
        let Scene { rig, dataset, options, .. } = *self.scene;
        let (shards, steps) = (dataset.shards().len() as f64, rig.work.steps.per_epoch.max(1) as f64);
        let mean = dataset.bytes() as f64 / shards.max(1.0);
        let Some(open) = rig.open_alone(dataset, options)?.filter(|_| mean < LARGE) else { return Ok(None) };
        // Each shard that a step needs is opened once an epoch.
        let opened = shards.min(steps * f64::from(options.batch)) / steps;
        let seconds = open * opened * (1.0 - mean / LARGE);
        let model = Model { fetch: (self.model.fetch - seconds).max(self.model.fetch_cpu), ..*self.model };
        let says = format!(
            "pack it again into shards of {} MB instead of {:.1} MB: a batch opens {opened:.1} of them, each in {}",
            LARGE / 1e6,
            mean / 1e6,
            milliseconds(open)
        );
        Ok(Some(self.remedy("larger shards", model.step(self.model.workers), None, says)))
    }

    /// More batches ahead, where the loader is fast enough in the mean and late now and then.
    fn ahead(&self) -> Option<Remedy> {
        let workers = self.model.workers;
        let mean = Model { factor: 1.0, ..*self.model }.step(workers);
        let to = 4 * self.scene.options.ahead.max(1);
        let late = self.evidence.seconds(Cut::Loader) > mean * WORTH && mean <= self.model.host * WORTH;
        // Where processors are missing, more batches ahead take as long.
        let late = late && self.evidence.saturation < SATURATED;
        let says = format!(
            "fill {to} batches ahead instead of {}: in the mean the loader is fast enough",
            self.scene.options.ahead
        );
        (late && workers.threads > 0).then(|| self.remedy("ahead", mean, Some(Setting::Ahead(to)), says))
    }

    /// All samples in the memory of the device, decoded, where they fit: only the steps are left.
    fn resident(&self) -> Option<Remedy> {
        let Scene { rig, dataset, options, .. } = *self.scene;
        let (room, fields) = rig.room.zip(self.asked())?;
        let still = |field: FieldOptions| match field.kind {
            FieldKind::Picture(view) | FieldKind::Normalized(view, _) if field.required => {
                // A picture that is cut at random is kept whole.
                let size = if matches!(view.size, Size::Random { .. }) { Size::Keep } else { view.size };
                Some(FieldOptions { kind: FieldKind::Picture(View { size, flip: 0.0, ..view }), ..field })
            }
            // No device makes these.
            _ => Some(field).filter(|field| !field.kind.is_random()),
        };
        let fields = fields.into_iter().filter(|field| field.kind != FieldKind::Draws);
        let kept = fields.map(still).collect::<Option<Vec<_>>>()?;
        let work = rig.other_fields(dataset, &kept, options).ok()?;
        let (step, mut scratch) = (*rig.held.steps.first()?, WorkerState::default());
        let block = crate::work::Work::fetch(&work, step, &mut scratch).ok()??;
        // Without room for a batch only its size is found.
        let mut filled = BatchMetadata::default();
        let bytes = work.isolation.run(|| work.collate(step, &block, &mut [], &mut filled, &mut scratch)).ok()??;
        let all = (bytes as f64 / block.len().max(1) as f64 * dataset.len() as f64) as u64;
        let says = format!(
            "keep all samples in the memory of the GPU ({} MB of {} MB that are free): they are read and decoded once",
            all / 1_000_000,
            room / 1_000_000
        );
        let fits = all < room / 10 * 9;
        fits.then(|| self.remedy("resident", self.evidence.seconds(Cut::Device), None, says))
    }

    /// The fields of the loader; `None` if it has more than were asked for.
    fn asked(&self) -> Option<Vec<FieldOptions>> {
        let fields = match self.scene.fields.is_empty() {
            true => crate::fields::all(self.scene.dataset.schema()),
            false => self.scene.fields.to_vec(),
        };
        (fields.len() == self.scene.rig.work.asked().len()).then_some(fields)
    }

    /// Without one of the fields; and pictures as bytes instead of normalised numbers.
    fn fields(&self) -> Result<Vec<Remedy>> {
        let mut found = Vec::new();
        let Some(fields) = self.asked() else { return Ok(found) };
        for (number, field) in fields.iter().enumerate().take(FIELDS) {
            if let FieldKind::Normalized(view, _) = field.kind {
                let mut changed = fields.clone();
                changed
                    .iter_mut()
                    .filter(|changed| changed.name == field.name)
                    .for_each(|changed| changed.kind = FieldKind::Picture(view));
                let says =
                    format!("send {} as uint8, a quarter of the bytes, and normalise it on the device", field.name);
                found.push(self.changed(&format!("uint8 {}", field.name), changed, says)?);
            }
            if fields.len() > 1 {
                let mut fewer = fields.clone();
                fewer.remove(number);
                let says = format!("leave out the field {}, if the model does not need it", field.name);
                found.push(self.changed(&format!("without {}", field.name), fewer, says)?);
            }
        }
        Ok(found)
    }

    /// The remedy of other fields, whose decoding is measured.
    fn changed(&self, name: &str, fields: Vec<FieldOptions>, says: String) -> Result<Remedy> {
        let Scene { dataset, options, rig, .. } = *self.scene;
        let work = rig.other_fields(dataset, &fields, options)?;
        let mut blocks = Vec::new();
        for step in rig.held.steps.iter().take(2) {
            blocks.extend(crate::work::Work::fetch(&work, *step, &mut WorkerState::default())?);
        }
        let (fill, bytes) = fill_alone(&work, &rig.held.steps, &blocks)?;
        let before: usize =
            rig.held.slabs.iter().map(|(slab, _)| slab.len()).sum::<usize>() / rig.held.slabs.len().max(1);
        let share = bytes as f64 / before.max(1) as f64;
        let device = self.evidence.seconds(Cut::Device);
        let host = device + (self.model.host - device).max(0.0) * share.min(1.0);
        let seconds = Model { fill, host, ..*self.model }.step(self.model.workers);
        Ok(self.remedy(name, seconds, Some(Setting::Fields(fields)), says))
    }

    /// Pictures that are stored smaller: the held ones are, in memory, and decoded.
    fn smaller(&self) -> Result<Option<Remedy>> {
        let Scene { rig, .. } = *self.scene;
        let Some((short, blocks)) = smaller(rig)? else { return Ok(None) };
        let (fill, _) = fill_alone(&rig.work, &rig.held.steps, &blocks)?;
        let weight = |blocks: &[SampleBlock]| blocks.iter().map(held::weight).sum::<usize>().max(1) as f64;
        let before = rig.held.blocks.get(..blocks.len()).unwrap_or_default();
        let share = (weight(&blocks) / weight(before)).min(1.0);
        let model =
            Model { fill, fetch: self.model.fetch * share, fetch_cpu: self.model.fetch_cpu * share, ..*self.model };
        let says = format!(
            "pack it again with image = \"resize={short}\": pictures take {:.0} % of the bytes, and a batch {} to decode instead of {}",
            100.0 * share,
            milliseconds(fill),
            milliseconds(self.model.fill),
        );
        Ok(Some(self.remedy("smaller pictures", model.step(self.model.workers), None, says)))
    }
}

/// Processor seconds to fill a batch of these samples, and its bytes.
pub(super) fn fill_alone(work: &SampleWork, steps: &[u64], blocks: &[SampleBlock]) -> Result<(f64, usize)> {
    let (mut kept, mut slab, mut filled) = (WorkerState::default(), Vec::new(), BatchMetadata::default());
    let (mut seconds, mut bytes, mut batches) = (0.0, 0, 0usize);
    // Twice, since the first time memory is new.
    for round in 0..2 {
        for (step, block) in steps.iter().zip(blocks) {
            let start = thread_seconds();
            while let Some(room) =
                work.isolation.run(|| work.collate(*step, block, &mut slab, &mut filled, &mut kept))?
            {
                slab.resize(room, 0);
            }
            if round == 1 {
                seconds += thread_seconds() - start;
                bytes += filled.used();
                batches += 1;
            }
        }
    }
    let batches = batches.max(1);
    Ok((seconds / batches as f64, bytes / batches))
}

/// Whether a thread of this process may run on these processors.
fn may_run_on(all: &[usize]) -> bool {
    let all = all.to_vec();
    let tried = std::thread::spawn(move || cores::bind(&all).is_ok() && cores::allowed_cpus().len() == all.len());
    tried.join().unwrap_or(false)
}

/// The part of the memory that this process can have, one for each rank of the node.
fn memory_of_rank() -> u64 {
    let ranks = std::env::var("LOCAL_WORLD_SIZE").ok().and_then(|ranks| ranks.parse::<u64>().ok()).unwrap_or(1);
    memory::available() / ranks.max(1)
}
