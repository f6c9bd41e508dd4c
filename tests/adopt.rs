//! `packhorse adopt`: a sealed dataset of tars that others wrote.

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

use common::corpus::images;
use common::process::{Program, packhorse};
use common::strace;
use common::tree::{Tree, assert_equal, tree};
use common::work::text;
use packhorse::read::{FieldKind, FieldOptions, Host, Loader, LoaderOptions, Remainder};
use packhorse_testkit::hostile::tar::{TarMember, archive};
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

fn adopt(input: &Path, more: &[&str]) -> Program {
    packhorse(&[&["adopt", text(input)], more].concat())
}

fn value(program: &[&str]) -> serde_json::Value {
    serde_json::from_str(&packhorse(&[program, &["--json"]].concat()).succeed().printed).unwrap()
}

#[track_caller]
fn refused(program: Program, code: i32, words: &[&str]) {
    let ended = program.run();
    assert_eq!(ended.code(), code, "{ended:?}");
    assert!(words.iter().all(|word| ended.said.contains(word)), "{words:?}: {ended:?}");
}

/// Packs 30 pictures into `dir`/packed, 6 in a shard; and copies the tars into `dir`/others, beside a README.
fn packed(dir: &Path) -> (PathBuf, PathBuf) {
    let (ours, others) = (dir.join("packed"), dir.join("others"));
    let to = ["--to", "webdataset", "--labels", "folders", "--samples-per-shard", "6"];
    packhorse(&[&["pack", text(&images(30)), "--out", text(&ours)], &to[..]].concat()).succeed();
    std::fs::create_dir(&others).unwrap();
    for n in 0..5 {
        let name = format!("shard-{n:06}.tar");
        std::fs::copy(ours.join(&name), others.join(&name)).unwrap();
    }
    std::fs::write(others.join("README.md"), "ours").unwrap();
    (ours, others)
}

/// Inode, modification time and digest of each tar and of the README.
fn stamps(dir: &Path) -> BTreeMap<PathBuf, (u64, i64, i64, blake3::Hash)> {
    let paths = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let theirs = |path: &PathBuf| path.extension().is_some_and(|end| end == "tar" || end == "md");
    let stamp = |path: PathBuf| {
        let meta = std::fs::metadata(&path).unwrap();
        let digest = blake3::hash(&std::fs::read(&path).unwrap());
        (path, (meta.ino(), meta.mtime(), meta.mtime_nsec(), digest))
    };
    paths.filter(theirs).map(stamp).collect()
}

/// The picture and the label of every sample of the dataset in `dir`, by key, as a loader gives them.
fn samples(dir: &Path) -> BTreeMap<String, [Vec<u8>; 2]> {
    let dataset = packhorse::open(text(dir)).unwrap();
    let fields = [FieldOptions::new("jpg", FieldKind::Bytes), FieldOptions::new("cls", FieldKind::Auto)];
    let options = LoaderOptions { remainder: Remainder::Uneven, threads: 2, ..LoaderOptions::new(7) };
    let mut found = BTreeMap::new();
    for batch in Loader::new(dataset, &fields, &options, Host::default()).unwrap() {
        let batch = batch.unwrap();
        for row in 0..batch.rows() {
            let values = ["jpg", "cls"].map(|field| batch.row(field, row).unwrap().to_vec());
            assert!(found.insert(batch.key(row).unwrap().to_owned(), values).is_none());
        }
    }
    found
}

