//! `packhorse scan`.

use super::{CommandContext, pack, trees};
use crate::outcome::counted;
use crate::planning::ScanArgs;
use packhorse_core::{Error, Result};
use packhorse_pack::Scanned;
use serde_json::json;
use std::process::ExitCode;
use std::time::Instant;

pub(super) fn run(context: &CommandContext<'_>, args: &ScanArgs) -> Result<ExitCode> {
    let (start, recipe) = (Instant::now(), &args.flags.0);
    if recipe.tree.as_deref() == Some(trees::ALL) {
        return Err(Error::config("each tree has a plan of its own; scan for one with --tree NAME"));
    }
    let part = pack::part(context, args.part)?;
    let Scanned { inputs, skipped, listed } = context.working(&args.work)?.scan_part(recipe, part)?;
    context.progress.finish();
    let seconds = start.elapsed().as_secs_f64();
    let left_out = if skipped > 0 { format!(", left out {skipped}") } else { String::new() };
    let parts = u64::from(part.count());
    let end = match listed == parts {
        true => format!("all {parts} parts are listed; next: packhorse plan, with the same flags and --from-listings"),
        false => format!("{listed} of {parts} parts are listed"),
    };
    let text = format!("listed {} in {seconds:.2} s{left_out}: part {part}\n  {end}\n", counted(inputs, "input"));
    let value =
        json!({"part": part.to_string(), "inputs": inputs, "skipped": skipped, "listed": listed, "parts": parts});
    context.style.show(&value, &text)
}
