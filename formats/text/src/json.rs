//! Parses and validates one line of JSON in one pass, without recursion.
//!
//! The grammar is that of RFC 8259 and of Python's `json.loads`, which also takes `NaN`, `Infinity` and
//! `-Infinity`. Only the fields that are searched for are extracted. The caller checks that the line is UTF-8.

use crate::field::{FieldSearch, FieldValue};
use crate::strings::{CONTROL, NO_ESCAPE, OPEN, StringError, StringExtent, escape_len, plain, unescape};

/// The deepest nesting of objects and lists.
const DEPTH: usize = 1024;

/// Why a line is not valid JSON, and at which byte.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct JsonError {
    pub(crate) at: usize,
    pub(crate) what: &'static str,
}

/// The last string that the first search looked for: where it starts, and its length without escapes, or the place of
/// its first lone surrogate.
pub(crate) type UnescapedString = (usize, Result<usize, usize>);

/// Parses the object in `line` and reports its fields to `searches`. A string that the first search looks for is
/// unescaped into `out` in the same pass.
pub(crate) fn read(
    line: &[u8],
    searches: &mut [FieldSearch<'_>],
    out: &mut Vec<u8>,
) -> Result<Option<UnescapedString>, JsonError> {
    Reader { line, at: 0, depth: 0, objects: [0; DEPTH / 64], out, decoded: None }.read(searches)
}

/// The range of a string between its quotes.
struct Text {
    from: usize,
    to: usize,
    escaped: bool,
}

struct Reader<'a> {
    line: &'a [u8],
    at: usize,
    /// The number of open objects and lists.
    depth: usize,
    /// A bit for each of them: whether it is an object.
    objects: [u64; DEPTH / 64],
    out: &'a mut Vec<u8>,
    decoded: Option<UnescapedString>,
}

/// What the grammar allows next.
enum After {
    /// A value.
    FieldValue,
    /// A name.
    Name,
    /// A comma or a closing bracket.
    Comma,
}

