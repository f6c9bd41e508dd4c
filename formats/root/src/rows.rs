//! Reads blocks of rows from a tree. Nearby baskets are read together and decompressed in parallel. A basket that
//! crosses the end of a block is kept for the next block.

use crate::basket::Basket;
use crate::bytes::Bytes;
use crate::decode::{self, BasketSlice};
use crate::file::{RootFile, read_key};
use crate::interpret::{BranchColumn, Counter, EntryLayout};
use crate::tree::{BasketLocation, BasketRecord, TTree};
use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use packhorse_core::{Error, Kind, Result, Rows, SchemaRef};
use rayon::prelude::*;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The approximate bytes of a block.
const BLOCK: u64 = 8 << 20;
/// The most rows of a block.
const ROWS: u64 = 1 << 18;
/// Baskets with at most [`GAP`] bytes between them are read together, up to [`STRETCH`] bytes.
const GAP: u64 = 64 << 10;
const STRETCH: u64 = 16 << 20;

/// An iterator over the blocks of a range of a tree's entries.
pub(crate) struct TreeRows<'a> {
    file: &'a RootFile<'a>,
    tree: &'a TTree,
    columns: &'a [BranchColumn],
    schema: &'a SchemaRef,
    next: u64,
    end: u64,
    /// The rows of the next block, and the most of a block.
    rows: u64,
    most: u64,
    kept: BTreeMap<Id, Arc<Basket>>,
}

/// A basket: its branch and its number in the branch.
type Id = (usize, usize);

/// The number of values per entry, by counter branch.
type Counts = BTreeMap<usize, Vec<i64>>;

/// `error`, with the name of the field that it is about, and how to do without.
fn blame(field: &str, error: Error) -> Error {
    let error = error.context(format_args!("branch {field}")).in_field(field);
    match error.kind() {
        Kind::Content | Kind::Unsupported | Kind::Limit => {
            error.hint(format!("to leave it out: `branches=*,!{field}`"))
        }
        _ => error,
    }
}

impl<'a> TreeRows<'a> {
    pub(crate) fn new(
        file: &'a RootFile<'a>,
        tree: &'a TTree,
        columns: &'a [BranchColumn],
        schema: &'a SchemaRef,
        items: Range<u64>,
    ) -> Self {
        let bytes: u64 =
            branches(columns).filter_map(|n| tree.branches.get(n)).map(|b| b.bytes).fold(0, u64::saturating_add);
        let each = bytes / tree.entries.max(1);
        let rows = (BLOCK / each.max(1)).clamp(1, ROWS);
        let (next, end) = (items.start, items.end.min(tree.entries));
        Self { file, tree, columns, schema, next, end, rows, most: rows, kept: BTreeMap::new() }
    }

    /// The next block.
    pub(crate) fn block(&mut self) -> Result<Option<Rows>> {
        if self.next >= self.end {
            return Ok(None);
        }
        loop {
            let entries = self.next..self.end.min(self.next.saturating_add(self.rows));
            let count = entries.end - entries.start;
            match self.entries(&entries) {
                // Entries here may be larger than the tree's are on average.
                Err(error) if error.kind() == Kind::Limit && count > 1 => self.rows = count / 2,
                done => {
                    self.next = entries.end;
                    self.rows = self.most.min(self.rows.saturating_add((self.rows / 8).max(1)));
                    return done.map(Some);
                }
            }
        }
    }

    fn entries(&mut self, entries: &Range<u64>) -> Result<Rows> {
        self.load(entries)?;
        let counts = self.counts(entries)?;
        let arrays: Result<Vec<ArrayRef>> =
            self.columns.par_iter().map(|column| self.column(column, entries, &counts)).collect();
        let count = usize::try_from(entries.end - entries.start).unwrap_or(usize::MAX);
        let options = RecordBatchOptions::new().with_row_count(Some(count));
        let rows = RecordBatch::try_new_with_options(self.schema.clone(), arrays?, &options);
        self.kept.retain(|(branch, number), _| {
            let place = self.tree.branches.get(*branch).and_then(|branch| branch.baskets.get(*number));
            place.is_some_and(|place| place.first.saturating_add(place.entries) > entries.end)
        });
        rows.map_err(|e| Error::bug(e.to_string()))
    }

    fn column(&self, column: &BranchColumn, entries: &Range<u64>, counts: &Counts) -> Result<ArrayRef> {
        let within = |e: Error| blame(&column.name, e);
        let pieces = self.pieces(column.branch, entries).map_err(within)?;
        let array = decode::array(column, &pieces, self.file.buffers()).map_err(within)?;
        if let Some(counts) = column.counter.as_ref().and_then(|counter| counts.get(&counter.branch)) {
            decode::check_lengths(&array, counts).map_err(within)?;
        }
        Ok(array)
    }

