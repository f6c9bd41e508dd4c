//! `packhorse stage`: after any interruption, and beside concurrent runs, a rerun completes the copy.
//!
//! `PACKHORSE_KILLS` is the number of kills at random moments (20 where it is not set).
#![expect(clippy::unwrap_used, clippy::panic, reason = "what goes wrong here fails the test")]

#[expect(dead_code, reason = "every test takes a part of what they share")]
mod common {
    pub(crate) mod bytes;
    pub(crate) mod corpus;
    pub(crate) mod disk;
    pub(crate) mod process;
    pub(crate) mod strace;
    pub(crate) mod tree;
    pub(crate) mod work;
}

use common::disk::Disk;
use common::process::{Ended, Program, command, packhorse};
use common::strace;
use common::tree::{Tree, assert_equal, tree};
use common::work::{Work, text};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const INCOMPLETE: i32 = 6;

/// A dataset, of ten shards.
struct Stage {
    work: Work,
    dataset: PathBuf,
}

impl Stage {
    fn new() -> Self {
        Self::of(200)
    }

    /// A dataset of `count` pictures, 20 a shard.
    fn of(count: u32) -> Self {
        let work = Work::new(count, 20);
        let dataset = work.dir("undisturbed");
        Self { work, dataset }
    }

    /// `packhorse stage DATASET --to DIR …`
    fn to(&self, to: &Path, more: &[&str]) -> Program {
        packhorse(&[&["stage", text(&self.dataset), "--to", text(to), "--json"], more].concat())
    }

    /// The same to its end, and what it says.
    fn staged(&self, to: &Path, more: &[&str]) -> Value {
        json(&self.to(to, more).succeed())
    }

    #[track_caller]
    fn assert_whole(&self, to: &Path, when: &str) {
        assert_equal(&self.work.whole, &tree(to), when);
        packhorse(&["verify", text(to), "--full"]).succeed();
    }

    /// What has its final name is as in the dataset. The mark has none there.
    #[track_caller]
    fn assert_no_half_file(&self, to: &Path, when: &str) {
        if to.exists() {
            for (name, digest) in tree(to).iter().filter(|(name, _)| !is_ours(name)) {
                assert_eq!(self.work.whole.get(name), Some(digest), "{when}: {name} is not as in the dataset");
            }
        }
    }
}

fn is_ours(name: &str) -> bool {
    name.starts_with(".staging/") || name == ".packhorse-cache" || name == ".packhorse-part.json"
}

fn json(ended: &Ended) -> Value {
    serde_json::from_str(&ended.printed).unwrap_or_else(|e| panic!("{e}: {ended:?}"))
}

fn shards(to: &Path) -> Vec<String> {
    tree(to).into_keys().filter(|name| name.ends_with(".tar") && !is_ours(name)).collect()
}

#[test]
fn a_staged_dataset_is_the_dataset() {
    let stage = Stage::new();
    let to = stage.work.dir("near");
    let first = stage.staged(&to, &[]);
    assert_eq!((&first["whole"], &first["shards"], &first["of"]), (&true.into(), &10.into(), &10.into()));
    assert_eq!(first["copied"], first["files"]);
    stage.assert_whole(&to, "staged");
    let again = stage.staged(&to, &[]);
    assert_eq!((&again["copied"], &again["files"]), (&0.into(), &first["files"]));
    stage.assert_whole(&to, "staged again");
    // From the copy to another one.
    let further = stage.work.dir("further");
    packhorse(&["stage", text(&to), "--to", text(&further), "--jobs", "1"]).succeed();
    stage.assert_whole(&further, "staged from the copy");
}

