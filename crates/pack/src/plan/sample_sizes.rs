//! Guesses the bytes of samples in a shard without packing them. Pure.

use super::plan_item::PlanItem;
use crate::scan::{Listing, SampleRef};
use packhorse_core::Sink;
use rayon::prelude::*;

/// Fractions of a byte per byte.
const GRAIN: u64 = 256;

/// Guesses the sizes of samples.
#[derive(Clone, Copy)]
pub(crate) struct SampleSizes<'a> {
    /// The sink of the shards.
    pub(crate) sink: &'a dyn Sink,
    /// About the bytes that transforms make of one byte.
    factor: f64,
    /// Sizes are in units of 1/`grain` byte: a byte of text may take less than a byte in a shard.
    pub(crate) grain: u64,
}

impl<'a> SampleSizes<'a> {
    /// The sizes of the samples of `listing`.
    pub(crate) fn of(listing: &Listing, sink: &'a dyn Sink, factor: f64) -> Self {
        let grain = if listing.iter().all(|sample| sample.counted()) { 1 } else { GRAIN };
        Self { sink, factor, grain }
    }

    /// The size of one row of each entry of the listing. In its order memory is read faster than in that of a shuffle.
    pub(super) fn rows(&self, listing: &Listing) -> Vec<u64> {
        (0..listing.samples()).into_par_iter().map(|sample| self.row_of(listing, sample)).collect()
    }

    /// The size of one row of `item`.
    pub(super) fn row(&self, listing: &Listing, item: &PlanItem) -> u64 {
        self.row_of(listing, item.sample as usize)
    }

    fn row_of(&self, listing: &Listing, sample: usize) -> u64 {
        /// Large enough to make the sink's overhead per sample negligible: the number of samples is unknown.
        const LARGE: u64 = 1 << 30;
        let Some(sample) = listing.sample(sample) else { return 0 };
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
