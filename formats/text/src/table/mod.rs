//! Tables of JSON lines. Each line is a sample, and each of its fields a column.
//!
//! * **Specification**: [JSON Lines](https://jsonlines.org) of objects, as Python's `json.loads` takes them: see
//!   [`Text`](crate::Text). (Not `arrow-json`: it infers a double where an integer has more than 63 bits, takes neither `NaN` nor a
//!   list beside a number, and its errors don't name the line.)
//! * **Who else reads it**: pandas (`lines=True`), pyarrow, polars, DuckDB, Hugging Face datasets.
//! * **The bytes**:
//!
//!   ```text
//!   [EF BB BF]                        a byte order mark, skipped at the start of a file only
//!   {"name": value, …} [CR] LF        one object per line; blank lines are skipped
//!   ```
//!
//! * **Types** are inferred for each field over the whole file: the first type that fits all values. A field that lines lack is null
//!   there, as `null` is.
//!
//!   | type | values |
//!   | --- | --- |
//!   | `bool` | `true`, `false` |
//!   | `int64` | integers that fit |
//!   | `uint64` | integers from 0 that fit, where `int64` is too short |
//!   | `float64` | numbers, `NaN`, `Infinity`; an integer only if a double represents it exactly |
//!   | `text` | strings |
//!   | `list<…>` | lists, also inside each other, of one of these types, without nulls |
//!   | fields `a.b` | objects, each null where the object is |
//!   | `json` | anything else: the text of the value as it is written |
//!
//!   `json` are lists of objects, lists with nulls, lists that are all empty, a field of several types, objects of more than 1,000
//!   names in all lines or nested more than 32 deep; the metadata [`LOGICAL`](packhorse_core::LOGICAL) says so. Inference never rounds an
//!   integer. A field that is null in all lines is left out, and is null where other inputs have it. Of equal names in a line the last
//!   counts.
//! * **Items** are lines. One scan of the whole file finds the types, the number of lines and the offset of a line in each megabyte; a
//!   range is then read from the nearest of these offsets. A compressed file is read from its start for each range.
//! * **Options**: `schema`, types that replace the inferred ones (`id:text,scores:list<float64>,meta:json`).
//! * **Errors** name the line: invalid JSON, a string with half of a surrogate pair, a value that is not of the type in
//!   `schema`, two fields of one name (`a.b`, and `b` in `a`).
//! * **Memory**: a block of rows, the longest line ([`Limits::blob`]), the names of the fields (at most 100,000), and 24 bytes for each
//!   megabyte of the file.
//! * **Revisions**: 1, the first.

mod column_type;
mod inference;
mod json_column;
mod json_types;
mod row_blocks;
mod rows;
mod scan;
mod walk;

use packhorse_core::{
    Blocks, Format, FormatInfo, Input, Limits, Options, Result, RowStart, ScanCache, Source, Table, TableInfo, blocks,
};
use std::ops::Range;
use std::sync::Arc;

/// The deepest nesting of lists, or of objects, whose values are columns.
const DEPTH: usize = 32;

/// The most names in an object whose values are columns.
const NAMES: usize = 1000;

/// The most names in the lines of a file.
const MOST_NAMES: usize = 100_000;

/// The format `jsonl`.
#[derive(Clone, Debug, Default)]
pub struct JsonLines {
    scans: ScanCache<json_types::JsonTypes, scan::TableScan>,
}

static INFO: FormatInfo = FormatInfo { id: "jsonl", revision: 1, extensions: &["jsonl", "ndjson"], fields: &[] };

impl Format for JsonLines {
    fn info(&self) -> &'static FormatInfo {
        &INFO
    }

    fn source(&self, options: &Options, limits: Limits) -> Result<Box<dyn Source>> {
        let settings = json_types::JsonTypes::parse(options)?;
        Ok(Box::new(JsonSource { settings, limits, scans: self.scans.clone() }))
    }
}

struct JsonSource {
    settings: json_types::JsonTypes,
    limits: Limits,
    scans: ScanCache<json_types::JsonTypes, scan::TableScan>,
}

impl Source for JsonSource {
    /// Scans the whole input: types and the number of lines follow from nothing less.
    fn open<'a>(&self, input: Arc<dyn Input + 'a>) -> Result<Box<dyn Table + 'a>> {
        let new = || scan::TableScan::new(&*input, &self.settings, self.limits);
        let scan = self.scans.of(&*input, &self.settings, new).map_err(|e| e.in_input(input.name()))?;
        Ok(Box::new(JsonTable { input, scan, limits: self.limits }))
    }
}

/// A table and its scan.
struct JsonTable<'a> {
    input: Arc<dyn Input + 'a>,
    scan: Arc<scan::TableScan>,
    limits: Limits,
}

impl Table for JsonTable<'_> {
    fn info(&self) -> Result<TableInfo> {
        let scan::TableScan { rows, bytes, .. } = *self.scan;
        let (schema, omitted) = (Arc::clone(&self.scan.schema), self.scan.omitted.clone());
        Ok(TableInfo { schema, items: rows, bytes, counted: true, omitted })
    }

    fn rows(&self, items: Range<u64>) -> Result<Blocks<'_>> {
        let (input, scan) = (&*self.input, &*self.scan);
        let items = items.start.min(scan.rows)..items.end.min(scan.rows);
        let left = items.end.saturating_sub(items.start);
        // A compressed file is read from its first line on.
        let start = scan.starts.before(items.start).filter(|_| input.len().is_some()).unwrap_or(RowStart::START);
        let skip = if left > 0 { items.start - start.row } else { 0 };
        let lines = rows::Lines::open(input, start, self.limits).map_err(|e| e.in_input(input.name()))?;
        let mut rowed = row_blocks::RowBlocks { scan, lines, skip, left };
        Ok(blocks(input.name(), move || rowed.block()))
    }
}
