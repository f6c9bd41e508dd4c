//! Fields that get one name: they become one, of which each sample has one value at most.

use crate::casts::of_row;
use arrow_array::cast::AsArray;
use arrow_array::{Array as _, ArrayRef, BinaryViewArray, StringViewArray};
use packhorse_core::{DataType, Error, Field, KEY, Result, Rows, Schema, SchemaRef};
use std::sync::Arc;

/// The key, then the fields sorted by name; those of one name are one.
///
/// # Errors
/// `Config` for fields of one name that can't become one: they hold bytes or text, both the same.
pub(crate) fn schema(mut fields: Vec<Field>) -> Result<SchemaRef> {
    fields.sort_by_key(order);
    let mut merged: Vec<Field> = Vec::with_capacity(fields.len());
    for field in fields {
        match merged.last_mut().filter(|last| last.name() == field.name()) {
            Some(last) => *last = one_of(last, &field)?,
            None => merged.push(field),
        }
    }
    Ok(Arc::new(Schema::new(merged)))
}

/// The columns in the order of [`schema`], with the keys of `rows` for messages.
///
/// # Errors
/// As [`schema`]; `Content` for a sample with two values of one name.
pub(crate) fn rows(rows: &Rows, mut columns: Vec<(Field, ArrayRef)>) -> Result<Rows> {
    columns.sort_by_key(|(field, _)| order(field));
    let mut merged: Vec<(Field, ArrayRef)> = Vec::with_capacity(columns.len());
    for (field, array) in columns {
        match merged.last_mut().filter(|(last, _)| last.name() == field.name()) {
            Some((last, there)) => {
                *there = of_either(rows, last, there, &array)?;
                *last = one_of(last, &field)?;
            }
            None => merged.push((field, array)),
        }
    }
    let (fields, arrays): (Vec<_>, Vec<_>) = merged.into_iter().unzip();
    Rows::try_new(Arc::new(Schema::new(fields)), arrays).map_err(|e| Error::bug(e.to_string()))
}

/// The field of two that get one name, such as `jpg` and `png`, of which a sample has one. What only one of them says of its values
/// is left out.
fn one_of(a: &Field, b: &Field) -> Result<Field> {
    let name = a.name();
    let one_type = a.data_type() == b.data_type() && matches!(a.data_type(), DataType::BinaryView | DataType::Utf8View);
    if name == KEY || !one_type {
        let error = Error::config(format!("two fields would be called {name}"));
        return Err(error.hint("give them names of their own; only fields of bytes, or of text, can become one"));
    }
    let mut metadata = a.metadata().clone();
    metadata.retain(|key, value| b.metadata().get(key) == Some(value));
    Ok(a.clone().with_metadata(metadata).with_nullable(a.is_nullable() && b.is_nullable()))
}

/// For each row the value that one of two columns has; a `Content` error that names the first sample with both.
fn of_either(rows: &Rows, field: &Field, a: &ArrayRef, b: &ArrayRef) -> Result<ArrayRef> {
    if let Some(row) = (0..a.len()).find(|row| a.is_valid(*row) && b.is_valid(*row)) {
        let name = field.name();
        return Err(of_row(rows, row, name, format!("has two fields that become {name}")));
    }
    match (a.as_binary_view_opt(), b.as_binary_view_opt(), a.as_string_view_opt(), b.as_string_view_opt()) {
        (Some(a), Some(b), ..) => Ok(Arc::new(a.iter().zip(b).map(|(a, b)| a.or(b)).collect::<BinaryViewArray>())),
        (_, _, Some(a), Some(b)) => Ok(Arc::new(a.iter().zip(b).map(|(a, b)| a.or(b)).collect::<StringViewArray>())),
        _ => Err(Error::unsupported(format!("field {} holds more than fits a column", field.name()))),
    }
}

fn order(field: &Field) -> (bool, String) {
    (field.name() != KEY, field.name().clone())
}
