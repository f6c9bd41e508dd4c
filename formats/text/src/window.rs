//! The lines of a feed, one at a time, each whole in memory unless it is too long.

use crate::feed::Feed;
use memchr::memchr;
use packhorse_core::Result;

/// A buffer beyond this size is given back when the long line that needed it is past.
const SPARE: usize = 8 << 20;

/// A line without its line feed.
pub(crate) struct Line<'a> {
    /// Its first byte's place in the input.
    pub(crate) offset: u64,
    /// How many bytes it has.
    pub(crate) len: u64,
    /// The place of the first of `bytes`: behind the byte order mark, where there is one.
    pub(crate) from: u64,
    /// The bytes; `None` where they are more than the limit.
    pub(crate) bytes: Option<&'a [u8]>,
    /// Whether it holds nothing that shows.
    pub(crate) blank: bool,
}

/// The byte order mark: it says that a file is UTF-8, and is no part of its text.
pub(crate) const MARK: &[u8] = b"\xef\xbb\xbf";

/// `bytes`, which lie at `offset`, without the byte order mark of the file.
fn unmarked(bytes: &[u8], offset: u64) -> &[u8] {
    bytes.strip_prefix(MARK).filter(|_| offset == 0).unwrap_or(bytes)
}

impl<'a> Line<'a> {
    /// The line at `offset`, of `len` bytes, the last of which are `bytes`.
    fn new(offset: u64, len: u64, bytes: &'a [u8], limit: u64) -> Self {
        if len > limit {
            return Self { offset, len, from: offset, bytes: None, blank: false };
        }
        let shown = unmarked(bytes, offset);
        let from = offset + (bytes.len() - shown.len()) as u64;
        Self { offset, len, from, bytes: Some(shown), blank: false }
    }
}

/// A moving window on the bytes of a feed.
pub(crate) struct Window<'a> {
    feed: Feed<'a>,
    buf: Vec<u8>,
    /// How much of `buf` holds bytes of the input.
    filled: usize,
    /// The next byte in `buf`.
    at: usize,
    /// The place in the input of the first byte of `buf`.
    base: u64,
    /// The longest line that is kept.
    limit: u64,
}

/// Whether all bytes are spaces, tabs and carriage returns: what is white space to JSON in a line.
pub(crate) fn is_blank(bytes: &[u8]) -> bool {
    bytes.iter().all(|b| matches!(b, b' ' | b'\t' | b'\r'))
}

impl<'a> Window<'a> {
    /// The lines of `feed`, whose first byte lies at `base`.
    pub(crate) fn new(feed: Feed<'a>, base: u64, limit: u64) -> Self {
        Self { feed, buf: Vec::new(), filled: 0, at: 0, base, limit }
    }

    /// The place in the input of the next byte.
    pub(crate) fn position(&self) -> u64 {
        self.base + self.at as u64
    }

    /// The next line; `None` at the end. A last line feed does not start another line.
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

    /// Passes over the rest of a line, up to `until` at most or a little more.
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

    /// All bytes up to the end of the input, as if they were one line; `None` if there are none.
    pub(crate) fn rest(&mut self) -> Result<Option<Line<'_>>> {
        let offset = self.position();
        if let Some(left) = self.feed.left().filter(|left| *left <= self.limit) {
            // In one read, of a buffer that need not grow.
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

    /// Reads more bytes behind those that are still ahead; false at the end.
    fn fill(&mut self) -> Result<bool> {
        self.buf.copy_within(self.at..self.filled, 0);
        self.base += self.at as u64;
        self.filled -= self.at;
        self.at = 0;
        let wish = self.feed.wish();
        if wish == 0 {
            return Ok(false);
        }
        // As much again as there is, so that the buffer of a long line grows few times.
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
