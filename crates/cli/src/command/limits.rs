//! `packhorse bench limits`: the limits of this machine, for people and for programs.

use super::CommandContext;
use crate::bench_args::BenchLimits;
use crate::outcome::{counted, path_text};
use crate::size::show;
use packhorse_core::Result;
use packhorse_machine::{ColdReads, LimitsOptions, MachineLimit, MachineLimits, Unit, measure};
use serde_json::{Value, json};
use std::process::ExitCode;

pub(super) fn run(context: &CommandContext<'_>, args: &BenchLimits) -> Result<ExitCode> {
    let dir = args.dir.clone().unwrap_or_else(std::env::temp_dir);
    let options = LimitsOptions {
        size: args.size,
        seconds: args.seconds,
        threads: args.threads.jobs(),
        io_threads: usize::from(args.io_threads),
        ..LimitsOptions::new(dir)
    };
    let limits = machine_limits(context, &options)?;
    context.style.show(&value(&limits), &text(&limits))
}

/// The limits of this machine, with those of its first GPU where it has one.
pub(super) fn machine_limits(context: &CommandContext<'_>, options: &LimitsOptions) -> Result<MachineLimits> {
    let mut limits = measure(options, &context.cancel)?;
    #[cfg(feature = "gpu")]
    gpu::add(context, options, &mut limits)?;
    limits.measured.sort_by_key(|limit| (limit.quantity, limit.threads));
    Ok(limits)
}

#[cfg(feature = "gpu")]
mod gpu {
    use super::CommandContext;
    use packhorse_core::{Event, Kind, Observer as _, Result};
    use packhorse_gpu::{Cuda, Gpu, UploadBench};
    use packhorse_machine::{Interval, LimitsOptions, MachineLimit, MachineLimits, Quantity, ROUNDS};
    use std::time::{Duration, Instant};

    /// Bytes of a copy.
    const COPIED: usize = 64 << 20;

    /// Copies from and to the first GPU. A driver that fails is a warning.
    pub(super) fn add(context: &CommandContext<'_>, options: &LimitsOptions, limits: &mut MachineLimits) -> Result<()> {
        let start = Instant::now();
        let found = Cuda::new(0).and_then(|gpu| Ok((gpu.name()?, copies(context, gpu, options.seconds / 10.0)?)));
        match found {
            Ok((name, copies)) => {
                limits.gpu = Some(name);
                limits.measured.extend(copies);
            }
            Err(error) if error.kind() == Kind::Cancelled => return Err(error),
            Err(error) if error.kind() == Kind::Unsupported => {}
            Err(error) => context.progress.event(&Event::Warning(&format!("the GPU was not measured: {error}"))),
        }
        limits.seconds += start.elapsed().as_secs_f64();
        Ok(())
    }

    /// For about `seconds` both ways together.
    fn copies<G: Gpu + Clone>(context: &CommandContext<'_>, gpu: G, seconds: f64) -> Result<[MachineLimit; 2]> {
        let each = Duration::from_secs_f64(seconds / (2 * ROUNDS) as f64);
        let bench = UploadBench::pausing(gpu, Duration::ZERO, each)?;
        let (mut to, mut from) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            context.cancel.check()?;
            to.push(bench.copies(COPIED)?.bytes_per_s());
            from.push(bench.downloads(COPIED)?.bytes_per_s());
        }
        let limit = |quantity, rates| MachineLimit { quantity, threads: 1, rate: Interval::of(rates), unit_bytes: 1.0 };
        Ok([limit(Quantity::ToGpu, to), limit(Quantity::FromGpu, from)])
    }
}

/// For programs: `limits` has an entry for each quantity and number of threads.
pub(super) fn value(limits: &MachineLimits) -> Value {
    let MachineLimits { dir, size, threads, cold, gpu, measured, seconds } = limits;
    let measured: Vec<Value> = measured.iter().map(of_one).collect();
    json!({
        "dir": path_text(dir), "size": size, "threads": threads, "cold": cold.name(), "gpu": gpu, "seconds": seconds, "limits": measured,
    })
}

fn of_one(limit: &MachineLimit) -> Value {
    let MachineLimit { quantity, threads, rate, .. } = limit;
    let mut value = json!({
        "limit": quantity.name(), "threads": threads, "unit": format!("{}/s", quantity.unit().name()),
        "median": rate.median, "min": rate.min, "max": rate.max, "rounds": rate.rounds,
    });
    if quantity.unit() != Unit::Files {
        value["bytes_per_s"] = limit.bytes_per_s().into();
    }
    if let Some(pixels) = limit.pixels_per_s() {
        value["pixels_per_s"] = pixels.into();
    }
    value
}

/// For people: a line for each.
fn text(limits: &MachineLimits) -> String {
    let cold = match limits.cold {
        ColdReads::Direct => "cold reads by O_DIRECT",
        ColdReads::Dropped => "cold reads after POSIX_FADV_DONTNEED",
        ColdReads::None => "no cold reads: this file system reads from memory",
    };
    let mut text = format!(
        "{}: a test file of {}, {}, {cold}, {:.1} s\n",
        limits.dir.display(),
        show(limits.size),
        counted(limits.threads as u64, "thread"),
        limits.seconds,
    );
    limits.measured.iter().for_each(|limit| text.push_str(&line(limit)));
    text.push_str(&match &limits.gpu {
        Some(name) => format!("  the GPU is {name}\n"),
        None => "  no GPU\n".to_owned(),
    });
    text
}

fn line(limit: &MachineLimit) -> String {
    let rate = limit.rate;
    let threads = counted(limit.threads as u64, "thread");
    let unit = limit.quantity.unit();
    let shown = |n: f64| match unit {
        Unit::Bytes => show(n as u64),
        _ => format!("{n:.0}"),
    };
    let per = if unit == Unit::Bytes { "/s".to_owned() } else { format!(" {}/s", unit.name()) };
    let interval = format!("({} to {})", shown(rate.min), shown(rate.max));
    let rate = format!("{}{per}", shown(rate.median));
    let more = match (limit.pixels_per_s(), unit) {
        (Some(pixels), _) => format!("  {:.0} megapixels/s", pixels / 1e6),
        (None, Unit::Reads) => format!("  {}/s", show(limit.bytes_per_s() as u64)),
        _ => String::new(),
    };
    format!("  {:<30}{threads:>11} {rate:>18}  {interval}{more}\n", limit.quantity.says())
}
