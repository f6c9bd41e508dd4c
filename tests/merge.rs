//! `merge` and `order`: killed, asked to stop, and given damaged datasets.
//!
//! `PACKHORSE_KILLS` is the number of kills at random moments (20 where it is not set).

#![expect(clippy::unwrap_used, clippy::panic, reason = "what goes wrong here fails the test")]

#[expect(dead_code, reason = "every test takes a part of what they share")]
mod common {
    pub(crate) mod bytes;
    pub(crate) mod corpus;
    pub(crate) mod process;
    pub(crate) mod strace;
    pub(crate) mod tree;
    pub(crate) mod work;
}

use common::process::{Program, packhorse};
use common::strace;
use common::tree::{Tree, assert_equal, tree};
use common::work::{Work, text};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;

const CANCELLED: i32 = 130;
const KILLED: i32 = 128 + 9;
const DAMAGED: i32 = 6;

/// The dataset of `work`, as its undisturbed run made it.
fn dataset(work: &Work) -> PathBuf {
    work.dir("undisturbed")
}

fn merge(input: &Path, out: &Path, more: &[&str]) -> Program {
    packhorse(&[&["merge", text(input), "--out", text(out)], more].concat())
}

/// What a merge leaves in a folder of its own.
fn merged(work: &Work) -> Tree {
    let folder = work.dir("merged");
    std::fs::create_dir(&folder).unwrap();
    merge(&dataset(work), &folder.join("all"), &[]).succeed();
    let whole = tree(&folder);
    assert_eq!(whole.keys().collect::<Vec<_>>(), ["all.bin", "all.idx"]);
    whole
}

/// After a killed run: where the index exists, both files are whole; and a rerun gives the same bytes.
fn goes_on(whole: &Tree, folder: &Path, again: Program, when: &str) {
    let left = tree(folder);
    let named = || left.iter().filter(|(name, _)| !name.starts_with(".staging/"));
    assert!(named().all(|(name, digest)| whole.get(name) == Some(digest)), "{when}: {left:?}");
    if left.contains_key("all.idx") {
        assert!(left.contains_key("all.bin"), "{when}: an index without its tokens");
        return;
    }
    again.succeed();
    assert_equal(whole, &tree(folder), when);
}

#[test]
fn a_merge_killed_at_any_call_that_changes_a_disk_ends_in_the_same_bytes() {
    if !strace::available() {
        return;
    }
    let work = Work::tokens(40, "4KB");
    let (whole, folder, log) = (merged(&work), work.dir("killed"), work.dir("log"));
    for syscall in ["renameat", "write", "fsync", "pwrite64", "mkdirat"] {
        for k in 1.. {
            let _ = std::fs::remove_dir_all(&folder);
            let fault = format!("signal=KILL:when={k}");
            let run = || merge(&dataset(&work), &folder.join("all"), &[]);
            let ended = strace::inject(run(), syscall, &fault, None, &log).run();
            if strace::hits(&ended, &log).is_empty() {
                assert_eq!(ended.code(), 0, "{ended:?}");
                assert!(k > 1, "merge makes no call of {syscall}");
                break;
            }
            if folder.exists() {
                goes_on(&whole, &folder, run(), &format!("killed at {syscall} {k}"));
            }
        }
    }
}

#[test]
fn a_merge_killed_at_random_moments_ends_in_the_same_bytes() {
    let kills: u32 = std::env::var("PACKHORSE_KILLS").map_or(20, |n| n.parse().unwrap());
    let large = Large::new(48 << 20);
    let wanted = large.dir("wanted");
    let took = large.merge(&wanted.join("all")).succeed().took;
    let (whole, folder) = (tree(&wanted), large.dir("killed"));
    let mut killed = 0;
    for i in 0..kills {
        let _ = std::fs::remove_dir_all(&folder);
        let mut running = large.merge(&folder.join("all")).start();
        running.ends_within(took * (2 * i + 1) / (2 * kills));
        running.kill();
        killed += u32::from(running.end().code() == KILLED);
        if folder.exists() {
            goes_on(&whole, &folder, large.merge(&folder.join("all")), &format!("kill {i}"));
        }
    }
    packhorse_testkit::external::count(killed, "kills at random moments");
    assert!(killed > kills / 3, "{killed} of {kills}");
}

#[test]
fn files_of_others_are_not_replaced_by_a_merge() {
    let work = Work::tokens(40, "4KB");
    let out = work.dir("folder").join("all");
    std::fs::create_dir(work.dir("folder")).unwrap();
    for (name, bytes) in [("all.bin", &b"tokens of another tool"[..]), ("all.idx", b"an index")] {
        let path = out.with_file_name(name);
        std::fs::write(&path, bytes).unwrap();
        let refused = merge(&dataset(&work), &out, &[]).run();
        assert!(refused.code() == 2 && refused.said.contains(text(&path)), "{refused:?}");
        assert_eq!(std::fs::read(&path).unwrap(), bytes);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(tree(&work.dir("folder")), Tree::new());
    }
}

