//! What scan found: samples in order, in about 100 bytes each.

use super::walk::{Batch, FoundFile, FoundMember, HIDDEN, NO_FIELD};
use crate::{Metadata, Policy};
use packhorse_core::{Error, Event, FileStat, MemberName, NameFault, Observer, Result, folder_key, split_base};
use packhorse_dataset::{Entry, PathText, Piece, SkipRecord};
use rayon::prelude::*;
use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Inputs grouped into samples, sorted by key; the fields of a sample by name.
///
/// Keys sort by folder first, then by name within the folder.
#[derive(Debug, Default)]
pub struct Listing {
    roots: Vec<PathBuf>,
    places: Vec<Place>,
    arena: Vec<u8>,
    pieces: Vec<PieceRef>,
    /// The first piece of each sample.
    starts: Vec<u32>,
    /// The label of each sample; empty without labels.
    pub(super) labels: Vec<u32>,
    pub(super) classes: Vec<String>,
    /// The metadata row of each sample, a range of `json`; empty without metadata.
    rows: Vec<(u64, u32)>,
    json: String,
    faults: Vec<Error>,
    left_out: Vec<SkipRecord>,
    ignored: BTreeMap<&'static str, (u64, PathBuf)>,
}

/// A folder that holds files, or an archive with a folder in it that holds members.
#[derive(Debug)]
struct Place {
    root: u32,
    path: Vec<u8>,
    folder_key: String,
    archive: Option<(u64, i64)>,
    /// Its position among all folder keys; equal keys have equal ranks.
    rank: u32,
}

/// One field of one sample. Its stem, field and (where it differs) raw name lie in the arena.
#[derive(Clone, Copy, Debug)]
struct PieceRef {
    name_at: u64,
    /// A file: its length. A member: its offset.
    a: u64,
    /// A file: its time. A member: its length.
    b: i64,
    place: u32,
    stem_len: u16,
    field_len: u16,
    raw_len: u16,
}

impl Listing {
    /// How many samples.
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

    /// Brings faults, which come in as threads find them, into the order of inputs.
    pub(super) fn sort_faults(&mut self) {
        self.faults.sort_by(|a, b| {
            let key = |e: &Error| (e.input().map(str::to_owned), e.sample().map(str::to_owned), e.message().to_owned());
            key(a).cmp(&key(b))
        });
    }

    pub(crate) fn add_fault(&mut self, error: Error) {
        self.faults.push(error);
    }

    pub(super) fn leave_out(&mut self, record: SkipRecord) {
        self.left_out.push(record);
    }

    /// What was left out and why, in a fixed order.
    pub fn skipped(&self) -> Vec<SkipRecord> {
        let mut records: Vec<_> =
            self.faults.iter().map(|e| self.relative(e)).chain(self.left_out.iter().cloned()).collect();
        records.sort_by(|a, b| {
            let key = |r: &SkipRecord| (r.input.as_ref().map(PathText::to_bytes), r.sample.clone(), r.reason.clone());
            key(a).cmp(&key(b))
        });
        records
    }

    /// Records must not say where the roots lie: they are part of the plan's digest.
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

    /// A sentence about what was passed over.
    pub fn ignored(&self) -> String {
        if self.ignored.is_empty() {
            return "there is no file in it".to_owned();
        }
        let parts: Vec<_> =
            self.ignored.iter().map(|(why, (n, first))| format!("{n} {why} (such as {})", first.display())).collect();
        format!("passed over: {}", parts.join(", "))
    }

