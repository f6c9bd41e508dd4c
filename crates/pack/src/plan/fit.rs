//! Chooses the pieces that a trial packs, and divides the plan into shards by the measured sizes. Pure.

use super::plan_item::PlanItem;
use super::shard_bounds::SizeRun;
use super::shard_list::ShardList;
use super::{Plan, SampleSizes, ShardBounds};
use crate::input_format::is_compressed;
use crate::scan::Items;
use packhorse_dataset::PlanEntry;
use std::ops::Range;

/// A trial packs a hundredth of the input, within these bounds, in bytes…
const LEAST: u64 = 4 << 20;
const MOST: u64 = 64 << 20;
/// …in this many pieces spread along the order, several for each shard.
const PIECES: Range<u64> = 32..1024;
const PIECES_A_SHARD: u64 = 8;
/// Rows are decoded in blocks, which may be large: at most two pieces for this many bytes of input.
const ROWS: u64 = 64 << 20;
/// The least bytes of a piece of text, which holds the documents that start in it.
pub(crate) const TEXT: u64 = 1 << 20;
/// The same for a second trial, if no piece of the first one held a document.
pub(crate) const LONG_TEXT: u64 = 32 << 20;
/// The most values of rows that are tried, a key counted as three: bytes say little of rows that compress well.
const VALUES: u64 = 32 << 20;
/// The most bytes that a guessed byte becomes, about…
const MOST_GROWTH: u64 = 4;
/// …and one of text in a tar, of which a line of one byte becomes a member.
const MOST_GROWTH_OF_LINES: u64 = 512;
/// Larger entries are not tried.
const LARGE: u64 = 64 << 20;

/// In compressed text with longer frames than this, which are decompressed from their start…
const SHORT: u64 = 4 << 20;
/// …all pieces lie in this many bytes at the start.
const NEAR: u64 = 128 << 20;

/// Shards are planned smaller by this many standard errors of their size, within these bounds.
const ERRORS: f64 = 2.0;
const LEAST_MARGIN: f64 = 0.01;
const MOST_MARGIN: f64 = 0.08;

/// A part of a plan's order, from which two pieces are packed separately.
pub(crate) struct Segment {
    /// Its end, in guessed bytes from the start of the order.
    pub(crate) end: u64,
    /// The pieces to pack. Empty if nothing in the segment can be tried.
    pub(crate) pieces: [TrialPiece; 2],
}

/// Some samples, with their guessed size.
#[derive(Default)]
pub(crate) struct TrialPiece {
    pub(crate) entries: Vec<PlanEntry>,
    pub(crate) guess: u64,
}

impl TrialPiece {
    /// The bytes of its range of text, decompressed; `None` if it is not of text alone.
    pub(crate) fn positions(&self) -> Option<u64> {
        let of = |entry: &PlanEntry| {
            entry.run().filter(|(piece, _)| piece.by_position).map(|(_, items)| items.end - items.start)
        };
        self.entries.iter().map(of).sum()
    }
}

/// The shard size that a trial predicts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The predicted bytes of the largest shard's data file.
    pub largest: u64,
    /// The relative standard error of a shard's size.
    pub error: f64,
}

/// The measured growth from guessed to packed bytes, along a plan's order.
pub(crate) struct Growth {
    /// For each segment its end, in guessed bytes, and the packed bytes per guessed byte.
    pub(crate) segments: Vec<(u64, f64)>,
    /// The bytes of a shard without a sample.
    pub(crate) fixed: u64,
    /// The relative standard error of a segment's growth.
    pub(crate) error: f64,
}

impl Plan {
    /// The guessed bytes of all samples, if a trial is worthwhile: shards are bounded by bytes, there may be several,
    /// and samples are not merely copied.
    pub(crate) fn guess(&self, sizes: &SampleSizes<'_>) -> Option<u64> {
        let limit = self.bounds.limit()?.saturating_mul(sizes.grain);
        let copied = !sizes.sink.typed()
            && self.header.transforms.is_empty()
            && self.header.encode.is_empty()
            && self.listing.tables().is_empty();
        if copied {
            return None;
        }
        let bytes = |item: &PlanItem| sizes.row(&self.listing, item).saturating_mul(item.count.into());
        let total = self.order.iter().map(bytes).fold(0, u64::saturating_add);
        let tables = self.listing.tables();
        let of_lines = !tables.is_empty() && tables.iter().all(|table| !matches!(table.kind, Items::Samples));
        let growth = if of_lines && !sizes.sink.typed() { MOST_GROWTH_OF_LINES } else { MOST_GROWTH };
        (total > limit / growth).then_some(total)
    }

