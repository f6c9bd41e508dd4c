//! `packhorse index`: indexes of tars that others wrote.
//!
//! `PACKHORSE_PYTHON` names a Python with wids, DALI and Energon.

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
use common::process::{Ended, Program, packhorse};
use common::strace;
use common::tree::{Tree, assert_equal, tree};
use common::work::text;
use packhorse_testkit::external::{python, skip};
use packhorse_testkit::hostile::tar::{TarMember, archive};
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const ALL: &str = "wids:md5,dali,energon";

fn index(input: &Path, more: &[&str]) -> Program {
    packhorse(&[&["index", text(input), "--index", ALL], more].concat())
}

/// What `index` says as JSON.
fn indexed(input: &Path, more: &[&str]) -> serde_json::Value {
    serde_json::from_str(&index(input, &[&["--json"], more].concat()).succeed().printed).unwrap()
}

fn refused(program: Program, code: i32, words: &[&str]) -> Ended {
    let ended = program.run();
    assert_eq!(ended.code(), code, "{ended:?}");
    assert!(words.iter().all(|word| ended.said.contains(word)), "{words:?}: {ended:?}");
    ended
}

fn script(python: &Path, name: &str, args: &[&Path]) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/interop").join(name);
    let output = Command::new(python).arg(path).args(args).output().unwrap();
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success(), "{name} {args:?}\n{text}");
    text
}

/// A Python with torch, which wids and Energon import.
fn readers() -> Option<PathBuf> {
    let python = python()?;
    let found = Command::new(&python).args(["-c", "import torch"]).output().unwrap().status.success();
    if !found {
        skip("torch is not installed");
    }
    found.then_some(python)
}

/// Packs 30 pictures into `dir`/packed/data, 6 in a shard, with all indexes; and copies the tars into `dir`/data.
fn packed(dir: &Path) -> (PathBuf, PathBuf) {
    let (ours, others) = (dir.join("packed/data"), dir.join("data"));
    let to = ["--to", "webdataset", "--labels", "folders", "--samples-per-shard", "6", "--name", "data"];
    packhorse(&[&["pack", text(&images(30)), "--out", text(&ours), "--index", ALL], &to[..]].concat()).succeed();
    std::fs::create_dir(&others).unwrap();
    for tar in tars(&ours) {
        std::fs::copy(&tar, others.join(tar.file_name().unwrap())).unwrap();
    }
    (ours, others)
}

fn tars(dir: &Path) -> Vec<PathBuf> {
    let mut tars: Vec<PathBuf> = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    tars.retain(|path| path.extension().is_some_and(|end| end == "tar"));
    tars.sort();
    tars
}

/// Inode, modification time and digest of each file.
fn stamps(paths: &[PathBuf]) -> BTreeMap<PathBuf, (u64, i64, i64, blake3::Hash)> {
    let stamp = |path: &PathBuf| {
        let meta = std::fs::metadata(path).unwrap();
        (meta.ino(), meta.mtime(), meta.mtime_nsec(), blake3::hash(&std::fs::read(path).unwrap()))
    };
    paths.iter().map(|path| (path.clone(), stamp(path))).collect()
}

#[test]
fn indexes_equal_those_that_packing_writes_and_tars_stay_as_they_are() {
    let dir = tempfile::tempdir().unwrap();
    let (ours, others) = packed(dir.path());
    let before = stamps(&tars(&others));
    let said = indexed(&others.join("*.tar"), &[]);
    assert_eq!((&said["shards"], &said["samples"], &said["reused"]), (&5.into(), &30.into(), &0.into()), "{said}");
    let (mut wanted, found) = (tree(&ours), tree(&others));
    let kept = |name: &String| name.ends_with(".idx") || name.ends_with(".tar") || name.starts_with(".nv-meta/");
    // Packing derives it from digests of the shards.
    wanted.retain(|name, _| (kept(name) || name == "shardindex.json") && name != ".nv-meta/index.uuid");
    assert!(wanted.len() == 5 * 3 + 6, "{:?}", wanted.keys());
    let mut without = found.clone();
    without.retain(|name, _| !name.starts_with(".packhorse-index/") && name != ".nv-meta/index.uuid");
    assert_equal(&wanted, &without, "against packing");
    assert_eq!(stamps(&tars(&others)), before);
    // Files that the result lists, and no others.
    let names: Vec<&str> =
        said["files"].as_array().unwrap().iter().map(|file| file["name"].as_str().unwrap()).collect();
    assert!(names.iter().all(|name| found.contains_key(*name)) && names.len() == 5 * 2 + 6, "{names:?}");
    // Threads and the way of naming do not matter.
    let again = dir.path().join("again/data");
    std::fs::create_dir_all(&again).unwrap();
    for tar in tars(&ours) {
        std::fs::hard_link(&tar, again.join(tar.file_name().unwrap())).unwrap();
    }
    index(&again, &["--jobs", "1"]).succeed();
    let plain = |tree: Tree| tree.into_iter().filter(|(name, _)| !name.ends_with(".saved")).collect::<Tree>();
    assert_equal(&plain(found), &plain(tree(&again)), "on one thread");
}