#[test]
fn killed_at_random_moments() {
    let kills: u32 = std::env::var("PACKHORSE_KILLS").map_or(20, |n| n.parse().unwrap());
    let stage = Stage::new();
    let to = stage.work.dir("near");
    let took = stage.to(&to, &[]).succeed().took;
    std::fs::remove_dir_all(&to).unwrap();
    let (mut killed, mut seed) = (0, 0x5eed_u64);
    while killed < kills {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let before = if to.exists() { shards(&to) } else { Vec::new() };
        let mut running = stage.to(&to, &[]).start();
        running.ends_within(took.mul_f64((seed >> 40) as f64 / f64::from(1 << 24)));
        running.kill();
        let when = format!("after kill {killed}");
        match running.end().code() {
            0 => {
                stage.assert_whole(&to, &when);
                std::fs::remove_dir_all(&to).unwrap();
            }
            _ => killed += 1,
        }
        if to.exists() {
            stage.assert_no_half_file(&to, &when);
            assert!(before.iter().all(|name| shards(&to).contains(name)), "{when}: a shard is gone");
        }
    }
    stage.to(&to, &[]).succeed();
    stage.assert_whole(&to, "at the end");
}

#[test]
fn killed_at_every_system_call_that_changes_a_disk() {
    if !strace::available() {
        return;
    }
    let stage = Stage::of(40);
    let (to, log) = (stage.work.dir("near"), stage.work.dir("log"));
    for (syscall, stride) in [("renameat", 1), ("fsync", 5), ("write", 5), ("unlink", 3), ("flock", 3), ("mkdirat", 5)]
    {
        for k in (1..).step_by(stride) {
            let fault = format!("signal=KILL:when={k}");
            let ended = strace::inject(stage.to(&to, &["--jobs", "1"]), syscall, &fault, None, &log).run();
            let when = format!("killed at {syscall} {k}");
            let over = strace::hits(&ended, &log).is_empty();
            stage.assert_no_half_file(&to, &when);
            let done = stage.staged(&to, &[]);
            assert_eq!(done["whole"], true, "{when}");
            stage.assert_whole(&to, &when);
            std::fs::remove_dir_all(&to).unwrap();
            if over {
                packhorse_testkit::external::count(k, "kills at system calls");
                break;
            }
        }
    }
}

#[test]
fn two_at_once_share_the_work() {
    let stage = Stage::new();
    for round in 0..6 {
        let to = stage.work.dir(&format!("near{round}"));
        let both = [(); 3].map(|()| stage.to(&to, &[]).start());
        let copied: u64 = both
            .map(|running| {
                let ended = running.end();
                assert_eq!(ended.code(), 0, "{ended:?}");
                json(&ended)
            })
            .iter()
            .map(|said| said["copied_bytes"].as_u64().unwrap())
            .sum();
        stage.assert_whole(&to, "three at once");
        let bytes = stage.staged(&to, &[])["bytes"].as_u64().unwrap();
        // Receipts are small: every process writes them.
        assert!(copied < bytes + bytes / 10, "{copied} bytes were copied, of {bytes}");
    }
}

#[test]
fn an_original_that_is_damaged_is_named_and_not_staged() {
    let stage = Stage::new();
    let damaged = stage.work.dir("damaged");
    copy(&stage.dataset, &damaged);
    let shard = damaged.join("shard-000003.tar");
    let mut bytes = std::fs::read(&shard).unwrap();
    bytes[1000] ^= 1;
    std::fs::write(&shard, bytes).unwrap();
    std::fs::remove_file(damaged.join("shard-000005.tar")).unwrap();
    let receipt = damaged.join("shard-000007.receipt.json");
    std::fs::write(&receipt, std::fs::read_to_string(&receipt).unwrap().replace("20", "21")).unwrap();
    let to = stage.work.dir("near");
    let staging = || packhorse(&["stage", text(&damaged), "--to", text(&to), "--json"]).run();
    for _ in 0..2 {
        let ended = staging();
        assert_eq!(ended.code(), INCOMPLETE, "{ended:?}");
        let said = json(&ended);
        let unfit: Vec<_> = said["unfit"].as_array().unwrap().iter().map(|u| u["file"].as_str().unwrap()).collect();
        assert_eq!(unfit, ["shard-000003.tar", "shard-000005.tar", "shard-000007.receipt.json"]);
        assert!(said["unfit"][0]["problem"].as_str().unwrap().contains("digest") && said["whole"] == false);
        stage.assert_no_half_file(&to, "damaged originals");
        assert!(!to.join("dataset.json").exists() && !to.join("shard-000003.tar").exists());
        assert_eq!(shards(&to).len(), 7);
    }
    let quiet = packhorse(&["stage", text(&damaged), "--to", text(&to)]).run();
    assert!(quiet.code() == INCOMPLETE && quiet.printed.is_empty(), "{quiet:?}");
    assert!(quiet.said.contains("3 files not staged") && quiet.said.contains("shard-000003.tar"), "{quiet:?}");
    // The original put right, the same command goes on.
    for name in ["shard-000003.tar", "shard-000005.tar", "shard-000007.receipt.json"] {
        std::fs::copy(stage.dataset.join(name), damaged.join(name)).unwrap();
    }
    assert_eq!(json(&staging())["copied"], 6 + companions(&stage), "of three shards only the missing ones");
    stage.assert_whole(&to, "put right");
}

