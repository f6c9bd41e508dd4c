//! The stages of `packhorse bench upload`, on one GPU or on several at the same time.

use super::bench::Load;
use crate::size::show;
use packhorse_core::{Error, Result};
use packhorse_gpu::{DeviceBatch, DeviceTransform, Gpu, Staged, Upload, UploadBench, UploadMeasured, Usage, Used};
use packhorse_order::Rank;
use packhorse_read::{Batch, FieldOptions, Loader, LoaderOptions};
use serde_json::{Value, json};
use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread::ScopedJoinHandle;

type Steps<'a> = &'a [Arc<dyn DeviceTransform>];

/// The threads of each of so many GPUs.
pub(super) fn of_each(threads: usize, gpus: usize) -> usize {
    (threads / gpus.max(1)).max(1)
}

/// The GPUs, and the dataset that is loaded.
pub(super) struct BenchGpus<'a, G: Gpu> {
    pub(super) load: &'a Load,
    gpus: Vec<BenchGpu<G>>,
}

/// A GPU with the loader of its rank, and a batch on each side of the link.
pub(super) struct BenchGpu<G: Gpu> {
    pub(super) index: usize,
    pub(super) gpu: G,
    pub(super) bench: UploadBench<G>,
    pub(super) options: LoaderOptions,
    host: Arc<Batch<G::Pinned>>,
    there: DeviceBatch<G>,
}

