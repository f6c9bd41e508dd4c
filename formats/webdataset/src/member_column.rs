//! Converts the values of a field to the bytes of members.

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{
    Array, BinaryArray, BinaryViewArray, LargeBinaryArray, PrimitiveArray, StringArray, StringViewArray,
};
use packhorse_core::{DataType, Error, Field, FieldType, Result};
use std::io::Write;

/// The fields that WebDataset's decoders read as decimal digits.
const DECIMALS: [&str; 6] = ["cls", "cls2", "count", "id", "index", "inx"];

/// The fields that they read as text.
const TEXTS: [&str; 5] = ["json", "jsn", "text", "transcript", "txt"];

/// Whether the last extension of a field's name is one of `known`.
fn has_extension(name: &str, known: &[&str]) -> bool {
    known.contains(&name.rsplit('.').next().unwrap_or_default())
}

/// A column, downcast once per block. Blobs and text are written unchanged; 64-bit integers become decimal digits, as
/// WebDataset's decoders expect for `.cls`.
pub(crate) enum MemberColumn<'a> {
    BinaryView(&'a BinaryViewArray),
    Binary(&'a BinaryArray),
    LargeBinary(&'a LargeBinaryArray),
    Utf8View(&'a StringViewArray),
    Utf8(&'a StringArray),
    Int64(&'a PrimitiveArray<Int64Type>),
}

impl<'a> MemberColumn<'a> {
    /// Refuses a field whose type can't be a member.
    pub(crate) fn check(field: &Field) -> Result<()> {
        use DataType::{Binary, BinaryView, Int64, LargeBinary, Utf8, Utf8View};
        match field.data_type() {
            BinaryView | Binary | LargeBinary => Ok(()),
            Utf8View | Utf8 if has_extension(field.name(), &TEXTS) => Ok(()),
            Int64 if has_extension(field.name(), &DECIMALS) => Ok(()),
            other => {
                let (name, kind) =
                    (field.name(), FieldType::of(field).map_or_else(|_| other.to_string(), |kind| kind.to_string()));
                let error = Error::unsupported(format!("field {name} of type {kind} can't be a tar member"));
                let error = match FieldType::of(field) {
                    Ok(FieldType::List { element: BinaryView, depth: 1 }) if name.contains('.') => {
                        error.hint(format!("pack to a format of columns, or make a member of each value of files with `spread={name}=N`"))
                    }
                    Ok(FieldType::List { element: BinaryView, depth: 1 }) => error.hint(format!(
                        "pack to a format of columns, or make a member of each value of files with `spread={name}=N`, and name it as a file \
                         with `field={name}={name}.jpg`"
                    )),
                    _ => error,
                };
                Err(error.hint(format!("leave it out with `drop={name}`, or pack to another format")))
            }
        }
    }

    pub(crate) fn new(array: &'a dyn Array) -> Result<Self> {
        Ok(match array.data_type() {
            DataType::BinaryView => MemberColumn::BinaryView(array.as_binary_view()),
            DataType::Binary => MemberColumn::Binary(array.as_binary()),
            DataType::LargeBinary => MemberColumn::LargeBinary(array.as_binary()),
            DataType::Utf8View => MemberColumn::Utf8View(array.as_string_view()),
            DataType::Utf8 => MemberColumn::Utf8(array.as_string()),
            DataType::Int64 => MemberColumn::Int64(array.as_primitive()),
            other => return Err(Error::bug(format!("a column of type {other} was not refused with the schema"))),
        })
    }

    /// The bytes of row `row`, `None` where it is null; numbers are written into `digits`.
    pub(crate) fn bytes<'b>(&'b self, row: usize, digits: &'b mut [u8; 24]) -> Option<&'b [u8]> {
        match self {
            MemberColumn::BinaryView(a) => a.is_valid(row).then(|| a.value(row)),
            MemberColumn::Binary(a) => a.is_valid(row).then(|| a.value(row)),
            MemberColumn::LargeBinary(a) => a.is_valid(row).then(|| a.value(row)),
            MemberColumn::Utf8View(a) => a.is_valid(row).then(|| a.value(row).as_bytes()),
            MemberColumn::Utf8(a) => a.is_valid(row).then(|| a.value(row).as_bytes()),
            MemberColumn::Int64(a) => a.is_valid(row).then(|| decimal(a.value(row), digits)),
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
