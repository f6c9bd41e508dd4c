//! The features of a file for Hugging Face's `datasets`: the metadata key `huggingface`, as `datasets.Features.to_dict`
//! writes it (tested with datasets 5.2).

use crate::stored_schema::{StoredSchema, is_image};
use crate::temporal;
use packhorse_core::{DataType, Error, Field, FieldType, Result, Schema};
use serde_json::{Map, Value, json};

/// The key of the features in the file's metadata.
pub(crate) const KEY_OF_FEATURES: &str = "huggingface";

/// The key of the class names, a JSON list by class number, in a schema's metadata.
pub(crate) const CLASSES: &str = "packhorse.classes";

/// The field that holds the class.
const CLASS: &str = "cls";

/// The class names of a schema.
pub(crate) fn classes(schema: &Schema) -> Result<Option<Vec<String>>> {
    schema.metadata().get(CLASSES).map(|text| class_names(text)).transpose()
}

/// The JSON text for rows of `schema`.
pub(crate) fn features(schema: &Schema, stored: &StoredSchema) -> Result<String> {
    let classes = classes(schema)?;
    let mut features = Map::new();
    for (kind, field) in stored.fields() {
        let feature = match (kind, &classes) {
            (FieldType::Blob, _) if is_image(field.name()) => json!({"_type": "Image"}),
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
