//! The items that a plan puts in order: samples, and runs of rows of table inputs. Pure.

use super::Shuffle;
use super::shuffle::{order, permutation};
use crate::sample_order::SampleOrder;
use crate::scan::{Listing, SampleRef};
use packhorse_core::{Error, Kind, Result};
use std::ops::Range;

/// A sample, or consecutive rows of one table input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PlanItem {
    /// The entry of the listing.
    pub(super) sample: u32,
    /// The number of rows.
    pub(super) count: u32,
    /// The first row, in the input.
    pub(super) from: u64,
}

/// The bytes of a run without a given block size: enough to be worth a seek…
const RUN_BYTES: u64 = 4 << 20;
/// …and the most samples of a run.
const RUN_SAMPLES: u64 = 1 << 16;
/// The runs of a small table, as far as it has rows: in fewer it would hardly be shuffled.
const RUNS: u64 = 64;

/// For splits a table is cut into at least so many pieces, as far as it has rows: splits by hash of fewer would miss their shares…
const PIECES: u64 = 1024;
/// …and all tables together into about so many at most.
const MOST_PIECES: u64 = 4096 * PIECES;

/// All samples in the order of `shuffle`.
///
/// Rows of tables are shuffled in runs, since reading them one by one would decode the same blocks again and again.
/// `apart` cuts runs into pieces, with and without a shuffle, for splits. More than `many` inputs have the order of a
/// [`SampleOrder`].
///
/// Errors: `Limit` for more groups of rows than a shuffle numbers.
pub(super) fn ordered_items(listing: &Listing, shuffle: Shuffle, apart: bool, many: usize) -> Result<Vec<PlanItem>> {
    if listing.tables().is_empty() {
        let single = |sample| PlanItem { sample, count: 1, from: 0 };
        let order = match shuffle {
            Shuffle::No => listing.natural_order(),
            Shuffle::Global { seed } if listing.inputs() > many as u64 => listing.in_order(SampleOrder(Some(seed))),
            _ => order(listing.samples() as u32, shuffle),
        };
        return Ok(order.into_iter().map(single).collect());
    }
    let most_pieces = (MOST_PIECES / listing.tables().len() as u64).clamp(1, PIECES);
    let chop = apart || shuffle != Shuffle::No;
    let mut items = Vec::new();
    // The ends of the groups that stay together.
    let mut ends = Vec::new();
    let mut loose = 0;
    let all = listing.runs(shuffle == Shuffle::No);
    for (i, ranges, sample) in all.into_iter().filter_map(|(i, ranges)| Some((i, ranges, listing.sample(i as usize)?)))
    {
        let run = match (apart && sample.by_position(), chop) {
            // Each document may be in a split of its own.
            (true, _) => 1,
            (false, true) => run_len(&sample, shuffle),
            (false, false) => u64::from(u32::MAX),
        };
        let group = if apart && sample.by_position() { run_len(&sample, shuffle) } else { run };
        let most = if apart { (sample.items() / most_pieces).clamp(1, run) } else { run };
        let mut pieces = pieces(&ranges, run, most).peekable();
        while let Some((from, count)) = pieces.next() {
            items.push(PlanItem { sample: i, count, from });
            let full = match shuffle {
                Shuffle::Blocks { size, .. } if sample.table().is_none() => loose + 1 >= size,
                // Rows that are read together stay together.
                _ => pieces.peek().is_none_or(|(next, _)| next / group != from / group),
            };
            loose = if full { 0 } else { loose + 1 };
            if full {
                ends.push(items.len());
            }
        }
    }
    ends.extend((loose > 0).then_some(items.len()));
    match shuffle {
        Shuffle::No => Ok(items),
        Shuffle::Global { seed } | Shuffle::Blocks { seed, .. } => permuted(&items, &ends, seed),
    }
}

/// Ranges of rows, cut at the multiples of `run`, and these where they have more than `most` rows: first row and number of each
/// piece.
fn pieces(ranges: &[Range<u64>], run: u64, most: u64) -> impl Iterator<Item = (u64, u32)> {
    ranges.iter().flat_map(move |range| {
        let mut from = range.start;
        std::iter::from_fn(move || {
            let begin = from / run * run;
            let end = begin.saturating_add(((from - begin) / most).saturating_add(1).saturating_mul(most).min(run));
            let end = end.min(range.end);
            let piece = (from, u32::try_from(end.checked_sub(from)?).unwrap_or(u32::MAX));
            from = end;
            (piece.1 > 0).then_some(piece)
        })
    })
}

