//! Splits an input into lines, each whole in memory unless it is over the limit.

use crate::byte_reader::ByteReader;
use memchr::memchr;
use packhorse_core::Result;

/// A larger buffer is freed after the long line that needed it.
const SPARE: usize = 8 << 20;

/// A line without its line feed.
pub(crate) struct Line<'a> {
    /// The offset of its first byte in the input.
    pub(crate) offset: u64,
    /// Its length in bytes.
    pub(crate) len: u64,
    /// The offset of the first of `bytes`: after a byte order mark.
    pub(crate) from: u64,
    /// The bytes; `None` if they are over the limit.
    pub(crate) bytes: Option<&'a [u8]>,
    /// Whether it holds only white space.
    pub(crate) blank: bool,
}

/// The UTF-8 byte order mark. It is not part of the text.
pub(crate) const MARK: &[u8] = b"\xef\xbb\xbf";

/// `bytes`, at `offset`, without the byte order mark of the file.
fn unmarked(bytes: &[u8], offset: u64) -> &[u8] {
    bytes.strip_prefix(MARK).filter(|_| offset == 0).unwrap_or(bytes)
}

impl<'a> Line<'a> {
    /// The line of `len` bytes at `offset`; `bytes` are the last of them.
    fn new(offset: u64, len: u64, bytes: &'a [u8], limit: u64) -> Self {
        if len > limit {
            return Self { offset, len, from: offset, bytes: None, blank: false };
        }
        let shown = unmarked(bytes, offset);
        let from = offset + (bytes.len() - shown.len()) as u64;
        Self { offset, len, from, bytes: Some(shown), blank: false }
    }
}

/// A moving window over the bytes of an input.
pub(crate) struct LineReader<'a> {
    feed: ByteReader<'a>,
    buf: Vec<u8>,
    /// The number of valid bytes in `buf`.
    filled: usize,
    /// The position of the next byte in `buf`.
    at: usize,
    /// The offset in the input of the first byte of `buf`.
    base: u64,
    /// The longest line that is kept in memory.
    limit: u64,
}

/// Whether all bytes are spaces, tabs and carriage returns: the white space of JSON within a line.
pub(crate) fn is_blank(bytes: &[u8]) -> bool {
    bytes.iter().all(|b| matches!(b, b' ' | b'\t' | b'\r'))
}

impl<'a> LineReader<'a> {
    /// Reads the lines of `feed`, whose first byte is at the offset `base`.
    pub(crate) fn new(feed: ByteReader<'a>, base: u64, limit: u64) -> Self {
        Self { feed, buf: Vec::new(), filled: 0, at: 0, base, limit }
    }

    /// The offset of the next byte.
    pub(crate) fn position(&self) -> u64 {
        self.base + self.at as u64
    }

    /// The next line; `None` at the end. A final line feed does not start another line.
    pub(crate) fn line(&mut self) -> Result<Option<Line<'_>>> {
        let offset = self.position();
        let (mut dropped, mut blank, mut scanned) = (0u64, true, 0);
        let end = loop {
            if let Some(n) = memchr(b'\n', self.ahead(scanned)) {
                break self.at + scanned + n;
            }
            scanned = self.filled - self.at;
            if dropped + scanned as u64 > self.limit {
                blank &= is_blank(unmarked(self.ahead(0), self.position()));
                dropped += scanned as u64;
                (self.at, scanned) = (self.filled, 0);
            }
            if !self.fill()? {
                if dropped == 0 && scanned == 0 {
                    return Ok(None);
                }
                break self.filled;
            }
        };
        let from = std::mem::replace(&mut self.at, (end + 1).min(self.filled));
        let bytes = self.buf.get(from..end).unwrap_or_default();
        let len = dropped + bytes.len() as u64;
        let shown = unmarked(bytes, offset + dropped);
        blank = blank && is_blank(shown);
        Ok(Some(Line { blank, ..Line::new(offset, len, bytes, self.limit) }))
    }

    /// Skips the rest of a line, but stops soon after `until`.
    pub(crate) fn pass_line(&mut self, until: u64) -> Result<()> {
        loop {
            if let Some(n) = memchr(b'\n', self.ahead(0)) {
                self.at += n + 1;
                return Ok(());
            }
            self.at = self.filled;
            if self.position() >= until || !self.fill()? {
                return Ok(());
            }
        }
    }

    /// All bytes up to the end of the input as one line; `None` at the end.
    pub(crate) fn rest(&mut self) -> Result<Option<Line<'_>>> {
        let offset = self.position();
        if let Some(left) = self.feed.left().filter(|left| *left <= self.limit) {
            // One read into a buffer of the right size.
            self.buf.resize(usize::try_from(left).unwrap_or_default(), 0);
            self.filled = self.feed.read(&mut self.buf)?;
        }
        while (self.filled - self.at) as u64 <= self.limit && self.fill()? {}
        let bytes = self.ahead(0);
        Ok((!bytes.is_empty()).then(|| Line::new(offset, bytes.len() as u64, bytes, self.limit)))
    }

    fn ahead(&self, from: usize) -> &[u8] {
        self.buf.get(self.at + from..self.filled).unwrap_or_default()
    }

    /// Reads more bytes after those not yet consumed; false at the end.
    fn fill(&mut self) -> Result<bool> {
        self.buf.copy_within(self.at..self.filled, 0);
        self.base += self.at as u64;
        self.filled -= self.at;
        self.at = 0;
        let wish = self.feed.wish();
        if wish == 0 {
            return Ok(false);
        }
        // Doubles, so that the buffer of a long line grows few times.
        let most = self.limit.saturating_add(SPARE as u64).saturating_sub(self.filled as u64);
        let most = usize::try_from(most.min(self.feed.left().unwrap_or(most))).unwrap_or(usize::MAX);
        let wanted = self.filled.saturating_add(wish.max(self.filled.min(most)));
        if self.buf.len() < wanted {
            self.buf.resize(wanted, 0);
        } else if self.buf.len() > SPARE && wanted < self.buf.len() / 4 {
            self.buf.truncate(wanted);
            self.buf.shrink_to_fit();
        }
        let room = self.buf.get_mut(self.filled..wanted).unwrap_or_default();
        let n = self.feed.read(room)?;
        self.filled += n;
        Ok(n > 0)
    }
}