/// Files of three shards beside their data and receipts.
fn companions(stage: &Stage) -> usize {
    let of = |stem: &str| stage.work.whole.keys().filter(|name| name.starts_with(stem)).count();
    of("shard-000003.") + of("shard-000005.") + of("shard-000007.") - 6
}

#[test]
fn a_part_is_a_part_of_a_larger_one() {
    let stage = Stage::new();
    let to = stage.work.dir("near");
    let mut before = Vec::new();
    for fraction in ["0.2", "0.5", "0.9", "1"] {
        let said = stage.staged(&to, &["--fraction", fraction]);
        let now = shards(&to);
        assert_eq!(said["shards"], now.len());
        assert_eq!(to.join("dataset.json").exists(), fraction == "1");
        assert!(before.iter().all(|name| now.contains(name)), "{fraction}: {before:?}, {now:?}");
        before = now;
    }
    assert_eq!(before.len(), 10);
    stage.assert_whole(&to, "part by part");
    let ended = stage.to(&to, &["--fraction", "1.5"]).run();
    assert!(ended.code() == 2 && ended.said.contains("not from 0 to 1"), "{ended:?}");
}

/// Ten shards: the part that is taken, and the report on the copy.
#[test]
fn a_part_is_rounded_up_and_known_as_one() {
    let stage = Stage::new();
    let to = stage.work.dir("near");
    for (fraction, wanted) in [("0.01", 1), ("0.1", 1), ("0.25", 3), ("0.3", 3)] {
        let said = stage.staged(&to, &["--fraction", fraction]);
        assert_eq!((&said["shards"], &said["of"]), (&wanted.into(), &10.into()), "{fraction}");
        let status = json(&packhorse(&["status", text(&to), "--json"]).succeed());
        assert_eq!((&status["part"], &status["shards"]), (&wanted.into(), &10.into()), "{fraction}: {status}");
        assert!(status["missing"].as_array().unwrap().is_empty());
        let found = json(&packhorse(&["verify", text(&to), "--full", "--json"]).succeed());
        assert_eq!((&found["shards"], &found["part_of"]), (&wanted.into(), &10.into()), "{fraction}: {found}");
        let stat = json(&packhorse(&["stat", text(&to), "--json"]).succeed());
        assert_eq!(stat["shards"].as_array().unwrap().len(), wanted);
        assert_eq!(stat["samples"], status["packed"]);
    }
    for words in [&["status"][..], &["verify"], &["stat"]] {
        let mut loud = command(env!("CARGO_BIN_EXE_packhorse"));
        loud.args(words).arg(&to);
        let said = Program(loud).succeed().printed;
        assert!(said.contains("3 of 10 shards, fraction copy"), "{words:?}: {said}");
    }
    // A smaller part asks for nothing to go.
    assert_eq!(stage.staged(&to, &["--fraction", "0.1"])["shards"], 1);
    assert_eq!(json(&packhorse(&["status", text(&to), "--json"]).succeed())["part"], 3);
    // What should be there and is damaged, or is not there.
    let name = shards(&to).swap_remove(1);
    let shard = to.join(&name);
    let mut bytes = std::fs::read(&shard).unwrap();
    bytes[600] ^= 1;
    std::fs::write(&shard, bytes).unwrap();
    let found = packhorse(&["verify", text(&to), "--full", "--json"]).run();
    assert!(found.code() == 6 && found.printed.contains(&name), "{found:?}");
    std::fs::remove_file(&shard).unwrap();
    for command in ["status", "verify"] {
        let found = packhorse(&[command, text(&to), "--json"]).run();
        assert!(found.code() == 6 && found.printed.contains(&name), "{command}: {found:?}");
    }
    stage.staged(&to, &["--fraction", "0.3"]);
    packhorse(&["verify", text(&to), "--full"]).succeed();
    stage.staged(&to, &[]);
    stage.assert_whole(&to, "all of it");
}

