//! JSONL tables: one JSON object a line.
//!
//! * Specification: RFC 8259 for each line. Lines end in LF or CR LF; blank lines and a byte order mark at the start are
//!   skipped. Also written by Hugging Face (`metadata.jsonl`), most labelling tools and `jq -c`.
//! * Kept text: without chosen columns the object verbatim, with its white space; with chosen columns the text of those
//!   members, verbatim, in the order of the choice. A member that a row lacks is missing in its object; a column that no
//!   row has is an error.
//! * The key is a string or an integer (its digits). Rows without it, or with null, belong to no sample; a table in which no row
//!   has it is an error (`Config`).

use super::{ColumnRequest, Metadata, column_choice::missing, lines::Lines, member_name};
use packhorse_core::{Error, Result};
use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::io::Read;

/// Reads a JSONL file.
pub(super) fn read(file: impl Read, request: &ColumnRequest<'_>) -> Result<Metadata> {
    let mut lines = Lines::new(file, request.limits.header);
    let mut table = Table::new(request, "line")?;
    while lines.next()? {
        let text = lines.line().trim_ascii();
        if !text.is_empty() {
            table.add(text, lines.number())?;
        }
    }
    table.finish()
}

/// The rows so far.
pub(super) struct Table<'a> {
    rows: Metadata,
    /// The members to look for: the key first, each name once.
    wanted: Vec<&'a str>,
    /// The members to keep; `None` keeps whole objects.
    columns: Option<Vec<Column>>,
    /// The members of the first row.
    names: Vec<String>,
    json: String,
}

struct Column {
    place: usize,
    prefix: String,
    seen: bool,
}

impl<'a> Table<'a> {
    /// An empty table, whose rows are counted in `unit`s.
    pub(super) fn new(request: &ColumnRequest<'a>, unit: &'static str) -> Result<Self> {
        let mut wanted = vec![request.key];
        let mut place = |name: &'a String| {
            let known = wanted.iter().position(|n| n == name);
            let place = known.unwrap_or(wanted.len());
            if known.is_none() {
                wanted.push(name);
            }
            Ok(Column { place, prefix: member_name(name)?, seen: false })
        };
        let columns = request.columns.map(|names| names.iter().map(&mut place).collect::<Result<_>>()).transpose()?;
        Ok(Self { rows: Metadata::empty(unit, request), wanted, columns, names: Vec::new(), json: String::new() })
    }

    /// Adds the row of `line`, which has no white space around it. A row without a key is left out and counted.
    pub(super) fn add(&mut self, line: &[u8], number: u64) -> Result<()> {
        let unit = self.rows.unit;
        let at = |text: &str| Error::content(format!("{unit} {number}: {text}"));
        let line = std::str::from_utf8(line).map_err(|_| at("isn't UTF-8; write the table as UTF-8"))?;
        let members = Pick(&self.wanted).parse(line).map_err(|e| at(&fault(&e, unit)))?;
        if self.names.is_empty() {
            // Cannot fail: Pick took the line for an object.
            let names = serde_json::from_str::<BTreeMap<String, IgnoredAny>>(line).unwrap_or_default();
            self.names = names.into_keys().collect();
        }
        let Some(key) = members.first().copied().flatten().filter(|key| key.get() != "null") else {
            self.rows.without_key(number);
            return Ok(());
        };
        let key =
            key_text(key).ok_or_else(|| at("the key is neither a string nor an integer; write it as a string"))?;
        let json = match &mut self.columns {
            None => line,
            Some(columns) => {
                write(columns, &members, &mut self.json);
                &self.json
            }
        };
        self.rows.insert(&key, json, number)
    }

    /// Adds something to tell of the table.
    pub(super) fn note(&mut self, text: String) {
        self.rows.notes.push(text);
    }

    /// The rows, unless none has the key, or a column that is wanted.
    pub(super) fn finish(self) -> Result<Metadata> {
        if self.rows.is_empty() && self.rows.keyless.is_some() {
            return Err(missing(self.wanted.first().copied().unwrap_or_default(), &self.names));
        }
        let unseen = self.columns.iter().flatten().find(|column| !column.seen);
        match unseen.and_then(|column| self.wanted.get(column.place)) {
            Some(name) if !self.rows.is_empty() => Err(missing(name, &self.names)),
            _ => Ok(self.rows),
        }
    }
}

