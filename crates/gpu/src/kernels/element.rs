//! What tensors are made of.

use packhorse_core::{DataType, Error, Result};

/// The type of an element on the device, little-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Element {
    /// 8 bits without a sign.
    U8,
    /// 16 bits without a sign.
    U16,
    /// 32 bits with a sign.
    I32,
    /// 64 bits with a sign.
    I64,
    /// IEEE 754 of 16 bits.
    F16,
    /// The upper half of an [`Element::F32`].
    Bf16,
    /// IEEE 754 of 32 bits.
    F32,
}

impl Element {
    /// Bytes of one.
    pub fn width(self) -> usize {
        match self {
            Element::U8 => 1,
            Element::U16 | Element::F16 | Element::Bf16 => 2,
            Element::I32 | Element::F32 => 4,
            Element::I64 => 8,
        }
    }

    /// As Arrow has it; `None` where it has no such type.
    pub fn of(data_type: &DataType) -> Option<Self> {
        Some(match data_type {
            DataType::UInt8 => Element::U8,
            DataType::UInt16 => Element::U16,
            DataType::Int32 => Element::I32,
            DataType::Int64 => Element::I64,
            DataType::Float16 => Element::F16,
            DataType::Float32 => Element::F32,
            _ => return None,
        })
    }

    /// As in names of kernels.
    pub fn name(self) -> &'static str {
        match self {
            Element::U8 => "u8",
            Element::U16 => "u16",
            Element::I32 => "i32",
            Element::I64 => "i64",
            Element::F16 => "f16",
            Element::Bf16 => "bf16",
            Element::F32 => "f32",
        }
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
    /// The tensor, if memory can hold it.
    pub(super) fn new(element: Element, shape: &[u64]) -> Result<Self> {
        let bytes = shape.iter().try_fold(element.width() as u64, |bytes, entries| bytes.checked_mul(*entries));
        let sizes = shape.iter().map(|entries| usize::try_from(*entries).ok()).collect::<Option<Vec<_>>>();
        match (bytes.filter(|bytes| i64::try_from(*bytes).is_ok()), sizes) {
            (Some(_), Some(shape)) => Ok(Self { element, shape }),
            _ => Err(Error::config(format!("a tensor of the shape {shape:?} is larger than memory: make it smaller"))),
        }
    }

    /// How many bytes it takes.
    pub fn bytes(&self) -> usize {
        self.shape.iter().product::<usize>() * self.element.width()
    }
}