    pub(super) fn report(&self, observer: &dyn Observer) {
        for (why, (n, first)) in self.ignored.iter().filter(|(why, _)| **why != HIDDEN) {
            observer
                .event(&Event::Warning(&format!("passed over {n} inputs that are {why}, such as {}", first.display())));
        }
        let empty = self.pieces.iter().filter(|p| self.len_of(p) == 0).count();
        if empty > 0 {
            observer.event(&Event::Warning(&format!("{empty} inputs are empty; they are packed as empty fields")));
        }
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

    /// The order of samples and of fields in a sample; equal only for one field found twice.
    fn order(&self, a: &PieceRef, b: &PieceRef) -> Ordering {
        let rank = |p: &PieceRef| self.places.get(p.place as usize).map(|place| place.rank);
        rank(a)
            .cmp(&rank(b))
            .then_with(|| self.stem(a).cmp(self.stem(b)))
            .then_with(|| self.field(a).cmp(self.field(b)))
    }

    /// Which of two equal fields comes first: by root, path and place in the archive.
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

    fn same_sample(&self, a: &PieceRef, b: &PieceRef) -> bool {
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
        self.rows = self.rows.iter().enumerate().filter(|(i, _)| kept(i)).map(|(_, r)| *r).collect();
        (self.pieces, self.starts) = (pieces, starts);
    }

    /// Gives each sample the row of its key, or else of the last part of its key. A sample without a
    /// row is bad input. Rows without a sample are a warning.
    pub fn attach_metadata(&mut self, metadata: &Metadata, policy: Policy, observer: &dyn Observer) -> Result<()> {
        let (mut rows, mut json, mut faults) = (Vec::with_capacity(self.samples()), String::new(), Vec::new());
        for sample in self.iter() {
            let key = sample.key();
            let base = key.rsplit('/').next().unwrap_or_default();
            let row = metadata.get(&key).or_else(|| metadata.get(base)).unwrap_or_else(|| {
                let fault = Error::content("has no row in the metadata");
                faults.push(fault.in_input(sample.first_path().display()).in_sample(&key));
                ""
            });
            rows.push((json.len() as u64, row.len() as u32));
            json.push_str(row);
        }
        (self.rows, self.json) = (rows, json);
        if let (Policy::Fail, Some(first)) = (policy, faults.first()) {
            let message = format!(
                "{} ({} samples have none; pass --on-error skip to leave them out)",
                first.message(),
                faults.len()
            );
            return Err(first.sample().into_iter().fold(Error::content(message), Error::in_sample));
        }
        let keep: Vec<bool> = self.rows.iter().map(|(_, len)| *len > 0).collect();
        self.retain(&keep);
        faults.iter().for_each(|fault| observer.event(&Event::Skipped(fault)));
        self.faults.extend(faults);
        if let (n, Some(first)) = metadata.unused() {
            observer.event(&Event::Warning(&format!(
                "{n} rows of the metadata belong to no sample, such as that of {first}"
            )));
        }
        Ok(())
    }
}

/// One sample of a listing.
#[derive(Clone, Copy)]
pub struct SampleRef<'a> {
    listing: &'a Listing,
    index: usize,
    pieces: &'a [PieceRef],
}

impl<'a> SampleRef<'a> {
    /// Its key.
    pub fn key(&self) -> String {
        let Some(first) = self.pieces.first() else { return String::new() };
        let folder = self.listing.places.get(first.place as usize).map_or("", |p| p.folder_key.as_str());
        format!("{folder}{}", String::from_utf8_lossy(self.listing.stem(first)))
    }

    /// Name and length of each field that comes from an input.
    pub fn fields(&self) -> impl Iterator<Item = (&'a str, u64)> + use<'a> {
        let listing = self.listing;
        self.pieces.iter().map(|p| (std::str::from_utf8(listing.field(p)).unwrap_or_default(), listing.len_of(p)))
    }

    /// Bytes of input.
    pub fn bytes(&self) -> u64 {
        self.pieces.iter().map(|p| self.listing.len_of(p)).sum()
    }

    /// Its label.
    pub fn label(&self) -> Option<u32> {
        self.listing.labels.get(self.index).copied()
    }

    /// Its metadata row, a JSON object.
    pub fn row(&self) -> Option<&'a str> {
        let (at, len) = *self.listing.rows.get(self.index)?;
        self.listing.json.get(at as usize..at as usize + len as usize)
    }

