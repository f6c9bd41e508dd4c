//! The names of element types in schema documents and in TensorFlow.

use packhorse_core::{DataType, NUMPY};
use std::collections::BTreeMap;

const PLAIN: [(&str, DataType, &str); 14] = [
    ("Boolean", DataType::Boolean, "tf.bool"),
    ("Int8", DataType::Int8, "tf.int8"),
    ("Int16", DataType::Int16, "tf.int16"),
    ("Int32", DataType::Int32, "tf.int32"),
    ("Int64", DataType::Int64, "tf.int64"),
    ("UInt8", DataType::UInt8, "tf.uint8"),
    ("UInt16", DataType::UInt16, "tf.uint16"),
    ("UInt32", DataType::UInt32, "tf.uint32"),
    ("UInt64", DataType::UInt64, "tf.uint64"),
    ("Float16", DataType::Float16, "tf.half"),
    ("Float32", DataType::Float32, "tf.float32"),
    ("Float64", DataType::Float64, "tf.float64"),
    ("Utf8View", DataType::Utf8View, "tf.string"),
    ("BinaryView", DataType::BinaryView, "tf.string"),
];

/// The name of an element type; for fixed-size binary `FixedSizeBinary(WIDTH)`.
pub(crate) fn name_of(element: &DataType) -> String {
    match element {
        DataType::FixedSizeBinary(width) => format!("FixedSizeBinary({width})"),
        other => PLAIN.iter().find(|(_, t, _)| t == other).map_or_else(|| other.to_string(), |p| p.0.to_owned()),
    }
}

/// The type of that name, if there is one.
pub(crate) fn named(name: &str) -> Option<DataType> {
    if let Some(width) = name.strip_prefix("FixedSizeBinary(").and_then(|rest| rest.strip_suffix(')')) {
        return width.parse().ok().filter(|width| *width > 0).map(DataType::FixedSizeBinary);
    }
    PLAIN.iter().find(|(n, _, _)| *n == name).map(|(_, t, _)| t.clone())
}

/// TensorFlow's name of the element type, if it has one.
pub(crate) fn tensorflow(element: &DataType, metadata: &BTreeMap<String, String>) -> Option<&'static str> {
    match metadata.get(NUMPY).map(String::as_str) {
        Some("<c8") => Some("tf.complex64"),
        Some("<c16") => Some("tf.complex128"),
        _ => PLAIN.iter().find(|(_, t, _)| t == element).map(|p| p.2),
    }
}
