//! JSON on one line.

use std::borrow::Cow;

/// JSON text without line breaks, which plans and tables of lines can't hold. Text of several lines loses all white space between its
/// parts.
pub(super) fn one_line(json: &str) -> Cow<'_, str> {
    if !json.contains(['\n', '\r']) {
        return Cow::Borrowed(json);
    }
    let (mut is_text, mut is_escaped) = (false, false);
    let kept = json.chars().filter(|c| {
        let keep = is_text || !c.is_ascii_whitespace();
        (is_text, is_escaped) = match c {
            '"' if !is_escaped => (!is_text, false),
            '\\' => (is_text, is_text && !is_escaped),
            _ => (is_text, false),
        };
        keep
    });
    Cow::Owned(kept.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value;

    #[test]
    fn lines_become_one() {
        let text = "{\r\n  \"a b\\\\\": [1.50,\t\"\\\" \\n \"]\n}";
        assert_eq!(one_line(text), r#"{"a b\\":[1.50,"\" \n "]}"#);
        assert_eq!(one_line("{ \"a\" : 1 }"), "{ \"a\" : 1 }");
    }

    proptest! {
        #[test]
        fn values_stay(texts in proptest::collection::vec("\\PC{0,6}|[\"\\\\ \n\r\t]{0,6}", 0..6)) {
            let value = Value::from_iter(texts.iter().map(|text| (text.clone(), Value::from(text.as_str()))));
            let text = serde_json::to_string_pretty(&value).unwrap();
            let line = one_line(&text);
            prop_assert!(!line.contains(['\n', '\r']));
            prop_assert_eq!(serde_json::from_str::<Value>(&line).unwrap(), value);
        }
    }
}
