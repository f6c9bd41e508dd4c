//! Loaders of datasets with shards that are missing or damaged.
#![expect(clippy::unwrap_used, reason = "what goes wrong here fails the test")]

use packhorse::core::{Error, Event, Observer};
use packhorse::read::order::Shuffle;
use packhorse::read::{BatchDecoder, Dataset, FieldKind, FieldOptions, LoaderOptions, OnError, Remainder, Verify};
use packhorse::read::{Host, Loader};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// Samples, and those of a shard.
const SAMPLES: u64 = 60;
const OF_SHARD: u64 = 10;

/// Numbers, packed into six shards of `to`.
fn numbers(dir: &Path, to: &str) -> PathBuf {
    let (from, out) = (dir.join("files"), dir.join(to));
    if std::fs::create_dir(&from).is_ok() {
        (0..SAMPLES).for_each(|i| std::fs::write(from.join(format!("{i:04}.cls")), i.to_string()).unwrap());
    }
    let recipe = packhorse::Recipe::new(&from, to, &out).with("samples-per-shard", "10").unwrap();
    packhorse::session().pack(&recipe).unwrap();
    out
}

/// The shards of a dataset, by name.
fn shards(out: &Path) -> Vec<PathBuf> {
    let manifest: serde_json::Value =
        serde_json::from_slice(&std::fs::read(out.join("dataset.json")).unwrap()).unwrap();
    let name = |shard: &serde_json::Value| out.join(shard["file"].as_str().unwrap());
    manifest["shards"].as_array().unwrap().iter().map(name).collect()
}

/// How often each error was reported.
#[derive(Default)]
struct Skipped(Mutex<BTreeMap<String, usize>>);

impl Observer for Skipped {
    fn event(&self, event: &Event<'_>) {
        if let Event::Skipped(error) = event {
            *self.0.lock().unwrap().entry(error.to_string()).or_default() += 1;
        }
    }
}

fn options(threads: usize, on_error: OnError) -> LoaderOptions {
    let shuffle = Shuffle::Blocks { shards: 3 };
    LoaderOptions {
        threads,
        on_error,
        shuffle: Some(shuffle),
        seed: 3,
        remainder: Remainder::Uneven,
        ..LoaderOptions::new(8)
    }
}

fn field() -> [FieldOptions; 1] {
    [FieldOptions::new("n", FieldKind::Auto).from("cls")]
}

/// The numbers of each batch of an epoch, and the errors.
fn loaded(dataset: &Dataset, options: &LoaderOptions) -> (Vec<Vec<i64>>, Vec<Error>) {
    let (mut batches, mut errors) = (Vec::new(), Vec::new());
    for batch in Loader::new(dataset.clone(), &field(), options, Host::default()).unwrap() {
        match batch {
            Ok(batch) => batches.push(batch.integers("n").collect()),
            Err(error) => errors.push(error),
        }
    }
    (batches, errors)
}

fn open(out: &Path) -> Dataset {
    packhorse::open(out.to_str().unwrap()).unwrap()
}

/// Cuts a file in half.
fn cut(path: &Path) {
    let file = std::fs::File::options().write(true).open(path).unwrap();
    file.set_len(file.metadata().unwrap().len() / 2).unwrap();
}

/// The batches without the samples of some shards.
fn without(batches: &[Vec<i64>], shards: &[u64]) -> Vec<Vec<i64>> {
    let is_left = |n: &&i64| !shards.contains(&(**n as u64 / OF_SHARD));
    batches.iter().map(|batch| batch.iter().filter(is_left).copied().collect()).collect()
}

#[test]
fn they_cost_their_own_samples_alone() {
    let dir = tempfile::tempdir().unwrap();
    for to in ["webdataset", "parquet", "hdf5", "arrow", "tfrecord"] {
        let out = numbers(dir.path(), to);
        let all = loaded(&open(&out), &options(0, OnError::Fail)).0;
        assert_eq!(all.concat().len() as u64, SAMPLES, "{to}");
        let shards = shards(&out);

        // Each batch with one of their samples is an error, and the others come.
        cut(&shards[4]);
        let whole: Vec<_> =
            all.iter().filter(|batch| without(&[batch.to_vec()], &[4])[0] == **batch).cloned().collect();
        let (found, errors) = loaded(&open(&out), &options(2, OnError::Fail));
        assert_eq!((&found, errors.len()), (&whole, all.len() - whole.len()), "{to}");
        assert!(errors.iter().all(|error| error.sample().is_none()), "{to}: {errors:?}");

        // Skipped, they cost their own samples; also the first shard, in which the kinds of fields are found else.
        std::fs::remove_file(&shards[0]).unwrap();
        for threads in [0, 3] {
            let skipped = Arc::new(Skipped::default());
            let observer = Arc::clone(&skipped) as _;
            let (found, errors) = loaded(&open(&out), &LoaderOptions { observer, ..options(threads, OnError::Skip) });
            assert!(errors.is_empty(), "{to}: {errors:?}");
            assert_eq!(found, without(&all, &[0, 4]), "{to}");
            // Each shard has one text, so that a warning of it is shown once.
            let skipped = skipped.0.lock().unwrap();
            assert_eq!(skipped.values().copied().collect::<Vec<_>>(), [10, 10], "{to}: {skipped:?}");
            for shard in [0, 4] {
                let name = shards[shard].file_name().unwrap().to_str().unwrap();
                assert!(skipped.keys().any(|text| text.contains(name)), "{to}: {skipped:?}");
            }
        }
    }
}

