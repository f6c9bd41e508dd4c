//! The bytes that samples take up in a shard, as far as a plan can know without packing them. Pure.

use super::plan_item::PlanItem;
use crate::scan::{Listing, SampleRef};
use packhorse_core::Sink;

/// Parts of a byte.
const GRAIN: u64 = 256;

/// See the module.
#[derive(Clone, Copy)]
pub(crate) struct SampleSizes<'a> {
    /// What writes the shards.
    pub(crate) sink: &'a dyn Sink,
    /// What transforms make of a byte, about.
    factor: f64,
    /// SampleSizes are in parts of a byte; so many are one. Where an item is a byte, its size in a shard is a fraction
    /// of one.
    pub(crate) grain: u64,
}

impl<'a> SampleSizes<'a> {
    /// SampleSizes of the samples of `listing`.
    pub(crate) fn of(listing: &Listing, sink: &'a dyn Sink, factor: f64) -> Self {
        let grain = if listing.iter().all(|sample| sample.counted()) { 1 } else { GRAIN };
        Self { sink, factor, grain }
    }

    /// The size of one item of `unit`.
    pub(super) fn row(&self, listing: &Listing, unit: &PlanItem) -> u64 {
        /// What a sink adds to a sample does not count: it is not known how many there are.
        const LARGE: u64 = 1 << 30;
        let Some(sample) = listing.sample(unit.sample as usize) else { return 0 };
        if !sample.counted() {
            let written = self.sink.size_of(LARGE) as f64 / LARGE as f64;
            let item = sample.bytes() as f64 / sample.items().max(1) as f64;
            return ((item * self.factor * written * self.grain as f64) as u64).max(1);
        }
        self.sample(&sample).saturating_mul(self.grain)
    }

    fn sample(&self, sample: &SampleRef<'_>) -> u64 {
        let share = |bytes: u64| (bytes / sample.items().max(1)) as f64 * self.factor;
        let inputs: u64 = sample.fields().map(|(_, bytes)| self.sink.size_of(share(bytes) as u64)).sum();
        let label = sample.label().map_or(0, |_| self.sink.size_of(1));
        inputs + label + sample.row().map_or(0, |row| self.sink.size_of(row.len() as u64))
    }
}
