//! Lines that are comments.

use packhorse_core::QuoteTracker;

/// A byte order mark, which may be the start of the file.
const MARK: &[u8] = b"\xef\xbb\xbf";

/// Bytes of a comment that are kept for the names of columns.
const LONGEST: usize = 1 << 20;

/// Makes comments blank lines, which readers skip: their bytes become line ends, or spaces, so that the offsets of all others stay.
pub(crate) struct Comments {
    sign: u8,
    /// Whether spaces may stand before the sign.
    indented: bool,
    /// Whether the next byte may begin a comment: the first one of a line, or behind spaces.
    at_start: bool,
    inside: bool,
    /// Bytes before the next one; only compared with the length of a byte order mark.
    seen: usize,
    /// The text of the comment that is read, and of the last one with a text, up to the first row.
    text: Vec<u8>,
    last: Option<Vec<u8>>,
    has_rows: bool,
}

impl Comments {
    /// From the start of a line; `first` if it is the first line of the file.
    pub(crate) fn new(sign: u8, indented: bool, first: bool) -> Self {
        let seen = if first { 0 } else { MARK.len() };
        Self { sign, indented, at_start: true, inside: false, seen, text: Vec::new(), last: None, has_rows: !first }
    }

    /// Takes the next bytes, and shows them to `quotes`. A sign inside quotes begins no comment.
    pub(crate) fn blank(&mut self, mut bytes: &mut [u8], quotes: &mut Option<QuoteTracker>) {
        while let Some(first) = bytes.first() {
            let spaces = if self.at_start { self.before_comments(bytes) } else { 0 };
            if spaces > 0 {
                let before = bytes.split_off_mut(..spaces).unwrap_or_default();
                self.seen += spaces;
                if let Some(quotes) = quotes {
                    quotes.add(before);
                }
                continue;
            }
            let is_open = || quotes.as_ref().is_some_and(QuoteTracker::is_open);
            if self.at_start && *first == self.sign && !is_open() {
                self.inside = true;
            }
            self.at_start = false;
            let end = memchr::memchr2(b'\n', b'\r', bytes);
            let line = bytes.split_off_mut(..end.map_or(bytes.len(), |end| end + 1)).unwrap_or_default();
            self.seen += line.len();
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
                let signs = text.iter().take_while(|byte| **byte == self.sign).count();
                let text = text.get(signs..).unwrap_or_default().trim_ascii();
                self.last = Some(text.to_vec()).filter(|text| !text.is_empty()).or(self.last.take());
            }
        }
    }

    /// The bytes at the start of a line that may stand before a comment: a byte order mark, and spaces.
    fn before_comments(&self, bytes: &[u8]) -> usize {
        let mark = MARK.get(self.seen.min(MARK.len())..).unwrap_or_default();
        let marked = bytes.iter().zip(mark).take_while(|(byte, of_mark)| byte == of_mark).count();
        let is_space = |byte: &&u8| self.indented && matches!(byte, b' ' | b'\t');
        if marked > 0 { marked } else { bytes.iter().take_while(is_space).count() }
    }

    fn keep_and_blank(&mut self, line: &mut [u8]) {
        if !self.has_rows && self.text.len() < LONGEST {
            self.text.extend_from_slice(line);
        }
        // Behind spaces, a line end would be the end of another line.
        let blank = if self.indented { b' ' } else { b'\r' };
        line.iter_mut().filter(|byte| !matches!(byte, b'\n' | b'\r')).for_each(|byte| *byte = blank);
    }

    /// The text of the last comment before the first row that has one, without its sign.
    pub(crate) fn before_rows(&self) -> Option<&[u8]> {
        self.last.as_deref()
    }
}
