//! What a dataset is travels with its samples into any container: splits, classes, order, what was left out. And what
//! would change it without a word is refused.
#![expect(clippy::unwrap_used, clippy::panic, reason = "what goes wrong here fails the test")]

#[expect(dead_code, reason = "every test takes a part of what they share")]
mod common {
    pub(crate) mod process;
}

use common::process::{Ended, packhorse};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

struct Place(TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    /// `packhorse pack FROM --to FORMAT --out TO FLAGS`.
    fn try_pack(&self, from: &str, format: &str, to: &str, flags: &[&str]) -> Ended {
        let [from, to] = [from, to].map(|name| self.path(name).to_str().unwrap().to_owned());
        packhorse(&[&["pack", &from, "--to", format, "--out", &to], flags].concat()).run()
    }

    #[track_caller]
    fn pack(&self, from: &str, format: &str, to: &str, flags: &[&str]) -> Value {
        let ended = self.try_pack(from, format, to, flags);
        assert_eq!(ended.code(), 0, "{ended:?}");
        self.manifest(to)
    }

    #[track_caller]
    fn refused(&self, code: i32, ended: &Ended, words: &[&str]) {
        assert_eq!(ended.code(), code, "{ended:?}");
        for word in words {
            assert!(ended.said.contains(word), "no {word} in {}", ended.said);
        }
    }

    fn manifest(&self, dataset: &str) -> Value {
        serde_json::from_slice(&fs::read(self.path(dataset).join("dataset.json")).unwrap()).unwrap()
    }

    /// The members of all tars of a split, shard after shard, with their bytes.
    fn members(&self, dataset: &str, split: &str) -> Vec<(String, Vec<u8>)> {
        let mut shards: Vec<PathBuf> = fs::read_dir(self.path(dataset)).unwrap().map(|e| e.unwrap().path()).collect();
        let of_split = |path: &PathBuf| {
            let name = path.file_name().unwrap().to_str().unwrap();
            name.ends_with(".tar") && name.starts_with(&format!("{split}-"))
        };
        shards.retain(of_split);
        shards.sort();
        shards.iter().flat_map(|path| members(path)).collect()
    }
}

/// Names and contents of a plain USTAR file.
fn members(path: &Path) -> Vec<(String, Vec<u8>)> {
    let (bytes, mut at, mut found) = (fs::read(path).unwrap(), 0, Vec::new());
    while bytes[at] != 0 {
        let text = |from: usize, to: usize| {
            let field = &bytes[at + from..at + to];
            String::from_utf8(field.iter().copied().take_while(|byte| *byte != 0).collect()).unwrap()
        };
        let len = usize::from_str_radix(text(124, 136).trim(), 8).unwrap();
        found.push((text(0, 100), bytes[at + 512..at + 512 + len].to_vec()));
        at += 512 + len.next_multiple_of(512);
    }
    found
}

/// Text files in class folders, and a picture that is none.
fn labelled() -> Place {
    let place = Place::new();
    for i in 0..60 {
        let class = ["cat", "dog", "eel"][i % 3];
        place.write(&format!("in/{class}/{i:03}.txt"), format!("document {i}"));
    }
    place.write("in/cat/bad.jpg", b"not a picture");
    place
}

const FIRST: [&str; 12] = [
    "--labels",
    "folders",
    "--split",
    "train=0.6,val=0.3,test=0.1",
    "--shuffle",
    "5",
    "--samples-per-shard",
    "7",
    "--image",
    "check",
    "--on-error",
    "skip",
];

const CONTAINERS: [&str; 5] = ["parquet", "hdf5", "tfrecord", "arrow", "webdataset"];

/// What must be equal along a chain.
fn identity(manifest: &Value) -> Vec<Value> {
    let splits = manifest["splits"].as_array().unwrap();
    let splits = splits.iter().map(|split| serde_json::json!([split["name"], split["samples"]])).collect();
    ["samples", "skipped", "classes"].iter().map(|name| manifest[*name].clone()).chain([Value::Array(splits)]).collect()
}

