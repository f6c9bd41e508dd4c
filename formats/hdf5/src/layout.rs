//! The layout ml-hdf5/1: the objects of each field, and their attributes.
//!
//! Every object `/data/FIELD` has the attribute `packhorse_field`, a JSON text that restores the column exactly:
//! kind, element, shape, rank or depth, nullability and metadata.

use crate::datatype::{Datatype, HEAPED};
use crate::options::SinkOptions;
use crate::write::ObjectWriter;
use packhorse_core::{DataType, ENCODING, Error, Field, FieldType, NUMPY, Result, Schema, named_number, with_metadata};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// The name of this layout, the value of the root's attribute `packhorse_layout`.
pub(crate) const LAYOUT: &str = "ml-hdf5/1";
/// The attribute that describes a field.
pub(crate) const FIELD: &str = "packhorse_field";
/// The root's attribute that marks a master file; its value is the dataset's name.
pub(crate) const MASTER: &str = "packhorse_master";
/// The root's attribute with the schema's metadata, a JSON object of strings.
pub(crate) const METADATA: &str = "packhorse_metadata";
/// The metadata key of a column, and of a schema, for class names: a JSON list of strings.
pub(crate) const CLASSES: &str = "class_names";

/// The datatype of a field's elements; `Unsupported`, with the field's name, if HDF5 has none.
pub(crate) fn datatype(field: &Field, kind: &FieldType, options: &SinkOptions) -> Result<Datatype> {
    let byte = Datatype::Integer { size: 1, signed: false, big: false };
    let found = match kind {
        FieldType::Blob if options.vlen => Some(Datatype::Vlen { of: Box::new(byte), size: HEAPED }),
        FieldType::Blob => Some(byte),
        FieldType::Text => Some(Datatype::VlenText { utf8: true, size: HEAPED }),
        FieldType::List { element, .. } if is_bytes(element) => Some(byte),
        _ => kind.element().and_then(|element| Datatype::of(element, field.metadata().get(NUMPY).map(String::as_str))),
    };
    found.ok_or_else(|| Error::unsupported(format!("field {} of type {kind}", field.name())))
}

/// The number of `offsets` datasets of a field.
pub(crate) fn levels(kind: &FieldType, options: &SinkOptions) -> usize {
    match kind {
        FieldType::Blob => usize::from(!options.vlen),
        FieldType::Ragged { .. } => 1,
        // The bytes are a level of their own.
        FieldType::List { element, depth } => *depth + usize::from(is_bytes(element)),
        FieldType::Text | FieldType::Scalar(_) | FieldType::Tensor { .. } => 0,
    }
}

/// Whether the elements of a list are bytes of any length.
pub(crate) fn is_bytes(element: &DataType) -> bool {
    matches!(element, DataType::BinaryView | DataType::Binary | DataType::LargeBinary)
}

/// Whether a field with this number of `offsets` datasets is a group.
pub(crate) fn is_group(levels: usize) -> bool {
    levels > 0
}

/// `offsets`, `offsets1`, `offsets2`, …
pub(crate) fn offsets_name(level: usize) -> String {
    if level == 0 { "offsets".to_owned() } else { format!("offsets{level}") }
}

/// Writes the attributes of a field's object.
pub(crate) fn describe(field: &Field, kind: &FieldType, object: &mut ObjectWriter) -> Result<()> {
    let named = |e: Error| e.context(format_args!("field {}", field.name())).in_field(field.name());
    object.text_attribute(FIELD, &to_json(field, kind).to_string()).map_err(named)?;
    let text = |key: &str| field.metadata().get(key);
    if let Some(encoding) = text(ENCODING) {
        object.text_attribute("encoding", encoding).map_err(named)?;
    }
    if let Some(numpy) = text(NUMPY) {
        object.text_attribute("numpy", numpy).map_err(named)?;
    }
    if let Some(classes) = text(CLASSES) {
        classes_attribute(classes, object).map_err(named)?;
    }
    Ok(())
}

/// Writes `class_names` if `json` is a list of strings.
pub(crate) fn classes_attribute(json: &str, object: &mut ObjectWriter) -> Result<()> {
    match serde_json::from_str::<Vec<String>>(json) {
        Ok(classes) if !classes.is_empty() => object.texts_attribute(CLASSES, &classes),
        _ => Ok(()),
    }
}

/// The metadata of a schema as JSON, if it has any.
pub(crate) fn metadata(schema: &Schema) -> Option<String> {
    let metadata: BTreeMap<&String, &String> = schema.metadata().iter().collect();
    (!metadata.is_empty()).then(|| json!(metadata).to_string())
}

/// Parses what [`metadata`] wrote; empty if it is not valid.
pub(crate) fn parse_metadata(text: &str) -> BTreeMap<String, String> {
    serde_json::from_str(text).unwrap_or_default()
}

