//! One line of JSON, checked as a whole, in one pass without recursion.
//!
//! The grammar is that of RFC 8259 and of Python's `json.loads`, which also takes `NaN`, `Infinity` and
//! `-Infinity`. Values are looked at only where somebody searches for them. That the line is UTF-8 is
//! the caller's to know.

use crate::field::{Search, Value};
use crate::strings::{CONTROL, NO_ESCAPE, NoString, OPEN, Said, escape_len, plain, said};

/// How many objects and lists may be open at once.
const DEPTH: usize = 1024;

/// Why a line is no JSON, and at which of its bytes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) at: usize,
    pub(crate) what: &'static str,
}

/// Where the last string begins that the first search looked for, and how many bytes it says, or where its first
/// lone surrogate stands.
pub(crate) type Told = (usize, Result<usize, usize>);

/// Reads the object that `line` is; `searches` look for its fields. What the first of them finds, if it is a string, is
/// written to `out` in the same pass.
pub(crate) fn read(line: &[u8], searches: &mut [Search<'_>], out: &mut Vec<u8>) -> Result<Option<Told>, Fault> {
    Reader { line, at: 0, depth: 0, objects: [0; DEPTH / 64], out, told: None }.read(searches)
}

/// A string in the line, by what stands between its quotes.
struct Text {
    from: usize,
    to: usize,
    escaped: bool,
}

struct Reader<'a> {
    line: &'a [u8],
    at: usize,
    /// How many objects and lists are open.
    depth: usize,
    /// Of each whether it is an object, a bit each.
    objects: [u64; DEPTH / 64],
    out: &'a mut Vec<u8>,
    told: Option<Told>,
}

/// What comes after what was just read.
enum After {
    /// A value.
    Value,
    /// A name.
    Name,
    /// A comma or an end.
    Comma,
}