#[test]
fn a_dataset_stays_that_dataset_through_every_container() {
    let place = labelled();
    let first = place.pack("in", "webdataset", "out", &FIRST);
    assert_eq!((first["skipped"].as_u64(), first["splits"].as_array().unwrap().len()), (Some(1), 3));
    let mut last = "out".to_owned();
    for format in CONTAINERS {
        let next = format!("{last}-{format}");
        assert_eq!(identity(&place.pack(&last, format, &next, &[])), identity(&first), "{next}");
        last = next;
    }
    for split in ["train", "val", "test"] {
        assert!(!place.members("out", split).is_empty());
        assert!(place.members("out", split) == place.members(&last, split), "{split}");
    }
    let skipped = |name: &str| fs::read(place.path(name).join("skipped.jsonl")).unwrap();
    assert_eq!(skipped("out"), skipped(&last));
}

/// Chains of any containers in any order, each from its own seed.
#[test]
fn random_chains_keep_samples_splits_classes_and_order() {
    for seed in 1u64..7 {
        let place = labelled();
        let first = place.pack("in", "webdataset", "out", &FIRST);
        let (mut random, mut last) = (seed, "out".to_owned());
        for step in 0..4 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let format = if step == 3 { "webdataset" } else { CONTAINERS[(random >> 33) as usize % CONTAINERS.len()] };
            let next = format!("{last}-{format}");
            assert_eq!(identity(&place.pack(&last, format, &next, &["--samples-per-shard", "11"])), identity(&first));
            last = next;
        }
        for split in ["train", "val", "test"] {
            assert!(place.members("out", split) == place.members(&last, split), "seed {seed}: {last} {split}");
        }
    }
}

#[test]
fn splits_may_be_given_up_or_made_anew() {
    let place = labelled();
    place.pack("in", "webdataset", "out", &FIRST);
    assert_eq!(place.pack("out", "parquet", "none", &["--split", "none"])["splits"], serde_json::json!([]));
    let half = place.pack("out", "parquet", "half", &["--split", "a=0.5,b=0.5"]);
    assert_eq!(half["splits"].as_array().unwrap().len(), 2);
    place.write("other/dog/1.txt", "x");
    place.pack("other", "webdataset", "plain", &["--labels", "folders"]);
    let [a, b] = ["out", "plain"].map(|name| place.path(name).to_str().unwrap().to_owned());
    let mixed = place.path("mixed").to_str().unwrap().to_owned();
    let ended = packhorse(&["pack", &a, &b, "--to", "parquet", "--out", &mixed]).run();
    place.refused(2, &ended, &["has no split", "--split none"]);
    let ended = packhorse(&["pack", &a, &b, "--to", "parquet", "--out", &mixed, "--split", "none"]).run();
    place.refused(2, &ended, &["[dog]", "[cat, dog, eel]"]);
    // A list that begins with the other names the same classes.
    place.write("more/cat/2.txt", "x");
    place.pack("more", "webdataset", "first", &["--labels", "folders"]);
    let first = place.path("first").to_str().unwrap().to_owned();
    packhorse(&["pack", &first, &a, "--to", "parquet", "--out", &mixed, "--split", "none"]).succeed();
    let classes = packhorse(&["stat", &mixed]).succeed().printed;
    assert!(classes.contains("3 classes: cat, dog, eel"), "{classes}");
}

/// Shards that are named one by one are of their dataset too.
#[test]
fn a_shard_that_is_named_alone_keeps_its_split_and_classes() {
    let place = labelled();
    let first = place.pack("in", "webdataset", "out", &FIRST);
    let one = place.pack("out/val-000000.tar", "hdf5", "one", &[]);
    assert_eq!(one["classes"], first["classes"]);
    assert_eq!((one["splits"].as_array().unwrap().len(), &one["splits"][0]["name"]), (1, &Value::from("val")));
}

