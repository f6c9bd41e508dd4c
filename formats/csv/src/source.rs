//! The source: rows of a table as samples.

use crate::options::Settings;
use crate::row_blocks::RowBlocks;
use crate::row_reader::RowReader;
use crate::scan::TableScan;
use packhorse_core::{Blocks, Input, Limits, Result, RowStart, ScanCache, Source, Table, TableInfo, blocks};
use std::ops::Range;
use std::sync::Arc;

/// The source `csv`.
pub(crate) struct CsvSource {
    pub(crate) settings: Settings,
    pub(crate) limits: Limits,
    pub(crate) scans: ScanCache<Settings, TableScan>,
}

impl Source for CsvSource {
    /// Scans the whole input: types and the number of rows follow from nothing less.
    fn open<'a>(&self, input: Arc<dyn Input + 'a>) -> Result<Box<dyn Table + 'a>> {
        let new = || TableScan::new(&*input, &self.settings, self.limits);
        let scan = self.scans.of(&*input, &self.settings, new).map_err(|e| e.in_input(input.name()))?;
        Ok(Box::new(Csv { input, scan, settings: self.settings.clone(), limits: self.limits }))
    }
}

/// A table and its scan.
struct Csv<'a> {
    input: Arc<dyn Input + 'a>,
    scan: Arc<TableScan>,
    settings: Settings,
    limits: Limits,
}

impl Table for Csv<'_> {
    fn info(&self) -> Result<TableInfo> {
        let TableScan { rows, bytes, .. } = *self.scan;
        let schema = Arc::clone(&self.scan.schema);
        Ok(TableInfo { schema, items: rows, bytes, counted: true, omitted: Vec::new() })
    }

    fn rows(&self, items: Range<u64>) -> Result<Blocks<'_>> {
        let (input, scan) = (&*self.input, &*self.scan);
        let items = items.start.min(scan.rows)..items.end.min(scan.rows);
        let left = items.end.saturating_sub(items.start);
        // A compressed file is read from its header on.
        let place = scan.starts.before(items.start).filter(|_| input.len().is_some());
        // The place of the first row is behind the names, before the lines that are left out.
        let dialect = self.settings.dialect(input.name());
        let place = place.filter(|place| place.row > 0 || dialect.units == 0);
        let skip = place.map_or(items.start, |place| items.start - place.row);
        let records = RowReader::open(input, place.unwrap_or(RowStart::START), dialect, self.limits);
        let mut records = records.map_err(|e| e.in_input(input.name()))?;
        // The line of names is before the first row.
        if place.is_none() && self.settings.header.is_line() {
            records.next().map_err(|e| e.in_input(input.name()))?;
            records.begin_rows();
        }
        let mut rowed =
            RowBlocks { scan, settings: &self.settings, records, skip: if left > 0 { skip } else { 0 }, left };
        Ok(blocks(input.name(), move || rowed.block()))
    }
}
