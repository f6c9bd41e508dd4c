//! `packhorse view`, and what `stat` tells about a view.

use super::CommandContext;
use crate::outcome::{counted, path_text, print};
use crate::size::show;
use crate::view_args::ViewFlags;
use packhorse_core::{Context as _, Error, Event, KEY, Limits, Observer, Result};
use packhorse_dataset::{DatasetView, FieldRecord, MANIFEST};
use packhorse_pack::{JoinTable, OpenedView, as_request_error};
use packhorse_read::{Dataset, OpenOptions};
use packhorse_storage::Location;
use serde_json::json;
use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub(super) fn run(context: &CommandContext<'_>, args: &ViewFlags) -> Result<ExitCode> {
    let dir = &args.dir.dir;
    context
        .store
        .stat(&dir.join(MANIFEST), true)
        .or_else(|_| context.store.stat(dir, true))
        .map_err(as_request_error)?;
    let store = context.store.clone();
    let dataset = Dataset::open(context.registry, store, dir, &OpenOptions::default()).map_err(as_request_error)?;
    let all = dataset.len();
    let chosen = choose(context, args, dataset).map_err(|e| e.in_input(dir.display()))?;
    if chosen.is_empty() {
        return Err(Error::config("a view without samples was asked for: no sample is chosen").in_input(dir.display()));
    }
    let view = chosen.write_view(&args.out)?;
    context.progress.finish();
    let bytes = view.files().map(|file| file.bytes).sum();
    let text = format!(
        "{}: {} of {} in {}, {}\n  root digest {}\n",
        args.out.display(),
        view.samples,
        counted(all, "sample"),
        dir.display(),
        show(bytes),
        view.root
    );
    let value = json!({
        "dir": path_text(&args.out), "samples": view.samples, "of": all, "base": view.base, "fields": view.fields,
        "bytes": bytes, "root": view.root.to_string(),
    });
    context.style.show(&value, &text)
}

/// The samples and fields that the flags choose.
fn choose(context: &CommandContext<'_>, args: &ViewFlags, mut dataset: Dataset) -> Result<Dataset> {
    if let Some(split) = &args.split {
        dataset = dataset.split(split)?;
    }
    if let Some(file) = &args.keys {
        let keys = lines(context, file)?;
        dataset = dataset.with_keys(&keys).map_err(|e| e.in_input(file.display()))?;
    }
    if let Some(file) = &args.numbers {
        let number = |(row, line): (usize, &String)| {
            let wrong = || Error::config(format!("line {}: \"{line}\" is not the number of a sample", row + 1));
            line.trim().parse::<u64>().map_err(|_| wrong())
        };
        let numbers: Result<Vec<u64>> = lines(context, file)?.iter().enumerate().map(number).collect();
        let of_file = |e: Error| e.in_input(file.display());
        dataset = dataset.subset(numbers.map_err(of_file)?).map_err(of_file)?;
    }
    if let Some(table) = once("join", &args.join)? {
        dataset = join(context, args, &dataset, table)?;
    }
    if let Some(condition) = &args.condition {
        context.cancel.check()?;
        dataset = dataset.filter(condition)?;
    }
    if let Some((i, folds)) = args.fold {
        dataset = dataset.fold(i, folds, args.seed)?;
    }
    if let Some((i, folds)) = args.without_fold {
        dataset = dataset.without_fold(i, folds, args.seed)?;
    }
    match args.select.is_empty() {
        true => Ok(dataset),
        false => dataset.select(&args.select),
    }
}

/// The one value of a flag for tables.
fn once<'a>(name: &str, given: &'a [PathBuf]) -> Result<Option<&'a PathBuf>> {
    match given {
        [_, _, ..] => {
            let text = format!("`{name}` is given {} times", given.len());
            Err(Error::config(text).hint("name several tables by a pattern, such as 'tables/*.parquet'"))
        }
        _ => Ok(given.first()),
    }
}

/// The samples with the columns of a table.
fn join(context: &CommandContext<'_>, args: &ViewFlags, dataset: &Dataset, table: &Path) -> Result<Dataset> {
    let columns = (!args.join_columns.is_empty()).then_some(&args.join_columns[..]);
    let mut join = JoinTable::read(context.registry, table, &args.join_key, columns, args.fill_missing)?;
    dataset.distinct()?.each_key(|_, key| {
        context.cancel.check()?;
        join.push(key);
        Ok(())
    })?;
    if let (rows, Some(first)) = join.unused() {
        let (table, belong) = (table.display(), if rows == 1 { "belongs" } else { "belong" });
        let text = format!("{} of {table} {belong} to no sample, such as that of {first}", counted(rows, "row"));
        context.progress.event(&Event::Warning(&text));
    }
    let (schema, rows) = join.finish().map_err(|e| e.in_input(table.display()))?;
    dataset.with_columns(&schema, rows.into_iter().map(Ok))
}

/// The lines of a file without empty ones.
pub(super) fn lines(context: &CommandContext<'_>, file: &Path) -> Result<Vec<String>> {
    let bytes = match Location::url(file) {
        Some(_) => context.store.open(file).map_err(as_request_error)?.read_all(Limits::default().blob)?,
        None => read_list(file)?,
    };
    let text = String::from_utf8(bytes).map_err(|_| Error::config("is not UTF-8").in_input(file.display()))?;
    Ok(text.lines().filter(|line| !line.trim().is_empty()).map(str::to_owned).collect())
}

/// The bytes of a file or a pipe; those of standard input for `-`.
fn read_list(file: &Path) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    match file == Path::new("-") {
        true => std::io::stdin().lock().read_to_end(&mut bytes).context("read standard input").map(drop)?,
        false => {
            bytes = std::fs::read(file).context("read").map_err(|e| as_request_error(e).in_input(file.display()))?
        }
    }
    Ok(bytes)
}

/// Tells the samples, fields, splits and base of the view in the folder `dir`.
pub(super) fn stat(context: &CommandContext<'_>, dir: &Path, view: &DatasetView) -> Result<()> {
    if context.style.json {
        return print(&String::from_utf8_lossy(&view.encode()?));
    }
    let opened = OpenedView::read(&*context.store, dir)?;
    let OpenedView { base, manifest, runs, .. } = opened.ok_or_else(|| Error::bug("a view is gone"))?;
    let mut splits: BTreeMap<&str, u64> = BTreeMap::new();
    for run in &runs {
        let split = manifest.shards.get(run.shard as usize).and_then(|shard| shard.split.as_deref());
        split.into_iter().for_each(|split| *splits.entry(split).or_default() += run.len);
    }
    let all = manifest.part_of.as_ref().map_or(manifest.samples, |of| of.samples);
    let mut text = format!(
        "view of {}: {} of {}\n  root digest {}\n",
        base.display(),
        view.samples,
        counted(all, "sample"),
        view.root
    );
    let schema = FieldRecord::schema(&manifest.schema)?;
    let all = schema.fields().iter().map(|field| field.name()).filter(|name| *name != KEY);
    let all = all.chain(view.joined.iter().flat_map(|joined| joined.columns.iter().map(|column| &column.name)));
    let fields: Vec<&String> = view.fields.as_ref().map_or_else(|| all.collect(), |fields| fields.iter().collect());
    fields.iter().for_each(|name| text.push_str(&format!("  {name}\n")));
    for split in &manifest.splits {
        let samples = splits.get(split.name.as_str()).copied().unwrap_or_default();
        text.push_str(&format!("  split {}: {}\n", split.name, counted(samples, "sample")));
    }
    print(&text)
}
