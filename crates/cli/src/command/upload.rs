//! `packhorse bench upload`.

use super::CommandContext;
use super::bench::Load;
use crate::bench_args::BenchUpload;
use crate::outcome::counted;
use crate::picture_args::view;
use crate::size::show;
use packhorse_core::{Error, Event, Kind, Observer as _, Result};
use packhorse_gpu::kernels::{Crop, Element, Flip, Motif, Normalize, Pixels, Resize, SyntheticPictures};
use packhorse_gpu::transforms::{Augmented, Pictures, Resized, Synthetic};
use packhorse_gpu::{
    Cuda, DeviceBatch, DeviceTransform, Gpu, JpegOptions, Jpegs, NvJpeg, Resident, Simulated, Staged, Upload,
    UploadBench, UploadMeasured, Usage, Used,
};
use packhorse_read::{Batch, FieldKind, FieldOptions, Loader, LoaderOptions, NullLoader};
use packhorse_report::is_picture;
use packhorse_transform::image::View;
use serde_json::{Value, json};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

pub(super) fn run(context: &CommandContext<'_>, args: &BenchUpload) -> Result<ExitCode> {
    if !(0.001..=100_000.0).contains(&args.step) {
        let message = format!("--step takes 0.001 to 100000 milliseconds, not {}", args.step);
        return Err(Error::config(message));
    }
    let number = match args.device.as_str() {
        "host" => {
            return Bench { context, args, simulated: true }.run(&Simulated::new(), "host", &|| None, &|_, _| Ok(None));
        }
        "cuda" => Some(0),
        other => other.strip_prefix("cuda:").and_then(|number| number.parse().ok()),
    };
    let wrong = || Error::config(format!("--device takes cuda, cuda:N or host, not {}", args.device));
    let gpu = Cuda::new(number.ok_or_else(wrong)?).map_err(|error| match error.kind() {
        Kind::Unsupported => Error::unsupported(format!("{error}; --device host simulates one")),
        _ => error,
    })?;
    let name = gpu.name()?;
    let usual = |field: &str| JpegOptions::new(field, (args.size, args.size));
    let step = |field: &str, cpu_share: f32| {
        let options = JpegOptions { cpu_share, threads: args.load.threads.jobs(), ..usual(field) };
        let resize = if args.augment { augmented(options.resize) } else { options.resize };
        Jpegs::new(&gpu, &NvJpeg::load(None)?, JpegOptions { resize, ..options })
    };
    let jpegs = |field: &str, cpu_share: f32| match step(field, cpu_share) {
        Ok(jpegs) => Ok(Some(Arc::new(jpegs) as Step)),
        Err(error) if error.kind() == Kind::Unsupported => {
            context.progress.event(&Event::Warning(&error.to_string()));
            Ok(None)
        }
        Err(error) => Err(error),
    };
    Bench { context, args, simulated: false }.run(&gpu, &name, &|| Usage::watch(&gpu), &jpegs)
}

/// A transform of batches on the GPU.
type Step = Arc<dyn DeviceTransform>;

/// Classes of pictures that are mixed.
const CLASSES: u32 = 1000;

struct Bench<'a> {
    context: &'a CommandContext<'a>,
    args: &'a BenchUpload,
    /// No kernels, so nothing is finished or made on the device.
    simulated: bool,
}

/// A measurement with its limit, if it has one.
struct Stage {
    name: &'static str,
    says: &'static str,
    measured: UploadMeasured,
    limit: Option<f64>,
    used: Option<Used>,
}

