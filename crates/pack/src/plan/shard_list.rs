//! The shards of a plan, consecutive parts of its order. Pure.

use super::plan_item::{self, PlanItem};
use super::sample_sizes::SampleSizes;
use super::shard_bounds::SizeRun;
use super::split_assignment::SplitAssignment;
use crate::Recipe;
use crate::scan::Listing;
use std::ops::Range;

/// A planned shard.
pub(super) struct PlannedShard {
    pub(super) name: String,
    pub(super) split: Option<String>,
    pub(super) items: Range<usize>,
    /// `None` if not all are counted.
    pub(super) samples: Option<u64>,
}

/// Divides the order into shards, split by split.
pub(super) fn divide(
    listing: &Listing,
    order: Vec<PlanItem>,
    sizes: &SampleSizes<'_>,
    (splits, recipe): (&SplitAssignment<'_>, &Recipe),
) -> (Vec<PlanItem>, Vec<PlannedShard>) {
    let mut groups: Vec<(Option<String>, Vec<PlanItem>)> = match splits.names() {
        [] => vec![(None, Vec::new())],
        names => names.iter().map(|name| (Some(name.clone()), Vec::new())).collect(),
    };
    let n: u64 = order.iter().map(|item| u64::from(item.count)).sum();
    let mut place = 0;
    for mut item in order {
        while item.count > 0 {
            let (split, count) = splits.split(listing, &item, place, n);
            if let Some((_, items)) = groups.get_mut(split) {
                items.push(PlanItem { count, ..item });
            }
            place += u64::from(count);
            (item.from, item.count) = (item.from + u64::from(count), item.count - count);
        }
    }
    let bounds = recipe.shard_bounds().within(sizes.sink, sizes.grain);
    let mut shards = ShardList::default();
    let rows = sizes.rows(listing);
    for (split, items) in groups {
        let size = |item: &PlanItem| rows.get(item.sample as usize).copied().unwrap_or(0);
        let run = |item: &PlanItem| SizeRun { size: size(item), samples: item.count.into() };
        let lens = bounds.shards(&items.iter().map(run).collect::<Vec<_>>());
        shards.add(listing, (split.as_ref(), &recipe.name), items, &lens);
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
        items: Vec<PlanItem>,
        lens: &[u64],
    ) {
        for (i, (part, samples)) in plan_item::parts(items, lens).zip(lens).enumerate() {
            let name = format!("{}-{i:06}", split.map_or(name, String::as_str));
            let start = self.order.len();
            let counted = part.iter().all(|item| listing.sample(item.sample as usize).is_none_or(|s| s.counted()));
            let samples = counted.then_some(*samples);
            self.order.extend(part);
            self.shards.push(PlannedShard { name, split: split.cloned(), items: start..self.order.len(), samples });
        }
    }
}