fn to_json(field: &Field, kind: &FieldType) -> Value {
    // The extension keys of tensors follow from the kind.
    let tensor = matches!(kind, FieldType::Tensor { .. } | FieldType::Ragged { .. });
    let metadata: BTreeMap<&String, &String> =
        field.metadata().iter().filter(|(key, _)| !(tensor && key.starts_with("ARROW:extension:"))).collect();
    let element = kind.element().map(element_name).unwrap_or_default();
    let mut json = match kind {
        FieldType::Blob => json!({"kind": "blob"}),
        FieldType::Text => json!({"kind": "text"}),
        FieldType::Scalar(_) => json!({"kind": "scalar", "element": element}),
        FieldType::Tensor { shape, .. } => json!({"kind": "tensor", "element": element, "shape": shape}),
        FieldType::Ragged { rank, .. } => json!({"kind": "ragged", "element": element, "rank": rank}),
        FieldType::List { depth, .. } => json!({"kind": "list", "element": element, "depth": depth}),
    };
    if let Some(object) = json.as_object_mut() {
        object.insert("nullable".to_owned(), field.is_nullable().into());
        if !metadata.is_empty() {
            object.insert("metadata".to_owned(), json!(metadata));
        }
    }
    json
}

/// The column `name` that the attribute `packhorse_field` describes; `None` if it is not valid.
pub(crate) fn parse_field(name: &str, text: &str) -> Option<(Field, FieldType)> {
    let json: Map<String, Value> = serde_json::from_str(text).ok()?;
    let number = |key: &str| json.get(key)?.as_u64().and_then(|n| usize::try_from(n).ok());
    let element = || element_of(json.get("element")?.as_str()?);
    let kind = match json.get("kind")?.as_str()? {
        "blob" => FieldType::Blob,
        "text" => FieldType::Text,
        "scalar" => FieldType::Scalar(element()?),
        "tensor" => FieldType::Tensor { element: element()?, shape: shape(json.get("shape")?)? },
        "ragged" => FieldType::Ragged { element: element()?, rank: number("rank").filter(|n| (1..=32).contains(n))? },
        "list" => FieldType::List { element: element()?, depth: number("depth").filter(|n| (1..=32).contains(n))? },
        _ => return None,
    };
    let mut field = kind.field(name, json.get("nullable")?.as_bool()?);
    for (key, value) in json.get("metadata").and_then(Value::as_object).into_iter().flatten() {
        field = with_metadata(field, key, value.as_str()?);
    }
    Some((field, kind))
}

/// Dimensions whose product fits Arrow's `i32`.
fn shape(json: &Value) -> Option<Vec<usize>> {
    let dims = json.as_array()?.iter().map(|dim| usize::try_from(dim.as_u64()?).ok());
    let dims: Vec<usize> = dims.collect::<Option<_>>()?;
    let product = dims.iter().try_fold(1usize, |product, dim| product.checked_mul((*dim).max(1)))?;
    (!dims.is_empty() && dims.len() <= 32 && i32::try_from(product).is_ok()).then_some(dims)
}

fn element_name(element: &DataType) -> String {
    match element {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "text".to_owned(),
        DataType::FixedSizeBinary(size) => format!("bytes{size}"),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => "bytes".to_owned(),
        other => other.to_string().to_lowercase(),
    }
}

fn element_of(name: &str) -> Option<DataType> {
    Some(match name {
        "boolean" => DataType::Boolean,
        "text" => DataType::Utf8View,
        "bytes" => DataType::BinaryView,
        name => match name.strip_prefix("bytes") {
            Some(size) => DataType::FixedSizeBinary(size.parse().ok().filter(|size| *size > 0)?),
            None => named_number(name)?,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_round_trip() {
        for kind in [
            FieldType::Blob,
            FieldType::Text,
            FieldType::Scalar(DataType::Boolean),
            FieldType::Scalar(DataType::FixedSizeBinary(16)),
            FieldType::Tensor { element: DataType::Float16, shape: vec![3, 0, 2] },
            FieldType::Tensor { element: DataType::Utf8View, shape: vec![4] },
            FieldType::Ragged { element: DataType::UInt64, rank: 3 },
            FieldType::List { element: DataType::Utf8View, depth: 2 },
            FieldType::List { element: DataType::BinaryView, depth: 1 },
        ] {
            let field = with_metadata(kind.field("x", true), NUMPY, "<\"c8");
            assert_eq!(parse_field("x", &to_json(&field, &kind).to_string()), Some((field, kind)));
        }
        assert!(
            parse_field("x", "{\"kind\":\"tensor\",\"element\":\"int8\",\"shape\":[65536,65536],\"nullable\":false}")
                .is_none()
        );
    }
}
