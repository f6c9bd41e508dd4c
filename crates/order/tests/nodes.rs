//! Orders over nodes: every sample once an epoch on any ranks, shards that stay on their nodes, and resuming.

#![expect(clippy::unwrap_used, reason = "what goes wrong here fails the test")]

use packhorse_order::*;
use packhorse_testkit::external::python;
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::io::Write;
use std::process::{Command, Stdio};

fn order(counts: &[u64], shuffle: Shuffle, seed: u64, epoch: u64) -> NodeOrder {
    NodeOrder::new(counts, shuffle, seed, epoch).unwrap()
}

/// Blocks of `shards` shards on `nodes` nodes.
fn blocks(nodes: u32, shards: u32, epochs: u32) -> Shuffle {
    Shuffle::Nodes { nodes, shards, window: None, epochs }
}

fn sorted<T: Ord>(mut values: Vec<T>) -> Vec<T> {
    values.sort_unstable();
    values
}

fn samples(counts: &[u64]) -> Vec<(u32, u64)> {
    (0u32..).zip(counts).flat_map(|(shard, &count)| (0..count).map(move |sample| (shard, sample))).collect()
}

fn counts() -> impl Strategy<Value = Vec<u64>> {
    prop::collection::vec(prop_oneof![Just(0), 1..4u64, 1..80u64], 0..40)
}

/// What the ranks of each node read from `consumed` on, `steps` steps at most: node, sample, and whether the step was
/// whole. Also how much of the epoch is consumed then.
type Read = (u32, (u32, u64), bool);
fn read(order: &NodeOrder, nodes: u32, (per_node, batch): (u32, u32), consumed: u64, steps: u64) -> (Vec<Read>, u64) {
    let mut seen = Vec::new();
    let world_size = nodes * per_node;
    let sampler = |rank| Sampler::new(Rank { rank, world_size }, batch).unwrap();
    let steps = steps.min(sampler(0).steps(order.len(), consumed, true));
    for rank in 0..world_size {
        let sampler = sampler(rank);
        sampler.check_nodes(nodes).unwrap();
        for step in 0..steps {
            let begin = consumed + step * sampler.step();
            let whole = begin + sampler.step() <= order.len();
            for position in sampler.range(order.len(), consumed, step) {
                let place = sampler.on_nodes(nodes, order.len(), begin, position);
                seen.push((rank / per_node, order.get(place).unwrap(), whole));
            }
        }
    }
    (seen, (consumed + steps * sampler(0).step()).min(order.len()))
}

proptest! {
    #[test]
    fn every_sample_comes_once_an_epoch(
        counts in counts(), nodes in 1..9u32, per_node in 1..4u32, batch in 1..6u32, shards in 1..6u32,
        window in prop::option::of(1..200u64), seed: u64, epoch: u64,
    ) {
        let order = order(&counts, Shuffle::Nodes { nodes, shards, window, epochs: 3 }, seed, epoch);
        let all = (0..order.len()).map(|position| order.get(position).unwrap()).collect();
        prop_assert_eq!(sorted(all), samples(&counts));
        prop_assert!(order.get(order.len()).is_none() && order.get(u64::MAX).is_none());
        let (seen, consumed) = read(&order, nodes, (per_node, batch), 0, u64::MAX);
        prop_assert_eq!(consumed, order.len());
        prop_assert_eq!(sorted(seen.into_iter().map(|(_, sample, _)| sample).collect()), samples(&counts));
    }

    /// A node reads the shards of others in a step that is not whole, and where it holds too few: what others hold
    /// beyond an even share.
    #[test]
    fn nodes_read_their_own_shards(counts in counts(), nodes in 1..6u32, per_node in 1..4u32, batch in 1..5u32, seed: u64) {
        let order = order(&counts, blocks(nodes, 2, 1), seed, 5);
        let mut held: Vec<u32> = (0..nodes).flat_map(|node| order.shards(node).to_vec()).collect();
        held.sort_unstable();
        let full = (0u32..).zip(&counts).filter(|(_, n)| **n > 0).map(|(shard, _)| shard).collect::<Vec<_>>();
        prop_assert_eq!(held, full);
        let holds = |node: u32| order.shards(node).iter().map(|shard| counts[*shard as usize]).sum::<u64>();
        let most = counts.iter().max().copied().unwrap_or(0);
        let loads: Vec<u64> = (0..nodes).map(holds).collect();
        prop_assert!(loads.iter().max().unwrap() - loads.iter().min().unwrap() <= most);
        let spare: u64 = loads.iter().map(|load| load.saturating_sub(order.len() / u64::from(nodes))).sum();
        let (seen, _) = read(&order, nodes, (per_node, batch), 0, u64::MAX);
        let foreign = seen.iter().filter(|(node, (shard, _), whole)| *whole && !order.shards(*node).contains(shard));
        prop_assert!(foreign.count() as u64 <= spare);
    }

    /// Consecutive runs with other numbers of ranks per node and other batch sizes, each stopped after some steps,
    /// together take each sample once.
    #[test]
    fn ranks_resume(
        counts in counts(), nodes in 1..5u32, runs in prop::collection::vec((1..4u32, 1..6u32, 0..5u64), 1..6), seed: u64,
    ) {
        let order = order(&counts, blocks(nodes, 3, 2), seed, 1);
        let (mut consumed, mut taken) = (0, Vec::new());
        for (per_node, batch, steps) in runs {
            let (seen, then) = read(&order, nodes, (per_node, batch), consumed, steps);
            prop_assert_eq!(seen.len() as u64, then - consumed);
            taken.extend(seen.into_iter().map(|(_, sample, _)| sample));
            consumed = then;
        }
        let (rest, end) = read(&order, nodes, (1, 1), consumed, u64::MAX);
        prop_assert_eq!(end, order.len());
        taken.extend(rest.into_iter().map(|(_, sample, _)| sample));
        prop_assert_eq!(sorted(taken), samples(&counts));
    }

    /// Any step, also one of other ranks than the order has nodes for, is taken whole.
    #[test]
    fn positions_of_a_step_stay_in_the_step(begin in 0..1000u64, nodes in 1..7u32, ranks in 1..13u32, batch in 1..5u32, samples in 0..1100u64) {
        let sampler = Sampler::new(Rank { rank: 0, world_size: ranks }, batch).unwrap();
        let step = begin..begin + sampler.step();
        let places = step.clone().map(|position| sampler.on_nodes(nodes, samples, begin, position)).collect();
        prop_assert_eq!(sorted(places), step.collect::<Vec<_>>());
    }
}

