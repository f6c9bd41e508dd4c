//! The one shape in which data moves between rooms: an Arrow record batch, with conventions.
//!
//! The column [`KEY`] is `Utf8View`. Blobs are `BinaryView`, whose views point into the buffers that
//! they were read into. Text is `Utf8View`; numbers and labels are primitive columns. A field that a
//! sample lacks is null. Every other column is a field; columns other than the key stand in the
//! order of their names.

use crate::{DataType, Error, Result};
use arrow_array::cast::AsArray;
use arrow_array::{Array, StringViewArray};

/// A block of consecutive samples by column.
pub type Rows = arrow_array::RecordBatch;

/// The name of the key's column.
pub const KEY: &str = "__key__";

impl Error {
    /// Names the sample in this row, if the rows have keys, unless a deeper place already did.
    pub fn in_row_of(self, rows: &Rows, row: usize) -> Self {
        Sample::new(rows, row).and_then(|sample| sample.key().ok()).into_iter().fold(self, Self::in_sample)
    }
}

/// The keys of `rows`, a `Bug` error if they are missing or of another type.
pub fn key_column(rows: &Rows) -> Result<&StringViewArray> {
    rows.column_by_name(KEY)
        .and_then(|column| column.as_string_view_opt())
        .ok_or_else(|| Error::bug(format!("rows without a {KEY} column of type Utf8View")))
}

/// Whether a column of this type holds bytes as they are.
pub fn is_blob(data_type: &DataType) -> bool {
    matches!(data_type, DataType::BinaryView | DataType::Binary | DataType::LargeBinary)
}

/// One row of [`Rows`].
#[derive(Clone, Copy)]
pub struct Sample<'a> {
    rows: &'a Rows,
    row: usize,
}

impl<'a> Sample<'a> {
    /// Row `row` of `rows`, or `None` past the end.
    pub fn new(rows: &'a Rows, row: usize) -> Option<Self> {
        (row < rows.num_rows()).then_some(Self { rows, row })
    }

    /// The sample's key.
    pub fn key(&self) -> Result<&'a str> {
        Ok(key_column(self.rows)?.value(self.row))
    }

    /// The bytes of the blob or text field `name`; `None` if the sample lacks it or it has another type.
    pub fn bytes(&self, name: &str) -> Option<&'a [u8]> {
        value_bytes(self.rows.column_by_name(name)?, self.row)
    }

    /// The same of the column at position `at`.
    pub fn bytes_at(&self, at: usize) -> Option<&'a [u8]> {
        value_bytes(self.rows.columns().get(at)?, self.row)
    }
}

/// The bytes of a value of a column of blobs or text; `None` where it is null, or of another type.
pub fn value_bytes(column: &dyn Array, row: usize) -> Option<&[u8]> {
    if column.is_null(row) {
        return None;
    }
    match column.data_type() {
        DataType::BinaryView => Some(column.as_binary_view().value(row)),
        DataType::Binary => Some(column.as_binary::<i32>().value(row)),
        DataType::LargeBinary => Some(column.as_binary::<i64>().value(row)),
        DataType::Utf8View => Some(column.as_string_view().value(row).as_bytes()),
        DataType::Utf8 => Some(column.as_string::<i32>().value(row).as_bytes()),
        DataType::LargeUtf8 => Some(column.as_string::<i64>().value(row).as_bytes()),
        _ => None,
    }
}
