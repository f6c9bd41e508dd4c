//! The note in a file's metadata with which our sources restore the exact rows of our sinks.
//!
//! A JSON text under the key [`KEY_OF_NOTE`]: the fields in order, their kinds and metadata, and the schema's metadata.
//! Other readers ignore it. A tool that rewrites the file may keep it, so it is used only for columns whose type still
//! matches.
//!
//! ```text
//! {"version":1,"metadata":{…},"fields":[{"name":"x","kind":"tensor","element":"float32","shape":[3,4],
//!  "nullable":false,"metadata":{"packhorse.numpy":"<f4"}}, …]}
//! ```

use packhorse_core::{DataType, Error, Field, FieldType, Result, Schema, named_number, number_kind, with_metadata};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// The key of the note in the file's metadata.
pub(crate) const KEY_OF_NOTE: &str = "packhorse.schema";

/// The deepest nesting of lists and the most dimensions.
const DEEPEST: usize = 32;

/// The fields that the sink was given.
#[derive(Clone, Debug)]
pub(crate) struct Note {
    fields: BTreeMap<String, Field>,
    metadata: BTreeMap<String, String>,
}

impl Note {
    /// The note for `schema`.
    pub(crate) fn write(schema: &Schema) -> Result<String> {
        let fields = schema.fields().iter().map(|field| entry(field)).collect::<Result<Vec<_>>>()?;
        Ok(json!({"version": 1, "metadata": pairs(schema.metadata().iter()), "fields": fields}).to_string())
    }

    /// Parses a note; `None` if it is invalid.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let note: Value = serde_json::from_str(text).ok()?;
        (note.get("version")? == 1).then_some(())?;
        let fields = note.get("fields")?.as_array()?.iter().map(field_of).collect::<Option<Vec<_>>>()?;
        let fields = fields.into_iter().map(|field| (field.name().clone(), field)).collect();
        Some(Self { fields, metadata: texts(note.get("metadata")?)? })
    }

    /// The original field of the column `name`.
    pub(crate) fn field(&self, name: &str) -> Option<&Field> {
        self.fields.get(name)
    }

    /// The metadata of the schema.
    pub(crate) fn metadata(&self) -> BTreeMap<String, String> {
        self.metadata.clone()
    }
}

fn pairs<'a>(metadata: impl Iterator<Item = (&'a String, &'a String)>) -> Value {
    metadata.filter(|(k, _)| !k.starts_with("ARROW:")).map(|(k, v)| (k.clone(), Value::from(v.as_str()))).collect()
}

fn texts(object: &Value) -> Option<BTreeMap<String, String>> {
    object.as_object()?.iter().map(|(k, v)| Some((k.clone(), v.as_str()?.to_owned()))).collect()
}

fn entry(field: &Field) -> Result<Value> {
    let mut entry = Map::new();
    entry.insert("name".to_owned(), field.name().as_str().into());
    entry.insert("nullable".to_owned(), field.is_nullable().into());
    entry.insert("metadata".to_owned(), pairs(field.metadata().iter()));
    let kind = FieldType::of(field)?;
    if let Some(element) = kind.element() {
        let name = element_name(element);
        let name = name.ok_or_else(|| Error::unsupported(format!("field {} of type {kind}", field.name())))?;
        entry.insert("element".to_owned(), name.into());
    }
    let word = match &kind {
        FieldType::Blob => "blob",
        FieldType::Text => "text",
        FieldType::Scalar(_) => "scalar",
        FieldType::Tensor { shape, .. } => {
            entry.insert("shape".to_owned(), shape.clone().into());
            "tensor"
        }
        FieldType::Ragged { rank, .. } => {
            entry.insert("rank".to_owned(), (*rank).into());
            "ragged"
        }
        FieldType::List { depth, .. } => {
            entry.insert("depth".to_owned(), (*depth).into());
            "list"
        }
    };
    entry.insert("kind".to_owned(), word.into());
    Ok(Value::Object(entry))
}

fn field_of(entry: &Value) -> Option<Field> {
    let number = |name: &str| usize::try_from(entry.get(name)?.as_u64()?).ok().filter(|n| (1..=DEEPEST).contains(n));
    let element = || element_type(entry.get("element")?.as_str()?);
    let kind = match entry.get("kind")?.as_str()? {
        "blob" => FieldType::Blob,
        "text" => FieldType::Text,
        "scalar" => FieldType::Scalar(element()?),
        "tensor" => FieldType::Tensor { element: element()?, shape: shape(entry.get("shape")?)? },
        "ragged" => FieldType::Ragged { element: element()?, rank: number("rank")? },
        "list" => FieldType::List { element: element()?, depth: number("depth")? },
        _ => return None,
    };
    let field = kind.field(entry.get("name")?.as_str()?, entry.get("nullable")?.as_bool()?);
    let metadata = texts(entry.get("metadata")?)?;
    let ours = metadata.iter().filter(|(k, _)| !k.starts_with("ARROW:"));
    Some(ours.fold(field, |field, (k, v)| with_metadata(field, k, v)))
}

/// A shape whose number of elements fits Arrow's offsets.
fn shape(value: &Value) -> Option<Vec<usize>> {
    let shape = value.as_array()?.iter().map(|d| usize::try_from(d.as_u64()?).ok()).collect::<Option<Vec<_>>>()?;
    let elements = shape.iter().try_fold(1usize, |n, d| n.checked_mul(*d))?;
    ((1..=DEEPEST).contains(&shape.len()) && i32::try_from(elements).is_ok()).then_some(shape)
}

/// The name of an element type, the same as in Hugging Face's `datasets`; fixed-size binary is `bytes:N`.
pub(crate) fn element_name(element: &DataType) -> Option<String> {
    match element {
        DataType::Boolean => Some("bool".to_owned()),
        DataType::FixedSizeBinary(n) if *n > 0 => Some(format!("bytes:{n}")),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Some("string".to_owned()),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => Some("binary".to_owned()),
        number => number_kind(number).map(|_| number.to_string().to_lowercase()),
    }
}

fn element_type(name: &str) -> Option<DataType> {
    match name {
        "bool" => Some(DataType::Boolean),
        "string" => Some(DataType::Utf8View),
        "binary" => Some(DataType::BinaryView),
        name => match name.strip_prefix("bytes:") {
            Some(n) => n.parse().ok().filter(|n| *n > 0).map(DataType::FixedSizeBinary),
            None => named_number(name),
        },
    }
}
