//! Reads the lines of a table in order, with a limit on the length of a line.

use crate::comments::Comments;
use crate::first_lines::FirstLines;
use crate::options::{Delimiter, Dialect};
use csv::{ByteRecord, ReaderBuilder};
use memchr::memmem;
use packhorse_core::{Error, Input, InputRange, Kind, Limits, QuoteTracker, Result, RowStart};
use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The way out where quotes do not enclose fields.
const PLAIN: &str = "if quotes are text in it, pass `from=csv` and `read=quote=none`";
/// The way out where other programs would find a delimiter.
const SPACES: &str = "if spaces divide columns, pass `from=csv` and `read=delimiter= `";

/// What divides fields for the crate `csv` where lines are divided here.
const NONE: u8 = 0x1f;

/// Bytes in one read.
const READ: usize = 256 << 10;

/// Reads lines from a given start.
pub(crate) struct RowReader<'a> {
    reader: csv::Reader<Bytes<'a>>,
    record: ByteRecord,
    dialect: Dialect,
    /// The fields of the record, where lines are divided here.
    fields: ByteRecord,
    start: RowStart,
    /// Lines returned so far.
    taken: u64,
    budget: Arc<AtomicU64>,
    limit: u64,
}

impl<'a> RowReader<'a> {
    /// Starts at `place`, the start of a line.
    pub(crate) fn open(input: &'a dyn Input, place: RowStart, dialect: Dialect, limits: Limits) -> Result<Self> {
        let from: Box<dyn Read + Send + 'a> = match input.len() {
            Some(len) => Box::new(InputRange { input, offset: place.byte, len: len.saturating_sub(place.byte) }),
            None if place == RowStart::START => input.stream()?,
            None => return Err(Error::bug("a compressed table is read from its start")),
        };
        let limit = limits.blob;
        let budget = Arc::new(AtomicU64::new(limit));
        let delimiter = if let Delimiter::Byte(byte) = dialect.delimiter { byte } else { NONE };
        let first = place.byte == 0;
        let quotes = dialect.quotes.then(|| QuoteTracker::new(delimiter, first));
        let indented = dialect.delimiter == Delimiter::Spaces;
        let comments = dialect.comment.map(|sign| Comments::new(sign, indented, first));
        let (skip, units) = if first { (dialect.skip, dialect.units) } else { (0, 0) };
        let before = FirstLines::new(skip, units, dialect.comment);
        let bytes =
            Bytes { from, before, quotes, comments, line_feeds: None, taken: 0, last: 0, budget: Arc::clone(&budget) };
        let mut builder = ReaderBuilder::new();
        builder.delimiter(delimiter).quoting(dialect.quotes).has_headers(false).flexible(true).buffer_capacity(READ);
        let reader = builder.from_reader(bytes);
        let (record, fields) = (ByteRecord::new(), ByteRecord::new());
        Ok(Self { reader, record, dialect, fields, start: place, taken: 0, budget, limit })
    }

    /// The next line; `None` at the end. Unclosed quotes and text behind closing ones are errors.
    pub(crate) fn next(&mut self) -> Result<Option<&ByteRecord>> {
        // The reader's buffer may hold bytes that an earlier budget paid for.
        self.budget.store(self.limit.saturating_add(READ as u64), Ordering::Relaxed);
        let last = self.line();
        let mut more = self.reader.read_byte_record(&mut self.record).map_err(|error| self.failed(error))?;
        if !matches!(self.dialect.delimiter, Delimiter::Byte(_)) {
            divide(&self.record, &self.dialect, &mut self.fields);
            // Lines of nothing but spaces are blank.
            while more && self.fields.is_empty() {
                more = self.reader.read_byte_record(&mut self.record).map_err(|error| self.failed(error))?;
                divide(&self.record, &self.dialect, &mut self.fields);
            }
        }
        let quotes = self.reader.get_ref().quotes.as_ref();
        if !more && quotes.is_some_and(QuoteTracker::is_open) {
            return Err(Error::content(format!("line {last}: has unclosed quotes")).hint(PLAIN));
        }
        let is_stray =
            quotes.and_then(QuoteTracker::stray).is_some_and(|at| !more || at < self.reader.position().byte());
        self.taken += u64::from(more);
        if is_stray {
            return Err(self.fault("has text behind a closing quote").hint(PLAIN).hint(SPACES));
        }
        Ok(more.then_some(self.record()))
    }

    /// The fields of the last comment before the first line.
    pub(crate) fn comment(&self) -> Result<Option<ByteRecord>> {
        let comments = self.reader.get_ref().comments.as_ref();
        let Some(text) = comments.and_then(Comments::before_rows) else { return Ok(None) };
        let mut fields = ByteRecord::new();
        match self.dialect.delimiter {
            Delimiter::Byte(byte) => {
                let mut builder = ReaderBuilder::new();
                let builder = builder.delimiter(byte).quoting(self.dialect.quotes).has_headers(false);
                builder.from_reader(text).read_byte_record(&mut fields).map_err(|error| self.failed(error))?;
            }
            _ => divide(&ByteRecord::from(vec![text]), &self.dialect, &mut fields),
        }
        // Names often have commas between them where values have spaces.
        if self.dialect.delimiter == Delimiter::Spaces {
            fields = fields.iter().map(|name| name.strip_suffix(b",").unwrap_or(name)).collect();
        }
        fields.trim();
        Ok(Some(fields))
    }

    /// Makes the next line the first row: the lines so far named the columns.
    pub(crate) fn begin_rows(&mut self) {
        self.taken = 0;
    }

    /// The fields of the last line.
    pub(crate) fn record(&self) -> &ByteRecord {
        if let Delimiter::Byte(_) = self.dialect.delimiter { &self.record } else { &self.fields }
    }

    /// The start of the last line.
    pub(crate) fn place(&self) -> RowStart {
        let position = self.record.position();
        let (byte, line) = position.map_or((0, 1), |position| (position.byte(), position.line()));
        let row = (self.start.row + self.taken).saturating_sub(1);
        RowStart { row, byte: self.start.byte + byte, line: self.start.line + line.saturating_sub(1) }
    }

    /// The number of the last line. Where lines end with CR LF, the reader counts a line feed only with the next record, and before that
    /// of the last line come those of blank lines.
    fn line(&self) -> u64 {
        let breaks = memchr::memchr_iter(b'\n', self.record.as_slice()).count() as u64;
        let (bytes, position) = (self.reader.get_ref(), self.reader.position());
        // The last line may end with the table.
        let is_open = position.byte() == bytes.taken && bytes.last != b'\n';
        let end = u64::from(bytes.line_feeds != Some(LineFeeds::AfterReturns) && !is_open);
        let counted = position.line().saturating_sub(breaks + end);
        self.place().line.max(self.start.line + counted.saturating_sub(1))
    }

    /// The offset after the last line.
    pub(crate) fn bytes(&self) -> u64 {
        self.start.byte + self.reader.position().byte()
    }

    /// A `Content` error about the last line.
    pub(crate) fn fault(&self, what: &str) -> Error {
        self.about(Error::content(what))
    }

    /// `error`, which concerns the line taken last.
    pub(crate) fn about(&self, error: Error) -> Error {
        error.context(format_args!("line {}", self.line())).at_row(self.place().row)
    }

    fn failed(&self, error: csv::Error) -> Error {
        let line = self.start.line + self.reader.position().line().saturating_sub(1);
        match error.into_kind() {
            csv::ErrorKind::Io(error) => match error.downcast::<Error>() {
                Ok(error) if error.kind() == Kind::Limit => error.context(format_args!("line {line}")),
                Ok(error) => error,
                Err(error) => Error::decompress(error),
            },
            other => Error::content(format!("line {line}: {other:?}")),
        }
    }
}

