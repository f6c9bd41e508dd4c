//! Reads the records of a CSV file, one at a time, with their line numbers. Knows no types and no keys.

use super::ColumnRequest;
use super::record_reader::{RecordReader, names, no_header};
use crate::csv_rows::{RowLimit, csv_error};
use csv::{ByteRecord, Reader, ReaderBuilder};
use packhorse_core::{Context, Error, Kind, Result, counted};
use std::cell::Cell;
use std::io::{BufRead, BufReader, Chain, Read};
use std::rc::Rc;

/// A record appended to the file. If it is read as part of a field, a quote was never closed.
const END: &[u8] = b"\n\x04\x04\x04\x04\x04\x04\x04\x04\x04\x04\x04\x04";
const END_FIELD: &[u8] = b"\x04\x04\x04\x04\x04\x04\x04\x04\x04\x04\x04\x04";

/// The way out where quotes do not enclose fields.
const PLAIN: &str = "if quotes are text in it, pass `metadata-read=quote=none`";
/// The same for tables that are joined.
const PLAIN_JOINED: &str =
    "if quotes are text in it, make a Parquet file of it with `from=csv` and `read=quote=none`, and give that";

/// The records of a file, one at a time.
pub(super) struct Records<'a> {
    reader: Reader<RowLimit<Chain<Bytes<'a>, &'static [u8]>>>,
    /// The start of the current record, for the guard.
    start: Rc<Cell<u64>>,
    record: ByteRecord,
    /// The number of columns, once the header is read.
    width: usize,
    has_header: bool,
    /// What to do where quotes do not enclose fields.
    plain: &'static str,
    /// The delimiter, if settings may give another.
    delimiter: Option<u8>,
    /// Whether the current record, the first one, is still to be given.
    again: bool,
    /// Lines before the table.
    skipped: u64,
    /// Where the current record starts, counted from 1.
    line: u64,
    /// Lines the reader counted for the line end of a record: 0 where CR ends it already.
    end: u64,
    /// The line after the current record.
    end_line: u64,
}

type Bytes<'a> = BufReader<Box<dyn Read + Send + 'a>>;

impl<'a> Records<'a> {
    /// From the start of the file.
    pub(super) fn open(bytes: Box<dyn Read + Send + 'a>, delimiter: u8, request: &ColumnRequest<'_>) -> Result<Self> {
        let (mut bytes, skipped) = (BufReader::new(bytes), request.options.skip);
        for _ in 0..skipped {
            bytes.skip_until(b'\n').context("read")?;
        }
        let (guard, start) = RowLimit::new(bytes.chain(END), delimiter, request.limits.header);
        // Lengths are checked here, where the line is known.
        let reader = ReaderBuilder::new()
            .delimiter(delimiter)
            .has_headers(false)
            .flexible(true)
            .buffer_capacity(1 << 18)
            .from_reader(guard);
        let (record, has_header) = (ByteRecord::new(), !request.options.no_header);
        let plain = if request.is_metadata { PLAIN } else { PLAIN_JOINED };
        let delimiter = (request.is_metadata && delimiter.is_ascii_graphic()).then_some(delimiter);
        Ok(Self {
            reader,
            start,
            record,
            width: 0,
            has_header,
            plain,
            delimiter,
            again: false,
            skipped,
            line: 0,
            end: 1,
            end_line: 1,
        })
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
            let error = self.at(Error::content("a quote that opens here is never closed; close or double it"));
            return Err(error.hint(self.plain));
        }
        if self.reader.get_ref().has_stray_text(self.reader.position().byte()) {
            return Err(self.at(Error::content("has text behind a closing quote")).hint(self.plain));
        }
        Ok(true)
    }

    /// What to do where quotes follow spaces.
    fn late(&self) -> String {
        let quotes = "quotes enclose a field only right behind the delimiter";
        match self.delimiter.map(char::from) {
            Some(delimiter) => format!(
                "{quotes}, and here a space is before them: `metadata-read=delimiter={delimiter} `, with the space, divides such a \
                 table, whose quotes are then text"
            ),
            None => format!("{quotes}, and here a space is before them"),
        }
    }

    /// Line feeds within the current record.
    fn breaks(&self) -> u64 {
        self.record.as_slice().iter().map(|b| u64::from(*b == b'\n')).sum()
    }

    fn failed(&mut self, error: csv::Error) -> Error {
        match csv_error(error) {
            error if error.kind() == Kind::Limit => {
                self.line = self.end_line;
                self.at(error)
            }
            error => error,
        }
    }
}

impl RecordReader for Records<'_> {
    fn header(&mut self) -> Result<Vec<String>> {
        if !self.advance()? {
            return Err(no_header(self.has_header));
        }
        self.width = self.record.len();
        // The reader counts line feeds. After CR LF the count lags by one line, after the header already.
        self.end = self.reader.position().line().saturating_sub(self.line + self.breaks()).min(1);
        self.again = !self.has_header;
        names(self, self.width, self.has_header)
    }

    fn next(&mut self) -> Result<bool> {
        if std::mem::take(&mut self.again) {
            return Ok(true);
        }
        let more = self.advance()?;
        match (self.record.len(), self.width) {
            (found, wanted) if more && found != wanted => {
                let first = if self.has_header { "the header" } else { "the first line" };
                let found = counted(found as u64, "field");
                let message = format!("has {found}, but {first} has {wanted}; put fields with delimiters in quotes");
                let error = self.at(Error::content(message));
                let is_late = |field: &[u8]| field.starts_with(b" ") && field.trim_ascii_start().starts_with(b"\"");
                Err(if self.record.iter().any(is_late) { error.hint(self.late()) } else { error })
            }
            _ => Ok(more),
        }
    }

    fn line(&self) -> u64 {
        self.line + self.skipped
    }

    fn field(&self, column: usize) -> &[u8] {
        self.record.get(column).unwrap_or_default()
    }
}
