//! Reads the documents of a range of a file, in order, as blocks.

use crate::block::{DocumentBlock, DocumentKey, offset_key};
use crate::document_error::{DocumentError, utf8};
use crate::field::FieldPath;
use crate::line_numbers::{LineCounter, LineNumbers, blank_before};
use crate::line_reader::{Line, LineReader};
use crate::options::Document;
use crate::record;
use memchr::memchr_iter;
use packhorse_core::{Error, Input, Result, Rows};
use std::collections::VecDeque;

/// A larger buffer is freed after the long document that needed it.
const SPARE: usize = 8 << 20;

/// How a file is read.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FileKind<'a> {
    Json { text: &'a FieldPath, id: Option<&'a FieldPath> },
    Plain(Document),
}

impl FileKind<'_> {
    /// Whether the whole file is one document.
    pub(crate) fn is_whole(self) -> bool {
        matches!(self, FileKind::Plain(Document::File))
    }
}

/// An iterator over the blocks of a range. Errors of single documents come in between, in order.
pub(crate) struct Documents<'a> {
    input: &'a dyn Input,
    kind: FileKind<'a>,
    window: LineReader<'a>,
    /// Documents that start here or later belong to the next range.
    end: u64,
    limit: u64,
    place: LineCounter<'a>,
    block: DocumentBlock,
    ready: VecDeque<Result<Rows>>,
    done: bool,
    /// The unescaped text of the current JSON string.
    unescaped: Vec<u8>,
    /// The text of the current paragraph.
    paragraph: Vec<u8>,
}

