//! The types of elements, in the words of Python's buffers, NumPy and DLPack.

use arrow_schema::DataType;
use packhorse::core::named_number;
use packhorse::gpu::DlDataType;
use std::ffi::CStr;

/// A type of elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ArrayElement {
    /// NumPy's name.
    pub(crate) name: &'static str,
    /// The format of a buffer, as the module `struct` writes it.
    pub(crate) format: &'static CStr,
    /// Bytes.
    pub(crate) width: usize,
    /// DLPack's code.
    code: u8,
}

const fn element(name: &'static str, format: &'static CStr, width: usize, code: u8) -> ArrayElement {
    ArrayElement { name, format, width, code }
}

pub(crate) const BYTE: ArrayElement = element("uint8", c"B", 1, 1);
pub(crate) const INT32: ArrayElement = element("int32", c"i", 4, 0);
pub(crate) const INT64: ArrayElement = element("int64", c"q", 8, 0);
pub(crate) const UINT64: ArrayElement = element("uint64", c"Q", 8, 1);

impl ArrayElement {
    /// The element of an Arrow type; `None` where Python's buffers have none.
    pub(crate) fn of(data_type: &DataType) -> Option<Self> {
        Some(match data_type {
            DataType::Boolean => element("bool", c"?", 1, 6),
            DataType::Int8 => element("int8", c"b", 1, 0),
            DataType::Int16 => element("int16", c"h", 2, 0),
            DataType::Int32 => INT32,
            DataType::Int64 => INT64,
            DataType::UInt8 => BYTE,
            DataType::UInt16 => element("uint16", c"H", 2, 1),
            DataType::UInt32 => element("uint32", c"I", 4, 1),
            DataType::UInt64 => UINT64,
            DataType::Float16 => element("float16", c"e", 2, 2),
            DataType::Float32 => element("float32", c"f", 4, 2),
            DataType::Float64 => element("float64", c"d", 8, 2),
            _ => return None,
        })
    }

    /// The element of NumPy's name for it.
    pub(crate) fn named(name: &str) -> Option<Self> {
        if name == "bool" { Self::of(&DataType::Boolean) } else { Self::of(&named_number(name)?) }
    }

    /// As array interfaces write it: `<f4`.
    pub(crate) fn typestr(self) -> String {
        let order = if self.width == 1 { '|' } else { '<' };
        let kind = self.name.chars().next().unwrap_or('V');
        format!("{order}{kind}{}", self.width)
    }

    pub(crate) fn dlpack(self) -> DlDataType {
        DlDataType { code: self.code, bits: 8 * self.width as u8, lanes: 1 }
    }
}
