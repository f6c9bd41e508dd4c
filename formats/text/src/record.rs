//! Extracts the text and the id from a line of JSON.

use crate::document_error::{DocumentError, utf8};
use crate::field::{FieldPath, FieldSearch, FieldValue};
use crate::json;
use crate::strings;
use simdutf8::basic::from_utf8;
use std::borrow::Cow;
use std::ops::Range;

/// The values of the fields `id` (if any) and `text`. A text with escapes is unescaped into `unescaped`.
pub(crate) fn find<'l>(
    line: &'l [u8],
    text: &FieldPath,
    id: Option<&FieldPath>,
    unescaped: &'l mut Vec<u8>,
) -> Result<(Option<Cow<'l, str>>, &'l str), DocumentError> {
    let mut searches = [FieldSearch::new(text), FieldSearch::new(id.unwrap_or(text))];
    let wanted = searches.get_mut(..1 + usize::from(id.is_some())).unwrap_or_default();
    let decoded = json::read(line, wanted, unescaped).map_err(|fault| invalid_json(line, &fault))?;
    let [found, found_id] = searches;
    let text = match found.found() {
        FieldValue::Text(range, false) => utf8(line)?.get(range).unwrap_or_default(),
        FieldValue::Text(range, true) => {
            // The last of equal names counts; the last string among them may be an earlier one.
            let decoded = decoded.filter(|(from, _)| *from == range.start).map(|(_, decoded)| decoded);
            let decoded = decoded.unwrap_or_else(|| unescape_at(line, &range, unescaped));
            checked_text(line, text, &range, decoded, unescaped)?
        }
        other => return Err(utf8(line).err().unwrap_or_else(|| wrong_type(text, &other, "string", "text-field"))),
    };
    let id = id.map(|path| key(line, path, found_id.found())).transpose()?;
    Ok((id, text))
}

pub(crate) fn invalid_json(line: &[u8], fault: &json::JsonError) -> DocumentError {
    let message = || format!("is not valid JSON: {}; repair or remove the line", fault.what);
    utf8(line).err().unwrap_or_else(|| DocumentError::content(fault.at, message()))
}

fn key<'l>(line: &'l [u8], path: &FieldPath, value: FieldValue) -> Result<Cow<'l, str>, DocumentError> {
    let key = match value {
        FieldValue::Integer(range) | FieldValue::Text(range, false) => {
            Cow::Borrowed(utf8(line.get(range).unwrap_or_default())?)
        }
        FieldValue::Text(range, true) => {
            let mut out = Vec::new();
            let decoded = unescape_at(line, &range, &mut out);
            Cow::Owned(checked_text(line, path, &range, decoded, &out)?.to_owned())
        }
        other => return Err(wrong_type(path, &other, "string or integer", "id-field")),
    };
    match key.is_empty() {
        true => Err(DocumentError::content(
            0,
            format!("the field \"{}\" is empty, and a key must not be; name another by `id-field`", path.name),
        )),
        false => Ok(key),
    }
}

/// Unescapes the string at `range` of `line` into `out`; returns its length, or the position of its first lone
/// surrogate.
fn unescape_at(line: &[u8], range: &Range<usize>, out: &mut Vec<u8>) -> Result<usize, usize> {
    strings::unescape(line.get(range.start..).unwrap_or_default(), out).map_or(Err(0), |string| string.text)
}

/// The unescaped text of the string at `range` of `line`: the first `decoded` bytes of `out`. Also checks that the
/// whole line is UTF-8. The unescaped text is UTF-8 if and only if the string is, since each escape is a whole
/// character.
fn checked_text<'o>(
    line: &[u8],
    path: &FieldPath,
    range: &Range<usize>,
    decoded: Result<usize, usize>,
    out: &'o [u8],
) -> Result<&'o str, DocumentError> {
    let (head, rest) = line.split_at_checked(range.start).unwrap_or_default();
    let tail = rest.get(range.len()..).unwrap_or_default();
    let whole = decoded.ok().and_then(|len| from_utf8(out.get(..len)?).ok());
    if let Some(text) = whole.filter(|_| from_utf8(head).is_ok() && from_utf8(tail).is_ok()) {
        return Ok(text);
    }
    utf8(line)?;
    let message = format!("the field \"{}\" holds half of a surrogate pair, which is not Unicode", path.name);
    Err(DocumentError::content(
        range.start + decoded.err().unwrap_or_default(),
        message + "; repair or remove the line",
    ))
}

