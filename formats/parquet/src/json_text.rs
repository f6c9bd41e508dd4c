//! Columns of any nesting as JSON text, one value for each row: `read=json=messages`.
//!
//! RFC 8259, without white space. Objects have all members of their struct, null ones too; keys of maps are text. Numbers are written so
//! that they are read back as they are; those that are not finite are refused, since JSON has none. A column of text holds JSON already.

use arrow_array::builder::StringViewBuilder;
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, downcast_integer_array, types};
use arrow_buffer::ArrowNativeType;
use packhorse_core::{DataType, Error, Field, Kind, Result};
use serde_json::value::RawValue;
use std::fmt::Write as _;
use std::sync::Arc;

/// Why a column of this type can't be JSON, if a part of it can't.
pub(crate) fn refused(data_type: &DataType) -> Option<String> {
    match data_type {
        DataType::Null | DataType::Boolean | DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => None,
        other if other.is_integer() || other.is_floating() => None,
        DataType::Dictionary(_, values) => refused(values),
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            refused(item.data_type())
        }
        DataType::Struct(parts) => parts.iter().find_map(|part| refused(part.data_type())),
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(parts) if parts.first().is_some_and(|keys| is_text(keys)) => {
                parts.get(1).and_then(|values| refused(values.data_type()))
            }
            _ => Some("JSON has text as keys of maps".to_owned()),
        },
        other => Some(format!("JSON has no {other}")),
    }
}

