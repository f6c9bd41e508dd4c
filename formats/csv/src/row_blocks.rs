//! Reads a range of rows as Arrow blocks.

use crate::column_builder::ColumnBuilder;
use crate::column_type::ColumnType;
use crate::options::Settings;
use crate::row_reader::RowReader;
use crate::scan::TableScan;
use arrow_array::{RecordBatch, RecordBatchOptions};
use packhorse_core::{Error, KEY, Result, Rows};
use std::sync::Arc;

/// The most rows in a block.
const ROWS: usize = 8192;
/// A block ends after about this many bytes of text.
const BYTES: u64 = 4 << 20;

/// The blocks of a range of rows.
pub(crate) struct RowBlocks<'a> {
    pub(crate) scan: &'a TableScan,
    pub(crate) settings: &'a Settings,
    pub(crate) records: RowReader<'a>,
    /// Rows to skip first.
    pub(crate) skip: u64,
    /// Rows not yet delivered.
    pub(crate) left: u64,
}

impl RowBlocks<'_> {
    /// The next block.
    pub(crate) fn block(&mut self) -> Result<Option<Rows>> {
        for _ in 0..std::mem::take(&mut self.skip) {
            self.records.next()?.ok_or_else(changed)?;
        }
        if self.left == 0 {
            return Ok(None);
        }
        let scan = self.scan;
        let mean = (scan.bytes / scan.rows.max(1)).max(1);
        let room = usize::try_from((BYTES / mean + 1).min(self.left)).map_or(ROWS, |rows| rows.min(ROWS));
        let new = |(_, kind): &(usize, ColumnType)| ColumnBuilder::new(*kind, room, self.settings.decimal_comma);
        let mut columns: Vec<ColumnBuilder> = scan.columns.iter().map(new).collect();
        let (mut rows, from) = (0, self.records.bytes());
        while rows < ROWS && self.left > 0 && self.records.bytes() - from < BYTES {
            self.row(scan, &mut columns)?;
            rows += 1;
            self.left -= 1;
        }
        let arrays = columns.into_iter().map(ColumnBuilder::finish).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let block = RecordBatch::try_new_with_options(Arc::clone(&scan.schema), arrays, &options);
        // A column without missing values in the scan has one now.
        block.map(Some).map_err(|_| changed())
    }

    fn row(&mut self, scan: &TableScan, columns: &mut [ColumnBuilder]) -> Result<()> {
        self.records.next()?.ok_or_else(changed)?;
        let record = self.records.record();
        if record.len() != scan.width {
            return Err(changed());
        }
        for (((place, _), column), field) in scan.columns.iter().zip(columns).zip(scan.schema.fields()) {
            let value = record.get(*place).unwrap_or_default();
            let value = if field.name() == KEY { value } else { self.settings.given(value) };
            column.push(value).map_err(|e| {
                let name = field.name();
                self.records.about(e.context(format_args!("column {name}")).in_field(name))
            })?;
        }
        Ok(())
    }
}

fn changed() -> Error {
    Error::new(
        packhorse_core::Kind::Changed,
        "has changed since its rows were counted; don't write to it while it is read",
    )
}