#[test]
fn only_new_and_changed_tars_are_read_again() {
    let dir = tempfile::tempdir().unwrap();
    let (ours, others) = packed(dir.path());
    let last = tars(&others).pop().unwrap();
    std::fs::remove_file(&last).unwrap();
    assert_eq!(indexed(&others, &[])["shards"], 4);
    let all = tree(&others);
    assert_eq!(indexed(&others, &[])["reused"], 4);
    assert_equal(&all, &tree(&others), "the second time");
    let first = others.join("data-000000.idx");
    let stamp = stamps(std::slice::from_ref(&first));
    std::fs::copy(ours.join(last.file_name().unwrap()), &last).unwrap();
    let said = indexed(&others, &[]);
    assert_eq!((&said["shards"], &said["reused"], &said["samples"]), (&5.into(), &4.into(), &30.into()));
    assert_eq!(stamps(std::slice::from_ref(&first)), stamp, "an index of a tar that did not change was written again");
    // Another tar under the same name, an index that is gone, and one that was cut.
    std::fs::copy(tars(&ours).first().unwrap(), &last).unwrap();
    let same_key = index(&others, &[]).run();
    assert!(same_key.code() == 3 && same_key.said.contains("data-000004.tar"), "{same_key:?}");
    std::fs::copy(ours.join(last.file_name().unwrap()), &last).unwrap();
    std::fs::remove_file(&first).unwrap();
    std::fs::write(others.join("data-000001.tar.idx"), "").unwrap();
    refused(index(&others, &[]), 2, &["data-000001.tar.idx", "another program", "--replace"]);
    assert_eq!(indexed(&others, &["--replace"])["samples"], 30);
    let wanted: Tree = tree(&ours).into_iter().filter(|(name, _)| name.ends_with(".idx")).collect();
    assert_equal(
        &wanted,
        &tree(&others).into_iter().filter(|(name, _)| name.ends_with(".idx")).collect(),
        "at the end",
    );
}

#[test]
fn a_killed_run_goes_on_and_ends_in_the_same_bytes() {
    if !strace::available() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (_, others) = packed(dir.path());
    let names: Vec<PathBuf> = tars(&others);
    index(&others, &["--jobs", "1"]).succeed();
    let (whole, log) = (tree(&others), dir.path().join("log"));
    let mut reused = 0;
    for syscall in ["renameat", "write", "fsync"] {
        for k in (1..).step_by(3) {
            for name in whole.keys().filter(|name| !name.ends_with('/') && !name.ends_with(".tar")) {
                let _ = std::fs::remove_file(others.join(name));
            }
            let fault = format!("signal=KILL:when={k}");
            let ended = strace::inject(index(&others, &["--jobs", "1"]), syscall, &fault, None, &log).run();
            let done = strace::hits(&ended, &log).is_empty();
            let when = format!("killed at {syscall} {k}");
            for (name, digest) in tree(&others).iter().filter(|(name, _)| !name.starts_with(".staging/")) {
                assert_eq!(whole.get(name), Some(digest), "{when}: {name} is not whole");
            }
            let said = indexed(&others, &["--jobs", "1"]);
            reused = reused.max(said["reused"].as_u64().unwrap());
            assert_equal(&whole, &tree(&others), &when);
            if done {
                assert!(k > 3, "index makes few calls of {syscall}");
                break;
            }
        }
    }
    assert!(reused > 0 && tars(&others) == names, "{reused}");
}

/// Tars of others in `dir`: one with folders, a README and a link, one sound, and what `bad` holds.
fn others(dir: &Path, bad: &[u8]) {
    let odd = [
        TarMember::of_kind(b'5', "d/", ""),
        TarMember::file("README", "text"),
        TarMember::file("d/a.jpg", "one"),
        TarMember::of_kind(b'2', "d/a.lnk", ""),
        TarMember::file("d/a.CLS", "7"),
    ];
    std::fs::create_dir_all(dir.join("below")).unwrap();
    std::fs::write(dir.join("odd.tar"), archive(&odd)).unwrap();
    std::fs::write(dir.join("below/plain.tar"), archive(&[TarMember::file("b.jpg", "two")])).unwrap();
    std::fs::write(dir.join("bad.tar"), bad).unwrap();
    std::fs::write(dir.join("notes.txt"), "not a tar").unwrap();
}

