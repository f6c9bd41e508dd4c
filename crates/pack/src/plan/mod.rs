//! plan: decides, ahead of any work, which sample goes to which shard and in which order.

mod classes;
mod fit;
mod plan_item;
mod sample_sizes;
mod schema;
mod shard_bounds;
mod shard_list;
mod shuffle;
mod split;
mod split_assignment;

pub use fit::Estimate;
pub(crate) use fit::{Growth, Segment, TrialPiece};
pub(crate) use sample_sizes::SampleSizes;
pub(crate) use shard_bounds::ShardBounds;
pub use shuffle::Shuffle;
pub use split::{Shares, SplitBy, Splits};

use crate::long_keys::{LongKeys, shorten};
use crate::scan::Listing;
use crate::{OnError, Shapes, steps};
use packhorse_core::{Code, DataType, Error, Event, Kind, Limits, Observer, Registry, Result, Sink};
use packhorse_dataset::{Digest, FieldRecord, FileRecord, PathText, PlanHeader, PlanWriter, SinkRecord, SourceRecord};
use packhorse_transform::Transform;
use plan_item::PlanItem;
use shard_list::PlannedShard;
use split_assignment::SplitAssignment;
use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;

/// How to decide: what follows from a recipe.
#[derive(Clone, Debug)]
pub(crate) struct PlanOptions {
    /// The format of the shards.
    pub(crate) format: String,
    /// The format's own settings.
    pub(crate) sink: packhorse_core::Options,
    /// Whether it stores values by type.
    pub(crate) typed: bool,
    /// The dataset's name, and that of its shards where there are no splits.
    pub(crate) name: String,
    /// The order of samples.
    pub(crate) shuffle: Shuffle,
    /// The size of shards.
    pub(crate) cut: ShardBounds,
    /// How samples are divided into splits.
    pub(crate) splits: Splits,
    /// What decides a sample's split.
    pub(crate) split_by: SplitBy,
    /// The most samples, taken from the start of the order.
    pub(crate) limit: Option<u64>,
    /// What to do with long keys.
    pub(crate) long_keys: LongKeys,
    /// What to do with samples that can't be written.
    pub(crate) on_error: OnError,
    /// Whether inputs of typed rows may lack columns that others have; their samples then have nulls there.
    pub(crate) fill_missing: bool,
    /// How inputs of typed rows are read.
    pub(crate) sources: BTreeMap<String, packhorse_core::Options>,
    /// What to do with arrays of one name whose shapes differ.
    pub(crate) shapes: Shapes,
    /// The memory that the limits of single values follow from ([`Limits::of_memory`]). `None` stands for
    /// [`Limits::default`]. Where values over a limit are left out, every part of the plan leaves out the same.
    pub(crate) memory: Option<u64>,
}

/// A plan in memory: numbers only, the names stay in the listing.
pub struct Plan {
    listing: Listing,
    header: PlanHeader,
    /// What the transforms need, by name.
    files: Vec<(String, Arc<[u8]>)>,
    cut: ShardBounds,
    order: Vec<PlanItem>,
    shards: Vec<PlannedShard>,
    /// Keys that were shortened, by sample.
    short: BTreeMap<u32, String>,
    /// What a trial showed of its sizes.
    pub(crate) estimate: Option<Estimate>,
}

