//! A field for each value of a list: what several pictures of a sample are in formats of files.

use crate::casts::of_row;
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, UInt64Array};
use packhorse_core::{DataType, Error, Field, FieldType, HUGGINGFACE, Result, Rows, counted, with_metadata};

/// The most fields of a list.
const MOST: usize = 1000;

/// Parses a number of fields.
pub(super) fn count(field: &str, text: &str) -> Result<usize> {
    let count = text.parse().ok().filter(|count| (1..=MOST).contains(count));
    count.ok_or_else(|| Error::config(format!("`spread={field}={text}`: a number of fields is from 1 to {MOST}")))
}

/// The fields of the first `count` values: of `images.jpg` they are `images.0.jpg`, `images.1.jpg` and so on, of `boxes` `boxes.0`.
///
/// Errors (kind `Config`): a field that holds no lists.
pub(super) fn fields(field: &Field, count: usize) -> Result<Vec<Field>> {
    let item = match FieldType::of(field)? {
        FieldType::List { element, depth: depth @ 2.. } => FieldType::List { element, depth: depth - 1 },
        FieldType::List { element: DataType::BinaryView, .. } => FieldType::Blob,
        FieldType::List { element: DataType::Utf8View, .. } => FieldType::Text,
        FieldType::List { element, .. } => FieldType::Scalar(element),
        other => {
            let message = format!("field {} holds {other}, and `spread` takes lists of varying length", field.name());
            return Err(Error::config(message).in_field(field.name()));
        }
    };
    let (stem, extension) = match field.name().rsplit_once('.') {
        Some((stem, extension)) => (stem, format!(".{extension}")),
        None => (field.name().as_str(), String::new()),
    };
    let feature = field.metadata().get(HUGGINGFACE);
    let feature = feature.and_then(|text| serde_json::from_str::<serde_json::Value>(text).ok());
    let of_item = feature.as_ref().and_then(|feature| Some(feature.get("feature")?.to_string()));
    let one = |at: usize| {
        let one = item.field(&format!("{stem}.{at}{extension}"), true);
        field.metadata().iter().fold(one, |one, (name, value)| match name.as_str() {
            HUGGINGFACE => of_item.iter().fold(one, |one, feature| with_metadata(one, name, feature)),
            _ => with_metadata(one, name, value),
        })
    };
    Ok((0..count).map(one).collect())
}

/// The columns of [`fields`]; null where a sample has fewer values.
///
/// Errors (kind `Content`): a sample with more values than fields.
pub(super) fn columns(rows: &Rows, name: &str, lists: &ArrayRef, count: usize) -> Result<Vec<ArrayRef>> {
    let lists = lists.as_list_opt::<i32>().ok_or_else(|| Error::bug(format!("field {name} is not a list")))?;
    let length = |row: usize| if lists.is_null(row) { 0 } else { lists.value_length(row).unsigned_abs() as usize };
    if let Some(row) = (0..lists.len()).find(|row| length(*row) > count) {
        let text =
            format!("{name} has {} values here, and `spread` makes {}", length(row), counted(count as u64, "field"));
        return Err(of_row(rows, row, name, text).hint(format!("give it more fields: `spread={name}={}`", length(row))));
    }
    let starts = lists.value_offsets();
    let place = |row: usize, at: usize| Some(starts.get(row)?.unsigned_abs() as u64 + at as u64);
    let column = |at: usize| {
        let places = (0..lists.len()).map(|row| if at < length(row) { place(row, at) } else { None });
        let column = arrow_select::take::take(lists.values(), &places.collect::<UInt64Array>(), None);
        column.map_err(|error| Error::bug(error.to_string()))
    };
    (0..count).map(column).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::builder::{BinaryViewBuilder, ListBuilder};
    use std::sync::Arc;

    fn pictures(samples: &[Option<&[&[u8]]>]) -> (Rows, ArrayRef) {
        let mut lists = ListBuilder::new(BinaryViewBuilder::new());
        for sample in samples {
            sample.iter().flat_map(|values| values.iter()).for_each(|value| lists.values().append_value(value));
            lists.append(sample.is_some());
        }
        let lists: ArrayRef = Arc::new(lists.finish());
        (Rows::try_from_iter_with_nullable([("x.jpg", lists.clone(), true)]).unwrap(), lists)
    }

    #[test]
    fn values_become_fields_and_too_many_are_refused() {
        let (rows, lists) = pictures(&[Some(&[b"a", b"b"]), None, Some(&[]), Some(&[b"c"])]);
        let found = columns(&rows, "x.jpg", &lists, 2).unwrap();
        let values = |at: usize| found[at].as_binary_view().iter().collect::<Vec<_>>();
        assert_eq!(values(0), [Some(&b"a"[..]), None, None, Some(b"c")]);
        assert_eq!(values(1), [Some(&b"b"[..]), None, None, None]);
        // Of a part of the rows too.
        let later = columns(&rows.slice(3, 1), "x.jpg", &lists.slice(3, 1), 1).unwrap();
        assert_eq!(later[0].as_binary_view().value(0), b"c");
        let error = columns(&rows, "x.jpg", &lists, 1).unwrap_err();
        assert_eq!((error.hints(), error.field()), (Some("give it more fields: `spread=x.jpg=2`"), Some("x.jpg")));
    }

    #[test]
    fn fields_keep_the_extension_and_what_is_said_of_an_item() {
        let image = r#"{"_type":"List","feature":{"_type":"Image"}}"#;
        let list = FieldType::List { element: DataType::BinaryView, depth: 1 };
        let found = fields(&with_metadata(list.field("x.jpg", false), HUGGINGFACE, image), 2).unwrap();
        let names: Vec<&str> = found.iter().map(|field| field.name().as_str()).collect();
        assert_eq!(names, ["x.0.jpg", "x.1.jpg"]);
        assert!(found.iter().all(|field| field.is_nullable() && *field.data_type() == DataType::BinaryView));
        assert_eq!(found[0].metadata().get(HUGGINGFACE).map(String::as_str), Some(r#"{"_type":"Image"}"#));
        let nested = FieldType::List { element: DataType::Int32, depth: 2 }.field("x", false);
        let inner = FieldType::List { element: DataType::Int32, depth: 1 };
        assert_eq!(FieldType::of(&fields(&nested, 1).unwrap()[0]).unwrap(), inner);
        assert!(fields(&FieldType::Blob.field("x", false), 1).is_err());
        assert!(count("x", "0").is_err() && count("x", "1001").is_err() && count("x", "4").is_ok());
    }
}
