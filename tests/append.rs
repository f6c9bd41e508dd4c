//! Samples added to a sealed dataset. `PACKHORSE_KILLS` is the number of kills at random moments (10 where it is not set).

#![expect(clippy::unwrap_used, clippy::panic, reason = "what goes wrong here fails the test")]

#[expect(dead_code, reason = "every test takes a part of what they share")]
mod common {
    pub(crate) mod bytes;
    pub(crate) mod corpus;
    pub(crate) mod process;
    pub(crate) mod tree;
    pub(crate) mod work;
}

use common::process::{Ended, packhorse};
use common::tree::{Tree, assert_equal, committed, tree};
use common::work::text;
use packhorse::core::{Code, Result, Store};
use packhorse::dataset::Manifest;
use packhorse::pack::{Depth, Packed};
use packhorse::read::order::OrderState;
use packhorse::read::{Batch, Dataset, Host, Loader, LoaderBuilder};
use packhorse::storage::Local;
use packhorse::{Recipe, Session};
use packhorse_testkit::faults::{FailingStore, StoreFault};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const CONFIG: i32 = 2;
const CONTENT: i32 = 3;
const CHANGED: i32 = 4;
const DAMAGED: i32 = 6;
const UNSUPPORTED: i32 = 8;
const KILLED: i32 = 137;

/// Pictures in class folders: `first` are packed, `more` are added.
struct Corpus {
    dir: tempfile::TempDir,
    first: PathBuf,
    more: PathBuf,
}

impl Corpus {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let [first, more] = ["first", "more"].map(|name| dir.path().join(name));
        let all = common::corpus::images(90);
        for class in std::fs::read_dir(&all).unwrap().map(|class| class.unwrap()) {
            for folder in [&first, &more] {
                std::fs::create_dir_all(folder.join(class.file_name())).unwrap();
            }
            for file in std::fs::read_dir(class.path()).unwrap().map(|file| file.unwrap()) {
                let number: u32 = file.path().file_stem().unwrap().to_str().unwrap().parse().unwrap();
                let to = if number <= 60 { &first } else { &more };
                std::fs::copy(file.path(), to.join(class.file_name()).join(file.file_name())).unwrap();
            }
        }
        Self { dir, first, more }
    }

    fn dir(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The dataset of the first pictures.
    fn sealed(&self, name: &str, more: &[&str]) -> PathBuf {
        let out = self.dir(name);
        let fixed = ["pack", text(&self.first), "--labels", "folders", "--out", text(&out)];
        packhorse(&[&fixed[..], more].concat()).succeed();
        out
    }

    fn append(&self, out: &Path, more: &[&str]) -> common::process::Program {
        let fixed = ["append", text(out), text(&self.more), "--labels", "folders"];
        packhorse(&[&fixed[..], more].concat())
    }
}

const WEBDATASET: [&str; 8] =
    ["--to", "webdataset", "--samples-per-shard", "7", "--shuffle", "3", "--index", "wids,dali,energon"];

fn manifest(out: &Path) -> Manifest {
    Manifest::read(&Local, out).unwrap().unwrap()
}

/// The keys of all samples, as a reader of the dataset finds them.
fn keys(out: &Path) -> Vec<String> {
    let listed = packhorse(&["ls", text(out), "--json"]).succeed().printed;
    let key = |line: &str| -> Option<String> {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        (line["field"] == "jpg").then(|| line["key"].as_str().unwrap().to_owned())
    };
    listed.lines().filter_map(key).collect()
}

/// All of the first tree is in the second, with the same bytes.
#[track_caller]
fn assert_within(old: &Tree, now: &Tree, names: impl Fn(&str) -> bool) {
    for (name, digest) in old.iter().filter(|(name, _)| names(name)) {
        assert_eq!(now.get(name), Some(digest), "{name}");
    }
}

fn of_shard(name: &str) -> bool {
    name.starts_with("train-") || name.starts_with("val-") || name.starts_with("shard-")
}

fn refused(ended: &Ended, code: i32, words: &[&str]) {
    assert_eq!(ended.code(), code, "{ended:?}");
    for word in words {
        assert!(ended.said.contains(word), "no word of {word:?}: {ended:?}");
    }
}

fn verified(out: &Path) -> Ended {
    packhorse(&["verify", "--full", text(out), "--json"]).run()
}

#[test]
fn new_shards_follow_the_old_ones_which_stay() {
    let corpus = Corpus::new();
    let out = corpus.sealed("out", &[&WEBDATASET[..], &["--split", "train=0.8,val=0.2"]].concat());
    let (old, old_tree, old_keys, stamps) = (manifest(&out), tree(&out), keys(&out), committed(&out));
    let ended = corpus.append(&out, &["--json"]).succeed();
    let said: serde_json::Value = serde_json::from_str(&ended.printed).unwrap();
    assert_eq!((&said["samples"], &said["total"]["samples"]), (&30.into(), &90.into()));

    let new = manifest(&out);
    assert_eq!(new.shards[..old.shards.len()], old.shards[..]);
    assert_eq!(new.root_of_first(old.shards.len()), old.root);
    assert_eq!(
        (new.appended.len(), new.appended[0].after, new.appended[0].first),
        (1, old.root, old.shards.len() as u64)
    );
    assert_eq!((&new.classes, new.plan), (&old.classes, old.plan));
    assert_within(&old_tree, &tree(&out), of_shard);
    common::tree::assert_kept(&stamps, &out, "after the append");
    let names: BTreeSet<&str> = new.shards.iter().map(|shard| shard.name.as_str()).collect();
    assert_eq!(names.len(), new.shards.len());
    for split in &new.splits {
        for number in 0..split.shards {
            assert!(names.contains(format!("{}-{number:06}", split.name).as_str()), "{names:?}");
        }
    }
    let all = keys(&out);
    assert_eq!(all.len(), 90);
    assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), 90);
    assert!(old_keys.iter().all(|key| all.contains(key)));
    assert_eq!(verified(&out).code(), 0);

    // The same request again changes nothing.
    let before = tree(&out);
    corpus.append(&out, &[]).succeed();
    assert_equal(&before, &tree(&out), "appended again");

    // A third time, then pack all of it into another format.
    let third = corpus.dir("third");
    std::fs::create_dir(&third).unwrap();
    std::fs::rename(&corpus.more, third.join("more")).unwrap();
    packhorse(&["append", text(&out), text(&third), "--labels", "parent"]).succeed();
    let last = manifest(&out);
    assert_eq!((last.samples, last.appended.len()), (120, 2));
    assert_eq!(last.appended[1].after, new.root);
    let hdf5 = corpus.dir("hdf5");
    packhorse(&["pack", text(&out), "--to", "hdf5", "--out", text(&hdf5)]).succeed();
    let packed = manifest(&hdf5);
    assert_eq!((packed.samples, &packed.classes), (120, &old.classes));
    let counts = |manifest: &Manifest| manifest.splits.iter().map(|s| (s.name.clone(), s.samples)).collect::<Vec<_>>();
    assert_eq!(counts(&packed), counts(&last));
}

/// The command that made the dataset finds it complete, also when it has grown since; its plan is made again if it is lost.
#[test]
fn the_first_command_leaves_a_grown_dataset_as_it_is() {
    let corpus = Corpus::new();
    let out = corpus.sealed("out", &WEBDATASET);
    corpus.append(&out, &[]).succeed();
    let before = tree(&out);
    corpus.sealed("out", &WEBDATASET);
    assert_equal(&before, &tree(&out), "packed again");
    std::fs::remove_file(out.join("plan.jsonl.zst")).unwrap();
    corpus.sealed("out", &WEBDATASET);
    assert_equal(&before, &tree(&out), "with its plan made again");
}