#[test]
fn copies_that_rot_are_found_and_replaced() {
    let stage = Stage::new();
    let to = stage.work.dir("near");
    stage.staged(&to, &[]);
    let shard = to.join("shard-000002.tar");
    let mut bytes = std::fs::read(&shard).unwrap();
    bytes[5000] ^= 4;
    std::fs::write(&shard, bytes).unwrap();
    assert_eq!(stage.staged(&to, &[])["copied"], 0);
    let said = stage.staged(&to, &["--verify"]);
    assert_eq!((&said["replaced"], &said["copied"]), (&1.into(), &1.into()));
    stage.assert_whole(&to, "replaced");
    // One that is cut short is seen at once.
    std::fs::File::options().write(true).open(&shard).unwrap().set_len(7000).unwrap();
    assert_eq!(stage.staged(&to, &[])["copied"], 1);
    stage.assert_whole(&to, "cut short");
}

/// The record of a part is made again where it is damaged.
#[test]
fn a_damaged_record_of_a_part_is_written_again() {
    let stage = Stage::new();
    let to = stage.work.dir("near");
    stage.staged(&to, &["--fraction", "0.5"]);
    let record = to.join(".packhorse-part.json");
    let good = std::fs::read(&record).unwrap();
    std::fs::write(&record, &good[..good.len() / 2]).unwrap();
    stage.staged(&to, &["--fraction", "0.5"]);
    assert_eq!(std::fs::read(&record).unwrap(), good);
}

/// A copy made by other means is checked before it is used.
#[test]
fn files_that_nobody_vouches_for_are_read() {
    let stage = Stage::new();
    let to = stage.work.dir("near");
    copy(&stage.dataset, &to);
    std::fs::remove_file(to.join("dataset.json")).unwrap();
    let shard = to.join("shard-000004.tar");
    std::fs::write(&shard, vec![0; std::fs::metadata(&shard).unwrap().len() as usize]).unwrap();
    let said = stage.staged(&to, &[]);
    assert_eq!((&said["replaced"], &said["copied"]), (&1.into(), &1.into()));
    stage.assert_whole(&to, "vouched for");
}

/// An unfinished dataset, shards of others, a view, or anything else.
#[test]
fn a_folder_of_other_files_is_refused() {
    let stage = Stage::new();
    let to = stage.work.dir("near");
    let refused = |what: &str| {
        let before = tree(&to);
        let ended = stage.to(&to, &[]).run();
        assert!(ended.code() == 2 && ended.said.contains(what), "{what}: {ended:?}");
        assert_equal(&before, &tree(&to), what);
        std::fs::remove_dir_all(&to).unwrap();
    };
    stage.work.pack(&to, &["--limit", "50"]).succeed();
    std::fs::remove_file(to.join("dataset.json")).unwrap();
    refused("is not a copy of a file of this dataset");
    for name in ["shard-000001.tar", "shard-000999.tar", "view.json", "photo.jpg"] {
        std::fs::create_dir(&to).unwrap();
        std::fs::write(to.join(name), b"the only copy").unwrap();
        refused(&format!("holds {name}, which is not a copy"));
    }
    std::fs::create_dir_all(to.join("lost+found")).unwrap();
    stage.staged(&to, &[]);
}

