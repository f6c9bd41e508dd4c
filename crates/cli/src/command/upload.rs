//! `packhorse bench upload`.

use super::CommandContext;
use super::bench::Load;
use super::upload_stages::{BenchGpus, Together, UploadStage, of_each};
use crate::bench_args::BenchUpload;
use crate::outcome::counted;
use crate::picture_args::view;
use crate::size::show;
use packhorse_core::{Error, Event, Kind, Observer as _, Result};
use packhorse_gpu::kernels::{Crop, Element, Flip, Motif, Normalize, Pixels, Resize, SyntheticPictures};
use packhorse_gpu::transforms::{Augmented, Pictures, Resized, Synthetic};
use packhorse_gpu::{
    Cuda, DeviceTransform, Gpu, JpegOptions, Jpegs, NvJpeg, Resident, Simulated, Upload, UploadBench, Usage,
};
use packhorse_read::{FieldKind, FieldOptions, Loader, NullLoader};
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
    let numbers = match devices(&args.device)? {
        Devices::Simulated(count) => {
            let gpus: Vec<_> = (0..count).map(|_| Simulated::new()).collect();
            let bench = Bench { context, args, simulated: true };
            return bench.run(&gpus, "host", &|_| None, &|_, _, _| Ok(None));
        }
        Devices::Numbers(numbers) => numbers,
        Devices::All => (0..Cuda::count().map_err(or_simulated)?).collect(),
    };
    let gpus = numbers.into_iter().map(Cuda::new).collect::<Result<Vec<_>>>().map_err(or_simulated)?;
    let name = gpus.first().map_or_else(|| Err(or_simulated(Error::unsupported("there is no GPU"))), Cuda::name)?;
    let step = |gpu: &Cuda, field: &str, cpu_share: f32| {
        let usual = JpegOptions::new(field, (args.size, args.size));
        let resize = if args.augment { augmented(usual.resize) } else { usual.resize };
        let threads = of_each(args.load.threads.jobs(), gpus.len());
        Jpegs::new(gpu, &NvJpeg::load(None)?, JpegOptions { resize, cpu_share, threads, ..usual })
    };
    let jpegs = |gpu: &Cuda, field: &str, cpu_share: f32| match step(gpu, field, cpu_share) {
        Ok(jpegs) => Ok(Some(Arc::new(jpegs) as Step)),
        Err(error) if error.kind() == Kind::Unsupported => {
            context.progress.event(&Event::Warning(&error.to_string()));
            Ok(None)
        }
        Err(error) => Err(error),
    };
    Bench { context, args, simulated: false }.run(&gpus, &name, &Usage::watch, &jpegs)
}

/// The GPUs that are measured together.
#[derive(Debug, PartialEq)]
enum Devices {
    Simulated(usize),
    Numbers(Vec<u32>),
    All,
}

fn devices(text: &str) -> Result<Devices> {
    let names: Vec<&str> = text.split(',').map(str::trim).collect();
    let number = |name: &str| match name {
        "cuda" => Some(0),
        name => name.strip_prefix("cuda:")?.parse().ok(),
    };
    if text.trim() == "cuda:all" {
        return Ok(Devices::All);
    }
    if names.iter().all(|name| *name == "host") {
        return Ok(Devices::Simulated(names.len()));
    }
    let wrong = || Error::config(format!("--device takes cuda, cuda:N, cuda:0,cuda:1, cuda:all or host, not {text}"));
    names.into_iter().map(number).collect::<Option<_>>().map(Devices::Numbers).ok_or_else(wrong)
}

fn or_simulated(error: Error) -> Error {
    match error.kind() {
        Kind::Unsupported => Error::unsupported(format!("{error}; --device host simulates one")),
        _ => error,
    }
}

/// A transform of batches on the GPU.
type Step = Arc<dyn DeviceTransform>;

/// Makes the step that decodes a field's JPEGs, a share of them by the CPU; `None` without nvJPEG.
type JpegStep<'a, G> = dyn Fn(&G, &str, f32) -> Result<Option<Step>> + 'a;

/// Classes of pictures that are mixed.
const CLASSES: u32 = 1000;

struct Bench<'a> {
    context: &'a CommandContext<'a>,
    args: &'a BenchUpload,
    /// No kernels, so nothing is finished or made on the device.
    simulated: bool,
}

