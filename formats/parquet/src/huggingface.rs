//! What Hugging Face's `datasets` wants to know of a file: its features, under the key `huggingface` of the file's
//! metadata, as `datasets.Features.to_dict` writes them (checked with datasets 5.2).

use crate::stored::{Stored, is_image};
use crate::temporal;
use packhorse_core::{DataType, Error, Field, FieldType, Result, Schema};
use serde_json::{Map, Value, json};

/// Where the features lie in the file's metadata.
pub(crate) const KEY_OF_FEATURES: &str = "huggingface";

/// The metadata of a schema that lists the names of the classes as JSON, by number.
pub(crate) const CLASSES: &str = "packhorse.classes";

/// The field that holds the class.
const CLASS: &str = "cls";

/// The text for rows of `schema`.
pub(crate) fn features(schema: &Schema, stored: &Stored) -> Result<String> {
    let classes = schema.metadata().get(CLASSES).map(|text| class_names(text)).transpose()?;
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
    Ok(json!({"info": {"features": features}}).to_string())
}

fn class_names(text: &str) -> Result<Vec<String>> {
    serde_json::from_str(text)
        .map_err(|e| Error::config(format!("the metadata {CLASSES} is no JSON list of names: {e}")))
}

fn feature(field: &Field) -> Value {
    match field.data_type() {
        DataType::List(item) => json!({"feature": feature(item), "_type": "List"}),
        DataType::FixedSizeList(item, size) => json!({"feature": feature(item), "length": size, "_type": "List"}),
        DataType::Struct(parts) => parts.iter().map(|part| (part.name().clone(), feature(part))).collect(),
        DataType::Utf8 => value("string"),
        // Hugging Face has no name for a fixed size; it casts.
        DataType::Binary | DataType::FixedSizeBinary(_) => value("binary"),
        DataType::Boolean => value("bool"),
        other => value(&temporal::name(other).unwrap_or_else(|| other.to_string().to_lowercase())),
    }
}

fn value(dtype: &str) -> Value {
    json!({"dtype": dtype, "_type": "Value"})
}
