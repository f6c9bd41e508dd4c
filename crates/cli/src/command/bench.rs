//! `packhorse bench`.

use super::Context;
use crate::args::BenchRead;
use crate::outcome::{counted, success};
use crate::size::show;
use packhorse_core::{Error, Observer, Result};
use packhorse_read::{Access, FieldOptions, LoaderOptions, Make, Measured, OpenOptions, ReadOptions, measure, open};
use packhorse_storage::Location;
use packhorse_transform::image::{Size, View};
use serde_json::json;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// Extensions of fields that hold pictures.
const PICTURES: [&str; 3] = ["jpg", "jpeg", "png"];

pub(super) fn read(context: &Context<'_>, args: &BenchRead) -> Result<ExitCode> {
    if !(args.seconds.is_finite() && args.seconds > 0.0) {
        return Err(Error::config(format!("--seconds takes a number above 0, not {}", args.seconds)));
    }
    let (store, path) = Location::parse(&args.dataset)?.open()?;
    let dataset = open(context.registry, store, &path, &OpenOptions::default()).map_err(packhorse_pack::of_request)?;
    let fields =
        fields(dataset.schema().fields().iter().map(|field| (field.name().as_str(), field.is_nullable())), args)?;
    let access = if args.map { Access::Map } else { ReadOptions::default().access };
    let threads = args.threads.jobs();
    let options = LoaderOptions {
        shuffle: args.shuffle,
        seed: args.seed,
        threads,
        readers: args.readers,
        ahead: threads + 2,
        read: ReadOptions { access, ..ReadOptions::default() },
        observer: Arc::clone(&context.progress) as Arc<dyn Observer>,
        ..LoaderOptions::new(args.batch)
    };
    let mut stages = Vec::new();
    let mut text = format!(
        "{} in {}, {} of {} a batch, {}\n",
        counted(dataset.len(), "sample"),
        show(dataset.bytes()),
        format_args!("{} batches", dataset.len() / u64::from(args.batch)),
        args.batch,
        counted(threads as u64, "thread"),
    );
    measure(&dataset, &fields, &options, Duration::from_secs_f64(args.seconds), &mut |measured| {
        text.push_str(&line(measured));
        stages.push(json!({
            "stage": measured.stage, "samples": measured.samples, "bytes": measured.bytes, "seconds": measured.seconds,
            "samples_per_s": measured.samples as f64 / measured.seconds,
            "bytes_per_s": measured.bytes as f64 / measured.seconds,
        }));
    })?;
    let peak = peak_memory();
    if let Some(peak) = peak {
        text.push_str(&format!("  {} of memory at most\n", show(peak)));
    }
    let value = json!({
        "samples": dataset.len(), "bytes": dataset.bytes(), "batch": args.batch, "threads": threads, "stages": stages,
        "peak_memory": peak,
    });
    context.style.show(&value, &text)?;
    Ok(success())
}

fn line(measured: &Measured) -> String {
    let rate = |n: u64| n as f64 / measured.seconds.max(1e-9);
    let (samples, bytes) = (rate(measured.samples), rate(measured.bytes) as u64);
    format!("  {:<7}{samples:>12.0} samples/s {:>10}/s\n", measured.stage, show(bytes))
}

/// What becomes of the fields: pictures of a size are decoded, all else is what its type suggests.
fn fields<'a>(known: impl Iterator<Item = (&'a str, bool)>, args: &BenchRead) -> Result<Vec<FieldOptions>> {
    let mut found = Vec::new();
    for (name, nullable) in known.filter(|(name, _)| args.fields.is_empty() || args.fields.iter().any(|f| f == name)) {
        let extension = name.rsplit('.').next().unwrap_or_default();
        let make = match args.size.filter(|_| PICTURES.contains(&extension)) {
            Some(size) => Make::Picture(view(size, args.augment)),
            None => Make::Auto,
        };
        found.push(FieldOptions { required: !nullable, ..FieldOptions::new(name, make) });
    }
    match args.fields.iter().find(|name| !found.iter().any(|field| field.name == **name)) {
        Some(name) => Err(Error::config(format!("the dataset has no field {name}; packhorse stat shows what it has"))),
        None => Ok(found),
    }
}

fn view(size: u32, augment: bool) -> View {
    let (height, width) = (size, size);
    if !augment {
        return View { size: Size::Center { short: size, height, width }, ..View::default() };
    }
    let size = Size::Random { height, width, scale: (0.08, 1.0), ratio: (3.0 / 4.0, 4.0 / 3.0) };
    View { size, flip: 0.5, ..View::default() }
}

/// The most memory that this process ever had, where the system tells.
fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|kib| kib * 1024)
}
