//! `packhorse status`, `ls`, `cat` and `stat`.

use super::CommandContext;
use super::plan::left_out;
use super::verify::in_quarantine;
use super::view;
use super::watch::{errors_text, errors_value};
use crate::args::Dir;
use crate::inspect_args::{Cat, Head, Ls, Reading, Stat};
use crate::outcome::{counted, done, first_lines, output, print, print_whole, success, tally};
use crate::settings::{self, path_word};
use crate::size::show;
use packhorse_core::{Error, Extent, FieldType, FileKind, KEY, Kind, Options, Result};
use packhorse_dataset::{DatasetView, FieldRecord, MANIFEST, Manifest};
use packhorse_pack::{Columns, Damage, OpenedView, Preview, unfit_shards};
use serde_json::json;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub(super) fn status(context: &CommandContext<'_>, args: &Dir) -> Result<ExitCode> {
    let status = context.session().status(&args.dir)?;
    let there = status.part.unwrap_or(status.shards) - status.missing.len() as u64;
    let samples = match status.samples {
        Some(samples) => format!("{} of {}", status.packed, counted(samples, "sample")),
        None => counted(status.packed, "sample"),
    };
    let copy = match (&status.base, status.part) {
        (Some(base), _) => format!(", view of {base}"),
        (None, Some(_)) => ", fraction copy".to_owned(),
        (None, None) => String::new(),
    };
    let mut text = format!("{there} of {}{copy}, {samples}", counted(status.shards, "shard"));
    text.push_str(match (status.sealed, status.missing.is_empty()) {
        (true, _) if status.base.is_some() => "\n",
        (true, _) if status.part.is_some() && status.is_damaged() => {
            "; damaged: copy it again with: packhorse stage DATASET --verify --to "
        }
        (true, _) if status.part.is_some() => "\n",
        (true, _) if status.repairable => ", sealed, but damaged; mend it with: packhorse repair ",
        (true, _) if status.is_damaged() => ", sealed, but damaged; see what to do with: packhorse verify ",
        (true, _) => ", sealed\n",
        (false, true) => "; seal it with: packhorse seal ",
        (false, false) => "; fill it with: packhorse pack --plan ",
    });
    if status.base.is_none() && (!status.sealed || status.is_damaged()) {
        text.push_str(&format!("{}\n", path_word(&args.dir)));
    }
    text.push_str(&first_lines(&status.missing, |name| format!("missing: {name}"), |more| format!("{more} more")));
    text.push_str(&errors_text(&status.errors));
    text.push_str(&first_lines(&status.damages, damage_line, |more| counted(more, "more finding")));
    if let Some((shards, missing)) = &status.replacing {
        let there = shards - missing.len() as u64;
        text.push_str(&format!(
            "  to be replaced by the dataset in .replacing: {there} of {}\n",
            counted(*shards, "shard")
        ));
    }
    if let Some((shards, missing)) = &status.appending {
        let there = shards - missing.len() as u64;
        let end =
            if missing.is_empty() { "seal it with: packhorse seal " } else { "fill it with: packhorse pack --plan " };
        let dir = path_word(&args.dir);
        text.push_str(&format!("  to be appended: {there} of {shards} shards; {end}{dir}\n"));
        text.push_str(&format!("  or drop it with: packhorse clean --append {dir}\n"));
    }
    text.push_str(&in_quarantine(status.quarantined, &args.dir));
    let replacing = status.replacing.as_ref().map(|(shards, missing)| json!({"shards": shards, "missing": missing}));
    let appending = status.appending.as_ref().map(|(shards, missing)| json!({"shards": shards, "missing": missing}));
    let damages: Vec<_> = status.damages.iter().map(|d| json!({"file": d.file, "problem": d.problem})).collect();
    let value = json!({
        "plan": status.plan.to_string(), "shards": status.shards, "samples": status.samples, "packed": status.packed,
        "missing": status.missing, "errors": errors_value(&status.errors), "sealed": status.sealed, "damages": damages,
        "part": status.part, "base": status.base, "replacing": replacing, "appending": appending,
        "quarantined": status.quarantined.files,
    });
    let shown = context.style.show(&value, &text);
    match status.is_damaged() {
        true => {
            context.style.found(shown, Kind::Incomplete, format!("{} is damaged or incomplete", args.dir.display()))
        }
        false => shown,
    }
}