/// Writes an object of the chosen members that the row has.
fn write(columns: &mut [Column], members: &[Option<&RawValue>], json: &mut String) {
    json.clear();
    for column in columns {
        if let Some(member) = members.get(column.place).copied().flatten() {
            column.seen = true;
            json.push(if json.is_empty() { '{' } else { ',' });
            json.push_str(&column.prefix);
            json.push_str(member.get());
        }
    }
    json.push_str(if json.is_empty() { "{}" } else { "}" });
}

/// The problem with a line. Drops serde_json's line number, which counts from the start of this line.
fn fault(error: &serde_json::Error, unit: &str) -> String {
    let text = error.to_string();
    let cause = text.split_once(" at line ").map_or(text.as_str(), |(cause, _)| cause);
    match unit {
        "line" => {
            format!(
                "isn't a JSON object ({cause}, column {}); write each row as one object on one line",
                error.column()
            )
        }
        _ => format!("isn't a JSON object ({cause})"),
    }
}

/// A string's text, an integer's digits.
fn key_text(value: &RawValue) -> Option<Cow<'_, str>> {
    let text = value.get();
    let digits = text.strip_prefix('-').unwrap_or(text);
    if digits.bytes().all(|b| b.is_ascii_digit()) {
        return Some(text.into());
    }
    match text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        Some(plain) if !plain.contains('\\') => Some(plain.into()),
        _ => serde_json::from_str::<String>(text).ok().map(Cow::Owned),
    }
}

/// Takes the members of these names out of an object without copying their text.
struct Pick<'a>(&'a [&'a str]);

impl Pick<'_> {
    /// One entry for each name.
    fn parse(self, line: &str) -> serde_json::Result<Vec<Option<&RawValue>>> {
        let mut deserializer = serde_json::Deserializer::from_str(line);
        let members = deserializer.deserialize_map(self)?;
        deserializer.end().map(|()| members)
    }
}

impl<'de> Visitor<'de> for Pick<'_> {
    type Value = Vec<Option<&'de RawValue>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Self::Value, A::Error> {
        let mut members = vec![None; self.0.len()];
        while let Some(place) = object.next_key_seed(Place(self.0))? {
            match place.and_then(|place| members.get_mut(place)) {
                None => drop(object.next_value::<IgnoredAny>()?),
                Some(member @ None) => *member = Some(object.next_value()?),
                Some(Some(_)) => return Err(A::Error::custom("it has a wanted member twice")),
            }
        }
        Ok(members)
    }
}

/// Deserializes a member's name to its position in this list.
struct Place<'a>(&'a [&'a str]);

impl<'de> DeserializeSeed<'de> for Place<'_> {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'de>>(self, name: D) -> Result<Self::Value, D::Error> {
        name.deserialize_str(self)
    }
}

