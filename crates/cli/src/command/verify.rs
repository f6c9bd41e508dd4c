//! `packhorse verify`.

use super::CommandContext;
use super::merge::known;
use crate::args::Verify;
use crate::outcome::counted;
use crate::settings::path_word;
use crate::size::show;
use packhorse_core::{Error, FileKind, Kind, Result};
use packhorse_dataset::{MANIFEST, is_plan_name};
use packhorse_pack::{Depth, RecordedFiles, as_request_error, check_consumers};
use packhorse_storage::{Location, Quarantined};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

pub(super) fn run(context: &CommandContext<'_>, args: &Verify) -> Result<ExitCode> {
    for path in &args.paths {
        match context.store.stat(path, true) {
            // Not every web server has pages of folders.
            Err(_) if Location::url(path).is_some() && context.store.stat(&path.join(MANIFEST), true).is_ok() => {}
            found => drop(found.map_err(as_request_error)?),
        }
    }
    let is_file = |path: &PathBuf| context.store.stat(path, true).is_ok_and(|stat| stat.kind == FileKind::File);
    match args.readers.is_empty() && !args.paths.iter().all(is_file) {
        true => bytes(context, args),
        false => readers(context, args),
    }
}

fn bytes(context: &CommandContext<'_>, args: &Verify) -> Result<ExitCode> {
    let [dir] = &args.paths[..] else {
        return Err(Error::config("verify takes one dataset; with --for it takes any number of shards"));
    };
    if known(&args.known).iter().next().is_some() {
        return Err(Error::config("--vocabulary and --eod-id are for files of tokens: name the dataset's .idx files"));
    }
    let start = Instant::now();
    let depth = if args.full { Depth::Full } else { Depth::Quick };
    let found = context.session().jobs(args.threads.jobs()).verify(dir, depth)?;
    context.progress.finish();
    let seconds = start.elapsed().as_secs_f64();
    let mut text = String::new();
    for damage in &found.damages {
        let member = damage.member.as_ref().map_or(String::new(), |m| format!(" {m}:"));
        text.push_str(&format!("{}:{member} {}\n", damage.file, damage.problem));
    }
    let what = match (args.full, &found.base) {
        (true, _) => format!("every byte ({}) read in {seconds:.2} s", show(found.bytes)),
        (false, None) => "names and lengths only; --full reads every byte".to_owned(),
        (false, Some(base)) => format!("a view of {base}; --full reads its shards there"),
    };
    let verdict = if found.damages.is_empty() {
        "whole".to_owned()
    } else {
        format!("damaged: {}", counted(found.damages.len() as u64, "finding"))
    };
    let shards = match &found.part_of {
        None => counted(found.shards, "shard"),
        Some(of) => format!("{} of {}, fraction copy", found.shards, counted(of.shards, "shard")),
    };
    text.push_str(&format!("{verdict}: {} in {shards} ({what})\n", counted(found.samples, "sample")));
    if found.part_of.is_some() && !found.damages.is_empty() {
        text.push_str(&format!("  copy it again with: packhorse stage DATASET --verify --to {}\n", path_word(dir)));
    }
    if let Some(base) = found.base.as_ref().filter(|base| found.damages.iter().any(|d| d.file.starts_with(*base))) {
        text.push_str(&format!("  repack the damaged shards with: packhorse repair {}\n", path_word(Path::new(base))));
    }
    let is_web = dir.to_str().is_some_and(|url| url.starts_with("http://") || url.starts_with("https://"));
    if found.repairable && is_web {
        text.push_str("  repair it where it may be written: packhorse repair DIR\n");
    } else if found.repairable {
        text.push_str(&format!("  repack the damaged shards with: packhorse repair {}\n", path_word(dir)));
    }
    if !found.repairable && found.damages.iter().any(|damage| is_plan_name(&damage.file)) {
        text.push_str("  a plan is made again by the command that made it: packhorse pack, or packhorse append\n");
    }
    text.push_str(&in_quarantine(found.quarantined, dir));
    let damages: Vec<Value> =
        found.damages.iter().map(|d| json!({"file": d.file, "member": d.member, "problem": d.problem})).collect();
    let value = json!({
        "whole": found.damages.is_empty(), "samples": found.samples, "shards": found.shards, "bytes": found.bytes,
        "seconds": seconds, "damages": damages, "repairable": found.repairable,
        "part_of": found.part_of.as_ref().map(|of| of.shards), "view_of": found.base,
        "quarantined": found.quarantined.files,
    });
    let shown = context.style.show(&value, &text);
    let Some(first) = found.damages.first() else { return shown };
    context.style.found(
        shown,
        Kind::Incomplete,
        format!("{verdict} in {}; the first: {}: {}", dir.display(), first.file, first.problem),
    )
}

