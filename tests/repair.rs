//! Damage to a dataset, and the way back.

#![expect(clippy::unwrap_used, clippy::panic, reason = "what goes wrong here fails the test")]

#[expect(dead_code, reason = "every test takes a part of what they share")]
mod common {
    pub(crate) mod bytes;
    pub(crate) mod corpus;
    pub(crate) mod process;
    pub(crate) mod tree;
    pub(crate) mod work;
}

use common::process::{Ended, Program, packhorse};
use common::tree::{Tree, assert_equal, committed, tree};
use common::work::{Work, text};
use packhorse::dataset::{Digest, Manifest, Receipt};
use std::path::{Path, PathBuf};

const DAMAGED: i32 = 6;

/// A sealed dataset to be damaged.
fn sealed(work: &Work) -> PathBuf {
    let out = work.dir("out");
    work.pack(&out, &[]).succeed();
    out
}

fn run(words: &[&str]) -> Ended {
    packhorse(words).run()
}

/// Repairs the dataset: what was damaged lies in quarantine, each file with a reason, until it is removed on request.
#[track_caller]
fn mend(work: &Work, out: &Path) -> serde_json::Value {
    let damaged: Tree = tree(out).into_iter().filter(|(name, digest)| work.whole.get(name) != Some(digest)).collect();
    let repaired = packhorse(&["repair", text(out), "--json"]).succeed().printed;
    let repaired: serde_json::Value = serde_json::from_str(&repaired).unwrap();
    let kept: Vec<String> = damaged.keys().map(|name| format!(".quarantine/1/{name}")).collect();
    assert_eq!(repaired["quarantined"], serde_json::json!(kept));
    let mut now = tree(out);
    for (name, digest) in &damaged {
        assert_eq!(now.get(&format!(".quarantine/1/{name}")), Some(digest), "{name} is not kept");
        let reason = std::fs::read_to_string(out.join(format!(".quarantine/1/{name}.reason.json"))).unwrap();
        let reason: serde_json::Value = serde_json::from_str(&reason).unwrap();
        assert!(reason["file"] == **name && !reason["problem"].as_str().unwrap().is_empty(), "{reason}");
    }
    now.retain(|name, _| !name.starts_with(".quarantine/"));
    assert_equal(&work.whole, &now, "repaired");
    let files = damaged.len() as u64;
    for (words, field) in [(["verify"], "quarantined"), (["status"], "quarantined"), (["clean"], "quarantined")] {
        let said = packhorse(&[&words[..], &[text(out), "--json"]].concat()).succeed().printed;
        let said: serde_json::Value = serde_json::from_str(&said).unwrap();
        assert_eq!(said[field], files, "{words:?}: {said}");
    }
    packhorse(&["clean", "--quarantine", text(out)]).succeed();
    repaired
}

fn flip(path: &Path) {
    flip_at(path, std::fs::metadata(path).unwrap().len() as usize / 2);
}

fn flip_at(path: &Path, at: usize) {
    let mut bytes = std::fs::read(path).unwrap();
    bytes[at] ^= 1;
    std::fs::write(path, bytes).unwrap();
}

/// Copies the inputs, with their times, to where a test may change them.
fn copy_inputs(work: &Work, to: &Path) {
    let copied = std::process::Command::new("cp").arg("-a").arg(&work.input).arg(to).status().unwrap();
    assert!(copied.success());
}

fn cut(path: &Path) {
    let bytes = std::fs::read(path).unwrap();
    std::fs::write(path, &bytes[..bytes.len() / 2]).unwrap();
}

type Harm = fn(&Path);

/// Each damages files of two shards, or of the dataset.
const HARMS: [(&str, Harm); 6] = [
    ("flipped", |out| ["shard-000001.tar", "shard-000003.idx"].iter().for_each(|name| flip(&out.join(name)))),
    ("cut", |out| ["shard-000001.tar", "shard-000002.receipt.json"].iter().for_each(|name| cut(&out.join(name)))),
    ("missing", |out| {
        ["shard-000000.receipt.json", "shard-000002.tar"]
            .iter()
            .for_each(|n| std::fs::remove_file(out.join(n)).unwrap());
    }),
    ("receipt", |out| flip(&out.join("shard-000001.receipt.json"))),
    ("manifest", |out| flip(&out.join("dataset.json"))),
    ("companions", |out| {
        flip(&out.join("shardindex.json"));
        std::fs::remove_file(out.join(".nv-meta/split.yaml")).unwrap();
    }),
];

