//! The values of one column of a block.

use crate::kind::{Kind, bool_of, float_of, int_of};
use crate::records::text;
use arrow_array::ArrayRef;
use arrow_array::builder::{BooleanBuilder, Float64Builder, Int64Builder, StringViewBuilder};
use packhorse_core::{Error, Result};
use std::sync::Arc;

/// A column that is being filled.
pub(crate) enum Column {
    Bool(BooleanBuilder),
    Int(Int64Builder),
    Float(Float64Builder),
    Text(StringViewBuilder),
}

impl Column {
    pub(crate) fn new(kind: Kind) -> Self {
        match kind {
            Kind::Bool => Self::Bool(BooleanBuilder::new()),
            Kind::Int => Self::Int(Int64Builder::new()),
            Kind::Float => Self::Float(Float64Builder::new()),
            Kind::Text => Self::Text(StringViewBuilder::new()),
        }
    }

    /// Adds a value; an empty one is missing.
    pub(crate) fn push(&mut self, value: &[u8]) -> Result<()> {
        let given = !value.is_empty();
        let not = |kind: Kind| {
            let shown = String::from_utf8_lossy(value.get(..value.len().min(40)).unwrap_or_default()).into_owned();
            Error::content(format!("\"{shown}\" is no {}", kind.name()))
        };
        let some = given.then_some(value);
        match self {
            Self::Bool(column) => column.append_option(some.map(|v| bool_of(v).ok_or(not(Kind::Bool))).transpose()?),
            Self::Int(column) => column.append_option(some.map(|v| int(v).ok_or(not(Kind::Int))).transpose()?),
            Self::Float(column) => column.append_option(some.map(|v| float_of(v).ok_or(not(Kind::Float))).transpose()?),
            Self::Text(column) => column.append_option(some.map(text).transpose()?),
        }
        Ok(())
    }

    pub(crate) fn finish(self) -> ArrayRef {
        match self {
            Self::Bool(mut column) => Arc::new(column.finish()),
            Self::Int(mut column) => Arc::new(column.finish()),
            Self::Float(mut column) => Arc::new(column.finish()),
            Self::Text(mut column) => Arc::new(column.finish()),
        }
    }
}

/// A whole number; where it was asked for, its sign may be lost.
fn int(value: &[u8]) -> Option<i64> {
    int_of(value).or_else(|| (value == b"-0").then_some(0))
}
