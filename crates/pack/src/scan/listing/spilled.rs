//! A listing of more inputs than fit memory: they lie on disk, sorted into the order of a plan, and come back as listings of some
//! samples each.
//!
//! A record is an input: its key sorts it by the place of its sample, then as in a [`Listing`]. Names have no byte 0, which ends each of
//! them.

use super::listing_builder::rank;
use super::{Listing, ListingBuilder, PieceRef, SourceFolder};
use crate::sample_order::SampleOrder;
use packhorse_core::{Cancel, Error, Result};
use packhorse_storage::{EncodedRecords, Merge, SortedRuns};
use rayon::prelude::*;
use std::path::PathBuf;

/// When and how inputs are spilled.
#[derive(Clone, Debug)]
pub(crate) struct SpillOptions {
    /// The order of the plan.
    pub(crate) order: SampleOrder,
    /// The most inputs in memory.
    pub(crate) most: usize,
    /// The folder of temporary files.
    pub(crate) dir: PathBuf,
}

impl SpillOptions {
    /// Inputs of a run after the first, and of a listing that comes back.
    pub(crate) fn part(&self) -> usize {
        (self.most / 4).clamp(1, 1 << 21)
    }
}

/// Records that are encoded together, and those that are encoded at once.
const BLOCK: usize = 2048;
const AT_ONCE: usize = 64 * BLOCK;

/// The inputs that a builder spilled.
pub(super) struct Spill {
    pub(super) options: SpillOptions,
    runs: Option<SortedRuns>,
    may_have_cards: bool,
}

/// What a scan found.
pub(crate) enum Found {
    Whole(Listing),
    Spilled(Spilled),
}

/// A listing on disk.
pub(crate) struct Spilled {
    /// The rest of it: roots, faults, ignored inputs.
    pub(crate) rest: Listing,
    pub(crate) options: SpillOptions,
    /// Whether an input has the name of a file about a dataset.
    pub(super) may_have_cards: bool,
    /// Whether such files are left out of the parts.
    pub(crate) drops_cards: bool,
    /// The inputs, until they were [dropped](Self::drop_inputs).
    runs: Option<SortedRuns>,
}

impl Spill {
    pub(super) fn new(options: SpillOptions) -> Self {
        Self { options, runs: None, may_have_cards: false }
    }

    /// Whether a builder with so many inputs spills them.
    pub(super) fn is_due(&self, inputs: usize) -> bool {
        inputs > if self.runs.is_some() { self.options.part() } else { self.options.most }
    }

    /// Writes all inputs of `listing` as a run, and removes them there.
    pub(super) fn take(&mut self, listing: &mut Listing) -> Result<()> {
        rank(&mut listing.places);
        let pieces = std::mem::take(&mut listing.pieces);
        let order = self.options.order;
        let from: &Listing = listing;
        self.may_have_cards |= pieces.par_iter().any(|piece| from.has_card_name(piece));
        let placed = |piece: PieceRef| (order.place(from.folder_key(&piece), from.stem(&piece)), piece);
        let mut pieces: Vec<(u64, PieceRef)> = pieces.into_par_iter().map(placed).collect();
        pieces.par_sort_unstable_by(|(at, a), (other, b)| {
            at.cmp(other).then_with(|| from.order(a, b)).then_with(|| from.origin(a).cmp(&from.origin(b)))
        });
        if self.runs.is_none() {
            self.runs = Some(SortedRuns::new(&self.options.dir)?);
        }
        let runs = self.runs.as_mut().ok_or_else(|| Error::bug("no runs"))?;
        runs.begin();
        let encoded = |pieces: &[(u64, PieceRef)]| {
            let mut record = Record::default();
            EncodedRecords::new(|push| {
                pieces.iter().try_for_each(|(place, piece)| {
                    from.write(piece, *place, &mut record);
                    push(&record.key, &record.value)
                })
            })
        };
        for pieces in pieces.chunks(AT_ONCE) {
            let blocks: Vec<_> = pieces.par_chunks(BLOCK).map(encoded).collect::<Result<_>>()?;
            blocks.iter().try_for_each(|block| runs.add(block))?;
        }
        (listing.arena, listing.places) = (Vec::new(), Vec::new());
        Ok(())
    }

    /// Gives all inputs back to `builder`.
    pub(super) fn give_back(self, builder: &mut ListingBuilder) -> Result<()> {
        let Some(runs) = self.runs else { return Ok(()) };
        let mut merge = runs.merge()?;
        while let Some((key, value)) = merge.next()? {
            builder.read(key, value)?;
            builder.check_count()?;
        }
        Ok(())
    }

