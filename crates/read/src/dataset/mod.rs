//! Datasets as readers see them: runs of samples of shards, numbered from 0 on.

mod base;
mod committed;
mod default_shuffle;
mod foreign;
mod joined;
mod open;
mod shard;
mod view;

pub(crate) use joined::Joined;
pub use open::OpenOptions;
pub(crate) use open::RAGGED;
pub(crate) use shard::{Content, Looked, Shard};
pub(crate) use view::{base_of, is_free};

use base::Base;
use packhorse_core::{
    Code, Error, Field, FieldType, HUGGINGFACE, KEY, LOGICAL, Omission, PACKED, Registry, Result, Schema, SchemaRef,
    Source, class_names, counted, nearest, numpy_type, some_of,
};
use packhorse_dataset::Digest;
pub(crate) use packhorse_dataset::SampleRun;
use packhorse_storage::Location;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// A sequence of samples of shards, numbered from 0. Cheap to clone; opened by [`Dataset::open`].
#[derive(Clone)]
pub struct Dataset {
    shards: Arc<[Arc<Shard>]>,
    runs: Arc<[SampleRun]>,
    /// For each run the number of the sample after its last.
    ends: Arc<[u64]>,
    schema: SchemaRef,
    classes: Arc<[String]>,
    registry: Registry,
    /// The sealed dataset that the shards are of; `None` for third-party shards and several datasets.
    base: Option<Arc<Base>>,
    /// Whether fields were [selected](Dataset::select).
    selected: bool,
    /// Columns of views.
    joined: Arc<[Arc<Joined>]>,
}

impl Dataset {
    pub(crate) fn new(
        registry: &Registry,
        shards: Vec<Arc<Shard>>,
        schema: SchemaRef,
        classes: Vec<String>,
    ) -> Result<Self> {
        let runs = runs_of(&shards)?;
        let (registry, classes) = (registry.clone(), classes.into());
        let (shards, none, ends, joined) = (shards.into(), [].into(), [].into(), [].into());
        Self { shards, runs: none, ends, schema, classes, registry, base: None, selected: false, joined }
            .with_runs(runs)
    }

    /// All samples of its shards, each once; `None` if these are its samples.
    pub(crate) fn of_whole_shards(&self) -> Result<Option<Self>> {
        let runs = runs_of(&self.shards)?;
        (*runs != *self.runs).then(|| self.with_runs(runs)).transpose()
    }

    fn with_runs(&self, runs: Vec<SampleRun>) -> Result<Self> {
        let mut end = 0u64;
        let ends = runs.iter().map(|run| {
            end = end.checked_add(run.len).ok_or_else(|| Error::unsupported("has 2^64 samples and more"))?;
            Ok(end)
        });
        let ends: Arc<[u64]> = ends.collect::<Result<_>>()?;
        Ok(Self { runs: runs.into(), ends, ..self.clone() })
    }

    /// The number of samples.
    pub fn len(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }

    /// Whether there are no samples.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The fields of samples, without their keys; blobs if a field is stored as bytes.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The class list of a sealed dataset: a label is a position in it.
    pub fn classes(&self) -> &[String] {
        &self.classes
    }

    /// The fields of third-party shards that can't be read, each once by its name, and why not. Datasets of packhorse have none.
    pub fn omitted(&self) -> Vec<Omission> {
        let all = self.used().flat_map(|shard| shard.omitted());
        let by_name: BTreeMap<&str, &Omission> = all.map(|omission| (&*omission.field, omission)).collect();
        by_name.into_values().cloned().collect()
    }

    /// Total size of the shards in bytes.
    pub fn bytes(&self) -> u64 {
        self.used().fold(0, |sum, shard| sum.saturating_add(shard.stored()))
    }

    /// Whether a shard of its samples is on a server, which may not answer.
    pub fn is_remote(&self) -> bool {
        self.used().any(|shard| Location::url(Path::new(&shard.name)).is_some())
    }

    /// The shards of its samples.
    fn used(&self) -> impl Iterator<Item = &Arc<Shard>> {
        let mut used = vec![false; self.shards.len()];
        for run in self.runs.iter() {
            if let Some(used) = used.get_mut(run.shard as usize) {
                *used = true;
            }
        }
        self.shards.iter().zip(used).filter_map(|(shard, used)| used.then_some(shard))
    }

