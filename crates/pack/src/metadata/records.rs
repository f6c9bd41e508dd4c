//! Reads the records of a CSV file, one at a time, with their line numbers. Knows no types and no keys.

use super::ColumnRequest;
use crate::csv_rows::{RowLimit, csv_error};
use csv::{ByteRecord, Reader, ReaderBuilder};
use packhorse_core::{Context, Error, Kind, Result};
use std::cell::Cell;
use std::fs::File;
use std::io::{Chain, Read, Seek, SeekFrom};
use std::rc::Rc;

/// A record appended to the file. If it is read as part of a field, a quote was never closed.
const END: &[u8] = b"\n\x04 the file ended here \x04";
const END_FIELD: &[u8] = b"\x04 the file ended here \x04";

/// The way out where quotes do not enclose fields.
const PLAIN: &str =
    "if quotes are text in it, make a Parquet file of it with `from=csv` and `read=quote=none`, and give that";

/// The records of a file, one at a time.
pub(super) struct Records<'a> {
    reader: Reader<RowLimit<Chain<&'a File, &'static [u8]>>>,
    /// The start of the current record, for the guard.
    start: Rc<Cell<u64>>,
    record: ByteRecord,
    /// The number of columns, once the header is read.
    width: usize,
    /// Where the current record starts, counted from 1.
    line: u64,
    /// Lines the reader counted for the line end of a record: 0 where CR ends it already.
    end: u64,
    /// The line after the current record.
    end_line: u64,
}

impl<'a> Records<'a> {
    /// From the start of `file`.
    pub(super) fn open(mut file: &'a File, delimiter: u8, request: &ColumnRequest<'_>) -> Result<Self> {
        file.seek(SeekFrom::Start(0)).context("seek")?;
        let (guard, start) = RowLimit::new(file.chain(END), delimiter, request.limits.header);
        // Lengths are checked here, where the line is known.
        let reader = ReaderBuilder::new()
            .delimiter(delimiter)
            .has_headers(false)
            .flexible(true)
            .buffer_capacity(1 << 18)
            .from_reader(guard);
        Ok(Self { reader, start, record: ByteRecord::new(), width: 0, line: 0, end: 1, end_line: 1 })
    }

    /// The names of the columns.
    pub(super) fn header(&mut self) -> Result<Vec<String>> {
        if !self.advance()? {
            return Err(Error::content("has no header line; its first line must name the columns"));
        }
        self.width = self.record.len();
        // The reader counts line feeds. After CR LF the count lags by one line, after the header already.
        self.end = self.reader.position().line().saturating_sub(self.line + self.breaks()).min(1);
        (0..self.width).map(|column| self.text(column).map(str::to_owned)).collect()
    }

    /// Advances to the next record, which must have as many fields as the header.
    pub(super) fn next(&mut self) -> Result<bool> {
        let more = self.advance()?;
        let (found, wanted) = (self.record.len(), self.width);
        if more && found != wanted {
            let text = format!("has {found} fields, but the header has {wanted}; put fields with delimiters in quotes");
            return Err(self.at(Kind::Content, &text));
        }
        Ok(more)
    }

    fn advance(&mut self) -> Result<bool> {
        self.start.set(self.reader.position().byte());
        let found = self.reader.read_byte_record(&mut self.record);
        let found = found.map_err(|e| self.failed(e))?;
        let end = self.reader.position().line();
        self.line = end.saturating_sub(self.breaks() + self.end).max(1);
        self.end_line = end + 1 - self.end;
        if found && self.record.len() == 1 && self.field(0) == END_FIELD {
            return Ok(false);
        }
        if !found || self.field(self.record.len().wrapping_sub(1)).ends_with(END_FIELD) {
            // No line end closed this record.
            self.line += self.end;
            let error = self.at(Kind::Content, "a quote that opens here is never closed; close or double it");
            return Err(error.hint(PLAIN));
        }
        if self.reader.get_ref().has_stray_text(self.reader.position().byte()) {
            return Err(self.at(Kind::Content, "has text behind a closing quote").hint(PLAIN));
        }
        Ok(true)
    }

    /// The line where the current record starts, counted from 1.
    pub(super) fn line(&self) -> u64 {
        self.line
    }

    /// Line feeds within the current record.
    fn breaks(&self) -> u64 {
        self.record.as_slice().iter().map(|b| u64::from(*b == b'\n')).sum()
    }

    /// The bytes of a field of the current record.
    pub(super) fn field(&self, column: usize) -> &[u8] {
        self.record.get(column).unwrap_or_default()
    }

    /// The text of a field of the current record.
    pub(super) fn text(&self, column: usize) -> Result<&str> {
        let text = std::str::from_utf8(self.field(column));
        text.map_err(|_| {
            self.at(Kind::Content, &format!("field {} isn't UTF-8; convert the file to UTF-8", column + 1))
        })
    }

    /// An error about the current record.
    pub(super) fn at(&self, kind: Kind, text: &str) -> Error {
        Error::new(kind, format!("line {}: {text}", self.line))
    }

    /// `error`, which concerns the current record.
    pub(super) fn about(&self, error: Error) -> Error {
        error.context(format_args!("line {}", self.line))
    }

    fn failed(&mut self, error: csv::Error) -> Error {
        match csv_error(error) {
            error if error.kind() == Kind::Limit => {
                self.line = self.end_line;
                self.about(error)
            }
            error => error,
        }
    }
}
