//! The metadata of a batch: which samples it holds, and how much of the slab they use.

use crate::layout::Layout;
use std::ops::Range;

/// What a batch holds: which samples, and where in its slab their bytes are. Used again with its slab.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct BatchMetadata {
    pub(crate) epoch: u64,
    pub(crate) positions: Range<u64>,
    pub(crate) rows: usize,
    /// The bytes that each field of the layout has.
    pub(crate) places: Vec<Range<usize>>,
    pub(crate) numbers: Vec<u64>,
    /// The keys, one after another, and where each ends.
    pub(crate) keys: String,
    pub(crate) key_ends: Vec<usize>,
    pub(crate) longest: u32,
}

impl Clone for BatchMetadata {
    fn clone(&self) -> Self {
        let mut made = Self::NONE;
        made.clone_from(self);
        made
    }

    /// Takes no memory where there was enough before.
    fn clone_from(&mut self, from: &Self) {
        let Self { epoch, positions, rows, places, numbers, keys, key_ends, longest } = from;
        (self.epoch, self.positions, self.rows, self.longest) = (*epoch, positions.clone(), *rows, *longest);
        self.places.clone_from(places);
        self.numbers.clone_from(numbers);
        self.keys.clone_from(keys);
        self.key_ends.clone_from(key_ends);
    }
}

impl BatchMetadata {
    /// Nothing.
    pub(crate) const NONE: Self = Self {
        epoch: 0,
        positions: 0..0,
        rows: 0,
        places: Vec::new(),
        numbers: Vec::new(),
        keys: String::new(),
        key_ends: Vec::new(),
        longest: 0,
    };

    /// The epoch the samples are of.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The positions of the epoch's order that the batch stands for. A sample that was skipped has a position and no row.
    pub fn positions(&self) -> Range<u64> {
        self.positions.clone()
    }

    /// Rows that hold samples, in the order of their positions.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The numbers that the samples in the rows have in their dataset; none for batches of tokens, whose rows are put together
    /// from documents.
    pub fn numbers(&self) -> &[u64] {
        &self.numbers
    }

    /// The key of the sample in a row; empty where samples have none, `None` past the rows.
    pub fn key(&self, row: usize) -> Option<&str> {
        let start = row.checked_sub(1).map_or(Some(0), |before| self.key_ends.get(before).copied())?;
        self.keys.get(start..*self.key_ends.get(row)?)
    }

    /// Tokens of the longest segment in `cu_seqlens`, which kernels for packed sequences want to know; 0 without
    /// that field.
    pub fn longest(&self) -> u32 {
        self.longest
    }

    /// Bytes of the slab, from its first on, that are worth a copy.
    pub fn used(&self) -> usize {
        self.places.iter().map(|place| place.end).max().unwrap_or(0)
    }

    /// Where in the slab the bytes of field number `field` of the layout are, as many as the rows have.
    pub fn place(&self, field: usize) -> Option<Range<usize>> {
        self.places.get(field).cloned()
    }

    /// Says that dense fields have `rows` rows.
    pub(crate) fn set_dense(&mut self, layout: &Layout, rows: usize) {
        self.rows = rows;
        self.places.clear();
        self.places.extend(layout.fields().iter().map(|field| {
            let stride = field.strides.first().copied().unwrap_or(0);
            field.offset..field.offset + stride * rows
        }));
    }

    /// Says how many bytes of its own a field has.
    pub(crate) fn set_bytes(&mut self, field: Option<usize>, bytes: usize) {
        if let Some(place) = field.and_then(|field| self.places.get_mut(field)) {
            place.end = place.start + bytes;
        }
    }
}
