//! Random access to the samples of a blend: which dataset, and there by its own order.

use crate::{BlendIndex, Order, Segment, View};
use packhorse_core::{Error, Result};

/// The samples of several orders in the order of a blend. An order may itself be a blend.
pub struct BlendOrder<'a> {
    dataset: View<'a>,
    sample: View<'a>,
    shuffle: Option<View<'a>>,
    orders: Orders<'a>,
}

/// The orders of the datasets.
enum Orders<'a> {
    Own(Vec<Box<dyn Order + 'a>>),
    Lent(&'a [Box<dyn Order + 'a>]),
}

impl<'a> BlendOrder<'a> {
    /// Over the two indices of a blend and the orders of its datasets.
    ///
    /// Errors: indices of different lengths.
    pub fn new(dataset: View<'a>, sample: View<'a>, orders: Vec<Box<dyn Order + 'a>>) -> Result<Self> {
        Self::made(dataset, sample, Orders::Own(orders))
    }

    /// The same over orders that somebody else keeps.
    pub fn lent(dataset: View<'a>, sample: View<'a>, orders: &'a [Box<dyn Order + 'a>]) -> Result<Self> {
        Self::made(dataset, sample, Orders::Lent(orders))
    }

    fn made(dataset: View<'a>, sample: View<'a>, orders: Orders<'a>) -> Result<Self> {
        if dataset.len() != sample.len() {
            let message = format!("a blend of {} datasets and {} samples can't be", dataset.len(), sample.len());
            return Err(Error::content(message));
        }
        Ok(Self { dataset, sample, shuffle: None, orders })
    }

    /// Over a blend just built.
    pub fn over(index: &'a BlendIndex, orders: Vec<Box<dyn Order + 'a>>) -> Result<Self> {
        Self::new(index.dataset.view(), index.sample.view(), orders)
    }

    /// The same, shuffled as `shuffle` says.
    pub fn shuffled(self, shuffle: Option<View<'a>>) -> Self {
        Self { shuffle, ..self }
    }

    /// The dataset that sample `k` comes from, and its number there.
    pub fn origin(&self, k: u64) -> Result<(u64, u64)> {
        let at = match self.shuffle {
            Some(shuffle) => shuffle.at(k, "shuffle of the blend")?,
            None => k,
        };
        Ok((self.dataset.at(at, "blend")?, self.sample.at(at, "blend")?))
    }
}

impl Order for BlendOrder<'_> {
    fn len(&self) -> u64 {
        self.shuffle.unwrap_or(self.dataset).len() as u64
    }

    fn sample(&self, k: u64, out: &mut Vec<Segment>) -> Result<()> {
        let (dataset, sample) = self.origin(k)?;
        let orders = match &self.orders {
            Orders::Own(orders) => orders,
            Orders::Lent(orders) => *orders,
        };
        let order = usize::try_from(dataset).ok().and_then(|at| orders.get(at));
        let order =
            order.ok_or_else(|| Error::content(format!("the blend names dataset {dataset} of {}", orders.len())))?;
        if sample >= order.len() {
            let message =
                format!("the blend asks dataset {dataset} for sample {sample} of {}: raise the surplus", order.len());
            return Err(Error::config(message));
        }
        order.sample(sample, out)
    }
}
