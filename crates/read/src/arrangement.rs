//! Which sample stands where, epoch after epoch.

use packhorse_core::{Error, Result};
use packhorse_order::{Mix, ShardOrder, Shuffle, draw};
use std::sync::{Arc, Mutex, PoisonError};

/// Orders that are kept: those of this epoch and of the one that threads are ahead in, of each dataset.
const KEPT: usize = 4;

/// The order of a dataset's samples, or of those of several in turn.
pub(crate) struct Arrangement {
    parts: Vec<Part>,
    mix: Option<Mix>,
    shuffle: Shuffle,
    seed: u64,
    samples: u64,
}

/// The runs of one dataset.
struct Part {
    counts: Vec<u64>,
    /// Its first run, of all runs.
    first: u32,
    seed: u64,
    orders: Mutex<Vec<(u64, Arc<ShardOrder>)>>,
}

impl Part {
    fn order(&self, shuffle: Shuffle, epoch: u64) -> Result<Arc<ShardOrder>> {
        let mut orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, order)) = orders.iter().find(|(known, _)| *known == epoch) {
            return Ok(Arc::clone(order));
        }
        let order = Arc::new(ShardOrder::new(&self.counts, shuffle, self.seed, epoch)?);
        if orders.len() >= KEPT {
            orders.remove(0);
        }
        orders.push((epoch, Arc::clone(&order)));
        Ok(order)
    }
}

impl Arrangement {
    /// The order of a dataset whose runs have these numbers of samples.
    pub(crate) fn new(counts: Vec<u64>, shuffle: Shuffle, seed: u64) -> Result<Self> {
        let samples = ShardOrder::new(&counts, shuffle, seed, 0)?.len();
        let parts = vec![Part { counts, first: 0, seed, orders: Mutex::default() }];
        Ok(Self { parts, mix: None, shuffle, seed, samples })
    }

    /// Several datasets by weight, `samples` an epoch; each goes on where it was in the epoch before.
    pub(crate) fn mixed(
        datasets: Vec<Vec<u64>>,
        weights: &[f64],
        samples: u64,
        shuffle: Shuffle,
        seed: u64,
    ) -> Result<Self> {
        let mut parts = Vec::with_capacity(datasets.len());
        let (mut first, mut lens) = (0u32, Vec::new());
        for (number, counts) in datasets.into_iter().enumerate() {
            let runs = u32::try_from(counts.len()).map_err(|_| Error::unsupported("2^32 runs and more"))?;
            // Copies of one dataset shall not go hand in hand.
            let own = draw(seed, 0, number as u64, 1);
            lens.push(ShardOrder::new(&counts, shuffle, own, 0)?.len());
            parts.push(Part { counts, first, seed: own, orders: Mutex::default() });
            first = first.saturating_add(runs);
        }
        Ok(Self { parts, mix: Some(Mix::new(weights, &lens)?), shuffle, seed, samples })
    }

    /// Samples of an epoch.
    pub(crate) fn samples(&self) -> u64 {
        self.samples
    }

    pub(crate) fn shuffle(&self) -> Shuffle {
        self.shuffle
    }

    pub(crate) fn seed(&self) -> u64 {
        self.seed
    }

    /// Adds run and place of the samples at `positions` of an epoch; positions past its end are its first again.
    pub(crate) fn places(
        &self,
        epoch: u64,
        positions: impl Iterator<Item = u64>,
        out: &mut Vec<(u32, u64)>,
    ) -> Result<()> {
        let missing = |position| Error::bug(format!("position {position} of an epoch is not there"));
        let samples = self.samples.max(1);
        let Some(mix) = &self.mix else {
            let part = self.parts.first().ok_or_else(|| Error::bug("an order of nothing"))?;
            let order = part.order(self.shuffle, epoch)?;
            for position in positions {
                out.push(order.get(position % samples).ok_or_else(|| missing(position))?);
            }
            return Ok(());
        };
        for position in positions {
            let mixed = mix.get(epoch.saturating_mul(samples).saturating_add(position % samples));
            let part = self.parts.get(mixed.dataset as usize).ok_or_else(|| missing(position))?;
            let order = part.order(self.shuffle, mixed.epoch)?;
            let (run, at) = order.get(mixed.position).ok_or_else(|| missing(position))?;
            out.push((part.first + run, at));
        }
        Ok(())
    }
}
