//! Batches of samples: the same with any threads, every sample once, and resumable at any step.
#![expect(clippy::unwrap_used, reason = "what goes wrong here fails the test")]

#[path = "shards/mod.rs"]
mod shards;

use packhorse_core::{Event, Kind, Observer};
use packhorse_order::{OrderState, Rank, Shuffle};
use packhorse_read::*;
use shards::*;
use std::sync::{Arc, Mutex};

const COUNTS: [usize; 7] = [40, 3, 0, 77, 12, 1, 50];
const TOTAL: u64 = 183;

fn folder() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    shards::shards(dir.path(), &COUNTS);
    dir
}

fn options(batch: u32) -> LoaderOptions {
    LoaderOptions { threads: 2, seed: 5, shuffle: Some(Shuffle::Blocks { shards: 3 }), ..LoaderOptions::new(batch) }
}

#[test]
fn threads_and_access_change_nothing() {
    let dir = folder();
    let dataset = dataset(dir.path());
    assert_eq!(dataset.len(), TOTAL);
    let wanted = all(&dataset, &[], &LoaderOptions { threads: 0, ..options(8) });
    assert_eq!(wanted.len(), 22);
    for (threads, readers) in [(1, 0), (1, 1), (2, 2), (8, 0), (8, 5)] {
        for access in [Access::Map, Access::Ranges { gap: 0 }, Access::Ranges { gap: 1 << 20 }] {
            for (ahead, budget) in [(1, 1 << 30), (16, 1)] {
                let read = ReadOptions { access, open: 2, ..ReadOptions::default() };
                let options = LoaderOptions { threads, readers, ahead, budget, read, ..options(8) };
                assert!(all(&dataset, &[], &options) == wanted, "{threads} {readers} {access:?} {ahead}");
            }
        }
    }
}

#[test]
fn rows_are_what_was_packed() {
    let dir = folder();
    let dataset = dataset(dir.path());
    let options = LoaderOptions { shuffle: Some(Shuffle::Sequential), remainder: Remainder::Uneven, ..options(10) };
    let loader = Loader::new(dataset, &[], &options, Host::default()).unwrap();
    let mut number = 0;
    let places: Vec<(usize, usize)> =
        COUNTS.iter().enumerate().flat_map(|(shard, n)| (0..*n).map(move |i| (shard, i))).collect();
    for batch in loader {
        let batch = batch.unwrap();
        for row in 0..batch.rows() {
            let (shard, sample) = places[number as usize];
            assert_eq!(batch.key(row), Some(&*format!("s{shard:02}-{sample:04}")));
            assert_eq!(batch.numbers()[row], number);
            assert_eq!(batch.row("txt", row).unwrap(), payload(shard, sample));
            assert_eq!(batch.integers("cls").nth(row), Some((sample % 10) as i64));
            number += 1;
        }
        assert!(batch.row("txt", batch.rows()).is_none() && batch.key(batch.rows()).is_none());
        assert!(batch.used() <= batch.slab().len());
    }
    assert_eq!(number, TOTAL);
}

/// Random keys depend on seed, epoch and sample, not on the row.
#[test]
fn keys_of_draws_are_those_of_samples() {
    let dir = folder();
    let fields = [FieldOptions::new("cls", FieldKind::Auto), FieldOptions::new("draws", FieldKind::Draws)];
    let options = LoaderOptions { epochs: Some(2), ..options(7) };
    let loader = Loader::new(dataset(dir.path()), &fields, &options, Host::default()).unwrap();
    assert_eq!(loader.layout().field("draws").unwrap().shape, [7]);
    for batch in loader {
        let batch = batch.unwrap();
        for (row, key) in batch.integers("draws").enumerate() {
            assert_eq!(key as u64, packhorse_order::draw(5, batch.epoch(), batch.numbers()[row], 0));
        }
    }
}

/// A device that makes a field `cls` of its own.
struct Draws(Host);

impl Device for Draws {
    type Host = HostSlab;
    type Batch = Batch<HostSlab>;

