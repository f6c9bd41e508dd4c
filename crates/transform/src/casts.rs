//! Casts of fields to other element types, by name.

mod bytes;
mod cast;
pub mod kinds;
mod times;

use arrow_array::ArrayRef;
use packhorse_core::{DataType, Error, Field, KEY, Result, Rows};
use std::collections::BTreeMap;

/// The element types that fields become, by the names of inputs' fields, and the fields that are dropped.
#[derive(Clone, Debug, Default)]
pub struct Casts {
    types: BTreeMap<String, DataType>,
    /// The fields that are kept; empty if all are.
    only: Vec<String>,
    dropped: Vec<String>,
}

impl Casts {
    /// The casts of [`FieldsOptions::cast`](crate::fields::FieldsOptions::cast). A `Config` error for an unknown type.
    pub fn new(types: &BTreeMap<String, String>) -> Result<Self> {
        let casts = types.iter().map(|(name, to)| Ok((name.clone(), cast::element(name, to)?)));
        Ok(Self { types: casts.collect::<Result<_>>()?, ..Self::default() })
    }

    /// The same for a job that keeps the fields `only` (empty: all) without `dropped`.
    pub fn dropping(self, only: &[String], dropped: &[String]) -> Self {
        Self { only: only.to_vec(), dropped: dropped.to_vec(), ..self }
    }

    /// Whether the field `name` is dropped, so that its values and types do not matter.
    pub fn drops(&self, name: &str) -> bool {
        let is_left = !self.only.is_empty() && !self.only.iter().any(|kept| kept == name);
        self.names_dropped(name) || name != KEY && is_left
    }

    /// Whether the field `name` itself is named among those that are dropped.
    pub fn names_dropped(&self, name: &str) -> bool {
        name != KEY && self.dropped.iter().any(|dropped| dropped == name)
    }

    /// The element type that the field `name` becomes; `None` if it stays.
    pub fn get(&self, name: &str) -> Option<&DataType> {
        self.types.get(name)
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
