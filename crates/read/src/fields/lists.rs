//! The values of rows of lists and arrays.

use crate::Value;
use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::{Array, ArrayRef, BinaryViewArray, GenericListArray, OffsetSizeTrait};
use packhorse_core::{DataType, Error, Result};

/// The elements of an array in row `row`.
pub(super) fn elements(array: &ArrayRef, row: usize) -> Result<ArrayRef> {
    match array.data_type() {
        DataType::FixedSizeList(..) => Ok(array.as_fixed_size_list().value(row)),
        DataType::List(_) => Ok(flat(array.as_list::<i32>().value(row))),
        DataType::LargeList(_) => Ok(flat(array.as_list::<i64>().value(row))),
        DataType::Struct(_) => {
            let data = array.as_struct().columns().first().ok_or_else(|| Error::bug("an array without data"))?;
            elements(data, row)
        }
        _ => Ok(array.slice(row, 1)),
    }
}

/// The elements of lists in lists.
fn flat(mut array: ArrayRef) -> ArrayRef {
    while let Some(lists) = array.as_list_opt::<i32>() {
        array = inside_of(lists);
    }
    array
}

/// The shape of lists in lists, all of one length.
fn shape_of_lists(array: &ArrayRef, row: usize, rank: usize) -> Result<Vec<i32>> {
    let (mut shape, mut lists) = (Vec::with_capacity(rank), array.slice(row, 1));
    while let Some(level) = lists.as_list_opt::<i32>() {
        let first = if level.is_empty() { 0 } else { level.value_length(0) };
        if let Some(other) = (1..level.len()).map(|at| level.value_length(at)).find(|len| *len != first) {
            let message =
                format!("has lists of {first} and of {other} values in one sample, which an array can't hold");
            return Err(Error::content(message));
        }
        shape.push(first);
        lists = inside_of(level);
    }
    Ok(shape)
}

/// The shape of an array of `rank` dimensions in row `row`.
pub(super) fn shape_in(array: &ArrayRef, row: usize, rank: usize) -> Result<Vec<i32>> {
    if array.as_list_opt::<i32>().is_some() {
        return shape_of_lists(array, row, rank);
    }
    let parts = array.as_struct_opt().ok_or_else(|| Error::bug("an array without a shape"))?.columns();
    match (rank, parts) {
        (1, [values, ..]) => Ok(vec![elements(values, row)?.len() as i32]),
        (_, [_, shape, ..]) => Ok(elements(shape, row)?.as_primitive::<Int32Type>().values().to_vec()),
        _ => Err(Error::bug("an array without a shape")),
    }
}

/// The shape of a value of lists, or of an array of its own shape.
pub(crate) fn shape_of(value: Value<'_>, rank: usize) -> Option<Vec<usize>> {
    let Value::Row(array, row) = value else { return None };
    shape_in(array, row, rank).ok().map(|shape| shape.into_iter().map(|len| len as usize).collect())
}

/// The bytes in the lists of a row.
pub(super) fn pieces(value: Value<'_>) -> Result<BinaryViewArray> {
    let Value::Row(array, row) = value else { return Err(unlike_others()) };
    let pieces = elements(array, row)?;
    pieces.as_binary_view_opt().cloned().ok_or_else(unlike_others)
}

/// The lengths of the lists, or of the bytes, that lie `level` lists inside of a row.
pub(super) fn lengths(value: Value<'_>, level: usize) -> Result<Vec<i64>> {
    let Value::Row(array, row) = value else { return Err(unlike_others()) };
    let mut inside = array.slice(row, 1);
    for _ in 0..level {
        inside = match inside.data_type() {
            DataType::List(_) => inside_of(inside.as_list::<i32>()),
            DataType::LargeList(_) => inside_of(inside.as_list::<i64>()),
            _ => return Err(unlike_others()),
        };
    }
    fn of<O: OffsetSizeTrait>(offsets: &[O]) -> Vec<i64> {
        offsets
            .windows(2)
            .map(|ends| ends.iter().rev().map(|end| end.as_usize() as i64).reduce(|a, b| a - b).unwrap_or(0))
            .collect()
    }
    Ok(match inside.data_type() {
        DataType::List(_) => of(inside.as_list::<i32>().value_offsets()),
        DataType::LargeList(_) => of(inside.as_list::<i64>().value_offsets()),
        DataType::BinaryView => inside.as_binary_view().lengths().map(i64::from).collect(),
        _ => return Err(unlike_others()),
    })
}

fn inside_of<O: OffsetSizeTrait>(lists: &GenericListArray<O>) -> ArrayRef {
    let at = |end: Option<&O>| end.map_or(0, |end| end.as_usize());
    let (from, to) = (at(lists.value_offsets().first()), at(lists.value_offsets().last()));
    lists.values().slice(from, to - from)
}

pub(super) fn unlike_others() -> Error {
    Error::content("is of another type than in the samples before")
}
