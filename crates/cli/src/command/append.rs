//! `packhorse append`.

use super::{CommandContext, pack, plan};
use crate::outcome::counted;
use crate::planning::Append;
use packhorse_core::Result;
use packhorse_pack::Packed;
use std::process::ExitCode;
use std::time::Instant;

pub(super) fn run(context: &CommandContext<'_>, args: &Append) -> Result<ExitCode> {
    let start = Instant::now();
    let (dir, recipe) = (&args.dir, args.planning.recipe());
    let session = pack::session(context, &args.planning, &args.work)?;
    if args.planning.dry_run || args.plan_only {
        let (planned, stored) = match args.plan_only && !args.planning.dry_run {
            true => session.store_append(dir, recipe).map(|(plan, stored)| (plan, Some(stored)))?,
            false => (session.plan_append(dir, recipe)?, None),
        };
        context.progress.finish();
        let (value, text) = plan::summary(context, &planned, dir, stored);
        return context.style.always(args.planning.dry_run).show(&value, &text);
    }
    let Packed { report, manifest, stored } = session.append(dir, recipe)?;
    context.progress.finish();
    pack::warn_of_empty(context, &manifest);
    let (mut value, mut text) = pack::summary(dir, &report, Some(&manifest), stored, start);
    text.push_str(&format!(
        "  {} in {} now\n",
        counted(manifest.samples, "sample"),
        counted(manifest.shards.len() as u64, "shard")
    ));
    value["total"] = serde_json::json!({"samples": manifest.samples, "shards": manifest.shards.len()});
    context.style.show(&value, &text)
}
