//! References into the global heap.

use crate::bytes::Cursor;
use packhorse_core::Result;

/// A value in the global heap.
pub(crate) struct Reference {
    pub(crate) len: usize,
    pub(crate) address: u64,
    pub(crate) index: u32,
}

/// The sizes that parsing references needs.
#[derive(Clone, Copy)]
pub(crate) struct ReferenceShape {
    /// Bytes per reference: a count (4), an address, and an object index (4).
    pub(crate) size: usize,
    /// Bytes per element of a value.
    pub(crate) element: usize,
}

/// Parses references; `None` for empty values.
pub(crate) fn references(bytes: &[u8], shape: ReferenceShape) -> impl Iterator<Item = Result<Option<Reference>>> {
    bytes.chunks_exact(shape.size.max(1)).map(move |bytes| {
        let mut cursor = Cursor::new(bytes, "a reference to the global heap");
        let (count, address, index) = (cursor.u32()?, cursor.address(shape.size.saturating_sub(8))?, cursor.u32()?);
        let len = (count as usize).checked_mul(shape.element).ok_or_else(|| cursor.bad("is too long"))?;
        Ok((len > 0).then_some(Reference { len, address, index }))
    })
}