    /// The values of the counter branches for `entries`.
    fn counts(&self, entries: &Range<u64>) -> Result<Counts> {
        let mut found = Counts::new();
        for column in self.columns {
            let Some(Counter { branch, element }) = &column.counter else { continue };
            if !found.contains_key(branch) {
                let counts = self.pieces(*branch, entries);
                let counts = counts.and_then(|pieces| decode::counts(element, &pieces, self.file.buffers()));
                found.insert(*branch, counts.map_err(|e| blame(&column.name, e.context("the branch that counts it")))?);
            }
        }
        Ok(found)
    }

    /// The parts of the loaded baskets of `branch` that hold `entries`.
    fn pieces(&self, branch: usize, entries: &Range<u64>) -> Result<Vec<BasketSlice>> {
        let places = self.places(branch);
        let mut pieces = Vec::new();
        for number in needed(places, entries) {
            let (Some(place), Some(basket)) = (places.get(number), self.kept.get(&(branch, number))) else {
                return Err(Error::bug("a basket that was not loaded"));
            };
            let local =
                |entry: u64| usize::try_from(entry.clamp(place.first, place.first + place.entries) - place.first);
            let (Ok(start), Ok(end)) = (local(entries.start), local(entries.end)) else {
                return Err(Error::content("a basket of more than 2^32 entries"));
            };
            pieces.push((basket.clone(), start..end));
        }
        Ok(pieces)
    }

    fn places(&self, branch: usize) -> &[BasketRecord] {
        self.tree.branches.get(branch).map(|branch| branch.baskets.as_slice()).unwrap_or_default()
    }

    /// Loads the baskets for `entries` that are not kept from the last block.
    fn load(&mut self, entries: &Range<u64>) -> Result<()> {
        let (mut found, mut in_file) = (Vec::new(), Vec::new());
        for branch in branches(self.columns).chain(counters(self.columns)) {
            for number in needed(self.places(branch), entries) {
                let id = (branch, number);
                match self.places(branch).get(number).map(|place| &place.at) {
                    Some(_) if self.kept.contains_key(&id) => {}
                    Some(BasketLocation::Tree(place)) => found.push((id, self.finish(id, self.tree.embedded(place)?)?)),
                    Some(BasketLocation::File(at, len)) => in_file.push((id, *at..at.saturating_add(*len))),
                    None => {}
                }
            }
        }
        let count = entries.end - entries.start;
        self.afford(in_file.iter().map(|(_, bytes)| bytes.end - bytes.start).fold(0, u64::saturating_add), count)?;
        let kept = self.kept.values().map(|basket| basket.size() as u64).fold(0, u64::saturating_add);
        let unpacked = AtomicU64::new(kept);
        let read: Result<Vec<_>> =
            stretches(in_file).par_iter().map(|stretch| self.stretch(stretch, &unpacked, count)).collect();
        found.extend(read?.into_iter().flatten());
        self.kept.extend(found.into_iter().map(|(id, basket)| (id, Arc::new(basket))));
        Ok(())
    }

    /// A `Limit` error if `bytes`, those of the baskets of `count` entries, exceed the memory limit.
    fn afford(&self, bytes: u64, count: u64) -> Result<()> {
        let limits = self.file.limits();
        let room = if count > 1 { limits.blob(bytes) } else { limits.held(bytes) };
        room.map(drop).map_err(|e| e.subject("an entry whose baskets are read"))
    }

    /// Reads a stretch of the baskets of `count` entries with one request, and decompresses them.
    fn stretch(&self, stretch: &Stretch, unpacked: &AtomicU64, count: u64) -> Result<Vec<(Id, Basket)>> {
        let Stretch { whole, baskets } = stretch;
        let bytes = self.file.stretch(whole.start, whole.end - whole.start)?;
        let one = |(id, place): &(Id, Range<u64>)| {
            let local = |at: u64| usize::try_from(at - whole.start).unwrap_or(usize::MAX);
            let record = bytes.get(local(place.start)..local(place.end)).unwrap_or_default();
            let within = |e: Error| {
                let name = self.tree.branches.get(id.0).map_or("", |branch| branch.path.as_str());
                blame(name, e.context(format_args!("basket {}", id.1)))
            };
            let len = read_key(&mut Bytes::new(record)).map_err(within)?.object_bytes;
            self.afford(unpacked.fetch_add(len, Ordering::Relaxed).saturating_add(len), count)?;
            let basket = Basket::read(record, self.file).and_then(|basket| self.finish(*id, basket));
            Ok((*id, basket.map_err(within)?))
        };
        // Baskets are few and vary in size: idle threads take the largest one left.
        let mut baskets: Vec<&(Id, Range<u64>)> = baskets.iter().collect();
        baskets.sort_by_key(|(_, place)| Reverse(place.end - place.start));
        baskets.into_iter().par_bridge().map(one).collect()
    }

