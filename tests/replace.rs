//! `--replace`: another dataset in the place of one that is there. Until it is sealed the old one is what it was, and
//! whatever stops it, the same command ends in the bytes that an empty folder would have got.

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
use common::tree::{Tree, assert_equal, assert_kept, committed, tree};
use common::work::text;
use packhorse::core::{Code, Event, Kind, Observer, Store};
use packhorse::storage::Local;
use packhorse::{Part, Recipe};
use packhorse_testkit::faults::{FailingStore, StoreFault};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tempfile::TempDir;

const CONFIG: i32 = 2;
const CONTENT: i32 = 3;
const ENVIRONMENT: i32 = 5;
const INCOMPLETE: i32 = 6;

/// The request of the dataset that is there, and that of the one which is to replace it.
const OLD: [&str; 6] = ["--to", "webdataset", "--samples-per-shard", "4", "--index", "wids,energon"];
const NEW: [&str; 6] = ["--to", "webdataset", "--samples-per-shard", "7", "--shuffle", "3"];

type Harm = fn(&Path);

struct Place {
    dir: TempDir,
    old: Tree,
    new: Tree,
}

impl Place {
    /// Pictures, and what both requests make of them in folders of their own.
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut place = Self { dir, old: Tree::new(), new: Tree::new() };
        place.old = place.alone("old", &OLD);
        place.new = place.alone("new", &NEW);
        assert!(place.old.keys().any(|name| !place.new.contains_key(name)));
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn alone(&self, name: &str, wanted: &[&str]) -> Tree {
        self.pack(&self.path(name), wanted, &[]).succeed();
        tree(&self.path(name))
    }

    fn request(&self, command: &str, out: &Path, wanted: &[&str], more: &[&str]) -> Program {
        packhorse(&[&[command, text(&common::corpus::images(24)), "--out", text(out)], wanted, more].concat())
    }

    fn pack(&self, out: &Path, wanted: &[&str], more: &[&str]) -> Program {
        self.request("pack", out, wanted, more)
    }

    /// A folder with the old dataset.
    fn out(&self) -> PathBuf {
        let out = self.path("out");
        let _ = fs::remove_dir_all(&out);
        self.copy(&self.path("old"), &out);
        out
    }

    fn copy(&self, from: &Path, to: &Path) {
        fs::create_dir(to).unwrap();
        for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
            let name = to.join(entry.file_name());
            match entry.file_type().unwrap().is_dir() {
                true => self.copy(&entry.path(), &name),
                false => drop(fs::copy(entry.path(), name).unwrap()),
            }
        }
    }

    /// Before its files are exchanged the dataset is the old one, then none that a reader takes, then the new one.
    #[track_caller]
    fn assert_one_or_none(&self, out: &Path, when: &str) {
        let now = tree(out);
        let is = |whole: &Tree| whole.iter().all(|(name, digest)| now.get(name) == Some(digest));
        let manifest = fs::read_to_string(out.join("dataset.json")).unwrap();
        if manifest.contains("packhorse_replacing") {
            let copy = self.path("copy");
            for read in [
                ["pack", text(out), "--to", "hdf5", "--out", text(&copy)],
                ["stage", text(out), "--to", text(&copy), "--jobs", "1"],
            ] {
                let read = packhorse(&read).run();
                assert_eq!(read.code(), INCOMPLETE, "{when}: {read:?}");
                assert!(read.said.contains("is being replaced"), "{when}: {read:?}");
            }
            return;
        }
        assert!(is(&self.old) || is(&self.new), "{when}: neither dataset is whole: {now:?}");
    }
}

fn sealed_again(out: &Path, new: &Tree, when: &str) {
    assert_equal(new, &tree(out), when);
    packhorse(&["verify", "--full", text(out)]).succeed();
}

#[test]
fn a_changed_request_replaces_a_dataset_where_that_is_asked_for() {
    let place = Place::new();
    let out = place.out();
    let refused = place.pack(&out, &NEW, &[]).run();
    assert_eq!(refused.code(), CONFIG, "{refused:?}");
    assert!(["--replace", "--samples-per-shard"].iter().all(|flag| refused.said.contains(flag)), "{refused:?}");
    assert_equal(&place.old, &tree(&out), "refused");
    place.pack(&out, &NEW, &["--replace"]).succeed();
    sealed_again(&out, &place.new, "replaced");
    // The same request again has nothing to do, with --replace and without.
    for more in [&["--replace"][..], &[]] {
        let before = committed(&out);
        place.pack(&out, &NEW, more).succeed();
        assert_kept(&before, &out, "again");
        sealed_again(&out, &place.new, "again");
    }
}