#[test]
fn a_bad_tar_is_named_or_left_out() {
    let cut = archive(&[TarMember::file("x.jpg", "three"), TarMember::file("y.jpg", [1; 3000])]);
    let sparse = archive(&[TarMember::of_kind(b'S', "holes.jpg", "x")]);
    let not_utf8 = archive(&[TarMember::file(b"\xff.jpg", "x")]);
    let unmarked = &archive(&[TarMember::file("x.jpg", "three")])[..1024];
    for (bad, words) in [
        (&cut[..3000], &["bad.tar", "y.jpg", "ends within a member"][..]),
        (&sparse, &["bad.tar", "holes.jpg", "sparse"]),
        (&not_utf8, &["bad.tar", "UTF-8"]),
        (&archive(&[]), &["bad.tar", "no sample"]),
        (unmarked, &["bad.tar", "no end-of-archive marker"]),
        (&cut.repeat(2), &["bad.tar", "joined with cat", "tar -A"]),
        (b"no tar at all", &["bad.tar"]),
    ] {
        let dir = tempfile::tempdir().unwrap();
        others(dir.path(), bad);
        refused(index(dir.path(), &[]), 3, words);
        let said = indexed(dir.path(), &["--on-error", "skip"]);
        assert_eq!((&said["shards"], &said["skipped"], &said["samples"]), (&2.into(), &1.into(), &2.into()), "{said}");
        let list = std::fs::read_to_string(dir.path().join("shardindex.json")).unwrap();
        assert!(list.contains("\"below/plain.tar\"") && list.contains("\"odd.tar\"") && !list.contains("bad.tar"));
        assert!(!dir.path().join("bad.idx").exists() && dir.path().join("below/plain.idx").exists());
        let dali = std::fs::read_to_string(dir.path().join("odd.idx")).unwrap();
        assert_eq!(dali, "v1.2 1\njpg 2048 3 d/a.jpg CLS 3584 1 d/a.CLS\n");
    }
}

#[test]
fn files_of_another_program_are_not_replaced() {
    let dir = tempfile::tempdir().unwrap();
    others(dir.path(), &archive(&[TarMember::file("x.jpg", "three")]));
    let split = dir.path().join(".nv-meta/split.yaml");
    std::fs::create_dir(split.parent().unwrap()).unwrap();
    std::fs::write(&split, "mine").unwrap();
    refused(index(dir.path(), &[]), 2, &["split.yaml", "another program"]);
    assert_eq!(std::fs::read_to_string(&split).unwrap(), "mine");
    assert!(!dir.path().join(".nv-meta/.info.json").exists());
    index(dir.path(), &["--replace"]).succeed();
    index(dir.path(), &[]).succeed();
    // The user's own change of what was written.
    std::fs::write(&split, "mine").unwrap();
    refused(index(dir.path(), &[]), 2, &["split.yaml"]);
    std::fs::remove_file(&split).unwrap();
    index(dir.path(), &[]).succeed();
}

#[test]
fn requests_that_make_no_sense_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    others(dir.path(), b"");
    let at = |name: &str| dir.path().join(name);
    refused(index(&at("missing.tar"), &[]), 2, &["missing.tar", "no such file"]);
    refused(index(&at("*.parquet"), &[]), 2, &["*.parquet", "no shard"]);
    refused(index(&at("notes.txt"), &[]), 2, &["notes.txt", "is not a shard"]);
    refused(packhorse(&["index", text(&at("odd.tar")), "--index", "faiss"]), 2, &["faiss", "energon"]);
    std::fs::rename(at("odd.tar"), at("odd.TAR")).unwrap();
    refused(index(&at("odd.TAR"), &[]), 2, &["odd.TAR", "does not end in .tar"]);
    std::fs::write(at("x.tar.gz"), "").unwrap();
    refused(index(&at("x.tar.gz"), &[]), 8, &["x.tar.gz", "compressed"]);
    let (ours, _) = packed(dir.path());
    refused(index(&ours, &[]), 2, &["dataset.json", "--index"]);
}

#[test]
fn the_tools_of_the_readers_write_the_same() {
    let Some(python) = readers() else { return };
    let dir = tempfile::tempdir().unwrap();
    let (ours, others) = packed(dir.path());
    // In folders, whose names sort differently with and without their slash.
    for (n, tar) in tars(&ours).iter().enumerate() {
        let folder = others.join(["a", "a-b", "b"][n % 3]);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::rename(others.join(tar.file_name().unwrap()), folder.join(format!("{n}.tar"))).unwrap();
    }
    index(&others, &[]).succeed();
    assert!(script(&python, "check_index_tools.py", &[&others]).contains("5 tars are equal"));
}