/// Which append it was does not matter.
#[test]
fn an_append_that_is_in_the_dataset_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let table = |name: &str, rows: std::ops::Range<u32>| {
        let lines: String = rows.map(|n| format!("{n},0.5\n")).collect();
        let path = dir.path().join(name);
        std::fs::write(&path, format!("id,x\n{lines}")).unwrap();
        path
    };
    let (first, one, two) = (table("t0.csv", 0..10), table("t1.csv", 10..30), table("t2.csv", 30..60));
    let out = dir.path().join("out");
    let pack = ["pack", text(&first), "--to", "parquet", "--out", text(&out), "--json"];
    packhorse(&pack).succeed();
    for more in [&one, &two] {
        packhorse(&["append", text(&out), text(more)]).succeed();
    }
    let before = tree(&out);
    for (more, samples) in [(&one, 20), (&two, 30)] {
        let again = packhorse(&["append", text(&out), text(more), "--json"]).succeed();
        let said: serde_json::Value = serde_json::from_str(&again.printed).unwrap();
        assert_eq!(said["samples"], samples, "{again:?}");
    }
    let again = packhorse(&pack).succeed();
    assert_eq!(serde_json::from_str::<serde_json::Value>(&again.printed).unwrap()["samples"], 10, "{again:?}");
    assert_equal(&before, &tree(&out), "appended again");
}

/// A file that was written again since it was appended may hold other samples, also where its size is the same.
#[test]
fn other_samples_in_a_file_of_the_same_size_are_not_taken_for_appended() {
    let dir = tempfile::tempdir().unwrap();
    let [first, export, out] = ["first.csv", "export.csv", "out"].map(|name| dir.path().join(name));
    let write = |path: &Path, x: u32, time: u64| {
        std::fs::write(path, format!("id,x\n1,{x}\n2,{x}\n")).unwrap();
        let time = std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(time);
        std::fs::File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
    };
    write(&first, 1, 1_700_000_000);
    write(&export, 2, 1_700_000_000);
    packhorse(&["pack", text(&first), "--to", "parquet", "--out", text(&out)]).succeed();
    let append = ["append", text(&out), text(&export)];
    packhorse(&append).succeed();
    packhorse(&append).succeed();
    let before = tree(&out);
    write(&export, 3, 1_700_000_060);
    let ended = packhorse(&append).run();
    refused(&ended, CHANGED, &["were added before", "give the files other names"]);
    assert_equal(&before, &tree(&out), "refused");
    let next = dir.path().join("next.csv");
    std::fs::rename(&export, &next).unwrap();
    packhorse(&["append", text(&out), text(&next)]).succeed();
    assert_eq!(manifest(&out).samples, 6);
}

/// Recordings of one length have names, sizes and times in common; a copy of one has its bytes too.
#[test]
fn other_samples_in_another_folder_are_not_taken_for_appended() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let log = |day: &str, x: u32| {
        let path = dir.path().join(day).join("log.csv");
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, format!("id,x\n1,{x}\n2,{x}\n")).unwrap();
        let time = std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        std::fs::File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
        path
    };
    let [one, two, copy, three] = [("1", 1), ("2", 2), ("2b", 2), ("3", 3)].map(|(day, x)| log(day, x));
    let pack = |input: &Path| packhorse(&["pack", text(input), "--to", "parquet", "--out", text(&out)]);
    let append = |input: &Path| packhorse(&["append", text(&out), text(input)]);
    pack(&one).succeed();
    refused(&pack(&two).run(), CHANGED, &["2/log.csv", "1/log.csv", "but other bytes"]);
    append(&two).succeed();
    append(&copy).succeed();
    refused(&append(&three).run(), CHANGED, &["3/log.csv", "2/log.csv", "but other bytes"]);
    // Also of an append that is not sealed.
    let [four, five] = [("4", 4), ("5", 5)].map(|(day, x)| log(day, x));
    let rename = |path: &Path| {
        let to = path.with_file_name("other.csv");
        std::fs::rename(path, &to).unwrap();
        to
    };
    let [four, five] = [rename(&four), rename(&five)];
    packhorse(&["append", text(&out), text(&four), "--plan-only"]).succeed();
    refused(&append(&five).run(), CHANGED, &["5/other.csv", "4/other.csv", "but other bytes"]);
    append(&four).succeed();
    // Inputs may move.
    std::fs::rename(two, dir.path().join("moved.csv")).unwrap();
    append(&copy).succeed();
    assert_eq!(manifest(&out).samples, 6);
}

/// Recordings of one length, or a single one, join those of all lengths.
#[test]
fn arrays_of_one_shape_join_arrays_of_any_shape() {
    let dir = tempfile::tempdir().unwrap();
    let arrays = |day: &str, lengths: &[usize]| {
        let folder = dir.path().join(day);
        std::fs::create_dir(&folder).unwrap();
        for (number, length) in lengths.iter().enumerate() {
            let header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({length}, 2), }}");
            let mut bytes = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
            bytes.extend(format!("{header:<117}\n").into_bytes());
            bytes.extend((0..2 * length).flat_map(|x| (x as f32).to_le_bytes()));
            std::fs::write(folder.join(format!("{day}-{number}.npy")), bytes).unwrap();
        }
        folder
    };
    let [first, single, equal, other] =
        [("a", &[3, 4][..]), ("b", &[5]), ("c", &[7, 7]), ("d", &[6, 8])].map(|(day, lengths)| arrays(day, lengths));
    for to in ["hdf5", "parquet", "webdataset"] {
        let out = dir.path().join(to);
        packhorse(&["pack", text(&first), "--to", to, "--out", text(&out), "--ragged"]).succeed();
        for more in [&single, &equal, &other] {
            packhorse(&["append", text(&out), text(more), "--ragged"]).succeed();
        }
        assert_eq!(manifest(&out).samples, 7);
        packhorse(&["verify", text(&out), "--full"]).succeed();
        let table = dir.path().join(format!("{to}-table"));
        packhorse(&["pack", text(&out), "--to", "parquet", "--out", text(&table), "--ragged"]).succeed();
        let read = packhorse(&["head", text(&table), "-n", "7"]).succeed().printed;
        for shape in ["3,2", "4,2", "5,2", "7,2", "6,2", "8,2"] {
            assert!(read.contains(&format!("[{shape}]")), "{to}: {shape} is not in {read}");
        }
    }
}

#[test]
fn new_samples_may_lack_what_was_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let [first, more, out] = ["first.csv", "more.csv", "out"].map(|name| dir.path().join(name));
    std::fs::write(&first, "x,debug\n1,2\n").unwrap();
    std::fs::write(&more, "x\n3\n").unwrap();
    packhorse(&["pack", text(&first), "--drop", "debug", "--to", "parquet", "--out", text(&out)]).succeed();
    packhorse(&["append", text(&out), text(&more)]).succeed();
    assert_eq!(manifest(&out).samples, 2);
    let more = ["pack", text(&more), "--drop", "debug", "--to", "parquet", "--out", "none"];
    assert!(packhorse(&more).run().said.contains("no field is called debug"));
}

/// The rule for names of files is the dataset's, also where the new samples are rows.
#[test]
fn rows_join_samples_of_files() {
    let dir = tempfile::tempdir().unwrap();
    let [out, other] = ["out", "other"].map(|name| dir.path().join(name));
    for (folder, out) in [("a", &out), ("b", &other)] {
        let input = dir.path().join(folder);
        std::fs::create_dir(&input).unwrap();
        std::fs::write(input.join(format!("{folder}.1.txt")), folder).unwrap();
        let rule = ["--key-ends", "last-dot"];
        packhorse(&[&["pack", text(&input), "--to", "parquet", "--out", text(out)], &rule[..]].concat()).succeed();
    }
    packhorse(&["append", text(&out), text(&other)]).succeed();
    assert_eq!(manifest(&out).samples, 2);
}