#[test]
fn adopted_tars_are_a_dataset_and_stay_as_they_are() {
    let dir = tempfile::tempdir().unwrap();
    let (ours, others) = packed(dir.path());
    let before = stamps(&others);
    let said = value(&["adopt", text(&others.join("*.tar"))]);
    assert_eq!((&said["shards"], &said["samples"], &said["reused"]), (&5.into(), &30.into(), &0.into()), "{said}");
    assert_eq!(stamps(&others), before);
    // The same bytes have the same digest, and the same member index.
    assert_eq!(said["root"], value(&["stat", text(&ours)])["root"]);
    let members = |dir: &Path| tree(dir).into_iter().filter(|(name, _)| name.ends_with(".members")).collect::<Tree>();
    assert_equal(&members(&ours), &members(&others), "members");
    for depth in [&[][..], &["--full"]] {
        packhorse(&[&["verify", text(&others)], depth].concat()).succeed();
    }
    assert_eq!(value(&["status", text(&others)])["sealed"], true);
    let listed = |dir: &Path| packhorse(&["ls", text(dir)]).succeed().printed;
    assert_eq!(listed(&ours), listed(&others));
    let name = listed(&others).lines().nth(1).unwrap().to_owned();
    let member = |dir: &Path| packhorse(&["cat", text(dir), &name]).succeed().printed;
    assert_eq!(member(&ours), member(&others));
    refused(adopt(&others, &[]), 2, &["dataset.json", "already"]);
    // Indexes may come later, and do not disturb.
    packhorse(&["index", text(&others)]).succeed();
    packhorse(&["verify", text(&others), "--full"]).succeed();
    assert_eq!(stamps(&others), before);
}

#[test]
fn a_loader_reads_every_sample_and_packing_takes_them_all() {
    let dir = tempfile::tempdir().unwrap();
    let (ours, others) = packed(dir.path());
    adopt(&others, &[]).succeed();
    let found = samples(&others);
    assert!(found.len() == 30 && found == samples(&ours));
    let (tables, back) = (dir.path().join("tables"), dir.path().join("back"));
    packhorse(&["pack", text(&others), "--to", "parquet", "--out", text(&tables)]).succeed();
    let to = ["--to", "webdataset", "--samples-per-shard", "6", "--out", text(&back)];
    packhorse(&[&["pack", text(&tables)], &to[..]].concat()).succeed();
    let names = |dir: &Path| packhorse(&["ls", text(dir)]).succeed().printed;
    assert_eq!(names(&ours), names(&back));
    for n in 0..5 {
        let shard = format!("shard-{n:06}.tar");
        assert!(std::fs::read(ours.join(&shard)).unwrap() == std::fs::read(back.join(&shard)).unwrap(), "{shard}");
    }
}

#[test]
fn a_flipped_bit_is_found_and_can_not_be_repaired() {
    let dir = tempfile::tempdir().unwrap();
    let (_, others) = packed(dir.path());
    adopt(&others, &[]).succeed();
    let shard = others.join("shard-000002.tar");
    let good = std::fs::read(&shard).unwrap();
    for at in [3000, good.len() / 2, good.len() - 1] {
        let mut bad = good.clone();
        bad[at] ^= 4;
        std::fs::write(&shard, bad).unwrap();
        let ended = packhorse(&["verify", text(&others), "--full", "--json"]).run();
        assert!(ended.code() == 6 && ended.printed.contains("shard-000002.tar"), "{at}: {ended:?}");
        assert!(ended.printed.contains("\"repairable\": false"), "{ended:?}");
        refused(packhorse(&["repair", text(&others)]), 6, &["shard-000002", "adopted", "copy"]);
        // Packing from it reads the digests too.
        let out = dir.path().join("out");
        refused(packhorse(&["pack", text(&others), "--to", "parquet", "--out", text(&out)]), 6, &["shard-000002.tar"]);
    }
    std::fs::write(&shard, good).unwrap();
    packhorse(&["verify", text(&others), "--full"]).succeed();
    let replace = ["--to", "webdataset", "--out", text(&others), "--replace"];
    let before = stamps(&others);
    refused(packhorse(&[&["pack", text(&images(30))], &replace[..]].concat()), 2, &["adopted", "not replaced"]);
    let more = images(30);
    refused(packhorse(&["append", text(&others), text(&more)]), 2, &["adopted", "another folder"]);
    assert_eq!(stamps(&others), before);
}

