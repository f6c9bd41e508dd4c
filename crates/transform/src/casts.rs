//! Casts of fields to other element types, by name.

mod cast;

use arrow_array::ArrayRef;
use packhorse_core::{DataType, Error, Field, Result, Rows};
use std::collections::BTreeMap;

/// The element types that fields become, by the names of inputs' fields.
#[derive(Clone, Debug, Default)]
pub struct Casts(BTreeMap<String, DataType>);

impl Casts {
    /// The casts of [`FieldsOptions::cast`](crate::fields::FieldsOptions::cast). A `Config` error for an unknown type.
    pub fn new(types: &BTreeMap<String, String>) -> Result<Self> {
        let casts = types.iter().map(|(name, to)| Ok((name.clone(), cast::element(name, to)?)));
        casts.collect::<Result<_>>().map(Self)
    }

    /// The element type that the field `name` becomes; `None` if it stays.
    pub fn get(&self, name: &str) -> Option<&DataType> {
        self.0.get(name)
    }

    /// `field` after the cast; a `Config` error that names it if its type can't become the other.
    pub fn field(&self, field: &Field) -> Result<Field> {
        self.get(field.name()).map_or_else(|| Ok(field.clone()), |to| cast::field(field, to))
    }

    /// The column `column` of `rows`, which is the field `from`, after the cast. A `Content` error names the sample with
    /// the first value that does not fit.
    pub fn column(&self, rows: &Rows, from: &Field, column: &ArrayRef) -> Result<ArrayRef> {
        self.get(from.name()).map_or_else(|| Ok(column.clone()), |to| cast::apply(rows, from, column, to))
    }
}

/// A `Content` error about sample `row`.
pub(crate) fn of_row(rows: &Rows, row: usize, field: &str, message: String) -> Error {
    let error = Error::content(message).in_field(field);
    match packhorse_core::key_column(rows) {
        Ok(keys) if row < rows.num_rows() => error.in_sample(keys.value(row)),
        _ => error,
    }
}
