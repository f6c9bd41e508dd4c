//! Whether a table ends within quotes, which the crate `csv` takes for the end of the field: then all that follows a lost
//! quote would be one value.

/// Follows the bytes of a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quotes {
    delimiter: u8,
    /// The byte before.
    last: u8,
    inside: bool,
    /// Whether the byte before was a quote inside, which ends the field unless another one follows.
    ending: bool,
    /// Bytes so far, up to the length of a byte order mark.
    seen: u8,
}

impl Quotes {
    /// At the start of a line; of the file if `first`.
    pub(crate) fn new(delimiter: u8, first: bool) -> Self {
        Self { delimiter, last: b'\n', inside: false, ending: false, seen: if first { 0 } else { 4 } }
    }

    /// Takes the next bytes.
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        let mut at = 0;
        for quote in memchr::memchr_iter(b'"', bytes) {
            if quote > at {
                self.settle(bytes.get(quote - 1).copied());
                self.pass(quote - at);
            }
            self.quote();
            at = quote + 1;
        }
        if let Some(rest) = bytes.len().checked_sub(at).filter(|rest| *rest > 0) {
            self.settle(bytes.last().copied());
            self.pass(rest);
        }
    }

    /// Other bytes than quotes went by, the last of them `last`.
    fn settle(&mut self, last: Option<u8>) {
        if std::mem::take(&mut self.ending) {
            self.inside = false;
        }
        self.last = last.unwrap_or(self.last);
    }

    fn pass(&mut self, bytes: usize) {
        self.seen = self.seen.saturating_add(u8::try_from(bytes).unwrap_or(u8::MAX));
    }

    fn quote(&mut self) {
        // A byte order mark is passed over: it is three bytes, of which the last is this one.
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

    /// Whether the bytes end within quotes.
    pub(crate) fn is_open(&self) -> bool {
        self.inside && !self.ending
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
                let mut quotes = Quotes::new(b',', true);
                text.as_bytes().chunks(size).for_each(|chunk| quotes.add(chunk));
                assert_eq!(quotes.is_open(), open, "{text:?} by {size}");
            }
        }
    }
}
