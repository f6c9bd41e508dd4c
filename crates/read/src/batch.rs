//! A batch: one slab, and what is known of it.

use crate::fill::Filled;
use crate::layout::{Layout, SlabField};
use crate::ring::Ring;
use std::ops::Range;
use std::sync::Arc;

/// A batch in one slab of memory, which goes back to its loader when this is dropped.
pub struct Batch<H> {
    slab: Option<H>,
    filled: Filled,
    layout: Arc<Layout>,
    home: Arc<Ring<H>>,
}

impl<H> Batch<H> {
    pub(crate) fn new(slab: H, filled: Filled, layout: Arc<Layout>, home: Arc<Ring<H>>) -> Self {
        Self { slab: Some(slab), filled, layout, home }
    }

    /// Where the fields are, the same for all batches of a loader.
    pub fn layout(&self) -> &Arc<Layout> {
        &self.layout
    }

    /// The samples of the order that are in the rows, in order. A row beyond them is padding.
    pub fn samples(&self) -> Range<u64> {
        self.filled.samples.clone()
    }

    /// Rows that hold samples: as many as the layout has rows, but for last batches.
    pub fn rows(&self) -> usize {
        (self.filled.samples.end - self.filled.samples.start) as usize
    }

    /// Tokens of the longest segment in `cu_seqlens`, which kernels for packed sequences want to know; 0 without
    /// that field.
    pub fn longest(&self) -> u32 {
        self.filled.longest
    }

    /// Bytes of the slab that are worth a copy: all, but for what `cu_seqlens` has no use for.
    pub fn used(&self) -> usize {
        let field = self.layout.field("cu_seqlens");
        field.map_or(self.layout.bytes(), |field| field.offset + 4 * self.filled.boundaries)
    }
}

impl<H: AsRef<[u8]>> Batch<H> {
    /// The whole slab.
    pub fn slab(&self) -> &[u8] {
        self.slab.as_ref().map(AsRef::as_ref).unwrap_or_default()
    }

    /// The bytes of a field in the rows that hold samples: little-endian, dense. Of `cu_seqlens` the entries
    /// there are. `None` if there is no such field.
    pub fn field(&self, name: &str) -> Option<&[u8]> {
        let field = self.layout.field(name)?;
        self.slab().get(field.offset..)?.get(..self.len(field))
    }

    fn len(&self, field: &SlabField) -> usize {
        match field.name {
            "cu_seqlens" => 4 * self.filled.boundaries,
            _ => field.strides.first().map_or(0, |stride| stride * self.rows()),
        }
    }

    /// The numbers of a field, for a look at them; empty if there is none of that name.
    pub fn numbers(&self, name: &str) -> impl Iterator<Item = i64> + '_ {
        let width = self.layout.field(name).and_then(|field| field.strides.last().copied()).unwrap_or(1);
        self.field(name).unwrap_or_default().chunks_exact(width).map(move |bytes| {
            let mut wide = [0; 8];
            wide.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
            // The sign of what has four bytes; narrower fields have none.
            if width == 4 { i64::from(i64::from_le_bytes(wide) as i32) } else { i64::from_le_bytes(wide) }
        })
    }
}

impl<H> Drop for Batch<H> {
    fn drop(&mut self) {
        if let Some(slab) = self.slab.take() {
            self.home.give_back(slab);
        }
    }
}

impl<H> std::fmt::Debug for Batch<H> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Batch").field("filled", &self.filled).finish_non_exhaustive()
    }
}
