//! Parses the Python literal in an `.npy` header: strings, numbers, booleans, tuples, lists, dictionaries.
//!
//! This is the subset of Python's literals that occurs in headers, including those of Python 2
//! (`3L`, `u'x'`). What the values mean is up to `header`.

use packhorse_core::{Error, Result};

/// The deepest nesting, to bound recursion.
const DEPTH: usize = 32;

/// A Python literal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Literal {
    Text(String),
    Number(u64),
    Truth(bool),
    Tuple(Vec<Literal>),
    List(Vec<Literal>),
    Dict(Vec<(Literal, Literal)>),
}

impl Literal {
    /// Parses `text`, which must be one literal and white space around it.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let mut parser = Parser { text, at: 0 };
        let value = parser.value(DEPTH)?;
        match parser.peek() {
            None => Ok(value),
            Some(_) => Err(parser.error()),
        }
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl Parser<'_> {
    fn error(&self) -> Error {
        Error::content(format!("has a damaged header: invalid Python literal at byte {}", self.at))
    }

    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// Skips white space and returns the next character without consuming it.
    fn peek(&mut self) -> Option<char> {
        let rest = self.rest();
        let trimmed = rest.trim_start_matches([' ', '\t', '\r', '\n', '\x0c']);
        self.at += rest.len() - trimmed.len();
        self.rest().chars().next()
    }

    fn next_char(&mut self) -> Result<char> {
        let c = self.rest().chars().next().ok_or_else(|| self.error())?;
        self.at += c.len_utf8();
        Ok(c)
    }

    fn take(&mut self, word: &str) -> bool {
        let found = self.rest().starts_with(word);
        self.at += if found { word.len() } else { 0 };
        found
    }

    fn value(&mut self, depth: usize) -> Result<Literal> {
        let depth = depth.checked_sub(1).ok_or_else(|| Error::content("has a damaged header: nested too deeply"))?;
        match self.peek() {
            Some('\'' | '"') => self.text().map(Literal::Text),
            Some('u' | 'b') => {
                self.at += 1;
                self.text().map(Literal::Text)
            }
            Some('0'..='9') => self.number(),
            Some('(') => self.tuple(depth),
            Some('[') => {
                self.at += 1;
                self.items(']', depth).map(|(items, _)| Literal::List(items))
            }
            Some('{') => self.dict(depth),
            _ if self.take("True") => Ok(Literal::Truth(true)),
            _ if self.take("False") => Ok(Literal::Truth(false)),
            _ => Err(self.error()),
        }
    }

    /// `(1)` is 1, `(1,)` is a tuple.
    fn tuple(&mut self, depth: usize) -> Result<Literal> {
        self.at += 1;
        let (mut items, comma) = self.items(')', depth)?;
        match (items.len(), comma) {
            (1, false) => items.pop().ok_or_else(|| self.error()),
            _ => Ok(Literal::Tuple(items)),
        }
    }

    /// The values up to `end`, and whether a comma followed the last.
    fn items(&mut self, end: char, depth: usize) -> Result<(Vec<Literal>, bool)> {
        let (mut items, mut comma) = (Vec::new(), false);
        while self.peek() != Some(end) {
            if !(items.is_empty() || comma) {
                return Err(self.error());
            }
            items.push(self.value(depth)?);
            comma = self.comma();
        }
        self.at += 1;
        Ok((items, comma))
    }

    fn comma(&mut self) -> bool {
        let found = self.peek() == Some(',');
        self.at += usize::from(found);
        found
    }

    fn dict(&mut self, depth: usize) -> Result<Literal> {
        self.at += 1;
        let (mut items, mut comma) = (Vec::new(), true);
        while self.peek() != Some('}') {
            if !comma {
                return Err(self.error());
            }
            let key = self.value(depth)?;
            if self.peek() != Some(':') {
                return Err(self.error());
            }
            self.at += 1;
            items.push((key, self.value(depth)?));
            comma = self.comma();
        }
        self.at += 1;
        Ok(Literal::Dict(items))
    }

    fn number(&mut self) -> Result<Literal> {
        let rest = self.rest();
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let number = rest.get(..digits).and_then(|d| d.parse().ok()).ok_or_else(|| self.error())?;
        self.at += digits;
        self.take("L");
        Ok(Literal::Number(number))
    }

    fn text(&mut self) -> Result<String> {
        let quote = self.next_char()?;
        if !matches!(quote, '\'' | '"') {
            return Err(self.error());
        }
        let mut text = String::new();
        loop {
            match self.next_char()? {
                c if c == quote => return Ok(text),
                '\\' => text.push(self.escape()?),
                '\n' => return Err(self.error()),
                c => text.push(c),
            }
        }
    }

    fn escape(&mut self) -> Result<char> {
        Ok(match self.next_char()? {
            'n' => '\n',
            't' => '\t',
            'r' => '\r',
            'x' => self.code(2)?,
            'u' => self.code(4)?,
            'U' => self.code(8)?,
            c @ ('\\' | '\'' | '"') => c,
            _ => return Err(self.error()),
        })
    }

    fn code(&mut self, digits: usize) -> Result<char> {
        let hex = self.rest().get(..digits).filter(|hex| hex.bytes().all(|b| b.is_ascii_hexdigit()));
        let code = hex.and_then(|hex| u32::from_str_radix(hex, 16).ok());
        let c = code.and_then(char::from_u32).ok_or_else(|| self.error())?;
        self.at += digits;
        Ok(c)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_read() {
        let text =
            "{'descr': [('a', '<f4', (2,)), (u'b\\'\\x41\\u00e4', \"|S1\")], 'ok': True, 'shape': (3L, 4), }  \n";
        let Literal::Dict(items) = Literal::parse(text).unwrap() else { panic!() };
        let keys: Vec<_> = items.iter().map(|(k, _)| k.clone()).collect();
        assert_eq!(keys, ["descr", "ok", "shape"].map(|k| Literal::Text(k.into())));
        assert_eq!(items[1].1, Literal::Truth(true));
        assert_eq!(items[2].1, Literal::Tuple(vec![Literal::Number(3), Literal::Number(4)]));
        let Literal::List(members) = &items[0].1 else { panic!() };
        let Literal::Tuple(second) = &members[1] else { panic!() };
        assert_eq!(second[0], Literal::Text("b'Aä".into()));
    }

    #[test]
    fn tuples_need_their_comma() {
        assert_eq!(Literal::parse("()").unwrap(), Literal::Tuple(vec![]));
        assert_eq!(Literal::parse("(1)").unwrap(), Literal::Number(1));
        assert_eq!(Literal::parse("(1,)").unwrap(), Literal::Tuple(vec![Literal::Number(1)]));
    }

    #[test]
    fn other_text_is_refused() {
        for text in
            ["", "{", "{'a': }", "(1 2)", "(,)", "1 x", "-1", "__import__('os')", "'a", "'\\q'", "[1,,2]", "1.5"]
        {
            assert!(Literal::parse(text).is_err(), "{text}");
        }
        assert!(Literal::parse(&"(".repeat(100_000)).unwrap_err().message().contains("deeply"));
    }
}
