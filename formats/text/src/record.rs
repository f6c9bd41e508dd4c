//! The text, and the id, that a line of JSON holds.

use crate::fault::{Fault, utf8};
use crate::field::{Path, Search, Value};
use crate::json;
use crate::strings::unescape;
use std::borrow::Cow;
use std::ops::Range;

/// The value of the field `id`, if one is wanted, and that of the field `text`; `unescaped` is where it is
/// put together if there are escapes in it.
pub(crate) fn find<'l>(
    line: &'l [u8],
    text: &Path,
    id: Option<&Path>,
    unescaped: &'l mut String,
) -> Result<(Option<Cow<'l, str>>, &'l str), Fault> {
    let line = utf8(line)?;
    let mut searches = [Search::new(text), Search::new(id.unwrap_or(text))];
    let wanted = searches.get_mut(..1 + usize::from(id.is_some())).unwrap_or_default();
    json::read(line.as_bytes(), wanted)
        .map_err(|fault| Fault::content(fault.at, format!("is no JSON: {}; repair or remove the line", fault.what)))?;
    let [found, found_id] = searches;
    let id = id.map(|path| key(line, path, found_id.found())).transpose()?;
    let text = match found.found() {
        Value::Text(range, false) => part(line, &range),
        Value::Text(range, true) => {
            unescaped.clear();
            said(line, text, &range, unescaped)?;
            unescaped
        }
        other => return Err(no_string(text, &other, "string", "text-field")),
    };
    Ok((id, text))
}

fn key<'l>(line: &'l str, path: &Path, value: Value) -> Result<Cow<'l, str>, Fault> {
    let key = match value {
        Value::Integer(range) | Value::Text(range, false) => Cow::Borrowed(part(line, &range)),
        Value::Text(range, true) => {
            let mut unescaped = String::new();
            said(line, path, &range, &mut unescaped)?;
            Cow::Owned(unescaped)
        }
        other => return Err(no_string(path, &other, "string or integer", "id-field")),
    };
    match key.is_empty() {
        true => Err(Fault::content(0, format!("the field \"{}\" is empty and can be no key", path.name))),
        false => Ok(key),
    }
}

fn part<'l>(line: &'l str, range: &Range<usize>) -> &'l str {
    line.get(range.clone()).unwrap_or_default()
}

/// Appends what the escaped string at `range` says.
fn said(line: &str, path: &Path, range: &Range<usize>, out: &mut String) -> Result<(), Fault> {
    unescape(part(line, range), out).map_err(|at| {
        let message = format!("the field \"{}\" holds half of a surrogate pair, which is no Unicode", path.name);
        Fault::content(range.start + at, message + "; repair or remove the line")
    })
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
        let mut unescaped = "left over".to_owned();
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