/// An interrupted replacement may leave staged files where no later one looks.
#[test]
fn staged_files_of_a_replacement_are_cleaned() {
    let place = Place::new();
    let out = place.out();
    let staged = out.join(".replacing/.staging/another-host,1,1,1");
    fs::create_dir_all(staged.join("0")).unwrap();
    fs::write(staged.join("packhorse-staging"), "").unwrap();
    fs::write(staged.join("0/shard-000000.tar"), "half").unwrap();
    let ended = packhorse(&["clean", text(&out), "--json"]).succeed();
    assert!(ended.printed.contains('1') && !out.join(".replacing").exists(), "{ended:?}");
    assert_equal(&place.old, &tree(&out), "cleaned");
}

/// A dataset that was appended to is not what the first command makes, whether the append was sealed or not.
#[test]
fn what_was_appended_goes_with_the_dataset() {
    let place = Place::new();
    let more = place.path("more");
    fs::create_dir(&more).unwrap();
    for n in 0..3 {
        fs::write(more.join(format!("more{n}.jpg")), "picture").unwrap();
    }
    for planned in [&[][..], &["--plan-only"]] {
        let out = place.out();
        packhorse(&[&["append", text(&out), text(&more)], planned].concat()).succeed();
        place.pack(&out, &OLD, &["--replace"]).succeed();
        sealed_again(&out, &place.old, "without what was appended");
    }
}

#[test]
fn any_container_replaces_any_other_and_itself() {
    let place = Place::new();
    for to in ["hdf5", "parquet", "tfrecord", "arrow", "webdataset"] {
        let wanted = ["--to", to, "--samples-per-shard", "5"];
        let alone = place.alone(&format!("alone {to}"), &wanted);
        let out = place.out();
        place.pack(&out, &wanted, &["--replace"]).succeed();
        sealed_again(&out, &alone, to);
    }
    // A dataset that is the input of what replaces it.
    let out = place.out();
    let itself = packhorse(&["pack", text(&out), "--to", "parquet", "--out", text(&out), "--replace"]);
    itself.succeed();
    packhorse(&["verify", "--full", text(&out)]).succeed();
    assert!(
        tree(&out).keys().all(|name| !name.ends_with(".tar") && !name.starts_with('.') || name == ".huggingface.yaml")
    );
}

/// At every call that changes the disk: in the last step, where files change places, and in those before it.
#[test]
fn killed_at_any_call_it_ends_in_the_same_bytes() {
    if !strace::available() {
        return;
    }
    let place = Place::new();
    let (log, before) = (place.path("log"), place.path("before"));
    let (out, few) = (place.out(), ["--jobs", "1", "--io-threads", "1"]);
    place.request("plan", &out, &NEW, &["--replace"]).succeed();
    packhorse(&["pack", "--plan", text(&out)]).succeed();
    fs::rename(&out, &before).unwrap();
    for syscall in ["renameat", "unlinkat", "fsync", "mkdirat"] {
        for (step, name) in [(0, "plan"), (1, "pack"), (2, "seal")] {
            let mut killed = 0;
            for k in 1.. {
                let out = place.out();
                if step == 2 {
                    fs::remove_dir_all(&out).unwrap();
                    place.copy(&before, &out);
                }
                if step == 1 {
                    place.request("plan", &out, &NEW, &["--replace"]).succeed();
                }
                let run = match step {
                    0 => place.request("plan", &out, &NEW, &[&few[..], &["--replace"]].concat()),
                    1 => packhorse(&[&["pack", "--plan", text(&out)], &few[..]].concat()),
                    _ => packhorse(&["seal", text(&out)]),
                };
                let ended = strace::inject(run, syscall, &format!("signal=KILL:when={k}"), None, &log).run();
                let when = format!("{name} killed at {syscall} {k}");
                if strace::hits(&ended, &log).is_empty() {
                    assert_eq!(ended.code(), 0, "{when}: {ended:?}");
                    break;
                }
                killed += 1;
                place.assert_one_or_none(&out, &when);
                let exchanged = out.join(".replacing/exchange.json").exists();
                let done = if exchanged { Default::default() } else { committed(&out.join(".replacing")) };
                // Either way goes on: the request again, and, where everything was packed, sealing.
                if step == 2 && k % 2 == 0 {
                    packhorse(&["seal", text(&out)]).succeed();
                } else {
                    let again = place.pack(&out, &NEW, &["--replace"]).succeed();
                    drop(again);
                    for (file, stamp) in done {
                        assert_eq!(committed(&out).get(&file), Some(&stamp), "{when}: {file} was packed again");
                    }
                }
                sealed_again(&out, &place.new, &when);
            }
            packhorse_testkit::external::count(killed, "kills at system calls");
        }
    }
}

