//! `packhorse bench pack`: where packing's time goes, and how far it is from its floor.

use super::CommandContext;
use crate::bench_args::BenchPack;
use crate::outcome::{counted, path_text};
use crate::pack_bench::{PackBench, PackMeasured, PackRound};
use crate::size::show;
use packhorse_core::{Context, Error, Result};
use packhorse_machine::{Interval, TestFolder};
use packhorse_pack::Recipe;
use packhorse_storage::Location;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

pub(super) fn run(context: &CommandContext<'_>, args: &BenchPack) -> Result<ExitCode> {
    let recipe = args.recipe.0.clone();
    let out = recipe.out.as_deref();
    if let Some(out) = out {
        check(out)?;
    }
    // The extension of OUT may name the format; the folder of the bench has none.
    let recipe = Recipe { to: Some(recipe.format(context.registry)?), ..recipe.clone() };
    let folder = TestFolder::new(&beside(out), "packhorse-bench", 0)?;
    let bench = PackBench {
        session: context.working(&args.work)?,
        store: Arc::clone(&context.store),
        observer: context.progress.clone(),
        cancel: &context.cancel,
        folder: &folder,
    };
    let measured = bench.measure(&recipe, args.repeat)?;
    context.progress.finish();
    let kept = out.filter(|_| args.keep);
    if let Some(out) = kept {
        std::fs::rename(bench.dataset(), out).context("rename").map_err(|e| e.in_input(out.display()))?;
    }
    let threads = args.work.threads.jobs();
    context.style.show(&value(&measured, threads, kept), &text(&measured, threads, kept))
}

/// The folder of the dataset must be new: each round packs again.
fn check(out: &Path) -> Result<()> {
    if Location::url(out).is_some() {
        return Err(Error::unsupported("is in an object store; `packhorse bench pack` writes to a file system")
            .in_input(out.display()));
    }
    match out.symlink_metadata() {
        Ok(_) => Err(Error::config(
            "exists; name a new folder, which `packhorse bench pack` makes and, without --keep, removes",
        )
        .in_input(out.display())),
        Err(_) => Ok(()),
    }
}

/// Where to pack: in the folder that holds `out`, so that it can be renamed to it, or in the temporary folder.
fn beside(out: Option<&Path>) -> PathBuf {
    match out.map(|out| out.parent().unwrap_or(Path::new(""))) {
        Some(parent) if parent.as_os_str().is_empty() => PathBuf::from("."),
        Some(parent) => parent.to_owned(),
        None => std::env::temp_dir(),
    }
}

/// A figure of all rounds.
fn of(measured: &PackMeasured, figure: impl Fn(&PackRound) -> f64) -> Interval {
    Interval::of(measured.rounds.iter().map(figure).collect())
}

fn floor(round: &PackRound) -> f64 {
    round.floor_read + round.floor_write
}

fn value(measured: &PackMeasured, threads: usize, kept: Option<&Path>) -> Value {
    let figure = |figure: fn(&PackRound) -> f64| {
        let Interval { median, min, max, .. } = of(measured, figure);
        json!({ "median": median, "min": min, "max": max })
    };
    let report = &measured.report;
    let seconds = of(measured, |round| round.pack).median.max(1e-9);
    json!({
        "samples": report.samples, "input_bytes": report.input_bytes, "files": measured.files,
        "file_bytes": measured.file_bytes, "shards": report.shards, "bytes": report.bytes, "skipped": report.skipped,
        "rounds": measured.rounds.len(), "threads": threads, "out": kept.map(path_text),
        "samples_per_s": report.samples as f64 / seconds, "bytes_per_s": report.input_bytes as f64 / seconds,
        "seconds": {
            "pack": figure(|round| round.pack), "plan": figure(|round| round.plan), "fill": figure(|round| round.fill),
            "seal": figure(|round| round.seal), "reading": figure(|round| round.reading),
            "writing": figure(|round| round.writing), "cpu": figure(|round| round.cpu),
            "floor_read": figure(|round| round.floor_read), "floor_write": figure(|round| round.floor_write),
        },
        "of_floor": figure(|round| round.pack / floor(round)),
        "of_floor_read": figure(|round| round.pack / round.floor_read),
        "of_floor_write": figure(|round| round.pack / round.floor_write),
    })
}

fn text(measured: &PackMeasured, threads: usize, kept: Option<&Path>) -> String {
    let report = &measured.report;
    let mut text = format!(
        "{} ({}) of {} into {} ({}), {}, {} after one that does not count\n",
        counted(report.samples, "sample"),
        show(report.input_bytes),
        counted(measured.files, "file"),
        counted(report.shards, "shard"),
        show(report.bytes),
        counted(threads as u64, "thread"),
        counted(measured.rounds.len() as u64, "round"),
    );
    let mut line = |name: &str, figure: fn(&PackRound) -> f64, says: String| {
        let Interval { median, min, max, .. } = of(measured, figure);
        text.push_str(&format!("  {name:<14}{median:>9.3} s  ({min:.3} to {max:.3})  {says}\n"));
    };
    let per = |n: u64, figure: fn(&PackRound) -> f64| n as f64 / of(measured, figure).median.max(1e-9);
    let rate = |n: u64, figure| format!("{}/s", show(per(n, figure) as u64));
    let packed = rate(report.input_bytes, |round| round.pack);
    line("pack", |round| round.pack, format!("{:.0} samples/s, {packed}", per(report.samples, |round| round.pack)));
    line("  plan", |round| round.plan, "find the inputs, decide".to_owned());
    line("  fill", |round| round.fill, "read, transform, write, sync shards".to_owned());
    line("  seal", |round| round.seal, "check receipts, write the manifest".to_owned());
    line("  reads", |round| round.reading, "of all threads together".to_owned());
    line("  writes", |round| round.writing, "of all threads together, with syncs".to_owned());
    line("  processors", |round| round.cpu, "of all threads together".to_owned());
    let (read, written) =
        (rate(measured.file_bytes, |round| round.floor_read), rate(measured.written, |round| round.floor_write));
    line("floor", floor, "the two below, one after the other".to_owned());
    line("  plain read", |round| round.floor_read, format!("{read}: the same files, one thread"));
    line("  plain write", |round| round.floor_write, format!("{written}: the same bytes, synced, one thread"));
    let ratio = |figure: fn(&PackRound) -> f64| of(measured, |round| round.pack / figure(round)).median;
    text.push_str(&format!(
        "  packing takes {:.2}x the time of the floor, {:.2}x of the plain read, {:.2}x of the plain write\n",
        ratio(floor),
        ratio(|round| round.floor_read),
        ratio(|round| round.floor_write),
    ));
    if let Some(out) = kept {
        text.push_str(&format!("  the last dataset is in {}\n", out.display()));
    }
    text
}
