//! `packhorse bench`.

use super::CommandContext;
use super::shares::Shares;
use crate::bench_args::{BenchLoad, BenchRead};
use crate::outcome::counted;
use crate::peak_memory::peak_memory;
use crate::size::show;
use packhorse_core::{Error, Kind, Observer, Result};
use packhorse_read::{
    Access, Dataset, FieldKind, FieldOptions, LoaderOptions, Measured, OnError, ReadOptions, measure,
};
use packhorse_report::is_picture;
use serde_json::{Value, json};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// A dataset and how it is loaded.
pub(super) struct Load {
    pub(super) dataset: Dataset,
    pub(super) options: LoaderOptions,
    pub(super) time: Duration,
}

impl Load {
    pub(super) fn new(context: &CommandContext<'_>, args: &BenchLoad) -> Result<Self> {
        // The upper bound keeps it a number of seconds that a clock can hold.
        if !(args.seconds > 0.0 && args.seconds <= 86_400.0) {
            return Err(Error::config(format!("--seconds takes a number above 0, up to 86400, not {}", args.seconds)));
        }
        let dataset = context.dataset(&args.dataset)?;
        let access = if args.map { Access::Map } else { ReadOptions::default().access };
        let threads = args.threads.jobs();
        let options = LoaderOptions {
            shuffle: args.shuffle,
            seed: args.seed,
            threads,
            readers: args.readers.into(),
            on_error: match args.on_error {
                packhorse_pack::OnError::Fail => OnError::Fail,
                packhorse_pack::OnError::Skip => OnError::Skip,
            },
            ahead: threads + 2,
            read: ReadOptions { access, ..ReadOptions::default() },
            observer: Arc::clone(&context.progress) as Arc<dyn Observer>,
            counters: Some(Arc::clone(&context.loaders)),
            ..LoaderOptions::new(args.batch)
        };
        Ok(Self { dataset, options, time: Duration::from_secs_f64(args.seconds) })
    }

    /// The fields to load: see [`chosen_fields`].
    pub(super) fn fields(&self, pictures: Option<FieldKind>, asked: &[String]) -> Result<Vec<FieldOptions>> {
        chosen_fields(&self.dataset, pictures.as_ref(), asked)
    }
}

/// The fields to load, all or those that are asked for: pictures as `pictures`, if given; others by their types.
pub(super) fn chosen_fields(
    dataset: &Dataset,
    pictures: Option<&FieldKind>,
    asked: &[String],
) -> Result<Vec<FieldOptions>> {
    let mut found = Vec::new();
    for field in dataset.schema().fields().iter().filter(|field| asked.is_empty() || asked.contains(field.name())) {
        let kind = pictures.filter(|_| is_picture(field.name())).cloned().unwrap_or(FieldKind::Auto);
        found.push(FieldOptions { required: !field.is_nullable(), ..FieldOptions::new(field.name(), kind) });
    }
    match asked.iter().find(|name| !found.iter().any(|field| field.name == **name)) {
        Some(name) => Err(Error::config(format!("the dataset has no field {name}; packhorse stat shows what it has"))),
        None => Ok(found),
    }
}

pub(super) fn read(context: &CommandContext<'_>, args: &BenchRead) -> Result<ExitCode> {
    let load = Load::new(context, &args.load)?;
    let fields = load.fields(args.pictures.kind(), &args.load.fields)?;
    let Load { dataset, options, time } = load;
    let (threads, batch) = (options.threads, args.load.batch);
    let mut stages = Vec::new();
    let mut text = format!(
        "{} in {}, {} of {}, {}\n",
        counted(dataset.len(), "sample"),
        show(dataset.bytes()),
        format_args!("{} batches", dataset.len() / u64::from(batch)),
        batch,
        counted(threads as u64, "thread"),
    );
    measure(&dataset, &fields, &options, time, &mut |measured| stages.push(*measured)).map_err(with_flag)?;
    // Of reading: measuring the limits takes more.
    let peak = peak_memory();
    let shares = args.limits.then(|| Shares::measure(context, &args.load.dataset, threads, &fields, &stages));
    let shares = shares.transpose()?;
    stages.iter().for_each(|measured| text.push_str(&line(measured, shares.as_ref())));
    let stages: Vec<Value> = stages.iter().map(|measured| of_stage(measured, shares.as_ref())).collect();
    text.push_str("  recorded digests were not compared: packhorse verify --full does that\n");
    if let Some(peak) = peak {
        text.push_str(&format!("  {} of memory at most\n", show(peak)));
    }
    let mut value = json!({
        "samples": dataset.len(), "bytes": dataset.bytes(), "batch": batch, "threads": threads, "stages": stages,
        "peak_memory": peak, "verified": false,
    });
    if let Some(shares) = shares {
        value["limits"] = shares.limits();
    }
    context.style.show(&value, &text)
}

fn of_stage(measured: &Measured, shares: Option<&Shares>) -> Value {
    let mut value = json!({
        "stage": measured.stage, "samples": measured.samples, "bytes": measured.bytes, "seconds": measured.seconds,
        "samples_per_s": measured.samples as f64 / measured.seconds,
        "bytes_per_s": measured.bytes as f64 / measured.seconds,
    });
    if let Some(shares) = shares {
        value["of_limits"] = shares.json(measured);
    }
    value
}

/// An error on fields that batches can't hold says how others are chosen.
pub(super) fn with_flag(error: Error) -> Error {
    if error.kind() != Kind::Unsupported {
        return error;
    }
    error.hint("--fields A,B chooses others")
}

fn line(measured: &Measured, shares: Option<&Shares>) -> String {
    let rate = |n: u64| n as f64 / measured.seconds.max(1e-9);
    let (samples, bytes) = (rate(measured.samples), rate(measured.bytes) as u64);
    let shares = shares.map_or_else(String::new, |shares| format!("  {}", shares.text(measured)));
    format!("  {:<7}{samples:>12.0} samples/s {:>10}/s{shares}\n", measured.stage, show(bytes))
}
