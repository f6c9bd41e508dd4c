//! Shards that are read whole before their samples are wanted.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "what goes wrong here fails the test")]

#[path = "shards/mod.rs"]
#[expect(dead_code, reason = "this test takes a part of what they share")]
mod shards;

use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
use packhorse_order::Shuffle;
use packhorse_read::*;
use shards::*;
use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};

const SHARDS: usize = 8;

/// Shards of 2.4 MB.
fn folder() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for shard in 0..SHARDS {
        let sample = |i: usize| {
            (format!("s{shard}-{i:03}"), vec![("bin", vec![shard as u8 + 1; 12_000]), ("txt", payload(shard, i))])
        };
        tar(&dir.path().join(format!("part-{shard}.tar")), (0..180).map(sample));
    }
    dir
}

/// Drops the shards from the page cache; false if the file system is in memory.
fn evict(dir: &Path) -> bool {
    let mut waits = true;
    for shard in 0..SHARDS {
        let file = File::open(dir.join(format!("part-{shard}.tar"))).unwrap();
        file.sync_all().unwrap();
        posix_fadvise(&file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED).unwrap();
        let mut byte = [0];
        let mut into = [std::io::IoSliceMut::new(&mut byte)];
        // Other errors are those of file systems that do not tell.
        let read = rustix::io::preadv2(&file, &mut into, 1 << 20, rustix::io::ReadWriteFlags::NOWAIT);
        waits &= read == Err(rustix::io::Errno::AGAIN);
    }
    waits
}

fn options() -> LoaderOptions {
    LoaderOptions {
        threads: 1,
        readers: 1,
        ahead: 1,
        shuffle: Some(Shuffle::Blocks { shards: 2 }),
        ..LoaderOptions::new(4)
    }
}

fn started(dataset: &Dataset, fields: &[FieldOptions], options: &LoaderOptions) -> Loader<Host> {
    let mut loader = Loader::new(dataset.clone(), fields, options, Host::default()).unwrap();
    loader.next().unwrap().unwrap();
    loader
}

#[test]
fn shards_are_read_once_and_batches_stay_as_they_are() {
    let dir = folder();
    let dataset = dataset(dir.path());
    let without = LoaderOptions { readahead: false, ..options() };
    assert_eq!(all(&dataset, &[], &options()), all(&dataset, &[], &without));
    if !evict(dir.path()) {
        return;
    }
    let loader = started(&dataset, &[], &options());
    let start = Instant::now();
    let mut read = 0;
    while read < 6_000_000 && start.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(10));
        read = loader.stats().readahead_bytes;
    }
    // Two blocks have 9.6 MB; the loader itself read a little of them.
    assert!((6_000_000..10_500_000).contains(&read), "{read}");
    drop(loader);
    // The page cache has it already.
    let again = started(&dataset, &[], &options());
    std::thread::sleep(Duration::from_millis(50));
    assert!(again.stats().readahead_bytes < 2_500_000, "{}", again.stats().readahead_bytes);
}

#[test]
fn reads_that_would_not_pay_are_left_out() {
    let dir = folder();
    let dataset = dataset(dir.path());
    if !evict(dir.path()) {
        return;
    }
    let field = |name: &str| vec![FieldOptions::new(name, FieldKind::Bytes)];
    let few = (0..dataset.len()).step_by(5);
    let cache = CacheOptions { ram: 1 << 20, ..CacheOptions::default() };
    let nothing: [(&str, Dataset, Vec<FieldOptions>, LoaderOptions); 6] = [
        ("off", dataset.clone(), Vec::new(), LoaderOptions { readahead: false, ..options() }),
        (
            "in stored order",
            dataset.clone(),
            Vec::new(),
            LoaderOptions { shuffle: Some(Shuffle::Sequential), ..options() },
        ),
        ("a small field", dataset.clone(), field("txt"), options()),
        ("a fifth of the samples", dataset.subset(few).unwrap(), Vec::new(), options()),
        ("a cache", dataset.clone(), Vec::new(), LoaderOptions { cache, ..options() }),
        ("no threads that read", dataset.clone(), Vec::new(), LoaderOptions { readers: 0, ..options() }),
    ];
    for (what, dataset, fields, options) in nothing {
        let loader = started(&dataset, &fields, &options);
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(loader.stats().readahead_bytes, 0, "{what}");
    }
    let loader = started(&dataset, &field("bin"), &options());
    let start = Instant::now();
    while loader.stats().readahead_bytes == 0 {
        assert!(start.elapsed() < Duration::from_secs(60), "the largest field is worth it");
        std::thread::sleep(Duration::from_millis(5));
    }
}
