//! One entry of a listing.

use super::{Items, Listing, PieceRef, TableInput};
use crate::real_path::name_of;
use crate::scan::sealed::SealedInput;
use packhorse_core::Field;
use packhorse_dataset::{FieldSource, PathText, PlanEntry, SeekPoint, ShardRecord};
use std::borrow::Cow;
use std::ops::Range;
use std::path::PathBuf;

/// One entry of a listing: a sample whose fields are bytes, or all samples of a table input.
#[derive(Clone, Copy)]
pub struct SampleRef<'a> {
    pub(super) listing: &'a Listing,
    pub(super) index: usize,
    pub(super) pieces: &'a [PieceRef],
}

impl<'a> SampleRef<'a> {
    /// The number of items: samples, if they are counted, or positions.
    pub fn items(&self) -> u64 {
        self.table().map_or(1, |table| table.items)
    }

    /// Whether its samples are found by position.
    pub fn by_position(&self) -> bool {
        self.table().is_some_and(|table| !matches!(table.kind, Items::Samples))
    }

    /// Whether its items are samples.
    pub fn counted(&self) -> bool {
        self.table().is_none_or(|table| !matches!(table.kind, Items::Positions))
    }

    /// The table, if it is a table input.
    pub(crate) fn table(&self) -> Option<&'a TableInput> {
        let place = self.listing.places.get(self.pieces.first()?.place as usize)?;
        self.listing.tables.get(place.table? as usize)
    }

    /// Whether its fields are members of an archive.
    pub(crate) fn is_member(&self) -> bool {
        let place = self.pieces.first().and_then(|p| self.listing.places.get(p.place as usize));
        place.is_some_and(|place| place.archive.is_some())
    }

    /// The sealed dataset that it belongs to, and its shard.
    pub(crate) fn shard(&self) -> Option<(&'a SealedInput, &'a ShardRecord)> {
        let place = self.listing.places.get(self.pieces.first()?.place as usize)?;
        let (dataset, shard) = place.shard?;
        let sealed = self.listing.sealed.get(dataset as usize)?;
        Some((sealed, sealed.manifest.shards.get(shard as usize)?))
    }

    /// Its key; of a table input, the prefix of its samples' keys, which ends with `/`.
    pub fn key(&self) -> String {
        let Some(first) = self.pieces.first() else { return String::new() };
        let folder = self.listing.places.get(first.place as usize).map_or("", |p| p.folder_key.as_str());
        format!("{folder}{}", String::from_utf8_lossy(self.listing.stem(first)))
    }

    /// Name and length of each field; of a table input, its format and about the bytes of its rows.
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

    /// The position of the list that says its split.
    pub(crate) fn split_list(&self) -> Option<u16> {
        self.listing.splits.get(self.index).copied()
    }

    /// Its metadata: the JSON object of its row, or the list of its rows.
    pub fn row(&self) -> Option<&'a str> {
        let (at, len) = *self.listing.rows.get(self.index)?;
        self.listing.json.get(at as usize..at as usize + len as usize)
    }

    /// The position of its input among the roots.
    pub(super) fn root(&self) -> Option<usize> {
        let place = self.pieces.first().and_then(|p| self.listing.places.get(p.place as usize));
        place.map(|place| place.root as usize)
    }

    /// The folder part of its key, without the last `/`.
    pub(crate) fn folder(&self) -> &'a str {
        let place = self.pieces.first().and_then(|p| self.listing.places.get(p.place as usize));
        place.map_or("", |p| p.folder_key.trim_end_matches('/'))
    }

    /// The folder in the archive that it is a member of; empty for other samples.
    pub(crate) fn folder_inside(&self) -> &'a str {
        if self.is_member() && self.table().is_none() { self.folder() } else { "" }
    }

    /// The folder of its first file, as keys have it. The rows of a table have that of the table.
    pub(crate) fn file_folder(&self) -> &'a str {
        match self.table() {
            Some(_) => self.folder().rsplit_once('/').map_or("", |(folder, _)| folder),
            None => self.folder(),
        }
    }

    /// The name of the folder that is its root, or of that which holds an input that is a file.
    pub(crate) fn input_name(&self) -> Cow<'a, str> {
        self.input_names().next().unwrap_or_default()
    }

    /// The names of the inputs that its files lie in, each as often as there are files.
    pub(crate) fn input_names(&self) -> impl Iterator<Item = Cow<'a, str>> {
        let listing = self.listing;
        let root = |piece: &PieceRef| listing.roots.get(listing.places.get(piece.place as usize)?.root as usize);
        self.pieces.iter().filter_map(root).map(|root| match root.file_name() {
            Some(name) => name.to_string_lossy(),
            None => name_of(root).to_string_lossy().into_owned().into(),
        })
    }

    /// Whether there are other inputs than its own.
    pub(crate) fn has_others(&self) -> bool {
        self.listing.roots.len() > 1
    }

    /// The number of the folder, archive or table that its first input is in, or is.
    pub(crate) fn place(&self) -> Option<u32> {
        self.pieces.first().map(|piece| piece.place)
    }

    /// The path of its first input, from its root.
    pub(crate) fn relative_path(&self) -> PathBuf {
        let path = self.pieces.first().map(|p| self.listing.path(p)).unwrap_or_default();
        PathText::new(&path).to_path()
    }

    pub(crate) fn first_path(&self) -> PathBuf {
        self.pieces.first().map(|p| self.listing.full_path(p)).unwrap_or_default()
    }

    /// The path of the input of its field `name`: from its root, and whole. Without that field, of its first input.
    pub(crate) fn paths_of(&self, name: &str) -> (PathBuf, PathBuf) {
        let piece = self.pieces.iter().find(|piece| self.listing.field(piece) == name.as_bytes());
        let piece = piece.or(self.pieces.first());
        let path = |piece| (PathText::new(&self.listing.path(piece)).to_path(), self.listing.full_path(piece));
        piece.map(path).unwrap_or_default()
    }

    /// The plan's record of its field `name`, if it has one.
    pub(in crate::scan) fn piece_of(&self, name: &str) -> Option<FieldSource> {
        // Sorted by name.
        let at = self.pieces.binary_search_by(|p| self.listing.field(p).cmp(name.as_bytes())).ok()?;
        self.pieces.get(at).map(|p| self.piece(p, &(0..1)))
    }

    /// The columns that its field `name` decodes to, if a part of the scan looked at it.
    pub(in crate::scan) fn probed(&self, name: &str) -> Option<&'a [Field]> {
        let at = self.pieces.binary_search_by(|p| self.listing.field(p).cmp(name.as_bytes())).ok()?;
        let number = self.pieces.get(at)?.probed.checked_sub(1)?;
        self.listing.probed.get(number as usize).map(|columns| &**columns)
    }

    /// Its plan entry; of a table input, that of the range `items`.
    pub fn entry(&self, items: Range<u64>) -> PlanEntry {
        let fields = self.pieces.iter().map(|p| self.piece(p, &items)).collect();
        let json = self.row().and_then(|text| serde_json::value::RawValue::from_string(text.to_owned()).ok());
        let key = match self.table() {
            Some(_) => self.key().trim_end_matches('/').to_owned(),
            None => self.key(),
        };
        PlanEntry { key, cls: self.label(), json, joined: self.joined_row(items.start), fields }
    }

    /// The row of its item `at` in the joined columns of its view.
    fn joined_row(&self, at: u64) -> Option<u64> {
        let first = self.pieces.first()?;
        let (dataset, shard) = self.listing.places.get(first.place as usize)?.shard?;
        let chosen = self.listing.sealed.get(dataset as usize)?.chosen.as_ref()?;
        chosen.joined.as_ref()?;
        match self.table() {
            Some(_) => chosen.rows.row(shard, at),
            None => chosen.place(shard, first.a).map(|place| place.row),
        }
    }

    fn piece(&self, p: &PieceRef, items: &Range<u64>) -> FieldSource {
        let place = self.listing.places.get(p.place as usize);
        let (size, mtime, extent) = match place.and_then(|place| place.archive) {
            None => (p.a, p.b, None),
            Some((size, mtime)) => (size, mtime, Some((p.a, p.b as u64))),
        };
        let run = |table: &TableInput| {
            let share = (items.end - items.start) as f64 / table.items.max(1) as f64;
            let bytes = (table.bytes as f64 * share) as u64;
            match &table.kind {
                Items::Samples | Items::Positions => (items.start, items.end, bytes),
                Items::Counted { starts, places } => {
                    let place = |i: u64| starts.get(i as usize).copied().unwrap_or(*places);
                    let (from, to) = (place(items.start), place(items.end));
                    (from, to, to.saturating_sub(from))
                }
            }
        };
        let kind = self.table().map(|table| &table.kind);
        let by_position = matches!(kind, Some(Items::Positions | Items::Counted { .. }));
        let samples = matches!(kind, Some(Items::Counted { .. })).then_some(items.end - items.start);
        let items = self.table().map(run);
        let seek_point = self.table().zip(items).and_then(|(table, items)| seek_point(table, items.0));
        let field = String::from_utf8_lossy(self.listing.field(p)).into_owned();
        let path = PathText::new(&self.listing.path(p));
        let extent = extent.filter(|_| items.is_none());
        let root = place.map_or(0, |place| place.root);
        FieldSource { field, root, path, size, mtime, extent, items, by_position, samples, seek_point }
    }
}

/// The seek point from which a compressed input is read to get `item`.
fn seek_point(table: &TableInput, item: u64) -> Option<SeekPoint> {
    /// Line readers look for the line's start before it.
    const BEFORE: u64 = 64 << 10;
    let frames = table.frames.as_ref()?;
    let frame = frames.at(item.saturating_sub(BEFORE));
    Some(SeekPoint { len: frames.inside(), offset: frame.offset, start: frame.start })
}
