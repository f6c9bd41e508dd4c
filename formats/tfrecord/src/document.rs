//! The schema documents: `.schema.json` beside a file, `features.json` of a dataset.
//!
//! ```text
//! {"packhorse_tfrecord":1,"records":100,"bytes":51200,"fields":[
//! {"name":"x","kind":"tensor","element":"Float32","shape":[3,4],"nullable":false,"list":"float_list","tf":"…"},
//! …
//! ]}
//! ```
//!
//! `kind` is `blob`, `text`, `scalar`, `tensor` (with `shape`), `ragged` (with `rank`) or `list` (with `depth`);
//! `list` is its [`ListKind`](crate::layout::ListKind); `metadata` is that of the column, such as its NumPy type; `tf`
//! is the argument for `tf.io.parse_example`, for human readers. `steps` is true for a feature list of a `SequenceExample`, and never
//! written. `records` and `bytes` describe the file beside it.

use crate::element;
use crate::layout::{FeatureColumn, FeatureLayout, ListKind};
use packhorse_core::{DataType, Error, FieldType, Result};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// The suffix of the document of a file.
pub(crate) const SUFFIX: &str = ".schema.json";
/// The name of the document of a dataset.
pub(crate) const DATASET: &str = "features.json";

const VERSION: u64 = 1;

/// The longest document that is read and written: some hundred thousand fields.
pub(crate) const LONGEST: u64 = 64 << 20;

/// The numbers of records and bytes of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileCounts {
    pub(crate) records: u64,
    pub(crate) bytes: u64,
}

/// The text of a document.
pub(crate) fn encode(layout: &FeatureLayout, size: Option<FileCounts>) -> String {
    let size = size.map_or(String::new(), |s| format!(",\"records\":{},\"bytes\":{}", s.records, s.bytes));
    let fields: Vec<String> = layout.0.iter().map(|column| encode_column(column).to_string()).collect();
    format!("{{\"packhorse_tfrecord\":{VERSION}{size},\"fields\":[\n{}\n]}}\n", fields.join(",\n"))
}

fn encode_column(column: &FeatureColumn) -> Value {
    let (kind, dimensions) = match &column.kind {
        FieldType::Blob => ("blob", None),
        FieldType::Text => ("text", None),
        FieldType::Scalar(_) => ("scalar", None),
        FieldType::Tensor { shape, .. } => ("tensor", Some(("shape", json!(shape)))),
        FieldType::Ragged { rank, .. } => ("ragged", Some(("rank", json!(rank)))),
        FieldType::List { depth, .. } => ("list", Some(("depth", json!(depth)))),
    };
    let mut map = Map::new();
    map.insert("name".to_owned(), column.name().into());
    map.insert("kind".to_owned(), kind.into());
    if let Some(element) = column.kind.element() {
        map.insert("element".to_owned(), element::name_of(element).into());
    }
    if let Some((name, value)) = dimensions {
        map.insert(name.to_owned(), value);
    }
    map.insert("nullable".to_owned(), column.field.is_nullable().into());
    map.insert("list".to_owned(), column.carrier.name().into());
    let metadata = column.metadata();
    map.insert("tf".to_owned(), tensorflow(column, &metadata).into());
    if !metadata.is_empty() {
        map.insert("metadata".to_owned(), json!(metadata));
    }
    Value::Object(map)
}

/// The TensorFlow expression that parses the column.
fn tensorflow(column: &FeatureColumn, metadata: &BTreeMap<String, String>) -> String {
    let dtype = match column.carrier {
        ListKind::Ints => "tf.int64",
        ListKind::Floats => "tf.float32",
        ListKind::Bytes | ListKind::Raw => "tf.string",
    };
    let shape = match &column.kind {
        FieldType::Tensor { shape, .. } => format!("{shape:?}"),
        _ => "[]".to_owned(),
    };
    let raw = column.carrier == ListKind::Raw;
    let list = matches!(column.kind, FieldType::Ragged { .. } | FieldType::List { .. });
    let parsed = match (raw, list) {
        (true, _) => format!("tf.io.FixedLenFeature([], {dtype})"),
        (false, false) => format!("tf.io.FixedLenFeature({shape}, {dtype})"),
        (false, true) => {
            let splits = column.parts().into_iter().filter(|_| matches!(column.kind, FieldType::List { .. }));
            let splits: Vec<String> = splits.map(|name| format!("tf.io.RaggedFeature.RowSplits({name:?})")).collect();
            format!("tf.io.RaggedFeature({dtype}, value_key={:?}, partitions=[{}])", column.name(), splits.join(", "))
        }
    };
    let then = column.kind.element().and_then(|e| element::tensorflow(e, metadata)).filter(|then| *then != dtype);
    match (raw, then) {
        (true, Some(then)) => format!("{parsed}, then tf.io.decode_raw(…, {then})"),
        (false, Some("tf.uint64")) => format!("{parsed}, then tf.bitcast(…, tf.uint64)"),
        (false, Some(then)) => format!("{parsed}, then tf.cast(…, {then})"),
        (_, None) => parsed,
    }
}