    fn needs(&self) -> Vec<FieldOptions> {
        vec![FieldOptions::new("cls", FieldKind::Draws)]
    }

    fn host(&mut self, bytes: usize) -> packhorse_core::Result<HostSlab> {
        self.0.host(bytes)
    }

    fn upload(&mut self, batch: Batch<HostSlab>) -> packhorse_core::Result<Batch<HostSlab>> {
        self.0.upload(batch)
    }
}

#[test]
fn a_column_with_the_name_of_a_field_of_the_device_is_named() {
    let dir = folder();
    let load = |fields: &[FieldOptions]| {
        Loader::new(dataset(dir.path()), fields, &options(7), Draws(Host::default()))
            .map(|loader| loader.layout().clone())
    };
    for fields in [vec![], vec![FieldOptions::new("cls", FieldKind::Auto)]] {
        let error = load(&fields).unwrap_err();
        assert_eq!((error.kind(), error.field()), (Kind::Config, Some("cls")));
        assert!(error.message().contains("column cls"), "{error}");
    }
    // Under another name both fit.
    let layout = load(&[FieldOptions::new("label", FieldKind::Auto).from("cls")]).unwrap();
    assert!(layout.field("label").is_some() && layout.field("cls").is_some());
    assert!(load(&[FieldOptions::new("cls", FieldKind::Draws)]).is_ok());
}

/// The numbers that ranks get, batch by batch.
fn numbers(dataset: &Dataset, options: &LoaderOptions) -> (Vec<Vec<u64>>, Vec<String>) {
    let mut loader = Loader::new(dataset.clone(), &[], options, Host::default()).unwrap();
    let (mut batches, mut states) = (Vec::new(), vec![loader.state().to_json()]);
    while let Some(batch) = loader.next() {
        batches.push(batch.unwrap().numbers().to_vec());
        states.push(loader.state().to_json());
    }
    (batches, states)
}

#[test]
fn every_sample_once_an_epoch_for_any_ranks_and_policies() {
    let dir = folder();
    let dataset = dataset(dir.path());
    for shuffle in [Shuffle::Sequential, Shuffle::Blocks { shards: 2 }, Shuffle::Full] {
        for ranks in [1, 2, 5] {
            for remainder in [Remainder::Drop, Remainder::Pad, Remainder::Uneven] {
                let per_rank: Vec<Vec<Vec<u64>>> = (0..ranks)
                    .map(|rank| {
                        let rank = Rank { rank, world_size: ranks };
                        let options =
                            LoaderOptions { rank, shuffle: Some(shuffle), remainder, epochs: Some(2), ..options(7) };
                        numbers(&dataset, &options).0
                    })
                    .collect();
                assert!(per_rank.iter().all(|batches| batches.len() == per_rank[0].len()));
                if remainder == Remainder::Pad {
                    assert!(per_rank.iter().flatten().all(|batch| batch.len() == 7));
                }
                let steps = per_rank[0].len() / 2;
                for epoch in [0..steps, steps..2 * steps] {
                    let mut seen: Vec<u64> =
                        per_rank.iter().flat_map(|b| &b[epoch.clone()]).flatten().copied().collect();
                    seen.sort_unstable();
                    let all = seen.len() as u64;
                    seen.dedup();
                    match remainder {
                        Remainder::Drop => assert!(seen.len() as u64 == all && TOTAL - all < 7 * u64::from(ranks)),
                        Remainder::Pad => assert!(seen.len() as u64 == TOTAL && all.is_multiple_of(7)),
                        Remainder::Uneven => assert!(seen.len() as u64 == TOTAL && all == TOTAL),
                    }
                }
            }
        }
    }
}