impl<'a> Documents<'a> {
    /// The documents whose first byte lies in `range`. `window` must be at the start of the range, or one byte before
    /// if that is not the start of the file. `block` must be empty; `counted` caches line numbers of `input`.
    pub(crate) fn new(
        input: &'a dyn Input,
        kind: FileKind<'a>,
        mut window: LineReader<'a>,
        range: std::ops::Range<u64>,
        limit: u64,
        (block, counted): (DocumentBlock, &'a LineNumbers),
    ) -> Result<Self> {
        let end = range.end;
        if range.start > 0 {
            window.pass_line(end)?;
            let inside = window.position() < end
                && matches!(kind, FileKind::Plain(Document::Paragraph))
                && !blank_before(input, window.position())?;
            while inside && window.position() < end {
                if window.line()?.is_none_or(|line| line.blank) {
                    break;
                }
            }
        }
        let place = LineCounter::new(input, counted, window.position());
        let (ready, unescaped, paragraph) = (VecDeque::new(), Vec::new(), Vec::new());
        Ok(Self { input, kind, window, end, limit, place, block, ready, done: false, unescaped, paragraph })
    }

    /// Reads the next document or blank line; false at the end.
    fn step(&mut self) -> Result<bool> {
        if self.window.position() >= self.end {
            return Ok(false);
        }
        match self.kind {
            FileKind::Json { text, id } => self.json(text, id),
            FileKind::Plain(Document::Line) => self.line(),
            FileKind::Plain(Document::Paragraph) => self.paragraph(),
            FileKind::Plain(Document::File) => self.file(),
        }
    }

    fn json(&mut self, text: &FieldPath, id: Option<&FieldPath>) -> Result<bool> {
        let Some(line) = self.window.line()? else { return Ok(false) };
        self.place.ended += 1;
        let (offset, from) = (line.offset, line.from);
        let fault = match line.bytes {
            _ if line.blank => return Ok(true),
            None => DocumentError::limit(self.limit),
            Some(bytes) => match record::find(bytes, text, id, &mut self.unescaped) {
                Ok((id, text)) => {
                    let key = id.as_deref().map_or(DocumentKey::Offset(offset), DocumentKey::Id);
                    return push(&mut self.block, &mut self.ready, key, text).map(|()| true);
                }
                Err(fault) => fault,
            },
        };
        self.fault(offset, from, 1, fault)
    }

    fn line(&mut self) -> Result<bool> {
        let Some(line) = self.window.line()? else { return Ok(false) };
        self.place.ended += 1;
        let (offset, from) = (line.offset, line.from);
        let fault = match line.bytes {
            None => DocumentError::limit(self.limit),
            Some(bytes) => match utf8(bytes.strip_suffix(b"\r").unwrap_or(bytes)) {
                Ok("") => return Ok(true),
                Ok(text) => {
                    return push(&mut self.block, &mut self.ready, DocumentKey::Offset(offset), text).map(|()| true);
                }
                Err(fault) => fault,
            },
        };
        self.fault(offset, from, 1, fault)
    }

    fn paragraph(&mut self) -> Result<bool> {
        let ended = self.place.ended;
        let Some(Paragraph { offset, from, len, lines }) = self.gather()? else {
            return Ok(self.place.ended > ended);
        };
        let fault = match &self.paragraph {
            _ if len > self.limit => DocumentError::limit(self.limit),
            bytes => match utf8(bytes.strip_suffix(b"\r").unwrap_or(bytes)) {
                Ok(text) => {
                    return push(&mut self.block, &mut self.ready, DocumentKey::Offset(offset), text).map(|()| true);
                }
                Err(fault) => fault,
            },
        };
        let before = line_feeds(self.paragraph.get(..fault.at));
        self.fault(offset, from, lines.saturating_sub(before), fault)
    }

    /// Reads the lines up to a blank one; `None` if the next line is blank or there is none.
    fn gather(&mut self) -> Result<Option<Paragraph>> {
        self.paragraph.clear();
        let mut found: Option<Paragraph> = None;
        while let Some(line) = self.window.line()? {
            self.place.ended += 1;
            let paragraph = match &mut found {
                None if line.blank => break,
                None => found.insert(Paragraph { offset: line.offset, from: line.from, len: line.len, lines: 1 }),
                Some(paragraph) => {
                    paragraph.lines += 1;
                    if line.blank {
                        break;
                    }
                    paragraph.len += 1 + line.len;
                    paragraph
                }
            };
            if let Some(bytes) = line.bytes.filter(|_| paragraph.len <= self.limit) {
                if paragraph.lines > 1 {
                    self.paragraph.push(b'\n');
                }
                self.paragraph.extend_from_slice(bytes);
            }
        }
        Ok(found)
    }

    fn file(&mut self) -> Result<bool> {
        // A file of known length that is over the limit need not be read.
        let line = match self.input.len().filter(|len| *len > self.limit) {
            Some(len) => Some(Line { offset: 0, from: 0, len, bytes: None, blank: false }),
            None => self.window.rest()?,
        };
        let Some(line) = line else { return Ok(false) };
        let from = line.from;
        let fault = match line.bytes.map(utf8) {
            None => DocumentError::limit(self.limit),
            Some(Ok(text)) => {
                return push(&mut self.block, &mut self.ready, DocumentKey::Offset(0), text).map(|()| false);
            }
            Some(Err(fault)) => {
                self.place.ended = line_feeds(line.bytes.and_then(|bytes| bytes.get(..fault.at)));
                fault
            }
        };
        self.fault(0, from, 0, fault).map(|_| false)
    }

    /// Queues the error of the document at `offset`, whose text starts at `from`. Its line is `back` lines before
    /// the next one.
    fn fault(&mut self, offset: u64, from: u64, back: u64, fault: DocumentError) -> Result<bool> {
        let (line, byte) = (self.place.line(back)?, from + fault.at as u64);
        let error = Error::new(fault.kind, format!("line {line}, byte {byte}: {}", fault.message));
        self.ready.extend(self.block.take());
        self.ready.push_back(Err(error.in_sample(offset_key(offset)).in_input(self.input.name())));
        Ok(true)
    }

    /// Frees the buffers of a long document.
    fn shrink(&mut self) {
        if self.unescaped.capacity() > SPARE {
            self.unescaped = Vec::new();
        }
        if self.paragraph.capacity() > SPARE {
            self.paragraph = Vec::new();
        }
    }
}

/// The lines between two blank ones.
struct Paragraph {
    offset: u64,
    /// Where its text starts: after a byte order mark.
    from: u64,
    len: u64,
    /// Lines read, including the blank one after it.
    lines: u64,
}

impl Iterator for Documents<'_> {
    type Item = Result<Rows>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(ready) = self.ready.pop_front() {
                return Some(ready);
            }
            if self.done {
                return None;
            }
            let went_on = self.step();
            self.shrink();
            if !matches!(went_on, Ok(true)) {
                self.done = true;
                if went_on.is_ok() {
                    self.place.ends(self.window.position());
                }
                self.ready.extend(self.block.take());
                self.ready.extend(went_on.err().map(|e| Err(e.in_input(self.input.name()))));
            }
        }
    }
}

/// Appends a document to `block`. A full block moves to `ready` first.
fn push(block: &mut DocumentBlock, ready: &mut VecDeque<Result<Rows>>, key: DocumentKey<'_>, text: &str) -> Result<()> {
    if block.is_full(key, text) {
        ready.extend(block.take());
    }
    block.push(key, text)
}

fn line_feeds(bytes: Option<&[u8]>) -> u64 {
    memchr_iter(b'\n', bytes.unwrap_or_default()).count() as u64
}
