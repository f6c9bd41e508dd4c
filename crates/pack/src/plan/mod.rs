//! plan: assigns every sample to a shard, in order, before any is packed.

mod admission;
mod classes;
mod continued;
mod field_names;
mod fit;
mod mixed_splits;
mod plan_item;
mod sample_sizes;
mod schema;
mod shard_bounds;
mod shard_list;
mod shuffle;
mod spilled;
mod split;
mod split_assignment;

pub(crate) use continued::{Allowed, PlannedKey, first_stray};
pub use fit::Estimate;
pub(crate) use fit::{Growth, LONG_TEXT, Segment, TEXT, TrialPiece};
pub(crate) use sample_sizes::SampleSizes;
pub(crate) use schema::encoded;
pub(crate) use shard_bounds::ShardBounds;
pub use shuffle::Shuffle;
pub(crate) use spilled::plan_spilled;
pub use split::{PathSplit, Shares, SplitBy, SplitLists, Splits};

use crate::keyed_source::ID_FIELD;
use crate::merged_columns::Joining;
use crate::partitioned_source::{PARTITIONS, partitions};
use crate::scan::{Listing, SPLITS};
use crate::spans::TARGET;
use crate::{OnError, Recipe, steps};
use admission::admit;
use mixed_splits::MixedSplits;
use packhorse_core::{Code, DataType, Error, Event, Kind, Limits, Observer, Registry, Result, Sink, counted, some_of};
use packhorse_dataset::{
    Digest, EncodedFrame, FieldRecord, FileRecord, PathText, PlanEntry, PlanHeader, PlanWriter, SinkRecord,
    SourceRecord,
};
use packhorse_storage::Location;
use packhorse_transform::Transform;
use plan_item::PlanItem;
use rayon::prelude::*;
use shard_list::PlannedShard;
use spilled::PlanFile;
use split::{NAMES, is_name};
use split_assignment::SplitAssignment;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Write;
use std::sync::Arc;

/// A recipe, and what a plan takes from elsewhere or derives from it.
pub(crate) struct PlanOptions<'a> {
    pub(crate) recipe: &'a Recipe,
    /// The format of the shards.
    pub(crate) format: String,
    /// The format's own settings.
    pub(crate) sink: packhorse_core::Options,
    /// Whether the format stores values by type.
    pub(crate) typed: bool,
    /// Options of table inputs, by format.
    pub(crate) sources: BTreeMap<String, packhorse_core::Options>,
    /// How fields of one name that differ become one.
    pub(crate) joining: Joining,
    /// The memory, in bytes, that the limits of single values are derived from ([`Limits::of_memory`]); `None` for
    /// [`Limits::default`]. Recorded in the plan if values over a limit are skipped, so that all parts skip the same.
    pub(crate) memory: Option<u64>,
    /// The most inputs that are shuffled in memory; more have a [`SampleOrder`](crate::sample_order::SampleOrder).
    pub(crate) many: usize,
}

/// A plan. In memory it has numbers only, names are in the listing; that of very many samples is a file in the temporary folder.
pub struct Plan {
    listing: Listing,
    header: PlanHeader,
    /// Files of the transforms, by name.
    files: Vec<(String, Arc<[u8]>)>,
    bounds: ShardBounds,
    order: Vec<PlanItem>,
    shards: Vec<PlannedShard>,
    /// Keys that were shortened, by sample.
    short: BTreeMap<u32, String>,
    /// The sizes that a trial measured.
    pub(crate) estimate: Option<Estimate>,
    /// The plan itself, if it is on disk: then neither the listing nor the order has its samples.
    file: Option<PlanFile>,
}