#[test]
fn equal_shards_never_leave_their_node() {
    let counts = [12; 24];
    let of = |seed, epoch| order(&counts, blocks(4, 3, 5), seed, epoch);
    for epoch in 0..12 {
        let order = of(7, epoch);
        let (seen, _) = read(&order, 4, (2, 3), 0, u64::MAX);
        assert_eq!(seen.len(), 288);
        assert!(seen.iter().all(|(node, (shard, _), whole)| *whole && order.shards(*node).contains(shard)));
    }
    let shards =
        |epoch| (0..4).map(|node| of(7, epoch).shards(node).iter().copied().collect()).collect::<Vec<BTreeSet<u32>>>();
    assert!((1..5).all(|epoch| shards(epoch) == shards(0)) && shards(5) != shards(4) && shards(9) == shards(5));
    let samples = |seed, epoch| (0..288).map(|at| of(seed, epoch).get(at).unwrap()).collect::<Vec<_>>();
    assert!(samples(7, 0) != samples(7, 1) && samples(7, 0) != samples(8, 0) && samples(7, 3) == samples(7, 3));
}

/// A change of the order for the same seed needs a new [`ORDER_VERSION`].
#[test]
fn it_stays_what_it_is() {
    let counts: Vec<u64> = (0..100).map(|i| i * 7919 % 50).collect();
    let digest = |shuffle: &str| {
        let order = order(&counts, shuffle.parse().unwrap(), 1234, 56);
        let mut hasher = blake3::Hasher::new();
        for (shard, sample) in (0..order.len()).map(|at| order.get(at).unwrap()) {
            hasher.update(&shard.to_le_bytes()).update(&sample.to_le_bytes());
        }
        hasher.finalize().to_hex()[..16].to_owned()
    };
    assert_eq!(digest("nodes:3:blocks:8:epochs:2"), "9b0630a712f5aaa5");
    assert_eq!(digest("nodes:3:blocks:8:window:640:epochs:2"), "3e5530ca5b997202");
}

/// Compares with an independent implementation of the documentation.
#[test]
fn the_words_say_the_same() {
    let Some(python) = python() else { return };
    let (mut asked, mut wanted) = (String::new(), String::new());
    for i in 0..30u64 {
        let counts: Vec<u64> = (0..1 + i * 3 % 29).map(|k| (k * k * 31 + i) % (3 + i * i)).collect();
        let shuffle = Shuffle::Nodes {
            nodes: 1 + i as u32 % 5,
            shards: 1 + i as u32 % 3,
            window: (i % 2 == 1).then_some(i * 37),
            epochs: 1 + i as u32 % 4,
        };
        let (seed, epoch) = (i.wrapping_mul(0x1234_5678_9abc_def1), i % 7);
        let order = order(&counts, shuffle, seed, epoch);
        let positions: Vec<u64> = (0..order.len()).step_by(1 + order.len() as usize / 50).collect();
        let found: Vec<_> = positions.iter().map(|&at| order.get(at).unwrap()).collect();
        let draws = [0, 1, 2, 3].map(|lane| draw(seed, epoch, 5, lane));
        wanted += &format!("{}\n", serde_json::json!([found, draws]));
        let question = serde_json::json!({
            "counts": counts, "shuffle": shuffle.to_string(), "seed": seed, "epoch": epoch, "positions": positions,
        });
        asked += &format!("{question}\n");
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/shards.py");
    let mut child = Command::new(python).arg(script).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(asked.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    assert_eq!(String::from_utf8(output.stdout).unwrap().replace(' ', ""), wanted);
}

#[test]
fn what_makes_no_order_is_refused() {
    let no_window = Shuffle::Nodes { nodes: 1, shards: 1, window: Some(0), epochs: 1 };
    for shuffle in [blocks(0, 1, 1), blocks(1, 0, 1), blocks(1, 1, 0), blocks(u32::MAX, 1, 1), no_window, Shuffle::Full]
    {
        assert!(NodeOrder::new(&[1, 2], shuffle, 0, 0).is_err(), "{shuffle}");
    }
    assert!(NodeOrder::new(&[MOST_SAMPLES, 1], blocks(2, 1, 1), 0, 0).is_err());
    assert!(ShardOrder::new(&[1], blocks(1, 1, 1), 0, 0).is_err());
    let sampler = Sampler::new(Rank { rank: 0, world_size: 6 }, 1).unwrap();
    assert!(sampler.check_nodes(3).is_ok() && sampler.check_nodes(4).is_err());
    let empty = order(&[0, 0], blocks(3, 1, 1), 1, 0);
    assert!(empty.is_empty() && empty.get(0).is_none() && empty.shards(0).is_empty() && empty.shards(9).is_empty());
}