/// Decides. Fails under [`OnError::Fail`] if a sample can't be written.
pub(crate) fn plan(
    registry: &Registry,
    mut listing: Listing,
    transforms: &[Box<dyn Transform>],
    options: &PlanOptions,
    observer: &dyn Observer,
) -> Result<Plan> {
    check_name(&options.name)?;
    check_counts(&listing, options)?;
    let format = registry.get(&options.format)?;
    let sink = format.sink(&options.sink)?;
    let short = admit(&mut listing, &*sink, options, observer)?;
    let delivered = schema::of(registry, &listing, options, observer)?;
    let transformed = transforms.iter().try_fold(delivered.schema.clone(), |schema, t| t.schema(&schema))?;
    let encode = schema::encoded(registry, &*sink, &transformed)?;
    if let Err(e) = sink.accept(&steps::encoded_schema(&transformed, &encode)?) {
        // The user knows the names that columns have, not those of the fields that they become.
        return Err(match sink.accept(&transformed) {
            Err(own) if own.kind() == Kind::Config => own,
            _ => e,
        });
    }
    if let Some(need) = sink.readers_need() {
        observer.event(&Event::Warning(need));
    }
    let mut order = plan_item::units(&listing, options.shuffle, options.splits.divides());
    let groups = SplitAssignment::of(&listing, options)?;
    plan_item::truncate(&mut order, options.limit.unwrap_or(u64::MAX));
    if order.is_empty() {
        let first = listing.sample(0).map(|sample| sample.first_path()).unwrap_or_default();
        let message =
            "holds no row, and no other input does, so there is no sample to pack; give inputs that have some";
        return Err(Error::config(message).in_input(first.display()));
    }
    let sizes = SampleSizes::of(&listing, &*sink, transforms.iter().map(|t| t.factor()).product());
    let (order, shards) = shard_list::cut(&listing, order, &sizes, (&groups, options));
    warn_of_counts(&shards, &order, &listing, observer);
    let mut header = header(&listing, format.info(), transforms, options);
    header.classes = classes::of(&listing)?;
    header.splits = groups.names().to_vec();
    header.schema = FieldRecord::of(&delivered.schema);
    (header.decode, header.encode) = (delivered.decode, encode);
    let files: Vec<_> = transforms.iter().flat_map(|t| t.files()).collect();
    let record = |(name, bytes): &(String, Arc<[u8]>)| FileRecord {
        name: name.clone(),
        bytes: bytes.len() as u64,
        blake3: Digest::of(bytes),
    };
    header.files = files.iter().map(record).collect();
    Ok(Plan { listing, header, files, cut: options.cut, order, shards, short, estimate: None })
}

/// So many shards, or so large ones, are seldom meant.
fn warn_of_counts(shards: &[PlannedShard], order: &[PlanItem], listing: &Listing, observer: &dyn Observer) {
    const MANY: usize = 100_000;
    const LARGE: f64 = 64e9;
    if shards.len() > MANY {
        let text = format!("{} shards are planned; larger ones (`shard-size`) are read faster", shards.len());
        observer.event(&Event::Warning(&text));
    }
    let bytes = |unit: &PlanItem| -> f64 {
        let sample = listing.sample(unit.sample as usize);
        sample.map_or(0.0, |s| s.bytes() as f64 / s.items().max(1) as f64 * f64::from(unit.count))
    };
    let size = |shard: &PlannedShard| order.get(shard.units.clone()).unwrap_or_default().iter().map(bytes).sum::<f64>();
    if let Some((shard, size)) = shards.iter().map(|shard| (shard, size(shard))).find(|(_, size)| *size > LARGE) {
        let text = format!(
            "shard {} is planned of {:.0} GB of input; readers shuffle and fetch smaller shards better, see `shard-size` \
             and `shard-count`",
            shard.name,
            size / 1e9
        );
        observer.event(&Event::Warning(&text));
    }
}

fn check_name(name: &str) -> Result<()> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
    match !name.is_empty() && name.bytes().all(plain) {
        true => Ok(()),
        false => Err(Error::config(format!("`name={name}`: names of shards are letters, digits, _ and -"))
            .with_code(Code::BadSetting)),
    }
}

/// What is planned by samples needs their number.
fn check_counts(listing: &Listing, options: &PlanOptions) -> Result<()> {
    let blocks = matches!(options.shuffle, Shuffle::Blocks { .. });
    let split = options.splits.divides();
    let wanted = options.limit.is_some() || options.cut.samples.is_some() || blocks || split;
    match listing.iter().find(|sample| wanted && !sample.counted()) {
        None => Ok(()),
        Some(sample) => {
            let message =
                "its samples were not counted, which a limit, splits, samples per shard and blocks of samples need";
            Err(Error::config(message).in_input(sample.first_path().display()))
        }
    }
}

/// The digits of a sample's number behind the key of its run.
const NUMBER: usize = 10;