/// Makes the plan.
///
/// Errors: samples that can't be written, under [`OnError::Fail`]; invalid settings.
pub(crate) fn plan(
    registry: &Registry,
    mut listing: Listing,
    transforms: &[Box<dyn Transform>],
    options: &PlanOptions<'_>,
    observer: &dyn Observer,
) -> Result<Plan> {
    let _span = tracing::debug_span!(target: TARGET, "plan", samples = listing.samples()).entered();
    let recipe = options.recipe;
    check_name(&recipe.name)?;
    check_counts(&listing, recipe)?;
    let format = registry.get(&options.format)?;
    let sink = format.sink(&options.sink)?;
    let short = admit(&mut listing, &*sink, recipe, observer)?;
    let delivered = schema::of(registry, &listing, transforms, (options, observer))?;
    let transformed = transforms.iter().try_fold(delivered.schema.clone(), |schema, transform| {
        let made = transform.schema(&schema)?;
        transform.remark(&schema).iter().for_each(|text| observer.event(&Event::Warning(text)));
        Ok::<_, Error>(made)
    })?;
    let encode = schema::encoded(registry, &*sink, &transformed)?;
    if let Err(e) = sink.accept(&steps::encoded_schema(&transformed, &encode)?) {
        // Users know the columns' names, not those of their encoded fields.
        return Err(match sink.accept(&transformed) {
            Err(own) if own.kind() == Kind::Config => own,
            _ => e,
        });
    }
    if let Some(need) = sink.readers_need() {
        observer.event(&Event::Warning(need));
    }
    field_names::warn(&*sink, &transformed, observer);
    let mut order = plan_item::ordered_items(&listing, recipe.shuffle, recipe.split.divides(), options.many)?;
    let groups = SplitAssignment::of(&listing, recipe)?;
    warn_of_splits(groups.names(), recipe, observer);
    let mut mixed = MixedSplits::default();
    mixed.add(&listing, recipe);
    mixed.report(groups.names(), observer);
    // An append has the options of its dataset.
    if !options.sources.values().any(|options| options.get(PARTITIONS).is_some()) {
        warn_of_partitions(&listing, observer);
    }
    plan_item::truncate(&mut order, recipe.limit.unwrap_or(u64::MAX));
    if order.is_empty() {
        let Some(first) = listing.sample(0).map(|sample| sample.first_path()) else {
            return Err(Error::config("every sample was left out, so there is none to pack"));
        };
        let message = "holds no row, nor does any other input, so there is no sample to pack; give inputs with rows";
        return Err(Error::config(message).in_input(first.display()));
    }
    let sizes = SampleSizes::of(&listing, &*sink, transforms.iter().map(|t| t.factor()).product());
    let (order, shards) = shard_list::divide(&listing, order, &sizes, (&groups, recipe));
    let large = very_large(&shards, &order, &listing);
    warn_of_counts(recipe.shard_count, &shards, large.as_ref(), observer);
    let empty = |name: &&String| !shards.iter().any(|shard| shard.split.as_ref() == Some(name));
    for name in groups.names().iter().filter(|_| recipe.split.divides()).filter(empty) {
        observer.event(&Event::Warning(&format!("no sample is in the split {name}, by its share of so few samples")));
    }
    let mut header = header(&listing, format.info(), transforms, options);
    header.classes = classes::of(&listing)?;
    if !header.classes.is_empty() {
        classes::keep_their_name(transforms, &transformed)?;
    }
    header.splits = groups.names().to_vec();
    header.schema = FieldRecord::of(&classes::with_features(&delivered.schema, &header.classes, transforms));
    (header.decode, header.encode) = (delivered.decode, encode);
    let files: Vec<_> = transforms.iter().flat_map(|t| t.files()).collect();
    let record = |(name, bytes): &(String, Arc<[u8]>)| FileRecord {
        name: name.clone(),
        bytes: bytes.len() as u64,
        blake3: Digest::of(bytes),
    };
    header.files = files.iter().map(record).collect();
    Ok(Plan { listing, header, files, bounds: recipe.shard_bounds(), order, shards, short, estimate: None, file: None })
}

/// Warns of folders that were taken for splits.
fn warn_of_splits(names: &[String], recipe: &Recipe, observer: &dyn Observer) {
    let unusual = names.len() > 1 && !names.iter().any(|name| SPLITS.contains(&name.as_str()));
    if recipe.split == Splits::Folders && unusual {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let meant = if recipe.labels.is_some() { "" } else { "; did you mean `labels=folders`?" };
        let text = format!("the splits are {}, which look like classes{meant}", some_of(&names));
        observer.event(&Event::Warning(&text));
    }
}

