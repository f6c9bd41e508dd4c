//! `packhorse diagnose`.

use super::CommandContext;
use super::bench::{Load, with_flag};
use super::repack::Ways;
use crate::diagnose_args::DiagnoseFlags;
use crate::outcome::counted;
use crate::size::show;
use packhorse_core::{Error, Result};
use packhorse_order::Rank;
use packhorse_read::diagnose::{Cut, DiagnoseOptions, Diagnosis, RankReport, Readiness, diagnose};
use packhorse_read::{FieldOptions, Host, LoaderOptions};
use serde_json::json;
use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

/// Measurements of a round: the cuts, and the loader without steps.
const MEASUREMENTS: u32 = Cut::ALL.len() as u32 + 1;

pub(super) fn run(context: &CommandContext<'_>, args: &DiagnoseFlags) -> Result<ExitCode> {
    if !(0.0..=100_000.0).contains(&args.step_ms) {
        return Err(Error::config(format!("--step-ms takes 0 to 100000 milliseconds, not {}", args.step_ms)));
    }
    let load = Load::new(context, &args.load)?;
    let fields = load.fields(args.pictures.kind(), &args.load.fields)?;
    let rank = Rank::from_environment(&|name| std::env::var(name).ok())?;
    let how = DiagnoseOptions {
        time: load.time * MEASUREMENTS,
        cold: args.cold,
        apply: args.apply,
        cancel: context.cancel.clone(),
        ..DiagnoseOptions::default()
    };
    let options = LoaderOptions { rank, ..load.options.clone() };
    let step = Duration::from_secs_f64(args.step_ms / 1000.0);
    let ways = Ways::new(context, &args.load.dataset, &args.repack)?;
    args.ranks.as_deref().map_or(Ok(()), |dir| context.refuse_inside(&args.load.dataset, dir))?;
    let said = args.ranks.as_deref().map(|dir| Ranks::begin(dir, rank)).transpose()?;
    let mut found = on_device(&load, &fields, &options, &args.device, step, &how)
        .map_err(|e| if e.field().is_some() { with_flag(e) } else { e })?;
    ways.add_to(&mut found, context, &load, &fields, &options)?;
    let ranks = said.map(|ranks| ranks.end(&found)).transpose()?.flatten();
    let mut text = title(&load, args);
    text.push_str(&found.to_string());
    let mut result = found.to_json();
    if let Some(ranks) = &ranks {
        text.push_str(&of_ranks(ranks));
        result["ranks"] = json!({ "median": ranks.median, "slow": ranks.slow, "slow_node": ranks.slow_node });
    }
    context.style.always(true).show(&result, &text)
}

/// Diagnoses with steps on the device of that name.
fn on_device(
    load: &Load,
    fields: &[FieldOptions],
    options: &LoaderOptions,
    device: &str,
    step: Duration,
    how: &DiagnoseOptions,
) -> Result<Diagnosis> {
    if device == "host" {
        let mut sleep = |_: &_| {
            std::thread::sleep(step);
            Ok(())
        };
        return diagnose(&load.dataset, fields, options, &mut || Ok(Host::default()), &mut sleep, how);
    }
    #[cfg(feature = "gpu")]
    return gpu::on_gpu(load, fields, options, device, step, how);
    #[cfg(not(feature = "gpu"))]
    Err(Error::config(format!("--device takes host, not {device}: this packhorse was built without the feature gpu")))
}

#[cfg(feature = "gpu")]
mod gpu {
    use super::{DiagnoseOptions, Diagnosis, Duration, Error, FieldOptions, Load, LoaderOptions, Result};
    use packhorse_gpu::{Cuda, DeviceBatch, FixedSteps, Gpu, diagnose_on_gpu};
    use packhorse_read::diagnose::TrainingStep;

    /// Steps that may be queued and unfinished, as in a loop that reads its loss now and then.
    const QUEUED: usize = 2;

    pub(super) fn on_gpu(
        load: &Load,
        fields: &[FieldOptions],
        options: &LoaderOptions,
        device: &str,
        step: Duration,
        how: &DiagnoseOptions,
    ) -> Result<Diagnosis> {
        let number = match device {
            "cuda" => Some(0),
            other => other.strip_prefix("cuda:").and_then(|number| number.parse().ok()),
        };
        let wrong = || Error::config(format!("--device takes host, cuda or cuda:N, not {device}"));
        let gpu = Cuda::new(number.ok_or_else(wrong)?)?;
        let mut steps = Steps::new(gpu.clone(), step)?;
        let sent = (fields.to_vec(), Vec::new());
        diagnose_on_gpu(&gpu, &load.dataset, (fields, &[], &sent), options, &|upload, _| upload, &mut steps, how)
    }