#[test]
fn splits_by_folders_leave_classes_below_them() {
    let place = Place::new();
    for name in ["train/cat/1", "train/dog/2", "val/dog/3", "val/cat/4"] {
        place.write(&format!("in/{name}.txt"), name);
    }
    let out = place.pack("in", "webdataset", "out", &["--split", "folders", "--labels", "folders"]);
    assert_eq!(out["classes"], serde_json::json!(["cat", "dog"]));
    let label = |split: &str| -> Vec<String> {
        let labels = place.members("out", split).into_iter().filter(|(name, _)| name.ends_with(".cls"));
        labels.map(|(name, bytes)| format!("{name} {}", String::from_utf8(bytes).unwrap())).collect()
    };
    assert_eq!(label("train"), ["train/cat/1.cls 0", "train/dog/2.cls 1"]);
    assert_eq!(label("val"), ["val/cat/4.cls 0", "val/dog/3.cls 1"]);
    let [input, plain] = ["in", "plain"].map(|name| place.path(name).to_str().unwrap().to_owned());
    let mut command = common::process::command(env!("CARGO_BIN_EXE_packhorse"));
    command.args(["pack", &input, "--to", "webdataset", "--out", &plain, "--labels", "folders"]);
    let said = String::from_utf8(command.output().unwrap().stderr).unwrap();
    assert!(said.contains("--split folders"), "{said}");
}

#[test]
fn labels_packed_apart_have_the_same_numbers() {
    let place = Place::new();
    for name in ["train/dog/1", "train/hat/2", "val/hat/3"] {
        place.write(&format!("in/{name}.txt"), name);
    }
    let train = place.pack("in/train", "webdataset", "train", &["--labels", "folders"]);
    let from = place.path("train").to_str().unwrap().to_owned();
    let val = place.pack("in/val", "webdataset", "val", &["--labels", "folders", "--classes-from", &from]);
    assert_eq!(val["classes"], train["classes"]);
    assert_eq!(place.members("val", "shard")[0], ("hat/3.cls".to_owned(), b"1".to_vec()));
    place.write("list.txt", "hat\ndog\n");
    let list = place.path("list.txt").to_str().unwrap().to_owned();
    let listed = place.pack("in/val", "webdataset", "listed", &["--labels", "folders", "--classes", &list]);
    assert_eq!(listed["classes"], serde_json::json!(["hat", "dog"]));
    place.write("in/val/emu/4.txt", "emu");
    let flags = ["--labels", "folders", "--classes", &list];
    let ended = place.try_pack("in/val", "webdataset", "unknown", &flags);
    place.refused(3, &ended, &["emu", "class list"]);
    place.write("twice.txt", "hat\nhat\n");
    let twice = place.path("twice.txt").to_str().unwrap().to_owned();
    let ended = place.try_pack("in/val", "webdataset", "twice", &["--labels", "folders", "--classes", &twice]);
    place.refused(2, &ended, &["hat", "twice"]);
}

#[test]
fn class_lists_that_differ_are_refused() {
    let place = Place::new();
    for name in ["a/dog/1", "a/hat/2", "b/hat/3"] {
        place.write(&format!("in/{name}.txt"), name);
    }
    for name in ["a", "b"] {
        place.pack(&format!("in/{name}"), "parquet", name, &["--labels", "folders", "--name", name]);
    }
    let [a, b, out] = ["a", "b", "out"].map(|name| place.path(name).to_str().unwrap().to_owned());
    let ended = packhorse(&["pack", &a, &b, "--to", "webdataset", "--out", &out]).run();
    place.refused(2, &ended, &["dog, hat", "[hat]", "two classes"]);
}

#[test]
fn inputs_of_other_columns_are_refused_with_both_or_filled() {
    let place = Place::new();
    place.write("one/a/1.txt", "x");
    place.write("two/1.json", "{}");
    place.pack("one", "parquet", "a", &["--labels", "folders"]);
    place.pack("two", "parquet", "b", &["--name", "other"]);
    fs::create_dir(place.path("both")).unwrap();
    fs::copy(place.path("a/shard-000000.parquet"), place.path("both/a.parquet")).unwrap();
    fs::copy(place.path("b/other-000000.parquet"), place.path("both/b.parquet")).unwrap();
    let ended = place.try_pack("both", "arrow", "out", &[]);
    place.refused(2, &ended, &["a.parquet", "b.parquet", "json", "cls, txt", "--fill-missing"]);
    let filled = place.pack("both", "arrow", "out", &["--fill-missing"]);
    assert_eq!(filled["samples"], 2);
}

