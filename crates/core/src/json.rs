//! JSON as Python writes it: by default its `json` writes `NaN`, `Infinity` and `-Infinity`, which JSON lacks.

use serde_json::Value;

const WORDS: [&[u8]; 3] = [b"-Infinity", b"Infinity", b"NaN"];

/// Parses a JSON text. Numbers that JSON lacks are strings that [`odd_number`] tells.
///
/// Errors: those of the text as it is.
pub fn parse(text: &[u8]) -> Result<Value, serde_json::Error> {
    serde_json::from_slice(text).or_else(|error| {
        let quoted = quoted(text).ok_or(());
        quoted.and_then(|text| serde_json::from_slice(&text).map_err(drop)).map_err(|()| error)
    })
}

/// The same, where a fault in one text must not hide the others: a byte order mark is passed over, and half a surrogate pair, as of a
/// text that was cut, is U+FFFD.
pub fn parse_lossy(text: &[u8]) -> Result<Value, serde_json::Error> {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    parse(text).or_else(|error| {
        let mended = without_halves(text).ok_or(());
        mended.and_then(|text| parse(&text).map_err(drop)).map_err(|()| error)
    })
}

/// The text with U+FFFD for escapes of half a surrogate pair; `None` if it has none.
fn without_halves(text: &[u8]) -> Option<Vec<u8>> {
    let unit = |text: &[u8]| {
        let digits = std::str::from_utf8(text.strip_prefix(b"\\u")?.get(..4)?).ok()?;
        u32::from_str_radix(digits, 16).ok()
    };
    let (mut out, mut rest, mut found) = (Vec::with_capacity(text.len()), text, false);
    while let Some(at) = rest.iter().position(|byte| *byte == b'\\') {
        let (before, escape) = rest.split_at(at);
        out.extend(before);
        let second = unit(escape.get(6..).unwrap_or_default());
        let len = match (unit(escape), second) {
            (Some(0xd800..0xdc00), Some(0xdc00..0xe000)) => 12,
            (Some(0xd800..0xe000), _) => 0,
            _ => escape.len().min(2),
        };
        match len {
            0 => out.extend(b"\\ufffd"),
            len => out.extend(escape.get(..len).unwrap_or(escape)),
        }
        found |= len == 0;
        rest = escape.get(if len == 0 { 6 } else { len }..).unwrap_or_default();
    }
    out.extend(rest);
    found.then_some(out)
}

/// The value of a number that JSON lacks.
pub fn odd_number(value: &Value) -> Option<f64> {
    value.as_str()?.strip_prefix('\0')?.parse().ok()
}

/// The text with such words as strings that no text holds; `None` if it has none.
fn quoted(text: &[u8]) -> Option<Vec<u8>> {
    let (mut out, mut rest, mut is_string) = (Vec::with_capacity(text.len() + 64), text, false);
    while let Some((first, tail)) = rest.split_first() {
        let word = WORDS.into_iter().find(|word| !is_string && rest.starts_with(word));
        let len = match (word, first) {
            (Some(word), _) => {
                out.extend([b"\"\\u0000", word, b"\""].concat());
                word.len()
            }
            (None, b'\\') if is_string => {
                out.extend(rest.get(..2).unwrap_or(rest));
                2.min(rest.len())
            }
            (None, byte) => {
                is_string ^= *byte == b'"';
                out.push(*byte);
                1
            }
        };
        rest = rest.get(len..).unwrap_or(tail);
    }
    (out.len() > text.len()).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_json_lacks_are_told() {
        let text = br#"{"a": NaN, "b": [-Infinity, Infinity], "NaN": "NaN, \"Infinity\"", "c": 1.5}"#;
        let value = parse(text).unwrap();
        assert!(odd_number(&value["a"]).unwrap().is_nan());
        assert_eq!(odd_number(&value["b"][0]), Some(f64::NEG_INFINITY));
        assert_eq!((odd_number(&value["NaN"]), value["NaN"].as_str()), (None, Some("NaN, \"Infinity\"")));
        assert_eq!(value["c"], 1.5);
        // The marks of files, and texts that were cut inside of a character.
        let whole = r#"{"a": "\ud83d\ude00", "b": "\\ud83d", "n": 1}"#;
        assert_eq!(parse_lossy(whole.as_bytes()).unwrap(), parse(whole.as_bytes()).unwrap());
        let cut = "\u{feff}{\"a\": \"x\\ud83d\", \"b\": \"\\ude00\\ud83d\\ude00\", \"c\": NaN}";
        let value = parse_lossy(cut.as_bytes()).unwrap();
        assert_eq!((value["a"].as_str(), value["b"].as_str()), (Some("x\u{fffd}"), Some("\u{fffd}\u{1f600}")));
        assert!(odd_number(&value["c"]).unwrap().is_nan());
        for bad in [&b"{\"a\": \"\\ud83d"[..], b"\\ud83d", b"{\"a\": \"\\ud8\"}", b"\xef\xbb\xbf"] {
            assert!(parse_lossy(bad).is_err());
        }
        for bad in [&b"{\"a\": nan}"[..], b"NaN NaN", b"{\"a\": NaN", b"\"NaN\\"] {
            assert!(parse(bad).is_err());
        }
    }
}
