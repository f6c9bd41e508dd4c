//! The text of each row. Owns finding the field and reading its string types.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use packhorse_core::{DataType, Error, FieldType, KEY, Result, Rows, SchemaRef, json};
use std::borrow::Cow;

/// The default text field.
const USUAL: &str = "text";

/// The field that holds JSON rather than plain text.
const JSON: &str = "json";

/// The location of the text: a field, or a member of a JSON field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TextLocation<'s> {
    pub(super) field: &'s str,
    /// Names of nested members, outermost first; empty for the field itself.
    inside: Vec<&'s str>,
}

/// Locates the text in `schema`: field `given`, or `a.b` for member `b` of the JSON field `a`; without `given` the
/// field `text`, or where no field has that name, the only text field.
pub(super) fn locate<'s>(schema: &'s SchemaRef, given: Option<&'s str>) -> Result<TextLocation<'s>> {
    let is_text = |name: &str| {
        schema.field_with_name(name).is_ok_and(|f| FieldType::of(f).is_ok_and(|kind| kind == FieldType::Text))
    };
    let names = schema.fields().iter().map(|f| f.name().as_str()).filter(|name| *name != KEY);
    let texts: Vec<&str> = names.filter(|name| is_text(name)).collect();
    let known = || {
        if texts.is_empty() {
            "none (files of JSON lines called otherwise than .jsonl need `from=text`)".to_owned()
        } else {
            texts.join(", ")
        }
    };
    match (given, &texts[..]) {
        (Some(name), _) if texts.contains(&name) => Ok(TextLocation { field: name, inside: Vec::new() }),
        // As shards and listings call a decoded text.
        (Some(name), _) if name.strip_suffix(".txt").is_some_and(|field| texts.contains(&field)) => {
            Ok(TextLocation { field: name.strip_suffix(".txt").unwrap_or_default(), inside: Vec::new() })
        }
        (Some(path), _) if path.split('.').next().is_some_and(|field| texts.contains(&field)) => {
            let mut names = path.split('.');
            Ok(TextLocation { field: names.next().unwrap_or_default(), inside: names.collect() })
        }
        (Some(name), _) if schema.field_with_name(name).is_ok() => Err(no_text(schema, name)),
        (Some(name), _) => Err(Error::config(format!("no field of text is called {name}; there are: {}", known()))),
        (None, texts) if !texts.contains(&USUAL) && has_usual(schema, texts) => {
            Err(no_text(schema, USUAL).hint("or name the field of the text with `text-field`"))
        }
        (None, [JSON]) => Err(Error::config(
            "the only field of text, json, holds JSON; say which member of it is the text with `text-field=json.NAME`",
        )),
        (None, [name]) => Ok(TextLocation { field: name, inside: Vec::new() }),
        (None, _) if texts.contains(&USUAL) => Ok(TextLocation { field: USUAL, inside: Vec::new() }),
        (None, _) => Err(Error::config(format!(
            "which field holds the text? say it with `text-field`; fields of text are: {}",
            known()
        ))),
    }
}

/// Whether a field that is not text, or the struct that it is a member of, has the name of the usual one.
fn has_usual(schema: &SchemaRef, texts: &[&str]) -> bool {
    let is_usual = |name: &str| name.split('.').next() == Some(USUAL);
    let mut others = schema.fields().iter().map(|field| field.name().as_str()).filter(|name| !texts.contains(name));
    others.any(is_usual) && !texts.iter().any(|name| is_usual(name))
}

fn no_text(schema: &SchemaRef, name: &str) -> Error {
    let error = Error::config(format!("field {name} does not hold text, as far as its type says"));
    match schema.field_with_name(name).ok().and_then(|field| FieldType::of(field).ok()) {
        Some(FieldType::Blob) => error.hint(format!("if its bytes are UTF-8, read them as text with `cast={name}=text`")),
        Some(FieldType::Scalar(_)) => error.hint(format!(
            "`schema={name}:text` takes a column of CSV as it is written; `cast={name}=text` writes other values as text"
        )),
        _ => error,
    }
}

/// The texts of a record batch.
pub(super) struct Texts<'a> {
    name: &'a str,
    column: &'a ArrayRef,
    inside: Vec<&'a str>,
}

impl<'a> Texts<'a> {
    /// The texts of `rows` at `place`.
    pub(super) fn new(rows: &'a Rows, place: TextLocation<'a>) -> Result<Self> {
        let TextLocation { field, inside } = place;
        let column = rows.column_by_name(field);
        column
            .map(|column| Self { name: field, column, inside })
            .ok_or_else(|| Error::bug(format!("rows without the field {field}")))
    }

    /// The text of row `row`; a `Content` error if it has none.
    pub(super) fn get(&self, row: usize) -> Result<Cow<'a, str>> {
        let field = self.field(row)?;
        if self.inside.is_empty() {
            return Ok(Cow::Borrowed(field));
        }
        let value = json::parse(field.as_bytes());
        let mut value = value.map_err(|e| {
            let error = Error::content(format!("has no text: its JSON is damaged: {e}"));
            let lines =
                field.trim_end().contains('\n').then_some("if its lines are documents (JSON lines), pass `from=text`");
            lines.into_iter().fold(error, Error::hint)
        })?;
        for name in &self.inside {
            value = value.get_mut(name).map(serde_json::Value::take).unwrap_or_default();
        }
        let is_number = json::odd_number(&value).is_some();
        match value {
            serde_json::Value::String(text) if !is_number => Ok(Cow::Owned(text)),
            _ => Err(Error::content(format!("has no text: its JSON has no string {}", self.inside.join(".")))),
        }
    }

    fn field(&self, row: usize) -> Result<&'a str> {
        let column: &'a dyn Array = self.column;
        if column.is_null(row) {
            let error = Error::content(format!("has no text: its field {} is missing", self.name));
            return Err(
                error.hint("if other inputs have their text in another field, pack them apart, with `text-field`")
            );
        }
        match column.data_type() {
            DataType::Utf8View => Ok(column.as_string_view().value(row)),
            DataType::Utf8 => Ok(column.as_string::<i32>().value(row)),
            DataType::LargeUtf8 => Ok(column.as_string::<i64>().value(row)),
            other => Err(Error::bug(format!("text of type {other}"))),
        }
    }

    /// An upper bound of the total bytes of all texts.
    pub(super) fn bytes(&self) -> usize {
        self.column.get_array_memory_size()
    }
}