/// The plan of an append that is lost or damaged is stored again by that append alone; status and repair say so.
#[test]
fn a_lost_plan_of_an_append_is_made_again_by_it() {
    let dir = tempfile::tempdir().unwrap();
    let table = |name: &str, rows: std::ops::Range<u32>| {
        let path = dir.path().join(name);
        std::fs::write(&path, format!("id\n{}", rows.map(|n| format!("{n}\n")).collect::<String>())).unwrap();
        path
    };
    let (first, one, two) = (table("t0.csv", 0..10), table("t1.csv", 10..30), table("t2.csv", 30..60));
    let (out, other) = (dir.path().join("out"), table("t3.csv", 60..70));
    packhorse(&["pack", text(&first), "--to", "parquet", "--out", text(&out)]).succeed();
    for more in [&one, &two] {
        packhorse(&["append", text(&out), text(more)]).succeed();
    }
    let before = tree(&out);
    for (plan, more) in [("plan-000001.jsonl.zst", &one), ("plan-000002.jsonl.zst", &two)] {
        let good = std::fs::read(out.join(plan)).unwrap();
        let mut flipped = good.clone();
        flipped[good.len() / 2] ^= 1;
        for left in [None, Some(&good[..good.len() / 2]), Some(&flipped[..])] {
            match left {
                None => std::fs::remove_file(out.join(plan)).unwrap(),
                Some(bytes) => std::fs::write(out.join(plan), bytes).unwrap(),
            }
            let status = packhorse(&["status", text(&out), "--json"]).run();
            let told: serde_json::Value = serde_json::from_str(&status.printed).unwrap();
            assert!(told["shards"] == 3 && told["samples"] == 60, "{status:?}");
            refused(&packhorse(&["repair", text(&out)]).run(), DAMAGED, &[plan, "packhorse append"]);
            // A file of the right length is not read whole by these.
            if left.is_none_or(|left| left.len() != good.len()) {
                assert_eq!(status.code(), DAMAGED, "{status:?}");
                refused(&packhorse(&["append", text(&out), text(&other)]).run(), DAMAGED, &[plan, "packhorse append"]);
            }
            packhorse(&["append", text(&out), text(more)]).succeed();
            assert_equal(&before, &tree(&out), "the plan is there again");
            packhorse(&["verify", "--full", text(&out)]).succeed();
        }
    }
    // An input that was copied has another time, which a plan records.
    let plan = out.join("plan-000001.jsonl.zst");
    std::fs::File::options().append(true).open(&one).unwrap().set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    for left in [None, Some(b"x")] {
        left.map_or_else(|| std::fs::remove_file(&plan), |left| std::fs::write(&plan, left)).unwrap();
        packhorse(&["append", text(&out), text(&one)]).succeed();
        packhorse(&["verify", "--full", text(&out)]).succeed();
    }
    // Beside an append that is not sealed yet, and beside another lost plan.
    packhorse(&["append", text(&out), text(&other), "--plan-only"]).succeed();
    std::fs::remove_file(&plan).unwrap();
    packhorse(&["append", text(&out), text(&one)]).succeed();
    packhorse(&["append", text(&out), text(&other)]).succeed();
    for number in [1, 2] {
        std::fs::remove_file(out.join(format!("plan-00000{number}.jsonl.zst"))).unwrap();
    }
    for more in [&one, &two] {
        packhorse(&["append", text(&out), text(more)]).succeed();
    }
    packhorse(&["verify", "--full", text(&out)]).succeed();
    assert_eq!(manifest(&out).samples, 70);
}

/// Where the manifest is lost too, the shards of a lost append are not left out of the dataset without a word.
#[test]
fn shards_of_a_lost_append_are_told_where_the_manifest_is_lost_too() {
    let dir = tempfile::tempdir().unwrap();
    let table = |name: &str, rows: &str| {
        std::fs::write(dir.path().join(name), format!("id\n{rows}")).unwrap();
        dir.path().join(name)
    };
    let (first, second, out) = (table("t0.csv", "1\n2\n"), table("t1.csv", "3\n"), dir.path().join("out"));
    let pack = ["pack", text(&first), "--to", "parquet", "--out", text(&out)];
    packhorse(&pack).succeed();
    packhorse(&["append", text(&out), text(&second)]).succeed();
    let before = tree(&out);
    for lost in ["dataset.json", "plan-000001.jsonl.zst"] {
        std::fs::remove_file(out.join(lost)).unwrap();
    }
    for command in [&["repair", text(&out)][..], &["seal", text(&out)], &pack] {
        refused(&packhorse(command).run(), DAMAGED, &["shard-000001.receipt.json", "of a plan that is lost", "move"]);
    }
    for file in ["shard-000001.parquet", "shard-000001.receipt.json"] {
        std::fs::rename(out.join(file), dir.path().join(file)).unwrap();
    }
    packhorse(&["seal", text(&out)]).succeed();
    packhorse(&["append", text(&out), text(&second)]).succeed();
    assert_equal(&before, &tree(&out), "appended again");

    // Of a split that the other plans do not have.
    let parted = dir.path().join("parted");
    packhorse(&["pack", text(&first), "--to", "parquet", "--out", text(&parted), "--split", "train=1"]).succeed();
    packhorse(&["append", text(&parted), text(&second), "--split", "val=1"]).succeed();
    for lost in ["dataset.json", "plan-000001.jsonl.zst"] {
        std::fs::remove_file(parted.join(lost)).unwrap();
    }
    refused(
        &packhorse(&["seal", text(&parted)]).run(),
        DAMAGED,
        &["val-000000.receipt.json", "of a plan that is lost"],
    );
}

/// A dataset that was copied over a grown one leaves the plan of the append to that one.
#[test]
fn a_plan_of_another_dataset_is_not_taken_for_an_append() {
    let dir = tempfile::tempdir().unwrap();
    let files = |name: &str, from: usize| {
        let path = dir.path().join(name);
        std::fs::create_dir(&path).unwrap();
        (from..from + 20).for_each(|n| std::fs::write(path.join(format!("{n}.txt")), format!("{n}")).unwrap());
        path
    };
    let (one, two, three) = (files("one", 100), files("two", 200), files("three", 300));
    for each in ["2", "10"] {
        let [grown, other] = ["grown", "other"].map(|name| dir.path().join(format!("{name}-{each}")));
        packhorse(&["pack", text(&one), "--out", text(&grown), "--to", "webdataset", "--samples-per-shard", "5"])
            .succeed();
        packhorse(&["append", text(&grown), text(&two)]).succeed();
        let shape = ["--to", "webdataset", "--samples-per-shard", each];
        packhorse(&[&["pack", text(&three), "--out", text(&other)], &shape[..]].concat()).succeed();
        let whole = tree(&other);
        for name in whole.keys() {
            std::fs::copy(other.join(name), grown.join(name)).unwrap();
        }
        let before = tree(&grown);
        let grown = text(&grown);
        for command in [
            &["append", grown, text(&two)][..],
            &["clean", "--append", grown],
            &["pack", "--plan", grown],
            &["pack", "--plan", grown, "--seal"],
            &[&["pack", text(&three), "--out", grown], &shape[..]].concat(),
            &["seal", grown],
            &["repair", grown],
            &["status", grown],
        ] {
            let ended = packhorse(command).run();
            refused(&ended, DAMAGED, &["plan-000001.jsonl.zst", "another dataset"]);
        }
        assert_equal(&before, &tree(Path::new(grown)), "nothing changed");
        // Another dataset in its place leaves nothing of any of them.
        let replaced = dir.path().join(format!("replaced-{each}"));
        std::fs::create_dir(&replaced).unwrap();
        for name in before.keys() {
            std::fs::copy(Path::new(grown).join(name), replaced.join(name)).unwrap();
        }
        packhorse(&[&["pack", text(&two), "--replace", "--out", text(&replaced)], &shape[..]].concat()).succeed();
        assert!(!replaced.join("plan-000001.jsonl.zst").exists());
        // The first dataset's shards beyond are strangers.
        if each == "2" {
            packhorse(&["verify", "--full", text(&replaced)]).succeed();
        }
        // The remedy that the error names.
        std::fs::remove_file(Path::new(grown).join("plan-000001.jsonl.zst")).unwrap();
        let found = packhorse(&["verify", grown, "--json"]).run();
        let told: serde_json::Value = serde_json::from_str(&found.printed).unwrap();
        for damage in told["damages"].as_array().unwrap() {
            std::fs::remove_file(Path::new(grown).join(damage["file"].as_str().unwrap())).unwrap();
        }
        assert_equal(&whole, &tree(Path::new(grown)), "the other dataset");
        packhorse(&["verify", "--full", grown]).succeed();
    }
}