impl Reader<'_> {
    fn read(mut self, searches: &mut [FieldSearch<'_>]) -> Result<Option<UnescapedString>, JsonError> {
        let mut after = After::FieldValue;
        loop {
            after = match after {
                After::FieldValue => self.value(searches)?,
                After::Name => self.name(searches)?,
                After::Comma if self.depth > 0 => self.comma(searches)?,
                After::Comma => break,
            };
        }
        match self.peek() {
            None => Ok(self.decoded),
            Some(_) => Err(self.fault("there is more after the value")),
        }
    }

    fn value(&mut self, searches: &mut [FieldSearch<'_>]) -> Result<After, JsonError> {
        let from = match self.peek() {
            Some(_) => self.at,
            None => return Err(self.fault("a value is missing")),
        };
        let found = match self.line.get(from) {
            Some(b'"') => {
                let wanted = searches.first().is_some_and(FieldSearch::wants);
                let text = if wanted { self.unescaped_string()? } else { self.string()? };
                FieldValue::Text(text.from..text.to, text.escaped)
            }
            Some(b'{') => return self.open(true, searches),
            Some(b'[') => return self.open(false, searches),
            Some(b't') => self.word(b"true", FieldValue::Other("a boolean"))?,
            Some(b'f') => self.word(b"false", FieldValue::Other("a boolean"))?,
            Some(b'n') => self.word(b"null", FieldValue::Null)?,
            Some(b'N') => self.word(b"NaN", FieldValue::Other("a number"))?,
            Some(b'I') => self.word(b"Infinity", FieldValue::Other("a number"))?,
            _ if self.line.get(from..).is_some_and(|rest| rest.starts_with(b"-I")) => {
                self.word(b"-Infinity", FieldValue::Other("a number"))?
            }
            _ => self.number()?,
        };
        if self.depth == 0 {
            self.at = from;
            return Err(self.fault("the line is not an object"));
        }
        searches.iter_mut().for_each(|search| search.value(|| found.clone()));
        Ok(After::Comma)
    }

    fn open(&mut self, object: bool, searches: &mut [FieldSearch<'_>]) -> Result<After, JsonError> {
        match self.objects.get_mut(self.depth / 64) {
            None => return Err(self.fault("objects and lists are nested too deep")),
            Some(word) => {
                let bit = 1 << (self.depth % 64);
                *word = if object { *word | bit } else { *word & !bit };
            }
        }
        if self.depth == 0 && !object {
            return Err(
                self.fault("a list, and JSON lines are objects, one a line: `jq -c '.[]'` makes them of a list")
            );
        }
        if self.depth > 0 {
            searches.iter_mut().for_each(|search| search.open(object));
        }
        self.depth += 1;
        self.at += 1;
        let (end, after) = if object { (b'}', After::Name) } else { (b']', After::FieldValue) };
        match self.peek() {
            Some(byte) if byte == end => Ok(self.close(searches)),
            _ => Ok(after),
        }
    }

    fn close(&mut self, searches: &mut [FieldSearch<'_>]) -> After {
        self.at += 1;
        self.depth -= 1;
        searches.iter_mut().for_each(|search| search.close(self.depth));
        After::Comma
    }

    fn comma(&mut self, searches: &mut [FieldSearch<'_>]) -> Result<After, JsonError> {
        let inside = self.depth - 1;
        let object = self.objects.get(inside / 64).is_some_and(|word| word >> (inside % 64) & 1 == 1);
        match (self.peek(), object) {
            (Some(b','), _) => {
                self.at += 1;
                Ok(if object { After::Name } else { After::FieldValue })
            }
            (Some(b'}'), true) | (Some(b']'), false) => Ok(self.close(searches)),
            (_, true) => Err(self.fault("a comma or a closing brace is missing")),
            (_, false) => Err(self.fault("a comma or a closing bracket is missing")),
        }
    }

    fn name(&mut self, searches: &mut [FieldSearch<'_>]) -> Result<After, JsonError> {
        if self.peek() != Some(b'"') {
            return Err(self.fault("a name in double quotes is missing"));
        }
        let text = self.string()?;
        let line = self.line;
        let name = line.get(text.from..text.to).unwrap_or_default();
        let depth = self.depth - 1;
        if text.escaped {
            // A name with a lone surrogate matches no field: 0xFF is not UTF-8.
            let mut unescaped = Vec::new();
            let len = unescape(line.get(text.from..).unwrap_or_default(), &mut unescaped)
                .ok()
                .and_then(|string| string.text.ok());
            let name = len.and_then(|len| unescaped.get(..len)).unwrap_or(b"\xff");
            searches.iter_mut().for_each(|search| search.name(depth, name));
        } else {
            searches.iter_mut().for_each(|search| search.name(depth, name));
        }
        if self.peek() != Some(b':') {
            return Err(self.fault("a colon is missing"));
        }
        self.at += 1;
        Ok(After::FieldValue)
    }

    /// Like [`Reader::string`], and unescapes it into `out`.
    fn unescaped_string(&mut self) -> Result<Text, JsonError> {
        let from = self.at + 1;
        let rest = self.line.get(from..).unwrap_or_default();
        let invalid = |(at, what): StringError| JsonError { at: from + at, what };
        let StringExtent { len, escaped, text } = unescape(rest, self.out).map_err(invalid)?;
        self.decoded = Some((from, text));
        self.at = from + len + 1;
        Ok(Text { from, to: from + len, escaped })
    }

    /// The string whose first quote is the next byte.
    fn string(&mut self) -> Result<Text, JsonError> {
        self.at += 1;
        let from = self.at;
        let mut escaped = false;
        loop {
            self.at += plain(self.ahead());
            match self.line.get(self.at) {
                Some(b'"') => break,
                Some(b'\\') => {
                    escaped = true;
                    self.at += escape_len(self.ahead()).ok_or_else(|| self.fault(NO_ESCAPE))?;
                }
                Some(_) => return Err(self.fault(CONTROL)),
                None => return Err(self.fault(OPEN)),
            }
        }
        self.at += 1;
        Ok(Text { from, to: self.at - 1, escaped })
    }

    fn word(&mut self, word: &[u8], value: FieldValue) -> Result<FieldValue, JsonError> {
        if !self.ahead().starts_with(word) {
            return Err(self.fault("this is not a value"));
        }
        self.at += word.len();
        Ok(value)
    }

    fn number(&mut self) -> Result<FieldValue, JsonError> {
        let from = self.at;
        if self.line.get(self.at) == Some(&b'-') {
            self.at += 1;
        }
        match self.digits() {
            0 => return Err(self.fault("this is not a value")),
            n if n > 1 && self.line.get(self.at - n) == Some(&b'0') => {
                return Err(self.fault("a number starts with a needless zero"));
            }
            _ => {}
        }
        let integer = from..self.at;
        if self.line.get(self.at) == Some(&b'.') {
            self.at += 1;
            if self.digits() == 0 {
                return Err(self.fault("a digit is missing after the point"));
            }
        }
        if matches!(self.line.get(self.at), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.line.get(self.at), Some(b'+' | b'-')) {
                self.at += 1;
            }
            if self.digits() == 0 {
                return Err(self.fault("a digit is missing in the exponent"));
            }
        }
        Ok(if integer.end == self.at {
            FieldValue::Integer(integer)
        } else {
            FieldValue::Other("a number with a fraction")
        })
    }

    /// Skips digits; returns their number.
    fn digits(&mut self) -> usize {
        let n = self.ahead().iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.at += n;
        n
    }

    /// Skips white space; returns the byte after it.
    fn peek(&mut self) -> Option<u8> {
        while let Some(byte) = self.line.get(self.at) {
            if !matches!(byte, b' ' | b'\t' | b'\r' | b'\n') {
                return Some(*byte);
            }
            self.at += 1;
        }
        None
    }

    fn ahead(&self) -> &[u8] {
        self.line.get(self.at..).unwrap_or_default()
    }

    fn fault(&self, what: &'static str) -> JsonError {
        JsonError { at: self.at, what }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::FieldPath;

    fn find(path: &str, line: &str) -> Result<String, JsonError> {
        let path = FieldPath::parse(path);
        let mut searches = [FieldSearch::new(&path)];
        read(line.as_bytes(), &mut searches, &mut Vec::new())?;
        let [search] = searches;
        Ok(match search.found() {
            FieldValue::Text(range, _) | FieldValue::Integer(range) => line[range].to_owned(),
            other => format!("{other:?}"),
        })
    }

    #[test]
    fn a_field_is_found_anywhere_in_the_line() {
        for (path, line, expected) in [
            ("text", r#"{"text":"a"}"#, "a"),
            ("text", r#" { "x" : [ 1 , {"text":"no"} , [] , {} ] , "text" : "a" , "y" : {"text":"no"} } "#, "a"),
            ("text", r#"{"te\u0078t":"a"}"#, "a"),
            ("text", r#"{"text":"a","text":"b"}"#, "b"),
            ("text", r#"{"text":"a","text":null}"#, "Null"),
            ("text", r#"{"text":null}"#, "Null"),
            ("text", r#"{}"#, "Missing"),
            ("text", r#"{"text":["a"]}"#, r#"Other("a list")"#),
            ("text", r#"{"text":{}}"#, r#"Other("an object")"#),
            ("text", r#"{"text":-12}"#, "-12"),
            ("text", r#"{"text":1e5}"#, r#"Other("a number with a fraction")"#),
            ("text", r#"{"text":-Infinity,"x":NaN}"#, r#"Other("a number")"#),
            ("a.b", r#"{"a":{"b":"x"}}"#, "x"),
            ("a.b", r#"{"a":{"b":"x"},"a.b":"y"}"#, "y"),
            ("a.b", r#"{"a.b":null,"a":{"b":"x"}}"#, "Null"),
            ("a.b", r#"{"a":{"b":"x"},"a":{"c":"x"}}"#, "Missing"),
            ("a.b", r#"{"a":{"b":"x"},"a":1}"#, "Missing"),
            ("a.b", r#"{"a":[{"b":"x"}]}"#, "Missing"),
            ("a.b", r#"{"a":{"x":{"b":"no"},"b":"x","c":[1]},"c":{"b":"no"}}"#, "x"),
            ("a.b.c", r#"{"a":{"b":{"c":"x"},"d":{"c":"no"}},"b":{"c":"no"}}"#, "x"),
            ("a.b.c", r#"{"a":{"b":{}},"b":{"c":"no"},"x":{"b":{"c":"no"}}}"#, "Missing"),
        ] {
            assert_eq!(find(path, line).as_deref(), Ok(expected), "{path} in {line}");
        }
    }

    #[test]
    fn invalid_json_is_refused_at_the_right_byte() {
        for (line, at) in [
            ("", 0),
            ("{", 1),
            ("{]", 1),
            ("[]", 0),
            ("1", 0),
            (r#""text""#, 0),
            (r#"{"a"}"#, 4),
            (r#"{"a":}"#, 5),
            (r#"{"a":1,}"#, 7),
            (r#"{"a":[1,]}"#, 8),
            (r#"{"a":[1}"#, 7),
            (r#"{"a":01}"#, 7),
            (r#"{"a":-}"#, 6),
            (r#"{"a":1.}"#, 7),
            (r#"{"a":1e}"#, 7),
            (r#"{"a":+1}"#, 5),
            (r#"{"a":tru}"#, 5),
            (r#"{"a":nan}"#, 5),
            (r#"{"a":-Inf}"#, 5),
            (r#"{"a":"x}"#, 8),
            (r#"{"a":"\x"}"#, 6),
            (r#"{"a":"\u12g4"}"#, 6),
            ("{\"a\":\"\t\"}", 6),
            (r#"{"a":1} x"#, 8),
            (r#"{"a":1}{"#, 7),
            (r#"{'a':1}"#, 1),
            ("\u{feff}{}", 0),
        ] {
            assert_eq!(find("text", line).map_err(|fault| fault.at), Err(at), "{line}");
        }
    }

    #[test]
    fn depth_is_bounded() {
        let nested = |n: usize| format!("{{\"a\":{}{}}}", "[".repeat(n), "]".repeat(n));
        assert!(find("text", &nested(DEPTH - 1)).is_ok());
        assert_eq!(find("text", &nested(DEPTH)).unwrap_err().what, "objects and lists are nested too deep");
        assert!(find("text", &"[".repeat(1 << 20)).is_err());
    }
}
