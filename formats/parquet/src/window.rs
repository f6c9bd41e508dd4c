//! Which parts of a file are decoded at a time: row groups, or where their pages are known, pieces of them.

use crate::footer::{Footer, chunk};
use crate::index::pages;
use crate::wave::has_room;
use packhorse_core::{Limits, Result};
use parquet::arrow::arrow_reader::{RowSelection, RowSelector};
use std::ops::Range;
use std::sync::Arc;

/// Row groups are cut into pieces of about this size, where their pages are known.
const PIECE: u64 = 8 << 20;

/// A piece this large is decoded block by block instead of as a whole.
const LONG: u64 = 96 << 20;

/// Consecutive rows of a row group.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    pub(crate) group: usize,
    /// Counted in the row group.
    pub(crate) rows: Range<u64>,
    /// The rows of the row group.
    of: u64,
    /// About how large they are, unpacked.
    pub(crate) bytes: u64,
}

impl Window {
    pub(crate) fn len(&self) -> u64 {
        self.rows.end - self.rows.start
    }

    /// Whether it is all of its row group.
    pub(crate) fn is_whole(&self) -> bool {
        self.len() == self.of
    }

    /// Whether it is too large to be held as a whole.
    pub(crate) fn is_long(&self, limits: &Limits) -> bool {
        self.bytes > LONG.min(limits.ahead)
    }

    /// The bytes of the file that it needs: pages and dictionaries, or whole columns where pages aren't known.
    pub(crate) fn ranges(&self, footer: &Footer) -> Result<Vec<Range<u64>>> {
        let mut ranges = Vec::new();
        for leaf in &footer.leaves {
            let chunk = chunk(&footer.metadata, self.group, *leaf, footer.len)?;
            match pages(&footer.metadata, self.group, *leaf) {
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

    /// Its rows, among those of the row group.
    pub(crate) fn selection(&self) -> RowSelection {
        let (skip, select) = (self.rows.start as usize, self.len() as usize);
        RowSelection::from(vec![RowSelector::skip(skip), RowSelector::select(select)])
    }
}

/// The windows of a range of rows, in order.
pub(crate) struct Windows {
    footer: Arc<Footer>,
    items: Range<u64>,
    limits: Limits,
    group: usize,
    /// What is left of the row group, and the size of its pieces in rows.
    rest: Option<(Window, u64)>,
}

impl Windows {
    pub(crate) fn new(footer: Arc<Footer>, items: Range<u64>, limits: Limits) -> Self {
        let group = footer.starts.partition_point(|start| *start <= items.start).saturating_sub(1);
        Self { footer, items, limits, group, rest: None }
    }

    /// The windows to be decoded side by side next; none at the end. One that is long comes alone.
    pub(crate) fn wave(&mut self) -> Vec<Window> {
        let (mut wave, mut bytes) = (Vec::new(), 0u64);
        while has_room(wave.len(), bytes, &self.limits) {
            let Some(window) = self.next() else { break };
            if window.is_long(&self.limits) && !wave.is_empty() {
                self.rest = Some((window, u64::MAX));
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

    fn next(&mut self) -> Option<Window> {
        loop {
            if let Some((rest, size)) = self.rest.take() {
                let end = rest.rows.start.saturating_add(size).min(rest.rows.end);
                let share =
                    |rows: u64| (u128::from(rest.bytes) * u128::from(rows) / u128::from(rest.len().max(1))) as u64;
                let window = Window { rows: rest.rows.start..end, bytes: share(end - rest.rows.start), ..rest };
                if end < rest.rows.end {
                    let bytes = rest.bytes - window.bytes;
                    self.rest = Some((Window { rows: end..rest.rows.end, bytes, ..rest }, size));
                }
                return Some(window);
            }
            self.rest = Some(self.next_group()?);
        }
    }

    /// The next row group that has wanted rows.
    fn next_group(&mut self) -> Option<(Window, u64)> {
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
            let (of, all) = (end - start, self.footer.bytes(group));
            let bytes = (u128::from(all) * u128::from(to - from) / u128::from(of)) as u64;
            let known = self.footer.leaves.iter().all(|leaf| pages(&self.footer.metadata, group, *leaf).is_some());
            let pieces = if known { bytes.div_ceil(PIECE).max(1) } else { 1 };
            let window = Window { group, rows: from - start..to - start, of, bytes };
            return Some((window, (to - from).div_ceil(pieces).max(1)));
        }
    }
}
