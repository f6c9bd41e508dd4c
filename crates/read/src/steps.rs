//! The positions of an order that a rank takes at each step, epoch after epoch.

use crate::Remainder;
use packhorse_core::{Error, Result};
use packhorse_order::{Sampler, Shuffle};
use std::ops::Range;

/// The steps of one rank from a position in an epoch on; every rank has the same number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Steps {
    sampler: Sampler,
    /// Samples per epoch.
    pub(crate) samples: u64,
    /// The epoch of the first step, and the samples that all ranks took of it before.
    epoch: u64,
    first: u64,
    /// Steps of the first epoch, and of each later one.
    pub(crate) in_first: u64,
    pub(crate) per_epoch: u64,
    pub(crate) count: u64,
    keep_last: bool,
    /// The nodes whose shards differ.
    nodes: Option<u32>,
}

impl Steps {
    /// The steps from `consumed` samples of epoch `epoch` on to the end of epoch `epochs - 1`; endless for `None`.
    ///
    /// Errors (kind `Config`): more samples taken than the epoch has.
    pub(crate) fn new(
        sampler: Sampler,
        samples: u64,
        (epoch, consumed): (u64, u64),
        epochs: Option<u64>,
        remainder: Remainder,
    ) -> Result<Self> {
        if consumed > samples {
            let message =
                format!("{consumed} samples were taken and the order has {samples}: the state is of another order");
            return Err(Error::config(message));
        }
        let keep_last = remainder != Remainder::Drop;
        let in_first = sampler.steps(samples, consumed, keep_last);
        let per_epoch = sampler.steps(samples, 0, keep_last);
        let whole = epochs.map(|epochs| epochs.saturating_sub(epoch));
        let count = match whole {
            Some(0) => 0,
            Some(whole) => in_first.saturating_add((whole - 1).saturating_mul(per_epoch)),
            None if per_epoch == 0 => in_first,
            None => u64::MAX,
        };
        Ok(Self { sampler, samples, epoch, first: consumed, in_first, per_epoch, count, keep_last, nodes: None })
    }

    /// The same steps for an order that `shuffle` makes.
    ///
    /// Errors (kind `Config`): nodes with different numbers of ranks.
    pub(crate) fn shuffled(self, shuffle: Shuffle) -> Result<Self> {
        let Shuffle::Nodes { nodes, .. } = shuffle else { return Ok(self) };
        self.sampler.check_nodes(nodes)?;
        Ok(Self { nodes: Some(nodes), ..self })
    }

    /// The place in the order of a position that this rank takes at a step.
    pub(crate) fn place(&self, step: u64, position: u64) -> u64 {
        let begin = self.begin_of_all(step);
        self.nodes.map_or(position, |nodes| self.sampler.on_nodes(nodes, self.samples, begin, position))
    }

    /// The epoch of a step, and its positions.
    pub(crate) fn at(&self, step: u64) -> (u64, Range<u64>) {
        match step.checked_sub(self.in_first) {
            None => (self.epoch, self.sampler.range(self.samples, self.first, step)),
            Some(later) => {
                let per_epoch = self.per_epoch.max(1);
                let epoch = self.epoch.saturating_add(1 + later / per_epoch);
                (epoch, self.sampler.range(self.samples, 0, later % per_epoch))
            }
        }
    }

    /// The positions of the samples that a batch holds: with [`Remainder::Pad`] always as many as a batch has rows.
    pub(crate) fn held(&self, step: u64, remainder: Remainder) -> Range<u64> {
        if remainder != Remainder::Pad {
            return self.at(step).1;
        }
        let begin = self.begin(step);
        begin..begin.saturating_add(self.sampler.batch())
    }

    /// The first position of a step, as if the epoch had no end.
    fn begin(&self, step: u64) -> u64 {
        match step.checked_sub(self.in_first) {
            None => self.sampler.range(u64::MAX, self.first, step).start,
            Some(later) => self.sampler.range(u64::MAX, 0, later % self.per_epoch.max(1)).start,
        }
    }

