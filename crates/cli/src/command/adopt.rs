//! `packhorse adopt`.

use super::CommandContext;
use crate::args::Adopt;
use crate::outcome::{counted, path_text};
use crate::size::show;
use packhorse_core::Result;
use serde_json::json;
use std::process::ExitCode;
use std::time::Instant;

pub(super) fn run(context: &CommandContext<'_>, args: &Adopt) -> Result<ExitCode> {
    let start = Instant::now();
    let adopted = context.session().jobs(args.threads.jobs()).on_error(args.on_error).adopt(&args.shards)?;
    context.progress.finish();
    let seconds = start.elapsed().as_secs_f64();
    let (manifest, shards) = (&adopted.manifest, adopted.manifest.shards.len() as u64);
    let (samples, tars) = (counted(manifest.samples, "sample"), counted(shards, "shard"));
    let mut text = format!("adopted {samples} in {tars} ({}) in {seconds:.2} s\n", show(manifest.bytes));
    if adopted.reused > 0 {
        text.push_str(&format!("  {} as an earlier run found them\n", counted(adopted.reused, "shard")));
    }
    if manifest.skipped > 0 {
        text.push_str(&format!("  {} left out, listed in skipped.jsonl\n", counted(manifest.skipped, "bad shard")));
    }
    text.push_str(&format!("  sealed {}, root {}\n", adopted.folder.display(), manifest.root));
    let value = json!({
        "dir": path_text(&adopted.folder), "shards": shards, "samples": manifest.samples, "bytes": manifest.bytes,
        "reused": adopted.reused, "skipped": manifest.skipped, "root": manifest.root.to_string(), "seconds": seconds,
    });
    context.style.show(&value, &text)
}
