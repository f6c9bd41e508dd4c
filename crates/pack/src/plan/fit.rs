//! ShardList by measured sizes: what a trial packs of a plan, and the plan cut by what came out. Pure.

use super::plan_item::PlanItem;
use super::shard_bounds::SizeRun;
use super::shard_list::ShardList;
use super::{Plan, SampleSizes, ShardBounds};
use crate::input_format::is_compressed;
use crate::scan::Items;
use packhorse_dataset::PlanEntry;
use std::ops::Range;

/// So much of the input is tried: a hundredth, within these bounds.
const LEAST: u64 = 4 << 20;
const MOST: u64 = 64 << 20;
/// In so many pieces, along the order: some of each shard.
const PIECES: Range<u64> = 32..1024;
const PIECES_A_SHARD: u64 = 8;
/// Rows are decoded by blocks, which may be large: there are two pieces for so many bytes only.
const ROWS: u64 = 64 << 20;
/// A range of text has the documents that start in it: it must be long beside them.
const TEXT: u64 = 1 << 20;
/// An entry that is larger is not tried.
const LARGE: u64 = 64 << 20;

/// Of compressed text in longer frames than this, each of which has one way through it…
const SHORT: u64 = 4 << 20;
/// …what is tried lies in so much at its start.
const NEAR: u64 = 128 << 20;

/// ShardList are planned smaller by so many standard errors of their size, within these bounds.
const ERRORS: f64 = 2.0;
const LEAST_MARGIN: f64 = 0.01;
const MOST_MARGIN: f64 = 0.08;

/// A part of a plan's order, of which two pieces are packed, each on its own.
pub(crate) struct Segment {
    /// Where it ends, in guessed bytes from the start of the order.
    pub(crate) end: u64,
    /// What is packed of it. Empty where nothing of it can be tried.
    pub(crate) pieces: [TrialPiece; 2],
}

/// Some samples, with their guessed size.
#[derive(Default)]
pub(crate) struct TrialPiece {
    pub(crate) entries: Vec<PlanEntry>,
    pub(crate) guess: u64,
}

/// What a trial has shown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The bytes of the largest shard's data file, as far as they are known now.
    pub largest: u64,
    /// The standard error of such a size, as a share of it.
    pub error: f64,
}

/// What guessed bytes become, along a plan's order.
pub(crate) struct Growth {
    /// Where a segment ends, in guessed bytes, and what one of its bytes becomes.
    pub(crate) segments: Vec<(u64, f64)>,
    /// The bytes of a shard without a sample.
    pub(crate) fixed: u64,
    /// The standard error of a segment's growth, as a share of it.
    pub(crate) error: f64,
}

impl Plan {
    /// The guessed bytes of all samples, if it is worth a trial to know how large shards become: they are cut by bytes,
    /// there may be several, and what they hold is not just copied.
    pub(crate) fn guess(&self, sizes: &SampleSizes<'_>) -> Option<u64> {
        let limit = self.cut.limit()?.saturating_mul(sizes.grain);
        let copied = !sizes.sink.typed()
            && self.header.transforms.is_empty()
            && self.header.encode.is_empty()
            && self.listing.tables().is_empty();
        if copied {
            return None;
        }
        let bytes = |unit: &PlanItem| sizes.row(&self.listing, unit).saturating_mul(unit.count.into());
        let total = self.order.iter().map(bytes).fold(0, u64::saturating_add);
        (total > limit / 4).then_some(total)
    }