#[test]
fn calls_that_fail_are_told_and_the_next_run_ends_in_the_same_bytes() {
    if !strace::available() {
        return;
    }
    let place = Place::new();
    let (log, before, out) = (place.path("log"), place.path("before"), place.out());
    place.request("plan", &out, &NEW, &["--replace"]).succeed();
    packhorse(&["pack", "--plan", text(&out)]).succeed();
    fs::rename(&out, &before).unwrap();
    for (syscall, fault) in [("renameat", "error=EIO"), ("fsync", "error=EIO"), ("unlinkat", "error=EIO")] {
        for k in 1.. {
            let _ = fs::remove_dir_all(&out);
            place.copy(&before, &out);
            let run = packhorse(&["seal", text(&out)]);
            let ended = strace::inject(run, syscall, &format!("{fault}:when={k}"), None, &log).run();
            if strace::hits(&ended, &log).is_empty() {
                break;
            }
            let when = format!("{syscall} {k} {fault}");
            place.assert_one_or_none(&out, &when);
            assert!(ended.code() == 0 || ended.said.contains("os error"), "{when}: {ended:?}");
            place.pack(&out, &NEW, &["--replace"]).succeed();
            sealed_again(&out, &place.new, &when);
        }
    }
}

#[test]
fn parts_of_a_plan_replace_a_dataset_too() {
    let place = Place::new();
    let out = place.out();
    place.request("plan", &out, &NEW, &["--replace"]).succeed();
    let part = |part: &str| packhorse(&["pack", "--plan", text(&out), "--part", part]);
    part("1/2").succeed();
    // Half done: the old dataset is whole, and its status shows the replacement.
    let status = packhorse(&["status", text(&out), "--json"]).succeed().printed;
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    assert_eq!((status["sealed"].as_bool(), status["replacing"]["shards"].as_u64()), (Some(true), Some(4)), "{status}");
    assert_eq!(status["replacing"]["missing"].as_array().unwrap().len(), 2, "{status}");
    packhorse(&["verify", "--full", text(&out)]).succeed();
    let early = packhorse(&["seal", text(&out)]).run();
    assert_eq!(early.code(), INCOMPLETE, "{early:?}");
    // Who asks for the old dataset again must say what becomes of the new one.
    let old = place.pack(&out, &OLD, &[]).run();
    assert!(old.code() == CONFIG && old.said.contains("--replace"), "{old:?}");
    part("2/2").succeed();
    packhorse(&["seal", text(&out)]).succeed();
    sealed_again(&out, &place.new, "parts");
}

#[test]
fn the_last_request_wins() {
    let place = Place::new();
    let out = place.out();
    place.request("plan", &out, &NEW, &["--replace"]).succeed();
    packhorse(&["pack", "--plan", text(&out), "--part", "1/3"]).succeed();
    let third = ["--to", "parquet", "--shuffle", "9"];
    place.request("plan", &out, &third, &["--replace"]).succeed();
    assert!(tree(&out.join(".replacing")).keys().all(|name| !name.ends_with(".tar")));
    place.pack(&out, &OLD, &["--replace"]).succeed();
    sealed_again(&out, &place.old, "the existing dataset is the wanted one");
}

