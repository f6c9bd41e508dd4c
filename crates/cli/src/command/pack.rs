//! `packhorse pack` and `packhorse seal`.

use super::verify::in_quarantine;
use super::{CommandContext, plan, trees};
use crate::args::{Clean, Seal};
use crate::outcome::{counted, success, tally};
use crate::peak_memory::peak_memory;
use crate::planning::{Pack, Planning, Work};
use crate::schedulers;
use crate::settings::path_word;
use crate::size::show;
use packhorse_core::{Error, Event, Format, Observer, Result};
use packhorse_dataset::Manifest;
use packhorse_pack::{ByteSize, PackReport, Packed, Part, Recipe, Session, Stored, as_request_error};
use packhorse_storage::Location;
use serde_json::{Value, json};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

pub(super) fn run(context: &CommandContext<'_>, args: &Pack) -> Result<ExitCode> {
    if let Some(dir) = &args.plan {
        return fill(context, args, dir);
    }
    if args.part.is_some() {
        return Err(Error::config("--part is a part of a plan; give the folder of the plan with --plan DIR"));
    }
    if !args.moved.moved.is_empty() {
        return Err(Error::config("--moved is about the inputs of a plan; give its folder with --plan DIR"));
    }
    let (recipe, session) = (args.planning.recipe(), session(context, &args.planning, &args.work)?);
    if recipe.tree.as_deref() == Some(trees::ALL) {
        return trees::pack(context, &session, recipe, args.planning.dry_run);
    }
    let said = whole(context, &session, recipe, args.planning.dry_run)?;
    context.style.always(args.planning.dry_run).show(&said.value, &said.text)?;
    said.fault.map_or(Ok(success()), Err)
}

/// A session with the settings of these flags.
pub(super) fn session(context: &CommandContext<'_>, planning: &Planning, work: &Work) -> Result<Session> {
    let session = context.working(work)?.check_exact(planning.check_exact).from_listings(planning.from_listings);
    Ok(session.replacing(planning.replace && !planning.dry_run))
}

/// The result of a dataset.
pub(super) struct Said {
    pub(super) value: Value,
    pub(super) text: String,
    /// The error to end with after showing the result.
    pub(super) fault: Option<Error>,
}

/// Scan, plan, pack and seal in one process.
pub(super) fn whole(context: &CommandContext<'_>, session: &Session, recipe: &Recipe, dry_run: bool) -> Result<Said> {
    let start = Instant::now();
    let out = recipe.folder()?;
    if dry_run {
        let (value, text) = plan::summary(context, &session.plan(recipe)?, out, None);
        return Ok(Said { value, text, fault: None });
    }
    let Packed { report, manifest, stored } = session.pack(recipe)?;
    context.progress.finish();
    warn_of_sizes(context, recipe, &manifest);
    warn_of_empty(context, &manifest);
    let (value, mut text) = summary(out, &report, Some(&manifest), stored, start);
    if manifest.samples > 0 {
        text.push_str(&way_on(context, out, &manifest));
    }
    let nothing = || match manifest.skipped {
        0 => Error::content("the inputs hold no sample, so the dataset is empty"),
        _ => Error::content("nothing is left: everything was left out; skipped.jsonl says why"),
    };
    let fault = (manifest.samples == 0).then(|| nothing().in_input(out.display()));
    Ok(Said { value, text, fault })
}

/// Shards that came out larger than they were asked for, with the size to ask for instead.
fn warn_of_sizes(context: &CommandContext<'_>, recipe: &Recipe, manifest: &Manifest) {
    let Some(ByteSize(asked)) = recipe.shard_size else { return };
    let largest = manifest.shards.iter().map(|shard| shard.bytes).max().unwrap_or(0);
    // A shard of one sample can't be smaller.
    let over = manifest.shards.iter().filter(|shard| shard.samples > 1 && shard.bytes > asked + asked / 10).count();
    if over > 0 {
        let mut sizes: Vec<u64> = manifest.shards.iter().map(|shard| shard.bytes).collect();
        sizes.sort_unstable();
        let usual = sizes.get(sizes.len() / 2).copied().unwrap_or(0);
        let better = (asked as f64 * (asked as f64 / largest as f64)) as u64;
        let why = match usual > asked + asked / 10 {
            // Nothing tells whether smaller ones can be.
            true if sizes.len() == 1 => "since transforms and compression change sizes, or because a sample is not divided, nor text that is compressed as a whole".to_owned(),
            true => format!(
                "since transforms and compression change sizes; --shard-size {} keeps them below",
                show(better).replace(' ', "")
            ),
            false => {
                "since rows of a table differ in size, or a sample is not divided, nor text that is compressed as a whole".to_owned()
            }
        };
        context.progress.event(&Event::Warning(&format!(
            "{} {} larger than --shard-size {}, up to {}, {why}",
            counted(over as u64, "shard"),
            if over == 1 { "is" } else { "are" },
            show(asked),
            show(largest),
        )));
    }
}

