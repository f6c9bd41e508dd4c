//! `packhorse pack` and `packhorse seal`.

use super::plan::out;
use super::scanning::make_plan;
use super::{Context, plan, trees};
use crate::args::Seal;
use crate::outcome::{counted, success};
use crate::planning::{Pack, Planning, Work};
use crate::size::show;
use crate::slurm;
use packhorse_core::{Error, Event, Kind, Observer, Result};
use packhorse_dataset::{Manifest, PLAN};
use packhorse_pack::{
    PackOptions, PackReport, Packing, Part, Policy, Stored, open_plan, plan_file, plan_folder, plan_limits,
};
use packhorse_transform::{RebuildContext, Transform, from_description_with};
use serde_json::{Value, json};
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

pub(super) fn run(context: &Context<'_>, args: &Pack) -> Result<ExitCode> {
    if let Some(dir) = &args.plan {
        return fill(context, args, dir);
    }
    if args.part.is_some() {
        return Err(Error::config("--part is a part of a plan; give the folder of the plan with --plan DIR"));
    }
    if args.planning.reading.tree.as_deref() == Some(trees::ALL) {
        return trees::pack(context, &args.planning, &args.work);
    }
    let packed = whole(context, &args.planning, &args.work)?;
    context.style.show(&packed.value, &packed.text)?;
    packed.fault.map_or(Ok(success()), Err)
}

/// What is to be said of a dataset.
pub(super) struct Packed {
    pub(super) value: Value,
    pub(super) text: String,
    /// What is wrong with it for all that.
    pub(super) fault: Option<Error>,
}

/// Scan, plan, pack and seal in one process.
pub(super) fn whole(context: &Context<'_>, planning: &Planning, work: &Work) -> Result<Packed> {
    let start = Instant::now();
    let out = out(planning.out.as_ref())?;
    plan::finish_replacing(context, planning)?;
    let planned = make_plan(context, planning, work)?;
    if planning.dry_run {
        let (value, text) = plan::summary(&planned, out, None);
        return Ok(Packed { value, text, fault: None });
    }
    let stored = plan::store(context, planning, out, &planned.plan)?;
    let transforms = planned.transforms;
    drop(planned.plan);
    let report = pack(context, &transforms, out, work, Part::ALL, planning.on_error)?;
    let place = plan_folder(&context.store, out)?;
    if context.store.stat(&place.join(PLAN), false).is_err() {
        let message = "was moved or removed while it was packed; run the same command again";
        return Err(Error::new(Kind::Environment, message).in_input(out.display()));
    }
    let manifest = packhorse_pack::seal(context.registry, &transforms, &context.store, out, &context.cancel)?;
    context.progress.finish();
    warn_of_sizes(context, planning, &manifest);
    let (value, text) = summary(out, &report, Some(&manifest), stored, start);
    let nothing = || Error::content("nothing is left: everything was left out; skipped.jsonl says why");
    let is_empty = manifest.samples == 0 && manifest.skipped > 0;
    Ok(Packed { value, text, fault: is_empty.then(|| nothing().in_input(out.display())) })
}

/// Shards that came out larger than they were asked for, with the size to ask for instead.
fn warn_of_sizes(context: &Context<'_>, planning: &Planning, manifest: &Manifest) {
    let Some(asked) = planning.shard_size else { return };
    let largest = manifest.shards.iter().map(|shard| shard.bytes).max().unwrap_or(0);
    // A sample that is larger than a shard is one alone: no size helps.
    let over = manifest.shards.iter().filter(|shard| shard.samples > 1 && shard.bytes > asked + asked / 10).count();
    if over > 0 {
        let better = (asked as f64 * (asked as f64 / largest as f64)) as u64;
        context.progress.event(&Event::Warning(&format!(
            "{} larger than --shard-size {}, up to {}, since transforms and compression change sizes; --shard-size {} \
             keeps them below",
            if over == 1 { "1 shard is".to_owned() } else { format!("{over} shards are") },
            show(asked),
            show(largest),
            show(better).replace(' ', "")
        )));
    }
}

/// Fills a part of a plan.
fn fill(context: &Context<'_>, args: &Pack, dir: &Path) -> Result<ExitCode> {
    let start = Instant::now();
    let part = match args.part {
        Some(part) => part,
        None => slurm::part(&|name| std::env::var(name).ok())?.unwrap_or(Part::ALL),
    };
    let transforms = transforms_of(context, dir, args.planning.tokenizing.check_exact)?;
    let report = pack(context, &transforms, dir, &args.work, part, args.planning.on_error)?;
    context.progress.finish();
    let (value, text) = summary(dir, &report, None, Stored::Resumed, start);
    context.style.show(&value, &text)?;
    Ok(success())
}