/// Of two requests at once the second is refused, and the first makes its dataset.
#[test]
fn of_two_at_once_none_leaves_a_mixture() {
    const OTHER: [&str; 4] = ["--to", "webdataset", "--samples-per-shard", "5"];
    let place = Place::new();
    let other = place.alone("other", &OTHER);
    let out = place.out();
    let held = Local.lock(&out).unwrap();
    let refused = place.pack(&out, &OTHER, &["--replace"]).run();
    assert!(refused.code() == ENVIRONMENT && refused.said.contains("another process"), "{refused:?}");
    drop(held);
    for round in 0..10 {
        let out = place.out();
        let both = [&NEW[..], &OTHER].map(|wanted| place.pack(&out, wanted, &["--replace", "--jobs", "1"]).start());
        let both = both.map(|running| running.end());
        let when = format!("round {round}, after {both:?}");
        let made: Vec<_> = both.iter().zip([&place.new, &other]).filter(|(ended, _)| ended.status.success()).collect();
        assert!(made.iter().any(|(_, whole)| tree(&out) == **whole), "{when}");
        assert!(both.iter().all(|ended| ended.status.success() || ended.said.contains("another process")), "{when}");
        packhorse(&["verify", "--full", text(&out)]).succeed();
    }
}

#[test]
fn an_unfinished_or_damaged_dataset_is_replaced() {
    let place = Place::new();
    let harms: [(&str, Harm); 4] = [
        ("unfinished", |out| {
            ["dataset.json", "shard-000002.tar", "shard-000003.receipt.json", "shard-000004.receipt.json"]
                .iter()
                .for_each(|name| fs::remove_file(out.join(name)).unwrap());
        }),
        ("without a plan that can be read", |out| fs::write(out.join("plan.jsonl.zst"), "damaged").unwrap()),
        ("without a manifest that can be read", |out| fs::write(out.join("dataset.json"), "damaged").unwrap()),
        ("without receipts", |out| {
            (0..6).for_each(|i| fs::remove_file(out.join(format!("shard-00000{i}.receipt.json"))).unwrap());
        }),
    ];
    for (what, harm) in harms {
        let out = place.out();
        harm(&out);
        place.pack(&out, &NEW, &["--replace"]).succeed();
        let mut now = tree(&out);
        // Which indexes its shards had is known from their receipts alone, and which it had from its manifest.
        if what != "without a plan that can be read" {
            now.retain(|name, _| place.new.contains_key(name));
        }
        assert_equal(&place.new, &now, what);
    }
}

#[test]
fn what_is_none_of_its_files_stays() {
    let place = Place::new();
    let out = place.out();
    for name in ["notes.txt", "shard-000000.notes", ".nv-meta/mine", "old/shard-000000.tar", ".replacing/mine"] {
        fs::create_dir_all(out.join(name).parent().unwrap()).unwrap();
        fs::write(out.join(name), "precious").unwrap();
    }
    let refused = place.pack(&out, &NEW, &["--replace"]).run();
    assert!(refused.code() == CONFIG && refused.said.contains(".replacing"), "{refused:?}");
    fs::remove_file(out.join(".replacing/mine")).unwrap();
    place.pack(&out, &NEW, &["--replace"]).succeed();
    let now = tree(&out);
    let others: Vec<&String> = now.keys().filter(|name| !place.new.contains_key(*name)).collect();
    let kept = [".nv-meta/", ".nv-meta/mine", "notes.txt", "old/", "old/shard-000000.tar", "shard-000000.notes"];
    assert_eq!(others, kept);
    assert!(place.new.iter().all(|(name, digest)| now.get(name) == Some(digest)));
}

/// A file of others that has the name of a new one is not replaced, and the old dataset stays.
#[test]
fn a_file_of_others_in_the_way_is_named() {
    let place = Place::new();
    let parquet = ["--to", "parquet", "--samples-per-shard", "9"];
    let alone = place.alone("parquet", &parquet);
    let in_the_way: [Harm; 3] = [
        |path| fs::write(path, "precious").unwrap(),
        |path| fs::create_dir(path).unwrap(),
        |path| std::os::unix::fs::symlink("/etc/passwd", path).unwrap(),
    ];
    for put in in_the_way {
        let out = place.out();
        let path = out.join("shard-000001.parquet");
        put(&path);
        let before = tree(&out);
        let refused = place.pack(&out, &parquet, &["--replace"]).run();
        assert!(refused.code() == CONFIG && refused.said.contains("shard-000001.parquet"), "{refused:?}");
        let mut now = tree(&out);
        now.retain(|name, _| !name.starts_with(".replacing"));
        assert_equal(&before, &now, "in the way");
        fs::remove_file(&path).or_else(|_| fs::remove_dir(&path)).unwrap();
        place.pack(&out, &parquet, &["--replace"]).succeed();
        assert_equal(&alone, &tree(&out), "moved away");
    }
}

