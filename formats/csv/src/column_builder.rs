//! Builds one column of a block.

use crate::column_type::{ColumnType, bool_of, float_of, int_of, with_point};
use crate::row_reader::text;
use arrow_array::ArrayRef;
use arrow_array::builder::{BooleanBuilder, Float64Builder, Int64Builder, StringViewBuilder};
use packhorse_core::{Error, Result};
use std::sync::Arc;

/// The Arrow builder of a column.
pub(crate) enum ColumnBuilder {
    Bool(BooleanBuilder),
    Int(Int64Builder),
    /// And whether fractions stand behind a comma.
    Float(Float64Builder, bool),
    Text(StringViewBuilder),
}

impl ColumnBuilder {
    /// An empty column with room for so many rows: there may be ten thousand columns, of which each keeps its room.
    pub(crate) fn new(kind: ColumnType, rows: usize, decimal_comma: bool) -> Self {
        match kind {
            ColumnType::Bool => Self::Bool(BooleanBuilder::with_capacity(rows)),
            ColumnType::Int => Self::Int(Int64Builder::with_capacity(rows)),
            ColumnType::Float => Self::Float(Float64Builder::with_capacity(rows), decimal_comma),
            ColumnType::Text => Self::Text(StringViewBuilder::with_capacity(rows)),
        }
    }

    /// Appends a value; an empty one is null.
    pub(crate) fn push(&mut self, value: &[u8]) -> Result<()> {
        let given = !value.is_empty();
        let not = |kind: ColumnType| {
            let shown = String::from_utf8_lossy(value.get(..value.len().min(40)).unwrap_or_default()).into_owned();
            Error::content(format!("\"{shown}\" is not of type {}", kind.name()))
        };
        let some = given.then_some(value);
        match self {
            Self::Bool(column) => {
                column.append_option(some.map(|v| bool_of(v).ok_or(not(ColumnType::Bool))).transpose()?)
            }
            Self::Int(column) => column.append_option(some.map(|v| int(v).ok_or(not(ColumnType::Int))).transpose()?),
            Self::Float(column, decimal_comma) => {
                let number = |v| float(&with_point(v, *decimal_comma)).ok_or(not(ColumnType::Float));
                column.append_option(some.map(number).transpose()?)
            }
            Self::Text(column) => column.append_option(some.map(text).transpose()?),
        }
        Ok(())
    }

    pub(crate) fn finish(self) -> ArrayRef {
        match self {
            Self::Bool(mut column) => Arc::new(column.finish()),
            Self::Int(mut column) => Arc::new(column.finish()),
            Self::Float(mut column, _) => Arc::new(column.finish()),
            Self::Text(mut column) => Arc::new(column.finish()),
        }
    }
}

/// Parses a number. An explicit `float64` also accepts other notations of it: `.5`, `1.`, `+2`, `Infinity`.
fn float(value: &[u8]) -> Option<f64> {
    let other = || {
        let number: f64 = std::str::from_utf8(value).ok()?.trim().parse().ok()?;
        let is_named = value.iter().any(|byte| byte.eq_ignore_ascii_case(&b'n'));
        (number.is_finite() || is_named).then_some(number)
    };
    float_of(value).or_else(other)
}

/// Parses an integer. An explicit `int64` also accepts `-0`, as 0.
fn int(value: &[u8]) -> Option<i64> {
    int_of(value).or_else(|| (value == b"-0").then_some(0))
}
