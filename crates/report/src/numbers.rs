//! The numbers of a value, whatever their type.

use arrow_array::cast::AsArray;
use arrow_array::types::ArrowPrimitiveType;
use arrow_array::{Array, ArrayRef, BinaryViewArray, PrimitiveArray, downcast_primitive_array};
use packhorse_core::{DataType, FieldType, value_bytes};

/// The numbers in row `row` of a column: one of a scalar, the first of an array in C order, up to `most`. `None` for other
/// columns; of a jagged list the values of its first list.
pub(crate) fn numbers(kind: &FieldType, column: &ArrayRef, row: usize, most: usize) -> Option<Vec<f64>> {
    first(&elements(kind, column, row)?, most)
}

/// Gives `each` all bytes of the elements in row `row`, and the lengths of lists; returns how many bytes the elements have.
/// `None` for columns of bytes, and of other types.
pub(crate) fn content(kind: &FieldType, column: &ArrayRef, row: usize, each: &mut dyn FnMut(&[u8])) -> Option<u64> {
    bytes(&elements(kind, column, row)?, each)
}

/// The elements of a row.
fn elements(kind: &FieldType, column: &ArrayRef, row: usize) -> Option<ArrayRef> {
    match kind {
        FieldType::Blob | FieldType::Text => None,
        FieldType::Scalar(_) => Some(column.slice(row, 1)),
        FieldType::Tensor { .. } => Some(column.as_fixed_size_list_opt()?.value(row)),
        FieldType::Ragged { .. } => {
            let data = column.as_struct_opt()?.column_by_name("data")?;
            Some(data.as_list_opt::<i32>()?.value(row))
        }
        FieldType::List { .. } => list(column, row),
    }
}

fn bytes(array: &ArrayRef, each: &mut dyn FnMut(&[u8])) -> Option<u64> {
    each(&(array.len() as u64).to_le_bytes());
    downcast_primitive_array!(
        array => {
            let bytes = array.values().inner().as_slice();
            each(bytes);
            Some(bytes.len() as u64)
        },
        DataType::Boolean => {
            array.as_boolean().iter().for_each(|value| each(&[u8::from(value.unwrap_or(false))]));
            Some(array.len() as u64)
        },
        DataType::List(_) | DataType::LargeList(_) => {
            (0..array.len()).map(|at| bytes(&list(array, at)?, each)).sum()
        },
        DataType::BinaryView | DataType::Utf8View => {
            let values = (0..array.len()).map(|at| value_bytes(array, at).unwrap_or_default());
            Some(values.map(|value| {
                each(&(value.len() as u64).to_le_bytes());
                each(value);
                value.len() as u64
            }).sum())
        },
        _ => None
    )
}

/// The blobs in row `row` of a column of lists of them.
pub(crate) fn blobs(kind: &FieldType, column: &ArrayRef, row: usize) -> Option<BinaryViewArray> {
    elements(kind, column, row)?.as_binary_view_opt().cloned()
}

/// The number of elements in row `row` of a column of ragged arrays or lists.
pub(crate) fn length(kind: &FieldType, column: &ArrayRef, row: usize) -> Option<usize> {
    match kind {
        FieldType::Ragged { .. } | FieldType::List { .. } => Some(elements(kind, column, row)?.len()),
        _ => None,
    }
}

fn list(column: &ArrayRef, row: usize) -> Option<ArrayRef> {
    let short = column.as_list_opt::<i32>().map(|lists| lists.value(row));
    short.or_else(|| column.as_list_opt::<i64>().map(|lists| lists.value(row)))
}

fn first(array: &ArrayRef, most: usize) -> Option<Vec<f64>> {
    let array = &array.slice(0, array.len().min(most));
    downcast_primitive_array!(
        array => plain(array),
        DataType::Boolean => {
            Some(array.as_boolean().iter().map(|value| f64::from(u8::from(value.unwrap_or(false)))).collect())
        },
        _ => (!array.is_empty()).then(|| list(array, 0).and_then(|inner| first(&inner, most))).flatten()
    )
}

/// By their text, which every type of numbers has; a few hundred are asked for.
fn plain<T: ArrowPrimitiveType>(array: &PrimitiveArray<T>) -> Option<Vec<f64>> {
    array.iter().flatten().map(|value| format!("{value:?}").parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{Float32Array, Int64Array, ListArray, StringArray};
    use std::sync::Arc;

    #[test]
    fn numbers_of_every_kind() {
        let scalars: ArrayRef = Arc::new(Int64Array::from(vec![7, -3]));
        assert_eq!(numbers(&FieldType::Scalar(DataType::Int64), &scalars, 1, 9), Some(vec![-3.0]));
        let floats: ArrayRef = Arc::new(Float32Array::from(vec![0.5, f32::NAN]));
        assert!(numbers(&FieldType::Scalar(DataType::Float32), &floats, 1, 9).unwrap()[0].is_nan());
        let lists = ListArray::from_iter_primitive::<arrow_array::types::Int32Type, _, _>([
            Some(vec![Some(1), Some(2), Some(3)]),
            Some(vec![]),
        ]);
        let (lists, kind): (ArrayRef, _) = (Arc::new(lists), FieldType::List { element: DataType::Int32, depth: 1 });
        assert_eq!(numbers(&kind, &lists, 0, 2), Some(vec![1.0, 2.0]));
        assert_eq!((length(&kind, &lists, 0), length(&kind, &lists, 1)), (Some(3), Some(0)));
        let hashed = |row| {
            let mut seen = Vec::new();
            let bytes = content(&kind, &lists, row, &mut |bytes| seen.extend_from_slice(bytes));
            (bytes, seen)
        };
        assert_eq!(
            hashed(0),
            (Some(12), [vec![3, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0], vec![2, 0, 0, 0, 3, 0, 0, 0]].concat())
        );
        assert_eq!(hashed(1), (Some(0), vec![0; 8]));
        let text: ArrayRef = Arc::new(StringArray::from(vec!["a"]));
        assert_eq!(numbers(&FieldType::Text, &text, 0, 9), None);
    }
}