    /// The listing on disk, if anything was spilled; else the one in memory.
    pub(super) fn finish(mut self, mut builder: ListingBuilder) -> Result<Found> {
        if self.runs.is_some() && !builder.listing.pieces.is_empty() {
            self.take(&mut builder.listing)?;
        }
        let Self { options, runs, may_have_cards } = self;
        Ok(match runs {
            None => Found::Whole(builder.finish()),
            runs => {
                Found::Spilled(Spilled { rest: builder.listing, options, may_have_cards, drops_cards: false, runs })
            }
        })
    }
}

impl Spilled {
    /// Calls `each` with listings of all samples, which are in the plan's order.
    pub(crate) fn parts(&self, cancel: &Cancel, each: &mut dyn FnMut(Listing) -> Result<()>) -> Result<()> {
        Parts { like: &self.rest, most: self.options.part() }.of(self.runs()?, cancel, each)
    }

    /// Frees the disk of the inputs, of which no more parts are taken.
    pub(crate) fn drop_inputs(&mut self) {
        self.runs = None;
    }

    fn runs(&self) -> Result<&SortedRuns> {
        self.runs.as_ref().ok_or_else(|| Error::bug("inputs that were dropped"))
    }

    /// The first part.
    pub(in crate::scan) fn first(&self) -> Result<Listing> {
        let mut merge = self.runs()?.merge()?;
        merge.next()?;
        Ok(Parts { like: &self.rest, most: self.options.part() }.next(&mut merge)?.0)
    }

    /// An empty list of samples, to be kept in the plan's order.
    pub(crate) fn kept(&self) -> Result<KeptSamples> {
        let mut runs = SortedRuns::new(&self.options.dir)?;
        runs.begin();
        Ok(KeptSamples { runs })
    }

    /// The samples that were kept, as [`parts`](Self::parts).
    pub(crate) fn parts_of(
        &self,
        kept: &KeptSamples,
        cancel: &Cancel,
        each: &mut dyn FnMut(Listing) -> Result<()>,
    ) -> Result<()> {
        Parts { like: &self.rest, most: self.options.part() }.of(&kept.runs, cancel, each)
    }

    /// All of it in memory.
    pub(in crate::scan) fn whole(self) -> Result<Listing> {
        let Self { rest, options, runs, .. } = self;
        let mut builder = ListingBuilder::of(rest);
        Spill { runs, ..Spill::new(options) }.give_back(&mut builder)?;
        Ok(builder.finish())
    }
}

/// Samples on disk, in the plan's order.
pub(crate) struct KeptSamples {
    runs: SortedRuns,
}

impl KeptSamples {
    /// Adds these samples of `listing`.
    pub(crate) fn add(&mut self, listing: &Listing, samples: &[u32]) -> Result<()> {
        let encoded = |samples: &[u32]| {
            let mut record = Record::default();
            EncodedRecords::new(|push| {
                let pieces =
                    samples.iter().filter_map(|i| listing.sample(*i as usize)).flat_map(|sample| sample.pieces);
                pieces.into_iter().try_for_each(|piece| {
                    // They stay in this order.
                    listing.write(piece, 0, &mut record);
                    push(&record.key, &record.value)
                })
            })
        };
        let blocks: Vec<_> = samples.par_chunks(BLOCK).map(encoded).collect::<Result<_>>()?;
        blocks.iter().try_for_each(|block| self.runs.add(block))
    }
}

/// Reads runs as listings of some samples each.
struct Parts<'a> {
    /// The listing whose roots and names they have.
    like: &'a Listing,
    /// The least inputs of a part that is not the last.
    most: usize,
}

impl Parts<'_> {
    fn of(&self, runs: &SortedRuns, cancel: &Cancel, each: &mut dyn FnMut(Listing) -> Result<()>) -> Result<()> {
        // The next part is read while one is used.
        let (sender, receiver) = crossbeam_channel::bounded(1);
        std::thread::scope(|threads| {
            let reading = std::thread::Builder::new().spawn_scoped(threads, move || {
                let send = || {
                    let mut merge = runs.merge()?;
                    let mut goes_on = merge.next()?.is_some();
                    while goes_on {
                        let part;
                        (part, goes_on) = self.next(&mut merge)?;
                        // After an error parts are not taken.
                        goes_on &= sender.send(Ok(part)).is_ok();
                    }
                    Ok(())
                };
                let sent: Result<()> = send();
                if let Err(error) = sent {
                    let _ = sender.send(Err(error));
                }
            });
            let reading = reading.map_err(Error::thread)?;
            let used = {
                let receiver = receiver;
                receiver.iter().try_for_each(|part: Result<Listing>| {
                    cancel.check()?;
                    each(part?)
                })
            };
            reading.join().map_err(|_| Error::bug("a thread that reads a listing panicked"))?;
            used
        })
    }

    /// The part that begins with the current record, and whether there is more.
    fn next(&self, merge: &mut Merge<'_>) -> Result<(Listing, bool)> {
        let like =
            Listing { roots: self.like.roots.clone(), key_ends: self.like.key_ends.clone(), ..Listing::default() };
        let (mut builder, mut last) = (ListingBuilder::of(like), Vec::new());
        while let Some((key, value)) = merge.current() {
            let sample = sample_of(key);
            if builder.listing.pieces.len() >= self.most && sample != last {
                return Ok((builder.finish_sorted(), true));
            }
            last.clear();
            last.extend_from_slice(sample);
            builder.read(key, value)?;
            merge.next()?;
        }
        Ok((builder.finish_sorted(), false))
    }
}