/// Refuses or renames samples that the sink can't write.
fn admit(
    listing: &mut Listing,
    sink: &dyn Sink,
    options: &PlanOptions,
    observer: &dyn Observer,
) -> Result<BTreeMap<u32, String>> {
    let labels: &[(&str, u64)] = if listing.classes().is_empty() { &[] } else { &[("cls", 1)] };
    let rows = listing.has_metadata();
    let mut short = BTreeMap::new();
    let (mut keep, mut faults) = (Vec::with_capacity(listing.samples()), Vec::new());
    for sample in listing.iter() {
        let row = sample.row().map(|row| ("json", row.len() as u64));
        let fields = || sample.fields().chain(labels.iter().copied()).chain(row);
        let mut key = sample.key();
        let longest = fields().map(|(field, _)| sink.longest_key(field)).min().unwrap_or(usize::MAX);
        // A run's samples have their numbers behind this.
        let longest = longest.saturating_sub(if sample.table().is_some() { NUMBER } else { 0 });
        if options.long_keys == LongKeys::Hash && key.len() > longest {
            key = shorten(&key, longest);
            short.insert(keep.iter().filter(|k| **k).count() as u32, key.clone());
        }
        let taken = rows && sample.fields().any(|(field, _)| field == "json");
        let fault = match taken {
            true => {
                Some(Error::config("has a field json of its own; leave `metadata` or exclude *.json").in_sample(&key))
            }
            // Of typed rows, what is too long shows when it is written.
            false if sample.table().is_some() => None,
            false => fields().find_map(|(field, bytes)| sink.admit(&key, field, bytes).err()),
        };
        keep.push(fault.is_none());
        faults.extend(fault.map(|e| e.in_input(sample.first_path().display())));
    }
    if let Some(at) = faults
        .iter()
        .position(|f| options.on_error == OnError::Fail || !matches!(f.kind(), Kind::Content | Kind::Limit))
    {
        return Err(faults.swap_remove(at));
    }
    for fault in faults {
        observer.event(&Event::Skipped(&fault));
        listing.add_fault(fault);
    }
    if keep.contains(&false) {
        listing.retain(&keep);
    }
    Ok(short)
}

/// The choice that says what the limits of single values follow from.
const MEMORY: &str = "memory";

/// The limits of single values that decide what the shards of a plan hold; `None` where any will do, as long as nothing
/// is left out by them.
pub(crate) fn planned_limits(header: &PlanHeader) -> Result<Option<Limits>> {
    let Some(text) = header.choices.get(MEMORY) else { return Ok(None) };
    let memory = text.parse().map_err(|_| Error::content(format!("the plan has the memory \"{text}\", no number")))?;
    Ok(Some(Limits::of_memory(memory)))
}

/// The limits to fill a plan with where `asked` are asked for: of its own the smaller, or its own where `asked` are
/// [`Limits::default`]. Transforms made from the plan's header are made with these.
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
    options: &PlanOptions,
) -> PlanHeader {
    let cut = options.cut;
    let mut choices: BTreeMap<String, String> = BTreeMap::new();
    let mut say = |name: &str, value: Option<String>| value.map(|value| choices.insert(name.to_owned(), value));
    say("shuffle", Some(options.shuffle.to_string()));
    say("shard-size", cut.bytes.map(|n| n.to_string()));
    say("shard-count", cut.shards.map(|n| n.to_string()));
    say("samples-per-shard", cut.samples.map(|n| n.to_string()));
    // Keeping splits decides nothing where there are none.
    let keeps = options.splits == Splits::Keep && listing.sealed().is_empty();
    say("split", (!keeps).then(|| options.splits.to_string()));
    say("split-by", options.splits.divides().then(|| options.split_by.to_string()));
    say("limit", options.limit.map(|n| n.to_string()));
    say("key-ends", (!listing.key_ends().is_default()).then(|| listing.key_ends().to_string()));
    say("fill-missing", options.fill_missing.then(|| "true".to_owned()));
    say("long-keys", (options.long_keys == LongKeys::Hash).then(|| "hash".to_owned()));
    // Where nothing is left out, limits decide nothing.
    say(MEMORY, options.memory.filter(|_| options.on_error == OnError::Skip).map(|n| n.to_string()));
    // Whoever fills the plan may stand in another folder.
    let absolute = |root: &std::path::PathBuf| std::path::absolute(root).unwrap_or_else(|_| root.clone());
    PlanHeader {
        packhorse_plan: PlanHeader::VERSION,
        name: options.name.clone(),
        sink: SinkRecord {
            format: info.id.to_owned(),
            revision: info.revision,
            options: options.sink.iter().map(|(k, v)| (k.to_owned(), v.to_owned())).collect(),
        },
        transforms: transforms.iter().map(|t| t.describe()).collect(),
        files: Vec::new(),
        choices,
        sources: options.sources.iter().map(source_record).collect(),
        decode: Vec::new(),
        encode: Vec::new(),
        schema: Vec::new(),
        omitted: listing.omitted(),
        classes: Vec::new(),
        splits: Vec::new(),
        roots: listing.roots().iter().map(|root| PathText::from(absolute(root).as_os_str())).collect(),
    }
}

