//! Rows of CSV files whose length is bounded: a stray quote would make one as long as the file.

use packhorse_core::{Context, Error, Kind, QuoteTracker};
use std::cell::Cell;
use std::io::{self, Read};
use std::rc::Rc;

/// The bytes of a file, up to so many of one row.
pub(crate) struct RowLimit<R> {
    bytes: R,
    read: u64,
    /// Where the current row starts.
    start: Rc<Cell<u64>>,
    limit: u64,
    quotes: QuoteTracker,
}

impl<R: Read> RowLimit<R> {
    /// `bytes`, and the place to tell where each row starts, before it is read.
    pub(crate) fn new(bytes: R, delimiter: u8, limit: u64) -> (Self, Rc<Cell<u64>>) {
        let (start, quotes) = (Rc::new(Cell::new(0)), QuoteTracker::new(delimiter, true));
        (Self { bytes, read: 0, start: Rc::clone(&start), limit, quotes }, start)
    }

    /// Whether text follows a closing quote before `end`.
    pub(crate) fn has_stray_text(&self, end: u64) -> bool {
        self.quotes.stray().is_some_and(|at| at < end)
    }
}

impl<R: Read> Read for RowLimit<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        // A reader reads on only after consuming its buffer, so this is the length of the row so far.
        if self.read.saturating_sub(self.start.get()) > self.limit {
            let text = format!("is over the limit of {} bytes for a row; is there a quote never closed?", self.limit);
            return Err(Error::new(Kind::Limit, text).into());
        }
        let read = self.bytes.read(buf)?;
        self.read += read as u64;
        self.quotes.add(buf.get(..read).unwrap_or_default());
        Ok(read)
    }
}

/// What a reader of CSV says: `Limit` for a row that is too long, errors of the bytes as they are, else `Content`.
pub(crate) fn csv_error(error: csv::Error) -> Error {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => match Err::<(), _>(error).context("read") {
            Err(error) => error,
            Ok(()) => Error::bug("a failed read did not fail"),
        },
        other => Error::content(format!("can't be read as CSV: {other:?}")),
    }
}
