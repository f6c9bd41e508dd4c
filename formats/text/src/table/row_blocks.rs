//! Reads a range of rows as Arrow blocks.

use super::json_column::JsonColumn;
use super::rows::{JsonLine, Lines};
use super::scan::{TableScan, ValuePlace};
use super::walk::{ValueKind, Walk};
use arrow_array::{RecordBatch, RecordBatchOptions};
use packhorse_core::{Error, Kind, Result, Rows};
use std::ops::Range;
use std::sync::Arc;

/// The most rows in a block.
const ROWS: usize = 8192;
/// A block ends after about this many bytes of text.
const BYTES: u64 = 4 << 20;
/// And so that the rows of all columns, with or without values, take about this many bytes of 16 each.
const SLOTS: usize = (64 << 20) / 16;

/// The blocks of a range of rows.
pub(super) struct RowBlocks<'a> {
    pub(super) scan: &'a TableScan,
    pub(super) lines: Lines<'a>,
    /// Rows to skip first.
    pub(super) skip: u64,
    /// Rows not yet delivered.
    pub(super) left: u64,
}

impl RowBlocks<'_> {
    /// The next block.
    pub(super) fn block(&mut self) -> Result<Option<Rows>> {
        for _ in 0..std::mem::take(&mut self.skip) {
            self.lines.next(|_| Ok(()))?.ok_or_else(changed)?;
        }
        if self.left == 0 {
            return Ok(None);
        }
        let scan = self.scan;
        let mut columns: Vec<JsonColumn> = scan.columns.iter().map(|kind| JsonColumn::new(*kind)).collect();
        let mut values = vec![None; columns.len()];
        let (mut rows, from) = (0, self.lines.position());
        let most = ROWS.min(SLOTS / columns.len().max(1)).max(1);
        while rows < most && self.left > 0 && self.lines.position() - from < BYTES {
            self.lines.next(|line| row(scan, &line, &mut values, &mut columns))?.ok_or_else(changed)?;
            rows += 1;
            self.left -= 1;
        }
        let columns = columns.into_iter().zip(scan.schema.fields()).map(|(column, field)| column.finish(field));
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let block =
            RecordBatch::try_new_with_options(Arc::clone(&scan.schema), columns.collect::<Result<_>>()?, &options);
        // A column without nulls in the scan has one now.
        block.map(Some).map_err(|_| changed())
    }
}

/// Appends a line to `columns`; `values` has room for where each value lies in the line.
fn row(
    scan: &TableScan,
    line: &JsonLine<'_>,
    values: &mut [Option<Range<usize>>],
    columns: &mut [JsonColumn],
) -> Result<()> {
    values.fill(None);
    find(&mut Walk::new(line.bytes), &scan.places, values);
    for ((column, value), field) in columns.iter_mut().zip(values).zip(scan.schema.fields()) {
        let value = value.take().and_then(|range| line.bytes.get(range));
        column.push(value).map_err(|e| {
            let name = field.name();
            e.context(format_args!("line {}: the field {name}", line.start.line)).at_row(line.start.row).in_field(name)
        })?;
    }
    Ok(())
}

/// Notes where the values of the next value of `walk` lie. The last of equal names counts.
fn find(walk: &mut Walk<'_>, place: &ValuePlace, values: &mut [Option<Range<usize>>]) {
    match place {
        ValuePlace::Column(at) => {
            let range = walk.pass_range();
            values.iter_mut().skip(*at).take(1).for_each(|value| *value = Some(range.clone()));
        }
        ValuePlace::Object(places) if walk.kind() == ValueKind::Object => {
            places.values().for_each(|place| forget(place, values));
            let _: Result<(), ()> = walk.members(|walk, name| {
                match places.get(&*name) {
                    Some(place) => find(walk, place, values),
                    None => drop(walk.pass()),
                }
                Ok(())
            });
        }
        ValuePlace::Object(places) => {
            places.values().for_each(|place| forget(place, values));
            walk.pass();
        }
    }
}

/// Forgets the values of an earlier object of the same name.
fn forget(place: &ValuePlace, values: &mut [Option<Range<usize>>]) {
    match place {
        ValuePlace::Column(at) => values.iter_mut().skip(*at).take(1).for_each(|value| *value = None),
        ValuePlace::Object(places) => places.values().for_each(|place| forget(place, values)),
    }
}

fn changed() -> Error {
    Error::new(Kind::Changed, "has changed since its rows were counted; don't write to it while it is read")
}