/// Warns of tables in folders such as `year=2024`, whose names would be columns to other readers.
fn warn_of_partitions(listing: &Listing, observer: &dyn Observer) {
    let tables = listing.iter().filter(|sample| sample.table().is_some());
    let mut folders = tables.filter_map(|sample| {
        let path = sample.first_path();
        let path = listing.roots().iter().find_map(|root| path.strip_prefix(root).ok()).unwrap_or(&path);
        partitions(path).into_iter().next().map(|(name, value)| format!("{name}={}", value.unwrap_or_default()))
    });
    if let Some(folder) = folders.next() {
        let text = format!(
            "tables lie in folders such as {folder}, as those of a partitioned dataset: what such names say is in the keys, \
             and `partitions` makes columns of them"
        );
        observer.event(&Event::Warning(&text));
    }
}

/// Bytes of input from which on a shard is very large.
const LARGE_SHARD: f64 = 64e9;

/// A very large shard, and its bytes of input.
fn very_large(shards: &[PlannedShard], order: &[PlanItem], listing: &Listing) -> Option<(String, f64)> {
    let bytes = |item: &PlanItem| -> f64 {
        let sample = listing.sample(item.sample as usize);
        sample.map_or(0.0, |s| s.bytes() as f64 / s.items().max(1) as f64 * f64::from(item.count))
    };
    let size = |shard: &PlannedShard| order.get(shard.items.clone()).unwrap_or_default().iter().map(bytes).sum::<f64>();
    let large = shards.iter().map(|shard| (shard, size(shard))).find(|(_, size)| *size > LARGE_SHARD);
    large.map(|(shard, size)| (shard.name.clone(), size))
}

/// Warns of very many or very large shards, which are seldom intended.
fn warn_of_counts(
    wanted: Option<u32>,
    shards: &[PlannedShard],
    large: Option<&(String, f64)>,
    observer: &dyn Observer,
) {
    const MANY: usize = 100_000;
    let mut splits: BTreeMap<Option<&str>, usize> = BTreeMap::new();
    shards.iter().for_each(|shard| *splits.entry(shard.split.as_deref()).or_default() += 1);
    let differs =
        |wanted: u32| splits.iter().find(|(_, count)| **count != wanted as usize).map(|found| (wanted, found));
    if let Some((wanted, (split, count))) = wanted.and_then(differs) {
        let of = split.map_or_else(String::new, |split| format!(" of the split {split}"));
        let text = format!(
            "{}{of} {} planned and not {wanted}, as `shard-count` says: no shard is empty, and other bounds hold too",
            counted(*count as u64, "shard"),
            if *count == 1 { "is" } else { "are" },
        );
        observer.event(&Event::Warning(&text));
    }
    if shards.len() > MANY {
        let text = format!("{} shards are planned; larger ones (`shard-size`) are read faster", shards.len());
        observer.event(&Event::Warning(&text));
    }
    if let Some((name, size)) = large {
        let text = format!(
            "shard {name} is planned of {:.0} GB of input; readers shuffle and fetch smaller shards better, see `shard-size` and `shard-count`",
            size / 1e9
        );
        observer.event(&Event::Warning(&text));
    }
}

/// Refuses a `name` that shards can't have.
pub(crate) fn check_name(name: &str) -> Result<()> {
    match is_name(name) {
        true => Ok(()),
        false => Err(Error::config(format!("`name={name}`: names of shards are {NAMES}")).with_code(Code::BadSetting)),
    }
}

/// Refuses settings that count samples for inputs whose samples are not counted.
fn check_counts(listing: &Listing, recipe: &Recipe) -> Result<()> {
    match listing.iter().find(|sample| recipe.counts() && !sample.counted()) {
        None => Ok(()),
        Some(sample) => {
            let message =
                "its samples were not counted; a limit, splits, samples per shard and blocks of samples need that";
            Err(Error::config(message).in_input(sample.first_path().display()))
        }
    }
}

/// The settings that the header records if they are given; others are in it by what follows from them.
const CHOICES: [&str; 7] =
    ["shard-count", "samples-per-shard", "limit", "key-ends", "archive-folders", "fill-missing", "long-keys"];

/// The header's choice that the limits of single values are derived from.
const MEMORY: &str = "memory";

/// The limits over which the plan skips values; `None` if it skips none for their size.
pub(crate) fn planned_limits(header: &PlanHeader) -> Result<Option<Limits>> {
    let Some(text) = header.choices.get(MEMORY) else { return Ok(None) };
    let memory = text
        .parse()
        .map_err(|_| Error::content(format!("the plan has the memory \"{text}\", which is not a number")))?;
    Ok(Some(Limits::of_memory(memory)))
}

