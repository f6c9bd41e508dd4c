//! `packhorse index`.

use super::CommandContext;
use super::merge::files;
use crate::args::Index;
use crate::outcome::{counted, path_text};
use crate::size::show;
use packhorse_core::Result;
use packhorse_pack::Indexed;
use serde_json::json;
use std::process::ExitCode;
use std::time::Instant;

pub(super) fn run(context: &CommandContext<'_>, args: &Index) -> Result<ExitCode> {
    let start = Instant::now();
    let session = context.session().jobs(args.threads.jobs()).on_error(args.on_error).replacing(args.replace);
    let indexed = match &args.out {
        Some(out) => session.index_into(&args.shards, &args.index, out)?,
        None => session.index(&args.shards, &args.index)?,
    };
    context.progress.finish();
    let seconds = start.elapsed().as_secs_f64();
    let value = json!({
        "dir": path_text(&indexed.folder), "shards": indexed.shards, "samples": indexed.samples, "bytes": indexed.bytes,
        "reused": indexed.reused, "skipped": indexed.skipped, "files": files(&indexed.files), "seconds": seconds,
    });
    context.style.show(&value, &text(&indexed, seconds))
}

fn text(indexed: &Indexed, seconds: f64) -> String {
    let (samples, shards) = (counted(indexed.samples, "sample"), counted(indexed.shards, "shard"));
    let mut text = format!("indexed {samples} in {shards} ({}) in {seconds:.2} s\n", show(indexed.bytes));
    if indexed.reused > 0 {
        text.push_str(&format!("  {} as an earlier run found them\n", counted(indexed.reused, "shard")));
    }
    if indexed.skipped > 0 {
        text.push_str(&format!("  {} left out\n", counted(indexed.skipped, "bad shard")));
    }
    let (files, folder) = (counted(indexed.files.len() as u64, "file"), indexed.folder.display());
    text.push_str(&format!("  {files} in {folder}\n"));
    text
}