/// Flags of an append are for its samples; the next one has the settings of the dataset again.
#[test]
fn settings_of_one_append_are_not_those_of_the_next() {
    let dir = tempfile::tempdir().unwrap();
    let files = |name: &str| {
        let path = dir.path().join(name);
        std::fs::create_dir(&path).unwrap();
        (0..40).for_each(|n| std::fs::write(path.join(format!("{name}{n}.txt")), format!("{n}")).unwrap());
        path
    };
    let (one, two, three) = (files("one"), files("two"), files("three"));
    let pack = |inputs: &[&Path], out: &str| {
        let out = dir.path().join(out);
        let mut words: Vec<&str> = vec!["pack"];
        words.extend(inputs.iter().map(|input| text(input)));
        packhorse(&[&words[..], &["--to", "webdataset", "--split", "train=0.5,val=0.5", "--out", text(&out)]].concat())
            .succeed();
        out
    };
    let (out, whole) = (pack(&[&one], "out"), pack(&[&one, &three], "whole"));
    packhorse(&["append", text(&out), text(&two), "--split", "test=1", "--shuffle", "1"]).succeed();
    packhorse(&["append", text(&out), text(&three)]).succeed();
    let samples = |out: &Path| -> Vec<(String, u64)> {
        manifest(out).splits.iter().map(|split| (split.name.clone(), split.samples)).collect()
    };
    let mut wanted = samples(&whole);
    wanted.push(("test".to_owned(), 40));
    assert_eq!(samples(&out), wanted);
    // Each of them again is there already.
    let before = tree(&out);
    packhorse(&["append", text(&out), text(&three)]).succeed();
    packhorse(&["append", text(&out), text(&two), "--split", "test=1", "--shuffle", "1"]).succeed();
    assert_equal(&before, &tree(&out), "appended before");
}

/// Labels of every format may be added, and a dataset not to itself.
#[test]
fn labelled_datasets_are_added_to_each_other() {
    let corpus = Corpus::new();
    for to in ["webdataset", "hdf5", "parquet"] {
        let pack = |input: &Path, name: &str| {
            let out = corpus.dir(&format!("{to}-{name}"));
            packhorse(&["pack", text(input), "--labels", "folders", "--to", to, "--out", text(&out)]).succeed();
            out
        };
        let (one, two) = (pack(&corpus.first, "one"), pack(&corpus.more, "two"));
        packhorse(&["append", text(&one), text(&two)]).succeed();
        packhorse(&["verify", "--full", text(&one)]).succeed();
        assert_eq!(manifest(&one).samples, 90, "{to}");
        refused(&packhorse(&["append", text(&one), text(&one)]).run(), CONFIG, &["can't be an input"]);
    }
}

/// Classes that later appends added are not in the plan of an earlier one.
#[test]
fn a_lost_plan_is_made_again_though_classes_were_added() {
    let corpus = Corpus::new();
    let out = corpus.sealed("out", &WEBDATASET);
    corpus.append(&out, &[]).succeed();
    let third = corpus.dir("third");
    std::fs::create_dir_all(third.join("zebra")).unwrap();
    let picture = std::fs::read_dir(&corpus.first).unwrap().next().unwrap().unwrap().path();
    let picture = std::fs::read_dir(picture).unwrap().next().unwrap().unwrap().path();
    std::fs::copy(picture, third.join("zebra/one.jpg")).unwrap();
    let classes = corpus.dir("classes");
    std::fs::write(&classes, [&manifest(&out).classes[..], &["zebra".to_owned()]].concat().join("\n")).unwrap();
    packhorse(&["append", text(&out), text(&third), "--labels", "folders", "--classes", text(&classes)]).succeed();
    let before = tree(&out);
    std::fs::remove_file(out.join("plan-000001.jsonl.zst")).unwrap();
    corpus.append(&out, &[]).succeed();
    assert_equal(&before, &tree(&out), "the plan is there again");
}

/// What an error says to do about shards that are missing depends on the plan that they are of.
#[test]
fn remedies_for_missing_shards_work() {
    let corpus = Corpus::new();
    let out = corpus.sealed("out", &WEBDATASET);
    corpus.append(&out, &[]).succeed();
    let before = tree(&out);
    let first = manifest(&out).shards[0].file.clone();
    std::fs::remove_file(out.join(&first)).unwrap();
    let said = ["packhorse repair"];
    refused(&packhorse(&["seal", text(&out)]).run(), DAMAGED, &said);
    for command in [&["head", text(&out)][..], &["ls", text(&out)], &["cat", text(&out.join(&first)), "x.jpg"]] {
        refused(&packhorse(command).run(), DAMAGED, &said);
    }
    packhorse(&["repair", text(&out)]).succeed();
    assert_equal(&before, &tree(&out), "the shard is there again");
    let other = corpus.sealed("other", &WEBDATASET);
    corpus.append(&other, &["--plan-only"]).succeed();
    let ended = packhorse(&["seal", text(&other)]).run();
    refused(&ended, DAMAGED, &["packhorse pack --plan"]);
    assert!(!ended.said.contains("repair"), "{ended:?}");
    std::fs::remove_file(other.join(&first)).unwrap();
    refused(&packhorse(&["seal", text(&other)]).run(), DAMAGED, &["packhorse repair", "packhorse pack --plan"]);
    packhorse(&["repair", text(&other)]).succeed();
    packhorse(&["pack", "--plan", text(&other), "--seal"]).succeed();
    assert_equal(&before, &tree(&other), "one append or two");
    // A manifest of a later version is not damage.
    let json = std::fs::read_to_string(other.join("dataset.json")).unwrap();
    std::fs::write(
        other.join("dataset.json"),
        json.replacen("\"packhorse_dataset\": 1", "\"packhorse_dataset\": 2", 1),
    )
    .unwrap();
    for command in [&["verify", text(&other)][..], &["status", text(&other)], &["head", text(&other)]] {
        refused(&packhorse(command).run(), UNSUPPORTED, &["version 2"]);
    }
}