    /// The segments of the order, whose guessed bytes are `total`, each with what is to be tried of it.
    pub(crate) fn segments(&self, sizes: &SampleSizes<'_>, total: u64) -> Vec<Segment> {
        let input = self.bytes().max(1);
        let tried = (input / 100).clamp(LEAST, MOST).min(input);
        let pieces = (self.shards.len() as u64 * PIECES_A_SHARD).clamp(PIECES.start, PIECES.end);
        let tables = || self.listing.tables().iter().map(|table| &table.kind);
        let most = if tables().any(|kind| matches!(kind, Items::Samples)) {
            // A piece is a sample at least.
            let samples: u64 = self.order.iter().map(|unit| u64::from(unit.count)).sum();
            (input / ROWS * 2).min(MOST / (input / samples.max(1)).max(1))
        } else if tables().next().is_some() {
            tried / TEXT
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

    /// What lies in each of `wanted`, ranges of guessed bytes that follow each other.
    fn pieces(&self, sizes: &SampleSizes<'_>, wanted: impl Iterator<Item = Range<u64>>) -> Vec<TrialPiece> {
        let mut units = self.order.iter();
        // The unit that is open, and where it starts.
        let (mut open, mut at) = (units.next(), 0u64);
        let take = |(number, range): (usize, Range<u64>)| {
            let mut piece = TrialPiece::default();
            while let Some(unit) = open {
                let size = sizes.row(&self.listing, unit);
                let end = at.saturating_add(size.saturating_mul(unit.count.into()));
                if end > range.start
                    && (at < range.end || piece.entries.is_empty())
                    && let Some((entry, items)) = self.entry(unit, (size, at), &range, number)
                {
                    piece.guess += size * items;
                    piece.entries.push(entry);
                }
                if end >= range.end {
                    break;
                }
                (open, at) = (units.next(), end);
            }
            piece
        };
        wanted.enumerate().map(take).collect()
    }

    /// What `range` has of `unit`, whose items have this size and the first of which starts there, and how many items
    /// that are; `None` where it costs too much to read it on its own.
    fn entry(
        &self,
        unit: &PlanItem,
        (size, at): (u64, u64),
        range: &Range<u64>,
        piece: usize,
    ) -> Option<(PlanEntry, u64)> {
        let (sample, count) = (self.listing.sample(unit.sample as usize)?, u64::from(unit.count));
        let place = |byte: u64| byte.saturating_sub(at).checked_div(size).unwrap_or(0).min(count - 1);
        let (from, to) = (place(range.start), place(range.end - 1) + 1);
        let items = to - from;
        let mut from = unit.from + from;
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
            from = unit.from + (items * (piece % 2) as u64).min(count - items);
        }
        let mut entry = sample.entry(from..from + items);
        if let Some(short) = self.short.get(&unit.sample) {
            entry.key.clone_from(short);
        }
        (entry.bytes() <= LARGE).then_some((entry, items))
    }

    /// Cuts it by what its bytes become. Returns the bytes of the largest shard, as far as they are known now, and the
    /// standard error of that, as a share of it.
    pub(crate) fn cut_again(&mut self, sizes: &SampleSizes<'_>, growth: &Growth) -> (u64, f64) {
        // A shard grows as all of its segments do.
        let error = growth.error / (growth.segments.len() as f64 / self.shards.len() as f64).max(1.0).sqrt();
        let smaller = 1.0 - (ERRORS * error).clamp(LEAST_MARGIN, MOST_MARGIN);
        let room = |most: u64| most.saturating_sub(growth.fixed) as f64 * smaller * sizes.grain as f64;
        let cut = ShardBounds { bytes: self.cut.limit().map(|most| (room(most) as u64).max(1)), ..self.cut };
        let mut cuts = ShardList::default();
        let (mut at, mut largest) = (0, 0);
        for group in self.shards.chunk_by(|a, b| a.split == b.split) {
            let (Some(first), Some(last)) = (group.first(), group.last()) else { continue };
            let units = self.order.get(first.units.start..last.units.end).unwrap_or_default();
            let mut runs = Vec::with_capacity(units.len());
            for unit in units {
                let size = sizes.row(&self.listing, unit);
                growth.runs(SizeRun { size, samples: unit.count.into() }, &mut at, &mut runs);
            }
            let lens = cut.shards(&runs);
            largest = largest.max(largest_of(&runs, &lens));
            cuts.add(&self.listing, (first.split.as_ref(), &self.header.name), units.to_vec(), &lens);
        }
        (self.order, self.shards) = (cuts.order, cuts.shards);
        (growth.fixed + largest / sizes.grain, error)
    }
}

impl Growth {
    /// Appends to `runs` what becomes of `run`, with `at` guessed bytes before it.
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

/// The bytes of the largest shard, where each has so many samples.
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
        /// Each sample is in a run once, and of the size that its segment says.
        #[test]
        fn runs_change_at_the_ends_of_segments(
            units in proptest::collection::vec((0u64..50, 1u64..40), 1..20),
            cuts in proptest::collection::vec((1u64..400, 0.1f64..4.0), 0..6),
        ) {
            let mut end = 0;
            let segments: Vec<(u64, f64)> = cuts.iter().map(|(len, ratio)| { end += len; (end, *ratio) }).collect();
            let growth = Growth { segments: segments.clone(), fixed: 0, error: 0.0 };
            let (mut at, mut runs) = (0, Vec::new());
            units.iter().for_each(|(size, samples)| growth.runs(SizeRun { size: *size, samples: *samples }, &mut at, &mut runs));
            let found: Vec<u64> = runs.iter().flat_map(|run| std::iter::repeat_n(run.size, run.samples as usize)).collect();
            let mut start = 0;
            let mut wanted = Vec::new();
            for (size, samples) in units {
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
