//! The layout of a slab: computed once, the same on both sides of a copy.

use packhorse_core::{DataType, Error, Result};
use std::collections::HashMap;

/// The alignment of fields and slabs, in bytes.
pub const ALIGN: usize = 256;

/// An array in a slab, little-endian.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlabField {
    /// `tokens`, `position_ids`, `image`, `text`, `text.offsets`, …
    pub name: String,
    /// The type of an element.
    pub data_type: DataType,
    /// The size of each dimension, rows first. For [`SlabField::ragged`] values the first is 0: it differs from batch
    /// to batch.
    pub shape: Vec<usize>,
    /// Bytes from one entry to the next in each dimension.
    pub strides: Vec<usize>,
    /// The first byte in the slab; for ragged values see [`Batch::place`](crate::Batch::place).
    pub offset: usize,
    /// Bytes in the slab; for ragged values each batch has its own.
    pub bytes: usize,
    /// Whether these are the values of rows of different lengths, one after another without gaps. Row `i` is the range
    /// `[o[i], o[i + 1])`, where `o` is the field `NAME.offsets` (`Int64 [batch + 1]`, in entries of the first
    /// dimension).
    pub ragged: bool,
    /// Whether this only describes the rows of a ragged field before it: their offsets, shapes, or the lengths of lists in them.
    pub part: bool,
}

/// All fields of a slab.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    fields: Vec<SlabField>,
    /// The numbers of the fields by name: there may be ten thousand.
    numbers: HashMap<String, usize>,
    bytes: usize,
}

impl Layout {
    /// Fields of these names, types, bytes per element and shapes, one after another.
    ///
    /// Errors (kind `Config`): a size that does not fit an address.
    pub(crate) fn new(fields: Vec<(&'static str, DataType, usize, Vec<usize>)>) -> Result<Self> {
        let mut layout = Self::default();
        for (name, data_type, width, shape) in fields {
            layout.push(name, data_type, width, shape)?;
        }
        Ok(layout)
    }

    /// Appends a dense field of elements of `width` bytes.
    ///
    /// Errors (kind `Config`): a name that another field has; a size that does not fit an address.
    pub fn push(&mut self, name: &str, data_type: DataType, width: usize, shape: Vec<usize>) -> Result<()> {
        self.refuse_twice(name)?;
        self.add(name, data_type, width, shape, false).ok_or_else(|| {
            Error::config(format!("a batch with such a field {name} is larger than memory: make it smaller"))
        })
    }

    /// Appends a field of ragged values, with entries of the shape `inner`.
    pub(crate) fn push_ragged(&mut self, name: &str, data_type: DataType, width: usize, inner: &[usize]) -> Result<()> {
        self.refuse_twice(name)?;
        let shape = [&[0], inner].concat();
        let added = self.add(name, data_type, width, shape, true);
        added.ok_or_else(|| Error::config(format!("entries of field {name} are larger than memory")))
    }

    /// Fields of ragged values have offsets and shapes beside them, under names of their own.
    fn refuse_twice(&self, name: &str) -> Result<()> {
        match self.numbers.contains_key(name) {
            true => Err(Error::config(format!("two fields of batches are called {name}"))),
            false => Ok(()),
        }
    }

    fn add(&mut self, name: &str, data_type: DataType, width: usize, shape: Vec<usize>, ragged: bool) -> Option<()> {
        let mut strides = vec![width; shape.len()];
        let mut bytes = width;
        for (stride, entries) in strides.iter_mut().zip(&shape).rev() {
            *stride = bytes;
            bytes = bytes.checked_mul(*entries)?;
        }
        let offset = self.bytes.checked_next_multiple_of(ALIGN)?;
        if !ragged {
            self.bytes = offset.checked_add(bytes).filter(|end| isize::try_from(*end).is_ok())?;
        }
        let offset = if ragged { 0 } else { offset };
        self.numbers.insert(name.to_owned(), self.fields.len());
        let name = name.to_owned();
        self.fields.push(SlabField { name, data_type, shape, strides, offset, bytes, ragged, part: false });
        Some(())
    }

    /// Marks the fields from `at` on as parts of one before them.
    pub(crate) fn mark_parts(&mut self, at: usize) {
        self.fields.iter_mut().skip(at).for_each(|field| field.part = true);
    }

    /// The same fields for slabs of `rows` rows, where this layout is for slabs of `batch` rows.
    ///
    /// Errors (kind `Config`): as for `push`.
    pub(crate) fn with_rows(&self, batch: usize, rows: usize) -> Result<Self> {
        let mut made = Self::default();
        for field in &self.fields {
            let (first, inner) = field.shape.split_first().map_or((0, &[][..]), |(first, inner)| (*first, inner));
            let width = field.strides.last().copied().unwrap_or(0);
            let at = made.fields.len();
            match field.ragged {
                true => made.push_ragged(&field.name, field.data_type.clone(), width, inner)?,
                // Offsets have one entry more than there are rows.
                false => {
                    let shape = [&[rows.saturating_add(first.saturating_sub(batch))], inner].concat();
                    made.push(&field.name, field.data_type.clone(), width, shape)?;
                }
            }
            if field.part {
                made.mark_parts(at);
            }
        }
        Ok(made)
    }

    /// The fields: dense ones in the order of their offsets.
    pub fn fields(&self) -> &[SlabField] {
        &self.fields
    }

    /// The field of this name.
    pub fn field(&self, name: &str) -> Option<&SlabField> {
        self.position(name).and_then(|at| self.fields.get(at))
    }

    /// The number of the field of this name.
    pub fn position(&self, name: &str) -> Option<usize> {
        self.numbers.get(name).copied()
    }

    /// Bytes of the dense fields of a slab, which come first; ragged values follow them.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_aligned_and_dense() {
        let fields = vec![("a", DataType::UInt16, 2, vec![3, 5]), ("b", DataType::Int32, 4, vec![3, 4])];
        let mut layout = Layout::new(fields).unwrap();
        let b = layout.field("b").unwrap();
        assert_eq!((b.offset, b.bytes, &b.strides[..], layout.bytes()), (256, 48, &[16, 4][..], 304));
        layout.push_ragged("c", DataType::Float32, 4, &[2]).unwrap();
        assert_eq!((&layout.field("c").unwrap().strides[..], layout.bytes()), (&[8, 4][..], 304));
        assert!(Layout::new(vec![("a", DataType::Int64, 8, vec![usize::MAX / 4, 3])]).is_err());
    }

    #[test]
    fn rows_are_added_and_taken_away() {
        let of = |rows: usize| {
            let mut layout = Layout::new(vec![("a", DataType::UInt16, 2, vec![rows, 5])]).unwrap();
            layout.push_ragged("b", DataType::Float32, 4, &[2]).unwrap();
            layout.push("b.offsets", DataType::Int64, 8, vec![rows + 1]).unwrap();
            layout
        };
        for rows in [0, 1, 3, 1000] {
            assert_eq!(of(3).with_rows(3, rows).unwrap(), of(rows));
        }
        assert!(of(3).with_rows(3, usize::MAX / 4).is_err());
    }
}
