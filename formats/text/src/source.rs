//! Files of text as typed rows.

use crate::block::{Block, schema};
use crate::documents::{Documents, Kinds};
use crate::feed::Feed;
use crate::options::Settings;
use crate::place::Counted;
use crate::window::Window;
use packhorse_core::{Blocks, Input, Limits, Probe, Result, Source};
use std::ops::Range;

/// How many times larger text is than the compressed file, about.
const EXPANSION: u64 = 4;

/// The source `text`.
pub(crate) struct TextSource {
    settings: Settings,
    /// The longest line or document.
    limit: u64,
    counted: Counted,
}

impl TextSource {
    pub(crate) fn new(settings: Settings, limits: Limits) -> Self {
        // A view can't say more than the bound.
        Self { settings, limit: limits.blob.min(i32::MAX.unsigned_abs().into()), counted: Counted::default() }
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The same with other settings.
    pub(crate) fn with(&self, settings: Settings) -> Self {
        Self { settings, limit: self.limit, counted: Counted::default() }
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
            true => Kinds::Json { text, id: id.as_ref() },
            false => Kinds::Plain(*document),
        };
        let (feed, from, range) = match input.len() {
            Some(len) => {
                let range = items.start..items.end.min(len);
                // The byte before tells whether a line starts with the range.
                let from = range.start.saturating_sub(1);
                (Feed::at(input, from..range.end, len), from, range)
            }
            None => (Feed::stream(input)?, 0, items.start..if items.is_empty() { 0 } else { u64::MAX }),
        };
        let whole = kind.is_whole() || input.len().is_none();
        if range.is_empty() || (whole && range.start > 0) {
            return Ok(Box::new(std::iter::empty()));
        }
        let window = Window::new(feed, from, self.limit);
        let block = Block::new(schema(&text.name), range.end.saturating_sub(range.start));
        Ok(Box::new(Documents::new(input, kind, window, range, self.limit, (block, &self.counted))?))
    }
}