#[test]
fn links_in_the_way_are_not_followed() {
    let place = Place::new();
    for name in [".replacing", ".replacing/.staging", ".nv-meta", ".staging"] {
        let (out, victim) = (place.out(), place.path("victim"));
        let _ = fs::remove_dir_all(&victim);
        place.copy(&place.path("old"), &victim);
        let before = tree(&victim);
        let _ = fs::remove_dir_all(out.join(name));
        fs::create_dir_all(out.join(name).parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(&victim, out.join(name)).unwrap();
        for _ in 0..2 {
            let ended = place.pack(&out, &NEW, &["--replace"]).run();
            assert!(!ended.said.contains("panicked"), "{name}: {ended:?}");
            packhorse(&["seal", text(&out)]).run();
        }
        assert_equal(&before, &tree(&victim), name);
    }
}

#[test]
fn a_dataset_of_which_nothing_is_left_replaces_none() {
    let place = Place::new();
    let (out, bad) = (place.out(), place.path("bad"));
    fs::create_dir(&bad).unwrap();
    fs::write(bad.join("a.parquet"), "damaged").unwrap();
    let run =
        packhorse(&["pack", text(&bad), "--to", "parquet", "--out", text(&out), "--replace", "--on-error", "skip"]);
    let ended = run.run();
    assert!(matches!(ended.code(), CONFIG | CONTENT), "{ended:?}");
    let mut now = tree(&out);
    now.retain(|name, _| !name.starts_with(".replacing"));
    assert_equal(&place.old, &now, "nothing is left");
}

/// Once the first of its shards is there, another job replaces the whole dataset.
struct Replaces(std::sync::Once, Recipe);

impl Observer for Replaces {
    fn event(&self, event: &Event<'_>) {
        if matches!(event, Event::Shard { .. }) {
            self.0.call_once(|| drop(packhorse::session().replacing(true).pack(&self.1).unwrap()));
        }
    }
}

#[test]
fn a_job_whose_dataset_is_replaced_says_so_and_writes_no_more() {
    let place = Place::new();
    let (images, out) = (common::corpus::images(24), place.path("beside"));
    let recipe = |samples: u64| Recipe::new(&images, "webdataset", &out).samples_per_shard(samples);
    let observer = Arc::new(Replaces(std::sync::Once::new(), recipe(7).shuffle(3)));
    let error = packhorse::session().jobs(1).observe(observer).pack(&recipe(2)).unwrap_err();
    assert_eq!((error.code(), error.kind()), (Code::OutputBusy, Kind::Config), "{error}");
    // Not even a staged file of the first job is left.
    assert_equal(&place.new, &tree(&out), "replaced beside a job");
    packhorse(&["verify", text(&out), "--full"]).succeed();
}

/// A job that goes on late, whatever call it was stopped in, spoils no dataset that took the place of its own.
#[test]
fn a_late_job_changes_nothing_of_the_dataset_that_took_its_place() {
    let dir = tempfile::tempdir().unwrap();
    let images = common::corpus::images(6);
    let recipe = |out: &Path, samples: u64| Recipe::new(&images, "webdataset", out).samples_per_shard(samples);
    let wanted = dir.path().join("wanted");
    packhorse::session().pack(&recipe(&wanted, 3).shuffle(3)).unwrap();
    let wanted = tree(&wanted);
    for begun in [false, true] {
        let mut call = 0;
        loop {
            let out = dir.path().join(format!("{begun}-{call}"));
            let plan = packhorse::session().plan(&recipe(&out, 2)).unwrap();
            packhorse::session().store_plan(&recipe(&out, 2), &plan).unwrap();
            if begun {
                packhorse::session().fill(&out, Part::new(1, 3).unwrap()).unwrap();
            }
            let replaced = Arc::new(AtomicBool::new(false));
            let (then, new) = (Arc::clone(&replaced), recipe(&out, 3).shuffle(3));
            let meanwhile = move || {
                packhorse::session().replacing(true).pack(&new).unwrap();
                then.store(true, Ordering::Relaxed);
            };
            let fault = StoreFault::Meanwhile(Box::new(meanwhile));
            let store = FailingStore::new(Arc::new(Local), move |at| at.number == call, fault);
            let late = packhorse::session().jobs(1).store(Arc::new(store)).fill(&out, Part::ALL);
            if !replaced.load(Ordering::Relaxed) {
                break;
            }
            assert_equal(&wanted, &tree(&out), &format!("replaced at call {call}: {late:?}"));
            let told = late.as_ref().map_or_else(|e| e.code() == Code::OutputBusy, |_| true);
            assert!(told || call < 10, "replaced at call {call}: {late:?}");
            fs::remove_dir_all(&out).unwrap();
            call += 1;
        }
        assert!(call > 50, "{call}");
    }
}

/// A kill between the first shard's name and its receipt, and then another request: nothing of the first one stays.
#[test]
fn shards_that_no_receipt_records_go_with_their_plan() {
    const RECORDS: [&str; 4] = ["--to", "tfrecord", "--samples-per-shard", "4"];
    let place = Place::new();
    let records = place.alone("records", &RECORDS);
    let begun = |to: &Path| {
        fs::create_dir(to).unwrap();
        for name in records.keys().filter(|name| name.contains("000000.tf") || name.starts_with("plan.")) {
            fs::copy(place.path("records").join(name), to.join(name)).unwrap();
        }
        assert!(tree(to).len() >= 2, "{:?}", tree(to));
    };
    let plain = place.path("plain");
    begun(&plain);
    // Of others: they stay.
    fs::write(plain.join("shard-000000.notes"), "mine").unwrap();
    fs::write(plain.join("shard-000000.tar.md5"), "mine").unwrap();
    fs::create_dir(plain.join("shard-000000.idx")).unwrap();
    place.pack(&plain, &NEW, &[]).succeed();
    ["shard-000000.notes", "shard-000000.tar.md5"].iter().for_each(|name| fs::remove_file(plain.join(name)).unwrap());
    fs::remove_dir(plain.join("shard-000000.idx")).unwrap();
    sealed_again(&plain, &place.new, "in a folder");
    let out = place.out();
    begun(&out.join(".replacing"));
    place.pack(&out, &NEW, &["--replace"]).succeed();
    sealed_again(&out, &place.new, "in place of a dataset");
}

/// Whatever the container, what a job has begun is known as its own.
#[test]
fn begun_shards_of_any_container_go() {
    let place = Place::new();
    for (number, more) in [
        vec!["--to", "webdataset", "--index", "wids,dali,energon"],
        vec!["--to", "hdf5"],
        vec!["--to", "parquet"],
        vec!["--to", "arrow"],
        vec!["--to", "tfrecord"],
    ]
    .iter()
    .enumerate()
    {
        let out = place.path(&format!("any-{number}"));
        place.pack(&out, more, &[]).succeed();
        for path in fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().path()) {
            let name = path.file_name().unwrap().to_str().unwrap();
            let stays = name.starts_with("plan.") || name.starts_with("shard-") && !name.ends_with(".receipt.json");
            match path.is_dir() {
                _ if stays => {}
                true => fs::remove_dir_all(path).unwrap(),
                false => fs::remove_file(path).unwrap(),
            }
        }
        place.pack(&out, &NEW, &[]).succeed();
        sealed_again(&out, &place.new, &format!("{more:?}"));
    }
}