    /// Divides the order, of `total` guessed bytes, into segments with their pieces to try. A piece of text has about
    /// `text` bytes or more.
    pub(crate) fn segments(&self, sizes: &SampleSizes<'_>, total: u64, text: u64) -> Vec<Segment> {
        let input = self.bytes().max(1);
        let mut tried = (input / 100).clamp(LEAST, MOST).min(input);
        if !self.listing.tables().is_empty() {
            let rows: u64 = self.order.iter().map(|item| u64::from(item.count)).sum();
            let most = VALUES / (self.header.schema.len() as u64 + 2);
            tried = tried.min((u128::from(input) * u128::from(most) / u128::from(rows.max(1))) as u64).max(1);
        }
        if text > TEXT {
            tried = (2 * text).min(input);
        }
        let pieces = (self.shards.len() as u64 * PIECES_A_SHARD).clamp(PIECES.start, PIECES.end);
        let tables = || self.listing.tables().iter().map(|table| &table.kind);
        let most = if tables().any(|kind| matches!(kind, Items::Samples)) {
            // A piece has at least one sample.
            let samples: u64 = self.order.iter().map(|item| u64::from(item.count)).sum();
            (input / ROWS * 2).min(MOST / (input / samples.max(1)).max(1))
        } else if tables().next().is_some() {
            tried / text
        } else {
            tried / (input / self.order.len() as u64).max(1)
        };
        let pieces = (pieces.min(most) / 2 * 2).max(2);
        let len = (total as f64 * (tried as f64 / input as f64)) as u64 / pieces;
        let part = |n: u64, of: u64| (u128::from(total) * u128::from(n) / u128::from(of)) as u64;
        let start = |piece: u64| part(2 * piece + 1, 2 * pieces).saturating_sub(len / 2);
        let ranges = (0..pieces).map(|piece| start(piece)..start(piece) + len.max(1));
        let mut found = self.pieces(sizes, ranges).into_iter();
        let mut segments = Vec::new();
        while let (Some(first), Some(second)) = (found.next(), found.next()) {
            segments.push(Segment { end: part(segments.len() as u64 + 1, pieces / 2), pieces: [first, second] });
        }
        segments
    }

    /// The entries in each of `wanted`, ascending ranges of guessed bytes.
    fn pieces(&self, sizes: &SampleSizes<'_>, wanted: impl Iterator<Item = Range<u64>>) -> Vec<TrialPiece> {
        let mut items = self.order.iter();
        // The current item, and its start.
        let (mut open, mut at) = (items.next(), 0u64);
        let take = |(number, range): (usize, Range<u64>)| {
            let mut piece = TrialPiece::default();
            while let Some(item) = open {
                let size = sizes.row(&self.listing, item);
                let end = at.saturating_add(size.saturating_mul(item.count.into()));
                if end > range.start
                    && (at < range.end || piece.entries.is_empty())
                    && let Some((entry, rows)) = self.entry(item, (size, at), &range, number)
                {
                    piece.guess += size * rows;
                    piece.entries.push(entry);
                }
                if end >= range.end {
                    break;
                }
                (open, at) = (items.next(), end);
            }
            piece
        };
        wanted.enumerate().map(take).collect()
    }

    /// The entry of the rows of `item` in `range`, and their number. Rows have `size` bytes, and the first starts at
    /// `at`. `None` if they are too expensive to read on their own.
    fn entry(
        &self,
        item: &PlanItem,
        (size, at): (u64, u64),
        range: &Range<u64>,
        piece: usize,
    ) -> Option<(PlanEntry, u64)> {
        let (sample, count) = (self.listing.sample(item.sample as usize)?, u64::from(item.count));
        let place = |byte: u64| byte.saturating_sub(at).checked_div(size).unwrap_or(0).min(count - 1);
        let (from, to) = (place(range.start), place(range.end - 1) + 1);
        let rows = to - from;
        let mut from = item.from + from;
        if let Some(frames) = sample.table().and_then(|table| table.frames.as_ref()) {
            let near = |from: u64| (u128::from(from) * u128::from(NEAR) / u128::from(frames.inside())) as u64;
            if frames.longest() > SHORT && frames.inside() > NEAR {
                from = near(from);
            }
        } else if is_compressed(&sample.relative_path()) && (sample.table().is_some() || sample.is_member()) {
            // The way to a place is long: one near the start has to do, and a stream has none.
            if sample.items() == 1 {
                return None;
            }
            from = item.from + (rows * (piece % 2) as u64).min(count - rows);
        }
        let mut entry = sample.entry(from..from + rows);
        if let Some(short) = self.short.get(&item.sample) {
            entry.key.clone_from(short);
        }
        (entry.bytes() <= LARGE).then_some((entry, rows))
    }