    /// The approximate size of a stored sample, in bytes.
    pub fn mean(&self) -> u64 {
        let bytes = self.runs.iter().map(|run| {
            let shard = self.shards.get(run.shard as usize);
            shard.map_or(0, |shard| u128::from(shard.stored()) * u128::from(run.len) / u128::from(shard.samples.max(1)))
        });
        u64::try_from(bytes.fold(0, u128::saturating_add) / u128::from(self.len().max(1))).unwrap_or(u64::MAX)
    }

    /// The runs, from which orders are built.
    pub(crate) fn runs(&self) -> &[SampleRun] {
        &self.runs
    }

    /// The formats it was opened with.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    pub(crate) fn shards(&self) -> &[Arc<Shard>] {
        &self.shards
    }

    /// The shard and position of sample `at` of a run, and its number in the dataset.
    pub(crate) fn sample(&self, run: u32, at: u64) -> Result<(u32, u64, u64)> {
        let found = self.runs.get(run as usize).filter(|found| at < found.len).zip(self.ends.get(run as usize));
        let (found, end) = found.ok_or_else(|| Error::bug(format!("sample {at} of run {run} is not there")))?;
        Ok((found.shard, found.first + at, end - found.len + at))
    }

    /// The run that contains sample `number`, and its position there; `None` past the end.
    pub(crate) fn find(&self, number: u64) -> Option<(u32, u64)> {
        let run = self.ends.partition_point(|end| *end <= number);
        let start = run.checked_sub(1).and_then(|before| self.ends.get(before).copied()).unwrap_or(0);
        self.runs.get(run).map(|_| (run as u32, number - start))
    }

    /// `error`, which concerns the sample `number`, with the shard that holds it.
    pub(crate) fn in_shard(&self, error: Error, number: Option<u64>) -> Error {
        let run = number.and_then(|number| self.runs.get(self.find(number)?.0 as usize));
        match (error.input(), run.and_then(|run| self.shards.get(run.shard as usize))) {
            (None, Some(shard)) => error.in_input(&shard.name),
            _ => error,
        }
    }

    /// A 64-bit identifier of the dataset: part of a loader's state, so that a state of another dataset is refused.
    pub fn fingerprint(&self) -> u64 {
        let mut bytes = Vec::new();
        for run in self.runs.iter() {
            let shard = self.shards.get(run.shard as usize);
            let digest = shard.map(|shard| *shard.digest.as_bytes()).unwrap_or_default();
            bytes.extend(digest);
            bytes.extend(run.first.to_le_bytes());
            bytes.extend(run.len.to_le_bytes());
        }
        self.joined.iter().for_each(|joined| bytes.extend(joined.digest.as_bytes()));
        let digest = Digest::of(&bytes);
        digest.as_bytes().first_chunk().map_or(0, |head| u64::from_le_bytes(*head))
    }

    /// The samples of these numbers, in this order; numbers may repeat.
    ///
    /// Errors (kind `Config`): a number that is not below [`Dataset::len`].
    pub fn subset(&self, numbers: impl IntoIterator<Item = u64>) -> Result<Self> {
        let mut runs: Vec<SampleRun> = Vec::new();
        for number in numbers {
            let (run, at) = self.find(number).ok_or_else(|| self.beyond(number))?;
            let (shard, first, _) = self.sample(run, at)?;
            match runs.last_mut() {
                Some(last) if last.shard == shard && last.first + last.len == first => last.len += 1,
                _ => runs.push(SampleRun { shard, first, len: 1 }),
            }
        }
        self.with_runs(runs)
    }

    /// The samples of a range of numbers.
    ///
    /// Errors (kind `Config`): a range that is not inside.
    pub fn slice(&self, numbers: Range<u64>) -> Result<Self> {
        if numbers.start > numbers.end {
            return Err(Error::config(format!(
                "samples {} to {}: the end is before the start",
                numbers.start, numbers.end
            )));
        }
        if numbers.end > self.len() {
            return Err(self.beyond(numbers.end));
        }
        let mut runs = Vec::new();
        for (run, end) in self.runs.iter().zip(self.ends.iter()) {
            let start = end - run.len;
            let (from, to) = (numbers.start.clamp(start, *end), numbers.end.clamp(start, *end));
            if from < to {
                runs.push(SampleRun { first: run.first + (from - start), len: to - from, ..*run });
            }
        }
        self.with_runs(runs)
    }

    /// The first `samples` samples, or all if there are fewer.
    pub fn take(&self, samples: u64) -> Result<Self> {
        self.slice(0..samples.min(self.len()))
    }

    /// The same samples with these fields only.
    ///
    /// Errors (kind `Config`): a field that the dataset does not have.
    pub fn select(&self, fields: &[impl AsRef<str>]) -> Result<Self> {
        let is_wanted = |name: &str| fields.iter().any(|field| field.as_ref() == name);
        let mut names = fields.iter().map(AsRef::as_ref);
        if let Some(wrong) = names.find(|name| self.schema.column_with_name(name).is_none()) {
            return Err(no_field(wrong, &self.schema));
        }
        let kept: Vec<_> = self.schema.fields().iter().filter(|field| is_wanted(field.name())).cloned().collect();
        let stored = fields.iter().map(AsRef::as_ref).filter(|name| self.joined_column(name).is_none());
        let names: Vec<String> = stored.map(str::to_owned).collect();
        let shards = if names.is_empty() { Arc::clone(&self.shards) } else { self.narrowed(&names) };
        Ok(Self { shards, schema: Arc::new(Schema::new(kept)), selected: true, ..self.clone() })
    }

    /// The same samples, of which other fields than `wanted` are not read where the format saves something by that.
    pub(crate) fn reading(self, wanted: &BTreeSet<String>) -> Self {
        let is_wanted = |name: &str| wanted.contains(name);
        let known = self.schema.fields().iter().map(|field| field.name());
        if known.clone().all(|name| is_wanted(name)) {
            return self;
        }
        let names = known.filter(|name| is_wanted(name) && self.joined_column(name).is_none()).cloned();
        let names: Vec<String> = names.collect();
        let shards = if names.is_empty() { Arc::clone(&self.shards) } else { self.narrowed(&names) };
        Self { shards, ..self }
    }

    /// The shards, read without other fields than `names` where their format saves something by that.
    fn narrowed(&self, names: &[String]) -> Arc<[Arc<Shard>]> {
        // Shards of one dataset share one source.
        let mut known: Option<Arc<dyn Source>> = None;
        let mut less: Option<Arc<dyn Source>> = None;
        let narrowed = self.shards.iter().map(|shard| {
            if !shard.is_table() || shard.lacks(names) {
                return Arc::clone(shard);
            }
            if known.as_ref().is_none_or(|known| !Arc::ptr_eq(known, &shard.source)) {
                known = Some(Arc::clone(&shard.source));
                less = shard.source.narrowed(names).map(Arc::from);
            }
            less.as_ref().map_or_else(|| Arc::clone(shard), |source| Arc::new(shard.read_by(source)))
        });
        narrowed.collect()
    }

    fn beyond(&self, number: u64) -> Error {
        Error::config(format!("sample {number} is beyond the {} of the dataset", counted(self.len(), "sample")))
    }

    /// The names of its splits, in the order of their shards; empty without splits.
    pub fn splits(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for run in self.runs.iter() {
            let split = self.shards.get(run.shard as usize).and_then(|shard| shard.split.as_ref());
            if let Some(split) = split.filter(|split| !names.contains(split)) {
                names.push(split.clone());
            }
        }
        names
    }

    /// The samples of one split.
    ///
    /// Errors (kind `Config`): no such split; the message lists the existing ones.
    pub fn split(&self, name: &str) -> Result<Self> {
        let of = |run: &SampleRun| self.shards.get(run.shard as usize).and_then(|shard| shard.split.as_deref());
        let runs: Vec<SampleRun> = self.runs.iter().filter(|run| of(run) == Some(name)).copied().collect();
        if runs.is_empty() {
            let known = self.splits();
            let message = match known.is_empty() {
                true => format!("has no split {name}: it has no splits at all"),
                false => format!("has no split {name}; there are {}", known.join(", ")),
            };
            return Err(Error::config(message));
        }
        self.with_runs(runs)
    }

    /// Concatenates datasets. Fields that only some of them have become optional. Parts of one sealed dataset with the same fields are
    /// a part of it too.
    ///
    /// Errors (kind `Config`): no datasets; a field with different types.
    pub fn concat(datasets: &[Dataset]) -> Result<Self> {
        let first = datasets.first().ok_or_else(|| Error::config("give at least one dataset to concatenate"))?;
        let kinds = |dataset: &Dataset| dataset.shards.first().map(|shard| shard.is_table());
        if datasets.iter().any(|dataset| kinds(dataset) != kinds(first)) {
            let message = "datasets of bytes (tars) and of typed rows (HDF5, Parquet, …) can't be put together; pack one of them again";
            return Err(Error::unsupported(message));
        }
        if datasets.iter().any(|dataset| !dataset.joined.is_empty()) {
            let message = "a view with columns of its own can't be put together with others; pack it first";
            return Err(Error::unsupported(message));
        }
        let is_of_first = |dataset: &Dataset| {
            let bases = dataset.base.as_ref().zip(first.base.as_ref());
            bases.is_some_and(|(a, b)| a.is_same(b)) && dataset.schema == first.schema
        };
        if datasets.iter().all(is_of_first) {
            return first.with_runs(datasets.iter().flat_map(|dataset| dataset.runs.iter().copied()).collect());
        }
        let (mut shards, mut runs) = (Vec::new(), Vec::new());
        for dataset in datasets {
            let before = u32::try_from(shards.len()).unwrap_or(u32::MAX);
            shards.extend(dataset.shards.iter().cloned());
            runs.extend(dataset.runs.iter().map(|run| SampleRun { shard: before.saturating_add(run.shard), ..*run }));
        }
        let names = datasets.iter().map(|dataset| dataset.shards.first().map_or("", |shard| shard.name.as_str()));
        let schema = union(names.zip(datasets.iter().map(|dataset| &dataset.schema)))?;
        let classes = classes_of(datasets)?;
        Self { shards: shards.into(), schema, classes, base: None, ..first.clone() }.with_runs(runs)
    }
}