#[test]
fn another_dataset_is_refused() {
    let stage = Stage::new();
    let to = stage.work.dir("near");
    let other = stage.work.dir("other");
    stage.work.pack(&other, &["--limit", "50"]).succeed();
    for more in [&[][..], &["--fraction", "0.3"]] {
        stage.staged(&to, more);
        let ended = packhorse(&["stage", text(&other), "--to", text(&to)]).run();
        assert!(ended.code() == 2 && ended.said.contains("holds another dataset"), "{ended:?}");
        std::fs::remove_dir_all(&to).unwrap();
    }
    for inside in [stage.dataset.clone(), stage.dataset.join("near")] {
        let ended = stage.to(&inside, &[]).run();
        assert!(ended.code() == 2 && ended.said.contains("the dataset itself, or in it"), "{ended:?}");
    }
    let ended = packhorse(&["stage", "/nowhere", "--to", text(&to)]).run();
    assert_eq!(ended.code(), 2, "{ended:?}");
}

/// A copy of the dataset from before an append gets the new shards; the others are not copied again.
#[test]
fn a_copy_follows_an_append() {
    let stage = Stage::of(60);
    let (dataset, to) = (stage.work.dir("grown"), stage.work.dir("to"));
    copy(&stage.dataset, &dataset);
    let again = |more: &[&str]| packhorse(&[&["stage", text(&dataset), "--to", text(&to), "--json"], more].concat());
    again(&[]).succeed();
    let (photos, part) = (stage.work.dir("more"), stage.work.dir("part"));
    // A copy that was stopped before it was whole.
    let (log, begun) = (stage.work.dir("log"), stage.work.dir("begun"));
    let begins = || packhorse(&["stage", text(&dataset), "--to", text(&begun), "--jobs", "1"]);
    if strace::available() {
        let killed = strace::inject(begins(), "renameat", "signal=KILL:when=4", None, &log).run();
        assert_eq!(killed.code(), 137, "{killed:?}");
    }
    packhorse(&["stage", text(&dataset), "--to", text(&part), "--fraction", "0.4"]).succeed();
    for round in 0..2 {
        let class = std::fs::read_dir(&stage.work.input).unwrap().next().unwrap().unwrap().file_name();
        std::fs::create_dir_all(photos.join(&class)).unwrap();
        std::fs::write(photos.join(&class).join(format!("new{round}.jpg")), format!("photo {round}")).unwrap();
        packhorse(&["append", text(&dataset), text(&photos), "--labels", "folders"]).succeed();
        std::fs::remove_dir_all(&photos).unwrap();
    }
    // Killed before the new manifest is there, the copy is still the old dataset.
    if strace::available() {
        let killed = strace::inject(again(&["--jobs", "1"]), "renameat", "signal=KILL:when=3", None, &log).run();
        assert_eq!(killed.code(), 137, "{killed:?}");
    }
    let said = json(&again(&[]).succeed());
    assert!(said["copied_bytes"].as_u64().unwrap() < said["bytes"].as_u64().unwrap() / 2, "{said}");
    assert_equal(&tree(&dataset), &tree(&to), "after two appends");
    packhorse(&["verify", "--full", text(&to)]).succeed();
    assert_eq!(json(&again(&[]).succeed())["copied"], 0);
    if strace::available() {
        let killed = strace::inject(begins(), "renameat", "signal=KILL:when=3", None, &log).run();
        assert_eq!(killed.code(), 137, "{killed:?}");
    }
    begins().succeed();
    assert_equal(&tree(&dataset), &tree(&begun), "begun before two appends");
    // A part is of the old dataset, and others are refused as before.
    let ended = packhorse(&["stage", text(&dataset), "--to", text(&part), "--fraction", "0.4"]).run();
    assert!(ended.code() == 2 && ended.said.contains("holds another dataset"), "{ended:?}");
    let ended = packhorse(&["stage", text(&stage.dataset), "--to", text(&to)]).run();
    assert!(ended.code() == 2 && ended.said.contains("holds another dataset"), "{ended:?}");
}