#[test]
fn what_verify_names_is_packed_again_to_the_same_bytes() {
    let work = Work::new(40, 8);
    let out = sealed(&work);
    for (what, harm) in HARMS {
        harm(&out);
        let found = packhorse(&["verify", "--full", text(&out), "--json"]).run();
        assert_eq!(found.code(), DAMAGED, "{what}: {found:?}");
        let found: serde_json::Value = serde_json::from_str(&found.printed).unwrap();
        assert_eq!(found["repairable"], true, "{what}: {found}");
        let kept = committed_of_whole(&work, &out);
        let repaired = mend(&work, &out);
        work.assert_whole(&out, what);
        let again = repaired["packed"].as_u64().unwrap();
        assert!(again <= 2 && (again > 0) != ["manifest", "companions"].contains(&what), "{what}: {repaired}");
        let now = committed(&out);
        assert!(
            kept.iter().all(|(name, stamp)| now.get(name) == Some(stamp)),
            "{what}: a whole shard was packed again"
        );
        packhorse(&["verify", "--full", text(&out)]).succeed();
    }
}

/// The stamps of files of the shards that are as they were.
fn committed_of_whole(work: &Work, out: &Path) -> Vec<(String, (u64, i64, i64))> {
    use std::os::unix::fs::MetadataExt;
    let now = tree(out);
    let stem = |name: &str| name.split('.').next().unwrap().to_owned();
    let bad: Vec<String> = work.whole.iter().filter(|(n, d)| now.get(*n) != Some(d)).map(|(n, _)| stem(n)).collect();
    let good = now.keys().filter(|name| name.starts_with("shard-") && !bad.contains(&stem(name)));
    good.map(|name| {
        let meta = std::fs::metadata(out.join(name)).unwrap();
        (name.clone(), (meta.ino(), meta.mtime(), meta.mtime_nsec()))
    })
    .collect()
}

#[test]
fn status_and_seal_say_what_is_damaged_and_what_to_do() {
    let work = Work::new(40, 8);
    let out = sealed(&work);
    packhorse(&["status", text(&out)]).succeed();
    for name in ["shard-000001.tar", "shard-000001.idx", ".nv-meta/split.yaml", "skipped.jsonl"] {
        let (path, aside) = (out.join(name), work.dir("aside"));
        std::fs::rename(&path, &aside).unwrap();
        let status = run(&["status", text(&out), "--json"]);
        assert_eq!(status.code(), DAMAGED, "{name}: {status:?}");
        assert!(status.printed.contains(name), "{name}: {status:?}");
        std::fs::rename(&aside, &path).unwrap();
    }
    cut(&out.join("shard-000001.tar"));
    let status = Program(without_quiet(&["status", text(&out)])).run();
    assert!(status.code() == DAMAGED && status.printed.contains("packhorse repair"), "{status:?}");
    for (verb, said) in [("status", "damaged"), ("verify", "shard-000001.tar")] {
        let quiet = run(&[verb, text(&out)]);
        assert!(quiet.code() == DAMAGED && quiet.printed.is_empty() && quiet.said.contains(said), "{quiet:?}");
    }
    let sealed = run(&["seal", text(&out)]);
    assert!(sealed.code() == DAMAGED && sealed.said.contains("packhorse repair"), "{sealed:?}");
    // A shard of another size is not taken for a finished one.
    work.finish(&out, "packed again");
    packhorse(&["status", text(&out)]).succeed();
    std::fs::write(out.join("dataset.json"), "{}").unwrap();
    let status = run(&["status", text(&out), "--json"]);
    assert!(status.code() == DAMAGED && status.printed.contains("dataset.json"), "{status:?}");
}

fn without_quiet(words: &[&str]) -> std::process::Command {
    let mut command = common::process::command(env!("CARGO_BIN_EXE_packhorse"));
    command.args(words);
    command
}

