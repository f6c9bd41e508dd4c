//! Inputs of several trees: the choice is offered, and each can become a dataset of its own.

#![expect(clippy::unwrap_used, reason = "what goes wrong here fails the test")]

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

fn packhorse(dir: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_packhorse")).current_dir(dir).args(args).output().unwrap()
}

/// A folder with `in/a.root`, of two trees and an RNTuple in two folders.
fn inputs() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("in")).unwrap();
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("formats/root/tests/data/several.root");
    std::fs::copy(file, dir.path().join("in/a.root")).unwrap();
    dir
}

fn fails(dir: &Path, args: &[&str], code: i32, fragment: &str) {
    let output = packhorse(dir, args);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
    assert!(said.contains(fragment), "{args:?}: {said}");
}

#[test]
fn several_trees_are_offered_as_a_list() {
    let dir = inputs();
    let list = "dir/events (3 entries), dir/tuple (4 entries), runs (2 entries); choose one with --tree NAME";
    fails(dir.path(), &["pack", "in", "--to", "parquet", "--out", "out"], 2, list);
    fails(
        dir.path(),
        &["pack", "in", "--to", "parquet", "--out", "out", "--tree", "x"],
        2,
        "holds no tree x for --tree",
    );
}

#[test]
fn each_tree_becomes_a_dataset() {
    let dir = inputs();
    std::fs::copy(dir.path().join("in/a.root"), dir.path().join("in/b.root")).unwrap();
    let all = ["pack", "in", "--to", "parquet", "--out", "out", "--tree", "*", "--json", "--quiet"];
    let output = packhorse(dir.path(), &all);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    for (tree, samples) in [("dir/events", 6), ("dir/tuple", 8), ("runs", 4)] {
        assert_eq!(report["trees"][tree]["samples"], samples, "{tree}");
        let alone = ["pack", "in", "--to", "parquet", "--out", "alone", "--tree", tree, "--json", "--quiet"];
        let alone: Value = serde_json::from_slice(&packhorse(dir.path(), &alone).stdout).unwrap();
        assert_eq!(report["trees"][tree]["root"], alone["root"], "{tree}");
        std::fs::remove_dir_all(dir.path().join("alone")).unwrap();
        let stat = packhorse(dir.path(), &["stat", &format!("out/{tree}"), "--json"]);
        let stat: Value = serde_json::from_slice(&stat.stdout).unwrap();
        assert_eq!(stat["samples"], samples, "{tree}");
    }
    let again: Value = serde_json::from_slice(&packhorse(dir.path(), &all).stdout).unwrap();
    assert_eq!(again["trees"]["runs"]["reused"], 1);
}

#[test]
fn the_extension_of_the_folder_names_the_format_of_all_trees() {
    let dir = inputs();
    let output = packhorse(dir.path(), &["pack", "in", "--out", "out.parquet", "--tree", "*", "--json", "--quiet"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(dir.path().join("out.parquet/runs/shard-000000.parquet").exists());
}

#[test]
fn all_trees_are_refused_where_that_makes_no_sense() {
    let dir = inputs();
    let all = |out: &'static str| ["pack", "in", "--to", "arrow", "--out", out, "--tree", "*"];
    fails(dir.path(), &all("in/out"), 2, "holds --out");
    fails(
        dir.path(),
        &["plan", "in", "--to", "arrow", "--out", "out", "--tree", "*"],
        2,
        "each tree has a plan of its own",
    );
    let listed = ["pack", "--files-from", "-", "--to", "arrow", "--out", "out", "--tree", "*"];
    fails(dir.path(), &listed, 2, "standard input can be read once");
    let other = Path::new(env!("CARGO_MANIFEST_DIR")).join("formats/root/tests/data/ntuple.root");
    std::fs::copy(other, dir.path().join("in/b.root")).unwrap();
    fails(dir.path(), &all("out"), 2, "which other inputs hold");
    std::fs::remove_file(dir.path().join("in/b.root")).unwrap();
    std::fs::write(dir.path().join("in/b.jsonl"), "{\"text\": \"a\"}\n").unwrap();
    fails(dir.path(), &all("out"), 8, "hold no trees to choose from");
    std::fs::remove_file(dir.path().join("in/a.root")).unwrap();
    std::fs::rename(dir.path().join("in/b.jsonl"), dir.path().join("in/b.txt")).unwrap();
    fails(dir.path(), &all("out"), 2, "there is no tree to pack");
    assert!(!dir.path().join("out").exists());
}

/// The trees of two runs may have one name, and those of systematic variations the same columns.
#[test]
fn trees_of_other_names_are_told() {
    let dir = inputs();
    let file = dir.path().join("in/a.root");
    let bytes = std::fs::read(&file).unwrap();
    let pack = |out: &str, tree: &str| {
        let args = ["pack", "in", "--to", "parquet", "--out", out, "--tree", tree, "--quiet"];
        let output = packhorse(dir.path(), &args);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    std::fs::write(dir.path().join("in/b.root"), &bytes).unwrap();
    assert!(!pack("same", "events").contains("tables of"), "both are dir/events");
    // The name finds them in whatever folder.
    let mut other = bytes;
    while let Some(at) = other.windows(3).position(|name| name == b"dir") {
        other[at + 2] = b'v';
    }
    std::fs::write(dir.path().join("in/b.root"), other).unwrap();
    let told = pack("other", "events");
    assert!(told.contains("2 names") && told.contains("dir/events in") && told.contains("div/events in"), "{told}");
}
