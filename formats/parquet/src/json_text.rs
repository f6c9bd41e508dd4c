//! Columns of any nesting as JSON text, one value for each row: `read=json=messages`.
//!
//! RFC 8259, without white space. Objects have all members of their struct, null ones too; keys of maps are text. Numbers are written so
//! that they are read back as they are; those that are not finite are refused, since JSON has none.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, StringViewArray, downcast_integer_array, types};
use packhorse_core::{DataType, Error, Field, Result};
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

/// The rows of `array` as JSON; null rows are null. `Content` for numbers that are not finite.
pub(crate) fn texts(array: &ArrayRef) -> Result<ArrayRef> {
    let text = |row: usize| {
        let mut out = String::new();
        write(array, row, &mut out)?;
        Ok(out)
    };
    let rows = (0..array.len()).map(|row| array.is_valid(row).then(|| text(row)).transpose());
    let rows: StringViewArray = rows.collect::<Result<Vec<_>>>()?.into_iter().collect();
    Ok(Arc::new(rows))
}

fn write(array: &ArrayRef, row: usize, out: &mut String) -> Result<()> {
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
        DataType::Boolean => out.push_str(if array.as_boolean().value(row) { "true" } else { "false" }),
        DataType::Float16 => number(array.as_primitive::<types::Float16Type>().value(row).to_f32(), f32::is_finite, out)?,
        DataType::Float32 => number(array.as_primitive::<types::Float32Type>().value(row), f32::is_finite, out)?,
        DataType::Float64 => number(array.as_primitive::<types::Float64Type>().value(row), f64::is_finite, out)?,
        DataType::Utf8 => quoted(array.as_string::<i32>().value(row), out)?,
        DataType::LargeUtf8 => quoted(array.as_string::<i64>().value(row), out)?,
        DataType::Utf8View => quoted(array.as_string_view().value(row), out)?,
        DataType::Dictionary(_, _) => {
            let dictionary = array.as_any_dictionary();
            let key = dictionary.normalized_keys().get(row).copied().ok_or_else(bug)?;
            write(dictionary.values(), key, out)?;
        }
        DataType::List(_) => list(&array.as_list::<i32>().value(row), out)?,
        DataType::LargeList(_) => list(&array.as_list::<i64>().value(row), out)?,
        DataType::FixedSizeList(_, _) => list(&array.as_fixed_size_list().value(row), out)?,
        DataType::Struct(parts) => {
            let columns = array.as_struct().columns();
            members(parts.iter().zip(columns).map(|(part, column)| (part.name().as_str(), column, row)), out)?;
        }
        DataType::Map(_, _) => {
            let entries = array.as_map().value(row);
            let [keys, values] = entries.columns() else { return Err(bug()) };
            let mut names = Vec::with_capacity(keys.len());
            for at in 0..keys.len() {
                names.push(text(keys, at).ok_or_else(bug)?);
            }
            members(names.iter().enumerate().map(|(at, name)| (*name, values, at)), out)?;
        }
        _ => return Err(bug())
    );
    Ok(())
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

fn list(values: &ArrayRef, out: &mut String) -> Result<()> {
    out.push('[');
    for at in 0..values.len() {
        if at > 0 {
            out.push(',');
        }
        write(values, at, out)?;
    }
    out.push(']');
    Ok(())
}

fn members<'a>(each: impl Iterator<Item = (&'a str, &'a ArrayRef, usize)>, out: &mut String) -> Result<()> {
    out.push('{');
    for (at, (name, column, row)) in each.enumerate() {
        if at > 0 {
            out.push(',');
        }
        quoted(name, out)?;
        out.push(':');
        write(column, row, out)?;
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
        let texts = StringArray::from(vec!["\"\\\n\u{1}é"]);
        assert_eq!(lines(Arc::new(texts)), [Some("\"\\\"\\\\\\n\\u0001é\"".to_owned())]);
        for odd in [f64::NAN, f64::INFINITY] {
            let array: ArrayRef = Arc::new(Float64Array::from(vec![odd]));
            assert_eq!(super::texts(&array).unwrap_err().kind(), packhorse_core::Kind::Content);
        }
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
        let list = DataType::List(Arc::new(Field::new("item", DataType::Binary, true)));
        assert!(refused(&list).unwrap().contains("Binary") && refused(&DataType::Date32).is_some());
    }
}
