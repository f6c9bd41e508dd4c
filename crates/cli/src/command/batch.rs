//! `packhorse batch`: which samples a batch of a training run had, and where they came from.

use super::CommandContext;
use super::view::lines;
use crate::batch_args::BatchFlags;
use crate::outcome::{counted, path_text, print, success};
use packhorse_core::{Error, Result, Store};
use packhorse_dataset::MANIFEST;
use packhorse_order::Rank;
use packhorse_pack::{OpenedView, Origin, SampleAt};
use packhorse_read::{BatchSample, BatchSamples, Dataset, LoaderOptions};
use packhorse_report::{Card, Page, SampleCards};
use packhorse_storage::Location;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub(super) fn run(context: &CommandContext<'_>, args: &BatchFlags) -> Result<ExitCode> {
    let dataset = args.split.iter().try_fold(context.dataset(&args.dataset)?, |dataset, split| dataset.split(split))?;
    if let Some(file) = &args.output {
        context.refuse_inside(&args.dataset, file.parent().unwrap_or(Path::new("")))?;
    }
    let batch = dataset.batch_samples(args.step, &options(context, args, &dataset)?)?;
    if args.keys {
        let keys: String = batch.samples.iter().map(|sample| format!("{}\n", sample.key)).collect();
        return print(&keys).map(|()| success());
    }
    let origins = origins(context, Path::new(&args.dataset), &batch.samples)?;
    if let Some(file) = &args.output {
        let page = page(context, args, &dataset, &batch, &origins)?;
        save(file, &page)?;
    }
    context.style.always(true).show(&value(args, &batch, &origins), &text(args, &batch, &origins))
}

/// Writes a page.
pub(super) fn save(file: &Path, page: &str) -> Result<()> {
    std::fs::write(file, page).map_err(|e| Error::io("write the page", e).in_input(file.display()))
}

/// The options of the loader that gave the batch.
fn options(context: &CommandContext<'_>, args: &BatchFlags, dataset: &Dataset) -> Result<LoaderOptions> {
    let skip = match &args.skip {
        Some(file) => dataset.numbers_of_keys(&lines(context, file)?).map_err(|e| e.in_input(file.display()))?,
        None => Vec::new(),
    };
    let saved = args.state;
    Ok(LoaderOptions {
        rank: Rank { rank: args.rank, world_size: args.world },
        shuffle: args.shuffle.or(saved.map(|state| state.shuffle)),
        seed: args.seed.or(saved.map(|state| state.seed)).unwrap_or(0),
        state: saved,
        remainder: args.remainder.into(),
        skip: skip.into(),
        ..LoaderOptions::new(args.batch)
    })
}

/// The inputs of the samples, where `path` is a sealed dataset or a view of one.
fn origins(context: &CommandContext<'_>, path: &Path, samples: &[BatchSample]) -> Result<Vec<Vec<Origin>>> {
    let Some(dir) = sealed_folder(&*context.store, path) else { return Ok(vec![Vec::new(); samples.len()]) };
    let at: Vec<SampleAt<'_>> = samples
        .iter()
        .map(|sample| SampleAt { shard: &sample.shard, position: sample.position, key: &sample.key })
        .collect();
    context.session().origins(dir, &at)
}

/// The folder of the sealed dataset that has the shards; `None` for third-party shards.
fn sealed_folder(store: &dyn Store, path: &Path) -> Option<PathBuf> {
    match store.stat(&path.join(MANIFEST), true) {
        Ok(_) => Some(path.to_owned()),
        Err(_) => OpenedView::read(store, path).ok().flatten().map(|view| view.base),
    }
}

/// What the batch is, in words.
fn title(args: &BatchFlags) -> String {
    let rank = if args.world > 1 { format!(", rank {} of {}", args.rank, args.world) } else { String::new() };
    let from = if args.state.is_some() { " after the state" } else { "" };
    format!("step {}{from}{rank}", args.step)
}

fn text(args: &BatchFlags, batch: &BatchSamples, origins: &[Vec<Origin>]) -> String {
    let BatchSamples { epoch, positions, samples } = batch;
    let mut text = format!(
        "{}: epoch {epoch}, positions {} to {}, {}\n",
        title(args),
        positions.start,
        positions.end,
        counted(samples.len() as u64, "sample")
    );
    for (sample, origins) in samples.iter().zip(origins) {
        let BatchSample { number, key, shard, position } = sample;
        let inputs: String = origins.iter().map(|origin| format!("  <- {}", shown(origin))).collect();
        text.push_str(&format!("  {number}  {key}  {shard}:{position}{inputs}\n"));
    }
    text
}

/// An origin on one line.
fn shown(origin: &Origin) -> String {
    let input = origin.input.display();
    match (origin.item, origin.extent) {
        (Some(item), _) => format!("{input} row {item}"),
        (None, Some((offset, len))) => format!("{input} bytes {offset}+{len}"),
        (None, None) => input.to_string(),
    }
}

fn value(args: &BatchFlags, batch: &BatchSamples, origins: &[Vec<Origin>]) -> Value {
    let origin = |origin: &Origin| json!({"field": origin.field, "input": path_text(&origin.input), "extent": origin.extent, "row": origin.item});
    let samples = batch.samples.iter().zip(origins).map(|(sample, origins)| {
        json!({
            "number": sample.number, "key": sample.key, "shard": sample.shard, "position": sample.position,
            "inputs": origins.iter().map(origin).collect::<Vec<_>>(),
        })
    });
    json!({
        "step": args.step, "rank": args.rank, "world": args.world, "epoch": batch.epoch,
        "positions": [batch.positions.start, batch.positions.end], "samples": samples.collect::<Vec<_>>(),
    })
}

/// The place of a dataset as pages show it: they are given to others.
pub(super) fn without_secrets(place: &str) -> String {
    Location::parse(place).map_or_else(|_| place.to_owned(), |place| place.to_string())
}

/// A page with the samples.
fn page(
    context: &CommandContext<'_>,
    args: &BatchFlags,
    dataset: &Dataset,
    batch: &BatchSamples,
    origins: &[Vec<Origin>],
) -> Result<String> {
    let mut page = Page::new(&format!("{}: {}", without_secrets(&args.dataset), title(args)));
    page.facts(&[
        ("epoch", batch.epoch.to_string()),
        ("positions", format!("{} to {}", batch.positions.start, batch.positions.end)),
        ("samples", batch.samples.len().to_string()),
    ]);
    let maker = SampleCards::new(dataset);
    let mut cards = Vec::with_capacity(batch.samples.len());
    for (sample, origins) in batch.samples.iter().zip(origins) {
        context.cancel.check()?;
        cards.push(card(&maker, sample, origins));
    }
    page.cards("Samples", &cards);
    Ok(page.render())
}

/// A sample on a page. If it can't be read, its card says why: it may be the one that is looked for.
fn card(maker: &SampleCards, sample: &BatchSample, origins: &[Origin]) -> Card {
    let mut lines = vec![("place".to_owned(), format!("{}:{}", sample.shard, sample.position))];
    lines.extend(origins.iter().map(|origin| ("input".to_owned(), shown(origin))));
    let card = maker.card(sample.number);
    lines.extend(card.lines);
    Card { title: sample.key.clone(), lines, ..card }
}

#[cfg(test)]
mod tests {
    use super::without_secrets;

    #[test]
    fn pages_show_no_secrets() {
        assert_eq!(without_secrets("http://me:secret@host/a?sig=secret"), "http://host/a");
        assert_eq!(without_secrets("shards?x"), "shards?x");
    }
}
