//! Reads the lines of a table in order, each checked.

use crate::byte_reader::ByteReader;
use crate::document_error::{DocumentError, utf8};
use crate::json;
use crate::line_reader::LineReader;
use crate::record::invalid_json;
use packhorse_core::{Error, Input, Limits, Result, RowStart};

/// A line that is an object of valid JSON.
pub(super) struct JsonLine<'a> {
    pub(super) start: RowStart,
    pub(super) bytes: &'a [u8],
}

/// Reads lines from a given start.
pub(super) struct Lines<'a> {
    reader: LineReader<'a>,
    next: RowStart,
    limit: u64,
}

impl<'a> Lines<'a> {
    /// Starts at `start`, the start of a line. An input of unknown length is read from its first one.
    pub(super) fn open(input: &'a dyn Input, start: RowStart, limits: Limits) -> Result<Self> {
        // The length in a view array is an i32.
        let limit = limits.blob.min(i32::MAX.unsigned_abs().into());
        let (feed, next) = match input.len() {
            Some(len) => (ByteReader::at(input, start.byte..len, len), start),
            None => (ByteReader::stream(input)?, RowStart::START),
        };
        Ok(Self { reader: LineReader::new(feed, next.byte, limit), next, limit })
    }

    /// The offset of the next line.
    pub(super) fn position(&self) -> u64 {
        self.reader.position()
    }

    /// Calls `take` with the next line that is not blank; `None` at the end.
    ///
    /// Errors: those of `take`; a line that is not an object of valid JSON, with its number.
    pub(super) fn next<T>(&mut self, take: impl FnOnce(JsonLine<'_>) -> Result<T>) -> Result<Option<T>> {
        loop {
            let start = RowStart { byte: self.reader.position(), ..self.next };
            let Some(line) = self.reader.line()? else { return Ok(None) };
            self.next.line += 1;
            if line.blank {
                continue;
            }
            self.next.row += 1;
            let from = line.from;
            let bytes = match line.bytes {
                Some(bytes) => checked(bytes),
                None => Err(DocumentError::limit(self.limit)),
            };
            let bytes = bytes.map_err(|fault| {
                let (line, byte) = (start.line, from + fault.at as u64);
                Error::new(fault.kind, format!("line {line}, byte {byte}: {}", fault.message)).at_row(start.row)
            })?;
            return take(JsonLine { start, bytes }).map(Some);
        }
    }
}

/// A line, if it is an object of valid JSON.
fn checked(line: &[u8]) -> Result<&[u8], DocumentError> {
    json::read(line, &mut [], &mut Vec::new()).map_err(|fault| invalid_json(line, &fault))?;
    utf8(line).map(str::as_bytes)
}
