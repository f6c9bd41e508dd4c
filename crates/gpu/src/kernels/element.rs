//! Element types and shapes of tensors.

use packhorse_core::{DataType, Error, Result};

/// The type of an element, little-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "each says what it is")]
pub enum Element {
    U8,
    U16,
    U32,
    U64,
    I8,
    I16,
    I32,
    I64,
    F16,
    /// The upper half of an [`Element::F32`].
    Bf16,
    F32,
    F64,
}

impl Element {
    /// All types: element, name, width in bytes, Arrow type.
    const ALL: [(Self, &'static str, usize, Option<DataType>); 12] = [
        (Self::U8, "u8", 1, Some(DataType::UInt8)),
        (Self::U16, "u16", 2, Some(DataType::UInt16)),
        (Self::U32, "u32", 4, Some(DataType::UInt32)),
        (Self::U64, "u64", 8, Some(DataType::UInt64)),
        (Self::I8, "i8", 1, Some(DataType::Int8)),
        (Self::I16, "i16", 2, Some(DataType::Int16)),
        (Self::I32, "i32", 4, Some(DataType::Int32)),
        (Self::I64, "i64", 8, Some(DataType::Int64)),
        (Self::F16, "f16", 2, Some(DataType::Float16)),
        (Self::Bf16, "bf16", 2, None),
        (Self::F32, "f32", 4, Some(DataType::Float32)),
        (Self::F64, "f64", 8, Some(DataType::Float64)),
    ];

    /// Size in bytes.
    pub fn width(self) -> usize {
        Self::ALL.iter().find(|(element, ..)| *element == self).map_or(0, |(_, _, width, _)| *width)
    }

    /// The element type for this Arrow type; `None` for types that are not numbers.
    pub(crate) fn of(data_type: &DataType) -> Option<Self> {
        let found = Self::ALL.iter().find(|(.., known)| known.as_ref() == Some(data_type));
        found.map(|(element, ..)| *element)
    }

    /// Its Arrow type; `None` for [`Element::Bf16`], which Arrow lacks.
    pub fn data_type(self) -> Option<DataType> {
        Self::ALL.iter().find(|(element, ..)| *element == self).and_then(|(.., data_type)| data_type.clone())
    }

    /// The name used in kernel names.
    pub(crate) fn name(self) -> &'static str {
        Self::ALL.iter().find(|(element, ..)| *element == self).map_or("", |(_, name, ..)| *name)
    }
}

/// A dense tensor, rows first, without gaps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor {
    /// The type of its elements.
    pub element: Element,
    /// Elements in each dimension.
    pub shape: Vec<usize>,
}

impl Tensor {
    /// The tensor, if its size fits an address.
    pub(super) fn new(element: Element, shape: &[u64]) -> Result<Self> {
        let bytes = shape.iter().try_fold(element.width() as u64, |bytes, entries| bytes.checked_mul(*entries));
        let sizes = shape.iter().map(|entries| usize::try_from(*entries).ok()).collect::<Option<Vec<_>>>();
        match (bytes.filter(|bytes| i64::try_from(*bytes).is_ok()), sizes) {
            (Some(_), Some(shape)) => Ok(Self { element, shape }),
            _ => Err(Error::config(format!("a tensor of the shape {shape:?} is larger than memory: make it smaller"))),
        }
    }

    /// Its size in bytes.
    pub fn bytes(&self) -> usize {
        self.shape.iter().product::<usize>() * self.element.width()
    }
}
