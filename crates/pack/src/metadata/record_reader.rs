//! What reads tables of text has in common.

use super::{ColumnRequest, plain_records::PlainRecords, records::Records};
use crate::metadata::table_options::Delimiter;
use packhorse_core::{Error, Input, Result};

/// The records of a table, one at a time.
pub(super) trait RecordReader {
    /// The names of the columns. Comes first.
    fn header(&mut self) -> Result<Vec<String>>;

    /// Advances to the next record, which must have as many fields as the first.
    fn next(&mut self) -> Result<bool>;

    /// The line where the current record starts, counted from 1.
    fn line(&self) -> u64;

    /// The bytes of a field of the current record.
    fn field(&self, column: usize) -> &[u8];

    /// The text of a field of the current record.
    fn text(&self, column: usize) -> Result<&str> {
        let text = std::str::from_utf8(self.field(column));
        let message = || format!("field {} isn't UTF-8; convert the file to UTF-8", column + 1);
        text.map_err(|_| self.at(Error::content(message())))
    }

    /// `error`, which concerns the current record.
    fn at(&self, error: Error) -> Error {
        error.context(format_args!("line {}", self.line()))
    }
}

/// The records of `input`, whose columns `delimiter` divides unless the request says otherwise.
pub(super) fn open<'a>(
    input: &'a dyn Input,
    delimiter: &str,
    request: &ColumnRequest<'_>,
) -> Result<Box<dyn RecordReader + 'a>> {
    let delimiter = request.options.delimiter.clone().unwrap_or_else(|| Delimiter::Text(delimiter.to_owned()));
    match (&delimiter, request.options.plain_quotes) {
        (Delimiter::Text(text), false) => {
            let byte = text.bytes().next().unwrap_or(b',');
            Ok(Box::new(Records::open(input.stream()?, byte, request)?))
        }
        _ => Ok(Box::new(PlainRecords::open(input.stream()?, delimiter, request)?)),
    }
}

/// The names of so many columns: the fields of the current record, or numbers if that is a row already.
pub(super) fn names(records: &dyn RecordReader, columns: usize, has_header: bool) -> Result<Vec<String>> {
    match has_header {
        true => (0..columns).map(|column| records.text(column).map(str::to_owned)).collect(),
        false => Ok((1..=columns).map(|column| format!("column{column}")).collect()),
    }
}

/// The error of a table without a line.
pub(super) fn no_header(wanted: bool) -> Error {
    Error::content(match wanted {
        true => "has no header line; its first line must name the columns",
        false => "is empty",
    })
}
