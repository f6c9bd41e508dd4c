//! Arrow schemas in documents.

use packhorse_core::{DataType, Error, Field, Result, Schema, SchemaRef};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// A column: its name, its Arrow type as Arrow prints it, and whether samples may lack it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FieldRecord {
    /// The field's name.
    pub name: String,
    /// The type (`BinaryView`, `Int64`, …).
    #[serde(rename = "type")]
    pub data_type: String,
    /// Whether a sample may lack it.
    pub nullable: bool,
    /// Arrow metadata, such as the extension type and the NumPy dtype.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
}

/// Types of fields have far fewer.
const MOST_PARENTHESES: usize = 256;

impl FieldRecord {
    /// Converts a schema to records.
    pub fn of(schema: &Schema) -> Vec<Self> {
        let record = |f: &Arc<Field>| Self {
            name: f.name().clone(),
            data_type: f.data_type().to_string(),
            nullable: f.is_nullable(),
            metadata: f.metadata().iter().map(|(k, v)| (k.clone(), v.clone())).collect(),
        };
        schema.fields().iter().map(record).collect()
    }

    /// Converts records to a schema; a `Content` error for an unknown type.
    pub fn schema(records: &[Self]) -> Result<SchemaRef> {
        let field = |r: &Self| {
            // The parser of types calls itself for each level.
            if r.data_type.bytes().filter(|byte| *byte == b'(').count() > MOST_PARENTHESES {
                return Err(Error::content(format!("field {}: its type is nested too deep", r.name)));
            }
            let data_type: DataType =
                r.data_type.parse().map_err(|e| Error::content(format!("field {}: {e}", r.name)))?;
            let metadata: HashMap<String, String> = r.metadata.clone().into_iter().collect();
            Ok(Field::new(&r.name, data_type, r.nullable).with_metadata(metadata))
        };
        Ok(Arc::new(Schema::new(records.iter().map(field).collect::<Result<Vec<_>>>()?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use packhorse_core::FieldType;

    #[test]
    fn types_survive() {
        let schema = Schema::new(vec![
            Field::new("__key__", DataType::Utf8View, false),
            Field::new("cls", DataType::Int64, false),
            Field::new("jpg", DataType::BinaryView, true),
            FieldType::Tensor { element: DataType::Float16, shape: vec![3, 4] }.field("x", true),
            FieldType::Ragged { element: DataType::UInt8, rank: 3 }.field("y", false),
            FieldType::List { element: DataType::Utf8View, depth: 3 }.field("z", true),
            FieldType::Scalar(DataType::FixedSizeBinary(8)).field("c", false),
        ]);
        assert_eq!(*FieldRecord::schema(&FieldRecord::of(&schema)).unwrap(), schema);
    }

    /// The parser of types would fill the stack.
    #[test]
    fn deep_types_are_refused() {
        let record = |depth: usize| {
            let data_type = format!("{}Int64{}", "List(".repeat(depth), ")".repeat(depth));
            vec![FieldRecord { name: "x".to_owned(), data_type, nullable: false, metadata: BTreeMap::new() }]
        };
        assert!(FieldRecord::schema(&record(16)).is_ok());
        assert!(FieldRecord::schema(&record(100_000)).unwrap_err().to_string().contains("nested too deep"));
    }
}
