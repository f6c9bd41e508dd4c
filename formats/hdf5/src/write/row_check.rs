//! The check of rows before they are written, so that one that can't be costs itself alone.

use arrow_array::cast::AsArray;
use arrow_array::{Array, GenericListArray, OffsetSizeTrait};
use packhorse_core::{DataType, Error, Field, FieldType, Result, Rows, key_column};

/// Whether the values of a field are texts.
pub(super) fn is_text(field: &Field) -> bool {
    let is_string = |kind: &DataType| matches!(kind, DataType::Utf8View | DataType::Utf8 | DataType::LargeUtf8);
    FieldType::of(field).is_ok_and(|kind| kind == FieldType::Text || kind.element().is_some_and(is_string))
}

/// Refuses texts with a zero byte.
pub(super) fn check_texts(rows: &Rows) -> Result<()> {
    for (field, column) in rows.schema_ref().fields().iter().zip(rows.columns()).filter(|(field, _)| is_text(field)) {
        if let Some((row, text)) = text_with_zero(column) {
            let error = zero_byte(field.name(), &text);
            let keys = key_column(rows).ok().filter(|keys| row < keys.len());
            return Err(keys.into_iter().fold(error, |error, keys| error.in_sample(keys.value(row))));
        }
    }
    Ok(())
}

/// The error of a text with a zero byte.
pub(super) fn zero_byte(field: &str, text: &str) -> Error {
    let shown: String = text.chars().take(40).collect();
    let error = Error::content(format!("{shown:?} has a zero byte, where readers of HDF5 end a text"));
    error.in_field(field).hint("pack to another format, or without this field")
}

/// The first text with a zero byte, and its row.
fn text_with_zero(column: &dyn Array) -> Option<(usize, String)> {
    match column.data_type() {
        DataType::Utf8View => first_with_zero(column.as_string_view().iter()),
        DataType::Utf8 => first_with_zero(column.as_string::<i32>().iter()),
        DataType::LargeUtf8 => first_with_zero(column.as_string::<i64>().iter()),
        DataType::List(_) => list_with_zero(column.as_list::<i32>()),
        DataType::LargeList(_) => list_with_zero(column.as_list::<i64>()),
        _ => None,
    }
}

fn first_with_zero<'a>(texts: impl Iterator<Item = Option<&'a str>>) -> Option<(usize, String)> {
    let has_zero = |text: &&str| text.as_bytes().contains(&0);
    texts.enumerate().find_map(|(row, text)| Some((row, text.filter(has_zero)?.to_owned())))
}

fn list_with_zero<O: OffsetSizeTrait>(lists: &GenericListArray<O>) -> Option<(usize, String)> {
    let offsets = lists.value_offsets();
    let (from, to) = (offsets.first()?.as_usize(), offsets.last()?.as_usize());
    text_with_zero(&lists.values().slice(from, to - from))?;
    (0..lists.len()).find_map(|row| Some((row, text_with_zero(&lists.value(row))?.1)))
}