/// How the first line of a table ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LineFeeds {
    Alone,
    AfterReturns,
}

/// The bytes of a table, at most `budget` of them for a line.
struct Bytes<'a> {
    from: Box<dyn Read + Send + 'a>,
    before: FirstLines,
    /// `None` where quotes are text.
    quotes: Option<QuoteTracker>,
    comments: Option<Comments>,
    line_feeds: Option<LineFeeds>,
    /// How many bytes were taken, and the last of them.
    taken: u64,
    last: u8,
    /// Bytes that may still be read before the next line.
    budget: Arc<AtomicU64>,
}

impl Read for Bytes<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let left = self.budget.load(Ordering::Relaxed);
        if left == 0 {
            let text = "is over the limit for a value; check for unclosed quotes";
            return Err(io::Error::other(Error::new(Kind::Limit, text)));
        }
        let most = buf.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let buf = buf.get_mut(..most).unwrap_or_default();
        let taken = self.from.read(buf)?;
        self.budget.fetch_sub(taken as u64, Ordering::Relaxed);
        let taken_bytes = buf.get_mut(..taken).unwrap_or_default();
        if self.line_feeds.is_none() {
            // A table is read from the line feed on that ended the line before.
            let skip = usize::from(self.taken == 0 && taken_bytes.first() == Some(&b'\n'));
            let at = memchr::memchr(b'\n', taken_bytes.get(skip..).unwrap_or_default()).map(|at| skip + at);
            let before = |at: usize| at.checked_sub(1).and_then(|at| taken_bytes.get(at).copied()).unwrap_or(self.last);
            let kind = |at| if before(at) == b'\r' { LineFeeds::AfterReturns } else { LineFeeds::Alone };
            self.line_feeds = at.map(kind);
        }
        self.taken += taken as u64;
        self.last = taken_bytes.last().copied().unwrap_or(self.last);
        self.before.blank(taken_bytes);
        match (&mut self.comments, &mut self.quotes) {
            (Some(comments), quotes) => comments.blank(taken_bytes, quotes),
            (None, Some(quotes)) => quotes.add(taken_bytes),
            (None, None) => {}
        }
        Ok(taken)
    }
}

/// Divides the line `record`, which the crate `csv` does not, into `fields`.
fn divide(record: &ByteRecord, dialect: &Dialect, fields: &mut ByteRecord) {
    fields.clear();
    let joined;
    let line = match record.len() {
        0 | 1 => record.as_slice(),
        _ => {
            joined = record.iter().collect::<Vec<_>>().join(&NONE);
            &joined
        }
    };
    match &dialect.delimiter {
        Delimiter::Byte(_) => fields.push_field(line),
        Delimiter::Text(text) => {
            let mut from = 0;
            for at in memmem::find_iter(line, text) {
                fields.push_field(line.get(from..at).unwrap_or_default());
                from = at + text.len();
            }
            fields.push_field(line.get(from..).unwrap_or_default());
        }
        Delimiter::Spaces => {
            // A comment may follow the values.
            let end = line.iter().position(|byte| Some(byte) == dialect.comment.as_ref()).unwrap_or(line.len());
            let words = line.get(..end).unwrap_or_default().split(|byte| matches!(byte, b' ' | b'\t'));
            words.filter(|word| !word.is_empty()).for_each(|word| fields.push_field(word));
        }
    }
}

/// A field as text.
pub(crate) fn text(bytes: &[u8]) -> Result<&str> {
    std::str::from_utf8(bytes).map_err(|_| Error::content("is not UTF-8"))
}
