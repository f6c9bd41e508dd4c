//! Lines that are comments.

use packhorse_core::QuoteTracker;

/// Bytes of a comment that are kept for the names of columns.
const LONGEST: usize = 1 << 20;

/// Makes comments blank lines, which readers skip: their bytes become line ends, so that the offsets of all others stay.
pub(crate) struct Comments {
    sign: u8,
    /// Whether the next byte is the first one of a line.
    at_start: bool,
    inside: bool,
    /// The text of the comment that is read, and of the last one with a text, up to the first row.
    text: Vec<u8>,
    last: Option<Vec<u8>>,
    has_rows: bool,
}

impl Comments {
    /// From the start of a line; `first` if it is the first line of the file.
    pub(crate) fn new(sign: u8, first: bool) -> Self {
        Self { sign, at_start: true, inside: false, text: Vec::new(), last: None, has_rows: !first }
    }

    /// Takes the next bytes, and shows them to `quotes`. A sign inside quotes begins no comment.
    pub(crate) fn blank(&mut self, mut bytes: &mut [u8], quotes: &mut Option<QuoteTracker>) {
        while let Some(first) = bytes.first() {
            let is_open = || quotes.as_ref().is_some_and(QuoteTracker::is_open);
            if self.at_start && *first == self.sign && !is_open() {
                self.inside = true;
            }
            self.at_start = false;
            let end = memchr::memchr2(b'\n', b'\r', bytes);
            let line = bytes.split_off_mut(..end.map_or(bytes.len(), |end| end + 1)).unwrap_or_default();
            match self.inside {
                true => self.keep_and_blank(line),
                false => self.has_rows |= !line.trim_ascii().is_empty(),
            }
            if let Some(quotes) = quotes {
                quotes.add(line);
            }
            if end.is_some() {
                (self.at_start, self.inside) = (true, false);
                let text = std::mem::take(&mut self.text);
                let text = text.trim_ascii().strip_prefix(&[self.sign]).unwrap_or_default().trim_ascii();
                self.last = Some(text.to_vec()).filter(|text| !text.is_empty()).or(self.last.take());
            }
        }
    }

    fn keep_and_blank(&mut self, line: &mut [u8]) {
        if !self.has_rows && self.text.len() < LONGEST {
            self.text.extend_from_slice(line);
        }
        line.iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b'\r');
    }

    /// The text of the last comment before the first row that has one, without its sign.
    pub(crate) fn before_rows(&self) -> Option<&[u8]> {
        self.last.as_deref()
    }
}
