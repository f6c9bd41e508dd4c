//! plan: decides, ahead of any work, which sample goes to which shard and in which order.

mod cut;
mod order;
mod schema;
mod split;

pub use cut::Cut;
pub use order::Shuffle;
pub use split::{SplitBy, Splits};

use crate::Policy;
use crate::scan::Listing;
use packhorse_core::{DataType, Error, Event, Observer, Registry, Result, SchemaRef, Sink};
use packhorse_dataset::{Digest, FieldRecord, Header, PathText, PlanWriter, SinkRecord};
use packhorse_transform::Transform;
use std::collections::BTreeMap;
use std::io::Write;
use std::ops::Range;
use std::str::FromStr;

/// What to do with keys that are longer than readers carry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LongKeys {
    /// A bad input, with advice.
    #[default]
    Refuse,
    /// Cut, followed by `~` and 16 hexadecimal digits of the whole key's BLAKE3.
    Hash,
}

impl FromStr for LongKeys {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "refuse" => Ok(LongKeys::Refuse),
            "hash" => Ok(LongKeys::Hash),
            other => Err(Error::config(format!("--long-keys takes refuse or hash, not \"{other}\""))),
        }
    }
}

/// How to decide.
#[derive(Clone, Debug)]
pub struct PlanOptions {
    /// The format of the shards.
    pub format: String,
    /// The format's own settings.
    pub sink: packhorse_core::Options,
    /// The dataset's name, and that of its shards where there are no splits.
    pub name: String,
    /// The order of samples.
    pub shuffle: Shuffle,
    /// The size of shards.
    pub cut: Cut,
    /// The splits.
    pub splits: Splits,
    /// What decides a sample's split.
    pub split_by: SplitBy,
    /// The most samples, taken from the start of the order.
    pub limit: Option<u64>,
    /// What to do with long keys.
    pub long_keys: LongKeys,
    /// What to do with samples that can't be written.
    pub policy: Policy,
}

impl Default for PlanOptions {
    fn default() -> Self {
        Self {
            format: "webdataset".to_owned(),
            sink: packhorse_core::Options::new(),
            name: "shard".to_owned(),
            shuffle: Shuffle::No,
            cut: Cut::default(),
            splits: Splits::default(),
            split_by: SplitBy::Hash,
            limit: None,
            long_keys: LongKeys::Refuse,
            policy: Policy::Fail,
        }
    }
}

/// A plan in memory: numbers only, the names stay in the listing.
pub struct Plan {
    listing: Listing,
    header: Header,
    order: Vec<u32>,
    shards: Vec<Shard>,
    /// Keys that were shortened, by sample.
    short: BTreeMap<u32, String>,
}

struct Shard {
    name: String,
    split: Option<String>,
    samples: Range<usize>,
}

/// Decides. Fails under [`Policy::Fail`] if a sample can't be written.
pub fn plan(
    registry: &Registry,
    mut listing: Listing,
    transforms: &[Box<dyn Transform>],
    options: &PlanOptions,
    observer: &dyn Observer,
) -> Result<Plan> {
    check_name(&options.name)?;
    let format = registry.get(&options.format)?;
    let sink = format.sink(&options.sink)?;
    let short = admit(&mut listing, &*sink, options, observer)?;
    let schema = schema::of(&listing, observer);
    let written = transforms.iter().try_fold(schema.clone(), |schema, t| t.schema(&schema))?;
    sink.accept(&written)?;
    let mut order = order::order(listing.samples() as u32, options.shuffle);
    order.truncate(options.limit.map_or(usize::MAX, |n| n as usize));
    let factor = transforms.iter().map(|t| t.factor()).product();
    let (order, shards) = shards(&listing, order, &*sink, factor, options);
    let header = header(&listing, &schema, format.info(), transforms, options);
    Ok(Plan { listing, header, order, shards, short })
}

fn check_name(name: &str) -> Result<()> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
    match !name.is_empty() && name.bytes().all(plain) {
        true => Ok(()),
        false => Err(Error::config(format!("--name \"{name}\": names of shards are letters, digits, _ and -"))),
    }
}

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
        if options.long_keys == LongKeys::Hash && key.len() > longest {
            key = shorten(&key, longest);
            short.insert(keep.iter().filter(|k| **k).count() as u32, key.clone());
        }
        let taken = rows && sample.fields().any(|(field, _)| field == "json");
        let fault = match taken {
            true => {
                Some(Error::config("has a field json of its own; leave --metadata or exclude *.json").in_sample(&key))
            }
            false => fields().find_map(|(field, bytes)| sink.admit(&key, field, bytes).err()),
        };
        keep.push(fault.is_none());
        faults.extend(fault.map(|e| e.in_input(sample.first_path().display())));
    }
    if let Some(at) =
        faults.iter().position(|f| options.policy == Policy::Fail || f.kind() != packhorse_core::Kind::Content)
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

/// `key` in `longest` bytes: its start and a hash of all of it.
fn shorten(key: &str, longest: usize) -> String {
    let hash = blake3::hash(key.as_bytes()).to_hex();
    let end = (0..=longest.saturating_sub(17)).rev().find(|i| key.is_char_boundary(*i)).unwrap_or(0);
    format!("{}~{}", key.get(..end).unwrap_or_default(), hash.get(..16).unwrap_or_default())
}