impl Bench<'_> {
    fn run<G: Gpu + Clone>(
        &self,
        gpu: &G,
        name: &str,
        watch: &dyn Fn() -> Option<Usage>,
        jpegs: &dyn Fn(&str, f32) -> Result<Option<Step>>,
    ) -> Result<ExitCode> {
        let load = Load::new(self.context, &self.args.load)?;
        let step = Duration::from_secs_f64(self.args.step / 1000.0);
        let bench = if self.simulated { UploadBench::pausing } else { UploadBench::new };
        let bench = bench(gpu.clone(), step, load.time)?;
        let pictures = FieldKind::Picture(view(self.args.size, self.args.augment));
        let stored = load.fields(None, &self.args.load.fields)?;
        let fields = load.fields(Some(pictures), &self.args.load.fields)?;
        let finish = self.finish(&fields);
        let options = LoaderOptions { epochs: None, ..load.options.clone() };
        let loader = |fields: &[FieldOptions], transforms: &[Step]| {
            let upload = Upload::with_transforms(gpu.clone(), transforms.to_vec())?;
            Loader::new(load.dataset.clone(), fields, &options, upload)
        };
        let none = || Error::config("the dataset has too few samples for a batch: take a smaller --batch");
        let one = LoaderOptions { ahead: 1, threads: 1, ..options.clone() };
        let mut staged = fields.clone();
        for needed in finish.iter().flat_map(|step| step.needs()) {
            if staged.iter().all(|field| field.name != needed.name) {
                staged.push(needed);
            }
        }
        let host = Loader::new(load.dataset.clone(), &staged, &one, Staged(gpu.clone()))?.next().ok_or_else(none)??;
        let resident = loader(&fields, &finish)?.next().ok_or_else(none)??;
        let bytes = host.used();
        let (mut stages, device) = of_a_batch(&bench, host, resident, &finish)?;
        let mut push = |name, says, measured, limit, used| stages.push(Stage { name, says, measured, limit, used });
        // First without steps, so that the page cache is warm for the compared stages.
        let stock = options.ahead as u64;
        let raw = bench.batches(loader(&stored, &[])?, stock, false)?;
        push("raw", "batches without decoding, no steps", raw, None, None);
        let decode = bench.batches(loader(&fields, &finish)?, stock, false)?;
        push("decode", "batches of the dataset, no steps", decode, None, None);
        let jpeg = fields.iter().find(|field| ["jpg", "jpeg"].contains(&extension(&field.name)));
        for (name, says, share) in [
            ("nvjpeg", "JPEGs decoded on the GPU, no steps", 0.0),
            ("nvjpeg+cpu", "the same, half of them by the CPU meanwhile", 0.5),
        ] {
            let Some(step) = jpeg.map(|field| jpegs(&field.name, share)).transpose()?.flatten() else { break };
            let decoded = bench.batches(loader(&stored, &[step])?, stock, false)?;
            push(name, says, decoded, None, None);
        }
        let batches = loader(&fields, &finish)?;
        let watched = watch();
        let batches = bench.batches(batches, stock, true)?;
        let used = watched.and_then(Usage::end);
        push("loader", "batches of the dataset, with steps", batches, Some(share(&batches, &device)), used);
        if let Some(held) = self.resident(gpu, &bench, &load, &fields, &options)? {
            push("resident", "batches of samples that the GPU keeps, no steps", held, None, None);
        }
        if !self.simulated {
            let upload = Upload::with_transforms(gpu.clone(), vec![self.made()])?;
            let made = bench.batches(NullLoader::null(load.dataset.len(), &options, upload)?, 0, false)?;
            push("made", "pictures that the GPU makes, no steps", made, None, None);
        }
        self.tell(&load, name, bytes, &stages)
    }

    /// Batches of samples that the GPU keeps; `None` if they don't fit its memory.
    fn resident<G: Gpu + Clone>(
        &self,
        gpu: &G,
        bench: &UploadBench<G>,
        load: &Load,
        fields: &[FieldOptions],
        options: &LoaderOptions,
    ) -> Result<Option<UploadMeasured>> {
        if self.simulated {
            return Ok(None);
        }
        let (fields, steps) =
            if self.args.augment { self.cut_on_the_gpu(fields) } else { (fields.to_vec(), self.finish(fields)) };
        let resident = match Resident::load(gpu, &load.dataset, &fields, options) {
            Err(error) if error.kind() == Kind::Limit => {
                self.context.progress.event(&Event::Warning(&error.to_string()));
                return Ok(None);
            }
            loaded => Arc::new(loaded?),
        };
        let loader = Loader::new(load.dataset.clone(), &fields, options, Upload::resident(&resident, steps)?)?;
        bench.batches(loader, options.ahead as u64, false).map(Some)
    }

    /// Whole pictures, which the GPU cuts and mirrors at random.
    fn cut_on_the_gpu(&self, fields: &[FieldOptions]) -> (Vec<FieldOptions>, Vec<Step>) {
        let size = (self.args.size, self.args.size);
        let mut steps = Vec::new();
        let fields = fields.iter().cloned().map(|field| match field.kind {
            FieldKind::Picture(_) => {
                let usual = Resized::new(&field.name, size);
                steps.push(Arc::new(Resized { resize: augmented(usual.resize), ..usual }) as Step);
                FieldOptions { kind: FieldKind::Picture(View::default()), ..field }
            }
            _ => field,
        });
        (fields.collect(), steps)
    }

    /// Pictures that the GPU makes.
    fn made(&self) -> Step {
        let (size, output) = ((self.args.size, self.args.size), Pixels::normalized(Element::Bf16, Normalize::IMAGENET));
        let pictures = SyntheticPictures { motif: Motif::Noise, size, channels: 3, output };
        Arc::new(Synthetic::pictures("image", pictures))
    }

    /// Pictures are normalised on the GPU, where it has kernels; with `--augment` it also changes their colours, erases parts, and mixes
    /// them where there are labels.
    fn finish(&self, fields: &[FieldOptions]) -> Vec<Step> {
        let pictures =
            fields.iter().filter(|field| matches!(field.kind, FieldKind::Picture(_)) && is_picture(&field.name));
        let labels = fields.iter().any(|field| field.name == "cls" && field.kind == FieldKind::Auto);
        let step = |(number, field): (usize, &FieldOptions)| match self.args.augment {
            true => {
                let augmented = Augmented::new(&field.name).jitter(0.4, 0.4, 0.4, 0.1, 0.8).grayscale(0.2).erase(0.25);
                // Labels are mixed once.
                let mixes = number == 0 && labels;
                Arc::new(if mixes { augmented.mix(0.2, 1.0, "cls", CLASSES) } else { augmented }) as Step
            }
            false => Arc::new(Pictures::new(&field.name)) as Step,
        };
        pictures.filter(|_| !self.simulated).enumerate().map(step).collect()
    }

    fn tell(&self, load: &Load, name: &str, bytes: usize, stages: &[Stage]) -> Result<ExitCode> {
        let (batch, threads) = (self.args.load.batch, load.options.threads);
        let mut text = format!(
            "{name}: {} in {}, {batch} of them in {} a batch, {}, steps of {} ms\n",
            counted(load.dataset.len(), "sample"),
            show(load.dataset.bytes()),
            show(bytes as u64),
            counted(threads as u64, "thread"),
            self.args.step,
        );
        stages.iter().for_each(|stage| text.push_str(&stage.line()));
        let stages: Vec<Value> = stages.iter().map(Stage::json).collect();
        let value = json!({
            "device": name, "simulated": self.simulated, "samples": load.dataset.len(), "batch": batch,
            "batch_bytes": bytes, "threads": threads, "step_ms": self.args.step, "stages": stages,
        });
        self.context.style.show(&value, &text)
    }
}

