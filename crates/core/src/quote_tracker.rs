//! Detects unclosed quotes and text behind closing ones. The crate `csv` accepts both, so that a lost quote would make one
//! value of many rows of a table.

/// Tracks the quotes in the bytes of a table of CSV (RFC 4180).
#[derive(Clone, Copy, Debug)]
pub struct QuoteTracker {
    delimiter: u8,
    /// The previous byte.
    last: u8,
    inside: bool,
    /// Whether the previous byte was a quote inside quotes, which ends the field unless another one follows.
    ending: bool,
    /// Whether only spaces followed the closing quote of a field so far.
    closed: bool,
    /// Bytes so far; only compared with the length of a byte order mark.
    seen: u8,
    /// Bytes so far.
    bytes: u64,
    /// The offset of the first byte behind a closing quote, and spaces, that does not end the field.
    stray: Option<u64>,
}

impl QuoteTracker {
    /// Starts at the start of a line; `first` if it is the first line of the file.
    pub fn new(delimiter: u8, first: bool) -> Self {
        let seen = if first { 0 } else { 4 };
        Self { delimiter, last: b'\n', inside: false, ending: false, closed: false, seen, bytes: 0, stray: None }
    }

    /// Takes the next bytes.
    pub fn add(&mut self, bytes: &[u8]) {
        let mut at = 0;
        for quote in memchr::memchr_iter(b'"', bytes) {
            if quote > at {
                self.settle(bytes.get(at..quote).unwrap_or_default());
                self.pass(quote - at);
            }
            self.quote();
            at = quote + 1;
        }
        if let Some(rest) = bytes.len().checked_sub(at).filter(|rest| *rest > 0) {
            self.settle(bytes.get(at..).unwrap_or_default());
            self.pass(rest);
        }
    }

    /// Notes bytes other than quotes.
    fn settle(&mut self, bytes: &[u8]) {
        if std::mem::take(&mut self.ending) {
            (self.inside, self.closed) = (false, true);
        }
        if self.closed
            && let Some(spaces) = bytes.iter().position(|byte| *byte != b' ' || self.delimiter == b' ')
        {
            self.closed = false;
            let ends = |byte: &u8| *byte == self.delimiter || matches!(byte, b'\n' | b'\r');
            if !bytes.get(spaces).is_some_and(ends) {
                self.stray = self.stray.or(Some(self.bytes + spaces as u64));
            }
        }
        self.last = bytes.last().copied().unwrap_or(self.last);
    }

    fn pass(&mut self, bytes: usize) {
        self.seen = self.seen.saturating_add(u8::try_from(bytes).unwrap_or(u8::MAX));
        self.bytes += bytes as u64;
    }

    fn quote(&mut self) {
        if std::mem::take(&mut self.closed) {
            self.stray = self.stray.or(Some(self.bytes));
        }
        // A byte order mark is three bytes; the last is 0xBF.
        let starts =
            self.last == self.delimiter || matches!(self.last, b'\n' | b'\r') || (self.seen == 3 && self.last == 0xbf);
        match (self.inside, self.ending) {
            (false, _) => self.inside = starts,
            (true, false) => self.ending = true,
            (true, true) => self.ending = false,
        }
        self.last = b'"';
        self.pass(1);
    }

    /// Where text follows a closing quote first, counted from the start.
    pub fn stray(&self) -> Option<u64> {
        self.stray
    }

    /// Whether the bytes so far end inside quotes.
    pub fn is_open(&self) -> bool {
        self.inside && !self.ending
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_behind_a_closing_quote_is_found() {
        for (text, stray) in [
            ("\"a\",b\n\"c\"", None),
            ("\"a\" ,\"b\"  \n\"c\" \r\n\"d\" ", None),
            ("\"a \"\" b\",5\" disk, \"x\" y\n", None),
            ("\"a\"b,c\n", Some(3)),
            ("1,\"a\" she said\n", Some(6)),
            ("1,\"a\"  \"b\"\n", Some(7)),
            ("1,\"a\n2,b\n3,c\" d\n\"e\"f", Some(14)),
        ] {
            for size in 1..=text.len() {
                let mut quotes = QuoteTracker::new(b',', true);
                text.as_bytes().chunks(size).for_each(|chunk| quotes.add(chunk));
                assert_eq!(quotes.stray(), stray, "{text:?} by {size}");
            }
        }
    }

    #[test]
    fn open_quotes_are_found_however_the_bytes_come() {
        for (text, open) in [
            ("a,b\n1,2\n", false),
            ("a,\"b\n1,2\n", true),
            ("\"a\",\"b\"\"\nc\"\n", false),
            ("a,5\" disk\n", false),
            ("\"", true),
            ("\"\"", false),
            ("\"\"\"", true),
            ("\"a\"b\"\n", false),
            ("\u{feff}\"a", true),
            ("\u{feff}\"a\"", false),
            ("x\u{feff}\"a", false),
        ] {
            for size in 1..=text.len() {
                let mut quotes = QuoteTracker::new(b',', true);
                text.as_bytes().chunks(size).for_each(|chunk| quotes.add(chunk));
                assert_eq!(quotes.is_open(), open, "{text:?} by {size}");
            }
        }
    }
}