impl<G: Gpu + Clone> BenchGpu<G> {
    fn new(
        load: &Load,
        (gpu, rank): (&G, Rank),
        bench: UploadBench<G>,
        (fields, finish): (&[FieldOptions], Steps<'_>),
    ) -> Result<Self> {
        let threads = of_each(load.options.threads, rank.world_size as usize);
        let budget = load.options.budget / rank.world_size as usize;
        let options = LoaderOptions { epochs: None, rank, threads, ahead: threads + 2, budget, ..load.options.clone() };
        let one = LoaderOptions { ahead: 1, threads: 1, ..options.clone() };
        let mut staged = fields.to_vec();
        for needed in finish.iter().flat_map(|step| step.needs()) {
            if staged.iter().all(|field| field.name != needed.name) {
                staged.push(needed);
            }
        }
        let none = || Error::config("the dataset has too few samples for a batch: take a smaller --batch");
        let host = Loader::new(load.dataset.clone(), &staged, &one, Staged(gpu.clone()))?.next().ok_or_else(none)??;
        let there = loader(gpu, load, &options, fields, finish)?.next().ok_or_else(none)??;
        Ok(Self { index: rank.rank as usize, gpu: gpu.clone(), bench, options, host: Arc::new(host), there })
    }

    /// Batches of the loader, with steps or without.
    pub(super) fn batches(
        &self,
        load: &Load,
        fields: &[FieldOptions],
        transforms: Steps<'_>,
        steps: bool,
    ) -> Result<UploadMeasured> {
        let loader = loader(&self.gpu, load, &self.options, fields, transforms)?;
        self.bench.batches(loader, self.options.ahead as u64, steps)
    }

    fn copies(&self) -> Result<UploadMeasured> {
        self.bench.copies(self.host.used())
    }

    fn cached(&self, transforms: Steps<'_>, steps: bool) -> Result<UploadMeasured> {
        self.bench.cached(&self.host, transforms.to_vec(), steps)
    }
}

fn loader<G: Gpu + Clone>(
    gpu: &G,
    load: &Load,
    options: &LoaderOptions,
    fields: &[FieldOptions],
    transforms: Steps<'_>,
) -> Result<Loader<Upload<G>>> {
    let upload = Upload::with_transforms(gpu.clone(), transforms.to_vec())?;
    Loader::new(load.dataset.clone(), fields, options, upload)
}

impl<'a, G: Gpu + Clone> BenchGpus<'a, G> {
    pub(super) fn new(
        load: &'a Load,
        gpus: &[G],
        make: &dyn Fn(G) -> Result<UploadBench<G>>,
        batch: (&[FieldOptions], Steps<'_>),
    ) -> Result<Self> {
        let world_size = gpus.len() as u32;
        let one =
            |(rank, gpu): (u32, &G)| BenchGpu::new(load, (gpu, Rank { rank, world_size }), make(gpu.clone())?, batch);
        let gpus = (0..).zip(gpus).map(one).collect::<Result<_>>()?;
        Ok(Self { load, gpus })
    }

    pub(super) fn batches(&self, fields: &[FieldOptions], transforms: Steps<'_>, steps: bool) -> Result<Together> {
        self.together(|one| one.batches(self.load, fields, transforms, steps))
    }

    /// Copies alone, and batches that are copied again and again, without steps.
    pub(super) fn copies(&self, finish: Steps<'_>, stages: &mut Vec<UploadStage>) -> Result<()> {
        let alone = match self.gpus.len() {
            1 => None,
            _ => Some(Together(self.gpus.iter().map(BenchGpu::copies).collect::<Result<_>>()?)),
        };
        let copies = self.together(BenchGpu::copies)?;
        let ring = self.together(|one| one.cached(&[], false))?;
        let finished = match finish.is_empty() {
            true => None,
            false => Some(self.together(|one| one.cached(finish, false))?),
        };
        let bytes = Together::bytes_per_s;
        let copy = UploadStage::new("copy", "copies alone, from pinned memory", copies.clone());
        stages.push(alone.iter().fold(copy, |copy, alone| copy.of(bytes, alone)));
        stages.extend(alone.map(|alone| UploadStage::new("alone", "the same, to one GPU after the other", alone)));
        stages.push(UploadStage::new("ring", "one batch again and again, no steps", ring).of(bytes, &copies));
        let finished = finished
            .map(|finished| UploadStage::new("ring+finish", "the same, and the GPU's kernels for it", finished));
        stages.extend(finished.map(|finished| finished.of(bytes, &copies)));
        Ok(())
    }

    /// Steps on batches that are there, that are copied again and again, and that are loaded. A GPU becomes slower as it becomes warm, so
    /// the first, which limits the others, is measured before and after them.
    pub(super) fn steps(
        &self,
        fields: &[FieldOptions],
        finish: Steps<'_>,
        watch: &dyn Fn(&G) -> Option<Usage>,
        stages: &mut Vec<UploadStage>,
    ) -> Result<()> {
        let device = || self.together(|one| one.bench.resident(&one.there));
        let before = device()?;
        let cached = self.together(|one| one.cached(finish, true))?;
        let watched: Vec<_> = self.gpus.iter().map(|one| watch(&one.gpu)).collect();
        let loaded = self.batches(fields, finish, true)?;
        let used: Vec<Used> = watched.into_iter().filter_map(|usage| usage.and_then(Usage::end)).collect();
        let device = before.then(&device()?);
        let steps = Together::steps_per_s;
        let cached = UploadStage::new("cached", "one batch again and again, with steps", cached).of(steps, &device);
        let loaded = UploadStage::new("loader", "batches of the dataset, with steps", loaded).of(steps, &device);
        stages.push(UploadStage::new("device", "steps alone, on a batch that is there", device));
        stages.push(cached);
        stages.push(UploadStage { used: mean(&used), ..loaded });
        Ok(())
    }
}

impl<G: Gpu> BenchGpus<'_, G> {
    /// Measures all GPUs at the same time.
    pub(super) fn together(&self, measure: impl Fn(&BenchGpu<G>) -> Result<UploadMeasured> + Sync) -> Result<Together> {
        let join = |thread: ScopedJoinHandle<'_, _>| thread.join().unwrap_or_else(|panic| resume_unwind(panic));
        let measured: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = self.gpus.iter().map(|one| scope.spawn(|| measure(one))).collect();
            threads.into_iter().map(join).collect()
        });
        measured.into_iter().collect::<Result<_>>().map(Together)
    }

    pub(super) fn gpus(&self) -> usize {
        self.gpus.len()
    }

    /// The threads of all loaders.
    pub(super) fn threads(&self) -> usize {
        self.gpus.iter().map(|one| one.options.threads).sum()
    }

    /// The bytes of a batch on one GPU.
    pub(super) fn batch_bytes(&self) -> usize {
        self.gpus.first().map_or(0, |one| one.host.used())
    }
}

/// Measurements of GPUs at the same time.
#[derive(Clone)]
pub(super) struct Together(Vec<UploadMeasured>);