#[test]
fn readers_find_every_sample_of_tars_that_others_wrote() {
    let Some(python) = readers() else { return };
    let dir = tempfile::tempdir().unwrap();
    let foreign = dir.path().join("foreign");
    std::fs::create_dir(&foreign).unwrap();
    script(&python, "make_foreign.py", &[&foreign]);
    let place = |name: &str| {
        let to = dir.path().join("indexed").join(name);
        std::fs::create_dir_all(&to).unwrap();
        to
    };
    for name in ["gnu", "gnutar-dot", "links", "old-v7", "pax", "ustar-prefix", "webdataset-tarwriter"] {
        let to = place(name);
        std::fs::copy(foreign.join(format!("{name}.tar")), to.join(format!("{name}.tar"))).unwrap();
        index(&to, &[]).succeed();
        assert!(script(&python, "oracle_indexes.py", &[&to]).contains("1 shards equal"));
    }
    let (from, to) = (foreign.join("webdataset-shards"), place("webdataset-shards"));
    for tar in tars(&from) {
        std::fs::copy(&tar, to.join(tar.file_name().unwrap())).unwrap();
    }
    index(&to, &[]).succeed();
    let list = foreign.join("webdataset-shards.expected.jsonl");
    for reader in ["dali", "energon"] {
        script(&python, &format!("check_{reader}.py"), &[&to, &list]);
    }
    script(&python, "check_index_tools.py", &[&to]);
    let (_, others) = packed(dir.path());
    index(&others, &[]).succeed();
    let list = dir.path().join("pictures.jsonl");
    std::fs::write(&list, expected(&others, &dir.path().join("extracted"))).unwrap();
    for reader in ["wids", "dali", "energon"] {
        script(&python, &format!("check_{reader}.py"), &[&others, &list]);
    }
}

/// What a reader must find in the tars of `dir`, as GNU tar extracts them below `to`.
fn expected(dir: &Path, to: &Path) -> String {
    std::fs::create_dir(to).unwrap();
    for tar in tars(dir) {
        assert!(Command::new("tar").arg("xf").arg(tar).arg("-C").arg(to).status().unwrap().success());
    }
    let mut samples = BTreeMap::<String, serde_json::Map<String, serde_json::Value>>::new();
    for name in tree(to).into_keys().filter(|name| !name.ends_with('/')) {
        let sum = Command::new("sha256sum").arg(to.join(&name)).output().unwrap().stdout;
        let bytes = std::fs::metadata(to.join(&name)).unwrap().len();
        let fact = serde_json::json!({"sha256": String::from_utf8(sum).unwrap()[..64], "bytes": bytes});
        let (key, field) = name.split_once('.').unwrap();
        samples.entry(key.to_owned()).or_default().insert(field.to_owned(), fact);
    }
    let line = |(key, fields)| format!("{}\n", serde_json::json!({"key": key, "split": null, "fields": fields}));
    samples.into_iter().map(line).collect()
}

/// What indexing wrote: all files but the tars, and but what it keeps, which has the times of the tars.
fn written(dir: &Path) -> Tree {
    let is_index = |name: &str| !name.ends_with(".tar") && !name.ends_with(".saved") && !name.starts_with(".bucket");
    tree(dir).into_iter().filter(|(name, _)| is_index(name)).collect()
}

#[cfg(feature = "remote")]
#[test]
fn tars_on_a_web_server_are_indexed_into_a_folder() {
    let dir = tempfile::tempdir().unwrap();
    let (_, others) = packed(dir.path());
    let server = packhorse_testkit::web::Server::honest(dir.path());
    let (place, out) = (server.url("data/data-{000000..000004}.tar"), dir.path().join("out"));
    let place = Path::new(&place);
    let into = ["--out", text(&out)];
    let said = indexed(place, &into);
    assert_eq!((&said["shards"], &said["samples"], &said["reused"]), (&5.into(), &30.into(), &0.into()), "{said}");
    assert_eq!(indexed(place, &into)["reused"], 5);
    index(&others, &[]).succeed();
    assert_equal(&written(&others), &written(&out), "from a web server");
    // Local tars, too.
    let near = dir.path().join("near");
    index(&others, &["--out", text(&near)]).succeed();
    assert_equal(&written(&others), &written(&near), "into another folder");
    // A web server can't be written to, and it can't be listed.
    refused(index(place, &[]), 8, &["web server", "--out"]);
    refused(index(Path::new(&server.url("data/*.tar")), &into), 8, &["do not list"]);
    let missing = server.url("data/data-000009.tar");
    refused(index(Path::new(&missing), &into), 2, &["data-000009.tar", "no such file"]);
    let secret = missing.replace("http://", "http://me:hunter2@").replace("000009", "000001");
    let ended = refused(index(Path::new(&secret), &into), 2, &["has a user or a query"]);
    assert!(!format!("{}{}", ended.said, ended.printed).contains("hunter2"), "{ended:?}");
    let both = packhorse(&["index", "s3://bucket/a.tar", text(&others.join("data-000000.tar"))]);
    assert_ne!(both.run().code(), 0);
}

