//! A blend's order that owns, or shares, what it is made of.

use crate::IntArray;
use packhorse_core::Result;
use packhorse_order::{BlendIndex, BlendOrder, Order, Segment};

/// [`BlendOrder`] over shared numbers and orders of its own.
pub struct BlendSamples {
    dataset: IntArray,
    sample: IntArray,
    shuffle: Option<IntArray>,
    orders: Vec<Box<dyn Order>>,
    len: u64,
}

impl BlendSamples {
    /// Over the two indices of a blend, its shuffle if it has one, and the orders of its datasets.
    ///
    /// Errors: those of [`BlendOrder::new`].
    pub fn new(
        dataset: IntArray,
        sample: IntArray,
        shuffle: Option<IntArray>,
        orders: Vec<Box<dyn Order>>,
    ) -> Result<Self> {
        let mut made = Self { dataset, sample, shuffle, orders, len: 0 };
        let len = made.order()?.len();
        made.len = len;
        Ok(made)
    }

    /// Over a blend just built.
    pub fn of(index: BlendIndex, orders: Vec<Box<dyn Order>>) -> Result<Self> {
        Self::new(index.dataset.into(), index.sample.into(), None, orders)
    }

    fn order(&self) -> Result<BlendOrder<'_>> {
        let order = BlendOrder::lent(self.dataset.view(), self.sample.view(), &self.orders)?;
        Ok(order.shuffled(self.shuffle.as_ref().map(IntArray::view)))
    }
}

impl Order for BlendSamples {
    fn len(&self) -> u64 {
        self.len
    }

    fn sample(&self, k: u64, out: &mut Vec<Segment>) -> Result<()> {
        self.order()?.sample(k, out)
    }
}