    /// Training steps, each a fixed amount of work.
    pub(super) struct Steps<G: Gpu> {
        gpu: G,
        compute: G::Stream,
        /// `None` for steps of no time.
        work: Option<FixedSteps<G>>,
        events: Vec<G::Event>,
        done: usize,
    }

    impl<G: Gpu + Clone> Steps<G> {
        pub(super) fn new(gpu: G, time: Duration) -> Result<Self> {
            let events = (0..=QUEUED).map(|_| gpu.event()).collect::<Result<Vec<_>>>()?;
            let compute = gpu.stream()?;
            let work = (!time.is_zero()).then(|| FixedSteps::new(&gpu, time, &compute)).transpose()?;
            Ok(Self { compute, gpu, work, events, done: 0 })
        }
    }

    impl<G: Gpu> TrainingStep<DeviceBatch<G>> for Steps<G> {
        fn step(&mut self, batch: &DeviceBatch<G>) -> Result<()> {
            batch.wait(&self.compute)?;
            self.work.as_ref().map_or(Ok(()), FixedSteps::queue)?;
            let at = |number: usize| self.events.get(number % self.events.len());
            at(self.done).map_or(Ok(()), |event| self.gpu.record(event, &self.compute))?;
            self.done += 1;
            // An event that was never recorded counts as past.
            at(self.done).map_or(Ok(()), |oldest| self.gpu.synchronize(oldest))
        }

        fn finish(&mut self) -> Result<()> {
            self.gpu.drain()
        }
    }
}

fn title(load: &Load, args: &DiagnoseFlags) -> String {
    let step = match args.step_ms {
        0.0 => "no steps".to_owned(),
        step => format!("steps of {step} ms"),
    };
    format!(
        "{} in {}, {} a batch, {}, {}, {step}\n",
        counted(load.dataset.len(), "sample"),
        show(load.dataset.bytes()),
        args.load.batch,
        counted(load.options.threads as u64, "thread"),
        counted(load.options.readers as u64, "reader"),
    )
}

/// The results of the ranks of a job, in a folder.
struct Ranks<'a> {
    dir: &'a Path,
    rank: Rank,
}

impl<'a> Ranks<'a> {
    /// Removes the result of an earlier job.
    fn begin(dir: &'a Path, rank: Rank) -> Result<Self> {
        let made = Self { dir, rank };
        std::fs::create_dir_all(dir).map_err(|e| Error::io("make the folder", e).in_input(dir.display()))?;
        match std::fs::remove_file(made.file(rank.rank)) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                Err(Error::io("remove an earlier result", e).in_input(dir.display()))
            }
            _ => Ok(made),
        }
    }

    fn file(&self, rank: u32) -> std::path::PathBuf {
        self.dir.join(format!("rank-{rank:05}.json"))
    }

    /// Writes the result of this rank. Returns the comparison, if all ranks have written theirs.
    fn end(&self, found: &Diagnosis) -> Result<Option<Readiness>> {
        let (file, report) = (self.file(self.rank.rank), RankReport::new(self.rank, found));
        let staged = file.with_extension("part");
        let text = serde_json::to_vec(&report).map_err(|e| Error::bug(e.to_string()))?;
        let written = std::fs::write(&staged, text).and_then(|()| std::fs::rename(&staged, &file));
        written.map_err(|e| Error::io("write the result of this rank", e).in_input(file.display()))?;
        let read = |rank: u32| serde_json::from_slice(&std::fs::read(self.file(rank)).ok()?).ok();
        let all: Option<Vec<RankReport>> = (0..self.rank.world_size).map(read).collect();
        Ok(all.map(|all| Readiness::of(&all)))
    }
}

fn of_ranks(ranks: &Readiness) -> String {
    let mut text = match ranks.slow.len() as u64 {
        0 => format!("All ranks are ready: {:.2} steps/s in the median.\n", ranks.median),
        slow => format!(
            "{} than the median rank with {:.2} steps/s, and all wait for the slowest:\n",
            slower(slow),
            ranks.median
        ),
    };
    for report in &ranks.slow {
        let RankReport { rank, node, bottleneck, loader, device, .. } = report;
        let _ =
            writeln!(text, "  rank {rank} on {node}: {loader:.2} steps/s of {device:.2}, it waits for: {bottleneck}");
    }
    if let Some(node) = &ranks.slow_node {
        let _ = writeln!(text, "  these are all ranks of {node}, and no others");
    }
    text
}

fn slower(ranks: u64) -> String {
    format!("{} slower", if ranks == 1 { "1 rank is".to_owned() } else { format!("{ranks} ranks are") })
}
