//! How a field's value becomes the bytes of a member.

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{
    Array, BinaryArray, BinaryViewArray, LargeBinaryArray, PrimitiveArray, StringArray, StringViewArray,
};
use packhorse_core::{DataType, Error, Field, Result};
use std::io::Write;

/// The fields that WebDataset's decoders take for decimal digits.
const DECIMALS: [&str; 6] = ["cls", "cls2", "count", "id", "index", "inx"];

/// The fields that they take for text.
const TEXTS: [&str; 5] = ["json", "jsn", "text", "transcript", "txt"];

/// Whether readers see by the name of a field what it is.
fn has_extension(name: &str, known: &[&str]) -> bool {
    known.contains(&name.rsplit('.').next().unwrap_or_default())
}

/// A column, downcast once a block. Blobs and text are their own bytes; 64-bit integers are decimal
/// digits, which is what WebDataset's decoders expect of `.cls`.
pub(crate) enum Column<'a> {
    BinaryView(&'a BinaryViewArray),
    Binary(&'a BinaryArray),
    LargeBinary(&'a LargeBinaryArray),
    Utf8View(&'a StringViewArray),
    Utf8(&'a StringArray),
    Int64(&'a PrimitiveArray<Int64Type>),
}

impl<'a> Column<'a> {
    /// Whether a field of this type can be a member.
    pub(crate) fn check(field: &Field) -> Result<()> {
        use DataType::{Binary, BinaryView, Int64, LargeBinary, Utf8, Utf8View};
        match field.data_type() {
            BinaryView | Binary | LargeBinary => Ok(()),
            Utf8View | Utf8 if has_extension(field.name(), &TEXTS) => Ok(()),
            Int64 if has_extension(field.name(), &DECIMALS) => Ok(()),
            other => Err(Error::unsupported(format!("field {} of type {other} can't be a tar member", field.name()))),
        }
    }

    pub(crate) fn new(array: &'a dyn Array) -> Result<Self> {
        Ok(match array.data_type() {
            DataType::BinaryView => Column::BinaryView(array.as_binary_view()),
            DataType::Binary => Column::Binary(array.as_binary()),
            DataType::LargeBinary => Column::LargeBinary(array.as_binary()),
            DataType::Utf8View => Column::Utf8View(array.as_string_view()),
            DataType::Utf8 => Column::Utf8(array.as_string()),
            DataType::Int64 => Column::Int64(array.as_primitive()),
            other => return Err(Error::bug(format!("a column of type {other} got past the check of the schema"))),
        })
    }

    /// The bytes of row `row`, `None` where it is null; numbers are written into `digits`.
    pub(crate) fn bytes<'b>(&'b self, row: usize, digits: &'b mut [u8; 24]) -> Option<&'b [u8]> {
        match self {
            Column::BinaryView(a) => a.is_valid(row).then(|| a.value(row)),
            Column::Binary(a) => a.is_valid(row).then(|| a.value(row)),
            Column::LargeBinary(a) => a.is_valid(row).then(|| a.value(row)),
            Column::Utf8View(a) => a.is_valid(row).then(|| a.value(row).as_bytes()),
            Column::Utf8(a) => a.is_valid(row).then(|| a.value(row).as_bytes()),
            Column::Int64(a) => a.is_valid(row).then(|| decimal(a.value(row), digits)),
        }
    }
}

fn decimal(value: impl std::fmt::Display, digits: &mut [u8; 24]) -> &[u8] {
    let mut rest = &mut digits[..];
    // 24 bytes hold the sign and the digits of any 64-bit number.
    let _ = write!(rest, "{value}");
    let used = 24 - rest.len();
    digits.get(..used).unwrap_or_default()
}