#[test]
fn going_on_repeats_and_loses_nothing() {
    let dir = folder();
    let dataset = dataset(dir.path());
    let whole = LoaderOptions { remainder: Remainder::Uneven, epochs: Some(2), threads: 0, ..options(9) };
    let (batches, states) = numbers(&dataset, &whole);
    for (step, state) in states.iter().enumerate() {
        assert!(state.len() < 200);
        let state = Some(OrderState::from_json(state).unwrap());
        let (rest, _) = numbers(&dataset, &LoaderOptions { state, ..whole.clone() });
        assert_eq!(rest, batches[step..], "{step}");
    }
    // Other numbers of ranks and batch sizes resume where these stopped.
    for step in [1, 7, 20, 22, 30] {
        let state = Some(OrderState::from_json(&states[step]).unwrap());
        let ranks = 3;
        let rest = (0..ranks).flat_map(|rank| {
            let rank = Rank { rank, world_size: ranks };
            numbers(&dataset, &LoaderOptions { state, rank, batch: 4, ..whole.clone() }).0
        });
        let mut seen: Vec<u64> = batches[..step].iter().flatten().copied().chain(rest.flatten()).collect();
        seen.sort_unstable();
        assert_eq!(seen, (0..2 * TOTAL).map(|i| i / 2).collect::<Vec<_>>());
    }
}

#[test]
fn a_state_of_something_else_is_refused() {
    let dir = folder();
    let dataset = dataset(dir.path());
    let options = options(4);
    let state = Loader::new(dataset.clone(), &[], &options, Host::default()).unwrap().state();
    let refused = |dataset: Dataset, options: LoaderOptions| {
        let options = LoaderOptions { state: Some(state), ..options };
        Loader::new(dataset, &[], &options, Host::default()).map(|_| ()).unwrap_err().message().to_owned()
    };
    assert!(refused(dataset.take(100).unwrap(), options.clone()).contains("dataset"));
    assert!(refused(dataset.clone(), LoaderOptions { seed: 6, ..options.clone() }).contains("seed"));
    assert!(refused(dataset, LoaderOptions { shuffle: Some(Shuffle::Full), ..options }).contains("shuffle"));
}

#[derive(Default)]
struct Skips(Mutex<Vec<String>>);

impl Observer for Skips {
    fn event(&self, event: &Event<'_>) {
        if let Event::Skipped(error) = event {
            self.0.lock().unwrap().push(error.to_string());
        }
    }
}

#[test]
fn bad_samples_are_named_or_left_out() {
    let dir = tempfile::tempdir().unwrap();
    let sample = |i: usize| {
        let label = if i == 13 { b"seven".to_vec() } else { b"3\n".to_vec() };
        let mut fields = vec![("cls", label)];
        if i != 21 {
            fields.push(("bin", vec![i as u8; 5 + i]));
        }
        (format!("k{i}"), fields)
    };
    tar(&dir.path().join("a.tar"), (0..30).map(sample));
    let dataset = dataset(dir.path());
    let fields = [FieldOptions::new("bin", FieldKind::Bytes), FieldOptions::new("cls", FieldKind::Auto)];
    let strict = LoaderOptions { shuffle: Some(Shuffle::Sequential), ..options(10) };
    let outcomes: Vec<_> = Loader::new(dataset.clone(), &fields, &strict, Host::default()).unwrap().collect();
    assert!(outcomes[0].is_ok());
    let errors: Vec<String> = outcomes[1..].iter().map(|outcome| outcome.as_ref().unwrap_err().to_string()).collect();
    assert!(errors[0].contains("k13") && errors[0].contains("cls is not a valid Int64: seven"), "{errors:?}");
    assert!(errors[1].contains("k21") && errors[1].contains("has no field bin"), "{errors:?}");
    assert!(outcomes[1].as_ref().is_err_and(|error| error.kind() == Kind::Content));

    let skips = Arc::new(Skips::default());
    let observer: Arc<dyn Observer> = Arc::clone(&skips) as _;
    let lenient = LoaderOptions { on_error: OnError::Skip, observer, ..strict.clone() };
    let batches: Vec<_> = Loader::new(dataset.clone(), &fields, &lenient, Host::default()).unwrap().collect();
    let rows: Vec<usize> = batches.iter().map(|batch| batch.as_ref().unwrap().rows()).collect();
    assert_eq!((rows, skips.0.lock().unwrap().len()), (vec![10, 9, 9], 2));
    let batch = batches[1].as_ref().unwrap();
    assert_eq!((batch.positions(), batch.numbers()[3], batch.key(3)), (10..20, 14, Some("k14")));
    assert_eq!(batch.row("bin", 3).unwrap(), [14; 19]);
    assert_eq!(batch.field("bin").unwrap().len(), (10..20).filter(|i| *i != 13).map(|i| i + 5).sum::<usize>());

    let optional = [FieldOptions { required: false, ..fields[0].clone() }];
    let batches: Vec<_> = Loader::new(dataset, &optional, &strict, Host::default()).unwrap().collect();
    let last = batches[2].as_ref().unwrap();
    assert_eq!((last.rows(), last.row("bin", 1).unwrap().len(), last.row("bin", 2).unwrap()[0]), (10, 0, 22));
}

