//! The result of a scan: samples in order, about 100 bytes each.

mod aligned_arrays;
mod clashes;
mod dataset_cards;
mod decoded;
mod folder_layouts;
pub(super) mod like_groups;
mod listing_builder;
mod member_notes;
mod merged_pictures;
mod metadata_rows;
mod natural_order;
mod nested_datasets;
mod omitted;
pub(super) mod same_names;
mod sample;
mod spilled;
mod walk_event;

pub(super) use clashes::named_twice;
pub(crate) use decoded::Decoded;
pub(super) use listing_builder::{ListingBuilder, without_extension};
pub use sample::SampleRef;
pub(crate) use spilled::{Found, KeptSamples, SpillOptions, Spilled};
use walk_event::NO_FIELD;
pub(super) use walk_event::{FoundFile, FoundMember, HIDDEN, WalkEvent};

use super::sealed::SealedInput;
use crate::{KeyEnds, OnError};
use omitted::Omitted;
use packhorse_core::{Error, Event, Field, KEY, Observer, Omission, Result, SchemaRef};
use packhorse_dataset::{OmissionRecord, PathText, PlannedView, SkipRecord};
use packhorse_storage::Frames;
use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Inputs grouped into samples, sorted by key; the fields of a sample by name.
///
/// Keys sort by folder first, then by name within the folder.
#[derive(Debug, Default)]
pub struct Listing {
    /// How names were split.
    key_ends: KeyEnds,
    /// Whether documents have keys of the name of their file and their place in it alone.
    documents_are_places: bool,
    roots: Vec<PathBuf>,
    places: Vec<SourceFolder>,
    tables: Vec<TableInput>,
    /// The encoded fields that become columns, by name.
    pub(in crate::scan) decoded: BTreeMap<String, Decoded>,
    /// The columns that encoded fields decode to, each once for a part of the scan.
    probed: Vec<Arc<[Field]>>,
    /// The number of inputs that were found, with those that no sample takes.
    inputs: u64,
    arena: Vec<u8>,
    pieces: Vec<PieceRef>,
    /// The first piece of each sample.
    starts: Vec<u32>,
    /// The label of each sample; empty without labels.
    pub(super) labels: Vec<u32>,
    /// The position of each sample's list of splits; empty without lists.
    pub(super) splits: Vec<u16>,
    pub(super) classes: Vec<String>,
    /// The metadata row of each sample, a range of `json`; empty without metadata.
    rows: Vec<(u64, u32)>,
    json: String,
    faults: Vec<Error>,
    left_out: Vec<SkipRecord>,
    ignored: BTreeMap<Cow<'static, str>, (u64, PathBuf)>,
    omitted: Omitted,
    /// The sealed datasets that inputs are shards of, in the order of roots and folders.
    sealed: Vec<SealedInput>,
}

/// A folder that holds files, or an archive with a folder in it that holds members.
#[derive(Debug)]
struct SourceFolder {
    root: u32,
    path: Vec<u8>,
    folder_key: String,
    archive: Option<(u64, i64)>,
    /// Its table, a position in the listing's tables.
    table: Option<u32>,
    /// Its position among all folder keys; equal keys have equal ranks.
    rank: u32,
    /// Its sealed dataset, and its shard in that, as positions.
    shard: Option<(u32, u32)>,
}

/// A table input. All its samples are one entry of the listing.
#[derive(Debug)]
pub(crate) struct TableInput {
    /// The name of its format.
    pub(crate) format: &'static str,
    /// The columns of its samples.
    pub(crate) schema: SchemaRef,
    /// The number of items: samples, or positions.
    pub(crate) items: u64,
    /// About the bytes of all items.
    pub(crate) bytes: u64,
    /// The kind of its items.
    pub(crate) kind: Items,
    /// The seek points of compressed text that is divided by positions.
    pub(crate) frames: Option<Frames>,
    /// Fields of the input that its samples lack.
    pub(crate) omitted: Vec<Omission>,
}

