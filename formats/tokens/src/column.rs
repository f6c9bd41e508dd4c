//! Lists of numbers, of whatever column they come in.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_buffer::Buffer;
use packhorse_core::{DataType, Error, Field, FieldType, Result, bytes_of};

/// The list that each sample has, packed one after the other.
pub(crate) struct Lists {
    /// Little-endian elements of all lists.
    pub(crate) bytes: Buffer,
    /// How many elements there are up to the end of each list.
    pub(crate) ends: Vec<usize>,
}

/// What the lists of the column `field` hold; `None` where it is no column of lists.
pub(crate) fn element(field: &Field) -> Option<DataType> {
    match FieldType::of(field).ok()? {
        FieldType::List { element, depth: 1 } | FieldType::Ragged { element, rank: 1 } => Some(element),
        FieldType::Tensor { element, shape } if shape.len() == 1 => Some(element),
        _ => None,
    }
}

impl Lists {
    /// The lists of a column that [`element`] knows. A list that is missing, or an element that is, is a
    /// `Content` error, together with the number of the sample.
    pub(crate) fn of(column: &ArrayRef) -> Result<Self, (Error, usize)> {
        if let Some(row) = first_null(column) {
            return Err((Error::content("is missing"), row));
        }
        let column = match column.as_struct_opt() {
            // The data of a ragged tensor of one dimension: its shapes say the same as its offsets.
            Some(parts) => parts.column_by_name("data").ok_or_else(|| bug("a ragged tensor without data"))?,
            None => column,
        };
        let (values, from, ends) = parts(column)?;
        let to = ends.last().copied().unwrap_or(from);
        let values = values.slice(from, to - from);
        let ends: Vec<usize> = ends.into_iter().map(|end| end - from).collect();
        if let Some(at) = first_null(&values) {
            return Err((Error::content("has an element that is missing"), ends.partition_point(|end| *end <= at)));
        }
        let bytes = bytes_of(&values).map_err(|e| (e, 0))?;
        Ok(Self { bytes, ends })
    }

    /// The first element of list `row`, and the one after its last.
    pub(crate) fn range(&self, row: usize) -> (usize, usize) {
        let from = row.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or(0);
        (from, self.ends.get(row).copied().unwrap_or(from))
    }

    /// The bytes of list `row`, whose elements have this many bytes.
    pub(crate) fn bytes(&self, row: usize, width: usize) -> &[u8] {
        let (from, to) = self.range(row);
        self.bytes.get(from * width..to * width).unwrap_or_default()
    }
}

fn first_null(array: &dyn Array) -> Option<usize> {
    let nulls = array.logical_nulls().filter(|nulls| nulls.null_count() > 0)?;
    nulls.iter().position(|valid| !valid)
}

/// The values beneath, the first one of the first list, and where each list ends.
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
    let list = column.as_fixed_size_list_opt().ok_or_else(|| bug("a column of lists that holds none"))?;
    let size = usize::try_from(list.value_length()).unwrap_or(0);
    Ok((list.values().clone(), 0, (1..=list.len()).map(|n| n * size).collect()))
}

fn bug(what: &str) -> (Error, usize) {
    (Error::bug(what), 0)
}