/// A plan of an append that is not sealed, and can't be read, is stored again by the same append, or dropped on request.
#[test]
fn a_damaged_plan_of_an_unsealed_append_is_made_again_or_dropped() {
    let corpus = Corpus::new();
    let whole = corpus.sealed("whole", &WEBDATASET);
    corpus.append(&whole, &[]).succeed();
    for (way, samples) in [("again", 90), ("other", 65), ("dropped", 60)] {
        let out = corpus.sealed(way, &WEBDATASET);
        let old = tree(&out);
        corpus.append(&out, &["--plan-only"]).succeed();
        packhorse(&["pack", "--plan", text(&out), "--part", "1/2"]).succeed();
        let plan = out.join("plan-000001.jsonl.zst");
        let bytes = std::fs::read(&plan).unwrap();
        std::fs::write(&plan, &bytes[..bytes.len() / 2]).unwrap();
        let other = corpus.append(&out, &["--limit", "5"]).run();
        refused(&other, DAMAGED, &["plan-000001.jsonl.zst", "packhorse append", "clean --append"]);
        match way {
            "again" => {
                corpus.append(&out, &[]).succeed();
                assert_equal(&tree(&whole), &tree(&out), way);
            }
            "other" => drop(corpus.append(&out, &["--limit", "5", "--replace"]).succeed()),
            _ => {
                packhorse(&["clean", "--append", text(&out)]).succeed();
                assert_equal(&old, &tree(&out), way);
            }
        }
        assert_eq!(manifest(&out).samples, samples);
        packhorse(&["verify", "--full", text(&out)]).succeed();
    }
}

/// Files of others that have the names of new shards are not overwritten.
#[test]
fn files_in_the_way_of_new_shards_stay() {
    let corpus = Corpus::new();
    let out = corpus.sealed("out", &WEBDATASET);
    let manifest = manifest(&out);
    let other = out.join(format!("shard-{:06}.tar", manifest.shards.len()));
    std::fs::write(&other, b"the only copy").unwrap();
    let before = tree(&out);
    let ended = corpus.append(&out, &[]).run();
    refused(&ended, CONFIG, &["has the name of a new shard", "move it elsewhere"]);
    assert_equal(&before, &tree(&out), "refused");
    std::fs::remove_file(&other).unwrap();
    corpus.append(&out, &[]).succeed();
}

/// A label is a number in the plan of pictures and a member in the plan of shards: the same bytes, which append.
#[test]
fn labels_of_folders_and_of_packed_shards_follow_each_other() {
    let corpus = Corpus::new();
    let wanted = ["--to", "webdataset", "--samples-per-shard", "20"];
    let labelled = corpus.sealed("labelled", &wanted);
    let again = corpus.dir("again");
    packhorse(&[&["pack", text(&labelled), "--out", text(&again)], &wanted[..]].concat()).succeed();
    let more = corpus.dir("packed-more");
    let fixed = ["pack", text(&corpus.more), "--labels", "folders", "--out", text(&more)];
    packhorse(&[&fixed[..], &wanted].concat()).succeed();
    let all = |out: &Path| -> Vec<(String, Vec<u8>)> {
        let of = |key: &String| packhorse(&["cat", text(out), &format!("{key}.cls")]).succeed().printed.into_bytes();
        let mut all: Vec<_> = keys(out).iter().map(|key| (key.clone(), of(key))).collect();
        all.sort();
        all
    };
    let added = corpus.sealed("added", &wanted);
    corpus.append(&added, &[]).succeed();
    let known = all(&added);
    for (out, new) in [(&again, &corpus.more), (&labelled, &more)] {
        let labels: &[&str] = if *new == corpus.more { &["--labels", "folders"] } else { &[] };
        packhorse(&[&["append", text(out), text(new)], labels].concat()).succeed();
        assert_eq!(verified(out).code(), 0);
        assert_eq!(all(out), known);
        assert_eq!(manifest(out).classes, manifest(&added).classes);
    }
}

#[test]
fn splits_by_key_are_those_of_one_pack_of_everything() {
    let corpus = Corpus::new();
    let split = ["--to", "webdataset", "--split", "train=0.7,val=0.3"];
    let out = corpus.sealed("out", &split);
    corpus.append(&out, &[]).succeed();
    let both = corpus.dir("both");
    let fixed = ["pack", text(&corpus.first), text(&corpus.more), "--labels", "folders", "--out", text(&both)];
    packhorse(&[&fixed[..], &split].concat()).succeed();
    let of = |out: &Path, split: &str| -> BTreeSet<String> {
        let manifest = manifest(out);
        let shards = manifest.shards.iter().filter(|shard| shard.split.as_deref() == Some(split));
        shards.flat_map(|shard| keys(&out.join(&shard.file))).collect()
    };
    for name in ["train", "val"] {
        assert_eq!(of(&out, name), of(&both, name));
    }
}

#[test]
fn every_format_takes_more() {
    let corpus = Corpus::new();
    for format in ["hdf5", "parquet", "arrow", "tfrecord"] {
        let out = corpus.sealed(format, &["--to", format, "--samples-per-shard", "20"]);
        let old = tree(&out);
        corpus.append(&out, &[]).succeed();
        assert_within(&old, &tree(&out), of_shard);
        assert_eq!((manifest(&out).samples, manifest(&out).shards.len()), (90, 5));
        assert_eq!(verified(&out).code(), 0);
        let tars = corpus.dir(&format!("{format}-tars"));
        packhorse(&["pack", text(&out), "--to", "webdataset", "--out", text(&tars)]).succeed();
        assert_eq!(manifest(&tars).samples, 90);
    }
}

#[test]
fn tokens_take_more_with_the_tokenizer_that_they_have() {
    let dir = tempfile::tempdir().unwrap();
    let [first, more, tokenizer, out] = ["first", "more", "t.json", "out"].map(|name| dir.path().join(name));
    std::fs::write(&tokenizer, common::bytes::tokenizer()).unwrap();
    common::corpus::documents(&first, 40);
    common::corpus::documents(&dir.path().join("other"), 30);
    std::fs::create_dir(&more).unwrap();
    std::fs::rename(dir.path().join("other/a.jsonl"), more.join("c.jsonl")).unwrap();
    packhorse(&[
        "pack",
        text(&first),
        "--to",
        "tokens",
        "--tokenizer",
        text(&tokenizer),
        "--append-eod",
        "--out",
        text(&out),
    ])
    .succeed();
    let before = manifest(&out);
    std::fs::remove_file(&tokenizer).unwrap();
    packhorse(&["append", text(&out), text(&more)]).succeed();
    let after = manifest(&out);
    assert!(after.counts["tokens"] > before.counts["tokens"], "{:?}", after.counts);
    assert_eq!((after.shards.len(), &after.transforms), (before.shards.len() + 1, &before.transforms));
    // Two files of one stem: tokens have no keys.
    let pair = dir.path().join("pair");
    std::fs::create_dir(&pair).unwrap();
    for name in ["d.jsonl", "d.ndjson"] {
        std::fs::write(pair.join(name), "{\"text\": \"a b\"}\n").unwrap();
    }
    packhorse(&["append", text(&out), text(&pair)]).succeed();
    assert_eq!(manifest(&out).samples, after.samples + 2);
    assert_eq!(verified(&out).code(), 0);
}