#[test]
fn slabs_grow_when_a_batch_needs_it() {
    let dir = tempfile::tempdir().unwrap();
    let sample = |i: usize| (format!("k{i}"), vec![("bin", vec![i as u8; if i == 57 { 1 << 20 } else { 10 }])]);
    tar(&dir.path().join("a.tar"), (0..400).map(sample));
    let dataset = dataset(dir.path());
    for threads in [0, 1, 3] {
        let options = LoaderOptions { threads, shuffle: Some(Shuffle::Sequential), ..options(4) };
        let batches = all(&dataset, &[], &options);
        assert_eq!(batches.len(), 100);
        for (step, (_, _, numbers, _, fields)) in batches.iter().enumerate() {
            let wanted: Vec<u8> = numbers.iter().flat_map(|i| sample(*i as usize).1[0].1.clone()).collect();
            assert!(fields[0].1 == wanted, "{step}");
        }
    }
}

/// A device whose slabs are too short.
struct Short;

impl Device for Short {
    type Host = Vec<u8>;
    type Batch = ();

    fn host(&mut self, bytes: usize) -> packhorse_core::Result<Vec<u8>> {
        Ok(vec![0; bytes / 2])
    }

    fn upload(&mut self, _: Batch<Vec<u8>>) -> packhorse_core::Result<()> {
        Ok(())
    }
}

#[test]
fn what_would_wait_or_end_without_a_word_is_refused() {
    let dir = folder();
    let error = Loader::new(dataset(dir.path()), &[], &options(7), Short).map(drop).unwrap_err();
    assert_eq!(error.kind(), Kind::Config);
    assert!(error.message().contains("a slab of"), "{error}");
    // Without a batch the loop would end at once; of no samples one epoch has none.
    let one = |dataset: Dataset| dataset.loader(500).threads(2);
    let none = || dataset(dir.path()).take(0).unwrap();
    assert_eq!(one(none()).build().unwrap().count(), 0);
    for loader in [one(dataset(dir.path())), one(dataset(dir.path())).endless(), one(none()).endless()] {
        let error = loader.build().map(drop).unwrap_err();
        assert_eq!(error.kind(), Kind::Config);
        assert!(error.message().contains("an epoch has no batch"), "{error}");
    }
}