pub(super) fn ls(context: &CommandContext<'_>, args: &Ls) -> Result<ExitCode> {
    let read = reading(&args.reading)?;
    if let Some(view) = OpenedView::read(&*context.store, &args.path)? {
        return ls_view(context, args, &view);
    }
    let files = packhorse_pack::files(context.registry, &*context.store, &args.path)?;
    if let Some(columns) = columns(context, &files, &read)? {
        return table(context, &columns);
    }
    let mut out = BufWriter::new(io::stdout().lock());
    for file in &files {
        packhorse_pack::list(context.registry, &*context.store, file, &mut |name, extent| {
            let file = (files.len() > 1).then_some(&**file);
            member(context, args, &mut out, file, (&name.key, &name.field, extent))
        })?;
    }
    done(out.flush())?;
    Ok(success())
}

/// The options of the files' reader, which errors then name as this command takes them.
fn reading(given: &Reading) -> Result<Options> {
    settings::name_read();
    given.options()
}

/// The columns of the first of these files, and the samples of all; `None` if they are archives.
fn columns(context: &CommandContext<'_>, files: &[PathBuf], read: &Options) -> Result<Option<Columns>> {
    let Some((first, more)) = files.split_first() else { return Ok(None) };
    let of = |file: &PathBuf| packhorse_pack::columns(context.registry, &*context.store, file, read);
    let Some(mut columns) = of(first)? else { return Ok(None) };
    for file in more {
        columns.samples += of(file)?.map_or(0, |more| more.samples);
    }
    Ok(Some(columns))
}

/// The samples of a view.
fn ls_view(context: &CommandContext<'_>, args: &Ls, view: &OpenedView) -> Result<ExitCode> {
    if let Some(columns) = view.columns(context.registry, &*context.store)? {
        return table(context, &columns);
    }
    let mut out = BufWriter::new(io::stdout().lock());
    view.members(context.registry, &*context.store, &mut |file, key, field, extent| {
        member(context, args, &mut out, Some(file), (key, field, extent))
    })?;
    done(out.flush())?;
    Ok(success())
}

/// A line about a member of a shard.
fn member(
    context: &CommandContext<'_>,
    args: &Ls,
    out: &mut impl Write,
    file: Option<&Path>,
    (key, field, extent): (&str, &str, Extent),
) -> Result<()> {
    done(if context.style.json {
        let mut line = json!({"key": key, "field": field, "offset": extent.offset, "bytes": extent.len});
        if let Some(file) = file {
            line["file"] = file.file_name().unwrap_or_default().to_string_lossy().into();
        }
        writeln!(out, "{line}")
    } else if args.long {
        writeln!(out, "{:>12} {:>14} {key}.{field}", extent.len, extent.offset)
    } else {
        writeln!(out, "{key}.{field}")
    })
}

/// The columns of a file of typed rows.
fn table(context: &CommandContext<'_>, columns: &Columns) -> Result<ExitCode> {
    let width = columns.fields.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let lines = columns.fields.iter().map(|(name, kind)| format!("{name:width$}  {kind}\n"));
    let text: String = std::iter::once(format!("{}\n", counted(columns.samples, "sample"))).chain(lines).collect();
    let fields: Vec<_> = columns.fields.iter().map(|(name, kind)| json!({"field": name, "type": kind})).collect();
    context.style.show(&json!({"samples": columns.samples, "fields": fields}), &text)
}

pub(super) fn cat(context: &CommandContext<'_>, args: &Cat) -> Result<ExitCode> {
    let read = reading(&args.reading)?;
    let mut out = output();
    if let Some(view) = OpenedView::read(&*context.store, &args.path)? {
        if view.cat(context.registry, &*context.store, &args.member, &mut out)? {
            return Ok(success());
        }
        return Err(lacks(args));
    }
    for file in packhorse_pack::files(context.registry, &*context.store, &args.path)? {
        if packhorse_pack::cat(context.registry, &*context.store, &file, &read, &args.member, &mut out)? {
            return Ok(success());
        }
    }
    Err(lacks(args))
}