fn is_text(field: &Field) -> bool {
    matches!(field.data_type(), DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

/// The most bytes of text that the rows read at once become: values that a file holds once may be repeated.
const MOST: usize = 1 << 30;

/// The rows of `array` as JSON; null rows are null. `Content` for numbers that are not finite and for text that is not JSON, `Limit` for
/// more than 1 GiB of text.
pub(crate) fn texts(array: &ArrayRef) -> Result<ArrayRef> {
    let (mut texts, nulls) = (StringViewBuilder::with_capacity(array.len()), array.logical_nulls());
    let (mut text, mut left) = (String::new(), MOST);
    for row in 0..array.len() {
        if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            texts.append_null();
            continue;
        }
        text.clear();
        let (values, at) = category(array, row).unwrap_or((array, row));
        match self::text(values, at) {
            Some(json) => text.push_str(checked(json)?),
            None => write(array, row, &mut text, left)?,
        }
        left = left.checked_sub(text.len()).ok_or_else(too_long)?;
        texts.append_value(&text);
    }
    Ok(Arc::new(texts.finish()))
}

fn checked(json: &str) -> Result<&str> {
    let parsed = serde_json::from_str::<&RawValue>(json);
    parsed.map(RawValue::get).map_err(|e| Error::content(format!("holds text that is not JSON: {e}")))
}

fn too_long() -> Error {
    Error::new(Kind::Limit, "becomes more than 1 GiB of JSON in the rows that are read at once")
}

/// Writes the value in row `row`, of which at most about `most` bytes are wanted.
fn write(array: &ArrayRef, row: usize, out: &mut String, most: usize) -> Result<()> {
    if out.len() > most {
        return Err(too_long());
    }
    if array.is_null(row) {
        out.push_str("null");
        return Ok(());
    }
    let bug = || Error::bug(format!("{} as JSON", array.data_type()));
    downcast_integer_array!(
        array => {
            // Writing to a text does not fail.
            let _ = write!(out, "{}", array.value(row));
        },
        DataType::Null => out.push_str("null"),
        DataType::Boolean => out.push_str(if array.as_boolean().value(row) { "true" } else { "false" }),
        DataType::Float16 => number(array.as_primitive::<types::Float16Type>().value(row).to_f32(), f32::is_finite, out)?,
        DataType::Float32 => number(array.as_primitive::<types::Float32Type>().value(row), f32::is_finite, out)?,
        DataType::Float64 => number(array.as_primitive::<types::Float64Type>().value(row), f64::is_finite, out)?,
        DataType::Utf8 => quoted(array.as_string::<i32>().value(row), out)?,
        DataType::LargeUtf8 => quoted(array.as_string::<i64>().value(row), out)?,
        DataType::Utf8View => quoted(array.as_string_view().value(row), out)?,
        DataType::Dictionary(_, _) => {
            let (values, at) = category(array, row).ok_or_else(bug)?;
            write(values, at, out, most)?;
        }
        DataType::List(_) => list(&array.as_list::<i32>().value(row), out, most)?,
        DataType::LargeList(_) => list(&array.as_list::<i64>().value(row), out, most)?,
        DataType::FixedSizeList(_, _) => list(&array.as_fixed_size_list().value(row), out, most)?,
        DataType::Struct(parts) => {
            let columns = array.as_struct().columns();
            members(parts.iter().zip(columns).map(|(part, column)| (part.name().as_str(), column, row)), out, most)?;
        }
        DataType::Map(_, _) => {
            let entries = array.as_map().value(row);
            let [keys, values] = entries.columns() else { return Err(bug()) };
            let mut names = Vec::with_capacity(keys.len());
            for at in 0..keys.len() {
                names.push(text(keys, at).ok_or_else(bug)?);
            }
            members(names.iter().enumerate().map(|(at, name)| (*name, values, at)), out, most)?;
        }
        _ => return Err(bug())
    );
    Ok(())
}

/// The values of a dictionary, and the place of that in row `row`.
fn category(array: &ArrayRef, row: usize) -> Option<(&ArrayRef, usize)> {
    let dictionary = array.as_any_dictionary_opt()?;
    let key = key(dictionary.keys(), row).filter(|key| *key < dictionary.values().len());
    key.map(|key| (dictionary.values(), key))
}

/// The key in row `row` of a dictionary's keys.
fn key(keys: &dyn Array, row: usize) -> Option<usize> {
    downcast_integer_array!(
        keys => keys.value(row).to_usize(),
        _ => None
    )
}

/// The text in row `row` of a column of any type of text.
fn text(array: &ArrayRef, row: usize) -> Option<&str> {
    let short = array.as_string_opt::<i32>().map(|texts| texts.value(row));
    let long = || array.as_string_opt::<i64>().map(|texts| texts.value(row));
    short.or_else(long).or_else(|| array.as_string_view_opt().map(|texts| texts.value(row)))
}

fn number<N: Copy + std::fmt::Debug>(value: N, is_finite: impl Fn(N) -> bool, out: &mut String) -> Result<()> {
    if !is_finite(value) {
        return Err(Error::content(format!("holds {value:?}, and JSON has finite numbers alone")));
    }
    // The shortest text that is read as the number, with a point or an exponent.
    let _ = write!(out, "{value:?}");
    Ok(())
}

fn quoted(text: &str, out: &mut String) -> Result<()> {
    out.push_str(&serde_json::to_string(text).map_err(|e| Error::bug(e.to_string()))?);
    Ok(())
}

fn list(values: &ArrayRef, out: &mut String, most: usize) -> Result<()> {
    out.push('[');
    for at in 0..values.len() {
        if at > 0 {
            out.push(',');
        }
        write(values, at, out, most)?;
    }
    out.push(']');
    Ok(())
}

fn members<'a>(
    each: impl Iterator<Item = (&'a str, &'a ArrayRef, usize)>,
    out: &mut String,
    most: usize,
) -> Result<()> {
    out.push('{');
    for (at, (name, column, row)) in each.enumerate() {
        if at > 0 {
            out.push(',');
        }
        quoted(name, out)?;
        out.push(':');
        write(column, row, out, most)?;
    }
    out.push('}');
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::builder::{Float32Builder, ListBuilder, StringBuilder, StructBuilder};
    use arrow_array::{DictionaryArray, Float64Array, Int8Array, StringArray, StructArray, UInt64Array};
    use arrow_schema::Fields;

    fn lines(array: ArrayRef) -> Vec<Option<String>> {
        texts(&array).unwrap().as_string_view().iter().map(|text| text.map(str::to_owned)).collect()
    }

    #[test]
    fn values_are_written_as_they_are_read_back() {
        let floats = Float64Array::from(vec![Some(0.1), Some(-0.0), Some(1e300), Some(5e-324), Some(3.0), None]);
        let wanted = ["0.1", "-0.0", "1e300", "5e-324", "3.0"].map(|text| Some(text.to_owned()));
        assert_eq!(lines(Arc::new(floats)), [&wanted[..], &[None]].concat());
        assert_eq!(lines(Arc::new(UInt64Array::from(vec![u64::MAX]))), [Some(u64::MAX.to_string())]);
        for odd in [f64::NAN, f64::INFINITY] {
            let array: ArrayRef = Arc::new(Float64Array::from(vec![odd]));
            assert_eq!(super::texts(&array).unwrap_err().kind(), packhorse_core::Kind::Content);
        }
    }

    /// Once is enough: what a tar or another program kept as text is JSON already.
    #[test]
    fn text_that_is_json_stays_as_it_is() {
        let texts = StringArray::from(vec![Some(r#" [{"role": "user"}]"#), None, Some("1.50")]);
        let wanted = [Some(r#"[{"role": "user"}]"#.to_owned()), None, Some("1.50".to_owned())];
        assert_eq!(lines(Arc::new(texts)), wanted);
        let plain: ArrayRef = Arc::new(StringArray::from(vec!["[1]", "hello"]));
        let error = super::texts(&plain).unwrap_err();
        assert!(error.message().contains("not JSON") && error.kind() == packhorse_core::Kind::Content, "{error}");
    }

    #[test]
    fn texts_in_lists_are_escaped() {
        let mut lists = ListBuilder::new(StringBuilder::new());
        lists.append_value([Some("\"\\\n\u{1}é")]);
        assert_eq!(lines(Arc::new(lists.finish())), [Some("[\"\\\"\\\\\\n\\u0001é\"]".to_owned())]);
    }

    #[test]
    fn lists_of_structs_keep_what_is_null() {
        let fields =
            Fields::from(vec![Field::new("role", DataType::Utf8, true), Field::new("x", DataType::Float32, true)]);
        let parts: Vec<Box<dyn arrow_array::builder::ArrayBuilder>> =
            vec![Box::new(StringBuilder::new()), Box::new(Float32Builder::new())];
        let mut chats = ListBuilder::new(StructBuilder::new(fields, parts));
        for (role, x, is_there) in [(Some("a"), Some(0.5), true), (None, None, true), (None, None, false)] {
            let chat = chats.values();
            chat.field_builder::<StringBuilder>(0).unwrap().append_option(role);
            chat.field_builder::<Float32Builder>(1).unwrap().append_option(x);
            chat.append(is_there);
        }
        chats.append(true);
        chats.append(true);
        chats.append(false);
        let found = lines(Arc::new(chats.finish()));
        let first = r#"[{"role":"a","x":0.5},{"role":null,"x":null},null]"#;
        assert_eq!(found, [Some(first.to_owned()), Some("[]".to_owned()), None]);
    }

    #[test]
    fn categories_are_their_values_and_bytes_are_refused() {
        let values: ArrayRef = Arc::new(StringArray::from(vec!["cat", "dog"]));
        let animals = DictionaryArray::new(Int8Array::from(vec![Some(1), None, Some(0)]), values);
        let field = Arc::new(Field::new("animal", animals.data_type().clone(), true));
        let rows = StructArray::from(vec![(field, Arc::new(animals) as ArrayRef)]);
        let wanted =
            [r#"{"animal":"dog"}"#, r#"{"animal":null}"#, r#"{"animal":"cat"}"#].map(|text| Some(text.to_owned()));
        assert_eq!(lines(Arc::new(rows)), wanted);
        // A null among the values, and columns of nothing.
        let values: ArrayRef = Arc::new(StringArray::from(vec![None, Some("\"cat\"")]));
        let animals = DictionaryArray::new(Int8Array::from(vec![0, 1]), values);
        assert_eq!(lines(Arc::new(animals)), [None, Some("\"cat\"".to_owned())]);
        let nothing: ArrayRef = Arc::new(arrow_array::NullArray::new(1));
        assert_eq!(lines(Arc::clone(&nothing)), [None]);
        let field = Arc::new(Field::new("tool", DataType::Null, true));
        assert_eq!(lines(Arc::new(StructArray::from(vec![(field, nothing)]))), [Some(r#"{"tool":null}"#.to_owned())]);
        let list = DataType::List(Arc::new(Field::new("item", DataType::Binary, true)));
        assert!(refused(&list).unwrap().contains("Binary") && refused(&DataType::Date32).is_some());
    }
}
