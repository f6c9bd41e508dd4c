//! A batch: one slab and its metadata.

use crate::batch_metadata::BatchMetadata;
use crate::layout::{ALIGN, Layout};
use crate::ring::Slab;
use packhorse_core::Error;
use std::ops::Range;
use std::sync::Arc;

/// Takes back the memory of dropped batches.
pub(crate) trait Home<H>: Send + Sync {
    fn give_back(&self, slab: Slab<H>);
}

/// A batch in one slab of memory, which is returned to its loader on drop.
pub struct Batch<H> {
    slab: Option<Slab<H>>,
    layout: Arc<Layout>,
    home: Arc<dyn Home<H>>,
}

impl<H> Batch<H> {
    pub(crate) fn new(slab: Slab<H>, layout: Arc<Layout>, home: Arc<dyn Home<H>>) -> Self {
        Self { slab: Some(slab), layout, home }
    }

    /// Its metadata.
    pub fn metadata(&self) -> &BatchMetadata {
        const NONE: &BatchMetadata = &BatchMetadata::NONE;
        self.slab.as_ref().map_or(NONE, |slab| &slab.filled)
    }

    /// The layout of the fields, the same for all batches of a loader.
    pub fn layout(&self) -> &Arc<Layout> {
        &self.layout
    }

    /// Its epoch.
    pub fn epoch(&self) -> u64 {
        self.metadata().epoch()
    }

    /// The positions of the epoch's order that it covers. A skipped sample has a position but no row. With
    /// `Shuffle::Nodes` the ranks of a step exchange its positions.
    pub fn positions(&self) -> Range<u64> {
        self.metadata().positions()
    }

    /// Rows that hold samples, in the order of their positions. Rows of dense fields beyond them are zeros or padding.
    pub fn rows(&self) -> usize {
        self.metadata().rows()
    }

    /// The numbers of the samples in their dataset, one per row; empty for batches of tokens.
    pub fn numbers(&self) -> &[u64] {
        self.metadata().numbers()
    }

    /// The key of the sample in a row; empty if samples have no keys, `None` past the rows.
    pub fn key(&self, row: usize) -> Option<&str> {
        self.metadata().key(row)
    }

    /// The length of the longest segment in `cu_seqlens`, in tokens; 0 without that field.
    pub fn longest(&self) -> u32 {
        self.metadata().longest()
    }

    /// The bytes in use, from the start of the slab: those that a copy needs.
    pub fn used(&self) -> usize {
        self.metadata().used()
    }

    /// The range in the slab of a field's bytes, for the rows that hold samples. `None` if there is no such field.
    pub fn place(&self, name: &str) -> Option<Range<usize>> {
        self.metadata().place(self.layout.position(name)?)
    }
}

impl<H: AsRef<[u8]>> Batch<H> {
    /// The whole slab, which may be larger than the part in [use](Batch::used).
    pub fn slab(&self) -> &[u8] {
        self.slab.as_ref().map(|slab| slab.host.as_ref()).unwrap_or_default()
    }

    /// The bytes of a field in the rows that hold samples: little-endian, without gaps. `cu_seqlens` and ragged values
    /// have their actual length. `None` if there is no such field.
    pub fn field(&self, name: &str) -> Option<&[u8]> {
        self.slab().get(self.place(name)?)
    }

    /// The bytes of a field in one row, dense or ragged.
    pub fn row(&self, name: &str, row: usize) -> Option<&[u8]> {
        let field = self.layout.field(name)?;
        let stride = field.strides.first().copied().unwrap_or(0);
        let bytes = self.field(name)?;
        if !field.ragged {
            return bytes.get(row.checked_mul(stride)?..(row + 1).checked_mul(stride)?);
        }
        let at = self.layout.position(name)?.checked_add(1)?;
        let offsets = self.slab().get(self.metadata().place(at)?)?;
        let offset = |i: usize| Some(u64::from_le_bytes(*offsets.as_chunks().0.get(i)?) as usize);
        (row < self.rows()).then(|| bytes.get(offset(row)? * stride..offset(row + 1)? * stride)).flatten()
    }

    /// The values of an integer field, for inspection; empty if there is no such field, and of floating-point numbers.
    pub fn integers(&self, name: &str) -> impl Iterator<Item = i64> + '_ {
        let field = self.layout.field(name).filter(|field| !field.data_type.is_floating());
        let width = field.and_then(|field| field.strides.last().copied()).unwrap_or(1).clamp(1, 8);
        let signed = field.is_some_and(|field| field.data_type.is_signed_integer());
        field.and_then(|_| self.field(name)).unwrap_or_default().chunks_exact(width).map(move |bytes| {
            let negative = signed && bytes.last().is_some_and(|top| top >> 7 != 0);
            let mut wide = [if negative { 0xff } else { 0 }; 8];
            wide.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
            i64::from_le_bytes(wide)
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
        f.debug_struct("Batch").field("metadata", self.metadata()).finish_non_exhaustive()
    }
}

/// The next aligned offset for a field in a slab.
pub(crate) fn aligned(at: usize) -> Result<usize, Error> {
    at.checked_next_multiple_of(ALIGN).ok_or_else(|| Error::bug("a slab beyond all addresses"))
}