/// Inputs may differ in fields that are not packed.
#[test]
fn other_fields_of_inputs_of_which_the_same_is_packed_do_not_matter() {
    let dir = tempfile::tempdir().unwrap();
    let [table, lines, tokenizer, out] = ["t.csv", "more.jsonl", "t.json", "out"].map(|name| dir.path().join(name));
    std::fs::write(&tokenizer, common::bytes::tokenizer()).unwrap();
    std::fs::write(&table, "id,text\n1,ab\n2,ba\n").unwrap();
    std::fs::write(&lines, "{\"text\": \"abba\"}\n").unwrap();
    let pack = ["pack", text(&table), "--to", "tokens", "--tokenizer", text(&tokenizer), "--text-field", "text"];
    packhorse(&[&pack[..], &["--out", text(&out)]].concat()).succeed();
    packhorse(&["append", text(&out), text(&lines), "--text-field", "text"]).succeed();
    assert_eq!((manifest(&out).samples, verified(&out).code()), (3, 0));
    // Another field of text is another text.
    let [titles, urls, first] = ["titles.csv", "urls.csv", "first"].map(|name| dir.path().join(name));
    std::fs::write(&titles, "body,n\nab,1\n").unwrap();
    std::fs::write(&urls, "n,url\n1,ba\n").unwrap();
    let pack = ["pack", text(&titles), "--to", "tokens", "--tokenizer", text(&tokenizer), "--out", text(&first)];
    packhorse(&pack).succeed();
    assert_eq!(packhorse(&["append", text(&first), text(&urls)]).run().code(), 2);
    // A picture of another kind that becomes one of the same.
    let [pnm, jpeg, out] = ["pnm", "jpeg", "pictures"].map(|name| dir.path().join(name));
    [&pnm, &jpeg].into_iter().for_each(|folder| std::fs::create_dir(folder).unwrap());
    std::fs::write(pnm.join("a.ppm"), [&b"P6\n8 8\n255\n"[..], &[9; 192]].concat()).unwrap();
    packhorse(&["synth", "images", "--count", "1", "--out", text(&jpeg)]).succeed();
    packhorse(&["pack", text(&pnm), "--to", "webdataset", "--image", "jpeg=ppm", "--out", text(&out)]).succeed();
    packhorse(&["append", text(&out), text(&jpeg)]).succeed();
    let packed = manifest(&out);
    let names: Vec<&str> = packed.schema.iter().map(|field| field.name.as_str()).collect();
    assert_eq!((packed.samples, names.contains(&"jpg"), names.contains(&"ppm")), (2, true, false), "{names:?}");
    assert_eq!(verified(&out).code(), 0);
    // Further ones of the first kind.
    std::fs::rename(pnm.join("a.ppm"), pnm.join("b.ppm")).unwrap();
    packhorse(&["append", text(&out), text(&pnm)]).succeed();
    assert_eq!((manifest(&out).samples, verified(&out).code()), (3, 0));
}

#[test]
fn what_contradicts_the_dataset_is_refused_and_changes_nothing() {
    let corpus = Corpus::new();
    let out = corpus.sealed("out", &WEBDATASET);
    let before = tree(&out);
    let again = packhorse(&["append", text(&out), text(&corpus.first), "--labels", "folders"]).run();
    refused(&again, CONFIG, &["the dataset has a sample with this key", "and 59 other"]);
    let bare = packhorse(&["append", text(&out), text(&corpus.more)]).run();
    refused(&bare, CONFIG, &["the dataset has the field cls, which the new samples lack"]);
    refused(&corpus.append(&out, &["--to", "hdf5"]).run(), CONFIG, &["names another format"]);
    refused(&corpus.append(&out, &["--index", "wids"]).run(), CONFIG, &["was packed with", "index"]);
    refused(&corpus.append(&out, &["--image", "resize=32"]).run(), CONFIG, &["was packed with the transforms [none]"]);
    refused(&corpus.append(&out, &["--split", "train=0.5,val=0.5"]).run(), CONFIG, &["has no splits"]);
    let absent = packhorse(&["append", text(&corpus.dir("nowhere")), text(&corpus.more)]).run();
    refused(&absent, CONFIG, &["no such file or folder"]);
    refused(
        &packhorse(&["append", text(&corpus.first), text(&corpus.more)]).run(),
        CONFIG,
        &["is a folder without a dataset"],
    );

    let zebra = corpus.more.join("zebra");
    std::fs::rename(corpus.more.join("cat"), &zebra).unwrap();
    refused(&corpus.append(&out, &[]).run(), CONTENT, &["zebra"]);
    assert_equal(&before, &tree(&out), "after requests that were refused");

    // A longer list that begins with the dataset's is its next list.
    let list = corpus.dir("classes.txt");
    let classes = manifest(&out).classes;
    std::fs::write(&list, format!("{}\nzebra\n", classes.join("\n"))).unwrap();
    corpus.append(&out, &["--classes", text(&list)]).succeed();
    assert_eq!(manifest(&out).classes, [&classes[..], &["zebra".to_owned()]].concat());
    assert_eq!(verified(&out).code(), 0);
    std::fs::write(&list, "zebra\n").unwrap();
    std::fs::rename(&zebra, corpus.more.join("zebra2")).unwrap();
    refused(&corpus.append(&out, &["--classes", text(&list)]).run(), CONTENT, &["which is not in the class list"]);
}

#[test]
fn an_append_in_parts_is_no_part_of_the_dataset_before_it_is_sealed() {
    let corpus = Corpus::new();
    let whole = corpus.sealed("whole", &WEBDATASET);
    corpus.append(&whole, &[]).succeed();
    let out = corpus.sealed("out", &WEBDATASET);
    let old = manifest(&out);
    corpus.append(&out, &["--plan-only"]).succeed();
    packhorse(&["pack", "--plan", text(&out), "--part", "1/2"]).succeed();
    assert_eq!(manifest(&out), old);
    assert_eq!(verified(&out).code(), 0);
    let status = packhorse(&["status", text(&out), "--json"]).succeed();
    let status: serde_json::Value = serde_json::from_str(&status.printed).unwrap();
    assert_eq!(
        (&status["sealed"], &status["shards"], &status["appending"]["shards"]),
        (&true.into(), &9.into(), &5.into())
    );
    assert_eq!(status["missing"].as_array().unwrap().len(), 0);
    refused(&packhorse(&["seal", text(&out)]).run(), DAMAGED, &["shards are missing"]);
    assert_eq!(manifest(&out), old);

    // Damage of the old shards is mended meanwhile.
    let shard = out.join("shard-000003.tar");
    let bytes = std::fs::read(&shard).unwrap();
    std::fs::write(&shard, &bytes[..bytes.len() / 2]).unwrap();
    packhorse(&["repair", text(&out)]).succeed();
    packhorse(&["clean", "--quarantine", text(&out)]).succeed();
    assert_eq!((std::fs::read(&shard).unwrap(), manifest(&out)), (bytes, old));

    packhorse(&["pack", "--plan", text(&out), "--part", "2/2", "--seal"]).succeed();
    assert_equal(&tree(&whole), &tree(&out), "in parts");
}

/// Indexes for other readers are replaced before the manifest.
#[test]
fn an_append_that_was_stopped_while_it_was_sealed_is_named_and_sealed() {
    let corpus = Corpus::new();
    let whole = corpus.sealed("whole", &WEBDATASET);
    corpus.append(&whole, &[]).succeed();
    let out = corpus.sealed("out", &WEBDATASET);
    corpus.append(&out, &["--plan-only"]).succeed();
    packhorse(&["pack", "--plan", text(&out)]).succeed();
    std::fs::copy(whole.join("shardindex.json"), out.join("shardindex.json")).unwrap();
    let found = packhorse(&["verify", text(&out), "--json"]).run();
    assert_eq!(found.code(), DAMAGED, "{found:?}");
    assert!(
        found.printed.contains("shardindex.json") && found.printed.contains("`packhorse seal` ends it"),
        "{found:?}"
    );
    packhorse(&["seal", text(&out)]).succeed();
    assert_equal(&tree(&whole), &tree(&out), "sealed");
}

