//! Properties of every order of samples in shards: each sample once per epoch, with any ranks and any interruptions;
//! and pinned results.

#![expect(clippy::unwrap_used, reason = "what goes wrong here fails the test")]

use packhorse_order::*;
use packhorse_testkit::external::python;
use proptest::prelude::*;
use std::io::Write;
use std::process::{Command, Stdio};

fn all(order: &ShardOrder) -> Vec<(u32, u64)> {
    (0..order.len()).map(|position| order.get(position).unwrap()).collect()
}

/// All samples, in order.
fn samples(counts: &[u64]) -> Vec<(u32, u64)> {
    (0u32..).zip(counts).flat_map(|(shard, &count)| (0..count).map(move |sample| (shard, sample))).collect()
}

fn sorted<T: Ord>(mut values: Vec<T>) -> Vec<T> {
    values.sort_unstable();
    values
}

fn counts() -> impl Strategy<Value = Vec<u64>> {
    prop::collection::vec(prop_oneof![Just(0), 1..4u64, 1..80u64], 0..40)
}

fn shuffles() -> impl Strategy<Value = Shuffle> {
    let blocks = (1..50u32).prop_map(|shards| Shuffle::Blocks { shards });
    let windows = (1..50u32, 1..2000u64).prop_map(|(shards, samples)| Shuffle::Windows { shards, samples });
    prop_oneof![Just(Shuffle::Sequential), blocks, windows, Just(Shuffle::Full)]
}

/// The samples that a rank takes in a run that ends after some steps.
#[derive(Debug)]
struct Run {
    ranks: u32,
    batch: u32,
    steps: u64,
}

fn runs() -> impl Strategy<Value = Vec<Run>> {
    let run = (1..9u32, 1..12u32, 0..6u64).prop_map(|(ranks, batch, steps)| Run { ranks, batch, steps });
    prop::collection::vec(run, 1..6)
}