#[test]
fn a_merge_can_be_repeated_and_replaced_where_that_is_asked_for() {
    let work = Work::tokens(40, "4KB");
    let (folder, other) = (work.dir("folder"), work.dir("other"));
    let (out, shard) = (folder.join("all"), dataset(&work).join("shard-000000.idx"));
    merge(&dataset(&work), &out, &[]).succeed();
    let whole = tree(&folder);
    let again = merge(&dataset(&work), &out, &["--json"]).succeed().printed;
    assert!(again.contains("\"existed\": true"), "{again}");
    assert_equal(&whole, &tree(&folder), "a repeated merge");
    let refused = merge(&shard, &out, &[]).run();
    assert!(refused.code() == 2 && refused.said.contains("start over with --replace"), "{refused:?}");
    assert_equal(&whole, &tree(&folder), "a refused merge");
    let replaced = merge(&shard, &out, &["--replace", "--json"]).succeed().printed;
    assert!(replaced.contains("\"existed\": false"), "{replaced}");
    std::fs::create_dir(&other).unwrap();
    merge(&shard, &other.join("all"), &[]).succeed();
    assert_equal(&tree(&other), &tree(&folder), "a replaced merge");
    let of_input = merge(&out.with_extension("idx"), &out, &["--replace"]).run();
    assert!(of_input.code() == 2 && of_input.said.contains("is an input"), "{of_input:?}");
    let of_dataset = merge(&out.with_extension("idx"), &shard, &["--replace"]).run();
    assert!(of_dataset.code() == 2 && of_dataset.said.contains("holds a dataset"), "{of_dataset:?}");
    assert_equal(&tree(&other), &tree(&folder), "refused replacements");
}

/// A pair of many tokens, most of which take up no room on a disk.
struct Large {
    dir: TempDir,
    prefix: String,
}

impl Large {
    /// A pair whose `.bin` has `bytes`.
    fn new(bytes: u64) -> Self {
        const LENGTH: u64 = 1 << 14;
        let dir = tempfile::tempdir().unwrap();
        let prefix = text(&dir.path().join("large")).to_owned();
        File::create(format!("{prefix}.bin")).unwrap().set_len(bytes).unwrap();
        let sequences = bytes / 2 / LENGTH;
        let mut idx = b"MMIDIDX\0\0".to_vec();
        idx.extend(1u64.to_le_bytes());
        idx.push(8);
        idx.extend(sequences.to_le_bytes());
        idx.extend((sequences + 1).to_le_bytes());
        (0..sequences).for_each(|_| idx.extend((LENGTH as i32).to_le_bytes()));
        (0..sequences).for_each(|i| idx.extend((2 * LENGTH * i).to_le_bytes()));
        (0..=sequences).for_each(|i| idx.extend(i.to_le_bytes()));
        File::create(format!("{prefix}.idx")).unwrap().write_all(&idx).unwrap();
        Self { dir, prefix }
    }

