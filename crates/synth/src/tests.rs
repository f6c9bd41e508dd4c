use super::*;
use packhorse_core::{Cancel, Kind, Result};
use std::collections::BTreeMap;
use std::fs;
use std::num::NonZeroUsize;
use std::path::Path;
use tempfile::tempdir;

/// Calls `to` with `jobs` threads.
fn write(jobs: usize, to: impl FnOnce(&Run<'_>) -> Result<Written>) -> Result<Written> {
    let run = Run { jobs: NonZeroUsize::new(jobs).unwrap(), cancel: &Cancel::default(), progress: &|_| () };
    to(&run)
}

/// File contents by relative name.
fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![dir.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(dir).unwrap().to_str().unwrap().to_owned();
                found.insert(name, fs::read(path).unwrap());
            }
        }
    }
    found
}

fn small_images(seed: u64, count: u64) -> ImagesSpec {
    ImagesSpec { count, seed, classes: 2, sides: 32..=48 }
}

fn digest(files: &BTreeMap<String, Vec<u8>>) -> u64 {
    let bytes = files.iter().flat_map(|(name, bytes)| name.bytes().chain(bytes.iter().copied()));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

/// Writes a corpus with a given seed.
type Make<'a> = &'a dyn Fn(&Path, u64, &Run<'_>) -> Result<Written>;

#[test]
fn every_corpus_depends_on_its_seed_only_and_is_pinned() {
    let corpora: [(&str, u64, Make<'_>); 4] = [
        ("images", 10_441_756_214_689_488_791, &|dir, seed, run| images(dir, &small_images(seed, 40), run)),
        ("text", 5_580_273_228_800_746_681, &|dir, seed, run| {
            text(dir, &TextSpec { count: 70, seed, per_file: 20, words: 30 }, run)
        }),
        ("npz", 12_360_017_536_650_017_683, &|dir, seed, run| npz(dir, &NpzSpec { count: 70, seed }, run)),
        ("tiny", 10_792_463_789_721_181_692, &|dir, seed, run| {
            tiny(dir, &TinySpec { count: 70, bytes: 100, seed }, run)
        }),
    ];
    for (name, pinned, make) in corpora {
        let dirs = [(1, 7), (3, 7), (2, 8)].map(|(jobs, seed)| {
            let dir = tempdir().unwrap();
            let written = write(jobs, |run| make(dir.path(), seed, run)).unwrap();
            let found = files(dir.path());
            assert_eq!((written.files, written.reused), (found.len() as u64, 0));
            assert_eq!(written.bytes, found.values().map(|b| b.len() as u64).sum::<u64>());
            found
        });
        assert!(dirs[0] == dirs[1], "{name} depends on threads");
        assert!(dirs[0] != dirs[2], "{name} does not depend on the seed");
        let mut distinct: Vec<_> = dirs[0].values().collect();
        distinct.sort();
        distinct.dedup();
        assert_eq!(distinct.len(), dirs[0].len(), "{name} holds a file twice");
        assert_eq!(digest(&dirs[0]), pinned, "{name} changed");
    }
}

#[test]
fn photographs_decode_and_have_the_promised_size() {
    let dir = tempdir().unwrap();
    let spec = ImagesSpec { count: 12, classes: 1, ..ImagesSpec::default() };
    write(2, |run| images(dir.path(), &spec, run)).unwrap();
    let found = files(dir.path());
    assert!(found.keys().all(|name| name.starts_with("airplane/")));
    for (name, bytes) in &found {
        assert!((10_000..=25_000).contains(&bytes.len()), "{name} has {} bytes", bytes.len());
        let cursor = zune_jpeg::zune_core::bytestream::ZCursor::new(bytes);
        let options = zune_jpeg::zune_core::options::DecoderOptions::default().set_strict_mode(true);
        let mut decoder = zune_jpeg::JpegDecoder::new_with_options(cursor, options);
        decoder.decode().unwrap();
        let info = decoder.info().unwrap();
        assert!((224..=256).contains(&info.width) && (224..=256).contains(&info.height));
    }
}

#[test]
fn a_smaller_corpus_is_a_prefix_and_is_completed() {
    let dir = tempdir().unwrap();
    write(2, |run| images(dir.path(), &small_images(1, 10), run)).unwrap();
    let broken = dir.path().join(files(dir.path()).keys().next().unwrap());
    let bytes = fs::read(&broken).unwrap();
    fs::write(&broken, &bytes[..bytes.len() / 2]).unwrap();
    let written = write(2, |run| images(dir.path(), &small_images(1, 25), run)).unwrap();
    assert_eq!((written.files, written.reused), (25, 9));
    assert_eq!(fs::read(&broken).unwrap(), bytes);
}

#[test]
fn a_folder_with_other_files_is_refused() {
    let dir = tempdir().unwrap();
    fs::write(dir.path().join("mine.txt"), "mine").unwrap();
    let error = write(1, |run| tiny(dir.path(), &TinySpec::default(), run)).unwrap_err();
    assert_eq!(error.kind(), Kind::Config);
    assert!(error.to_string().contains("mine.txt: is not of this corpus; give an empty folder"), "{error}");
    assert_eq!(files(dir.path()).len(), 1);

    let dir = tempdir().unwrap();
    write(1, |run| images(dir.path(), &small_images(1, 3), run)).unwrap();
    let before = files(dir.path());
    let error = write(1, |run| tiny(dir.path(), &TinySpec::default(), run)).unwrap_err();
    assert!(error.to_string().contains("is not of this corpus"));
    let same_names = |seed| NpzSpec { count: 3, seed };
    let other = tempdir().unwrap();
    write(1, |run| npz(other.path(), &same_names(1), run)).unwrap();
    let error = write(1, |run| npz(other.path(), &same_names(2), run)).unwrap_err();
    assert!(error.to_string().contains("differs from this corpus"), "{error}");
    assert_eq!(files(dir.path()), before);
}

#[test]
fn invalid_specifications_are_refused() {
    let dir = tempdir().unwrap();
    let default = ImagesSpec::default;
    for spec in [
        ImagesSpec { classes: 0, ..default() },
        ImagesSpec { classes: 11, ..default() },
        ImagesSpec { sides: 8..=20, ..default() },
        ImagesSpec { sides: 16..=4096, ..default() },
    ] {
        assert_eq!(write(1, |run| images(dir.path(), &spec, run)).unwrap_err().kind(), Kind::Config);
    }
    let none = TextSpec { per_file: 0, ..TextSpec::default() };
    assert_eq!(write(1, |run| text(dir.path(), &none, run)).unwrap_err().kind(), Kind::Config);
}

#[test]
fn cancellation_stops_the_run() {
    let (dir, cancel) = (tempdir().unwrap(), Cancel::default());
    let stop = |_| cancel.cancel();
    let run = Run { jobs: NonZeroUsize::MIN, cancel: &cancel, progress: &stop };
    assert_eq!(tiny(dir.path(), &TinySpec::default(), &run).unwrap_err().kind(), Kind::Cancelled);
    assert_eq!(files(dir.path()).len(), 1);
}

#[test]
fn odd_and_small_sides_work() {
    for side in [16, 17, 33, 101] {
        let dir = tempdir().unwrap();
        let spec = ImagesSpec { count: 4, sides: side..=side + 1, ..small_images(side.into(), 4) };
        assert_eq!(write(1, |run| images(dir.path(), &spec, run)).unwrap().files, 4);
    }
}
