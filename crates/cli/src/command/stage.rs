//! `packhorse stage`.

use super::CommandContext;
use crate::args::Stage;
use crate::outcome::{counted, path_text};
use crate::size::show;
use packhorse_core::{Kind, Result};
use packhorse_pack::as_request_error;
use packhorse_read::cache::{StageOptions, Staged, stage};
use packhorse_storage::Location;
use serde_json::{Value, json};
use std::process::ExitCode;
use std::time::Instant;

pub(super) fn run(context: &CommandContext<'_>, args: &Stage) -> Result<ExitCode> {
    let start = Instant::now();
    let location = match args.dataset.to_str() {
        Some(text) => Location::parse(text)?,
        None => Location::from(args.dataset.clone()),
    };
    let (store, root) = context.stores.open(&location)?;
    let mut options = StageOptions::new(&args.to);
    (options.fraction, options.jobs, options.verify) = (args.fraction, args.jobs.into(), args.verify);
    let (name, progress) = (location.to_string(), &*context.progress);
    let staged = stage(&store, &root, &name, &options, progress, &context.cancel).map_err(as_request_error)?;
    context.progress.finish();
    let seconds = start.elapsed().as_secs_f64();
    let unfit: Vec<Value> = staged.unfit.iter().map(|u| json!({"file": u.file, "problem": u.problem})).collect();
    let value = json!({
        "dir": path_text(&args.to), "whole": staged.whole, "shards": staged.shards, "of": staged.of, "files": staged.files,
        "bytes": staged.bytes, "copied": staged.copied, "copied_bytes": staged.copied_bytes,
        "replaced": staged.replaced, "unfit": unfit, "seconds": seconds,
    });
    let shown = context.style.show(&value, &text(args, &staged, seconds));
    let Some(first) = staged.unfit.first() else { return shown };
    let files = counted(staged.unfit.len() as u64, "file");
    context.style.found(
        shown,
        Kind::Incomplete,
        format!("{files} not staged; the first: {}: {}", first.file, first.problem),
    )
}

fn text(args: &Stage, staged: &Staged, seconds: f64) -> String {
    let mut text: String = staged.unfit.iter().map(|u| format!("{}: {}; not staged\n", u.file, u.problem)).collect();
    let rate = show((staged.copied_bytes as f64 / seconds.max(1e-9)) as u64);
    let copied = format!("{} in {seconds:.2} s, {rate}/s", show(staged.copied_bytes));
    text.push_str(&format!("copied {} ({copied})\n", counted(staged.copied, "file")));
    if staged.replaced > 0 {
        text.push_str(&format!("  {} of them did not have the recorded digest before\n", staged.replaced));
    }
    let what = match (staged.of, staged.whole) {
        (0, true) => "all".to_owned(),
        (0, false) => "a part".to_owned(),
        (of, true) => format!("all {}", counted(of, "shard")),
        (of, false) => format!("{} of {}", staged.shards, counted(of, "shard")),
    };
    let files = counted(staged.files, "file");
    text.push_str(&format!("{}: {what}, {files}, {}\n", args.to.display(), show(staged.bytes)));
    text
}
