//! Casts of arrays of bytes to blobs: an encoded picture, which HDF5 and NumPy hold as `uint8` of one dimension.

use arrow_array::builder::BinaryViewBuilder;
use arrow_array::cast::AsArray;
use arrow_array::types::UInt8Type;
use arrow_array::{Array, ArrayRef};
use packhorse_core::{DataType, Field, FieldType, Result};
use std::sync::Arc;

/// The type of such casts.
pub(super) const TARGET: DataType = DataType::BinaryView;

/// `field` as a blob; `None` if it has neither bytes nor text nor a row of bytes in each sample.
pub(super) fn field(field: &Field) -> Option<Field> {
    let fits = match FieldType::of(field).ok()? {
        FieldType::Blob | FieldType::Text => true,
        FieldType::Tensor { element, shape } => element == DataType::UInt8 && shape.len() == 1,
        FieldType::Ragged { element, rank } => element == DataType::UInt8 && rank == 1,
        FieldType::List { element, depth } => element == DataType::UInt8 && depth == 1,
        FieldType::Scalar(_) => false,
    };
    fits.then(|| FieldType::Blob.field(field.name(), field.is_nullable()))
}

/// The rows of bytes in `column` as blobs.
pub(super) fn blobs(column: &ArrayRef) -> Result<ArrayRef, String> {
    if let Some(blobs) = column.as_binary_view_opt() {
        return Ok(Arc::new(blobs.clone()));
    }
    if let Some(texts) = column.as_string_view_opt() {
        return Ok(Arc::new(texts.clone().to_binary_view()));
    }
    let rows = column.as_struct_opt().and_then(|parts| parts.column_by_name("data")).unwrap_or(column);
    let values = |row: usize| {
        let fixed = rows.as_fixed_size_list_opt().map(|lists| lists.value(row));
        fixed
            .or_else(|| Some(rows.as_list_opt::<i32>()?.value(row)))
            .or_else(|| Some(rows.as_list_opt::<i64>()?.value(row)))
    };
    let mut blobs = BinaryViewBuilder::new();
    for row in 0..column.len() {
        if column.is_null(row) {
            blobs.append_null();
            continue;
        }
        let bytes = values(row).ok_or_else(|| format!("{} can't become bytes", column.data_type()))?;
        let bytes = bytes.as_primitive_opt::<UInt8Type>().ok_or_else(|| "holds no bytes".to_owned())?;
        blobs.append_value(bytes.values());
    }
    Ok(Arc::new(blobs.finish()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{BinaryViewArray, FixedSizeListArray, ListArray};

    #[test]
    fn rows_of_bytes_are_blobs() {
        let rows = [Some(vec![Some(255u8), Some(216)]), None, Some(vec![Some(1), Some(0)])];
        let wanted = BinaryViewArray::from_iter([Some(&[255u8, 216][..]), None, Some(&[1, 0])]);
        let lists: ArrayRef = Arc::new(ListArray::from_iter_primitive::<UInt8Type, _, _>(rows.clone()));
        let fixed: ArrayRef = Arc::new(FixedSizeListArray::from_iter_primitive::<UInt8Type, _, _>(rows, 2));
        let sliced = BinaryViewArray::from_iter([None, Some(&[1u8, 0][..])]);
        for column in [lists, fixed] {
            assert_eq!(blobs(&column).unwrap().as_binary_view(), &wanted);
            assert_eq!(blobs(&column.slice(1, 2)).unwrap().as_binary_view(), &sliced);
        }
    }

    #[test]
    fn other_arrays_are_no_blobs() {
        let of =
            |element: DataType, shape: &[usize]| FieldType::Tensor { element, shape: shape.to_vec() }.field("x", false);
        assert_eq!(field(&of(DataType::UInt8, &[7])), Some(FieldType::Blob.field("x", false)));
        assert_eq!(field(&of(DataType::UInt8, &[2, 7])), None);
        assert_eq!(field(&of(DataType::Int8, &[7])), None);
        assert_eq!(field(&FieldType::Scalar(DataType::UInt8).field("x", false)), None);
    }
}