/// The class list of all datasets. Of a list that goes on where another one ends, as after appending classes, the longer one.
fn classes_of(datasets: &[Dataset]) -> Result<Arc<[String]>> {
    let lists = datasets.iter().map(|dataset| &dataset.classes).filter(|list| !list.is_empty());
    let longest = lists.clone().max_by_key(|list| list.len()).map(Arc::clone).unwrap_or_else(|| [].into());
    match lists.clone().find(|list| !longest.starts_with(list)) {
        Some(other) => Err(Error::config(format!(
            "these datasets have different class lists ({} and {}), so one number would name two classes; pack them with the same \
             list (`classes`)",
            packhorse_core::some_of(&longest.iter().map(String::as_str).collect::<Vec<_>>()),
            packhorse_core::some_of(&other.iter().map(String::as_str).collect::<Vec<_>>()),
        ))),
        None => Ok(longest),
    }
}

/// All samples of shards.
fn runs_of(shards: &[Arc<Shard>]) -> Result<Vec<SampleRun>> {
    let run = |(number, shard): (usize, &Arc<Shard>)| {
        let number = u32::try_from(number).map_err(|_| Error::unsupported("2^32 shards and more can't be numbered"))?;
        Ok(SampleRun { shard: number, first: 0, len: shard.samples })
    };
    shards.iter().enumerate().map(run).collect()
}

