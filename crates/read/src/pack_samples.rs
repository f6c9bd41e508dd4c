//! A packing's order that owns, or shares, what it is made of.

use crate::IntArray;
use packhorse_core::Result;
use packhorse_order::{Order, PackIndex, PackOrder, Segment};

/// [`PackOrder`] over shared numbers.
#[derive(Clone, Debug)]
pub struct PackSamples {
    bin: IntArray,
    piece: IntArray,
    shuffle: Option<IntArray>,
    capacity: u32,
    dataset: u32,
}

impl PackSamples {
    /// Over the two arrays of a packing into bins of `capacity` tokens.
    pub fn new(bin: IntArray, piece: IntArray, capacity: u32) -> Self {
        Self { bin, piece, shuffle: None, capacity, dataset: 0 }
    }

    /// Over a packing just built.
    pub fn of(index: PackIndex) -> Self {
        Self::new(index.bin.into(), index.piece.into(), index.capacity)
    }

    /// The same, shuffled as `shuffle` says.
    pub fn shuffled(self, shuffle: Option<IntArray>) -> Self {
        Self { shuffle, ..self }
    }

    /// The same, with `dataset` as the number in its segments.
    pub fn numbered(self, dataset: u32) -> Self {
        Self { dataset, ..self }
    }

    fn order(&self) -> PackOrder<'_> {
        let order = PackOrder::new(self.bin.view(), self.piece.view(), self.capacity);
        order.shuffled(self.shuffle.as_ref().map(IntArray::view)).numbered(self.dataset)
    }
}

impl Order for PackSamples {
    fn len(&self) -> u64 {
        self.order().len()
    }

    fn sample(&self, k: u64, out: &mut Vec<Segment>) -> Result<()> {
        self.order().sample(k, out)
    }
}