    fn dir(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The pair twice as one.
    fn merge(&self, out: &Path) -> Program {
        let idx = format!("{}.idx", self.prefix);
        packhorse(&["merge", &idx, &idx, "--out", text(out)])
    }
}

/// Starts `program` again and again, asks it to stop ever later, and says how often it did: with the documented code, and with
/// nothing left.
fn stops(program: impl Fn() -> Program, folder: &Path) -> usize {
    let mut stopped = 0;
    for (i, signal) in ["TERM", "INT", "USR1", "TERM", "USR1"].into_iter().enumerate() {
        let mut running = program().start();
        if running.ends_within(Duration::from_millis(250 + 150 * i as u64)) {
            let _ = running.end();
            let _ = std::fs::remove_dir_all(folder);
            continue;
        }
        let sent = Command::new("kill").args(["-s", signal, &running.id().to_string()]).status().unwrap();
        let ended = running.end();
        let stop = sent.success() && ended.code() == CANCELLED;
        assert!(stop || ended.code() == 0, "{signal}: {ended:?}");
        if stop {
            stopped += 1;
            assert!(ended.said.contains("run the same command again"), "{ended:?}");
            assert!(!folder.exists() || tree(folder).is_empty(), "{signal}: {:?} is left", tree(folder));
        }
        let _ = std::fs::remove_dir_all(folder);
    }
    stopped
}

#[test]
fn a_merge_that_is_asked_to_stop_stops() {
    let large = Large::new(1 << 30);
    let folder = large.dir("out");
    assert!(stops(|| large.merge(&folder.join("all")), &folder) >= 3);
}

#[test]
fn an_order_that_is_asked_to_stop_stops() {
    let large = Large::new(64 << 20);
    let folder = large.dir("out");
    let order = || {
        let wanted = ["--seq-length", "16", "--samples", "40000000", "--out", text(&folder)];
        packhorse(&[&["order", &large.prefix], &wanted[..]].concat())
    };
    assert!(stops(order, &folder) >= 3);
}

/// Flips a bit of the file, and back.
fn flipped(path: &Path, at: usize, then: impl FnOnce()) {
    let good = std::fs::read(path).unwrap();
    let mut bad = good.clone();
    bad[at] ^= 1 << (at % 8);
    std::fs::write(path, bad).unwrap();
    then();
    std::fs::write(path, good).unwrap();
}

/// Runs `program` over a dataset with a flipped bit, at several places of each file that is `wanted`.
fn damage_is_found(data: &Path, wanted: fn(&str) -> bool, folder: &Path, program: &dyn Fn() -> Program) {
    let names: Vec<String> = tree(data).into_keys().filter(|name| wanted(name)).collect();
    assert!(names.len() > 5, "{names:?}");
    for (i, name) in names.iter().enumerate() {
        let path = data.join(name);
        let len = std::fs::metadata(&path).unwrap().len() as usize;
        for at in [0, len / 2 + i % 7, len.saturating_sub(1)].into_iter().filter(|at| *at < len) {
            flipped(&path, at, || {
                let ended = program().run();
                let when = format!("{name}, byte {at}");
                assert_eq!(ended.code(), DAMAGED, "{when}: {ended:?}");
                assert!(ended.said.contains(name.as_str()), "{when}: {ended:?}");
                assert!(!folder.exists() || tree(folder).is_empty(), "{when}: {:?}", tree(folder));
            });
        }
    }
}

#[test]
fn damage_to_any_file_of_a_sealed_dataset_stops_a_merge() {
    let work = Work::tokens(40, "4KB");
    let (data, folder) = (dataset(&work), work.dir("folder"));
    damage_is_found(&data, |name| !name.ends_with('/'), &folder, &|| merge(&data, &folder.join("all"), &[]));
    // So it is where a shard is named alone.
    let idx = data.join("shard-000000.idx");
    flipped(&data.join("shard-000000.bin"), 100, || {
        let ended = merge(&idx, &folder.join("one"), &[]).run();
        assert!(ended.code() == DAMAGED && ended.said.contains("shard-000000.bin"), "{ended:?}");
        merge(&idx, &folder.join("one"), &["--verify", "off"]).succeed();
    });
    std::fs::remove_file(data.join("shard-000001.documents.parquet")).unwrap();
    let ended = merge(&data, &folder.join("all"), &[]).run();
    assert!(ended.code() == DAMAGED && ended.said.contains("shard-000001.documents.parquet"), "{ended:?}");
    merge(&data, &folder.join("all"), &["--verify", "off"]).succeed();
}

#[test]
fn damage_to_what_an_order_reads_stops_it() {
    let work = Work::tokens(40, "4KB");
    let (data, folder) = (dataset(&work), work.dir("folder"));
    let order = |more: &[&str]| {
        let wanted = ["order", text(&data), "--seq-length", "64", "--split", "1", "--out", text(&folder)];
        packhorse(&[&wanted[..], more].concat())
    };
    let read = |name: &str| !name.ends_with(".bin");
    damage_is_found(&data, read, &folder, &|| order(&[]));
    // An offset, which no other number is compared with.
    let idx = data.join("shard-000000.idx");
    let middle = std::fs::metadata(&idx).unwrap().len() as usize / 2;
    flipped(&idx, middle, || drop(order(&["--verify", "off"]).succeed()));
}

#[test]
fn more_shards_are_merged_than_files_may_be_open() {
    let dir = tempfile::tempdir().unwrap();
    let (input, out) = (dir.path().join("a.txt"), dir.path().join("packed"));
    std::fs::write(&input, (0..200).map(|i| format!("{i} mules\n")).collect::<String>()).unwrap();
    std::fs::write(dir.path().join("tokenizer.json"), common::bytes::tokenizer()).unwrap();
    let tokenizer = dir.path().join("tokenizer.json");
    let flags = ["--to", "tokens", "--tokenizer", text(&tokenizer), "--samples-per-shard", "1", "--out", text(&out)];
    packhorse(&[&["pack", text(&input)], &flags[..]].concat()).succeed();
    let mut few = Command::new("bash");
    few.args(["-c", "ulimit -n 250; exec \"$@\"", "-", env!("CARGO_BIN_EXE_packhorse"), "merge", text(&out)]);
    few.args(["--out", text(&dir.path().join("few")), "--quiet"]);
    Program(few).succeed();
    merge(&out, &dir.path().join("many"), &[]).succeed();
    for end in ["idx", "bin"] {
        let bytes = |name: &str| std::fs::read(dir.path().join(name).with_extension(end)).unwrap();
        assert_eq!(bytes("few"), bytes("many"));
        assert!(!bytes("few").is_empty());
    }
}