/// The limits to fill a plan with: the smaller of its own and `asked`; its own if `asked` are [`Limits::default`].
/// Transforms rebuilt from the header get these limits.
pub(crate) fn limits(header: &PlanHeader, asked: Limits) -> Result<Limits> {
    Ok(match planned_limits(header)? {
        Some(planned) if asked == Limits::default() => planned,
        Some(planned) => planned.min(asked),
        None => asked,
    })
}

fn header(
    listing: &Listing,
    info: &packhorse_core::FormatInfo,
    transforms: &[Box<dyn Transform>],
    options: &PlanOptions<'_>,
) -> PlanHeader {
    let recipe = options.recipe;
    let given = recipe.given().into_iter().filter(|(setting, _)| CHOICES.contains(&setting.name));
    let text = |texts: Vec<OsString>| texts.iter().map(|text| text.to_string_lossy()).collect::<String>();
    let mut choices: BTreeMap<String, String> =
        given.map(|(setting, texts)| (setting.name.to_owned(), text(texts))).collect();
    let mut say = |name: &str, value: Option<String>| value.map(|value| choices.insert(name.to_owned(), value));
    say("shuffle", Some(recipe.shuffle.to_string()));
    say("shard-size", recipe.shard_size.map(|size| size.0.to_string()));
    // Without splits to keep, the choice decides nothing.
    let keeps = recipe.split == Splits::Keep && listing.sealed().is_empty();
    say("split", (!keeps).then(|| recipe.split.to_string()));
    say("split-by", recipe.split.divides().then(|| recipe.split_by.to_string()));
    // Without skipping, limits decide nothing.
    say(MEMORY, options.memory.filter(|_| recipe.on_error == OnError::Skip).map(|n| n.to_string()));
    let is_read = |id: &str| listing.tables().iter().any(|table| table.format == id);
    let sources = options.sources.iter().filter(|(id, options)| !only_ids(options) || is_read(id));
    // The plan may be filled from another working folder.
    let absolute = |root: &std::path::PathBuf| Location::absolute(root);
    PlanHeader {
        packhorse_plan: PlanHeader::VERSION,
        name: options.recipe.name.clone(),
        sink: SinkRecord {
            format: info.id.to_owned(),
            revision: info.revision,
            options: options.sink.iter().map(|(k, v)| (k.to_owned(), v.to_owned())).collect(),
        },
        transforms: transforms.iter().map(|t| t.describe()).collect(),
        choices,
        sources: sources.map(source_record).collect(),
        omitted: listing.omitted(),
        views: listing.views(),
        roots: listing.roots().iter().map(|root| PathText::from(absolute(root).as_os_str())).collect(),
        ..PlanHeader::default()
    }
}

/// Whether the options say only where keys are and whether folders are columns, as they do for all formats at once.
fn only_ids(options: &packhorse_core::Options) -> bool {
    options.iter().all(|(name, _)| name == ID_FIELD || name == PARTITIONS)
}

fn source_record((format, options): (&String, &packhorse_core::Options)) -> SourceRecord {
    let options = options.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    SourceRecord { format: format.clone(), options }
}

impl Plan {
    /// Samples in all shards; `None` if not all are counted.
    pub fn samples(&self) -> Option<u64> {
        self.shards.iter().map(|shard| shard.samples).sum()
    }

