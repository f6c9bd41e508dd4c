//! Loaders whose nodes read shards of their own.
#![expect(clippy::unwrap_used, reason = "what goes wrong here fails the test")]

#[path = "shards/mod.rs"]
#[expect(dead_code, reason = "this test takes a part of what they share")]
mod shards;

use packhorse_core::Kind;
use packhorse_order::{OrderState, Rank, Shuffle};
use packhorse_read::*;
use shards::*;
use std::collections::{BTreeMap, BTreeSet};

const SHARDS: usize = 12;
const EACH: usize = 20;
const NODES: u32 = 3;

fn options(rank: Rank, batch: u32) -> LoaderOptions {
    LoaderOptions {
        rank,
        threads: 1,
        seed: 5,
        shuffle: Some(Shuffle::Nodes { nodes: NODES, shards: 2, window: None, epochs: 2 }),
        remainder: Remainder::Uneven,
        epochs: Some(4),
        ..LoaderOptions::new(batch)
    }
}

fn folder(counts: &[usize]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    shards::shards(dir.path(), counts);
    dir
}

/// Epoch, node and key of each sample of `steps` steps, and the state after them.
fn taken(
    dataset: &Dataset,
    (per_node, batch): (u32, u32),
    state: Option<OrderState>,
    steps: usize,
) -> (Vec<(u64, u32, String)>, OrderState) {
    let (mut seen, mut states) = (Vec::new(), BTreeSet::new());
    for rank in 0..NODES * per_node {
        let rank = Rank { rank, world_size: NODES * per_node };
        let options = LoaderOptions { state, ..options(rank, batch) };
        let mut loader = Loader::new(dataset.clone(), &[], &options, Host::default()).unwrap();
        for batch in loader.by_ref().take(steps) {
            let batch = batch.unwrap();
            let keys = (0..batch.rows()).map(|row| batch.key(row).unwrap().to_owned());
            seen.extend(keys.map(|key| (batch.epoch(), rank.rank / per_node, key)));
        }
        states.insert(loader.state().to_json());
    }
    assert_eq!(states.len(), 1);
    (seen, OrderState::from_json(&states.pop_first().unwrap()).unwrap())
}

#[test]
fn nodes_keep_their_shards_for_some_epochs() {
    let dir = folder(&[EACH; SHARDS]);
    let dataset = dataset(dir.path());
    let (seen, _) = taken(&dataset, (2, 4), None, usize::MAX);
    let mut held: BTreeMap<(u64, u32), BTreeSet<&str>> = BTreeMap::new();
    let mut once = BTreeSet::new();
    for (epoch, node, key) in &seen {
        held.entry((*epoch, *node)).or_default().insert(&key[..3]);
        assert!(once.insert((epoch, key)), "{key} twice in epoch {epoch}");
    }
    assert_eq!(seen.len(), 4 * SHARDS * EACH);
    assert!(held.values().all(|shards| shards.len() == SHARDS / NODES as usize), "{held:?}");
    let of = |epoch| (0..NODES).map(|node| held[&(epoch, node)].clone()).collect::<Vec<_>>();
    assert!(of(0) == of(1) && of(2) == of(3) && of(1) != of(2));
}

/// Uneven shards; the ranks of a node and the batch size change on the way.
#[test]
fn a_state_goes_on_with_other_ranks() {
    let dir = folder(&[40, 3, 0, 77, 12, 1, 50, 8]);
    let dataset = dataset(dir.path());
    let (mut seen, mut state) = (Vec::new(), None);
    for (ranks, steps) in [((2, 4), 3), ((1, 5), 4), ((3, 1), 9), ((2, 3), usize::MAX)] {
        let (more, then) = taken(&dataset, ranks, state, steps);
        seen.extend(more.into_iter().map(|(epoch, _, key)| (epoch, key)));
        state = Some(then);
    }
    seen.sort();
    let keys: Vec<String> = taken(&dataset, (1, 50), None, usize::MAX).0.into_iter().map(|(_, _, key)| key).collect();
    let keys: BTreeSet<String> = keys.into_iter().collect();
    assert_eq!(keys.len(), 191);
    let wanted: Vec<_> = (0..4).flat_map(|epoch| keys.iter().map(move |key| (epoch, key.clone()))).collect();
    assert_eq!(seen, wanted);
}

#[test]
fn a_step_can_be_read_again() {
    let dir = folder(&[EACH; SHARDS]);
    let dataset = dataset(dir.path());
    let rank = Rank { rank: 4, world_size: 6 };
    let mut loader = Loader::new(dataset, &[], &options(rank, 4), Host::default()).unwrap();
    let all: Vec<Seen> = loader.by_ref().map(|batch| seen(&batch.unwrap())).collect();
    for step in [0, 3, 9, 10, 25] {
        assert_eq!(seen(&loader.at(step, rank).unwrap()), all[step as usize], "step {step}");
    }
}

#[test]
fn what_does_not_fit_the_nodes_is_refused() {
    let dir = folder(&[EACH; SHARDS]);
    let dataset = dataset(dir.path());
    let loader = |options: &LoaderOptions| Loader::new(dataset.clone(), &[], options, Host::default()).map(drop);
    let uneven = loader(&options(Rank { rank: 0, world_size: 4 }, 4)).unwrap_err();
    assert_eq!(uneven.kind(), Kind::Config);
    assert!(uneven.to_string().contains("the world size, 4, is not a multiple of the 3 nodes"), "{uneven}");
    let here = options(Rank { rank: 0, world_size: 6 }, 4);
    let (_, state) = taken(&dataset, (2, 4), None, 3);
    let other = Shuffle::Nodes { nodes: 2, shards: 2, window: None, epochs: 2 };
    let error = loader(&LoaderOptions { shuffle: Some(other), state: Some(state), ..here.clone() }).unwrap_err();
    assert!(error.to_string().contains("nodes:3:blocks:2:epochs:2"), "{error}");
    let mixed = Loader::mixed(&[(dataset.clone(), 1.0), (dataset.clone(), 1.0)], 100, &[], &here, Host::default());
    assert_eq!(mixed.map(drop).unwrap_err().kind(), Kind::Unsupported);
}
