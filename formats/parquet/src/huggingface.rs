//! The features of a file for Hugging Face's `datasets`: the metadata key `huggingface`, as `datasets.Features.to_dict`
//! writes it (tested with datasets 5.2).

use crate::stored_schema::{StoredSchema, is_image};
use crate::temporal;
use packhorse_core::{CLASSES, DataType, Error, Field, FieldType, HUGGINGFACE, Result, Schema, with_metadata};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// The key of the features in the file's metadata.
pub(crate) const KEY_OF_FEATURES: &str = "huggingface";

/// The field that holds the class.
const CLASS: &str = "cls";

/// The class names of a schema.
pub(crate) fn classes(schema: &Schema) -> Result<Option<Vec<String>>> {
    schema.metadata().get(CLASSES).map(|text| class_names(text)).transpose()
}

/// The features of columns that another program wrote, which their types don't tell.
pub(crate) fn declared(file: &Schema) -> BTreeMap<String, Value> {
    let text = file.metadata().get(KEY_OF_FEATURES);
    let value = text.and_then(|text| serde_json::from_str::<Value>(text).ok()).unwrap_or_default();
    let Some(Value::Object(features)) = value.pointer("/info/features") else { return BTreeMap::new() };
    features
        .iter()
        .filter(|(_, feature)| says_more(feature))
        .map(|(name, feature)| (name.clone(), feature.clone()))
        .collect()
}

fn says_more(feature: &Value) -> bool {
    let (item, _) = innermost(feature);
    matches!(item["_type"].as_str(), Some("ClassLabel" | "Image" | "Audio" | "Video" | "Pdf"))
}

/// What lists hold, and how many lists are inside each other. Older files write a list as a JSON list of its feature.
fn innermost(feature: &Value) -> (&Value, usize) {
    let item = match feature {
        Value::Array(items) => items.first(),
        Value::Object(parts) if parts.contains_key("_type") => parts.get("feature"),
        _ => None,
    };
    item.map_or((feature, 0), |item| {
        let (inner, depth) = innermost(item);
        (inner, depth + 1)
    })
}

/// The feature of a list column, with `item` as what the lists hold.
fn with_item(feature: Value, item: &Value) -> Value {
    match feature {
        Value::Object(mut parts) => match parts.remove("feature") {
            Some(inner) => {
                parts.insert("feature".to_owned(), with_item(inner, item));
                Value::Object(parts)
            }
            None => item.clone(),
        },
        other => other,
    }
}

/// The field with a feature, if it fits the kind.
pub(crate) fn with_feature(field: Field, kind: &FieldType, feature: &Value) -> Field {
    if fits(kind, feature) { with_metadata(field, HUGGINGFACE, &feature.to_string()) } else { field }
}

/// Whether a field of bytes was Hugging Face's image, audio or the like, which is stored as a struct of bytes and path.
pub(crate) fn is_medium(field: &Field) -> bool {
    field.metadata().get(HUGGINGFACE).is_some_and(|text| !text.contains("\"ClassLabel\""))
}

/// Whether numbers of the field are classes that have names.
pub(crate) fn has_classes(field: &Field) -> bool {
    packhorse_core::class_names(field.metadata().get(HUGGINGFACE)).is_some()
}

/// The class names of the field `field`, if it has them; those of a list are not here.
pub(crate) fn names(field: &Field) -> Option<String> {
    let feature: Value = serde_json::from_str(field.metadata().get(HUGGINGFACE)?).ok()?;
    feature.get("names").filter(|names| names.is_array()).map(Value::to_string)
}

fn fits(kind: &FieldType, feature: &Value) -> bool {
    let (item, depth) = innermost(feature);
    let is_class = |element: &DataType| {
        item["_type"] == "ClassLabel" && item["names"].is_array() && element.is_integer() && depth == lists(kind)
    };
    match kind {
        FieldType::Blob => depth == 0 && says_more(feature) && feature["_type"] != "ClassLabel",
        FieldType::Text => false,
        FieldType::List { element: DataType::BinaryView, depth: lists } => {
            depth == *lists && says_more(feature) && item["_type"] != "ClassLabel"
        }
        FieldType::Scalar(element)
        | FieldType::Tensor { element, .. }
        | FieldType::Ragged { element, .. }
        | FieldType::List { element, .. } => is_class(element),
    }
}

/// How many lists of a column are inside each other.
fn lists(kind: &FieldType) -> usize {
    match kind {
        FieldType::Blob | FieldType::Text | FieldType::Scalar(_) => 0,
        // Their elements are one list, whatever the shape.
        FieldType::Tensor { .. } | FieldType::Ragged { .. } => 1,
        FieldType::List { depth, .. } => *depth,
    }
}

/// The JSON text for rows of `schema`.
pub(crate) fn features(schema: &Schema, stored: &StoredSchema) -> Result<String> {
    let classes = classes(schema)?;
    let mut features = Map::new();
    for ((kind, field), given) in stored.fields().zip(schema.fields()) {
        let said = given.metadata().get(HUGGINGFACE).and_then(|text| serde_json::from_str::<Value>(text).ok());
        let feature = match (kind, &classes) {
            (kind, _) if said.as_ref().is_some_and(|said| fits(kind, said)) => match (lists(kind), said) {
                (1.., Some(said)) => with_item(self::feature(field), innermost(&said).0),
                (_, said) => said.unwrap_or_default(),
            },
            (FieldType::Blob, _) if is_image(field.name()) => json!({"_type": "Image"}),
            (FieldType::List { element: DataType::BinaryView, .. }, _) if is_image(field.name()) => {
                with_item(self::feature(field), &json!({"_type": "Image"}))
            }
            (FieldType::Scalar(element), Some(names)) if field.name() == CLASS && element.is_integer() => {
                json!({"names": names, "_type": "ClassLabel"})
            }
            _ => feature(field),
        };
        features.insert(field.name().clone(), feature);
    }
    // Not by `json!`, which would serialize thousands of columns twice.
    let within = |name: &str, inner: Map<String, Value>| Map::from_iter([(name.to_owned(), Value::Object(inner))]);
    Ok(Value::Object(within("info", within("features", features))).to_string())
}

fn class_names(text: &str) -> Result<Vec<String>> {
    serde_json::from_str(text)
        .map_err(|e| Error::config(format!("the metadata {CLASSES} is not a JSON list of names: {e}")))
}

fn feature(field: &Field) -> Value {
    match field.data_type() {
        DataType::List(item) => json!({"feature": feature(item), "_type": "List"}),
        DataType::FixedSizeList(item, size) => json!({"feature": feature(item), "length": size, "_type": "List"}),
        DataType::Struct(parts) => parts.iter().map(|part| (part.name().clone(), feature(part))).collect(),
        DataType::Utf8 => value("string"),
        // Hugging Face has no fixed-size binary; it casts.
        DataType::Binary | DataType::FixedSizeBinary(_) => value("binary"),
        DataType::Boolean => value("bool"),
        other => value(&temporal::name(other).unwrap_or_else(|| other.to_string().to_lowercase())),
    }
}

fn value(dtype: &str) -> Value {
    json!({"dtype": dtype, "_type": "Value"})
}