/// A copy of the inputs that lost their times is as good: digests decide.
#[test]
fn inputs_with_other_times_mend_a_sealed_dataset() {
    let work = Work::tokens(40, "4KB");
    let out = sealed(&work);
    let before = tree(&out);
    std::fs::remove_file(out.join("shard-000001.bin")).unwrap();
    for input in walk(&work.input) {
        let input = std::fs::File::options().append(true).open(input).unwrap();
        input.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    }
    packhorse(&["repair", text(&out)]).succeed();
    assert_eq!(before, tree(&out));
}

#[test]
fn inputs_that_give_other_bytes_replace_nothing() {
    let work = Work::tokens(40, "4KB");
    let out = sealed(&work);
    flip(&out.join("shard-000000.bin"));
    let damaged = tree(&out);
    // Other bytes, of the same length and time.
    for input in walk(&work.input).into_iter().filter(|path| path.extension().unwrap() == "jsonl") {
        let (bytes, time) = (std::fs::read(&input).unwrap(), std::fs::metadata(&input).unwrap().modified().unwrap());
        let other = bytes.iter().map(|b| if *b == b'o' { b'u' } else { *b });
        std::fs::write(&input, other.collect::<Vec<_>>()).unwrap();
        std::fs::File::options().append(true).open(&input).unwrap().set_modified(time).unwrap();
    }
    let refused = run(&["repair", text(&out)]);
    assert!(refused.code() == 4 && refused.said.contains("other bytes"), "{refused:?}");
    assert_eq!(tree(&out), damaged);
}

fn walk(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] }).collect()
}

#[test]
fn tokens_are_mended_and_a_plan_or_a_tokenizer_that_is_damaged_is_named() {
    let work = Work::tokens(40, "4KB");
    let out = sealed(&work);
    flip(&out.join("shard-000001.bin"));
    flip(&out.join("shard-000000.documents.parquet"));
    mend(&work, &out);
    work.assert_whole(&out, "tokens");
    for name in ["plan.jsonl.zst", "tokenizer.json"] {
        let good = std::fs::read(out.join(name)).unwrap();
        flip(&out.join(name));
        flip(&out.join("shard-000001.bin"));
        let refused = run(&["repair", text(&out)]);
        assert!(refused.code() == DAMAGED && refused.said.contains(name), "{name}: {refused:?}");
        std::fs::write(out.join(name), good).unwrap();
        mend(&work, &out);
        work.assert_whole(&out, name);
    }
    let refused = run(&["repair", text(&out), "--out", text(&work.dir("x"))]);
    assert_eq!(refused.code(), 2, "{refused:?}");
}

#[test]
fn a_receipt_with_other_bytes_of_the_same_meaning_is_written_again() {
    let work = Work::new(40, 8);
    let out = sealed(&work);
    let receipt = out.join("shard-000001.receipt.json");
    let text_of = std::fs::read_to_string(&receipt).unwrap();
    std::fs::write(&receipt, text_of.replacen('\n', "\t", 1)).unwrap();
    assert_eq!(run(&["verify", "--full", text(&out)]).code(), DAMAGED);
    mend(&work, &out);
    work.assert_whole(&out, "a receipt");
}

#[test]
fn each_repair_has_a_quarantine_of_its_own_and_people_are_told() {
    let work = Work::new(40, 8);
    let out = sealed(&work);
    let shard = out.join("shard-000001.tar");
    for repair in ["1", "2"] {
        flip(&shard);
        let said = Program(without_quiet(&["repair", text(&out)])).succeed().printed;
        let kept = out.join(".quarantine").join(repair).join("shard-000001.tar");
        assert!(kept.is_file() && said.contains(text(&kept)) && said.contains("clean --quarantine"), "{said}");
    }
    // A link is moved, and what it points to stays.
    let elsewhere = work.dir("elsewhere.tar");
    std::fs::rename(&shard, &elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &shard).unwrap();
    packhorse(&["repair", text(&out)]).succeed();
    assert!(out.join(".quarantine/3/shard-000001.tar").is_symlink() && elsewhere.is_file());
    // Nothing is wrong: nothing is kept.
    packhorse(&["repair", text(&out)]).succeed();
    assert!(!out.join(".quarantine/4").exists());
    for verb in ["status", "verify"] {
        let said = Program(without_quiet(&[verb, text(&out)])).succeed().printed;
        assert!(said.contains("3 damaged files") && said.contains("clean --quarantine"), "{said}");
    }
    let cleaned = Program(without_quiet(&["clean", text(&out)])).succeed().printed;
    assert!(cleaned.contains("3 damaged files") && shard.is_file(), "{cleaned}");
    packhorse(&["clean", text(&out), "--quarantine"]).succeed();
    work.assert_whole(&out, "cleaned");
    assert!(elsewhere.is_file());
}