    /// The guessed sizes of its samples.
    pub(crate) fn sizes<'a>(&self, sink: &'a dyn Sink, transforms: &[Box<dyn Transform>]) -> SampleSizes<'a> {
        SampleSizes::of(&self.listing, sink, transforms.iter().map(|t| t.factor()).product())
    }

    /// Whether a shard starts with rows of a table input.
    pub(crate) fn starts_with_rows(&self) -> bool {
        let first = |shard: &PlannedShard| self.order.get(shard.items.start).map(|item| item.sample as usize);
        let is_table = |sample: usize| self.listing.sample(sample).is_some_and(|sample| sample.table().is_some());
        self.shards.iter().filter_map(first).any(is_table)
    }

    /// Bytes of input in all shards.
    pub fn bytes(&self) -> u64 {
        if let Some(file) = &self.file {
            return file.bytes;
        }
        let bytes = |item: &PlanItem| {
            let sample = self.listing.sample(item.sample as usize)?;
            Some((sample.bytes() as f64 * f64::from(item.count) / sample.items().max(1) as f64) as u64)
        };
        self.order.iter().filter_map(bytes).sum()
    }

    /// Name, split and number of samples of each shard; `None` for samples that are not counted.
    pub fn shards(&self) -> impl ExactSizeIterator<Item = (&str, Option<&str>, Option<u64>)> {
        self.shards.iter().map(|s| (s.name.as_str(), s.split.as_deref(), s.samples))
    }

    /// The estimated size of its shards, if a trial was packed.
    pub fn estimate(&self) -> Option<&Estimate> {
        self.estimate.as_ref()
    }

    /// The header, which applies to all shards.
    pub fn header(&self) -> &PlanHeader {
        &self.header
    }

    /// Files that the transforms need, which are stored beside the plan.
    pub(crate) fn files(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.files.iter().map(|(name, bytes)| (name.as_str(), &**bytes))
    }

    /// Samples per class, in the order of the class list; empty without labels from folders.
    pub fn class_counts(&self) -> Vec<u64> {
        if let Some(file) = &self.file {
            return file.class_counts.clone();
        }
        let mut counts = vec![0; self.listing.classes().len()];
        for item in &self.order {
            let label = self.listing.sample(item.sample as usize).and_then(|sample| sample.label());
            if let Some(count) = label.and_then(|label| counts.get_mut(label as usize)) {
                *count += u64::from(item.count);
            }
        }
        counts
    }

    /// The skipped samples and inputs.
    pub fn skipped(&self) -> Vec<packhorse_dataset::SkipRecord> {
        self.listing.skipped()
    }

    /// Writes the plan's file to `out`; returns its logical digest and the digest of the inputs' modification times.
    pub fn write(&self, out: impl Write + Send) -> Result<(Digest, Digest)> {
        match &self.file {
            Some(file) => file.write(out),
            None => self.write_with(&self.header, out),
        }
    }

    /// Its digests without the memory that decides which values are skipped; `None` if it says none, or is on disk.
    pub(crate) fn digests_without_memory(&self) -> Result<Option<(Digest, Digest)>> {
        let mut header = self.header.clone();
        match header.choices.remove(MEMORY) {
            Some(_) if self.file.is_none() => self.write_with(&header, std::io::sink()).map(Some),
            _ => Ok(None),
        }
    }

    fn write_with(&self, header: &PlanHeader, out: impl Write + Send) -> Result<(Digest, Digest)> {
        let mut writer = PlanWriter::new(out, header)?;
        let mut left = &self.shards[..];
        while let Some((first, rest)) = left.split_first() {
            if first.items.len() > LARGE_FRAME {
                writer.shard(&first.name, first.split.as_deref(), self.entries(first))?;
                left = rest;
                continue;
            }
            let small = left.iter().take(rayon::current_num_threads() * 4);
            let small = small.take_while(|shard| shard.items.len() <= LARGE_FRAME).count();
            let (together, rest) = left.split_at(small);
            let frames: Vec<_> =
                together.par_iter().map(|shard| EncodedFrame::new(self.entries(shard))).collect::<Result<_>>()?;
            for (shard, frame) in together.iter().zip(frames) {
                writer.encoded(&shard.name, shard.split.as_deref(), frame)?;
            }
            left = rest;
        }
        writer.finish(&self.skipped())
    }

    /// All entries, in order; none of a plan that is on disk.
    pub(crate) fn entries_in_memory(&self) -> impl Iterator<Item = PlanEntry> {
        self.shards.iter().flat_map(|shard| self.entries(shard)).filter_map(Result::ok)
    }

    /// The entries of a shard, in order.
    fn entries(&self, shard: &PlannedShard) -> impl Iterator<Item = Result<PlanEntry>> {
        let items = self.order.get(shard.items.clone()).unwrap_or_default();
        items.iter().filter_map(|item| {
            let rows = item.from..item.from + u64::from(item.count);
            let mut entry = self.listing.sample(item.sample as usize)?.entry(rows);
            if let Some(short) = self.short.get(&item.sample) {
                entry.key.clone_from(short);
            }
            Some(Ok(entry))
        })
    }
}

/// The frame of a shard with more entries is written as it is encoded, since it would take much memory.
const LARGE_FRAME: usize = 1 << 20;

/// The type of the label column.
pub(crate) const LABEL: DataType = DataType::Int64;