    /// Divides the plan into shards again, by the measured growth. Returns the predicted bytes of the largest shard,
    /// and their relative standard error.
    pub(crate) fn divide_again(&mut self, sizes: &SampleSizes<'_>, growth: &Growth) -> (u64, f64) {
        // The error of a mean over the shard's segments.
        let error = growth.error / (growth.segments.len() as f64 / self.shards.len() as f64).max(1.0).sqrt();
        let smaller = 1.0 - (ERRORS * error).clamp(LEAST_MARGIN, MOST_MARGIN);
        let room = |most: u64| most.saturating_sub(growth.fixed) as f64 * smaller * sizes.grain as f64;
        let bounds = ShardBounds { bytes: self.bounds.limit().map(|most| (room(most) as u64).max(1)), ..self.bounds };
        let mut list = ShardList::default();
        let (mut at, mut largest) = (0, 0);
        for group in self.shards.chunk_by(|a, b| a.split == b.split) {
            let (Some(first), Some(last)) = (group.first(), group.last()) else { continue };
            let items = self.order.get(first.items.start..last.items.end).unwrap_or_default();
            let mut runs = Vec::with_capacity(items.len());
            for item in items {
                let size = sizes.row(&self.listing, item);
                growth.runs(SizeRun { size, samples: item.count.into() }, &mut at, &mut runs);
            }
            let lens = bounds.shards(&runs);
            largest = largest.max(largest_of(&runs, &lens));
            list.add(&self.listing, (first.split.as_ref(), &self.header.name), items.to_vec(), &lens);
        }
        (self.order, self.shards) = (list.order, list.shards);
        (growth.fixed + largest / sizes.grain, error)
    }
}

impl Growth {
    /// Appends the runs that `run` becomes to `runs`; `at` guessed bytes come before it.
    fn runs(&self, run: SizeRun, at: &mut u64, runs: &mut Vec<SizeRun>) {
        let mut left = run.samples;
        while left > 0 {
            let segment = self.segments.partition_point(|(end, _)| *end <= *at);
            let last = self.segments.last().map_or(1.0, |(_, ratio)| *ratio);
            let (end, ratio) = self.segments.get(segment).copied().unwrap_or((u64::MAX, last));
            let samples = (end - *at).div_ceil(run.size.max(1)).min(left);
            runs.push(SizeRun { size: (run.size as f64 * ratio) as u64, samples });
            *at = at.saturating_add(run.size.saturating_mul(samples));
            left -= samples;
        }
    }
}

/// The bytes of the largest shard, given the samples of each.
fn largest_of(runs: &[SizeRun], lens: &[u64]) -> u64 {
    let mut rest = runs.iter().copied();
    let mut open = SizeRun { size: 0, samples: 0 };
    let mut bytes = |len: u64| {
        let (mut left, mut bytes) = (len, 0u64);
        while left > 0 {
            if open.samples == 0 {
                let Some(next) = rest.next() else { break };
                open = next;
            }
            let taken = open.samples.min(left);
            bytes = bytes.saturating_add(open.size.saturating_mul(taken));
            open.samples -= taken;
            left -= taken;
        }
        bytes
    };
    lens.iter().map(|len| bytes(*len)).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_largest_shard_is_found_across_runs() {
        let runs = [SizeRun { size: 10, samples: 3 }, SizeRun { size: 1, samples: 5 }, SizeRun { size: 0, samples: 2 }];
        assert_eq!(largest_of(&runs, &[2, 2, 6]), 20);
        assert_eq!(largest_of(&runs, &[4, 6]), 31);
        assert_eq!(largest_of(&[], &[]), 0);
    }

    proptest! {
        /// Each sample is in one run, with the size that its segment gives.
        #[test]
        fn runs_change_at_the_ends_of_segments(
            items in proptest::collection::vec((0u64..50, 1u64..40), 1..20),
            list in proptest::collection::vec((1u64..400, 0.1f64..4.0), 0..6),
        ) {
            let mut end = 0;
            let segments: Vec<(u64, f64)> = list.iter().map(|(len, ratio)| { end += len; (end, *ratio) }).collect();
            let growth = Growth { segments: segments.clone(), fixed: 0, error: 0.0 };
            let (mut at, mut runs) = (0, Vec::new());
            items.iter().for_each(|(size, samples)| growth.runs(SizeRun { size: *size, samples: *samples }, &mut at, &mut runs));
            let found: Vec<u64> = runs.iter().flat_map(|run| std::iter::repeat_n(run.size, run.samples as usize)).collect();
            let mut start = 0;
            let mut wanted = Vec::new();
            for (size, samples) in items {
                for _ in 0..samples {
                    let last = segments.last().map_or(1.0, |(_, ratio)| *ratio);
                    let ratio = segments.iter().find(|(end, _)| *end > start).map_or(last, |(_, ratio)| *ratio);
                    wanted.push((size as f64 * ratio) as u64);
                    start += size;
                }
            }
            prop_assert_eq!(found, wanted);
        }
    }
}
