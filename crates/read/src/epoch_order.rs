//! The order of samples, epoch after epoch.

use crate::dataset::{Dataset, SampleRun};
use crate::steps::Steps;
use crate::{LoaderOptions, Remainder};
use packhorse_core::{Error, Result, counted};
use packhorse_order::{Mix, NodeOrder, Sampler, ShardOrder, Shuffle, draw};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

/// Cached orders per dataset: those of this epoch and of the one that threads are ahead in.
const KEPT: usize = 4;

/// The order of the samples of a dataset, or of several interleaved datasets.
pub(crate) struct EpochOrder {
    parts: Vec<Part>,
    mix: Option<Mix>,
    shuffle: Shuffle,
    seed: u64,
    samples: u64,
}

/// The samples of one dataset.
struct Part {
    /// The number of samples of each shard of the order.
    counts: Vec<u64>,
    /// Its first run among all runs.
    first: u32,
    /// The runs of each shard of the order, unless each is one run.
    runs: Option<Vec<Pieces>>,
    seed: u64,
    orders: Mutex<Vec<(u64, Arc<PartOrder>)>>,
}

/// Shards whose samples are read together.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ShardBlock {
    /// The positions of the epoch at which they are read.
    pub(crate) positions: Range<u64>,
    /// A run of each of its shards, and the samples that the order takes from the shard.
    pub(crate) shards: Vec<(u32, u64)>,
}

/// The order of one epoch.
enum PartOrder {
    Shards(ShardOrder),
    Nodes(NodeOrder),
}

impl PartOrder {
    fn new(counts: &[u64], shuffle: Shuffle, seed: u64, epoch: u64) -> Result<Self> {
        match shuffle {
            Shuffle::Nodes { .. } => NodeOrder::new(counts, shuffle, seed, epoch).map(Self::Nodes),
            _ => ShardOrder::new(counts, shuffle, seed, epoch).map(Self::Shards),
        }
    }

    fn len(&self) -> u64 {
        match self {
            Self::Shards(order) => order.len(),
            Self::Nodes(order) => order.len(),
        }
    }

    fn get(&self, position: u64) -> Option<(u32, u64)> {
        match self {
            Self::Shards(order) => order.get(position),
            Self::Nodes(order) => order.get(position),
        }
    }

    /// The positions and the shards of a block.
    fn block(&self, node: u32, position: u64) -> Option<(Range<u64>, Vec<u32>)> {
        match self {
            Self::Shards(order) => order.block(position).map(|block| (block.positions, block.shards.to_vec())),
            Self::Nodes(order) => order.block(node, position),
        }
    }
}

/// The runs of one shard: the end of each, in samples, and its number.
type Pieces = Vec<(u64, u32)>;

impl Part {
    /// Keeps runs as they are for a sequential order; else merges all runs of a shard, so that blocks hold whole shards
    /// even if the dataset consists of many runs.
    fn new(runs: &[SampleRun], shuffle: Shuffle, first: u32, seed: u64) -> Self {
        let counts: Vec<u64> = runs.iter().map(|run| run.len).collect();
        let whole = Self { counts, first, runs: None, seed, orders: Mutex::default() };
        let mut of_shard: BTreeMap<u32, Pieces> = BTreeMap::new();
        for (number, run) in (0..).zip(runs) {
            let pieces = of_shard.entry(run.shard).or_default();
            let before = pieces.last().map_or(0, |(end, _)| *end);
            pieces.push((before.saturating_add(run.len), number));
        }
        if shuffle == Shuffle::Sequential || of_shard.len() == runs.len() {
            return whole;
        }
        let counts = of_shard.values().map(|pieces| pieces.last().map_or(0, |(end, _)| *end)).collect();
        Self { counts, runs: Some(of_shard.into_values().collect()), ..whole }
    }

    /// The run, and the position in it, of sample `at` of the order's shard `shard`.
    fn run(&self, shard: u32, at: u64) -> Option<(u32, u64)> {
        let Some(runs) = &self.runs else { return Some((self.first + shard, at)) };
        let pieces = runs.get(shard as usize)?;
        let piece = pieces.partition_point(|(end, _)| *end <= at);
        let start = piece.checked_sub(1).and_then(|before| pieces.get(before)).map_or(0, |(end, _)| *end);
        Some((self.first + pieces.get(piece)?.1, at - start))
    }

    fn order(&self, shuffle: Shuffle, epoch: u64) -> Result<Arc<PartOrder>> {
        let mut orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, order)) = orders.iter().find(|(known, _)| *known == epoch) {
            return Ok(Arc::clone(order));
        }
        let order = Arc::new(PartOrder::new(&self.counts, shuffle, self.seed, epoch)?);
        if orders.len() >= KEPT {
            orders.remove(0);
        }
        orders.push((epoch, Arc::clone(&order)));
        Ok(order)
    }
}

impl EpochOrder {
    /// The order in which a loader of `dataset` with these options takes its samples.
    pub(crate) fn of(dataset: &Dataset, options: &LoaderOptions) -> Result<Self> {
        Self::new(dataset.runs(), options.shuffle.unwrap_or_else(|| dataset.default_shuffle()), options.seed)
    }

