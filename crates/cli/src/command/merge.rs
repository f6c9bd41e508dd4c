//! `packhorse merge` and `packhorse repair`.

use super::CommandContext;
use crate::args::{Merge, Repair, TokenFlags};
use crate::outcome::{counted, tally};
use crate::settings::path_word;
use crate::size::show;
use packhorse_core::{Error, Event, FileKind, Observer as _, Options, Result};
use packhorse_dataset::FileRecord;
use packhorse_pack::{MergeOptions, as_request_error};
use serde_json::{Value, json};
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

pub(super) fn merge(context: &CommandContext<'_>, args: &Merge) -> Result<ExitCode> {
    let start = Instant::now();
    let options = MergeOptions { split: args.split.clone(), verify: args.verifying.on(), replace: args.replace };
    let merged =
        packhorse_pack::merge(context.registry, &context.store, &args.input, &options, &args.out, &context.cancel)?;
    if !merged.splits.is_empty() {
        let text = format!("the splits {} are one now; `--split NAME` takes one of them", merged.splits.join(", "));
        context.progress.event(&Event::Warning(&text));
    }
    let seconds = start.elapsed().as_secs_f64();
    let counts: Vec<String> = merged.summary.counts.iter().map(|(what, n)| tally(*n, what)).collect();
    let bytes: u64 = merged.files.iter().map(|file| file.bytes).sum();
    let (shards, files_of) = (counted(merged.shards, "shard"), names(&merged.files, &args.out));
    let (size, rate) = (show(bytes), show((bytes as f64 / seconds.max(1e-9)) as u64));
    let what = match merged.existed {
        true => format!("complete already: {shards} ({size}) in {files_of}; nothing was written"),
        false => format!("merged {shards} ({size}) into {files_of} in {seconds:.2} s, {rate}/s"),
    };
    let text = format!("{what}\n  {}\n", counts.join(", "));
    let value = json!({
        "shards": merged.shards, "samples": merged.summary.samples, "counts": merged.summary.counts, "bytes": bytes,
        "files": files(&merged.files), "existed": merged.existed, "seconds": seconds,
    });
    context.style.show(&value, &text)
}

/// The shards of a dataset, or a file of tokens.
pub(super) fn repair(context: &CommandContext<'_>, args: &Repair) -> Result<ExitCode> {
    let stat = context.store.stat(&args.path, true).map_err(as_request_error)?;
    match (stat.kind == FileKind::Directory, &args.out) {
        (true, None) => dataset(context, args),
        (true, Some(_)) => Err(Error::config("a dataset is repaired where it is: leave --out away")),
        (false, Some(out)) => file(context, args, out),
        (false, None) => Err(Error::config("say what the repaired file is called with --out NAME")),
    }
}

fn dataset(context: &CommandContext<'_>, args: &Repair) -> Result<ExitCode> {
    let start = Instant::now();
    let repaired = args.moved.of(context.working(&args.work)?).repair(&args.path)?;
    context.progress.finish();
    let seconds = start.elapsed().as_secs_f64();
    let mut text: String = repaired.damages.iter().map(|d| format!("{}: {}\n", d.file, d.problem)).collect();
    let (again, manifest) = (repaired.report.shards - repaired.report.reused, &repaired.manifest);
    let indexes = match (repaired.damages.len() as u64).saturating_sub(again) {
        0 => String::new(),
        indexes => format!(", made {} again", counted(indexes, "index file")),
    };
    text.push_str(&format!("packed {} again{indexes} in {seconds:.2} s\n", counted(again, "shard")));
    text.push_str(&format!("  sealed {}, root digest {}\n", args.path.display(), manifest.root));
    for kept in &repaired.quarantined {
        text.push_str(&format!("  kept the damaged file as {}\n", args.path.join(kept).display()));
    }
    if !repaired.quarantined.is_empty() {
        let dir = path_word(&args.path);
        text.push_str(&format!("  remove these copies with: packhorse clean --quarantine {dir}\n"));
    }
    let damages: Vec<Value> = repaired.damages.iter().map(|d| json!({"file": d.file, "problem": d.problem})).collect();
    let value = json!({
        "packed": again, "damages": damages, "root": manifest.root.to_string(), "seconds": seconds,
        "quarantined": repaired.quarantined,
    });
    context.style.show(&value, &text)
}

fn file(context: &CommandContext<'_>, args: &Repair, out: &Path) -> Result<ExitCode> {
    let (options, path) = (known(&args.known), &args.path);
    let repaired = packhorse_pack::repair(context.registry, &context.store, path, &options, out, &context.cancel)?;
    let mut text: String = repaired.done.iter().map(|line| format!("{line}\n")).collect();
    match repaired.files.is_empty() {
        true => text.push_str("nothing is wrong; nothing was written\n"),
        false => text.push_str(&format!("  wrote {}\n", names(&repaired.files, Path::new("")))),
    }
    context.style.show(&json!({"done": repaired.done, "files": files(&repaired.files)}), &text)
}

/// Facts about tokens that their files do not record.
pub(super) fn known(args: &TokenFlags) -> Options {
    let number = |n: Option<u64>| n.map(|n| n.to_string());
    let settings = [("vocabulary", number(args.vocabulary)), ("eod", number(args.eod_id))];
    settings.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

fn names(files: &[FileRecord], beside: &Path) -> String {
    let names = files.iter().map(|file| beside.with_file_name(&file.name).display().to_string());
    names.collect::<Vec<_>>().join(", ")
}

/// Files as JSON.
pub(super) fn files(files: &[FileRecord]) -> Vec<Value> {
    files
        .iter()
        .map(|file| json!({"name": file.name, "bytes": file.bytes, "blake3": file.blake3.to_string()}))
        .collect()
}
