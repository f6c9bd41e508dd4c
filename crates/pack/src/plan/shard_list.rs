//! The shards of a plan, consecutive parts of its order. Pure.

use super::plan_item::{self, PlanItem};
use super::sample_sizes::SampleSizes;
use super::shard_bounds::SizeRun;
use super::split_assignment::SplitAssignment;
use super::{PlanOptions, ShardBounds};
use crate::scan::Listing;
use std::ops::Range;

/// A planned shard.
pub(super) struct PlannedShard {
    pub(super) name: String,
    pub(super) split: Option<String>,
    pub(super) units: Range<usize>,
    /// `None` if not all are counted.
    pub(super) samples: Option<u64>,
}

/// Divides the order into shards, split by split.
pub(super) fn cut(
    listing: &Listing,
    order: Vec<PlanItem>,
    sizes: &SampleSizes<'_>,
    (splits, options): (&SplitAssignment<'_>, &PlanOptions),
) -> (Vec<PlanItem>, Vec<PlannedShard>) {
    let mut groups: Vec<(Option<String>, Vec<PlanItem>)> = match splits.names() {
        [] => vec![(None, Vec::new())],
        names => names.iter().map(|name| (Some(name.clone()), Vec::new())).collect(),
    };
    let n: u64 = order.iter().map(|unit| u64::from(unit.count)).sum();
    let mut place = 0;
    for unit in order {
        let split = splits.split(listing, &unit, place, n);
        place += u64::from(unit.count);
        if let Some((_, units)) = groups.get_mut(split) {
            units.push(unit);
        }
    }
    let bytes = options.cut.limit().map(|bytes| bytes.saturating_mul(sizes.grain));
    let cut = ShardBounds { bytes, ..options.cut };
    let mut shards = ShardList::default();
    for (split, units) in groups {
        let run = |unit: &PlanItem| SizeRun { size: sizes.row(listing, unit), samples: unit.count.into() };
        let lens = cut.shards(&units.iter().map(run).collect::<Vec<_>>());
        shards.add(listing, (split.as_ref(), &options.name), units, &lens);
    }
    (shards.order, shards.shards)
}

/// Shards, and the order that they divide.
#[derive(Default)]
pub(super) struct ShardList {
    pub(super) order: Vec<PlanItem>,
    pub(super) shards: Vec<PlannedShard>,
}

impl ShardList {
    /// Adds the shards of a split, or without splits those named `name`, with these numbers of samples.
    pub(super) fn add(
        &mut self,
        listing: &Listing,
        (split, name): (Option<&String>, &str),
        units: Vec<PlanItem>,
        lens: &[u64],
    ) {
        for (i, (part, samples)) in plan_item::parts(units, lens).into_iter().zip(lens).enumerate() {
            let name = format!("{}-{i:06}", split.map_or(name, String::as_str));
            let start = self.order.len();
            let counted = part.iter().all(|unit| listing.sample(unit.sample as usize).is_none_or(|s| s.counted()));
            let samples = counted.then_some(*samples);
            self.order.extend(part);
            self.shards.push(PlannedShard { name, split: split.cloned(), units: start..self.order.len(), samples });
        }
    }
}
