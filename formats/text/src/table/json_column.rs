//! Builds one column of a block.

use super::column_type::{ColumnType, JsonScalar};
use super::walk::{ValueKind, Walk, text};
use arrow_array::builder::{
    ArrayBuilder, BooleanBuilder, Float64Builder, Int64Builder, StringViewBuilder, UInt64Builder,
};
use arrow_array::{ArrayRef, ListArray};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use packhorse_core::{Error, Field, Kind, Result};
use std::sync::Arc;

/// The builder of a column.
pub(super) struct JsonColumn {
    kind: ColumnType,
    values: Values,
    /// Of each depth of lists, from the outermost: where each list ends among its elements.
    offsets: Vec<Vec<i32>>,
    /// Whether each row has a list.
    lists: Vec<bool>,
    unescaped: Vec<u8>,
}

enum Values {
    Bool(BooleanBuilder),
    Int(Int64Builder),
    Unsigned(UInt64Builder),
    Float(Float64Builder),
    Text(StringViewBuilder),
}

impl JsonColumn {
    pub(super) fn new(kind: ColumnType) -> Self {
        let (element, depth) = match kind {
            ColumnType::Json => (JsonScalar::Text, 0),
            ColumnType::Plain { element, depth } => (element, depth),
        };
        let values = match element {
            JsonScalar::Bool => Values::Bool(BooleanBuilder::with_capacity(0)),
            JsonScalar::Int => Values::Int(Int64Builder::with_capacity(0)),
            JsonScalar::Unsigned => Values::Unsigned(UInt64Builder::with_capacity(0)),
            JsonScalar::Float => Values::Float(Float64Builder::with_capacity(0)),
            JsonScalar::Text => Values::Text(StringViewBuilder::with_capacity(0)),
        };
        Self { kind, values, offsets: vec![vec![0]; depth], lists: Vec::new(), unescaped: Vec::new() }
    }

    /// Appends the JSON of a value; `None` and `null` are null.
    pub(super) fn push(&mut self, value: Option<&[u8]>) -> Result<()> {
        let value = value.filter(|value| *value != b"null");
        match (self.kind, value, &mut self.values) {
            (ColumnType::Json, Some(json), Values::Text(values)) => {
                let json = std::str::from_utf8(json).map_err(|_| Error::content("is not UTF-8"))?;
                values.try_append_value(json).map_err(|e| Error::new(Kind::Limit, e.to_string()))
            }
            (ColumnType::Plain { depth: 1.., .. }, value, _) => {
                self.lists.push(value.is_some());
                match value {
                    Some(json) => self.push_list(&mut Walk::new(json), 0),
                    None => self.end(0),
                }
            }
            (_, Some(json), _) => self.push_element(json),
            (_, None, values) => {
                values.push_null();
                Ok(())
            }
        }
    }

    /// Appends the elements of the next list of `walk`, which `level` lists enclose.
    fn push_list(&mut self, walk: &mut Walk<'_>, level: usize) -> Result<()> {
        if walk.kind() != ValueKind::List {
            return Err(self.other(walk.pass()));
        }
        walk.elements(|walk| match level + 1 < self.offsets.len() {
            true => self.push_list(walk, level + 1),
            false => self.push_element(walk.pass()),
        })?;
        self.end(level)
    }

    /// Ends a list that `level` others enclose.
    fn end(&mut self, level: usize) -> Result<()> {
        let inside = match self.offsets.get(level + 1) {
            Some(inner) => inner.len() - 1,
            None => self.values.len(),
        };
        let end =
            i32::try_from(inside).map_err(|_| Error::new(Kind::Limit, "has lists of more than 2 billion elements"))?;
        self.offsets.iter_mut().skip(level).take(1).for_each(|ends| ends.push(end));
        Ok(())
    }

    fn push_element(&mut self, json: &[u8]) -> Result<()> {
        let word = std::str::from_utf8(json).unwrap_or_default();
        let is_number = Walk::new(json).kind() == ValueKind::Number;
        let pushed = match &mut self.values {
            Values::Bool(values) => {
                let bool = matches!(word, "true" | "false").then_some(word == "true");
                bool.map(|bool| values.append_value(bool))
            }
            Values::Int(values) => word.parse().ok().map(|number| values.append_value(number)),
            Values::Unsigned(values) => {
                let number = word.parse().ok().or((word == "-0").then_some(0));
                number.map(|number| values.append_value(number))
            }
            Values::Float(values) => {
                let is_written = word.bytes().last().is_some_and(|byte| byte.is_ascii_digit());
                let number = word.parse().ok().filter(|number: &f64| is_number && (number.is_finite() || !is_written));
                number.map(|number| values.append_value(number))
            }
            Values::Text(values) => match json.first() {
                Some(b'"') => text(json, &mut self.unescaped).map(|text| values.append_value(text)),
                _ => None,
            },
        };
        pushed.ok_or_else(|| self.other(json))
    }

    /// The error of a value of another type.
    fn other(&self, json: &[u8]) -> Error {
        let shown = String::from_utf8_lossy(json.get(..json.len().min(40)).unwrap_or_default());
        Error::content(format!("{shown} is not of type {}", self.kind))
    }

    /// The column, whose type is that of `field`.
    pub(super) fn finish(self, field: &Field) -> Result<ArrayRef> {
        let Self { values, offsets, lists, .. } = self;
        let mut array = values.finish();
        let mut kinds = Vec::new();
        let mut at = field.data_type();
        while let packhorse_core::DataType::List(item) = at {
            kinds.push(Arc::clone(item));
            at = item.data_type();
        }
        for (level, (ends, item)) in offsets.into_iter().zip(kinds).enumerate().rev() {
            let nulls = (level == 0).then(|| NullBuffer::from(lists.clone())).filter(|nulls| nulls.null_count() > 0);
            let list = ListArray::try_new(item, OffsetBuffer::new(ends.into()), array, nulls);
            array = Arc::new(list.map_err(|e| Error::bug(e.to_string()))?);
        }
        Ok(array)
    }
}

impl Values {
    fn len(&self) -> usize {
        match self {
            Values::Bool(values) => values.len(),
            Values::Int(values) => values.len(),
            Values::Unsigned(values) => values.len(),
            Values::Float(values) => values.len(),
            Values::Text(values) => values.len(),
        }
    }

    fn push_null(&mut self) {
        match self {
            Values::Bool(values) => values.append_null(),
            Values::Int(values) => values.append_null(),
            Values::Unsigned(values) => values.append_null(),
            Values::Float(values) => values.append_null(),
            Values::Text(values) => values.append_null(),
        }
    }

    fn finish(self) -> ArrayRef {
        match self {
            Values::Bool(mut values) => Arc::new(values.finish()),
            Values::Int(mut values) => Arc::new(values.finish()),
            Values::Unsigned(mut values) => Arc::new(values.finish()),
            Values::Float(mut values) => Arc::new(values.finish()),
            Values::Text(mut values) => Arc::new(values.finish()),
        }
    }
}
