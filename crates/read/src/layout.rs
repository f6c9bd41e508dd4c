//! Where in a slab each field is: computed once, the same on either side of a copy.

use packhorse_core::{DataType, Error, Result};

/// Fields begin at multiples of this, and slabs have addresses that are.
pub const ALIGN: usize = 256;

/// A dense array in a slab, rows first, little-endian.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlabField {
    /// `tokens`, `position_ids`, …
    pub name: &'static str,
    /// Of an element.
    pub data_type: DataType,
    /// Elements in each dimension. `cu_seqlens` has room for so many; a batch says how many it has.
    pub shape: Vec<usize>,
    /// Bytes from one entry to the next in each dimension.
    pub strides: Vec<usize>,
    /// First byte in the slab.
    pub offset: usize,
    /// Bytes in the slab.
    pub bytes: usize,
}

/// All fields of a slab.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    fields: Vec<SlabField>,
    bytes: usize,
}

impl Layout {
    /// Fields of these names, types, bytes an element and shapes, one after another.
    ///
    /// Errors: more bytes than an address has bits for (kind `Config`).
    pub(crate) fn new(fields: Vec<(&'static str, DataType, usize, Vec<usize>)>) -> Result<Self> {
        let mut layout = Self { fields: Vec::with_capacity(fields.len()), bytes: 0 };
        for (name, data_type, width, shape) in fields {
            layout.push(name, data_type, width, shape).ok_or_else(|| {
                Error::config(format!("a batch with such a field {name} is larger than memory: make it smaller"))
            })?;
        }
        Ok(layout)
    }

    fn push(&mut self, name: &'static str, data_type: DataType, width: usize, shape: Vec<usize>) -> Option<()> {
        let mut strides = vec![width; shape.len()];
        let mut bytes = width;
        for (stride, entries) in strides.iter_mut().zip(&shape).rev() {
            *stride = bytes;
            bytes = bytes.checked_mul(*entries)?;
        }
        let offset = self.bytes.checked_next_multiple_of(ALIGN)?;
        self.bytes = offset.checked_add(bytes).filter(|end| isize::try_from(*end).is_ok())?;
        self.fields.push(SlabField { name, data_type, shape, strides, offset, bytes });
        Some(())
    }

    /// The fields, in the order of their offsets.
    pub fn fields(&self) -> &[SlabField] {
        &self.fields
    }

    /// The field of this name.
    pub fn field(&self, name: &str) -> Option<&SlabField> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// Bytes of a slab.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_aligned_and_dense() {
        let fields = vec![("a", DataType::UInt16, 2, vec![3, 5]), ("b", DataType::Int32, 4, vec![3, 4])];
        let layout = Layout::new(fields).unwrap();
        let b = layout.field("b").unwrap();
        assert_eq!((b.offset, b.bytes, &b.strides[..], layout.bytes()), (256, 48, &[16, 4][..], 304));
        assert!(Layout::new(vec![("a", DataType::Int64, 8, vec![usize::MAX / 4, 3])]).is_err());
    }
}
