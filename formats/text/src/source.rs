//! The source: documents as rows.

use crate::block::{DocumentBlock, schema};
use crate::byte_reader::ByteReader;
use crate::documents::{Documents, FileKind};
use crate::line_numbers::LineNumbers;
use crate::line_reader::LineReader;
use crate::options::Settings;
use packhorse_core::{Blocks, Input, Limits, Result, Source, Table, TableInfo};
use std::ops::Range;
use std::sync::Arc;

/// A guess of the ratio of text to its compressed size.
const EXPANSION: u64 = 4;

/// The source `text`.
#[derive(Clone)]
pub(crate) struct TextSource {
    settings: Arc<Settings>,
    /// The longest line or document.
    limit: u64,
    counted: Arc<LineNumbers>,
}

impl TextSource {
    pub(crate) fn new(settings: Settings, limits: Limits) -> Self {
        // The length in a view array is an i32.
        let limit = limits.blob.min(i32::MAX.unsigned_abs().into());
        Self { settings: Arc::new(settings), limit, counted: Arc::default() }
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The same source with other settings.
    pub(crate) fn with(&self, settings: Settings) -> Self {
        Self { settings: Arc::new(settings), limit: self.limit, counted: Arc::default() }
    }
}

impl Source for TextSource {
    fn open<'a>(&self, input: Arc<dyn Input + 'a>) -> Result<Box<dyn Table + 'a>> {
        Ok(Box::new(Text { source: self.clone(), input }))
    }
}

/// An open file of text.
struct Text<'a> {
    source: TextSource,
    input: Arc<dyn Input + 'a>,
}

impl Table for Text<'_> {
    fn info(&self) -> Result<TableInfo> {
        let (items, bytes) = match self.input.len() {
            Some(len) => (len, len),
            None => (1, self.input.stat()?.map_or(0, |stat| stat.size.saturating_mul(EXPANSION))),
        };
        let schema = schema(&self.source.settings.text.name);
        Ok(TableInfo { schema, items, bytes, counted: false, omitted: Vec::new() })
    }

    fn starts(&self, each: &mut dyn FnMut(u64) -> Result<()>) -> Result<()> {
        crate::starts::starts(&self.source, &*self.input, each)
    }

    fn rows(&self, items: Range<u64>) -> Result<Blocks<'_>> {
        let (input, TextSource { settings, limit, counted }) = (&*self.input, &self.source);
        let Settings { text, id, document, .. } = &**settings;
        let kind = match settings.is_json(input)? {
            true => FileKind::Json { text, id: id.as_ref() },
            false => FileKind::Plain(*document),
        };
        let (feed, from, range) = match input.len() {
            Some(len) => {
                let range = items.start..items.end.min(len);
                // The byte before the range shows whether a line starts with the range.
                let from = range.start.saturating_sub(1);
                (ByteReader::at(input, from..range.end, len), from, range)
            }
            None => (ByteReader::stream(input)?, 0, items.start..if items.is_empty() { 0 } else { u64::MAX }),
        };
        let whole = kind.is_whole() || input.len().is_none();
        if range.is_empty() || (whole && range.start > 0) {
            return Ok(Box::new(std::iter::empty()));
        }
        let window = LineReader::new(feed, from, *limit);
        let block = DocumentBlock::new(schema(&text.name), range.end.saturating_sub(range.start));
        Ok(Box::new(Documents::new(input, kind, window, range, *limit, (block, counted))?))
    }
}