fn wrong_type(path: &FieldPath, value: &FieldValue, wanted: &str, option: &str) -> DocumentError {
    let name = &path.name;
    DocumentError::content(
        0,
        match value {
            FieldValue::Missing if option == "text-field" => {
                format!(
                    "the field \"{name}\" is missing; name another by `{option}`, or `from=jsonl` makes a field of each"
                )
            }
            FieldValue::Missing => format!("the field \"{name}\" is missing; name another by `{option}`"),
            FieldValue::Null => format!("the field \"{name}\" is null, which counts as missing; remove the line"),
            FieldValue::Other(kind) => format!("the field \"{name}\" is {kind}, not a {wanted}"),
            _ => format!("the field \"{name}\" is an integer, not a {wanted}"),
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(line: &str, id: Option<&str>) -> Result<(Option<String>, String), String> {
        let (text, id) = (FieldPath::parse("text"), id.map(FieldPath::parse));
        let mut unescaped = b"left over".to_vec();
        find(line.as_bytes(), &text, id.as_ref(), &mut unescaped)
            .map(|(id, text)| (id.map(Cow::into_owned), text.to_owned()))
            .map_err(|fault| format!("{}: {}", fault.at, fault.message))
    }

    #[test]
    fn text_and_id_come_out_unescaped() {
        let line = r#"{"id":"a\u002fb","text":"x\n","n":12,"empty":""}"#;
        assert_eq!(found(line, None), Ok((None, "x\n".to_owned())));
        assert_eq!(found(line, Some("id")), Ok((Some("a/b".to_owned()), "x\n".to_owned())));
        assert_eq!(found(line, Some("n")), Ok((Some("12".to_owned()), "x\n".to_owned())));
        assert!(found(line, Some("empty")).unwrap_err().contains("is empty"));
        assert!(found(line, Some("none")).unwrap_err().contains("`id-field`"));
        assert_eq!(found(r#"{"text":""}"#, None), Ok((None, String::new())));
        // The last of equal names counts, and a name with a dot takes precedence over nested names.
        assert_eq!(found(r#"{"text":"a\n","text":"b\t"}"#, None), Ok((None, "b\t".to_owned())));
        assert_eq!(found(r#"{"text":"\ud800","text":"b\t"}"#, None), Ok((None, "b\t".to_owned())));
        let (path, line) = (FieldPath::parse("a.b"), r#"{"a.b":"x\n","a":{"b":"y\n\n"}}"#);
        assert_eq!(find(line.as_bytes(), &path, Some(&path), &mut Vec::new()).unwrap(), (Some("x\n".into()), "x\n"));
    }

    #[test]
    fn other_values_than_text_are_errors() {
        for (line, says) in [
            (r#"{"text":null}"#, "null, which counts as missing"),
            (r#"{"x":1}"#, "is missing; name another by `text-field`"),
            (r#"{"text":1}"#, "an integer, not a string"),
            (r#"{"text":true}"#, "a boolean, not a string"),
            (r#"{"text":["a"]}"#, "a list, not a string"),
            (r#"{"text":"ab\ud800"}"#, "11: the field \"text\" holds half"),
            (r#"{"text":"a"#, "10: is not valid JSON: a string does not end"),
        ] {
            let error = found(line, None).unwrap_err();
            assert!(error.contains(says), "{line}: {error}");
        }
    }

    #[test]
    fn lone_surrogates_in_other_fields_are_ignored() {
        assert!(found(r#"{"x":"\ud800","\udc00":1,"text":"a"}"#, None).is_ok());
    }
}
