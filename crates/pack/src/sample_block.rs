//! A block of samples on its way from inputs to a shard.

use packhorse_core::{Error, Rows};
use packhorse_dataset::{PlanEntry, SkipRecord};
use packhorse_transform::Counts;

/// Consecutive samples of a shard, read and possibly transformed.
pub(crate) struct SampleBlock {
    /// The samples, in order; usually one batch, several if samples were skipped.
    pub(crate) rows: Vec<Rows>,
    /// Planned samples, with those skipped.
    pub(crate) samples: u64,
    /// Bytes of input planned.
    pub(crate) bytes: u64,
    /// Skipped samples.
    pub(crate) skipped: Vec<Skip>,
    /// What the transforms counted.
    pub(crate) counts: Counts,
    /// The entries of the samples, for the errors of transforms.
    pub(crate) entries: Vec<PlanEntry>,
}

/// A skipped sample: what the receipt records, and the error that the observer is told.
pub(crate) struct Skip {
    pub(crate) record: SkipRecord,
    pub(crate) error: Error,
}

impl SampleBlock {
    /// A block without rows, for `samples` planned samples.
    pub(crate) fn of(samples: u64, bytes: u64, entries: Vec<PlanEntry>) -> Self {
        Self { rows: Vec::new(), samples, bytes, skipped: Vec::new(), counts: Counts::new(), entries }
    }

    /// The next `samples` samples of the run `entry`.
    pub(crate) fn of_run(rows: Rows, samples: u64, bytes: u64, entry: &PlanEntry) -> Self {
        Self { rows: vec![rows], ..Self::of(samples, bytes, vec![entry.clone()]) }
    }
}

/// Adds `counts` to `to`.
pub(crate) fn add_counts(to: &mut Counts, counts: Counts) {
    counts.into_iter().for_each(|(what, count)| *to.entry(what).or_default() += count);
}
