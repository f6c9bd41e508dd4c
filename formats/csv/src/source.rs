//! The source: rows of a table as samples.

use crate::options::Settings;
use crate::row_blocks::RowBlocks;
use crate::row_reader::{RowReader, RowStart};
use crate::scan::ScanCache;
use packhorse_core::{Blocks, Input, Limits, Probe, Result, Source};
use std::ops::Range;
use std::sync::Arc;

/// The source `csv`.
pub(crate) struct CsvSource {
    pub(crate) settings: Settings,
    pub(crate) limits: Limits,
    pub(crate) scans: ScanCache,
}

impl Source for CsvSource {
    /// Scans the whole input: types and the number of rows follow from nothing less.
    fn probe(&self, input: &dyn Input) -> Result<Option<Probe>> {
        let scan = self.scans.of(input, &self.settings, self.limits).map_err(|e| e.in_input(input.name()))?;
        let schema = Arc::clone(&scan.schema);
        Ok(Some(Probe { schema, items: scan.rows, bytes: scan.bytes, counted: true, omitted: Vec::new() }))
    }

    fn rows<'a>(&'a self, input: &'a dyn Input, items: Range<u64>) -> Result<Blocks<'a>> {
        let named = |e: packhorse_core::Error| e.in_input(input.name());
        let scan = self.scans.of(input, &self.settings, self.limits).map_err(named)?;
        let items = items.start.min(scan.rows)..items.end.min(scan.rows);
        let left = items.end.saturating_sub(items.start);
        // A compressed file is read from its header on.
        let place = scan.place(items.start).filter(|_| input.len().is_some());
        let skip = place.map_or(items.start + 1, |place| items.start - place.row);
        let delimiter = self.settings.delimiter(input.name());
        let records =
            RowReader::open(input, place.unwrap_or(RowStart::START), delimiter, self.limits).map_err(named)?;
        Ok(Box::new(RowBlocks { name: input.name(), scan, records, skip: if left > 0 { skip } else { 0 }, left }))
    }
}
