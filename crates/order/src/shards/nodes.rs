//! The order of nodes that read shards of their own.

use super::keys::key;
use super::{MOST_SAMPLES, ShardOrder, Shuffle};
use packhorse_core::{Error, Result, SplitMix64};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

/// The most nodes of an order.
const MOST_NODES: u32 = 1 << 20;

/// The samples of one epoch, of which each node reads those of its own shards ([`Shuffle::Nodes`]). Position `p` is a
/// sample for node `p % nodes`; which positions a rank takes is said by
/// [`Sampler::on_nodes`](crate::Sampler::on_nodes).
///
/// Nodes take the same number of samples, or one less. What a node holds beyond that, less than a shard of average
/// size as a rule, is read by nodes that hold less, at the end of the epoch.
///
/// ```
/// use packhorse_order::{NodeOrder, Shuffle};
///
/// let shuffle = Shuffle::Nodes { nodes: 2, shards: 2, window: None, epochs: 1 };
/// let order = NodeOrder::new(&[10; 8], shuffle, 7, 0)?;
/// assert_eq!((order.len(), order.shards(0).len()), (80, 4));
/// let (shard, _) = order.get(0).unwrap();
/// assert!(order.shards(0).contains(&shard));
/// # Ok::<(), packhorse_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct NodeOrder {
    nodes: Vec<Node>,
    samples: u64,
}

#[derive(Clone, Debug)]
struct Node {
    /// Its shards, without empty ones.
    shards: Vec<u32>,
    /// The order of their samples.
    order: ShardOrder,
    /// The samples that it reads.
    quota: u64,
    /// Samples that the nodes before it lack, and that they hold beyond their quotas.
    lacking: u64,
    spare: u64,
}

impl NodeOrder {
    /// The order of shards with `counts` samples each, in `epoch`.
    ///
    /// Errors (kind `Config`): another shuffle than [`Shuffle::Nodes`]; one of its numbers is 0; more than 2^20 nodes; those of
    /// [`ShardOrder::new`].
    pub fn new(counts: &[u64], shuffle: Shuffle, seed: u64, epoch: u64) -> Result<Self> {
        let Shuffle::Nodes { nodes, shards, window, epochs } = shuffle else {
            return Err(Error::config(format!("{shuffle} is not an order over nodes: see `ShardOrder`")));
        };
        let of_node = window.map_or(Shuffle::Blocks { shards }, |samples| Shuffle::Windows { shards, samples });
        let turn = epoch.checked_div(epochs.into()).filter(|_| (1..=MOST_NODES).contains(&nodes));
        let turn = turn.ok_or_else(|| {
            Error::config(format!(
                "a shuffle over {nodes} nodes for {epochs} epochs at a time: give 1 to 2^20 nodes and 1 epoch or more"
            ))
        })?;
        let samples = counts.iter().fold(0, |all: u64, count| all.saturating_add(*count));
        if samples > MOST_SAMPLES {
            return Err(Error::config(format!("{samples} samples are more than 2^48: take fewer shards")));
        }
        let (mut lacking, mut spare, mut all) = (0, 0, Vec::with_capacity(nodes as usize));
        for (node, held) in (0u64..).zip(dealt(counts, nodes, key(seed, b"nodes...", turn))) {
            let own: Vec<u64> = held.iter().map(|&shard| count(counts, shard)).collect();
            let seed = SplitMix64::at(key(seed, b"of.node.", 0), node);
            let order = ShardOrder::new(&own, of_node, seed, epoch)?;
            let quota = samples.saturating_sub(node).div_ceil(nodes.into());
            let holds = order.len();
            all.push(Node { shards: held, order, quota, lacking, spare });
            lacking += quota.saturating_sub(holds);
            spare += holds.saturating_sub(quota);
        }
        Ok(Self { nodes: all, samples })
    }

    /// The number of samples.
    pub fn len(&self) -> u64 {
        self.samples
    }

    /// True if there are no samples.
    pub fn is_empty(&self) -> bool {
        self.samples == 0
    }

    /// The shards of a node, without empty ones; none past the last node.
    pub fn shards(&self, node: u32) -> &[u32] {
        self.nodes.get(node as usize).map(|node| &node.shards[..]).unwrap_or_default()
    }

    /// The shard, and the sample in it, at `position`; `None` past the last.
    pub fn get(&self, position: u64) -> Option<(u32, u64)> {
        if position >= self.samples {
            return None;
        }
        let nodes = self.nodes.len() as u64;
        let node = self.nodes.get((position % nodes) as usize)?;
        let at = position / nodes;
        let Some(beyond) = at.checked_sub(node.order.len()) else { return node.sample(at) };
        // The node has read all that it holds: here is what others hold beyond their quotas.
        let at = node.lacking + beyond;
        let giver = self.nodes.partition_point(|giver| giver.spare <= at).checked_sub(1)?;
        let giver = self.nodes.get(giver)?;
        giver.sample(giver.quota + (at - giver.spare))
    }

    /// The positions at which `node` reads the block of its shards that contains `position`, and these shards; `None` past its last.
    pub fn block(&self, node: u32, position: u64) -> Option<(Range<u64>, Vec<u32>)> {
        let nodes = self.nodes.len() as u64;
        let node = self.nodes.get(node as usize)?;
        let block = node.order.block(position / nodes)?;
        let shards = block.shards.iter().filter_map(|shard| node.shards.get(*shard as usize).copied()).collect();
        Some((block.positions.start * nodes..block.positions.end * nodes, shards))
    }
}

impl Node {
    fn sample(&self, at: u64) -> Option<(u32, u64)> {
        let (shard, sample) = self.order.get(at)?;
        Some((*self.shards.get(shard as usize)?, sample))
    }
}

fn count(counts: &[u64], shard: u32) -> u64 {
    counts.get(shard as usize).copied().unwrap_or(0)
}

/// Deals shuffled shards to nodes, each to the one with the fewest samples.
fn dealt(counts: &[u64], nodes: u32, key: u64) -> Vec<Vec<u32>> {
    let mut shards: Vec<u32> = (0u32..).zip(counts).filter(|&(_, &n)| n > 0).map(|(shard, _)| shard).collect();
    let mut outputs = SplitMix64::new(key);
    for i in (1..shards.len()).rev() {
        shards.swap(i, outputs.below(i as u64 + 1) as usize);
    }
    let mut held = vec![Vec::new(); nodes as usize];
    let mut loads: BinaryHeap<Reverse<(u64, u32)>> = (0..nodes).map(|node| Reverse((0, node))).collect();
    for shard in shards {
        let Some(Reverse((load, node))) = loads.pop() else { break };
        if let Some(held) = held.get_mut(node as usize) {
            held.push(shard);
        }
        loads.push(Reverse((load.saturating_add(count(counts, shard)), node)));
    }
    held
}