fn lacks(args: &Cat) -> Error {
    let message = format!("holds no {}; `packhorse ls` shows what it holds, by KEY.FIELD", args.member);
    Error::config(message).in_input(args.path.display())
}

/// The first samples, those of a dataset from its first shards.
pub(super) fn head(context: &CommandContext<'_>, args: &Head) -> Result<ExitCode> {
    let (read, mut left) = (reading(&args.reading)?, args.samples);
    if let Some(view) = OpenedView::read(&*context.store, &args.path)? {
        previews(context, view.head(context.registry, &*context.store, left)?)?;
        return Ok(success());
    }
    for file in packhorse_pack::files(context.registry, &*context.store, &args.path)? {
        if left == 0 {
            break;
        }
        let samples = packhorse_pack::head(context.registry, &*context.store, &file, &read, left)?;
        left -= samples.len() as u64;
        previews(context, samples)?;
    }
    Ok(success())
}

fn previews(context: &CommandContext<'_>, samples: Vec<Preview>) -> Result<()> {
    for Preview { key, fields } in samples {
        let values: serde_json::Map<_, _> = fields.iter().map(|(name, text)| (name.clone(), json!(text))).collect();
        let lines: String = fields.iter().map(|(name, text)| format!("  {name}: {}\n", one_line(text))).collect();
        let line = match context.style.json {
            true => format!("{}\n", json!({"key": key, "fields": values})),
            false => format!("{}\n{lines}", one_line(&key)),
        };
        print(&line)?;
    }
    Ok(())
}

/// Foreign text on one line, without control characters.
fn one_line(text: &str) -> String {
    text.trim_end().replace(char::is_control, " ")
}

pub(super) fn stat(context: &CommandContext<'_>, args: &Stat) -> Result<ExitCode> {
    let read = reading(&args.reading)?;
    match context.store.stat(&args.path, true) {
        Ok(stat) if stat.kind == FileKind::Directory => dataset(context, &args.path, &read),
        // A web server may have a dataset in a folder that it does not know.
        Err(e) if e.is_absent() && context.store.stat(&args.path.join(MANIFEST), true).is_ok() => {
            dataset(context, &args.path, &read)
        }
        _ => shards(context, &args.path, std::slice::from_ref(&args.path), &read),
    }
}

/// The name of datasets that were given none.
const DEFAULT_NAME: &str = "shard";

/// So many counts of single sources are shown.
const SOURCES: usize = 30;

fn dataset(context: &CommandContext<'_>, dir: &Path, read: &Options) -> Result<ExitCode> {
    let manifest = Manifest::read_part(&*context.store, dir)?;
    if manifest.is_none()
        && let Some(view) = DatasetView::read(&*context.store, dir)?
    {
        return view::stat(context, dir, &view).map(|()| success());
    }
    let Some(manifest) = manifest else {
        return shards(context, dir, &packhorse_pack::files(context.registry, &*context.store, dir)?, read);
    };
    let unfit = unfit_shards(&*context.store, dir, &manifest)?;
    let shown = print_whole(&match context.style.json {
        true => String::from_utf8_lossy(&manifest.encode()?).into_owned(),
        false => format!("{}{}", described(context, &manifest)?, unfit_lines(dir, &manifest, &unfit)),
    });
    match unfit.is_empty() {
        true => shown,
        false => context.style.found(shown, Kind::Incomplete, format!("{} is damaged or incomplete", dir.display())),
    }
}

/// The shards that are not as the manifest says, and how to get them back.
fn unfit_lines(dir: &Path, manifest: &Manifest, unfit: &[Damage]) -> String {
    if unfit.is_empty() {
        return String::new();
    }
    let text = first_lines(unfit, damage_line, |more| format!("{more} more"));
    let remedy = match manifest.part_of.is_some() {
        true => "copy again with: packhorse stage DATASET --verify --to",
        false => "see what to do with: packhorse verify",
    };
    let shards = counted(unfit.len() as u64, "shard");
    format!("{text}  {shards} missing or damaged; {remedy} {}\n", path_word(dir))
}