#[test]
fn an_append_that_was_not_ended_is_gone_on_with_or_dropped() {
    let corpus = Corpus::new();
    let out = corpus.sealed("out", &WEBDATASET);
    let old = tree(&out);
    corpus.append(&out, &["--plan-only"]).succeed();
    packhorse(&["pack", "--plan", text(&out), "--part", "1/2"]).succeed();
    let other = corpus.append(&out, &["--limit", "5"]).run();
    refused(&other, CONFIG, &["holds another append", "--replace"]);
    corpus.append(&out, &["--limit", "5", "--replace"]).succeed();
    assert_eq!((manifest(&out).samples, manifest(&out).shards.len()), (65, 10));
    assert_within(&old, &tree(&out), of_shard);
    let verified = verified(&out);
    assert_eq!(verified.code(), 0, "{verified:?}");
}

#[test]
fn an_append_is_dropped_and_the_dataset_is_what_it_was() {
    let corpus = Corpus::new();
    let out = corpus.sealed("out", &WEBDATASET);
    let old = tree(&out);
    corpus.append(&out, &["--plan-only"]).succeed();
    packhorse(&["pack", "--plan", text(&out), "--part", "1/2"]).succeed();
    // As an interrupted seal may leave it.
    std::fs::write(out.join("shardindex.json"), "[]").unwrap();
    let dropped = packhorse(&["clean", "--append", text(&out), "--json"]).succeed();
    assert!(dropped.printed.contains("\"dropped_append\": 5"), "{dropped:?}");
    assert_equal(&old, &tree(&out), "dropped");
    let none = packhorse(&["clean", "--append", text(&out), "--json"]).succeed();
    assert!(none.printed.contains("\"dropped_append\": null"), "{none:?}");
    refused(&packhorse(&["clean", "--append", text(&corpus.more)]).run(), CONFIG, &["without a dataset"]);
}

fn append(session: &Session, out: &Path, input: &Path) -> Result<Packed> {
    session.append(out, &Recipe { input: vec![input.to_owned()], ..Recipe::default() })
}

/// A session of another machine, whose locks are not seen here.
fn elsewhere(store: Arc<dyn Store>) -> Session {
    packhorse::session().jobs(1).store(store)
}

#[test]
fn of_two_appends_on_two_machines_one_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let [first, one, two, before] = ["first", "one", "two", "before"].map(|name| dir.path().join(name));
    for (folder, names) in [(&first, ["a", "b", "c"]), (&one, ["d", "e", "f"]), (&two, ["g", "h", "i"])] {
        std::fs::create_dir(folder).unwrap();
        names.iter().for_each(|name| std::fs::write(folder.join(name).with_extension("txt"), name).unwrap());
    }
    packhorse::session().pack(&Recipe::new(&first, "webdataset", &before).samples_per_shard(2)).unwrap();
    let (mut told, mut call) = (0, 0);
    loop {
        let out = dir.path().join(format!("out-{call}"));
        assert!(std::process::Command::new("cp").arg("-a").args([&before, &out]).status().unwrap().success());
        let ended = Arc::new(Mutex::new(None));
        let (slot, theirs) = (Arc::clone(&ended), (out.clone(), two.clone()));
        let meanwhile = move || {
            let store = FailingStore::counting(Arc::new(Local));
            *slot.lock().unwrap() = Some(append(&elsewhere(Arc::new(store)), &theirs.0, &theirs.1));
        };
        let fault = StoreFault::Meanwhile(Box::new(meanwhile));
        let store = FailingStore::new(Arc::new(Local), move |at| at.number == call, fault);
        let mine = append(&elsewhere(Arc::new(store)), &out, &one);
        let Some(theirs) = ended.lock().unwrap().take() else { break };
        // One that says it succeeded did, and the other one said what to do.
        for (name, ended) in [("d", &mine), ("g", &theirs)] {
            let keys = keys_of(&out);
            assert_eq!(ended.is_ok(), keys.contains(name), "call {call}: {ended:?} {keys:?}");
            if let Err(e) = ended {
                assert!([Code::OutputBusy, Code::PlanDiffers].contains(&e.code()), "call {call}: {e:?}");
                told += 1;
            }
        }
        for (input, _) in [(&two, &theirs), (&one, &mine)].into_iter().filter(|(_, ended)| ended.is_err()) {
            append(&packhorse::session(), &out, input).unwrap_or_else(|e| panic!("call {call}, again: {e}"));
        }
        let all = keys_of(&out);
        assert_eq!(all, ["a", "b", "c", "d", "e", "f", "g", "h", "i"].map(str::to_owned).into(), "call {call}");
        assert!(packhorse::session().verify(&out, Depth::Full).unwrap().damages.is_empty(), "call {call}");
        call += 1;
    }
    assert!(call > 20 && told > 0 && told <= call, "{told} of {call}");
}

/// The keys of all samples of a sealed dataset.
fn keys_of(out: &Path) -> BTreeSet<String> {
    let loader = packhorse::open(text(out)).unwrap().loader(1).field("text", "txt").epochs(1).build().unwrap();
    loader.map(|batch| batch.unwrap().key(0).unwrap().to_owned()).collect()
}

#[test]
fn a_loader_goes_on_with_the_samples_that_its_state_is_of() {
    let corpus = Corpus::new();
    let out = corpus.sealed("out", &WEBDATASET);
    let batches = |dataset: &Dataset, state: Option<&OrderState>| {
        let loader = dataset.loader(4).field("jpg", "jpg").seed(9).epochs(1);
        state.into_iter().fold(loader, LoaderBuilder::resume).build()
    };
    let rest = |loader: Loader<Host>| -> Vec<String> {
        let keys = |batch: Batch<_>| -> Vec<String> {
            (0..batch.rows()).map(|row| batch.key(row).unwrap().to_owned()).collect()
        };
        loader.flat_map(|batch| keys(batch.unwrap())).collect()
    };
    let mut loader = batches(&packhorse::open(text(&out)).unwrap(), None).unwrap();
    loader.next().unwrap().unwrap();
    let state = loader.state();
    let wanted = rest(loader);
    corpus.append(&out, &[]).succeed();
    let grown = packhorse::open(text(&out)).unwrap();
    assert_eq!(grown.len(), 90);
    let error = batches(&grown, Some(&state)).err().unwrap();
    assert_eq!(error.code(), Code::StateDiffers);
    assert!(error.to_string().contains("has 90") && error.to_string().contains("take(60)"), "{error}");
    assert_eq!(rest(batches(&grown.take(60).unwrap(), Some(&state)).unwrap()), wanted);
    let mut all = rest(batches(&grown, None).unwrap());
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 88, "90 samples but the last two, which fill no batch of four");
}

#[test]
fn killed_at_random_moments() {
    let kills: u32 = std::env::var("PACKHORSE_KILLS").map_or(10, |n| n.parse().unwrap());
    let corpus = Corpus::new();
    let whole = corpus.sealed("whole", &WEBDATASET);
    let old = manifest(&whole);
    let took = corpus.append(&whole, &[]).succeed().took;
    let whole = tree(&whole);
    let fresh = |name: &str| corpus.sealed(name, &WEBDATASET);
    let mut out = fresh("out0");
    let (mut state, mut killed, mut finished) = (0x5eed_u64, 0, 0);
    while killed < kills {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let moment = (state >> 33) as f64 / f64::from(u32::MAX >> 1);
        let mut running = corpus.append(&out, &[]).start();
        running.ends_within(took.mul_f64(moment.min(1.0)).max(Duration::from_millis(1)));
        running.kill();
        match running.end().code() {
            KILLED => {
                killed += 1;
                let now = manifest(&out);
                assert!(now == old || now.samples == 90, "after kill {killed}");
                // Shards of the old dataset, and whole ones of the new.
                let left: Tree = tree(&out).into_iter().filter(|(name, _)| of_shard(name)).collect();
                assert_within(&left, &whole, |_| true);
            }
            0 => {
                assert_equal(&whole, &tree(&out), "finished");
                finished += 1;
                out = fresh(&format!("out{finished}"));
            }
            code => panic!("ended with {code}"),
        }
    }
    corpus.append(&out, &[]).succeed();
    assert_equal(&whole, &tree(&out), "at the end");
    packhorse_testkit::external::count(killed, "kills at random moments");
}