/// A first try that failed must not stand in the way of the second; finished shards must not be lost.
#[test]
fn a_plan_without_finished_shards_gives_way_to_another() {
    let place = Place::new();
    (0..4).for_each(|i| place.write(&format!("in/{i}.txt"), [b'x'; 100]));
    place.write("in/bad.jpg", b"not a picture");
    let ended = place.try_pack("in", "webdataset", "out", &["--image", "check"]);
    assert_eq!(ended.code(), 3, "{ended:?}");
    assert!(place.path("out/plan.jsonl.zst").exists());
    let flags = ["--exclude", "*.jpg", "--samples-per-shard", "2"];
    assert_eq!(place.pack("in", "webdataset", "out", &flags)["samples"], 4);
    let ended = place.try_pack("in", "webdataset", "out", &["--exclude", "*.jpg"]);
    place.refused(2, &ended, &["samples-per-shard: 2 there, not given now"]);
    assert_eq!(place.manifest("out")["samples"], 4);
}

#[test]
fn sizes_of_shards_need_a_unit() {
    let place = Place::new();
    place.write("in/a.txt", "text");
    place.refused(2, &place.try_pack("in", "webdataset", "out", &["--shard-size", "20"]), &["20MB", "20B"]);
}

/// Inputs that can't be read, for whatever reason, are left out and recorded; the others are packed.
#[test]
fn a_bad_input_of_any_kind_is_skipped() {
    let place = labelled();
    place.pack("in", "parquet", "good", &["--include", "*.txt"]);
    let good = fs::read(place.path("good/shard-000000.parquet")).unwrap();
    let bad: [(&str, &[u8]); 4] = [
        ("cut.parquet", &good[..good.len() / 2]),
        ("empty.root", b""),
        ("netcdf.nc", b"CDF\x01\0\0\0\0\0\0\0\0\0\0\0\0"),
        ("text.h5", b"not an HDF5 file"),
    ];
    for (name, bytes) in bad {
        let _ = fs::remove_dir_all(place.path("mixed"));
        let _ = fs::remove_dir_all(place.path("out"));
        (0..3).for_each(|i| place.write(&format!("mixed/good{i}.parquet"), &good));
        place.write(&format!("mixed/{name}"), bytes);
        let ended = place.try_pack("mixed", "parquet", "out", &[]);
        assert!(matches!(ended.code(), 3 | 8), "{name}: {ended:?}");
        assert!(ended.said.contains(name), "{name}: {ended:?}");
        let out = place.pack("mixed", "parquet", "out", &["--on-error", "skip"]);
        assert_eq!((out["samples"].as_u64(), out["skipped"].as_u64()), (Some(180), Some(1)), "{name}");
    }
}

/// One flipped bit in a shard of a sealed dataset ends every job that reads it, whatever the container.
#[test]
fn damage_stops_at_the_first_reader() {
    let place = labelled();
    place.pack("in", "webdataset", "out", &FIRST);
    for format in CONTAINERS {
        let dataset = format!("from-{format}");
        let manifest = place.pack("out", format, &dataset, &[]);
        let shard = place.path(&dataset).join(manifest["shards"][0]["file"].as_str().unwrap());
        let good = fs::read(&shard).unwrap();
        for part in 0..20 {
            let mut bad = good.clone();
            let at = (good.len() - 1) * part / 19;
            bad[at] ^= 1 << (part % 8);
            fs::write(&shard, &bad).unwrap();
            for flags in [&[][..], &["--on-error", "skip"]] {
                let ended = place.try_pack(&dataset, "parquet", "copy", flags);
                let code = ended.code();
                assert!(matches!(code, 3 | 4 | 6 | 8), "{format}, byte {at}: {ended:?}");
                assert!(!place.path("copy/dataset.json").exists(), "{format}, byte {at}: sealed");
                let _ = fs::remove_dir_all(place.path("copy"));
            }
        }
        fs::write(&shard, &good).unwrap();
        let manifest = place.path(&dataset).join("dataset.json");
        let text = fs::read_to_string(&manifest).unwrap().replace("\"samples\": 60", "\"samples\": 61");
        fs::write(&manifest, text).unwrap();
        place.refused(6, &place.try_pack(&dataset, "parquet", "copy", &[]), &["dataset.json"]);
    }
}

