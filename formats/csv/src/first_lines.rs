//! Lines around the names of the columns that are not part of the table.

/// Makes lines before the names of the columns, and behind them, blank, which readers skip, so that the offsets of all others stay. Lines
/// end with a line feed, a carriage return, or both.
pub(crate) struct FirstLines {
    /// Lines to blank before the names, and behind them.
    skip: u64,
    units: u64,
    comment: Option<u8>,
    after_return: bool,
    /// What the line holds so far that may have the names.
    line: Names,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Names {
    Blank,
    Comment,
    Found,
    /// On an earlier line.
    Before,
}

impl FirstLines {
    pub(crate) fn new(skip: u64, units: u64, comment: Option<u8>) -> Self {
        Self { skip, units, comment, after_return: false, line: Names::Blank }
    }

    /// Takes the next bytes.
    pub(crate) fn blank(&mut self, bytes: &mut [u8]) {
        for byte in bytes {
            if self.skip == 0 && self.units == 0 {
                return;
            }
            let after_return = std::mem::replace(&mut self.after_return, *byte == b'\r');
            match *byte {
                b'\n' if after_return => {}
                b'\n' | b'\r' => self.end_line(),
                _ if self.skip > 0 || self.line == Names::Before => *byte = b'\r',
                // A byte order mark may stand before a comment.
                b' ' | b'\t' | 0xef | 0xbb | 0xbf => {}
                sign if self.line == Names::Blank && Some(sign) == self.comment => self.line = Names::Comment,
                _ if self.line == Names::Blank => self.line = Names::Found,
                _ => {}
            }
        }
    }

    fn end_line(&mut self) {
        match self.line {
            _ if self.skip > 0 => self.skip -= 1,
            Names::Before => self.units -= 1,
            Names::Found => self.line = Names::Before,
            Names::Blank | Names::Comment => self.line = Names::Blank,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_blank_however_they_end_and_are_read() {
        for (text, skip, units, wanted) in [
            ("ab\nc\nd\n", 2, 0, "\r\r\n\r\nd\n"),
            ("ab\r\nc\r\nd\r\n", 2, 0, "\r\r\r\n\r\r\nd\r\n"),
            ("ab\rc\rd\r", 1, 0, "\r\r\rc\rd\r"),
            ("ab\n", 5, 0, "\r\r\n"),
            ("\n\nab\n", 2, 0, "\n\nab\n"),
            ("x\nab\nu\n\nd\n", 1, 2, "\r\nab\n\r\n\nd\n"),
            ("\n #x\nab\r\nu\r\nd\r\n", 0, 1, "\n #x\nab\r\n\r\r\nd\r\n"),
            ("ab", 0, 3, "ab"),
        ] {
            for piece in 1..=text.len() {
                let mut first = FirstLines::new(skip, units, Some(b'#'));
                let mut bytes = text.as_bytes().to_vec();
                bytes.chunks_mut(piece).for_each(|piece| first.blank(piece));
                assert_eq!(String::from_utf8(bytes).unwrap(), wanted, "{text:?} in pieces of {piece}");
            }
        }
    }
}
