//! References into the global heap.

use crate::bytes::Cursor;
use packhorse_core::Result;

/// A value in the global heap.
pub(crate) struct Reference {
    pub(crate) len: usize,
    pub(crate) address: u64,
    pub(crate) index: u32,
}

/// How references into the global heap are laid out.
#[derive(Clone, Copy)]
pub(crate) struct ReferenceShape {
    /// Bytes of a reference: a count, an address, and a number of 4 bytes.
    pub(crate) size: usize,
    /// Bytes of an element of a value.
    pub(crate) element: usize,
}

/// References into the global heap; `None` for empty values.
pub(crate) fn references(bytes: &[u8], shape: ReferenceShape) -> impl Iterator<Item = Result<Option<Reference>>> {
    bytes.chunks_exact(shape.size.max(1)).map(move |bytes| {
        let mut cursor = Cursor::new(bytes, "a reference to the global heap");
        let (count, address, index) = (cursor.u32()?, cursor.address(shape.size.saturating_sub(8))?, cursor.u32()?);
        let len = (count as usize).checked_mul(shape.element).ok_or_else(|| cursor.bad("is too long"))?;
        Ok((len > 0).then_some(Reference { len, address, index }))
    })
}