/// Packing compares shards when it opens them, and a shard without samples is never opened.
#[test]
fn a_shard_that_damage_makes_look_empty_is_found() {
    let place = labelled();
    place.pack("in", "webdataset", "out", &FIRST);
    let shard = place.path("out").join(place.manifest("out")["shards"][0]["file"].as_str().unwrap());
    // Two blocks of zeros are the end of a tar, and what follows shows that it is not.
    let mut bad = fs::read(&shard).unwrap();
    bad[..1024].fill(0);
    fs::write(&shard, &bad).unwrap();
    let ended = packhorse(&["ls", shard.to_str().unwrap()]).run();
    assert!(ended.code() == 3 && ended.said.contains("continues after its end-of-archive marker"), "{ended:?}");
    place.refused(6, &place.try_pack("out", "parquet", "copy", &[]), &["recorded digest", "repair"]);
    let _ = fs::remove_dir_all(place.path("copy"));
    bad.fill(0);
    fs::write(&shard, bad).unwrap();
    assert_eq!(packhorse(&["ls", shard.to_str().unwrap()]).succeed().printed, "");
    for flags in [&[][..], &["--on-error", "skip"]] {
        place.refused(6, &place.try_pack("out", "parquet", "copy", flags), &["recorded digest", "repair"]);
        let _ = fs::remove_dir_all(place.path("copy"));
    }
}

#[test]
fn one_class_for_all_is_warned_of_where_folders_lie_below_it() {
    let place = Place::new();
    for class in ["cat", "dog"] {
        place.write(&format!("in/train/{class}/1.txt"), class);
    }
    let one = place.try_pack("in", "webdataset", "one", &["--labels", "folders"]);
    assert!(one.said.contains("every sample has the class train") && one.said.contains("--labels parent"), "{one:?}");
    for (input, labels) in [("in/train", "folders"), ("in", "parent")] {
        let two = place.try_pack(input, "webdataset", &format!("two {labels}"), &["--labels", labels]);
        assert!(two.status.success() && !two.said.contains("every sample"), "{two:?}");
    }
}

/// A dataset.json says which files are shards: one that is not there is an error, and other files are told of.
#[test]
fn shards_that_are_not_there_are_never_left_out_in_silence() {
    let place = labelled();
    place.pack("in", "webdataset", "out", &FIRST);
    let shards = place.manifest("out")["shards"].as_array().unwrap().len();
    assert!(shards > 1);
    let first = place.manifest("out")["shards"][0]["file"].as_str().unwrap().to_owned();
    // Files of others beside the shards.
    place.write("out/notes.txt", "notes");
    let told = place.try_pack("out", "parquet", "copy", &[]);
    assert!(told.status.success() && told.said.contains("passed over notes.txt"), "{told:?}");
    fs::rename(place.path("out").join(&first), place.path("elsewhere")).unwrap();
    for flags in [&[][..], &["--on-error", "skip"]] {
        let _ = fs::remove_dir_all(place.path("copy"));
        place.refused(6, &place.try_pack("out", "parquet", "copy", flags), &[&first, "is missing", "repair"]);
    }
    // The manifest of a dataset among other files, and a dataset.json that is not of packhorse.
    let manifest = fs::read(place.path("out/dataset.json")).unwrap();
    place.write("photos/cat/1.txt", "cat");
    place.write("photos/cat/dataset.json", manifest);
    place.refused(6, &place.try_pack("photos", "webdataset", "mixed", &[]), &["photos/cat", "is missing"]);
    place.write("photos/cat/dataset.json", r#"{"name": "cats", "labels": [1]}"#);
    let _ = fs::remove_dir_all(place.path("mixed"));
    assert_eq!(place.pack("photos", "webdataset", "mixed", &[])["samples"], 2);
}