/// A record on its way to disk.
#[derive(Default)]
struct Record {
    key: Vec<u8>,
    value: Vec<u8>,
}

/// The bytes of the sample's place.
const PLACE: usize = 8;

/// The part of a record's key that is equal for all inputs of a sample.
fn sample_of(key: &[u8]) -> &[u8] {
    let ends = key.iter().enumerate().skip(PLACE).filter(|(_, byte)| **byte == 0);
    ends.map(|(at, _)| at).nth(1).and_then(|end| key.get(..end)).unwrap_or(key)
}

impl Listing {
    /// Samples in the plan's order.
    pub(crate) fn in_order(&self, order: SampleOrder) -> Vec<u32> {
        let place = |i: u32| {
            let first = self.sample(i as usize).and_then(|sample| sample.pieces.first());
            (first.map_or(0, |piece| order.place(self.folder_key(piece), self.stem(piece))), i)
        };
        let mut all: Vec<(u64, u32)> = (0..self.samples() as u32).into_par_iter().map(place).collect();
        all.par_sort_unstable();
        all.into_iter().map(|(_, i)| i).collect()
    }

    fn folder_key(&self, piece: &PieceRef) -> &str {
        self.places.get(piece.place as usize).map_or("", |place| place.folder_key.as_str())
    }

    fn write(&self, piece: &PieceRef, place: u64, record: &mut Record) {
        let Record { key, value } = record;
        let Some(SourceFolder { root, archive, .. }) = self.places.get(piece.place as usize) else { return };
        key.clear();
        key.extend_from_slice(&place.to_be_bytes());
        for name in [self.folder_key(piece).as_bytes(), self.stem(piece), self.field(piece)] {
            key.extend_from_slice(name);
            key.push(0);
        }
        key.extend_from_slice(&root.to_be_bytes());
        key.extend_from_slice(&self.path(piece));
        key.extend_from_slice(&archive.map_or(0, |_| piece.a).to_be_bytes());
        value.clear();
        value.extend_from_slice(&piece.a.to_le_bytes());
        value.extend_from_slice(&piece.b.to_le_bytes());
        if let Some((size, mtime)) = archive {
            value.extend_from_slice(&size.to_le_bytes());
            value.extend_from_slice(&mtime.to_le_bytes());
        }
    }
}

impl ListingBuilder {
    /// Adds the input of a record.
    fn read(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let damaged = || Error::bug("a record that was not written so");
        let text = |bytes| std::str::from_utf8(bytes).map_err(|_| damaged());
        let mut names = key.get(PLACE..).ok_or_else(damaged)?.splitn(4, |byte| *byte == 0);
        let mut name = || names.next().ok_or_else(damaged);
        let (folder, stem, field, origin) = (text(name()?)?, text(name()?)?, text(name()?)?, name()?);
        let (root, path) = origin.split_first_chunk::<4>().ok_or_else(damaged)?;
        let path = path.split_last_chunk::<8>().map(|(path, _)| path).ok_or_else(damaged)?;
        let mut numbers = value.chunks_exact(8).filter_map(|chunk| Some(u64::from_le_bytes(chunk.try_into().ok()?)));
        let mut number = || numbers.next().ok_or_else(damaged);
        let (a, b) = (number()?, number()? as i64);
        let archive = (value.len() > 16).then(|| Ok((number()?, number()? as i64))).transpose()?;
        let base = path.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
        let (outer, raw) = if archive.is_some() { (path, &b""[..]) } else { path.split_at(base) };
        let place = self.place(u32::from_be_bytes(*root), outer, folder, archive);
        self.push(place, (stem, field), raw, (a, b), 0);
        Ok(())
    }
}
