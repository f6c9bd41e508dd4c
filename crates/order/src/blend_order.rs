//! Random access to the samples of a blend: the dataset of a sample, and the sample in that dataset's own order.

use crate::{Array, BlendIndex, IntView, Ints, Order, Segment};
use packhorse_core::{Error, Result};

/// The samples of several orders in the order of a blend, over arrays that it owns, shares or borrows. An order may itself be a
/// blend.
pub struct BlendOrder<'o, A> {
    dataset: A,
    sample: A,
    shuffle: Option<A>,
    orders: Vec<Box<dyn Order + 'o>>,
}

impl<'o, A: Ints> BlendOrder<'o, A> {
    /// Over the two indices of a blend and the orders of its datasets.
    ///
    /// Errors: indices of different lengths.
    pub fn new(dataset: A, sample: A, orders: Vec<Box<dyn Order + 'o>>) -> Result<Self> {
        let (datasets, samples) = (dataset.view().len(), sample.view().len());
        if datasets != samples {
            return Err(Error::content(format!("a blend can't have {datasets} datasets and {samples} samples")));
        }
        Ok(Self { dataset, sample, shuffle: None, orders })
    }

    /// Over a blend that it owns.
    pub fn of(index: BlendIndex, orders: Vec<Box<dyn Order + 'o>>) -> Result<Self>
    where
        A: From<Array>,
    {
        Self::new(index.dataset.into(), index.sample.into(), orders)
    }

    /// The same order permuted by `shuffle`.
    pub fn shuffled(self, shuffle: Option<A>) -> Self {
        Self { shuffle, ..self }
    }

    /// The dataset that sample `k` comes from, and its number there.
    fn origin(&self, k: u64) -> Result<(u64, u64)> {
        let at = match &self.shuffle {
            Some(shuffle) => shuffle.view().at(k, "shuffle of the blend")?,
            None => k,
        };
        Ok((self.dataset.view().at(at, "blend")?, self.sample.view().at(at, "blend")?))
    }
}

impl<'a> BlendOrder<'a, IntView<'a>> {
    /// Over a borrowed blend.
    pub fn over(index: &'a BlendIndex, orders: Vec<Box<dyn Order + 'a>>) -> Result<Self> {
        Self::new(index.dataset.view(), index.sample.view(), orders)
    }
}

impl<A: Ints> Order for BlendOrder<'_, A> {
    fn len(&self) -> u64 {
        self.shuffle.as_ref().unwrap_or(&self.dataset).view().len() as u64
    }

    fn sample(&self, k: u64, out: &mut Vec<Segment>) -> Result<()> {
        let (dataset, sample) = self.origin(k)?;
        let order = usize::try_from(dataset)
            .ok()
            .and_then(|at| self.orders.get(at))
            .ok_or_else(|| Error::content(format!("the blend names dataset {dataset} of {}", self.orders.len())))?;
        if sample >= order.len() {
            let message =
                format!("the blend asks dataset {dataset} for sample {sample} of {}: raise the surplus", order.len());
            return Err(Error::config(message));
        }
        order.sample(sample, out)
    }
}