    /// Checks the basket's number of entries, and sets missing offsets from the counter branch.
    fn finish(&self, id: Id, mut basket: Basket) -> Result<Basket> {
        let place = self.places(id.0).get(id.1).ok_or_else(|| Error::bug("a basket without a place"))?;
        if place.entries != basket.entries as u64 {
            let what = format!("holds {} entries, but its branch says {}", basket.entries, place.entries);
            return Err(Error::content(what));
        }
        let layout = self.columns.iter().find(|column| column.branch == id.0).map(|column| &column.layout);
        if let (None, Some(EntryLayout::Counted { element, inner, marker: false })) = (&basket.offsets, layout) {
            let size = inner.iter().product::<usize>() * element.width();
            basket.set_offsets(self.counted(id.0, place, size)?)?;
        }
        Ok(basket)
    }

    /// The offsets of a basket of `branch`, computed from its counter branch.
    fn counted(&self, branch: usize, place: &BasketRecord, size: usize) -> Result<Vec<u32>> {
        let counter = self.tree.branches.get(branch).and_then(|branch| Counter::of(self.tree, branch));
        let counter =
            counter.ok_or_else(|| Error::unsupported("a basket without offsets in a branch without a counter"))?;
        let entries = place.first..place.first.saturating_add(place.entries);
        let mut ends = vec![0u32];
        for count in counts_of(self.file, self.tree, &counter, &entries)? {
            let len = usize::try_from(count).ok().and_then(|n| u32::try_from(n.checked_mul(size)?).ok());
            let end = len.and_then(|len| ends.last().copied().unwrap_or(0).checked_add(len));
            ends.push(end.ok_or_else(|| Error::content(format!("an entry of {count} values")))?);
        }
        Ok(ends)
    }
}

/// Reads the values of `counter` for `entries`.
pub(crate) fn counts_of(
    file: &RootFile<'_>,
    tree: &TTree,
    counter: &Counter,
    entries: &Range<u64>,
) -> Result<Vec<i64>> {
    let places = tree.branches.get(counter.branch).map(|branch| branch.baskets.as_slice()).unwrap_or_default();
    let mut pieces = Vec::new();
    for number in needed(places, entries) {
        let Some(other) = places.get(number) else { continue };
        let basket = tree.basket(file, other)?;
        let local = |entry: u64| usize::try_from(entry.clamp(other.first, other.first + other.entries) - other.first);
        pieces.push((Arc::new(basket), local(entries.start).unwrap_or(0)..local(entries.end).unwrap_or(0)));
    }
    decode::counts(&counter.element, &pieces, file.buffers())
}

/// The branches of `columns`, each once.
fn branches(columns: &[BranchColumn]) -> impl Iterator<Item = usize> {
    columns.iter().map(|column| column.branch).collect::<BTreeSet<_>>().into_iter()
}

/// The counter branches that are not columns themselves, each once.
fn counters(columns: &[BranchColumn]) -> impl Iterator<Item = usize> {
    let read: BTreeSet<usize> = columns.iter().map(|column| column.branch).collect();
    let counters: BTreeSet<usize> =
        columns.iter().filter_map(|column| column.counter.as_ref()).map(|counter| counter.branch).collect();
    counters.into_iter().filter(move |branch| !read.contains(branch))
}

/// A byte range of the file, and the baskets in it.
struct Stretch {
    whole: Range<u64>,
    baskets: Vec<(Id, Range<u64>)>,
}

/// Groups baskets that are close to each other in the file.
fn stretches(mut baskets: Vec<(Id, Range<u64>)>) -> Vec<Stretch> {
    baskets.sort_by_key(|(_, bytes)| bytes.start);
    let mut found: Vec<Stretch> = Vec::new();
    for (id, bytes) in baskets {
        match found.last_mut() {
            Some(last)
                if bytes.start <= last.whole.end.saturating_add(GAP)
                    && bytes.end.saturating_sub(last.whole.start) <= STRETCH =>
            {
                last.whole.end = last.whole.end.max(bytes.end);
                last.baskets.push((id, bytes));
            }
            _ => found.push(Stretch { whole: bytes.clone(), baskets: vec![(id, bytes)] }),
        }
    }
    found
}

/// The numbers of the baskets that hold some of `entries`.
fn needed(places: &[BasketRecord], entries: &Range<u64>) -> Range<usize> {
    let start = places.partition_point(|place| place.first.saturating_add(place.entries) <= entries.start);
    let end = places.partition_point(|place| place.first < entries.end);
    start..end.max(start)
}
