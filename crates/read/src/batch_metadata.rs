//! The metadata of a batch: its samples, and the part of the slab that they use.

use crate::gather::Gather;
use crate::layout::Layout;
use std::ops::Range;

/// The samples of a batch, and the ranges of their bytes in its slab. Reused with the slab.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct BatchMetadata {
    pub(crate) epoch: u64,
    pub(crate) positions: Range<u64>,
    pub(crate) rows: usize,
    /// The range of each field of the layout.
    pub(crate) places: Vec<Range<usize>>,
    pub(crate) numbers: Vec<u64>,
    /// The keys, one after another, and the end of each.
    pub(crate) keys: String,
    pub(crate) key_ends: Vec<usize>,
    pub(crate) longest: u32,
    /// Where a device that holds the samples finds the fields; `None` if the slab has them.
    pub(crate) gather: Option<Gather>,
}

impl Clone for BatchMetadata {
    fn clone(&self) -> Self {
        let mut made = Self::NONE;
        made.clone_from(self);
        made
    }

    /// Reuses memory.
    fn clone_from(&mut self, from: &Self) {
        let Self { epoch, positions, rows, places, numbers, keys, key_ends, longest, gather } = from;
        (self.epoch, self.positions, self.rows) = (*epoch, positions.clone(), *rows);
        (self.longest, self.gather) = (*longest, *gather);
        self.places.clone_from(places);
        self.numbers.clone_from(numbers);
        self.keys.clone_from(keys);
        self.key_ends.clone_from(key_ends);
    }
}

impl BatchMetadata {
    /// Empty metadata.
    pub(crate) const NONE: Self = Self {
        epoch: 0,
        positions: 0..0,
        rows: 0,
        places: Vec::new(),
        numbers: Vec::new(),
        keys: String::new(),
        key_ends: Vec::new(),
        longest: 0,
        gather: None,
    };

    /// The epoch of the samples.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The positions of the epoch's order that the batch covers. A skipped sample has a position but no row.
    pub fn positions(&self) -> Range<u64> {
        self.positions.clone()
    }

    /// Rows that hold samples, in the order of their positions.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The numbers of the samples in their dataset, one per row; empty for batches of tokens, whose rows are assembled
    /// from documents.
    pub fn numbers(&self) -> &[u64] {
        &self.numbers
    }

    /// The key of the sample in a row; empty if samples have no keys, `None` past the rows.
    pub fn key(&self, row: usize) -> Option<&str> {
        let start = row.checked_sub(1).map_or(Some(0), |before| self.key_ends.get(before).copied())?;
        self.keys.get(start..*self.key_ends.get(row)?)
    }

    /// The length of the longest segment in `cu_seqlens`, in tokens, for variable-length attention kernels; 0 without
    /// that field.
    pub fn longest(&self) -> u32 {
        self.longest
    }

    /// Where a device that [holds](crate::HeldSamples) the samples finds the fields; `None` if the slab has them, as in all other
    /// batches.
    pub fn gather(&self) -> Option<&Gather> {
        self.gather.as_ref()
    }

    /// The bytes in use, from the start of the slab: those that a copy needs.
    pub fn used(&self) -> usize {
        self.places.iter().map(|place| place.end).max().unwrap_or(0)
    }

    /// The range in the slab of field number `field` of the layout, for the rows that hold samples.
    pub fn place(&self, field: usize) -> Option<Range<usize>> {
        self.places.get(field).cloned()
    }

    /// Sets the ranges of dense fields for `rows` rows.
    pub(crate) fn set_dense(&mut self, layout: &Layout, rows: usize) {
        self.rows = rows;
        self.places.clear();
        self.places.extend(layout.fields().iter().map(|field| {
            let stride = field.strides.first().copied().unwrap_or(0);
            field.offset..field.offset + stride * rows
        }));
    }

    /// Sets the size of a field.
    pub(crate) fn set_bytes(&mut self, field: Option<usize>, bytes: usize) {
        if let Some(place) = field.and_then(|field| self.places.get_mut(field)) {
            place.end = place.start + bytes;
        }
    }
}