/// The plan of a sealed dataset is made again from the same inputs with the same settings, and from no others.
#[test]
fn a_lost_plan_is_made_again() {
    let dir = tempfile::tempdir().unwrap();
    let (input, other) = (dir.path().join("in"), dir.path().join("other"));
    for (folder, count) in [(&input, 20), (&other, 3)] {
        std::fs::create_dir(folder).unwrap();
        (0..count).for_each(|i| std::fs::write(folder.join(format!("{i:02}.txt")), format!("text {i}")).unwrap());
    }
    let out = dir.path().join("out");
    let run = |verb: &str, input: &Path| {
        let what = [verb, text(input), "--to", "webdataset", "--samples-per-shard", "6", "--out", text(&out)];
        packhorse(&what).run()
    };
    assert_eq!(run("pack", &input).code(), 0);
    let path = out.join("plan.jsonl.zst");
    let plan = std::fs::read(&path).unwrap();
    let mut flipped = plan.clone();
    flipped[plan.len() / 2] ^= 1;
    for (verb, left) in [
        ("plan", None),
        ("pack", None),
        ("plan", Some(&plan[..plan.len() / 2])),
        ("pack", Some(&b"x"[..])),
        ("pack", Some(&flipped[..])),
    ] {
        match left {
            None => std::fs::remove_file(&path).unwrap(),
            Some(bytes) => std::fs::write(&path, bytes).unwrap(),
        }
        let ended = packhorse(&["repair", text(&out)]).run();
        assert!(ended.code() != 0, "{ended:?}");
        let ended = run(verb, &other);
        assert!([2, 3].contains(&ended.code()), "{ended:?}");
        let ended = run(verb, &input);
        assert_eq!(ended.code(), 0, "{verb}: {ended:?}");
        assert!(std::fs::read(&path).unwrap() == plan);
        packhorse(&["verify", "--full", text(&out)]).succeed();
    }
}

/// Of a job that is not sealed the same command makes the plan again; its finished shards stay.
#[test]
fn a_lost_plan_of_finished_shards_is_made_again() {
    let dir = tempfile::tempdir().unwrap();
    let (input, out) = (dir.path().join("in"), dir.path().join("out"));
    std::fs::create_dir(&input).unwrap();
    (0..20).for_each(|i| std::fs::write(input.join(format!("{i:02}.txt")), format!("text {i}")).unwrap());
    let run = |verb: &str, samples: &str, out: &Path| {
        packhorse(&[verb, text(&input), "--to", "webdataset", "--samples-per-shard", samples, "--out", text(out)]).run()
    };
    let whole = dir.path().join("whole");
    assert_eq!(run("pack", "6", &whole).code(), 0);
    let path = out.join("plan.jsonl.zst");
    for lost in [true, false] {
        assert_eq!(run("plan", "6", &out).code(), 0);
        packhorse(&["pack", "--plan", text(&out), "--part", "1/2"]).succeed();
        let plan = std::fs::read(&path).unwrap();
        let finished = committed(&out);
        match lost {
            true => std::fs::remove_file(&path).unwrap(),
            false => std::fs::write(&path, &plan[..plan.len() / 2]).unwrap(),
        }
        let other = run("plan", "5", &out);
        assert!([2, 3].contains(&other.code()), "{other:?}");
        assert_eq!(run("plan", "6", &out).code(), 0);
        assert!(std::fs::read(&path).unwrap() == plan);
        assert_eq!(run("pack", "6", &out).code(), 0);
        let now = committed(&out);
        assert!(finished.iter().all(|(name, id)| now.get(name) == Some(id)), "finished shards were written again");
        assert_equal(&tree(&whole), &tree(&out), "packed");
        std::fs::remove_dir_all(&out).unwrap();
    }
    // Without finished shards a damaged plan is none.
    assert_eq!(run("plan", "6", &out).code(), 0);
    std::fs::write(&path, "x").unwrap();
    assert_eq!(run("pack", "5", &out).code(), 0);
}

