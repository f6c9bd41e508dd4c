//! Walks over the values of a line that is valid JSON.

use crate::strings::{escape_len, plain, unescape};
use std::borrow::Cow;
use std::ops::Range;

/// The kind of a value, by its first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ValueKind {
    Null,
    Bool,
    Number,
    Text,
    List,
    Object,
}

/// A position in a line. In a line that is not valid JSON it finds other values, and comes to an end.
pub(super) struct Walk<'l> {
    line: &'l [u8],
    at: usize,
}

impl<'l> Walk<'l> {
    pub(super) fn new(line: &'l [u8]) -> Self {
        Self { line, at: 0 }
    }

    /// The kind of the next value.
    pub(super) fn kind(&mut self) -> ValueKind {
        match self.peek() {
            Some(b'n') => ValueKind::Null,
            Some(b't' | b'f') => ValueKind::Bool,
            Some(b'"') => ValueKind::Text,
            Some(b'[') => ValueKind::List,
            Some(b'{') => ValueKind::Object,
            _ => ValueKind::Number,
        }
    }

    /// Passes over the next value; its bytes, without white space around them.
    pub(super) fn pass(&mut self) -> &'l [u8] {
        let range = self.pass_range();
        self.line.get(range).unwrap_or_default()
    }

    /// Passes over the next value; where it lies in the line.
    pub(super) fn pass_range(&mut self) -> Range<usize> {
        self.peek();
        let from = self.at;
        let mut depth = 0usize;
        while let Some(byte) = self.peek() {
            match byte {
                b'{' | b'[' => (self.at, depth) = (self.at + 1, depth + 1),
                b'}' | b']' => (self.at, depth) = (self.at + 1, depth.saturating_sub(1)),
                b',' | b':' => self.at += 1,
                b'"' => drop(self.string()),
                _ => self.at += self.ahead().iter().take_while(|byte| !is_end(**byte)).count().max(1),
            }
            if depth == 0 {
                break;
            }
        }
        from..self.at
    }

    /// Calls `each` for each name in the next value, an object, at its value, over which it must pass.
    pub(super) fn members<E>(
        &mut self,
        mut each: impl FnMut(&mut Self, Cow<'l, [u8]>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.at += 1;
        while self.peek() == Some(b'"') {
            let quoted = self.string();
            let name = match inside(quoted) {
                escaped if escaped.contains(&b'\\') => Cow::Owned(unescaped(quoted)),
                plain => Cow::Borrowed(plain),
            };
            self.pass_byte(b':');
            each(self, name)?;
            self.pass_byte(b',');
        }
        self.at += 1;
        Ok(())
    }

    /// Calls `each` at each value of the next value, a list, over which it must pass.
    pub(super) fn elements<E>(&mut self, mut each: impl FnMut(&mut Self) -> Result<(), E>) -> Result<(), E> {
        self.at += 1;
        while self.peek().is_some_and(|byte| byte != b']') {
            each(self)?;
            self.pass_byte(b',');
        }
        self.at += 1;
        Ok(())
    }

    /// Passes over the string whose first quote is the next byte; its bytes, with the quotes.
    fn string(&mut self) -> &'l [u8] {
        let from = self.at;
        self.at += 1;
        loop {
            self.at += plain(self.ahead());
            match self.ahead() {
                [b'\\', ..] => self.at += escape_len(self.ahead()).unwrap_or(1),
                [b'"', ..] | [] => break,
                _ => self.at += 1,
            }
        }
        self.at += 1;
        self.line.get(from..self.at).unwrap_or_default()
    }

    fn pass_byte(&mut self, byte: u8) {
        if self.peek() == Some(byte) {
            self.at += 1;
        }
    }

    /// Passes over white space; the byte after it.
    fn peek(&mut self) -> Option<u8> {
        self.at += self.ahead().iter().take_while(|byte| is_space(**byte)).count();
        self.line.get(self.at).copied()
    }

    fn ahead(&self) -> &'l [u8] {
        self.line.get(self.at..).unwrap_or_default()
    }
}

/// The bytes of a string between its quotes.
pub(super) fn inside(quoted: &[u8]) -> &[u8] {
    quoted.get(1..quoted.len().saturating_sub(1)).unwrap_or_default()
}

/// A name without its escapes. One with half of a surrogate pair is taken as it is written.
fn unescaped(quoted: &[u8]) -> Vec<u8> {
    text(quoted, &mut Vec::new()).map_or_else(|| inside(quoted).to_owned(), |text| text.as_bytes().to_owned())
}

/// The text of a string, unescaped into `out` where it has escapes; `None` for half of a surrogate pair.
pub(super) fn text<'t>(quoted: &'t [u8], out: &'t mut Vec<u8>) -> Option<&'t str> {
    let plain = inside(quoted);
    if !plain.contains(&b'\\') {
        return std::str::from_utf8(plain).ok();
    }
    let len = unescape(quoted.get(1..)?, out).ok()?.text.ok()?;
    std::str::from_utf8(out.get(..len)?).ok()
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

/// Whether a number or a word ends before this byte.
fn is_end(byte: u8) -> bool {
    is_space(byte) || matches!(byte, b',' | b':' | b']' | b'}' | b'[' | b'{' | b'"')
}