#[test]
fn a_batch_of_lost_samples_alone_is_empty() {
    let dir = tempfile::tempdir().unwrap();
    for to in ["webdataset", "parquet"] {
        let out = numbers(dir.path(), to);
        cut(&shards(&out)[2]);
        let decoder = |on_error| BatchDecoder::new(&open(&out), &field(), &options(0, on_error)).unwrap();
        let numbers = |batch: packhorse::read::Batch<_>| batch.integers("n").collect::<Vec<i64>>();
        let skipping = decoder(OnError::Skip);
        assert!(numbers(skipping.decode(&[20, 29, 20], 0).unwrap()).is_empty(), "{to}");
        assert_eq!(numbers(skipping.decode(&[29, 30, 20, 7, 21], 0).unwrap()), [30, 7], "{to}");
        let error = decoder(OnError::Fail).decode(&[19, 20], 0).map(drop).unwrap_err();
        assert!(error.input().is_some_and(|input| input.contains("shard-000002")), "{to}: {error}");
    }
}

/// A shard whose bytes were changed is found by its digest, once; mended, it comes back.
#[test]
fn what_was_mended_comes_back() {
    let dir = tempfile::tempdir().unwrap();
    let out = numbers(dir.path(), "parquet");
    let shard = shards(&out).swap_remove(3);
    let sound = std::fs::read(&shard).unwrap();
    let mut flipped = sound.clone();
    flipped[sound.len() / 3] ^= 1;
    std::fs::write(&shard, flipped).unwrap();
    let mut options = options(0, OnError::Skip);
    options.read.verify = Verify::Full;
    options.epochs = None;
    let mut loader = Loader::new(open(&out), &field(), &options, Host::default()).unwrap();
    let mut epoch = || {
        let samples = loader.by_ref().map(|batch| batch.unwrap().integers("n").collect::<Vec<i64>>());
        samples.take(SAMPLES.div_ceil(8) as usize).flatten().collect::<Vec<i64>>()
    };
    let mut found = epoch();
    found.sort_unstable();
    assert_eq!(found, (0..SAMPLES as i64).filter(|n| !(30..40).contains(n)).collect::<Vec<_>>());
    std::fs::write(&shard, sound).unwrap();
    assert!((0..10_000).any(|_| epoch().len() as u64 == SAMPLES));
}

/// Takes an epoch of a loader without an end: the numbers, sorted, and the errors.
fn epoch(loader: &mut Loader<Host>) -> (Vec<i64>, Vec<Error>) {
    let (mut numbers, mut errors) = (Vec::new(), Vec::new());
    for batch in loader.by_ref().take(SAMPLES.div_ceil(8) as usize) {
        match batch {
            Ok(batch) => numbers.extend(batch.integers("n")),
            Err(error) => errors.push(error),
        }
    }
    numbers.sort_unstable();
    (numbers, errors)
}

#[test]
fn shards_that_are_lost_while_they_are_open_cost_their_own_samples() {
    let dir = tempfile::tempdir().unwrap();
    for to in ["webdataset", "parquet", "hdf5", "arrow", "tfrecord"] {
        for removed in [true, false] {
            let place = dir.path().join(format!("{to}-{removed}"));
            std::fs::create_dir(&place).unwrap();
            let out = numbers(&place, to);
            let mut options = LoaderOptions { epochs: None, ..options(0, OnError::Skip) };
            options.read.rows = 0;
            let mut loader = Loader::new(open(&out), &field(), &options, Host::default()).unwrap();
            assert_eq!(epoch(&mut loader).0, (0..SAMPLES as i64).collect::<Vec<_>>(), "{to}");
            let shard = shards(&out).swap_remove(3);
            match removed {
                true => std::fs::remove_file(&shard).unwrap(),
                false => cut(&shard),
            }
            let left: Vec<i64> = (0..SAMPLES as i64).filter(|n| !(30..40).contains(n)).collect();
            for _ in 0..2 {
                let (found, errors) = epoch(&mut loader);
                assert!(errors.is_empty(), "{to}: {errors:?}");
                // A file that is open may be read after it was removed, and rows may be in memory still.
                let all = (removed || to != "webdataset") && found.len() as u64 == SAMPLES;
                assert!(all || found == left, "{to}: {found:?}");
            }
        }
    }
}

/// A dataset that is gone as a whole is not a dataset of lost shards: its file system may be back soon.
#[test]
fn a_dataset_that_is_gone_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    for to in ["webdataset", "parquet"] {
        let out = numbers(dir.path(), to);
        let dataset = open(&out);
        let mut loader = Loader::new(dataset, &field(), &options(0, OnError::Skip), Host::default()).unwrap();
        std::fs::rename(&out, dir.path().join("elsewhere")).unwrap();
        let (found, errors) = epoch(&mut loader);
        // The first shard told the kinds of fields.
        assert!(found.len() as u64 <= OF_SHARD && errors.len() as u64 >= SAMPLES.div_ceil(8) / 2, "{to}: {errors:?}");
        std::fs::rename(dir.path().join("elsewhere"), &out).unwrap();
    }
}