/// What repairs kept, and how to remove it; empty if there is nothing.
pub(super) fn in_quarantine(kept: Quarantined, dir: &Path) -> String {
    let Quarantined { files, bytes } = kept;
    match files {
        0 => String::new(),
        _ => {
            let (what, dir) = (counted(files, "damaged file"), path_word(dir));
            format!("  {what} ({}) in quarantine; remove with: packhorse clean --quarantine {dir}\n", show(bytes))
        }
    }
}

fn readers(context: &CommandContext<'_>, args: &Verify) -> Result<ExitCode> {
    let (options, store) = (known(&args.known), &*context.store);
    let mut recorded = RecordedFiles::default();
    if args.full {
        for path in &args.paths {
            let is_folder = store.stat(path, true).is_ok_and(|stat| stat.kind == FileKind::Directory);
            if !is_folder || !recorded.add_dataset(store, path, |_| true)? {
                recorded.add_file(store, path)?;
            }
        }
        recorded.check(store, &context.cancel, |_| true)?;
    }
    let is_recorded = args.paths.iter().all(|path| recorded.get(path).is_some());
    let report = check_consumers(context.registry, store, &args.paths, &options, &args.readers, &context.cancel)?;
    context.progress.finish();
    let (mut text, mut list) = (String::new(), Vec::new());
    for (finding, count) in report.findings.iter().flat_map(|f| f.iter()) {
        let who: Vec<&str> = finding.consumers.iter().map(|c| c.name()).collect();
        let who = if who.is_empty() { "damage".to_owned() } else { who.join(", ") };
        let member = finding.member.as_ref().map_or(String::new(), |m| format!(" {m}"));
        let more = if count > 1 { format!(" (and {} more)", count - 1) } else { String::new() };
        text.push_str(&format!("{}:{member}{more} {} [{who}]\n", finding.file, finding.problem));
        list.push(json!({
            "file": finding.file, "member": finding.member, "count": count, "problem": finding.problem,
            "readers": finding.consumers.iter().map(|c| c.name()).collect::<Vec<_>>(),
        }));
    }
    let size = format!("{} in {}", counted(report.samples, "sample"), counted(report.shards, "shard"));
    for reader in &args.readers {
        let concerned = |f: &packhorse_core::Finding| f.consumers.is_empty() || f.consumers.contains(reader);
        let n = report.findings.iter().flat_map(|f| f.iter()).filter(|(f, _)| concerned(f)).count() as u64;
        let verdict = if n == 0 { "reads all of it".to_owned() } else { counted(n, "finding") };
        text.push_str(&format!("{reader}: {verdict} ({size})\n"));
    }
    if args.readers.is_empty() {
        let files = counted(report.shards, "file");
        text.push_str(&match list.len() as u64 {
            0 if is_recorded => format!("whole: {files} (every byte compared with its recorded digest)\n"),
            0 if args.full => format!("structure sound: {files} (no digest is recorded beside it)\n"),
            0 => format!("structure sound: {files} (--full compares digests where they are recorded)\n"),
            n => format!("{}: {files}\n", counted(n, "finding")),
        });
    }
    let value = json!({"shards": report.shards, "samples": report.samples, "findings": list});
    let shown = context.style.show(&value, &text);
    let Some((first, _)) = report.findings.iter().flat_map(|f| f.iter()).next() else { return shown };
    let summary = format!("{}; the first: {}: {}", counted(list.len() as u64, "finding"), first.file, first.problem);
    context.style.found(shown, Kind::Content, summary)
}