#[test]
fn parts_of_datasets_and_mixes() {
    let dir = folder();
    let dataset = dataset(dir.path());
    let sequential = LoaderOptions { shuffle: Some(Shuffle::Sequential), remainder: Remainder::Uneven, ..options(16) };
    let keys = |dataset: &Dataset| -> Vec<String> {
        all(dataset, &[], &sequential).into_iter().flat_map(|(_, _, _, keys, _)| keys).collect()
    };
    let whole = keys(&dataset);
    assert_eq!(keys(&dataset.take(41).unwrap()), whole[..41]);
    assert_eq!(keys(&dataset.slice(38..120).unwrap()), whole[38..120]);
    let chosen = [182, 0, 1, 2, 100, 100];
    let subset = dataset.subset(chosen).unwrap();
    assert_eq!(keys(&subset), chosen.map(|i| whole[i as usize].clone()));
    let both = Dataset::concat(&[subset.clone(), dataset.take(3).unwrap()]).unwrap();
    assert_eq!(keys(&both), [&keys(&subset)[..], &whole[..3]].concat());
    assert!(dataset.subset([TOTAL]).is_err() && dataset.slice(0..TOTAL + 1).is_err() && dataset.split("x").is_err());

    let (a, b) = (dataset.take(50).unwrap(), dataset.slice(50..TOTAL).unwrap());
    let mixed = |options: &LoaderOptions| {
        let loader = Loader::mixed(&[(a.clone(), 3.0), (b.clone(), 1.0)], 160, &[], options, Host::default()).unwrap();
        loader.map(|batch| batch.unwrap().numbers().to_vec()).collect::<Vec<_>>()
    };
    let batches = mixed(&options(16));
    let of_a = batches.iter().flatten().filter(|number| **number < 50).count();
    // Slots are shuffled within 128, so the last 32 may hold more of one or of the other.
    assert!(batches.len() == 10 && (104..=128).contains(&of_a), "{of_a}");
    // Two passes and some samples: each sample comes two or three times.
    let times = |n: u64| batches.iter().flatten().filter(|number| **number == n).count();
    assert!((0..50).all(|n| (2..=3).contains(&times(n))));
    assert_eq!(mixed(&LoaderOptions { threads: 0, ..options(16) }), batches);
}

#[test]
fn a_pipe_is_read_in_order_by_any_threads_and_ranks() {
    let dir = tempfile::tempdir().unwrap();
    shards::shards(dir.path(), &[103]);
    let path = dir.path().join("part-000.tar");
    let wanted =
        samples_of(all(&dataset(&path), &[], &LoaderOptions { shuffle: Some(Shuffle::Sequential), ..options(1) }));
    let of_rank = |rank, ranks, threads, readers, remainder| {
        let rank = Rank { rank, world_size: ranks };
        let options = LoaderOptions { rank, threads, readers, remainder, ..options(10) };
        let input = Box::new(Pipe::new("a pipe", Box::new(std::fs::File::open(&path).unwrap())));
        let loader = Loader::stream(&registry(), "webdataset", input, &[], &options, Host::default()).unwrap();
        loader.map(|batch| seen(&batch.unwrap())).collect::<Vec<_>>()
    };
    for (threads, readers) in [(0, 0), (1, 0), (3, 0), (2, 3)] {
        let whole = of_rank(0, 1, threads, readers, Remainder::Uneven);
        assert_eq!(whole.len(), 11);
        assert!(samples_of(whole) == wanted);
        assert_eq!(of_rank(0, 1, threads, readers, Remainder::Drop).len(), 10);
        let ranks: Vec<_> = (0..2).map(|rank| of_rank(rank, 2, threads, readers, Remainder::Uneven)).collect();
        assert_eq!((ranks[0].len(), ranks[1].len()), (6, 6));
        let mut both: Vec<_> = ranks.into_iter().flat_map(samples_of).collect();
        both.sort();
        assert!(both == wanted);
    }
    let cut = std::io::Read::take(std::fs::File::open(&path).unwrap(), 20_000);
    let input = Box::new(Pipe::new("a pipe", Box::new(cut)));
    let loader = Loader::stream(&registry(), "webdataset", input, &[], &options(1), Host::default());
    let error = loader.map_or_else(|error| error, |loader| loader.filter_map(Result::err).next().unwrap());
    assert!(error.to_string().contains("a pipe") && error.to_string().contains("cut short"), "{error}");
}

/// A `.npy` of these numbers.
fn npy(numbers: &[f32]) -> Vec<u8> {
    npy_of("<f4", numbers.len(), numbers.iter().flat_map(|number| number.to_le_bytes()))
}