/// The dataset does not have a sample that was left out: the mended file is taken under its key, once.
#[test]
fn a_sample_that_was_left_out_is_added_once_it_is_mended() {
    let corpus = Corpus::new();
    let whole = std::fs::read_dir(&corpus.first).unwrap().next().unwrap().unwrap().path();
    let file = std::fs::read_dir(&whole).unwrap().next().unwrap().unwrap().path();
    let good = std::fs::read(&file).unwrap();
    std::fs::write(&file, &good[..good.len() / 2]).unwrap();
    let skipping = ["--to", "webdataset", "--image", "check", "--on-error", "skip", "--json"];
    let out = corpus.sealed("out", &skipping);
    let mended = corpus.more.join(file.strip_prefix(&corpus.first).unwrap());
    std::fs::write(&mended, &good).unwrap();
    let ended = corpus.append(&out, &["--json"]).succeed();
    let said: serde_json::Value = serde_json::from_str(&ended.printed).unwrap();
    assert_eq!((&said["samples"], &said["skipped"]), (&31.into(), &0.into()));
    let manifest: serde_json::Value =
        serde_json::from_slice(&std::fs::read(out.join("dataset.json")).unwrap()).unwrap();
    let samples: u64 =
        manifest["shards"].as_array().unwrap().iter().map(|shard| shard["samples"].as_u64().unwrap()).sum();
    assert_eq!((samples, &manifest["skipped"]), (90, &serde_json::json!(1)));
    packhorse(&["verify", text(&out), "--full"]).succeed();
    // Now the dataset has it.
    let again = corpus.dir("again");
    std::fs::create_dir_all(again.join(whole.file_name().unwrap())).unwrap();
    std::fs::write(again.join(file.strip_prefix(&corpus.first).unwrap()), &good).unwrap();
    let ended = packhorse(&["append", text(&out), text(&again), "--labels", "folders"]).run();
    refused(&ended, CONFIG, &["the dataset has a sample with this key"]);
}

/// A column of a type with `?` takes values that are missing in later tables, and another one takes none.
#[test]
fn columns_that_may_lack_values_lack_them_later() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    for (from, first, later) in [
        ("csv", "id,note\n1,a\n2,b\n", "id,note\n3,\n4,d\n"),
        ("jsonl", "{\"id\":1,\"note\":\"a\"}\n{\"id\":2,\"note\":\"b\"}\n", "{\"id\":3}\n{\"id\":4,\"note\":\"d\"}\n"),
    ] {
        let [one, two] = [("one", first), ("two", later)].map(|(name, lines)| {
            let file = path(&format!("{name}.{from}"));
            std::fs::write(&file, lines).unwrap();
            file
        });
        for (schema, taken) in [("note:text?", true), ("note:text", false)] {
            let out = path(&format!("{from}-{taken}"));
            let fixed = ["--from", from, "--schema", schema];
            packhorse(&[&["pack", text(&one), "--to", "parquet", "--out", text(&out)][..], &fixed].concat()).succeed();
            let ended = packhorse(&[&["append", text(&out), text(&two)][..], &fixed].concat()).run();
            assert_eq!(ended.status.success(), taken, "{from}: {ended:?}");
            if taken {
                let dataset = packhorse::open(text(&out)).unwrap();
                let lacking = dataset.filter(&"note == 'd'".parse().unwrap()).unwrap();
                assert_eq!((dataset.len(), lacking.len()), (4, 1), "{from}");
            }
        }
    }
}

/// A sample that was left out before it was planned, as a double of another, frees no key.
#[test]
fn doubles_that_were_left_out_free_no_keys() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    let [first, second, third, out] = ["first", "second", "third", "out"].map(|name| dir.path().join(name));
    file("first/a.txt", "the same");
    file("first/b.txt", "the same");
    packhorse(&["pack", text(&first), "--to", "webdataset", "--out", text(&out), "--dedup", "--on-error", "skip"])
        .succeed();
    // The double b is not in the dataset: another b is new. Then it is there.
    file("second/b.txt", "another");
    packhorse(&["append", text(&out), text(&second)]).succeed();
    file("third/b.txt", "a third one");
    let ended = packhorse(&["append", text(&out), text(&third)]).run();
    refused(&ended, CONFIG, &["the dataset has a sample with this key"]);
    packhorse(&["verify", text(&out), "--full"]).succeed();
}

/// A setting that is given counts, also where it is the default.
#[test]
fn given_settings_win_over_those_of_the_dataset() {
    let corpus = Corpus::new();
    let [out, new, samples] = ["out", "new", "samples"].map(|name| corpus.dir(name));
    let splits = ["--split", "train=0.5,val=0.5", "--shuffle", "3", "--out", text(&out)];
    packhorse(&[&["pack", text(&corpus.first), "--to", "webdataset"][..], &splits].concat()).succeed();
    for split in ["train", "val"] {
        std::fs::create_dir_all(samples.join(split)).unwrap();
        for number in 0..20 {
            std::fs::write(samples.join(format!("{split}/{split}{number:02}.jpg")), b"jpg").unwrap();
        }
    }
    packhorse(&["pack", text(&samples), "--to", "webdataset", "--split", "folders", "--out", text(&new)]).succeed();
    packhorse(&["append", text(&out), text(&new), "--split", "keep", "--shuffle", "none"]).succeed();
    for split in ["train", "val"] {
        let dataset = packhorse::open(text(&out)).unwrap().split(split).unwrap();
        let mut keys = Vec::new();
        dataset
            .each_key(|_, key| {
                keys.extend((key.starts_with("train/") || key.starts_with("val/")).then(|| key.to_owned()));
                Ok(())
            })
            .unwrap();
        let wanted: Vec<String> = (0..20).map(|number| format!("{split}/{split}{number:02}")).collect();
        assert_eq!(keys, wanted);
    }
}

/// Rows of a table of a name that the dataset has are refused before anything is written, where members need names of their own.
#[test]
fn rows_that_the_dataset_has_are_refused_before_anything_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, lines: &str| {
        let path = dir.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, lines).unwrap();
        path
    };
    let again = file("again/t.csv", "text\nx\ny\nz\n");
    for (name, to, lines, taken) in [
        ("one/t.csv", "webdataset", "text\na\nb\n", false),
        ("two/t.csv", "parquet", "text\na\nb\n", true),
        // Keys of their own, and documents, whose numbers are positions.
        ("three/t.csv", "webdataset", "__key__,text\nk,a\nl,b\n", true),
        ("four/t.jsonl", "webdataset", "{\"text\": \"a\"}\n{\"text\": \"b\"}\n", true),
    ] {
        let (first, out) = (file(name, lines), dir.path().join(format!("{name}.out")));
        packhorse(&["pack", text(&first), "--to", to, "--out", text(&out), "--shuffle", "1"]).succeed();
        let before = tree(&out);
        let ended = packhorse(&["append", text(&out), text(&again)]).run();
        if taken {
            assert_eq!((ended.code(), manifest(&out).samples), (0, 5), "{name}: {ended:?}");
            packhorse(&["verify", text(&out), "--full"]).succeed();
        } else {
            refused(&ended, CONFIG, &["the dataset has a sample with this key", "t/000000000"]);
            assert_equal(&before, &tree(&out), name);
        }
    }
}