/// Where the inputs now give other samples, no command writes these over a sealed shard; a lost index needs none.
#[test]
fn sealed_shards_are_not_packed_with_other_samples() {
    let dir = tempfile::tempdir().unwrap();
    let (input, out) = (dir.path().join("in"), dir.path().join("out"));
    std::fs::create_dir(&input).unwrap();
    for name in ["a", "b", "c"] {
        std::fs::write(input.join(name).with_extension("pgm"), b"P5\n2 2\n255\n1234").unwrap();
    }
    // The same length and time, and no picture.
    let spoil = || {
        let path = input.join("b.pgm");
        let time = std::fs::metadata(&path).unwrap().modified().unwrap();
        flip_at(&path, 0);
        std::fs::File::options().append(true).open(&path).unwrap().set_modified(time).unwrap();
    };
    let pack = |more: &[&str]| {
        let fixed = ["pack", text(&input), "--to", "webdataset", "--image", "check", "--out", text(&out), "--json"];
        packhorse(&[&fixed[..], more].concat()).run()
    };
    let samples_of = |ended: &Ended| {
        assert_eq!(ended.code(), 0, "{ended:?}");
        let said: serde_json::Value = serde_json::from_str(&ended.printed).unwrap();
        (said["samples"].as_u64().unwrap(), said["reused"].as_u64().unwrap())
    };
    for (good_first, samples) in [(true, 3), (false, 2)] {
        if !good_first {
            spoil();
        }
        assert_eq!(samples_of(&pack(&["--on-error", "skip"])), (samples, 0));
        spoil();
        let whole = tree(&out);
        for lost in ["shard-000000.members", "shard-000000.receipt.json"] {
            let path = out.join(lost);
            let kept = std::fs::read(&path).unwrap();
            std::fs::remove_file(&path).unwrap();
            let again = pack(&["--on-error", "skip"]);
            assert!(again.code() == 4 && again.said.contains("packhorse repair"), "{again:?}");
            match lost.ends_with(".members") {
                true => drop(packhorse(&["repair", text(&out)]).succeed()),
                false => std::fs::write(&path, kept).unwrap(),
            }
            assert_equal(&whole, &tree(&out), lost);
        }
        if good_first {
            spoil();
            std::fs::remove_dir_all(&out).unwrap();
        }
    }
    // The input is whole again: the same command tells of the missing sample, and `--replace` packs it.
    let words = ["pack", text(&input), "--to", "webdataset", "--image", "check", "--out", text(&out)];
    let told = Program(without_quiet(&words)).run();
    assert!(told.code() == 0 && told.said.contains("an earlier run left out 1 sample"), "{told:?}");
    assert_eq!(samples_of(&pack(&["--replace"])), (3, 0));
    assert_eq!(samples_of(&pack(&["--replace"])), (3, 1));
}