/// Cuts the order into shards, split by split.
fn shards(
    listing: &Listing,
    order: Vec<u32>,
    sink: &dyn Sink,
    factor: f64,
    options: &PlanOptions,
) -> (Vec<u32>, Vec<Shard>) {
    let mut groups: Vec<(Option<String>, Vec<u32>)> = match options.splits.is_empty() {
        true => vec![(None, Vec::new())],
        false => options.splits.names().map(|name| (Some(name.to_owned()), Vec::new())).collect(),
    };
    let n = order.len();
    for (place, sample) in order.into_iter().enumerate() {
        let split = match (options.splits.is_empty(), options.split_by) {
            (true, _) => 0,
            (false, SplitBy::Order) => options.splits.by_place(place, n),
            (false, SplitBy::Hash) => listing.sample(sample as usize).map_or(0, |s| options.splits.by_key(&s.key())),
        };
        if let Some((_, samples)) = groups.get_mut(usize::from(split)) {
            samples.push(sample);
        }
    }
    let (mut order, mut shards) = (Vec::with_capacity(n), Vec::new());
    for (split, samples) in groups {
        let sizes: Vec<u64> = samples.iter().map(|i| size(listing, *i, sink, factor)).collect();
        let start = order.len();
        for (i, range) in options.cut.ranges(&sizes).into_iter().enumerate() {
            let name = format!("{}-{i:06}", split.as_ref().unwrap_or(&options.name));
            shards.push(Shard { name, split: split.clone(), samples: start + range.start..start + range.end });
        }
        order.extend(samples);
    }
    (order, shards)
}

/// The bytes that a sample takes up in a shard, as far as the plan can know.
fn size(listing: &Listing, i: u32, sink: &dyn Sink, factor: f64) -> u64 {
    let Some(sample) = listing.sample(i as usize) else { return 0 };
    let inputs: u64 = sample.fields().map(|(_, bytes)| sink.size_of((bytes as f64 * factor) as u64)).sum();
    let label = sample.label().map_or(0, |_| sink.size_of(1));
    inputs + label + sample.row().map_or(0, |row| sink.size_of(row.len() as u64))
}

fn header(
    listing: &Listing,
    schema: &SchemaRef,
    info: &packhorse_core::FormatInfo,
    transforms: &[Box<dyn Transform>],
    options: &PlanOptions,
) -> Header {
    let cut = options.cut;
    let mut choices: BTreeMap<String, String> = BTreeMap::new();
    let mut say = |name: &str, value: Option<String>| value.map(|value| choices.insert(name.to_owned(), value));
    say("shuffle", Some(options.shuffle.to_string()));
    say("shard-size", cut.bytes.map(|n| n.to_string()));
    say("shard-count", cut.shards.map(|n| n.to_string()));
    say("samples-per-shard", cut.samples.map(|n| n.to_string()));
    say("split", (!options.splits.is_empty()).then(|| options.splits.to_string()));
    say("split-by", (!options.splits.is_empty()).then(|| options.split_by.to_string()));
    say("limit", options.limit.map(|n| n.to_string()));
    say("long-keys", (options.long_keys == LongKeys::Hash).then(|| "hash".to_owned()));
    // Whoever fills the plan may stand in another folder.
    let absolute = |root: &std::path::PathBuf| std::path::absolute(root).unwrap_or_else(|_| root.clone());
    Header {
        packhorse_plan: Header::VERSION,
        name: options.name.clone(),
        sink: SinkRecord {
            format: info.id.to_owned(),
            revision: info.revision,
            options: options.sink.iter().map(|(k, v)| (k.to_owned(), v.to_owned())).collect(),
        },
        transforms: transforms.iter().map(|t| t.describe()).collect(),
        choices,
        schema: FieldRecord::of(schema),
        classes: listing.classes().to_vec(),
        splits: options.splits.names().map(str::to_owned).collect(),
        roots: listing.roots().iter().map(|root| PathText::from(absolute(root).as_os_str())).collect(),
    }
}

impl Plan {
    /// Samples in all shards.
    pub fn samples(&self) -> u64 {
        self.order.len() as u64
    }

    /// Bytes of input in all shards.
    pub fn bytes(&self) -> u64 {
        self.order.iter().filter_map(|i| self.listing.sample(*i as usize)).map(|s| s.bytes()).sum()
    }

    /// Name, split and number of samples of each shard.
    pub fn shards(&self) -> impl ExactSizeIterator<Item = (&str, Option<&str>, u64)> {
        self.shards.iter().map(|s| (s.name.as_str(), s.split.as_deref(), s.samples.len() as u64))
    }

    /// What holds for all shards.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// How many samples each class has, in the order of the class list.
    pub fn class_counts(&self) -> Vec<u64> {
        let mut counts = vec![0; self.header.classes.len()];
        for label in self.order.iter().filter_map(|i| self.listing.sample(*i as usize)?.label()) {
            if let Some(count) = counts.get_mut(label as usize) {
                *count += 1;
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
            let samples = self.order.get(shard.samples.clone()).unwrap_or_default();
            let entries = samples.iter().filter_map(|i| {
                let mut entry = self.listing.sample(*i as usize)?.entry();
                if let Some(short) = self.short.get(i) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_key_keeps_its_start_and_stays_unique() {
        let (a, b) = ("x".repeat(200), "x".repeat(201));
        let (short_a, short_b) = (shorten(&a, 96), shorten(&b, 96));
        assert_eq!((short_a.len(), short_b.len()), (96, 96));
        assert_ne!(short_a, short_b);
        assert!(shorten(&"ß".repeat(100), 96).len() <= 96);
    }
}