/// The stages of one batch, and the measurement of the device alone.
fn of_a_batch<G: Gpu + Clone>(
    bench: &UploadBench<G>,
    host: Batch<G::Pinned>,
    resident: DeviceBatch<G>,
    finish: &[Step],
) -> Result<(Vec<Stage>, UploadMeasured)> {
    let stage = |name, says, measured, limit| Stage { name, says, measured, limit, used: None };
    let copies = bench.copies(host.used())?;
    let device = bench.resident(&resident)?;
    drop(resident);
    let host = Arc::new(host);
    let ring = bench.cached(&host, Vec::new(), false)?;
    let finished = (!finish.is_empty()).then(|| bench.cached(&host, finish.to_vec(), false)).transpose()?;
    let cached = bench.cached(&host, finish.to_vec(), true)?;
    let of_copies = |measured: &UploadMeasured| Some(measured.bytes_per_s() / copies.bytes_per_s());
    let mut stages = vec![
        stage("copy", "copies alone, from pinned memory", copies, None),
        stage("device", "steps alone, on a batch that is there", device, None),
        stage("ring", "one batch again and again, no steps", ring, of_copies(&ring)),
    ];
    if let Some(finished) = &finished {
        stages.push(stage("ring+finish", "the same, and the GPU's kernels for it", *finished, of_copies(finished)));
    }
    stages.push(stage("cached", "one batch again and again, with steps", cached, Some(share(&cached, &device))));
    Ok((stages, device))
}

/// Random parts of pictures, and every other one mirrored.
fn augmented(resize: Resize) -> Resize {
    let crop = Crop::Random { scale: (0.08, 1.0), ratio: (3.0 / 4.0, 4.0 / 3.0) };
    Resize { crop, flip: Flip::Drawn(0.5), ..resize }
}

/// The share of the steps of `limit` that were reached.
fn share(measured: &UploadMeasured, limit: &UploadMeasured) -> f64 {
    measured.steps_per_s() / limit.steps_per_s()
}

impl Stage {
    fn line(&self) -> String {
        let Self { name, says, measured, limit, used } = self;
        let rate = match measured.bytes {
            0 => String::new(),
            _ => format!("{}/s", show(measured.bytes_per_s() as u64)),
        };
        let (steps, samples) = (measured.steps_per_s(), measured.samples_per_s());
        let mut line = format!("  {name:<11}{steps:>10.2} steps/s {samples:>11.0} samples/s {rate:>12}  {says}");
        if let Some(limit) = limit {
            line.push_str(&format!("; {:.1} % of the limit", 100.0 * limit));
        }
        if *name == "loader" {
            line.push_str(&format!("; {:.1} % of steps came late", 100.0 * self.late()));
        }
        if let Some(used) = used {
            line.push_str(&format!("; GPU busy {:.0} %", 100.0 * used.compute));
        }
        line + "\n"
    }

    fn late(&self) -> f64 {
        self.measured.idle as f64 / self.measured.steps.max(1) as f64
    }

    fn json(&self) -> Value {
        let UploadMeasured { steps, samples, bytes, idle, seconds } = self.measured;
        json!({
            "stage": self.name, "steps": steps, "samples": samples, "bytes": bytes, "seconds": seconds,
            "steps_per_s": self.measured.steps_per_s(), "samples_per_s": self.measured.samples_per_s(),
            "bytes_per_s": self.measured.bytes_per_s(), "idle": idle, "late": self.late(), "of_limit": self.limit,
            "gpu_busy": self.used.map(|used| used.compute), "gpu_memory_busy": self.used.map(|used| used.memory),
        })
    }
}

/// The extension of a field's name.
fn extension(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or_default()
}