/// The error of a field that a dataset of this schema does not have.
pub(crate) fn no_field(name: &str, schema: &Schema) -> Error {
    let known: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    let error = Error::config(format!("the dataset has no field {name}")).with_code(Code::NoSuchField);
    if name == KEY {
        return error.hint("keys are not fields: batches have them as `keys`, and views take a list of them (`keys`)");
    }
    // Shards of WebDataset hold the array `y` as `y.npy`.
    let stored = known.iter().find(|known| known.strip_prefix(name).is_some_and(|end| end.starts_with('.')));
    let error = match stored.copied().or_else(|| nearest(name, known.iter().copied())) {
        Some(meant) => error.hint(format!("did you mean {meant}?")),
        None => error,
    };
    error.hint(format!("it has: {}", some_of(&known)))
}

/// More fields of bytes than this are probably parts of keys with dots.
const MOST_FIELDS: usize = 4096;

/// The names of the classes that the numbers of a field stand for.
fn classes(field: &Field) -> Option<Vec<String>> {
    class_names(field.metadata().get(HUGGINGFACE))
}

/// What the values of a field mean beyond their type: the unit of ticks, whether these are times of day or moments of a zone (in UTC,
/// whatever the zone is), and how numbers are packed.
pub(crate) fn meaning(field: &Field) -> (Option<&str>, bool, bool, Option<&String>) {
    let unit = numpy_type(field).filter(|name| !name.starts_with("<U"));
    let logical = field.metadata().get(LOGICAL).map_or("", String::as_str);
    let of_day = logical.starts_with("time32") || logical.starts_with("time64");
    (unit, of_day, logical.contains("tz="), field.metadata().get(PACKED))
}