/// The kind of a table input's items.
#[derive(Debug)]
pub(crate) enum Items {
    /// Samples.
    Samples,
    /// Positions (bytes of text), in a range of which any number of samples starts.
    Positions,
    /// Samples that start at known positions.
    Counted {
        /// The position of each sample's start, ascending.
        starts: Vec<u64>,
        /// The number of positions.
        places: u64,
    },
}

/// One field of one sample. Its stem, field and (where it differs) raw name lie in the arena.
#[derive(Clone, Copy, Debug)]
struct PieceRef {
    name_at: u64,
    /// A file: its length. A member: its offset. A table: 0.
    a: u64,
    /// A file: its modification time. A member: its length. A table: about the bytes of its rows.
    b: i64,
    place: u32,
    /// The number of its columns among those that were looked at, from 1; 0 if it was not.
    probed: u32,
    stem_len: u16,
    field_len: u16,
    raw_len: u16,
}

impl Listing {
    /// The number of entries: samples whose fields are bytes, and table inputs.
    pub fn samples(&self) -> usize {
        self.starts.len()
    }

    /// Sample `i`, or `None` past the end.
    pub fn sample(&self, i: usize) -> Option<SampleRef<'_>> {
        let from = *self.starts.get(i)? as usize;
        let to = self.starts.get(i + 1).map_or(self.pieces.len(), |to| *to as usize);
        Some(SampleRef { listing: self, index: i, pieces: self.pieces.get(from..to)? })
    }

    /// All samples, in order.
    pub fn iter(&self) -> impl Iterator<Item = SampleRef<'_>> {
        (0..self.samples()).filter_map(|i| self.sample(i))
    }

    /// The number of inputs that were found, with those that no sample takes.
    pub(crate) fn inputs(&self) -> u64 {
        self.inputs
    }

    /// The table inputs, in no particular order.
    pub(crate) fn tables(&self) -> &[TableInput] {
        &self.tables
    }

    /// The encoded fields that become columns, by name.
    pub(crate) fn decoded(&self) -> &BTreeMap<String, Decoded> {
        &self.decoded
    }

    /// The sealed datasets that inputs are shards of.
    pub(crate) fn sealed(&self) -> &[SealedInput] {
        &self.sealed
    }

    /// Marks the shards of sealed datasets, and takes over their records of skipped samples.
    fn find_shards(&mut self) {
        self.sealed.sort_by(|a, b| (a.root, &a.folder).cmp(&(b.root, &b.folder)));
        // Two roots, or two threads, may find the same dataset.
        self.sealed.dedup_by(|a, b| (a.root, &a.folder) == (b.root, &b.folder));
        let mut shards = HashMap::new();
        for (i, sealed) in self.sealed.iter().enumerate() {
            let paths = sealed.paths().enumerate();
            shards.extend(paths.map(|(n, path)| ((sealed.root, path.into_os_string()), (i as u32, n as u32))));
        }
        for place in self.places.iter_mut().filter(|place| place.archive.is_some() && !shards.is_empty()) {
            place.shard = shards.get(&(place.root, OsString::from_vec(place.path.clone()))).copied();
        }
        self.sealed.iter_mut().filter_map(|sealed| sealed.chosen.as_mut()).for_each(|all| all.places.sort_unstable());
        let skipped = self.sealed.iter_mut().flat_map(|sealed| std::mem::take(&mut sealed.skipped));
        self.left_out.extend(skipped);
    }

    /// The views that have other fields than their datasets. Fields of members are chosen already.
    pub(crate) fn views(&self) -> Vec<PlannedView> {
        let of_view = |sealed: &SealedInput| {
            let chosen = sealed.chosen.as_ref()?;
            let tables = self.places.iter().any(|place| place.root == sealed.root && place.table.is_some());
            let fields = chosen.fields.clone().filter(|_| tables);
            let (folder, joined) = chosen.joined.clone().unzip();
            let differs = fields.is_some() || joined.is_some();
            differs.then_some(PlannedView { root: sealed.root, folder, fields, joined })
        };
        self.sealed.iter().filter_map(of_view).collect()
    }

    /// Where relative paths start.
    pub fn roots(&self) -> &[PathBuf] {
        &self.roots
    }

    /// The class list; empty without labels.
    pub fn classes(&self) -> &[String] {
        &self.classes
    }

    /// Whether samples have metadata rows.
    pub fn has_metadata(&self) -> bool {
        !self.rows.is_empty()
    }

    /// Bad inputs.
    pub(crate) fn faults(&self) -> &[Error] {
        &self.faults
    }

    /// Sorts faults by input: threads report them in any order.
    pub(crate) fn sort_faults(&mut self) {
        self.faults.sort_by(|a, b| {
            let key = |e: &Error| (e.input().map(str::to_owned), e.sample().map(str::to_owned), e.message().to_owned());
            key(a).cmp(&key(b))
        });
    }

    pub(crate) fn faults_mut(&mut self) -> &mut Vec<Error> {
        &mut self.faults
    }

    pub(crate) fn add_fault(&mut self, error: Error) {
        self.faults.push(error);
    }

    pub(super) fn leave_out(&mut self, record: SkipRecord) {
        self.left_out.push(record);
    }

    /// The skipped samples and inputs with their reasons, in a fixed order.
    pub fn skipped(&self) -> Vec<SkipRecord> {
        let mut records: Vec<_> =
            self.faults.iter().map(|e| self.relative(e)).chain(self.left_out.iter().cloned()).collect();
        records.sort_by(|a, b| {
            let key = |r: &SkipRecord| (r.input.as_ref().map(PathText::to_bytes), r.sample.clone(), r.reason.clone());
            key(a).cmp(&key(b))
        });
        records
    }

    /// Records must not contain the paths of roots: they are part of the plan's digest.
    fn relative(&self, error: &Error) -> SkipRecord {
        let mut record = SkipRecord::of(error);
        let inside = |input: &str| {
            self.roots
                .iter()
                .find_map(|root| Path::new(input).strip_prefix(root).ok().map(|p| PathText::from(p.as_os_str())))
        };
        if let Some(path) = error.input().and_then(inside) {
            record.input = Some(path);
        }
        record
    }

    /// A sentence about the ignored inputs.
    pub fn ignored(&self) -> String {
        if self.ignored.is_empty() {
            let skipped = packhorse_core::counted(self.faults.len() as u64, "input");
            return match self.faults.first() {
                None => "there is no file in it".to_owned(),
                Some(fault) => format!("{skipped} skipped, the first one because of this: {fault}"),
            };
        }
        let parts: Vec<_> =
            self.ignored.iter().map(|(why, (n, first))| format!("{n} {why} (such as {})", first.display())).collect();
        format!("passed over: {}", parts.join(", "))
    }

    /// Whether inputs without an extension were ignored.
    pub(crate) fn has_nameless(&self) -> bool {
        self.ignored.contains_key(NO_FIELD)
    }

    pub(crate) fn report(&self, observer: &dyn Observer) {
        for (why, (n, first)) in self.ignored.iter().filter(|(why, _)| *why != HIDDEN) {
            let first = first.display();
            let text = match n {
                1 => format!("passed over {first}, which is {why}"),
                n => format!("passed over {n} inputs that are {why}, such as {first}"),
            };
            observer.event(&Event::Warning(&text));
        }
        nested_datasets::warnings(self).iter().for_each(|text| observer.event(&Event::Warning(text)));
        self.omitted.of_all(&self.tables).report(observer);
        let of_samples = [self.merged_pictures(), same_names::warning(self), self.folder_layout()];
        let warnings = of_samples.into_iter().chain([aligned_arrays::warning(self)]);
        warnings.flatten().for_each(|warning| observer.event(&Event::Warning(&warning)));
        let mut odd = OddInputs::default();
        odd.add(self);
        odd.report(observer);
    }

    /// A warning of folders that seem to be samples or fields.
    fn folder_layout(&self) -> Option<String> {
        let is_default = self.key_ends.is_default();
        is_default.then(|| folder_layouts::of_samples(self).or_else(|| folder_layouts::of_fields(self))).flatten()
    }

    /// A warning of samples that hold several pictures by their names.
    pub(crate) fn merged_pictures(&self) -> Option<String> {
        self.key_ends.is_default().then(|| merged_pictures::warning(self)).flatten()
    }

    /// The omitted fields of the inputs.
    pub(crate) fn omitted(&self) -> Vec<OmissionRecord> {
        self.omitted.of_all(&self.tables).records()
    }

    fn len_of(&self, piece: &PieceRef) -> u64 {
        match self.places.get(piece.place as usize).and_then(|p| p.archive) {
            None => piece.a,
            Some(_) => piece.b as u64,
        }
    }

    fn bytes_at(&self, at: u64, len: u16) -> &[u8] {
        self.arena.get(at as usize..at as usize + usize::from(len)).unwrap_or_default()
    }

    fn stem(&self, piece: &PieceRef) -> &[u8] {
        self.bytes_at(piece.name_at, piece.stem_len)
    }

    fn field(&self, piece: &PieceRef) -> &[u8] {
        self.bytes_at(piece.name_at + u64::from(piece.stem_len), piece.field_len)
    }

    /// The order of samples, and of fields in a sample; equal only for duplicate fields.
    fn order(&self, a: &PieceRef, b: &PieceRef) -> Ordering {
        let rank = |p: &PieceRef| self.places.get(p.place as usize).map(|place| place.rank);
        rank(a)
            .cmp(&rank(b))
            .then_with(|| self.stem(a).cmp(self.stem(b)))
            .then_with(|| self.field(a).cmp(self.field(b)))
    }

    /// The order of duplicate fields: by root, path and offset in the archive.
    fn origin(&self, piece: &PieceRef) -> (u32, Vec<u8>, u64) {
        let path = self.path(piece);
        self.places
            .get(piece.place as usize)
            .map_or((0, path.clone(), 0), |place| (place.root, path, if place.archive.is_some() { piece.a } else { 0 }))
    }

    fn path(&self, piece: &PieceRef) -> Vec<u8> {
        let Some(place) = self.places.get(piece.place as usize) else { return Vec::new() };
        if place.archive.is_some() {
            return place.path.clone();
        }
        let raw_at = piece.name_at + u64::from(piece.stem_len) + u64::from(piece.field_len);
        match piece.raw_len {
            0 => [&place.path[..], self.stem(piece), b".", self.field(piece)].concat(),
            len => [&place.path[..], self.bytes_at(raw_at, len)].concat(),
        }
    }

    fn full_path(&self, piece: &PieceRef) -> PathBuf {
        let relative = PathBuf::from(std::ffi::OsString::from_vec(self.path(piece)));
        let root = self.places.get(piece.place as usize).and_then(|place| self.roots.get(place.root as usize));
        root.map_or(relative.clone(), |root| root.join(relative))
    }

    fn is_table(&self, piece: &PieceRef) -> bool {
        self.places.get(piece.place as usize).is_some_and(|place| place.table.is_some())
    }

    /// Whether two pieces exclude each other: a duplicate field, or a table with the keys of other samples.
    fn clash(&self, a: &PieceRef, b: &PieceRef) -> bool {
        if self.keys_differ(a, b) {
            return false;
        }
        self.order(a, b) == Ordering::Equal || self.same_sample(a, b) && (self.is_table(a) || self.is_table(b))
    }

    /// Whether a table names its samples itself, or the two name them in different ways.
    fn keys_differ(&self, a: &PieceRef, b: &PieceRef) -> bool {
        let [a, b] = [self.row_keys(a), self.row_keys(b)];
        a == RowKeys::Own || b == RowKeys::Own || a != b
    }

    fn row_keys(&self, piece: &PieceRef) -> RowKeys {
        let table = self.places.get(piece.place as usize).and_then(|place| self.tables.get(place.table? as usize));
        match table.filter(|table| table.schema.field_with_name(KEY).is_ok()) {
            None => RowKeys::Numbers,
            Some(table) if self.documents_are_places && !matches!(table.kind, Items::Samples) => RowKeys::Places,
            Some(_) => RowKeys::Own,
        }
    }

    fn same_sample(&self, a: &PieceRef, b: &PieceRef) -> bool {
        if self.keys_differ(a, b) {
            return false;
        }
        let rank = |p: &PieceRef| self.places.get(p.place as usize).map(|place| place.rank);
        rank(a) == rank(b) && self.stem(a) == self.stem(b)
    }

    /// Keeps the samples for which `keep` is true.
    pub(crate) fn retain(&mut self, keep: &[bool]) {
        let kept = |i: &usize| keep.get(*i).copied().unwrap_or(true);
        let (mut pieces, mut starts) = (Vec::with_capacity(self.pieces.len()), Vec::new());
        for i in (0..self.samples()).filter(kept) {
            starts.push(pieces.len() as u32);
            pieces.extend_from_slice(self.sample(i).map_or(&[], |s| s.pieces));
        }
        self.labels = self.labels.iter().enumerate().filter(|(i, _)| kept(i)).map(|(_, l)| *l).collect();
        self.splits = self.splits.iter().enumerate().filter(|(i, _)| kept(i)).map(|(_, s)| *s).collect();
        self.rows = self.rows.iter().enumerate().filter(|(i, _)| kept(i)).map(|(_, r)| *r).collect();
        (self.pieces, self.starts) = (pieces, starts);
    }

    /// Fails with the first of the faults, if the policy is to fail.
    pub(super) fn refuse_faults(&mut self, on_error: OnError) -> Result<()> {
        if on_error == OnError::Skip || self.faults.is_empty() {
            return Ok(());
        }
        self.sort_faults();
        self.faults.first().map_or(Ok(()), |first| Err(refusal(first, self.faults.len())))
    }
}

