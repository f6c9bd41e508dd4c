//! The parts of a file that are decoded at a time: row groups or, if page locations are known, pieces of row groups.

use crate::footer::{Footer, chunk};
use crate::wave::has_room;
use packhorse_core::{Limits, Result};
use parquet::arrow::arrow_reader::{RowSelection, RowSelector};
use std::ops::Range;
use std::sync::Arc;

/// Row groups are cut into pieces of about this size if their page locations are known.
const PIECE: u64 = 8 << 20;

/// A piece this large is decoded block by block instead of as a whole.
const LONG: u64 = 96 << 20;

/// Consecutive rows of a row group.
#[derive(Clone, Debug)]
pub(crate) struct RowWindow {
    pub(crate) group: usize,
    /// Counted from the start of the row group.
    pub(crate) rows: Range<u64>,
    /// The number of rows of the row group.
    of: u64,
    /// The approximate size in memory.
    pub(crate) bytes: u64,
}

impl RowWindow {
    pub(crate) fn len(&self) -> u64 {
        self.rows.end - self.rows.start
    }

    /// Whether it covers its row group.
    pub(crate) fn is_whole(&self) -> bool {
        self.len() == self.of
    }

    /// Whether it is too large to be decoded as a whole.
    pub(crate) fn is_long(&self, limits: &Limits) -> bool {
        self.bytes > LONG.min(limits.ahead)
    }

    /// The byte ranges that it needs: pages and dictionaries, or whole column chunks if page locations are unknown.
    pub(crate) fn ranges(&self, footer: &Footer) -> Result<Vec<Range<u64>>> {
        let mut ranges = Vec::new();
        for leaf in &footer.leaves {
            let chunk = chunk(&footer.metadata, self.group, *leaf, footer.len)?;
            match footer.pages(self.group, *leaf) {
                Some(pages) if !self.is_whole() => {
                    let first = pages.first().and_then(|page| u64::try_from(page.offset).ok()).unwrap_or(chunk.start);
                    ranges.push(chunk.start..first.max(chunk.start));
                    ranges.extend(self.selection().scan_ranges(pages));
                }
                _ => ranges.push(chunk),
            }
        }
        Ok(ranges)
    }

    /// Its rows, as a selection of the row group.
    pub(crate) fn selection(&self) -> RowSelection {
        let (skip, select) = (self.rows.start as usize, self.len() as usize);
        RowSelection::from(vec![RowSelector::skip(skip), RowSelector::select(select)])
    }
}

/// The windows of a range of rows, in order.
pub(crate) struct RowWindows {
    footer: Arc<Footer>,
    items: Range<u64>,
    limits: Limits,
    group: usize,
    /// The rest of the current row group, and the rows of its pieces.
    rest: Option<(RowWindow, u64)>,
    /// A long window that the last wave had no room for; it comes before the rest.
    held: Option<RowWindow>,
}

impl RowWindows {
    pub(crate) fn new(footer: Arc<Footer>, items: Range<u64>, limits: Limits) -> Self {
        let group = footer.starts.partition_point(|start| *start <= items.start).saturating_sub(1);
        Self { footer, items, limits, group, rest: None, held: None }
    }

    /// The next windows to decode in parallel; empty at the end. A long window comes alone.
    pub(crate) fn wave(&mut self) -> Vec<RowWindow> {
        let (mut wave, mut bytes) = (Vec::new(), 0u64);
        while has_room(wave.len(), bytes, &self.limits) {
            let Some(window) = self.next() else { break };
            if window.is_long(&self.limits) && !wave.is_empty() {
                self.held = Some(window);
                break;
            }
            bytes = bytes.saturating_add(window.bytes);
            let long = window.is_long(&self.limits);
            wave.push(window);
            if long {
                break;
            }
        }
        wave
    }

    fn next(&mut self) -> Option<RowWindow> {
        if let Some(held) = self.held.take() {
            return Some(held);
        }
        loop {
            if let Some((rest, size)) = self.rest.take() {
                let end = rest.rows.start.saturating_add(size).min(rest.rows.end);
                let share =
                    |rows: u64| (u128::from(rest.bytes) * u128::from(rows) / u128::from(rest.len().max(1))) as u64;
                let window = RowWindow { rows: rest.rows.start..end, bytes: share(end - rest.rows.start), ..rest };
                if end < rest.rows.end {
                    let bytes = rest.bytes - window.bytes;
                    self.rest = Some((RowWindow { rows: end..rest.rows.end, bytes, ..rest }, size));
                }
                return Some(window);
            }
            self.rest = Some(self.next_group()?);
        }
    }

    /// The next row group with requested rows.
    fn next_group(&mut self) -> Option<(RowWindow, u64)> {
        loop {
            let group = self.group;
            let (start, end) = (*self.footer.starts.get(group)?, *self.footer.starts.get(group + 1)?);
            let (from, to) = (self.items.start.max(start), self.items.end.min(end));
            if self.items.end <= start {
                return None;
            }
            self.group += 1;
            if from >= to {
                continue;
            }
            let of = end - start;
            let share = |all: u64| (u128::from(all) * u128::from(to - from) / u128::from(of)) as u64;
            let known = self.footer.leaves.iter().all(|leaf| self.footer.pages(group, *leaf).is_some());
            // By the size in the file: smaller pieces would decode the same page several times.
            let pieces = if known { share(self.footer.bytes(group)).div_ceil(PIECE).max(1) } else { 1 };
            let bytes = share(self.footer.decoded(group));
            let window = RowWindow { group, rows: from - start..to - start, of, bytes };
            return Some((window, (to - from).div_ceil(pieces).max(1)));
        }
    }
}
