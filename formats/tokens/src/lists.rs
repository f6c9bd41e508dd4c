//! Lists of numbers from any list-like column.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_buffer::Buffer;
use packhorse_core::{DataType, Error, Field, FieldType, Result, bytes_of};

/// One list for each sample, concatenated.
pub(crate) struct Lists {
    /// The little-endian elements of all lists.
    pub(crate) bytes: Buffer,
    /// The number of elements up to the end of each list.
    pub(crate) ends: Vec<usize>,
}

/// The element type of a column of lists; `None` for other columns.
pub(crate) fn element(field: &Field) -> Option<DataType> {
    match FieldType::of(field).ok()? {
        FieldType::List { element, depth: 1 } | FieldType::Ragged { element, rank: 1 } => Some(element),
        FieldType::Tensor { element, shape } if shape.len() == 1 => Some(element),
        _ => None,
    }
}

impl Lists {
    /// The lists of a column that [`element`] accepts. A null list or element is a `Content` error, returned with the
    /// number of its row.
    pub(crate) fn of(column: &ArrayRef) -> Result<Self, (Error, usize)> {
        match first_null(column) {
            Some(row) => Err((Error::content("is missing"), row)),
            None => Self::of_some(column),
        }
    }

    /// The same of a column with null lists, whose elements mean nothing.
    pub(crate) fn of_some(column: &ArrayRef) -> Result<Self, (Error, usize)> {
        let whole = column;
        let column = match column.as_struct_opt() {
            // A ragged tensor of one dimension: the offsets of its data repeat its shapes.
            Some(parts) => parts.column_by_name("data").ok_or_else(|| bug("a ragged tensor without data"))?,
            None => column,
        };
        let (values, from, ends) = parts(column)?;
        let to = ends.last().copied().unwrap_or(from);
        let values = values.slice(from, to - from);
        let ends: Vec<usize> = ends.into_iter().map(|end| end - from).collect();
        let nulls = values.logical_nulls().filter(|nulls| nulls.null_count() > 0);
        let missing = nulls.iter().flat_map(|nulls| (0..nulls.len()).filter(|at| nulls.is_null(*at)));
        let mut rows = missing.map(|at| ends.partition_point(|end| *end <= at));
        if let Some(row) = rows.find(|row| whole.is_valid(*row)) {
            return Err((Error::content("has an element that is missing"), row));
        }
        let bytes = bytes_of(&values).map_err(|e| (e, 0))?;
        Ok(Self { bytes, ends })
    }

    /// The first element of list `row`, and the end.
    pub(crate) fn range(&self, row: usize) -> (usize, usize) {
        let from = row.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or(0);
        (from, self.ends.get(row).copied().unwrap_or(from))
    }

    /// The bytes of list `row`, whose elements have `width` bytes.
    pub(crate) fn bytes(&self, row: usize, width: usize) -> &[u8] {
        let (from, to) = self.range(row);
        self.bytes.get(from * width..to * width).unwrap_or_default()
    }
}

fn first_null(array: &dyn Array) -> Option<usize> {
    let nulls = array.logical_nulls().filter(|nulls| nulls.null_count() > 0)?;
    nulls.iter().position(|valid| !valid)
}

/// The values of a list column, the start of the first list, and the end of each.
fn parts(column: &ArrayRef) -> Result<(ArrayRef, usize, Vec<usize>), (Error, usize)> {
    if let Some(list) = column.as_list_opt::<i32>() {
        let ends = list.offsets().iter().skip(1).map(|end| end.unsigned_abs() as usize);
        let from = list.offsets().iter().next().map_or(0, |from| from.unsigned_abs() as usize);
        return Ok((list.values().clone(), from, ends.collect()));
    }
    if let Some(list) = column.as_list_opt::<i64>() {
        let ends = list.offsets().iter().skip(1).map(|end| end.unsigned_abs() as usize);
        let from = list.offsets().iter().next().map_or(0, |from| from.unsigned_abs() as usize);
        return Ok((list.values().clone(), from, ends.collect()));
    }
    let list = column.as_fixed_size_list_opt().ok_or_else(|| bug("a list column of an unknown type"))?;
    let size = usize::try_from(list.value_length()).unwrap_or(0);
    Ok((list.values().clone(), 0, (1..=list.len()).map(|n| n * size).collect()))
}

fn bug(what: &str) -> (Error, usize) {
    (Error::bug(what), 0)
}
