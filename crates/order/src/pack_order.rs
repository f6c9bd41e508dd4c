//! Random access to the bins of a packing.

use crate::{Array, IntView, Ints, Order, PackIndex, Segment};
use packhorse_core::{Error, Result};

/// The bins of a packing, each a sample, over arrays that it owns, shares or borrows.
#[derive(Clone, Copy, Debug)]
pub struct PackOrder<A> {
    bin: A,
    piece: A,
    shuffle: Option<A>,
    capacity: u64,
    dataset: u32,
}

impl<A: Ints> PackOrder<A> {
    /// Over the two arrays of a packing into bins of `capacity` tokens.
    pub fn new(bin: A, piece: A, capacity: u32) -> Self {
        Self { bin, piece, shuffle: None, capacity: u64::from(capacity), dataset: 0 }
    }

    /// Over a packing that it owns.
    pub fn of(index: PackIndex) -> Self
    where
        A: From<Array>,
    {
        Self::new(index.bin.into(), index.piece.into(), index.capacity)
    }

    /// The same order permuted by `shuffle`.
    pub fn shuffled(self, shuffle: Option<A>) -> Self {
        Self { shuffle, ..self }
    }

    /// The same order, whose segments have the dataset number `dataset`.
    pub fn numbered(self, dataset: u32) -> Self {
        Self { dataset, ..self }
    }
}

impl<'a> PackOrder<IntView<'a>> {
    /// Over a borrowed packing.
    pub fn over(index: &'a PackIndex) -> Self {
        Self::new(index.bin.view(), index.piece.view(), index.capacity)
    }
}

impl<A: Ints> Order for PackOrder<A> {
    fn len(&self) -> u64 {
        match &self.shuffle {
            Some(shuffle) => shuffle.view().len() as u64,
            None => self.bin.view().len().saturating_sub(1) as u64,
        }
    }

    /// At most `capacity` tokens; the rest of the bin is padding.
    fn sample(&self, k: u64, out: &mut Vec<Segment>) -> Result<()> {
        let (bins, pieces) = (self.bin.view(), self.piece.view());
        let bin = match &self.shuffle {
            Some(shuffle) => shuffle.view().at(k, "shuffle of the bins")?,
            None => k,
        };
        let after = bin.checked_add(1).ok_or_else(|| Error::content("the shuffle of the bins names none"))?;
        let (begin, end) = (bins.at(bin, "bins")?, bins.at(after, "bins")?);
        let mut left = self.capacity;
        for row in begin..end {
            let number = |column: u64| pieces.at(row.saturating_mul(3).saturating_add(column), "pieces");
            let (sequence, offset, length) = (number(0)?, number(1)?, number(2)?);
            left = left.checked_sub(length.max(1)).ok_or_else(|| {
                Error::content(format!("bin {bin} holds more than its {} tokens: build it again", self.capacity))
            })?;
            let (sequence, offset, length) = (sequence as u32, offset as u32, length as u32);
            out.push(Segment { dataset: self.dataset, sequence, offset, length });
        }
        Ok(())
    }
}