    /// The first position of a step over all ranks.
    pub(crate) fn begin_of_all(&self, step: u64) -> u64 {
        let first = if step < self.in_first { self.first } else { 0 };
        let within = step.checked_sub(self.in_first).map_or(step, |later| later % self.per_epoch.max(1));
        first.saturating_add(within.saturating_mul(self.step()))
    }

    /// Positions per step over all ranks.
    pub(crate) fn step(&self) -> u64 {
        self.sampler.step()
    }

    /// The steps left of an epoch of which all ranks took `consumed` samples.
    pub(crate) fn left(&self, consumed: u64) -> u64 {
        self.sampler.steps(self.samples, consumed, self.keep_last)
    }

    /// The state after `steps` steps: the epoch, and the samples that all ranks took of it.
    pub(crate) fn after(&self, steps: u64) -> (u64, u64) {
        let taken =
            |first: u64, steps: u64| first.saturating_add(steps.saturating_mul(self.sampler.step())).min(self.samples);
        match steps.checked_sub(self.in_first) {
            None => (self.epoch, taken(self.first, steps)),
            // Samples that do not make a step of this size may make one of another.
            Some(0) if self.in_first == 0 => (self.epoch, self.first),
            // At its end, all samples of the epoch are taken.
            Some(0) => (self.epoch, self.samples),
            Some(later) => {
                let per_epoch = self.per_epoch.max(1);
                let (epoch, rest) = ((later - 1) / per_epoch, (later - 1) % per_epoch + 1);
                let consumed = if rest == per_epoch { self.samples } else { taken(0, rest) };
                (self.epoch.saturating_add(1 + epoch), consumed)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use packhorse_order::Rank;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn going_on_changes_nothing(
            samples in 0u64..60, batch in 1u32..5, ranks in 1u32..4, cut in 0u64..40, uneven: bool,
        ) {
            let remainder = if uneven { Remainder::Uneven } else { Remainder::Pad };
            let of = |rank, from| {
                let sampler = Sampler::new(Rank { rank, world_size: ranks }, batch).unwrap();
                let steps = Steps::new(sampler, samples, from, Some(3), remainder).unwrap();
                (0..steps.count).map(move |step| steps.at(step)).collect::<Vec<_>>()
            };
            let sampler = Sampler::new(Rank { rank: 0, world_size: ranks }, batch).unwrap();
            let all = Steps::new(sampler, samples, (0, 0), Some(3), remainder).unwrap();
            let cut = cut.min(all.count);
            let mut seen = Vec::new();
            for rank in 0..ranks {
                let (mut before, after) = (of(rank, (0, 0)), of(rank, all.after(cut)));
                before.truncate(cut as usize);
                seen.extend(before.into_iter().chain(after));
            }
            let mut seen: Vec<_> = seen.into_iter().flat_map(|(epoch, range)| range.map(move |at| (epoch, at))).collect();
            seen.sort();
            let wanted: Vec<_> = (0..3).flat_map(|epoch| (0..samples).map(move |at| (epoch, at))).collect();
            prop_assert_eq!(seen, wanted);
        }
    }

    #[test]
    fn what_is_left_over_is_dropped() {
        let sampler = Sampler::new(Rank { rank: 1, world_size: 2 }, 4).unwrap();
        let steps = Steps::new(sampler, 19, (5, 8), None, Remainder::Drop).unwrap();
        assert_eq!((steps.count, steps.at(0), steps.at(1)), (u64::MAX, (5, 12..16), (6, 4..8)));
        assert_eq!((steps.after(0), steps.after(1), steps.after(2)), ((5, 8), (5, 19), (6, 8)));
        let large = Steps::new(sampler, 19, (5, 16), None, Remainder::Drop).unwrap();
        assert_eq!((large.after(0), large.at(0), large.after(1)), ((5, 16), (6, 4..8), (6, 8)));
        assert_eq!(Steps::new(sampler, 7, (0, 3), None, Remainder::Drop).unwrap().after(0), (0, 3));
        assert_eq!((steps.left(0), steps.left(8), steps.left(12), steps.left(19)), (2, 1, 0, 0));
        assert!(Steps::new(sampler, 7, (0, 8), None, Remainder::Drop).is_err());
        assert_eq!(Steps::new(sampler, 7, (0, 0), None, Remainder::Drop).unwrap().count, 0);
    }
}