#[test]
fn third_party_shards_are_staged_by_size_and_time() {
    let stage = Stage::new();
    let (foreign, to) = (stage.work.dir("foreign"), stage.work.dir("near"));
    std::fs::create_dir_all(foreign.join("sub")).unwrap();
    for name in ["shard-000000.tar", "shard-000001.tar"] {
        std::fs::copy(stage.dataset.join(name), foreign.join(name)).unwrap();
    }
    std::fs::write(foreign.join("sub/note.txt"), b"hello").unwrap();
    let staging = || json(&packhorse(&["stage", text(&foreign), "--to", text(&to), "--json"]).succeed());
    assert_eq!((&staging()["copied"], &staging()["copied"]), (&3.into(), &0.into()));
    assert_equal(&tree(&foreign), &tree(&to), "third-party");
    std::fs::write(foreign.join("sub/note.txt"), b"hallo").unwrap();
    assert_eq!(staging()["copied"], 1);
    assert_equal(&tree(&foreign), &tree(&to), "third-party, changed");
}

#[test]
fn a_full_disk_is_said_and_what_is_there_stays() {
    let stage = Stage::new();
    let disk = stage.work.dir("disk");
    let Some(disk) = Disk::mount(disk, "size=1200k") else { return };
    let to = disk.0.join("near");
    let ended = stage.to(&to, &[]).run();
    assert!(ended.code() == 5 && ended.said.contains("free some space"), "{ended:?}");
    stage.assert_no_half_file(&to, "a full disk");
    let there = shards(&to);
    assert!(!there.is_empty() && there.len() < 10 && !to.join(".staging").exists(), "{there:?}");
    disk.resize("size=64m");
    let said = stage.staged(&to, &[]);
    assert!(said["copied_bytes"].as_u64() < said["bytes"].as_u64());
    stage.assert_whole(&to, "with more space");
}

/// Asked to stop it stops soon, leaves nothing unfinished, and goes on.
#[test]
fn asked_to_stop_it_goes_on() {
    let stage = Stage::new();
    let (to, log) = (stage.work.dir("near"), stage.work.dir("log"));
    if !strace::available() {
        return;
    }
    let slow = strace::inject(stage.to(&to, &["--jobs", "1"]), "pread64", "delay_enter=100000", None, &log);
    let mut running = slow.start();
    assert!(!running.ends_within(Duration::from_millis(1200)), "reads are not slow");
    let status = Command::new("kill").arg(running.id().to_string()).status().unwrap();
    assert!(status.success());
    let ended = running.end();
    assert!(ended.code() == 130 && ended.said.contains("run the same command again"), "{ended:?}");
    assert!(!to.join(".staging").exists());
    stage.assert_no_half_file(&to, "stopped");
    stage.staged(&to, &[]);
    stage.assert_whole(&to, "stopped and gone on");
}

/// From a web server, of which every fifth answer is wrong in some way.
#[cfg(feature = "remote")]
#[test]
fn a_dataset_is_staged_from_a_web_server_with_faults() {
    use packhorse_testkit::web::{HttpFault, Server};
    let stage = Stage::new();
    let faults =
        [HttpFault::ResetInBody, HttpFault::Short, HttpFault::Status(503), HttpFault::OtherStart, HttpFault::Cut];
    // Other bytes than are asked for, twice for one file, are an error: only the first is a fault of the way.
    let astray = std::sync::Mutex::new(std::collections::BTreeSet::new());
    let server = Server::new(&stage.dataset, move |asked| {
        let fault = faults[(asked.number / 5) as usize % faults.len()].clone();
        let spared = match fault {
            // A length that is wrong from the first word on, under the right ETag, is an error in the end: it is
            // another test's.
            HttpFault::Short => asked.head,
            HttpFault::OtherStart => {
                asked.number % 5 == 4 && !asked.head && !astray.lock().unwrap().insert(asked.path.to_owned())
            }
            _ => false,
        };
        if asked.number % 5 == 4 && !spared { fault } else { HttpFault::None }
    });
    let to = stage.work.dir("near");
    let said = json(&packhorse(&["stage", &server.url(""), "--to", text(&to), "--json"]).succeed());
    assert_eq!(said["whole"], true);
    stage.assert_whole(&to, "from a web server");
}

