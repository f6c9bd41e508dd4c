//! The lines of a table, one after the other.

use crate::quotes::Quotes;
use csv::{ByteRecord, ReaderBuilder};
use packhorse_core::{Error, Input, Kind, Limits, Result};
use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How much is read at a time.
const PIECE: usize = 256 << 10;

/// Where a line begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The row, counted from the first behind the header.
    pub(crate) row: u64,
    pub(crate) byte: u64,
    pub(crate) line: u64,
}

impl Place {
    /// The start of the file, where the header stands.
    pub(crate) const START: Self = Self { row: 0, byte: 0, line: 1 };
}

/// The lines from a place on.
pub(crate) struct Records<'a> {
    reader: csv::Reader<Bytes<'a>>,
    record: ByteRecord,
    start: Place,
    /// Lines taken.
    taken: u64,
    budget: Arc<AtomicU64>,
    limit: u64,
}

impl<'a> Records<'a> {
    /// Begins at `place`, which is that of a line.
    pub(crate) fn open(input: &'a dyn Input, place: Place, delimiter: u8, limits: Limits) -> Result<Self> {
        let from = match input.len() {
            Some(len) => From::Ranges { input, at: place.byte, len },
            None if place == Place::START => From::Stream(input.stream()?),
            None => return Err(Error::bug("a compressed table is read from its start")),
        };
        let limit = limits.blob;
        let budget = Arc::new(AtomicU64::new(limit));
        let quotes = Quotes::new(delimiter, place.byte == 0);
        let bytes = Bytes { from, quotes, budget: Arc::clone(&budget) };
        let mut builder = ReaderBuilder::new();
        builder.delimiter(delimiter).has_headers(false).flexible(true).buffer_capacity(PIECE);
        let reader = builder.from_reader(bytes);
        Ok(Self { reader, record: ByteRecord::new(), start: place, taken: 0, budget, limit })
    }

    /// The next line; `None` at the end. Quotes that don't end are an error.
    pub(crate) fn next(&mut self) -> Result<Option<&ByteRecord>> {
        // What the reader's own buffer holds was counted already.
        self.budget.store(self.limit.saturating_add(PIECE as u64), Ordering::Relaxed);
        let last = self.place();
        let more = self.reader.read_byte_record(&mut self.record).map_err(|error| self.failed(error))?;
        if !more && self.reader.get_ref().quotes.is_open() {
            return Err(Error::content(format!("line {}: has quotes that don't end", last.line)));
        }
        self.taken += u64::from(more);
        Ok(more.then_some(&self.record))
    }

    /// The line taken last.
    pub(crate) fn record(&self) -> &ByteRecord {
        &self.record
    }

    /// The place of the line taken last.
    pub(crate) fn place(&self) -> Place {
        let position = self.record.position();
        let (byte, line) = position.map_or((0, 1), |position| (position.byte(), position.line()));
        let row = (self.start.row + self.taken).saturating_sub(1);
        Place { row, byte: self.start.byte + byte, line: self.start.line + line.saturating_sub(1) }
    }

    /// The bytes that were taken so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.start.byte + self.reader.position().byte()
    }

    /// The error for the line taken last.
    pub(crate) fn fault(&self, what: &str) -> Error {
        Error::content(format!("line {}: {what}", self.place().line))
    }

    fn failed(&self, error: csv::Error) -> Error {
        let line = self.start.line + self.reader.position().line().saturating_sub(1);
        match error.into_kind() {
            csv::ErrorKind::Io(error) => match error.downcast::<Error>() {
                Ok(error) if error.kind() == Kind::Limit => {
                    Error::new(Kind::Limit, format!("line {line}: {}", error.message()))
                }
                Ok(error) => error,
                Err(error) if error.raw_os_error().is_some() => Error::io("read", error),
                Err(error) => Error::content(format!("can't be unpacked: {error}")),
            },
            other => Error::content(format!("line {line}: {other:?}")),
        }
    }
}

enum From<'a> {
    Ranges { input: &'a dyn Input, at: u64, len: u64 },
    Stream(Box<dyn Read + Send + 'a>),
}

/// The bytes of a table, with an end to how long a line may be.
struct Bytes<'a> {
    from: From<'a>,
    quotes: Quotes,
    /// How many bytes may still be read before the next line.
    budget: Arc<AtomicU64>,
}

impl Read for Bytes<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let left = self.budget.load(Ordering::Relaxed);
        if left == 0 {
            let text = "is longer than a value may be; are there quotes that don't end?";
            return Err(io::Error::other(Error::new(Kind::Limit, text)));
        }
        let most = buf.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let buf = buf.get_mut(..most).unwrap_or_default();
        let taken = match &mut self.from {
            From::Stream(stream) => stream.read(buf)?,
            From::Ranges { input, at, len } => {
                let most = buf.len().min(usize::try_from(len.saturating_sub(*at)).unwrap_or(usize::MAX));
                let buf = buf.get_mut(..most).unwrap_or_default();
                input.read_at(*at, buf).map_err(io::Error::other)?;
                *at += buf.len() as u64;
                buf.len()
            }
        };
        self.budget.fetch_sub(taken as u64, Ordering::Relaxed);
        self.quotes.add(buf.get(..taken).unwrap_or_default());
        Ok(taken)
    }
}

/// The text of a field.
pub(crate) fn text(bytes: &[u8]) -> Result<&str> {
    std::str::from_utf8(bytes).map_err(|_| Error::content("is no UTF-8"))
}