fn npy_of(dtype: &str, len: impl std::fmt::Display, values: impl IntoIterator<Item = u8>) -> Vec<u8> {
    let mut header = format!("{{'descr': '{dtype}', 'fortran_order': False, 'shape': ({len},), }}");
    header.push_str(&" ".repeat(63 - (10 + header.len()) % 64));
    header.push('\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend(values);
    bytes
}

#[test]
fn arrays_in_blobs_are_read_from_shards_and_from_pipes() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.tar");
    let numbers = |i: usize, n: usize| (0..n).map(|k| (i * 10 + k) as f32).collect::<Vec<f32>>();
    let mask = |i: usize, k: usize| (i * 7 + k * 3).is_multiple_of(4);
    let sample = |i: usize| {
        let fields = vec![
            ("x.npy", npy(&numbers(i, 3))),
            ("t.npy", npy(&numbers(i, i % 5))),
            ("mask.npy", npy_of("|b1", 11, (0..11).map(|k| u8::from(mask(i, k))))),
            ("json", format!("{{\"size\": {{\"wide\": {i}}}, \"ok\": [true]}}").into_bytes()),
        ];
        (format!("k{i:02}"), fields)
    };
    tar(&path, (0..24).map(sample));
    let fields = [
        FieldOptions::new("x", FieldKind::Dense).from("y.npy;x.npy"),
        FieldOptions::new("t", FieldKind::Ragged).from("t.npy"),
        FieldOptions::new("mask", FieldKind::Bits).from("mask.npy"),
        FieldOptions::new("wide", FieldKind::Json("size.wide".into(), packhorse_core::DataType::UInt16)).from("json"),
        FieldOptions::new("ok", FieldKind::Json("ok.0".into(), packhorse_core::DataType::UInt8)).from("json"),
    ];
    let options = LoaderOptions { shuffle: Some(Shuffle::Sequential), ..options(4) };
    let input = Box::new(Pipe::new("a pipe", Box::new(std::fs::File::open(&path).unwrap())));
    let stream = Loader::stream(&registry(), "webdataset", input, &fields, &options, Host::default()).unwrap();
    let loader = Loader::new(dataset(&path), &fields, &options, Host::default()).unwrap();
    let bytes = |numbers: &[f32]| numbers.iter().flat_map(|n| n.to_le_bytes()).collect::<Vec<u8>>();
    for loader in [loader, stream] {
        let mut count = 0;
        for batch in loader {
            let batch = batch.unwrap();
            for row in 0..batch.rows() {
                assert_eq!(batch.row("x", row).unwrap(), bytes(&numbers(count, 3)));
                assert_eq!(batch.row("t", row).unwrap(), bytes(&numbers(count, count % 5)));
                let bits = batch.row("mask", row).unwrap();
                assert!(bits.len() == 2 && (0..11).all(|k| (bits[k / 8] >> (k % 8) & 1 == 1) == mask(count, k)));
                assert_eq!(bits[1] >> 3, 0);
                assert_eq!(batch.integers("wide").nth(row), Some(count as i64));
                assert_eq!(batch.integers("ok").nth(row), Some(1));
                count += 1;
            }
        }
        assert_eq!(count, 24);
    }
}