impl Reader<'_> {
    fn read(mut self, searches: &mut [Search<'_>]) -> Result<Option<Told>, Fault> {
        let mut after = After::Value;
        loop {
            after = match after {
                After::Value => self.value(searches)?,
                After::Name => self.name(searches)?,
                After::Comma if self.depth > 0 => self.comma(searches)?,
                After::Comma => break,
            };
        }
        match self.peek() {
            None => Ok(self.told),
            Some(_) => Err(self.fault("there is more after the value")),
        }
    }

    fn value(&mut self, searches: &mut [Search<'_>]) -> Result<After, Fault> {
        let from = match self.peek() {
            Some(_) => self.at,
            None => return Err(self.fault("a value is missing")),
        };
        let found = match self.line.get(from) {
            Some(b'"') => {
                let wanted = searches.first().is_some_and(Search::wants);
                let text = if wanted { self.said()? } else { self.string()? };
                Value::Text(text.from..text.to, text.escaped)
            }
            Some(b'{') => return self.open(true, searches),
            Some(b'[') => return self.open(false, searches),
            Some(b't') => self.word(b"true", Value::Other("a boolean"))?,
            Some(b'f') => self.word(b"false", Value::Other("a boolean"))?,
            Some(b'n') => self.word(b"null", Value::Null)?,
            Some(b'N') => self.word(b"NaN", Value::Other("a number"))?,
            Some(b'I') => self.word(b"Infinity", Value::Other("a number"))?,
            _ if self.line.get(from..).is_some_and(|rest| rest.starts_with(b"-I")) => {
                self.word(b"-Infinity", Value::Other("a number"))?
            }
            _ => self.number()?,
        };
        if self.depth == 0 {
            self.at = from;
            return Err(self.fault("the line is no object"));
        }
        searches.iter_mut().for_each(|search| search.value(|| found.clone()));
        Ok(After::Comma)
    }

    fn open(&mut self, object: bool, searches: &mut [Search<'_>]) -> Result<After, Fault> {
        match self.objects.get_mut(self.depth / 64) {
            None => return Err(self.fault("objects and lists are nested too deep")),
            Some(word) => {
                let bit = 1 << (self.depth % 64);
                *word = if object { *word | bit } else { *word & !bit };
            }
        }
        if self.depth == 0 && !object {
            return Err(self.fault("the line is no object"));
        }
        if self.depth > 0 {
            searches.iter_mut().for_each(|search| search.open(object));
        }
        self.depth += 1;
        self.at += 1;
        let (end, after) = if object { (b'}', After::Name) } else { (b']', After::Value) };
        match self.peek() {
            Some(byte) if byte == end => Ok(self.close(searches)),
            _ => Ok(after),
        }
    }

    fn close(&mut self, searches: &mut [Search<'_>]) -> After {
        self.at += 1;
        self.depth -= 1;
        searches.iter_mut().for_each(|search| search.close(self.depth));
        After::Comma
    }

    fn comma(&mut self, searches: &mut [Search<'_>]) -> Result<After, Fault> {
        let inside = self.depth - 1;
        let object = self.objects.get(inside / 64).is_some_and(|word| word >> (inside % 64) & 1 == 1);
        match (self.peek(), object) {
            (Some(b','), _) => {
                self.at += 1;
                Ok(if object { After::Name } else { After::Value })
            }
            (Some(b'}'), true) | (Some(b']'), false) => Ok(self.close(searches)),
            (_, true) => Err(self.fault("a comma or a closing brace is missing")),
            (_, false) => Err(self.fault("a comma or a closing bracket is missing")),
        }
    }

    fn name(&mut self, searches: &mut [Search<'_>]) -> Result<After, Fault> {
        if self.peek() != Some(b'"') {
            return Err(self.fault("a name in double quotes is missing"));
        }
        let text = self.string()?;
        let line = self.line;
        let name = line.get(text.from..text.to).unwrap_or_default();
        let depth = self.depth - 1;
        if text.escaped {
            // A name with a lone surrogate is nobody's.
            let mut unescaped = Vec::new();
            let len =
                said(line.get(text.from..).unwrap_or_default(), &mut unescaped).ok().and_then(|said| said.text.ok());
            let name = len.and_then(|len| unescaped.get(..len)).unwrap_or(b"\xff");
            searches.iter_mut().for_each(|search| search.name(depth, name));
        } else {
            searches.iter_mut().for_each(|search| search.name(depth, name));
        }
        if self.peek() != Some(b':') {
            return Err(self.fault("a colon is missing"));
        }
        self.at += 1;
        Ok(After::Value)
    }

    /// The same as [`Reader::string`], and what it says.
    fn said(&mut self) -> Result<Text, Fault> {
        let from = self.at + 1;
        let rest = self.line.get(from..).unwrap_or_default();
        let no_string = |(at, what): NoString| Fault { at: from + at, what };
        let Said { len, escaped, text } = said(rest, self.out).map_err(no_string)?;
        self.told = Some((from, text));
        self.at = from + len + 1;
        Ok(Text { from, to: from + len, escaped })
    }

    /// The string whose first quote is the next byte.
    fn string(&mut self) -> Result<Text, Fault> {
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

    fn word(&mut self, word: &[u8], value: Value) -> Result<Value, Fault> {
        if !self.ahead().starts_with(word) {
            return Err(self.fault("this is no value"));
        }
        self.at += word.len();
        Ok(value)
    }

    fn number(&mut self) -> Result<Value, Fault> {
        let from = self.at;
        if self.line.get(self.at) == Some(&b'-') {
            self.at += 1;
        }
        match self.digits() {
            0 => return Err(self.fault("this is no value")),
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
        Ok(if integer.end == self.at { Value::Integer(integer) } else { Value::Other("a number with a fraction") })
    }

    /// Passes over digits, and says how many they are.
    fn digits(&mut self) -> usize {
        let n = self.ahead().iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.at += n;
        n
    }

    /// Passes over white space; the byte after it.
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

    fn fault(&self, what: &'static str) -> Fault {
        Fault { at: self.at, what }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::Path;

    fn find(path: &str, line: &str) -> Result<String, Fault> {
        let path = Path::parse(path);
        let mut searches = [Search::new(&path)];
        read(line.as_bytes(), &mut searches, &mut Vec::new())?;
        let [search] = searches;
        Ok(match search.found() {
            Value::Text(range, _) | Value::Integer(range) => line[range].to_owned(),
            other => format!("{other:?}"),
        })
    }

    #[test]
    fn a_field_is_found_wherever_it_stands() {
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
    fn what_is_no_json_is_refused_where_it_goes_wrong() {
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