fn damage_line(damage: &Damage) -> String {
    format!("{}: {}", damage.file, damage.problem)
}

/// What the manifest says, for people.
fn described(context: &CommandContext<'_>, manifest: &Manifest) -> Result<String> {
    let name = if manifest.name == DEFAULT_NAME { String::new() } else { format!(" {}", manifest.name) };
    let mut text = format!(
        "{}{name}: {} in {}, {}\n  root digest {}\n",
        manifest.format.format,
        counted(manifest.samples, "sample"),
        counted(manifest.shards.len() as u64, "shard"),
        show(manifest.bytes),
        manifest.root
    );
    if let Some(of) = &manifest.part_of {
        let there = manifest.shards.len();
        text.push_str(&format!("  {there} of {}, fraction copy of {}\n", counted(of.shards, "shard"), of.root));
    }
    let (sources, totals): (Vec<_>, Vec<_>) = manifest.counts.iter().partition(|(name, _)| name.contains(" of "));
    for (name, count) in totals.iter().chain(sources.iter().take(SOURCES)) {
        text.push_str(&format!("  {}\n", tally(**count, name)));
    }
    if sources.len() > SOURCES {
        text.push_str(&format!("  and {} (--json has all)\n", counted((sources.len() - SOURCES) as u64, "more count")));
    }
    let schema = FieldRecord::schema(&manifest.schema)?;
    // Of a format that this build lacks only the manifest is known.
    let stored = packhorse_pack::stored_names(context.registry, manifest).unwrap_or_default();
    for field in schema.fields().iter().filter(|field| field.name() != KEY) {
        let kind = FieldType::of(field).map_or_else(|_| field.data_type().to_string(), |kind| kind.to_string());
        let stored = stored.get(field.name()).map(|name| format!(", read as {name}")).unwrap_or_default();
        let missing = if field.is_nullable() { ", may be missing" } else { "" };
        text.push_str(&format!("  {} {kind}{stored}{missing}\n", field.name()));
    }
    for split in &manifest.splits {
        let (samples, shards) = (counted(split.samples, "sample"), counted(split.shards, "shard"));
        text.push_str(&format!("  split {}: {samples} in {shards}\n", split.name));
    }
    if !manifest.classes.is_empty() {
        text.push_str(&format!(
            "  {}: {}\n",
            counted(manifest.classes.len() as u64, "class"),
            manifest.classes.join(", ")
        ));
    }
    if manifest.skipped > 0 {
        text.push_str(&format!("  left out {}, see skipped.jsonl\n", counted(manifest.skipped, "input")));
    }
    if !manifest.omitted.is_empty() {
        text.push_str(&left_out(manifest.omitted.len()));
    }
    Ok(text)
}

/// What files say that have no manifest: `files`, which are at `path`.
fn shards(context: &CommandContext<'_>, path: &Path, files: &[PathBuf], read: &Options) -> Result<ExitCode> {
    if let Some(columns) = columns(context, files, read)? {
        return table(context, &columns);
    }
    let mut stat = packhorse_pack::Stat::default();
    for file in files {
        stat.add(&context.session().stat(file)?);
    }
    let of = if files.len() > 1 { format!(" in {}", counted(files.len() as u64, "shard")) } else { String::new() };
    let mut text = format!("{}: {}{of}\n", path.display(), counted(stat.samples, "sample"));
    for (field, (count, bytes)) in &stat.fields {
        text.push_str(&format!("  {field}: {count}, {}\n", show(*bytes)));
    }
    let fields: serde_json::Map<_, _> = stat
        .fields
        .iter()
        .map(|(name, (count, bytes))| (name.clone(), json!({"count": count, "bytes": bytes})))
        .collect();
    context.style.show(&json!({"samples": stat.samples, "fields": fields}), &text)
}