impl Together {
    /// The sum; all have ended when the last has.
    fn all(&self) -> UploadMeasured {
        self.0.iter().fold(UploadMeasured::default(), |all, one| UploadMeasured {
            seconds: all.seconds.max(one.seconds),
            ..added(&all, one)
        })
    }

    /// These, and others of the same GPUs after them.
    fn then(&self, after: &Self) -> Self {
        Self(self.0.iter().zip(&after.0).map(|(one, other)| added(one, other)).collect())
    }

    fn steps_per_s(&self) -> f64 {
        self.all().steps_per_s()
    }

    fn bytes_per_s(&self) -> f64 {
        self.all().bytes_per_s()
    }
}

fn added(one: &UploadMeasured, other: &UploadMeasured) -> UploadMeasured {
    UploadMeasured {
        steps: one.steps + other.steps,
        samples: one.samples + other.samples,
        bytes: one.bytes + other.bytes,
        idle: one.idle + other.idle,
        seconds: one.seconds + other.seconds,
    }
}

fn mean(used: &[Used]) -> Option<Used> {
    let of = |part: fn(&Used) -> f64| used.iter().map(part).sum::<f64>() / used.len() as f64;
    (!used.is_empty()).then(|| Used { compute: of(|used| used.compute), memory: of(|used| used.memory) })
}

/// A measurement with its limit, if it has one.
pub(super) struct UploadStage {
    name: &'static str,
    says: &'static str,
    measured: Together,
    limit: Option<f64>,
    used: Option<Used>,
}

impl UploadStage {
    pub(super) fn new(name: &'static str, says: &'static str, measured: Together) -> Self {
        Self { name, says, measured, limit: None, used: None }
    }

    /// With its share of a limit.
    fn of(self, rate: fn(&Together) -> f64, limit: &Together) -> Self {
        Self { limit: Some(rate(&self.measured) / rate(limit)), ..self }
    }

    pub(super) fn line(&self) -> String {
        let Self { name, says, measured, limit, used } = self;
        let all = measured.all();
        let rate = match all.bytes {
            0 => String::new(),
            _ => format!("{}/s", show(all.bytes_per_s() as u64)),
        };
        let (steps, samples) = (all.steps_per_s(), all.samples_per_s());
        let mut line = format!("  {name:<11}{steps:>10.2} steps/s {samples:>11.0} samples/s {rate:>12}  {says}");
        if let Some(limit) = limit {
            line.push_str(&format!("; {:.1} % of the limit", 100.0 * limit));
        }
        if *name == "loader" {
            line.push_str(&format!("; {:.1} % of steps came late", 100.0 * late(&all)));
        }
        if let Some(used) = used {
            line.push_str(&format!("; GPU busy {:.0} %", 100.0 * used.compute));
        }
        if measured.0.len() > 1 {
            let each: Vec<_> = measured.0.iter().map(|one| format!("{:.2}", one.steps_per_s())).collect();
            line.push_str(&format!("; of each {} steps/s", each.join(", ")));
        }
        line + "\n"
    }

    pub(super) fn json(&self) -> Value {
        let all = self.measured.all();
        let each: Vec<_> = self.measured.0.iter().map(of_one).collect();
        let mut value = of_one(&all);
        value["stage"] = self.name.into();
        value["of_limit"] = self.limit.into();
        value["gpu_busy"] = self.used.map(|used| used.compute).into();
        value["gpu_memory_busy"] = self.used.map(|used| used.memory).into();
        if each.len() > 1 {
            value["each"] = each.into();
        }
        value
    }
}

fn of_one(measured: &UploadMeasured) -> Value {
    let UploadMeasured { steps, samples, bytes, idle, seconds } = *measured;
    json!({
        "steps": steps, "samples": samples, "bytes": bytes, "seconds": seconds, "idle": idle, "late": late(measured),
        "steps_per_s": measured.steps_per_s(), "samples_per_s": measured.samples_per_s(),
        "bytes_per_s": measured.bytes_per_s(),
    })
}

/// The share of steps that came late.
fn late(measured: &UploadMeasured) -> f64 {
    measured.idle as f64 / measured.steps.max(1) as f64
}
