//! A block of samples on its way from inputs to a shard.

use packhorse_core::Rows;
use packhorse_dataset::{PlanEntry, SkipRecord};
use packhorse_transform::Counts;

/// A block of samples as it comes out of the feed.
pub(crate) struct SampleBlock {
    /// The samples, in order; usually one batch, more where some sample dropped out.
    pub(crate) rows: Vec<Rows>,
    /// Samples planned, those that dropped out included.
    pub(crate) samples: u64,
    /// Bytes of input planned.
    pub(crate) bytes: u64,
    /// Samples that dropped out.
    pub(crate) skipped: Vec<SkipRecord>,
    /// What the transforms counted in the rows that they made.
    pub(crate) counts: Counts,
    /// Where the samples come from, for the errors of transforms.
    pub(crate) entries: Vec<PlanEntry>,
}

impl SampleBlock {
    /// A block without rows yet, of `samples` samples that were planned.
    pub(crate) fn of(samples: u64, bytes: u64, entries: Vec<PlanEntry>) -> Self {
        Self { rows: Vec::new(), samples, bytes, skipped: Vec::new(), counts: Counts::new(), entries }
    }

    /// The next `samples` samples of the run `entry`.
    pub(crate) fn of_run(rows: Rows, samples: u64, bytes: u64, entry: &PlanEntry) -> Self {
        Self { rows: vec![rows], ..Self::of(samples, bytes, vec![entry.clone()]) }
    }
}

/// Adds counts to others.
pub(crate) fn add_counts(to: &mut Counts, counts: Counts) {
    counts.into_iter().for_each(|(what, count)| *to.entry(what).or_default() += count);
}