fn source_record((format, options): (&String, &packhorse_core::Options)) -> SourceRecord {
    let options = options.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    SourceRecord { format: format.clone(), options }
}

impl Plan {
    /// Samples in all shards; `None` where they are not all counted.
    pub fn samples(&self) -> Option<u64> {
        self.shards.iter().map(|shard| shard.samples).sum()
    }

    /// The sizes of its samples, as they are guessed.
    pub(crate) fn sizes<'a>(&self, sink: &'a dyn Sink, transforms: &[Box<dyn Transform>]) -> SampleSizes<'a> {
        SampleSizes::of(&self.listing, sink, transforms.iter().map(|t| t.factor()).product())
    }

    /// Whether a shard starts with rows.
    pub(crate) fn starts_with_rows(&self) -> bool {
        let first = |shard: &PlannedShard| self.order.get(shard.units.start).map(|unit| unit.sample as usize);
        let is_table = |sample: usize| self.listing.sample(sample).is_some_and(|sample| sample.table().is_some());
        self.shards.iter().filter_map(first).any(is_table)
    }

    /// Bytes of input in all shards.
    pub fn bytes(&self) -> u64 {
        let bytes = |unit: &PlanItem| {
            let sample = self.listing.sample(unit.sample as usize)?;
            Some((sample.bytes() as f64 * f64::from(unit.count) / sample.items().max(1) as f64) as u64)
        };
        self.order.iter().filter_map(bytes).sum()
    }

    /// Name, split and number of samples of each shard, where these are counted.
    pub fn shards(&self) -> impl ExactSizeIterator<Item = (&str, Option<&str>, Option<u64>)> {
        self.shards.iter().map(|s| (s.name.as_str(), s.split.as_deref(), s.samples))
    }

    /// The sizes of its shards, where a trial was to show them.
    pub fn estimate(&self) -> Option<&Estimate> {
        self.estimate.as_ref()
    }

    /// What holds for all shards.
    pub fn header(&self) -> &PlanHeader {
        &self.header
    }

    /// Files that the transforms need: they belong beside the plan.
    pub(crate) fn files(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.files.iter().map(|(name, bytes)| (name.as_str(), &**bytes))
    }

    /// How many samples each class has, in the order of the class list; empty unless scan found the labels.
    pub fn class_counts(&self) -> Vec<u64> {
        let mut counts = vec![0; self.listing.classes().len()];
        for unit in &self.order {
            let label = self.listing.sample(unit.sample as usize).and_then(|sample| sample.label());
            if let Some(count) = label.and_then(|label| counts.get_mut(label as usize)) {
                *count += u64::from(unit.count);
            }
        }
        counts
    }

    /// What was left out.
    pub fn skipped(&self) -> Vec<packhorse_dataset::SkipRecord> {
        self.listing.skipped()
    }

    /// Writes the plan's file to `out`; returns its logical digest and that of the inputs' times.
    pub fn write(&self, out: impl Write) -> Result<(Digest, Digest)> {
        let mut writer = PlanWriter::new(out, &self.header)?;
        for shard in &self.shards {
            let units = self.order.get(shard.units.clone()).unwrap_or_default();
            let entries = units.iter().filter_map(|unit| {
                let items = unit.from..unit.from + u64::from(unit.count);
                let mut entry = self.listing.sample(unit.sample as usize)?.entry(items);
                if let Some(short) = self.short.get(&unit.sample) {
                    entry.key.clone_from(short);
                }
                Some(Ok(entry))
            });
            writer.shard(&shard.name, shard.split.as_deref(), entries)?;
        }
        writer.finish(&self.skipped())
    }
}

/// The type that a label's column has.
pub(crate) const LABEL: DataType = DataType::Int64;
