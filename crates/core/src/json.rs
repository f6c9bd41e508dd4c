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
        for bad in [&b"{\"a\": nan}"[..], b"NaN NaN", b"{\"a\": NaN", b"\"NaN\\"] {
            assert!(parse(bad).is_err());
        }
    }
}