fn run_len(sample: &SampleRef<'_>, shuffle: Shuffle) -> u64 {
    match shuffle {
        Shuffle::Blocks { size, .. } => u64::from(size),
        _ => {
            let one = sample.bytes() / sample.items().max(1);
            let most = if sample.counted() { RUN_SAMPLES } else { RUN_BYTES };
            let run = (RUN_BYTES / one.max(1)).clamp(1, most);
            // Compressed text is cut where its frames begin.
            let framed = sample.table().is_some_and(|table| table.frames.is_some());
            if framed { run } else { run.min(sample.items() / RUNS).max(1) }
        }
    }
}

fn permuted(items: &[PlanItem], ends: &[usize], seed: u64) -> Result<Vec<PlanItem>> {
    let many = |_| Error::new(Kind::Limit, "more than 4 billion groups of rows to shuffle; use larger blocks");
    let groups = u32::try_from(ends.len()).map_err(many)?;
    let group = |i: u32| {
        let i = i as usize;
        let from = i.checked_sub(1).and_then(|before| ends.get(before)).copied().unwrap_or(0);
        items.get(from..ends.get(i).copied().unwrap_or(items.len())).unwrap_or_default()
    };
    Ok(permutation(groups, seed).into_iter().flat_map(group).copied().collect())
}

/// The first `limit` samples.
pub(super) fn truncate(items: &mut Vec<PlanItem>, limit: u64) {
    let mut left = limit;
    items.retain_mut(|item| {
        item.count = u64::from(item.count).min(left) as u32;
        left -= u64::from(item.count);
        item.count > 0
    });
}

/// Divides items into parts with these numbers of samples; adjacent rows of one input become one item.
pub(super) fn parts(items: Vec<PlanItem>, lens: &[u64]) -> impl Iterator<Item = Vec<PlanItem>> {
    let mut rest = items.into_iter();
    let mut open: Option<PlanItem> = None;
    let part = move |len: &u64| {
        let (mut left, mut part) = (*len, Vec::new());
        while left > 0 {
            let Some(mut item) = open.take().or_else(|| rest.next()) else { break };
            let taken = u64::from(item.count).min(left) as u32;
            push(&mut part, PlanItem { count: taken, ..item });
            left -= u64::from(taken);
            item.from += u64::from(taken);
            item.count -= taken;
            open = (item.count > 0).then_some(item);
        }
        part
    };
    lens.iter().map(part)
}

fn push(part: &mut Vec<PlanItem>, item: PlanItem) {
    match part.last_mut() {
        Some(last) if last.sample == item.sample && last.from + u64::from(last.count) == item.from => {
            match last.count.checked_add(item.count) {
                Some(count) => last.count = count,
                None => part.push(item),
            }
        }
        _ => part.push(item),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn pieces_hold_all_rows_and_cross_no_multiple(
            ranges in proptest::collection::vec((0u64..1000, 0u64..100), 0..20),
            run in 1u64..50,
            most in 1u64..50,
        ) {
            let most = most.min(run);
            let ranges: Vec<_> = ranges.into_iter().map(|(from, len)| from..from + len).collect();
            let pieces: Vec<_> = pieces(&ranges, run, most).collect();
            prop_assert!(pieces.iter().all(|(from, n)| *n > 0 && from / run == (from + u64::from(*n) - 1) / run));
            prop_assert!(pieces.iter().all(|(_, n)| u64::from(*n) <= most));
            let rows: Vec<u64> = pieces.iter().flat_map(|(from, n)| *from..from + u64::from(*n)).collect();
            prop_assert_eq!(rows, ranges.into_iter().flatten().collect::<Vec<_>>());
        }

        #[test]
        fn every_sample_is_in_one_part(
            runs in proptest::collection::vec(1u32..40, 1..10),
            lens in proptest::collection::vec(1u64..30, 1..40),
        ) {
            let items: Vec<PlanItem> =
                runs.iter().enumerate().map(|(i, count)| PlanItem { sample: i as u32, count: *count, from: 0 }).collect();
            let samples = |items: &[PlanItem]| -> Vec<(u32, u64)> {
                items.iter().flat_map(|u| (0..u64::from(u.count)).map(|i| (u.sample, u.from + i))).collect()
            };
            let parts: Vec<_> = parts(items.clone(), &lens).collect();
            let mut wanted = samples(&items);
            wanted.truncate(lens.iter().sum::<u64>() as usize);
            prop_assert_eq!(samples(&parts.concat()), wanted.clone());
            let mut first = items;
            truncate(&mut first, wanted.len() as u64);
            prop_assert_eq!(samples(&first), wanted);
        }
    }
}