#[test]
fn a_killed_run_goes_on_and_ends_in_the_same_bytes() {
    if !strace::available() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (_, others) = packed(dir.path());
    adopt(&others, &["--jobs", "1"]).succeed();
    let (whole, log) = (tree(&others), dir.path().join("log"));
    let mut reused = 0;
    for syscall in ["renameat", "write"] {
        for k in (1..).step_by(2) {
            for name in whole.keys().filter(|name| !name.ends_with(".tar") && !name.ends_with(".md")) {
                let _ = std::fs::remove_file(others.join(name));
            }
            let fault = format!("signal=KILL:when={k}");
            let ended = strace::inject(adopt(&others, &["--jobs", "1"]), syscall, &fault, None, &log).run();
            if strace::hits(&ended, &log).is_empty() {
                assert!(k > 3, "adopt makes few calls of {syscall}");
                break;
            }
            let when = format!("killed at {syscall} {k}");
            for (name, digest) in tree(&others).iter().filter(|(name, _)| !name.starts_with(".staging/")) {
                assert_eq!(whole.get(name), Some(digest), "{when}: {name} is not whole");
            }
            if !others.join("dataset.json").exists() {
                reused = reused.max(value(&["adopt", text(&others), "--jobs", "1"])["reused"].as_u64().unwrap());
            }
            let mut now = tree(&others);
            now.retain(|name, _| !name.starts_with(".staging"));
            assert_equal(&whole, &now, &when);
        }
    }
    assert!(reused > 2, "{reused}");
}

#[test]
fn a_tar_that_changed_after_an_interruption_is_read_again() {
    let dir = tempfile::tempdir().unwrap();
    let (_, others) = packed(dir.path());
    adopt(&others, &[]).succeed();
    std::fs::remove_file(others.join("dataset.json")).unwrap();
    // The same length: a bit of the content.
    let shard = others.join("shard-000001.tar");
    let mut bytes = std::fs::read(&shard).unwrap();
    bytes[600] ^= 1;
    std::fs::write(&shard, bytes).unwrap();
    assert_eq!(value(&["adopt", text(&others)])["reused"], 4);
    packhorse(&["verify", text(&others), "--full"]).succeed();
}

#[test]
fn what_is_no_dataset_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let folder = |name: &str, tars: &[(&str, &[TarMember])]| {
        let path = dir.path().join(name);
        std::fs::create_dir_all(&path).unwrap();
        for (name, members) in tars {
            std::fs::create_dir_all(path.join(name).parent().unwrap()).unwrap();
            std::fs::write(path.join(name), archive(members)).unwrap();
        }
        path
    };
    let one = |key: &str| [TarMember::file(format!("{key}.jpg"), key)];
    let link = [TarMember::file("a.jpg", "x"), TarMember::of_kind(b'2', "b.jpg", "")];
    let twice = [TarMember::file("a.jpg", "x"), TarMember::file("a.jpg", "y")];
    for (case, tars, code, words) in [
        ("folders", &[("x/a.tar", &one("a")[..]), ("y/b.tar", &one("b"))][..], 2, &["another folder"][..]),
        ("link", &[("a.tar", &link)], 3, &["a.tar", "sample b", "symbolic link"]),
        ("twice", &[("a.tar", &twice)], 3, &["a.tar", "sample a", "a field twice"]),
        ("empty", &[("a.tar", &[])], 3, &["a.tar", "no sample"]),
        ("keys", &[("a.tar", &one("k")), ("b.tar", &one("k"))], 3, &["sample k", "a and b", "packhorse pack"]),
    ] {
        let path = folder(case, tars);
        let before = tree(&path);
        let words: Vec<&str> =
            words.iter().map(|word| if *word == "field a twice" { "a field twice" } else { word }).collect();
        refused(adopt(&path, &[]), code, &words);
        assert_equal(&before, &tree(&path), case);
    }
    let mixed = folder("mixed", &[("a.tar", &link), ("b.tar", &one("b")), ("c.tar", &one("c"))]);
    let said = value(&["adopt", text(&mixed), "--on-error", "skip"]);
    assert_eq!((&said["shards"], &said["skipped"]), (&2.into(), &1.into()), "{said}");
    assert!(std::fs::read_to_string(mixed.join("skipped.jsonl")).unwrap().contains("a.tar"));
    packhorse(&["verify", text(&mixed), "--full"]).succeed();
    let taken = folder("taken", &[("a.tar", &one("a"))]);
    std::fs::write(taken.join("a.members"), "of another program").unwrap();
    refused(adopt(&taken, &[]), 2, &["a.members", "exists"]);
    let linked = folder("linked", &[]);
    std::os::unix::fs::symlink(mixed.join("b.tar"), linked.join("b.tar")).unwrap();
    refused(adopt(&linked, &[]), 2, &["b.tar", "symbolic link"]);
    let odd = folder("odd", &[("a.tar", &[TarMember::file("README", "x"), TarMember::file("v1.2/My A.JPG", "x")])]);
    adopt(&odd, &[]).succeed();
    packhorse(&["verify", text(&odd), "--full"]).succeed();
    assert_eq!(packhorse(&["cat", text(&odd), "v1%2E2/My%20A.jpg"]).succeed().printed, "x");
}

