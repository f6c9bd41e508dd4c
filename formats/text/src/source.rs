//! The source: documents as rows.

use crate::block::{DocumentBlock, schema};
use crate::byte_reader::ByteReader;
use crate::documents::{Documents, FileKind};
use crate::line_numbers::LineNumbers;
use crate::line_reader::LineReader;
use crate::options::Settings;
use packhorse_core::{Blocks, Input, Limits, Probe, Result, Source};
use std::ops::Range;

/// A guess of the ratio of text to its compressed size.
const EXPANSION: u64 = 4;

/// The source `text`.
pub(crate) struct TextSource {
    settings: Settings,
    /// The longest line or document.
    limit: u64,
    counted: LineNumbers,
}

impl TextSource {
    pub(crate) fn new(settings: Settings, limits: Limits) -> Self {
        // The length in a view array is an i32.
        Self { settings, limit: limits.blob.min(i32::MAX.unsigned_abs().into()), counted: LineNumbers::default() }
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The same source with other settings.
    pub(crate) fn with(&self, settings: Settings) -> Self {
        Self { settings, limit: self.limit, counted: LineNumbers::default() }
    }
}

impl Source for TextSource {
    fn probe(&self, input: &dyn Input) -> Result<Option<Probe>> {
        let (items, bytes) = match input.len() {
            Some(len) => (len, len),
            None => (1, input.stat()?.map_or(0, |stat| stat.size.saturating_mul(EXPANSION))),
        };
        Ok(Some(Probe { schema: schema(&self.settings.text.name), items, bytes, counted: false, omitted: Vec::new() }))
    }

    fn starts(&self, input: &dyn Input, each: &mut dyn FnMut(u64) -> Result<()>) -> Result<()> {
        crate::starts::starts(self, input, each)
    }

    fn rows<'a>(&'a self, input: &'a dyn Input, items: Range<u64>) -> Result<Blocks<'a>> {
        let Settings { text, id, document, .. } = &self.settings;
        let kind = match self.settings.is_json(input.name()) {
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
        let window = LineReader::new(feed, from, self.limit);
        let block = DocumentBlock::new(schema(&text.name), range.end.saturating_sub(range.start));
        Ok(Box::new(Documents::new(input, kind, window, range, self.limit, (block, &self.counted))?))
    }
}
