//! Metrics: the counters of loaders, and what `--metrics` serves while a command runs.
#![expect(clippy::unwrap_used, reason = "what goes wrong here fails the test")]

use packhorse::read::cache::DirOptions;
use packhorse::read::{CacheOptions, Dataset, Host, Loader, LoaderOptions, LoaderStats, OnError, Remainder};
use packhorse::read::{FieldKind, FieldOptions};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A folder of small files, packed into shards of ten samples.
fn shards(dir: &Path, samples: usize) -> PathBuf {
    let (from, to) = (dir.join("files"), dir.join("shards"));
    std::fs::create_dir(&from).unwrap();
    for i in 0..samples {
        std::fs::write(from.join(format!("{i:04}.bin")), vec![i as u8; 1000 + i]).unwrap();
        std::fs::write(from.join(format!("{i:04}.cls")), i.to_string()).unwrap();
    }
    let recipe = packhorse::Recipe::new(&from, "webdataset", &to).with("samples-per-shard", "10").unwrap();
    packhorse::session().pack(&recipe).unwrap();
    to
}

fn loader(dataset: &Dataset, options: LoaderOptions) -> Loader<Host> {
    let fields = [FieldOptions::new("bin", FieldKind::Bytes), FieldOptions::new("cls", FieldKind::Auto)];
    Loader::new(dataset.clone(), &fields, &options, Host::default()).unwrap()
}

fn options(threads: usize) -> LoaderOptions {
    LoaderOptions { threads, ahead: threads + 2, remainder: Remainder::Uneven, ..LoaderOptions::new(8) }
}

#[test]
fn a_loader_counts_what_it_gives_and_who_waits() {
    let dir = tempfile::tempdir().unwrap();
    let to = shards(dir.path(), 60);
    let dataset = packhorse::open(to.to_str().unwrap()).unwrap();
    for threads in [0, 3] {
        let mut loader = loader(&dataset, options(threads));
        assert_eq!(taken(loader.stats()), LoaderStats::default());
        let (mut batches, mut samples, mut bytes) = (0, 0, 0);
        for batch in loader.by_ref() {
            let batch = batch.unwrap();
            (batches, samples, bytes) = (batches + 1, samples + batch.rows() as u64, bytes + batch.used() as u64);
        }
        let stats = loader.stats();
        assert_eq!((stats.batches, stats.samples, stats.bytes), (batches, samples, bytes));
        assert_eq!((samples, stats.errors, stats.skipped), (60, 0, 0));
        // The first batch is never there before it is asked for where the caller makes it.
        assert!(if threads == 0 { stats.late == batches } else { stats.late <= batches }, "{stats:?}");
        assert!(stats.late == 0 || stats.wait > Duration::ZERO, "{stats:?}");
        assert!(stats.read > Duration::ZERO && stats.decode > Duration::ZERO, "{stats:?}");
        assert!(stats.read_bytes >= 60 * 1000, "{stats:?}");
        assert_eq!((stats.ready, stats.prefetched, stats.prefetched_bytes), (0, 0, 0), "{stats:?}");
        // What was counted outlives the loader; what is ahead does not.
        let counters = loader.counters();
        drop(loader);
        assert_eq!(taken(counters.stats()), taken(stats));
        assert_eq!(counters.stats().ahead, 0);
    }
}

/// Without what threads do by themselves.
fn taken(stats: LoaderStats) -> LoaderStats {
    let LoaderStats { batches, samples, bytes, errors, skipped, late, wait, .. } = stats;
    LoaderStats { batches, samples, bytes, errors, skipped, late, wait, ..LoaderStats::default() }
}

#[test]
fn waits_are_those_of_the_stage_that_is_ahead() {
    let dir = tempfile::tempdir().unwrap();
    let to = shards(dir.path(), 60);
    let dataset = packhorse::open(to.to_str().unwrap()).unwrap();
    let mut loader = loader(&dataset, LoaderOptions { epochs: None, ..options(2) });
    let counters = loader.counters();
    // The caller takes nothing: batches become ready, and then threads wait for room.
    while counters.stats().ready < 4 {
        std::thread::yield_now();
    }
    assert_eq!((counters.stats().ahead, counters.stats().late), (4, 0));
    loader.next().unwrap().unwrap();
    // It was there.
    assert_eq!((counters.stats().late, counters.stats().wait), (0, Duration::ZERO));
    while counters.stats().decode_blocked.is_zero() {
        std::thread::yield_now();
        drop(loader.next());
    }
    drop(loader);
    assert_eq!((counters.stats().ready, counters.stats().prefetched), (0, 0));
}

#[test]
fn skipped_samples_errors_and_caches_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    let to = shards(dir.path(), 60);
    let dataset = packhorse::open(to.to_str().unwrap()).unwrap();
    // Files of bytes are no pictures: every sample of a batch is bad.
    let picture = packhorse::transform::image::View::center_crop(8);
    let field = [FieldOptions::new("bin", FieldKind::Picture(picture))];
    for (on_error, wanted) in [(OnError::Skip, (8, 60, 0)), (OnError::Fail, (0, 0, 8))] {
        let options = LoaderOptions { on_error, ..options(2) };
        let mut loader = Loader::new(dataset.clone(), &field, &options, Host::default()).unwrap();
        loader.by_ref().for_each(drop);
        let stats = loader.stats();
        assert_eq!((stats.batches, stats.skipped, stats.errors), wanted);
    }
    let cache = CacheOptions { ram: 1 << 30, dir: Some(DirOptions::new(dir.path().join("near"))) };
    let mut loader = loader(&dataset, LoaderOptions { cache, epochs: Some(2), ..options(2) });
    loader.by_ref().for_each(|batch| drop(batch.unwrap()));
    let (stats, ram) = (loader.stats(), loader.ram().unwrap());
    assert_eq!((stats.cache_hits, stats.cache_misses), (ram.hits, ram.misses));
    assert!(stats.cache_hits > 0 && stats.cache_misses > 0 && stats.shards_cached >= 6, "{stats:?}");
    assert_eq!(stats.shards_opened, 0);
}
