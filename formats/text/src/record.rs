//! The text, and the id, that a line of JSON holds.

use crate::fault::{Fault, utf8};
use crate::field::{Path, Search, Value};
use crate::json;
use crate::strings;
use simdutf8::basic::from_utf8;
use std::borrow::Cow;
use std::ops::Range;

/// The value of the field `id`, if one is wanted, and that of the field `text`; `unescaped` is where it is
/// put together if there are escapes in it.
pub(crate) fn find<'l>(
    line: &'l [u8],
    text: &Path,
    id: Option<&Path>,
    unescaped: &'l mut Vec<u8>,
) -> Result<(Option<Cow<'l, str>>, &'l str), Fault> {
    let mut searches = [Search::new(text), Search::new(id.unwrap_or(text))];
    let wanted = searches.get_mut(..1 + usize::from(id.is_some())).unwrap_or_default();
    let told = json::read(line, wanted, unescaped).map_err(|fault| no_json(line, &fault))?;
    let [found, found_id] = searches;
    let text = match found.found() {
        Value::Text(range, false) => utf8(line)?.get(range).unwrap_or_default(),
        Value::Text(range, true) => {
            // Of equal names the last counts, which need not be the last string of them.
            let told = told.filter(|(from, _)| *from == range.start).map(|(_, told)| told);
            let told = told.unwrap_or_else(|| unescape(line, &range, unescaped));
            said(line, text, &range, told, unescaped)?
        }
        other => return Err(utf8(line).err().unwrap_or_else(|| no_string(text, &other, "string", "text-field"))),
    };
    let id = id.map(|path| key(line, path, found_id.found())).transpose()?;
    Ok((id, text))
}

fn no_json(line: &[u8], fault: &json::Fault) -> Fault {
    let message = || format!("is no JSON: {}; repair or remove the line", fault.what);
    utf8(line).err().unwrap_or_else(|| Fault::content(fault.at, message()))
}

fn key<'l>(line: &'l [u8], path: &Path, value: Value) -> Result<Cow<'l, str>, Fault> {
    let key = match value {
        Value::Integer(range) | Value::Text(range, false) => Cow::Borrowed(utf8(line.get(range).unwrap_or_default())?),
        Value::Text(range, true) => {
            let mut out = Vec::new();
            let told = unescape(line, &range, &mut out);
            Cow::Owned(said(line, path, &range, told, &out)?.to_owned())
        }
        other => return Err(no_string(path, &other, "string or integer", "id-field")),
    };
    match key.is_empty() {
        true => Err(Fault::content(0, format!("the field \"{}\" is empty and can be no key", path.name))),
        false => Ok(key),
    }
}

/// Writes to `out` what the string at `range` of `line` says, and returns how many bytes that are, or where its first
/// lone surrogate stands.
fn unescape(line: &[u8], range: &Range<usize>, out: &mut Vec<u8>) -> Result<usize, usize> {
    strings::said(line.get(range.start..).unwrap_or_default(), out).map_or(Err(0), |said| said.text)
}

/// The text that the escaped string at `range` of `line` was `told` to be: so many bytes of `out`. The line is looked at
/// for UTF-8 as well: what comes of the string is UTF-8 if and only if the string is, as each escape says a whole
/// character.
fn said<'o>(
    line: &[u8],
    path: &Path,
    range: &Range<usize>,
    told: Result<usize, usize>,
    out: &'o [u8],
) -> Result<&'o str, Fault> {
    let (head, rest) = line.split_at_checked(range.start).unwrap_or_default();
    let tail = rest.get(range.len()..).unwrap_or_default();
    let whole = told.ok().and_then(|len| from_utf8(out.get(..len)?).ok());
    if let Some(said) = whole.filter(|_| from_utf8(head).is_ok() && from_utf8(tail).is_ok()) {
        return Ok(said);
    }
    utf8(line)?;
    let message = format!("the field \"{}\" holds half of a surrogate pair, which is no Unicode", path.name);
    Err(Fault::content(range.start + told.err().unwrap_or_default(), message + "; repair or remove the line"))
}

fn no_string(path: &Path, value: &Value, wanted: &str, option: &str) -> Fault {
    let name = &path.name;
    Fault::content(
        0,
        match value {
            Value::Missing => format!("the field \"{name}\" is missing; name another by the option {option}"),
            Value::Null => format!("the field \"{name}\" is null, which counts as missing; remove the line"),
            Value::Other(kind) => format!("the field \"{name}\" is {kind}, no {wanted}"),
            _ => format!("the field \"{name}\" is an integer, no {wanted}"),
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(line: &str, id: Option<&str>) -> Result<(Option<String>, String), String> {
        let (text, id) = (Path::parse("text"), id.map(Path::parse));
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
        assert!(found(line, Some("none")).unwrap_err().contains("option id-field"));
        assert_eq!(found(r#"{"text":""}"#, None), Ok((None, String::new())));
        // Of equal names the last counts, and a name with a dot counts more than names inside each other.
        assert_eq!(found(r#"{"text":"a\n","text":"b\t"}"#, None), Ok((None, "b\t".to_owned())));
        assert_eq!(found(r#"{"text":"\ud800","text":"b\t"}"#, None), Ok((None, "b\t".to_owned())));
        let (path, line) = (Path::parse("a.b"), r#"{"a.b":"x\n","a":{"b":"y\n\n"}}"#);
        assert_eq!(find(line.as_bytes(), &path, Some(&path), &mut Vec::new()).unwrap(), (Some("x\n".into()), "x\n"));
    }

    #[test]
    fn what_is_no_text_says_so() {
        for (line, says) in [
            (r#"{"text":null}"#, "null, which counts as missing"),
            (r#"{"x":1}"#, "is missing; name another by the option text-field"),
            (r#"{"text":1}"#, "an integer, no string"),
            (r#"{"text":true}"#, "a boolean, no string"),
            (r#"{"text":["a"]}"#, "a list, no string"),
            (r#"{"text":"ab\ud800"}"#, "11: the field \"text\" holds half"),
            (r#"{"text":"a"#, "10: is no JSON: a string does not end"),
        ] {
            let error = found(line, None).unwrap_err();
            assert!(error.contains(says), "{line}: {error}");
        }
    }

    #[test]
    fn lone_surrogates_elsewhere_are_nobodys_business() {
        assert!(found(r#"{"x":"\ud800","\udc00":1,"text":"a"}"#, None).is_ok());
    }
}
