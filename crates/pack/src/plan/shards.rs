//! The shards of a plan: consecutive parts of its order. Pure.

use super::cut::Run;
use super::groups::Groups;
use super::sizes::Sizes;
use super::units::{self, Unit};
use super::{Cut, PlanOptions};
use crate::scan::Listing;
use std::ops::Range;

/// A planned shard.
pub(super) struct Shard {
    pub(super) name: String,
    pub(super) split: Option<String>,
    pub(super) units: Range<usize>,
    /// `None` where they are not all counted.
    pub(super) samples: Option<u64>,
}

/// Cuts the order into shards, split by split.
pub(super) fn cut(
    listing: &Listing,
    order: Vec<Unit>,
    sizes: &Sizes<'_>,
    (splits, options): (&Groups<'_>, &PlanOptions),
) -> (Vec<Unit>, Vec<Shard>) {
    let mut groups: Vec<(Option<String>, Vec<Unit>)> = match splits.names() {
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
    let cut = Cut { bytes, ..options.cut };
    let mut shards = Shards::default();
    for (split, units) in groups {
        let run = |unit: &Unit| Run { size: sizes.item(listing, unit), samples: unit.count.into() };
        let lens = cut.shards(&units.iter().map(run).collect::<Vec<_>>());
        shards.add(listing, (split.as_ref(), &options.name), units, &lens);
    }
    (shards.order, shards.shards)
}

/// Shards, and the order that they are parts of.
#[derive(Default)]
pub(super) struct Shards {
    pub(super) order: Vec<Unit>,
    pub(super) shards: Vec<Shard>,
}

impl Shards {
    /// The shards of a split, or of all samples under `name`, of so many items each.
    pub(super) fn add(
        &mut self,
        listing: &Listing,
        (split, name): (Option<&String>, &str),
        units: Vec<Unit>,
        lens: &[u64],
    ) {
        for (i, (part, samples)) in units::parts(units, lens).into_iter().zip(lens).enumerate() {
            let name = format!("{}-{i:06}", split.map_or(name, String::as_str));
            let start = self.order.len();
            let counted = part.iter().all(|unit| listing.sample(unit.sample as usize).is_none_or(|s| s.counted()));
            let samples = counted.then_some(*samples);
            self.order.extend(part);
            self.shards.push(Shard { name, split: split.cloned(), units: start..self.order.len(), samples });
        }
    }
}