    /// The folder part of its key, without the last `/`.
    pub(super) fn folder(&self) -> &'a str {
        let place = self.pieces.first().and_then(|p| self.listing.places.get(p.place as usize));
        place.map_or("", |p| p.folder_key.trim_end_matches('/'))
    }

    pub(crate) fn first_path(&self) -> PathBuf {
        self.pieces.first().map(|p| self.listing.full_path(p)).unwrap_or_default()
    }

    /// What the plan says of it.
    pub fn entry(&self) -> Entry {
        let piece = |p: &PieceRef| {
            let place = self.listing.places.get(p.place as usize);
            let (size, mtime, extent) = match place.and_then(|place| place.archive) {
                None => (p.a, p.b, None),
                Some((size, mtime)) => (size, mtime, Some((p.a, p.b as u64))),
            };
            let field = String::from_utf8_lossy(self.listing.field(p)).into_owned();
            let path = PathText::new(&self.listing.path(p));
            Piece { field, root: place.map_or(0, |place| place.root), path, size, mtime, extent }
        };
        let json = self.row().and_then(|text| serde_json::value::RawValue::from_string(text.to_owned()).ok());
        Entry { key: self.key(), cls: self.label(), json, pieces: self.pieces.iter().map(piece).collect() }
    }
}

/// From so many pieces on, sorting on all cores pays.
const PARALLEL_SORT: usize = 1 << 16;

/// Puts a listing together from what the walk hands over, in any order.
#[derive(Default)]
pub(super) struct Builder {
    listing: Listing,
    known: HashMap<(u32, Vec<u8>, String), u32>,
}

impl Builder {
    /// The number of the root `path`.
    pub(super) fn root(&mut self, path: &Path) -> u32 {
        if let Some(i) = self.listing.roots.iter().position(|r| r == path) {
            return i as u32;
        }
        self.listing.roots.push(path.to_owned());
        (self.listing.roots.len() - 1) as u32
    }

    pub(super) fn take(&mut self, batch: Batch) -> Result<()> {
        match batch {
            Batch::Files { root, folder, files } => self.files(root, &folder, &files),
            Batch::Members { root, archive, stat, members } => self.members(root, &archive, &stat, &members),
            Batch::Fault(error) => self.listing.faults.push(error),
            Batch::Ignored(why, path) => self.ignore(why, path),
            Batch::Abort(error) => return Err(error),
        }
        match u32::try_from(self.listing.pieces.len()) {
            Ok(n) if n < u32::MAX => Ok(()),
            _ => Err(Error::new(packhorse_core::Kind::Limit, "more than 4 billion inputs; make several datasets")),
        }
    }

    /// Counts an input that is passed over; the example is the first in the order of names.
    fn ignore(&mut self, why: &'static str, path: PathBuf) {
        let (n, first) = self.listing.ignored.entry(why).or_insert_with(|| (0, path.clone()));
        *n += 1;
        if path < *first {
            *first = path;
        }
    }

    fn files(&mut self, root: u32, folder: &Path, files: &[FoundFile]) {
        let mut path = folder.as_os_str().as_bytes().to_vec();
        let Ok(key) = folder_key(&path) else { return };
        if !path.is_empty() {
            path.push(b'/');
        }
        let place = self.place(root, path, key, None);
        for file in files {
            match split_base(&file.name) {
                Ok(name) => self.push(place, &name, &file.name, (file.size, file.mtime)),
                Err(fault) => self.ignore(reason(fault), folder.join(std::ffi::OsStr::from_bytes(&file.name))),
            }
        }
    }

    fn members(&mut self, root: u32, archive: &Path, stat: &FileStat, members: &[FoundMember]) {
        let mut last: Option<(&[u8], u32)> = None;
        for member in members {
            let base = member.name.iter().rposition(|b| *b == b'/').map_or(0, |slash| slash + 1);
            let (folder, base) = member.name.split_at(base);
            let inside = || archive.join(std::ffi::OsStr::from_bytes(&member.name));
            let (key, name) = match (folder_key(folder), split_base(base)) {
                (Ok(key), Ok(name)) => (key, name),
                (Err(fault), _) | (_, Err(fault)) => {
                    self.ignore(reason(fault), inside());
                    continue;
                }
            };
            let place = match last {
                Some((same, place)) if same == folder => place,
                _ => self.place(root, archive.as_os_str().as_bytes().to_vec(), key, Some((stat.size, stat.mtime))),
            };
            last = Some((folder, place));
            self.push(place, &name, b"", (member.offset, member.len as i64));
        }
    }

    fn place(&mut self, root: u32, path: Vec<u8>, folder_key: String, archive: Option<(u64, i64)>) -> u32 {
        let next = self.listing.places.len() as u32;
        let number = *self.known.entry((root, path.clone(), folder_key.clone())).or_insert(next);
        if number == next {
            self.listing.places.push(Place { root, path, folder_key, archive, rank: 0 });
        }
        number
    }