#[cfg(feature = "s3-tests")]
#[test]
fn tars_in_a_bucket_become_a_dataset_there() {
    let dir = tempfile::tempdir().unwrap();
    let (_, others) = packed(dir.path());
    let root = dir.path().join("s3");
    let place = root.join("bucket/others");
    std::fs::create_dir_all(&place).unwrap();
    for name in tree(&others).into_keys() {
        std::fs::copy(others.join(&name), place.join(&name)).unwrap();
    }
    let before = stamps(&place);
    let server = packhorse_testkit::s3::Server::new(&root);
    let run = |args: &[&str]| {
        let mut program = packhorse(args);
        program.0.envs(server.settings());
        program
    };
    let said = |args: &[&str]| -> serde_json::Value {
        serde_json::from_str(&run(&[args, &["--json"]].concat()).succeed().printed).unwrap()
    };
    let here = value(&["adopt", text(&others)]);
    let there = said(&["adopt", "s3://bucket/others/*.tar"]);
    for name in ["root", "samples", "bytes", "shards", "skipped"] {
        assert_eq!(here[name], there[name], "{name}");
    }
    assert_eq!(stamps(&place), before);
    let members =
        |dir: &Path| -> Tree { tree(dir).into_iter().filter(|(name, _)| name.ends_with(".members")).collect() };
    assert_eq!(members(&place), members(&others));
    run(&["verify", "s3://bucket/others", "--full"]).succeed();
    assert_eq!(
        run(&["ls", "s3://bucket/others"]).succeed().printed,
        packhorse(&["ls", text(&others)]).succeed().printed
    );
    let near = dir.path().join("near");
    run(&["stage", "s3://bucket/others", "--to", text(&near)]).succeed();
    assert!(samples(&near) == samples(&others));
    refused(run(&["adopt", "s3://bucket/others"]), 2, &["s3://bucket/others/dataset.json", "holds a dataset already"]);
    // Stopped before the seal: nothing is read again but what changed.
    std::fs::remove_file(place.join("dataset.json")).unwrap();
    assert_eq!(said(&["adopt", "s3://bucket/others"])["reused"], 5);
    let shard = place.join("shard-000002.tar");
    let mut bytes = std::fs::read(&shard).unwrap();
    bytes[700] ^= 4;
    std::fs::write(&shard, &bytes).unwrap();
    let ended = run(&["verify", "s3://bucket/others", "--full"]).run();
    assert!(ended.code() == 6 && ended.said.contains("shard-000002.tar"), "{ended:?}");
    refused(run(&["repair", "s3://bucket/others"]), 6, &["shard-000002", "adopted", "copy"]);
}

#[cfg(feature = "remote")]
#[test]
fn tars_on_a_web_server_are_not_adopted() {
    let dir = tempfile::tempdir().unwrap();
    let (_, others) = packed(dir.path());
    let server = packhorse_testkit::web::Server::honest(&others);
    let place = server.url("shard-000000.tar");
    refused(adopt(Path::new(&place), &[]), 8, &["shard-000000.tar", "web server", "packhorse pack"]);
    assert_eq!(server.requests(), 0);
}

#[test]
fn a_name_without_room_for_the_files_beside_it_is_refused_before_anything_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let tar = dir.path().join(format!("{}.tar", "a".repeat(244)));
    std::fs::write(&tar, archive(&[TarMember::file("a.txt", b"x")])).unwrap();
    refused(adopt(dir.path(), &[]), 2, &["242 bytes", "rename it"]);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    std::fs::rename(&tar, dir.path().join(format!("{}.tar", "a".repeat(242)))).unwrap();
    adopt(dir.path(), &[]).succeed();
}