/// Parses an untrusted document.
pub(crate) fn decode(bytes: &[u8]) -> Result<(FeatureLayout, Option<FileCounts>)> {
    let document: Value =
        serde_json::from_slice(bytes).map_err(|e| Error::content(format!("is not valid JSON: {e}")))?;
    if document.get("packhorse_tfrecord").and_then(Value::as_u64) != Some(VERSION) {
        return Err(Error::unsupported(format!(
            "is not a schema of version {VERSION}; move it away to have the schema inferred"
        )));
    }
    let fields =
        document.get("fields").and_then(Value::as_array).ok_or_else(|| Error::content("has no list of fields"))?;
    let columns = fields.iter().map(decode_column).collect::<Result<Vec<_>>>()?;
    let number = |name: &str| document.get(name).and_then(Value::as_u64);
    let size = number("records").zip(number("bytes")).map(|(records, bytes)| FileCounts { records, bytes });
    Ok((FeatureLayout::sorted(columns)?, size))
}

fn decode_column(value: &Value) -> Result<FeatureColumn> {
    let text = |name: &str| value.get(name).and_then(Value::as_str);
    let name = text("name").ok_or_else(|| Error::content("has a field without a name"))?;
    let parse = || {
        let element = || element::named(text("element")?);
        let number = |name: &str| usize::try_from(value.get(name)?.as_u64()?).ok();
        let size = |value: &Value| usize::try_from(value.as_u64()?).ok();
        let kind = match text("kind")? {
            "blob" => FieldType::Blob,
            "text" => FieldType::Text,
            "scalar" => {
                FieldType::Scalar(element().filter(|e| ![DataType::Utf8View, DataType::BinaryView].contains(e))?)
            }
            "tensor" => FieldType::Tensor {
                element: element().filter(|e| *e != DataType::BinaryView)?,
                shape: value.get("shape")?.as_array()?.iter().map(size).collect::<Option<Vec<_>>>()?,
            },
            "ragged" => {
                FieldType::Ragged { element: element().filter(|e| *e != DataType::BinaryView)?, rank: number("rank")? }
            }
            "list" => FieldType::List { element: element()?, depth: number("depth")? },
            _ => return None,
        };
        let carrier = ListKind::ALL.into_iter().find(|carrier| Some(carrier.name()) == text("list"))?;
        let strings = value.get("metadata").and_then(Value::as_object).into_iter().flatten();
        let metadata: Option<BTreeMap<String, String>> =
            strings.map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect();
        let steps = value.get("steps").is_some_and(|steps| steps == true)
            && matches!(kind, FieldType::List { depth: 1 | 2, .. });
        Some((kind, value.get("nullable")?.as_bool()?, (carrier, steps), metadata?))
    };
    let (kind, nullable, (carrier, steps), metadata) =
        parse().ok_or_else(|| Error::content(format!("field {name} is of no type that this version knows")))?;
    if name == packhorse_core::KEY && (kind != FieldType::Text || nullable) {
        return Err(Error::content(format!("field {name} must be text and never null")));
    }
    if metadata.keys().any(|key| key.starts_with("ARROW:extension:")) {
        return Err(Error::content(format!("field {name} has metadata that repeats its kind")));
    }
    let column = FeatureColumn::new(name, kind, nullable, Some(carrier))?.with_metadata(metadata);
    Ok(FeatureColumn { steps, ..column })
}

#[cfg(test)]
mod tests {
    use super::*;
    use packhorse_testkit::typed;

    #[test]
    fn layouts_round_trip() {
        for (name, rows) in typed::corpus() {
            for raw in [false, true] {
                let layout = FeatureLayout::of(&rows.schema(), raw).unwrap();
                let size = Some(FileCounts { records: 5, bytes: u64::MAX });
                let (found, found_size) = decode(encode(&layout, size).as_bytes()).unwrap();
                assert_eq!(found.schema(), rows.schema(), "{name}");
                assert_eq!(found_size, size);
                let carriers = |layout: &FeatureLayout| layout.0.iter().map(|c| c.carrier).collect::<Vec<_>>();
                assert_eq!(carriers(&found), carriers(&layout), "{name}");
            }
        }
    }

    #[test]
    fn invalid_documents_are_refused() {
        let document = |field: &str| format!("{{\"packhorse_tfrecord\":1,\"fields\":[{field}]}}");
        let good = r#"{"name":"x","kind":"tensor","element":"Int8","shape":[2],"nullable":false,"list":"int64_list"}"#;
        assert!(decode(document(good).as_bytes()).is_ok());
        assert!(decode(document(&format!("{good},{good}")).as_bytes()).is_err());
        for (from, to) in [
            ("Int8", "Date32"),
            ("Int8", "FixedSizeBinary(0)"),
            ("[2]", "[]"),
            ("[2]", "[4294967296,4294967296]"),
            ("[2]", "[-1]"),
            ("int64_list", "float_list"),
            ("\"x\"", "\"__key__\""),
            ("tensor", "list"),
            ("\"nullable\":false,", ""),
        ] {
            assert!(decode(document(&good.replace(from, to)).as_bytes()).is_err(), "{to}");
        }
        assert!(decode(b"{}").is_err());
    }
}