/// What to do about fields whose types differ.
fn remedy(one: &Field, other: &Field) -> &'static str {
    use FieldType::{Ragged, Tensor};
    match (FieldType::of(one), FieldType::of(other)) {
        // Numbers of other types would not help.
        (
            Ok(Tensor { element: a, .. } | Ragged { element: a, .. }),
            Ok(Tensor { element: b, .. } | Ragged { element: b, .. }),
        ) if a == b => "open them apart, or pack them with `ragged`",
        (Ok(a), Ok(b)) if a.element() == b.element() || a.holds_blobs() || b.holds_blobs() => "open them apart",
        _ => "open them apart, or pack them with `cast`",
    }
}

/// The type of a field, as files say it where they say more.
pub(crate) fn shown(field: &Field) -> String {
    match (field.metadata().get(LOGICAL), numpy_type(field)) {
        (Some(logical), _) => logical.clone(),
        (None, Some(numpy)) => format!("{} ({numpy})", field.data_type()),
        (None, None) => FieldType::of(field).map_or_else(|_| field.data_type().to_string(), |kind| kind.to_string()),
    }
}

/// All fields of these schemas, sorted by name; those that some schemas lack are nullable.
pub(crate) fn union<'s>(schemas: impl Iterator<Item = (&'s str, &'s SchemaRef)>) -> Result<SchemaRef> {
    let (mut fields, mut all): (BTreeMap<String, (Field, usize, &str)>, usize) = (BTreeMap::new(), 0);
    for (name, schema) in schemas {
        all += 1;
        for field in schema.fields().iter().filter(|field| field.name() != KEY) {
            let new = || (Field::clone(field), 0, name);
            let (known, count, first) = fields.entry(field.name().clone()).or_insert_with(new);
            *count += 1;
            if known.data_type() != field.data_type() || meaning(known) != meaning(field) {
                let (a, b) = (shown(known), shown(field));
                let message = match a == b {
                    true => {
                        format!("field {} has other units, scales or fill values here than in {first}", field.name())
                    }
                    false => format!("field {} is {b} here and {a} in {first}", field.name()),
                };
                let error = Error::config(message).with_code(Code::ColumnsDiffer).in_input(name).in_field(field.name());
                return Err(error.hint(remedy(known, field)));
            }
            match (classes(field), classes(known)) {
                (Some(here), Some(there)) if there.starts_with(&here) => {}
                // A list that goes on, as after appending classes.
                (Some(here), Some(there)) if here.starts_with(&there) => known.set_metadata(field.metadata().clone()),
                (Some(_), Some(_)) => {
                    let message = format!("field {} has other classes here than in {first}", field.name());
                    let error = Error::config(message + ": one number would name two").with_code(Code::ColumnsDiffer);
                    return Err(error.in_input(name).in_field(field.name()).hint("open them apart"));
                }
                (None, None) => {}
                _ => drop(known.metadata_mut().remove(HUGGINGFACE)),
            }
            if field.metadata().contains_key(RAGGED) {
                known.metadata_mut().insert(RAGGED.to_owned(), "true".to_owned());
            }
            let nullable = known.is_nullable() || field.is_nullable();
            known.set_nullable(nullable);
        }
        // Tables may be wide, and so may the schema of one dataset; these are members of archives.
        let is_blob =
            |(field, ..): &(Field, usize, &str)| FieldType::of(field).is_ok_and(|kind| kind == FieldType::Blob);
        if all > 1 && fields.len() > MOST_FIELDS && fields.values().all(is_blob) {
            let message = format!("samples have over {MOST_FIELDS} different fields: are there dots in their names?");
            return Err(Error::unsupported(message).in_input(name));
        }
    }
    let field = |(mut field, count, _): (Field, usize, &str)| {
        let nullable = field.is_nullable() || count < all;
        field.set_nullable(nullable);
        field
    };
    Ok(Arc::new(Schema::new(fields.into_values().map(field).collect::<Vec<_>>())))
}

impl std::fmt::Debug for Dataset {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (shards, samples) = (self.shards.len(), self.len());
        f.debug_struct("Dataset").field("shards", &shards).field("samples", &samples).finish_non_exhaustive()
    }
}
