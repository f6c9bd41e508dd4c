//! The texts of rows. Owns finding the field and reading it, whichever type of text it has.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use packhorse_core::{DataType, Error, FieldType, KEY, Result, Rows, SchemaRef};

/// The field that is taken unless another is named.
const USUAL: &str = "text";

/// The name of the field of `schema` that holds the text: `given`, or `text`, or the only one there is.
pub(super) fn field<'s>(schema: &'s SchemaRef, given: Option<&'s str>) -> Result<&'s str> {
    let is_text = |name: &str| {
        schema.field_with_name(name).is_ok_and(|f| FieldType::of(f).is_ok_and(|kind| kind == FieldType::Text))
    };
    let names = schema.fields().iter().map(|f| f.name().as_str()).filter(|name| *name != KEY);
    let texts: Vec<&str> = names.filter(|name| is_text(name)).collect();
    let known = || if texts.is_empty() { "none".to_owned() } else { texts.join(", ") };
    match (given, &texts[..]) {
        (Some(name), _) if texts.contains(&name) => Ok(name),
        (Some(name), _) => Err(Error::config(format!("no field of text is called {name}; there are: {}", known()))),
        (None, [name]) => Ok(name),
        (None, _) if texts.contains(&USUAL) => Ok(USUAL),
        (None, _) => Err(Error::config(format!("which field holds the text? fields of text are: {}", known()))),
    }
}

/// A column of text.
pub(super) struct Texts<'a>(&'a ArrayRef);

impl<'a> Texts<'a> {
    /// The column `name` of `rows`.
    pub(super) fn new(rows: &'a Rows, name: &str) -> Result<Self> {
        let column = rows.column_by_name(name);
        column.map(Self).ok_or_else(|| Error::bug(format!("rows without the field {name}")))
    }

    /// The text of row `row`; a sample without one is a `Content` error.
    pub(super) fn get(&self, row: usize) -> Result<&'a str> {
        let column: &'a dyn Array = self.0;
        if column.is_null(row) {
            return Err(Error::content("has no text"));
        }
        match column.data_type() {
            DataType::Utf8View => Ok(column.as_string_view().value(row)),
            DataType::Utf8 => Ok(column.as_string::<i32>().value(row)),
            DataType::LargeUtf8 => Ok(column.as_string::<i64>().value(row)),
            other => Err(Error::bug(format!("text of type {other}"))),
        }
    }

    /// The bytes of all texts together, at most.
    pub(super) fn bytes(&self) -> usize {
        self.0.get_array_memory_size()
    }
}
