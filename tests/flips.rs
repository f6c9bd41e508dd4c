//! Random flipped bits in every file of a dataset: `verify` with every byte names the file, `repair` restores the bytes.
//!
//! `PACKHORSE_FLIPS` is the number of flipped bits (40 where it is not set): in turn in a WebDataset with indexes, in one that
//! samples were appended to, in a view, and in a dataset of each other container.

#![expect(clippy::unwrap_used, clippy::panic, reason = "what goes wrong here fails the test")]

#[expect(dead_code, reason = "every test takes a part of what they share")]
mod common {
    pub(crate) mod bytes;
    pub(crate) mod corpus;
    pub(crate) mod process;
    pub(crate) mod tree;
}

use common::process::packhorse;
use common::tree::{Tree, assert_equal, tree};
use packhorse::pack::Depth;
use std::collections::BTreeMap;
use std::path::Path;

/// Files that only their plan or their choice could make again: repairing says what to do.
fn is_source(name: &str) -> bool {
    name.starts_with("plan") || ["view.json", "selection.bin", "tokenizer.json"].contains(&name)
}

/// Seeded numbers (the generator of Knuth's MMIX).
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end
    }
}

/// Flips a bit of a random file, has it found and mended. Returns the file's name.
fn flip(out: &Path, whole: &Tree, random: &mut Random) -> String {
    let files: Vec<&String> =
        whole.iter().filter(|(n, d)| !n.ends_with('/') && !d.starts_with("0 ")).map(|f| f.0).collect();
    let name = files[random.below(files.len())];
    let path = out.join(name);
    let good = std::fs::read(&path).unwrap();
    let (mut bad, at, bit) = (good.clone(), random.below(good.len()), random.below(8));
    bad[at] ^= 1 << bit;
    std::fs::write(&path, &bad).unwrap();
    let what = format!("bit {bit} of byte {at} of {name}");

    let session = packhorse::session();
    let is_named = |text: &str| text.contains(name.as_str());
    match session.verify(out, Depth::Full) {
        Ok(found) => assert!(found.damages.iter().any(|d| is_named(&d.file)), "{what}: {:?}", found.damages),
        Err(e) => assert!(is_named(&e.to_string()), "{what}: {e}"),
    }
    match session.repair(out) {
        Ok(repaired) => {
            assert!(!is_source(name), "{what}: repaired from nothing");
            assert_eq!(repaired.quarantined, [format!(".quarantine/1/{name}")], "{what}");
            assert!(std::fs::read(out.join(&repaired.quarantined[0])).unwrap() == bad, "{what}: not kept");
            session.empty_quarantine(out).unwrap();
        }
        Err(e) => {
            let said = format!("{e} {}", e.hints().unwrap_or_default());
            let advised = said.contains("restore it from a copy") || said.contains("`packhorse view`");
            assert!(is_source(name) && is_named(&said) && advised, "{what}: {said}");
            std::fs::write(&path, good).unwrap();
        }
    }
    assert_equal(whole, &tree(out), &what);
    name.clone()
}

#[test]
fn flipped_bits_are_found_and_mended() {
    let flips: usize = std::env::var("PACKHORSE_FLIPS").map_or(40, |n| n.parse().unwrap());
    let dir = tempfile::tempdir().unwrap();
    let run = |words: &[&str]| drop(packhorse(words).succeed());
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (plain, grown, view) = (path("plain"), path("grown"), path("view"));
    let input = common::corpus::images(24).to_str().unwrap().to_owned();
    let how = ["--to", "webdataset", "--labels", "folders", "--samples-per-shard", "6", "--index", "wids,dali,energon"];
    for out in [&plain, &grown] {
        run(&[&["pack", &input, "--out", out], &how[..]].concat());
    }
    std::fs::create_dir(path("more")).unwrap();
    std::os::unix::fs::symlink(&input, path("more/again")).unwrap();
    run(&["append", &grown, &path("more"), "--labels", "parent"]);
    run(&["view", &grown, "--out", &view, "--where", "cls != 1"]);

    let mut outs = vec![plain.clone(), grown, view];
    for to in ["hdf5", "parquet", "arrow", "tfrecord"] {
        run(&["pack", &plain, "--to", to, "--samples-per-shard", "9", "--out", &path(to)]);
        outs.push(path(to));
    }
    std::fs::write(path("tokenizer.json"), common::bytes::tokenizer()).unwrap();
    common::corpus::documents(&dir.path().join("texts"), 60);
    let (tokenizer, size) = (path("tokenizer.json"), ["--append-eod", "--shard-size", "4KB"]);
    let how = ["--to", "tokens", "--tokenizer", &tokenizer, "--out", &path("tokens")];
    run(&[&["pack", &path("texts")], &how[..], &size].concat());
    outs.push(path("tokens"));
    let datasets: Vec<(&Path, Tree)> = outs.iter().map(Path::new).map(|out| (out, tree(out))).collect();
    let mut random = Random(0x5eed);
    let mut hit: BTreeMap<String, usize> = BTreeMap::new();
    for i in 0..flips {
        let (out, whole) = &datasets[i % datasets.len()];
        *hit.entry(flip(out, whole, &mut random)).or_default() += 1;
    }
    assert!(datasets.iter().all(|(out, _)| packhorse::session().verify(out, Depth::Full).unwrap().damages.is_empty()));
    let refused: usize = hit.iter().filter(|(name, _)| is_source(name)).map(|(_, n)| n).sum();
    packhorse_testkit::external::count(flips, "flipped bits found");
    packhorse_testkit::external::count(flips - refused, "flipped bits mended");
}
