//! Rows of a table, block by block.

use crate::column::Column;
use crate::records::Records;
use crate::scan::Scan;
use arrow_array::{RecordBatch, RecordBatchOptions};
use packhorse_core::{Error, Result, Rows};
use std::sync::Arc;

/// The most rows of a block.
const ROWS: usize = 8192;
/// About the most bytes of one.
const BYTES: u64 = 4 << 20;

/// The blocks of a range of rows.
pub(crate) struct Rowed<'a> {
    pub(crate) name: &'a str,
    pub(crate) scan: Arc<Scan>,
    pub(crate) records: Records<'a>,
    /// Rows to pass over first.
    pub(crate) skip: u64,
    /// Rows still to come.
    pub(crate) left: u64,
}

impl Rowed<'_> {
    fn block(&mut self) -> Result<Option<Rows>> {
        for _ in 0..std::mem::take(&mut self.skip) {
            self.records.next()?.ok_or_else(changed)?;
        }
        if self.left == 0 {
            return Ok(None);
        }
        let scan = Arc::clone(&self.scan);
        let mut columns: Vec<Column> = scan.columns.iter().map(|(_, kind)| Column::new(*kind)).collect();
        let (mut rows, from) = (0, self.records.bytes());
        while rows < ROWS && self.left > 0 && self.records.bytes() - from < BYTES {
            self.row(&scan, &mut columns)?;
            rows += 1;
            self.left -= 1;
        }
        let arrays = columns.into_iter().map(Column::finish).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let block = RecordBatch::try_new_with_options(Arc::clone(&scan.schema), arrays, &options);
        // A missing value where there was none.
        block.map(Some).map_err(|_| changed())
    }

    fn row(&mut self, scan: &Scan, columns: &mut [Column]) -> Result<()> {
        self.records.next()?.ok_or_else(changed)?;
        let record = self.records.record();
        if record.len() != scan.width {
            return Err(changed());
        }
        for ((place, _), column) in scan.columns.iter().zip(columns) {
            let value = record.get(*place).unwrap_or_default();
            column.push(value).map_err(|e| {
                let name = scan.schema.fields().get(scan.columns.iter().position(|(p, _)| p == place).unwrap_or(0));
                let name = name.map_or("", |field| field.name().as_str());
                self.records.fault(&format!("column {name}: {}", e.message()))
            })?;
        }
        Ok(())
    }
}

fn changed() -> Error {
    Error::new(packhorse_core::Kind::Changed, "is not as it was when its rows were counted; leave it alone meanwhile")
}

impl Iterator for Rowed<'_> {
    type Item = Result<Rows>;

    fn next(&mut self) -> Option<Self::Item> {
        let block = self.block().map_err(|e| e.in_input(self.name)).transpose();
        if !matches!(block, Some(Ok(_))) {
            (self.skip, self.left) = (0, 0);
        }
        block
    }
}