    /// The order of a dataset with these runs.
    pub(crate) fn new(runs: &[SampleRun], shuffle: Shuffle, seed: u64) -> Result<Self> {
        let part = Part::new(runs, shuffle, 0, seed);
        let samples = part.order(shuffle, 0)?.len();
        Ok(Self { parts: vec![part], mix: None, shuffle, seed, samples })
    }

    /// Several datasets by weight, `samples` per epoch; each continues where it was in the previous epoch.
    pub(crate) fn mixed(
        datasets: &[&[SampleRun]],
        weights: &[f64],
        samples: u64,
        shuffle: Shuffle,
        seed: u64,
    ) -> Result<Self> {
        if let Shuffle::Nodes { .. } = shuffle {
            return Err(Error::unsupported("a mix of datasets can't be shuffled over nodes; use blocks or full"));
        }
        let mut parts = Vec::with_capacity(datasets.len());
        let (mut first, mut lens) = (0u32, Vec::new());
        for (number, runs) in datasets.iter().enumerate() {
            let count = u32::try_from(runs.len()).map_err(|_| Error::unsupported("2^32 runs and more"))?;
            // The same dataset given twice must have different orders.
            let own = draw(seed, 0, number as u64, 1);
            let part = Part::new(runs, shuffle, first, own);
            lens.push(part.order(shuffle, 0)?.len());
            parts.push(part);
            first = first.saturating_add(count);
        }
        Ok(Self { parts, mix: Some(Mix::new(weights, &lens)?), shuffle, seed, samples })
    }

    /// Samples per epoch.
    pub(crate) fn samples(&self) -> u64 {
        self.samples
    }

    pub(crate) fn shuffle(&self) -> Shuffle {
        self.shuffle
    }

    pub(crate) fn seed(&self) -> u64 {
        self.seed
    }

    /// The steps of one rank from position `from.1` of epoch `from.0` on, without an end.
    ///
    /// Errors (kind `Config`): fewer samples than a step; nodes with different numbers of ranks.
    pub(crate) fn steps_from(&self, from: (u64, u64), sampler: Sampler, remainder: Remainder) -> Result<Steps> {
        let steps = Steps::new(sampler, self.samples, from, None, remainder)?.shuffled(self.shuffle)?;
        if steps.count == 0 {
            let (are, do_not) = (counted(self.samples, "sample"), if self.samples == 1 { "doesn't" } else { "don't" });
            let message = format!("{are} {do_not} fill a step of {}: there is no step to read", steps.step());
            return Err(Error::config(message));
        }
        Ok(steps)
    }

    /// The block that contains `position` of `epoch`, of the shards of `node` where nodes have their own; `None` past the last, and if
    /// datasets are mixed.
    pub(crate) fn block(&self, epoch: u64, position: u64, node: u32) -> Result<Option<ShardBlock>> {
        let ([part], None) = (&*self.parts, &self.mix) else { return Ok(None) };
        let Some((positions, shards)) = part.order(self.shuffle, epoch)?.block(node, position) else { return Ok(None) };
        let of = |shard: u32| Some((part.run(shard, 0)?.0, *part.counts.get(shard as usize)?));
        Ok(Some(ShardBlock { positions, shards: shards.into_iter().filter_map(of).collect() }))
    }

    /// Appends run and position of the samples of a step, and their dataset's epoch.
    pub(crate) fn places_of_step(
        &self,
        steps: &Steps,
        step: u64,
        remainder: Remainder,
        out: &mut Vec<(u32, u64)>,
        epochs: &mut Vec<u64>,
    ) -> Result<()> {
        let (epoch, _) = steps.at(step);
        let held = steps.held(step, remainder);
        self.places(epoch, held.map(|position| steps.place(step, position)), out, epochs)
    }

    /// Appends run and position of the samples at `positions` of an epoch, and their dataset's epoch; positions past
    /// the end wrap around.
    fn places(
        &self,
        epoch: u64,
        positions: impl Iterator<Item = u64>,
        out: &mut Vec<(u32, u64)>,
        epochs: &mut Vec<u64>,
    ) -> Result<()> {
        let missing = |position| Error::bug(format!("position {position} of an epoch is not there"));
        let samples = self.samples.max(1);
        let Some(mix) = &self.mix else {
            let part = self.parts.first().ok_or_else(|| Error::bug("an order of nothing"))?;
            let order = part.order(self.shuffle, epoch)?;
            for position in positions {
                let place = order.get(position % samples).and_then(|(shard, at)| part.run(shard, at));
                out.push(place.ok_or_else(|| missing(position))?);
                epochs.push(epoch);
            }
            return Ok(());
        };
        for position in positions {
            let mixed = mix.get(epoch.saturating_mul(samples).saturating_add(position % samples));
            let part = self.parts.get(mixed.dataset as usize).ok_or_else(|| missing(position))?;
            let order = part.order(self.shuffle, mixed.epoch)?;
            let place = order.get(mixed.position).and_then(|(shard, at)| part.run(shard, at));
            out.push(place.ok_or_else(|| missing(position))?);
            epochs.push(mixed.epoch);
        }
        Ok(())
    }
}