/// A plan that was made where the inputs had another path, as outside of a container.
#[test]
fn inputs_under_another_path_are_found_where_they_are_said_to_be() {
    let work = Work::new(40, 8);
    let (out, input, elsewhere) = (work.dir("out"), work.dir("photos"), work.dir("elsewhere"));
    copy_inputs(&work, &input);
    let plan = ["plan", text(&input), "--to", "webdataset", "--out", text(&out), "--samples-per-shard", "8"];
    packhorse(&plan).succeed();
    let here = elsewhere.join("new");
    std::fs::create_dir(&elsewhere).unwrap();
    std::fs::rename(&input, &here).unwrap();
    let lost = run(&["pack", "--plan", text(&out)]);
    assert!(lost.code() == 4 && lost.said.contains("--moved"), "{lost:?}");
    let refused = [
        ("nowhere=here", "no input of the plan is at"),
        ("nowhere=", "OLD=NEW"),
        ("=here", "OLD=NEW"),
        ("/no=/x", text(&input)),
    ];
    for (wrong, said) in refused {
        let ended = run(&["pack", "--plan", text(&out), "--moved", wrong]);
        assert!(ended.code() == 2 && ended.said.contains(said), "{ended:?}");
    }
    let alone = run(&["pack", text(&here), "--to", "webdataset", "--out", "x", "--moved", "a=b"]);
    assert!(alone.code() == 2 && alone.said.contains("--plan DIR"), "{alone:?}");
    // The inputs themselves, and a folder above them.
    let moved = format!("{}={}", text(&input), text(&here));
    packhorse(&["pack", "--plan", text(&out), "--moved", &moved, "--part", "1/2"]).succeed();
    let above = format!("{}={}", text(input.parent().unwrap()), text(&here));
    std::fs::rename(&here, work.dir("aside")).unwrap();
    std::fs::create_dir(&here).unwrap();
    std::fs::rename(work.dir("aside"), here.join(input.file_name().unwrap())).unwrap();
    packhorse(&["pack", "--plan", text(&out), "--moved", &above, "--seal"]).succeed();
    packhorse(&["verify", "--full", text(&out)]).succeed();
    let whole = tree(&out);
    flip(&out.join("shard-000001.tar"));
    assert_eq!(run(&["repair", text(&out)]).code(), 4);
    packhorse(&["repair", text(&out), "--moved", &above]).succeed();
    packhorse(&["clean", "--quarantine", text(&out)]).succeed();
    assert_equal(&whole, &tree(&out), "repaired from where the inputs are now");
}

/// The member index of a whole shard needs no inputs; it is made again with its recorded bytes.
#[test]
fn lost_indexes_are_made_again_without_inputs() {
    let work = Work::new(40, 8);
    let (out, input) = (work.dir("out"), work.dir("photos"));
    copy_inputs(&work, &input);
    // A field that the first samples lack, and others have.
    let class = std::fs::read_dir(&input).unwrap().map(|entry| entry.unwrap().path()).max().unwrap();
    for photo in std::fs::read_dir(class).unwrap().map(|entry| entry.unwrap().path()) {
        std::fs::write(photo.with_extension("a.txt"), "a note").unwrap();
    }
    let pack = ["pack", text(&input), "--to", "webdataset", "--out", text(&out), "--samples-per-shard", "8"];
    packhorse(&pack).succeed();
    std::fs::remove_dir_all(&input).unwrap();
    let whole = tree(&out);
    let indexes: Vec<&String> = whole.keys().filter(|name| name.ends_with(".members")).collect();
    assert!(indexes.len() > 3);
    std::fs::remove_file(out.join(indexes[0])).unwrap();
    flip(&out.join(indexes[1]));
    cut(&out.join(indexes[indexes.len() - 1]));
    assert_eq!(run(&["verify", text(&out)]).code(), DAMAGED);
    let said = packhorse(&["repair", text(&out), "--json"]).succeed().printed;
    let said: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!((&said["packed"], said["damages"].as_array().unwrap().len()), (&0.into(), 3), "{said}");
    packhorse(&["clean", "--quarantine", text(&out)]).succeed();
    assert_equal(&whole, &tree(&out), "indexes made again");
    packhorse(&["verify", "--full", text(&out)]).succeed();
    // A shard that is damaged too needs its inputs.
    let shard = indexes[0].replace(".members", ".tar");
    flip(&out.join(&shard));
    std::fs::remove_file(out.join(indexes[0])).unwrap();
    assert_eq!(run(&["repair", text(&out)]).code(), 4);
}

/// The dataset that the new one was made of is gone.
#[test]
fn what_was_packed_from_itself_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let (input, out) = (dir.path().join("t.csv"), dir.path().join("out"));
    std::fs::write(&input, "a\n1\n2\n").unwrap();
    let pack = |input: &Path, more: &[&str]| {
        packhorse(&[&["pack", text(input), "--to", "parquet", "--out", text(&out)], more].concat()).succeed();
    };
    pack(&input, &[]);
    pack(&out, &["--replace", "--samples-per-shard", "1"]);
    std::fs::remove_file(out.join("shard-000000.parquet")).unwrap();
    let repair = run(&["repair", text(&out)]);
    assert!(repair.code() == 4 && repair.said.contains("packed from the dataset that it replaced"), "{repair:?}");
}