proptest! {
    #[test]
    fn every_sample_comes_once_an_epoch(counts in counts(), shuffle in shuffles(), seed: u64, epoch: u64) {
        let order = ShardOrder::new(&counts, shuffle, seed, epoch).unwrap();
        prop_assert_eq!(order.len(), counts.iter().sum::<u64>());
        prop_assert_eq!(sorted(all(&order)), samples(&counts));
        prop_assert!(order.get(order.len()).is_none() && order.get(u64::MAX).is_none());
    }

    #[test]
    fn blocks_cover_all_positions_and_hold_their_shards(counts in counts(), shuffle in shuffles(), seed: u64) {
        let order = ShardOrder::new(&counts, shuffle, seed, 0).unwrap();
        let (mut at, mut seen) = (0, Vec::new());
        for (number, block) in (0..).zip(order.blocks(0)) {
            prop_assert_eq!((block.number, block.positions.start), (number, at));
            let here = sorted(block.positions.clone().map(|position| order.get(position).unwrap().0).collect());
            let mut shards = here;
            shards.dedup();
            prop_assert_eq!(shards, sorted(block.shards.to_vec()));
            prop_assert!(block.positions.clone().all(|position| order.block(position).as_ref() == Some(&block)));
            if let Shuffle::Blocks { shards } | Shuffle::Windows { shards, .. } = shuffle {
                let last = block.positions.end == order.len();
                prop_assert!(block.shards.len() == shards as usize || last && block.shards.len() < shards as usize);
            }
            at = block.positions.end;
            seen.extend_from_slice(block.shards);
        }
        prop_assert_eq!(at, order.len());
        let full = (0u32..).zip(&counts).filter(|(_, n)| **n > 0).map(|(shard, _)| shard).collect::<Vec<_>>();
        prop_assert_eq!(sorted(seen), full);
    }

    /// Consecutive runs, each with its own ranks and batch size and stopped after some steps, together take a prefix of
    /// the epoch, each sample once.
    #[test]
    fn ranks_share_and_resume(counts in counts(), shuffle in shuffles(), seed: u64, runs in runs()) {
        let order = ShardOrder::new(&counts, shuffle, seed, 1).unwrap();
        let (mut consumed, mut taken) = (0, Vec::new());
        for run in &runs {
            let mut lengths = Vec::new();
            for rank in 0..run.ranks {
                let sampler = Sampler::new(Rank { rank, world_size: run.ranks }, run.batch).unwrap();
                let full = sampler.steps(order.len(), consumed, false);
                // A full step is full on every rank.
                for step in 0..full {
                    prop_assert_eq!(sampler.range(order.len(), consumed, step).count(), run.batch as usize);
                }
                prop_assert!(full * sampler.step() + sampler.step() > order.len() - consumed);
                let steps = run.steps.min(sampler.steps(order.len(), consumed, true));
                lengths.push(steps);
                for step in 0..steps {
                    taken.extend(sampler.range(order.len(), consumed, step).map(|at| order.get(at).unwrap()));
                }
            }
            prop_assert!(lengths.windows(2).all(|two| two[0] == two[1]));
            let step = u64::from(run.ranks) * u64::from(run.batch);
            consumed = (consumed + lengths[0] * step).min(order.len());
        }
        let prefix: Vec<_> = (0..consumed).map(|at| order.get(at).unwrap()).collect();
        prop_assert_eq!(sorted(taken), sorted(prefix));
    }

    /// From every position, a run with another world size takes exactly the remaining samples.
    #[test]
    fn every_position_is_one_to_resume_at(counts in counts(), ranks in 1..5u32, batch in 1..6u32, seed: u64) {
        let order = ShardOrder::new(&counts, Shuffle::Blocks { shards: 4 }, seed, 0).unwrap();
        for consumed in 0..=order.len() {
            let mut taken = Vec::new();
            for rank in 0..ranks {
                let sampler = Sampler::new(Rank { rank, world_size: ranks }, batch).unwrap();
                let steps = 0..sampler.steps(order.len(), consumed, true);
                taken.extend(steps.flat_map(|step| sampler.range(order.len(), consumed, step)));
            }
            prop_assert_eq!(sorted(taken), (consumed..order.len()).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_mix_draws_in_turn(weights in prop::collection::vec(0.01..10f64, 1..12), from: u32) {
        let sizes: Vec<u64> = (1..=weights.len() as u64).map(|i| i * 37).collect();
        let mix = Mix::new(&weights, &sizes).unwrap();
        prop_assert_eq!(mix.slots().sum::<u64>(), SLOTS);
        let from = u64::from(from);
        let mut next: Vec<u64> = (0..weights.len() as u32).map(|dataset| mix.drawn(dataset, from)).collect();
        let sum: f64 = weights.iter().sum();
        for position in from..from + SLOTS {
            let sample = mix.get(position);
            let dataset = sample.dataset as usize;
            prop_assert_eq!(sample.drawn, next[dataset]);
            prop_assert_eq!(sample.epoch * sizes[dataset] + sample.position, sample.drawn);
            prop_assert!(sample.position < sizes[dataset]);
            next[dataset] += 1;
        }
        for (dataset, slots) in mix.slots().enumerate() {
            prop_assert_eq!(next[dataset] - mix.drawn(dataset as u32, from), slots);
            prop_assert!((slots as f64 - weights[dataset] / sum * SLOTS as f64).abs() < 1.0);
            let share = slots as f64 / SLOTS as f64;
            for end in (0..SLOTS).step_by(997) {
                let off = mix.drawn(dataset as u32, end) as f64 - share * end as f64;
                // Shuffled within 128 slots, half of them may come first.
                prop_assert!(off.abs() <= 32.0 + weights.len() as f64, "dataset {dataset} is {off} off at {end}");
            }
        }
    }

    #[test]
    fn a_state_comes_back(dataset: u64, samples: u64, shuffle in shuffles(), seed: u64, epoch: u64, part in 0.0..=1f64) {
        let consumed = ((samples as f64 * part) as u64).min(samples);
        let state = OrderState { dataset, samples, shuffle, seed, epoch, consumed };
        prop_assert_eq!(OrderState::from_json(&state.to_json()).unwrap(), state);
    }

    #[test]
    fn any_text_is_a_state_or_an_error(text in "\\PC{0,80}") {
        let _ = OrderState::from_json(&text);
    }
}

#[test]
fn epochs_and_seeds_differ() {
    let counts = vec![50; 40];
    for shuffle in [Shuffle::Full, Shuffle::Blocks { shards: 8 }, Shuffle::Windows { shards: 8, samples: 200 }] {
        let of = |seed, epoch| all(&ShardOrder::new(&counts, shuffle, seed, epoch).unwrap());
        let base = of(1, 0);
        for other in [of(1, 1), of(2, 0), of(1, 2), of(u64::MAX, 0), of(1, u64::MAX)] {
            let same = base.iter().zip(&other).filter(|(a, b)| a == b).count();
            assert!(same < 10, "{same} of 2000 samples stand where they stood");
        }
        assert_eq!(base, of(1, 0));
    }
}

/// A change of the order for the same seed needs a new [`ORDER_VERSION`].
#[test]
fn it_stays_what_it_is() {
    assert_eq!(ORDER_VERSION, 1);
    let counts: Vec<u64> = (0..100).map(|i| i * 7919 % 50).collect();
    let digest = |shuffle, seed, epoch| {
        let mut hasher = blake3::Hasher::new();
        for (shard, sample) in all(&ShardOrder::new(&counts, shuffle, seed, epoch).unwrap()) {
            hasher.update(&shard.to_le_bytes()).update(&sample.to_le_bytes());
        }
        hasher.finalize().to_hex()[..16].to_owned()
    };
    let found = [
        digest(Shuffle::Sequential, 1, 0),
        digest(Shuffle::Blocks { shards: 8 }, 1, 0),
        digest(Shuffle::Blocks { shards: 8 }, 1, 1),
        digest(Shuffle::Full, 1234, 56),
        digest(Shuffle::Windows { shards: 16, samples: 320 }, 1, 0),
    ];
    assert_eq!(found, GOLDEN);
    let order = ShardOrder::new(&[3, 0, 4, 5], Shuffle::Full, 7, 0).unwrap();
    assert_eq!(all(&order), FULL);
    assert_eq!([0, 1, 2].map(|lane| draw(1, 2, 3, lane)), DRAWN);
    let rng = AugmentRng::new(1, 2, 3);
    assert_eq!((rng.u64(0), rng.below(0, 1000)), (DRAWN[0], 688));
    let mix = Mix::new(&[0.7, 0.2, 0.1], &[1000, 10, 5]).unwrap();
    let mut hasher = blake3::Hasher::new();
    for position in 0..SLOTS {
        hasher.update(&[mix.get(position).dataset as u8]);
    }
    assert_eq!(hasher.finalize().to_hex()[..16], *"882ec0df540a2ffd");
}

const GOLDEN: [&str; 5] =
    ["6e6451c1f212aa1b", "a48b0e6cf0e1e113", "7090b0ed1625b3bf", "3ee20c69e697d7eb", "5ed28cb2e735d09b"];
const FULL: [(u32, u64); 12] =
    [(0, 1), (3, 3), (3, 0), (2, 1), (2, 2), (3, 1), (2, 3), (0, 0), (0, 2), (3, 2), (3, 4), (2, 0)];
const DRAWN: [u64; 3] = [12_691_404_451_552_938_934, 5_007_496_330_979_469_729, 1_062_137_951_083_948_779];

/// Compares with an independent implementation of the documentation.
#[test]
fn the_words_say_the_same() {
    let Some(python) = python() else { return };
    let (mut asked, mut wanted) = (String::new(), String::new());
    for (i, shuffle) in
        ["sequential", "full", "blocks:1", "blocks:3", "blocks:8", "blocks:3:window:64", "blocks:8:window:600"]
            .into_iter()
            .cycle()
            .take(56)
            .enumerate()
    {
        let i = i as u64;
        let counts: Vec<u64> = (0..1 + i * 3 % 29).map(|k| (k * k * 31 + i) % (3 + i * i * i)).collect();
        let (seed, epoch) = (i.wrapping_mul(0x1234_5678_9abc_def1), i % 3);
        let order = ShardOrder::new(&counts, shuffle.parse().unwrap(), seed, epoch).unwrap();
        let positions: Vec<u64> = (0..order.len()).step_by(1 + order.len() as usize / 50).collect();
        let found: Vec<_> = positions.iter().map(|&at| order.get(at).unwrap()).collect();
        let draws = [0, 1, 2, 3].map(|lane| draw(seed, epoch, 5, lane));
        wanted += &format!("{}\n", serde_json::json!([found, draws]));
        let question = serde_json::json!({
            "counts": counts, "shuffle": shuffle, "seed": seed, "epoch": epoch, "positions": positions,
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
