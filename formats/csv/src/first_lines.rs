//! Lines before the table.

/// Makes the first lines of a file blank, which readers skip, so that the offsets of all others stay.
pub(crate) struct FirstLines {
    left: u64,
    after_return: bool,
}

impl FirstLines {
    pub(crate) fn new(lines: u64) -> Self {
        Self { left: lines, after_return: false }
    }

    /// Takes the next bytes. Lines end with a line feed, a carriage return, or both.
    pub(crate) fn blank(&mut self, bytes: &mut [u8]) {
        for byte in bytes {
            if self.left == 0 {
                return;
            }
            let after_return = std::mem::replace(&mut self.after_return, *byte == b'\r');
            match *byte {
                b'\n' if after_return => {}
                b'\n' | b'\r' => self.left -= 1,
                _ => *byte = b'\r',
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_blank_however_they_end_and_are_read() {
        for (text, lines, wanted) in [
            ("ab\nc\nd\n", 2, "\r\r\n\r\nd\n"),
            ("ab\r\nc\r\nd\r\n", 2, "\r\r\r\n\r\r\nd\r\n"),
            ("ab\rc\rd\r", 1, "\r\r\rc\rd\r"),
            ("ab\n", 5, "\r\r\n"),
            ("\n\nab\n", 2, "\n\nab\n"),
        ] {
            for piece in 1..=text.len() {
                let mut first = FirstLines::new(lines);
                let mut bytes = text.as_bytes().to_vec();
                bytes.chunks_mut(piece).for_each(|piece| first.blank(piece));
                assert_eq!(String::from_utf8(bytes).unwrap(), wanted, "{text:?} in pieces of {piece}");
            }
        }
    }
}