impl Visitor<'_> for Place<'_> {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a member")
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        Ok(self.0.iter().position(|wanted| *wanted == name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use packhorse_core::{Kind, Limits};

    fn table(text: &[u8], key: &str, columns: Option<&[&str]>) -> Result<Metadata> {
        let columns: Option<Vec<String>> = columns.map(|list| list.iter().map(|name| (*name).to_owned()).collect());
        read(text, &ColumnRequest::new(key, columns.as_deref(), Limits::default()).unwrap())
    }

    fn fault_of(text: &[u8], columns: Option<&[&str]>) -> (Kind, String) {
        let error = table(text, "id", columns).unwrap_err();
        (error.kind(), error.message().to_owned())
    }

    #[test]
    fn an_object_is_kept_as_it_stands() {
        let rows = table(b"\xef\xbb\xbf{\"id\" : \"a.jpg\",  \"x\":1.50e+3}\r\n\n \n{\"id\":-7}", "id", None).unwrap();
        assert_eq!(rows.get("a"), Some("{\"id\" : \"a.jpg\",  \"x\":1.50e+3}"));
        assert_eq!((rows.get("-7"), rows.len()), (Some("{\"id\":-7}"), 2));
    }

    #[test]
    fn chosen_members_are_kept_verbatim_in_the_order_of_the_choice() {
        let text = br#"{"id":"\u0061","x":1.0,"skip":[1],"y":{"b" : null}}
                       {"id":"b","y":true}
                       {"id":"c"}"#;
        let rows = table(text, "id", Some(&["y", "x", "id"])).unwrap();
        assert_eq!(rows.get("a"), Some(r#"{"y":{"b" : null},"x":1.0,"id":"\u0061"}"#));
        assert_eq!(rows.get("b"), Some(r#"{"y":true,"id":"b"}"#));
        let rows = table(text, "id", Some(&["x"])).unwrap();
        assert_eq!((rows.get("a"), rows.get("c")), (Some(r#"{"x":1.0}"#), Some("{}")));
    }

    #[test]
    fn a_missing_name_is_reported_with_the_existing_ones() {
        let expected = (Kind::Config, r#"has no column "id"; choose among "a", "b""#.to_owned());
        assert_eq!(fault_of(br#"{"b":1,"a":2}"#, None), expected);
        let expected = (Kind::Config, r#"has no column "x"; choose among "id""#.to_owned());
        assert_eq!(fault_of(b"{\"id\":1}\n{\"id\":2}", Some(&["x"])), expected);
        assert_eq!(table(b"\n", "id", Some(&["x"])).unwrap().len(), 0);
    }

    #[test]
    fn rows_without_a_key_are_counted() {
        let rows = table(b"{}\n{\"id\":1}\n{\"id\":null}\n", "id", None).unwrap();
        assert_eq!((rows.len(), rows.keyless), (1, Some((2, 1))));
        assert_eq!(fault_of(b"{\"id\":null}\n{}", None).0, Kind::Config);
    }

    #[test]
    fn a_bad_line_is_named() {
        for (line, text) in [
            (&b"[1]"[..], "invalid type: sequence, expected an object"),
            (b"{\"id\":2", "EOF while parsing an object, column 7"),
            (b"{\"id\":2} {}", "trailing characters"),
            (b"{\"id\":2,\"id\":3}", "a wanted member twice"),
            (b"{\"id\":2.0}", "the key is neither a string nor an integer"),
            (b"{\"id\":\"\"}", "names no sample"),
            (b"{\"id\":\".x\"}", "hidden"),
            (b"{\"id\":\"\xff\"}", "isn't UTF-8"),
            (b"{\"id\":\"\\ud800\"}", "the key is neither"),
            (b"{\"id\":01}", "isn't a JSON object"),
        ] {
            let (kind, message) = fault_of(&[b"{\"id\":1}\n\n", line, b"\n{\"id\":9}\n"].concat(), None);
            assert_eq!(kind, Kind::Content, "{message}");
            assert!(message.starts_with("line 3: ") && message.contains(text), "{message}");
            assert!(!message.contains("at line"), "{message}");
        }
    }

    #[test]
    fn a_second_row_of_a_key_names_both_lines() {
        let (kind, message) = fault_of(b"{\"id\":\"a\"}\n{\"id\":\"b\"}\n\n{\"id\":\"a.png\"}", None);
        assert_eq!(kind, Kind::Content);
        assert!(message.starts_with("lines 1 and 4 have the same key \"a\""), "{message}");
    }

    #[test]
    fn a_line_over_the_limit_is_not_read_to_its_end() {
        let limits = Limits { header: 20, ..Limits::default() };
        let request = ColumnRequest::new("id", None, limits).unwrap();
        let endless = b"{\"id\":1}\n".chain(std::io::repeat(b' '));
        let error = read(endless, &request).unwrap_err();
        assert_eq!(error.kind(), Kind::Limit);
        assert!(error.message().starts_with("line 2: "));
        assert_eq!(read(&b"{\"id\":\"34567890123\"}\n{}"[..], &request).unwrap_err().kind(), Kind::Limit);
    }

    #[test]
    fn truncated_and_deep_objects_do_not_panic() {
        let text = br#"{"id":"a\u00e9","x":[1,{"y":null}],"s":"\ud83d\ude00"}"#;
        for end in 0..text.len() {
            let _ = table(&text[..end], "id", Some(&["x"]));
        }
        let deep = [b"{\"id\":1,\"x\":".as_slice(), &b"[".repeat(100_000), &b"]".repeat(100_000), b"}"].concat();
        let _ = table(&deep, "id", None);
        let _ = table(&deep, "id", Some(&["x"]));
    }
}