#[test]
fn ragged_complex_numbers_are_pairs() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.tar");
    let bytes = |count: usize| (0..2 * count).flat_map(|n| (n as f32).to_le_bytes()).collect::<Vec<u8>>();
    let sample = |i: usize| {
        let fields = vec![
            ("one.npy", npy_of("<c8", i, bytes(i))),
            ("two.npy", npy_of("<c8", format_args!("{i}, 3"), bytes(3 * i))),
            ("when.npy", npy_of(if i < 3 { "<M8[s]" } else { "<M8[D]" }, i, bytes(i))),
        ];
        (format!("k{i}"), fields)
    };
    tar(&path, (0..4).map(sample));
    let dataset = dataset(&path);
    let fields = ["one.npy", "two.npy"].map(|name| FieldOptions::new(name, FieldKind::Ragged));
    let batch = BatchDecoder::new(&dataset, &fields, &options(4)).unwrap().decode(&[0, 1, 2, 3], 0).unwrap();
    let (one, two) = (batch.layout().field("one.npy").unwrap(), batch.layout().field("two.npy").unwrap());
    assert!(one.data_type == packhorse_core::DataType::Float32 && one.shape == [0, 2] && two.shape == [0, 2]);
    assert_eq!(batch.integers("one.npy.offsets").collect::<Vec<_>>(), [0, 0, 1, 3, 6]);
    assert_eq!(batch.integers("two.npy.offsets").collect::<Vec<_>>(), [0, 0, 3, 9, 18]);
    assert!(batch.field("one.npy.shape").is_none());
    assert_eq!(batch.integers("two.npy.shape").collect::<Vec<_>>(), [0, 3, 2, 1, 3, 2, 2, 3, 2, 3, 3, 2]);
    for row in 0..4 {
        assert_eq!(
            (batch.row("one.npy", row), batch.row("two.npy", row)),
            (Some(&*bytes(row)), Some(&*bytes(3 * row)))
        );
    }
    // Ticks of another unit are other times.
    let when = [FieldOptions::new("when.npy", FieldKind::Ragged)];
    let decoder = BatchDecoder::new(&dataset, &when, &options(4)).unwrap();
    assert_eq!(decoder.decode(&[0, 1, 2], 0).unwrap().integers("when.npy.offsets").last(), Some(3));
    assert_eq!(decoder.decode(&[3], 0).unwrap_err().kind(), Kind::Content);
}

#[test]
fn what_was_cut_into_many_runs_is_still_shuffled_by_shards() {
    let dir = folder();
    let dataset = dataset(dir.path());
    let odd = dataset.subset((0..TOTAL).filter(|number| number % 2 == 1)).unwrap();
    let options =
        LoaderOptions { shuffle: Some(Shuffle::Blocks { shards: 1 }), remainder: Remainder::Uneven, ..options(8) };
    let keys: Vec<String> = all(&odd, &[], &options).into_iter().flat_map(|(_, _, _, keys, _)| keys).collect();
    let mut shards: Vec<&str> = keys.iter().map(|key| &key[..3]).collect();
    let mut sorted = keys.clone();
    sorted.sort();
    let whole = LoaderOptions { shuffle: Some(Shuffle::Sequential), ..options };
    let wanted: Vec<String> = all(&odd, &[], &whole).into_iter().flat_map(|(_, _, _, keys, _)| keys).collect();
    assert!(sorted == wanted && keys != wanted);
    // The samples of a shard are adjacent.
    shards.dedup();
    assert_eq!(shards.len(), 5);
}

#[test]
fn a_line_that_is_bad_costs_itself() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.jsonl");
    let line = |i: usize| if i == 57 { "{\"text\": 5}".to_owned() } else { format!("{{\"text\": \"number {i}\"}}") };
    std::fs::write(&path, (0..200).map(|i| line(i) + "\n").collect::<String>()).unwrap();
    let skips = Arc::new(Skips::default());
    let observer: Arc<dyn Observer> = Arc::clone(&skips) as _;
    let options = LoaderOptions { on_error: OnError::Skip, observer, shuffle: Some(Shuffle::Full), ..options(10) };
    let loader = Loader::new(dataset(&path), &[], &options, Host::default()).unwrap();
    let rows: usize = loader.map(|batch| batch.unwrap().rows()).sum();
    assert_eq!((rows, skips.0.lock().unwrap().len()), (199, 1));
}

/// Key and all fields of each sample.
fn samples_of(batches: Vec<Seen>) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    for (_, _, _, keys, fields) in batches {
        let field = |name: &str| &fields.iter().find(|(known, _)| known == name).unwrap().1;
        let ends: Vec<usize> =
            field("txt.offsets").as_chunks().0.iter().map(|end| u64::from_le_bytes(*end) as usize).collect();
        for (row, key) in keys.into_iter().enumerate() {
            let label = &field("cls")[row * 8..row * 8 + 8];
            found.push((key, [label, &field("txt")[ends[row]..ends[row + 1]]].concat()));
        }
    }
    found
}
