//! The elements of a field, as batches hold them.

use packhorse_core::{DataType, Field, FieldType, Result, numpy_type};

/// Whether a field has several texts for each sample, in lists or along one dimension.
pub(super) fn holds_texts(field: &Field) -> Result<bool> {
    Ok(match FieldType::of(field)? {
        FieldType::List { element, .. } => element == DataType::Utf8View,
        FieldType::Tensor { element, shape } => element == DataType::Utf8View && shape.len() == 1,
        FieldType::Ragged { element, rank } => element == DataType::Utf8View && rank == 1,
        _ => false,
    })
}

/// What batches hold of elements whose type only NumPy's name tells.
pub(super) struct Elements {
    pub(super) data_type: DataType,
    /// How many of them an element is: the parts of a complex number, and bytes of a fixed length.
    pub(super) parts: Option<usize>,
}

impl Elements {
    /// Those of a field: times are the ticks that they count, complex numbers pairs of floats, other bytes are bytes.
    pub(super) fn of(field: &Field, element: &DataType) -> Self {
        let (data_type, parts) = match (element, numpy_type(field)) {
            (DataType::FixedSizeBinary(8), Some("<c8")) => (DataType::Float32, Some(2)),
            (DataType::FixedSizeBinary(16), Some("<c16")) => (DataType::Float64, Some(2)),
            (DataType::FixedSizeBinary(8), Some(name)) if name.starts_with("<M8[") || name.starts_with("<m8[") => {
                (DataType::Int64, None)
            }
            (DataType::FixedSizeBinary(bytes), _) => (DataType::UInt8, Some(usize::try_from(*bytes).unwrap_or(0))),
            _ => (element.clone(), None),
        };
        Self { data_type, parts }
    }
}