/// Two jobs for one folder that start together: one packs what it was asked for, the other one says that it did not.
#[test]
fn of_two_other_jobs_for_one_folder_one_succeeds() {
    let dir = tempfile::tempdir().unwrap();
    let inputs = [("a", 300), ("b", 40)].map(|(name, count)| {
        let folder = dir.path().join(name);
        fs::create_dir(&folder).unwrap();
        (0..count).for_each(|i| fs::write(folder.join(format!("{i:03}.bin")), [b'x'; 3000]).unwrap());
        (folder, count)
    });
    let mut won = [0; 2];
    for round in 0..16u64 {
        let out = dir.path().join(format!("out-{round}"));
        let start = |job: usize| {
            let more =
                [["--to", "webdataset", "--samples-per-shard", "10"], ["--to", "parquet", "--samples-per-shard", "7"]]
                    [job];
            let what = ["pack", text(&inputs[job].0), "--out", text(&out), "--json"];
            packhorse(&[&what[..], &more].concat()).start()
        };
        let first = start((round % 2) as usize);
        std::thread::sleep(std::time::Duration::from_millis(round * 3));
        let second = start(1 - (round % 2) as usize);
        let mut ended = [first.end(), second.end()];
        if round % 2 == 1 {
            ended.reverse();
        }
        for (job, ended) in ended.iter().enumerate() {
            assert!([0, CONFIG].contains(&ended.code()), "{ended:?}");
            if ended.code() == 0 {
                won[job] += 1;
                let said: serde_json::Value = serde_json::from_str(&ended.printed).unwrap();
                assert_eq!(said["samples"], inputs[job].1, "{ended:?}");
            }
        }
        match ended.iter().filter(|ended| ended.code() == 0).count() {
            // Rarely each sees the other one.
            0 => {}
            1 => drop(packhorse(&["verify", "--full", text(&out)]).succeed()),
            _ => panic!("{ended:?}"),
        }
    }
    assert!(won[0] + won[1] > 0, "{won:?}");
}

