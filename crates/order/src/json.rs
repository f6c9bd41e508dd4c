//! JSON as written by Python's `json.dumps(value, indent=4)`, whose MD5 names Megatron's caches.

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use std::fmt::Write;

/// A JSON value whose objects keep the order of their keys.
#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    /// `null`
    Null,
    /// `true`, `false`
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A float, written like Python's `repr`.
    Float(f64),
    /// A string, written in ASCII.
    Text(String),
    /// An array.
    List(Vec<Json>),
    /// An object.
    Object(Vec<(String, Json)>),
}

impl Json {
    /// The text, indented by four.
    pub(crate) fn dumps(&self) -> String {
        let mut text = String::new();
        self.write(0, &mut text);
        text
    }

    fn write(&self, depth: usize, text: &mut String) {
        match self {
            Json::Null => text.push_str("null"),
            Json::Bool(value) => text.push_str(if *value { "true" } else { "false" }),
            Json::Int(value) => text.push_str(&value.to_string()),
            Json::Float(value) => text.push_str(&float(*value)),
            Json::Text(value) => quoted(value, text),
            Json::List(values) => {
                block('[', ']', values, depth, text, |value, text| value.write(depth + 1, text));
            }
            Json::Object(values) => block('{', '}', values, depth, text, |(key, value), text| {
                quoted(key, text);
                text.push_str(": ");
                value.write(depth + 1, text);
            }),
        }
    }
}

fn block<T>(open: char, close: char, values: &[T], depth: usize, text: &mut String, each: impl Fn(&T, &mut String)) {
    text.push(open);
    for (at, value) in values.iter().enumerate() {
        text.push_str(if at > 0 { ",\n" } else { "\n" });
        text.extend(std::iter::repeat_n("    ", depth + 1));
        each(value, text);
    }
    if !values.is_empty() {
        text.push('\n');
        text.extend(std::iter::repeat_n("    ", depth));
    }
    text.push(close);
}

/// ASCII only; other characters as UTF-16 escapes.
fn quoted(value: &str, text: &mut String) {
    text.push('"');
    for c in value.chars() {
        match c {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            '\u{8}' => text.push_str("\\b"),
            '\u{c}' => text.push_str("\\f"),
            ' '..='~' => text.push(c),
            _ => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    // Writing to a string does not fail.
                    let _ = write!(text, "\\u{unit:04x}");
                }
            }
        }
    }
    text.push('"');
}

/// The shortest digits that round-trip, with an exponent below 1e-4 and from 1e16 on.
fn float(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    match exponent.parse::<i32>().unwrap_or(0) {
        -4..16 => format!("{value:?}"),
        exponent => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
        }
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Values)
    }
}

struct Values;

impl<'de> Visitor<'de> for Values {
    type Value = Json;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("JSON")
    }
    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }
    fn visit_bool<E>(self, value: bool) -> Result<Json, E> {
        Ok(Json::Bool(value))
    }
    fn visit_i64<E>(self, value: i64) -> Result<Json, E> {
        Ok(Json::Int(value))
    }
    fn visit_u64<E: Error>(self, value: u64) -> Result<Json, E> {
        i64::try_from(value).map(Json::Int).map_err(|_| E::custom(format!("{value} is over 63 bits")))
    }
    fn visit_f64<E>(self, value: f64) -> Result<Json, E> {
        Ok(Json::Float(value))
    }
    fn visit_str<E>(self, value: &str) -> Result<Json, E> {
        Ok(Json::Text(value.to_owned()))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Json, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = access.next_element()? {
            values.push(value);
        }
        Ok(Json::List(values))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Json, A::Error> {
        let mut values = Vec::new();
        while let Some(pair) = access.next_entry()? {
            values.push(pair);
        }
        Ok(Json::Object(values))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_as_python_writes_them() {
        let pairs = [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (0.969, "0.969"),
            (1e-4, "0.0001"),
            (1e-5, "1e-05"),
            (1.5e-7, "1.5e-07"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (1.25e100, "1.25e+100"),
            (0.1 + 0.2, "0.30000000000000004"),
        ];
        for (value, text) in pairs {
            assert_eq!(float(value), text);
        }
    }

    #[test]
    fn the_order_of_keys_is_kept() {
        let text = r#"{"b": 1, "a": [null, true, 2.5, {}], "c": "\u00e9\ud83d\ude00\u007f"}"#;
        let value: Json = serde_json::from_str(text).unwrap();
        let expected = "{\n    \"b\": 1,\n    \"a\": [\n        null,\n        true,\n        2.5,\n        {}\n    ],\n    \
                        \"c\": \"\\u00e9\\ud83d\\ude00\\u007f\"\n}";
        assert_eq!(value.dumps(), expected);
    }
}