/// What follows the name of its file in the key of a table's row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RowKeys {
    /// Its number, if there is one: files have none.
    Numbers,
    /// Its place in the file.
    Places,
    /// Nothing that another file of the same name is sure to have.
    Own,
}

/// Inputs that are packed as they are, though that may not be wanted.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OddInputs {
    zips: u64,
    empty: u64,
}

impl OddInputs {
    /// Counts those of a listing.
    pub(crate) fn add(&mut self, listing: &Listing) {
        for piece in listing.pieces.iter().filter(|piece| !listing.is_table(piece)) {
            self.zips += u64::from(listing.field(piece).eq_ignore_ascii_case(b"zip"));
            self.empty += u64::from(listing.len_of(piece) == 0);
        }
    }

    /// Warns of them.
    pub(crate) fn report(self, observer: &dyn Observer) {
        let Self { zips, empty } = self;
        if zips > 0 {
            let text = format!(
                "zip archives are not opened: each is a field as it is ({zips}); unpack them, or make tars of them"
            );
            observer.event(&Event::Warning(&text));
        }
        match empty {
            0 => {}
            1 => observer.event(&Event::Warning("1 input is empty, and so is the field that it becomes")),
            n => observer
                .event(&Event::Warning(&format!("{n} inputs are empty, and so are the fields that they become"))),
        }
    }
}

/// The first of several faults, which ends a plan.
pub(super) fn refusal(first: &Error, faults: usize) -> Error {
    let more = match faults {
        1 => "this input can't be packed".to_owned(),
        n => format!("{n} inputs can't be packed, this is the first"),
    };
    first.clone().remark(more).hint("pass `on-error=skip` to leave such inputs out")
}