#[cfg(feature = "s3-tests")]
#[test]
fn tars_in_a_bucket_are_indexed_beside_them() {
    let dir = tempfile::tempdir().unwrap();
    let (_, others) = packed(dir.path());
    let root = dir.path().join("s3");
    let place = root.join("bucket/sets/data");
    std::fs::create_dir_all(&place).unwrap();
    for tar in tars(&others) {
        std::fs::copy(&tar, place.join(tar.file_name().unwrap())).unwrap();
    }
    let before = stamps(&tars(&place));
    index(&others, &[]).succeed();
    let server = packhorse_testkit::s3::Server::new(&root);
    let run = |place: &str, more: &[&str]| {
        let mut program = packhorse(&[&["index", place, "--index", ALL, "--json"], more].concat());
        program.0.envs(server.settings());
        program
    };
    let value = |program: Program| -> serde_json::Value { serde_json::from_str(&program.succeed().printed).unwrap() };
    let said = value(run("s3://bucket/sets/data/*.tar", &[]));
    assert_eq!((&said["shards"], &said["samples"], &said["reused"]), (&5.into(), &30.into(), &0.into()), "{said}");
    assert_eq!(said["dir"], "s3://bucket/sets/data");
    assert_equal(&written(&others), &written(&place), "in a bucket");
    assert_eq!(value(run("s3://bucket/sets/data", &[]))["reused"], 5);
    // Into another prefix, and a folder.
    value(run("s3://bucket/sets/data/data-{000000..000004}.tar", &["--out", "s3://bucket/indexes"]));
    assert_equal(&written(&others), &written(&root.join("bucket/indexes")), "in another prefix");
    let near = dir.path().join("near");
    value(run("s3://bucket/sets/data", &["--out", text(&near)]));
    assert_equal(&written(&others), &written(&near), "in a folder");
    // A changed tar is read again, a bad one is named.
    std::fs::write(place.join("data-000001.tar"), std::fs::read(place.join("data-000000.tar")).unwrap()).unwrap();
    refused(run("s3://bucket/sets/data", &[]), 3, &["data-000000.tar", "data-000001.tar", "Energon refuses"]);
    std::fs::write(place.join("data-000001.tar"), b"bad").unwrap();
    refused(run("s3://bucket/sets/data", &[]), 3, &["s3://bucket/sets/data/data-000001.tar"]);
    let said = value(run("s3://bucket/sets/data", &["--on-error", "skip"]));
    assert_eq!((&said["shards"], &said["skipped"], &said["reused"]), (&4.into(), &1.into(), &4.into()), "{said}");
    let others: Vec<_> = before.into_iter().filter(|(path, _)| !path.ends_with("data-000001.tar")).collect();
    let now = stamps(&tars(&place));
    assert!(others.iter().all(|(path, stamp)| now.get(path) == Some(stamp)));
    let apart = run("s3://bucket/sets/data/data-000000.tar", &["s3://another/data-000000.tar"]).run();
    assert_ne!(apart.code(), 0, "{apart:?}");
}

#[test]
fn tars_in_deep_folders_of_long_names_are_indexed() {
    let dir = tempfile::tempdir().unwrap();
    let deep: PathBuf = (0..6).map(|i| format!("{i}").repeat(60)).collect();
    let folder = dir.path().join("data").join(&deep);
    std::fs::create_dir_all(&folder).unwrap();
    let tar = |name: &str| archive(&[TarMember::file(name, b"x")]);
    std::fs::write(folder.join("a.tar"), tar("a.txt")).unwrap();
    std::fs::write(dir.path().join("data/b.tar"), tar("b.txt")).unwrap();
    for reused in [0, 2] {
        let found = indexed(&dir.path().join("data"), &[]);
        assert_eq!((&found["shards"], &found["reused"]), (&2.into(), &reused.into()), "{found}");
    }
}
