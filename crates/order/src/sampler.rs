//! The samples of each rank, as in Megatron's sequential sampler.

use crate::Rank;
use packhorse_core::{Error, Result};
use std::ops::Range;

/// Rank `rank` of `ranks` takes `rank·batch .. (rank + 1)·batch` of each consecutive block of `batch·ranks`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampler {
    rank: u64,
    ranks: u64,
    batch: u64,
}

impl Sampler {
    /// Errors (kind `Config`): a rank that is not below the world size, an empty batch.
    pub fn new(rank: Rank, batch: u32) -> Result<Self> {
        let Rank { rank, world_size } = rank;
        if rank >= world_size {
            return Err(Error::config(format!(
                "rank {rank} of {world_size} is beyond the last one: ranks count from 0"
            )));
        }
        if batch == 0 {
            return Err(Error::config("a batch of 0 samples holds none; give at least 1"));
        }
        Ok(Self { rank: rank.into(), ranks: world_size.into(), batch: batch.into() })
    }

    /// Samples that a rank takes per step.
    pub fn batch(&self) -> u64 {
        self.batch
    }

    /// Samples that all ranks take per step.
    pub fn step(&self) -> u64 {
        self.batch * self.ranks
    }

    /// The number of steps from `consumed` to `samples`; a last step that is not full counts only with `keep_last`.
    pub fn steps(&self, samples: u64, consumed: u64, keep_last: bool) -> u64 {
        let left = samples.saturating_sub(consumed);
        if keep_last { left.div_ceil(self.step()) } else { left / self.step() }
    }

    /// The samples of this rank at `step`, counted from `consumed`, cut at `samples`: empty past the end.
    pub fn range(&self, samples: u64, consumed: u64, step: u64) -> Range<u64> {
        let begin = step.saturating_mul(self.step()).saturating_add(consumed).saturating_add(self.rank * self.batch);
        begin.min(samples)..begin.saturating_add(self.batch).min(samples)
    }
}

impl Sampler {
    /// Refuses ranks that are not as many on each of `nodes` nodes.
    ///
    /// Errors (kind `Config`).
    pub fn check_nodes(&self, nodes: u32) -> Result<()> {
        match self.ranks.is_multiple_of(nodes.into()) {
            true => Ok(()),
            false => {
                Err(Error::config(format!("the world size, {}, is not a multiple of the {nodes} nodes", self.ranks)))
            }
        }
    }

    /// The position in the order of nodes ([`NodeOrder`](crate::NodeOrder)) of which a rank takes the sample as
    /// `position`: one of its node. `position` is in a step that begins at `begin`, of `samples` samples. The positions
    /// of the step's ranks are those of the step, each once; in a step that is not whole they stay what they are.
    pub fn on_nodes(&self, nodes: u32, samples: u64, begin: u64, position: u64) -> u64 {
        let (nodes, step) = (u64::from(nodes), self.step());
        let (Some(at), Some(share)) = (position.checked_sub(begin), step.checked_div(nodes)) else { return position };
        if at >= step || share == 0 || step % nodes != 0 || samples.saturating_sub(begin) < step {
            return position;
        }
        let first = (at / share + nodes - begin % nodes) % nodes;
        begin + first + nodes * (at % share)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_share_every_step() {
        let ranks: Vec<_> = (0..3).map(|rank| Sampler::new(Rank { rank, world_size: 3 }, 4).unwrap()).collect();
        let mut seen = Vec::new();
        for step in 0..ranks[0].steps(50, 2, true) {
            seen.extend(ranks.iter().flat_map(|rank| rank.range(50, 2, step)));
        }
        assert_eq!(seen, (2..50).collect::<Vec<_>>());
        assert_eq!((ranks[0].steps(50, 2, false), ranks[0].steps(49, 2, false)), (4, 3));
        assert_eq!(ranks[1].range(1000, 0, 2), 28..32);
        assert!(ranks[2].range(50, 0, u64::MAX).is_empty());
        assert!(Sampler::new(Rank { rank: 3, world_size: 3 }, 1).is_err() && Sampler::new(Rank::default(), 0).is_err());
    }
}