/// Shards of text without a sample. They are cut by positions, and no document begins within a long one.
pub(super) fn warn_of_empty(context: &CommandContext<'_>, manifest: &Manifest) {
    let empty = manifest.shards.iter().filter(|shard| shard.samples == 0).count();
    // Nothing here tells which shards samples were left out of.
    if empty > 0 && manifest.skipped == 0 && manifest.samples > 0 {
        context.progress.event(&Event::Warning(&format!(
            "{} {} no sample, since documents are longer than a shard's part of the text, and some readers fail there; \
             pack fewer shards, or set --samples-per-shard, which counts documents first",
            counted(empty as u64, "shard"),
            if empty == 1 { "holds" } else { "hold" },
        )));
    }
}

/// Fills a part of a plan.
fn fill(context: &CommandContext<'_>, args: &Pack, dir: &Path) -> Result<ExitCode> {
    let start = Instant::now();
    let part = part(context, args.part)?;
    let session = args.moved.of(session(context, &args.planning, &args.work)?);
    let session = session.on_error(args.planning.recipe().on_error);
    let mut report = session.fill(dir, part)?;
    let manifest = if args.seal { session.seal_if_complete(dir)? } else { None };
    report.skipped = manifest.as_ref().map_or(report.skipped, |manifest| manifest.skipped);
    context.progress.finish();
    if let Some(manifest) = &manifest {
        warn_of_empty(context, manifest);
    }
    let (value, mut text) = summary(dir, &report, manifest.as_ref(), Stored::Resumed, start);
    let is_sealed = || session.watch(dir).and_then(|mut watch| watch.look()).is_ok_and(|plan| plan.sealed);
    text.push_str(&match (&manifest, args.seal) {
        (Some(manifest), _) => way_on(context, dir, manifest),
        (None, true) => "  other parts are not done; the last one seals\n".to_owned(),
        (None, false) if report.reused == report.shards && is_sealed() => String::new(),
        (None, false) => format!("  when all parts are done: packhorse seal {}\n", path_word(dir)),
    });
    context.style.show(&value, &text)
}

/// The part to do: the one that was asked for, else that of this task of a scheduler, else all of it.
pub(super) fn part(context: &CommandContext<'_>, asked: Option<Part>) -> Result<Part> {
    if let Some(part) = asked {
        return Ok(part);
    }
    let Some(share) = schedulers::part(&|name| std::env::var(name).ok())? else { return Ok(Part::ALL) };
    context.progress.part(&share.part.to_string(), &share.of);
    Ok(share.part)
}

pub(super) fn summary(
    out: &Path,
    report: &PackReport,
    manifest: Option<&Manifest>,
    stored: Stored,
    start: Instant,
) -> (Value, String) {
    let seconds = start.elapsed().as_secs_f64();
    let rate = show((report.input_bytes as f64 / seconds.max(1e-9)) as u64);
    let skipped = report.skipped;
    let left_out = if skipped > 0 { format!(", skipped {skipped} (see skipped.jsonl)") } else { String::new() };
    let samples = counted(report.samples, "sample");
    let shards = format!("{} ({})", counted(report.shards, "shard"), show(report.bytes));
    let mut text = match report.reused {
        0 => format!("packed {samples} ({}) into {shards} in {seconds:.2} s, {rate}/s", show(report.input_bytes)),
        all if all == report.shards => format!("complete already: {samples} in {shards}; no shard was written"),
        some => format!(
            "packed {samples} ({}) into {shards} in {seconds:.2} s, {rate}/s, with {} that {} there already",
            show(report.input_bytes),
            counted(some, "shard"),
            if some == 1 { "was" } else { "were" },
        ),
    };
    text.push_str(&format!("{left_out}\n"));
    let omitted = manifest.map(|m| &m.omitted);
    if let Some(omitted) = omitted.filter(|omitted| !omitted.is_empty()) {
        text.push_str(&plan::left_out(omitted.len()));
    }
    for (what, count) in report.counts.iter().filter(|(what, _)| !what.contains(" of ")) {
        let rate = match what.as_str() {
            "tokens" => format!(", {:.0} tokens/s", *count as f64 / seconds.max(1e-9)),
            _ => String::new(),
        };
        text.push_str(&format!("  {}{rate}\n", tally(*count, what)));
    }
    if let Some(manifest) = manifest {
        text.push_str(&format!("  sealed {}, root digest {}\n", out.display(), manifest.root));
    }
    let value = json!({
        "samples": report.samples, "input_bytes": report.input_bytes, "bytes": report.bytes, "shards": report.shards,
        "reused": report.reused, "resumed": stored == Stored::Resumed, "skipped": skipped, "seconds": seconds,
        "root": manifest.map(|m| m.root.to_string()), "omitted": omitted, "counts": report.counts,
        "peak_memory": peak_memory(),
    });
    (value, text)
}

