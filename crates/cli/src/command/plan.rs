//! `packhorse plan`.

use super::{CommandContext, feed, pack, trees};
use crate::outcome::{counted, maybe_counted};
use crate::planning::PlanArgs;
use crate::settings::path_word;
use crate::size::show;
use packhorse_core::{Error, Result};
use packhorse_pack::{Plan, Stored};
use serde_json::{Value, json};
use std::path::Path;
use std::process::ExitCode;

pub(super) fn run(context: &CommandContext<'_>, args: &PlanArgs) -> Result<ExitCode> {
    let (recipe, session) = (args.planning.recipe(), pack::session(context, &args.planning, &args.work)?);
    let out = recipe.folder()?;
    if recipe.tree.as_deref() == Some(trees::ALL) {
        return Err(Error::config(
            "each tree has a plan of its own; plan one with --tree NAME, or pack all of them at once",
        ));
    }
    if args.planning.check_exact > 0.0 {
        return Err(Error::config(
            "nothing is tokenized while planning; give --check-exact to `packhorse pack --plan`",
        ));
    }
    let plan = session.plan(recipe)?;
    let stored = if args.planning.dry_run { None } else { Some(session.store_plan(recipe, &plan)?) };
    let forecast = feed::forecast(context, &session, args, &plan)?;
    context.progress.finish();
    let (mut value, mut text) = summary(context, &plan, out, stored);
    if let Some((needs, says)) = &forecast {
        text.push_str(says);
        if context.style.json {
            value["feed"] = needs.clone();
        }
    }
    context.style.always(args.planning.dry_run || forecast.is_some()).show(&value, &text)
}

/// What will happen, as JSON (where that is asked for: with a million shards it takes 1.4 GB) and as text.
pub(super) fn summary(
    context: &CommandContext<'_>,
    plan: &Plan,
    out: &Path,
    stored: Option<Stored>,
) -> (Value, String) {
    let skipped = plan.skipped().len();
    let counts = plan.class_counts();
    let classes: Vec<_> = plan.header().classes.iter().zip(&counts).collect();
    let end = match stored {
        None => "nothing was written (--dry-run)".to_owned(),
        Some(Stored::New) => format!("fill it with: packhorse pack --plan {}", path_word(out)),
        Some(Stored::Resumed) => {
            format!("the same plan was there already; go on with: packhorse pack --plan {}", path_word(out))
        }
    };
    let mut text = format!(
        "planned {} ({}) in {}{}\n",
        maybe_counted(plan.samples(), "sample"),
        show(plan.bytes()),
        counted(plan.shards().len() as u64, "shard"),
        if skipped > 0 { format!(", left out {skipped}") } else { String::new() }
    );
    if let Some(estimate) = plan.estimate() {
        let (largest, error) = (show(estimate.largest), 100.0 * estimate.error);
        text.push_str(&format!("  the largest shard: about {largest}, give or take {error:.1} %\n"));
    }
    for (split, shards, samples) in splits(plan) {
        text.push_str(&format!(
            "  split {split}: {} in {}\n",
            maybe_counted(samples, "sample"),
            counted(shards, "shard")
        ));
    }
    let shown: Vec<String> = classes.iter().take(12).map(|(name, n)| format!("{name} {n}")).collect();
    if !classes.is_empty() {
        let more = if classes.len() > 12 { ", …" } else { "" };
        text.push_str(&format!("  {}: {}{more}\n", counted(classes.len() as u64, "class"), shown.join(", ")));
    }
    if !plan.header().omitted.is_empty() {
        text.push_str(&left_out(plan.header().omitted.len()));
    }
    text.push_str(&format!("  {end}\n"));
    (if context.style.json { value(plan, skipped) } else { Value::Null }, text)
}

/// A line on fields that the inputs have and the dataset lacks.
pub(super) fn left_out(fields: usize) -> String {
    format!("  left out {} of the inputs (--json says which, and why)\n", counted(fields as u64, "field"))
}

fn value(plan: &Plan, skipped: usize) -> Value {
    let header = plan.header();
    let shards: Vec<Value> =
        plan.shards().map(|(name, split, samples)| json!({"name": name, "split": split, "samples": samples})).collect();
    json!({
        "samples": plan.samples(), "bytes": plan.bytes(), "skipped": skipped, "shards": shards,
        "classes": header.classes, "class_counts": plan.class_counts(),
        "omitted": header.omitted,
        "largest_shard": plan.estimate().map(|e| json!({"bytes": e.largest, "error": e.error})),
        "fields": header.schema.iter().map(|f| &f.name).filter(|n| *n != packhorse_core::KEY).collect::<Vec<_>>(),
    })
}

/// Name, shards and samples of each split.
fn splits(plan: &Plan) -> Vec<(String, u64, Option<u64>)> {
    let of = |wanted: &String| {
        let mine = || plan.shards().filter(|(_, split, _)| *split == Some(wanted.as_str()));
        (wanted.clone(), mine().count() as u64, mine().map(|(.., samples)| samples).sum())
    };
    plan.header().splits.iter().map(of).collect()
}