/// A receipt that says the same with other bytes is written again, also where the manifest is made again.
#[test]
fn a_receipt_without_its_last_byte_is_mended() {
    let dir = tempfile::tempdir().unwrap();
    let (table, out) = (dir.path().join("t.csv"), dir.path().join("out"));
    std::fs::write(&table, "id\n1\n2\n").unwrap();
    packhorse(&["pack", text(&table), "--to", "parquet", "--out", text(&out), "--samples-per-shard", "1"]).succeed();
    let whole = tree(&out);
    let receipt = out.join("shard-000001.receipt.json");
    let bytes = std::fs::read(&receipt).unwrap();
    std::fs::write(&receipt, &bytes[..bytes.len() - 1]).unwrap();
    std::fs::remove_file(out.join("dataset.json")).unwrap();
    packhorse(&["repair", text(&out)]).succeed();
    std::fs::remove_dir_all(out.join(".quarantine")).unwrap();
    assert_equal(&whole, &tree(&out), "repaired");
}

/// A digit of a receipt that flips before sealing does not become the dataset's word about a healthy shard.
#[test]
fn a_receipt_that_was_changed_before_sealing_is_written_again() {
    let dir = tempfile::tempdir().unwrap();
    let (table, out) = (dir.path().join("t.csv"), dir.path().join("out"));
    std::fs::write(&table, "id\n1\n2\n").unwrap();
    let packed = ["pack", text(&table), "--to", "parquet", "--out", text(&out), "--samples-per-shard", "1"];
    packhorse(&packed).succeed();
    let whole = tree(&out);
    let receipt = out.join("shard-000001.receipt.json");
    std::fs::remove_file(out.join("dataset.json")).unwrap();
    let said = std::fs::read_to_string(&receipt).unwrap();
    let digest = said.find("\"blake3\": \"").unwrap() + 11;
    let other = if said[digest..].starts_with('0') { "1" } else { "0" };
    std::fs::write(&receipt, format!("{}{other}{}", &said[..digest], &said[digest + 1..])).unwrap();
    let seal = run(&["seal", text(&out)]);
    assert!(seal.code() == DAMAGED && seal.said.contains("shard-000001"), "{seal:?}");
    packhorse(&packed).succeed();
    assert_equal(&whole, &tree(&out), "packed again");
    packhorse(&["verify", "--full", text(&out)]).succeed();
}

/// Receipts of the version before had no digest of their own. Their datasets stay as they are.
#[test]
fn a_dataset_with_receipts_of_the_version_before_is_mended() {
    let dir = tempfile::tempdir().unwrap();
    let (table, out) = (dir.path().join("t.csv"), dir.path().join("out"));
    std::fs::write(&table, "id\n1\n2\n").unwrap();
    packhorse(&["pack", text(&table), "--to", "parquet", "--out", text(&out), "--samples-per-shard", "1"]).succeed();
    let mut manifest = Manifest::decode(&std::fs::read(out.join("dataset.json")).unwrap()).unwrap();
    for shard in &mut manifest.shards {
        let path = out.join(format!("{}.receipt.json", shard.name));
        let receipt = Receipt::decode(&std::fs::read(&path).unwrap()).unwrap().without_digest().encode().unwrap();
        assert!(String::from_utf8_lossy(&receipt).ends_with("]\n}\n"));
        shard.receipt = Digest::of(&receipt);
        std::fs::write(&path, receipt).unwrap();
    }
    std::fs::write(out.join("dataset.json"), manifest.encode().unwrap()).unwrap();
    packhorse(&["verify", "--full", text(&out)]).succeed();
    let whole = tree(&out);
    flip(&out.join("shard-000000.parquet"));
    std::fs::remove_file(out.join("shard-000001.receipt.json")).unwrap();
    packhorse(&["repair", text(&out)]).succeed();
    std::fs::remove_dir_all(out.join(".quarantine")).unwrap();
    assert_equal(&whole, &tree(&out), "repaired");
}