impl Bench<'_> {
    fn run<G: Gpu + Clone>(
        &self,
        gpus: &[G],
        name: &str,
        watch: &dyn Fn(&G) -> Option<Usage>,
        jpegs: &JpegStep<'_, G>,
    ) -> Result<ExitCode> {
        let load = Load::new(self.context, &self.args.load)?;
        let pictures = FieldKind::Picture(view(self.args.size, self.args.augment));
        let stored = load.fields(None, &self.args.load.fields)?;
        let fields = load.fields(Some(pictures), &self.args.load.fields)?;
        let finish = self.finish(&fields);
        let time = Duration::from_secs_f64(self.args.step / 1000.0);
        let make = |gpu| {
            if self.simulated {
                UploadBench::pausing(gpu, time, load.time)
            } else {
                UploadBench::new(gpu, time, load.time)
            }
        };
        let bench = BenchGpus::new(&load, gpus, &make, (&fields, &finish))?;
        let mut stages = Vec::new();
        bench.copies(&finish, &mut stages)?;
        // First without steps, so that the page cache is warm for the compared stages.
        stages.push(UploadStage::new("raw", "batches without decoding, no steps", bench.batches(&stored, &[], false)?));
        stages.push(UploadStage::new(
            "decode",
            "batches of the dataset, no steps",
            bench.batches(&fields, &finish, false)?,
        ));
        let jpeg = fields.iter().find(|field| ["jpg", "jpeg"].contains(&extension(&field.name)));
        for (name, says, share) in [
            ("nvjpeg", "JPEGs decoded on the GPU, no steps", 0.0),
            ("nvjpeg+cpu", "the same, half of them by the CPU meanwhile", 0.5),
        ] {
            let Some(field) = jpeg else { break };
            let steps = gpus.iter().map(|gpu| jpegs(gpu, &field.name, share));
            let Some(steps) = steps.collect::<Result<Option<Vec<_>>>>()? else { break };
            let decoded = bench.together(|one| {
                let step = steps.get(one.index).cloned();
                one.batches(&load, &stored, step.as_slice(), false)
            });
            stages.push(UploadStage::new(name, says, decoded?));
        }
        bench.steps(&fields, &finish, watch, &mut stages)?;
        if let Some(held) = self.resident(&bench, &load, &fields)? {
            stages.push(UploadStage::new("resident", "batches of samples that the GPU keeps, no steps", held));
        }
        if !self.simulated {
            let made = bench.together(|one| {
                let upload = Upload::with_transforms(one.gpu.clone(), vec![self.made()])?;
                one.bench.batches(NullLoader::null(load.dataset.len(), &one.options, upload)?, 0, false)
            })?;
            stages.push(UploadStage::new("made", "pictures that the GPU makes, no steps", made));
        }
        self.tell(&bench, name, &stages)
    }

    /// Batches of samples that the GPUs keep; `None` if they don't fit the memory of one.
    fn resident<G: Gpu + Clone>(
        &self,
        bench: &BenchGpus<'_, G>,
        load: &Load,
        fields: &[FieldOptions],
    ) -> Result<Option<Together>> {
        if self.simulated {
            return Ok(None);
        }
        let (fields, steps) =
            if self.args.augment { self.cut_on_the_gpu(fields) } else { (fields.to_vec(), self.finish(fields)) };
        let measured = bench.together(|one| {
            let resident = Arc::new(Resident::load(&one.gpu, &load.dataset, &fields, &one.options)?);
            let upload = Upload::resident(&resident, steps.clone())?;
            let loader = Loader::new(load.dataset.clone(), &fields, &one.options, upload)?;
            one.bench.batches(loader, one.options.ahead as u64, false)
        });
        match measured {
            Err(error) if error.kind() == Kind::Limit => {
                self.context.progress.event(&Event::Warning(&error.to_string()));
                Ok(None)
            }
            measured => measured.map(Some),
        }
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

    fn tell<G: Gpu>(&self, bench: &BenchGpus<'_, G>, name: &str, stages: &[UploadStage]) -> Result<ExitCode> {
        let (dataset, batch, bytes) = (&bench.load.dataset, self.args.load.batch, bench.batch_bytes());
        let (gpus, threads) = (bench.gpus(), bench.threads());
        let several = if gpus > 1 { format!("{gpus} GPUs, ") } else { String::new() };
        let mut text = format!(
            "{several}{name}: {} in {}, {batch} of them in {} a batch, {}, steps of {} ms\n",
            counted(dataset.len(), "sample"),
            show(dataset.bytes()),
            show(bytes as u64),
            counted(threads as u64, "thread"),
            self.args.step,
        );
        stages.iter().for_each(|stage| text.push_str(&stage.line()));
        let stages: Vec<Value> = stages.iter().map(UploadStage::json).collect();
        let value = json!({
            "device": name, "gpus": gpus, "simulated": self.simulated, "samples": dataset.len(), "batch": batch,
            "batch_bytes": bytes, "threads": threads, "step_ms": self.args.step, "stages": stages,
        });
        self.context.style.show(&value, &text)
    }
}

/// Random parts of pictures, and every other one mirrored.
fn augmented(resize: Resize) -> Resize {
    let crop = Crop::Random { scale: (0.08, 1.0), ratio: (3.0 / 4.0, 4.0 / 3.0) };
    Resize { crop, flip: Flip::Drawn(0.5), ..resize }
}

/// The extension of a field's name.
fn extension(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or_default()
}
