//! `packhorse batch`: which samples a batch of a training run had, and where they came from.

use super::CommandContext;
use super::bench::is_picture;
use super::view::lines;
use crate::batch_args::BatchFlags;
use crate::outcome::{counted, print, success};
use packhorse_core::{Error, FieldType, KEY, Limits, Result, Sample, Schema, SchemaRef, Store};
use packhorse_dataset::MANIFEST;
use packhorse_order::{Rank, Shuffle};
use packhorse_pack::{OpenedView, Origin, Preview, SampleAt, as_request_error};
use packhorse_read::{
    BatchSample, BatchSamples, Column, Dataset, LoaderOptions, OpenOptions, ReadOptions, Reader, SampleBlock, Wants,
};
use packhorse_report::{Card, Page, thumbnail};
use packhorse_storage::Location;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

/// The longer side of a picture on a page, in pixels.
const SIDE: u32 = 160;

pub(super) fn run(context: &CommandContext<'_>, args: &BatchFlags) -> Result<ExitCode> {
    let (store, path) = Location::parse(&args.dataset)?.open()?;
    let dataset = Dataset::open(context.registry, store, &path, &OpenOptions::default()).map_err(as_request_error)?;
    let dataset = args.split.iter().try_fold(dataset, |dataset, split| dataset.split(split))?;
    let batch = dataset.batch_samples(args.step, &options(context, args, &dataset)?)?;
    if args.keys {
        let keys: String = batch.samples.iter().map(|sample| format!("{}\n", sample.key)).collect();
        return print(&keys).map(|()| success());
    }
    let origins = origins(context, Path::new(&args.dataset), &batch.samples)?;
    if let Some(file) = &args.output {
        let page = page(context, args, &dataset, &batch, &origins)?;
        std::fs::write(file, page).map_err(|e| Error::io("write the page", e).in_input(file.display()))?;
    }
    context.style.always(true).show(&value(args, &batch, &origins), &text(args, &batch, &origins))?;
    Ok(success())
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
        shuffle: args.shuffle.or(saved.map(|state| state.shuffle)).unwrap_or(Shuffle::Blocks { shards: 16 }),
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
    let origin = |origin: &Origin| json!({"field": origin.field, "input": origin.input, "extent": origin.extent, "row": origin.item});
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

/// Reads whole samples of a dataset.
struct PageReader {
    reader: Reader,
    schema: SchemaRef,
    classes: Vec<String>,
}

impl PageReader {
    fn new(dataset: &Dataset) -> Self {
        let fields = dataset.schema().fields();
        let columns = fields.iter().map(|field| Column(vec![field.name().clone()])).collect();
        let key = Arc::new(FieldType::Text.field(KEY, false));
        let all: Vec<_> = std::iter::once(key).chain(fields.iter().cloned()).collect();
        Self {
            reader: Reader::new(dataset.clone(), columns, ReadOptions::default()),
            schema: Arc::new(Schema::new(all)),
            classes: dataset.classes().to_vec(),
        }
    }
}

/// A page with the samples.
fn page(
    context: &CommandContext<'_>,
    args: &BatchFlags,
    dataset: &Dataset,
    batch: &BatchSamples,
    origins: &[Vec<Origin>],
) -> Result<String> {
    let mut page = Page::new(&format!("{}: {}", args.dataset, title(args)));
    page.facts(&[
        ("epoch", batch.epoch.to_string()),
        ("positions", format!("{} to {}", batch.positions.start, batch.positions.end)),
        ("samples", batch.samples.len().to_string()),
    ]);
    let read = PageReader::new(dataset);
    let mut cards = Vec::with_capacity(batch.samples.len());
    for (sample, origins) in batch.samples.iter().zip(origins) {
        context.cancel.check()?;
        cards.push(card(&read, sample, origins));
    }
    page.cards("Samples", &cards);
    Ok(page.render())
}

/// A sample on a page. If it can't be read, its card says why: it may be the one that is looked for.
fn card(read: &PageReader, sample: &BatchSample, origins: &[Origin]) -> Card {
    let mut lines = vec![("place".to_owned(), format!("{}:{}", sample.shard, sample.position))];
    lines.extend(origins.iter().map(|origin| ("input".to_owned(), shown(origin))));
    let mut card = Card { title: sample.key.clone(), picture: None, lines };
    if let Err(error) = look(read, sample, &mut card) {
        card.lines.push(("error".to_owned(), error.to_string()));
    }
    card
}

fn look(read: &PageReader, sample: &BatchSample, card: &mut Card) -> Result<()> {
    let PageReader { reader, schema, classes } = read;
    let mut block = SampleBlock::default();
    reader.read(std::iter::once(sample.number), &mut Wants::default(), &mut block)?;
    let rows = block.rows(schema)?;
    let values = Sample::new(&rows, 0).ok_or_else(|| Error::bug("a row is missing"))?;
    let picture = schema.fields().iter().find(|field| is_picture(field.name()) && values.bytes(field.name()).is_some());
    for (name, value) in Preview::new(&rows, 0, 0)?.fields {
        let class = (name == "cls").then(|| classes.get(value.trim().parse::<usize>().ok()?)).flatten();
        let value = class.map_or_else(|| value.clone(), |class| format!("{value} ({class})"));
        card.lines.push((name, value));
    }
    if let Some(bytes) = picture.and_then(|field| values.bytes(field.name())) {
        card.picture = Some(thumbnail(bytes, SIDE, Limits::default())?);
    }
    Ok(())
}