/// Each file's bytes come wrong once, under headers that say nothing of it: its manifest's, receipts' and shards'.
#[cfg(feature = "remote")]
#[test]
fn what_comes_wrong_once_is_asked_for_again() {
    use packhorse_testkit::web::{HttpFault, Server};
    let stage = Stage::new();
    let astray = std::sync::Mutex::new(std::collections::BTreeSet::new());
    let server = Server::new(&stage.dataset, move |asked| {
        match !asked.head && astray.lock().unwrap().insert(asked.path.to_owned()) {
            true => HttpFault::OtherStart,
            false => HttpFault::None,
        }
    });
    let to = stage.work.dir("near");
    let said = json(&packhorse(&["stage", &server.url(""), "--to", text(&to), "--json"]).succeed());
    assert_eq!(said["whole"], true);
    stage.assert_whole(&to, "from a web server");
}

/// A folder and those in it.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        match path.is_dir() {
            true => copy(&path, &target),
            false => assert!(std::fs::copy(path, target).unwrap() < u64::MAX),
        }
    }
}

#[test]
fn an_unsealed_dataset_is_no_dataset_yet() {
    let stage = Stage::new();
    let (plan, to) = (stage.work.dir("plan"), stage.work.dir("near"));
    stage.work.planning("plan", &plan, &[]).succeed();
    let ended = packhorse(&["stage", text(&plan), "--to", text(&to)]).run();
    assert!(ended.code() == INCOMPLETE && ended.said.contains("packhorse seal"), "{ended:?}");
    assert_eq!(Tree::new(), if to.exists() { tree(&to) } else { Tree::new() });
}

/// A dataset on a web server, which does not list its folders, is an input and can be looked at and verified.
#[cfg(feature = "remote")]
#[test]
fn a_dataset_on_a_web_server_is_packed_and_verified() {
    let stage = Stage::new();
    let server = packhorse_testkit::web::Server::honest(&stage.dataset);
    let place = server.url("");
    let place = place.trim_end_matches('/');
    let pack = |place: &str, out: &str| {
        let out = stage.work.dir(out);
        packhorse(&["pack", place, "--to", "parquet", "--out", text(&out)]).succeed();
        std::fs::read(out.join("shard-000000.parquet")).unwrap()
    };
    let wanted = pack(text(&stage.dataset), "near");
    assert!(pack(place, "far") == wanted && pack(&format!("{place}/dataset.json"), "named") == wanted);
    let manifest = stage.dataset.join("dataset.json");
    assert!(pack(text(&manifest), "local") == wanted);
    let said = json(&packhorse(&["verify", "--full", place, "--json"]).succeed());
    assert_eq!(said["damages"].as_array().map(Vec::len), Some(0), "{said}");
    let stat = |place: &str| packhorse(&["stat", place]).succeed().printed;
    assert_eq!(stat(place), stat(text(&stage.dataset)));
}