    fn push(&mut self, place: u32, name: &MemberName, raw: &[u8], (a, b): (u64, i64)) {
        let (mut stem, field) = (Cow::Borrowed(name.key.as_str()), name.field.as_str());
        // Here, so that two names which this makes one are found.
        if stem.starts_with("__") && self.listing.places.get(place as usize).is_some_and(|p| p.folder_key.is_empty()) {
            stem.to_mut().replace_range(..1, "%5F");
        }
        let canonical = raw.is_empty()
            || raw.strip_prefix(stem.as_bytes()).and_then(|r| r.strip_prefix(b".")) == Some(field.as_bytes());
        let raw = if canonical { b"" } else { raw };
        let lens = (u16::try_from(stem.len()), u16::try_from(field.len()), u16::try_from(raw.len()));
        let (Ok(stem_len), Ok(field_len), Ok(raw_len)) = lens else {
            let start: String = stem.chars().take(40).collect();
            return self
                .listing
                .faults
                .push(Error::content(format!("a name of over 65,535 bytes ({start}…) can't be packed")));
        };
        let arena = &mut self.listing.arena;
        let name_at = arena.len() as u64;
        [stem.as_bytes(), field.as_bytes(), raw].iter().for_each(|part| arena.extend_from_slice(part));
        self.listing.pieces.push(PieceRef { name_at, a, b, place, stem_len, field_len, raw_len });
    }

    /// Sorts and groups.
    pub(super) fn finish(mut self) -> Listing {
        drop(self.known);
        rank(&mut self.listing.places);
        let mut pieces = std::mem::take(&mut self.listing.pieces);
        let listing = &self.listing;
        let order =
            |a: &PieceRef, b: &PieceRef| listing.order(a, b).then_with(|| listing.origin(a).cmp(&listing.origin(b)));
        // No two pieces are equal in this order: it comes out the same either way.
        match pieces.len() < PARALLEL_SORT {
            true => pieces.sort_unstable_by(order),
            false => pieces.par_sort_unstable_by(order),
        }
        group(&mut self.listing, pieces);
        self.listing
    }
}

fn reason(fault: NameFault) -> &'static str {
    match fault {
        NameFault::Hidden => HIDDEN,
        NameFault::NoField => NO_FIELD,
    }
}

fn rank(places: &mut [Place]) {
    let mut order: Vec<usize> = (0..places.len()).collect();
    let key = |places: &[Place], i: usize| places.get(i).map(|p| p.folder_key.clone()).unwrap_or_default();
    order.sort_by_cached_key(|i| key(places, *i));
    let (mut rank, mut last) = (0, None);
    for i in order {
        let now = key(places, i);
        rank += u32::from(last.as_ref().is_some_and(|last| *last != now));
        if let Some(place) = places.get_mut(i) {
            place.rank = rank;
        }
        last = Some(now);
    }
}

/// Finds where samples start, and takes out fields that are there twice.
fn group(listing: &mut Listing, sorted: Vec<PieceRef>) {
    let mut pieces: Vec<PieceRef> = Vec::with_capacity(sorted.len());
    let mut starts = Vec::new();
    let mut faults = Vec::new();
    for piece in sorted {
        match pieces.last() {
            Some(last) if listing.order(last, &piece) == Ordering::Equal => faults.push(twice(listing, last, &piece)),
            last => {
                if !last.is_some_and(|last| listing.same_sample(last, &piece)) {
                    starts.push(pieces.len() as u32);
                }
                pieces.push(piece);
            }
        }
    }
    (listing.pieces, listing.starts) = (pieces, starts);
    listing.faults.extend(faults);
}

fn twice(listing: &Listing, first: &PieceRef, second: &PieceRef) -> Error {
    let field = String::from_utf8_lossy(listing.field(first)).into_owned();
    let kept = PathBuf::from(std::ffi::OsString::from_vec(listing.path(first)));
    let key = listing.places.get(first.place as usize).map_or("", |p| p.folder_key.as_str());
    Error::content(format!("the sample has its field {field} already from {}; rename one of them", kept.display()))
        .in_input(listing.full_path(second).display())
        .in_sample(format!("{key}{}", String::from_utf8_lossy(listing.stem(first))))
}