/// How to look at the sealed dataset in `out`, and that it is a folder where its name is that of a file.
fn way_on(context: &CommandContext<'_>, out: &Path, manifest: &Manifest) -> String {
    let dir = out.display();
    let ending = out.extension().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    let names_a_file = |format: &Arc<dyn Format>| !ending.is_empty() && format.info().extensions.contains(&&*ending);
    let first = manifest.shards.first().filter(|_| context.registry.iter().any(names_a_file));
    let folder = first.map(|shard| format!("  {dir} is a folder; its first shard is {dir}/{}\n", shard.file));
    format!("{}  look into it: packhorse head {}\n", folder.unwrap_or_default(), path_word(out))
}

pub(super) fn seal(context: &CommandContext<'_>, args: &Seal) -> Result<ExitCode> {
    let manifest = context.session().seal(&args.dir.dir)?;
    show_sealed(context, &args.dir.dir, &manifest)
}

/// Seals the dataset in `dir`, which other processes may be sealing too. Returns what there is to say of it.
pub(super) fn seal_beside_others(context: &CommandContext<'_>, dir: &Path) -> Result<(Value, String)> {
    let manifest = match context.session().seal_if_complete(dir)? {
        Some(manifest) => manifest,
        None => context.session().seal(dir)?,
    };
    Ok(sealed(context, dir, &manifest))
}

fn show_sealed(context: &CommandContext<'_>, dir: &Path, manifest: &Manifest) -> Result<ExitCode> {
    let (value, text) = sealed(context, dir, manifest);
    context.style.show(&value, &text)
}

fn sealed(context: &CommandContext<'_>, dir: &Path, manifest: &Manifest) -> (Value, String) {
    warn_of_empty(context, manifest);
    context.progress.finish();
    let mut text = format!(
        "sealed {}: {} in {} ({}), root digest {}\n",
        dir.display(),
        counted(manifest.samples, "sample"),
        counted(manifest.shards.len() as u64, "shard"),
        show(manifest.bytes),
        manifest.root
    );
    text.push_str(&way_on(context, dir, manifest));
    let value = json!({
        "samples": manifest.samples, "shards": manifest.shards.len(), "bytes": manifest.bytes,
        "skipped": manifest.skipped, "root": manifest.root.to_string(),
    });
    (value, text)
}

pub(super) fn clean(context: &CommandContext<'_>, args: &Clean) -> Result<ExitCode> {
    let (session, dir) = (context.session(), &args.dir.dir);
    // First: not every server lists unfinished uploads.
    let emptied = if args.quarantine { Some(session.empty_quarantine(dir)?) } else { None };
    let removed = session.clean(dir).map_err(as_request_error)?;
    let what = if Location::url(dir).is_some() { "unfinished upload" } else { "staging folder" };
    let mut text = match Location::url(dir).is_some() && !Location::lists_uploads(dir) {
        true => format!(
            "{} has nothing to remove: Azure lists no unfinished uploads, and drops their blocks itself after a week\n",
            dir.display()
        ),
        false => format!("removed {} of {}\n", counted(removed, what), dir.display()),
    };
    let mut value = json!({ "removed": removed });
    if args.append {
        let dropped = session.drop_append(dir)?;
        text.push_str(&match dropped {
            Some(shards) => format!("dropped an append of {}\n", counted(shards, "shard")),
            None => "there is no append to drop\n".to_owned(),
        });
        value["dropped_append"] = dropped.into();
    }
    if let Some(emptied) = emptied {
        let (files, size) = (counted(emptied.files, "damaged file"), show(emptied.bytes));
        text.push_str(&format!("removed {files} ({size}) from quarantine\n"));
        value["removed_from_quarantine"] = emptied.files.into();
    } else {
        let kept = session.quarantined(dir)?;
        text.push_str(&in_quarantine(kept, dir));
        value["quarantined"] = kept.files.into();
    }
    context.style.show(&value, &text)
}