/// Where a web server has no file it may answer with a page, or ask for a password. These were not asked for.
#[cfg(feature = "remote")]
#[test]
fn what_a_web_server_says_of_files_that_it_lacks_does_not_matter() {
    use packhorse_testkit::web::{HttpFault, Server};
    let stage = Stage::new();
    let shards = stage.work.dir("alone");
    std::fs::create_dir(&shards).unwrap();
    std::fs::copy(stage.dataset.join("shard-000000.tar"), shards.join("x.tar")).unwrap();
    let pack = |place: &str, out: &str| {
        let out = stage.work.dir(out);
        packhorse(&["pack", place, "--to", "parquet", "--out", text(&out), "--on-error", "skip"]).succeed();
        std::fs::read(out.join("shard-000000.parquet")).unwrap()
    };
    let wanted = pack(text(&shards.join("x.tar")), "near");
    for (number, status) in [200, 401].into_iter().enumerate() {
        let server = Server::new(&shards, move |asked| match asked.path == "x.tar" {
            true => HttpFault::None,
            false => HttpFault::Say(status, "<html>log in</html>".into()),
        });
        assert!(pack(&server.url("x.tar"), &format!("far-{number}")) == wanted, "{status}");
    }
}

/// A web server knows no folders, also those whose names look like patterns.
#[cfg(feature = "remote")]
#[test]
fn a_dataset_in_a_folder_with_brackets_is_opened_over_http() {
    let stage = Stage::new();
    let folder = stage.work.dir("web");
    for name in ["[k]", "{x}"] {
        std::fs::create_dir_all(folder.join(name)).unwrap();
        for (file, _) in
            tree(&stage.dataset).into_iter().filter(|(name, digest)| digest != "folder" && !name.contains('/'))
        {
            std::fs::copy(stage.dataset.join(&file), folder.join(name).join(&file)).unwrap();
        }
    }
    let server = packhorse_testkit::web::Server::honest(&folder);
    for name in ["%5Bk%5D", "%7Bx%7D"] {
        let batch = packhorse(&["bench", "read", "--batch", "4", "--seconds", "0.1", &server.url(name)]).run();
        assert_eq!(batch.code(), 0, "{batch:?}");
    }
}

/// Samples are not left out because credentials end while a job runs.
#[cfg(feature = "remote")]
#[test]
fn a_server_that_begins_to_refuse_ends_the_job() {
    use packhorse_testkit::web::{HttpFault, Server};
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
    let stage = Stage::new();
    let photos = stage.work.dir("some");
    std::fs::create_dir(&photos).unwrap();
    for number in 0..6 {
        std::fs::write(photos.join(format!("{number}.bin")), vec![number; 100]).unwrap();
    }
    // One file is refused, then it and all that comes after it, then none.
    let refused = std::sync::Arc::new(AtomicU64::new(1));
    let met = std::sync::Arc::new(AtomicBool::new(false));
    let server = Server::new(&photos, {
        let (refused, met) = (refused.clone(), met.clone());
        // All sizes are asked for first.
        move |asked| {
            let is_it = asked.path == "4.bin" && !asked.head;
            met.fetch_or(is_it, Ordering::SeqCst);
            match refused.load(Ordering::SeqCst) {
                1 if is_it => HttpFault::Status(401),
                2 if met.load(Ordering::SeqCst) => HttpFault::Status(401),
                _ => HttpFault::None,
            }
        }
    });
    let urls: Vec<String> = (0..6).map(|number| server.url(&format!("{number}.bin"))).collect();
    let pack = |out: &Path| {
        let mut words = vec!["pack", "--to", "webdataset", "--out", text(out), "--on-error", "skip"];
        words.extend(["--io-threads", "1"]);
        words.extend(urls.iter().map(String::as_str));
        packhorse(&words)
    };
    let samples = |out: &Path| json(&packhorse(&["stat", text(out), "--json"]).succeed())["samples"].clone();
    let (one, out) = (stage.work.dir("but-one"), stage.work.dir("out-some"));
    pack(&one).succeed();
    assert_eq!(samples(&one), 5);
    refused.store(2, Ordering::SeqCst);
    met.store(false, Ordering::SeqCst);
    let ended = pack(&out).run();
    assert!(ended.code() == 5 && ended.said.contains(".bin"), "{ended:?}");
    assert!(!out.join("dataset.json").exists());
    refused.store(0, Ordering::SeqCst);
    pack(&out).succeed();
    assert_eq!(samples(&out), 6);
}