/// Changed labels leave every size the same. A reader that was opened before must not mix both versions.
#[test]
fn a_reader_of_a_dataset_that_is_replaced_mixes_no_versions() {
    for sink in ["webdataset", "hdf5", "parquet", "arrow", "tfrecord"] {
        let dir = tempfile::tempdir().unwrap();
        let (input, out) = (dir.path().join("in"), dir.path().join("out"));
        fs::create_dir(&input).unwrap();
        let pack = |label: &str| {
            (0..12).for_each(|i| fs::write(input.join(format!("{i:02}.txt")), label).unwrap());
            let wanted = ["--to", sink, "--samples-per-shard", "4", "--replace"];
            packhorse(&[&["pack", text(&input), "--out", text(&out)], &wanted[..]].concat()).succeed();
        };
        pack("old");
        let sizes = || -> Vec<u64> {
            let shards = (0..3).map(|n| out.join(format!("shard-{n:06}")));
            let named = |path: &PathBuf| {
                let names = ["tar", "h5", "parquet", "arrow", "tfrecord"].map(|end| path.with_extension(end));
                names.iter().find_map(|name| name.metadata().ok()).unwrap().len()
            };
            shards.map(|path| named(&path)).collect()
        };
        let before = sizes();
        let opened = packhorse::open(text(&out)).unwrap();
        let read = |verify| {
            let loader = opened.loader(4).field("txt", "txt").threads(0).epochs(1).verify(verify);
            let loader =
                loader.configure(|options| options.shuffle = Some(packhorse::read::order::Shuffle::Sequential));
            loader.build().unwrap().map(|batch| batch.map(drop).map_err(|error| (error.kind(), error.to_string())))
        };
        let mut begun = read(packhorse::read::Verify::Header);
        begun.next().unwrap().unwrap();
        pack("new");
        assert_eq!(before, sizes(), "{sink}");
        for mut reader in [begun, read(packhorse::read::Verify::Header), read(packhorse::read::Verify::Full)] {
            let (kind, said) = reader.find_map(Result::err).unwrap();
            assert!(kind == Kind::Changed && said.contains("open the dataset again"), "{sink}: {said}");
        }
        // A shard of another version beside the old ones, as an interrupted copy leaves it.
        let other = dir.path().join("other");
        fs::create_dir(&other).unwrap();
        for entry in fs::read_dir(&out).unwrap().map(Result::unwrap).filter(|entry| entry.path().is_file()) {
            fs::copy(entry.path(), other.join(entry.file_name())).unwrap();
        }
        pack("old");
        for entry in fs::read_dir(&out).unwrap().map(Result::unwrap) {
            let name = entry.file_name().into_string().unwrap();
            if name.starts_with("shard-000001.") && !name.ends_with(".receipt.json") {
                fs::copy(entry.path(), other.join(name)).unwrap();
            }
        }
        let mixed = packhorse::open(text(&other)).unwrap();
        let loader = mixed.loader(4).field("txt", "txt").threads(0).epochs(1).verify(packhorse::read::Verify::Full);
        let found = loader.build().unwrap().find_map(Result::err).map(|error| error.kind());
        assert_eq!(found, Some(Kind::Content), "{sink}");
    }
}