/// The transforms of the plan in `dir`; of a tokenizer, so large a share of documents is checked.
pub(super) fn transforms_of(context: &Context<'_>, dir: &Path, check_exact: f64) -> Result<Vec<Box<dyn Transform>>> {
    let dir = &plan_folder(&context.store, dir)?;
    let plan = open_plan(&*context.store, dir)?;
    let files = |digest: &str| plan_file(&*context.store, dir, &plan, digest);
    let rebuild = RebuildContext { limits: plan_limits(plan.header(), context.limits)?, files: &files, check_exact };
    plan.header().transforms.iter().map(|text| from_description_with(text, &rebuild)).collect()
}

fn pack(
    context: &Context<'_>,
    transforms: &[Box<dyn Transform>],
    out: &Path,
    work: &Work,
    part: Part,
    policy: Policy,
) -> Result<PackReport> {
    let (packing, options) = packing(context, transforms, work, part, policy);
    packhorse_pack::pack(&packing, out, &options)
}

/// What packing takes, and how it is done.
pub(super) fn packing<'a>(
    context: &'a Context<'_>,
    transforms: &'a [Box<dyn Transform>],
    work: &Work,
    part: Part,
    policy: Policy,
) -> (Packing<'a>, PackOptions) {
    let packing = Packing {
        registry: context.registry,
        transforms,
        store: context.store.clone(),
        limits: context.limits,
        observer: &context.progress,
        cancel: &context.cancel,
    };
    let options = PackOptions {
        part,
        jobs: work.threads.jobs(),
        io_threads: usize::from(work.io_threads),
        memory: work.memory.unwrap_or(PackOptions::default().memory),
        policy,
        verify: work.verifying.on(),
    };
    // Formats compress and inflate on this pool; where it is set up already, there is nothing to do.
    let _ = rayon::ThreadPoolBuilder::new().num_threads(options.jobs).build_global();
    (packing, options)
}

fn summary(
    out: &Path,
    report: &PackReport,
    manifest: Option<&Manifest>,
    stored: Stored,
    start: Instant,
) -> (Value, String) {
    let seconds = start.elapsed().as_secs_f64();
    let rate = show((report.input_bytes as f64 / seconds.max(1e-9)) as u64);
    let skipped = manifest.map_or(report.skipped, |m| m.skipped);
    let reused =
        if report.reused > 0 { format!(", {} of them were there already", report.reused) } else { String::new() };
    let left_out = if skipped > 0 { format!(", skipped {skipped} (see skipped.jsonl)") } else { String::new() };
    let mut text = format!(
        "packed {} ({}) into {} ({}){reused} in {seconds:.2} s, {rate}/s{left_out}\n",
        counted(report.samples, "sample"),
        show(report.input_bytes),
        counted(report.shards, "shard"),
        show(report.bytes),
    );
    let omitted = manifest.map(|m| &m.omitted);
    if let Some(omitted) = omitted.filter(|omitted| !omitted.is_empty()) {
        text.push_str(&plan::left_out(omitted.len()));
    }
    for (what, count) in report.counts.iter().filter(|(what, _)| !what.contains(" of ")) {
        text.push_str(&format!("  {count} {what}\n"));
    }
    match manifest {
        Some(manifest) => text.push_str(&format!("  sealed {}, root {}\n", out.display(), manifest.root)),
        None => text.push_str(&format!("  when all parts are done: packhorse seal {}\n", out.display())),
    }
    let value = json!({
        "samples": report.samples, "input_bytes": report.input_bytes, "bytes": report.bytes, "shards": report.shards,
        "reused": report.reused, "resumed": stored == Stored::Resumed, "skipped": skipped, "seconds": seconds,
        "root": manifest.map(|m| m.root.to_string()), "omitted": omitted, "counts": report.counts,
    });
    (value, text)
}

pub(super) fn seal(context: &Context<'_>, args: &Seal) -> Result<ExitCode> {
    let dir = &args.dir.dir;
    let transforms = transforms_of(context, dir, 0.0)?;
    let manifest = packhorse_pack::seal(context.registry, &transforms, &context.store, dir, &context.cancel)?;
    context.progress.finish();
    let text = format!(
        "sealed {}: {} in {} ({}), root {}\n",
        dir.display(),
        counted(manifest.samples, "sample"),
        counted(manifest.shards.len() as u64, "shard"),
        show(manifest.bytes),
        manifest.root
    );
    let value = json!({
        "samples": manifest.samples, "shards": manifest.shards.len(), "bytes": manifest.bytes,
        "skipped": manifest.skipped, "root": manifest.root.to_string(),
    });
    context.style.show(&value, &text)?;
    Ok(success())
}
